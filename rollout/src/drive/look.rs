//! One look at a rollout: nodes are heard, late ones judged, and the batch moved on as far as it goes.
//!
//! Law: a batch goes prepare, apply, soak, confirm, pause, and never back; every look ends, for each turn of its loop is one
//! move forward.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::NodeId;

use super::heard::{Heard, UNHEARD, held, rank};
use super::limits::{GRACE, Limit, limit};
use crate::Span;
use crate::phase::after;
use crate::plan::some;
use crate::record::{BatchPhase, NodeStatus, Progress, Record, State};
use crate::report::Report;

/// A look under way.
pub(super) struct Look<'r> {
    pub(super) record: Record,
    pub(super) notes: Vec<String>,
    reports: &'r BTreeMap<NodeId, Report>,
    now: Timestamp,
}

impl<'r> Look<'r> {
    pub(super) const fn new(record: Record, reports: &'r BTreeMap<NodeId, Report>, now: Timestamp) -> Self {
        Self { record, notes: vec![], reports, now }
    }

    /// Moves the rollout on as far as it goes.
    pub(super) fn go_on(&mut self) {
        match self.record.state {
            State::Created => {
                (self.record.state, self.record.started) = (State::Rolling, Some(self.now));
                self.enter(BatchPhase::Prepare);
            }
            State::Rolling => {}
            State::Paused if self.record.started.is_some() => {}
            State::Aborting => {
                self.hear_all();
                let why = self.record.reason.clone().unwrap_or_else(|| "somebody asked for it".to_owned());
                return self.end(State::Aborted, &why);
            }
            State::Paused | State::Completed | State::Aborted => return,
        }
        // A clock that was set back must not make anybody wait for it.
        self.record.phase_since = Some(self.since().min(self.now));
        self.hear_all();
        self.hear_holds();
        loop {
            self.judge();
            if self.is_too_much() || !self.advance() {
                return;
            }
            self.hear(self.record.current_batch);
            self.hear_holds();
        }
    }

    /// When the phase under way is over by the clock alone.
    pub(super) fn next_moment(&self) -> Option<Timestamp> {
        match self.record.phase {
            BatchPhase::Soak => Some(after(self.since(), self.record.soak_time.0)),
            BatchPhase::Pause => Some(after(self.since(), self.record.batch_pause.0)),
            BatchPhase::Prepare | BatchPhase::Apply | BatchPhase::Confirm => None,
        }
    }

    fn since(&self) -> Timestamp {
        self.record.phase_since.unwrap_or(self.now)
    }

    fn hear_all(&mut self) {
        for batch in 0..self.record.batches.len().min(self.record.current_batch.saturating_add(1)) {
            self.hear(batch);
        }
        self.record.failed = self.count(NodeStatus::Failed);
    }

    /// Takes over what the nodes of a batch say.
    fn hear(&mut self, batch: usize) {
        for id in self.batch(batch) {
            let heard = Heard::of(&self.record, self.reports.get(&id), self.now);
            let status = self.record.status(&id);
            match (status, heard) {
                (NodeStatus::Failed | NodeStatus::Confirmed, _) => {}
                (NodeStatus::Silent, Heard::Failed(why)) if why != UNHEARD => self.fail(&id, why),
                (NodeStatus::Silent, Heard::Confirmed) => {
                    self.notes.push(format!("{id} was silent, and has confirmed"));
                    self.set(&id, NodeStatus::Confirmed, None);
                }
                (NodeStatus::Silent, _) => {}
                (_, Heard::Failed(why)) => self.fail(&id, why),
                (_, heard) if rank(heard.status()) > rank(status) => self.set(&id, heard.status(), None),
                _ => {}
            }
        }
    }

    fn set(&mut self, id: &NodeId, status: NodeStatus, error: Option<String>) {
        let node = self.record.nodes.entry(id.clone()).or_default();
        *node = Progress { status, error, at: Some(self.now), late: None, held: None, key: node.key.take() };
    }

    /// Counts a node as failed; one that already is, is not counted again.
    fn fail(&mut self, id: &NodeId, why: String) {
        self.notes.push(format!("{id} failed: {why}"));
        self.set(id, NodeStatus::Failed, Some(why));
        self.record.failed = self.count(NodeStatus::Failed);
    }

