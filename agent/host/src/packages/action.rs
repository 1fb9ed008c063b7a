//! What a package manager is told to do.

use zagent_config::FunctionError;

use super::{PkgChange, PkgDb};

/// Refuses a name that a manager would take for an option, or for a wish to remove (`nginx-`).
///
/// # Errors
/// Fails when it is none.
pub fn verify_pkg_name(name: &str) -> Result<(), FunctionError> {
    if name.starts_with('-') || name.ends_with('-') {
        return Err(FunctionError::failed(format!("`{name}` is no name of a package")));
    }
    Ok(())
}

/// A package that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PkgTarget {
    /// Its name.
    pub name: String,
    /// The exact version.
    pub version: Option<String>,
    /// A file that it comes from.
    pub file: Option<String>,
}

impl PkgTarget {
    /// A package by name.
    pub fn from_name(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// How a manager reads it, with what stands between name and version.
    pub fn spec(&self, between: &str) -> String {
        match (&self.file, &self.version) {
            (Some(file), _) => file.clone(),
            (None, Some(version)) => format!("{}{between}{version}", self.name),
            (None, None) => self.name.clone(),
        }
    }
}

/// How it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PkgActionOptions {
    /// The release or repository that packages come from.
    pub fromrepo: Option<String>,
    /// Does not check signatures.
    pub skip_verify: bool,
    /// With or without what is recommended.
    pub recommends: Option<bool>,
    /// Says yes to what is dangerous.
    pub force: bool,
    /// New configuration files take the place of changed ones.
    pub replace_config: bool,
    /// The newest version, also of what is there in an older one.
    pub upgrade_installed: bool,
    /// Only what is installed already.
    pub only_upgrade: bool,
    /// Once more what is there.
    pub reinstall: bool,
    /// Also older versions.
    pub downgrade: bool,
    /// Fetches, and leaves it at that.
    pub download_only: bool,
    /// Also what takes other packages away or brings new ones.
    pub dist_upgrade: bool,
    /// Packages that are held back stay so.
    pub respect_holds: bool,
    /// Repositories that are used besides (dnf, zypper).
    pub enablerepo: Option<String>,
    /// Repositories that are not used (dnf).
    pub disablerepo: Option<String>,
    /// Exclusions that do not count (dnf).
    pub disable_excludes: Option<String>,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PkgAction<'a> {
    /// Fetches what is known about what can be had.
    Refresh,
    /// Brings packages.
    Install(&'a [PkgTarget], &'a PkgActionOptions),
    /// Takes packages away; `true` with their configuration.
    Remove(&'a [String], bool),
    /// Brings packages, or all, to their newest version.
    Upgrade(&'a [String], &'a PkgActionOptions),
    /// Keeps packages at their version.
    Hold(&'a [String]),
    /// No longer.
    Unhold(&'a [String]),
    /// Takes away what nobody needs any more; `true` with its configuration.
    Autoremove(bool),
}

impl PkgAction<'_> {
    /// The names that it is about.
    fn package_names(&self) -> Vec<&str> {
        match self {
            Self::Install(targets, _) => targets.iter().map(|t| t.name.as_str()).collect(),
            Self::Remove(names, _) | Self::Upgrade(names, _) | Self::Hold(names) | Self::Unhold(names) => {
                names.iter().map(String::as_str).collect()
            }
            Self::Refresh | Self::Autoremove(_) => Vec::new(),
        }
    }

    /// Refuses names that are none.
    pub(crate) fn verify_names(&self) -> Result<(), FunctionError> {
        if let Self::Install(targets, _) = self {
            targets.iter().filter_map(|t| t.file.as_deref()).try_for_each(verify_pkg_name)?;
        }
        self.package_names().into_iter().try_for_each(verify_pkg_name)
    }

    /// What steps of it touch although it is held and not named. Who names nothing means everything.
    pub(crate) fn unnamed_held(&self, changes: &[PkgChange], db: &PkgDb) -> Vec<String> {
        let named: Vec<String> =
            self.package_names().into_iter().map(|n| db.without_native_arch(n)).collect();
        let is_beside = |name: &str| {
            !named.is_empty() && !named.iter().any(|n| n == name) && db.get(name).is_some_and(|p| p.is_held)
        };
        changes.iter().filter(|s| is_beside(&s.name)).map(|s| s.name.clone()).collect()
    }
}
