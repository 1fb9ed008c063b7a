//! Process supervision: a state and an event in, the next state and the actions out.
//!
//! Law: total and pure; the time is an argument, measured from any fixed moment with a monotonic clock. A process that
//! exits is restarted after 2, 4, 8 … seconds, at most a minute; after ten failures in a row it is degraded and
//! restarted every ten minutes; a process that runs for half a minute is healthy, and the failure count is reset (held
//! by `each_wait_is_twice_the_last_up_to_a_minute_then_ten_minutes`,
//! `a_process_that_exits_at_once_is_degraded_after_ten_failures_until_it_is_healthy`).

use std::time::Duration;

use zagent_config::backoff::Backoff;

/// A moment: the time since the supervisor started.
pub type SupervisorTime = Duration;

/// The time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The wait that doubles with each failure.
    pub base_delay: Duration,
    /// The longest wait before it counts as degraded.
    pub max_delay: Duration,
    /// This many failures in a row make it degraded.
    pub degraded_after: u32,
    /// The restart interval when it is degraded.
    pub degraded_delay: Duration,
    /// How long it must run to be healthy.
    pub healthy_after: Duration,
    /// How long it may take to stop after the request.
    pub grace: Duration,
}

impl RestartPolicy {
    /// The values for a real host.
    pub const PRODUCTION: Self = Self {
        base_delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(60),
        degraded_after: 10,
        degraded_delay: Duration::from_secs(600),
        healthy_after: Duration::from_secs(30),
        grace: Duration::from_secs(90),
    };

    /// The wait after this many failures in a row.
    #[must_use]
    pub fn backoff(&self, failures: u32) -> Duration {
        if failures >= self.degraded_after {
            return self.degraded_delay;
        }
        Backoff::new(self.base_delay, self.max_delay).delay(failures)
    }
}

/// The state of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It waits for its next start.
    BackingOff {
        /// Until when.
        until: SupervisorTime,
    },
    /// It is being started; the answer is `Started` or `StartFailed`.
    Starting,
    /// It runs.
    Up {
        /// Since when.
        since: SupervisorTime,
    },
    /// It was asked to stop.
    Ending {
        /// When it is killed.
        kill_at: SupervisorTime,
        /// True when it is started again afterwards.
        again: bool,
    },
    /// It is stopped for good.
    Stopped,
}

/// A supervised process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisedProcess {
    /// Its state.
    pub state: ProcessState,
    /// Failures in a row.
    pub failures: u32,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It was started.
    Started,
    /// It could not be started.
    StartFailed,
    /// It exited.
    Ended,
    /// Time passes.
    Tick,
    /// Restart it now, whatever happened before.
    Restart,
    /// Stop it for good. The second time, it is killed.
    Stop,
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessAction {
    /// Start it.
    Start,
    /// Ask it to stop.
    Terminate,
    /// Kill it.
    Kill,
}

impl SupervisedProcess {
    /// A process to start at once.
    pub const NEW: Self = Self { state: ProcessState::BackingOff { until: Duration::ZERO }, failures: 0 };

    /// A process that another supervisor left: stop it, and then start it again.
    #[must_use]
    pub fn from_leftover(now: SupervisorTime, rules: &RestartPolicy) -> Self {
        Self { state: ProcessState::Ending { kill_at: now + rules.grace, again: true }, failures: 0 }
    }

    /// A process that runs.
    #[must_use]
    pub const fn running_since(since: SupervisorTime) -> Self {
        Self { state: ProcessState::Up { since }, failures: 0 }
    }

    /// True after too many failures in a row.
    #[must_use]
    pub const fn is_degraded(&self, rules: &RestartPolicy) -> bool {
        self.failures >= rules.degraded_after
    }

    /// True when it has run long enough.
    #[must_use]
    pub fn is_healthy(&self, now: SupervisorTime, rules: &RestartPolicy) -> bool {
        matches!(self.state, ProcessState::Up { since } if now >= since + rules.healthy_after)
    }

    /// True while it runs and was not asked to stop.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.state, ProcessState::Up { .. })
    }

    /// When [`step`] needs the next tick; `None` when nothing is due.
    #[must_use]
    pub fn next_due(&self, rules: &RestartPolicy) -> Option<SupervisorTime> {
        match self.state {
            ProcessState::BackingOff { until } => Some(until),
            ProcessState::Up { since } if self.failures > 0 => Some(since + rules.healthy_after),
            ProcessState::Ending { kill_at, .. } => Some(kill_at),
            ProcessState::Up { .. } | ProcessState::Starting | ProcessState::Stopped => None,
        }
    }

    fn record_failure(&mut self, now: SupervisorTime, rules: &RestartPolicy) {
        self.failures = self.failures.saturating_add(1);
        self.state = ProcessState::BackingOff { until: now + rules.backoff(self.failures) };
    }

    const fn start(&mut self) -> Option<ProcessAction> {
        self.state = ProcessState::Starting;
        Some(ProcessAction::Start)
    }
}

