//! The state that the watchdog needs after it was replaced or died.
//!
//! Law: a new watchdog is tried twice. One that dies before it was healthy is not used again: the installed one
//! continues (held by `a_new_watchdog_is_tried_twice_and_a_healthy_one_always_restarts`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::process::ProcessIdentity;
use crate::slots::AgentProgram;

/// How many times a watchdog may die before it was healthy.
const MAX_TRIES: u32 = 2;

/// The saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedWatchdog {
    /// The agent that was started last.
    pub child: Option<StartedAgent>,
    /// The program that is about to be started: if it is set, there may be an agent that was not recorded.
    pub starting: Option<AgentProgram>,
    /// The program from the package.
    pub installed: Option<AgentProgram>,
    /// The watchdog that this one will become, or became.
    pub renewal: Option<WatchdogUpdate>,
    /// True while a watchdog runs: when the next one finds it, the last one was killed, or the host crashed.
    pub open: bool,
    /// The number of a write of the node's state that certainly happened: an older copy is not the last one.
    #[serde(skip)]
    pub sequence: u64,
    /// Damage that was found and repaired, until the next version is confirmed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageNote>,
}

/// Damage that was found and repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamageNote {
    /// Which file, the problem, and what followed from it.
    pub text: String,
    /// When.
    pub at: Timestamp,
}

/// An agent that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedAgent {
    /// Which process.
    pub process: ProcessIdentity,
    /// Which version.
    pub version: String,
    /// Since when.
    pub since: Timestamp,
}

/// A watchdog that replaces the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchdogUpdate {
    /// Its version.
    pub version: String,
    /// How many starts since it was last healthy.
    pub tries: u32,
    /// True once it was healthy.
    pub proved: bool,
    /// Why it is not used again.
    pub refused: Option<String>,
    /// The process that becomes it: a process that finds its own id here is this watchdog, whatever its program
    /// reports.
    pub process: Option<ProcessIdentity>,
}

/// The decision about a watchdog update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UpdateDecision {
    /// It stays.
    Stay,
    /// It becomes another; save this first.
    Become(WatchdogUpdate),
    /// It stays, because the other one does not work; save this.
    Refuse(WatchdogUpdate),
}

/// Whether a watchdog of one version becomes that of the running version.
#[must_use]
pub(super) fn decide_update(own: &str, running: &str, before: Option<&WatchdogUpdate>) -> UpdateDecision {
    if own == running {
        return UpdateDecision::Stay;
    }
    let fresh = || WatchdogUpdate { version: running.into(), tries: 1, ..WatchdogUpdate::default() };
    match before.filter(|before| before.version == running) {
        None => UpdateDecision::Become(fresh()),
        Some(before) if before.refused.is_some() => UpdateDecision::Stay,
        Some(before) if before.proved => UpdateDecision::Become(fresh()),
        Some(before) if before.tries >= MAX_TRIES => {
            let why = format!("it exited {} times before it was healthy", before.tries);
            UpdateDecision::Refuse(WatchdogUpdate { refused: Some(why), ..before.clone() })
        }
        Some(before) => UpdateDecision::Become(WatchdogUpdate { tries: before.tries + 1, ..before.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_watchdog_is_tried_twice_and_a_healthy_one_always_restarts() {
        assert_eq!(decide_update("1", "1", None), UpdateDecision::Stay);
        let UpdateDecision::Become(first) = decide_update("1", "2", None) else { panic!() };
        assert_eq!((first.tries, first.proved), (1, false));
        let UpdateDecision::Become(second) = decide_update("1", "2", Some(&first)) else { panic!() };
        assert_eq!(second.tries, 2);
        let UpdateDecision::Refuse(refused) = decide_update("1", "2", Some(&second)) else { panic!() };
        assert_eq!(decide_update("1", "2", Some(&refused)), UpdateDecision::Stay);
        assert!(matches!(
            decide_update("1", "3", Some(&refused)),
            UpdateDecision::Become(WatchdogUpdate { tries: 1, .. })
        ));
        let proved = WatchdogUpdate { proved: true, ..second };
        assert!(matches!(
            decide_update("1", "2", Some(&proved)),
            UpdateDecision::Become(WatchdogUpdate { tries: 1, proved: false, .. })
        ));
    }
}
