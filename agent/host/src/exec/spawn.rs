//! A command in, a running child and our ends of its streams out.
//!
//! The way to start is the cheap one (`posix_spawn`) unless the command asks for another user or the agent has a terminal:
//! session and environment come from `zagent_config::child_process`. What has no safe call
//! (a file mask, supplementary groups) is done by a small program that then becomes the command; the command itself is
//! looked up before, so that what is not there is told as such. The same holds for another root: `chroot` then becomes the
//! command.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::fs::Access;
use zagent_config::child_process::{self, ChildUser, DEFAULT_PATH};

use super::{ExecCommand, ExecError, UserIds};
use crate::fs::FsRoot;

/// How often, and how far apart, a program is tried that somebody is still writing (or has just written).
const BUSY_RETRIES: usize = 10;
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(10);
/// Sets the file mask and becomes the command.
const UMASK_SCRIPT: &str = r#"umask "$0" && exec "$@""#;
/// Goes to a directory and becomes the command.
const CHDIR_SCRIPT: &str = r#"cd "$0" && exec "$@""#;

/// Our ends of the child's streams.
#[derive(Default)]
pub(crate) struct ChildPipes {
    pub stdin: Option<OwnedFd>,
    pub(crate) outputs: [Option<OwnedFd>; 2],
}

/// Where a program is: a path as it is, a name in the directories of `path` (colon-separated).
///
/// # Errors
/// Fails when there is none, and when there is one that may not be run.
pub fn find_program(program: &OsStr, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Ok(program.into());
    }
    let mut outcome = io::ErrorKind::NotFound;
    let own = path.is_none().then(child_process::search_path);
    let dirs = path.or(own.as_deref()).unwrap_or_default();
    for dir in std::env::split_paths(dirs) {
        let file = dir.join(program);
        match rustix::fs::access(&file, Access::EXEC_OK) {
            Ok(()) if file.is_file() => return Ok(file),
            Err(rustix::io::Errno::ACCESS) => outcome = io::ErrorKind::PermissionDenied,
            _ => {}
        }
    }
    Err(match outcome {
        io::ErrorKind::NotFound => io::Error::new(outcome, "there is no such program on the path"),
        _ => outcome.into(),
    })
}

/// The same on a machine that may have another root; the path is one of that machine.
fn find_program_in(root: &FsRoot, program: &OsStr, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if root.is_host() || program.as_bytes().contains(&b'/') {
        return find_program(program, path);
    }
    let dirs = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let is_program = |file: &PathBuf| {
        let runs = |meta: Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        file.is_absolute() && root.metadata(file, true).is_ok_and(runs)
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such program on the path");
    std::env::split_paths(dirs).map(|dir| dir.join(program)).find(is_program).ok_or_else(missing)
}

/// A program that was just written is busy for as long as another thread's new child still holds its file.
pub(crate) fn spawn_with_retry(command: &ExecCommand) -> Result<(Child, ChildPipes), ExecError> {
    let argv = SpawnArgv::for_command(command)?;
    let fail = |source| ExecError::Start { program: command.program.clone(), source };
    for _ in 1..BUSY_RETRIES {
        match spawn_child(command, &argv) {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_RETRY_DELAY),
            outcome => return outcome.map_err(fail),
        }
    }
    spawn_child(command, &argv).map_err(fail)
}

/// Starts a command and leaves it to itself: its output is lost, and nobody ends it. Gives its process id.
///
/// # Errors
/// Fails when it cannot be started.
pub(crate) fn spawn_detached(command: &ExecCommand) -> Result<u32, ExecError> {
    let silent = ExecCommand { output_cap: 0, stdin: Vec::new(), ..command.clone() };
    let (mut child, _) = super::start_checked(&silent)?;
    let pid = child.id();
    // Somebody has to take its exit code, or it stays behind as a dead process.
    std::thread::spawn(move || child.wait());
    Ok(pid)
}

/// What is really started.
struct SpawnArgv {
    program: PathBuf,
    /// What stands before the command's own arguments; the command itself is its last when something is put in front.
    prefix_args: Vec<OsString>,
    is_wrapped: bool,
    ids: Option<(u32, u32)>,
}

