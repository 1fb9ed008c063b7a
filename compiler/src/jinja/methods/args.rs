//! The arguments of a call, bound to parameter names as Python binds them.
//!
//! Law: every error names the function and what is wrong with the call (held by
//! `messages_name_the_filter_or_method_and_the_types`).

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::jinja::object::{items_of, py_str, type_name};

/// Positional and named arguments of one call.
#[derive(Clone, Debug)]
pub struct CallArgs {
    what: String,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
}

impl CallArgs {
    /// Splits the arguments of a call; `what` names the function in messages.
    #[must_use]
    pub fn new(what: impl Into<String>, values: &[Value]) -> Self {
        let mut positional = values.to_vec();
        let mut named = Vec::new();
        if positional.last().is_some_and(Value::is_kwargs)
            && let Some(Ok(kwargs)) = positional.pop().map(Kwargs::try_from)
        {
            named = named_of(&kwargs);
        }
        Self { what: what.into(), positional, named }
    }

    /// Makes arguments of parts that minijinja has already split.
    #[must_use]
    pub fn from_parts(what: &str, positional: Vec<Value>, kwargs: &Kwargs) -> Self {
        Self { what: what.to_owned(), positional, named: named_of(kwargs) }
    }

    /// The function's name in messages.
    #[must_use]
    pub fn function_name(&self) -> &str {
        &self.what
    }

    /// The positional arguments.
    #[must_use]
    pub fn positional(&self) -> &[Value] {
        &self.positional
    }

    /// The named arguments in the order they were given.
    #[must_use]
    pub fn named(&self) -> &[(String, Value)] {
        &self.named
    }

    /// Binds the arguments to parameters; the first `required` of them must be given.
    ///
    /// # Errors
    /// Fails for too many, missing, unknown or doubled arguments.
    pub fn bind<const N: usize>(
        &self,
        names: [&str; N],
        required: usize,
    ) -> Result<[Option<Value>; N], Error> {
        if self.positional.len() > N {
            return Err(Error::new(
                ErrorKind::TooManyArguments,
                format!("{} takes at most {N} arguments ({} given)", self.what, self.positional.len()),
            ));
        }
        let mut out: [Option<Value>; N] = std::array::from_fn(|i| self.positional.get(i).cloned());
        for (name, value) in &self.named {
            let Some(i) = names.iter().position(|n| n == name) else {
                return Err(Error::new(
                    ErrorKind::TooManyArguments,
                    format!("{} got an unexpected keyword argument '{name}'", self.what),
                ));
            };
            if out[i].is_some() {
                return Err(Error::new(
                    ErrorKind::TooManyArguments,
                    format!("{} got multiple values for argument '{name}'", self.what),
                ));
            }
            out[i] = Some(value.clone());
        }
        for (i, name) in names.iter().enumerate().take(required) {
            if out[i].is_none() {
                return Err(Error::new(
                    ErrorKind::MissingArgument,
                    format!("{} is missing its argument '{name}'", self.what),
                ));
            }
        }
        Ok(out)
    }

    /// Rejects named arguments, for functions that only take positional ones.
    ///
    /// # Errors
    /// Fails when there are any.
    pub fn only_positional(&self) -> Result<(), Error> {
        if self.named.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TooManyArguments, format!("{} takes no keyword arguments", self.what)))
    }

    /// Binds a call without arguments.
    ///
    /// # Errors
    /// Fails when there are any.
    pub fn expect_none(&self) -> Result<(), Error> {
        self.bind([], 0).map(|_: [Option<Value>; 0]| ())
    }

    /// Binds a call with exactly one argument.
    ///
    /// # Errors
    /// Fails when there are none or more.
    pub fn expect_one(&self, name: &str) -> Result<Value, Error> {
        let [value] = self.bind([name], 1)?;
        value.ok_or_else(|| self.error("is missing its argument"))
    }

    /// An error that starts with the function's name.
    #[must_use]
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::InvalidOperation, format!("{}: {message}", self.what))
    }

    /// An error that names the type that was given and the one that is needed.
    #[must_use]
    pub fn type_error(&self, name: &str, needs: &str, got: &Value) -> Error {
        if got.is_undefined() {
            return undefined_error(got);
        }
        self.error(format_args!("{name} must be {needs}, not '{}'", type_name(got)))
    }

    /// A string argument.
    ///
    /// # Errors
    /// Fails when it is not a string.
    pub fn str<'v>(&self, name: &str, value: &'v Value) -> Result<&'v str, Error> {
        value.as_str().ok_or_else(|| self.type_error(name, "a string", value))
    }

    /// An integer argument.
    ///
    /// # Errors
    /// Fails when it is not an integer that fits.
    pub fn int(&self, name: &str, value: &Value) -> Result<i64, Error> {
        if value.kind() == ValueKind::Bool {
            return Ok(i64::from(value.is_true()));
        }
        if value.is_integer()
            && let Some(i) = value.as_i64()
        {
            return Ok(i);
        }
        Err(self.type_error(name, "an integer", value))
    }

    /// An argument that is iterated.
    ///
    /// # Errors
    /// Fails when it cannot be.
    pub fn items(&self, value: &Value) -> Result<Vec<Value>, Error> {
        if value.is_undefined() {
            return Err(undefined_error(value));
        }
        items_of(value).map_err(|e| self.error(e.detail().unwrap_or("cannot be iterated")))
    }

    /// An argument as text, as Python's `str()` gives it.
    ///
    /// # Errors
    /// Fails for undefined values.
    pub fn text(&self, value: &Value) -> Result<String, Error> {
        if value.is_undefined() {
            return Err(undefined_error(value));
        }
        Ok(py_str(value))
    }
}

fn named_of(kwargs: &Kwargs) -> Vec<(String, Value)> {
    kwargs.args().filter_map(|name| kwargs.peek::<Value>(name).ok().map(|v| (name.to_owned(), v))).collect()
}

/// The error of an undefined value; minijinja adds the name where it knows it.
#[must_use]
pub fn undefined_error(value: &Value) -> Error {
    match value.get_attr("") {
        Err(error) => error,
        Ok(_) => Error::from(ErrorKind::UndefinedError),
    }
}

/// True unless the argument is missing or `None`.
#[must_use]
pub fn not_none(value: Option<Value>) -> Option<Value> {
    value.filter(|v| !v.is_none())
}
