//! Package files that a state names: an address in, a file on this host and the version in it out.

use std::cell::RefCell;
use std::sync::Arc;

use super::context::PkgContext;
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_host::packages;
use zagent_host::temp_file::PrivateTempFile;

/// Files that were fetched for a state, gone with it.
pub struct PkgSources {
    env: Arc<str>,
    fetched: RefCell<Vec<(String, PrivateTempFile)>>,
}

impl PkgSources {
    /// Reads where they come from.
    pub fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let env = args.text("saltenv")?.map_or_else(|| args.chunk.env.as_ref().into(), Into::into);
        Ok(Self { env, fetched: RefCell::default() })
    }

    /// The file, fetched when it is not on this host.
    pub fn local_file(&self, ctx: &StateCtx<'_>, source: &str) -> Result<String, StateError> {
        let known = |all: &[(String, PrivateTempFile)]| {
            all.iter().find(|(s, _)| s == source).map(|(_, f)| f.path().display().to_string())
        };
        if let Some(path) = known(&self.fetched.borrow()) {
            return Ok(path);
        }
        let Some(bytes) = crate::file::fetch_remote(ctx, &self.env, source)? else {
            let path = source.strip_prefix("file://").unwrap_or(source);
            if !path.starts_with('/') {
                return Err(StateError::new(format!(
                    "Path {path} is either not absolute or an invalid protocol"
                )));
            }
            return Ok(path.to_owned());
        };
        let name = source.split(['?', '#']).next().unwrap_or(source);
        let extension = name.rsplit_once('.').map(|(_, e)| format!(".{e}")).unwrap_or_default();
        let scratch = PrivateTempFile::new(ctx.machine, &bytes, &extension, None)
            .map_err(|e| StateError::new(format!("cannot keep what came from `{source}`: {e}")))?;
        let path = scratch.path().display().to_string();
        self.fetched.borrow_mut().push((source.to_owned(), scratch));
        Ok(path)
    }

    /// The version in a file; nothing when only its name can be known.
    pub fn file_version(&self, pkg_ctx: &PkgContext<'_>, source: &str) -> Result<Option<String>, StateError> {
        let tools = pkg_ctx.ctx.tools();
        let Some(command_line) = pkg_ctx.manager.provider.file_version_command(&tools) else {
            return Ok(None);
        };
        let path = self.local_file(pkg_ctx.ctx, source)?;
        let said = packages::run_query_line(&tools, &command_line(&path))?;
        if !said.is_success() {
            return Err(StateError::new(format!("cannot read the package `{source}`: {}", said.message())));
        }
        Ok(said.stdout.split_whitespace().next_back().map(str::to_owned))
    }
}
