//! How a process is kept up: how it did and what happened in, how it does then and what to do out.
//!
//! Law: total and pure; the time is an argument, counted from any fixed moment that does not jump. A process that ends is
//! started again after 2, 4, 8 … seconds, at most a minute; after ten failures in a row it counts as degraded and is tried
//! every ten minutes; one that lives for half a minute is healthy, and all is forgiven.

use std::time::Duration;

/// A moment: the time since the supervisor began.
pub type Moment = Duration;

/// The lengths of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What is doubled with each failure.
    pub unit: Duration,
    /// The longest wait before it counts as degraded.
    pub most: Duration,
    /// So many failures in a row make it degraded.
    pub degraded_after: u32,
    /// How often it is tried then.
    pub slow: Duration,
    /// How long it must live to be healthy.
    pub healthy: Duration,
    /// How long it may take to end when it is told to.
    pub grace: Duration,
}

impl Rules {
    /// As on a real host.
    pub const REAL: Self = Self {
        unit: Duration::from_secs(1),
        most: Duration::from_secs(60),
        degraded_after: 10,
        slow: Duration::from_secs(600),
        healthy: Duration::from_secs(30),
        grace: Duration::from_secs(90),
    };

    /// How long to wait after so many failures in a row.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Duration {
        if failures >= self.degraded_after {
            return self.slow;
        }
        self.unit.saturating_mul(2_u32.saturating_pow(failures)).min(self.most)
    }
}

/// How the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It waits for its next start.
    Resting {
        /// Until when.
        until: Moment,
    },
    /// It is being started; the answer is `Started` or `NotStarted`.
    Starting,
    /// It lives.
    Up {
        /// Since when.
        since: Moment,
    },
    /// It was told to end.
    Ending {
        /// When it is ended by force.
        kill_at: Moment,
        /// True when it is started again then.
        again: bool,
    },
    /// It is not wanted any more.
    Off,
}

/// A process that is kept up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervised {
    /// How it does.
    pub life: Life,
    /// Failures in a row.
    pub failures: u32,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It was started.
    Started,
    /// It could not be started.
    NotStarted,
    /// It ended.
    Ended,
    /// Time passes.
    Tick,
    /// It is to be started anew: now, whatever happened before.
    Restart,
    /// It is to end for good. Said twice, it is ended by force.
    Stop,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start it.
    Start,
    /// Tell it to end.
    Terminate,
    /// End it.
    Kill,
}

impl Supervised {
    /// A process that is to be started at once.
    pub const NEW: Self = Self { life: Life::Resting { until: Duration::ZERO }, failures: 0 };

    /// A process that somebody else has left behind: it is told to end, and then started anew.
    #[must_use]
    pub fn left_behind(now: Moment, rules: &Rules) -> Self {
        Self { life: Life::Ending { kill_at: now + rules.grace, again: true }, failures: 0 }
    }

    /// A process that lives.
    #[must_use]
    pub const fn living(since: Moment) -> Self {
        Self { life: Life::Up { since }, failures: 0 }
    }

    /// True after too many failures in a row.
    #[must_use]
    pub const fn is_degraded(&self, rules: &Rules) -> bool {
        self.failures >= rules.degraded_after
    }

    /// True while it lives and was not told to end.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.life, Life::Up { .. })
    }

    /// When [`step`] should hear of the time again; none when nothing is due.
    #[must_use]
    pub fn due(&self, rules: &Rules) -> Option<Moment> {
        match self.life {
            Life::Resting { until } => Some(until),
            Life::Up { since } if self.failures > 0 => Some(since + rules.healthy),
            Life::Ending { kill_at, .. } => Some(kill_at),
            Life::Up { .. } | Life::Starting | Life::Off => None,
        }
    }

    fn failed(&mut self, now: Moment, rules: &Rules) {
        self.failures = self.failures.saturating_add(1);
        self.life = Life::Resting { until: now + rules.wait(self.failures) };
    }

    const fn start(&mut self) -> Option<Act> {
        self.life = Life::Starting;
        Some(Act::Start)
    }
}

