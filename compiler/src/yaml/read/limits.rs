//! What one document may ask for.

use zagent_config::Pos;
use zagent_config::codes::limit;

use super::YamlError;
use crate::TreeLimits;

/// Deeper nesting would not fit the stack, whatever the configuration says.
const MAX_DEPTH: usize = 1000;

/// How deep collections may nest.
pub(super) fn depth(limits: &TreeLimits) -> usize {
    limits.yaml_depth.min(MAX_DEPTH)
}

/// Collections nest too deep.
pub(super) fn too_deep(pos: Pos) -> YamlError {
    YamlError::new(limit::YAML_DEPTH, "lists and mappings are nested too deep here", pos)
        .hint("flatten the data, or raise `limits.yaml_depth`")
}

/// The document has too many nodes.
pub(super) fn too_many(pos: Pos) -> YamlError {
    YamlError::new(limit::YAML_NODES, "the document grows past the number of nodes that one may have", pos)
        .hint("look for aliases of aliases, split the file, or raise `limits.yaml_nodes`")
}
