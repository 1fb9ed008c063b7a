//! `file.*` that act: lines, directories, links, owners, modes.
//!
//! Law: as for states, a file is whole or not there at all (held by `files_are_made_changed_and_removed`).

use std::path::PathBuf;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::exec_function::{flag_arg, fs_error, optional_text_arg, text_arg};
use rustix::fs::OFlags;
use zagent_host::Machine;
use zagent_host::disk::Disk;
use zagent_host::fs::{FileKind, FileMeta, FileSystem};
use zagent_host::machine::account_ids;
use zagent_host::machine::path_error;

fn path_arg(args: &FunctionArgs<Value>, name: &str) -> Result<PathBuf, FunctionError> {
    let given = text_arg(args, name)?;
    if given.starts_with('/') {
        return Ok(given.into());
    }
    Err(FunctionError::failed(format!("File path must be absolute: {given}")))
}

/// Permission bits as Salt writes them.
fn mode_arg(args: &FunctionArgs<Value>) -> Result<Option<u32>, FunctionError> {
    let Some(given) = args.get("mode").filter(|v| !v.is_null()) else { return Ok(None) };
    let text = python_str(given);
    u32::from_str_radix(&text, 8)
        .ok()
        .filter(|m| *m <= 0o7777)
        .map(Some)
        .ok_or_else(|| FunctionError::failed(format!("`{text}` is no mode")))
}

/// Owner, group and mode of the arguments.
fn meta_args(machine: &Machine, args: &FunctionArgs<Value>) -> Result<FileMeta, FunctionError> {
    let missing = |what: &str, name: &str| FunctionError::failed(format!("{what} '{name}' is not available"));
    let id = |value: &Value| match value {
        Value::Int(id) => u32::try_from(*id).ok(),
        other => other.as_str()?.parse().ok(),
    };
    let (mut uid, mut gid) = (None, None);
    if let Some(user) = args.get("user").filter(|v| v.is_truthy() || v.as_int() == Some(0)) {
        let name = python_str(user);
        let known = zagent_host::accounts::find_user(machine, &name)?.and_then(|u| u32::try_from(u.uid).ok());
        uid = Some(known.or_else(|| id(user)).ok_or_else(|| missing("User", &name))?);
    }
    if let Some(group) = args.get("group").filter(|v| v.is_truthy() || v.as_int() == Some(0)) {
        let name = python_str(group);
        let known = account_ids::gid_of(machine, &name);
        gid = Some(known.or_else(|| id(group)).ok_or_else(|| missing("Group", &name))?);
    }
    Ok(FileMeta { mode: mode_arg(args)?, uid, gid })
}

/// `file.write` and `file.append`: each argument is a line.
pub(super) fn write_lines(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    keeps: bool,
) -> Result<Value, FunctionError> {
    let (disk, path) = (machine.disk(None), path_arg(args, "path")?);
    let given = args.named().iter().find(|(k, _)| k == "args").map(|(_, v)| v);
    let mut new: Vec<String> = Vec::new();
    for value in args.rest().iter().chain(given) {
        match value {
            Value::List(list) => new.extend(list.iter().map(python_str)),
            other => new.push(python_str(other)),
        }
    }
    let path = disk.resolve_for_change(&path).map_err(fs_error)?;
    let mut content = match disk.stat(&path).map_err(fs_error)? {
        Some(_) if keeps => disk.read(&path).map_err(fs_error)?,
        _ => Vec::new(),
    };
    if content.last().is_some_and(|b| *b != b'\n') {
        content.push(b'\n');
    }
    for line in &new {
        content.extend_from_slice(line.trim_end_matches('\n').as_bytes());
        content.push(b'\n');
    }
    disk.write(&path, &content, FileMeta::default()).map_err(fs_error)?;
    let verb = if keeps { "Appended" } else { "Wrote" };
    let to = if keeps { "to" } else { "in" };
    Ok(format!("{verb} {} lines {to} \"{}\"", new.len(), text_arg(args, "path")?).into())
}

pub(super) fn touch(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, path) = (machine.disk(None), path_arg(args, "name")?);
    if disk.stat(&path).map_err(fs_error)?.is_none() {
        disk.write(&path, b"", FileMeta::default()).map_err(fs_error)?;
        return Ok(true.into());
    }
    let file = machine.root().open_path(&path, OFlags::WRONLY | OFlags::APPEND);
    let file = file.map_err(|e| path_error("open", text_arg(args, "name").unwrap_or_default(), &e.into()))?;
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
    let done = rustix::fs::futimens(&file, &times);
    done.map_err(|e| FunctionError::failed(format!("cannot touch `{}`: {e}", path.display())))?;
    Ok(true.into())
}

pub(super) fn make_directory(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    name: &str,
) -> Result<Value, FunctionError> {
    let (disk, path, meta) = (machine.disk(None), path_arg(args, name)?, meta_args(machine, args)?);
    create_directory(&disk, &path, meta)?;
    Ok(true.into())
}

