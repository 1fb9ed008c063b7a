//! Errors in a document that parses: messages for tags, keys, aliases and merges.

use zagent_config::codes::yaml as code;
use zagent_config::{Pos, Value, suggest};

use super::YamlError;
use super::build::DuplicateKey;
use super::node::{NodeKind, YamlNode, YamlNodeId, YamlTag, YamlTree};

/// A second document in the text.
pub(super) fn second_document(at: Pos, first: Pos) -> YamlError {
    YamlError::new(code::SECOND_DOCUMENT, "a second document starts here", at)
        .note("the first one starts here", first)
        .hint("a file must have one document: remove the `---`, or split the file")
}

/// An anchor whose name is already used.
pub(super) fn duplicate_anchor(anchor: &str, at: Pos, first: Pos) -> YamlError {
    YamlError::new(code::ALIAS, format!("the anchor `&{anchor}` is defined twice"), at)
        .note("first defined here", first)
        .hint("give each anchor of a document its own name")
}

/// An alias without its anchor.
pub(super) fn unknown_alias<'a>(name: &str, at: Pos, known: impl Iterator<Item = &'a str>) -> YamlError {
    let error =
        YamlError::new(code::ALIAS, format!("the alias `*{name}` has no anchor `&{name}` before it"), at);
    // Compare only names of a plausible length.
    let short = |n: &&str| n.len() <= 64;
    match Some(name).filter(short).and_then(|name| suggest::nearest(name, known.filter(short).take(1000))) {
        Some(near) => error.hint(format!("did you mean `*{near}`?")),
        None => error.hint(format!("if the value is text, quote it: `'*{name}'`")),
    }
}

/// An alias inside its own value.
pub(super) fn alias_in_itself(name: &str, at: Pos, anchor: Pos) -> YamlError {
    YamlError::new(code::ALIAS, format!("the alias `*{name}` is inside the value it refers to"), at)
        .note("the value starts here", anchor)
        .hint("remove the alias: a value cannot contain itself")
}

/// An unknown tag.
pub(super) fn unknown_tag(node: &YamlNode) -> YamlError {
    YamlError::new(code::UNKNOWN_TAG, format!("unknown tag `{}`", node.tag.as_written()), node.at)
        .hint("if the `!` is part of the text, quote the value")
}

/// A node of a kind that its tag does not accept; also a lone `<<` or `=`.
pub(super) fn wrong_node_kind(node: &YamlNode) -> YamlError {
    if let (YamlTag::Merge | YamlTag::Default, NodeKind::Scalar(text)) = (&node.tag, &node.kind) {
        return YamlError::new(code::WRONG_TAG, format!("`{text}` alone is not a value"), node.at)
            .hint(format!("if it is text, quote it: `'{text}'`"));
    }
    let kind = match node.kind {
        NodeKind::List(_) => "a list",
        NodeKind::Map(_) => "a mapping",
        NodeKind::Scalar(_) | NodeKind::Open => "a scalar",
    };
    let message = format!("{kind} cannot be read as `{}`", node.tag.as_written());
    YamlError::new(code::WRONG_TAG, message, node.at).hint("remove the tag, or write a value that fits it")
}

/// A scalar whose text does not fit its tag.
pub(super) fn wrong_scalar_text(node: &YamlNode, text: &str) -> YamlError {
    let what = match node.tag {
        YamlTag::Int => "an integer",
        YamlTag::Float => "a float",
        YamlTag::Bool => "a boolean",
        YamlTag::Binary => "base64-encoded text",
        _ => "a valid value for its tag",
    };
    let shown: String = text.chars().take(40).collect();
    YamlError::new(code::WRONG_TAG, format!("`{shown}` is not {what}"), node.at)
        .hint("if it is text, quote it and remove the tag")
}

/// A duplicate key.
pub(super) fn duplicate_key(twice: DuplicateKey) -> YamlError {
    let shown = match &twice.key {
        Value::Str(key) => key.chars().take(80).collect(),
        other => zagent_config::value::python_repr(other),
    };
    YamlError::new(code::DUPLICATE_KEY, format!("duplicate key `{shown}` in one mapping"), twice.at)
        .note("first used here", twice.first)
        .hint("rename one of them, or merge their values")
}

/// A list or mapping used as a key.
pub(super) fn unhashable(tree: &YamlTree, id: YamlNodeId) -> YamlError {
    let node = &tree.nodes[id];
    if matches!(node.kind, NodeKind::List(_)) {
        return YamlError::new(code::UNHASHABLE_KEY, "a list cannot be a key", node.at)
            .hint("if it is text, quote it");
    }
    YamlError::new(code::UNHASHABLE_KEY, "a mapping cannot be a key", node.at)
        .hint("this may be a `{{ … }}` that was not rendered: check the renderer of the file, or quote it")
}

/// A `<<` with something that cannot be merged.
pub(super) fn bad_merge(node: &YamlNode) -> YamlError {
    YamlError::new(code::MERGE, "`<<` needs a mapping or a list of mappings", node.at)
        .hint("write `<<: *anchor` with the anchor of a mapping; if the key is text, quote it")
}
