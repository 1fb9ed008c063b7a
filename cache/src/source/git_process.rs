//! A command in, its pipes out, with a fixed end.
//!
//! Law: every child has its own session or process group, which is killed at the deadline and when the work is
//! done; its output is limited; its stderr is kept for the error (held by
//! `a_child_and_its_children_end_at_the_deadline`, `what_a_child_prints_is_bounded`).

use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use zagent_config::child_process;
use zagent_config::settings::RemoteSettings;

use super::Deadline;
use super::address::SshAddress;
use super::deadline_timer::DeadlineTimer;
use super::error::{SourceErrorKind, SourceFailure, sanitize_line};

/// Maximum bytes of stderr that are kept.
const MAX_STDERR: usize = 8 << 10;
/// Maximum bytes that a credential helper may print.
const MAX_HELPER_OUTPUT: u64 = 64 << 10;
/// How long a child may take to report why, after its output has ended.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the SSH agent of a user listens.
const SSH_AGENT: &str = "SSH_AUTH_SOCK";

/// Which Git program runs on the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GitService {
    /// The program for fetches.
    Upload,
    /// The program for pushes.
    Receive,
}

impl GitService {
    /// The name of the program.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Upload => "git-upload-pack",
            Self::Receive => "git-receive-pack",
        }
    }
}

/// A child under a deadline.
pub(super) struct GitProcess {
    process: std::process::Child,
    group: Option<Pid>,
    timer: DeadlineTimer,
    stderr: Receiver<String>,
    left: Arc<AtomicU64>,
    limit: Arc<AtomicU64>,
    too_large: Arc<Mutex<Option<u64>>>,
}

/// The output of a child, limited.
pub(super) struct BoundedStdout {
    inner: ChildStdout,
    left: Arc<AtomicU64>,
    limit: Arc<AtomicU64>,
    too_large: Arc<Mutex<Option<u64>>>,
}

impl Read for BoundedStdout {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        let left = self.left.load(Ordering::Relaxed);
        let Some(rest) = left.checked_sub(n as u64) else {
            *self.too_large.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(self.limit.load(Ordering::Relaxed));
            return Err(io::Error::other("the answer is over the size limit"));
        };
        self.left.store(rest, Ordering::Relaxed);
        Ok(n)
    }
}

impl GitProcess {
    /// Starts a command of [`child_process`]; its output may have `limit` bytes.
    pub(super) fn spawn(
        mut command: Command,
        limit: u64,
        deadline: Deadline,
    ) -> Result<(Self, ChildStdin, BoundedStdout), SourceFailure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.env("GIT_PROTOCOL", "version=2").env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot = |error: &io::Error| {
            let hint = if error.kind() == io::ErrorKind::NotFound { "; is it installed?" } else { "" };
            SourceFailure::new(SourceErrorKind::Local, format!("cannot start `{name}`: {error}{hint}"))
        };
        let mut process = command.spawn().map_err(|error| cannot(&error))?;
        let group = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let alarm = DeadlineTimer::start(deadline, move || kill_group(group));
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(cannot(&io::Error::other("it has no pipes")));
        };
        let (left, limit) = (Arc::new(AtomicU64::new(limit)), Arc::new(AtomicU64::new(limit)));
        let too_large = Arc::default();
        let output = BoundedStdout {
            inner: output,
            left: left.clone(),
            limit: limit.clone(),
            too_large: Arc::clone(&too_large),
        };
        let child =
            Self { process, group, timer: alarm, stderr: collect_stderr(errors), left, limit, too_large };
        Ok((child, input, output))
    }

    /// Sets the byte limit from now on.
    pub(super) fn set_byte_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// Why the conversation failed, if the child or its exit shows it.
    pub(super) fn take_failure(&mut self, remote: &str) -> Option<SourceFailure> {
        if let Some(limit) = *self.too_large.lock().unwrap_or_else(PoisonError::into_inner) {
            let most = format!("{remote} sends more than the limit of {limit} bytes");
            return Some(SourceFailure::new(SourceErrorKind::TooLarge, most));
        }
        let said = self.stderr.recv_timeout(STDERR_TIMEOUT).unwrap_or_default();
        if self.timer.has_fired() {
            return Some(SourceFailure::new(
                SourceErrorKind::Timeout,
                format!("{remote} did not answer within the time limit"),
            ));
        }
        (!said.trim().is_empty()).then(|| explain_stderr(remote, &said))
    }
}

