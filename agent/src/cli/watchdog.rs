//! `zagent watchdog` and `zagent watchdog status`: supervises the agent.

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::paths::Paths;
use zagent_rollout::phase::NodePhase;
use zagent_rollout::watchdog::{
    self, LifeEventKind, LifeHistory, WatchdogPace, WatchdogRequest, WatchdogResponse, WatchdogStatus,
};

use super::common_args::CommonArgs;
use super::settings;
use super::status::{permission_error, with_installed_root};
use crate::output::{OutputFormat, Paint, TextTable, Tone, Ui, json};
use zagent_config::error_chain;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::span_text;
use zagent_daemon::watchdog::{LoadSettings, WatchdogStart, own_program, run, watchdog_cli_error};

use zagent_host::timezone::local_zone;

/// Keep the agent running and take part in binary rollouts
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct WatchdogArgs {
    /// Only read the configuration and the watchdog's files, to check that it could start
    #[arg(long)]
    probe: bool,

    /// Speed of all timers; values other than `real` are for tests
    #[arg(long, value_enum, value_name = "PACE", default_value_t, hide = true)]
    pace: PaceArg,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    what: Option<WatchdogCommand>,
}

#[derive(Debug, Subcommand)]
enum WatchdogCommand {
    /// Show the running version, its uptime and its rollout state
    Status(WatchdogStatusArgs),
}

/// Timer speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PaceArg {
    #[default]
    Real,
    Brisk,
    Fast,
}

impl WatchdogArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            Some(WatchdogCommand::Status(status)) => status.common.out,
            None => OutputFormat::Text,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if let Some(WatchdogCommand::Status(status)) = &self.what {
            return status.run(ui);
        }
        let mut warn = |words: &str| super::warn(words, ui);
        // A configuration broken by a run must not stop the agent that could fix it.
        let settings = settings::load_or_last_good(self.config.as_deref(), None, &mut warn)?;
        if self.probe {
            return watchdog::probe(&settings.paths())
                .map(|()| ExitStatus::Success)
                .map_err(watchdog_cli_error);
        }
        let config = self.config.clone();
        let load: LoadSettings =
            Arc::new(move || settings::load(config.as_deref()).map_err(|cli_error| cli_error.summary()));
        let pace = match self.pace {
            PaceArg::Real => WatchdogPace {
                poll: settings.rollout.poll,
                publish: settings.board.every,
                ..WatchdogPace::REAL
            },
            PaceArg::Brisk => WatchdogPace { poll: settings.rollout.poll, ..WatchdogPace::BRISK },
            PaceArg::Fast => WatchdogPace::FAST,
        };
        let args = std::env::args_os().skip(1).collect();
        let start = WatchdogStart { settings: &settings, load, args, config: self.config.clone(), pace };
        run(start).map(|()| ExitStatus::Success)
    }
}

/// Show the running version, its uptime and its rollout state
#[derive(Debug, clap::Args)]
pub(super) struct WatchdogStatusArgs {
    /// Show what the heartbeats say: starts, crashes, versions, uptime and gaps
    #[arg(long)]
    history: bool,

    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl WatchdogStatusArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = with_installed_root(settings::load(self.common.config.as_deref())?);
        let paths = settings.paths();
        if self.history {
            return self.show_history(&paths, ui);
        }
        let status = match ask_watchdog(&paths.watchdog_socket(), &WatchdogRequest::Status) {
            Ok(WatchdogResponse::Status(status)) => *status,
            Ok(_) => return Err(AgentError::failed("the watchdog sent an unexpected response")),
            Err(AgentError::Refusal { exit: ExitStatus::Unreachable, .. }) => {
                watchdog::status_from_files(&paths, own_program()?).map_err(|error| {
                    match error.is_permission() {
                        true => permission_error(error_chain(&error)),
                        false => AgentError::failed(error_chain(&error)),
                    }
                })?
            }
            Err(cli_error) => return Err(cli_error),
        };
        match self.common.out {
            OutputFormat::Text => ui.print(&status_text(&status, Timestamp::now(), ui.paint)),
            OutputFormat::Json => ui.print(&json(&status)),
            OutputFormat::Yaml => self.common.print("", object!(status), ui),
        }
        Ok(ExitStatus::Success)
    }
}

