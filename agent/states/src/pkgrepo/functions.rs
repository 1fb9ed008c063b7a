//! `pkg.*_repo*`: repositories as execution functions tell and change them.

use std::path::Path;

use zagent_compiler::Chunk;
use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::apt::AptSources;
use super::repo_file::{self, RepoFiles};
use super::{RepoFormat, RepoPlan, plan_change};
use crate::exec_function::{ExecFunction, change_fn, query_fn, text_arg};
use crate::{ChunkArgs, StateError};
use zagent_host::fs::{FileMeta, FileSystem};
use zagent_host::{Machine, Tools, packages};

/// The execution functions of `pkg` about repositories; the others stand beside the states of `pkg`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("pkg.list_repos", "**", |m, _| {
        Ok(list_repos(&m.disk(None), &repo_family(m)?).map_err(state_error)?.into())
    }),
    query_fn("pkg.get_repo", "repo **", get_repo),
    change_fn("pkg.mod_repo", "repo **", |m, a| change_repo(m, a, false)),
    change_fn("pkg.del_repo", "repo **", |m, a| change_repo(m, a, true)),
];

/// How a host keeps its repositories, by its facts; nothing when nobody knows.
pub(crate) fn detect_format(grain: &dyn Fn(&str) -> Option<Value>) -> Option<RepoFormat> {
    let text = |name: &str| grain(name).as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    match text("os_family").as_str() {
        "Debian" => Some(RepoFormat::Debian(text("os"), text("oscodename"))),
        "RedHat" => Some(RepoFormat::Sections("/etc/yum.repos.d")),
        "Suse" => Some(RepoFormat::Sections("/etc/zypp/repos.d")),
        "Alpine" => Some(RepoFormat::Lines("/etc/apk/repositories")),
        _ => None,
    }
}

/// All repositories, by address or by name.
///
/// # Errors
/// Fails when the files cannot be read.
pub(crate) fn list_repos(fs: &dyn FileSystem, family: &RepoFormat) -> Result<Map, StateError> {
    match family {
        RepoFormat::Debian(..) => Ok(AptSources::read(fs)?.to_map()),
        RepoFormat::Sections(dir) => Ok(RepoFiles::read(fs, Path::new(dir))?.to_map()),
        RepoFormat::Lines(file) => {
            let text = String::from_utf8_lossy(&fs.read(Path::new(file))?).into_owned();
            let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
            Ok(lines.map(|l| (l, Value::from(Map::from_iter([("file", *file)])))).collect())
        }
    }
}

/// What to do so that a repository is there as asked, or is not there.
///
/// # Errors
/// Fails as the state does.
pub(crate) fn plan_repo(
    fs: &dyn FileSystem,
    family: &RepoFormat,
    name: &str,
    args: Map,
    is_absent: bool,
) -> Result<RepoPlan, StateError> {
    let fun = if is_absent { "absent" } else { "managed" };
    let chunk = Chunk::single("pkgrepo", fun, name, args);
    if let RepoFormat::Lines(file) = family {
        return repo_file::plan_line(fs, Path::new(file), name, is_absent);
    }
    plan_change(fs, family, &ChunkArgs::new(&chunk), is_absent)
}

fn state_error(failure: StateError) -> FunctionError {
    FunctionError::failed(failure.result.comment)
}

/// How this host keeps its repositories.
fn repo_family(machine: &Machine) -> Result<RepoFormat, FunctionError> {
    let release = machine.read("/etc/os-release")?.unwrap_or_default();
    let says = |key: &str| {
        let value = release.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_default().trim_matches('"').to_owned()
    };
    let family = packages::select_provider(machine, None)?.provider.os_family();
    let grain = |key: &str| match key {
        "os_family" => Some(Value::from(family)),
        "os" if says("ID") == "ubuntu" => Some("Ubuntu".into()),
        "os" => Some("Debian".into()),
        "oscodename" => Some(says("VERSION_CODENAME").into()),
        _ => None,
    };
    detect_format(&grain)
        .ok_or_else(|| FunctionError::failed("Repo management not implemented on this platform"))
}

fn get_repo(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "repo")?;
    let family = repo_family(machine)?;
    if !matches!(family, RepoFormat::Debian(..)) {
        let all = list_repos(&machine.disk(None), &family).map_err(state_error)?;
        return Ok(all.get(name).cloned().unwrap_or_else(Value::empty_map));
    }
    let plan = plan_repo(&machine.disk(None), &family, name, Map::new(), false).map_err(state_error)?;
    Ok(plan.before.map_or_else(Value::empty_map, Value::from))
}

fn change_repo(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    is_absent: bool,
) -> Result<Value, FunctionError> {
    let name = text_arg(args, "repo")?;
    let family = repo_family(machine)?;
    let given: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let disk = machine.disk(None);
    let plan = plan_repo(&disk, &family, name, given.clone(), is_absent).map_err(state_error)?;
    if is_absent && plan.before.is_none() {
        return Err(FunctionError::failed(format!("Repo {name} doesn't exist in the sources.list(s)")));
    }
    let mut words = String::new();
    for (path, text) in &plan.edits {
        let meta = FileMeta { mode: (!machine.exists(path)).then_some(0o644), ..FileMeta::default() };
        let done = match text {
            Some(text) => disk.resolve_for_change(path).and_then(|p| disk.write(&p, text.as_bytes(), meta)),
            None => disk.remove(path),
        };
        done.map_err(|e| state_error(e.into()))?;
        words.push_str(&match text {
            Some(_) => format!("Repo '{name}' has been removed from {}.\n", path.display()),
            None => format!("File {} containing repo '{name}' has been removed.", path.display()),
        });
    }
    let refreshes = given.get("refresh").is_none_or(Value::is_truthy);
    if refreshes && !plan.edits.is_empty() && machine.which("apt-get").is_some() {
        Tools::new(machine).run_checked("apt-get", &["-q", "update"])?;
    }
    if is_absent {
        return Ok(words.into());
    }
    let after = plan.after.map_or(Value::Null, Value::from);
    Ok(Map::from_iter([(name, after)]).into())
}
