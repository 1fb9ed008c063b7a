//! A root directory in, what is known of its kernel out: the machine below it is not the one that the agent runs on.
//!
//! Law: nothing of the agent's own machine is told as a fact of the other one. The host name, the release of the kernel
//! and the interfaces are those that files below the root name; only the architecture and the name of the kernel are this
//! host's, because programs below the root run on it. Of the environment there is what a program started there inherits
//! (held by `a_root_names_its_own_kernel`, `kernel_facts_are_those_of_the_root`, `the_environment_is_that_of_commands_below_the_root`).

#![expect(clippy::disallowed_methods, reason = "an owner of what facts read from the machine")]

use std::cmp::Ordering;
use std::time::SystemTime;

use zagent_config::child_process::{self, ChildUser};

use super::system::{LiveSystem, NetInterface, ProcessIds, System, Uname};
use crate::Machine;

/// The name of a host that has none.
const NO_HOSTNAME: &str = "localhost";

/// What the kernel says on a machine: the live one here, the files of its root elsewhere.
#[must_use]
pub fn machine_system(machine: &Machine) -> Box<dyn System> {
    if machine.is_this_host() { Box::new(LiveSystem) } else { Box::new(RootSystem(machine.clone())) }
}

/// The system below another root.
struct RootSystem(Machine);

impl RootSystem {
    fn line(&self, path: &str) -> Option<String> {
        let text = self.0.read(path).ok().flatten()?;
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        line.map(str::to_owned)
    }

    /// The newest kernel that is installed below the root.
    fn installed_release(&self) -> Option<String> {
        let names = self.0.list_dir("/lib/modules").into_iter();
        let kernels = names.filter(|name| self.0.is_dir(format!("/lib/modules/{name}")));
        kernels.max_by(|a, b| compare_releases(a, b))
    }
}

impl System for RootSystem {
    fn uname(&self) -> Uname {
        let live = LiveSystem.uname();
        let hostname = self.line("/etc/hostname").or_else(|| self.line("/proc/sys/kernel/hostname"));
        // With `/proc` below the root, its programs see the kernel that runs; otherwise the installed one would boot.
        let running = self.line("/proc/sys/kernel/osrelease");
        let release = running.or_else(|| self.installed_release()).unwrap_or_else(|| live.release.clone());
        let version = if release == live.release { live.version } else { String::new() };
        let nodename = hostname.unwrap_or_else(|| NO_HOSTNAME.into());
        Uname { nodename, release, version, ..live }
    }

    fn interfaces(&self) -> Vec<NetInterface> {
        // Without `/sys` there is no network below the root.
        let names = self.0.list_dir("/sys/class/net");
        if names.is_empty() {
            return Vec::new();
        }
        LiveSystem.interfaces().into_iter().filter(|interface| names.contains(&interface.name)).collect()
    }

    fn process(&self) -> ProcessIds {
        ProcessIds { cwd: Some("/".into()), ..LiveSystem.process() }
    }

    fn env(&self, name: &str) -> Option<String> {
        child_process::inherited_value(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
        child_process::inherited(ChildUser::Same).map(|(name, value)| (text(name), text(value))).collect()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Compares `6.1.0-37-amd64` with `6.1.0-9-amd64`: numbers as numbers, the rest as text.
fn compare_releases(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<Result<u64, String>> {
        text.split(['.', '-', '+', '_', '~']).map(|part| part.parse().map_err(|_| part.to_owned())).collect()
    };
    let (a, b) = (parts(a), parts(b));
    let by_part = a.iter().zip(&b).map(|pair| match pair {
        (Ok(a), Ok(b)) => a.cmp(b),
        // A number is newer than a word: `6.1.0` follows `6.1.rc1`.
        (Ok(_), Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Err(a), Err(b)) => a.cmp(b),
    });
    by_part.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_names_its_own_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let system = machine_system(&Machine::at_root(dir.path()).unwrap());
        let live = LiveSystem.uname();
        assert_eq!(system.uname(), Uname { nodename: NO_HOSTNAME.into(), ..live.clone() });
        assert_eq!(system.interfaces(), []);
        for release in ["6.1.0-9-amd64", "6.1.0-37-amd64", "5.10.0-99-amd64"] {
            write(&format!("lib/modules/{release}/modules.dep"), "");
        }
        write("etc/hostname", "# set by hand\nbox\n");
        let (nodename, release) = ("box".into(), "6.1.0-37-amd64".into());
        let installed = Uname { nodename, release, version: String::new(), ..live.clone() };
        assert_eq!(system.uname(), installed);
        write("proc/sys/kernel/osrelease", &live.release);
        assert_eq!(system.uname(), Uname { nodename: "box".into(), ..live });
        write("sys/class/net/lo/flags", "0x9\n");
        assert!(system.interfaces().iter().all(|interface| interface.name == "lo"));
    }

    #[test]
    fn releases_are_compared_by_number() {
        for (old, new) in [
            ("6.1.0-9-amd64", "6.1.0-37-amd64"),
            ("5.10.0-99-amd64", "6.1.0-1-amd64"),
            ("6.1.rc1", "6.1.0"),
            ("6.1", "6.1.0"),
        ] {
            assert_eq!(compare_releases(old, new), Ordering::Less, "{old} {new}");
            assert_eq!(compare_releases(new, old), Ordering::Greater, "{new} {old}");
        }
        assert_eq!(compare_releases("6.1.0", "6.1.0"), Ordering::Equal);
    }
}