impl WatchdogStatusArgs {
    fn show_history(&self, paths: &Paths, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let history = match ask_watchdog(&paths.watchdog_socket(), &WatchdogRequest::History) {
            Ok(WatchdogResponse::History(history)) => *history,
            Ok(WatchdogResponse::Refused { why }) => return Err(AgentError::failed(why)),
            Ok(_) => return Err(AgentError::failed("the watchdog sent an unexpected response")),
            Err(AgentError::Refusal { exit: ExitStatus::Unreachable, .. }) => {
                watchdog::history_from_files(paths, &WatchdogPace::REAL).map_err(|why| {
                    let message =
                        format!("cannot read the heartbeats in `{}`: {why}", paths.heartbeats().display());
                    if why.contains("ermission denied") {
                        permission_error(message)
                    } else {
                        AgentError::failed(message)
                    }
                })?
            }
            Err(error) => return Err(error),
        };
        match self.common.out {
            OutputFormat::Text => ui.print(&history_text(&history, Timestamp::now(), ui.paint)),
            OutputFormat::Json => ui.print(&json(&history)),
            OutputFormat::Yaml => self.common.print("", object!(history), ui),
        }
        Ok(ExitStatus::Success)
    }
}

/// What happened to the agent, as text.
fn history_text(history: &LifeHistory, now: Timestamp, paint: Paint) -> String {
    let (Some(since), Some(last)) = (history.since, history.last_seen) else {
        return "no heartbeats yet: the watchdog has not run on this host\n".into();
    };
    let zone = local_zone();
    let clock = |at: Timestamp| zone.to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let ago = |at: Timestamp| span_text(at.min(now), now);
    let mut out = String::new();
    let mut line = |name: &str, words: String| {
        let _ = writeln!(out, "{name:<10}{}", sanitize(&words));
    };
    line("last seen", format!("{} ago", ago(last)));
    let up = Timestamp::from_second(i64::try_from(history.uptime).unwrap_or(i64::MAX)).unwrap_or_default();
    let up = span_text(Timestamp::UNIX_EPOCH, up);
    line("uptime", format!("{up} of the last {}", ago(since)));
    let row = match history.crashes_in_a_row {
        0 | 1 => String::new(),
        n => format!(", the last {n} in a row"),
    };
    line("starts", history.starts.to_string());
    line("crashes", format!("{}{row}", history.crashes));
    for span in &history.versions {
        line("version", format!("{} from {} to {}", span.version, clock(span.first), clock(span.last)));
    }
    for gap in &history.gaps {
        let why = if gap.requested {
            "the watchdog was stopped"
        } else {
            "no heartbeat: host off, suspended, or the watchdog killed"
        };
        line(
            "gap",
            format!("{} to {} ({}): {why}", clock(gap.from), clock(gap.to), span_text(gap.from, gap.to)),
        );
    }
    let mut table = TextTable::new(["WHEN", "EVENT", "VERSION", "DETAIL"]);
    for event in &history.events {
        let (tone, what, detail) = event_text(&event.kind);
        table.add_row(tone, [clock(event.at), what.into(), event.version.clone(), detail]);
    }
    format!("{out}\n{}", table.render(paint))
}

fn event_text(kind: &LifeEventKind) -> (Tone, &'static str, String) {
    let ran = |uptime_ms: u64| {
        let up =
            Timestamp::from_millisecond(i64::try_from(uptime_ms).unwrap_or(i64::MAX)).unwrap_or_default();
        format!("ran {}", span_text(Timestamp::UNIX_EPOCH, up))
    };
    match kind {
        LifeEventKind::WatchdogStarted { .. } => (Tone::Plain, "watchdog started", String::new()),
        LifeEventKind::WatchdogStopped => (Tone::Plain, "watchdog stopped", String::new()),
        LifeEventKind::AgentStarted { pid } => (Tone::Plain, "agent started", format!("process {pid}")),
        LifeEventKind::AgentStopped { uptime_ms } => (Tone::Plain, "agent stopped", ran(*uptime_ms)),
        LifeEventKind::AgentCrashed { uptime_ms, how } => {
            (Tone::Error, "agent crashed", format!("{}: {how}", ran(*uptime_ms)))
        }
    }
}

