//! The renderer `stateconf`: an SLS with local ids in, the same with full ids out.
//!
//! Ids that start with a dot belong to their SLS (`.x` in `a.b` is `a.b::x`). What `stateconf.set` says above the end
//! marker is a variable of the template, and an SLS that includes this one may change it with `extend`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use fancy_regex::Regex;
use zagent_config::codes::yaml as codes;
use zagent_config::value::MapEntry;
use zagent_config::{Diagnostic, List, Map, Pos, Value};

use super::render::{load_json, load_yaml};
use crate::session::CompileSession;
use crate::source_files::{FileId, RenderedPos};

/// What is written behind `#!stateconf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateconfOptions {
    /// `-G`: no state that requires all others.
    no_goal: bool,
    /// `-o`: each state requires the one before it.
    is_ordered: bool,
    /// `-s`: a state before all others.
    has_start: bool,
    /// `-p`: the data come from the renderer before it.
    pub(crate) takes_data: bool,
    /// The data are JSON, not YAML.
    is_json: bool,
}

/// What `stateconf.set` said, in all files of a compile.
#[derive(Debug, Default)]
pub(crate) struct StateconfValues {
    own: BTreeMap<String, Map>,
    extended: BTreeMap<String, Map>,
}

const START: &str = ".start";
const GOAL: &str = ".goal";
const SET_STATE: &str = "stateconf.set";
const SET_MODULE: &str = "stateconf";
/// Keys of an SLS that are no ids.
const NOT_IDS: [&str; 3] = ["include", "exclude", "extend"];
const REQUIRES: [&str; 5] = ["require", "watch", "listen", "onchanges", "onfail"];
const REQUIRED_BY: [&str; 5] = ["require_in", "watch_in", "listen_in", "onchanges_in", "onfail_in"];
const USES: [&str; 2] = ["use", "use_in"];

static END_MARKER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"#\s*-+\s*end of state config\s*-+").ok());

impl StateconfOptions {
    /// Reads the options; fails with the name of a renderer that does not fit.
    pub(crate) fn parse(words: &str) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = words.split_whitespace().peekable();
        while let Some(flags) = rest.next_if(|word| word.starts_with('-')) {
            for flag in flags[1..].chars() {
                match flag {
                    'G' => options.no_goal = true,
                    'o' => options.is_ordered = true,
                    's' => options.has_start = true,
                    'p' => options.takes_data = true,
                    other => return Err(format!("stateconf -{other}")),
                }
            }
        }
        let words: Vec<&str> = rest.collect();
        let mut parts = words.split(|word| *word == ".");
        match parts.next().and_then(|part| part.first()) {
            None | Some(&"yaml") => {}
            Some(&"json") if !options.is_ordered => options.is_json = true,
            Some(other) => return Err((*other).to_owned()),
        }
        match parts.next().and_then(|part| part.first()) {
            None | Some(&"jinja") => Ok(options),
            Some(other) => Err((*other).to_owned()),
        }
    }

    /// Renders a text: first what stands above the marker, then all of it with what was found there.
    pub(crate) fn render(
        self,
        session: &CompileSession,
        file: FileId,
        text: &str,
    ) -> Result<Value, Box<Diagnostic>> {
        let marker = END_MARKER.as_ref().and_then(|marker| marker.find(text).ok().flatten());
        if let Some(marker) = marker {
            let head = self.load(session, file, &text[..marker.start()])?;
            self.process(session, file, &head, true)?;
        }
        let sls = session.source(file).sls;
        let prefix = format!("{sls}::");
        let dir = match sls.contains('.') {
            true => sls.rsplit_once('.').map_or(String::new(), |(dir, _)| dir.replace('.', "/")),
            false => sls.to_string(),
        };
        let mut variables = Map::new();
        variables.insert("sls_dir", if dir.is_empty() { "." } else { dir.as_str() });
        for (id, values) in &session.stateconf().borrow().own {
            variables.insert(id.strip_prefix(&prefix).unwrap_or(id), values.clone());
        }
        session.add_variables(file, &variables);
        let high = self.load(session, file, text)?;
        self.process(session, file, &high, false)
    }

    fn load(self, session: &CompileSession, file: FileId, text: &str) -> Result<Value, Box<Diagnostic>> {
        let text = session.render_template(file, text)?;
        if self.is_json { load_json(session, file, &text) } else { load_yaml(session, file, &text) }
    }

    /// Turns the data of an SLS into those that the rest of the compile reads.
    pub(crate) fn process(
        self,
        session: &CompileSession,
        file: FileId,
        high: &Value,
        only_values: bool,
    ) -> Result<Value, Box<Diagnostic>> {
        let Value::Map(high) = high else { return Ok(high.clone()) };
        let source = session.source(file);
        let at = |pos: Pos| RenderedPos { file, pos };
        let fail = |(pos, words): (Pos, String)| {
            Box::new(session.diagnostic(codes::STATECONF, at(pos), words).hint("see `zagent explain ZA0247`"))
        };
        let mut data = expand_shorthands(high);
        resolve_includes(&mut data, &source.sls, &source.env).map_err(fail)?;
        if self.is_ordered && !only_values {
            chain_states(&mut data).map_err(fail)?;
        }
        if self.has_start {
            add_start(&mut data).map_err(fail)?;
        }
        if !self.no_goal && !only_values {
            add_goal(&mut data).map_err(fail)?;
        }
        let data = rename_ids(&data, &source.sls).map_err(fail)?;
        session.stateconf().borrow_mut().take_from(&data);
        Ok(data.into())
    }
}

