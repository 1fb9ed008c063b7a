//! Execution functions by name: `user.info`, `pkg.version`, `cmd.run`, `service.restart`, ….
//!
//! Law: what a function cannot find out is an error or Salt's own empty result, never a guess. Templates call only
//! functions that read; those that change something are for states and the command line (held by
//! `commands_can_be_forbidden`, `read_only_functions_change_nothing`).

mod describe;
pub(crate) mod dig;
pub(crate) mod disk;
pub(crate) mod dnsutil;
pub(crate) mod filters;
pub(crate) mod hashutil;
pub(crate) mod kernelpkg;
pub(crate) mod log;
pub(crate) mod lowpkg;
pub(crate) mod mine;
pub(crate) mod random;
pub(crate) mod saltutil;
pub(crate) mod shadow;
pub(crate) mod ssh;
pub(crate) mod status;
pub(crate) mod wait;

use std::collections::HashMap;
use std::sync::LazyLock;

use zagent_compiler::functions::FunctionArgs;
use zagent_compiler::{CallError, FunctionCall};
use zagent_config::Value;

use crate::exec_function::{self, ExecFunction};
use zagent_host::Machine;

pub use describe::{FunctionSummary, described_functions};

/// The tables of execution modules that have no state module; the others stand beside their states.
const STATELESS: &[&[ExecFunction]] = &[
    dig::TABLE,
    disk::TABLE,
    dnsutil::TABLE,
    filters::TABLE,
    hashutil::TABLE,
    kernelpkg::TABLE,
    log::TABLE,
    lowpkg::TABLE,
    mine::TABLE,
    random::TABLE,
    saltutil::TABLE,
    shadow::TABLE,
    ssh::TABLE,
    status::TABLE,
    wait::TABLE,
];

/// All functions by name: templates ask for one with every call.
static BY_NAME: LazyLock<HashMap<&'static str, &'static ExecFunction>> =
    LazyLock::new(|| all_functions().map(|f| (f.name, f)).collect());

fn all_functions() -> impl Iterator<Item = &'static ExecFunction> {
    let modules = crate::MODULES.iter().map(|module| module.functions);
    modules.chain(STATELESS.iter().copied()).flatten()
}

fn find_function(name: &str) -> Option<&'static ExecFunction> {
    BY_NAME.get(name).copied()
}

fn template_functions() -> impl Iterator<Item = &'static ExecFunction> {
    all_functions().filter(|f| f.is_for_templates())
}

fn find_template_function(name: &str) -> Option<&'static ExecFunction> {
    find_function(name).filter(|f| f.is_for_templates())
}

/// The names of all functions that this machine has.
#[must_use]
pub(crate) fn available_names(machine: &Machine) -> Vec<&'static str> {
    template_functions()
        .filter(|e| e.needs_program.is_none_or(|p| machine.which(p).is_some()))
        .map(|e| e.name)
        .collect()
}

/// True when some machine has this function, whatever programs this one has.
#[must_use]
pub fn is_known(name: &str) -> bool {
    find_template_function(name).is_some()
}

/// The names of all functions that any machine has, and those of `more` that some machine has.
pub(crate) fn names_including(more: &zagent_config::Map) -> Vec<&'static str> {
    template_functions()
        .filter(|e| e.needs_program.is_none() || more.contains(e.name))
        .map(|e| e.name)
        .collect()
}

/// Those of these names that are functions for templates.
#[must_use]
pub fn names_among(names: &[String]) -> Vec<&'static str> {
    names.iter().filter_map(|name| find_template_function(name)).map(|function| function.name).collect()
}

/// Calls a function.
///
/// # Errors
/// Fails when there is no such function here, it is forbidden, or it failed.
pub(crate) fn call_from_template(machine: &Machine, call: &FunctionCall) -> Result<Value, CallError> {
    if changes_host(&call.function) && !crate::http::functions::is_read_only_call(call) {
        let words =
            "it changes the host, and templates only look; call it by `module.run` or on the command line";
        return Err(CallError::Forbidden(words.into()));
    }
    call_any(machine, call)
}

/// What to do about a function that starts a program where none may be started.
const NO_COMMANDS_HINT: &str =
    "leave out `--no-commands` if you trust the tree, or take the value from a grain or pillar";

/// True when a function changes the host.
#[must_use]
pub fn changes_host(name: &str) -> bool {
    find_function(name).is_some_and(|f| f.changes_host)
}

/// True when a function of the host only looks. What a command does nobody knows, although templates may run some.
#[must_use]
pub fn is_read_only(name: &str) -> bool {
    !name.starts_with("cmd.") && find_template_function(name).is_some_and(|f| !f.changes_host)
}

/// Calls a function, also one that changes the host.
///
/// # Errors
/// Fails when there is no such function here, or it failed.
pub(crate) fn call_any(machine: &Machine, call: &FunctionCall) -> Result<Value, CallError> {
    exec_function::count_call();
    let entry = find_function(&call.function).ok_or(CallError::Unknown)?;
    if entry.needs_program.is_some_and(|p| machine.which(p).is_none()) {
        return Err(CallError::Unknown);
    }
    let named = call.kwargs.iter().map(|(k, v)| (k.json_key(), v.clone())).collect();
    let bound = FunctionArgs::bind(entry.name, entry.signature, call.args.clone(), named)?;
    // What was refused to others before is not this function's.
    drop(machine.take_refused());
    let answer = (entry.body)(machine, &bound);
    match (machine.take_refused(), machine.programs_refused()) {
        // An answer that was given without the program is a guess.
        (Some(program), Some(why)) => {
            let message = format!("it starts `{program}`, and {why}");
            Err(CallError::Unavailable { message, hint: NO_COMMANDS_HINT.into() })
        }
        _ => Ok(answer?),
    }
}

#[cfg(test)]
pub mod tests;