/// What follows from what happened, and what is to be done about it.
#[must_use]
pub fn step(of: &Supervised, happened: Happening, now: Moment, rules: &Rules) -> (Supervised, Option<Act>) {
    let mut next = *of;
    let act = match (of.life, happened) {
        (Life::Resting { until }, Happening::Tick) if now >= until => next.start(),
        (Life::Resting { .. }, Happening::Restart) => {
            next.failures = 0;
            next.start()
        }
        (Life::Resting { .. } | Life::Starting, Happening::Stop) => {
            next.life = Life::Off;
            None
        }
        (Life::Starting, Happening::Started) => {
            next.life = Life::Up { since: now };
            None
        }
        (Life::Starting, Happening::NotStarted) => {
            next.failed(now, rules);
            None
        }
        (Life::Up { since }, Happening::Tick) if now >= since + rules.healthy => {
            next.failures = 0;
            None
        }
        (Life::Up { since }, Happening::Ended) => {
            if now >= since + rules.healthy {
                next.failures = 0;
            }
            next.failed(now, rules);
            None
        }
        (Life::Up { .. }, Happening::Restart | Happening::Stop) => {
            next.failures = 0;
            let again = happened == Happening::Restart;
            next.life = Life::Ending { kill_at: now + rules.grace, again };
            Some(Act::Terminate)
        }
        (Life::Ending { again: true, .. }, Happening::Ended) => next.start(),
        (Life::Ending { again: false, .. }, Happening::Ended) => {
            next.life = Life::Off;
            None
        }
        (Life::Ending { kill_at, again }, Happening::Tick) if now >= kill_at => {
            // Said again after as long: one that is stuck in the kernel does not hear it at once.
            next.life = Life::Ending { kill_at: now + rules.grace, again };
            Some(Act::Kill)
        }
        (Life::Ending { kill_at, again: true }, Happening::Stop) => {
            next.life = Life::Ending { kill_at, again: false };
            None
        }
        (Life::Ending { again: false, .. }, Happening::Stop) => Some(Act::Kill),
        _ => None,
    };
    (next, act)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules::REAL;

    const fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_wait_is_twice_the_last_up_to_a_minute_then_ten_minutes() {
        let waits: Vec<u64> = (1..12).map(|failures| RULES.wait(failures).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60, 600, 600]);
        assert_eq!(RULES.wait(u32::MAX), RULES.slow);
    }

    #[test]
    fn a_process_that_always_ends_at_once_is_degraded_after_ten_and_forgiven_when_it_lives() {
        let (mut one, mut now) = (Supervised::NEW, at(0));
        let mut starts = Vec::new();
        for _ in 0..12 {
            now = one.due(&RULES).unwrap();
            let (starting, act) = step(&one, Happening::Tick, now, &RULES);
            assert_eq!(act, Some(Act::Start));
            starts.push(now.as_secs());
            let (up, _) = step(&starting, Happening::Started, now, &RULES);
            one = step(&up, Happening::Ended, now, &RULES).0;
        }
        assert_eq!(starts, [0, 2, 6, 14, 30, 62, 122, 182, 242, 302, 902, 1502]);
        assert!(one.is_degraded(&RULES));
        let (starting, _) = step(&one, Happening::Tick, one.due(&RULES).unwrap(), &RULES);
        let (up, _) = step(&starting, Happening::Started, now, &RULES);
        assert!(up.is_degraded(&RULES), "a start alone proves nothing");
        assert_eq!(up.due(&RULES), Some(now + at(30)));
        let (early, _) = step(&up, Happening::Tick, now + at(29), &RULES);
        assert!(early.is_degraded(&RULES));
        let (healthy, _) = step(&up, Happening::Tick, now + at(30), &RULES);
        assert_eq!((healthy.failures, healthy.due(&RULES)), (0, None));
        // One that lived long enough and ends begins anew with the shortest wait.
        let (again, _) = step(&up, Happening::Ended, now + at(31), &RULES);
        assert_eq!(again, Supervised { life: Life::Resting { until: now + at(33) }, failures: 1 });
    }

    #[test]
    fn what_is_told_to_end_is_ended_by_force_when_it_does_not() {
        let up = Supervised { life: Life::Up { since: at(0) }, failures: 3 };
        let (ending, act) = step(&up, Happening::Stop, at(5), &RULES);
        assert_eq!(act, Some(Act::Terminate));
        assert_eq!(ending.due(&RULES), Some(at(95)));
        assert_eq!(step(&ending, Happening::Tick, at(94), &RULES), (ending, None));
        assert_eq!(step(&ending, Happening::Tick, at(95), &RULES).1, Some(Act::Kill));
        assert_eq!(step(&ending, Happening::Stop, at(6), &RULES).1, Some(Act::Kill), "told twice");
        let (off, _) = step(&ending, Happening::Ended, at(7), &RULES);
        assert_eq!(off.life, Life::Off);
        for happened in ALL {
            assert_eq!(step(&off, happened, at(999), &RULES), (off, None), "{happened:?}");
        }
    }

    #[test]
    fn a_restart_waits_for_the_end_of_the_old_one_and_for_nothing_else() {
        let up = Supervised { life: Life::Up { since: at(0) }, failures: 9 };
        let (ending, act) = step(&up, Happening::Restart, at(5), &RULES);
        assert_eq!(act, Some(Act::Terminate));
        let (starting, act) = step(&ending, Happening::Ended, at(6), &RULES);
        assert_eq!((starting, act), (Supervised { life: Life::Starting, failures: 0 }, Some(Act::Start)));
        let resting = Supervised { life: Life::Resting { until: at(600) }, failures: 12 };
        assert_eq!(step(&resting, Happening::Restart, at(5), &RULES), (starting, Some(Act::Start)));
        let (stopping, _) = step(&ending, Happening::Stop, at(6), &RULES);
        assert_eq!(step(&stopping, Happening::Ended, at(7), &RULES).0.life, Life::Off);
        let orphan = Supervised::left_behind(at(1), &RULES);
        assert_eq!(step(&orphan, Happening::Ended, at(2), &RULES).1, Some(Act::Start));
    }

    const ALL: [Happening; 6] = [
        Happening::Started,
        Happening::NotStarted,
        Happening::Ended,
        Happening::Tick,
        Happening::Restart,
        Happening::Stop,
    ];

    proptest! {
        /// Whatever happens in whatever order: never two at once, never one that nobody waits for, and after a stop none.
        #[test]
        fn there_is_one_process_at_most_and_none_after_a_stop(
            history in proptest::collection::vec((0_usize..6, 0_u64..100), 0..200),
        ) {
            let (mut one, mut now, mut lives, mut stopped) = (Supervised::NEW, Duration::ZERO, false, false);
            for (n, passed) in history {
                now += at(passed);
                let happened = ALL[n];
                // The world does not tell of a start that was not asked for, nor of an end of nobody.
                match happened {
                    Happening::Ended if !lives => continue,
                    Happening::Started | Happening::NotStarted if one.life != Life::Starting => continue,
                    Happening::Started => lives = true,
                    Happening::Ended => lives = false,
                    Happening::Stop => stopped = true,
                    _ => {}
                }
                let (next, act) = step(&one, happened, now, &RULES);
                match act {
                    Some(Act::Start) => {
                        prop_assert!(!lives && !stopped, "{one:?} {happened:?}");
                        // A start is answered before anything else is heard.
                        let answer = if n % 2 == 0 { Happening::Started } else { Happening::NotStarted };
                        lives = answer == Happening::Started;
                        one = step(&next, answer, now, &RULES).0;
                    }
                    Some(Act::Terminate | Act::Kill) => {
                        prop_assert!(lives, "{one:?} {happened:?}");
                        one = next;
                    }
                    None => one = next,
                }
                prop_assert_eq!(lives, matches!(one.life, Life::Up { .. } | Life::Ending { .. }));
                let waits = one.due(&RULES).is_none_or(|due| due <= now + RULES.slow);
                prop_assert!(waits, "{:?}", one);
            }
        }
    }
}
