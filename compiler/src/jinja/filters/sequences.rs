//! Jinja2's filters on sequences and mappings.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use crate::jinja::methods::args::{CallArgs, not_none, undefined_error};
use crate::jinja::methods::{dict as dict_methods, slice, sort};
use crate::jinja::object::{PyDict, budget, generator, list, pairs_of, resolve_index, tuple, type_name};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("first", first),
    ("last", last),
    ("length", |_, a| length(a)),
    ("count", |_, a| length(a)),
    ("list", |_, a| Ok(list(a.items(&a.expect_one("value")?)?))),
    ("reverse", reverse),
    ("sort", sort_filter),
    ("join", join),
    ("batch", batch),
    ("slice", slice_filter),
    ("items", items),
    ("dictsort", dictsort),
    ("attr", attr),
    ("default", |_, a| default(a)),
    ("d", |_, a| default(a)),
];

fn first(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let items = args.items(&args.expect_one("seq")?)?;
    Ok(items.into_iter().next().unwrap_or_default())
}

fn last(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("seq")?;
    if type_name(&value) == "generator" {
        return Err(args.type_error("the value", "a sequence", &value));
    }
    Ok(args.items(&value)?.pop().unwrap_or_default())
}

fn length(args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    match (value.as_str(), value.len()) {
        (Some(text), _) => Ok(Value::from(text.chars().count())),
        (None, Some(n)) => Ok(Value::from(n)),
        (None, None) => Err(args.error(format_args!("object of type '{}' has no length", type_name(&value)))),
    }
}

fn reverse(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = args.items(&value)?;
    items.reverse();
    Ok(generator("reverse", items))
}

/// Strings without their case, everything else as it is.
fn fold_case(value: Value) -> Value {
    match value.as_str() {
        Some(text) => Value::from(text.to_lowercase()),
        None => value,
    }
}

fn sort_filter(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, reverse, sensitive, attribute] =
        args.bind(["value", "reverse", "case_sensitive", "attribute"], 1)?;
    let is_sensitive = sensitive.is_some_and(|v| v.is_true());
    let paths: Vec<Value> = match not_none(attribute) {
        None => Vec::new(),
        Some(path) => match path.as_str() {
            Some(text) => text.split(',').map(Value::from).collect(),
            None => vec![path],
        },
    };
    let mut keyed = Vec::new();
    for item in args.items(&value.unwrap_or_default())? {
        let fold = |v: Value| if is_sensitive { v } else { fold_case(v) };
        let mut keys = Vec::new();
        for path in &paths {
            keys.push(fold(slice::lookup_path(&item, path)?));
        }
        let key = if paths.is_empty() { fold(item.clone()) } else { list(keys) };
        keyed.push((key, item));
    }
    let sorted = sort::sorted(keyed, reverse.is_some_and(|v| v.is_true()));
    sorted.map(list).map_err(|e| sort::name_error(args, e))
}

fn join(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, separator, attribute] = args.bind(["value", "d", "attribute"], 1)?;
    let separator = separator.map_or_else(|| Ok(String::new()), |v| args.text(&v))?;
    let attribute = not_none(attribute);
    let mut out = String::new();
    for (i, item) in args.items(&value.unwrap_or_default())?.into_iter().enumerate() {
        if i > 0 {
            out.push_str(&separator);
        }
        let item = match &attribute {
            Some(path) => slice::lookup_path(&item, path)?,
            None => item,
        };
        out.push_str(&args.text(&item)?);
        budget::check_bytes(args.function_name(), out.len())?;
    }
    Ok(Value::from(out))
}

fn batch(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, count, fill] = args.bind(["value", "linecount", "fill_with"], 2)?;
    let count = args.int("linecount", &count.unwrap_or_default())?;
    let items = args.items(&value.unwrap_or_default())?;
    let size = usize::try_from(count).unwrap_or(0).max(1);
    let fill = not_none(fill);
    let mut out = Vec::new();
    for chunk in items.chunks(size) {
        let mut chunk = chunk.to_vec();
        if let Some(fill) = &fill {
            budget::check_items(args.function_name(), size)?;
            chunk.resize(size, fill.clone());
        }
        out.push(list(chunk));
    }
    Ok(generator("batch", out))
}

