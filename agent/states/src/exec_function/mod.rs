//! One execution function: its name, signature and body in, an entry of the table of functions out; with what bodies share.

pub(crate) mod account_args;
pub(crate) mod args;
pub(crate) mod edit;
pub(crate) mod local_time;

use std::cell::Cell;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;
use zagent_host::Machine;

pub(crate) use self::args::{
    arg_or_empty, flag_arg, non_empty_arg, optional_text_arg, string_list, text_arg,
};
pub(crate) use self::edit::{edit_text_file, fs_error, is_debian};

/// What a function does.
pub(crate) type FunctionBody = fn(&Machine, &FunctionArgs<Value>) -> Result<Value, FunctionError>;

/// One function.
pub(crate) struct ExecFunction {
    pub(crate) name: &'static str,
    pub(crate) signature: &'static str,
    /// The program without which there is no such function.
    pub(crate) needs_program: Option<&'static str>,
    /// It changes the host.
    pub(crate) changes_host: bool,
    pub(crate) body: FunctionBody,
}

impl ExecFunction {
    /// False for what only Salt's filters ask of the host.
    pub(crate) fn is_for_templates(&self) -> bool {
        !self.name.starts_with("zagent.")
    }
}

pub(crate) const fn query_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: None, changes_host: false, body }
}

/// A function that is there only when its program is.
pub(crate) const fn query_fn_needing(
    program: &'static str,
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: Some(program), changes_host: false, body }
}

/// A function that changes the host.
pub(crate) const fn change_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: None, changes_host: true, body }
}

thread_local! {
    static CALL_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts a call of this thread.
pub(crate) fn count_call() {
    CALL_COUNT.set(CALL_COUNT.get().wrapping_add(1));
}

/// Number of calls of this thread: rendering compares it to find out whether a template asked the host.
pub(crate) fn call_count() -> u64 {
    CALL_COUNT.get()
}
