//! Edits of text files by execution functions: a path and an edit in, the file changed on disk.

use std::path::Path;

use zagent_config::FunctionError;
use zagent_config::{Value, error_chain};

use zagent_host::Machine;
use zagent_host::fs::{FileMeta, FileSystem, FsError};

/// Edits a file of the machine.
pub(crate) fn edit_text_file(
    machine: &Machine,
    path: &str,
    edit: impl FnOnce(&str) -> String,
) -> Result<Value, FunctionError> {
    let old = machine.read(path)?;
    let new = edit(old.as_deref().unwrap_or_default());
    if old.as_deref() != Some(&*new) {
        let meta = if old.is_some() {
            FileMeta::default()
        } else {
            FileMeta { mode: Some(0o644), ..FileMeta::default() }
        };
        let disk = machine.disk(None);
        let end = disk.resolve_for_change(Path::new(path)).map_err(fs_error)?;
        disk.write(&end, new.as_bytes(), meta).map_err(fs_error)?;
    }
    Ok(true.into())
}

/// Why a file could not be read or changed, as a failure of a function.
pub(crate) fn fs_error(error: FsError) -> FunctionError {
    FunctionError::failed(error_chain(&error))
}

/// True on Debian and what is made of it.
pub(crate) fn is_debian(machine: &Machine) -> bool {
    machine.exists("/etc/debian_version")
}
