//! Methods of byte strings.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

use super::args::CallArgs;

pub(super) fn call(bytes: &[u8], method: &str, args: &CallArgs) -> Result<Value, Error> {
    match method {
        "decode" => {
            let [_, errors] = args.bind(["encoding", "errors"], 0)?;
            if errors.is_some_and(|e| matches!(e.as_str(), Some("ignore" | "replace"))) {
                return Ok(Value::from(String::from_utf8_lossy(bytes).into_owned()));
            }
            let text = std::str::from_utf8(bytes).map_err(|_| args.error("the bytes are not UTF-8"))?;
            Ok(Value::from(text))
        }
        "hex" => {
            args.expect_none()?;
            Ok(Value::from(bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()))
        }
        _ => Err(Error::new(ErrorKind::UnknownMethod, format!("'bytes' object has no method '{method}'"))),
    }
}