    /// Notes who of the batch says that it may not begin now, and gives whoever may again the whole time.
    fn hear_holds(&mut self) {
        if !matches!(self.record.phase, BatchPhase::Prepare | BatchPhase::Apply) {
            return;
        }
        for id in self.live() {
            let waits = rank(self.record.status(&id)) < Some(2);
            let hold = held(self.reports.get(&id), self.now).filter(|_| waits);
            let known = self.record.nodes.get(&id).and_then(|node| node.held.clone());
            if hold == known {
                continue;
            }
            match &hold {
                Some(why) => self.notes.push(format!("waits for {id}: {why}")),
                None if waits => {
                    self.notes.push(format!("{id} is held no longer"));
                    self.record.phase_since = Some(self.now);
                }
                None => {}
            }
            let node = self.record.nodes.entry(id).or_default();
            node.late = if hold.is_some() { None } else { node.late };
            node.held = hold;
        }
    }

    fn is_held(&self, id: &NodeId) -> bool {
        self.record.nodes.get(id).is_some_and(|node| node.held.is_some())
    }

    /// Takes those that are held out of their batch and gives them one of their own right after it: the others may not be held
    /// up for ever, those that have switched must be confirmed, and nobody is to blame. A batch of which all are held waits.
    fn put_off(&mut self) {
        let (held, free): (Vec<NodeId>, Vec<NodeId>) =
            self.live().into_iter().partition(|id| self.is_held(id));
        if held.is_empty() || free.is_empty() {
            return;
        }
        let current = self.record.current_batch;
        let Some(batch) = self.record.batches.get_mut(current) else { return };
        batch.retain(|node| !held.contains(node));
        self.notes.push(format!("put off, for the others cannot wait: {}", some(held.iter())));
        self.record.batches.insert(current.saturating_add(1), held);
    }

    /// Marks who is late, and counts out who is so for too long.
    fn judge(&mut self) {
        let waits = self.record.state == State::Paused && self.record.phase == BatchPhase::Prepare;
        let Some(limit) = limit(&self.record, self.since()).filter(|limit| !waits && self.now >= limit.late)
        else {
            return;
        };
        for id in self.live() {
            if self.is_there(&id) {
                continue;
            }
            if self.is_held(&id) {
                continue;
            }
            let late = self.record.nodes.get(&id).and_then(|node| node.late).filter(|late| *late <= self.now);
            match late {
                None => {
                    self.notes.push(format!("{id} is late: {}", self.wanted()));
                    self.record.nodes.entry(id).or_default().late = Some(self.now);
                }
                Some(late) if self.now >= limit.until && self.now >= after(late, GRACE) => {
                    self.count_out(&id, late, &limit);
                }
                Some(_) => {}
            }
        }
        if self.now >= limit.until {
            self.put_off();
        }
    }

    fn count_out(&mut self, id: &NodeId, late: Timestamp, limit: &Limit) {
        let heard = self.reports.get(id).map(|report| report.updated_at);
        // Who was told to keep it may do so without our knowledge: only the node itself can say that it failed then.
        let may_keep = self.record.phase == BatchPhase::Confirm;
        if !may_keep && heard.is_some_and(|heard| heard >= late) {
            // Whole seconds are all that anybody wants to read.
            let time = Span(Duration::from_secs(limit.time.as_secs()));
            return self.fail(id, format!("{} within {time}", self.wanted()));
        }
        let why = heard
            .map_or_else(|| "it never reported".to_owned(), |at| format!("it was last heard of at {at:.0}"));
        self.notes.push(format!("{id} is silent: {why}"));
        self.set(id, NodeStatus::Silent, Some(why));
    }

