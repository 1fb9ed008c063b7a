//! Measurements in, the tables of the page on performance out, with machine, date and revision.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::budget::BUDGETS;
use crate::plot;
use crate::rounds::Rounds;

/// Between these lines of the page, everything is written by this program.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

const COLUMNS: [&str; 7] = ["zagent cold", "zagent warm", "floor", "phys", "phys fsync", "cfengine", "salt"];

/// Costs, ratios and scaling.
pub fn tables(rounds: &Rounds) -> String {
    let mut out = format!("{}\n", machine(rounds));
    let _ = writeln!(out, "| CPU / elapsed ms | {} |", COLUMNS.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(COLUMNS.len()));
    for (i, name) in rounds.workloads() {
        let cell = |program: &&str| match rounds.cost(i, program) {
            Some((cpu, wall, noise)) => format!("{cpu:.1} ± {noise:.1} / {wall:.1}"),
            None => "–".into(),
        };
        let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    }
    let _ = write!(out, "\n{}", ratio_table(rounds));
    out
}

/// Every ratio with its goal.
pub fn ratio_table(rounds: &Rounds) -> String {
    let mut out =
        "| ratio of CPU times, in pairs | | measured | goal | limit |\n|---|---|---|---|---|\n".to_owned();
    for budget in &BUDGETS {
        let found = rounds.workloads().find(|(_, name)| *name == budget.workload);
        let Some((ratio, noise)) = found.and_then(|(i, _)| rounds.ratio(i, budget.program, budget.yardstick))
        else {
            continue;
        };
        let miss = if ratio > budget.goal { " (missed)" } else { "" };
        let _ = writeln!(
            out,
            "| {} | {} : {} | {ratio:.2} ± {noise:.2}{miss} | {} | {} |",
            budget.workload, budget.program, budget.yardstick, budget.goal, budget.limit
        );
    }
    out
}

fn machine(rounds: &Rounds) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "Measured on {} at revision {}: {model}, {cores} cores, Linux {}, load {} at the end; medians of {} rounds, with half \
         the distance of the quartiles.\n",
        output("date", &["-u", "+%F"]),
        output("git", &["rev-parse", "--short=12", "HEAD"]),
        output("uname", &["-r"]),
        load.split(' ').next().unwrap_or_default(),
        rounds.count,
    )
}

fn output(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output();
    done.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned()).unwrap_or_default()
}

/// Replaces the measured part of the page, and draws the plot beside it.
pub fn write(rounds: &Rounds, page: &Path) -> Result<()> {
    let text = fs::read_to_string(page)?;
    let (before, rest) = text.split_once(BEGIN).context("the page has no measured part")?;
    let (_, after) = rest.split_once(END).context("the measured part of the page has no end")?;
    let measured = tables(rounds);
    fs::write(
        page,
        format!(
            "{before}{BEGIN}\n{measured}\n![CPU time by the number of states](scaling.svg)\n\n{END}{after}"
        ),
    )?;
    Ok(fs::write(page.with_file_name("scaling.svg"), plot::draw(rounds))?)
}