impl StateconfValues {
    fn take_from(&mut self, data: &Map) {
        if let Some(Value::Map(extend)) = data.get("extend") {
            for (id, values) in set_values(extend) {
                self.extended.entry(id).or_default().extend_with(&values);
            }
        }
        for (id, values) in set_values(data) {
            let own = self.own.entry(id.clone()).or_default();
            own.extend_with(&values);
            if let Some(extended) = self.extended.get(&id) {
                own.extend_with(extended);
            }
        }
    }
}

trait ExtendMap {
    fn extend_with(&mut self, other: &Map);
}

impl ExtendMap for Map {
    fn extend_with(&mut self, other: &Map) {
        for (key, value) in other.iter() {
            self.insert(key.clone(), value.clone());
        }
    }
}

/// What every `stateconf.set` of some declarations says.
fn set_values(data: &Map) -> Vec<(String, Map)> {
    let mut found = Vec::new();
    for (id, states) in data.iter().filter(|(id, _)| id.as_str() != Some("extend")) {
        let Some(states) = states.as_map() else { continue };
        let Some(Value::List(args)) = states.get(SET_MODULE).or_else(|| states.get(SET_STATE)) else {
            continue;
        };
        let mut values = Map::new();
        for (key, value) in args.iter().filter_map(Value::as_map).filter_map(|map| map.iter().next()) {
            values.insert(key.clone(), value.clone());
        }
        found.push((id.json_key(), values));
    }
    found
}

type Fault = (Pos, String);

fn module_of(state: &str) -> &str {
    state.split('.').next().unwrap_or_default()
}

fn is_id(key: &str) -> bool {
    !key.starts_with("__") && !NOT_IDS.contains(&key)
}

/// `id: state.fun` becomes `id: {state.fun: []}`.
fn expand_shorthands(high: &Map) -> Map {
    let mut out = Map::with_capacity(high.len());
    for entry in high.entries() {
        let value = match &entry.value {
            Value::Str(state) => {
                let mut states = Map::new();
                states.insert_at(Value::Str(Arc::clone(state)), Value::empty_list(), entry.at);
                states.into()
            }
            other => other.clone(),
        };
        out.insert_at(entry.key.clone(), value, entry.at);
    }
    out
}

