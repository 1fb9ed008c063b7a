//! One turn of the agent: sync, select the source, run, then check the health of the host (`turn/post_run.rs`).

#![expect(
    clippy::disallowed_methods,
    reason = "a step of the turn: it reads the clock and hands time to decisions"
)]

mod follow_rollout;
mod post_run;
mod rollout_records;

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use zagent_cache::{Cache, CacheError, CheckDepth, Generation};
use zagent_config::disk_space::says_full;
use zagent_config::settings::Settings;

use super::handover::Handover;
use super::held_revision::{HeldRevision, HoldReason};
use super::memory::AgentMemory;
use super::operator_orders::OperatorOrders;
use super::rollout_state::RolloutState;
use super::states_source::{self, SourceGuard, StatesSource};
use super::sync::{self, StatesSync, SyncOptions, SyncOutcome};
use super::turn_runner::TurnRunner;
use crate::error::{AgentError, ExitStatus};
use crate::space;
use zagent_config::error_chain;
use zagent_host::timezone::local_zone;
use zagent_host::{CancelToken, Machine};
use zagent_run::{RunReport, RunTrigger};

use follow_rollout::TurnWork;

/// A turn.
pub struct Turn<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// This host, for its health checks.
    pub machine: &'a Machine,
    /// Options of the sync; none for no sync.
    pub(crate) sync_options: Option<SyncOptions>,
    /// What the daemon polled and decided.
    pub handover: Option<&'a Handover>,
    /// True for a dry run.
    pub test: bool,
    /// What triggered it.
    pub trigger: RunTrigger,
    /// True when only selected SLS files run.
    pub partial: bool,
    /// Seed of this node.
    pub seed: u64,
    /// Stop signal.
    pub cancel: &'a Arc<CancelToken>,
}

/// Result of a turn.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// The last run, when there was one.
    pub report: Option<RunReport>,
    /// A revision that is held back.
    pub held: Option<HeldRevision>,
    /// True when a new revision was rolled back.
    pub rolled_back: bool,
}

