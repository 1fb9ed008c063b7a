//! `check_cmd`: a new content in, the word of a command on it out, before anybody else sees it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{ApplyResult, ChunkArgs, StateCtx, StateError};
use zagent_compiler::Compat;
use zagent_config::Map;
use zagent_config::error_chain;
use zagent_host::command_options::CommandOptions;
use zagent_host::exec::shell_words;
use zagent_host::fs::FileMeta;
use zagent_host::temp_file;

/// A command that must like the new content.
#[derive(Clone, Debug)]
pub(crate) struct CheckCmd {
    command: String,
    tmp_dir: Option<PathBuf>,
    tmp_ext: String,
}

impl CheckCmd {
    /// Reads `check_cmd`, `tmp_dir` and `tmp_ext`; nothing when there is no command.
    ///
    /// # Errors
    /// Fails when one is no text.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Option<Self>, StateError> {
        let Some(command) = args.text("check_cmd")?.filter(|c| !c.is_empty()) else { return Ok(None) };
        let tmp_dir = args.text("tmp_dir")?.filter(|d| !d.is_empty()).map(PathBuf::from);
        Ok(Some(Self { command, tmp_dir, tmp_ext: args.text("tmp_ext")?.unwrap_or_default() }))
    }

    /// Runs the command on a temporary file with this content.
    ///
    /// # Errors
    /// Fails in Salt's words, with what the command said, when it does not like it.
    pub(crate) fn run(&self, ctx: &StateCtx<'_>, content: &[u8], meta: FileMeta) -> Result<(), StateError> {
        let unable = |error: String| StateError::new(format!("Unable to check_cmd file: {error}"));
        let io = |e: std::io::Error| unable(e.to_string());
        let dir = self.tmp_dir.clone().unwrap_or_else(|| temp_file::temp_dir(ctx.machine));
        let host_dir = ctx.machine.to_host_path(&dir).map_err(io)?;
        let mut file = tempfile::Builder::new().suffix(&self.tmp_ext).tempfile_in(host_dir).map_err(io)?;
        // The owner first: a content must not be readable to whom it is not meant for.
        std::os::unix::fs::fchown(file.as_file(), meta.uid, meta.gid).map_err(io)?;
        file.write_all(content).map_err(io)?;
        if let Some(mode) = meta.mode {
            file.as_file().set_permissions(PermissionsExt::from_mode(mode)).map_err(io)?;
        }
        let path = file.into_temp_path();
        let mut words = shell_words::split(&self.command)
            .ok_or_else(|| unable("a quotation mark is not closed".into()))?;
        let named = dir.join(path.file_name().unwrap_or_default());
        words.push(named.to_string_lossy().into_owned());
        let options = CommandOptions { cancel: Some(Arc::clone(ctx.cancel)), ..CommandOptions::default() };
        let command = options
            .with_deadline(ctx.deadline)
            .command(ctx.machine, words)
            .map_err(|e| unable(error_chain(&e)))?;
        let outcome = ctx.machine.run(&command).map_err(|e| unable(error_chain(&e)))?;
        if outcome.success() {
            return Ok(());
        }
        let mut words = "check_cmd execution failed".to_owned();
        for stream in [&outcome.stdout, &outcome.stderr] {
            let text = String::from_utf8_lossy(stream);
            if !text.trim_end().is_empty() {
                words.push('\n');
                words.push_str(text.trim_end());
            }
        }
        let done = ApplyResult::new(words, Map::new());
        // Salt marks it as one that does not react to what it watches.
        let is_salt = ctx.compat == Compat::Salt;
        Err(if is_salt { done.with_detail("skip_watch", true) } else { done }.into())
    }
}
