//! Operator files in, what holds the node back out.
//!
//! Law: a damaged file holds the node where it is: an operator wrote it for a reason (held by
//! `a_pin_is_saved_and_damage_is_reported`, `damage_does_not_end_a_pause`).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::ids::Revision;
use zagent_config::paths::Paths;
use zagent_config::settings::MaintenanceWindow;

use crate::held_revision::HoldReason;
use crate::operator::pause::Pause;
use crate::operator::pin::NodePin;
use crate::operator::quarantine::Quarantine;
use crate::operator::{clock_text, windows};
use crate::rollout_state::RolloutState;
use zagent_config::error_chain;
use zagent_config::json_file::JsonFileError;

/// Orders of operators for this node.
#[derive(Clone, Debug, Default)]
pub struct OperatorOrders {
    /// The pause, when there is one.
    pub pause: Option<Pause>,
    /// Pin.
    pub pin: Option<NodePin>,
    /// Revisions that failed their health checks.
    pub quarantine: Quarantine,
    /// State of rollouts.
    pub(crate) rollout_state: RolloutState,
    /// What could not be read.
    pub damaged: Option<String>,
}

impl OperatorOrders {
    /// Reads them.
    #[must_use]
    pub fn read(paths: &Paths, now: Timestamp) -> Self {
        let mut orders = Self::default();
        let mut damaged = Vec::new();
        fn read_or_note<T>(read: Result<T, JsonFileError>, damaged: &mut Vec<String>) -> Option<T> {
            read.map_err(|error| damaged.push(error_chain(&error))).ok()
        }
        orders.pause = read_or_note(Pause::read(paths, now), &mut damaged).flatten();
        orders.pin = read_or_note(NodePin::read(paths), &mut damaged).flatten();
        orders.quarantine = read_or_note(Quarantine::read(paths), &mut damaged).unwrap_or_default();
        orders.rollout_state = read_or_note(RolloutState::read(paths), &mut damaged).unwrap_or_default();
        orders.damaged = (!damaged.is_empty()).then(|| damaged.join("; "));
        orders
    }

    /// Why nothing may be changed now, with what to do.
    #[must_use]
    pub(crate) fn change_obstacle(
        &self,
        windows: &[MaintenanceWindow],
        now: Timestamp,
        zone: &TimeZone,
    ) -> Option<(HoldReason, String)> {
        if let Some(damaged) = &self.damaged {
            let way = "remove the file with `zagent resume`, `zagent unpin` or `zagent quarantine clear \
                       --all`; the daemon moves a damaged rollout file aside itself";
            return Some((
                HoldReason::Paused,
                format!("{damaged}; the node changes nothing until this is fixed: {way}"),
            ));
        }
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.is_active(now)) {
            return Some((
                HoldReason::Paused,
                format!("{}; resume with `zagent resume`", pause.summary(now, zone)),
            ));
        }
        match windows::window_state(windows, now, zone) {
            windows::WindowState::Open { .. } => None,
            windows::WindowState::Closed { opens } => {
                let when = opens.map_or("never".into(), |at| clock_text(at, now, zone));
                Some((HoldReason::Window, format!("no maintenance window is open; the next opens {when}")))
            }
        }
    }

    /// Why a rollout may not start anything here now, for those who wait elsewhere: the text is stable as
    /// long as the reason is the same. An emergency does not wait for a window.
    #[must_use]
    pub(crate) fn rollout_obstacle(
        &self,
        windows: &[MaintenanceWindow],
        now: Timestamp,
        zone: &TimeZone,
    ) -> Option<String> {
        let until = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string();
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.is_active(now)) {
            let end = pause.until.map_or("without an end".into(), |at| format!("until {}", until(at)));
            let why = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            return Some(format!("paused {end} by {}{why}", pause.by));
        }
        if self.rollout_state.is_emergency(now) {
            return None;
        }
        match windows::window_state(windows, now, zone) {
            windows::WindowState::Open { .. } => None,
            windows::WindowState::Closed { opens: None } => {
                Some("outside its windows, none will open".into())
            }
            windows::WindowState::Closed { opens: Some(at) } => {
                Some(format!("outside its window until {}", until(at)))
            }
        }
    }

    /// Quarantined revisions, and since when.
    #[must_use]
    pub(crate) fn quarantined_revisions(&self) -> Vec<(Revision, Timestamp)> {
        self.quarantine.list().iter().map(|one| (one.revision.clone(), one.since)).collect()
    }

    /// Why a revision is not tried again.
    #[must_use]
    pub(crate) fn quarantine_reason(&self, revision: &Revision) -> String {
        let reason = self.quarantine.find(revision).map_or("no reason recorded", |one| one.reason.as_str());
        format!(
            "it is quarantined: {reason}; push a new revision, or `zagent quarantine clear {}`",
            revision.short()
        )
    }
}
