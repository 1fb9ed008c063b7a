//! The files of an operator in, what holds the node back out.
//!
//! Law: a file that is damaged holds the node where it is: whoever wrote it meant something.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::ids::Revision;
use zagent_config::paths::Paths;
use zagent_config::settings::Window;

use super::course::Course;
use super::memory::Why;
use crate::operate::pause::Pause;
use crate::operate::pin::Pin;
use crate::operate::quarantine::Quarantine;
use crate::operate::{KeptError, wall, windows};
use crate::report::chain;

/// What operators ask of this node.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The pause, when there is one.
    pub pause: Option<Pause>,
    /// What the node is pinned to.
    pub pin: Option<Pin>,
    /// Revisions that failed their health checks.
    pub quarantine: Quarantine,
    /// What rollouts say.
    pub course: Course,
    /// What could not be read.
    pub damaged: Option<String>,
}

impl Orders {
    /// Reads them.
    #[must_use]
    pub fn read(paths: &Paths, now: Timestamp) -> Self {
        let mut orders = Self::default();
        let mut damaged = Vec::new();
        fn kept<T>(read: Result<T, KeptError>, damaged: &mut Vec<String>) -> Option<T> {
            read.map_err(|error| damaged.push(chain(&error))).ok()
        }
        orders.pause = kept(Pause::read(paths, now), &mut damaged).flatten();
        orders.pin = kept(Pin::read(paths), &mut damaged).flatten();
        orders.quarantine = kept(Quarantine::read(paths), &mut damaged).unwrap_or_default();
        orders.course = kept(Course::read(paths), &mut damaged).unwrap_or_default();
        orders.damaged = (!damaged.is_empty()).then(|| damaged.join("; "));
        orders
    }

    /// Why nothing may be changed now, in words that name a way out.
    #[must_use]
    pub fn obstacle(&self, windows: &[Window], now: Timestamp, zone: &TimeZone) -> Option<(Why, String)> {
        if let Some(damaged) = &self.damaged {
            let way = "`zagent resume`, `zagent unpin` or `zagent quarantine clear --all` removes the file, and the daemon \
                       moves that of rollouts away by itself";
            return Some((
                Why::Paused,
                format!("{damaged}; the node stays as it is until that is mended: {way}"),
            ));
        }
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.holds(now)) {
            return Some((Why::Paused, format!("{}; `zagent resume` ends that", pause.words(now, zone))));
        }
        match windows::is_open(windows, now, zone) {
            windows::Standing::Open { .. } => None,
            windows::Standing::Closed { opens } => {
                let when = opens.map_or("at no time to come".into(), |at| wall(at, now, zone));
                Some((Why::Window, format!("no maintenance window is open; the next opens {when}")))
            }
        }
    }

    /// Why a rollout may not begin anything here now, for those who wait for it elsewhere: the same words as long as it is the
    /// same reason. An emergency does not wait for a window.
    #[must_use]
    pub fn hold(&self, windows: &[Window], now: Timestamp, zone: &TimeZone) -> Option<String> {
        let until = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string();
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.holds(now)) {
            let end = pause.until.map_or("without an end".into(), |at| format!("until {}", until(at)));
            let why = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            return Some(format!("paused {end} by {}{why}", pause.by));
        }
        if self.course.is_emergency(now) {
            return None;
        }
        match windows::is_open(windows, now, zone) {
            windows::Standing::Open { .. } => None,
            windows::Standing::Closed { opens: None } => Some("outside of its windows for ever".into()),
            windows::Standing::Closed { opens: Some(at) } => {
                Some(format!("outside of its window until {}", until(at)))
            }
        }
    }

    /// The revisions that are not tried again, and since when.
    #[must_use]
    pub fn quarantined(&self) -> Vec<(Revision, Timestamp)> {
        self.quarantine.list().iter().map(|one| (one.revision.clone(), one.since)).collect()
    }

    /// Why a revision is not tried again.
    #[must_use]
    pub fn quarantine_words(&self, revision: &Revision) -> String {
        let reason = self.quarantine.find(revision).map_or("no reason is noted", |one| one.reason.as_str());
        format!(
            "it is quarantined: {reason}; push a new revision, or `zagent quarantine clear {}`",
            revision.short()
        )
    }
}