/// Salt's `makedirs` makes the directories that a path stands in.
pub(super) fn makedirs(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (path, meta) = (path_arg(args, "path")?, meta_args(machine, args)?);
    // A path that ends with a slash names a directory.
    let dir = if text_arg(args, "path")?.ends_with('/') { Some(path.as_path()) } else { path.parent() };
    if let Some(dir) = dir {
        create_directory(&machine.disk(None), dir, meta)?;
    }
    Ok(Value::Null)
}

/// Makes a directory and those that it stands in; one that is there stays as it is.
pub(crate) fn create_directory(
    disk: &Disk,
    path: &std::path::Path,
    meta: FileMeta,
) -> Result<(), FunctionError> {
    let mut missing: Vec<&std::path::Path> = Vec::new();
    for dir in path.ancestors() {
        if disk.stat(dir).map_err(fs_error)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    while let Some(dir) = missing.pop() {
        disk.make_dir(dir, meta).map_err(fs_error)?;
    }
    Ok(())
}

pub(super) fn remove(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    name: &str,
) -> Result<Value, FunctionError> {
    let (disk, path) = (machine.disk(None), path_arg(args, name)?);
    if path.parent().is_none() {
        return Err(FunctionError::failed("the root directory is not removed"));
    }
    if disk.lstat(&path).map_err(fs_error)?.is_none() {
        return Ok(false.into());
    }
    disk.remove(&path).map_err(fs_error)?;
    Ok(true.into())
}

pub(super) fn rename(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (from, to) = (path_arg(args, "src")?, path_arg(args, "dst")?);
    machine.disk(None).rename(&from, &to).map_err(fs_error)?;
    Ok(true.into())
}

pub(super) fn copy(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, from, mut to) = (machine.disk(None), path_arg(args, "src")?, path_arg(args, "dst")?);
    let stat = disk.stat(&from).map_err(fs_error)?;
    let stat =
        stat.ok_or_else(|| FunctionError::failed(format!("No such file or directory '{}'", from.display())))?;
    let is_dir = |p: &std::path::Path| {
        Ok::<_, FunctionError>(disk.stat(p).map_err(fs_error)?.is_some_and(|s| s.kind == FileKind::Dir))
    };
    if stat.kind == FileKind::Dir {
        if !flag_arg(args, "recurse", false) {
            return Err(FunctionError::failed("Cannot copy a directory without recurse=True"));
        }
        copy_tree(&disk, &from, &to)?;
        return Ok(true.into());
    }
    if is_dir(&to)? {
        to = to.join(from.file_name().unwrap_or_default());
    }
    let content = disk.read(&from).map_err(fs_error)?;
    let meta = FileMeta { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) };
    disk.write(&to, &content, meta).map_err(fs_error)?;
    Ok(true.into())
}

