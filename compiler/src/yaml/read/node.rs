//! Nodes into values: tags, merge keys, shared anchors.
//!
//! Law: merging is Salt's. What `<<` brings comes first, in the order of the lists read backwards; a key that the
//! mapping has itself is not merged (compared as it is written); a key that two merged mappings bring is an error.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zagent_config::value::Entry;
use zagent_config::{Pos, Value};

use super::build::{self, Strings};
use super::{YamlError, fault, limits, number, scalar};
use crate::Limits;

/// A node by its number.
pub(super) type Id = usize;

/// A parsed document.
#[derive(Default)]
pub(super) struct Tree {
    pub nodes: Vec<Node>,
    pub root: Option<Id>,
}

/// A node of a document.
pub(super) struct Node {
    pub at: Pos,
    pub tag: Tag,
    pub kind: Kind,
    pub is_anchored: bool,
}

/// What a node holds.
pub(super) enum Kind {
    /// A collection that is still being read.
    Open,
    Scalar(String),
    List(Vec<Id>),
    Map(Vec<(Id, Id)>),
}

/// What a node is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Str,
    Null,
    Bool,
    Int,
    Float,
    Merge,
    Default,
    Binary,
    List,
    Pairs,
    Map,
    Set,
    Unknown(String),
}

/// The prefix behind `!!`.
const STANDARD: &str = "tag:yaml.org,2002:";

impl Tag {
    /// The tag of a scalar: as written, else as its text says when it is plain.
    pub(super) fn of_scalar(tag: Option<String>, text: &str, is_plain: bool) -> Self {
        match tag.filter(|t| t != "!") {
            Some(tag) => Self::named(tag),
            None if !is_plain => Self::Str,
            None => match scalar::classify(text) {
                scalar::Kind::Str => Self::Str,
                scalar::Kind::Null => Self::Null,
                scalar::Kind::Bool(_) => Self::Bool,
                scalar::Kind::Int => Self::Int,
                scalar::Kind::Float => Self::Float,
                scalar::Kind::Merge => Self::Merge,
                scalar::Kind::Default => Self::Default,
            },
        }
    }

    pub(super) fn of_list(tag: Option<String>) -> Self {
        tag.filter(|t| t != "!").map_or(Self::List, Self::named)
    }

    pub(super) fn of_map(tag: Option<String>) -> Self {
        tag.filter(|t| t != "!").map_or(Self::Map, Self::named)
    }

    fn named(tag: String) -> Self {
        match tag.strip_prefix(STANDARD) {
            Some("str" | "python/unicode" | "timestamp") => Self::Str,
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("merge") => Self::Merge,
            Some("value") => Self::Default,
            Some("binary") => Self::Binary,
            Some("seq") => Self::List,
            Some("pairs") => Self::Pairs,
            Some("map" | "omap") => Self::Map,
            Some("set") => Self::Set,
            _ => Self::Unknown(tag),
        }
    }

    /// The tag as one writes it.
    pub(super) fn written(&self) -> String {
        let name = match self {
            Self::Str => "str",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Merge => "merge",
            Self::Default => "value",
            Self::Binary => "binary",
            Self::List => "seq",
            Self::Pairs => "pairs",
            Self::Map => "map",
            Self::Set => "set",
            Self::Unknown(tag) => {
                return tag.strip_prefix(STANDARD).map_or_else(|| tag.clone(), |name| format!("!!{name}"));
            }
        };
        format!("!!{name}")
    }
}

/// Makes the value of a document.
pub(super) fn build(tree: Tree, limits: &Limits) -> Result<Value, YamlError> {
    let Some(root) = tree.root else { return Ok(Value::Null) };
    let mut builder =
        Builder { tree, strings: Strings::new(), shared: HashMap::new(), left: limits.yaml_nodes };
    builder.value(root)
}

struct Builder {
    tree: Tree,
    strings: Strings,
    /// Values of anchored nodes, and how many nodes each stands for.
    shared: HashMap<Id, (Value, usize)>,
    left: usize,
}

impl Builder {
    fn spend(&mut self, nodes: usize, id: Id) -> Result<(), YamlError> {
        match self.left.checked_sub(nodes) {
            Some(left) => self.left = left,
            None => return Err(limits::too_many(self.tree.nodes[id].at)),
        }
        Ok(())
    }

    fn value(&mut self, id: Id) -> Result<Value, YamlError> {
        if !self.tree.nodes[id].is_anchored {
            self.spend(1, id)?;
            return self.make(id);
        }
        if let Some((value, nodes)) = self.shared.get(&id) {
            let (value, nodes) = (value.clone(), *nodes);
            self.spend(nodes, id)?;
            return Ok(value);
        }
        let before = self.left;
        self.spend(1, id)?;
        let value = self.make(id)?;
        self.shared.insert(id, (value.clone(), before - self.left));
        Ok(value)
    }

    fn make(&mut self, id: Id) -> Result<Value, YamlError> {
        let node = &self.tree.nodes[id];
        match (&node.tag, &node.kind) {
            (Tag::Unknown(_), _) => Err(fault::unknown_tag(node)),
            (_, Kind::Scalar(_)) => self.scalar(id),
            (Tag::List, Kind::List(items)) => {
                let items = items.clone();
                self.list(items)
            }
            (Tag::Pairs, Kind::List(items)) => {
                let items = items.clone();
                self.pairs(items)
            }
            (Tag::Map, Kind::Map(_)) => self.map(id),
            (Tag::Set, Kind::Map(_)) => {
                let Value::Map(map) = self.map(id)? else { return Ok(Value::Null) };
                Ok(build::list(map.entries().iter().map(|e| (e.key.clone(), e.at))))
            }
            _ => Err(fault::wrong_kind(node)),
        }
    }

