//! `slsutil.*`: merging, rendering, looking for files of the tree, small texts.

use minijinja::value::Value;
use zagent_config::{Map, Value as Data};

use super::files::{self, Kind};
use super::live::{self, Update};
use super::render::{RenderRequest, RenderSource};
use super::table::{Entry, data, live};
use super::text::{Banner, banner as draw_banner};
use super::{Bound, Inner, Refusal, paths};
use crate::jinja::object::{Dict, Key, dict, items_of, list, own, pairs_of};

pub(super) const TABLE: &[Entry] = &[
    live("slsutil.merge", "obj_a obj_b strategy? renderer? merge_lists?", merge),
    live("slsutil.merge_all", "lst strategy? renderer? merge_lists?", merge_all),
    live("slsutil.update", "dest upd recursive_update? merge_lists?", update),
    data("slsutil.renderer", "path? string? default_renderer? **", renderer),
    data("slsutil.file_exists", "path saltenv?", file_exists),
    data("slsutil.dir_exists", "path saltenv?", dir_exists),
    data("slsutil.path_exists", "path saltenv?", path_exists),
    data("slsutil.findup", "startpath filenames saltenv?", findup),
    data("slsutil.boolstr", "value true? false?", boolstr),
    data(
        "slsutil.banner",
        "width? commentchar? borderchar? blockstart? blockend? title? text? newline?",
        banner,
    ),
];

fn merge(_: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let missing = Value::UNDEFINED;
    merge_two(args.get("obj_a").unwrap_or(&missing), args.get("obj_b").unwrap_or(&missing), args)
}

fn merge_all(_: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut out = dict(Dict::new());
    for each in items_of(args.get("lst").unwrap_or(&Value::UNDEFINED))? {
        out = merge_two(&out, &own(each)?, args)?;
    }
    Ok(out)
}

/// Merges by a strategy. As in Salt, `overwrite` also changes the first mapping itself.
fn merge_two(a: &Value, b: &Value, args: &Bound<Value>) -> Result<Value, Refusal> {
    let lists = args.get("merge_lists").is_some_and(Value::is_true);
    let strategy = args.get("strategy").and_then(Value::as_str).unwrap_or("smart");
    match strategy {
        "list" => both(a, b),
        "overwrite" => {
            let (Some(first), Some(more)) = (live::as_dict(a), pairs_of(b)) else {
                return live::update(a, b, Update::default());
            };
            for (key, value) in more {
                if first.get(&key).is_some() {
                    first.insert("slsutil.merge", Key::new(key)?, value)?;
                }
            }
            live::update(&live::deep_copy(a)?, b, Update { flat: false, lists })
        }
        "aggregate" => live::update(&live::deep_copy(a)?, b, Update { flat: true, lists: false }),
        "smart" | "recurse" => live::update(&live::deep_copy(a)?, b, Update { flat: false, lists }),
        _ => live::update(&live::deep_copy(a)?, b, Update::default()),
    }
}

/// The keys of the first; those that both have hold a list of both values.
fn both(a: &Value, b: &Value) -> Result<Value, Refusal> {
    let (Some(first), Some(second)) = (live::as_dict(a), live::as_dict(b)) else {
        return live::update(a, b, Update::default());
    };
    let mut out = Dict::new();
    for (key, value) in first.pairs() {
        let value = match second.get(&key) {
            Some(other) => list(vec![value, other]),
            None => value,
        };
        out.insert(Key::new(key)?, value);
    }
    Ok(dict(out))
}

fn update(_: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let missing = Value::UNDEFINED;
    let how = Update {
        flat: args.get("recursive_update").is_some_and(|v| !v.is_true()),
        lists: args.get("merge_lists").is_some_and(Value::is_true),
    };
    live::update(args.get("dest").unwrap_or(&missing), args.get("upd").unwrap_or(&missing), how)
}

fn renderer(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let given = |name: &str| args.get(name).and_then(Data::as_str).filter(|s| !s.is_empty());
    let mut variables: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let env = variables.get("saltenv").and_then(Data::as_str).unwrap_or("base").to_owned();
    let source = match (given("path"), given("string")) {
        (None, None) => return Err(Refusal::arguments("`slsutil.renderer` needs `path` or `string`")),
        (Some(_), Some(_)) => {
            return Err(Refusal::arguments("`slsutil.renderer` takes `path` or `string`, not both"));
        }
        (None, Some(text)) => RenderSource::Text(text.to_owned()),
        (Some(url), None) => {
            let (path, env) = files::locate(url, &env)?;
            if files::read_bytes(inner, &env, &path)?.is_none() {
                return Ok(Data::empty_map());
            }
            RenderSource::File { env, path }
        }
    };
    variables.remove("saltenv");
    let renderer = given("default_renderer").unwrap_or("jinja|yaml").to_owned();
    let pipe = inner.renderer().ok_or_else(|| Refusal::failed("nothing can be rendered here"))?;
    pipe.render(&RenderRequest { source, renderer, variables })
        .map_err(|fault| Refusal::failed(fault.to_string()))
}

fn look(inner: &Inner, args: &Bound<Data>, kinds: &[Kind]) -> Result<Data, Refusal> {
    let path = files::text(args, "path")?;
    let env = files::env(args);
    for kind in kinds {
        if files::exists(inner, env, path, *kind)? {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn file_exists(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    look(inner, args, &[Kind::File])
}

fn dir_exists(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    look(inner, args, &[Kind::Directory])
}

fn path_exists(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    look(inner, args, &[Kind::File, Kind::Directory])
}

/// The nearest file or directory of one of the names, from a directory upwards.
fn findup(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let env = files::env(args);
    let there = |path: &str| -> Result<bool, Refusal> {
        Ok(files::exists(inner, env, path, Kind::File)? || files::exists(inner, env, path, Kind::Directory)?)
    };
    let start = args.get("startpath").and_then(Data::as_str).unwrap_or_default();
    let mut at = if start.is_empty() { String::new() } else { paths::normalize(start) };
    if !at.is_empty() && !there(&at)? {
        return Err(Refusal::failed(format!("the state tree has no `{at}` to start from")));
    }
    let names: Vec<&str> = match args.get("filenames") {
        Some(Data::Str(name)) => vec![name],
        Some(Data::List(names)) => names.iter().filter_map(Data::as_str).collect(),
        _ => return Err(Refusal::arguments("`filenames` must be text or a list of texts")),
    };
    loop {
        for name in &names {
            let full = paths::join([at.as_str(), name]);
            if there(&full)? {
                return Ok(full.into());
            }
        }
        if at.is_empty() {
            return Err(Refusal::failed(format!("none of {names:?} is in `{start}` or above it")));
        }
        at = paths::parent(&at).to_owned();
    }
}

fn boolstr(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let yes = args.get("value").is_some_and(Data::is_truthy);
    let (name, default) = if yes { ("true", "true") } else { ("false", "false") };
    Ok(args.get(name).cloned().unwrap_or_else(|| default.into()))
}

fn banner(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
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
    let mut text = text.ok_or_else(|| Refusal::failed("the width is too small for a banner"))?;
    if args.get("newline").is_some_and(Data::is_truthy) {
        text.push('\n');
    }
    Ok(text.into())
}
