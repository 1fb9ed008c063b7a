//! A pause: while it lasts, the node keeps its state and makes no automatic changes.
//!
//! Law: a pause ends. A pause without an end must be requested explicitly, and is shown as such (held by
//! `a_pause_holds_until_its_end`).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use zagent_config::paths::Paths;

use super::time_text::{clock_text, span_text};
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// A pause, as requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Start time.
    pub since: Timestamp,
    /// End time; without an end when none.
    pub until: Option<Timestamp>,
    /// Reason.
    pub reason: Option<String>,
    /// User who requested it.
    pub by: String,
}

impl Pause {
    /// The active pause; `None` when it is over.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read: the node must then behave as if paused.
    pub fn read(paths: &Paths, now: Timestamp) -> Result<Option<Self>, JsonFileError> {
        Ok(json_file::read(&paths.pause())?.filter(|pause: &Self| pause.is_active(now)))
    }

    /// True while it lasts.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Writes it, replacing an earlier one.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn write(&self, paths: &Paths) -> Result<(), JsonFileError> {
        json_file::write(&paths.pause(), self)
    }

    /// Removes it; true when there was one, over or not. Removes a damaged file as well.
    ///
    /// # Errors
    /// Fails when it cannot be removed.
    pub fn clear(paths: &Paths) -> Result<bool, JsonFileError> {
        json_file::remove(&paths.pause())
    }

    /// `paused until 14:00 (in 3h 20m) by root: disk swap`.
    #[must_use]
    pub fn summary(&self, now: Timestamp, zone: &TimeZone) -> String {
        let end = match self.until {
            Some(until) => format!("until {} (in {})", clock_text(until, now, zone), span_text(now, until)),
            None => format!("without an end (for {} now)", span_text(self.since, now)),
        };
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("paused {end} by {}{reason}", self.by)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pause_holds_until_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let now: Timestamp = "2026-11-16T10:40:00Z".parse().unwrap();
        assert_eq!(Pause::read(&paths, now).unwrap(), None);
        let until = now + Duration::from_secs(12_000);
        let mut pause =
            Pause { since: now, until: Some(until), reason: Some("disk swap".into()), by: "root".into() };
        pause.write(&paths).unwrap();
        assert_eq!(Pause::read(&paths, now).unwrap().as_ref(), Some(&pause));
        assert_eq!(pause.summary(now, &TimeZone::UTC), "paused until 14:00 (in 3h 20m) by root: disk swap");
        assert!(Pause::read(&paths, until - Duration::from_secs(1)).unwrap().is_some());
        assert_eq!(Pause::read(&paths, until).unwrap(), None, "it is over by itself");
        pause.until = None;
        pause.reason = None;
        pause.write(&paths).unwrap();
        assert!(Pause::read(&paths, Timestamp::MAX).unwrap().is_some());
        assert_eq!(pause.summary(until, &TimeZone::UTC), "paused without an end (for 3h 20m now) by root");
        assert!(Pause::clear(&paths).unwrap() && !Pause::clear(&paths).unwrap());
    }

    #[test]
    fn damage_does_not_end_a_pause() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        std::fs::create_dir_all(paths.pause().parent().unwrap()).unwrap();
        std::fs::write(paths.pause(), "{").unwrap();
        let told = Pause::read(&paths, Timestamp::UNIX_EPOCH).unwrap_err().to_string();
        assert!(told.contains("state/pause` is damaged"), "{told}");
        assert!(Pause::clear(&paths).unwrap());
        assert_eq!(Pause::read(&paths, Timestamp::UNIX_EPOCH).unwrap(), None);
    }
}
