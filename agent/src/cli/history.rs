//! `zagent history [RUN]`: lists recent runs, or prints one report.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use serde_json::json as object;
use zagent_config::Value;

use super::status::with_installed_root;
use super::{settings, warn};
use crate::output::report::{ReportView, format_millis};
use crate::output::{Paint, ReportFormat, TextTable, Tone, Ui, json, pprint, yaml};
use zagent_config::error_chain;
use zagent_config::ids::short_revision;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::timezone::local_zone;
use zagent_run::RunMode;
use zagent_run::history::{History, HistoryError, RunSummary};

/// List recent runs, or print the report of one run
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// Run ID, the start of it, or `last`
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// List dry runs too
    #[arg(long, conflicts_with = "run")]
    all: bool,

    /// Number of runs to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_limit, conflicts_with = "run")]
    limit: usize,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Output format; `ndjson` and `highstate` need a run
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: ReportFormat,
}

fn parse_limit(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a number of at least 1".into())
}

impl HistoryArgs {
    pub(super) const fn format(&self) -> ReportFormat {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = with_installed_root(settings::load(self.config.as_deref())?);
        let history = History::new(&settings.paths(), settings.run.keep);
        match &self.run {
            Some(run) => self.show_run(&history, run, ui)?,
            None => self.list_runs(&history, ui)?,
        }
        Ok(ExitStatus::Success)
    }

    fn show_run(&self, history: &History, run: &str, ui: &mut Ui<'_>) -> Result<(), AgentError> {
        let answer = history.get(run).map_err(to_agent_error)?;
        print_warnings(&answer.warnings, ui);
        let record = answer.found;
        let view = ReportView { report: &record.report, tally: record.tally, zone: local_zone() };
        ui.print(&view.render(self.out, ui.verbose > 0, ui.paint));
        Ok(())
    }

    fn list_runs(&self, history: &History, ui: &mut Ui<'_>) -> Result<(), AgentError> {
        if matches!(self.out, ReportFormat::Ndjson | ReportFormat::Highstate) {
            let message = "a list of runs supports only `--out text`, `json`, `yaml` or `pprint`";
            return Err(AgentError::usage_hint(
                message,
                "to print the report of one run: zagent history last",
            ));
        }
        let listed = if self.all { history.list_all(self.limit) } else { history.list(self.limit) };
        let answer = listed.map_err(to_agent_error)?;
        print_warnings(&answer.warnings, ui);
        let zone = local_zone();
        let text = match self.out {
            ReportFormat::Json => json(&runs_json(&answer.found)),
            ReportFormat::Yaml => {
                yaml(&serde_json::from_value::<Value>(runs_json(&answer.found)).unwrap_or_default())
            }
            ReportFormat::Pprint => {
                pprint(&serde_json::from_value::<Value>(runs_json(&answer.found)).unwrap_or_default())
            }
            _ => runs_table(&answer.found, &zone, ui.paint),
        };
        ui.print(&text);
        Ok(())
    }
}

fn print_warnings(warnings: &[HistoryError], ui: &mut Ui<'_>) {
    for warning in warnings {
        warn(&error_chain(warning), ui);
    }
}

fn to_agent_error(error: HistoryError) -> AgentError {
    let message = error_chain(&error);
    match error {
        e if e.is_permission() => AgentError::permission(message),
        HistoryError::Empty => AgentError::usage_hint(
            message,
            "a run is recorded when it ends; start one with `zagent run --once`",
        ),
        HistoryError::NoRun(_) => AgentError::usage_hint(message, "list the runs with `zagent history`"),
        HistoryError::Ambiguous { .. } => {
            AgentError::usage_hint(message, "use more of the run ID; list the runs with `zagent history`")
        }
        _ => AgentError::failed(message),
    }
}

/// Runs as data, newest first.
fn runs_json(heads: &[RunSummary]) -> serde_json::Value {
    let run = |head: &RunSummary| {
        object!({
            "run": head.run, "node": head.node, "revision": head.revision, "start": head.start().to_string(),
            "test": is_dry(&head.mode), "cause": head.cause, "mode": head.mode, "reverts": head.reverts, "schedule": head.schedule, "trigger": head.trigger,
            "success": head.success, "canceled": head.canceled, "killed": head.killed,
            "rolled_back": head.rolled_back,
            "duration_ms": head.duration().as_secs_f64() * 1000.0,
            "changed": head.tally.changed, "failed": head.tally.failed, "skipped": head.tally.skipped,
            "unchanged": head.tally.unchanged, "unknown": head.tally.unknown, "total": head.tally.total(),
        })
    };
    heads.iter().map(run).collect()
}

/// Runs as a table, newest first.
fn runs_table(heads: &[RunSummary], zone: &TimeZone, paint: Paint) -> String {
    if heads.is_empty() {
        return "no runs yet: start one with `zagent run --once`\n".into();
    }
    let mut table = TextTable::new(["RUN", "WHEN", "MODE", "TRIGGER", "REVISION", "TIME", "RESULT"]);
    for head in heads {
        let is_good = head.success && head.rolled_back.is_none();
        let cells = [
            sanitize(&head.run),
            zone.to_datetime(head.start()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
            sanitize(
                &head.reverts.as_ref().map_or_else(|| head.mode.clone(), |run| format!("revert of {run}")),
            ),
            sanitize(&head.trigger),
            sanitize(short_revision(&head.revision)),
            format_millis(head.duration().as_secs_f64() * 1000.0),
            result_text(head),
        ];
        table.add_line(if is_good { Tone::Plain } else { Tone::Error }, cells);
    }
    table.render(paint)
}

/// `FAILED  2 changed, 1 failed, 7 unchanged`.
fn result_text(head: &RunSummary) -> String {
    if head.killed {
        return "KILLED  its process ended before the run".into();
    }
    if let Some(why) = &head.rolled_back {
        return format!("ROLLED BACK  {}", sanitize(why));
    }
    let verdict = match (head.canceled, head.success) {
        (true, _) => "STOPPED",
        (false, true) => "OK",
        (false, false) => "FAILED",
    };
    let tally = &head.tally;
    let counts = [
        (tally.changed, if is_dry(&head.mode) { "would change" } else { "changed" }),
        (tally.failed, "failed"),
        (tally.skipped, "skipped"),
        (tally.unchanged, "unchanged"),
        (tally.unknown, "unknown"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    format!("{verdict}  {}", if counts.is_empty() { "no states".into() } else { counts.join(", ") })
}

/// True for the word of a mode that changes nothing.
fn is_dry(mode: &str) -> bool {
    [RunMode::Test, RunMode::Audit].iter().any(|dry| dry.as_str() == mode)
}
