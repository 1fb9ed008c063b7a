//! `slsutil.*`: merging, rendering, looking up files of the tree, small texts.

use minijinja::value::Value;
use zagent_config::{Map, Value as Data};

use super::files::{self, PathKind};
use super::render::{RenderRequest, RenderSource};
use super::table::{FunctionEntry, data_function, live_function};
use super::text::{Banner, banner as draw_banner};
use super::value_ops::{self, UpdateMode};
use super::{FunctionArgs, FunctionError, FunctionsInner, paths};
use crate::jinja::object::{Dict, DictKey, dict, items_of, list, pairs_of, to_storable};

pub(super) const TABLE: &[FunctionEntry] = &[
    live_function("slsutil.merge", "obj_a obj_b strategy? renderer? merge_lists?", merge),
    live_function("slsutil.merge_all", "lst strategy? renderer? merge_lists?", merge_all),
    live_function("slsutil.update", "dest upd recursive_update? merge_lists?", update),
    data_function("slsutil.renderer", "path? string? default_renderer? **", renderer),
    data_function("slsutil.file_exists", "path saltenv?", file_exists),
    data_function("slsutil.dir_exists", "path saltenv?", dir_exists),
    data_function("slsutil.path_exists", "path saltenv?", path_exists),
    data_function("slsutil.findup", "startpath filenames saltenv?", findup),
    data_function("slsutil.boolstr", "value true? false?", boolstr),
    data_function(
        "slsutil.banner",
        "width? commentchar? borderchar? blockstart? blockend? title? text? newline?",
        banner,
    ),
];

fn merge(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let missing = Value::UNDEFINED;
    merge_two(args.get("obj_a").unwrap_or(&missing), args.get("obj_b").unwrap_or(&missing), args)
}

fn merge_all(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut out = dict(Dict::new());
    for each in
        items_of(args.get("lst").unwrap_or(&Value::UNDEFINED)).map_err(crate::functions::from_jinja)?
    {
        out = merge_two(&out, &to_storable(each).map_err(crate::functions::from_jinja)?, args)?;
    }
    Ok(out)
}

/// Merges by a strategy. As in Salt, `overwrite` also changes the first mapping itself.
fn merge_two(a: &Value, b: &Value, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let lists = args.get("merge_lists").is_some_and(Value::is_true);
    let strategy = args.get("strategy").and_then(Value::as_str).unwrap_or("smart");
    match strategy {
        "list" => collect_both(a, b),
        "overwrite" => {
            let (Some(first), Some(more)) = (value_ops::as_dict(a), pairs_of(b)) else {
                return value_ops::update(a, b, UpdateMode::default());
            };
            for (key, value) in more {
                if first.get(&key).is_some() {
                    first
                        .insert(
                            "slsutil.merge",
                            DictKey::new(key).map_err(crate::functions::from_jinja)?,
                            value,
                        )
                        .map_err(crate::functions::from_jinja)?;
                }
            }
            value_ops::update(&value_ops::deep_copy(a)?, b, UpdateMode { flat: false, lists })
        }
        "aggregate" => {
            value_ops::update(&value_ops::deep_copy(a)?, b, UpdateMode { flat: true, lists: false })
        }
        "smart" | "recurse" => {
            value_ops::update(&value_ops::deep_copy(a)?, b, UpdateMode { flat: false, lists })
        }
        _ => value_ops::update(&value_ops::deep_copy(a)?, b, UpdateMode::default()),
    }
}

/// The keys of the first; a key in both holds a list of both values.
fn collect_both(a: &Value, b: &Value) -> Result<Value, FunctionError> {
    let (Some(first), Some(second)) = (value_ops::as_dict(a), value_ops::as_dict(b)) else {
        return value_ops::update(a, b, UpdateMode::default());
    };
    let mut out = Dict::new();
    for (key, value) in first.pairs() {
        let value = match second.get(&key) {
            Some(other) => list(vec![value, other]),
            None => value,
        };
        out.insert(DictKey::new(key).map_err(crate::functions::from_jinja)?, value);
    }
    Ok(dict(out))
}

fn update(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let missing = Value::UNDEFINED;
    let how = UpdateMode {
        flat: args.get("recursive_update").is_some_and(|v| !v.is_true()),
        lists: args.get("merge_lists").is_some_and(Value::is_true),
    };
    value_ops::update(args.get("dest").unwrap_or(&missing), args.get("upd").unwrap_or(&missing), how)
}

