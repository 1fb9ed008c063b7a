//! `hashutil.*`: digests of files.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, optional_text_arg, query_fn, text_arg};
use crate::file::functions::digest;
use zagent_host::Machine;

/// The execution functions of `hashutil`.
pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("hashutil.digest_file", "infile checksum?", digest_file)];

fn digest_file(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    digest(machine, text_arg(args, "infile")?, optional_text_arg(args, "checksum").unwrap_or("md5"))
        .map(Value::from)
}
