//! Health checks in, a verdict for each out; two rounds in, what got worse between them out.
//!
//! Law: a round always comes back: every try has a time limit, all checks go side by side, and whoever stops the agent stops them.
//! A check that failed before a run says nothing about the run.

pub mod probe;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zagent_config::settings::HealthSettings;

use zagent_host::CancelToken;

/// How long is waited between two tries of one check.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// What a check may take beyond its own limits, before it is given up from outside.
const SLACK: Duration = Duration::from_secs(2);
/// How often the word to stop is looked for.
const TICK: Duration = Duration::from_millis(20);

/// What a check said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthResult {
    /// The check.
    pub name: String,
    /// True when its failure rolls back.
    pub required: bool,
    /// True when all is well.
    pub ok: bool,
    /// What it saw the last time, in words.
    pub said: String,
    /// How often it was tried.
    pub tries: usize,
}

/// Runs all checks; verdicts stand in the order of the checks. `between` is waited between two tries of one.
#[must_use]
pub fn run_checks(
    checks: &[HealthSettings],
    between: Duration,
    cancel: &Arc<CancelToken>,
) -> Vec<HealthResult> {
    let (sender, receiver) = mpsc::channel();
    let mut verdicts: Vec<HealthResult> = checks.iter().map(unanswered_result).collect();
    let mut open = 0;
    for (i, health) in checks.iter().enumerate() {
        let (health, sender, stop) = (health.clone(), sender.clone(), Arc::clone(cancel));
        let thread = std::thread::Builder::new().name("health".into());
        match thread.spawn(move || sender.send((i, run_with_retries(&health, between, &stop)))) {
            Ok(_) => open += 1,
            Err(e) => verdicts[i].said = format!("it could not be started: {e}"),
        }
    }
    drop(sender);
    let begin = Instant::now();
    let longest = checks.iter().map(|health| max_duration(health, between)).max().unwrap_or_default();
    // A thread that hangs beyond its limits, in a name lookup say, is left behind: it ends with the lookup.
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
        unheard.for_each(|v| v.said = "it was stopped before it had an answer".into());
    }
    verdicts
}

/// What holds for a check that never comes back.
fn unanswered_result(health: &HealthSettings) -> HealthResult {
    let said = "it did not come back in time".to_owned();
    HealthResult { name: health.name.clone(), required: health.required, ok: false, said, tries: 0 }
}

fn max_duration(health: &HealthSettings, between: Duration) -> Duration {
    let tries = u32::try_from(health.tries).unwrap_or(u32::MAX);
    (health.timeout + between).saturating_mul(tries).saturating_add(SLACK)
}

fn run_with_retries(health: &HealthSettings, between: Duration, cancel: &Arc<CancelToken>) -> HealthResult {
    let mut verdict = unanswered_result(health);
    while !verdict.ok && verdict.tries < health.tries && !cancel.is_cancelled() {
        if verdict.tries > 0 {
            cancel.wait(between);
        }
        let seen = probe::probe(&health.check, health.timeout, cancel);
        verdict.ok = seen.is_ok();
        verdict.said = seen.unwrap_or_else(|said| said);
        verdict.tries += 1;
    }
    verdict
}

/// What got worse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regressions {
    /// Checks that must not fail.
    pub required: Vec<HealthResult>,
    /// Checks whose failure is only told.
    pub wanted: Vec<HealthResult>,
}

impl Regressions {
    /// True when the revision must go.
    #[must_use]
    pub fn requires_rollback(&self) -> bool {
        !self.required.is_empty()
    }

    /// `health check web failed: answered 503`, one after the other.
    #[must_use]
    pub fn summary(&self) -> String {
        let all = self.required.iter().chain(&self.wanted);
        let words: Vec<String> = all.map(|v| format!("health check {} failed: {}", v.name, v.said)).collect();
        words.join("; ")
    }
}

/// Checks that were fine before and fail now. One that was not looked at before does not count: nobody knows that the run broke it.
#[must_use]
pub fn find_regressions(before: &[HealthResult], after: &[HealthResult]) -> Regressions {
    let was_fine = |v: &&HealthResult| before.iter().any(|b| b.name == v.name && b.ok);
    let worse = after.iter().filter(|v| !v.ok).filter(was_fine).cloned();
    let (required, wanted) = worse.partition(|v| v.required);
    Regressions { required, wanted }
}

#[cfg(test)]
pub mod tests;
