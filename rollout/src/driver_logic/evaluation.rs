//! One check of a rollout: reports are read, late nodes are marked, and the batch moves on as far as possible.
//!
//! Law: a batch goes through prepare, apply, soak, confirm, pause, and never back; every check ends, because each
//! iteration of its loop is one step forward (held by `a_batch_goes_through_its_phases_and_the_next_follows_the_pause`,
//! `rollout/src/driver_logic/properties.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::NodeId;

use super::limits::{LATE_GRACE, PhaseLimit, SLOW_LIMIT, phase_limit};
use super::node_reports::{
    ReportedProgress, SILENT_NODE_REASON, has_begun, hold_reason, is_busy, status_rank, wait_reason,
};
use crate::Span;
use crate::phase::saturating_after;
use crate::plan::list_some_nodes;
use crate::record::{BatchPhase, NodeProgress, NodeStatus, RolloutRecord, RolloutStatus};
use crate::report::NodeReport;

/// A check in progress.
pub(super) struct Evaluation<'r> {
    pub(super) record: RolloutRecord,
    pub(super) notes: Vec<String>,
    reports: &'r BTreeMap<NodeId, NodeReport>,
    now: Timestamp,
}

impl<'r> Evaluation<'r> {
    pub(super) const fn new(
        record: RolloutRecord,
        reports: &'r BTreeMap<NodeId, NodeReport>,
        now: Timestamp,
    ) -> Self {
        Self { record, notes: vec![], reports, now }
    }

    /// Moves the rollout on as far as possible.
    pub(super) fn advance_all(&mut self) {
        if self.record.is_expired(self.now) && !self.record.state.is_final() {
            self.observe_all();
            let why = format!("the order expired at {:.0}: start a new rollout", self.record.expires_at());
            return self.finish(RolloutStatus::Aborted, &why);
        }
        match self.record.state {
            RolloutStatus::Created => {
                (self.record.state, self.record.started) = (RolloutStatus::Rolling, Some(self.now));
                self.enter_phase(BatchPhase::Prepare);
            }
            RolloutStatus::Rolling => {}
            RolloutStatus::Paused if self.record.started.is_some() => {}
            RolloutStatus::Aborting => {
                self.observe_all();
                let why = self.record.reason.clone().unwrap_or_else(|| "abort requested".to_owned());
                return self.finish(RolloutStatus::Aborted, &why);
            }
            RolloutStatus::Paused | RolloutStatus::Completed | RolloutStatus::Aborted => return,
        }
        // If the clock was set back, nobody must wait for it.
        self.record.phase_since = Some(self.phase_start().min(self.now));
        self.observe_all();
        self.observe_holds();
        loop {
            self.mark_late();
            if self.abort_on_failures() || !self.advance() {
                return;
            }
            self.observe_batch(self.record.current_batch);
            self.observe_holds();
        }
    }

    /// When the present phase ends by the clock alone.
    pub(super) fn phase_end(&self) -> Option<Timestamp> {
        match self.record.phase {
            BatchPhase::Soak => Some(saturating_after(self.phase_start(), self.record.soak_time.0)),
            BatchPhase::Pause => Some(saturating_after(self.phase_start(), self.record.batch_pause.0)),
            BatchPhase::Prepare | BatchPhase::Apply | BatchPhase::Confirm => None,
        }
    }

    fn phase_start(&self) -> Timestamp {
        self.record.phase_since.unwrap_or(self.now)
    }

    fn observe_all(&mut self) {
        for batch in 0..self.record.batches.len().min(self.record.current_batch.saturating_add(1)) {
            self.observe_batch(batch);
        }
        self.record.failed = self.count_status(NodeStatus::Failed);
    }

