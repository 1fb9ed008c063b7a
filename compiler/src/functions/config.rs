//! `config.*`: options, then grains, then pillar, then Salt's built-in defaults.

use std::sync::OnceLock;

use minijinja::value::Value;
use zagent_config::glob::Glob;
use zagent_config::value::DEFAULT_DELIMITER;
use zagent_config::{Map, Value as Data};

use super::table::{FunctionEntry, data_function, live_function};
use super::value_ops::{self, UpdateMode};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::jinja::object::{Dict, DictKey, PyList, dict, items_of, list, py_str, to_template};

pub(super) const TABLE: &[FunctionEntry] = &[
    live_function(
        "config.get",
        "key default? delimiter? merge? omit_opts? omit_pillar? omit_master? omit_grains?",
        get,
    ),
    live_function(
        "config.option",
        "value default? omit_opts? omit_grains? omit_pillar? omit_master? omit_all? wildcard?",
        option,
    ),
    live_function("config.merge", "value default? omit_opts? omit_master? omit_pillar?", merge),
    live_function("config.items", "", items),
    data_function("config.dot_vals", "value", dot_vals),
    data_function("config.manage_mode", "mode", manage_mode),
    data_function("config.backup_mode", "backup?", backup_mode),
    data_function("config.valid_fileproto", "uri", valid_fileproto),
];

/// Salt's values for options that are not set.
pub(super) fn builtin_options() -> &'static Data {
    static BUILTIN: OnceLock<Data> = OnceLock::new();
    BUILTIN.get_or_init(|| {
        Data::from_json_str(include_str!("config_builtin.json")).unwrap_or_else(|_| Data::empty_map())
    })
}

fn master_options(inner: &FunctionsInner) -> Value {
    let found = value_ops::as_dict(&inner.pillar).and_then(|p| p.get_str("master"));
    found.unwrap_or_else(|| dict(Dict::new()))
}

