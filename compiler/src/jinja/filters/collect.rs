//! Salt's filters that test sequences, and those that flatten and order them.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::methods::sort;
use crate::jinja::object::budget::{self, MAX_DEPTH};
use crate::jinja::object::{is_hashable, list, type_name};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("is_list", |_, a| Ok(Value::from(type_name(&a.expect_one("value")?) == "list"))),
    ("is_iter", |_, a| Ok(Value::from(is_iter(&a.expect_one("thing")?)))),
    ("sequence", sequence),
    ("flatten", flatten),
    ("unique", |_, a| Ok(list(unique_items(a.items(&a.expect_one("values")?)?)))),
    ("sorted_ignorecase", sorted_ignorecase),
    ("substring_in_list", substring_in_list),
    ("exactly_n_true", |_, a| {
        let [items, amount] = a.bind(["iterable", "amount"], 1)?;
        let amount = amount.map_or(Ok(1), |v| a.int("amount", &v))?;
        count_is(a, &items.unwrap_or_default(), amount)
    }),
    ("exactly_one_true", |_, a| count_is(a, &a.expect_one("iterable")?, 1)),
];

/// True for what Python can iterate, strings excepted.
fn is_iter(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Bytes)
}

fn sequence(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("data")?;
    let is_container = matches!(type_name(&value), "list" | "tuple" | "dict");
    Ok(if is_container { value } else { list(vec![value]) })
}

fn flatten(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [data, levels, keep] = args.bind(["data", "levels", "preserve_nulls"], 1)?;
    let levels = not_none(levels).map(|v| args.int("levels", &v)).transpose()?;
    let keeps_nulls = keep.is_some_and(|v| v.is_true());
    let mut run = Flatten { args, keeps_nulls, seen: 0, out: Vec::new() };
    run.add(&data.unwrap_or_default(), levels, 0)?;
    Ok(list(run.out))
}

struct Flatten<'a> {
    args: &'a CallArgs,
    keeps_nulls: bool,
    /// Lists and items so far: shared lists can be empty and still be very many.
    seen: usize,
    out: Vec<Value>,
}

impl Flatten<'_> {
    fn add(&mut self, data: &Value, levels: Option<i64>, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.args.error("the list contains itself or is nested too deep"));
        }
        for item in self.args.items(data)? {
            self.seen += 1;
            budget::check_items(self.args.function_name(), self.seen)?;
            let is_null = item.is_none() || matches!(item.as_str(), Some("None" | "null"));
            if is_null && !self.keeps_nulls {
                continue;
            }
            if is_iter(&item) && levels.is_none_or(|n| n >= 1) {
                self.add(&item, levels.map(|n| n - 1), depth + 1)?;
            } else {
                self.out.push(item);
            }
        }
        Ok(())
    }
}

/// The items without repetitions.
pub(super) fn unique_items(items: Vec<Value>) -> Vec<Value> {
    let mut seen = crate::jinja::object::Dict::new();
    let mut unhashable: Vec<Value> = Vec::new();
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let is_new = match crate::jinja::object::DictKey::new(item.clone()) {
            Ok(key) if is_hashable(&item) => seen.insert(key, Value::from(())).is_none(),
            _ => {
                let is_new = !unhashable.contains(&item);
                if is_new {
                    unhashable.push(item.clone());
                }
                is_new
            }
        };
        if is_new {
            out.push(item);
        }
    }
    out
}

fn sorted_ignorecase(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let mut keyed = Vec::new();
    for item in args.items(&args.expect_one("to_sort")?)? {
        keyed.push((Value::from(args.str("each item", &item)?.to_lowercase()), item));
    }
    sort::sorted(keyed, false).map(list)
}

fn substring_in_list(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [wanted, items] = args.bind(["string_to_search_for", "list_to_search"], 2)?;
    let wanted = wanted.unwrap_or_default();
    let wanted = args.str("the value", &wanted)?;
    for item in args.items(&items.unwrap_or_default())? {
        let is_in = match item.as_str() {
            Some(text) => text.contains(wanted),
            None => args.items(&item)?.iter().any(|v| v.as_str() == Some(wanted)),
        };
        if is_in {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

fn count_is(args: &CallArgs, items: &Value, amount: i64) -> Result<Value, Error> {
    let n = args.items(items)?.iter().filter(|v| v.is_true()).count();
    // A negative amount gives no items, because its range is empty.
    Ok(Value::from(i64::try_from(n).unwrap_or(i64::MAX) == amount.max(0)))
}
