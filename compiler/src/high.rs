//! High data: what all rendered SLS files say together, by id, before it is torn into chunks.

use std::sync::Arc;

use hashbrown::HashMap;
use zagent_config::{List, Map, Pos, Value};

use crate::source_files::{FileId, RenderedPos};

/// One `module[.function]:` under an id, with its arguments as they were written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateDecl {
    /// The module; a dotted key was split by then, unless what it holds is no list.
    pub(crate) key: Arc<str>,
    /// A list of function names and argument mappings in a sound tree.
    pub(crate) args: Value,
    /// Where the key stands.
    pub(crate) at: Pos,
}

/// What stands under one id.
#[derive(Clone, Debug)]
pub(crate) struct IdDecl {
    /// The SLS that declared it.
    pub(crate) sls: Arc<str>,
    /// The environment of that SLS.
    pub(crate) env: Arc<str>,
    /// The file, for messages.
    pub(crate) file: FileId,
    /// Where the id stands.
    pub(crate) at: Pos,
    /// Every SLS whose include brought it in, innermost first.
    pub(crate) included_from: Vec<Arc<str>>,
    /// Its declarations in order.
    pub(crate) decls: Vec<StateDecl>,
}

impl IdDecl {
    /// The declaration of a module.
    pub(crate) fn decl(&self, key: &str) -> Option<&StateDecl> {
        self.decls.iter().find(|d| &*d.key == key)
    }

    pub(crate) fn decl_mut(&mut self, key: &str) -> Option<&mut StateDecl> {
        self.decls.iter_mut().find(|d| &*d.key == key)
    }

    /// The declarations that are states: names with two underscores are bookkeeping.
    pub(crate) fn states(&self) -> impl Iterator<Item = &StateDecl> {
        self.decls.iter().filter(|d| !d.key.starts_with("__"))
    }

    /// Where the id stands.
    pub(crate) fn spot(&self) -> RenderedPos {
        RenderedPos { file: self.file, pos: self.at }
    }

    /// A place in this body's file.
    pub(crate) fn spot_at(&self, pos: Pos) -> RenderedPos {
        RenderedPos { file: self.file, pos: if pos.is_known() { pos } else { self.at } }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::with_capacity(self.decls.len() + 3);
        map.insert("__sls__", self.sls.clone());
        map.insert("__env__", self.env.clone());
        for decl in &self.decls {
            map.insert(decl.key.clone(), decl.args.clone());
        }
        if !self.included_from.is_empty() {
            map.insert(
                "__sls_included_from__",
                self.included_from.iter().cloned().map(Value::from).collect::<Value>(),
            );
        }
        map.into()
    }
}

impl PartialEq for IdDecl {
    fn eq(&self, other: &Self) -> bool {
        self.sls == other.sls
            && self.env == other.env
            && self.included_from == other.included_from
            && self.decls.len() == other.decls.len()
            && self.decls.iter().zip(&other.decls).all(|(a, b)| a.key == b.key && a.args == b.args)
    }
}

/// One id that an `extend` changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extension {
    /// The id (or name) to extend.
    pub(crate) id: Arc<str>,
    /// What to add or replace.
    pub(crate) body: IdDecl,
}

/// One item of an `exclude`.
#[derive(Clone, Debug)]
pub(crate) struct Exclusion {
    /// As it was written.
    pub(crate) item: Value,
    /// Where.
    pub(crate) spot: RenderedPos,
}

/// All ids in order, and the extends and excludes that wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct HighData {
    ids: Vec<(Arc<str>, IdDecl)>,
    index: HashMap<Arc<str>, usize>,
    /// Extensions in the order they were read.
    pub(crate) extend: Vec<Extension>,
    /// Exclusions in the order they were read.
    pub(crate) exclude: Vec<Exclusion>,
}

impl HighData {
    pub(crate) fn get(&self, id: &str) -> Option<&IdDecl> {
        self.index.get(id).map(|&i| &self.ids[i].1)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut IdDecl> {
        let i = *self.index.get(id)?;
        Some(&mut self.ids[i].1)
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.index.contains_key(id)
    }

    /// Sets an id; one that exists keeps its place.
    pub(crate) fn insert(&mut self, id: Arc<str>, body: IdDecl) {
        if let Some(&i) = self.index.get(&id) {
            self.ids[i].1 = body;
        } else {
            self.index.insert(id.clone(), self.ids.len());
            self.ids.push((id, body));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &IdDecl)> {
        self.ids.iter().map(|(id, body)| (id, body))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut IdDecl)> {
        self.ids.iter_mut().map(|(id, body)| (&*id, body))
    }

    /// Keeps the ids that `keep` wants.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &IdDecl) -> bool) {
        self.ids.retain(|(id, body)| keep(id, body));
        self.index = self.ids.iter().enumerate().map(|(i, (id, _))| (id.clone(), i)).collect();
    }

    /// Takes the ids out, in order.
    pub(crate) fn into_ids(self) -> Vec<(Arc<str>, IdDecl)> {
        self.ids
    }

    /// Salt's `show_highstate`.
    pub(crate) fn to_value(&self) -> Value {
        let mut map = Map::with_capacity(self.ids.len() + 2);
        for (id, body) in self.iter() {
            map.insert(id.clone(), body.to_value());
        }
        if !self.extend.is_empty() {
            let items = self.extend.iter().map(|e| {
                let mut one = Map::new();
                one.insert(e.id.clone(), e.body.to_value());
                Value::from(one)
            });
            map.insert("__extend__", items.collect::<Value>());
        }
        if !self.exclude.is_empty() {
            map.insert("__exclude__", self.exclude.iter().map(|e| e.item.clone()).collect::<Value>());
        }
        map.into()
    }
}

/// The first key of a mapping argument, which is what Salt goes by.
pub(crate) fn first_key(arg: &Value) -> Option<(&str, &Value, Pos)> {
    let entry = arg.as_map()?.entries().first()?;
    Some((entry.key.as_str()?, &entry.value, entry.at))
}

/// A one-key mapping.
pub(crate) fn single_entry(key: impl Into<Value>, value: impl Into<Value>) -> Value {
    let mut map = Map::with_capacity(1);
    map.insert(key, value);
    map.into()
}

/// The list behind a value, made its own so that it can change; `None` when it is no list.
pub(crate) fn list_mut(value: &mut Value) -> Option<&mut List> {
    match value {
        Value::List(list) => Some(Arc::make_mut(list)),
        _ => None,
    }
}
