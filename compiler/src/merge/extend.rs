//! Applies extensions to high data: from `extend`, and from reversed `_in` requisites.

use std::sync::Arc;

use zagent_config::codes::merge as codes;
use zagent_config::value::MapEntry;
use zagent_config::{Diagnostics, Pos, Value};

use crate::high::{Exclusion, Extension, HighData, IdDecl, StateDecl, first_key, list_mut};
use crate::session::CompileSession;
use crate::source_files::{FileId, RenderedPos};

/// Requisite keys: extending one adds to it instead of replacing it.
pub(crate) const REQUISITE_KEYS: [&str; 13] = [
    "onfail",
    "onfail_any",
    "onfail_all",
    "require",
    "require_any",
    "onchanges",
    "onchanges_any",
    "watch",
    "watch_any",
    "prereq",
    "prerequired",
    "listen",
    "onfail_stop",
];

/// Whether an id alone is enough to be found, or its module must exist too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FindBy {
    /// `extend`: an id that exists is found.
    ById,
    /// Reversed requisites: the id must have the module.
    ByIdAndModule,
}

/// Applies all pending extensions.
pub(crate) fn extend(
    session: &CompileSession,
    high: &mut HighData,
    find: FindBy,
    diagnostics: &mut Diagnostics,
) {
    for Extension { id, body } in std::mem::take(&mut high.extend) {
        let Some(module) = body.states().next().map(|d| d.key.clone()) else {
            diagnostics.push(session.diagnostic(
                codes::EXTEND_EMPTY,
                body.spot(),
                format!("`extend` of `{id}` has no state"),
            ));
            continue;
        };
        let known = high.get(&id).is_some_and(|b| b.decl(&module).is_some());
        let target = if known { Some(id.clone()) } else { single_match(find_name(&id, &module, high, find)) };
        let Some(target) = target else {
            diagnostics.push(cannot_extend(session, &id, &module, &body, high));
            continue;
        };
        if high.exclude.iter().any(|e| excludes_sls(e, &body.sls)) {
            continue;
        }
        let Some(old) = high.get_mut(&target) else { continue };
        for decl in body.decls {
            if !decl.key.starts_with("__") {
                extend_decl(session, old, decl, (&body.sls, body.file), diagnostics);
            }
        }
    }
}

fn single_match(mut found: Vec<Arc<str>>) -> Option<Arc<str>> {
    if found.len() == 1 { found.pop() } else { None }
}

fn excludes_sls(exclusion: &Exclusion, sls: &str) -> bool {
    exclusion.item.as_str() == Some(sls) || exclusion.item.get("sls").and_then(Value::as_str) == Some(sls)
}

fn cannot_extend(
    session: &CompileSession,
    id: &str,
    module: &str,
    body: &IdDecl,
    high: &HighData,
) -> zagent_config::Diagnostic {
    let diagnostic = session.diagnostic(
        codes::EXTEND_UNKNOWN,
        body.spot(),
        format!("cannot extend `{id}` ({module}): the state is not part of this run"),
    );
    let near = zagent_config::suggest::nearest(id, high.iter().map(|(id, _)| &**id));
    match near {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic.hint(format!("include the SLS that declares `{id}`")),
    }
}

/// The ids that a name refers to: the id itself, every id of an SLS, or ids one of whose arguments has that value.
pub(crate) fn find_name(name: &str, module: &str, high: &HighData, find: FindBy) -> Vec<Arc<str>> {
    let as_id = match find {
        FindBy::ById => high.contains(name),
        FindBy::ByIdAndModule => high.get(name).is_some_and(|b| b.decl(module).is_some()),
    };
    if as_id {
        return vec![name.into()];
    }
    if module == "sls" {
        return high.iter().filter(|(_, b)| &*b.sls == name).map(|(id, _)| id.clone()).collect();
    }
    let mut found = Vec::new();
    for (id, body) in high.iter() {
        let Some(args) = body.decl(module).and_then(|d| d.args.as_list()) else { continue };
        for arg in args.iter().filter_map(Value::as_map).filter(|m| m.len() == 1) {
            if arg.values().next().and_then(Value::as_str) == Some(name) {
                found.push(id.clone());
            }
        }
    }
    found
}

fn extend_decl(
    session: &CompileSession,
    old: &mut IdDecl,
    new: StateDecl,
    (sls, from): (&str, FileId),
    diagnostics: &mut Diagnostics,
) {
    let file = old.file;
    let Some(decl) = old.decl_mut(&new.key) else {
        old.decls.push(new);
        return;
    };
    let is_list = matches!(new.args, Value::List(_));
    let (Value::List(run), Some(args)) = (new.args, list_mut(&mut decl.args)) else {
        let spot = if is_list {
            RenderedPos { file, pos: decl.at }
        } else {
            RenderedPos { file: from, pos: new.at }
        };
        let text = format!("`{sls}` cannot extend `{}`: both sides must be lists", new.key);
        diagnostics.push(
            session.diagnostic(codes::EXTEND_NOT_LIST, spot, text).hint("put a dash before each argument"),
        );
        return;
    };
    for (i, arg) in run.iter().enumerate() {
        extend_arg(args, arg, run.pos(i));
    }
}

/// Adds one argument: a function replaces the function, a requisite adds to every one of its kind, anything else
/// replaces the arguments of the same name; `name` also replaces `names`.
fn extend_arg(args: &mut zagent_config::List, arg: &Value, at: Pos) {
    let mut found = false;
    let mut items = std::mem::take(args).into_positioned();
    for (item, _) in &mut items {
        match (arg, &*item) {
            (Value::Str(_), Value::Str(_)) => {
                *item = arg.clone();
                found = true;
            }
            (Value::Map(_), Value::Map(_)) => {
                let (Some((new, value, _)), Some((old, ..))) = (first_key(arg), first_key(item)) else {
                    continue;
                };
                if new == old {
                    if REQUISITE_KEYS.contains(&new) {
                        add_requisites(item, value);
                    } else {
                        *item = arg.clone();
                    }
                    found = true;
                } else if new == "name" && old == "names" {
                    *item = arg.clone();
                }
            }
            _ => {}
        }
    }
    if !found {
        items.push((arg.clone(), at));
    }
    *args = items.into_iter().collect();
}

/// Appends the requisites of `more` to the first entry of `item`.
fn add_requisites(item: &mut Value, more: &Value) {
    let Value::Map(map) = item else { return };
    let Some(MapEntry { key, value, .. }) = map.entries().first() else { return };
    let mut value = value.clone();
    let key = key.clone();
    match (&mut value, more) {
        (Value::List(list), Value::List(more)) => {
            let list = Arc::make_mut(list);
            for (i, v) in more.iter().enumerate() {
                list.push_at(v.clone(), more.pos(i));
            }
        }
        _ => value = more.clone(),
    }
    Arc::make_mut(map).insert(key, value);
}
