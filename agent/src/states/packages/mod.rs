//! What stands around packages: repositories, answers, alternatives, libraries of languages, archives, access lists.

mod acl;
pub(crate) mod alternatives;
pub(crate) mod archive;
mod command_plan;
pub(crate) mod debconf;
pub(crate) mod lang_pkg;
pub(crate) mod pkgrepo;
mod selinux;

use super::{BuildResult, ChunkArgs, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "acl" => acl::build(fun, args),
        "alternatives" => alternatives::build(fun, args),
        "archive" => archive::build(fun, args),
        "debconf" => debconf::build(fun, args),
        "gem" | "npm" | "pip" => lang_pkg::build(state, fun, args),
        "pkgrepo" => pkgrepo::build(fun, args),
        "selinux" => selinux::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub(super) const UNDOABLES: &[&dyn Undoable] =
    &[acl::UNDOABLE, alternatives::UNDOABLE, debconf::UNDOABLE, lang_pkg::UNDOABLE];
