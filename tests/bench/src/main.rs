//! A benchmark of zagent beside two yardsticks: `floor`, a plain program that does what a run must do, and `phys`, only the system
//! calls that a right answer needs.
//!
//!     zagent-bench run   ZAGENT [ROUNDS] [PAGE]   measure, print the tables; write them and the plots to the page
//!     zagent-bench check ZAGENT [ROUNDS]          fail when a ratio is above its limit
//!     zagent-bench floor|phys …                   a yardstick

#![allow(clippy::disallowed_methods, reason = "measures the machine: it owns its clock, processes and files")]

mod budget;
mod floor;
mod measure;
mod page;
mod peers;
mod phys;
mod plot;
mod rounds;
mod trees;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["floor", verb, states] => floor::run(verb, Path::new(states)),
        ["phys", verb, pack] => phys::run(verb, Path::new(pack)),
        ["run", zagent, more @ ..] => {
            let rounds = rounds::Rounds::measure(&program(zagent)?, number(more.first())?, true)?;
            print!("{}", page::tables(&rounds));
            match more.get(1) {
                Some(path) => page::write(&rounds, Path::new(path)),
                None => Ok(()),
            }
        }
        ["check", zagent, more @ ..] => {
            let rounds = rounds::Rounds::measure(&program(zagent)?, number(more.first())?, false)?;
            print!("{}", page::ratio_table(&rounds));
            budget::check(&rounds)
        }
        _ => bail!("zagent-bench run|check ZAGENT [ROUNDS] [PAGE]"),
    }
}

fn program(path: &str) -> Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("there is no program `{path}`"))
}

/// Number of rounds; odd, so that a median is a measurement.
fn number(text: Option<&&str>) -> Result<usize> {
    let rounds: usize = text.map_or(Ok(9), |text| text.parse()).context("ROUNDS is a number")?;
    Ok(rounds.max(1) | 1)
}
