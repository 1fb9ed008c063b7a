//! Packages of the host: a package manager in, what is there, what can be had and what an act would do out.
//!
//! Law: one kind of question has one answer, whatever the package manager. Pure functions read its output and make
//! its arguments. A package manager never prompts (held by `managers_are_told_in_their_words`,
//! `other_databases_are_read`).

pub mod action;
pub mod apk;
pub mod apt;
pub mod db;
pub(crate) mod dnf;
mod dpkg;
pub(crate) mod lock_wait;
pub mod pacman;
mod rpm;
pub mod runner;
pub mod version;
pub(crate) mod zypper;

use std::collections::BTreeMap;

use zagent_config::FunctionError;
use zagent_config::pkg_version::VersionScheme;

pub use action::{PkgAction, PkgActionOptions, PkgTarget, verify_pkg_name};
pub use db::{PkgDb, PkgDbStamp};
pub use runner::PkgRunner;
pub use version::{display_spec, satisfies};

use super::{CommandOutput, Machine, Tools};

/// A package manager.
pub trait PkgProvider: Sync {
    /// Our name of it.
    fn name(&self) -> &'static str;

    /// Other names that `provider:` may use: Salt's, and those of programs that take the same words.
    fn aliases(&self) -> &'static [&'static str];

    /// What `/etc/os-release` calls systems whose own manager it is, as `ID` or in `ID_LIKE`.
    fn os_ids(&self) -> &'static [&'static str];

    /// The programs without which it is not there; any of them is enough.
    fn program_names(&self) -> &'static [&'static str];

    /// Whose rules compare versions.
    fn version_scheme(&self) -> VersionScheme {
        VersionScheme::Rpm
    }

    /// Files whose change means that other packages are installed.
    fn database_files(&self) -> &'static [&'static str];

    /// Files that tell which packages are kept at their version, where the database does not.
    fn hold_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is installed.
    fn read_db(&self, machine: &Machine) -> Result<PkgDb, FunctionError>;

    /// The command lines that do it; nothing when this manager cannot.
    fn command_lines(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<Vec<String>>>;

    /// The command lines that only tell what would be done; nothing when this manager cannot.
    fn dry_run_command(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<String>>;

    /// What a rehearsal said.
    fn parse_dry_run(&self, output: &str) -> Vec<PkgChange>;

    /// What a rehearsal that failed said, as people read it.
    fn readable_failure(&self, output: CommandOutput) -> CommandOutput {
        output
    }

    /// True when a command line that ends with this code has done what it was told.
    fn is_success_code(&self, code: i32) -> bool {
        code == 0
    }

    /// What can be had, by name; a name that nobody knows is not in it.
    fn query_available(
        &self,
        tools: &Tools<'_>,
        names: &[String],
        options: &PkgActionOptions,
    ) -> Result<AvailablePkgs, FunctionError>;

    /// Groups of packages, by `installed` and `available`.
    fn list_groups(&self, tools: &Tools<'_>) -> Result<PkgGroups, FunctionError> {
        let _ = tools;
        Err(groups_unsupported())
    }

    /// The packages of a group, by `mandatory`, `default`, `optional` and `conditional`.
    fn group_members(&self, tools: &Tools<'_>, name: &str) -> Result<PkgGroups, FunctionError> {
        let _ = (tools, name);
        Err(groups_unsupported())
    }

    /// True when nothing is known about what can be had, so that it has to be fetched.
    fn needs_refresh(&self, machine: &Machine) -> bool {
        let _ = machine;
        false
    }

    /// Salt's `os_family` of the hosts whose repositories it reads; empty when nobody manages those.
    fn os_family(&self) -> &'static str {
        ""
    }

    /// Where it keeps package files that were only downloaded; nothing when it cannot only download.
    fn download_cache_dir(&self) -> Option<&'static str> {
        None
    }

    /// True when a package is installed again only as the version that is named, and as the newest otherwise.
    fn reinstall_needs_version(&self) -> bool {
        false
    }

    /// The name of the package that brought a file along; empty when none did.
    fn file_owner(&self, machine: &Machine, path: &str) -> Result<String, FunctionError> {
        let _ = (machine, path);
        Ok(String::new())
    }

    /// The files of a package; nothing when it is not installed.
    fn package_files(&self, machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
        let _ = (machine, name);
        Ok(None)
    }

    /// An installed package that provides a name.
    fn providing_package(&self, tools: &Tools<'_>, name: &str) -> Result<Option<String>, FunctionError> {
        let _ = (tools, name);
        Ok(None)
    }

    /// Makes the command line whose last word is the version in a package file; nothing when only its name can be known.
    fn file_version_command(&self, tools: &Tools<'_>) -> Option<FileVersionCommand> {
        let _ = tools;
        None
    }

    /// The command line that compares files with what packages brought, all packages when none is named; nothing when this
    /// manager cannot.
    fn verify_command(&self, names: &[String], options: &[String]) -> Option<Vec<String>> {
        let _ = (names, options);
        None
    }

    /// What has to be mended before anything else can be done; empty when nothing has.
    fn find_broken(&self, machine: &Machine, db: &PkgDb) -> Vec<String> {
        let _ = (machine, db);
        Vec::new()
    }

    /// The command lines that mend it.
    fn repair_commands(&self) -> Vec<Vec<String>> {
        Vec::new()
    }
}

