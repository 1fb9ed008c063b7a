//! Poll results and changed node files in, updated daemon state and queued jobs out.

use jiff::Timestamp;
use zagent_cache::source::{DirWatcher, RemotePoll};

use super::inode_stamps::InodeStamps;
use super::job::{Job, JobKind};
use super::poller::{PollRequest, Poller};
use super::{Daemon, DaemonEvent, RunningJob};
use crate::decide::{NodeView, RemoteOffer, SyncDecision, decide_revision};
use crate::handover::Handover;
use crate::memory::AgentMemory;
use crate::operator_orders::OperatorOrders;
use crate::rollout_state::RolloutState;
use crate::status;
use crate::{scheduler, sync};
use zagent_config::error_chain;
use zagent_host::reboot::RebootHost;
use zagent_host::timezone::local_zone;
use zagent_run::RunTrigger;

/// Prefix of the branches with rollout records.
const RECORD_BRANCH_PREFIX: &str = "rollout/";

impl Daemon<'_> {
    /// Handles the result of a poll.
    pub(super) fn on_polled(&mut self, polled: RemotePoll, now: Timestamp) {
        if let Some(poller) = &mut self.poller {
            poller.poll_done();
        }
        let RemotePoll { heads: found, failed } = polled;
        tracing::debug!(answered = found.is_some(), failed = failed.len(), "remotes polled");
        for error in &failed {
            // A fault that goes on is told once; the status says since when.
            let words = error_chain(error);
            let known = self.memory.remotes.iter().find(|remote| remote.url == error.remote);
            if known.is_some_and(|remote| remote.message.as_deref() == Some(words.as_str())) {
                tracing::debug!(kind = error.kind.as_str(), "{words}");
            } else {
                tracing::warn!(kind = error.kind.as_str(), "{words}");
            }
        }
        let before = self.memory.clone();
        self.memory.note_remotes(&failed, found.as_ref(), now);
        let Some(found) = found else {
            let retry_after = failed.iter().filter_map(|error| error.retry_after).max();
            self.clock.poll_ended(now, scheduler::PollResult::Failed { retry_after });
            return self.save_memory(&before);
        };
        self.on_records_polled(&found, now);
        let offer = RemoteOffer { head: found.head.clone(), testing: found.testing.clone() };
        let quarantined = self.orders.quarantined_revisions();
        if let Err(error) = self.orders.rollout_state.note_head(&self.settings.paths(), offer.head.as_ref()) {
            tracing::warn!("{}", error_chain(&error));
        }
        let constraint =
            self.orders.rollout_state.constraint(&self.settings.id, self.settings.rollout.follow, now);
        let standing = NodeView {
            constraint: constraint.as_ref(),
            current: self.seen.current.as_ref().map(|current| sync::plain_revision(&current.revision)),
            pin: self.orders.pin.as_ref(),
            held: self.memory.held.as_ref(),
            quarantined: &quarantined,
            weighed: self.memory.weighed.as_ref(),
            retry_refused: false,
        };
        let wanted = decide_revision(&offer, &standing, now);
        let news = matches!(wanted, SyncDecision::Take(..) | SyncDecision::CheckTesting(..));
        self.clock.poll_ended(
            now,
            if news { scheduler::PollResult::NewRevision } else { scheduler::PollResult::Nothing },
        );
        let records_read = self.are_records_read(&found);
        let handover = Handover::new(&found, &wanted, &standing, now)
            .map(|handover| Box::new(handover.with_records(records_read)));
        self.memory.note_offer(&wanted, &offer, &found, &self.orders, now);
        match (wanted, self.change_obstacle(now)) {
            (SyncDecision::Take(revision, _), Some((why, message))) => {
                self.memory.hold_revision(revision, why, message, now);
            }
            // What the current turn misses is found by the next poll. A turn finds out whether a testing
            // branch counts.
            (SyncDecision::Take(..) | SyncDecision::CheckTesting(..), None) if !self.is_fetching() => {
                let kind = JobKind::Turn { trigger: RunTrigger::Git, fetch: true };
                self.enqueue(Job { handover, ..Job::new(kind) }, now);
            }
            _ => {}
        }
        self.save_memory(&before);
    }

    pub(crate) fn is_fetching(&self) -> bool {
        let fetches = |running: &RunningJob| {
            matches!(running.job.kind, JobKind::Turn { fetch: true, .. }) && !running.job.test
        };
        self.running.as_ref().is_some_and(fetches)
    }

    /// Reads files that other processes may have changed.
    pub(super) fn read_files(&mut self) {
        let now = Timestamp::now();
        RolloutState::move_aside_damaged(&self.settings.paths());
        self.stamps = InodeStamps::read(&self.settings.paths());
        let orders = OperatorOrders::read(&self.settings.paths(), now);
        let old = std::mem::replace(&mut self.orders, orders);
        self.seen = status::read_offline(&self.settings, &RebootHost::default(), now, &local_zone()).inputs;
        if self.poller.is_some()
            && old.pin.map(|pin| pin.to) != self.orders.pin.as_ref().map(|pin| pin.to.clone())
        {
            self.follow_remotes();
        }
    }

    /// Reads what other processes changed: a manual run, a rollback, a pause without notification.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        let paths = self.settings.paths();
        if self.running.is_none() && InodeStamps::read(&paths) != self.stamps {
            self.memory = AgentMemory::load(&paths.memory());
            self.read_files();
        }
        let nothing = self.has_no_source();
        let had_nothing = std::mem::replace(&mut self.no_source, nothing);
        if had_nothing && !self.no_source && self.running.is_none() {
            self.queue.push(Job::new(JobKind::Probe));
            self.clock.trigger_now(now);
        }
    }

    /// Follows the remotes of the settings and the pin.
    pub(crate) fn follow_remotes(&mut self) {
        let source = &self.settings.source;
        self.watches.clear();
        for dir in source.remotes.iter().filter_map(|remote| sync::directory_remote(&remote.url)) {
            let events = self.events.clone();
            match DirWatcher::new(&dir, move || drop(events.send(DaemonEvent::SourceChanged))) {
                Ok(watch) => self.watches.push(watch),
                Err(error) => tracing::warn!("{}", error_chain(&error)),
            }
        }
        if !self.watches.is_empty() {
            // What changed before the watch began is not announced by it.
            let _ = self.events.send(DaemonEvent::SourceChanged);
        }
        if source.remotes.is_empty() {
            self.poller = None;
            return;
        }
        let asked = PollRequest {
            remotes: sync::followed_remotes(&self.settings, self.orders.pin.as_ref(), self.setup.seed)
                .with_prefix(RECORD_BRANCH_PREFIX),
            testing: sync::testing_branch(&self.settings),
            timeout: source.timeout,
        };
        self.memory.retain_remotes(&asked.remotes);
        match &self.poller {
            Some(poller) => poller.set_request(asked),
            None => {
                self.poller = Poller::start(asked, self.events.clone())
                    .inspect_err(|error| tracing::error!(%error, "cannot poll remotes"))
                    .ok();
            }
        }
    }
}
