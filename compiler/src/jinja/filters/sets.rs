//! Salt's set operations on lists, and its comparisons of lists and dictionaries.
//!
//! The order is that of the first list. For tuples and strings, Salt returns Python sets, whose order is random.

use minijinja::value::Value;
use minijinja::{Error, State};

use super::FilterFn;
use super::collect::unique_items;
use crate::jinja::methods::args::CallArgs;
use crate::jinja::object::{Dict, DictKey, dict, is_hashable, list, type_name};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("union", union),
    ("intersect", |_, a| {
        let (one, two) = both_lists(a)?;
        let two = ItemSet::new(two);
        Ok(list(unique_items(one.into_iter().filter(|v| two.contains(v)).collect())))
    }),
    ("difference", |_, a| {
        let (one, two) = both_lists(a)?;
        let two = ItemSet::new(two);
        Ok(list(unique_items(one.into_iter().filter(|v| !two.contains(v)).collect())))
    }),
    ("symmetric_difference", |_, a| {
        let (one, two) = both_lists(a)?;
        let (in_one, in_two) = (ItemSet::new(one.clone()), ItemSet::new(two.clone()));
        let all = one.into_iter().chain(two).filter(|v| in_one.contains(v) != in_two.contains(v));
        Ok(list(unique_items(all.collect())))
    }),
    ("compare_lists", compare_lists),
    ("compare_dicts", compare_dicts),
];

/// The items of a list, found by hash where they can be hashed.
struct ItemSet {
    hashed: Dict,
    others: Vec<Value>,
}

impl ItemSet {
    fn new(items: Vec<Value>) -> Self {
        let mut out = Self { hashed: Dict::new(), others: Vec::new() };
        for item in items {
            match DictKey::new(item.clone()) {
                Ok(key) => {
                    out.hashed.insert(key, Value::from(()));
                }
                Err(_) => out.others.push(item),
            }
        }
        out
    }

    fn contains(&self, value: &Value) -> bool {
        if !is_hashable(value) {
            return self.others.contains(value);
        }
        DictKey::new(value.clone()).is_ok_and(|key| self.hashed.contains_key(&key))
    }
}

fn both_lists(args: &CallArgs) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let [one, two] = args.bind(["lst1", "lst2"], 2)?;
    Ok((args.items(&one.unwrap_or_default())?, args.items(&two.unwrap_or_default())?))
}

fn union(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [one, two] = args.bind(["lst1", "lst2"], 2)?;
    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
    let is_list = |v: &Value| type_name(v) == "list";
    if is_list(&one) != is_list(&two) {
        return Err(args.type_error("both values", "lists", if is_list(&one) { &two } else { &one }));
    }
    let mut all = args.items(&one)?;
    all.extend(args.items(&two)?);
    Ok(list(unique_items(all)))
}

fn compare_lists(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [old, new] = args.bind(["old", "new"], 2)?;
    let (old, new) = (args.items(&old.unwrap_or_default())?, args.items(&new.unwrap_or_default())?);
    let (in_old, in_new) = (ItemSet::new(old.clone()), ItemSet::new(new.clone()));
    let added: Vec<Value> = new.into_iter().filter(|v| !in_old.contains(v)).collect();
    let removed: Vec<Value> = old.into_iter().filter(|v| !in_new.contains(v)).collect();
    let mut out = Dict::new();
    for (name, items) in [("new", added), ("old", removed)] {
        if !items.is_empty() {
            out.insert(DictKey::from(name), list(items));
        }
    }
    Ok(dict(out))
}

fn compare_dicts(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [old, new] = args.bind(["old", "new"], 2)?;
    let pairs = |v: Option<Value>| crate::jinja::methods::dict::pairs(args, &v.unwrap_or_default());
    let to_dict = |pairs: Vec<(Value, Value)>| {
        pairs.into_iter().map(|(k, v)| Ok((DictKey::new(k)?, v))).collect::<Result<Dict, Error>>()
    };
    let (old, new) = (to_dict(pairs(old)?)?, to_dict(pairs(new)?)?);
    let change = |first: &str, a: Value, second: &str, b: Value| {
        dict([(DictKey::from(first), a), (DictKey::from(second), b)].into_iter().collect())
    };
    let mut out = Dict::new();
    for (key, value) in &new {
        match old.get(key) {
            None => out.insert(key.clone(), change("old", Value::from(""), "new", value.clone())),
            Some(was) if was != value => {
                out.insert(key.clone(), change("old", was.clone(), "new", value.clone()))
            }
            Some(_) => None,
        };
    }
    for (key, was) in &old {
        if !new.contains_key(key) {
            out.insert(key.clone(), change("new", Value::from(""), "old", was.clone()));
        }
    }
    Ok(dict(out))
}
