//! Methods of integers, floats and booleans.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

use super::args::CallArgs;
use crate::jinja::object::{tuple, type_name};

pub(super) fn call(value: &Value, method: &str, args: &CallArgs) -> Result<Value, Error> {
    let unknown = || {
        let name = type_name(value);
        Error::new(ErrorKind::UnknownMethod, format!("'{name}' object has no method '{method}'"))
    };
    let is_float = type_name(value) == "float";
    match (method, is_float) {
        ("is_integer", true) => {
            args.expect_none()?;
            let float = f64::try_from(value.clone())?;
            Ok(Value::from(float.is_finite() && float.fract() == 0.0))
        }
        ("is_integer", false) => args.expect_none().map(|()| Value::from(true)),
        ("bit_length", false) => {
            args.expect_none()?;
            let int = args.int("the number", value)?;
            Ok(Value::from(u64::BITS - int.unsigned_abs().leading_zeros()))
        }
        ("bit_count", false) => {
            args.expect_none()?;
            Ok(Value::from(args.int("the number", value)?.unsigned_abs().count_ones()))
        }
        ("conjugate", _) => args.expect_none().map(|()| value.clone()),
        ("as_integer_ratio", false) => {
            args.expect_none().map(|()| tuple(vec![value.clone(), Value::from(1)]))
        }
        _ => Err(unknown()),
    }
}
