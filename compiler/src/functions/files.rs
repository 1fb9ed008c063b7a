//! `cp.*` and the files of the state tree, without copying any file.

use std::sync::Arc;

use zagent_config::{Map, Value as Data};

use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner, hash, paths};

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("cp.list_states", "saltenv?", list_states),
    data_function("cp.list_master", "saltenv? prefix?", list_master),
    data_function("cp.list_master_dirs", "saltenv? prefix?", list_master_dirs),
    data_function("cp.list_master_symlinks", "saltenv? prefix?", list_master_symlinks),
    data_function("cp.envs", "", envs),
    data_function("cp.get_file_str", "path saltenv?", get_file_str),
    data_function("cp.get_url", "path dest? saltenv? makedirs? source_hash? verify_ssl? use_etag?", get_url),
    data_function("cp.cache_file", "path saltenv? source_hash? verify_ssl? use_etag?", cache_file),
    data_function("cp.is_cached", "path saltenv?", cache_file),
    data_function("cp.hash_file", "path saltenv?", hash_file),
];

/// What a path in the tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    File,
    Directory,
}

/// An argument that must be text.
pub(super) fn text_arg<'a>(args: &'a FunctionArgs<Data>, name: &str) -> Result<&'a str, FunctionError> {
    let value = args.get(name);
    value.and_then(Data::as_str).ok_or_else(|| {
        let got = value.map_or("nothing", Data::kind);
        FunctionError::bad_arguments(format!("`{name}` must be text, not {got}"))
    })
}

/// The environment of a call.
pub(super) fn env_arg(args: &FunctionArgs<Data>) -> &str {
    args.get("saltenv").and_then(Data::as_str).unwrap_or("base")
}

/// The path and environment of `salt://path?saltenv=env` or of a plain path.
pub(super) fn parse_salt_url(url: &str, env: &str) -> Result<(String, String), FunctionError> {
    let path = match url.split_once("://") {
        Some(("salt", path)) => path,
        Some((scheme, _)) => {
            return Err(FunctionError::failed(format!("`{scheme}://` is not supported in templates")));
        }
        None => {
            return Err(FunctionError::failed(format!(
                "`{url}` is not a path in the state tree (`salt://…`)"
            )));
        }
    };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let env = query.split('&').find_map(|q| q.strip_prefix("saltenv=")).unwrap_or(env);
    Ok((path.trim_start_matches('|').trim_start_matches('/').to_owned(), env.to_owned()))
}

pub(super) fn read_bytes(
    inner: &FunctionsInner,
    env: &str,
    path: &str,
) -> Result<Option<Arc<[u8]>>, FunctionError> {
    inner.inputs.states.read(env, path).map_err(FunctionError::Failed)
}

/// A file as text.
pub(super) fn read(inner: &FunctionsInner, env: &str, path: &str) -> Result<Option<String>, FunctionError> {
    Ok(read_bytes(inner, env, path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn list_files(inner: &FunctionsInner, env: &str) -> Result<Arc<[String]>, FunctionError> {
    if !inner.inputs.states.envs().iter().any(|e| e == env) {
        return Ok(Arc::from([]));
    }
    inner.inputs.states.list(env).map_err(FunctionError::Failed)
}

/// True when the tree has such a file or directory.
pub(super) fn exists(
    inner: &FunctionsInner,
    env: &str,
    path: &str,
    kind: PathKind,
) -> Result<bool, FunctionError> {
    let files = list_files(inner, env)?;
    Ok(match kind {
        PathKind::File => files.iter().any(|f| f == path),
        PathKind::Directory => {
            files.iter().any(|f| f.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
        }
    })
}

fn strings<S: Into<Data>>(items: impl IntoIterator<Item = S>) -> Data {
    items.into_iter().map(Into::into).collect()
}

fn list_states(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let files = list_files(inner, env_arg(args))?;
    let mut names: Vec<String> = files
        .iter()
        .filter_map(|f| f.strip_suffix("/init.sls").or_else(|| f.strip_suffix(".sls")))
        .map(|f| f.replace('/', "."))
        .collect();
    names.sort_unstable();
    Ok(strings(names))
}

fn prefix_arg(args: &FunctionArgs<Data>) -> &str {
    args.get("prefix").and_then(Data::as_str).unwrap_or_default()
}

fn list_master(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let files = list_files(inner, env_arg(args))?;
    Ok(strings(files.iter().filter(|f| f.starts_with(prefix_arg(args))).map(String::as_str)))
}

fn list_master_dirs(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let files = list_files(inner, env_arg(args))?;
    let mut dirs: Vec<&str> = files
        .iter()
        .flat_map(|f| {
            std::iter::successors(Some(paths::parent(f)), |d| Some(paths::parent(d)))
                .take_while(|d| !d.is_empty())
        })
        .filter(|d| d.starts_with(prefix_arg(args)))
        .collect();
    dirs.sort_unstable();
    dirs.dedup();
    Ok(strings(dirs))
}

fn list_master_symlinks(_: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(Data::empty_map())
}

fn envs(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(strings(inner.inputs.states.envs()))
}

fn source_arg(args: &FunctionArgs<Data>) -> Result<(String, String), FunctionError> {
    parse_salt_url(text_arg(args, "path")?, env_arg(args))
}

fn get_file_str(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let (path, env) = source_arg(args)?;
    Ok(read(inner, &env, &path)?.map_or(Data::Bool(false), Data::from))
}

/// The content of a file; templates cannot copy it elsewhere.
fn get_url(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    if args.get("dest").is_some_and(|d| !d.is_null()) {
        return Err(FunctionError::failed("templates cannot copy files: `dest` must be `none`"));
    }
    get_file_str(inner, args)
}

/// Where the file can be read; `false` (or nothing, for `is_cached`) when there is none.
fn cache_file(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let path = text_arg(args, "path")?;
    if path.starts_with('/') {
        return Err(FunctionError::failed(format!("`{path}` is not a path in the state tree (`salt://…`)")));
    }
    let (path, env) = source_arg(args)?;
    Ok(match read_bytes(inner, &env, &path)? {
        Some(_) => inner.inputs.states.display(&env, &path).into(),
        None => false.into(),
    })
}

fn hash_file(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let (path, env) = source_arg(args)?;
    Ok(match read_bytes(inner, &env, &path)? {
        Some(bytes) => {
            let sum = hash::hex_digest("sha256", &bytes).unwrap_or_default();
            [("hash_type", Data::from("sha256")), ("hsum", sum.into())].into_iter().collect::<Map>().into()
        }
        None => Data::empty_map(),
    })
}
