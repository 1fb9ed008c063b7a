//! States of the module `file`.

mod absent;
pub(super) mod asked;
mod backup;
mod cached;
mod clean;
mod content;
mod copy;
mod core;
mod desired;
mod directory;
pub(super) mod download;
mod edit;
mod filter;
mod hardlink;
pub(super) mod hash;
mod ignore;
mod managed;
mod matcher;
mod mknod;
pub(super) mod owner;
pub(super) mod parents;
mod perms;
mod preflight;
mod pruned;
mod recurse;
mod rename;
mod retention;
pub(super) mod source;
mod symlink;
#[cfg(test)]
mod tests;
mod text;
mod tidied;
mod touch;
mod validate;
mod walk;

use super::{Args, Built, Failure, Scene};

/// What a source holds that is not on this host: of the state tree, or from the network; nothing for a path of this host.
///
/// # Errors
/// Fails when it cannot be had.
pub(super) fn fetched(scene: &Scene<'_>, env: &str, text: &str) -> Result<Option<Vec<u8>>, Failure> {
    let bytes = match source::place(text) {
        source::Place::Local(_) => return Ok(None),
        source::Place::Tree(own, path) => {
            let found = scene.files.read(own.unwrap_or(env), path).map_err(Failure::new)?;
            found
                .map(|b| b.to_vec())
                .ok_or_else(|| Failure::new(format!("Unable to cache {text}: file not found")))?
        }
        source::Place::Web(url) => {
            download::Fetch::plain().bytes(scene, env, url, None).map_err(Failure::new)?
        }
        source::Place::Foreign(_) => {
            return Err(Failure::new(format!(
                "the protocol of `{}` is not supported here",
                source::redact(text)
            )));
        }
    };
    Ok(Some(bytes))
}

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    core::build(fun, args).or_else(|| edit::build(fun, args))
}
