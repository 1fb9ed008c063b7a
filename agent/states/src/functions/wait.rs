//! `test.sleep` and `test.rand_sleep`: a pause of some seconds.

use std::io::Read as _;
use std::time::Duration;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::{FunctionError, Value};
use zagent_host::Machine;
use zagent_host::machine::path_error;
use zagent_host::tools::Tools;

use crate::exec_function::{ExecFunction, query_fn};

/// The functions that wait.
pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("test.sleep", "length", sleep), query_fn("test.rand_sleep", "max?", rand_sleep)];

/// The longest pause: nobody waits longer for a template on purpose.
const MAX_SECONDS: i64 = 3600;
/// The longest pause by chance, when nothing is said.
const DEFAULT_MAX: i64 = 60;

fn seconds(value: Option<&Value>, default: i64) -> Result<u64, FunctionError> {
    let given = match value {
        Some(Value::Str(text)) => text.trim().parse().ok(),
        other => other.map_or(Some(default), Value::as_int),
    };
    let given = given.filter(|n| (0..=MAX_SECONDS).contains(n)).and_then(|n| u64::try_from(n).ok());
    given.ok_or_else(|| {
        FunctionError::bad_arguments(format!("a pause is a number of seconds from 0 to {MAX_SECONDS}"))
    })
}

fn sleep(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let length = seconds(args.get("length"), 0)?;
    Tools::new(machine).sleep(Duration::from_secs(length))?;
    Ok(true.into())
}

fn rand_sleep(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let max = seconds(args.get("max"), DEFAULT_MAX)?;
    let mut drawn = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut drawn))
        .map_err(|e| path_error("read", "/dev/urandom", &e))?;
    let length = u64::from_ne_bytes(drawn) % (max + 1);
    Tools::new(machine).sleep(Duration::from_secs(length))?;
    Ok(true.into())
}
