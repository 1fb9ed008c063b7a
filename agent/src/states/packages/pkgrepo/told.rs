//! Repositories as execution functions tell and change them.

use std::path::Path;

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use super::apt::Sources;
use super::ini::{self, Repos};
use super::{Family, Plan, plan};
use crate::fs::FileSystem;
use crate::states::{Args, Failure};

/// How a host keeps its repositories, by its facts; nothing when nobody knows.
pub(crate) fn family(grain: &dyn Fn(&str) -> Option<Value>) -> Option<Family> {
    let text = |name: &str| grain(name).as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    match text("os_family").as_str() {
        "Debian" => Some(Family::Debian(text("os"), text("oscodename"))),
        "RedHat" => Some(Family::Sections("/etc/yum.repos.d")),
        "Suse" => Some(Family::Sections("/etc/zypp/repos.d")),
        "Alpine" => Some(Family::Lines("/etc/apk/repositories")),
        _ => None,
    }
}

/// All repositories, by address or by name.
///
/// # Errors
/// Fails when the files cannot be read.
pub(crate) fn list(fs: &dyn FileSystem, family: &Family) -> Result<Map, Failure> {
    match family {
        Family::Debian(..) => Ok(Sources::read(fs)?.told()),
        Family::Sections(dir) => Ok(Repos::read(fs, Path::new(dir))?.told()),
        Family::Lines(file) => {
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
pub(crate) fn change(
    fs: &dyn FileSystem,
    family: &Family,
    name: &str,
    args: Map,
    is_absent: bool,
) -> Result<Plan, Failure> {
    let fun = if is_absent { "absent" } else { "managed" };
    let chunk = Chunk::single("pkgrepo", fun, name, args);
    if let Family::Lines(file) = family {
        return ini::line(fs, Path::new(file), name, is_absent);
    }
    plan(fs, family, &Args::new(&chunk), is_absent)
}
