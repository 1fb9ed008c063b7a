//! `status.*`: the clock and the processors.

use zagent_config::Value;

use crate::exec_function::local_time::strftime;
use crate::exec_function::{ExecFunction, optional_text_arg, query_fn};

/// The execution functions of `status`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("status.time", "format?", |m, a| {
        strftime(m, optional_text_arg(a, "format").unwrap_or("%A, %d. %B %Y %I:%M%p"))
    }),
    query_fn("status.nproc", "", |_, _| {
        Ok(Value::Int(
            std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
        ))
    }),
];