impl Drop for GitProcess {
    fn drop(&mut self) {
        // After the wait, the process group id can be reused: the timer must be cancelled before.
        self.timer.cancel();
        kill_group(self.group);
        let _ = self.process.wait();
    }
}

fn kill_group(group: Option<Pid>) {
    if let Some(group) = group {
        // It may have exited by itself.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Keeps the start of the output, and discards the rest.
fn collect_stderr(mut errors: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, hear) = channel();
    std::thread::spawn(move || {
        let (mut kept, mut buf) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = errors.read(&mut buf) {
            let room = MAX_STDERR.saturating_sub(kept.len()).min(n);
            kept.extend_from_slice(&buf[..room]);
        }
        // The receiver may be gone.
        let _ = tell.send(String::from_utf8_lossy(&kept).into_owned());
    });
    hear
}

/// The meaning of an `ssh` or Git error message.
fn explain_stderr(remote: &str, said: &str) -> SourceFailure {
    let has = |needles: &[&str]| needles.iter().any(|needle| said.contains(needle));
    let last = sanitize_line(said);
    if has(&["REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        let text = format!(
            "the SSH host key of {remote} does not match known_hosts: the connection may be intercepted; if the host was \
             reinstalled, replace its line"
        );
        return SourceFailure::new(SourceErrorKind::HostKey, text);
    }
    if has(&["Host key verification failed", "host key is known for"]) {
        let text = format!(
            "the SSH host key of {remote} is unknown: add it to known_hosts (use `ssh-keyscan` and compare the \
             fingerprint) or set `known_hosts`"
        );
        return SourceFailure::new(SourceErrorKind::HostKey, text);
    }
    if has(&["UNPROTECTED PRIVATE KEY", "bad permissions"]) {
        return SourceFailure::new(
            SourceErrorKind::Local,
            format!("the SSH key for {remote} is readable by others: run `chmod 600` on it"),
        );
    }
    let unreachable = [
        "Could not resolve hostname",
        "Connection refused",
        "Connection timed out",
        "No route to host",
        "Network is unreachable",
        "Connection closed",
        "Connection reset",
        "Connection to",
        "kex_exchange_identification",
        "banner exchange",
    ];
    let kinds: [(&[&str], SourceErrorKind, &str); 4] = [
        (
            &["Permission denied", "publickey", "Too many authentication failures"],
            SourceErrorKind::Denied,
            "denies access",
        ),
        (&["dubious ownership"], SourceErrorKind::Denied, "belongs to another user"),
        (
            &["not appear to be a git repository", "not found", "does not exist"],
            SourceErrorKind::NoRepository,
            "has no repository",
        ),
        (&unreachable, SourceErrorKind::Unreachable, "cannot be reached"),
    ];
    let found = kinds.into_iter().find(|(needles, ..)| has(needles));
    let (kind, what) = found.map_or((SourceErrorKind::Protocol, "fails"), |(_, kind, what)| (kind, what));
    SourceFailure::new(kind, format!("{remote} {what}: {last}"))
}

/// The command that reaches a repository over SSH.
pub(super) fn ssh_command(
    remote: &RemoteSettings,
    address: &SshAddress,
    service: GitService,
    deadline: Deadline,
) -> Command {
    let mut command = child_process::command("ssh");
    // The keys of who runs this command by hand; a service has none.
    command.envs(std::env::var_os(SSH_AGENT).map(|socket| (SSH_AGENT, socket)));
    let mut option = |text: String| {
        command.arg("-o").arg(text);
    };
    let seconds = deadline.remaining().unwrap_or_default().as_secs().max(1);
    for fixed in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "SendEnv=GIT_PROTOCOL",
        "ControlMaster=no",
        "ControlPath=none",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
    ] {
        option(fixed.into());
    }
    option(format!("ConnectTimeout={seconds}"));
    if let Some(known) = &remote.known_hosts {
        option(format!("UserKnownHostsFile=\"{}\"", known.display()));
        option("GlobalKnownHostsFile=/dev/null".into());
    }
    if let Some(key) = &remote.key {
        option("IdentitiesOnly=yes".into());
        command.arg("-i").arg(key);
    }
    if let Some(port) = address.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(user) = address.user.as_ref().or(remote.user.as_ref()) {
        command.arg("-l").arg(user);
    }
    let path = address.path.replace('\'', "'\\''").replace('!', "'\\!'");
    command.arg("-T").arg("--").arg(&address.host).arg(format!("{} '{path}'", service.program()));
    command
}

