//! `file.*`: the table, and those that look at existence, owner, mode and content.

pub(crate) mod changes;
mod find;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use md5::Digest;
use md5::digest::DynDigest;
use rustix::fs::Access;
use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::glob::Glob;
use zagent_config::py_regex::PyRegex;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, string_list, text_arg,
};
use zagent_host::Machine;
use zagent_host::accounts;
use zagent_host::machine::path_error;

/// The execution functions of `file`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("file.file_exists", "path", |m, a| {
        Ok(followed_metadata(m, a)?.is_some_and(|x| x.is_file()).into())
    }),
    query_fn("file.directory_exists", "path", |m, a| {
        Ok(followed_metadata(m, a)?.is_some_and(|x| x.is_dir()).into())
    }),
    query_fn("file.is_blkdev", "name", |m, a| has_file_type(m, a, FileTypeExt::is_block_device)),
    query_fn("file.is_chrdev", "name", |m, a| has_file_type(m, a, FileTypeExt::is_char_device)),
    query_fn("file.is_fifo", "name", |m, a| has_file_type(m, a, FileTypeExt::is_fifo)),
    query_fn("file.is_link", "path", |m, a| Ok(m.read_link(text_arg(a, "path")?).is_some().into())),
    query_fn("file.readlink", "path canonicalize?", readlink),
    query_fn("file.access", "path mode", access),
    query_fn("file.read", "path binary?", |m, a| Ok(read_required(m, text_arg(a, "path")?)?.into())),
    query_fn("file.readdir", "path", readdir),
    query_fn("file.contains", "path text", contains),
    query_fn("file.contains_regex", "path regex lchar?", contains_regex),
    query_fn("file.contains_glob", "path glob_expr", contains_glob),
    query_fn("file.get_user", "path follow_symlinks?", |m, a| owner_name(m, &stat(m, a)?)),
    query_fn("file.get_group", "path follow_symlinks?", |m, a| {
        Ok(accounts::group_name(m, stat(m, a)?.gid().into())?.into())
    }),
    query_fn("file.get_uid", "path follow_symlinks?", |m, a| Ok(Value::Int(stat(m, a)?.uid().into()))),
    query_fn("file.get_gid", "path follow_symlinks?", |m, a| Ok(Value::Int(stat(m, a)?.gid().into()))),
    query_fn("file.get_mode", "path follow_symlinks?", |m, a| Ok(mode_text(&stat(m, a)?).into())),
    query_fn("file.get_hash", "path form? chunk_size?", get_hash),
    query_fn("file.get_sum", "path form?", get_hash),
    query_fn("file.stats", "path hash_type? follow_symlinks?", stats),
    query_fn("file.lstat", "path", lstat),
    query_fn("file.user_to_uid", "user", |m, a| {
        id_of_name(a, "user", |n| Ok(accounts::find_user(m, n)?.map(|u| u.uid)))
    }),
    query_fn("file.group_to_gid", "group", |m, a| {
        id_of_name(a, "group", |n| Ok(accounts::find_group(m, n)?.map(|g| g.gid)))
    }),
    query_fn("file.uid_to_user", "uid", |m, a| {
        let uid = a.get("uid").and_then(Value::as_int).unwrap_or(-1);
        Ok(accounts::user_name(m, uid)?.map_or(Value::Int(uid), Value::from))
    }),
    query_fn("file.gid_to_group", "gid", |m, a| {
        let gid = a.get("gid").and_then(Value::as_int).unwrap_or(-1);
        Ok(accounts::group_name(m, gid)?.into())
    }),
    query_fn("file.find", "path name? iname? regex? type? maxdepth? mindepth? print?", find::find),
    query_fn("file.grep", "path pattern", find::grep),
    query_fn("file.path_exists_glob", "path", |m, a| {
        Ok((!find::expand_glob(m, text_arg(a, "path")?).is_empty()).into())
    }),
    change_fn("file.write", "path * **", |m, a| changes::write_lines(m, a, false)),
    change_fn("file.append", "path * **", |m, a| changes::write_lines(m, a, true)),
    change_fn("file.touch", "name atime? mtime?", changes::touch),
    change_fn("file.mkdir", "dir_path user? group? mode?", |m, a| changes::make_directory(m, a, "dir_path")),
    change_fn("file.makedirs", "path user? group? mode?", changes::makedirs),
    change_fn("file.makedirs_perms", "name user? group? mode?", |m, a| changes::make_directory(m, a, "name")),
    change_fn("file.remove", "path **", |m, a| changes::remove(m, a, "path")),
    change_fn("file.rmdir", "path **", |m, a| changes::remove(m, a, "path")),
    change_fn("file.rename", "src dst", changes::rename),
    change_fn("file.move", "src dst **", changes::rename),
    change_fn("file.copy", "src dst recurse? remove_existing?", changes::copy),
    change_fn("file.symlink", "src path force? **", changes::symlink),
    change_fn("file.set_mode", "path mode", changes::set_mode),
    change_fn("file.chown", "path user group", changes::chown),
    change_fn("file.chgrp", "path group", changes::chown),
    change_fn("file.truncate", "path length", changes::truncate),
    change_fn(
        "file.replace",
        "path pattern repl count? flags? append_if_not_found? prepend_if_not_found? not_found_content? backup? show_changes? **",
        changes::replace,
    ),
];

