//! A format in, the local time as text out.

use zagent_config::FunctionError;
use zagent_config::Value;
use zagent_host::facts::{LiveSystem, System};

/// The local time in a format.
pub(crate) fn strftime(format: &str) -> Result<Value, FunctionError> {
    let now = jiff::Timestamp::try_from(LiveSystem.now())
        .map_err(|e| FunctionError::failed(format!("the clock is off: {e}")))?;
    let local = now.to_zoned(jiff::tz::TimeZone::system());
    let text = jiff::fmt::strtime::format(format, &local);
    text.map(Value::from).map_err(|e| FunctionError::failed(format!("the format `{format}` is wrong: {e}")))
}
