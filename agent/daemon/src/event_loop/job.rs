//! Jobs that the daemon starts a process for, and their queue: equal jobs are merged.

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::api::Ticket;
use crate::handover::Handover;
use crate::turn_options::TurnRequest;
use zagent_run::RunTrigger;

/// Purpose of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Checks whether the current generation compiles.
    Probe,
    /// A turn.
    Turn {
        /// What triggered it.
        trigger: RunTrigger,
        /// True to contact the remotes first.
        fetch: bool,
    },
}

/// One process to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it is for.
    pub kind: JobKind,
    /// True for a dry run.
    pub test: bool,
    /// SLS files to run; what the top files select when empty.
    pub sls: Vec<String>,
    /// Schedule entry that it belongs to.
    pub entry: Option<String>,
    /// The target of that entry.
    pub target: Option<String>,
    /// Tickets of waiting clients.
    pub tickets: Vec<Ticket>,
    /// What was polled and decided; none for a turn that polls.
    pub handover: Option<Box<Handover>>,
}

impl Job {
    /// A job for this purpose, with nothing else set.
    pub const fn new(what: JobKind) -> Self {
        Self {
            kind: what,
            test: false,
            sls: Vec::new(),
            entry: None,
            target: None,
            tickets: Vec::new(),
            handover: None,
        }
    }

    /// Command line, without the program.
    pub fn args(&self, common: &[OsString], turns: &[OsString]) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        match self.kind {
            JobKind::Probe => args.extend(["show", "lowstate"].map(OsString::from)),
            JobKind::Turn { .. } => {
                args.push("turn".into());
                args.extend(turns.iter().cloned());
            }
        }
        args.extend(common.iter().cloned());
        args
    }

    /// What the process of a turn is to do.
    pub fn request(&self) -> Option<TurnRequest> {
        let JobKind::Turn { trigger, fetch } = self.kind else { return None };
        let (test, sls) = (self.test, self.sls.clone());
        let handover = self.handover.as_deref().cloned();
        let (target, scheduled) = (self.target.clone(), self.entry.is_some());
        Some(TurnRequest { trigger, fetch, test, sls, handover, target, scheduled })
    }

    /// Description for the log and the status.
    pub fn label(&self) -> String {
        let test = if self.test { "a dry run" } else { "a run" };
        match (self.kind, &self.entry) {
            (JobKind::Probe, _) => "checking whether the states compile".into(),
            (JobKind::Turn { .. }, Some(entry)) => format!("{test} of the schedule entry `{entry}`"),
            (JobKind::Turn { trigger: RunTrigger::Git, .. }, None) => format!("{test} for a new revision"),
            (JobKind::Turn { trigger: RunTrigger::Manual, .. }, None) => format!("{test} on request"),
            (JobKind::Turn { trigger: RunTrigger::Rollout, .. }, None) => format!("{test} for a rollout"),
            (JobKind::Turn { .. }, None) => format!("{test} on schedule"),
        }
    }

    /// Merges another equal job; false when it is different.
    fn merge(&mut self, other: &Self) -> bool {
        match (&mut self.kind, other.kind) {
            (JobKind::Probe, JobKind::Probe) => true,
            // A rollout step may run nothing at all, so a client that waits for a run needs a separate job.
            (JobKind::Turn { trigger, .. }, JobKind::Turn { trigger: other_trigger, .. })
                if (*trigger == RunTrigger::Rollout) != (other_trigger == RunTrigger::Rollout) =>
            {
                false
            }
            (
                JobKind::Turn { trigger, fetch },
                JobKind::Turn { trigger: other_trigger, fetch: other_fetch },
            ) if (self.test, &self.sls, &self.entry) == (other.test, &other.sls, &other.entry) => {
                // A turn that polls by itself stays one, and a newer poll replaces an older one.
                let polls_itself = *fetch && self.handover.is_none();
                if other_fetch && !polls_itself {
                    self.handover.clone_from(&other.handover);
                }
                *fetch |= other_fetch;
                if *trigger == RunTrigger::Timer {
                    *trigger = other_trigger;
                }
                self.tickets.extend(&other.tickets);
                true
            }
            _ => false,
        }
    }
}

/// Result of queuing a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueResult {
    /// It waits as its own job.
    Queued,
    /// It was merged into a waiting job.
    Merged,
}

