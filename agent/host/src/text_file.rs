//! Small text files of the system that are edited by line; lines that nobody speaks of stay as they are, byte for byte.

use std::io;
use std::path::Path;

use crate::fs::{FileMeta, FileSystem, FsError};

/// The text of a file, links followed; nothing when there is none.
pub fn read_text(fs: &dyn FileSystem, path: &str) -> Result<Option<String>, FsError> {
    let path = Path::new(path);
    if fs.stat(path)?.is_none() {
        return Ok(None);
    }
    let text = String::from_utf8(fs.read(path)?);
    text.map(Some)
        .map_err(|_| FsError::new("read as text", path, io::Error::from(io::ErrorKind::InvalidData)))
}

/// Writes a text file, links followed; directories on the way to it are made.
pub fn write_text(fs: &dyn FileSystem, path: &str, text: &str) -> Result<(), FsError> {
    let path = fs.resolve_for_change(Path::new(path))?;
    let mut missing = Vec::new();
    for dir in path.ancestors().skip(1) {
        if fs.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    for dir in missing.into_iter().rev() {
        fs.make_dir(dir, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
    }
    let mode = if fs.stat(&path)?.is_some() { None } else { Some(0o644) };
    fs.write(&path, text.as_bytes(), FileMeta { mode, ..FileMeta::default() })
}

/// The text with each line that `change` answers for replaced, or left out when it answers with an empty text, and whether
/// there was one.
pub fn edit_lines<'t>(text: &'t str, mut change: impl FnMut(&'t str) -> Option<String>) -> (String, bool) {
    let mut out = String::with_capacity(text.len() + 80);
    let mut found = false;
    for line in text.split_inclusive('\n') {
        match change(line.trim_end_matches(['\n', '\r'])) {
            None => out.push_str(line),
            Some(new) => {
                found = true;
                if !new.is_empty() {
                    out.push_str(&new);
                    out.push('\n');
                }
            }
        }
    }
    (out, found)
}

/// The text with one more line at its end.
pub fn append_line(text: &str, line: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}{line}\n")
}
