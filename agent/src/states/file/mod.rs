//! States of the module `file`.

mod absent;
mod asked;
mod backup;
mod cached;
mod clean;
mod content;
mod copy;
mod core;
mod desired;
mod directory;
mod download;
mod edit;
mod filter;
mod hardlink;
mod hash;
mod ignore;
mod managed;
mod matcher;
mod mknod;
mod owner;
mod parents;
mod perms;
mod preflight;
mod recurse;
mod rename;
mod retention;
mod source;
mod symlink;
#[cfg(test)]
mod tests;
mod text;
mod tidied;
mod touch;
mod validate;
mod walk;

use super::{Args, Built};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    core::build(fun, args).or_else(|| edit::build(fun, args))
}
