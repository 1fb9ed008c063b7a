//! The `salt` of templates: `salt['mod.fun'](…)`, `salt.mod.fun(…)`, `'mod.fun' in salt`, `salt.get('mod.fun')`.
//!
//! A function that is not there is undefined, as in Salt, so that templates can ask before they call. Calling it is
//! the engine's error; [`Functions::missing`] tells it which name to report.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind, State};
use zagent_config::Fault;

use super::{Functions, Refusal, refusal};
use crate::jinja::object::{list, pairs_of};
use crate::jinja::ops;

/// Makes the `salt` object.
#[must_use]
pub fn salt(functions: &Functions) -> Value {
    Value::from_object(Salt(functions.clone()))
}

/// One function as a value, for templates that have it under a name of its own.
pub(super) fn function(functions: &Functions, name: &str) -> Value {
    Value::from_object(Function(functions.clone(), name.to_owned()))
}

/// True for the `salt` object and its modules.
pub(crate) fn is_functions(value: &Value) -> bool {
    value.downcast_object_ref::<Salt>().is_some() || value.downcast_object_ref::<Module>().is_some()
}

struct Salt(Functions);
struct Module(Functions, String);

/// One function, ready to be called.
pub struct Function(Functions, String);

/// Turns a refusal into an error that carries its fault.
fn error(functions: &Functions, name: &str, refusal: &Refusal) -> Error {
    carry(refusal.fault(name, functions))
}

fn carry(fault: Fault) -> Error {
    Error::new(ErrorKind::InvalidOperation, fault.message.clone()).with_source(fault)
}

impl Functions {
    /// The fault behind an error of a template, when a function was refused or a missing one was called.
    #[must_use]
    pub fn fault_of(&self, error: &Error) -> Option<Fault> {
        fault_of(error, self)
    }
}

fn fault_of(error: &Error, functions: &Functions) -> Option<Fault> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(fault) = cause.downcast_ref::<Fault>() {
            return Some(fault.clone());
        }
        source = cause.source();
    }
    let called_nothing = error.detail().is_some_and(|d| d.contains("undefined") && d.contains("callable"));
    let missing = functions.missing().filter(|_| called_nothing)?;
    Some(refusal::unknown(&missing, functions))
}

fn invoke(functions: &Functions, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (args, named) = match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => (rest, pairs_of(last).unwrap_or_default()),
        _ => (args, Vec::new()),
    };
    let named = named.into_iter().map(|(k, v)| (k.as_str().unwrap_or_default().to_owned(), v)).collect();
    functions.call_live(name, args.to_vec(), named).map_err(|refusal| error(functions, name, &refusal))
}

/// Calls a function and counts what goes in; texts that come out are counted where they go on.
fn watched(
    state: &mut State<'_, '_>,
    functions: &Functions,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    ops::look(state, args)?;
    invoke(functions, name, args)
}

impl Salt {
    fn lookup(&self, name: &str) -> Option<Value> {
        if self.0.contains(name) {
            return Some(Value::from_object(Function(self.0.clone(), name.to_owned())));
        }
        if !name.contains('.') && self.0.contains_module(name) {
            return Some(Value::from_object(Module(self.0.clone(), name.to_owned())));
        }
        self.0.note_missing(name);
        None
    }
}

impl Object for Salt {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.lookup(key.as_str()?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.names().into_iter().map(Value::from).collect())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match (method, args) {
            ("get", [name]) => {
                Ok(name.as_str().and_then(|n| self.lookup(n)).unwrap_or_else(|| Value::from(())))
            }
            ("get", [name, default]) if !default.is_kwargs() => {
                Ok(name.as_str().and_then(|n| self.lookup(n)).unwrap_or_else(|| default.clone()))
            }
            ("keys", []) => Ok(list(self.0.names().into_iter().map(Value::from).collect())),
            _ => Err(carry(refusal::unknown(method, &self.0))),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<salt>")
    }
}

impl Object for Module {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = format!("{}.{}", self.1, key.as_str()?);
        if self.0.contains(&name) {
            return Some(Value::from_object(Function(self.0.clone(), name)));
        }
        self.0.note_missing(&name);
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        watched(state, &self.0, &format!("{}.{method}", self.1), args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<module {}>", self.1)
    }
}

impl Object for Function {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        watched(state, &self.0, &self.1, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<function {}>", self.1)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("salt")
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "salt.{}", self.1)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "salt['{}']", self.1)
    }
}