    fn scalar(&mut self, id: Id) -> Result<Value, YamlError> {
        let node = &self.tree.nodes[id];
        let Kind::Scalar(text) = &node.kind else { return Ok(Value::Null) };
        let made = match node.tag {
            Tag::Str => Some(self.strings.make(text)),
            Tag::Null => Some(Value::Null),
            Tag::Bool => match scalar::classify(&text.to_ascii_lowercase()) {
                scalar::Kind::Bool(b) => Some(Value::Bool(b)),
                _ => None,
            },
            Tag::Int => number::int(text),
            Tag::Float => number::float(text).map(Value::Float),
            Tag::Binary => binary(text),
            _ => return Err(fault::wrong_kind(node)),
        };
        made.ok_or_else(|| fault::wrong_text(node, text))
    }

    fn list(&mut self, items: Vec<Id>) -> Result<Value, YamlError> {
        let mut made = Vec::with_capacity(items.len());
        for id in items {
            made.push((self.value(id)?, self.tree.nodes[id].at));
        }
        Ok(build::list(made.into_iter()))
    }

    /// `!!pairs`: a list of mappings with one key each, into a list of lists of two.
    fn pairs(&mut self, items: Vec<Id>) -> Result<Value, YamlError> {
        let mut made = Vec::with_capacity(items.len());
        for id in items {
            let node = &self.tree.nodes[id];
            let at = node.at;
            let Kind::Map(pairs) = &node.kind else { return Err(fault::wrong_kind(node)) };
            let [(key, value)] = pairs[..] else { return Err(fault::wrong_kind(node)) };
            let both = [key, value].map(|id| self.value(id).map(|v| (v, self.tree.nodes[id].at)));
            let [key, value] = both;
            made.push((build::list([key?, value?].into_iter()), at));
        }
        Ok(build::list(made.into_iter()))
    }

    fn map(&mut self, id: Id) -> Result<Value, YamlError> {
        self.flatten(id)?;
        let Kind::Map(pairs) = &self.tree.nodes[id].kind else { return Ok(Value::Null) };
        let pairs = pairs.clone();
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let at = self.tree.nodes[key].at;
            let key = self.key(key)?;
            entries.push(Entry { key, value: self.value(value)?, at });
        }
        build::map(entries.into_iter()).map_err(fault::key_twice)
    }

    fn key(&mut self, id: Id) -> Result<Value, YamlError> {
        let node = &mut self.tree.nodes[id];
        if node.tag == Tag::Default {
            node.tag = Tag::Str;
        }
        if !matches!(node.kind, Kind::Scalar(_)) {
            return Err(fault::unhashable(&self.tree, id));
        }
        self.value(id)
    }

    /// Resolves the merge keys of a mapping, and of those that it merges.
    fn flatten(&mut self, id: Id) -> Result<(), YamlError> {
        let Kind::Map(pairs) = &self.tree.nodes[id].kind else { return Ok(()) };
        if !pairs.iter().any(|(key, _)| self.tree.nodes[*key].tag == Tag::Merge) {
            return Ok(());
        }
        let (mut own, mut merged) = (Vec::new(), Vec::new());
        for (key, value) in pairs.clone() {
            if self.tree.nodes[key].tag == Tag::Merge {
                self.merge(value, &mut merged)?;
            } else {
                own.push((key, value));
            }
        }
        let text = |id: Id| match &self.tree.nodes[id].kind {
            Kind::Scalar(text) => Some(text.as_str()),
            _ => None,
        };
        let known: HashSet<&str> = own.iter().filter_map(|(key, _)| text(*key)).collect();
        merged.retain(|(key, _)| text(*key).is_none_or(|t| !known.contains(t)));
        merged.extend(own);
        self.tree.nodes[id].kind = Kind::Map(merged);
        Ok(())
    }

    /// Collects what one merge key brings.
    fn merge(&mut self, id: Id, into: &mut Vec<(Id, Id)>) -> Result<(), YamlError> {
        match &self.tree.nodes[id].kind {
            Kind::Map(_) => self.merge_one(id, into),
            Kind::List(items) => {
                let items = items.clone();
                for item in items.into_iter().rev() {
                    self.merge_one(item, into)?;
                }
                Ok(())
            }
            _ => Err(fault::bad_merge(&self.tree.nodes[id])),
        }
    }

    fn merge_one(&mut self, id: Id, into: &mut Vec<(Id, Id)>) -> Result<(), YamlError> {
        self.flatten(id)?;
        let Kind::Map(pairs) = &self.tree.nodes[id].kind else {
            return Err(fault::bad_merge(&self.tree.nodes[id]));
        };
        into.extend_from_slice(pairs);
        self.spend(pairs.len(), id)
    }
}

/// The text behind base64, padded or not; `None` when it is no base64 or no text.
fn binary(text: &str) -> Option<Value> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let data: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let bytes = LENIENT.decode(data).ok()?;
    String::from_utf8(bytes).ok().map(Value::from)
}