fn renderer(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let given = |name: &str| args.get(name).and_then(Data::as_str).filter(|s| !s.is_empty());
    let mut variables: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let env = variables.get("saltenv").and_then(Data::as_str).unwrap_or("base").to_owned();
    let source = match (given("path"), given("string")) {
        (None, None) => {
            return Err(FunctionError::bad_arguments("`slsutil.renderer` needs `path` or `string`"));
        }
        (Some(_), Some(_)) => {
            return Err(FunctionError::bad_arguments(
                "`slsutil.renderer` needs either `path` or `string`, not both",
            ));
        }
        (None, Some(text)) => RenderSource::Text(text.to_owned()),
        (Some(url), None) => {
            let (path, env) = files::parse_salt_url(url, &env)?;
            if files::read_bytes(inner, &env, &path)?.is_none() {
                return Ok(Data::empty_map());
            }
            RenderSource::File { env, path }
        }
    };
    variables.remove("saltenv");
    let renderer = given("default_renderer").unwrap_or("jinja|yaml").to_owned();
    let pipe = inner.renderer().ok_or_else(|| FunctionError::failed("cannot render here"))?;
    pipe.render(&RenderRequest { source, renderer, variables })
        .map_err(|diagnostic| FunctionError::failed(diagnostic.to_string()))
}

fn path_is_kind(
    inner: &FunctionsInner,
    args: &FunctionArgs<Data>,
    kinds: &[PathKind],
) -> Result<Data, FunctionError> {
    let path = files::text_arg(args, "path")?;
    let env = files::env_arg(args);
    for kind in kinds {
        if files::exists(inner, env, path, *kind)? {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn file_exists(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    path_is_kind(inner, args, &[PathKind::File])
}

fn dir_exists(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    path_is_kind(inner, args, &[PathKind::Directory])
}

fn path_exists(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    path_is_kind(inner, args, &[PathKind::File, PathKind::Directory])
}

/// The nearest file or directory of one of the names, from a directory upwards.
fn findup(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let env = files::env_arg(args);
    let there = |path: &str| -> Result<bool, FunctionError> {
        Ok(files::exists(inner, env, path, PathKind::File)?
            || files::exists(inner, env, path, PathKind::Directory)?)
    };
    let start = args.get("startpath").and_then(Data::as_str).unwrap_or_default();
    let mut at = if start.is_empty() { String::new() } else { paths::normalize(start) };
    if !at.is_empty() && !there(&at)? {
        return Err(FunctionError::failed(format!("start path `{at}` is not in the state tree")));
    }
    let names: Vec<&str> = match args.get("filenames") {
        Some(Data::Str(name)) => vec![name],
        Some(Data::List(names)) => names.iter().filter_map(Data::as_str).collect(),
        _ => return Err(FunctionError::bad_arguments("`filenames` must be text or a list of texts")),
    };
    loop {
        for name in &names {
            let full = paths::join([at.as_str(), name]);
            if there(&full)? {
                return Ok(full.into());
            }
        }
        if at.is_empty() {
            return Err(FunctionError::failed(format!("none of {names:?} is in `{start}` or above it")));
        }
        at = paths::parent(&at).to_owned();
    }
}

fn boolstr(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let yes = args.get("value").is_some_and(Data::is_truthy);
    let (name, default) = if yes { ("true", "true") } else { ("false", "false") };
    Ok(args.get(name).cloned().unwrap_or_else(|| default.into()))
}

fn banner(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let word = |name: &str| args.get(name).and_then(Data::as_str);
    let width = args.get("width").and_then(Data::as_int).unwrap_or(72);
    let text = draw_banner(&Banner {
        width: usize::try_from(width).unwrap_or(0),
        comment: word("commentchar").unwrap_or("#"),
        border: word("borderchar").unwrap_or("#"),
        start: word("blockstart"),
        end: word("blockend"),
        title: word("title"),
        text: word("text"),
    });
    let mut text = text.ok_or_else(|| FunctionError::failed("the width is too small for a banner"))?;
    if args.get("newline").is_some_and(Data::is_truthy) {
        text.push('\n');
    }
    Ok(text.into())
}
