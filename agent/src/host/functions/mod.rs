//! Execution functions by name: `user.info`, `pkg.version`, `cmd.run`, `service.restart`, ….
//!
//! Law: what a function cannot find out is an error or Salt's own "nothing", never a guess. Templates call only those that
//! look; those that act are for states and the command line.

mod accounts;
mod alternatives;
mod cmd;
mod disk;
mod fetch;
mod file;
mod file_find;
mod filters;
mod firewall;
mod network;
mod packages;
mod pkg;
mod programs;
mod service;
mod services;
pub(crate) mod stores;
mod system;
mod users;

use std::cell::Cell;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_compiler::{Call, CallError};
use zagent_config::Value;

use super::Machine;

/// What a function does.
type Body = fn(&Machine, &Bound<Value>) -> Result<Value, Refusal>;

/// One function.
pub(crate) struct Entry {
    name: &'static str,
    signature: &'static str,
    /// The program without which there is no such function.
    needs: Option<&'static str>,
    /// It changes the host.
    acts: bool,
    body: Body,
}

const fn entry(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: None, acts: false, body }
}

const fn needing(program: &'static str, name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: Some(program), acts: false, body }
}

/// A function that changes the host.
const fn acting(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: None, acts: true, body }
}

const TABLES: [&[Entry]; 17] = [
    cmd::TABLE,
    file::TABLE,
    file_find::TABLE,
    users::TABLE,
    pkg::TABLE,
    service::TABLE,
    alternatives::TABLE,
    network::TABLE,
    disk::TABLE,
    system::TABLE,
    programs::TABLE,
    filters::TABLE,
    accounts::TABLE,
    fetch::TABLE,
    firewall::TABLE,
    packages::TABLE,
    services::TABLE,
];

fn all() -> impl Iterator<Item = &'static Entry> {
    TABLES.into_iter().chain(stores::TABLES).flatten()
}

fn for_templates() -> impl Iterator<Item = &'static Entry> {
    all().filter(|e| !e.name.starts_with("zagent."))
}

/// The names of all functions that this machine has.
#[must_use]
pub fn names(machine: &Machine) -> Vec<&'static str> {
    for_templates().filter(|e| e.needs.is_none_or(|p| machine.which(p).is_some())).map(|e| e.name).collect()
}

/// True when some machine has this function, whatever programs this one has.
#[must_use]
pub fn is_known(name: &str) -> bool {
    for_templates().any(|e| e.name == name)
}

/// The names of all functions that any machine has, and those of `more` that some machine has.
pub(super) fn names_with(more: &zagent_config::Map) -> Vec<&'static str> {
    for_templates().filter(|e| e.needs.is_none() || more.contains(e.name)).map(|e| e.name).collect()
}

/// Calls a function.
///
/// # Errors
/// Fails when there is no such function here, it is forbidden, or it failed.
pub fn call(machine: &Machine, call: &Call) -> Result<Value, CallError> {
    if acts(&call.function) && !fetch::only_looks(call) {
        let words =
            "it changes the host, and templates only look; call it by `module.run` or on the command line";
        return Err(CallError::Forbidden(words.into()));
    }
    act(machine, call)
}

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has asked the host so far: whoever renders a template tells by it whether the host was looked at.
pub(crate) fn asked() -> u64 {
    ASKED.get()
}

/// True when a function changes the host.
#[must_use]
pub fn acts(name: &str) -> bool {
    all().any(|e| e.name == name && e.acts)
}

/// True when a function of the host only looks. What a command does nobody knows, although templates may run some.
#[must_use]
pub fn looks(name: &str) -> bool {
    !name.starts_with("cmd.") && for_templates().any(|e| e.name == name && !e.acts)
}

/// Calls a function, also one that changes the host.
///
/// # Errors
/// Fails when there is no such function here, or it failed.
pub fn act(machine: &Machine, call: &Call) -> Result<Value, CallError> {
    ASKED.set(ASKED.get().wrapping_add(1));
    let entry = all().find(|e| e.name == call.function).ok_or(CallError::Unknown)?;
    if entry.needs.is_some_and(|p| machine.which(p).is_none()) {
        return Err(CallError::Unknown);
    }
    let named = call.kwargs.iter().map(|(k, v)| (k.json_key(), v.clone())).collect();
    let bound = Bound::bind(entry.name, entry.signature, call.args.clone(), named)?;
    Ok((entry.body)(machine, &bound)?)
}

/// An argument that has to be text.
fn text<'a>(args: &'a Bound<Value>, name: &str) -> Result<&'a str, Refusal> {
    let value = args.get(name);
    value.and_then(Value::as_str).ok_or_else(|| {
        let got = value.map_or("nothing", Value::kind);
        Refusal::arguments(format!("`{name}` must be text, not {got}"))
    })
}

/// An argument as text, when it is given and is not nothing.
fn word<'a>(args: &'a Bound<Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

/// An argument that switches something on.
fn flag(args: &Bound<Value>, name: &str, default: bool) -> bool {
    args.get(name).map_or(default, Value::is_truthy)
}

/// A list of texts.
fn strings<S: Into<Value>>(items: impl IntoIterator<Item = S>) -> Value {
    items.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