    const fn wanted(&self) -> &'static str {
        match self.record.phase {
            BatchPhase::Prepare => "it was not prepared",
            BatchPhase::Apply => "it did not switch",
            BatchPhase::Soak => "it was not ready for long enough",
            BatchPhase::Confirm | BatchPhase::Pause => "it did not say that it keeps it",
        }
    }

    /// Ends a rollout that went wrong too often.
    fn is_too_much(&mut self) -> bool {
        let (failed, most) = (self.record.failed, self.record.max_failed.max(1));
        let (silent, passed) = (self.count(NodeStatus::Silent), self.record.max_silent);
        if failed >= most {
            self.end(State::Aborted, &format!("{failed} of {most} failed nodes"));
        } else if silent > passed {
            self.end(State::Aborted, &format!("{silent} silent nodes, {passed} are passed over"));
        }
        self.record.state.is_final()
    }

    /// Makes one move; false when there is none to make.
    fn advance(&mut self) -> bool {
        if self.record.current_batch >= self.record.batches.len() {
            return self.leave();
        }
        let is_paused = self.record.state == State::Paused;
        let live = self.live();
        if self.record.phase != BatchPhase::Pause && live.iter().all(|id| self.is_confirmed(id)) {
            return self.finish_batch();
        }
        let all_there = || live.iter().all(|id| self.is_there(id));
        let is_over = self.next_moment().is_none_or(|moment| self.now >= moment);
        match self.record.phase {
            // Who has switched must be confirmed in time, so nobody switches while another of the batch may not.
            BatchPhase::Prepare if !is_paused && all_there() && !live.iter().any(|id| self.is_held(id)) => {
                self.enter(BatchPhase::Apply);
            }
            BatchPhase::Apply if all_there() => self.enter(BatchPhase::Soak),
            BatchPhase::Soak if is_over && all_there() => self.enter(BatchPhase::Confirm),
            BatchPhase::Pause if !is_paused && is_over => self.next_batch(),
            _ => return false,
        }
        true
    }

    /// The end of a record without the batch that it is at.
    fn leave(&mut self) -> bool {
        match self.record.batches.len() {
            0 => self.complete(),
            len => {
                let at = self.record.current_batch.saturating_add(1);
                self.end(State::Aborted, &format!("the record is damaged: it is at batch {at} of {len}"));
            }
        }
        false
    }

    fn finish_batch(&mut self) -> bool {
        if self.record.current_batch.saturating_add(1) >= self.record.batches.len() {
            self.complete();
            return false;
        }
        self.enter(BatchPhase::Pause);
        true
    }

    fn next_batch(&mut self) {
        self.record.current_batch += 1;
        self.enter(BatchPhase::Prepare);
    }

    fn enter(&mut self, phase: BatchPhase) {
        (self.record.phase, self.record.phase_since) = (phase, Some(self.now));
        let live = self.live();
        for id in &live {
            if let Some(node) = self.record.nodes.get_mut(id) {
                node.late = None;
            }
        }
        let word = match phase {
            BatchPhase::Prepare => "prepare".to_owned(),
            BatchPhase::Apply => "apply".to_owned(),
            BatchPhase::Soak => format!("soak for {}", self.record.soak_time),
            BatchPhase::Confirm => "confirm".to_owned(),
            BatchPhase::Pause => format!("done, pause for {}", self.record.batch_pause),
        };
        let (at, of) = (self.record.current_batch.saturating_add(1), self.record.batches.len());
        let who = if live.is_empty() { "nobody".to_owned() } else { some(live.iter()) };
        self.notes.push(format!("batch {at} of {of}: {word} ({who})"));
    }

    fn complete(&mut self) {
        let count = |status| self.count(status);
        let (confirmed, failed, silent) =
            (count(NodeStatus::Confirmed), count(NodeStatus::Failed), count(NodeStatus::Silent));
        self.notes.push(format!("completed: {confirmed} confirmed, {failed} failed, {silent} silent"));
        (self.record.state, self.record.finished, self.record.reason) =
            (State::Completed, Some(self.now), None);
    }

    fn end(&mut self, state: State, why: &str) {
        self.notes.push(format!("{}: {why}", state.word()));
        (self.record.state, self.record.finished) = (state, Some(self.now));
        self.record.reason = Some(why.to_owned());
    }

    fn batch(&self, batch: usize) -> Vec<NodeId> {
        self.record.batches.get(batch).cloned().unwrap_or_default()
    }

    /// The nodes of the batch under way that are not out of it.
    fn live(&self) -> Vec<NodeId> {
        let mut live = self.batch(self.record.current_batch);
        live.retain(|id| rank(self.record.status(id)).is_some());
        live
    }

    fn is_confirmed(&self, id: &NodeId) -> bool {
        self.record.status(id) == NodeStatus::Confirmed
    }

    /// True when a node has done its part of the phase under way.
    fn is_there(&self, id: &NodeId) -> bool {
        let rank = rank(self.record.status(id));
        match self.record.phase {
            BatchPhase::Prepare => rank >= Some(1),
            BatchPhase::Apply => rank >= Some(2),
            BatchPhase::Soak => {
                let heard = Heard::of(&self.record, self.reports.get(id), self.now);
                rank >= Some(3) || heard == Heard::Applied { proven: true }
            }
            BatchPhase::Confirm | BatchPhase::Pause => rank >= Some(3),
        }
    }

    fn count(&self, status: NodeStatus) -> usize {
        self.record.nodes.values().filter(|node| node.status == status).count()
    }
}
