//! Turns requisites round: `require_in` and its kin become extensions of the states they point at; `use` and `use_in`
//! copy arguments.
//!
//! Law: the order of what is added is Salt's, because arguments that come later win.

use std::sync::Arc;

use hashbrown::HashMap;
use zagent_config::codes::requisite as codes;
use zagent_config::{Faults, List, Value};

use crate::high::{Body, Decl, Extension, High, first_key, list_mut, one};
use crate::merge::extend::{Find, find_name};
use crate::session::Session;
use crate::sources::Spot;

/// The keys that are turned.
const TURNED: [&str; 7] =
    ["require_in", "watch_in", "onfail_in", "onchanges_in", "use", "use_in", "prereq_in"];

/// What `use` never copies.
const NOT_USED: [&str; 15] = [
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
struct Turned {
    list: Vec<Extension>,
    index: HashMap<Arc<str>, usize>,
}

impl Turned {
    fn body(&mut self, id: &Arc<str>, by: &Body) -> &mut Body {
        let i = *self.index.entry(id.clone()).or_insert_with(|| {
            // Copied arguments belong to no SLS, so that no exclude of one takes them away again.
            let body = Body { decls: Vec::new(), included_from: Vec::new(), sls: "".into(), ..by.clone() };
            self.list.push(Extension { id: id.clone(), body });
            self.list.len() - 1
        });
        &mut self.list[i].body
    }
}

fn args_of<'b>(body: &'b mut Body, module: &Arc<str>) -> &'b mut List {
    if body.decl(module).is_none() {
        let at = body.at;
        body.decls.push(Decl { key: module.clone(), args: Value::empty_list(), at });
    }
    let decl = body.decl_mut(module).expect("it was just put there");
    list_mut(&mut decl.args).expect("turned declarations are lists")
}

/// One `_in` or `use` argument, and whose it is.
struct Turning<'h> {
    id: &'h Arc<str>,
    body: &'h Body,
    module: &'h Arc<str>,
    key: &'h str,
    spot: Spot,
}

impl Turning<'_> {
    /// `require` of `require_in`.
    fn kind(&self) -> &str {
        self.key.split('_').next().unwrap_or(self.key)
    }
}

/// Reads every `_in` and `use` of the high data and leaves extensions in `high.extend`.
pub(crate) fn turn(session: &Session, high: &mut High, faults: &mut Faults) {
    let mut turned = Turned::default();
    for (id, body) in high.iter() {
        for decl in body.states() {
            let Some(args) = decl.args.as_list() else { continue };
            for arg in args.iter() {
                let Some((key, items, at)) = first_key(arg) else { continue };
                if !TURNED.contains(&key) || session.disabled(key) {
                    continue;
                }
                let turning = Turning { id, body, module: &decl.key, key, spot: body.spot_at(at) };
                match items {
                    Value::Map(map) => {
                        for (module, name) in map.iter() {
                            if let (Some(module), Some(name)) = (module.as_str(), name.as_str()) {
                                let module = undotted(session, &turning, module, name, faults);
                                point(&mut turned, &turning, &name.into(), &module);
                            }
                        }
                    }
                    Value::List(list) => turn_list(session, high, &turning, list, &mut turned, faults),
                    _ => {}
                }
            }
        }
    }
    high.extend = turned.list;
}

fn turn_list(
    session: &Session,
    high: &High,
    turning: &Turning<'_>,
    items: &List,
    turned: &mut Turned,
    faults: &mut Faults,
) {
    // Salt walks the targets gathered so far again for each item; the repetitions show in the result.
    let mut targets: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for item in items.iter() {
        let Some((module, name)) = target(high, item) else { continue };
        if &*module == "sls" {
            targets = ids_of_sls(high, &name);
        } else {
            targets.push((name.clone(), module.clone()));
        }
        undotted(session, turning, &module, &name, faults);
        for (name, module) in &targets {
            match turning.key {
                "use_in" => use_in(high, turning, name, module, turned),
                "use" => use_from(high, turning, name, module, turned),
                _ => point(turned, turning, name, module),
            }
        }
    }
}

/// The module and id that an item of an `_in` list points at; `None` for a bare word that nothing has.
fn target(high: &High, item: &Value) -> Option<(Arc<str>, Arc<str>)> {
    match item {
        Value::Map(map) => {
            let (module, name) = map.iter().next()?;
            Some((module.as_str()?.into(), name.as_str()?.into()))
        }
        Value::Str(word) => {
            if let Some(body) = high.get(word) {
                return Some((body.states().next()?.key.clone(), word.clone()));
            }
            named(high, word)
        }
        _ => None,
    }
}

