//! Repositories as execution functions tell and change them.

use std::path::Path;

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use super::apt::AptSources;
use super::repo_file::{self, RepoFiles};
use super::{RepoFormat, RepoPlan, plan_change};
use crate::{ChunkArgs, StateError};
use zagent_host::fs::FileSystem;

/// How a host keeps its repositories, by its facts; nothing when nobody knows.
pub fn detect_format(grain: &dyn Fn(&str) -> Option<Value>) -> Option<RepoFormat> {
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
pub fn list_repos(fs: &dyn FileSystem, family: &RepoFormat) -> Result<Map, StateError> {
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
pub fn plan_repo(
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
