//! Packages of the host: a package manager in, what is there, what can be had and what an act would do out.
//!
//! Law: one kind of question, one answer, whoever the package manager is. What a manager says is read by pure functions;
//! what it is told is made by pure functions. Nobody is ever asked a question by a package manager.

mod act;
mod apk;
mod apt;
mod db;
mod dnf;
mod lock;
mod pacman;
mod talk;
mod version;
mod zypper;

use std::collections::BTreeMap;

use zagent_compiler::functions::Refusal;
use zagent_compiler::functions::version::Scheme;

pub(crate) use act::{Act, Options, Target, verify_name};
pub(crate) use db::{Db, Stamp};
pub(crate) use talk::Teller;
pub(crate) use version::{fulfils, shown_spec};

use super::{Machine, Said, Tools};

/// A package manager.
pub(crate) trait Provider: Sync {
    /// Our name of it.
    fn name(&self) -> &'static str;

    /// Other names that `provider:` may use: Salt's, and those of programs that take the same words.
    fn aliases(&self) -> &'static [&'static str];

    /// What `/etc/os-release` calls systems whose own manager it is, as `ID` or in `ID_LIKE`.
    fn kin(&self) -> &'static [&'static str];

    /// The programs without which it is not there; any of them is enough.
    fn programs(&self) -> &'static [&'static str];

    /// Whose rules compare versions.
    fn scheme(&self) -> Scheme {
        Scheme::Rpm
    }

    /// Files whose change means that other packages are installed.
    fn witnesses(&self) -> &'static [&'static str];

    /// Files that tell which packages are kept at their version, where the database does not.
    fn locks(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is installed.
    fn read(&self, machine: &Machine) -> Result<Db, Refusal>;

    /// The command lines that do it; nothing when this manager cannot.
    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>>;

    /// The command lines that only tell what would be done; nothing when this manager cannot.
    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>>;

    /// What a rehearsal said.
    fn steps(&self, said: &str) -> Vec<Step>;

    /// What a rehearsal that failed said, as people read it.
    fn plain(&self, said: Said) -> Said {
        said
    }

    /// True when a command line that ends with this code has done what it was told.
    fn is_done(&self, code: i32) -> bool {
        code == 0
    }

    /// What can be had, by name; a name that nobody knows is not in it.
    fn offers(&self, tools: &Tools<'_>, names: &[String], options: &Options) -> Result<Offers, Refusal>;

    /// Groups of packages, by `installed` and `available`.
    fn groups(&self, tools: &Tools<'_>) -> Result<Group, Refusal> {
        let _ = tools;
        Err(no_groups())
    }

    /// The packages of a group, by `mandatory`, `default`, `optional` and `conditional`.
    fn group(&self, tools: &Tools<'_>, name: &str) -> Result<Group, Refusal> {
        let _ = (tools, name);
        Err(no_groups())
    }

    /// True when nothing is known about what can be had, so that it has to be fetched.
    fn is_blank(&self, machine: &Machine) -> bool {
        let _ = machine;
        false
    }

    /// What has to be mended before anything else can be done; empty when nothing has.
    fn broken(&self, machine: &Machine, db: &Db) -> Vec<String> {
        let _ = (machine, db);
        Vec::new()
    }

    /// The command lines that mend it.
    fn mending(&self) -> Vec<Vec<String>> {
        Vec::new()
    }
}

/// What can be had of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The version that an installation without a word about versions brings; empty for a name that others provide.
    pub(crate) candidate: String,
    /// All versions that can be had, the preferred first.
    pub(crate) versions: Vec<String>,
}

/// What can be had, by name.
pub(crate) type Offers = BTreeMap<String, Offer>;

/// One package that comes, goes or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its name.
    pub(crate) name: String,
    /// The version that is there; empty when none is.
    pub(crate) old: String,
    /// The version that comes; empty when it goes.
    pub(crate) new: String,
}

/// Names by what they are.
pub(crate) type Group = BTreeMap<&'static str, Vec<String>>;

fn no_groups() -> Refusal {
    Refusal::failed("pkg.group_install not available for this platform")
}

/// All package managers, the preferred first.
const ALL: [&dyn Provider; 5] = [&apt::Apt, &dnf::Dnf, &zypper::Zypper, &apk::Apk, &pacman::Pacman];

/// The package manager of a machine and the program it goes by.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    /// Whose words it takes.
    pub(crate) provider: &'static dyn Provider,
    /// Its program.
    pub(crate) program: &'static str,
}

/// The package manager that is asked for; or else the one that the system calls its own, or the first, whose database and
/// program are there.
///
/// # Errors
/// Fails when there is none, or none of that name.
pub(crate) fn choose(machine: &Machine, asked: Option<&str>) -> Result<Chosen, Refusal> {
    if let Some(name) = asked {
        let provider = ALL.into_iter().find(|p| p.name() == name || p.aliases().contains(&name));
        let provider = provider.ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|p| p.name()).collect();
            Refusal::failed(format!(
                "there is no provider `{name}` of packages; there are {}",
                known.join(", ")
            ))
        })?;
        let named = provider.programs().iter().find(|p| **p == name);
        let program = named.or_else(|| provider.programs().iter().find(|p| machine.which(p).is_some()));
        return match program {
            Some(program) => Ok(Chosen { provider, program }),
            None => Err(Refusal::failed(format!("`{}` is not on this host", provider.programs()[0]))),
        };
    }
    let mut found = ALL.to_vec();
    found.retain(|p| p.witnesses().iter().any(|w| machine.path(w).exists()));
    // A host may have the tools of other families: dpkg on Fedora, dnf on openSUSE.
    let kin = kin(&machine.read("/etc/os-release")?.unwrap_or_default());
    found.sort_by_key(|p| !p.kin().iter().any(|k| kin.iter().any(|name| name == k)));
    // Or only their database (rpm on Debian): the manager has to be there too, if any is.
    let first = found.iter().find_map(|p| {
        let program = p.programs().iter().find(|name| machine.which(name).is_some())?;
        Some(Chosen { provider: *p, program })
    });
    let any = || found.first().map(|p| Chosen { provider: *p, program: p.programs()[0] });
    first
        .or_else(any)
        .ok_or_else(|| Refusal::failed("no package database was found (dpkg, apk, pacman or rpm)"))
}

/// What a system calls itself, and what it is like.
fn kin(release: &str) -> Vec<String> {
    let values = release.lines().filter_map(|l| l.strip_prefix("ID=").or_else(|| l.strip_prefix("ID_LIKE=")));
    values.flat_map(|v| v.trim_matches(['"', '\'']).split_whitespace()).map(str::to_owned).collect()
}

/// Texts of a list.
fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

#[cfg(test)]
mod tests;
