//! `cp.*` and the files of the state tree, as far as they can be read without copying them anywhere.

use std::sync::Arc;

use zagent_config::{Map, Value as Data};

use super::table::{Entry, data};
use super::{Bound, Inner, Refusal, hash, paths};

pub(super) const TABLE: &[Entry] = &[
    data("cp.list_states", "saltenv?", list_states),
    data("cp.list_master", "saltenv? prefix?", list_master),
    data("cp.list_master_dirs", "saltenv? prefix?", list_master_dirs),
    data("cp.list_master_symlinks", "saltenv? prefix?", list_master_symlinks),
    data("cp.envs", "", envs),
    data("cp.get_file_str", "path saltenv?", get_file_str),
    data("cp.get_url", "path dest? saltenv? makedirs? source_hash? verify_ssl? use_etag?", get_url),
    data("cp.cache_file", "path saltenv? source_hash? verify_ssl? use_etag?", cache_file),
    data("cp.is_cached", "path saltenv?", cache_file),
    data("cp.hash_file", "path saltenv?", hash_file),
];

/// What a path of the tree leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// An argument that has to be text.
pub(super) fn text<'a>(args: &'a Bound<Data>, name: &str) -> Result<&'a str, Refusal> {
    let value = args.get(name);
    value.and_then(Data::as_str).ok_or_else(|| {
        let got = value.map_or("nothing", Data::kind);
        Refusal::arguments(format!("`{name}` must be text, not {got}"))
    })
}

/// The environment of a call.
pub(super) fn env(args: &Bound<Data>) -> &str {
    args.get("saltenv").and_then(Data::as_str).unwrap_or("base")
}

/// The path and environment of `salt://path?saltenv=env` or of a plain path.
pub(super) fn locate(url: &str, env: &str) -> Result<(String, String), Refusal> {
    let path = match url.split_once("://") {
        Some(("salt", path)) => path,
        Some((scheme, _)) => {
            return Err(Refusal::failed(format!("`{scheme}://` is not read while states compile")));
        }
        None => return Err(Refusal::failed(format!("`{url}` is not a path of the tree (`salt://…`)"))),
    };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let env = query.split('&').find_map(|q| q.strip_prefix("saltenv=")).unwrap_or(env);
    Ok((path.trim_start_matches('|').trim_start_matches('/').to_owned(), env.to_owned()))
}

pub(super) fn read_bytes(inner: &Inner, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, Refusal> {
    inner.inputs.states.read(env, path).map_err(Refusal::Failed)
}

/// A file as text.
pub(super) fn read(inner: &Inner, env: &str, path: &str) -> Result<Option<String>, Refusal> {
    Ok(read_bytes(inner, env, path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn all(inner: &Inner, env: &str) -> Result<Arc<[String]>, Refusal> {
    if !inner.inputs.states.envs().iter().any(|e| e == env) {
        return Ok(Arc::from([]));
    }
    inner.inputs.states.list(env).map_err(Refusal::Failed)
}

/// True when the tree has such a file or directory.
pub(super) fn exists(inner: &Inner, env: &str, path: &str, kind: Kind) -> Result<bool, Refusal> {
    let files = all(inner, env)?;
    Ok(match kind {
        Kind::File => files.iter().any(|f| f == path),
        Kind::Directory => {
            files.iter().any(|f| f.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
        }
    })
}

fn strings<S: Into<Data>>(items: impl IntoIterator<Item = S>) -> Data {
    items.into_iter().map(Into::into).collect()
}

fn list_states(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let files = all(inner, env(args))?;
    let mut names: Vec<String> = files
        .iter()
        .filter_map(|f| f.strip_suffix("/init.sls").or_else(|| f.strip_suffix(".sls")))
        .map(|f| f.replace('/', "."))
        .collect();
    names.sort_unstable();
    Ok(strings(names))
}

fn prefix(args: &Bound<Data>) -> &str {
    args.get("prefix").and_then(Data::as_str).unwrap_or_default()
}

fn list_master(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let files = all(inner, env(args))?;
    Ok(strings(files.iter().filter(|f| f.starts_with(prefix(args))).map(String::as_str)))
}

fn list_master_dirs(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let files = all(inner, env(args))?;
    let mut dirs: Vec<&str> = files
        .iter()
        .flat_map(|f| {
            std::iter::successors(Some(paths::parent(f)), |d| Some(paths::parent(d)))
                .take_while(|d| !d.is_empty())
        })
        .filter(|d| d.starts_with(prefix(args)))
        .collect();
    dirs.sort_unstable();
    dirs.dedup();
    Ok(strings(dirs))
}

fn list_master_symlinks(_: &Inner, _: &Bound<Data>) -> Result<Data, Refusal> {
    Ok(Data::empty_map())
}

fn envs(inner: &Inner, _: &Bound<Data>) -> Result<Data, Refusal> {
    Ok(strings(inner.inputs.states.envs()))
}

fn source(args: &Bound<Data>) -> Result<(String, String), Refusal> {
    locate(text(args, "path")?, env(args))
}

fn get_file_str(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let (path, env) = source(args)?;
    Ok(read(inner, &env, &path)?.map_or(Data::Bool(false), Data::from))
}

/// The content of a file; copying it somewhere is no matter of a template.
fn get_url(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    if args.get("dest").is_some_and(|d| !d.is_null()) {
        return Err(Refusal::failed("nothing is copied while states compile: `dest` must be `none`"));
    }
    get_file_str(inner, args)
}

/// Where the file can be read; `false` (or nothing, for `is_cached`) when there is none.
fn cache_file(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let path = text(args, "path")?;
    if path.starts_with('/') {
        return Err(Refusal::failed(format!("`{path}` is not a path of the tree (`salt://…`)")));
    }
    let (path, env) = source(args)?;
    Ok(match read_bytes(inner, &env, &path)? {
        Some(_) => inner.inputs.states.display(&env, &path).into(),
        None => false.into(),
    })
}

fn hash_file(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let (path, env) = source(args)?;
    Ok(match read_bytes(inner, &env, &path)? {
        Some(bytes) => {
            let sum = hash::hex_digest("sha256", &bytes).unwrap_or_default();
            [("hash_type", Data::from("sha256")), ("hsum", sum.into())].into_iter().collect::<Map>().into()
        }
        None => Data::empty_map(),
    })
}
