//! `event.*`: an event is a line of the log.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, change_fn, text_arg};

/// The execution functions of `event`.
pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("event.send", "tag data? **", |_, a| fire_event(a)),
    change_fn("event.fire_master", "data tag **", |_, a| fire_event(a)),
    change_fn("event.fire", "data tag **", |_, a| fire_event(a)),
];

fn fire_event(args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let data = args.get("data").map(|d| serde_json::to_string(d).unwrap_or_default()).unwrap_or_default();
    tracing::info!(event = text_arg(args, "tag")?, data, "event");
    Ok(true.into())
}