/// The next state after an event, and the actions to run.
#[must_use]
pub fn step(
    of: &SupervisedProcess,
    happened: ProcessEvent,
    now: SupervisorTime,
    rules: &RestartPolicy,
) -> (SupervisedProcess, Option<ProcessAction>) {
    let mut next = *of;
    let act = match (of.state, happened) {
        (ProcessState::BackingOff { until }, ProcessEvent::Tick) if now >= until => next.start(),
        (ProcessState::BackingOff { .. }, ProcessEvent::Restart) => {
            next.failures = 0;
            next.start()
        }
        (ProcessState::BackingOff { .. } | ProcessState::Starting, ProcessEvent::Stop) => {
            next.state = ProcessState::Stopped;
            None
        }
        (ProcessState::Starting, ProcessEvent::Started) => {
            next.state = ProcessState::Up { since: now };
            None
        }
        (ProcessState::Starting, ProcessEvent::StartFailed) => {
            next.record_failure(now, rules);
            None
        }
        (ProcessState::Up { since }, ProcessEvent::Tick) if now >= since + rules.healthy_after => {
            next.failures = 0;
            None
        }
        (ProcessState::Up { since }, ProcessEvent::Ended) => {
            if now >= since + rules.healthy_after {
                next.failures = 0;
            }
            next.record_failure(now, rules);
            None
        }
        (ProcessState::Up { .. }, ProcessEvent::Restart | ProcessEvent::Stop) => {
            next.failures = 0;
            let again = happened == ProcessEvent::Restart;
            next.state = ProcessState::Ending { kill_at: now + rules.grace, again };
            Some(ProcessAction::Terminate)
        }
        (ProcessState::Ending { again: true, .. }, ProcessEvent::Ended) => next.start(),
        (ProcessState::Ending { again: false, .. }, ProcessEvent::Ended) => {
            next.state = ProcessState::Stopped;
            None
        }
        (ProcessState::Ending { kill_at, again }, ProcessEvent::Tick) if now >= kill_at => {
            // Repeated after the same time: a process that is stuck in the kernel does not react at once.
            next.state = ProcessState::Ending { kill_at: now + rules.grace, again };
            Some(ProcessAction::Kill)
        }
        (ProcessState::Ending { kill_at, again: true }, ProcessEvent::Stop) => {
            next.state = ProcessState::Ending { kill_at, again: false };
            None
        }
        (ProcessState::Ending { again: false, .. }, ProcessEvent::Stop) => Some(ProcessAction::Kill),
        _ => None,
    };
    (next, act)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: RestartPolicy = RestartPolicy::PRODUCTION;

    const fn at(seconds: u64) -> SupervisorTime {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_wait_is_twice_the_last_up_to_a_minute_then_ten_minutes() {
        let waits: Vec<u64> = (1..12).map(|failures| RULES.backoff(failures).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60, 600, 600]);
        assert_eq!(RULES.backoff(u32::MAX), RULES.degraded_delay);
    }

    #[test]
    fn a_process_that_exits_at_once_is_degraded_after_ten_failures_until_it_is_healthy() {
        let (mut one, mut now) = (SupervisedProcess::NEW, at(0));
        let mut starts = Vec::new();
        for _ in 0..12 {
            now = one.next_due(&RULES).unwrap();
            let (starting, act) = step(&one, ProcessEvent::Tick, now, &RULES);
            assert_eq!(act, Some(ProcessAction::Start));
            starts.push(now.as_secs());
            let (up, _) = step(&starting, ProcessEvent::Started, now, &RULES);
            one = step(&up, ProcessEvent::Ended, now, &RULES).0;
        }
        assert_eq!(starts, [0, 2, 6, 14, 30, 62, 122, 182, 242, 302, 902, 1502]);
        assert!(one.is_degraded(&RULES));
        let (starting, _) = step(&one, ProcessEvent::Tick, one.next_due(&RULES).unwrap(), &RULES);
        let (up, _) = step(&starting, ProcessEvent::Started, now, &RULES);
        assert!(up.is_degraded(&RULES), "a start alone does not make it healthy");
        assert_eq!(up.next_due(&RULES), Some(now + at(30)));
        let (early, _) = step(&up, ProcessEvent::Tick, now + at(29), &RULES);
        assert!(early.is_degraded(&RULES));
        let (healthy, _) = step(&up, ProcessEvent::Tick, now + at(30), &RULES);
        assert!(healthy.is_healthy(now + at(30), &RULES) && !up.is_healthy(now + at(29), &RULES));
        assert!(!one.is_healthy(now + at(9999), &RULES), "it does not run");
        assert_eq!((healthy.failures, healthy.next_due(&RULES)), (0, None));
        // A process that ran long enough and exits starts again with the shortest wait.
        let (again, _) = step(&up, ProcessEvent::Ended, now + at(31), &RULES);
        assert_eq!(
            again,
            SupervisedProcess { state: ProcessState::BackingOff { until: now + at(33) }, failures: 1 }
        );
    }

    #[test]
    fn a_process_that_does_not_stop_is_killed() {
        let up = SupervisedProcess { state: ProcessState::Up { since: at(0) }, failures: 3 };
        let (ending, act) = step(&up, ProcessEvent::Stop, at(5), &RULES);
        assert_eq!(act, Some(ProcessAction::Terminate));
        assert_eq!(ending.next_due(&RULES), Some(at(95)));
        assert_eq!(step(&ending, ProcessEvent::Tick, at(94), &RULES), (ending, None));
        assert_eq!(step(&ending, ProcessEvent::Tick, at(95), &RULES).1, Some(ProcessAction::Kill));
        assert_eq!(
            step(&ending, ProcessEvent::Stop, at(6), &RULES).1,
            Some(ProcessAction::Kill),
            "asked twice"
        );
        let (off, _) = step(&ending, ProcessEvent::Ended, at(7), &RULES);
        assert_eq!(off.state, ProcessState::Stopped);
        for happened in ALL {
            assert_eq!(step(&off, happened, at(999), &RULES), (off, None), "{happened:?}");
        }
    }

    #[test]
    fn a_restart_waits_only_for_the_exit_of_the_old_process() {
        let up = SupervisedProcess { state: ProcessState::Up { since: at(0) }, failures: 9 };
        let (ending, act) = step(&up, ProcessEvent::Restart, at(5), &RULES);
        assert_eq!(act, Some(ProcessAction::Terminate));
        let (starting, act) = step(&ending, ProcessEvent::Ended, at(6), &RULES);
        assert_eq!(
            (starting, act),
            (SupervisedProcess { state: ProcessState::Starting, failures: 0 }, Some(ProcessAction::Start))
        );
        let resting = SupervisedProcess { state: ProcessState::BackingOff { until: at(600) }, failures: 12 };
        assert_eq!(
            step(&resting, ProcessEvent::Restart, at(5), &RULES),
            (starting, Some(ProcessAction::Start))
        );
        let (stopping, _) = step(&ending, ProcessEvent::Stop, at(6), &RULES);
        assert_eq!(step(&stopping, ProcessEvent::Ended, at(7), &RULES).0.state, ProcessState::Stopped);
        let orphan = SupervisedProcess::from_leftover(at(1), &RULES);
        assert_eq!(step(&orphan, ProcessEvent::Ended, at(2), &RULES).1, Some(ProcessAction::Start));
    }

    const ALL: [ProcessEvent; 6] = [
        ProcessEvent::Started,
        ProcessEvent::StartFailed,
        ProcessEvent::Ended,
        ProcessEvent::Tick,
        ProcessEvent::Restart,
        ProcessEvent::Stop,
    ];

    proptest! {
        /// For any order of events: never two processes at once, never one without a supervisor, and none after a stop.
        #[test]
        fn there_is_one_process_at_most_and_none_after_a_stop(
            history in proptest::collection::vec((0_usize..6, 0_u64..100), 0..200),
        ) {
            let (mut one, mut now, mut lives, mut stopped) = (SupervisedProcess::NEW, Duration::ZERO, false, false);
            for (n, passed) in history {
                now += at(passed);
                let happened = ALL[n];
                // The simulated world reports no start that was not requested, and no exit of a process that does not
                // run.
                match happened {
                    ProcessEvent::Ended if !lives => continue,
                    ProcessEvent::Started | ProcessEvent::StartFailed if one.state != ProcessState::Starting => continue,
                    ProcessEvent::Started => lives = true,
                    ProcessEvent::Ended => lives = false,
                    ProcessEvent::Stop => stopped = true,
                    _ => {}
                }
                let (next, act) = step(&one, happened, now, &RULES);
                match act {
                    Some(ProcessAction::Start) => {
                        prop_assert!(!lives && !stopped, "{one:?} {happened:?}");
                        // A start is answered before any other event.
                        let answer = if n % 2 == 0 { ProcessEvent::Started } else { ProcessEvent::StartFailed };
                        lives = answer == ProcessEvent::Started;
                        one = step(&next, answer, now, &RULES).0;
                    }
                    Some(ProcessAction::Terminate | ProcessAction::Kill) => {
                        prop_assert!(lives, "{one:?} {happened:?}");
                        one = next;
                    }
                    None => one = next,
                }
                prop_assert_eq!(lives, matches!(one.state, ProcessState::Up { .. } | ProcessState::Ending { .. }));
                let waits = one.next_due(&RULES).is_none_or(|due| due <= now + RULES.degraded_delay);
                prop_assert!(waits, "{:?}", one);
            }
        }
    }
}