fn metadata(machine: &Machine, path: &str, follow: bool) -> Result<Option<fs::Metadata>, FunctionError> {
    let found = if follow { machine.metadata(path) } else { machine.symlink_metadata(path) };
    match found {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(e) => Err(path_error("look at", path, &e)),
    }
}

/// What a path leads to; a path that may not be looked at is not there, as in Python.
fn followed_metadata(
    machine: &Machine,
    args: &FunctionArgs<Value>,
) -> Result<Option<fs::Metadata>, FunctionError> {
    Ok(metadata(machine, text_arg(args, "path")?, true).unwrap_or(None))
}

fn has_file_type(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    is: fn(&fs::FileType) -> bool,
) -> Result<Value, FunctionError> {
    let found = metadata(machine, text_arg(args, "name")?, true)?;
    Ok(found.is_some_and(|m| is(&m.file_type())).into())
}

fn stat(machine: &Machine, args: &FunctionArgs<Value>) -> Result<fs::Metadata, FunctionError> {
    let path = text_arg(args, "path")?;
    let found = metadata(machine, path, flag_arg(args, "follow_symlinks", true))?;
    found.ok_or_else(|| FunctionError::failed(format!("there is no `{path}`")))
}

fn owner_name(machine: &Machine, meta: &fs::Metadata) -> Result<Value, FunctionError> {
    let uid = i64::from(meta.uid());
    Ok(accounts::user_name(machine, uid)?.map_or(Value::Int(uid), Value::from))
}

fn mode_text(meta: &fs::Metadata) -> String {
    format!("{:04o}", meta.mode() & 0o7777)
}

/// The whole file; it has to be there.
pub(crate) fn read_required(machine: &Machine, path: &str) -> Result<String, FunctionError> {
    machine.read(path)?.ok_or_else(|| FunctionError::failed(format!("there is no `{path}`")))
}

fn readlink(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = text_arg(args, "path")?;
    let target = machine
        .read_link(path)
        .ok_or_else(|| FunctionError::failed(format!("`{path}` is not a symbolic link")))?;
    if flag_arg(args, "canonicalize", false) {
        let full = machine.canonicalize(path).map_err(|e| path_error("resolve", path, &e))?;
        return Ok(full.to_string_lossy().into_owned().into());
    }
    Ok(target.into())
}

fn access(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let wanted = match text_arg(args, "mode")? {
        "f" => Access::EXISTS,
        "r" => Access::READ_OK,
        "w" => Access::WRITE_OK,
        "x" => Access::EXEC_OK,
        other => {
            return Err(FunctionError::bad_arguments(format!(
                "`mode` is one of `f`, `r`, `w`, `x`, not `{other}`"
            )));
        }
    };
    Ok(machine
        .to_host_path(text_arg(args, "path")?)
        .is_ok_and(|path| rustix::fs::access(path, wanted).is_ok())
        .into())
}

fn readdir(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = text_arg(args, "path")?;
    if !metadata(machine, path, true)?.is_some_and(|m| m.is_dir()) {
        return Err(FunctionError::failed(format!("`{path}` is not a directory")));
    }
    let names = machine.list_dir(path);
    Ok(string_list([".", ".."].into_iter().map(str::to_owned).chain(names)))
}

fn contains(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let file = machine.read(text_arg(args, "path")?).unwrap_or(None);
    Ok(file.is_some_and(|f| f.contains(text_arg(args, "text").unwrap_or_default().trim())).into())
}

