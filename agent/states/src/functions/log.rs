//! `log.*`: what templates write to the log.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, query_fn};

/// The execution functions of `log`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("log.debug", "message", |_, a| {
        tracing::debug!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.info", "message", |_, a| {
        tracing::info!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.warning", "message", |_, a| {
        tracing::warn!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.error", "message", |_, a| {
        tracing::error!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.critical", "message", |_, a| {
        tracing::error!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.exception", "message", |_, a| {
        tracing::error!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
];

fn message_arg(args: &FunctionArgs<Value>) -> String {
    args.get("message").map(|m| m.as_str().map_or_else(|| m.json_key(), str::to_owned)).unwrap_or_default()
}
