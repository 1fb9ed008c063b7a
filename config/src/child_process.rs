//! A program in, a command with its own session and a short environment out.
//!
//! Law: a child has no terminal of ours, so it cannot type into the shell that started the agent (`TIOCSTI`), and of our
//! environment it gets what [`INHERITED`] lists and nothing else. Every program that is not the agent itself starts here
//! (held by `a_command_has_neither_terminal_nor_environment_of_the_agent`, `each_act_has_its_owners`, `clippy.toml`).
//!
//! ## Why not always a session
//! The standard library has no stable call for `setsid`; before the program starts, it takes a real `fork`. Without a
//! terminal of our own (a service, a CI job, `ssh` without `-t`) there is nothing to keep away from the child: its own
//! process group is enough, and the cheap `posix_spawn` does that.

#![expect(clippy::disallowed_methods, reason = "the owner of what children inherit")]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use process_wrap::std::{CommandWrap, CommandWrapper, ProcessSession};
use rustix::fs::{Mode, OFlags};

/// Where programs are when the environment does not say.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that a child inherits, beside `PATH` and those that begin with `LC_`.
pub const INHERITED: [&str; 17] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
];
/// The part of them that belongs to the agent's own user.
const PERSONAL: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];

/// Who a child runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildUser {
    /// The agent's own user.
    Same,
    /// Another one: it gets neither what belongs to the agent's user nor a proxy with a password.
    Other,
}

/// A command with the inherited environment, in its own session or process group: its process id is that of the group.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(inherited(ChildUser::Same));
    detach(&mut command);
    command
}

/// A command that shares the terminal and the environment of the user who waits for it, such as `ssh-keygen` asking for a
/// passphrase. Only for programs that a person starts by hand.
pub fn interactive_command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// A command with no variable at all, otherwise as [`command`].
pub fn bare_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    detach(&mut command);
    command
}

/// The variables that a child gets.
pub fn inherited(user: ChildUser) -> impl Iterator<Item = (OsString, OsString)> {
    let path = std::iter::once((OsString::from("PATH"), search_path()));
    path.chain(std::env::vars_os().filter(move |(name, value)| is_inherited(name, value, user)))
}

/// The value of a variable as a child sees it.
#[must_use]
pub fn inherited_value(name: &str) -> Option<OsString> {
    if name == "PATH" {
        return Some(search_path());
    }
    std::env::var_os(name).filter(|value| is_inherited(OsStr::new(name), value, ChildUser::Same))
}

fn is_inherited(name: &OsStr, value: &OsStr, user: ChildUser) -> bool {
    let Some(name) = name.to_str() else { return false };
    if !INHERITED.contains(&name) && !name.starts_with("LC_") {
        return false;
    }
    // The password of a proxy stands before the at sign.
    let is_private = || PERSONAL.contains(&name) || value.as_bytes().contains(&b'@');
    user == ChildUser::Same || !is_private()
}

/// The directories of `PATH`, without those that depend on where the child runs: an archive or a repository could hold a
/// program of the same name there.
#[must_use]
pub fn search_path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let absolute = std::env::split_paths(&own).filter(|dir| Path::new(dir).is_absolute());
    let joined = std::env::join_paths(absolute).unwrap_or_default();
    if joined.is_empty() { DEFAULT_PATH.into() } else { joined }
}

fn detach(command: &mut Command) {
    if !has_terminal() {
        command.process_group(0);
        return;
    }
    // It only notes what happens between fork and exec; there is nothing that can fail yet.
    let _ = ProcessSession.pre_spawn(command, &CommandWrap::with_new("", |_| ()));
}

/// True when this process has a controlling terminal, or when nobody can tell.
fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    !matches!(rustix::fs::open("/dev/tty", flags, Mode::empty()), Err(rustix::io::Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_are_inherited() {
        let takes = |name: &str, value: &str, user| is_inherited(name.as_ref(), value.as_ref(), user);
        for name in ["HOME", "LANG", "LC_ALL", "LC_TIME", "TZ", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"] {
            assert!(takes(name, "x", ChildUser::Same), "{name}");
        }
        for name in [
            "ZAGENT_CONFIG",
            "GITHUB_TOKEN",
            "CI",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "BASH_ENV",
            "PYTHONPATH",
            "NOTIFY_SOCKET",
            "TERM",
            "TAR_OPTIONS",
        ] {
            assert!(!takes(name, "x", ChildUser::Same), "{name}");
        }
        assert!(takes("https_proxy", "http://u:p@proxy:3128", ChildUser::Same));
        assert!(takes("https_proxy", "http://proxy:3128", ChildUser::Other));
        for (name, value) in [("https_proxy", "http://u:p@proxy:3128"), ("HOME", "/root"), ("USER", "root")] {
            assert!(!takes(name, value, ChildUser::Other), "{name}");
        }
    }

    #[test]
    fn a_child_leads_its_own_group() {
        let output =
            command("/bin/sh").args(["-c", "echo $$; cut -d' ' -f5 /proc/$$/stat"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<&str> = text.lines().collect();
        assert_eq!(numbers[0], numbers[1], "{text}");
        let bare = bare_command("/usr/bin/env").output().unwrap();
        assert_eq!(String::from_utf8(bare.stdout).unwrap(), "");
    }
}
