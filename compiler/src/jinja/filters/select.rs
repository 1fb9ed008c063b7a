//! Filters that run other filters and tests over a sequence: `map`, `select`, `groupby` and similar.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value};
use minijinja::{Error, State};

use super::FilterFn;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::methods::{slice, sort};
use crate::jinja::object::{generator, list, tuple};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("map", map),
    ("select", |s, a| filtered(s, a, false, true)),
    ("reject", |s, a| filtered(s, a, false, false)),
    ("selectattr", |s, a| filtered(s, a, true, true)),
    ("rejectattr", |s, a| filtered(s, a, true, false)),
    ("groupby", groupby),
];

fn call_args(value: Value, rest: &[Value], named: &[(String, Value)]) -> Vec<Value> {
    let mut out = Vec::with_capacity(rest.len() + 2);
    out.push(value);
    out.extend_from_slice(rest);
    if !named.is_empty() {
        out.push(named.iter().cloned().collect::<Kwargs>().into());
    }
    out
}

fn map(state: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let Some((value, rest)) = args.positional().split_first() else {
        return Err(args.error("needs a value"));
    };
    let items = args.items(value)?;
    let mut out = Vec::with_capacity(items.len());
    let Some((name, rest)) = rest.split_first() else {
        let bound =
            CallArgs::new(args.function_name(), &[args.named().iter().cloned().collect::<Kwargs>().into()]);
        let [attribute, default] = bound.bind(["attribute", "default"], 1)?;
        let (attribute, default) = (attribute.unwrap_or_default(), not_none(default));
        for item in items {
            out.push(slice::lookup_path_or(&item, &attribute, default.as_ref())?);
        }
        return Ok(generator("map", out));
    };
    let name = args.str("the filter's name", name)?;
    for item in items {
        out.push(state.apply_filter(name, &call_args(item, rest, args.named()))?);
    }
    Ok(generator("map", out))
}

fn filtered(
    state: &mut State<'_, '_>,
    args: &CallArgs,
    by_attribute: bool,
    wanted: bool,
) -> Result<Value, Error> {
    let Some((value, mut rest)) = args.positional().split_first() else {
        return Err(args.error("needs a value"));
    };
    let mut attribute = None;
    if by_attribute {
        let Some((first, after)) = rest.split_first() else {
            return Err(args.error("is missing its attribute"));
        };
        (attribute, rest) = (Some(first), after);
    }
    let test = match rest.split_first() {
        Some((name, rest)) => Some((args.str("the test's name", name)?.to_owned(), rest)),
        None => None,
    };
    let mut out = Vec::new();
    for item in args.items(value)? {
        let subject = match attribute {
            Some(path) => slice::lookup_path(&item, path)?,
            None => item.clone(),
        };
        let holds = match &test {
            Some((name, rest)) => state.perform_test(name, &call_args(subject, rest, args.named()))?,
            None if subject.is_undefined() => {
                return Err(crate::jinja::methods::args::undefined_error(&subject));
            }
            None => subject.is_true(),
        };
        if holds == wanted {
            out.push(item);
        }
    }
    Ok(generator(if wanted { "select" } else { "reject" }, out))
}

fn groupby(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, attribute, default, sensitive] =
        args.bind(["value", "attribute", "default", "case_sensitive"], 2)?;
    let (attribute, default) = (attribute.unwrap_or_default(), not_none(default));
    let is_sensitive = sensitive.is_some_and(|v| v.is_true());
    let mut keyed = Vec::new();
    for item in args.items(&value.unwrap_or_default())? {
        let key = slice::lookup_path_or(&item, &attribute, default.as_ref())?;
        let folded = match key.as_str() {
            Some(text) if !is_sensitive => Value::from(text.to_lowercase()),
            _ => key.clone(),
        };
        keyed.push((folded.clone(), tuple(vec![folded, key, item])));
    }
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for entry in sort::sorted(keyed, false).map_err(|e| sort::name_error(args, e))? {
        let part = |i| entry.get_item_by_index(i);
        let (folded, key, item) = (part(0)?, part(1)?, part(2)?);
        match groups.last_mut() {
            Some((last, _, members)) if *last == folded => members.push(item),
            _ => groups.push((folded, key, vec![item])),
        }
    }
    let groups = groups
        .into_iter()
        .map(|(_, key, members)| Value::from_object(GroupPair { key, list: list(members) }));
    Ok(list(groups.collect()))
}

/// A pair with the attributes `grouper` and `list`.
struct GroupPair {
    key: Value,
    list: Value,
}

impl fmt::Debug for GroupPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = tuple(vec![self.key.clone(), self.list.clone()]);
        f.write_str(&crate::jinja::object::repr(&pair))
    }
}

impl Object for GroupPair {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_i64(), key.as_str()) {
            (Some(0), _) | (_, Some("grouper")) => Some(self.key.clone()),
            (Some(1), _) | (_, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(vec![self.key.clone(), self.list.clone()])
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