/// The places to look, in order, with the name of the argument that skips each one.
fn lookup_places(inner: &FunctionsInner) -> [(&'static str, Value); 4] {
    [
        ("omit_opts", inner.opts.clone()),
        ("omit_grains", inner.grains.clone()),
        ("omit_pillar", inner.pillar.clone()),
        ("omit_master", master_options(inner)),
    ]
}

fn omits(args: &FunctionArgs<Value>, name: &str) -> bool {
    args.get(name).is_some_and(Value::is_true)
}

fn get(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let key = args.get("key").cloned().unwrap_or_default();
    let delimiter = args.get("delimiter").and_then(Value::as_str).unwrap_or(DEFAULT_DELIMITER);
    let found = match args.get("merge").filter(|m| !m.is_none()) {
        None => {
            let mut found = None;
            for (omit, place) in lookup_places(inner) {
                if !omits(args, omit) {
                    found = value_ops::traverse(&place, &key, delimiter)?;
                }
                if found.is_some() {
                    break;
                }
            }
            match found {
                None => value_ops::traverse(&inner.builtin.clone(), &key, delimiter)?,
                found => found,
            }
        }
        Some(strategy) => {
            let flat = strategy.as_str() == Some("overwrite");
            let mut all = inner.builtin.clone();
            for (_, place) in lookup_places(inner).iter().rev() {
                all = merge_over(&all, place, flat)?;
            }
            value_ops::traverse(&all, &key, delimiter)?
        }
    };
    Ok(found.or_else(|| args.get("default").cloned()).unwrap_or_else(value_ops::empty_text))
}

/// A new mapping of both: the second wins, entirely or recursively.
fn merge_over(under: &Value, over: &Value, flat: bool) -> Result<Value, FunctionError> {
    let out = value_ops::deep_copy(under)?;
    value_ops::update(&out, &value_ops::deep_copy(over)?, UpdateMode { flat, lists: false })
}

fn option(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let key = args.get("value").cloned().unwrap_or_default();
    let omit_all = omits(args, "omit_all");
    let places =
        lookup_places(inner).into_iter().filter(|(omit, _)| !omit_all && !omits(args, omit)).map(|(_, p)| p);
    let default = args.get("default").filter(|d| !d.is_none()).cloned();
    if !args.get("wildcard").is_some_and(Value::is_true) {
        let found = places.chain([inner.builtin.clone()]).find_map(|p| lookup(&p, &key));
        return Ok(found.or(default).unwrap_or_else(value_ops::empty_text));
    }
    let glob = Glob::new(&py_str(&key));
    let mut out = Dict::new();
    for place in places.collect::<Vec<_>>().into_iter().rev() {
        for (k, v) in value_ops::as_dict(&place).map(|d| d.pairs()).unwrap_or_default() {
            if k.as_str().is_some_and(|k| glob.matches(k)) {
                out.insert(DictKey::new(k).map_err(crate::functions::from_jinja)?, v);
            }
        }
    }
    for (k, v) in builtin_options().as_map().into_iter().flat_map(Map::iter) {
        let name = k.json_key();
        if glob.matches(&name) {
            out.entry(DictKey::from(name.as_str())).or_insert_with(|| to_template(v));
        }
    }
    Ok(if out.is_empty() { default.unwrap_or_else(|| dict(out)) } else { dict(out) })
}

fn lookup(place: &Value, key: &Value) -> Option<Value> {
    value_ops::traverse(place, &list(vec![key.clone()]), DEFAULT_DELIMITER).ok().flatten()
}

fn merge(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let key = args.get("value").cloned().unwrap_or_default();
    let mut found: Option<Value> = None;
    for (omit, place) in
        [lookup_places(inner)[0].clone(), lookup_places(inner)[3].clone(), lookup_places(inner)[2].clone()]
    {
        let Some(more) = lookup(&place, &key).filter(|_| !omits(args, omit)) else { continue };
        found = Some(match found {
            None if more.as_str().is_some() => return Ok(more),
            None => more,
            Some(old) if value_ops::is_mapping(&old) && value_ops::is_mapping(&more) => value_ops::update(
                &value_ops::deep_copy(&more)?,
                &old,
                UpdateMode { flat: true, lists: false },
            )?,
            Some(old) if old.downcast_object_ref::<PyList>().is_some() && !value_ops::is_mapping(&more) => {
                let mut all = items_of(&old).map_err(crate::functions::from_jinja)?;
                all.extend(items_of(&more).map_err(crate::functions::from_jinja)?);
                list(all)
            }
            Some(old) => old,
        });
    }
    let found = found.or_else(|| lookup(&inner.builtin.clone(), &key));
    Ok(found.or_else(|| args.get("default").cloned()).unwrap_or_else(value_ops::empty_text))
}

fn items(inner: &FunctionsInner, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    Ok(inner.opts.clone())
}

fn dot_vals(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let prefix = format!("{}.", args.get("value").map(Data::json_key).unwrap_or_default());
    let opts = &inner.inputs.options.opts;
    let pillar = inner.compiled.get("master").and_then(Data::as_map);
    let all = pillar.into_iter().flat_map(Map::iter).chain(opts.iter());
    let mut out = Map::new();
    for (k, v) in all.filter(|(k, _)| k.as_str().is_some_and(|k| k.starts_with(&prefix))) {
        out.insert(k.clone(), v.clone());
    }
    Ok(out.into())
}

/// A file mode with at least four digits: `644` is `0644`.
fn manage_mode(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let mode = match args.get("mode") {
        None | Some(Data::Null) => return Ok(Data::Null),
        Some(Data::Str(s)) => s.to_string(),
        Some(other) => other.json_key(),
    };
    let digits = mode.trim_matches('"').trim_start_matches("0o").trim_start_matches('0');
    Ok(format!("{digits:0>4}").into())
}

fn backup_mode(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(match args.get("backup").filter(|b| b.is_truthy()) {
        Some(backup) => backup.clone(),
        None => inner.inputs.options.opts.get("backup_mode").cloned().unwrap_or_else(|| Data::from("")),
    })
}

fn valid_fileproto(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let scheme = args.get("uri").and_then(Data::as_str).and_then(|u| u.split_once(':')).map(|(s, _)| s);
    Ok(scheme.is_some_and(|s| ["salt", "http", "https", "ftp", "s3", "swift", "file"].contains(&s)).into())
}
