//! A program in, a supervised process that is identified by more than its process id out.
//!
//! Law: a process is distinguished from a later one with the same id by its start time and its boot; a process that no
//! longer is the same one is never signalled (held by `another_process_with_the_same_pid_is_not_signalled`).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, waitpid};
use serde::{Deserialize, Serialize};

/// The stack of a thread that only waits.
const STACK_BYTES: usize = 128 << 10;
/// How often a process that is not a child is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// What the service manager passes to the watchdog, and only to it.
const REMOVED_ENV: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its process id.
    pub pid: i32,
    /// When it started, in ticks since the boot.
    pub began: u64,
    /// The boot id.
    pub boot: String,
}

impl ProcessIdentity {
    /// The process that has this id now.
    #[must_use]
    pub fn from_pid(pid: i32) -> Option<Self> {
        let (_, began) = parent_and_start(pid)?;
        Some(Self { pid, began, boot: boot_id() })
    }

    /// This process.
    pub(super) fn current() -> Option<Self> {
        own_pid().and_then(Self::from_pid)
    }

    /// True while it runs, or has exited and was not reaped.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        parent_and_start(self.pid).is_some_and(|(_, began)| began == self.began) && boot_id() == self.boot
    }

    /// True when this process started it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.is_alive() && parent_and_start(self.pid).is_some_and(|(parent, _)| Some(parent) == own_pid())
    }

    /// The program that it runs.
    #[must_use]
    pub fn program(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/exe", self.pid)).ok()
    }

    /// The process that runs one of these programs with these arguments and has lost its parent, and the index of the
    /// program. Only in this PID namespace: processes in containers are excluded.
    pub(super) fn find_orphan(programs: &[&Path], args: &[OsString]) -> Option<(Self, usize)> {
        let line = |program: &Path| -> Vec<Vec<u8>> {
            let args = args.iter().map(OsString::as_os_str);
            std::iter::once(program.as_os_str()).chain(args).map(|word| word.as_bytes().to_vec()).collect()
        };
        let lines: Vec<_> = programs.iter().map(|program| line(program)).collect();
        let view = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = view("self")?;
        let mut entries = std::fs::read_dir("/proc").ok()?.flatten();
        entries.find_map(|entry| {
            let name = entry.file_name();
            let pid = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))?;
            let found = std::fs::read(entry.path().join("cmdline")).ok()?;
            let found: Vec<&[u8]> = found.strip_suffix(b"\0")?.split(|b| *b == 0).collect();
            // A script is run by another program, which has it as its first argument.
            let is_it =
                |line: &Vec<Vec<u8>>| found == *line || found.get(1..).is_some_and(|rest| rest == *line);
            let which = lines.iter().position(is_it)?;
            if view(pid)? != own {
                return None;
            }
            let process = Self::from_pid(pid.parse().ok()?)?;
            let (parent, _) = parent_and_start(process.pid)?;
            let is_lost =
                parent == 1 || Self::from_pid(parent).and_then(|p| p.program()) != Self::current()?.program();
            is_lost.then_some((process, which))
        })
    }

    /// Sends it a signal; no error when it has just exited.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) else { return };
        let told = match signal {
            // With everything that it started and that did not leave its process group.
            Signal::KILL => kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal)),
            _ => kill_process(pid, signal),
        };
        if let Err(error) = told {
            tracing::debug!(pid = self.pid, %error, "cannot signal a process");
        }
    }
}

fn own_pid() -> Option<i32> {
    i32::try_from(std::process::id()).ok()
}

/// The parent of a process, and when it started.
fn parent_and_start(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    Some((words.nth(1)?.parse().ok()?, words.nth(17)?.parse().ok()?))
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Starts a program in its own process group: the watchdog passes terminal signals on.
///
/// # Errors
/// Fails when it cannot be started.
pub(super) fn start_process(program: &Path, args: &[OsString]) -> io::Result<ProcessIdentity> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).process_group(0);
    for name in REMOVED_ENV {
        command.env_remove(name);
    }
    // It is reaped by its id: by this watchdog, or by the one that replaces it.
    let pid = command.spawn()?.id();
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // Until it is reaped, it exists, whether it has exited or not.
    ProcessIdentity::from_pid(pid).ok_or_else(|| io::Error::other("it is not in /proc"))
}

/// Waits for the exit of a process on another thread; `ended` is called once, with a message how it exited.
///
/// # Errors
/// Fails when no thread can be started.
pub(super) fn watch_exit(
    process: ProcessIdentity,
    ended: impl FnOnce(String) + Send + 'static,
) -> io::Result<()> {
    let waiter = std::thread::Builder::new().name("child".into()).stack_size(STACK_BYTES);
    waiter.spawn(move || ended(wait(&process))).map(drop)
}

fn wait(process: &ProcessIdentity) -> String {
    let pid = Pid::from_raw(process.pid).filter(|_| process.is_ours());
    while let Some(pid) = pid {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return exit_text(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    while process.is_alive() {
        std::thread::sleep(POLL_INTERVAL);
    }
    "it exited".into()
}

fn exit_text(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("it exited with code {code}"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => "it exited".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn shell(script: &str) -> ProcessIdentity {
        start_process(Path::new("/bin/sh"), &["-c".into(), script.into()]).unwrap()
    }

    fn end(process: ProcessIdentity) -> String {
        let (told, heard) = channel();
        watch_exit(process, move |how| told.send(how).unwrap()).unwrap();
        heard.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn the_exit_is_described() {
        assert_eq!(end(shell("exit 7")), "it exited with code 7");
        let sleeper = shell("exec sleep 1000");
        assert!(sleeper.is_alive() && sleeper.is_ours());
        sleeper.signal(Signal::TERM);
        assert_eq!(end(sleeper.clone()), "it was killed by signal 15");
        assert!(!sleeper.is_alive() && !sleeper.is_ours());
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_signalled() {
        let sleeper = shell("exec sleep 1000");
        for other in [
            ProcessIdentity { began: sleeper.began + 1, ..sleeper.clone() },
            ProcessIdentity { boot: "another".into(), ..sleeper.clone() },
        ] {
            assert!(!other.is_alive());
            other.signal(Signal::KILL);
            assert_eq!(end(other), "it exited");
        }
        assert!(sleeper.is_alive());
        sleeper.signal(Signal::KILL);
        assert_eq!(end(sleeper), "it was killed by signal 9");
    }
}
