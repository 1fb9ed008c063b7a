//! What dnf and zypper ask of rpm itself: a package or a file in, the other out.

use zagent_config::FunctionError;

use super::{listed_files, owner_from_output, to_strings};
use crate::{Machine, Tools};

/// The name of the package that brought a file along; empty when none did.
pub(super) fn file_owner(machine: &Machine, path: &str) -> Result<String, FunctionError> {
    Ok(owner_from_output(&Tools::new(machine).run_query("rpm", &["-qf", "--qf", "%{NAME}\\n", path])?))
}

/// The files of a package; nothing when it is not installed.
pub(super) fn package_files(machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
    Ok(listed_files(&Tools::new(machine).run_query("rpm", &["-ql", name])?))
}

/// The command line that compares packages, or all of them, with what they brought.
pub(super) fn verify_command(names: &[String], options: &[String]) -> Vec<String> {
    let mut line = to_strings(&["rpm", "-V"]);
    line.extend(options.iter().map(|o| format!("--{}", o.trim_start_matches('-'))));
    line.extend(if names.is_empty() { vec!["-a".to_owned()] } else { names.to_vec() });
    line
}

/// The command line that tells the version in a package file.
pub(super) fn file_version_command(path: &str) -> Vec<String> {
    to_strings(&["rpm", "-qp", "--qf", "%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}", path])
}

/// An installed package that provides a name.
pub(super) fn providing_package(tools: &Tools<'_>, name: &str) -> Result<Option<String>, FunctionError> {
    let output = tools.run_query("rpm", &["-q", "--whatprovides", "--qf", "%{NAME}\\n", name])?;
    Ok(output.stdout.lines().next().map(str::to_owned).filter(|_| output.is_success()))
}
