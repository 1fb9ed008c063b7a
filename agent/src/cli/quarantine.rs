//! `zagent quarantine list|clear`.

use std::fmt::Write;

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json as object;

use super::common::Common;
use super::pause::trouble;
use super::settings;
use super::status::look_again;
use crate::operate::quarantine::{Quarantine, Quarantined};
use crate::operate::span;
use crate::output::{Format, Ui, count, harmless};
use crate::report::{Exit, Trouble};

/// The fewest digits that name a revision.
const SHORTEST: usize = 4;

/// Look at revisions that failed their health checks, or let them go
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print them, the newest first
    List(List),
    /// Let one be tried again, or all
    Clear(Clear),
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Clear {
    /// The revision, or the beginning of it
    #[arg(value_name = "REVISION", required_unless_present = "all", conflicts_with = "all")]
    revision: Option<String>,

    /// All of them
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match &self.what {
            What::List(list) => list.common.out,
            What::Clear(clear) => clear.common.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.what {
            What::List(list) => list.run(ui),
            What::Clear(clear) => clear.run(ui),
        }
    }
}

impl List {
    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = settings::load(self.common.config.as_deref())?;
        let all = Quarantine::read(&settings.paths()).map_err(trouble)?;
        let newest: Vec<&Quarantined> = all.list().iter().rev().collect();
        self.common.print(&table(&newest, Timestamp::now()), object!(newest), ui);
        Ok(Exit::Fine)
    }
}

fn table(all: &[&Quarantined], now: Timestamp) -> String {
    if all.is_empty() {
        return "no revision is in quarantine".into();
    }
    let mut out = String::new();
    for one in all {
        let (revision, since) = (one.revision.short(), span(one.since, now));
        let (run, reason) = (harmless(&one.run), harmless(&one.reason));
        let _ = writeln!(out, "{revision}  for {since}  run {run}  {reason}");
    }
    out.truncate(out.trim_end().len());
    out
}

impl Clear {
    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = settings::load(self.common.config.as_deref())?;
        let paths = settings.paths();
        let gone: Vec<String> = match &self.revision {
            None => {
                // A damaged list is let go as well; nobody knows what was in it.
                let all = Quarantine::read(&paths).unwrap_or_default();
                Quarantine::clear(&paths).map_err(trouble)?;
                all.list().iter().map(|q| q.revision.to_string()).collect()
            }
            Some(text) => {
                let text = checked(text, &Quarantine::read(&paths).map_err(trouble)?)?;
                let gone = Quarantine::remove(&paths, text).map_err(trouble)?;
                gone.into_iter().map(|revision| revision.to_string()).collect()
            }
        };
        let words = match gone.as_slice() {
            [] => "no revision was in quarantine".into(),
            gone => format!("{} may be tried again", count(gone.len(), "revision")),
        };
        look_again(&settings.paths(), ui);
        self.common.print(&words, object!({"success": true, "cleared": gone}), ui);
        Ok(Exit::Fine)
    }
}

/// The beginning of exactly one of them.
fn checked<'t>(text: &'t str, all: &Quarantine) -> Result<&'t str, Trouble> {
    let hint = "`zagent quarantine list` prints them; `--all` lets all of them go";
    if text.len() < SHORTEST {
        return Err(Trouble::usage_hint(format!("`{text}` is too short for a revision"), hint));
    }
    let begins = text.to_ascii_lowercase();
    match all.list().iter().filter(|q| q.revision.as_str().starts_with(&begins)).count() {
        1 => Ok(text),
        0 => Err(Trouble::usage_hint(format!("no revision in quarantine begins with `{text}`"), hint)),
        _ => Err(Trouble::usage_hint(
            format!("more than one revision begins with `{text}`"),
            "write more of it",
        )),
    }
}
