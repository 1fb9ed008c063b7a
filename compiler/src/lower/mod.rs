//! lower: high data in, low chunks out: one per function and name.
//!
//! Chunks keep the order of the high data; `link` sorts them.

pub(crate) mod reverse_requisites;
mod subscribe;
pub(crate) mod verify;

use std::collections::HashMap;
use std::sync::Arc;

use zagent_config::codes::declaration as codes;
use zagent_config::{Diagnostics, List, Map, Pos, Value};

use crate::high::{HighData, IdDecl, StateDecl};
use crate::plan::{Chunk, PrereqRole};
use crate::session::CompileSession;
use crate::source_files::RenderedPos;

/// A chunk and the data that `link` needs with it.
#[derive(Debug)]
pub(crate) struct LoweredChunk {
    /// The chunk; its order is not final.
    pub(crate) chunk: Chunk,
    /// Position among `names`, from 1; zero without.
    pub(crate) name_order: u32,
    /// `order` as it was given.
    pub(crate) order: Option<Value>,
    /// The position of the state.
    pub(crate) spot: RenderedPos,
    /// Where items of its `watch` stand that were written as `subscribe`.
    pub(crate) subscriptions: Vec<Pos>,
}

/// Splits every declaration into chunks.
pub(crate) fn lower(
    session: &CompileSession,
    high: HighData,
    diagnostics: &mut Diagnostics,
) -> Vec<LoweredChunk> {
    let mut chunks = Vec::new();
    for (id, body) in high.into_ids() {
        if id.starts_with("__") {
            continue;
        }
        for decl in body.states() {
            lower_decl(session, &id, &body, decl, &mut chunks, diagnostics);
        }
    }
    chunks
}

fn lower_decl(
    session: &CompileSession,
    id: &Arc<str>,
    body: &IdDecl,
    decl: &StateDecl,
    chunks: &mut Vec<LoweredChunk>,
    diagnostics: &mut Diagnostics,
) {
    let Some(list) = decl.args.as_list() else { return };
    let mut draft = ChunkDraft::new(id, body, decl);
    let mut names = NameList::default();
    for arg in list.iter() {
        match arg {
            Value::Str(function) => draft.function = Some(function.clone()),
            Value::Map(map) => {
                for entry in map.entries() {
                    match entry.key.as_str() {
                        Some("names") => names.add(&entry.value),
                        Some("state") => {}
                        Some("name") if entry.value.as_str().is_none() => draft.name = id.clone().into(),
                        _ => draft.set(entry.key.clone(), entry.value.clone(), entry.at),
                    }
                }
            }
            _ => {}
        }
    }
    let Some(function) = draft.function.clone() else { return };
    if names.items.is_empty() {
        chunks.push(draft.finish(function, 0));
        return;
    }
    for (n, (entry, at)) in names.items.iter().enumerate() {
        let mut one = draft.clone();
        match entry {
            Value::Map(map) => {
                if !one.override_name(map) {
                    diagnostics.push(
                        session
                            .diagnostic(
                                codes::NAMES_ENTRY,
                                body.spot_at(*at),
                                format!(
                                    "an entry in `names` of `{id}`: overrides must be a list of mappings"
                                ),
                            )
                            .hint("write\n    - names:\n      - NAME:\n        - key: value"),
                    );
                    continue;
                }
            }
            name => one.name = name.clone(),
        }
        chunks.push(one.finish(function.clone(), u32::try_from(n + 1).unwrap_or(u32::MAX)));
    }
}

/// The `names` of a state, without repetitions.
#[derive(Default)]
struct NameList {
    items: Vec<(Value, Pos)>,
    /// Positions in `items` by the name or the key of the overrides, so that many names stay linear.
    by_word: HashMap<Arc<str>, Vec<usize>>,
}

