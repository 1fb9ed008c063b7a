//! The deadline of a turn: one moment that limits every wait.

#![expect(clippy::disallowed_methods, reason = "a deadline is a moment of the clock")]

use std::time::{Duration, Instant};

/// The moment when everything that was started must have ended.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline after this duration from now.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        let now = Instant::now();
        // A time that no clock can represent becomes one year.
        Self(now.checked_add(time).unwrap_or(now + Duration::from_secs(365 * 24 * 60 * 60)))
    }

    /// The remaining time; `None` when the deadline has passed.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.0.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes_once() {
        assert_eq!(Deadline::after(Duration::ZERO).remaining(), None);
        assert!(Deadline::after(Duration::from_secs(60)).remaining() > Some(Duration::from_secs(50)));
        assert!(Deadline::after(Duration::MAX).remaining().is_some());
    }
}
