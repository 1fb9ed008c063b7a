//! Health checks in, one result per check out; two rounds in, regressions between them out.
//!
//! Law: a round always returns: every attempt has a timeout, all checks run in parallel, and stopping the agent
//! stops them. A check that failed before a run says nothing about the run (held by `a_hanging_check_is_abandoned`,
//! `stopping_the_agent_stops_the_checks`, `only_checks_that_passed_before_count`).

#![expect(clippy::disallowed_methods, reason = "checks have deadlines")]

pub mod probe;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::mask::mask_message;
use zagent_config::settings::HealthSettings;

use zagent_host::{CancelToken, Machine};

/// Interval between two attempts of one check.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Extra time of a check beyond its own limits, before it is abandoned.
const SLACK: Duration = Duration::from_secs(2);
/// Poll interval of the stop signal.
const TICK: Duration = Duration::from_millis(20);

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthResult {
    /// The check.
    pub name: String,
    /// True when its failure triggers a rollback.
    pub required: bool,
    /// True when it passed.
    pub ok: bool,
    /// Message of the last attempt.
    pub said: String,
    /// Number of attempts.
    pub tries: usize,
}

/// Last result of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthStatus {
    /// Its name.
    pub name: String,
    /// True when its failure triggers a rollback.
    pub required: bool,
    /// True when it passed.
    pub healthy: bool,
    /// Message.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

impl HealthStatus {
    /// Result of a check round that ended at a time.
    #[must_use]
    pub(crate) fn from_result(verdict: &HealthResult, at: Timestamp) -> Self {
        let HealthResult { name, required, ok, said, .. } = verdict;
        Self { name: name.clone(), required: *required, healthy: *ok, message: said.clone(), at }
    }
}

/// Runs all checks; results are in the order of the checks. `between` is the interval between two attempts.
#[must_use]
pub fn run_checks(
    machine: &Machine,
    checks: &[HealthSettings],
    between: Duration,
    cancel: &Arc<CancelToken>,
) -> Vec<HealthResult> {
    let (sender, receiver) = mpsc::channel();
    let mut verdicts: Vec<HealthResult> = checks.iter().map(unanswered_result).collect();
    let mut open = 0;
    for (i, health) in checks.iter().enumerate() {
        let (health, sender, stop) = (health.clone(), sender.clone(), Arc::clone(cancel));
        let machine = machine.clone();
        let thread = std::thread::Builder::new().name("health".into());
        match thread.spawn(move || sender.send((i, run_with_retries(&machine, &health, between, &stop)))) {
            Ok(_) => open += 1,
            Err(e) => verdicts[i].said = format!("cannot start the check: {e}"),
        }
    }
    drop(sender);
    let begin = Instant::now();
    let longest = checks.iter().map(|health| max_duration(health, between)).max().unwrap_or_default();
    // A thread that hangs beyond its limits, for example in a name lookup, is abandoned: it ends with the
    // lookup.
    while open > 0 && !cancel.is_cancelled() && begin.elapsed() < longest {
        match receiver.recv_timeout(TICK) {
            Ok((i, verdict)) => {
                verdicts[i] = verdict;
                open -= 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if cancel.is_cancelled() {
        let unheard = verdicts.iter_mut().filter(|v| v.tries == 0);
        unheard.for_each(|v| v.said = "stopped before it had a result".into());
    }
    verdicts
}

/// Result of a check that never returns.
fn unanswered_result(health: &HealthSettings) -> HealthResult {
    let said = "did not finish in time".to_owned();
    HealthResult { name: health.name.clone(), required: health.required, ok: false, said, tries: 0 }
}

fn max_duration(health: &HealthSettings, between: Duration) -> Duration {
    let tries = u32::try_from(health.tries).unwrap_or(u32::MAX);
    (health.timeout + between).saturating_mul(tries).saturating_add(SLACK)
}

fn run_with_retries(
    machine: &Machine,
    health: &HealthSettings,
    between: Duration,
    cancel: &Arc<CancelToken>,
) -> HealthResult {
    let mut verdict = unanswered_result(health);
    while !verdict.ok && verdict.tries < health.tries && !cancel.is_cancelled() {
        if verdict.tries > 0 {
            cancel.wait(between);
        }
        let seen = probe::probe(machine, &health.check, health.timeout, cancel);
        verdict.ok = seen.is_ok();
        verdict.said = mask_message(&seen.unwrap_or_else(|said| said)).into_owned();
        verdict.tries += 1;
    }
    verdict
}

/// Checks that got worse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regressions {
    /// Checks that must not fail.
    pub required: Vec<HealthResult>,
    /// Checks whose failure is only reported.
    pub wanted: Vec<HealthResult>,
}

impl Regressions {
    /// True when the revision must be rolled back.
    #[must_use]
    pub(crate) fn requires_rollback(&self) -> bool {
        !self.required.is_empty()
    }

    /// `health check web failed: answered 503`, one after the other.
    #[must_use]
    pub(crate) fn summary(&self) -> String {
        let all = self.required.iter().chain(&self.wanted);
        let words: Vec<String> = all.map(|v| format!("health check {} failed: {}", v.name, v.said)).collect();
        words.join("; ")
    }
}

/// Checks that passed before and fail now. A check without an earlier result does not count: it is unknown
/// whether the run broke it.
#[must_use]
pub(crate) fn find_regressions(before: &[HealthResult], after: &[HealthResult]) -> Regressions {
    let was_fine = |v: &&HealthResult| before.iter().any(|b| b.name == v.name && b.ok);
    let worse = after.iter().filter(|v| !v.ok).filter(was_fine).cloned();
    let (required, wanted) = worse.partition(|v| v.required);
    Regressions { required, wanted }
}

#[cfg(test)]
pub mod tests;