    /// Reads the reports of the nodes of a batch.
    fn observe_batch(&mut self, batch: usize) {
        for id in self.batch_nodes(batch) {
            let heard = ReportedProgress::from_report(&self.record, self.reports.get(&id), self.now);
            let status = self.record.node_status(&id);
            match (status, heard) {
                (NodeStatus::Failed | NodeStatus::Confirmed, _) => {}
                (NodeStatus::Silent, ReportedProgress::Failed(why)) if why != SILENT_NODE_REASON => {
                    self.mark_failed(&id, why);
                }
                (NodeStatus::Silent, ReportedProgress::Confirmed) => {
                    self.notes.push(format!("{id} was silent, and has now confirmed"));
                    self.set_status(&id, NodeStatus::Confirmed, None);
                }
                (NodeStatus::Silent, _) => {}
                (_, ReportedProgress::Failed(why)) => self.mark_failed(&id, why),
                (_, heard) if status_rank(heard.node_status()) > status_rank(status) => {
                    self.set_status(&id, heard.node_status(), None);
                }
                _ => {}
            }
            self.observe_wait(&id);
        }
    }

    /// Records what a node waits for or refuses, as soon as it says so.
    fn observe_wait(&mut self, id: &NodeId) {
        let is_open = status_rank(self.record.node_status(id)).is_some_and(|rank| rank < 3);
        let waits = wait_reason(&self.record, self.reports.get(id)).filter(|_| is_open);
        if self.record.nodes.get(id).and_then(|node| node.waits.as_ref()) == waits.as_ref() {
            return;
        }
        if let Some(why) = &waits {
            self.notes.push(format!("{id} does not continue: {why}"));
        }
        self.record.nodes.entry(id.clone()).or_default().waits = waits;
    }

    fn set_status(&mut self, id: &NodeId, status: NodeStatus, error: Option<String>) {
        let node = self.record.nodes.entry(id.clone()).or_default();
        *node = NodeProgress {
            status,
            error,
            at: Some(self.now),
            late: None,
            held: None,
            waits: None,
            key: node.key.take(),
        };
    }

    /// Marks a node as failed; a failed node is not counted again.
    fn mark_failed(&mut self, id: &NodeId, why: String) {
        self.notes.push(format!("{id} failed: {why}"));
        self.set_status(id, NodeStatus::Failed, Some(why));
        self.record.failed = self.count_status(NodeStatus::Failed);
    }