/// Waiting jobs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    waiting: VecDeque<Job>,
}

impl JobQueue {
    pub(crate) fn push(&mut self, job: Job) -> QueueResult {
        if self.waiting.iter_mut().any(|waiting| waiting.merge(&job)) {
            return QueueResult::Merged;
        }
        self.waiting.push_back(job);
        QueueResult::Queued
    }

    pub(crate) fn pop(&mut self) -> Option<Job> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(trigger: RunTrigger, fetch: bool) -> Job {
        Job::new(JobKind::Turn { trigger, fetch })
    }

    #[test]
    fn equal_jobs_are_merged_and_nothing_is_lost() {
        let mut queue = JobQueue::default();
        queue.push(turn(RunTrigger::Timer, false));
        queue.push(Job { tickets: vec![Ticket(7)], ..turn(RunTrigger::Manual, true) });
        queue.push(Job {
            sls: vec!["web".into()],
            tickets: vec![Ticket(8)],
            ..turn(RunTrigger::Manual, true)
        });
        queue.push(Job { test: true, ..turn(RunTrigger::Manual, true) });
        queue.push(Job::new(JobKind::Probe));
        queue.push(Job::new(JobKind::Probe));
        queue.push(turn(RunTrigger::Rollout, true));
        queue.push(turn(RunTrigger::Rollout, true));
        let first = queue.pop().unwrap();
        assert_eq!(first.kind, JobKind::Turn { trigger: RunTrigger::Manual, fetch: true });
        assert_eq!(first.tickets, [Ticket(7)]);
        assert_eq!(queue.pop().unwrap().tickets, [Ticket(8)]);
        assert!(queue.pop().unwrap().test);
        assert_eq!(queue.pop().unwrap().kind, JobKind::Probe);
        assert_eq!(queue.pop(), Some(turn(RunTrigger::Rollout, true)), "a step of a rollout is no run");
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn the_process_gets_all_options() {
        let probe = Job::new(JobKind::Probe).args(&["--config".into(), "/x".into()], &["--more".into()]);
        assert_eq!(probe, ["show", "lowstate", "--config", "/x"], "a probe is no turn");
        assert_eq!(Job::new(JobKind::Probe).request(), None);
        let job = Job { test: true, sls: vec!["a".into(), "b.c".into()], ..turn(RunTrigger::Git, false) };
        let args = job.args(&["--config".into(), "/x".into()], &["--more".into()]);
        assert_eq!(args, ["turn", "--more", "--config", "/x"]);
        let request = job.request().unwrap();
        assert_eq!((request.trigger, request.fetch, request.test), (RunTrigger::Git, false, true));
        assert_eq!(request.sls, ["a", "b.c"]);
    }

    #[test]
    fn a_poll_is_handed_over_only_while_nobody_asks_for_a_newer_one() {
        let polled = |remote: usize| {
            let revision = "b".repeat(40).parse::<zagent_config::ids::Revision>().unwrap();
            let found = zagent_cache::source::RemoteHeads {
                remote,
                url: "https://git.example/states.git".into(),
                branch: "main".into(),
                head: Some(revision.clone()),
                testing: None,
                prefixed: Default::default(),
                directory: false,
            };
            let decision = crate::decide::SyncDecision::Take(revision, crate::decide::RevisionRole::Followed);
            let now = jiff::Timestamp::UNIX_EPOCH;
            Handover::new(&found, &decision, &crate::decide::NodeView::default(), now).map(Box::new)
        };
        let job = |remote| Job { handover: polled(remote), ..turn(RunTrigger::Git, true) };
        for (next, left) in [
            (turn(RunTrigger::Timer, false), polled(0)),
            (turn(RunTrigger::Manual, true), None),
            (job(1), polled(1)),
        ] {
            let mut queue = JobQueue::default();
            queue.push(job(0));
            assert_eq!(queue.push(next), QueueResult::Merged);
            assert_eq!(queue.pop().unwrap().handover, left);
        }
        // A run on request that waits polls by itself.
        let mut queue = JobQueue::default();
        queue.push(turn(RunTrigger::Manual, true));
        queue.push(job(0));
        assert_eq!(queue.pop().unwrap().handover, None);
    }
}
