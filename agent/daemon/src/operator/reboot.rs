//! A need for a reboot, the policy and the maintenance windows in, whether the host reboots now out.

use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::{MaintenanceWindow, RebootPolicy, RebootSettings};

use super::windows::WindowState;
use zagent_host::reboot::RebootNeed;

/// What becomes of a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebootDecision {
    /// Nothing is needed.
    Nothing,
    /// Not now.
    Wait {
        /// Why, in words.
        why: String,
    },
    /// Now.
    Reboot {
        /// How long before everybody is told.
        notice: Duration,
    },
}

/// Whether a need is met now. `windows` are the settings', `standing` is what they say about now.
#[must_use]
pub fn decide(
    policy: &RebootSettings,
    need: Option<&RebootNeed>,
    windows: &[MaintenanceWindow],
    window_state: WindowState,
    now: Timestamp,
) -> RebootDecision {
    let wait = |why: &str| RebootDecision::Wait { why: why.to_owned() };
    let Some(need) = need else { return RebootDecision::Nothing };
    match policy.policy {
        RebootPolicy::Never => return wait("`reboot.policy` is `never`"),
        RebootPolicy::OnRequest if !need.asked => {
            return wait("no state requested it, and `reboot.policy` is `asked`");
        }
        RebootPolicy::Window if windows.is_empty() => {
            return wait("`reboot.policy` is `window`, and there is no maintenance window");
        }
        _ => {}
    }
    match window_state {
        WindowState::Closed { opens: Some(opens) } => {
            wait(&format!("the next maintenance window opens at {opens:.0}"))
        }
        WindowState::Closed { opens: None } => wait("no maintenance window ever opens"),
        WindowState::Open { until: Some(until) }
            if now.checked_add(policy.notice).is_ok_and(|at| at >= until) =>
        {
            wait("the maintenance window closes before the notice is over")
        }
        WindowState::Open { .. } => RebootDecision::Reboot { notice: policy.notice },
    }
}

#[cfg(test)]
pub mod tests;
