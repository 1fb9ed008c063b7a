//! The version that runs in, the watchdog of that version in the place of this one out.
//!
//! Law: the process stays the same, and so does its child. Before this one gives itself up, the other has shown that it can
//! read what is there; and it is written down that it is tried.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::child::Process;
use super::state::{Next, renewed};
use super::{Event, Watchdog, words};
use crate::phase::Phase;
use crate::point;
use crate::slots::Program;

/// How often somebody who waits looks again.
const LOOK: Duration = Duration::from_millis(20);

impl Watchdog<'_> {
    /// Becomes the watchdog of the version that runs, when nothing else is under way.
    pub(super) fn renew(&mut self) {
        let busy = self.stopping || self.probing || self.fetching.is_some() || self.awaited.is_some();
        if busy || self.net.is_busy() || self.node.phase != Phase::Idle || !self.life.is_up() {
            return;
        }
        match renewed(&self.own, &self.node.running, self.kept.renewal.as_ref()) {
            Next::Stay => {}
            Next::Refuse(renewal) => {
                self.kept.renewal = Some(renewal);
                self.keep();
            }
            Next::Become(_) => self.ask_other(),
        }
        let refused = self.kept.renewal.as_ref().filter(|renewal| renewal.version == self.node.running);
        match refused.and_then(|renewal| renewal.refused.as_ref()) {
            Some(why) if self.own != self.node.running => {
                let note = format!(
                    "the watchdog of {} is not used ({why}); {} carries on",
                    self.node.running, self.own
                );
                if self.notes.insert("watchdog", note.clone()).is_none() {
                    tracing::error!("{note}");
                }
            }
            _ => drop(self.notes.remove("watchdog")),
        }
    }

    /// Lets the other watchdog read its files, on a thread of its own.
    fn ask_other(&mut self) {
        let program = match self.slots.verify(&self.node.running) {
            Ok(program) => program,
            Err(error) => return self.refuse(words(&error)),
        };
        let (args, patience, events) =
            (self.setup.probe_args.clone(), self.setup.pace.probe, self.events.clone());
        let thread = std::thread::Builder::new().name("probe".into());
        let probe = move || drop(events.send(Event::Probed(ask(&program, &args, patience))));
        match thread.spawn(probe) {
            Ok(_) => self.probing = true,
            Err(error) => self.refuse(error.to_string()),
        }
    }

    /// The other has answered.
    pub(super) fn probed(&mut self, answer: Result<(), String>) {
        self.probing = false;
        if let Err(why) = answer {
            return self.refuse(why);
        }
        let Next::Become(mut renewal) = renewed(&self.own, &self.node.running, self.kept.renewal.as_ref())
        else {
            return;
        };
        let program = match self.slots.verify(&renewal.version) {
            Ok(program) if self.node.phase == Phase::Idle && !self.stopping => program,
            _ => return,
        };
        renewal.process = Process::this();
        let before = self.kept.renewal.replace(renewal);
        if !self.keep() {
            self.kept.renewal = before;
            return;
        }
        tracing::info!(from = self.own, to = program.version, "the watchdog renews itself");
        let _ = point("watchdog::renewing");
        let mut command = Command::new(&program.path);
        let error = command.args(&self.setup.args).exec();
        self.refuse(error.to_string());
    }

    fn refuse(&mut self, why: String) {
        let mut renewal = self.kept.renewal.take().unwrap_or_default();
        renewal.version.clone_from(&self.node.running);
        (renewal.refused, renewal.proved) = (Some(why), false);
        self.kept.renewal = Some(renewal);
        self.keep();
    }

    /// A watchdog that has lived long enough has proved itself, once it has done everything that the last one did.
    pub(super) fn prove(&mut self) {
        let has_lived = self.lived.polled && self.lived.published && self.lived.beaten;
        let is_old = has_lived && self.moment() >= self.setup.pace.rules.healthy;
        let own = self.own.clone();
        let Some(renewal) = self.kept.renewal.as_mut().filter(|r| r.version == own && !r.proved) else {
            return;
        };
        if is_old {
            (renewal.proved, renewal.tries, renewal.refused) = (true, 0, None);
            self.keep();
        }
    }

    /// A watchdog that is told to end has not died.
    pub(super) fn end_in_peace(&mut self) {
        let own = self.own.clone();
        if let Some(renewal) = self.kept.renewal.as_mut().filter(|r| r.version == own && !r.proved) {
            renewal.tries = renewal.tries.saturating_sub(1);
            self.keep();
        }
    }
}

fn ask(program: &Program, args: &[std::ffi::OsString], patience: Duration) -> Result<(), String> {
    let mut command = Command::new(&program.path);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    let mut other = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let until = Instant::now() + patience;
    loop {
        match other.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it cannot read the files that are there: {status}")),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            waited => {
                // Ended or not, nobody waits for it any more.
                let _ = other.kill().and_then(|()| other.wait());
                return Err(match waited {
                    Err(error) => format!("it cannot be waited for: {error}"),
                    Ok(_) => "it does not come to an end".into(),
                });
            }
        }
    }
}