/// The first state one of whose arguments is `name: word`.
fn named(high: &High, word: &str) -> Option<(Arc<str>, Arc<str>)> {
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

fn ids_of_sls(high: &High, sls: &str) -> Vec<(Arc<str>, Arc<str>)> {
    high.iter()
        .filter(|(_, body)| &*body.sls == sls)
        .flat_map(|(id, body)| body.states().map(|d| (id.clone(), d.key.clone())))
        .collect()
}

/// Refuses `pkg.installed` where `pkg` is meant; gives the module.
fn undotted(
    session: &Session,
    turning: &Turning<'_>,
    module: &str,
    name: &str,
    faults: &mut Faults,
) -> Arc<str> {
    let Some((plain, _)) = module.split_once('.') else { return module.into() };
    faults.push(
        session
            .fault(
                codes::DOTTED,
                turning.spot,
                format!("`{}` of `{}` names a function: `{module}: {name}`", turning.key, turning.id),
            )
            .hint(format!("requisites go by module: `{plain}: {name}`")),
    );
    plain.into()
}

/// Adds `{kind: [{module: id}]}` of the pointing state to the state it points at.
fn point(turned: &mut Turned, turning: &Turning<'_>, name: &Arc<str>, module: &Arc<str>) {
    let back = one(turning.module.clone(), turning.id.clone());
    let body = turned.body(name, turning.body);
    body.sls = turning.body.sls.clone();
    body.env = turning.body.env.clone();
    body.file = turning.body.file;
    body.at = turning.spot.pos;
    let args = args_of(body, module);
    let mut found = false;
    let mut items = std::mem::take(args).into_vec();
    for item in &mut items {
        if first_key(item).map(|(k, ..)| k) != Some(turning.kind()) {
            continue;
        }
        if let Value::Map(map) = item
            && let Some(Value::List(list)) = Arc::make_mut(map).get_mut(turning.kind())
        {
            Arc::make_mut(list).push_at(back.clone(), turning.spot.pos);
            found = true;
        }
    }
    if !found {
        let mut list = List::default();
        list.push_at(back, turning.spot.pos);
        items.push(one(turning.kind(), list));
    }
    *args = items.into();
}

/// Copies the running state's arguments to the states that `use_in` names.
fn use_in(high: &High, turning: &Turning<'_>, name: &str, module: &Arc<str>, turned: &mut Turned) {
    for id in find_name(name, module, high, Find::ByIdAndModule) {
        let own = arg_names(high, &id, module);
        let source = turning.body.decl(turning.module);
        copy_args(turned, &id, turning.body, module, source, &own);
    }
}

/// Copies the arguments of the states that `use` names to the running state.
fn use_from(high: &High, turning: &Turning<'_>, name: &str, module: &Arc<str>, turned: &mut Turned) {
    for id in find_name(name, module, high, Find::ByIdAndModule) {
        let own = arg_names(high, turning.id, turning.module);
        let source = high.get(&id).and_then(|b| b.decl(module));
        copy_args(turned, turning.id, turning.body, turning.module, source, &own);
    }
}

fn copy_args(
    turned: &mut Turned,
    id: &Arc<str>,
    by: &Body,
    module: &Arc<str>,
    source: Option<&Decl>,
    own: &[String],
) {
    let args = args_of(turned.body(id, by), module);
    let Some(list) = source.and_then(|d| d.args.as_list()) else { return };
    for arg in list.iter().filter(|a| a.as_map().is_some_and(|m| m.len() == 1)) {
        let Some((key, ..)) = first_key(arg) else { continue };
        if !NOT_USED.contains(&key) && !own.iter().any(|o| o == key) {
            args.push(arg.clone());
        }
    }
}

/// The names of a state's own one-key arguments.
fn arg_names(high: &High, id: &str, module: &str) -> Vec<String> {
    let Some(list) = high.get(id).and_then(|b| b.decl(module)).and_then(|d| d.args.as_list()) else {
        return Vec::new();
    };
    list.iter()
        .filter(|a| a.as_map().is_some_and(|m| m.len() == 1))
        .filter_map(|a| first_key(a).map(|(k, ..)| k.to_string()))
        .collect()
}