/// The path of a package file in, a command line out.
pub(crate) type FileVersionCommand = fn(&str) -> Vec<String>;

/// What can be had of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvailablePkg {
    /// The version that an installation without a word about versions brings; empty for a name that others provide.
    pub candidate: String,
    /// All versions that can be had, the preferred first.
    pub versions: Vec<String>,
}

/// What can be had, by name.
pub type AvailablePkgs = BTreeMap<String, AvailablePkg>;

/// One package that comes, goes or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PkgChange {
    /// Its name.
    pub name: String,
    /// The version that is there; empty when none is.
    pub old: String,
    /// The version that comes; empty when it goes.
    pub new: String,
}

/// Names by what they are.
pub type PkgGroups = BTreeMap<&'static str, Vec<String>>;

fn groups_unsupported() -> FunctionError {
    FunctionError::failed("pkg.group_install not available for this platform")
}

/// All package managers, the preferred first.
const PROVIDERS: [&dyn PkgProvider; 5] = [&apt::Apt, &dnf::Dnf, &zypper::Zypper, &apk::Apk, &pacman::Pacman];

/// The package manager of a machine and the program it goes by.
#[derive(Clone, Copy)]
pub struct SelectedProvider {
    /// Whose words it takes.
    pub provider: &'static dyn PkgProvider,
    /// Its program.
    pub program: &'static str,
}

/// The package manager that is asked for; or else the one that the system calls its own, or the first, whose database and
/// program are there.
///
/// # Errors
/// Fails when there is none, or none of that name.
pub fn select_provider(machine: &Machine, asked: Option<&str>) -> Result<SelectedProvider, FunctionError> {
    if let Some(name) = asked {
        let provider = PROVIDERS.into_iter().find(|p| p.name() == name || p.aliases().contains(&name));
        let provider = provider.ok_or_else(|| {
            let known: Vec<_> = PROVIDERS.iter().map(|p| p.name()).collect();
            FunctionError::failed(format!(
                "there is no provider `{name}` of packages; there are {}",
                known.join(", ")
            ))
        })?;
        let named = provider.program_names().iter().find(|p| **p == name);
        let program = named.or_else(|| provider.program_names().iter().find(|p| machine.which(p).is_some()));
        return match program {
            Some(program) => Ok(SelectedProvider { provider, program }),
            None => {
                Err(FunctionError::failed(format!("`{}` is not on this host", provider.program_names()[0])))
            }
        };
    }
    let mut found = PROVIDERS.to_vec();
    found.retain(|p| p.database_files().iter().any(|w| machine.exists(w)));
    // A host may have the tools of other families: dpkg on Fedora, dnf on openSUSE.
    let os_ids = parse_os_ids(&machine.read("/etc/os-release")?.unwrap_or_default());
    zagent_config::sorted::sort_by_key(&mut found, |p| {
        !p.os_ids().iter().any(|k| os_ids.iter().any(|name| name == k))
    });
    // Or only their database (rpm on Debian): the manager has to be there too, if any is.
    let first = found.iter().find_map(|p| {
        let program = p.program_names().iter().find(|name| machine.which(name).is_some())?;
        Some(SelectedProvider { provider: *p, program })
    });
    let any = || found.first().map(|p| SelectedProvider { provider: *p, program: p.program_names()[0] });
    first
        .or_else(any)
        .ok_or_else(|| FunctionError::failed("no package database was found (dpkg, apk, pacman or rpm)"))
}

/// What a system calls itself, and what it is like.
fn parse_os_ids(release: &str) -> Vec<String> {
    let values = release.lines().filter_map(|l| l.strip_prefix("ID=").or_else(|| l.strip_prefix("ID_LIKE=")));
    values.flat_map(|v| v.trim_matches(['"', '\'']).split_whitespace()).map(str::to_owned).collect()
}

/// Runs a command line of a package manager that only looks.
///
/// # Errors
/// Fails when it cannot be started or was ended; a program that fails is an answer.
pub fn run_query_line(tools: &Tools<'_>, line: &[String]) -> Result<CommandOutput, FunctionError> {
    let (program, args) = line.split_first().ok_or_else(|| FunctionError::failed("there is no command"))?;
    tools.run_query(program, args)
}

/// Texts of a list.
fn to_strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

/// The package in the first line of what a manager said; empty when it knows of none.
fn owner_from_output(output: &CommandOutput) -> String {
    let first = output.stdout.lines().next().unwrap_or_default().trim();
    if output.is_success() { first.to_owned() } else { String::new() }
}

/// The files that a manager listed, one per line; nothing when it knows of no such package.
fn listed_files(output: &CommandOutput) -> Option<Vec<String>> {
    let path = |l: &str| if l.starts_with('/') { l.to_owned() } else { format!("/{l}") };
    let files = output.stdout.lines().filter(|l| !l.is_empty()).map(path).collect();
    output.is_success().then_some(files)
}

#[cfg(test)]
pub mod tests;
