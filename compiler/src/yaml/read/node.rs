//! Nodes in, values out: tags, merge keys, shared anchors.
//!
//! Law: merging is Salt's. Keys from `<<` come first, in the order of the lists read backwards; a key that the
//! mapping has itself is not merged (compared as written); a key from two merged mappings is an error (held by
//! `texts_read_as_salt_reads_them`).

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zagent_config::value::{MapEntry, value_from_bytes};
use zagent_config::{Pos, Value};

use super::build::{self, StringInterner};
use super::{YamlError, diagnostics, limits, number, scalar};
use crate::TreeLimits;

/// A node by its number.
pub(super) type YamlNodeId = usize;

/// A parsed document.
#[derive(Default)]
pub(super) struct YamlTree {
    pub nodes: Vec<YamlNode>,
    pub root: Option<YamlNodeId>,
}

/// A node of a document.
pub(super) struct YamlNode {
    pub at: Pos,
    pub tag: YamlTag,
    pub kind: NodeKind,
    pub is_anchored: bool,
}

/// The content of a node.
pub(super) enum NodeKind {
    /// A collection that is still being read.
    Open,
    Scalar(String),
    List(Vec<YamlNodeId>),
    Map(Vec<(YamlNodeId, YamlNodeId)>),
}

/// The target type of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum YamlTag {
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

/// The prefix that `!!` stands for.
const STANDARD_TAG_PREFIX: &str = "tag:yaml.org,2002:";

impl YamlTag {
    /// The tag of a scalar: as written, otherwise from its text when it is plain.
    pub(super) fn for_scalar(tag: Option<String>, text: &str, is_plain: bool) -> Self {
        match tag.filter(|t| t != "!") {
            Some(tag) => Self::from_name(tag),
            None if !is_plain => Self::Str,
            None => match scalar::classify(text) {
                scalar::ScalarKind::Str => Self::Str,
                scalar::ScalarKind::Null => Self::Null,
                scalar::ScalarKind::Bool(_) => Self::Bool,
                scalar::ScalarKind::Int => Self::Int,
                scalar::ScalarKind::Float => Self::Float,
                scalar::ScalarKind::Merge => Self::Merge,
                scalar::ScalarKind::Default => Self::Default,
            },
        }
    }

    pub(super) fn for_list(tag: Option<String>) -> Self {
        tag.filter(|t| t != "!").map_or(Self::List, Self::from_name)
    }

    pub(super) fn for_map(tag: Option<String>) -> Self {
        tag.filter(|t| t != "!").map_or(Self::Map, Self::from_name)
    }

    fn from_name(tag: String) -> Self {
        match tag.strip_prefix(STANDARD_TAG_PREFIX) {
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

    /// The tag as written.
    pub(super) fn as_written(&self) -> String {
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
                return tag
                    .strip_prefix(STANDARD_TAG_PREFIX)
                    .map_or_else(|| tag.clone(), |name| format!("!!{name}"));
            }
        };
        format!("!!{name}")
    }
}

/// Makes the value of a document.
pub(super) fn build(tree: YamlTree, limits: &TreeLimits) -> Result<Value, YamlError> {
    let Some(root) = tree.root else { return Ok(Value::Null) };
    let mut builder = ValueBuilder {
        tree,
        strings: StringInterner::new(),
        shared: HashMap::new(),
        left: limits.yaml_nodes,
    };
    builder.value(root)
}

struct ValueBuilder {
    tree: YamlTree,
    strings: StringInterner,
    /// Values of anchored nodes, and how many nodes each represents.
    shared: HashMap<YamlNodeId, (Value, usize)>,
    left: usize,
}

impl ValueBuilder {
    fn charge_nodes(&mut self, nodes: usize, id: YamlNodeId) -> Result<(), YamlError> {
        match self.left.checked_sub(nodes) {
            Some(left) => self.left = left,
            None => return Err(limits::too_many(self.tree.nodes[id].at)),
        }
        Ok(())
    }

    fn value(&mut self, id: YamlNodeId) -> Result<Value, YamlError> {
        if !self.tree.nodes[id].is_anchored {
            self.charge_nodes(1, id)?;
            return self.build_node(id);
        }
        if let Some((value, nodes)) = self.shared.get(&id) {
            let (value, nodes) = (value.clone(), *nodes);
            self.charge_nodes(nodes, id)?;
            return Ok(value);
        }
        let before = self.left;
        self.charge_nodes(1, id)?;
        let value = self.build_node(id)?;
        self.shared.insert(id, (value.clone(), before - self.left));
        Ok(value)
    }

    fn build_node(&mut self, id: YamlNodeId) -> Result<Value, YamlError> {
        let node = &self.tree.nodes[id];
        match (&node.tag, &node.kind) {
            (YamlTag::Unknown(_), _) => Err(diagnostics::unknown_tag(node)),
            (_, NodeKind::Scalar(_)) => self.scalar(id),
            (YamlTag::List, NodeKind::List(items)) => {
                let items = items.clone();
                self.list(items)
            }
            (YamlTag::Pairs, NodeKind::List(items)) => {
                let items = items.clone();
                self.pairs(items)
            }
            (YamlTag::Map, NodeKind::Map(_)) => self.map(id),
            (YamlTag::Set, NodeKind::Map(_)) => {
                let Value::Map(map) = self.map(id)? else { return Ok(Value::Null) };
                Ok(build::build_list(map.entries().iter().map(|e| (e.key.clone(), e.at))))
            }
            _ => Err(diagnostics::wrong_node_kind(node)),
        }
    }