impl SpawnArgv {
    fn for_command(command: &ExecCommand) -> Result<Self, ExecError> {
        let path = command.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, v)| v.as_os_str());
        let fail = |source| ExecError::Start { program: command.program.clone(), source };
        let program = find_program_in(&command.root, &command.program, path).map_err(fail)?;
        let mut argv = Self { program, prefix_args: Vec::new(), is_wrapped: false, ids: None };
        if !command.root.is_host() {
            argv.enter_root(command)?;
        } else if let Some(user) = &command.user {
            let become_user = argv.become_user(user, &command.program);
            become_user.map_err(|source| ExecError::User {
                program: command.program.clone(),
                uid: user.uid,
                source,
            })?;
        }
        if let Some(umask) = command.umask {
            let mask = format!("{umask:04o}");
            argv.prepend_program(
                "/bin/sh".into(),
                ["-c".into(), UMASK_SCRIPT.into(), mask.into()],
                &command.program,
            );
        }
        Ok(argv)
    }

    /// Puts a program in front of what is there. The command goes by the name it was given: it shows in its messages.
    fn prepend_program<const N: usize>(&mut self, program: PathBuf, args: [OsString; N], given: &OsStr) {
        let wrapped = std::mem::replace(&mut self.program, program);
        let wrapped = if self.is_wrapped { wrapped.into() } else { given.to_owned() };
        self.prefix_args.splice(0..0, args.into_iter().chain([wrapped]));
        self.is_wrapped = true;
    }

    /// Starts it below another root, by the `chroot` of this host: in its directory, as its user.
    fn enter_root(&mut self, command: &ExecCommand) -> Result<(), ExecError> {
        let fail = |source| ExecError::Start { program: command.program.clone(), source };
        // The program was found below the root, and `chroot` goes by a path of its own.
        let given = self.program.clone().into_os_string();
        if let Some(cwd) = command.cwd.as_ref().filter(|cwd| cwd.as_os_str() != "/") {
            let script = ["-c".into(), CHDIR_SCRIPT.into(), cwd.clone().into_os_string()];
            self.prepend_program("/bin/sh".into(), script, &given);
        }
        let chroot = find_program(OsStr::new("chroot"), Some(OsStr::new(DEFAULT_PATH))).map_err(fail)?;
        let root = command.root.host_path().as_os_str().to_owned();
        match command.user.as_ref().filter(|user| !is_self(user)) {
            None => self.prepend_program(chroot, [root], &given),
            Some(user) => {
                let error =
                    |source| ExecError::User { program: command.program.clone(), uid: user.uid, source };
                must_be_root().map_err(error)?;
                let groups: Vec<String> = user.groups.iter().map(|gid| format!("+{gid}")).collect();
                let args = [
                    format!("--userspec=+{}:+{}", user.uid, user.gid).into(),
                    format!("--groups={}", groups.join(",")).into(),
                    root,
                ];
                self.prepend_program(chroot, args, &given);
            }
        }
        Ok(())
    }

    fn become_user(&mut self, user: &UserIds, given: &OsStr) -> io::Result<()> {
        if is_self(user) {
            return Ok(());
        }
        must_be_root()?;
        let more: Vec<String> =
            user.groups.iter().filter(|g| **g != user.gid).map(ToString::to_string).collect();
        if more.is_empty() {
            self.ids = Some((user.uid, user.gid));
            return Ok(());
        }
        let words = "its groups cannot be set without `setpriv` of util-linux";
        let setpriv = find_setpriv().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, words))?;
        let args = [
            format!("--reuid={}", user.uid),
            format!("--regid={}", user.gid),
            format!("--groups={},{}", user.gid, more.join(",")),
            "--".into(),
        ];
        self.prepend_program(setpriv, args.map(OsString::from), given);
        Ok(())
    }
}

/// True for the user that the agent runs as.
fn is_self(user: &UserIds) -> bool {
    (user.uid, user.gid) == (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Refuses to become another user when the kernel would.
fn must_be_root() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "only root may become another user"))
}

/// The `setpriv` that knows users: BusyBox has one of that name that does not.
fn find_setpriv() -> Option<PathBuf> {
    let found = find_program(OsStr::new("setpriv"), Some(OsStr::new(DEFAULT_PATH))).ok()?;
    let real = found.canonicalize().ok()?;
    (real.file_name() != Some(OsStr::new("busybox"))).then_some(found)
}

fn spawn_child(command: &ExecCommand, argv: &SpawnArgv) -> io::Result<(Child, ChildPipes)> {
    let mut std = child_process::bare_command(&argv.program);
    if !argv.is_wrapped {
        std.arg0(&command.program);
    }
    std.args(&argv.prefix_args).args(&command.args);
    if let Some((uid, gid)) = argv.ids {
        std.uid(uid).gid(gid);
    }
    if !command.clear_env {
        let is_other = command.user.as_ref().is_some_and(|user| !is_self(user));
        std.envs(child_process::inherited(if is_other { ChildUser::Other } else { ChildUser::Same }));
    }
    for name in &command.unset {
        std.env_remove(name);
    }
    std.envs(command.env.iter().map(|(k, v)| (k, v)));
    if let Some(cwd) = command.cwd.as_ref().filter(|_| command.root.is_host()) {
        std.current_dir(cwd);
    }
    let is_piped = command.converses || !command.stdin.is_empty();
    std.stdin(if is_piped { Stdio::piped() } else { Stdio::null() });
    let mut merged = None;
    if command.output_cap == 0 {
        std.stdout(Stdio::null()).stderr(Stdio::null());
    } else if command.merge_stderr {
        let (reader, writer) = io::pipe()?;
        std.stdout(writer.try_clone()?).stderr(writer);
        merged = Some(OwnedFd::from(reader));
    } else {
        std.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = std.spawn()?;
    // The command holds the other end of the merged stream only once ours is closed.
    drop(std);
    if let Some(nice) = command.nice {
        set_nice(&mut child, nice)?;
    }
    let pipes = ChildPipes {
        stdin: child.stdin.take().map(Into::into),
        outputs: [
            merged.or_else(|| child.stdout.take().map(Into::into)),
            child.stderr.take().map(Into::into),
        ],
    };
    for fd in pipes.stdin.iter().chain(pipes.outputs.iter().flatten()) {
        rustix::io::ioctl_fionbio(fd, true)?;
    }
    Ok((child, pipes))
}

fn set_nice(child: &mut Child, nice: i32) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let set = rustix::process::setpriority_process(pid, nice);
    set.map_err(|e| {
        // It has not begun in earnest; what it was asked for cannot be had.
        let _ = child.kill();
        let _ = child.wait();
        e.into()
    })
}
