//! What stands around packages: repositories, answers, alternatives, libraries of languages, archives, access lists.

mod acl;
pub(crate) mod alternatives;
pub(crate) mod archive;
pub(crate) mod debconf;
mod errand;
pub(crate) mod library;
pub(crate) mod pkgrepo;
mod selinux;

use super::{Args, Built, Thing};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    match state {
        "acl" => acl::build(fun, args),
        "alternatives" => alternatives::build(fun, args),
        "archive" => archive::build(fun, args),
        "debconf" => debconf::build(fun, args),
        "gem" | "npm" | "pip" => library::build(state, fun, args),
        "pkgrepo" => pkgrepo::build(fun, args),
        "selinux" => selinux::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[acl::THING, alternatives::THING, debconf::THING, library::THING];
