//! Macros as Jinja2 has them: `varargs`, `kwargs`, `caller`, and the attributes of a macro.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value};
use minijinja::{Environment, Error, State};
use zagent_config::codes::template;

use super::error::TemplateError;
use super::object::{Dict, DictKey, dict, tuple};

/// Adds the filter that makes a macro out of the engine's.
pub(crate) fn install(env: &mut Environment<'_>) {
    env.add_filter("_za_macro", |inner: Value, varargs: bool, kwargs: bool| {
        let name =
            inner.get_attr("name").ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        let caller = inner.get_attr("caller").is_ok_and(|v| v.is_true());
        let mut names: Vec<String> = inner
            .get_attr("arguments")
            .and_then(|v| v.try_iter().map(|items| items.map(|v| v.to_string()).collect()))
            .unwrap_or_default();
        // The names for the remaining arguments come last, and the caller cannot pass them.
        for hidden in [kwargs.then_some("kwargs"), varargs.then_some("varargs")].into_iter().flatten() {
            if names.last().is_some_and(|n| n == hidden) {
                names.pop();
            }
        }
        Value::from_object(JinjaMacro { inner, name, names, varargs, kwargs, caller })
    });
}

/// A macro and how it takes its arguments.
struct JinjaMacro {
    inner: Value,
    name: String,
    names: Vec<String>,
    varargs: bool,
    kwargs: bool,
    caller: bool,
}

impl fmt::Debug for JinjaMacro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<Macro {:?}>", self.name)
    }
}

impl JinjaMacro {
    fn error(&self, message: impl fmt::Display) -> Error {
        TemplateError::new(template::CALL, format!("the macro `{}` {message}", self.name)).into()
    }

    fn check_args(&self, positional: &[Value], named: &Kwargs) -> Result<(), Error> {
        if positional.len() > self.names.len() && !self.varargs {
            let n = self.names.len();
            let what = if n == 1 { "argument" } else { "arguments" };
            return Err(
                self.error(format_args!("takes at most {n} {what} but was given {}", positional.len()))
            );
        }
        for key in named.args() {
            let index = self.names.iter().position(|n| n == key);
            match index {
                Some(i) if i < positional.len() => {
                    return Err(self.error(format_args!("was given `{key}` twice")));
                }
                Some(_) => {}
                None if key == "caller" && self.caller => {}
                None if key == "caller" => {
                    return Err(self.error("does not use `caller()`, so a `call` block cannot call it"));
                }
                None if self.kwargs => {}
                None => return Err(self.unknown_argument(key)),
            }
        }
        Ok(())
    }

    fn unknown_argument(&self, key: &str) -> Error {
        let near = zagent_config::suggest::nearest(key, self.names.iter().map(String::as_str));
        TemplateError::new(template::CALL, format!("the macro `{}` has no argument `{key}`", self.name))
            .hint(near.map(|n| format!("did you mean `{n}`?")))
            .into()
    }

    /// Passes the remaining arguments as `varargs` and `kwargs`.
    fn gather_rest(&self, positional: &[Value], named: &Kwargs) -> Result<Vec<Value>, Error> {
        let split = positional.len().min(self.names.len());
        let mut args = positional[..split].to_vec();
        let mut known = Vec::new();
        let mut rest = Dict::new();
        for key in named.args() {
            let value: Value = named.peek(key)?;
            if self.names.iter().any(|n| n == key) || key == "caller" {
                known.push((key.to_owned(), value));
            } else {
                rest.insert(DictKey::from(key), value);
            }
        }
        if self.varargs {
            known.push(("varargs".to_owned(), tuple(positional[split..].to_vec())));
        }
        if self.kwargs {
            known.push(("kwargs".to_owned(), dict(rest)));
        }
        args.push(Value::from(known.into_iter().collect::<Kwargs>()));
        Ok(args)
    }
}

impl Object for JinjaMacro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str()? {
            "name" => Value::from(self.name.as_str()),
            "arguments" => tuple(self.names.iter().map(|n| Value::from(n.as_str())).collect()),
            "catch_varargs" => Value::from(self.varargs),
            "catch_kwargs" => Value::from(self.kwargs),
            "caller" => Value::from(self.caller),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (positional, named) = match args.split_last() {
            Some((last, rest)) if last.is_kwargs() => (rest, Kwargs::try_from(last.clone())?),
            _ => (args, std::iter::empty::<(String, Value)>().collect()),
        };
        self.check_args(positional, &named)?;
        if self.varargs || self.kwargs {
            let args = self.gather_rest(positional, &named)?;
            return self.inner.call(state, &args);
        }
        self.inner.call(state, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<Macro '{}'>", self.name)
    }
}
