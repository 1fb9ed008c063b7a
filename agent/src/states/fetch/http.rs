//! States of the module `http`: an address answers as it should.
//!
//! Law: what only reads is asked by a look too; what may change something at the other end is an act and runs every time.

use std::time::{Duration, Instant};

use zagent_config::Map;

use super::super::{Args, Built, Done, Failure, Look, Scene, State, Veil};
use crate::host::web;

/// How long `wait_for_successful_query` waits when nothing else is said.
const WAIT: f64 = 300.0;
/// The shortest time between two questions.
const PAUSE: f64 = 0.5;

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let preset = match fun {
        "query" => 0.0,
        "wait_for_successful_query" => WAIT,
        _ => return None,
    };
    Some(Query::read(preset, args).map(|s| Box::new(s) as Box<dyn State>))
}

struct Query {
    url: String,
    args: Map,
    /// How long it may take until the answer is right.
    wait: Duration,
    pause: Duration,
}

impl Query {
    fn read(preset: f64, args: &Args<'_>) -> Result<Self, Failure> {
        if args.get("match").is_none() && args.get("status").is_none() {
            return Err(Failure::new("Either match text (match) or a status code (status) is required."));
        }
        // What no duration can hold is as long as one can be; less than nothing is nothing.
        let most = |n: f64| if n > 0.0 { Duration::MAX } else { Duration::ZERO };
        let seconds = |n: f64| Duration::try_from_secs_f64(n).unwrap_or_else(|_| most(n));
        Ok(Self {
            url: args.name(),
            args: args.chunk.args.clone(),
            wait: seconds(args.number("wait_for")?.unwrap_or(preset)),
            pause: seconds(args.number("request_interval")?.unwrap_or(1.0).max(PAUSE)),
        })
    }

    /// True when asking changes nothing at the other end.
    fn is_look(&self) -> bool {
        self.args.get("method").is_none_or(web::is_look)
    }

    /// True when the next question would come too late.
    fn is_over(&self, end: Option<Instant>) -> bool {
        end.is_some_and(|end| now().checked_add(self.pause).is_none_or(|next| next > end))
    }

    fn ask(&self) -> Result<Result<String, String>, Failure> {
        let answer = web::query(&self.url, &self.args).map_err(Failure::new)?;
        Ok(web::judge(&answer, &self.args))
    }
}

fn now() -> Instant {
    Instant::now()
}

impl State for Query {
    fn check(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        if !self.is_look() {
            return Ok(Look::drift(
                format!("{} would be queried", crate::host::git::redact(&self.url)),
                Map::new(),
            ));
        }
        Ok(match self.ask()? {
            Ok(said) => Look::right(said),
            Err(said) => Look::drift(said, Map::new()),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        // A time beyond all clocks has no end.
        let end = now().checked_add(self.wait);
        let end = end.map_or(scene.deadline, |end| Some(scene.deadline.map_or(end, |d| d.min(end))));
        loop {
            let said = match self.ask()? {
                Ok(said) => return Ok(Done::new(said, Map::new())),
                Err(said) => said,
            };
            if scene.cancel.is_said() || self.is_over(end) {
                return Err(Failure::new(said));
            }
            scene.cancel.wait(self.pause);
        }
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn veils(&self) -> Veil {
        if self.is_look() { Veil::NONE } else { Veil::ALL }
    }

    fn irreversible(&self) -> Option<&'static str> {
        (!self.is_look()).then_some("what a query did at the other end cannot be undone")
    }
}
