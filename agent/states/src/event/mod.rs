//! States of the module `event`: an event for readers of the log and for the agent itself (`zagent/reboot`).
//!
//! An event is an act; there is no bus, and nothing waits for an answer.

pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError,
    StateModule,
};

/// The module `event`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "event",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let waits = match fun {
        "send" | "fire_master" => false,
        "wait" => true,
        _ => return None,
    };
    let data = args.chunk.args.get("data").cloned().unwrap_or(Value::Null);
    let shows = args.flag("show_changed", true);
    Some(Ok(Box::new(EventState { only_on_watch: waits, name: args.name(), data, show_changed: shows })))
}

struct EventState {
    /// It is sent only for a watch.
    only_on_watch: bool,
    name: String,
    data: Value,
    show_changed: bool,
}

impl EventState {
    fn changes(&self) -> Map {
        if !self.show_changed {
            return Map::new();
        }
        Map::from_iter([("tag", Value::from(self.name.as_str())), ("data", self.data.clone())])
    }
}

impl State for EventState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if self.only_on_watch { Ok(CheckResult::in_sync("")) } else { self.predict_reaction(ctx) }
    }

    fn predict_reaction(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(CheckResult::drifted("Event would have been fired", self.changes()))
    }

    fn apply(&mut self, _: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        // What it carries may be secret.
        tracing::info!(event = self.name, "event");
        Ok(ApplyResult::new("Event fired", self.changes()).with_detail("event", self.name.as_str()))
    }

    fn is_convergent(&self) -> bool {
        false
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("what was told cannot be taken back")
    }

    fn reads(&self) -> Effects {
        Effects::NONE
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }
}
