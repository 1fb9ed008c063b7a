//! What the daemon starts a process for, and the queue of it: like joins like.

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::api::Ticket;
use zagent_run::RunTrigger;

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// To see whether the current generation compiles.
    Probe,
    /// A turn.
    Turn {
        /// What started it.
        trigger: RunTrigger,
        /// True when the remotes are asked first.
        fetch: bool,
    },
}

/// One process that should be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub kind: JobKind,
    /// True when nothing may be changed.
    pub test: bool,
    /// What is run; what the top files select when empty.
    pub sls: Vec<String>,
    /// The entry of the schedule that it is for.
    pub entry: Option<String>,
    /// Who waits for it.
    pub tickets: Vec<Ticket>,
}

impl Job {
    pub const fn new(what: JobKind) -> Self {
        Self { kind: what, test: false, sls: Vec::new(), entry: None, tickets: Vec::new() }
    }

    /// The command line, after the program.
    pub fn args(&self, common: &[OsString], turns: &[OsString]) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        match self.kind {
            JobKind::Probe => args.extend(["show", "lowstate"].map(OsString::from)),
            JobKind::Turn { trigger, fetch } => {
                args.extend(["run", "--once", "--trigger", trigger.as_str()].map(OsString::from));
                if !fetch {
                    args.push("--no-fetch".into());
                }
                if self.test {
                    args.push("--test".into());
                }
                if !self.sls.is_empty() {
                    args.push(format!("--sls={}", self.sls.join(",")).into());
                }
                args.extend(turns.iter().cloned());
            }
        }
        args.extend(common.iter().cloned());
        args
    }

    /// What it is, for people.
    pub fn label(&self) -> String {
        let test = if self.test { "a dry run" } else { "a run" };
        match (self.kind, &self.entry) {
            (JobKind::Probe, _) => "looking whether the states compile".into(),
            (JobKind::Turn { .. }, Some(entry)) => format!("{test} of the entry `{entry}`"),
            (JobKind::Turn { trigger: RunTrigger::Git, .. }, None) => format!("{test} for a new revision"),
            (JobKind::Turn { trigger: RunTrigger::Manual, .. }, None) => format!("{test} that was asked for"),
            (JobKind::Turn { trigger: RunTrigger::Rollout, .. }, None) => format!("{test} for a rollout"),
            (JobKind::Turn { .. }, None) => format!("{test} by the clock"),
        }
    }

    /// Joins another that asks for the same; false when it does not.
    fn merge(&mut self, other: &Self) -> bool {
        match (&mut self.kind, other.kind) {
            (JobKind::Probe, JobKind::Probe) => true,
            // A step of a rollout may run nothing at all: whoever waits for a run waits for another one.
            (JobKind::Turn { trigger, .. }, JobKind::Turn { trigger: other_trigger, .. })
                if (*trigger == RunTrigger::Rollout) != (other_trigger == RunTrigger::Rollout) =>
            {
                false
            }
            (
                JobKind::Turn { trigger, fetch },
                JobKind::Turn { trigger: other_trigger, fetch: other_fetch },
            ) if (self.test, &self.sls, &self.entry) == (other.test, &other.sls, &other.entry) => {
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

/// What became of an errand in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueResult {
    /// It waits by itself.
    Queued,
    /// It is part of another that waits.
    Merged,
}

/// Errands that wait, the oldest first.
#[derive(Debug, Default)]
pub struct JobQueue {
    waiting: VecDeque<Job>,
}

impl JobQueue {
    pub fn push(&mut self, job: Job) -> QueueResult {
        if self.waiting.iter_mut().any(|waiting| waiting.merge(&job)) {
            return QueueResult::Merged;
        }
        self.waiting.push_back(job);
        QueueResult::Queued
    }

    pub fn pop(&mut self) -> Option<Job> {
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
    fn like_joins_like_and_nothing_is_lost() {
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
    fn the_command_line_says_it_all() {
        let probe = Job::new(JobKind::Probe).args(&["--config".into(), "/x".into()], &["--more".into()]);
        assert_eq!(probe, ["show", "lowstate", "--config", "/x"], "a probe is no turn");
        let job = Job { test: true, sls: vec!["a".into(), "b.c".into()], ..turn(RunTrigger::Git, false) };
        let args = job.args(&["--config".into(), "/x".into()], &["--more".into()]);
        assert_eq!(
            args,
            [
                "run",
                "--once",
                "--trigger",
                "git",
                "--no-fetch",
                "--test",
                "--sls=a,b.c",
                "--more",
                "--config",
                "/x"
            ]
        );
    }
}
