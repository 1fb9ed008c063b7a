//! `zagent quarantine list|clear`: revisions that this node does not use.

use std::fmt::Write;

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json as object;

use super::common_args::CommonArgs;
use super::pause::to_agent_error;
use super::settings;
use super::status::notify_daemon;
use crate::output::{OutputFormat, Ui, pluralize};
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::quarantine::{Quarantine, QuarantinedRevision};
use zagent_daemon::operator::span_text;

/// Minimum number of digits that identify a revision.
const MIN_PREFIX_LEN: usize = 4;

/// List quarantined revisions, or clear them
#[derive(Debug, clap::Args)]
pub(super) struct QuarantineArgs {
    #[command(subcommand)]
    what: QuarantineCommand,
}

#[derive(Debug, Subcommand)]
enum QuarantineCommand {
    /// List quarantined revisions, newest first
    List(QuarantineListArgs),
    /// Clear one revision or all, so that the node can try them again
    Clear(QuarantineClearArgs),
}

#[derive(Debug, clap::Args)]
struct QuarantineListArgs {
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct QuarantineClearArgs {
    /// Revision, or the start of it
    #[arg(value_name = "REVISION", required_unless_present = "all", conflicts_with = "all")]
    revision: Option<String>,

    /// Clear all revisions
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    common: CommonArgs,
}

impl QuarantineArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            QuarantineCommand::List(list) => list.common.out,
            QuarantineCommand::Clear(clear) => clear.common.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.what {
            QuarantineCommand::List(list) => list.run(ui),
            QuarantineCommand::Clear(clear) => clear.run(ui),
        }
    }
}

impl QuarantineListArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(self.common.config.as_deref())?;
        let all = Quarantine::read(&settings.paths()).map_err(to_agent_error)?;
        let newest: Vec<&QuarantinedRevision> = all.list().iter().rev().collect();
        self.common.print(&quarantine_table(&newest, Timestamp::now()), object!(newest), ui);
        Ok(ExitStatus::Success)
    }
}

fn quarantine_table(all: &[&QuarantinedRevision], now: Timestamp) -> String {
    if all.is_empty() {
        return "no revision is quarantined".into();
    }
    let mut out = String::new();
    for one in all {
        let (revision, since) = (one.revision.short(), span_text(one.since, now));
        let (run, reason) = (sanitize(&one.run), sanitize(&one.reason));
        let _ = writeln!(out, "{revision}  for {since}  run {run}  {reason}");
    }
    out.truncate(out.trim_end().len());
    out
}

impl QuarantineClearArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(self.common.config.as_deref())?;
        let paths = settings.paths();
        let gone: Vec<String> = match &self.revision {
            None => {
                // A damaged list is cleared as well: its content is unknown.
                let all = Quarantine::read(&paths).unwrap_or_default();
                Quarantine::clear(&paths).map_err(to_agent_error)?;
                all.list().iter().map(|q| q.revision.to_string()).collect()
            }
            Some(text) => {
                let text = validate_prefix(text, &Quarantine::read(&paths).map_err(to_agent_error)?)?;
                let gone = Quarantine::remove(&paths, text).map_err(to_agent_error)?;
                gone.into_iter().map(|revision| revision.to_string()).collect()
            }
        };
        let words = match gone.as_slice() {
            [] => "no revision was quarantined".into(),
            gone => format!("{} cleared: the node can try again", pluralize(gone.len(), "revision")),
        };
        notify_daemon(&settings.paths(), ui);
        self.common.print(&words, object!({"success": true, "cleared": gone}), ui);
        Ok(ExitStatus::Success)
    }
}

/// Checks that the text is the start of exactly one quarantined revision.
fn validate_prefix<'t>(text: &'t str, all: &Quarantine) -> Result<&'t str, AgentError> {
    let hint = "list them with `zagent quarantine list`, or clear all with `--all`";
    if text.len() < MIN_PREFIX_LEN {
        return Err(AgentError::usage_hint(format!("`{text}` is too short for a revision"), hint));
    }
    let begins = text.to_ascii_lowercase();
    match all.list().iter().filter(|q| q.revision.as_str().starts_with(&begins)).count() {
        1 => Ok(text),
        0 => Err(AgentError::usage_hint(format!("no quarantined revision starts with `{text}`"), hint)),
        _ => Err(AgentError::usage_hint(
            format!("more than one revision starts with `{text}`"),
            "use more digits",
        )),
    }
}