fn copy_tree(disk: &Disk, from: &std::path::Path, to: &std::path::Path) -> Result<(), FunctionError> {
    create_directory(disk, to, FileMeta::default())?;
    for (name, kind) in disk.read_dir(from).map_err(fs_error)? {
        let (source, target) = (from.join(&name), to.join(&name));
        match kind {
            FileKind::Dir => copy_tree(disk, &source, &target)?,
            FileKind::Link => {
                let end = disk.read_link(&source).map_err(fs_error)?;
                disk.symlink(&target, &end, FileMeta::default()).map_err(fs_error)?;
            }
            FileKind::File => {
                let stat = disk.lstat(&source).map_err(fs_error)?;
                let meta = stat.map(|s| FileMeta { mode: Some(s.mode), uid: Some(s.uid), gid: Some(s.gid) });
                let content = disk.read(&source).map_err(fs_error)?;
                disk.write(&target, &content, meta.unwrap_or_default()).map_err(fs_error)?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn symlink(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, path) = (machine.disk(None), path_arg(args, "path")?);
    let target = PathBuf::from(text_arg(args, "src")?);
    let stat = disk.lstat(&path).map_err(fs_error)?;
    if stat.is_some_and(|s| s.kind == FileKind::Link) && disk.read_link(&path).map_err(fs_error)? == target {
        return Ok(true.into());
    }
    if stat.is_some() && !flag_arg(args, "force", false) {
        return Err(FunctionError::failed(format!("Found existing file or symlink: {}", path.display())));
    }
    disk.symlink(&path, &target, FileMeta::default()).map_err(fs_error)?;
    Ok(true.into())
}

pub(super) fn set_mode(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = path_arg(args, "path")?;
    let meta = FileMeta { mode: mode_arg(args)?, ..FileMeta::default() };
    machine.disk(None).set_meta(&path, meta, true).map_err(fs_error)?;
    Ok(python_str(args.get("mode").unwrap_or(&Value::Null)).into())
}

pub(super) fn chown(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let meta = meta_args(machine, args)?;
    machine.disk(None).set_meta(&path_arg(args, "path")?, meta, true).map_err(fs_error)?;
    Ok(Value::Null)
}

pub(super) fn truncate(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, path) = (machine.disk(None), path_arg(args, "path")?);
    let length = args.get("length").and_then(Value::as_int).and_then(|n| usize::try_from(n).ok());
    let length = length.ok_or_else(|| FunctionError::bad_arguments("`length` must be a number of bytes"))?;
    let mut content = disk.read(&path).map_err(fs_error)?;
    content.resize(length, 0);
    disk.write(&path, &content, FileMeta::default()).map_err(fs_error)?;
    Ok(Value::Null)
}

/// `file.replace`: by the state of that name, without its undo.
pub(super) fn replace(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, path) = (machine.disk(None), path_arg(args, "path")?);
    let pattern = format!("(?m){}", text_arg(args, "pattern")?);
    let pattern = fancy_regex::Regex::new(&pattern)
        .map_err(|e| FunctionError::failed(format!("`pattern` is no regular expression: {e}")))?;
    let old = String::from_utf8(disk.read(&path).map_err(fs_error)?);
    let old = old.map_err(|_| FunctionError::failed(format!("`{}` is no text", path.display())))?;
    // `\1` is Python's way to write a group.
    let repl = python_str(args.get("repl").unwrap_or(&Value::Null));
    let count = args.get("count").and_then(Value::as_int).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let filled =
        |found: &fancy_regex::Captures<'_>| expand_groups(&repl, |n| found.get(n).map_or("", |m| m.as_str()));
    let mut new = pattern.replacen(&old, count, filled).into_owned();
    if !pattern.is_match(&old).unwrap_or(false) {
        let line = optional_text_arg(args, "not_found_content").unwrap_or(&repl);
        if flag_arg(args, "append_if_not_found", false) {
            new += &format!("{}{line}\n", if new.is_empty() || new.ends_with('\n') { "" } else { "\n" });
        } else if flag_arg(args, "prepend_if_not_found", false) {
            new = format!("{line}\n{new}");
        }
    }
    if new == old {
        return Ok("".into());
    }
    disk.write(&path, new.as_bytes(), FileMeta::default()).map_err(fs_error)?;
    Ok(Map::from_iter([("changed", text_arg(args, "path")?)]).into())
}

/// A replacement with its groups filled in.
fn expand_groups<'t>(repl: &str, group: impl Fn(usize) -> &'t str) -> String {
    let mut out = String::new();
    let mut chars = repl.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('\\', Some(d)) if d.is_ascii_digit() => {
                chars.next();
                out += group(d.to_digit(10).unwrap_or(0) as usize);
            }
            ('\\', Some('n')) => {
                chars.next();
                out.push('\n');
            }
            ('\\', Some('\\')) => {
                chars.next();
                out.push('\\');
            }
            (c, _) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::testing::{SampleMachine, parse_call, render_answer};

    #[test]
    fn files_are_made_changed_and_removed() {
        let sample = SampleMachine::new().file("/d/a", "one\ntwo\n");
        for (function, args, want) in [
            ("file.append", r#"["/d/a", "three"]"#, r#""Appended 1 lines to \"/d/a\"""#),
            ("file.replace", r#"["/d/a", "^t(.*)$", "T\\1"]"#, r#"{"changed":"/d/a"}"#),
            ("file.read", r#"["/d/a"]"#, r#""one\nTwo\nThree\n""#),
            ("file.replace", r#"["/d/a", "nope", "x"]"#, r#""""#),
            ("file.write", r#"["/d/b", "x", "y"]"#, r#""Wrote 2 lines in \"/d/b\"""#),
            ("file.copy", r#"["/d/b", "/d/c"]"#, "true"),
            ("file.rename", r#"["/d/c", "/d/e"]"#, "true"),
            ("file.set_mode", r#"["/d/e", "0600"]"#, r#""0600""#),
            ("file.get_mode", r#"["/d/e"]"#, r#""0600""#),
            ("file.symlink", r#"["/d/e", "/d/l"]"#, "true"),
            ("file.symlink", r#"["/d/x", "/d/b"]"#, "failed"),
            ("file.makedirs", r#"["/d/n/m/f"]"#, "null"),
            ("file.directory_exists", r#"["/d/n/m"]"#, "true"),
            ("file.mkdir", r#"["/d/n/o"]"#, "true"),
            ("file.touch", r#"["/d/n/t"]"#, "true"),
            ("file.touch", r#"["/d/n/t"]"#, "true"),
            ("file.copy", r#"["/d", "/k", true]"#, "true"),
            ("file.read", r#"["/k/b"]"#, r#""x\ny\n""#),
            ("file.remove", r#"["/d/n"]"#, "true"),
            ("file.remove", r#"["/d/n"]"#, "false"),
            ("file.write", r#"["x", "y"]"#, "failed: File path must be absolute: x"),
        ] {
            let got = render_answer(crate::functions::call_any(&sample.machine, &parse_call(function, args)));
            assert!(got.starts_with(want), "{function} {args}: {got}");
        }
        assert!(sample.call("file.remove", r#"["/d"]"#).starts_with("forbidden"));
    }
}
