//! Jobs in, processes out: one at a time, with the result of each.

use std::io;
use std::process::ExitStatus;
use std::time::Instant;

use jiff::Timestamp;
use zagent_cache::{Cache, CheckDepth};

use super::job::{Job, JobKind};
use super::{Daemon, DaemonEvent, RunningJob, STOP_GRACE};
use crate::api::{RequestProgress, RequestResult};
use crate::memory::{AgentMemory, RemoteHealth};
use crate::states_source;
use crate::turn_process::{TurnCommand, TurnProcess, turn_timeout};
use zagent_config::error_chain;
use zagent_run::history::History;
use zagent_run::{RunMode, RunTrigger};

impl Daemon<'_> {
    /// Starts the next job when none is running.
    pub(crate) fn start_next_job(&mut self, now: Timestamp) {
        if self.running.is_some() || self.stopping || self.leaving {
            return;
        }
        let Some(job) = self.queue.pop() else { return };
        let args = job.args(&self.setup.args, &self.setup.turn_args);
        let events = self.events.clone();
        let quiet = job.kind == JobKind::Probe;
        // The loop outlives its processes.
        let ended = move |status| drop(events.send(DaemonEvent::JobEnded(status)));
        let input = job.request().and_then(|request| serde_json::to_vec(&request).ok());
        let command = TurnCommand { program: &self.setup.program, args: &args, input, quiet };
        match TurnProcess::start(command, ended) {
            Ok(child) => {
                tracing::debug!(pid = child.pid(), what = job.label(), "started");
                self.state.set_progress(&job.tickets, &RequestProgress::Running { since: now });
                let longest = turn_timeout(self.settings.source.timeout, self.settings.run.timeout);
                let until = Instant::now() + longest;
                self.running = Some(RunningJob { child, job, since: now, until, terminated: false });
            }
            Err(error) => {
                let program = self.setup.program.display();
                let words =
                    format!("cannot start a run: {error}; check whether `{program}` was replaced or removed");
                tracing::error!("{words}");
                self.state.finish(&job.tickets, RequestResult { exit: 1, run: None, message: Some(words) });
                self.clock.run_ended(now, false, false);
                if let Some(name) = &job.entry {
                    self.clock.entry_ended(name, now);
                }
            }
        }
    }

    /// A run that takes too long is told to stop, then killed.
    pub(crate) fn enforce_timeout(&mut self) {
        let Some(running) = &mut self.running else { return };
        if Instant::now() < running.until {
            return;
        }
        if running.terminated {
            tracing::error!(pid = running.child.pid(), "the run did not stop in time: killed");
            running.child.kill();
        } else {
            tracing::error!(pid = running.child.pid(), "the run takes too long: stopping it");
            running.child.stop();
        }
        (running.terminated, running.until) = (true, Instant::now() + STOP_GRACE);
    }

    /// A process ended.
    pub(crate) fn on_job_ended(&mut self, status: io::Result<ExitStatus>, now: Timestamp) {
        let Some(RunningJob { job, since, .. }) = self.running.take() else { return };
        let code = status.ok().and_then(|status| status.code()).unwrap_or(1);
        self.memory = AgentMemory::load(&self.settings.paths().memory());
        self.read_files();
        self.no_source = self.has_no_source();
        match job.kind {
            JobKind::Probe => {
                self.state.set_ready(match code {
                    0 => self.verify_current(),
                    _ if self.no_source => Err(states_source::NO_STATES.into()),
                    _ => {
                        Err("the states of the current generation do not compile: see `zagent show lowstate`"
                            .into())
                    }
                });
            }
            JobKind::Turn { trigger, .. } => {
                let ran = self.memory.last_run.clone().filter(|run| run.at >= since);
                let success = code == 0;
                // A turn for a rejected revision, and a rollout step, may have run nothing; a run of selected
                // SLS files says nothing about the rest.
                let whole = job.sls.is_empty()
                    && (ran.is_some() || !matches!(trigger, RunTrigger::Git | RunTrigger::Rollout));
                if !job.test && whole {
                    let went_well = ran.as_ref().map_or(success, |run| run.success);
                    self.state.count_run(went_well);
                    let news = matches!(trigger, RunTrigger::Git | RunTrigger::Rollout);
                    self.clock.run_ended(now, went_well, news);
                }
                // What was run compiles, whether it succeeded or not.
                if ran.is_some() {
                    self.state.set_ready(self.verify_current());
                } else if trigger != RunTrigger::Rollout {
                    self.queue.push(Job::new(JobKind::Probe));
                }
                if trigger == RunTrigger::Rollout {
                    self.on_turn_ended(now);
                }
                let message = self.job_message(&job, (ran.is_some(), since), code);
                let exit = u8::try_from(code).unwrap_or(1);
                self.state.finish(&job.tickets, RequestResult { exit, run: ran, message });
                if let Some(name) = &job.entry {
                    self.clock.entry_ended(name, now);
                }
                self.save_schedule();
            }
        }
    }

    /// Message in addition to the run.
    fn job_message(&self, job: &Job, (ran, since): (bool, Timestamp), code: i32) -> Option<String> {
        const LOG: &str = "the daemon's log (`journalctl -u zagent`)";
        let held = || {
            let held = self.memory.held.as_ref();
            held.map(|held| format!("revision {} is held back: {}", held.revision.short(), held.message))
        };
        if job.test {
            let told = self.dry_run_message(since).unwrap_or_else(|| format!("see {LOG} for its report"));
            let why = held().filter(|_| code != 0).map(|why| format!("\n{why}")).unwrap_or_default();
            return Some(format!("{told}{why}"));
        }
        let reason = self.memory.no_run.as_ref().filter(|error| !ran && code != 0 && error.at >= since);
        if let Some(error) = reason {
            return Some(format!("nothing was run: {}", error.message));
        }
        let failing =
            |remote: &RemoteHealth| remote.message.clone().filter(|_| remote.failing_since.is_some());
        let offline =
            || self.memory.remotes.iter().map(failing).collect::<Option<Vec<_>>>().map(|all| all.join("; "));
        let silent = || (!ran && code != 0).then(|| format!("nothing was run: see {LOG}"));
        held().or_else(|| offline().filter(|words| !words.is_empty())).or_else(silent)
    }

    /// Where the report of a dry run is, when it is recorded.
    fn dry_run_message(&self, since: Timestamp) -> Option<String> {
        let history = History::new(&self.settings.paths(), self.settings.run.keep);
        let head = history.list_all(1).ok()?.found.pop()?;
        (head.mode == RunMode::Test.as_str() && head.start() >= since).then(|| {
            let (tally, run) = (head.tally, head.run);
            format!(
                "dry run {run}: {} would change, {} would fail, {} unknown; full report: zagent history {run}",
                tally.changed, tally.failed, tally.unknown
            )
        })
    }

    /// Whether the current generation is unmodified.
    pub(crate) fn verify_current(&self) -> Result<(), String> {
        let current =
            Cache::open(&self.settings.paths(), &self.settings.source).and_then(|cache| cache.current());
        match current {
            Ok(Some(generation)) => generation.check(CheckDepth::Quick).map_err(|error| error_chain(&error)),
            Ok(None) => Ok(()),
            Err(error) => Err(error_chain(&error)),
        }
    }
}