/// A name with leading dots, from the SLS that says it.
fn absolute(relative: &str, sls: &str, pos: Pos) -> Result<String, Fault> {
    let name = relative.trim_start_matches('.');
    let levels = relative.len() - name.len();
    let parts: Vec<&str> = sls.split('.').collect();
    let kept = parts.len().checked_sub(levels).and_then(|count| parts.get(..count));
    let kept = kept.ok_or_else(|| (pos, format!("`{relative}` goes beyond the root of the states")))?;
    Ok(kept.iter().copied().chain([name]).collect::<Vec<_>>().join("."))
}

fn resolve_includes(data: &mut Map, sls: &str, env: &str) -> Result<(), Fault> {
    if let Some(Value::List(list)) = data.get("include").cloned() {
        let mut out = List::default();
        for (index, item) in list.iter().enumerate() {
            let (own, name) = match item {
                Value::Map(map) => match map.iter().next() {
                    Some((own, name)) => (own.json_key(), name.as_str()),
                    None => (env.to_owned(), None),
                },
                other => (env.to_owned(), other.as_str()),
            };
            let pos = list.pos(index);
            match name.filter(|name| name.starts_with('.')) {
                Some(name) => {
                    let target: Map = [(own.as_str(), absolute(name, sls, pos)?)].into_iter().collect();
                    out.push_at(target.into(), pos);
                }
                None => out.push_at(item.clone(), pos),
            }
        }
        data.insert("include", Value::List(Arc::new(out)));
    }
    if let Some(Value::List(list)) = data.get("exclude").cloned() {
        let mut out = List::default();
        for (index, item) in list.iter().enumerate() {
            let mut item = item.clone();
            if let Value::Map(map) = &mut item
                && let Some(name) = map.get("sls").and_then(Value::as_str).filter(|n| n.starts_with('.'))
            {
                let name = absolute(name, sls, list.pos(index))?;
                Arc::make_mut(map).insert("sls", name);
            }
            out.push_at(item, list.pos(index));
        }
        data.insert("exclude", Value::List(Arc::new(out)));
    }
    Ok(())
}

/// Every state of an SLS: its id, the key of the state, where it stands.
fn states_of(data: &Map) -> Vec<(String, String, Pos)> {
    let mut all = Vec::new();
    for entry in data.entries().iter().filter(|e| e.key.as_str().is_none_or(is_id)) {
        for state in entry.value.as_map().into_iter().flat_map(Map::entries) {
            let name = state.key.json_key();
            if !name.starts_with("__") {
                all.push((entry.key.json_key(), name, entry.at));
            }
        }
    }
    all
}

fn reference(state: &str, id: &str) -> Value {
    [(module_of(state), id)].into_iter().collect::<Map>().into()
}

/// The targets of some requisites in the arguments of a state, as `(module, id)`.
fn targets(args: &Value, kinds: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for arg in args.as_list().into_iter().flat_map(|list| list.iter()).filter_map(Value::as_map) {
        for (_, list) in arg.iter().filter(|(key, _)| key.as_str().is_some_and(|k| kinds.contains(&k))) {
            let items = list.as_list().into_iter().flat_map(|list| list.iter()).filter_map(Value::as_map);
            found.extend(
                items.filter_map(|map| map.iter().next()).map(|(m, id)| (m.json_key(), id.json_key())),
            );
        }
    }
    found
}

