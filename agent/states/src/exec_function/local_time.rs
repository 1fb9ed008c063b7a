//! A machine and a format in, its local time as text out.

use zagent_config::FunctionError;
use zagent_config::Value;
use zagent_host::Machine;
use zagent_host::facts::machine_system;
use zagent_host::timezone::zone_of;

/// The local time in a format.
pub(crate) fn strftime(machine: &Machine, format: &str) -> Result<Value, FunctionError> {
    let now = jiff::Timestamp::try_from(machine_system(machine).now())
        .map_err(|e| FunctionError::failed(format!("the clock is off: {e}")))?;
    let local = now.to_zoned(zone_of(machine));
    let text = jiff::fmt::strtime::format(format, &local);
    text.map(Value::from).map_err(|e| FunctionError::failed(format!("the format `{format}` is wrong: {e}")))
}
