//! `file.*` that look: existence, owner, mode, content.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use md5::Digest;
use md5::digest::DynDigest;
use rustix::fs::Access;
use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::glob::Glob;
use zagent_config::pattern::Pattern;
use zagent_config::{Map, Value};

use super::{Entry, entry, flag, strings, text, users, word};
use crate::host::Machine;
use crate::host::ask::cannot;

pub(super) const TABLE: &[Entry] = &[
    entry("file.file_exists", "path", |m, a| Ok(meta(m, a)?.is_some_and(|x| x.is_file()).into())),
    entry("file.directory_exists", "path", |m, a| Ok(meta(m, a)?.is_some_and(|x| x.is_dir()).into())),
    entry("file.is_blkdev", "name", |m, a| kind(m, a, FileTypeExt::is_block_device)),
    entry("file.is_chrdev", "name", |m, a| kind(m, a, FileTypeExt::is_char_device)),
    entry("file.is_fifo", "name", |m, a| kind(m, a, FileTypeExt::is_fifo)),
    entry("file.is_link", "path", |m, a| Ok(m.link(text(a, "path")?).is_some().into())),
    entry("file.readlink", "path canonicalize?", readlink),
    entry("file.access", "path mode", access),
    entry("file.read", "path binary?", |m, a| Ok(content(m, text(a, "path")?)?.into())),
    entry("file.readdir", "path", readdir),
    entry("file.contains", "path text", contains),
    entry("file.contains_regex", "path regex lchar?", contains_regex),
    entry("file.contains_glob", "path glob_expr", contains_glob),
    entry("file.get_user", "path follow_symlinks?", |m, a| owner(m, &stat(m, a)?)),
    entry("file.get_group", "path follow_symlinks?", |m, a| {
        Ok(users::group_name(m, stat(m, a)?.gid().into())?.into())
    }),
    entry("file.get_uid", "path follow_symlinks?", |m, a| Ok(Value::Int(stat(m, a)?.uid().into()))),
    entry("file.get_gid", "path follow_symlinks?", |m, a| Ok(Value::Int(stat(m, a)?.gid().into()))),
    entry("file.get_mode", "path follow_symlinks?", |m, a| Ok(mode(&stat(m, a)?).into())),
    entry("file.get_hash", "path form? chunk_size?", get_hash),
    entry("file.get_sum", "path form?", get_hash),
    entry("file.stats", "path hash_type? follow_symlinks?", stats),
    entry("file.lstat", "path", lstat),
    entry("hashutil.digest_file", "infile checksum?", digest_file),
];

fn metadata(machine: &Machine, path: &str, follow: bool) -> Result<Option<fs::Metadata>, Refusal> {
    let file = machine.path(path);
    let found = if follow { fs::metadata(file) } else { fs::symlink_metadata(file) };
    match found {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(e) => Err(cannot("look at", path, &e)),
    }
}

/// What a path leads to; a path that may not be looked at is not there, as in Python.
fn meta(machine: &Machine, args: &Bound<Value>) -> Result<Option<fs::Metadata>, Refusal> {
    Ok(metadata(machine, text(args, "path")?, true).unwrap_or(None))
}

fn kind(machine: &Machine, args: &Bound<Value>, is: fn(&fs::FileType) -> bool) -> Result<Value, Refusal> {
    let found = metadata(machine, text(args, "name")?, true)?;
    Ok(found.is_some_and(|m| is(&m.file_type())).into())
}

fn stat(machine: &Machine, args: &Bound<Value>) -> Result<fs::Metadata, Refusal> {
    let path = text(args, "path")?;
    let found = metadata(machine, path, flag(args, "follow_symlinks", true))?;
    found.ok_or_else(|| Refusal::failed(format!("there is no `{path}`")))
}

fn owner(machine: &Machine, meta: &fs::Metadata) -> Result<Value, Refusal> {
    let uid = i64::from(meta.uid());
    Ok(users::user_name(machine, uid)?.map_or(Value::Int(uid), Value::from))
}

fn mode(meta: &fs::Metadata) -> String {
    format!("{:04o}", meta.mode() & 0o7777)
}

/// The whole file; it has to be there.
pub(super) fn content(machine: &Machine, path: &str) -> Result<String, Refusal> {
    machine.read(path)?.ok_or_else(|| Refusal::failed(format!("there is no `{path}`")))
}

fn readlink(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let path = text(args, "path")?;
    let target =
        machine.link(path).ok_or_else(|| Refusal::failed(format!("`{path}` is not a symbolic link")))?;
    if flag(args, "canonicalize", false) {
        let full = fs::canonicalize(machine.path(path)).map_err(|e| cannot("resolve", path, &e))?;
        return Ok(full.to_string_lossy().into_owned().into());
    }
    Ok(target.into())
}

fn access(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let wanted = match text(args, "mode")? {
        "f" => Access::EXISTS,
        "r" => Access::READ_OK,
        "w" => Access::WRITE_OK,
        "x" => Access::EXEC_OK,
        other => {
            return Err(Refusal::arguments(format!("`mode` is one of `f`, `r`, `w`, `x`, not `{other}`")));
        }
    };
    Ok(rustix::fs::access(machine.path(text(args, "path")?), wanted).is_ok().into())
}