/// Each state requires the one before it.
fn chain_states(data: &mut Map) -> Result<(), Fault> {
    let all = states_of(data);
    let place = |module: &str, id: &str| {
        all.iter().position(|(own, state, _)| own == id && module_of(state) == module)
    };
    let mut chained = data.clone();
    for (index, (id, state, pos)) in all.iter().enumerate() {
        let Some(args) = data.get(id).and_then(|states| states.get(state)) else { continue };
        if args.as_list().into_iter().flat_map(|l| l.iter()).any(|arg| arg.get("names").is_some()) {
            let words = format!("`names` in `{id}` does not go with `-o`: write a loop in the template");
            return Err((*pos, words));
        }
        let later =
            targets(args, &REQUIRES).into_iter().find(|(m, t)| place(m, t).is_some_and(|p| p > index));
        if let Some((module, target)) = later {
            return Err((*pos, format!("`{id}` requires `{module}: {target}`, which is declared after it")));
        }
        let earlier =
            targets(args, &REQUIRED_BY).into_iter().find(|(m, t)| place(m, t).is_some_and(|p| p < index));
        if let Some((module, target)) = earlier {
            return Err((
                *pos,
                format!("`{id}` is required by `{module}: {target}`, which is declared before it"),
            ));
        }
        if let Some((before_id, before, _)) = index.checked_sub(1).and_then(|before| all.get(before)) {
            let args = prepend_require(args, reference(before, before_id));
            if let Some(Value::Map(states)) = chained.get_mut(id) {
                Arc::make_mut(states).insert(state.as_str(), args);
            }
        }
    }
    *data = chained;
    Ok(())
}

/// The arguments with one more requisite, before the others.
fn prepend_require(args: &Value, first: Value) -> Value {
    let mut out = List::default();
    let mut is_done = false;
    for arg in args.as_list().into_iter().flat_map(|list| list.iter()) {
        match arg.get("require") {
            Some(Value::List(old)) if !is_done => {
                let all: Value = std::iter::once(first.clone()).chain(old.iter().cloned()).collect();
                out.push([("require", all)].into_iter().collect::<Map>().into());
                is_done = true;
            }
            _ => out.push(arg.clone()),
        }
    }
    if !is_done {
        let only: Value = std::iter::once(first).collect();
        out.push([("require", only)].into_iter().collect::<Map>().into());
    }
    Value::List(Arc::new(out))
}

fn set_state(requisite: &str, list: Value) -> Value {
    let arg: Map = [(requisite, list)].into_iter().collect();
    let args: Value = std::iter::once(Value::from(arg)).collect();
    [(SET_STATE, args)].into_iter().collect::<Map>().into()
}

/// A state that the first one requires.
fn add_start(data: &mut Map) -> Result<(), Fault> {
    if data.contains(START) {
        return Err((Pos::NONE, format!("the id `{START}` is taken, so `-s` cannot make it")));
    }
    if let Some((id, state, _)) = states_of(data).into_iter().next() {
        let first: Value = std::iter::once(reference(&state, &id)).collect();
        data.insert(START, set_state("require_in", first));
    }
    Ok(())
}

/// A state that requires all others.
fn add_goal(data: &mut Map) -> Result<(), Fault> {
    if data.contains(GOAL) {
        return Err((Pos::NONE, format!("the id `{GOAL}` is taken: `-G` leaves it to you")));
    }
    let all: Value = states_of(data).into_iter().map(|(id, state, _)| reference(&state, &id)).collect();
    data.insert(GOAL, set_state("require", all));
    Ok(())
}

/// The full id of a local one.
fn full_id(id: &str, sls: &str, pos: Pos) -> Result<String, Fault> {
    if id.contains("::") {
        return absolute(id, sls, pos);
    }
    let dotted = absolute(id, &format!("{sls}."), pos)?;
    Ok(match dotted.rsplit_once('.') {
        Some((sls, name)) => format!("{sls}::{name}"),
        None => dotted,
    })
}

/// Gives local ids their full names, in declarations and requisites; those come last, as in Salt.
fn rename_ids(data: &Map, sls: &str) -> Result<Map, Fault> {
    let (mut kept, mut renamed) = (Map::new(), Vec::new());
    for MapEntry { key, value, at } in data.entries() {
        let id = key.json_key();
        let value = match (id.as_str(), value) {
            ("extend", Value::Map(extend)) => rename_ids(extend, sls)?.into(),
            (_, Value::Map(states)) if is_id(&id) => rename_references(states, sls, *at)?.into(),
            _ => value.clone(),
        };
        if let Some(name) = id.strip_prefix('.') {
            renamed.push((full_id(&id, sls, *at)?, with_name(&value, name), *at));
        } else {
            kept.insert_at(key.clone(), value, *at);
        }
    }
    for (id, value, at) in renamed {
        if kept.contains(&id) {
            return Err((at, format!("the id `{id}` is declared twice")));
        }
        kept.insert_at(id.into(), value, at);
    }
    Ok(kept)
}

