//! What stands around packages: repositories, answers, alternatives, libraries of languages, archives, access lists.

pub(crate) use crate::{BuildResult, ChunkArgs, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "acl" => crate::acl::build(fun, args),
        "alternatives" => crate::alternatives::build(fun, args),
        "archive" => crate::archive::build(fun, args),
        "debconf" => crate::debconf::build(fun, args),
        "gem" | "npm" | "pip" => crate::shared::lang_pkg::build(state, fun, args),
        "pkgrepo" => crate::pkgrepo::build(fun, args),
        "selinux" => crate::selinux::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub const UNDOABLES: &[&dyn Undoable] = &[
    crate::acl::UNDOABLE,
    crate::alternatives::UNDOABLE,
    crate::debconf::UNDOABLE,
    crate::shared::lang_pkg::UNDOABLE,
];
