//! The `salt` object in templates: `salt['mod.fun'](…)`, `salt.mod.fun(…)`, `'mod.fun' in salt`, `salt.get('mod.fun')`.
//!
//! An unknown function is undefined, as in Salt, so that templates can test for it first. Calling it is
//! a template engine error; [`Functions::last_missing`] gives the name to report.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind, State};
use zagent_config::Diagnostic;

use super::{FunctionError, Functions, error};
use crate::jinja::object::{list, pairs_of};
use crate::jinja::operator_filters;

/// Makes the `salt` object.
#[must_use]
pub fn salt(functions: &Functions) -> Value {
    Value::from_object(SaltObject(functions.clone()))
}

/// One function as a value, for templates that use it under its own variable name.
pub(super) fn function(functions: &Functions, name: &str) -> Value {
    Value::from_object(SaltFunction(functions.clone(), name.to_owned()))
}

/// True for the `salt` object and its modules.
pub(crate) fn is_functions(value: &Value) -> bool {
    value.downcast_object_ref::<SaltObject>().is_some() || value.downcast_object_ref::<SaltModule>().is_some()
}

struct SaltObject(Functions);
struct SaltModule(Functions, String);

/// One function that can be called.
pub struct SaltFunction(Functions, String);

/// Turns a failed call into a template error that carries its diagnostic.
fn to_template_error(functions: &Functions, name: &str, cause: &FunctionError) -> Error {
    diagnostic_error(error::to_diagnostic(cause, name, functions))
}

fn diagnostic_error(diagnostic: Diagnostic) -> Error {
    Error::new(ErrorKind::InvalidOperation, diagnostic.message.clone()).with_source(diagnostic)
}

impl Functions {
    /// The diagnostic behind a template error, when a function failed or an unknown one was called.
    #[must_use]
    pub fn diagnostic_of(&self, error: &Error) -> Option<Diagnostic> {
        find_diagnostic(error, self)
    }
}

fn find_diagnostic(error: &Error, functions: &Functions) -> Option<Diagnostic> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(diagnostic) = cause.downcast_ref::<Diagnostic>() {
            return Some(diagnostic.clone());
        }
        source = cause.source();
    }
    let called_nothing = error.detail().is_some_and(|d| d.contains("undefined") && d.contains("callable"));
    let missing = functions.last_missing().filter(|_| called_nothing)?;
    Some(error::unknown_function(&missing, functions))
}

fn invoke(functions: &Functions, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (args, named) = match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => (rest, pairs_of(last).unwrap_or_default()),
        _ => (args, Vec::new()),
    };
    let named = named.into_iter().map(|(k, v)| (k.as_str().unwrap_or_default().to_owned(), v)).collect();
    functions
        .call_live(name, args.to_vec(), named)
        .map_err(|error| to_template_error(functions, name, &error))
}

/// Calls a function and counts the size of its arguments; returned text is counted where it is used.
fn call_counted(
    state: &mut State<'_, '_>,
    functions: &Functions,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    operator_filters::count_input(state, args)?;
    invoke(functions, name, args)
}

impl SaltObject {
    fn lookup(&self, name: &str) -> Option<Value> {
        if self.0.contains(name) {
            return Some(Value::from_object(SaltFunction(self.0.clone(), name.to_owned())));
        }
        if !name.contains('.') && self.0.contains_module(name) {
            return Some(Value::from_object(SaltModule(self.0.clone(), name.to_owned())));
        }
        self.0.note_missing(name);
        None
    }
}

impl Object for SaltObject {
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
            _ => Err(diagnostic_error(error::unknown_function(method, &self.0))),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<salt>")
    }
}

impl Object for SaltModule {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = format!("{}.{}", self.1, key.as_str()?);
        if self.0.contains(&name) {
            return Some(Value::from_object(SaltFunction(self.0.clone(), name)));
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
        call_counted(state, &self.0, &format!("{}.{method}", self.1), args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<module {}>", self.1)
    }
}

impl Object for SaltFunction {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        call_counted(state, &self.0, &self.1, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<function {}>", self.1)
    }
}

impl fmt::Debug for SaltObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("salt")
    }
}

impl fmt::Debug for SaltModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "salt.{}", self.1)
    }
}

impl fmt::Debug for SaltFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "salt['{}']", self.1)
    }
}