/// States without a name of their own are called by their local id.
fn with_name(states: &Value, name: &str) -> Value {
    let Value::Map(states) = states else { return states.clone() };
    let mut out = Map::new();
    for MapEntry { key, value, at } in states.entries() {
        let is_named = |list: &List| list.iter().any(|arg| arg.get("name").is_some());
        let value = match value {
            Value::List(list) if module_of(&key.json_key()) != SET_MODULE && !is_named(list) => {
                let own = Value::from([("name", name)].into_iter().collect::<Map>());
                let first = std::iter::once((own, *at));
                let rest = list.iter().enumerate().map(|(i, arg)| (arg.clone(), list.pos(i)));
                Value::List(Arc::new(first.chain(rest).collect()))
            }
            other => other.clone(),
        };
        out.insert_at(key.clone(), value, *at);
    }
    out.into()
}

/// The states of one id, with the full ids of what they require.
fn rename_references(states: &Map, sls: &str, pos: Pos) -> Result<Map, Fault> {
    let mut out = Map::new();
    for MapEntry { key, value, at } in states.entries() {
        let value = match value {
            Value::List(args) => {
                let args =
                    args.iter().enumerate().map(|(i, arg)| Ok((rename_arg(arg, sls, pos)?, args.pos(i))));
                Value::List(Arc::new(args.collect::<Result<List, Fault>>()?))
            }
            other => other.clone(),
        };
        out.insert_at(key.clone(), value, *at);
    }
    Ok(out)
}

fn rename_arg(arg: &Value, sls: &str, pos: Pos) -> Result<Value, Fault> {
    let Value::Map(map) = arg else { return Ok(arg.clone()) };
    let is_requisite =
        |key: &str| REQUIRES.contains(&key) || REQUIRED_BY.contains(&key) || USES.contains(&key);
    let mut out = Map::new();
    for MapEntry { key, value, at } in map.entries() {
        let value = match value {
            Value::List(items) if key.as_str().is_some_and(is_requisite) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| Ok((rename_target(item, sls, pos)?, items.pos(i))));
                Value::List(Arc::new(items.collect::<Result<List, Fault>>()?))
            }
            other => other.clone(),
        };
        out.insert_at(key.clone(), value, *at);
    }
    Ok(out.into())
}

fn rename_target(item: &Value, sls: &str, pos: Pos) -> Result<Value, Fault> {
    let Value::Map(map) = item else { return Ok(item.clone()) };
    let mut out = Map::new();
    for MapEntry { key, value, at } in map.entries() {
        let value = match value.as_str().filter(|id| id.starts_with('.')) {
            Some(id) => full_id(id, sls, pos)?.into(),
            None => value.clone(),
        };
        out.insert_at(key.clone(), value, *at);
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = StateconfOptions::parse;
        assert_eq!(parse(""), Ok(StateconfOptions::default()));
        assert_eq!(parse("yaml . jinja"), Ok(StateconfOptions::default()));
        let all = StateconfOptions { no_goal: true, is_ordered: true, ..StateconfOptions::default() };
        assert_eq!(parse("-Go yaml . jinja"), Ok(all));
        assert_eq!(parse("yaml . mako"), Err("mako".into()));
        assert_eq!(parse("-x"), Err("stateconf -x".into()));
    }

    #[test]
    fn local_ids_get_full_names() {
        for (id, sls, full) in
            [(".x", "a.b", "a.b::x"), (".x", "t", "t::x"), (".other::x", "a.b", "a.other::x")]
        {
            assert_eq!(full_id(id, sls, Pos::NONE).as_deref(), Ok(full), "{id}");
        }
        assert!(full_id("...x::y", "a", Pos::NONE).is_err());
    }
}
