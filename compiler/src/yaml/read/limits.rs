//! Limits per document.

use zagent_config::Pos;
use zagent_config::codes::limit;

use super::YamlError;
use crate::TreeLimits;

/// Deeper nesting would overflow the stack, whatever the configuration allows.
const MAX_DEPTH: usize = 1000;

/// Maximum nesting of collections.
pub(super) fn depth(limits: &TreeLimits) -> usize {
    limits.yaml_depth.min(MAX_DEPTH)
}

/// Collections are nested too deep.
pub(super) fn too_deep(pos: Pos) -> YamlError {
    YamlError::new(limit::YAML_DEPTH, "lists and mappings are nested too deep here", pos)
        .hint("flatten the data, or raise `limits.yaml_depth`")
}

/// The document has too many nodes.
pub(super) fn too_many(pos: Pos) -> YamlError {
    YamlError::new(limit::YAML_NODES, "the document has more nodes than the limit allows", pos)
        .hint("look for aliases of aliases, split the file, or raise `limits.yaml_nodes`")
}
