//! Execution functions by name: `user.info`, `pkg.version`, `cmd.run`, `service.restart`, ….
//!
//! Law: what a function cannot find out is an error or Salt's own empty result, never a guess. Templates call only
//! functions that read; those that change something are for states and the command line.

pub mod mysql;
pub mod postgres;

pub mod account_files;
pub mod dig;
pub mod disk;
pub mod fetch;
pub mod filters;
pub mod firewall;
pub mod network;
pub mod packages;
pub mod services;
pub mod system;
pub mod user_database;

use std::cell::Cell;

use zagent_compiler::functions::FunctionArgs;
use zagent_compiler::{CallError, FunctionCall};
use zagent_config::FunctionError;
use zagent_config::Value;

use zagent_host::Machine;

/// What a function does.
pub(crate) type FunctionBody = fn(&Machine, &FunctionArgs<Value>) -> Result<Value, FunctionError>;

/// One function.
pub struct ExecFunction {
    pub(crate) name: &'static str,
    pub(crate) signature: &'static str,
    /// The program without which there is no such function.
    pub(crate) needs_program: Option<&'static str>,
    /// It changes the host.
    pub(crate) changes_host: bool,
    pub(crate) body: FunctionBody,
}

pub(crate) const fn query_fn(
    name: &'static str,
    signature: &'static str,
    body: FunctionBody,
) -> ExecFunction {
    ExecFunction { name, signature, needs_program: None, changes_host: false, body }
}

const fn query_fn_needing(
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

const FUNCTION_TABLES: [&[ExecFunction]; 17] = [
    crate::cmd::functions::FUNCTIONS,
    crate::file::functions::FUNCTIONS,
    crate::file::functions::find::FUNCTIONS,
    user_database::FUNCTIONS,
    crate::pkg::functions::FUNCTIONS,
    crate::service::functions::FUNCTIONS,
    crate::alternatives::functions::FUNCTIONS,
    network::FUNCTIONS,
    disk::FUNCTIONS,
    system::FUNCTIONS,
    dig::FUNCTIONS,
    filters::FUNCTIONS,
    account_files::FUNCTIONS,
    fetch::FUNCTIONS,
    firewall::FUNCTIONS,
    packages::FUNCTIONS,
    services::FUNCTIONS,
];

fn all_functions() -> impl Iterator<Item = &'static ExecFunction> {
    FUNCTION_TABLES.into_iter().chain(crate::databases::FUNCTION_TABLES).flatten()
}

fn template_functions() -> impl Iterator<Item = &'static ExecFunction> {
    all_functions().filter(|e| !e.name.starts_with("zagent."))
}

/// The names of all functions that this machine has.
#[must_use]
pub fn available_names(machine: &Machine) -> Vec<&'static str> {
    template_functions()
        .filter(|e| e.needs_program.is_none_or(|p| machine.which(p).is_some()))
        .map(|e| e.name)
        .collect()
}

/// True when some machine has this function, whatever programs this one has.
#[must_use]
pub fn is_known(name: &str) -> bool {
    template_functions().any(|e| e.name == name)
}

/// The names of all functions that any machine has, and those of `more` that some machine has.
pub fn names_including(more: &zagent_config::Map) -> Vec<&'static str> {
    template_functions()
        .filter(|e| e.needs_program.is_none() || more.contains(e.name))
        .map(|e| e.name)
        .collect()
}

/// Calls a function.
///
/// # Errors
/// Fails when there is no such function here, it is forbidden, or it failed.
pub fn call_from_template(machine: &Machine, call: &FunctionCall) -> Result<Value, CallError> {
    if changes_host(&call.function) && !fetch::is_read_only_call(call) {
        let words =
            "it changes the host, and templates only look; call it by `module.run` or on the command line";
        return Err(CallError::Forbidden(words.into()));
    }
    call_any(machine, call)
}

thread_local! {
    static CALL_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has asked the host so far: whoever renders a template tells by it whether the host was looked at.
pub fn call_count() -> u64 {
    CALL_COUNT.get()
}

/// True when a function changes the host.
#[must_use]
pub fn changes_host(name: &str) -> bool {
    all_functions().any(|e| e.name == name && e.changes_host)
}

/// True when a function of the host only looks. What a command does nobody knows, although templates may run some.
#[must_use]
pub fn is_read_only(name: &str) -> bool {
    !name.starts_with("cmd.") && template_functions().any(|e| e.name == name && !e.changes_host)
}

/// Calls a function, also one that changes the host.
///
/// # Errors
/// Fails when there is no such function here, or it failed.
pub fn call_any(machine: &Machine, call: &FunctionCall) -> Result<Value, CallError> {
    CALL_COUNT.set(CALL_COUNT.get().wrapping_add(1));
    let entry = all_functions().find(|e| e.name == call.function).ok_or(CallError::Unknown)?;
    if entry.needs_program.is_some_and(|p| machine.which(p).is_none()) {
        return Err(CallError::Unknown);
    }
    let named = call.kwargs.iter().map(|(k, v)| (k.json_key(), v.clone())).collect();
    let bound = FunctionArgs::bind(entry.name, entry.signature, call.args.clone(), named)?;
    Ok((entry.body)(machine, &bound)?)
}

/// An argument that has to be text.
pub(crate) fn text_arg<'a>(args: &'a FunctionArgs<Value>, name: &str) -> Result<&'a str, FunctionError> {
    let value = args.get(name);
    value.and_then(Value::as_str).ok_or_else(|| {
        let got = value.map_or("nothing", Value::kind);
        FunctionError::bad_arguments(format!("`{name}` must be text, not {got}"))
    })
}

/// An argument as text, when it is given and is not nothing.
pub(crate) fn optional_text_arg<'a>(args: &'a FunctionArgs<Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

/// An argument that switches something on.
pub(crate) fn flag_arg(args: &FunctionArgs<Value>, name: &str, default: bool) -> bool {
    args.get(name).map_or(default, Value::is_truthy)
}

/// A list of texts.
pub(crate) fn string_list<S: Into<Value>>(items: impl IntoIterator<Item = S>) -> Value {
    items.into_iter().map(Into::into).collect()
}

#[cfg(test)]
pub mod testing;
#[cfg(test)]
pub mod tests;
