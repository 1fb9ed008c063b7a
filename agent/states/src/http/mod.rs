//! States of the module `http`: an address answers as it should.
//!
//! What only reads is asked by a look too; what may change something at the other end is an act and runs every time.

#![expect(clippy::disallowed_methods, reason = "a query has a deadline")]

pub(crate) mod functions;

use std::time::{Duration, Instant};
use zagent_config::mask::redact_logins;

use zagent_config::Map;

use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError, StateModule,
};
use zagent_host::http_client;

/// How long `wait_for_successful_query` waits when nothing else is said.
const DEFAULT_WAIT: f64 = 300.0;
/// The shortest time between two questions.
const MIN_RETRY_INTERVAL: f64 = 0.5;

/// The module `http`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "http",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let preset = match fun {
        "query" => 0.0,
        "wait_for_successful_query" => DEFAULT_WAIT,
        _ => return None,
    };
    Some(HttpQuery::from_args(preset, args).map(|s| Box::new(s) as Box<dyn State>))
}

struct HttpQuery {
    url: String,
    args: Map,
    /// How long it may take until the answer is right.
    wait: Duration,
    retry_interval: Duration,
}

impl HttpQuery {
    fn from_args(preset: f64, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        if args.get("match").is_none() && args.get("status").is_none() {
            return Err(StateError::new("Either match text (match) or a status code (status) is required."));
        }
        // What no duration can hold is as long as one can be; less than nothing is nothing.
        let most = |n: f64| if n > 0.0 { Duration::MAX } else { Duration::ZERO };
        let seconds = |n: f64| Duration::try_from_secs_f64(n).unwrap_or_else(|_| most(n));
        Ok(Self {
            url: args.name(),
            args: args.chunk.args.clone(),
            wait: seconds(args.number("wait_for")?.unwrap_or(preset)),
            retry_interval: seconds(args.number("request_interval")?.unwrap_or(1.0).max(MIN_RETRY_INTERVAL)),
        })
    }

    /// True when asking changes nothing at the other end.
    fn is_read_only(&self) -> bool {
        self.args.get("method").is_none_or(http_client::is_read_only)
    }

    /// True when the next question would come too late.
    fn is_past_deadline(&self, end: Option<Instant>) -> bool {
        end.is_some_and(|end| now().checked_add(self.retry_interval).is_none_or(|next| next > end))
    }

    fn send_query(&self) -> Result<Result<String, String>, StateError> {
        let answer = http_client::query(&self.url, &self.args).map_err(StateError::new)?;
        Ok(http_client::check_response(&answer, &self.args))
    }
}

fn now() -> Instant {
    Instant::now()
}

impl State for HttpQuery {
    fn check(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if !self.is_read_only() {
            return Ok(CheckResult::drifted(
                format!("{} would be queried", redact_logins(&self.url)),
                Map::new(),
            ));
        }
        Ok(match self.send_query()? {
            Ok(said) => CheckResult::in_sync(said),
            Err(said) => CheckResult::drifted(said, Map::new()),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        // A time beyond all clocks has no end.
        let end = now().checked_add(self.wait);
        let end = end.map_or(ctx.deadline, |end| Some(ctx.deadline.map_or(end, |d| d.min(end))));
        loop {
            let said = match self.send_query()? {
                Ok(said) => return Ok(ApplyResult::new(said, Map::new())),
                Err(said) => said,
            };
            if ctx.cancel.is_cancelled() || self.is_past_deadline(end) {
                return Err(StateError::new(said));
            }
            ctx.cancel.wait(self.retry_interval);
        }
    }

    fn is_convergent(&self) -> bool {
        false
    }

    fn writes(&self) -> Effects {
        if self.is_read_only() { Effects::NONE } else { Effects::ALL }
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        (!self.is_read_only()).then_some("what a query did at the other end cannot be undone")
    }
}