/// The command that reaches a repository on this host.
pub(super) fn local_command(path: &std::path::Path, service: GitService) -> Command {
    let mut command = child_process::command(service.program());
    command.arg("--").arg(path);
    command
}

/// Runs a credential helper: a shell line and the text for its stdin in, its output out.
pub(super) fn run_helper(line: &str, question: &[u8], deadline: Deadline) -> Result<String, SourceFailure> {
    let mut command = child_process::command("sh");
    command.arg("-c").arg(line);
    let (mut child, mut input, mut output) = GitProcess::spawn(command, MAX_HELPER_OUTPUT, deadline)?;
    // A helper that needs no input has closed its stdin; its output is still used.
    let _ = input.write_all(question);
    drop(input);
    let mut answer = String::new();
    let read = output.read_to_string(&mut answer);
    let name = "the credential helper";
    match read {
        Ok(_) if !child.timer.has_fired() && !answer.is_empty() => Ok(answer),
        _ => match child.take_failure(name) {
            // Whatever the helper prints, its failure is a local error.
            Some(failure) => {
                let kind = if failure.kind == SourceErrorKind::Timeout {
                    SourceErrorKind::Timeout
                } else {
                    SourceErrorKind::Local
                };
                Err(SourceFailure { kind, ..failure })
            }
            None => Ok(answer),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn sh(line: &str) -> Command {
        let mut command = child_process::command("sh");
        command.arg("-c").arg(line);
        command
    }

    #[test]
    fn a_child_and_its_children_end_at_the_deadline() {
        let begun = Instant::now();
        let deadline = Deadline::after(Duration::from_millis(200));
        let (mut child, _input, mut output) =
            GitProcess::spawn(sh("sleep 1000 & sleep 1000"), 10, deadline).unwrap();
        let mut all = Vec::new();
        assert_eq!(output.read_to_end(&mut all).unwrap(), 0);
        assert_eq!(child.take_failure("x").unwrap().kind, SourceErrorKind::Timeout);
        drop(child);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_a_child_prints_is_bounded() {
        let deadline = Deadline::after(Duration::from_secs(20));
        let (mut child, _input, mut output) = GitProcess::spawn(sh("yes"), 1000, deadline).unwrap();
        assert!(output.read_to_end(&mut Vec::new()).is_err());
        assert_eq!(child.take_failure("x").unwrap().kind, SourceErrorKind::TooLarge);
        let (mut child, _input, mut output) =
            GitProcess::spawn(sh("yes err | head -c 100000 >&2"), 1000, deadline).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        assert!(child.take_failure("x").unwrap().message.len() < 400);
    }

    #[test]
    fn ssh_messages_are_understood() {
        for (said, kind) in [
            ("ssh: Could not resolve hostname x: Name or service not known", SourceErrorKind::Unreachable),
            ("ssh: connect to host x port 22: Connection refused", SourceErrorKind::Unreachable),
            ("git@x: Permission denied (publickey).", SourceErrorKind::Denied),
            (
                "No ED25519 host key is known for x and you have requested strict checking.",
                SourceErrorKind::HostKey,
            ),
            (
                "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.",
                SourceErrorKind::HostKey,
            ),
            ("fatal: '/x' does not appear to be a git repository", SourceErrorKind::NoRepository),
            ("fatal: detected dubious ownership in repository at '/x'", SourceErrorKind::Denied),
            ("something else", SourceErrorKind::Protocol),
        ] {
            let failure = explain_stderr("ssh://x/y", said);
            assert_eq!(failure.kind, kind, "{said}");
            assert!(failure.message.contains("ssh://x/y"));
        }
    }

    #[test]
    fn helpers_answer_fail_or_hang() {
        let soon = || Deadline::after(Duration::from_secs(10));
        assert_eq!(
            run_helper("cat; echo password=p #", b"host=h\n", soon()).unwrap(),
            "host=h\npassword=p\n"
        );
        assert_eq!(run_helper("exit 1 #", b"", soon()).unwrap(), "");
        assert_eq!(run_helper("echo broken >&2 #", b"", soon()).unwrap_err().kind, SourceErrorKind::Local);
        let short = Deadline::after(Duration::from_millis(100));
        assert_eq!(run_helper("sleep 100 #", b"", short).unwrap_err().kind, SourceErrorKind::Timeout);
        assert!(run_helper("yes #", b"", soon()).is_err());
    }
}