    fn scalar(&mut self, id: YamlNodeId) -> Result<Value, YamlError> {
        let node = &self.tree.nodes[id];
        let NodeKind::Scalar(text) = &node.kind else { return Ok(Value::Null) };
        let made = match node.tag {
            YamlTag::Str => Some(self.strings.intern(text)),
            YamlTag::Null => Some(Value::Null),
            YamlTag::Bool => match scalar::classify(&text.to_ascii_lowercase()) {
                scalar::ScalarKind::Bool(b) => Some(Value::Bool(b)),
                _ => None,
            },
            YamlTag::Int => number::parse_int(text),
            YamlTag::Float => number::parse_float(text).map(Value::Float),
            YamlTag::Binary => binary(text),
            _ => return Err(diagnostics::wrong_node_kind(node)),
        };
        made.ok_or_else(|| diagnostics::wrong_scalar_text(node, text))
    }

    fn list(&mut self, items: Vec<YamlNodeId>) -> Result<Value, YamlError> {
        let mut made = Vec::with_capacity(items.len());
        for id in items {
            made.push((self.value(id)?, self.tree.nodes[id].at));
        }
        Ok(build::build_list(made.into_iter()))
    }

    /// `!!pairs`: a list of mappings with one key each, into a list of lists of two.
    fn pairs(&mut self, items: Vec<YamlNodeId>) -> Result<Value, YamlError> {
        let mut made = Vec::with_capacity(items.len());
        for id in items {
            let node = &self.tree.nodes[id];
            let at = node.at;
            let NodeKind::Map(pairs) = &node.kind else { return Err(diagnostics::wrong_node_kind(node)) };
            let [(key, value)] = pairs[..] else { return Err(diagnostics::wrong_node_kind(node)) };
            let both = [key, value].map(|id| self.value(id).map(|v| (v, self.tree.nodes[id].at)));
            let [key, value] = both;
            made.push((build::build_list([key?, value?].into_iter()), at));
        }
        Ok(build::build_list(made.into_iter()))
    }

    fn map(&mut self, id: YamlNodeId) -> Result<Value, YamlError> {
        self.resolve_merge_keys(id)?;
        let NodeKind::Map(pairs) = &self.tree.nodes[id].kind else { return Ok(Value::Null) };
        let pairs = pairs.clone();
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let at = self.tree.nodes[key].at;
            let key = self.key(key)?;
            entries.push(MapEntry { key, value: self.value(value)?, at });
        }
        build::build_map(entries.into_iter()).map_err(diagnostics::duplicate_key)
    }

    fn key(&mut self, id: YamlNodeId) -> Result<Value, YamlError> {
        let node = &mut self.tree.nodes[id];
        if node.tag == YamlTag::Default {
            node.tag = YamlTag::Str;
        }
        if !matches!(node.kind, NodeKind::Scalar(_)) {
            return Err(diagnostics::unhashable(&self.tree, id));
        }
        self.value(id)
    }

    /// Resolves the merge keys of a mapping, and of those that it merges.
    fn resolve_merge_keys(&mut self, id: YamlNodeId) -> Result<(), YamlError> {
        let NodeKind::Map(pairs) = &self.tree.nodes[id].kind else { return Ok(()) };
        if !pairs.iter().any(|(key, _)| self.tree.nodes[*key].tag == YamlTag::Merge) {
            return Ok(());
        }
        let (mut own, mut merged) = (Vec::new(), Vec::new());
        for (key, value) in pairs.clone() {
            if self.tree.nodes[key].tag == YamlTag::Merge {
                self.merge(value, &mut merged)?;
            } else {
                own.push((key, value));
            }
        }
        let text = |id: YamlNodeId| match &self.tree.nodes[id].kind {
            NodeKind::Scalar(text) => Some(text.as_str()),
            _ => None,
        };
        let known: HashSet<&str> = own.iter().filter_map(|(key, _)| text(*key)).collect();
        merged.retain(|(key, _)| text(*key).is_none_or(|t| !known.contains(t)));
        merged.extend(own);
        self.tree.nodes[id].kind = NodeKind::Map(merged);
        Ok(())
    }

    /// Collects the entries of one merge key.
    fn merge(&mut self, id: YamlNodeId, into: &mut Vec<(YamlNodeId, YamlNodeId)>) -> Result<(), YamlError> {
        match &self.tree.nodes[id].kind {
            NodeKind::Map(_) => self.merge_one(id, into),
            NodeKind::List(items) => {
                let items = items.clone();
                for item in items.into_iter().rev() {
                    self.merge_one(item, into)?;
                }
                Ok(())
            }
            _ => Err(diagnostics::bad_merge(&self.tree.nodes[id])),
        }
    }

    fn merge_one(
        &mut self,
        id: YamlNodeId,
        into: &mut Vec<(YamlNodeId, YamlNodeId)>,
    ) -> Result<(), YamlError> {
        self.resolve_merge_keys(id)?;
        let NodeKind::Map(pairs) = &self.tree.nodes[id].kind else {
            return Err(diagnostics::bad_merge(&self.tree.nodes[id]));
        };
        into.extend_from_slice(pairs);
        self.charge_nodes(pairs.len(), id)
    }
}

/// The bytes in base64, padded or not; `None` when it is not base64.
fn binary(text: &str) -> Option<Value> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let data: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    LENIENT.decode(data).ok().map(value_from_bytes)
}
