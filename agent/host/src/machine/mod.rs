//! The machine that states and functions work on: a root directory, and the programs that run there.
//!
//! Law: nothing here reaches beyond the root. Files are resolved inside it, commands are started in it (`chroot`
//! when it is not `/`), users and groups are those of its own databases. A machine is made once, where the program
//! is put together, and handed down: there is no other way to this host. A machine without programs starts none
//! for any caller (held by `files_are_changed_and_restored_below_the_root`, `commands_run_below_the_root`,
//! `a_check_starts_nothing_and_shows_nothing`).

pub mod account_files;
pub mod account_ids;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use zagent_config::FunctionError;
use zagent_config::child_process::{self, DEFAULT_PATH};

use crate::disk::Disk;
use crate::exec::{self, Dialog, ExecCommand, ExecError, ExitOutcome};
use crate::fs::{FsError, FsRoot};
use crate::machine::account_ids::AccountIds;
use crate::undo::UndoJournal;

/// The largest file that a function reads whole.
const MAX_READ_BYTES: u64 = 64 << 20;

thread_local! {
    /// The program that a machine without programs last refused to this thread.
    static REFUSED: RefCell<Option<OsString>> = const { RefCell::new(None) };
}

/// A machine to work on.
#[derive(Clone, Debug)]
pub struct Machine {
    root: FsRoot,
    account_ids: Arc<AccountIds>,
    /// Why nothing may be started; `None` when programs run.
    no_programs: Option<&'static str>,
    /// Whether templates may run commands of their own.
    pub commands_allowed: bool,
    /// How long a program may take when the caller does not say.
    pub timeout: Duration,
}

impl Machine {
    /// The machine that the agent itself runs on.
    #[must_use]
    pub fn this_host() -> Self {
        Self::with_root(FsRoot::default())
    }

    /// The machine below a directory, such as a mounted image.
    ///
    /// # Errors
    /// Fails when there is no such directory or it cannot be opened.
    pub fn at_root(root: impl AsRef<Path>) -> Result<Self, FsError> {
        Ok(Self::with_root(FsRoot::open(root.as_ref())?))
    }

    fn with_root(root: FsRoot) -> Self {
        let account_ids = Arc::default();
        Self { root, account_ids, no_programs: None, commands_allowed: true, timeout: exec::DEFAULT_TIMEOUT }
    }

    /// The same machine, on which nothing is ever started. `why` goes into the errors.
    #[must_use]
    pub const fn without_programs(mut self, why: &'static str) -> Self {
        self.no_programs = Some(why);
        self
    }

