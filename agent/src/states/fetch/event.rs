//! States of the module `event`: something is told to whoever listens to the log and to the agent itself (`zagent/reboot`).
//!
//! Law: an event is an act; there is no bus, and nothing waits for an answer.

use zagent_config::{Map, Value};

use super::super::{Args, Built, Cost, Done, Failure, Look, Scene, State, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let waits = match fun {
        "send" | "fire_master" => false,
        "wait" => true,
        _ => return None,
    };
    let data = args.chunk.args.get("data").cloned().unwrap_or(Value::Null);
    let shows = args.flag("show_changed", true);
    Some(Ok(Box::new(Event { waits, name: args.name(), data, shows })))
}

struct Event {
    /// It is sent only for a watch.
    waits: bool,
    name: String,
    data: Value,
    shows: bool,
}

impl Event {
    fn changes(&self) -> Map {
        if !self.shows {
            return Map::new();
        }
        Map::from_iter([("tag", Value::from(self.name.as_str())), ("data", self.data.clone())])
    }
}

impl State for Event {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if self.waits { Ok(Look::right("")) } else { self.foresee(scene) }
    }

    fn foresee(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        Ok(Look::drift("Event would have been fired", self.changes()))
    }

    fn apply(&mut self, _: &Scene<'_>) -> Result<Done, Failure> {
        // What it carries may be secret.
        tracing::info!(event = self.name, "event");
        Ok(Done::new("Event fired", self.changes()).with("event", self.name.as_str()))
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("what was told cannot be taken back")
    }

    fn sees(&self) -> Veil {
        Veil::NONE
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }
}
