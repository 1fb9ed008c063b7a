//! What is wrong with a document that parses: the words for tags, keys, aliases and merges.

use zagent_config::codes::yaml as code;
use zagent_config::{Pos, Value, suggest};

use super::YamlError;
use super::build::DuplicateKey;
use super::node::{NodeKind, YamlNode, YamlNodeId, YamlTag, YamlTree};

/// A second document in the text.
pub(super) fn second_document(at: Pos, first: Pos) -> YamlError {
    YamlError::new(code::SECOND_DOCUMENT, "a second document starts here", at)
        .note("the first one starts here", first)
        .hint("a file holds one document: take the `---` out, or split the file")
}

/// An anchor with a name that is taken.
pub(super) fn duplicate_anchor(anchor: &str, at: Pos, first: Pos) -> YamlError {
    YamlError::new(code::ALIAS, format!("the anchor `&{anchor}` is set twice"), at)
        .note("first set here", first)
        .hint("give each anchor of a document its own name")
}

/// An alias without its anchor.
pub(super) fn unknown_alias<'a>(name: &str, at: Pos, known: impl Iterator<Item = &'a str>) -> YamlError {
    let error =
        YamlError::new(code::ALIAS, format!("the alias `*{name}` has no anchor `&{name}` before it"), at);
    // Only names that a human wrote are worth comparing.
    let short = |n: &&str| n.len() <= 64;
    match Some(name).filter(short).and_then(|name| suggest::nearest(name, known.filter(short).take(1000))) {
        Some(near) => error.hint(format!("did you mean `*{near}`?")),
        None => error.hint(format!("quote the value if it is meant as text: `'*{name}'`")),
    }
}

/// An alias inside what it stands for.
pub(super) fn alias_in_itself(name: &str, at: Pos, anchor: Pos) -> YamlError {
    YamlError::new(code::ALIAS, format!("the alias `*{name}` stands inside the value it refers to"), at)
        .note("the value starts here", anchor)
        .hint("a value cannot contain itself")
}

/// A tag that nothing is known of.
pub(super) fn unknown_tag(node: &YamlNode) -> YamlError {
    YamlError::new(code::UNKNOWN_TAG, format!("the tag `{}` is not known", node.tag.as_written()), node.at)
        .hint("quote the value if the `!` belongs to its text")
}

/// A node of a kind that its tag does not take; also a lone `<<` or `=`.
pub(super) fn wrong_node_kind(node: &YamlNode) -> YamlError {
    if let (YamlTag::Merge | YamlTag::Default, NodeKind::Scalar(text)) = (&node.tag, &node.kind) {
        return YamlError::new(code::WRONG_TAG, format!("`{text}` alone is no value"), node.at)
            .hint(format!("quote it if it is meant as text: `'{text}'`"));
    }
    let kind = match node.kind {
        NodeKind::List(_) => "a list",
        NodeKind::Map(_) => "a mapping",
        NodeKind::Scalar(_) | NodeKind::Open => "a scalar",
    };
    let message = format!("{kind} cannot be read as `{}`", node.tag.as_written());
    YamlError::new(code::WRONG_TAG, message, node.at).hint("take the tag away, or write what it asks for")
}

/// A scalar whose text is not what its tag says.
pub(super) fn wrong_scalar_text(node: &YamlNode, text: &str) -> YamlError {
    let what = match node.tag {
        YamlTag::Int => "an integer",
        YamlTag::Float => "a float",
        YamlTag::Bool => "a boolean",
        YamlTag::Binary => "base64 of a text",
        _ => "what its tag says",
    };
    let shown: String = text.chars().take(40).collect();
    YamlError::new(code::WRONG_TAG, format!("`{shown}` is not {what}"), node.at)
        .hint("quote it if it is meant as text, and take the tag away")
}

/// A key that comes twice.
pub(super) fn duplicate_key(twice: DuplicateKey) -> YamlError {
    let shown = match &twice.key {
        Value::Str(key) => key.chars().take(80).collect(),
        other => zagent_config::value::python_repr(other),
    };
    YamlError::new(code::DUPLICATE_KEY, format!("the key `{shown}` comes twice in one mapping"), twice.at)
        .note("first used here", twice.first)
        .hint("rename one of them, or merge what they hold")
}

/// A list or mapping used as a key.
pub(super) fn unhashable(tree: &YamlTree, id: YamlNodeId) -> YamlError {
    let node = &tree.nodes[id];
    if matches!(node.kind, NodeKind::List(_)) {
        return YamlError::new(code::UNHASHABLE_KEY, "a list cannot be a key", node.at)
            .hint("quote it if it is meant as text");
    }
    YamlError::new(code::UNHASHABLE_KEY, "a mapping cannot be a key", node.at).hint(
        "`{{ … }}` that was not rendered reads like this: quote it, and look at the renderer of the file",
    )
}

/// A `<<` with something that cannot be merged.
pub(super) fn bad_merge(node: &YamlNode) -> YamlError {
    YamlError::new(code::MERGE, "`<<` takes a mapping or a list of mappings", node.at)
        .hint("write `<<: *anchor` with the anchor of a mapping, or quote the key if it is meant as text")
}