    /// Why nothing is started here; `None` when programs run.
    #[must_use]
    pub const fn programs_refused(&self) -> Option<&'static str> {
        self.no_programs
    }

    /// The program that was refused to this thread since the last call: many callers take a program that does not start
    /// for one that is not installed.
    #[must_use]
    pub fn take_refused(&self) -> Option<String> {
        self.no_programs?;
        REFUSED.take().map(|program| program.to_string_lossy().into_owned())
    }

    fn may_start(&self, command: &ExecCommand) -> Result<(), ExecError> {
        let Some(why) = self.no_programs else { return Ok(()) };
        let program = command.program.clone();
        REFUSED.set(Some(program.clone()));
        Err(ExecError::Refused { program, why })
    }

    /// Forbids or allows commands of templates.
    #[must_use]
    pub const fn allow_commands(mut self, allowed: bool) -> Self {
        self.commands_allowed = allowed;
        self
    }

    /// Sets how long a program may take when the caller does not say.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// True when this is the machine that the agent itself runs on.
    #[must_use]
    pub const fn is_this_host(&self) -> bool {
        self.root.is_host()
    }

    /// Where its paths begin.
    #[must_use]
    pub const fn root(&self) -> &FsRoot {
        &self.root
    }

    /// Its files; every change is noted in the journal first, if there is one.
    #[must_use]
    pub fn disk(&self, journal: Option<Arc<UndoJournal>>) -> Disk {
        Disk::at_root(self.root.clone(), journal)
    }

    /// What its databases of users and groups say, kept until they change.
    pub(crate) fn account_ids(&self) -> &AccountIds {
        &self.account_ids
    }

    /// What a path leads to.
    ///
    /// # Errors
    /// Fails when nothing is there or it cannot be looked at.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        self.root.metadata(path.as_ref(), true)
    }

    /// What stands at a path, a link itself not followed.
    ///
    /// # Errors
    /// Fails when nothing is there or it cannot be looked at.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        self.root.metadata(path.as_ref(), false)
    }

    /// True when a path leads to something.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok()
    }

    /// True when a path leads to a directory.
    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok_and(|meta| meta.is_dir())
    }

    /// True when a path leads to a file.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok_and(|meta| meta.is_file())
    }

    /// True when a path leads to a file that may be run.
    pub(crate) fn is_program(&self, path: impl AsRef<Path>) -> bool {
        let runs = |meta: Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        self.metadata(path).is_ok_and(runs)
    }

    /// Where a path leads, without links.
    ///
    /// # Errors
    /// Fails when nothing is there.
    pub fn canonicalize(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        self.root.canonicalize(path.as_ref())
    }

    /// Where a path leads, as this process can open it: for calls that take nothing but a path.
    ///
    /// # Errors
    /// Fails when not even its directory is there.
    pub fn to_host_path(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        self.root.to_host_path(path.as_ref())
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Fails when it is not there or cannot be opened.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        Ok(self.root.open_path(path.as_ref(), OFlags::RDONLY)?.into())
    }

    /// The bytes of a file, however many.
    ///
    /// # Errors
    /// Fails when it is not there or cannot be read.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A whole text file; `None` when there is none.
    ///
    /// # Errors
    /// Fails when it cannot be read or is too large.
    pub fn read(&self, path: &str) -> Result<Option<String>, FunctionError> {
        match self.metadata(path) {
            Ok(meta) if meta.len() > MAX_READ_BYTES => {
                return Err(FunctionError::failed(format!("`{path}` is larger than {MAX_READ_BYTES} bytes")));
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(path_error("read", path, &e)),
        }
        match self.read_bytes(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(path_error("read", path, &e)),
        }
    }

    /// The names in a directory, sorted; none when it is not there.
    #[must_use]
    pub fn list_dir(&self, path: &str) -> Vec<String> {
        let open = self.root.open_path(Path::new(path), OFlags::RDONLY | OFlags::DIRECTORY);
        let dir = open.and_then(|dir| rustix::fs::Dir::read_from(dir.as_fd()));
        let mut names: Vec<String> = dir
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort_unstable();
        names
    }

    /// Where a link points to.
    #[must_use]
    pub fn read_link(&self, path: &str) -> Option<String> {
        self.root.read_link(Path::new(path)).ok().map(|to| to.to_string_lossy().into_owned())
    }

    /// Where a program is found.
    #[must_use]
    pub fn which(&self, program: &str) -> Option<String> {
        if program.contains('/') {
            return self.is_program(program).then(|| program.to_owned());
        }
        let own = self.is_this_host().then(child_process::search_path).unwrap_or_default();
        own.to_string_lossy()
            .split(':')
            .chain(DEFAULT_PATH.split(':'))
            .filter(|d| d.starts_with('/'))
            .map(|d| format!("{}/{program}", d.trim_end_matches('/')))
            .find(|path| self.is_program(path))
    }

    /// Runs a command there, to its end or to the end of its time.
    ///
    /// # Errors
    /// Fails when the command cannot be started or watched; a command that fails is an `ExitOutcome`.
    pub fn run(&self, command: &ExecCommand) -> Result<ExitOutcome, ExecError> {
        self.may_start(command)?;
        if self.is_this_host() {
            return exec::run(command);
        }
        exec::run(&ExecCommand { root: self.root.clone(), ..command.clone() })
    }

    /// Starts a command of this host that is talked to.
    ///
    /// # Errors
    /// Fails when it cannot be started.
    pub fn start_dialog(&self, command: &ExecCommand) -> Result<Dialog, ExecError> {
        self.may_start(command)?;
        Dialog::start(command)
    }

    /// Starts a command there and leaves it to itself; gives its process id.
    ///
    /// # Errors
    /// Fails when it cannot be started.
    pub(crate) fn spawn_detached(&self, command: &ExecCommand) -> Result<u32, ExecError> {
        self.may_start(command)?;
        exec::spawn_detached(&ExecCommand { root: self.root.clone(), ..command.clone() })
    }

    /// Runs a program of ours that only looks; its words come in English.
    ///
    /// # Errors
    /// Fails when it cannot be started; a program that fails is an answer.
    pub fn run_query(&self, program: &str, args: &[&str]) -> Result<ExitOutcome, FunctionError> {
        let mut command = ExecCommand::new(program).args(args.iter().copied());
        command.timeout = Some(self.timeout);
        command.env = vec![("LC_ALL".into(), "C".into())];
        self.run(&command).map_err(|e| FunctionError::failed(exec::error_message(&e)))
    }
}

/// The refusal of something that could not be done to a path.
pub fn path_error(act: &str, path: &str, error: &io::Error) -> FunctionError {
    FunctionError::failed(format!("cannot {act} `{path}`: {error}"))
}
