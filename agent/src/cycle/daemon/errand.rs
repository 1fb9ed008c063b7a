//! What the daemon starts a process for, and the queue of it: like joins like.

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::api::Ticket;
use crate::run::Trigger;

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// To see whether the current generation compiles.
    Probe,
    /// A turn.
    Turn {
        /// What started it.
        trigger: Trigger,
        /// True when the remotes are asked first.
        fetch: bool,
    },
}

/// One process that should be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    pub(super) what: What,
    /// True when nothing may be changed.
    pub(super) test: bool,
    /// What is run; what the top files select when empty.
    pub(super) sls: Vec<String>,
    /// The entry of the schedule that it is for.
    pub(super) entry: Option<String>,
    /// Who waits for it.
    pub(super) tickets: Vec<Ticket>,
}

impl Errand {
    pub(super) const fn new(what: What) -> Self {
        Self { what, test: false, sls: Vec::new(), entry: None, tickets: Vec::new() }
    }

    /// The command line, after the program.
    pub(super) fn args(&self, common: &[OsString], turns: &[OsString]) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        match self.what {
            What::Probe => args.extend(["show", "lowstate"].map(OsString::from)),
            What::Turn { trigger, fetch } => {
                args.extend(["run", "--once", "--trigger", trigger.word()].map(OsString::from));
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
    pub(super) fn words(&self) -> String {
        let test = if self.test { "a dry run" } else { "a run" };
        match (self.what, &self.entry) {
            (What::Probe, _) => "looking whether the states compile".into(),
            (What::Turn { .. }, Some(entry)) => format!("{test} of the entry `{entry}`"),
            (What::Turn { trigger: Trigger::Git, .. }, None) => format!("{test} for a new revision"),
            (What::Turn { trigger: Trigger::Manual, .. }, None) => format!("{test} that was asked for"),
            (What::Turn { trigger: Trigger::Rollout, .. }, None) => format!("{test} for a rollout"),
            (What::Turn { .. }, None) => format!("{test} by the clock"),
        }
    }

    /// Joins another that asks for the same; false when it does not.
    fn joins(&mut self, other: &Self) -> bool {
        match (&mut self.what, other.what) {
            (What::Probe, What::Probe) => true,
            // A step of a rollout may run nothing at all: whoever waits for a run waits for another one.
            (What::Turn { trigger, .. }, What::Turn { trigger: other_trigger, .. })
                if (*trigger == Trigger::Rollout) != (other_trigger == Trigger::Rollout) =>
            {
                false
            }
            (What::Turn { trigger, fetch }, What::Turn { trigger: other_trigger, fetch: other_fetch })
                if (self.test, &self.sls, &self.entry) == (other.test, &other.sls, &other.entry) =>
            {
                *fetch |= other_fetch;
                if *trigger == Trigger::Timer {
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
pub(super) enum Joined {
    /// It waits by itself.
    Nothing,
    /// It is part of another that waits.
    Another,
}

/// Errands that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Errand>,
}

impl Queue {
    pub(super) fn push(&mut self, errand: Errand) -> Joined {
        if self.waiting.iter_mut().any(|waiting| waiting.joins(&errand)) {
            return Joined::Another;
        }
        self.waiting.push_back(errand);
        Joined::Nothing
    }

    pub(super) fn pop(&mut self) -> Option<Errand> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(trigger: Trigger, fetch: bool) -> Errand {
        Errand::new(What::Turn { trigger, fetch })
    }

    #[test]
    fn like_joins_like_and_nothing_is_lost() {
        let mut queue = Queue::default();
        queue.push(turn(Trigger::Timer, false));
        queue.push(Errand { tickets: vec![Ticket(7)], ..turn(Trigger::Manual, true) });
        queue.push(Errand {
            sls: vec!["web".into()],
            tickets: vec![Ticket(8)],
            ..turn(Trigger::Manual, true)
        });
        queue.push(Errand { test: true, ..turn(Trigger::Manual, true) });
        queue.push(Errand::new(What::Probe));
        queue.push(Errand::new(What::Probe));
        queue.push(turn(Trigger::Rollout, true));
        queue.push(turn(Trigger::Rollout, true));
        let first = queue.pop().unwrap();
        assert_eq!(first.what, What::Turn { trigger: Trigger::Manual, fetch: true });
        assert_eq!(first.tickets, [Ticket(7)]);
        assert_eq!(queue.pop().unwrap().tickets, [Ticket(8)]);
        assert!(queue.pop().unwrap().test);
        assert_eq!(queue.pop().unwrap().what, What::Probe);
        assert_eq!(queue.pop(), Some(turn(Trigger::Rollout, true)), "a step of a rollout is no run");
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn the_command_line_says_it_all() {
        let probe = Errand::new(What::Probe).args(&["--config".into(), "/x".into()], &["--more".into()]);
        assert_eq!(probe, ["show", "lowstate", "--config", "/x"], "a probe is no turn");
        let errand = Errand { test: true, sls: vec!["a".into(), "b.c".into()], ..turn(Trigger::Git, false) };
        let args = errand.args(&["--config".into(), "/x".into()], &["--more".into()]);
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
