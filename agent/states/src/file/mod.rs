//! States of the module `file`.

#![expect(
    clippy::disallowed_methods,
    reason = "ages, backups and downloads depend on the current time, `~` on the environment"
)]

pub mod functions;

pub(crate) mod absent;
pub mod args;
pub mod backup;
pub(crate) mod builders;
pub mod cached;
pub(crate) mod check_cmd;
pub mod clean;
pub(crate) mod clearsigned;
pub mod contents;
pub mod copy;
pub(crate) mod desired_content;
pub mod diff;
pub mod directory;
pub mod download;
pub mod edit;
pub mod filter;
pub(crate) mod gpg_status;
pub(crate) mod hardlink;
pub mod hash;
pub(crate) mod ignored_differences;
pub(crate) mod link_preflight;
pub mod managed;
pub mod mknod;
pub mod owner;
pub mod parents;
pub(crate) mod perms;
pub mod pruned;
pub(crate) mod recurse;
pub mod rename;
pub(crate) mod retention;
pub(crate) mod sequence_matcher;
pub(crate) mod signature;
pub mod sources;
pub mod symlink;
#[cfg(test)]
pub mod tests;
pub(crate) mod tidied;
pub mod touch;
pub mod walk;

pub use desired_content::template_variables;

use super::{BuildResult, ChunkArgs, StateCtx, StateError, StateModule};
use zagent_config::mask::redact_logins;

/// What a source holds that is not on this host: of the state tree, or from the network; nothing for a path of this host.
///
/// # Errors
/// Fails when it cannot be had.
pub(crate) fn fetch_remote(ctx: &StateCtx<'_>, env: &str, text: &str) -> Result<Option<Vec<u8>>, StateError> {
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
                redact_logins(text)
            )));
        }
    };
    Ok(Some(bytes))
}

/// The module `file`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "file",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    builders::build(fun, args).or_else(|| edit::build(fun, args))
}