    /// Records which nodes of the batch are held, and gives a node that is no longer held the full time limit.
    fn observe_holds(&mut self) {
        if !matches!(self.record.phase, BatchPhase::Prepare | BatchPhase::Apply) {
            return;
        }
        for id in self.active_nodes() {
            let waits = status_rank(self.record.node_status(&id)) < Some(2);
            let hold = hold_reason(self.reports.get(&id), self.now).filter(|_| waits);
            let known = self.record.nodes.get(&id).and_then(|node| node.held.clone());
            if hold == known {
                continue;
            }
            match &hold {
                Some(why) => self.notes.push(format!("waits for {id}: {why}")),
                None if waits => {
                    self.notes.push(format!("{id} is no longer held"));
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

    /// True when a node still works on the present phase, as its reports say.
    fn is_slow(&self, id: &NodeId) -> bool {
        !self.is_phase_done(id) && is_busy(&self.record, self.reports.get(id), self.now)
    }

    /// Moves held and slow nodes out of their batch into a batch of their own right after it: the other nodes must not
    /// wait forever, and nodes that have switched must be confirmed. It is not a failure. A batch in which all nodes
    /// are held or slow waits.
    fn postpone_stuck(&mut self) {
        let (stuck, free): (Vec<NodeId>, Vec<NodeId>) =
            self.active_nodes().into_iter().partition(|id| self.is_held(id) || self.is_slow(id));
        if stuck.is_empty() || free.is_empty() {
            return;
        }
        self.notes.push(format!(
            "postponed, because the other nodes cannot wait: {}",
            list_some_nodes(stuck.iter())
        ));
        self.record.postpone(self.record.current_batch, stuck);
    }

    /// Marks late nodes, and drops those that are late for too long.
    fn mark_late(&mut self) {
        let waits = self.record.state == RolloutStatus::Paused && self.record.phase == BatchPhase::Prepare;
        let Some(limit) =
            phase_limit(&self.record, self.phase_start()).filter(|limit| !waits && self.now >= limit.late)
        else {
            return;
        };
        for id in self.active_nodes() {
            if self.is_phase_done(&id) {
                continue;
            }
            if self.is_held(&id) {
                continue;
            }
            let slow_until = saturating_after(self.phase_start(), SLOW_LIMIT);
            let is_working = self.is_slow(&id) && self.now < slow_until;
            let late = self.record.nodes.get(&id).and_then(|node| node.late).filter(|late| *late <= self.now);
            match late {
                None => {
                    self.notes.push(format!("{id} is late: {}", self.late_reason()));
                    self.record.nodes.entry(id).or_default().late = Some(self.now);
                }
                Some(_) if is_working => {}
                Some(late) if self.now >= limit.until && self.now >= saturating_after(late, LATE_GRACE) => {
                    self.drop_late(&id, late, &limit);
                }
                Some(_) => {}
            }
        }
        if self.now >= limit.until {
            self.postpone_stuck();
        }
    }

    fn drop_late(&mut self, id: &NodeId, late: Timestamp, limit: &PhaseLimit) {
        let heard = self.reports.get(id).map(|report| report.updated_at);
        // A node that was told to confirm may do so without a report: only the node itself can report a failure then.
        let may_keep = self.record.phase == BatchPhase::Confirm;
        if !may_keep && heard.is_some_and(|heard| heard >= late) {
            // Whole seconds are precise enough.
            let time = Span(Duration::from_secs(limit.time.as_secs()));
            let waits = self.record.nodes.get(id).and_then(|node| node.waits.clone());
            let waits = waits.map(|why| format!(": {why}")).unwrap_or_default();
            return self.mark_failed(id, format!("{} within {time}{waits}", self.late_reason()));
        }
        let why = heard
            .map_or_else(|| "it never reported".to_owned(), |at| format!("its last report is from {at:.0}"));
        self.notes.push(format!("{id} is silent: {why}"));
        self.set_status(id, NodeStatus::Silent, Some(why));
    }

    const fn late_reason(&self) -> &'static str {
        match self.record.phase {
            BatchPhase::Prepare => "it was not prepared",
            BatchPhase::Apply => "it did not switch",
            BatchPhase::Soak => "it was not ready for long enough",
            BatchPhase::Confirm | BatchPhase::Pause => "it did not report that it confirmed",
        }
    }

    /// Aborts a rollout with too many failures.
    fn abort_on_failures(&mut self) -> bool {
        let (failed, most) = (self.record.failed, self.record.max_failed.max(1));
        let (silent, passed) = (self.count_status(NodeStatus::Silent), self.record.max_silent);
        if failed >= most {
            self.finish(RolloutStatus::Aborted, &format!("{failed} failed nodes, and the limit is {most}"));
        } else if silent > passed {
            self.finish(RolloutStatus::Aborted, &format!("{silent} silent nodes, {passed} are allowed"));
        }
        self.record.state.is_final()
    }

    /// Makes one step; false when there is none.
    fn advance(&mut self) -> bool {
        if self.record.current_batch >= self.record.batches.len() {
            return self.end_without_batch();
        }
        let is_paused = self.record.state == RolloutStatus::Paused;
        let live = self.active_nodes();
        if self.record.phase != BatchPhase::Pause && live.iter().all(|id| self.is_confirmed(id)) {
            return self.finish_batch();
        }
        let all_there = || live.iter().all(|id| self.is_phase_done(id));
        let is_over = self.phase_end().is_none_or(|moment| self.now >= moment);
        match self.record.phase {
            // Nodes that have switched must be confirmed in time, so no node switches while another node of the batch
            // is held.
            BatchPhase::Prepare if !is_paused && all_there() && !live.iter().any(|id| self.is_held(id)) => {
                self.enter_phase(BatchPhase::Apply);
            }
            BatchPhase::Apply if all_there() => self.enter_phase(BatchPhase::Soak),
            BatchPhase::Soak if is_over && all_there() => self.enter_phase(BatchPhase::Confirm),
            BatchPhase::Pause if !is_paused && is_over => self.next_batch(),
            _ => return false,
        }
        true
    }

    /// The end of a record whose current batch does not exist.
    fn end_without_batch(&mut self) -> bool {
        match self.record.batches.len() {
            0 => self.complete(),
            len => {
                let at = self.record.current_batch.saturating_add(1);
                self.finish(
                    RolloutStatus::Aborted,
                    &format!("the record is damaged: it is at batch {at} of {len}"),
                );
            }
        }
        false
    }

    fn finish_batch(&mut self) -> bool {
        if self.record.current_batch.saturating_add(1) >= self.record.batches.len() {
            self.complete();
            return false;
        }
        // Nodes that were postponed while they switched must be confirmed before their own deadline.
        let next = self.record.current_batch.saturating_add(1);
        let has_begun = |id: &NodeId| has_begun(&self.record, self.reports.get(id));
        if self.batch_nodes(next).iter().any(has_begun) {
            self.record.current_batch = next;
            self.enter_phase(BatchPhase::Apply);
        } else {
            self.enter_phase(BatchPhase::Pause);
        }
        true
    }

    fn next_batch(&mut self) {
        self.record.current_batch += 1;
        self.enter_phase(BatchPhase::Prepare);
    }

    fn enter_phase(&mut self, phase: BatchPhase) {
        (self.record.phase, self.record.phase_since) = (phase, Some(self.now));
        let live = self.active_nodes();
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
        let who = if live.is_empty() { "nobody".to_owned() } else { list_some_nodes(live.iter()) };
        self.notes.push(format!("batch {at} of {of}: {word} ({who})"));
    }

    fn complete(&mut self) {
        let count = |status| self.count_status(status);
        let (confirmed, failed, silent) =
            (count(NodeStatus::Confirmed), count(NodeStatus::Failed), count(NodeStatus::Silent));
        self.notes.push(format!("completed: {confirmed} confirmed, {failed} failed, {silent} silent"));
        (self.record.state, self.record.finished, self.record.reason) =
            (RolloutStatus::Completed, Some(self.now), None);
    }

    fn finish(&mut self, state: RolloutStatus, why: &str) {
        self.notes.push(format!("{}: {why}", state.name()));
        (self.record.state, self.record.finished) = (state, Some(self.now));
        self.record.reason = Some(why.to_owned());
    }

    fn batch_nodes(&self, batch: usize) -> Vec<NodeId> {
        self.record.batches.get(batch).cloned().unwrap_or_default()
    }

    /// The nodes of the current batch that still take part.
    fn active_nodes(&self) -> Vec<NodeId> {
        let mut live = self.batch_nodes(self.record.current_batch);
        live.retain(|id| status_rank(self.record.node_status(id)).is_some());
        live
    }

    fn is_confirmed(&self, id: &NodeId) -> bool {
        self.record.node_status(id) == NodeStatus::Confirmed
    }

    /// True when a node has finished the present phase.
    fn is_phase_done(&self, id: &NodeId) -> bool {
        let rank = status_rank(self.record.node_status(id));
        match self.record.phase {
            BatchPhase::Prepare => rank >= Some(1),
            BatchPhase::Apply => rank >= Some(2),
            BatchPhase::Soak => {
                let heard = ReportedProgress::from_report(&self.record, self.reports.get(id), self.now);
                rank >= Some(3) || heard == ReportedProgress::Applied { proven: true }
            }
            BatchPhase::Confirm | BatchPhase::Pause => rank >= Some(3),
        }
    }

    fn count_status(&self, status: NodeStatus) -> usize {
        self.record.nodes.values().filter(|node| node.status == status).count()
    }
}