impl NameList {
    fn add(&mut self, value: &Value) {
        match value {
            Value::List(list) => {
                for (i, name) in list.iter().enumerate() {
                    self.push(name.clone(), list.pos(i));
                }
            }
            // Python iterates over a string's characters and a mapping's keys.
            Value::Str(text) => {
                for c in text.chars() {
                    self.push(c.to_string().into(), Pos::NONE);
                }
            }
            Value::Map(map) => {
                for entry in map.entries() {
                    self.push(entry.key.clone(), entry.at);
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, name: Value, at: Pos) {
        let word = match &name {
            Value::Str(text) => text.clone(),
            Value::Map(map) => map.keys().next().map_or_else(|| "".into(), |key| key.json_key().into()),
            _ => "".into(),
        };
        let alike = self.by_word.entry(word).or_default();
        if !alike.iter().any(|&i| self.items[i].0 == name) {
            alike.push(self.items.len());
            self.items.push((name, at));
        }
    }
}

#[derive(Clone)]
struct ChunkDraft {
    state: Arc<str>,
    function: Option<Arc<str>>,
    name: Value,
    id: Arc<str>,
    sls: Arc<str>,
    env: Arc<str>,
    included_from: Vec<Arc<str>>,
    order: Option<Value>,
    args: Map,
    spot: RenderedPos,
}

impl ChunkDraft {
    fn new(id: &Arc<str>, body: &IdDecl, decl: &StateDecl) -> Self {
        Self {
            state: decl.key.clone(),
            function: None,
            name: id.clone().into(),
            id: id.clone(),
            sls: body.sls.clone(),
            env: body.env.clone(),
            included_from: body.included_from.clone(),
            order: None,
            args: Map::with_capacity(decl.args.as_list().map_or(0, |l: &List| l.len())),
            spot: body.spot_at(decl.at),
        }
    }

    /// Sets an argument; the bookkeeping keys of a chunk can be overridden, as in Salt.
    fn set(&mut self, key: Value, value: Value, at: Pos) {
        match (key.as_str(), &value) {
            (Some("name"), _) => self.name = value,
            (Some("order"), _) => self.order = Some(value),
            (Some("fun"), _) => {}
            (Some("__id__"), Value::Str(s)) => self.id = s.clone(),
            (Some("__sls__"), Value::Str(s)) => self.sls = s.clone(),
            (Some("__env__"), Value::Str(s)) => self.env = s.clone(),
            _ => {
                self.args.insert_at(key, value, at);
            }
        }
    }

    /// Applies one entry of `names` that has overrides; false when they are malformed.
    fn override_name(&mut self, entry: &Map) -> bool {
        let Some(NameOverride { name, overrides }) = NameOverride::from_map(entry) else { return true };
        self.name = name.clone();
        let list = match overrides {
            Value::List(list) => list,
            Value::Map(map) if map.is_empty() => return true,
            _ => return false,
        };
        for item in list.iter() {
            let Some(map) = item.as_map() else { return false };
            for e in map.entries() {
                self.set(e.key.clone(), e.value.clone(), e.at);
            }
        }
        true
    }

    fn finish(mut self, fun: Arc<str>, name_order: u32) -> LoweredChunk {
        let subscriptions =
            if &*self.state == "exec" { subscribe::lower_subscriptions(&mut self.args) } else { Vec::new() };
        LoweredChunk {
            chunk: Chunk {
                state: self.state,
                fun,
                name: self.name,
                id: self.id,
                sls: self.sls,
                env: self.env,
                order: 0.0,
                args: self.args,
                included_from: self.included_from,
                prereq: PrereqRole::default(),
                file: self.spot.file,
                at: self.spot.pos,
            },
            name_order,
            order: self.order,
            spot: self.spot,
            subscriptions,
        }
    }
}

struct NameOverride<'m> {
    name: &'m Value,
    overrides: &'m Value,
}

impl<'m> NameOverride<'m> {
    fn from_map(map: &'m Map) -> Option<Self> {
        map.iter().next().map(|(name, overrides)| Self { name, overrides })
    }
}