impl Turn<'_> {
    /// Runs the turn.
    ///
    /// # Errors
    /// Why there was no run.
    pub fn run(self, runner: &mut TurnRunner<'_>) -> Result<TurnOutcome, AgentError> {
        if !self.test {
            space::make_room(self.settings).iter().for_each(|warning| runner.warn(warning));
        }
        let ended = self.run_turn(runner);
        // A daemon publishes reports itself.
        if !self.test && !self.partial && self.sync_options.is_some() && self.has_no_daemon() {
            self.publish_report(runner);
        }
        ended
    }

    /// True when no daemon is running on this node.
    pub(crate) fn has_no_daemon(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.settings.paths().socket()).is_err()
    }

    fn run_turn(&self, runner: &mut TurnRunner<'_>) -> Result<TurnOutcome, AgentError> {
        let now = Timestamp::now();
        let paths = self.settings.paths();
        if !self.test {
            RolloutState::move_aside_damaged(&paths);
        }
        let orders = OperatorOrders::read(&paths, now);
        let mut memory = AgentMemory::load(&paths.memory());
        let cache =
            Cache::open(&paths, &self.settings.source).map_err(|error| AgentError::from_cache(&error))?;
        if !self.test && (cache.needs_repair() || cache.current().is_err()) {
            repair_cache(&cache, runner);
        }
        let obstacle = self.change_obstacle(&orders, now, runner);
        if !self.test && !self.partial && !runner.order.audit {
            let has_records = self.handover.is_some_and(|handover| handover.has_records(now));
            if self.sync_options.is_some() && self.trigger != RunTrigger::Rollout && !has_records {
                self.read_records(runner);
            }
            let (closed, paused) =
                (obstacle.is_some(), obstacle.as_ref().is_some_and(|(why, _)| *why == HoldReason::Paused));
            let mut work =
                TurnWork { cache: &cache, memory: &mut memory, runner, window_closed: closed, paused };
            let ended = self.follow_rollout(&mut work);
            save_memory(&memory, &paths, runner);
            if let Some(ended) = ended? {
                return Ok(ended);
            }
            if self.trigger == RunTrigger::Rollout {
                return Ok(TurnOutcome::default());
            }
        }
        if runner.order.audit && self.trigger == RunTrigger::Rollout {
            return Ok(TurnOutcome::default());
        }
        // What a rollout set counts from here on.
        let orders = OperatorOrders::read(&paths, now);
        let synced =
            self.sync_states(&cache, &orders, &mut memory, obstacle.as_ref().map(|(why, _)| *why), runner);
        if !self.test {
            save_memory(&memory, &paths, runner);
        }
        let synced = synced?;
        if matches!(synced, SyncOutcome::Published(_)) {
            space::limit(self.settings).iter().for_each(|warning| runner.warn(warning));
        }
        if let Some((why, words)) = obstacle {
            return self.stop_held(why, words, memory);
        }
        let held = self.report_sync(&synced, runner);
        // A turn triggered only by a new revision has nothing to do without one.
        let has_new = matches!(synced, SyncOutcome::Published(_) | SyncOutcome::Preview(_));
        if self.trigger == RunTrigger::Git
            && !has_new
            && cache.current().is_ok_and(|current| current.is_some())
        {
            return Ok(TurnOutcome { held, ..TurnOutcome::default() });
        }
        let source = self.find_source(&cache, synced, &mut memory, runner)?;
        let ended = self.converge_and_check(&cache, source, &mut memory, runner)?;
        let rolled_back = ended.rolled_back;
        Ok(TurnOutcome { held: held.filter(|_| !rolled_back), ..ended })
    }

    /// What keeps this turn from changing the host. Windows apply only to automatic runs.
    fn change_obstacle(
        &self,
        orders: &OperatorOrders,
        now: Timestamp,
        runner: &mut TurnRunner<'_>,
    ) -> Option<(HoldReason, String)> {
        let (why, words) = orders.change_obstacle(&self.settings.windows, now, &local_zone())?;
        if self.test {
            return None;
        }
        if why == HoldReason::Window && runner.order.audit {
            return None;
        }
        if why == HoldReason::Window && self.trigger == RunTrigger::Manual {
            runner.warn(&words);
            return None;
        }
        Some((why, words))
    }

    fn stop_held(
        &self,
        why: HoldReason,
        words: String,
        memory: AgentMemory,
    ) -> Result<TurnOutcome, AgentError> {
        if self.trigger == RunTrigger::Manual && why == HoldReason::Paused {
            return Err(AgentError::Refusal { exit: ExitStatus::Locked, message: words, hint: None });
        }
        tracing::info!("{words}");
        Ok(TurnOutcome { held: memory.held.filter(|held| held.why == why), ..TurnOutcome::default() })
    }

    fn sync_states(
        &self,
        cache: &Cache,
        orders: &OperatorOrders,
        memory: &mut AgentMemory,
        hold: Option<HoldReason>,
        runner: &mut TurnRunner<'_>,
    ) -> Result<SyncOutcome, AgentError> {
        let Some(options) = self.sync_options else { return Ok(SyncOutcome::NoRemote) };
        let options = SyncOptions { hold, preview: self.test, ..options };
        runner.output.set_waiting(Some("fetching and verifying the newest revision"));
        let mut compiles = |top: &Path, revision: &str| runner.check_compiles(top, revision);
        let mut sync = StatesSync {
            settings: self.settings,
            cache,
            memory,
            orders,
            seed: self.seed,
            notes: Vec::new(),
            handover: self.handover,
            check_compiles: &mut compiles,
        };
        let synced = sync.sync_head(options, Timestamp::now());
        let notes = std::mem::take(&mut sync.notes);
        runner.output.set_waiting(None);
        notes.iter().for_each(|note| runner.warn(note));
        synced.map_err(|error| AgentError::from_cache(&error))
    }

    /// Reports the result of the sync; returns the revision that is held back.
    fn report_sync(&self, synced: &SyncOutcome, runner: &mut TurnRunner<'_>) -> Option<HeldRevision> {
        match synced {
            SyncOutcome::Held(held) => {
                runner.warn(&format!("revision {} is held back: {}", held.revision.short(), held.message));
                Some(held.clone())
            }
            SyncOutcome::Offline(errors) => {
                errors.iter().for_each(|error| runner.warn(&error_chain(error)));
                None
            }
            SyncOutcome::NoRemote
            | SyncOutcome::Current
            | SyncOutcome::Published(_)
            | SyncOutcome::Preview(_) => None,
        }
    }

    /// Where to read: the tree that was just verified, or the current generation, complete and unmodified.
    fn find_source(
        &self,
        cache: &Cache,
        synced: SyncOutcome,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<StatesSource, AgentError> {
        let unreachable = matches!(synced, SyncOutcome::Offline(_));
        let refused = match &synced {
            SyncOutcome::Held(held) => Some(held.clone()),
            _ => None,
        };
        let found = match synced {
            SyncOutcome::Preview(verified) => return Ok(StatesSource::from_verified(*verified)),
            SyncOutcome::Published(generation) => Some(
                StatesSource::from_generation(*generation).map_err(|error| AgentError::from_cache(&error))?,
            ),
            _ => StatesSource::find(self.settings, cache, std::thread::sleep)
                .map_err(|error| AgentError::from_cache(&error))?,
        };
        let Some(found) = found else {
            return Err(no_states_error(self.settings.source.remotes.is_empty(), unreachable, refused));
        };
        if found.is_baked() && !self.settings.source.remotes.is_empty() {
            runner.warn(states_source::FALLBACK_WARNING);
        }
        match found.guard {
            SourceGuard::Generation(generation, pin) => {
                let whole = self.verify_or_restage(cache, &generation, memory, runner)?;
                let source = StatesSource::from_generation(whole.unwrap_or(*generation));
                drop(pin);
                source.map_err(|error| AgentError::from_cache(&error))
            }
            held => Ok(StatesSource { guard: held, ..found }),
        }
    }

    /// `None` when a generation is unmodified; otherwise a replacement that is.
    fn verify_or_restage(
        &self,
        cache: &Cache,
        generation: &Generation,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<Option<Generation>, AgentError> {
        let now = Timestamp::now();
        let every =
            SignedDuration::try_from(self.settings.source.verify_every).unwrap_or(SignedDuration::MAX);
        let due = memory.verified.is_none_or(|last| now.duration_since(last) >= every || last > now);
        let depth = if due { CheckDepth::Full } else { CheckDepth::Quick };
        let tampered = match generation.check(depth) {
            Ok(()) => {
                if !self.test {
                    memory.verified = if due { Some(now) } else { memory.verified };
                    memory.tampered = None;
                }
                return Ok(None);
            }
            Err(tampered) => tampered,
        };
        runner.warn(&format!(
            "the cache was modified outside zagent: {}; staging it again",
            error_chain(&tampered)
        ));
        let renewed = sync::restage_current(self.settings, cache, generation, (self.seed, now));
        if !self.test {
            memory.tampered = renewed.is_err().then(|| error_chain(&tampered));
            save_memory(memory, &self.settings.paths(), runner);
        }
        renewed.map(Some).map_err(|words| AgentError::Refusal {
            exit: if says_full(&words) { ExitStatus::Failed } else { ExitStatus::Refused },
            message: format!(
                "the cache was modified outside zagent ({}) and {words}",
                error_chain(&tampered)
            ),
            hint: Some("fix the connection to a remote, then run `zagent source sync`".into()),
        })
    }
}

/// Repairs what an interrupted turn left behind.
fn repair_cache(cache: &Cache, runner: &mut TurnRunner<'_>) {
    match cache.repair() {
        // Another process is working on it, and does the same first.
        Ok(_) | Err(CacheError::Busy { .. }) => {}
        Err(error) => runner.warn(&error_chain(&error)),
    }
}

pub(crate) fn save_memory(
    memory: &AgentMemory,
    paths: &zagent_config::paths::Paths,
    runner: &mut TurnRunner<'_>,
) {
    if let Err(error) = memory.save(&paths.memory()) {
        runner.warn(&format!("cannot save state: {}", error_chain(&error)));
    }
}

fn no_states_error(follows_nobody: bool, unreachable: bool, held: Option<HeldRevision>) -> AgentError {
    let (exit, hint) = match held {
        Some(held) => (held.exit(), held.message),
        None if unreachable => {
            (ExitStatus::Unreachable, "no remote answers: check with `zagent doctor`".into())
        }
        None if !follows_nobody => {
            (ExitStatus::Usage, "nothing fetched yet: run `zagent source sync`".into())
        }
        None => (ExitStatus::Usage, "set `source.remotes`, or give a directory with `--states DIR`".into()),
    };
    AgentError::Refusal { exit, message: states_source::NO_STATES.into(), hint: Some(hint) }
}
