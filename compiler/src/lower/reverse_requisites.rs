//! Reverses requisites: `require_in` and the other `_in` forms become extensions of the states they refer to; `use` and `use_in`
//! copy arguments.
//!
//! Law: additions have Salt's order, because later arguments win (held by `tests/corpus`).

use std::sync::Arc;

use hashbrown::HashMap;
use zagent_config::codes::requisite as codes;
use zagent_config::{Diagnostics, List, Value};

use crate::high::{Extension, HighData, IdDecl, StateDecl, first_key, list_mut, single_entry};
use crate::merge::extend::{FindBy, find_name};
use crate::session::CompileSession;
use crate::source_files::RenderedPos;

/// The keys that are reversed.
const REVERSE_KEYS: [&str; 7] =
    ["require_in", "watch_in", "onfail_in", "onchanges_in", "use", "use_in", "prereq_in"];

/// What `use` never copies.
const NEVER_COPIED: [&str; 15] = [
    "require_in",
    "watch_in",
    "onfail_in",
    "onchanges_in",
    "use",
    "use_in",
    "prereq_in",
    "require",
    "watch",
    "prereq",
    "onfail",
    "onfail_stop",
    "onchanges",
    "name",
    "names",
];

/// Extensions by id, in the order they were first needed.
#[derive(Default)]
struct ReverseExtensions {
    list: Vec<Extension>,
    index: HashMap<Arc<str>, usize>,
}

impl ReverseExtensions {
    fn body_for(&mut self, id: &Arc<str>, by: &IdDecl) -> &mut IdDecl {
        let i = *self.index.entry(id.clone()).or_insert_with(|| {
            // Copied arguments belong to no SLS, so that excluding an SLS does not remove them.
            let body = IdDecl { decls: Vec::new(), included_from: Vec::new(), sls: "".into(), ..by.clone() };
            self.list.push(Extension { id: id.clone(), body });
            self.list.len() - 1
        });
        &mut self.list[i].body
    }
}

fn args_of<'b>(body: &'b mut IdDecl, module: &Arc<str>) -> &'b mut List {
    if body.decl(module).is_none() {
        let at = body.at;
        body.decls.push(StateDecl { key: module.clone(), args: Value::empty_list(), at });
    }
    let decl = body.decl_mut(module).expect("it was just inserted");
    list_mut(&mut decl.args).expect("reversed declarations are lists")
}

/// One `_in` or `use` argument, and the state it belongs to.
struct ReverseRequisite<'h> {
    id: &'h Arc<str>,
    body: &'h IdDecl,
    module: &'h Arc<str>,
    key: &'h str,
    spot: RenderedPos,
}

impl ReverseRequisite<'_> {
    /// `require` of `require_in`.
    fn kind(&self) -> &str {
        self.key.split('_').next().unwrap_or(self.key)
    }
}

/// Reads every `_in` and `use` of the high data and adds extensions to `high.extend`.
pub(crate) fn reverse_requisites(
    session: &CompileSession,
    high: &mut HighData,
    diagnostics: &mut Diagnostics,
) {
    let mut extensions = ReverseExtensions::default();
    for (id, body) in high.iter() {
        for decl in body.states() {
            let Some(args) = decl.args.as_list() else { continue };
            for arg in args.iter() {
                let Some((key, items, at)) = first_key(arg) else { continue };
                if !REVERSE_KEYS.contains(&key) || session.is_requisite_disabled(key) {
                    continue;
                }
                let reverse = ReverseRequisite { id, body, module: &decl.key, key, spot: body.spot_at(at) };
                match items {
                    Value::Map(map) => {
                        for (module, name) in map.iter() {
                            if let (Some(module), Some(name)) = (module.as_str(), name.as_str()) {
                                let module =
                                    module_without_function(session, &reverse, module, name, diagnostics);
                                add_reversed(&mut extensions, &reverse, &name.into(), &module);
                            }
                        }
                    }
                    Value::List(list) => {
                        reverse_list(session, high, &reverse, list, &mut extensions, diagnostics);
                    }
                    _ => {}
                }
            }
        }
    }
    high.extend = extensions.list;
}

fn reverse_list(
    session: &CompileSession,
    high: &HighData,
    reverse: &ReverseRequisite<'_>,
    items: &List,
    extensions: &mut ReverseExtensions,
    diagnostics: &mut Diagnostics,
) {
    // Salt visits the collected targets again for each item; the repetitions are visible in the result.
    let mut targets: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for item in items.iter() {
        let Some((module, name)) = resolve_target(high, item) else { continue };
        if &*module == "sls" {
            targets = ids_of_sls(high, &name);
        } else {
            targets.push((name.clone(), module.clone()));
        }
        module_without_function(session, reverse, &module, &name, diagnostics);
        for (name, module) in &targets {
            match reverse.key {
                "use_in" => use_in(high, reverse, name, module, extensions),
                "use" => use_from(high, reverse, name, module, extensions),
                _ => add_reversed(extensions, reverse, name, module),
            }
        }
    }
}