fn slice_filter(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, slices, fill] = args.bind(["value", "slices", "fill_with"], 2)?;
    let items = args.items(&value.unwrap_or_default())?;
    let slices = args.int("slices", &slices.unwrap_or_default())?;
    let Some(slices) = usize::try_from(slices).ok().filter(|n| *n > 0) else {
        return if slices == 0 {
            Err(args.error("division by zero"))
        } else {
            Ok(generator("slice", Vec::new()))
        };
    };
    budget::check_items(args.function_name(), slices)?;
    let (each, longer) = (items.len() / slices, items.len() % slices);
    let fill = not_none(fill);
    let (mut out, mut at) = (Vec::new(), 0);
    for i in 0..slices {
        let end = at + each + usize::from(i < longer);
        let mut part = items[at..end].to_vec();
        at = end;
        if let Some(fill) = fill.as_ref().filter(|_| i >= longer) {
            part.push(fill.clone());
        }
        out.push(list(part));
    }
    Ok(generator("slice", out))
}

fn items(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    if value.is_undefined() {
        return Ok(generator("items", Vec::new()));
    }
    let Some(pairs) = pairs_of(&value) else {
        return Err(args.type_error("the value", "a mapping", &value));
    };
    Ok(generator("items", pairs.into_iter().map(|(k, v)| tuple(vec![k, v])).collect()))
}

fn dictsort(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, sensitive, by, reverse] = args.bind(["value", "case_sensitive", "by", "reverse"], 1)?;
    let value = value.unwrap_or_default();
    let is_sensitive = sensitive.is_some_and(|v| v.is_true());
    let by = by.map_or_else(|| Ok("key".to_owned()), |v| args.text(&v))?;
    if !matches!(by.as_str(), "key" | "value") {
        return Err(args.error("you can only sort by either \"key\" or \"value\""));
    }
    if value.kind() != ValueKind::Map {
        return Err(args.type_error("the value", "a mapping", &value));
    }
    let keyed = dict_methods::pairs(args, &value)?.into_iter().map(|(k, v)| {
        let key = if by == "key" { k.clone() } else { v.clone() };
        let key = if is_sensitive { key } else { fold_case(key) };
        (key, tuple(vec![k, v]))
    });
    let sorted = sort::sorted(keyed.collect(), reverse.is_some_and(|v| v.is_true()));
    sorted.map(list).map_err(|e| sort::name_error(args, e))
}

fn attr(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, name] = args.bind(["obj", "name"], 2)?;
    let (value, name) = (value.unwrap_or_default(), args.text(&name.unwrap_or_default())?);
    if name.starts_with('_') {
        return Err(args.error(format_args!("access to attribute '{name}' is unsafe")));
    }
    // Only attributes: the items of a dictionary are not found here.
    if value.downcast_object_ref::<PyDict>().is_some() && !dict_methods::NAMES.contains(&name.as_str()) {
        return Ok(Value::UNDEFINED);
    }
    value.get_attr(&name)
}

fn default(args: &CallArgs) -> Result<Value, Error> {
    let [value, default, boolean] = args.bind(["value", "default_value", "boolean"], 1)?;
    let value = value.unwrap_or_default();
    let is_missing = value.is_undefined() || (boolean.is_some_and(|b| b.is_true()) && !value.is_true());
    Ok(if is_missing { default.unwrap_or_else(|| Value::from("")) } else { value })
}

/// One item chosen by a number below the length.
pub(super) fn pick_item(items: &[Value], index: i64) -> Result<Value, Error> {
    match resolve_index(index, items.len()) {
        Some(i) => Ok(items[i].clone()),
        None => Err(undefined_error(&Value::UNDEFINED)),
    }
}
