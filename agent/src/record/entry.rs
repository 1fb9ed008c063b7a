//! A path of this host in, the state of the file, directory or link that stands there out.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zagent_config::Value;
use zagent_daemon::error::AgentError;

use super::RecordedStates;

/// Larger files belong into the tree as sources, not into an SLS.
const MAX_BYTES: u64 = 1 << 20;

pub(super) fn record(path: &str, states: &mut RecordedStates) -> Result<(), AgentError> {
    let failed = |error: std::io::Error| AgentError::failed(format!("cannot look at `{path}`: {error}"));
    if !Path::new(path).is_absolute() {
        return Err(AgentError::usage_hint(format!("`{path}` is not an absolute path"), "write it from `/`"));
    }
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    let kind = meta.file_type();
    let mut args = vec![("user", Value::Int(meta.uid().into())), ("group", Value::Int(meta.gid().into()))];
    if kind.is_symlink() {
        let target = fs::read_link(path).map_err(failed)?;
        states.add(path, "file.symlink", vec![("target", target.display().to_string().into())]);
        return Ok(());
    }
    args.push(("mode", format!("{:04o}", meta.mode() & 0o7777).into()));
    if kind.is_dir() {
        states.add(path, "file.directory", args);
        return Ok(());
    }
    let hint = "put it into the tree as a source: `file.managed` with `source: salt://…`";
    if !kind.is_file() || meta.len() > MAX_BYTES {
        let what = if kind.is_file() { "too large for an SLS" } else { "no file, directory or link" };
        return Err(AgentError::usage_hint(format!("`{path}` is {what}"), hint));
    }
    let content = String::from_utf8(fs::read(path).map_err(failed)?);
    let content = content
        .ok()
        .filter(|text| !text.contains(['\0', '\r']))
        .ok_or_else(|| AgentError::usage_hint(format!("`{path}` is not plain text"), hint))?;
    args.push(("contents", content.as_str().into()));
    if !content.ends_with('\n') {
        args.push(("contents_newline", Value::Bool(false)));
    }
    states.add(path, "file.managed", args);
    Ok(())
}