/// Sends a request to the watchdog of this node.
pub(super) fn ask_watchdog(
    socket: &Path,
    question: &WatchdogRequest,
) -> Result<WatchdogResponse, AgentError> {
    watchdog::send_request(socket, question).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => AgentError::Refusal {
            exit: ExitStatus::Unreachable,
            message: format!("no watchdog is listening on `{}`", socket.display()),
            hint: Some("start it: systemctl start zagent-watchdog".into()),
        },
        ErrorKind::PermissionDenied => {
            permission_error(format!("permission denied on the socket `{}`", socket.display()))
        }
        _ => AgentError::failed(format!("cannot talk to the watchdog on `{}`: {error}", socket.display())),
    })
}

/// Status as text.
fn status_text(status: &WatchdogStatus, now: Timestamp, paint: Paint) -> String {
    let mut out = String::new();
    let mut line = |name: &str, words: &str| {
        let _ = writeln!(out, "{name:<10}{}", sanitize(words));
    };
    line("agent", &agent_line(status, now));
    if let Some(why) = &status.degraded {
        line("degraded", &paint.red(sanitize(why)).to_string());
    }
    if let Some(at) = status.next_retry {
        line("retry", &format!("in {}", span_text(now, at)));
    }
    line("rollout", &rollout_line(status, now));
    if let Some(back) = rollback_version(status) {
        line("before", &format!("{back}; roll back to it with `zagent self rollback`"));
    }
    for (version, why) in &status.node.rejected {
        line("rejected", &format!("{version}: {why}"));
    }
    match &status.watchdog {
        Some(watch) => {
            let since = span_text(watch.since, now);
            line("watchdog", &format!("{}, process {}, for {since}", watch.version, watch.pid));
        }
        None => {
            let seen = status.last_seen.map(|at| format!(", last seen {} ago", span_text(at.min(now), now)));
            line("watchdog", &format!("not running{}; status read from its files", seen.unwrap_or_default()));
        }
    }
    for note in &status.notes {
        line("note", &paint.yellow(sanitize(note)).to_string());
    }
    out
}

/// What `zagent self rollback` rolls back to: the previous version, else that of the package.
fn rollback_version(status: &WatchdogStatus) -> Option<String> {
    let WatchdogStatus { node, built_in, .. } = status;
    let packaged = built_in.as_ref().filter(|built_in| **built_in != node.running);
    node.previous.clone().or_else(|| packaged.map(|version| format!("{version} (built-in)")))
}

fn agent_line(status: &WatchdogStatus, now: Timestamp) -> String {
    match &status.child {
        Some(child) => {
            let began = now - std::time::Duration::from_secs(child.uptime);
            format!("{}, process {}, for {}", status.version, child.pid, span_text(began, now))
        }
        None => format!("{}, not running", status.version),
    }
}

fn rollout_line(status: &WatchdogStatus, now: Timestamp) -> String {
    let (order, since) = match &status.node.phase {
        NodePhase::Idle => {
            return status.node.last.as_ref().map_or_else(
                || "none".into(),
                |last| {
                    let why = last.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                    let outcome = format!("{:?}", last.outcome).to_lowercase();
                    format!(
                        "{} to {}: {outcome}{why}, {} ago",
                        last.rollout,
                        last.to,
                        span_text(last.at, now)
                    )
                },
            );
        }
        NodePhase::Preparing { order, since }
        | NodePhase::Staged { order, since }
        | NodePhase::Applying { order, since }
        | NodePhase::Soaking { order, since, .. }
        | NodePhase::RollingBack { order, since, .. } => (order, since),
    };
    let name = order.rollout.as_ref().map_or_else(|| "manual".into(), ToString::to_string);
    format!("{name} to {}: {}, for {}", order.to, status.node.phase.name(), span_text(*since, now))
}
