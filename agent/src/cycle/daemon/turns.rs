//! Errands in, processes out: one at a time, and what came of each.

use std::io;
use std::process::ExitStatus;
use std::time::Instant;

use jiff::Timestamp;
use zagent_cache::{Cache, Depth};

use super::errand::{Errand, What};
use super::{Daemon, Event, GRACE, Running};
use crate::api::{End, Progress};
use crate::cycle::child::{Child, longest};
use crate::cycle::ground;
use crate::cycle::memory::{Memory, RemoteSeen};
use crate::report::chain;
use crate::run::Trigger;

impl Daemon<'_> {
    /// Starts the next errand when nothing is under way.
    pub(super) fn start_next(&mut self, now: Timestamp) {
        if self.running.is_some() || self.stopping {
            return;
        }
        let Some(errand) = self.queue.pop() else { return };
        let args = errand.args(&self.setup.args, &self.setup.turn_args);
        let events = self.events.clone();
        let quiet = errand.what == What::Probe;
        // The loop outlives its processes.
        let ended = move |status| drop(events.send(Event::Ended(status)));
        match Child::start(&self.setup.program, &args, quiet, ended) {
            Ok(child) => {
                tracing::debug!(pid = child.pid(), what = errand.words(), "started");
                self.desk.set_progress(&errand.tickets, &Progress::Running { since: now });
                let longest = longest(self.settings.source.timeout, self.settings.run.timeout);
                let until = Instant::now() + longest;
                self.running = Some(Running { child, errand, since: now, until, told: false });
            }
            Err(error) => {
                let program = self.setup.program.display();
                let words = format!("cannot start a turn: {error}; was `{program}` replaced or removed?");
                tracing::error!("{words}");
                self.desk.finish(&errand.tickets, End { exit: 1, run: None, message: Some(words) });
                self.clock.ran(now, false, false);
                if let Some(name) = &errand.entry {
                    self.clock.entry_ran(name, now);
                }
            }
        }
    }

    /// A turn that takes too long is told to end, then ended.
    pub(super) fn watch_child(&mut self) {
        let Some(running) = &mut self.running else { return };
        if Instant::now() < running.until {
            return;
        }
        if running.told {
            tracing::error!(pid = running.child.pid(), "the turn did not end when it was told to: ended");
            running.child.kill();
        } else {
            tracing::error!(pid = running.child.pid(), "the turn takes too long: told to end");
            running.child.stop();
        }
        (running.told, running.until) = (true, Instant::now() + GRACE);
    }

    /// A process ended.
    pub(super) fn ended(&mut self, status: io::Result<ExitStatus>, now: Timestamp) {
        let Some(Running { errand, since, .. }) = self.running.take() else { return };
        let code = status.ok().and_then(|status| status.code()).unwrap_or(1);
        self.memory = Memory::load(&self.settings.paths().memory());
        self.look();
        self.nothing = self.has_nothing();
        match errand.what {
            What::Probe => {
                self.desk.set_ready(match code {
                    0 => self.verifies(),
                    _ if self.nothing => Err(ground::NOTHING.into()),
                    _ => Err("the states of the current generation do not compile: `zagent show lowstate` says why".into()),
                });
            }
            What::Turn { trigger, .. } => {
                let ran = self.memory.last_run.clone().filter(|run| run.at >= since);
                let success = code == 0;
                // A turn for a revision that was not taken, and a step of a rollout, may have run nothing, and one of a few SLS says nothing about the rest.
                let whole = errand.sls.is_empty()
                    && (ran.is_some() || !matches!(trigger, Trigger::Git | Trigger::Rollout));
                if !errand.test && whole {
                    let went_well = ran.as_ref().map_or(success, |run| run.success);
                    self.desk.count_run(went_well);
                    let news = matches!(trigger, Trigger::Git | Trigger::Rollout);
                    self.clock.ran(now, went_well, news);
                }
                // What was run compiles, whether it went well or not.
                if ran.is_some() {
                    self.desk.set_ready(self.verifies());
                } else if trigger != Trigger::Rollout {
                    self.queue.push(Errand::new(What::Probe));
                }
                if trigger == Trigger::Rollout {
                    self.rolled(now);
                }
                let message = self.message(&errand, ran.is_some(), code);
                let exit = u8::try_from(code).unwrap_or(1);
                self.desk.finish(&errand.tickets, End { exit, run: ran, message });
                if let Some(name) = &errand.entry {
                    self.clock.entry_ran(name, now);
                }
                self.keep_clock();
            }
        }
    }

    /// What there is to say beside the run.
    fn message(&self, errand: &Errand, ran: bool, code: i32) -> Option<String> {
        const LOG: &str = "the daemon's log (`journalctl -u zagent`)";
        if errand.test {
            return Some(format!("a dry run leaves no record: its report is in {LOG}"));
        }
        let held = self
            .memory
            .held
            .as_ref()
            .map(|held| format!("revision {} is not taken: {}", held.revision.short(), held.message));
        let failing = |remote: &RemoteSeen| remote.message.clone().filter(|_| remote.failing_since.is_some());
        let offline =
            || self.memory.remotes.iter().map(failing).collect::<Option<Vec<_>>>().map(|all| all.join("; "));
        let silent = || (!ran && code != 0).then(|| format!("there was no run: {LOG} says why"));
        held.or_else(|| offline().filter(|words| !words.is_empty())).or_else(silent)
    }

    /// Whether the current generation is as it was published.
    pub(super) fn verifies(&self) -> Result<(), String> {
        let current =
            Cache::open(&self.settings.paths(), &self.settings.source).and_then(|cache| cache.current());
        match current {
            Ok(Some(generation)) => generation.check(Depth::Quick).map_err(|error| chain(&error)),
            Ok(None) => Ok(()),
            Err(error) => Err(chain(&error)),
        }
    }
}
