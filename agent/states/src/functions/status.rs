//! `status.*`: the clock and the processors.

use zagent_config::FunctionError;
use zagent_config::Value;

use super::{ExecFunction, optional_text_arg, query_fn};
use zagent_host::facts::{LiveSystem, System};

/// The execution functions of `status`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("status.time", "format?", |_, a| {
        strftime(optional_text_arg(a, "format").unwrap_or("%A, %d. %B %Y %I:%M%p"))
    }),
    query_fn("status.nproc", "", |_, _| {
        Ok(Value::Int(
            std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
        ))
    }),
];

/// The local time in a format.
pub(crate) fn strftime(format: &str) -> Result<Value, FunctionError> {
    let now = jiff::Timestamp::try_from(LiveSystem.now())
        .map_err(|e| FunctionError::failed(format!("the clock is off: {e}")))?;
    let local = now.to_zoned(jiff::tz::TimeZone::system());
    let text = jiff::fmt::strtime::format(format, &local);
    text.map(Value::from).map_err(|e| FunctionError::failed(format!("the format `{format}` is wrong: {e}")))
}
