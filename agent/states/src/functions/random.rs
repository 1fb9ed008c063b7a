//! `random.*`: texts by chance.

use std::io::Read;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, flag_arg, optional_text_arg, query_fn};
use zagent_host::Machine;
use zagent_host::machine::path_error;

/// The execution functions of `random`.
pub(crate) const TABLE: &[ExecFunction] = &[query_fn(
    "random.get_str",
    "length? chars? lowercase? uppercase? digits? punctuation? whitespace? printable?",
    random_string,
)];

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// A text by chance.
fn random_string(_: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let length = args.get("length").map_or(Some(20), Value::as_int).and_then(|n| usize::try_from(n).ok());
    let length = length
        .filter(|n| *n <= 1 << 16)
        .ok_or_else(|| FunctionError::bad_arguments("`length` is a number up to 65536"))?;
    let mut chars: Vec<char> = optional_text_arg(args, "chars").unwrap_or_default().chars().collect();
    if chars.is_empty() {
        let printable = flag_arg(args, "printable", false);
        let mut add = |name: &str, default: bool, set: &str| {
            if printable || flag_arg(args, name, default) {
                chars.extend(set.chars());
            }
        };
        add("lowercase", true, "abcdefghijklmnopqrstuvwxyz");
        add("uppercase", true, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        add("digits", true, "0123456789");
        add("punctuation", true, PUNCTUATION);
        add("whitespace", false, " \t\n\r\x0b\x0c");
    }
    if chars.is_empty() {
        return Err(FunctionError::bad_arguments("there is no character to choose from"));
    }
    let mut source =
        std::fs::File::open("/dev/urandom").map_err(|e| path_error("open", "/dev/urandom", &e))?;
    let mut out = String::with_capacity(length);
    while out.chars().count() < length {
        let mut drawn = [0; 4];
        source.read_exact(&mut drawn).map_err(|e| path_error("read", "/dev/urandom", &e))?;
        let n = chars.len() as u64;
        let limit = (1_u64 << 32) / n * n;
        let drawn = u64::from(u32::from_ne_bytes(drawn));
        // What lies beyond the last whole round would favour the first characters.
        if drawn < limit {
            out.extend(usize::try_from(drawn % n).ok().and_then(|i| chars.get(i)));
        }
    }
    Ok(out.into())
}
