//! The running version in, the watchdog of that version in place of this one out.
//!
//! Law: the process stays the same, and so does its child. Before this one is replaced, the other has shown that it can
//! read the existing files; and the attempt is saved (held by
//! `a_broken_watchdog_is_tried_twice_and_the_installed_one_continues`).

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::ProcessIdentity;
use super::saved_state::{UpdateDecision, decide_update};
use super::{Watchdog, WatchdogEvent, error_chain};
use crate::fail_point;
use crate::phase::NodePhase;
use crate::slots::AgentProgram;

/// The polling interval while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Watchdog<'_> {
    /// Becomes the watchdog of the running version, when nothing else is in progress.
    pub(super) fn update_self(&mut self) {
        let busy = self.stopping || self.probing || self.fetching.is_some() || self.pending_start.is_some();
        if busy || self.net.is_busy() || self.node.phase != NodePhase::Idle || !self.is_agent_proven() {
            return;
        }
        match decide_update(&self.own_version, &self.node.running, self.saved.renewal.as_ref()) {
            UpdateDecision::Stay => {}
            UpdateDecision::Refuse(renewal) => {
                self.saved.renewal = Some(renewal);
                self.save_state();
            }
            UpdateDecision::Become(_) => self.probe_successor(),
        }
        let refused = self.saved.renewal.as_ref().filter(|renewal| renewal.version == self.node.running);
        match refused.and_then(|renewal| renewal.refused.as_ref()) {
            Some(why) if self.own_version != self.node.running => {
                let note = format!(
                    "the watchdog of {} is not used ({why}); {} keeps running",
                    self.node.running, self.own_version
                );
                if self.notes.insert("watchdog", note.clone()).is_none() {
                    tracing::error!("{note}");
                }
            }
            _ => drop(self.notes.remove("watchdog")),
        }
    }

    /// True when the good version runs and is healthy: a watchdog does not become one that keeps failing.
    fn is_agent_proven(&self) -> bool {
        let runs_good = self.agent.as_ref().is_some_and(|held| held.version == self.node.running);
        runs_good && self.process.is_healthy(self.elapsed(), &self.setup.pace.rules)
    }

    /// Makes the other watchdog read its files, on a separate thread.
    fn probe_successor(&mut self) {
        let program = match self.slots.verify(&self.node.running) {
            Ok(program) => program,
            Err(error) => return self.refuse_successor(error_chain(&error)),
        };
        let (args, patience, events) =
            (self.setup.probe_args.clone(), self.setup.pace.probe, self.events.clone());
        let thread = std::thread::Builder::new().name("probe".into());
        let probe = move || drop(events.send(WatchdogEvent::Probed(run_probe(&program, &args, patience))));
        match thread.spawn(probe) {
            Ok(_) => self.probing = true,
            Err(error) => self.refuse_successor(error.to_string()),
        }
    }

    /// Handles the answer of the other watchdog.
    pub(super) fn on_probed(&mut self, answer: Result<(), String>) {
        self.probing = false;
        if let Err(why) = answer {
            return self.refuse_successor(why);
        }
        let UpdateDecision::Become(mut renewal) =
            decide_update(&self.own_version, &self.node.running, self.saved.renewal.as_ref())
        else {
            return;
        };
        let program = match self.slots.verify(&renewal.version) {
            Ok(program) if self.node.phase == NodePhase::Idle && !self.stopping => program,
            _ => return,
        };
        renewal.process = ProcessIdentity::current();
        let before = self.saved.renewal.replace(renewal);
        if !self.save_state() {
            self.saved.renewal = before;
            return;
        }
        tracing::info!(from = self.own_version, to = program.version, "the watchdog updates itself");
        let _ = fail_point("watchdog::renewing");
        let mut command = Command::new(&program.path);
        let error = command.args(&self.setup.args).exec();
        self.refuse_successor(error.to_string());
    }

    fn refuse_successor(&mut self, why: String) {
        let mut renewal = self.saved.renewal.take().unwrap_or_default();
        renewal.version.clone_from(&self.node.running);
        (renewal.refused, renewal.proved) = (Some(why), false);
        self.saved.renewal = Some(renewal);
        self.save_state();
    }

    /// A watchdog that ran long enough is healthy, once it has done everything that the last one did.
    pub(super) fn mark_proven(&mut self) {
        let has_lived = self.self_test.polled && self.self_test.published && self.self_test.beaten;
        let is_old = has_lived && self.elapsed() >= self.setup.pace.rules.healthy_after;
        let own = self.own_version.clone();
        let Some(renewal) = self.saved.renewal.as_mut().filter(|r| r.version == own && !r.proved) else {
            return;
        };
        if is_old {
            (renewal.proved, renewal.tries, renewal.refused) = (true, 0, None);
            self.save_state();
        }
    }

    /// A watchdog that is asked to stop has not failed.
    pub(super) fn mark_clean_stop(&mut self) {
        let own = self.own_version.clone();
        if let Some(renewal) = self.saved.renewal.as_mut().filter(|r| r.version == own && !r.proved) {
            renewal.tries = renewal.tries.saturating_sub(1);
        }
        self.saved.open = false;
        self.save_state();
    }
}

fn run_probe(program: &AgentProgram, args: &[std::ffi::OsString], patience: Duration) -> Result<(), String> {
    let mut command = Command::new(&program.path);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    let mut other = command.spawn().map_err(|error| format!("cannot start it: {error}"))?;
    let until = Instant::now() + patience;
    loop {
        match other.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it cannot read the existing files: {status}")),
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            waited => {
                // Exited or not, it is no longer needed.
                let _ = other.kill().and_then(|()| other.wait());
                return Err(match waited {
                    Err(error) => format!("cannot wait for it: {error}"),
                    Ok(_) => "it does not exit".into(),
                });
            }
        }
    }
}
