//! The machine that functions look at: a root directory and what may be run there.
//!
//! Queries change nothing. Tests use a root of their own.

#![expect(clippy::disallowed_methods, reason = "programs are looked up in the agent's own `PATH`")]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zagent_config::FunctionError;

use super::exec::{self, ExecCommand, ExitOutcome};

/// Where programs are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The largest file that a function reads whole.
const MAX_READ_BYTES: u64 = 64 << 20;

/// A machine to look at.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    /// Whether templates may run commands of their own.
    pub commands_allowed: bool,
    /// How long a program may take when the caller does not say.
    pub timeout: Duration,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn new() -> Self {
        Self::at("/")
    }

    /// The machine below a directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), commands_allowed: true, timeout: exec::DEFAULT_TIMEOUT }
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
    pub fn is_this_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path of the machine as this process opens it.
    pub fn path(&self, path: &str) -> PathBuf {
        if self.is_this_host() { PathBuf::from(path) } else { self.root.join(path.trim_start_matches('/')) }
    }

    /// A whole text file; `None` when there is none.
    pub fn read(&self, path: &str) -> Result<Option<String>, FunctionError> {
        let file = self.path(path);
        match fs::metadata(&file) {
            Ok(meta) if meta.len() > MAX_READ_BYTES => {
                return Err(FunctionError::failed(format!("`{path}` is larger than {MAX_READ_BYTES} bytes")));
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(path_error("read", path, &e)),
        }
        match fs::read(&file) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(path_error("read", path, &e)),
        }
    }

    /// The names in a directory, sorted; none when it is not there.
    pub fn list_dir(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(path))
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        names
    }

    /// Where a link points to.
    pub fn read_link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok().map(|p| p.to_string_lossy().into_owned())
    }

    /// Where a program is found.
    pub fn which(&self, program: &str) -> Option<String> {
        let runs = |path: &str| {
            let meta = fs::metadata(self.path(path));
            meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        if program.contains('/') {
            return runs(program).then(|| program.to_owned());
        }
        let own = std::env::var("PATH").ok().filter(|_| self.is_this_host());
        let dirs = own.as_deref().unwrap_or(DEFAULT_PATH).to_owned();
        dirs.split(':')
            .chain(DEFAULT_PATH.split(':'))
            .filter(|d| d.starts_with('/'))
            .map(|d| format!("{}/{program}", d.trim_end_matches('/')))
            .find(|p| runs(p))
    }

    /// Runs a program of ours that only looks; its words come in English.
    pub fn run_query(&self, program: &str, args: &[&str]) -> Result<ExitOutcome, FunctionError> {
        let mut command = ExecCommand::new(program).args(args.iter().copied());
        command.timeout = Some(self.timeout);
        command.env = vec![("LC_ALL".into(), "C".into())];
        exec::run(&command).map_err(|e| FunctionError::failed(exec::error_message(&e)))
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

/// The refusal of something that could not be done to a path.
pub fn path_error(act: &str, path: &str, error: &io::Error) -> FunctionError {
    FunctionError::failed(format!("cannot {act} `{path}`: {error}"))
}