/// The module and id that an item of an `_in` list refers to; `None` for a bare word that matches nothing.
fn resolve_target(high: &HighData, item: &Value) -> Option<(Arc<str>, Arc<str>)> {
    match item {
        Value::Map(map) => {
            let (module, name) = map.iter().next()?;
            Some((module.as_str()?.into(), name.as_str()?.into()))
        }
        Value::Str(word) => {
            if let Some(body) = high.get(word) {
                return Some((body.states().next()?.key.clone(), word.clone()));
            }
            find_by_name(high, word)
        }
        _ => None,
    }
}

/// The first state one of whose arguments is `name: word`.
fn find_by_name(high: &HighData, word: &str) -> Option<(Arc<str>, Arc<str>)> {
    for (id, body) in high.iter() {
        for decl in body.states() {
            let named =
                decl.args.as_list()?.iter().any(|a| a.get("name").and_then(Value::as_str) == Some(word));
            if named {
                return Some((decl.key.clone(), id.clone()));
            }
        }
    }
    None
}

fn ids_of_sls(high: &HighData, sls: &str) -> Vec<(Arc<str>, Arc<str>)> {
    high.iter()
        .filter(|(_, body)| &*body.sls == sls)
        .flat_map(|(id, body)| body.states().map(|d| (id.clone(), d.key.clone())))
        .collect()
}

/// Rejects `pkg.installed` where `pkg` is expected; returns the module.
fn module_without_function(
    session: &CompileSession,
    reverse: &ReverseRequisite<'_>,
    module: &str,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Arc<str> {
    let Some((plain, _)) = module.split_once('.') else { return module.into() };
    diagnostics.push(
        session
            .diagnostic(
                codes::DOTTED,
                reverse.spot,
                format!(
                    "`{}` of `{}` names a function, not a module: `{module}: {name}`",
                    reverse.key, reverse.id
                ),
            )
            .hint(format!("write the module only: `{plain}: {name}`")),
    );
    plain.into()
}

/// Adds `{kind: [{module: id}]}` of the referring state to the state it refers to.
fn add_reversed(
    extensions: &mut ReverseExtensions,
    reverse: &ReverseRequisite<'_>,
    name: &Arc<str>,
    module: &Arc<str>,
) {
    let back = single_entry(reverse.module.clone(), reverse.id.clone());
    let body = extensions.body_for(name, reverse.body);
    body.sls = reverse.body.sls.clone();
    body.env = reverse.body.env.clone();
    body.file = reverse.body.file;
    body.at = reverse.spot.pos;
    let args = args_of(body, module);
    let mut found = false;
    let mut items = std::mem::take(args).into_vec();
    for item in &mut items {
        if first_key(item).map(|(k, ..)| k) != Some(reverse.kind()) {
            continue;
        }
        if let Value::Map(map) = item
            && let Some(Value::List(list)) = Arc::make_mut(map).get_mut(reverse.kind())
        {
            Arc::make_mut(list).push_at(back.clone(), reverse.spot.pos);
            found = true;
        }
    }
    if !found {
        let mut list = List::default();
        list.push_at(back, reverse.spot.pos);
        items.push(single_entry(reverse.kind(), list));
    }
    *args = items.into();
}

/// Copies the running state's arguments to the states that `use_in` names.
fn use_in(
    high: &HighData,
    reverse: &ReverseRequisite<'_>,
    name: &str,
    module: &Arc<str>,
    extensions: &mut ReverseExtensions,
) {
    for id in find_name(name, module, high, FindBy::ByIdAndModule) {
        let own = arg_names(high, &id, module);
        let source = reverse.body.decl(reverse.module);
        copy_args(extensions, &id, reverse.body, module, source, &own);
    }
}

/// Copies the arguments of the states that `use` names to the running state.
fn use_from(
    high: &HighData,
    reverse: &ReverseRequisite<'_>,
    name: &str,
    module: &Arc<str>,
    extensions: &mut ReverseExtensions,
) {
    for id in find_name(name, module, high, FindBy::ByIdAndModule) {
        let own = arg_names(high, reverse.id, reverse.module);
        let source = high.get(&id).and_then(|b| b.decl(module));
        copy_args(extensions, reverse.id, reverse.body, reverse.module, source, &own);
    }
}

fn copy_args(
    extensions: &mut ReverseExtensions,
    id: &Arc<str>,
    by: &IdDecl,
    module: &Arc<str>,
    source: Option<&StateDecl>,
    own: &[String],
) {
    let args = args_of(extensions.body_for(id, by), module);
    let Some(list) = source.and_then(|d| d.args.as_list()) else { return };
    for arg in list.iter().filter(|a| a.as_map().is_some_and(|m| m.len() == 1)) {
        let Some((key, ..)) = first_key(arg) else { continue };
        if !NEVER_COPIED.contains(&key) && !own.iter().any(|o| o == key) {
            args.push(arg.clone());
        }
    }
}

/// The names of a state's own one-key arguments.
fn arg_names(high: &HighData, id: &str, module: &str) -> Vec<String> {
    let Some(list) = high.get(id).and_then(|b| b.decl(module)).and_then(|d| d.args.as_list()) else {
        return Vec::new();
    };
    list.iter()
        .filter(|a| a.as_map().is_some_and(|m| m.len() == 1))
        .filter_map(|a| first_key(a).map(|(k, ..)| k.to_string()))
        .collect()
}
