//! What apt asks of dpkg: its lists of files in, the package of a file and the files of a package out.

use zagent_config::FunctionError;

use crate::{Machine, Tools};

const DPKG_INFO_DIR: &str = "/var/lib/dpkg/info";

/// The name of the package that brought a file along; empty when none did.
pub(super) fn file_owner(machine: &Machine, path: &str) -> Result<String, FunctionError> {
    for list in machine.list_dir(DPKG_INFO_DIR).iter().filter(|n| n.ends_with(".list")) {
        let files = machine.read(&format!("{DPKG_INFO_DIR}/{list}"))?.unwrap_or_default();
        if files.lines().any(|f| f == path || (path.starts_with("/usr") && f == &path[4..])) {
            let name = list.trim_end_matches(".list");
            return Ok(name.split(':').next().unwrap_or(name).to_owned());
        }
    }
    Ok(String::new())
}

/// The files of a package; nothing when it is not installed.
pub(super) fn package_files(machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
    let lists = machine.list_dir(DPKG_INFO_DIR);
    let is_it = |n: &&String| {
        let stem = n.strip_suffix(".list");
        stem.is_some_and(|s| s == name || s.split(':').next() == Some(name))
    };
    let Some(list) = lists.iter().find(is_it) else { return Ok(None) };
    let files = machine.read(&format!("{DPKG_INFO_DIR}/{list}"))?.unwrap_or_default();
    Ok(Some(files.lines().filter(|l| *l != "/.").map(str::to_owned).collect()))
}

/// An installed package that provides a name.
pub(super) fn providing_package(tools: &Tools<'_>, name: &str) -> Result<Option<String>, FunctionError> {
    let output = tools.run_query("dpkg-query", &["-W", "-f", "${Package} ${Status}: ${Provides}\\n"])?;
    Ok(output.stdout.lines().find_map(|line| {
        let (head, provides) = line.split_once(": ")?;
        let mut names = provides.split(',').filter_map(|p| p.split_whitespace().next());
        let package = head.strip_suffix(" installed")?.split(' ').next()?;
        names.any(|n| n == name).then(|| package.to_owned())
    }))
}
