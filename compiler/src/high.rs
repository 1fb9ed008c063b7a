//! High data: the content of all rendered SLS files, by id, before it is split into chunks.

use std::sync::Arc;

use hashbrown::HashMap;
use zagent_config::{List, Map, Pos, Value};

use crate::source_files::{FileId, RenderedPos};

/// One `module[.function]:` under an id, with its arguments as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StateDecl {
    /// The module; a dotted key is already split, unless its value is not a list.
    pub(crate) key: Arc<str>,
    /// In a valid tree, a list of function names and argument mappings.
    pub(crate) args: Value,
    /// The position of the key.
    pub(crate) at: Pos,
}

/// The declaration of one id.
#[derive(Clone, Debug)]
pub(crate) struct IdDecl {
    /// The SLS that declared it.
    pub(crate) sls: Arc<str>,
    /// The environment of that SLS.
    pub(crate) env: Arc<str>,
    /// The file, for messages.
    pub(crate) file: FileId,
    /// The position of the id.
    pub(crate) at: Pos,
    /// Every SLS that included it, innermost first.
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

    /// The position of the id.
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

/// All ids in order, and the pending extends and excludes.
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

    /// Sets an id; an existing one keeps its position.
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

    /// Keeps the ids for which `keep` is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &IdDecl) -> bool) {
        self.ids.retain(|(id, body)| keep(id, body));
        self.index = self.ids.iter().enumerate().map(|(i, (id, _))| (id.clone(), i)).collect();
    }

    /// Removes the ids and returns them in order.
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

/// The first key of a mapping argument, the only one that Salt uses.
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

/// The list of a value, unshared so that it can be changed; `None` when it is not a list.
pub(crate) fn list_mut(value: &mut Value) -> Option<&mut List> {
    match value {
        Value::List(list) => Some(Arc::make_mut(list)),
        _ => None,
    }
}
