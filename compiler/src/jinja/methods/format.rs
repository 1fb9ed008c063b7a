//! `'{} {name!r:>10}'.format(…)`: replacement fields, as Jinja's sandbox resolves them.
//!
//! Law: attributes that start with `_` are rejected (held by `values_behave_as_in_python`).

use minijinja::value::Value;
use minijinja::{Error, State};

use super::args::{CallArgs, undefined_error};
use super::spec::format_value;
use crate::jinja::object::{budget, py_str, repr};

/// Nesting of fields inside specifications, as Python allows it.
const MAX_NESTING: usize = 2;

/// `str.format`.
///
/// # Errors
/// Fails for a malformed template, a missing argument or a wrong specification.
pub fn call(_: &mut State<'_, '_>, template: &str, args: &CallArgs) -> Result<Value, Error> {
    let mut formatter = StrFormatter { args, mapping: None, next: Some(0) };
    formatter.run(template, MAX_NESTING).map(Value::from)
}

/// `str.format_map`.
///
/// # Errors
/// As [`call`].
pub fn call_map(_: &mut State<'_, '_>, template: &str, args: &CallArgs) -> Result<Value, Error> {
    let mapping = args.expect_one("mapping")?;
    let mut formatter = StrFormatter { args, mapping: Some(mapping), next: Some(0) };
    formatter.run(template, MAX_NESTING).map(Value::from)
}

struct StrFormatter<'a> {
    args: &'a CallArgs,
    mapping: Option<Value>,
    /// The next automatic number; `None` after fields were numbered explicitly.
    next: Option<usize>,
}

impl StrFormatter<'_> {
    fn run(&mut self, template: &str, nesting: usize) -> Result<String, Error> {
        if nesting == 0 {
            return Err(self.args.error("fields are nested too deep"));
        }
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(self.args.error("single '}' in the format string"));
            }
            let end = field_end(rest)
                .ok_or_else(|| self.args.error("expected '}' before the end of the string"))?;
            let field = self.field(&rest[..end], nesting)?;
            out.push_str(&field);
            budget::check_bytes(self.args.function_name(), out.len())?;
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, nesting: usize) -> Result<String, Error> {
        let (name, conversion, spec) = split_field(field);
        let value = self.resolve(name)?;
        if value.is_undefined() {
            return Err(undefined_error(&value));
        }
        let spec = if spec.contains(['{', '}']) { self.run(spec, nesting - 1)? } else { spec.to_owned() };
        match conversion {
            None => format_value(&value, &spec),
            Some("r" | "a") => format_value(&Value::from(repr(&value)), &spec),
            Some("s") => format_value(&Value::from(py_str(&value)), &spec),
            Some(other) => Err(self.args.error(format_args!("unknown conversion specifier '{other}'"))),
        }
    }

    fn resolve(&mut self, name: &str) -> Result<Value, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at(end);
        let mut value = self.argument(first)?;
        while !rest.is_empty() {
            if value.is_undefined() {
                return Err(undefined_error(&value));
            }
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                value = self.attribute(&value, &after[..end])?;
                rest = &after[end..];
            } else {
                let after = &rest[1..];
                let end = after.find(']').ok_or_else(|| self.args.error("missing ']' in a field"))?;
                let key = &after[..end];
                let key = key.parse::<i64>().map_or_else(|_| Value::from(key), Value::from);
                value = value.get_item(&key)?;
                rest = &after[end + 1..];
                if !rest.is_empty() && !rest.starts_with(['.', '[']) {
                    return Err(self.args.error("only '.' or '[' may follow ']' in a field"));
                }
            }
        }
        Ok(value)
    }

    fn attribute(&self, value: &Value, name: &str) -> Result<Value, Error> {
        if name.starts_with('_') {
            return Err(self.args.error(format_args!("access to attribute '{name}' is unsafe")));
        }
        value.get_attr(name)
    }

    fn argument(&mut self, name: &str) -> Result<Value, Error> {
        let index = if name.is_empty() {
            let Some(n) = self.next else {
                return Err(self.args.error("cannot switch from manual field numbering to automatic"));
            };
            self.next = Some(n + 1);
            Some(n)
        } else {
            let n = name.parse::<usize>().ok();
            if n.is_some() {
                if self.next.is_some_and(|n| n > 0) {
                    return Err(self.args.error("cannot switch from automatic field numbering to manual"));
                }
                self.next = None;
            }
            n
        };
        if let Some(mapping) = &self.mapping {
            let found = mapping.get_item(&Value::from(name))?;
            return Ok(found);
        }
        let found = match index {
            Some(i) => self.args.positional().get(i).cloned(),
            None => self.args.named().iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()),
        };
        let shown = index.map_or_else(|| name.to_owned(), |i| i.to_string());
        found.ok_or_else(|| self.args.error(format_args!("missing argument '{shown}'")))
    }
}

/// The position of the `}` of a field; brackets and nested fields are skipped.
fn field_end(rest: &str) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(i),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn split_field(field: &str) -> (&str, Option<&str>, &str) {
    let mut in_brackets = false;
    let mut end = field.len();
    for (i, c) in field.char_indices() {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            ':' | '!' if !in_brackets => {
                end = i;
                break;
            }
            _ => {}
        }
    }
    let (name, rest) = field.split_at(end);
    let (conversion, rest) = match rest.strip_prefix('!') {
        Some(after) => {
            let end = after.find(':').unwrap_or(after.len());
            (Some(&after[..end]), &after[end..])
        }
        None => (None, rest),
    };
    (name, conversion, rest.strip_prefix(':').unwrap_or(rest))
}
