//! `retry` of a state: how often it is tried, and how long apart.

use std::sync::Arc;
use std::time::Duration;

use zagent_config::Value;

use super::ConvergeResult;
use zagent_host::CancelToken;

/// How a state is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateRetry {
    attempts: u64,
    until: bool,
    interval: u64,
    splay: u64,
}

const DEFAULT_RETRY: StateRetry = StateRetry { attempts: 2, until: true, interval: 30, splay: 0 };

impl StateRetry {
    /// Reads it as Salt does: what has the wrong kind counts as not given.
    pub(crate) fn from_value(value: &Value) -> Self {
        let Value::Map(map) = value else {
            return if matches!(value, Value::Bool(false)) {
                Self { attempts: 0, ..DEFAULT_RETRY }
            } else {
                DEFAULT_RETRY
            };
        };
        let number = |key: &str, default: u64| match map.get(key) {
            Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(0),
            Some(Value::Bool(b)) => u64::from(*b),
            _ => default,
        };
        let until = match map.get("until") {
            Some(Value::Bool(until)) => *until,
            _ => DEFAULT_RETRY.until,
        };
        Self {
            attempts: number("attempts", DEFAULT_RETRY.attempts),
            until,
            interval: number("interval", DEFAULT_RETRY.interval),
            splay: number("splay", DEFAULT_RETRY.splay),
        }
    }

    /// What a dry run says.
    pub(super) fn describe(&self) -> String {
        let Self { attempts, until, interval, splay } = self;
        let until = if *until { "True" } else { "False" };
        format!(
            "The state would be retried every {interval} seconds (with a splay of up to {splay} seconds) a \
             maximum of {attempts} times or until a result of {until} is returned"
        )
    }

    /// Waits before another attempt at a revert; false when there is none, or when somebody says stop.
    pub(crate) fn wait_for_attempt(&self, tries: u64, seed: u64, cancel: &CancelToken) -> bool {
        if !self.until || tries >= self.attempts || cancel.is_cancelled() {
            return false;
        }
        cancel.wait(self.delay(seed.wrapping_mul(31).wrapping_add(tries)));
        !cancel.is_cancelled()
    }

    /// The pause before a try, its splay drawn from a seed.
    fn delay(&self, seed: u64) -> Duration {
        let drawn = if self.splay == 0 { 0 } else { mix_bits(seed) % (self.splay + 1) };
        Duration::from_secs(self.interval.saturating_add(drawn))
    }
}

/// Spreads a seed over all bits.
const fn mix_bits(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Tries until the result is the wanted one, the tries are used up or somebody says stop. With `more`, the first try is not
/// counted and the last one speaks first, as Salt does for what runs in parallel.
pub(super) fn run_with_retries(
    retry: &StateRetry,
    more: bool,
    cancel: &Arc<CancelToken>,
    seed: u64,
    mut once: impl FnMut() -> ConvergeResult,
) -> ConvergeResult {
    let mut last = once();
    let mut said = String::new();
    let mut tries = 1;
    let most = if more { retry.attempts + 1 } else { retry.attempts };
    while last.result != Some(retry.until) && tries < most && !cancel.is_cancelled() {
        let seed = seed.wrapping_mul(31).wrapping_add(tries);
        cancel.wait(retry.delay(seed));
        if cancel.is_cancelled() {
            break;
        }
        let result = match last.result {
            Some(true) => "True",
            Some(false) => "False",
            None => "None",
        };
        let comment = &last.done.comment;
        said.push_str(&format!(
            "Attempt {tries}: Returned a result of \"{result}\", with the following comment: \"{comment}\"\n"
        ));
        let calls = last.run_numbers;
        last = once();
        last.run_numbers += calls;
        tries += 1;
    }
    if more && !said.is_empty() {
        last.done.comment = format!("{}\n{}", last.done.comment, said.trim_end());
    } else {
        last.done.comment.insert_str(0, &said);
    }
    last
}