fn contains_regex(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let Some(file) = machine.read(text_arg(args, "path")?).unwrap_or(None) else { return Ok(false.into()) };
    let pattern = PyRegex::new(text_arg(args, "regex")?).map_err(|e| FunctionError::failed(e.to_string()))?;
    let left: Vec<char> = optional_text_arg(args, "lchar").unwrap_or_default().chars().collect();
    for line in file.lines() {
        let line = line.trim_start_matches(&left[..]);
        if pattern
            .regex()
            .is_match(line)
            .map_err(|_| FunctionError::failed("the expression takes too many steps"))?
        {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn contains_glob(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let file = machine.read(text_arg(args, "path")?).unwrap_or(None);
    let glob = Glob::new(text_arg(args, "glob_expr")?);
    Ok(file.is_some_and(|f| f.lines().any(|line| glob.matches(line))).into())
}

fn get_hash(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let form = optional_text_arg(args, "form").unwrap_or("sha256");
    digest(machine, text_arg(args, "path")?, form).map(Value::from)
}

/// The digest of a file in hexadecimal digits.
pub(crate) fn digest(machine: &Machine, path: &str, form: &str) -> Result<String, FunctionError> {
    let mut hasher: Box<dyn DynDigest> = match form {
        "md5" => Box::new(md5::Md5::new()),
        "sha1" => Box::new(sha1::Sha1::new()),
        "sha224" => Box::new(sha2::Sha224::new()),
        "sha256" => Box::new(sha2::Sha256::new()),
        "sha384" => Box::new(sha2::Sha384::new()),
        "sha512" => Box::new(sha2::Sha512::new()),
        other => return Err(FunctionError::failed(format!("there is no hash `{other}`"))),
    };
    let mut file = machine.open(path).map_err(|e| path_error("open", path, &e))?;
    let mut chunk = [0; 1 << 16];
    loop {
        match std::io::Read::read(&mut file, &mut chunk).map_err(|e| path_error("read", path, &e))? {
            0 => break,
            n => hasher.update(&chunk[..n]),
        }
    }
    Ok(hasher.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn file_type_name(meta: &fs::Metadata) -> &'static str {
    let t = meta.file_type();
    match () {
        () if t.is_dir() => "dir",
        () if t.is_symlink() => "link",
        () if t.is_char_device() => "char",
        () if t.is_block_device() => "block",
        () if t.is_fifo() => "pipe",
        () if t.is_socket() => "socket",
        () => "file",
    }
}

#[expect(clippy::cast_precision_loss, reason = "Python's times are floats too")]
fn timestamp_seconds(whole: i64, nanos: i64) -> f64 {
    whole as f64 + nanos as f64 / 1e9
}

fn u64_value(n: u64) -> Value {
    i64::try_from(n).map_or_else(|_| Value::Big(n.to_string().into()), Value::Int)
}

fn stats(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = text_arg(args, "path")?;
    let meta = stat(machine, args)?;
    let mut out = Map::new();
    out.insert("inode", u64_value(meta.ino()));
    out.insert("uid", i64::from(meta.uid()));
    out.insert("gid", i64::from(meta.gid()));
    out.insert("group", accounts::group_name(machine, meta.gid().into())?);
    out.insert("user", owner_name(machine, &meta)?);
    out.insert("atime", timestamp_seconds(meta.atime(), meta.atime_nsec()));
    out.insert("mtime", timestamp_seconds(meta.mtime(), meta.mtime_nsec()));
    out.insert("ctime", timestamp_seconds(meta.ctime(), meta.ctime_nsec()));
    out.insert("size", u64_value(meta.len()));
    out.insert("mode", mode_text(&meta));
    if let Some(form) = optional_text_arg(args, "hash_type").filter(|_| meta.is_file()) {
        out.insert("sum", digest(machine, path, form)?);
    }
    out.insert("type", file_type_name(&meta));
    let target = machine.canonicalize(path).map_err(|e| path_error("resolve", path, &e))?;
    out.insert("target", target.to_string_lossy().into_owned());
    Ok(out.into())
}

fn lstat(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let Some(meta) = metadata(machine, text_arg(args, "path")?, false)? else {
        return Ok(Value::empty_map());
    };
    let mut out = Map::new();
    out.insert("st_atime", timestamp_seconds(meta.atime(), meta.atime_nsec()));
    out.insert("st_ctime", timestamp_seconds(meta.ctime(), meta.ctime_nsec()));
    out.insert("st_gid", i64::from(meta.gid()));
    out.insert("st_mode", i64::from(meta.mode()));
    out.insert("st_mtime", timestamp_seconds(meta.mtime(), meta.mtime_nsec()));
    out.insert("st_nlink", u64_value(meta.nlink()));
    out.insert("st_size", u64_value(meta.len()));
    out.insert("st_uid", i64::from(meta.uid()));
    Ok(out.into())
}

/// The number of a name; numbers stay, unknown names are an empty text.
fn id_of_name(
    args: &FunctionArgs<Value>,
    name: &str,
    find: impl Fn(&str) -> Result<Option<i64>, FunctionError>,
) -> Result<Value, FunctionError> {
    match args.get(name) {
        Some(Value::Int(id)) => Ok(Value::Int(*id)),
        _ => Ok(find(text_arg(args, name)?)?.map_or_else(|| Value::from(""), Value::Int)),
    }
}
