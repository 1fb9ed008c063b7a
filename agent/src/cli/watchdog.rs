//! `zagent watchdog` and `zagent watchdog status`.

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::json as object;
use zagent_rollout::phase::Phase;
use zagent_rollout::watchdog::{self, Answer, Ask, Pace, Status};

use super::common::Common;
use super::settings;
use super::status::{denied, installed};
use crate::operate::span;
use crate::output::{Format, Paint, Ui, harmless, json};
use crate::report::{Exit, Trouble, chain};
use crate::watchdog::{Load, Start, program, run, trouble};

/// Keep the agent running, and take part in rollouts of its binary
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    /// Only read the configuration and the watchdog's files: whether it could begin
    #[arg(long)]
    probe: bool,

    /// How fast everything goes; anything but `real` is for tests
    #[arg(long, value_enum, value_name = "PACE", default_value_t, hide = true)]
    pace: PaceArg,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tell which version runs, since when, and where it stands in a rollout
    Status(StatusArgs),
}

/// How fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PaceArg {
    #[default]
    Real,
    Brisk,
    Fast,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match &self.what {
            Some(What::Status(status)) => status.common.out,
            None => Format::Text,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        if let Some(What::Status(status)) = &self.what {
            return status.run(ui);
        }
        let mut warn = |words: &str| super::warn(words, ui);
        // A configuration that a run has broken must not keep the agent down that could mend it.
        let settings = settings::load_or_last(self.config.as_deref(), None, &mut warn)?;
        if self.probe {
            return watchdog::probe(&settings.paths()).map(|()| Exit::Fine).map_err(trouble);
        }
        let config = self.config.clone();
        let load: Load =
            Arc::new(move || settings::load(config.as_deref()).map_err(|trouble| trouble.words()));
        let pace = match self.pace {
            PaceArg::Real => {
                Pace { poll: settings.rollout.poll, publish: settings.board.every, ..Pace::REAL }
            }
            PaceArg::Brisk => Pace { poll: settings.rollout.poll, ..Pace::BRISK },
            PaceArg::Fast => Pace::FAST,
        };
        let args = std::env::args_os().skip(1).collect();
        let start = Start { settings: &settings, load, args, config: self.config.clone(), pace };
        run(start).map(|()| Exit::Fine)
    }
}

/// Tell which version runs, since when, and where it stands in a rollout
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) common: Common,
}

impl StatusArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = installed(settings::load(self.common.config.as_deref())?);
        let paths = settings.paths();
        let status = match ask(&paths.watchdog_socket(), &Ask::Status) {
            Ok(Answer::Status(status)) => *status,
            Ok(_) => return Err(Trouble::failed("the watchdog gave an answer that makes no sense")),
            Err(Trouble::Refusal { exit: Exit::Unreachable, .. }) => watchdog::from_files(&paths, program()?)
                .map_err(|error| match error.is_permission() {
                    true => denied(chain(&error)),
                    false => Trouble::failed(chain(&error)),
                })?,
            Err(trouble) => return Err(trouble),
        };
        match self.common.out {
            Format::Text => ui.data(&text(&status, Timestamp::now(), ui.paint)),
            Format::Json => ui.data(&json(&status)),
            Format::Yaml => self.common.print("", object!(status), ui),
        }
        Ok(Exit::Fine)
    }
}

/// Asks the watchdog of this node.
pub(super) fn ask(socket: &Path, question: &Ask) -> Result<Answer, Trouble> {
    watchdog::ask(socket, question).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Trouble::Refusal {
            exit: Exit::Unreachable,
            message: format!("no watchdog answers on `{}`", socket.display()),
            hint: Some("start it: systemctl start zagent-watchdog".into()),
        },
        ErrorKind::PermissionDenied => {
            denied(format!("not allowed to use the socket `{}`", socket.display()))
        }
        _ => Trouble::failed(format!("cannot talk to the watchdog on `{}`: {error}", socket.display())),
    })
}

/// How things are, for people.
fn text(status: &Status, now: Timestamp, paint: Paint) -> String {
    let mut out = String::new();
    let mut line = |name: &str, words: &str| {
        let _ = writeln!(out, "{name:<10}{}", harmless(words));
    };
    line("agent", &agent(status, now));
    if let Some(why) = &status.degraded {
        line("degraded", &paint.red(harmless(why)).to_string());
    }
    if let Some(at) = status.next_retry {
        line("retry", &format!("in {}", span(now, at)));
    }
    line("rollout", &rollout(status, now));
    if let Some(previous) = &status.node.previous {
        line("before", &format!("{previous}; `zagent self rollback` goes back to it"));
    }
    for (version, why) in &status.node.rejected {
        line("rejected", &format!("{version}: {why}"));
    }
    match &status.watchdog {
        Some(watch) => {
            let since = span(watch.since, now);
            line("watchdog", &format!("{}, process {}, for {since}", watch.version, watch.pid));
        }
        None => line("watchdog", "none runs; this is what its files say"),
    }
    for note in &status.notes {
        line("note", &paint.yellow(harmless(note)).to_string());
    }
    out
}

fn agent(status: &Status, now: Timestamp) -> String {
    match &status.child {
        Some(child) => {
            let began = now - std::time::Duration::from_secs(child.uptime);
            format!("{}, process {}, for {}", status.version, child.pid, span(began, now))
        }
        None => format!("{}, not running", status.version),
    }
}

fn rollout(status: &Status, now: Timestamp) -> String {
    let (order, since) = match &status.node.phase {
        Phase::Idle => {
            return status.node.last.as_ref().map_or_else(
                || "none".into(),
                |last| {
                    let why = last.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                    let outcome = format!("{:?}", last.outcome).to_lowercase();
                    format!("{} to {}: {outcome}{why}, {} ago", last.rollout, last.to, span(last.at, now))
                },
            );
        }
        Phase::Preparing { order, since }
        | Phase::Staged { order, since }
        | Phase::Applying { order, since }
        | Phase::Soaking { order, since, .. }
        | Phase::RollingBack { order, since, .. } => (order, since),
    };
    let name = order.rollout.as_ref().map_or_else(|| "by hand".into(), ToString::to_string);
    format!("{name} to {}: {}, for {}", order.to, status.node.phase.word(), span(*since, now))
}
