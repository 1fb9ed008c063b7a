//! States of the module `file`.

mod absent;
pub(super) mod args;
mod backup;
mod builders;
mod cached;
mod check_cmd;
mod clean;
mod contents;
mod copy;
mod desired_content;
mod diff;
mod directory;
pub(super) mod download;
mod edit;
mod filter;
mod hardlink;
pub(super) mod hash;
mod ignored_differences;
mod link_preflight;
mod managed;
mod mknod;
pub(super) mod owner;
pub(super) mod parents;
mod perms;
mod pruned;
mod recurse;
mod rename;
mod retention;
mod sequence_matcher;
pub(super) mod sources;
mod symlink;
#[cfg(test)]
mod tests;
mod tidied;
mod touch;
mod walk;

use super::{BuildResult, ChunkArgs, StateCtx, StateError};

/// What a source holds that is not on this host: of the state tree, or from the network; nothing for a path of this host.
///
/// # Errors
/// Fails when it cannot be had.
pub(super) fn fetch_remote(ctx: &StateCtx<'_>, env: &str, text: &str) -> Result<Option<Vec<u8>>, StateError> {
    let bytes = match sources::parse_location(text) {
        sources::ContentLocation::Local(_) => return Ok(None),
        sources::ContentLocation::Tree(own, path) => {
            let found = ctx.files.read(own.unwrap_or(env), path).map_err(StateError::new)?;
            found
                .map(|b| b.to_vec())
                .ok_or_else(|| StateError::new(format!("Unable to cache {text}: file not found")))?
        }
        sources::ContentLocation::Web(url) => {
            download::Downloader::plain().fetch_bytes(ctx, env, url, None).map_err(StateError::new)?
        }
        sources::ContentLocation::Foreign(_) => {
            return Err(StateError::new(format!(
                "the protocol of `{}` is not supported here",
                sources::redact(text)
            )));
        }
    };
    Ok(Some(bytes))
}

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    builders::build(fun, args).or_else(|| edit::build(fun, args))
}
