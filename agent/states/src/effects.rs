//! What a change may touch that a dry run cannot imagine, and what a look depends on.
//!
//! Law: in a dry run, a state that depends on effects that cannot be predicted reports `unknown`, unless it reads
//! something else or says itself that its result still holds (held by `what_is_hidden_is_told`,
//! `behind_a_veil_only_what_is_seen_counts`).

use std::ops::{BitAnd, BitOr, BitOrAssign};

/// A set of kinds of things on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects(u16);

impl Effects {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Any file, as a command may change it.
    pub const FILES: Self = Self(1);
    /// Files that packages bring along or take away.
    pub const PACKAGE_FILES: Self = Self(1 << 1);
    /// Which packages are installed.
    pub const PACKAGES: Self = Self(1 << 2);
    /// Which packages can be installed.
    pub(crate) const CATALOG: Self = Self(1 << 3);
    /// Users and groups.
    pub const USERS: Self = Self(1 << 4);
    /// Services: which there are, run and start at boot.
    pub const SERVICES: Self = Self(1 << 5);
    /// Crontabs and other jobs.
    pub(crate) const JOBS: Self = Self(1 << 6);
    /// What the kernel holds: parameters, modules, mounts, names, rules of a firewall.
    pub const KERNEL: Self = Self(1 << 7);
    /// What a program keeps: databases, containers, libraries of a language.
    pub(crate) const STORES: Self = Self(1 << 8);
    /// Everything.
    pub const ALL: Self = Self(u16::MAX);

    /// What a package may change when it comes or goes: its scripts may do nearly anything but undo what a person wrote.
    pub const PACKAGE_CHANGE: Self = Self(
        Self::PACKAGE_FILES.0
            | Self::PACKAGES.0
            | Self::USERS.0
            | Self::SERVICES.0
            | Self::KERNEL.0
            | Self::STORES.0,
    );

    /// What it covers, in words.
    #[must_use]
    pub fn describe(self) -> String {
        const NAMES: [(Effects, &str); 8] = [
            (Effects::FILES, "files"),
            (Effects::PACKAGE_FILES, "the files of packages"),
            (Effects::PACKAGES.union(Effects::CATALOG), "packages"),
            (Effects::USERS, "users"),
            (Effects::SERVICES, "services"),
            (Effects::JOBS, "jobs"),
            (Effects::KERNEL, "settings of the kernel"),
            (Effects::STORES, "what programs keep"),
        ];
        let names: Vec<&str> =
            NAMES.iter().filter(|(effects, _)| self.intersects(*effects)).map(|(_, n)| *n).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) if !self.is_all() => format!("{} and {last}", rest.join(", ")),
            _ => "all things".to_owned(),
        }
    }

    /// True when it covers nothing.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Both together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What it covers and the other does not.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True when both cover some of the same.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True when it covers everything: nobody can foresee what comes after.
    #[must_use]
    pub(crate) const fn is_all(self) -> bool {
        self.0 == u16::MAX
    }
}

impl BitOr for Effects {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Effects {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Effects {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Effects;

    #[test]
    fn what_is_hidden_is_told() {
        assert_eq!(Effects::USERS.describe(), "users");
        assert_eq!(
            (Effects::PACKAGE_FILES | Effects::USERS | Effects::SERVICES).describe(),
            "the files of packages, users and services"
        );
        assert_eq!(Effects::ALL.describe(), "all things");
    }
}