fn readdir(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let path = text(args, "path")?;
    if !metadata(machine, path, true)?.is_some_and(|m| m.is_dir()) {
        return Err(Refusal::failed(format!("`{path}` is not a directory")));
    }
    let names = machine.names(path);
    Ok(strings([".", ".."].into_iter().map(str::to_owned).chain(names)))
}

fn contains(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let file = machine.read(text(args, "path")?).unwrap_or(None);
    Ok(file.is_some_and(|f| f.contains(text(args, "text").unwrap_or_default().trim())).into())
}

fn contains_regex(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let Some(file) = machine.read(text(args, "path")?).unwrap_or(None) else { return Ok(false.into()) };
    let pattern = Pattern::new(text(args, "regex")?).map_err(|e| Refusal::failed(e.to_string()))?;
    let left: Vec<char> = word(args, "lchar").unwrap_or_default().chars().collect();
    for line in file.lines() {
        let line = line.trim_start_matches(&left[..]);
        if pattern
            .regex()
            .is_match(line)
            .map_err(|_| Refusal::failed("the expression takes too many steps"))?
        {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn contains_glob(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let file = machine.read(text(args, "path")?).unwrap_or(None);
    let glob = Glob::new(text(args, "glob_expr")?);
    Ok(file.is_some_and(|f| f.lines().any(|line| glob.matches(line))).into())
}

fn get_hash(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let form = word(args, "form").unwrap_or("sha256");
    digest(machine, text(args, "path")?, form).map(Value::from)
}

fn digest_file(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    digest(machine, text(args, "infile")?, word(args, "checksum").unwrap_or("md5")).map(Value::from)
}

fn digest(machine: &Machine, path: &str, form: &str) -> Result<String, Refusal> {
    let mut hasher: Box<dyn DynDigest> = match form {
        "md5" => Box::new(md5::Md5::new()),
        "sha1" => Box::new(sha1::Sha1::new()),
        "sha224" => Box::new(sha2::Sha224::new()),
        "sha256" => Box::new(sha2::Sha256::new()),
        "sha384" => Box::new(sha2::Sha384::new()),
        "sha512" => Box::new(sha2::Sha512::new()),
        other => return Err(Refusal::failed(format!("there is no hash `{other}`"))),
    };
    let mut file = fs::File::open(machine.path(path)).map_err(|e| cannot("open", path, &e))?;
    let mut chunk = [0; 1 << 16];
    loop {
        match std::io::Read::read(&mut file, &mut chunk).map_err(|e| cannot("read", path, &e))? {
            0 => break,
            n => hasher.update(&chunk[..n]),
        }
    }
    Ok(hasher.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn type_of(meta: &fs::Metadata) -> &'static str {
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
fn seconds(whole: i64, nanos: i64) -> f64 {
    whole as f64 + nanos as f64 / 1e9
}

fn number(n: u64) -> Value {
    i64::try_from(n).map_or_else(|_| Value::Big(n.to_string().into()), Value::Int)
}

fn stats(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let path = text(args, "path")?;
    let meta = stat(machine, args)?;
    let mut out = Map::new();
    out.insert("inode", number(meta.ino()));
    out.insert("uid", i64::from(meta.uid()));
    out.insert("gid", i64::from(meta.gid()));
    out.insert("group", users::group_name(machine, meta.gid().into())?);
    out.insert("user", owner(machine, &meta)?);
    out.insert("atime", seconds(meta.atime(), meta.atime_nsec()));
    out.insert("mtime", seconds(meta.mtime(), meta.mtime_nsec()));
    out.insert("ctime", seconds(meta.ctime(), meta.ctime_nsec()));
    out.insert("size", number(meta.len()));
    out.insert("mode", mode(&meta));
    if let Some(form) = word(args, "hash_type").filter(|_| meta.is_file()) {
        out.insert("sum", digest(machine, path, form)?);
    }
    out.insert("type", type_of(&meta));
    let target = fs::canonicalize(machine.path(path)).map_err(|e| cannot("resolve", path, &e))?;
    out.insert("target", target.to_string_lossy().into_owned());
    Ok(out.into())
}

fn lstat(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let Some(meta) = metadata(machine, text(args, "path")?, false)? else { return Ok(Value::empty_map()) };
    let mut out = Map::new();
    out.insert("st_atime", seconds(meta.atime(), meta.atime_nsec()));
    out.insert("st_ctime", seconds(meta.ctime(), meta.ctime_nsec()));
    out.insert("st_gid", i64::from(meta.gid()));
    out.insert("st_mode", i64::from(meta.mode()));
    out.insert("st_mtime", seconds(meta.mtime(), meta.mtime_nsec()));
    out.insert("st_nlink", number(meta.nlink()));
    out.insert("st_size", number(meta.len()));
    out.insert("st_uid", i64::from(meta.uid()));
    Ok(out.into())
}
