//! What Salt's commands have in common (`cwd`, `runas`, `env`, `umask`, …) in, something to run out.
//!
//! Law: a line that a shell would only hand on is started without one. What cannot be had (a user, a directory, a
//! shell) is told in Salt's words before anything runs (held by `lines_run_as_a_shell_would_run_them`,
//! `what_cannot_be_had_is_told_in_salts_words`).

#![expect(clippy::disallowed_methods, reason = "a command runs in the home of its user, and has a deadline")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zagent_config::{Map, Value};

use crate::accounts;
use crate::exec::shell_words;
use crate::exec::{ExecCommand, ExecError, ExitOutcome, ExitReason, UserIds};
use crate::machine::account_ids;
use crate::{CancelToken, Machine};

/// The shell when nothing else is said.
pub const DEFAULT_SHELL: &str = "/bin/sh";

/// What the kernel says to a program whose first line names no interpreter (`ENOEXEC`).
const ENOEXEC: i32 = rustix::io::Errno::NOEXEC.raw_os_error();

/// What programs see instead of the agent's own locale, so that their words do not depend on it.
const LOCALE_VARS: [&str; 13] = [
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
    "LANGUAGE",
];

/// Variables that make every program speak plainly.
pub fn c_locale_env() -> impl Iterator<Item = (OsString, OsString)> {
    let all = std::env::var_os("LC_ALL").filter(|v| !v.is_empty());
    let none = all.map(|_| (OsString::from("LC_ALL"), OsString::new()));
    LOCALE_VARS.iter().map(|name| (OsString::from(name), OsString::from("C"))).chain(none)
}

/// A user of a machine.
#[derive(Clone, Debug)]
pub struct RunAsUser {
    /// The name.
    pub name: String,
    /// The home directory.
    pub home: PathBuf,
    /// Ids and groups.
    pub ids: UserIds,
}

impl RunAsUser {
    /// Looks a user up.
    ///
    /// # Errors
    /// Fails with words when there is none.
    pub fn find(machine: &Machine, name: &str) -> Result<Self, String> {
        let unavailable = || format!("User '{name}' is not available");
        let found = accounts::find_user(machine, name).ok().flatten().ok_or_else(unavailable)?;
        let id = |id: i64| u32::try_from(id).map_err(|_| unavailable());
        let (uid, gid) = (id(found.uid)?, id(found.gid)?);
        let groups = account_ids::group_ids(machine, name, gid)?;
        Ok(Self { name: name.to_owned(), home: found.home.into(), ids: UserIds { uid, gid, groups } })
    }
}

/// How a command is run.
#[derive(Clone, Debug, Default)]
pub struct CommandOptions {
    /// Where; the home directory of who runs it when none.
    pub cwd: Option<PathBuf>,
    /// A directory that it sees as the root.
    pub root: Option<PathBuf>,
    /// Who runs it.
    pub runas: Option<RunAsUser>,
    /// The shell; [`DEFAULT_SHELL`] when none.
    pub shell: Option<String>,
    /// Variables on top of the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that it does not see.
    pub unset: Vec<OsString>,
    /// Starts from an empty environment.
    pub clean_env: bool,
    /// Leaves the locale as it is.
    pub keep_locale: bool,
    /// Directories before those of `PATH`.
    pub prepend_path: Option<String>,
    /// The file mask.
    pub umask: Option<u32>,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Both output streams are one.
    pub merge_stderr: bool,
    /// Nobody wants its output.
    pub discard_output: bool,
    /// Stops it.
    pub cancel: Option<Arc<CancelToken>>,
}

/// Which keys of a state are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKeys {
    /// All of a command's own.
    All,
    /// Those that a guard shares with its state.
    Guard,
    /// Only who runs it.
    RunasOnly,
}

impl CommandOptions {
    /// Reads them from the arguments of a state; `skip` names those that do not count.
    ///
    /// # Errors
    /// Fails in Salt's words when one of them cannot be used.
    pub fn from_args(
        machine: &Machine,
        args: &Map,
        keys: OptionKeys,
        skip: &[String],
    ) -> Result<Self, String> {
        let get = |key: &str| args.get(key).filter(|v| !v.is_null() && !skip.iter().any(|s| s == key));
        let text = |key: &str| get(key).map(value_text).filter(|t| !t.is_empty());
        let runas = text("runas").map(|name| RunAsUser::find(machine, &name)).transpose()?;
        let mut options = Self { runas, ..Self::default() };
        if keys == OptionKeys::RunasOnly {
            return Ok(options);
        }
        options.cwd = text("cwd").map(PathBuf::from);
        options.root = text("root").map(PathBuf::from);
        options.shell = text("shell");
        options.env = parse_env(get("env"))?;
        options.prepend_path = text("prepend_path");
        options.timeout = get("timeout").map(parse_timeout).transpose()?.flatten();
        if keys == OptionKeys::All {
            let flag = |key: &str| get(key).is_some_and(Value::is_truthy);
            options.umask = get("umask").map(parse_umask).transpose()?;
            options.clean_env = flag("clean_env");
            options.keep_locale = get("reset_system_locale").is_some_and(|v| !v.is_truthy());
            options.merge_stderr = flag("redirect_stderr");
            if let Some(input) = get("stdin").map(value_text) {
                let raw = flag("stdin_raw_newlines");
                options.stdin = if raw { input } else { input.replace("\\n", "\n") }.into_bytes();
            }
        }
        Ok(options)
    }

    /// Ends it at this time at the latest.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        if let Some(left) = deadline.map(|d| d.saturating_duration_since(Instant::now())) {
            self.timeout = Some(self.timeout.map_or(left, |t| t.min(left)));
        }
        self
    }

    /// Runs a line as the shell would.
    ///
    /// # Errors
    /// Fails with words when it cannot be started.
    pub fn run_line(&self, machine: &Machine, text: &str) -> Result<ExitOutcome, CommandRefused> {
        let shell = self.usable_shell(machine)?;
        if let Some(words) = self.direct_argv(shell, text) {
            match machine.run(&self.command(machine, words)?) {
                // A script without a first line that names its interpreter, or nothing at all: the shell knows what to say.
                Err(ExecError::Start { .. }) => {}
                outcome => return Ok(outcome?),
            }
        }
        Ok(machine.run(&self.command(machine, self.shell_argv(machine, shell, text))?)?)
    }

    /// Starts a line and leaves it to itself; gives its process id.
    ///
    /// # Errors
    /// Fails with words when it cannot be started.
    pub fn spawn_line_detached(&self, machine: &Machine, text: &str) -> Result<u32, CommandRefused> {
        let shell = self.usable_shell(machine)?;
        Ok(machine.spawn_detached(&self.command(machine, self.shell_argv(machine, shell, text))?)?)
    }

    /// Runs a program file; one that names no interpreter is read by the shell.
    ///
    /// # Errors
    /// Fails with words when it cannot be started.
    pub fn run_file(
        &self,
        machine: &Machine,
        file: &Path,
        args: Vec<String>,
    ) -> Result<ExitOutcome, CommandRefused> {
        let mut words = vec![file.to_string_lossy().into_owned()];
        words.extend(args);
        match machine.run(&self.command(machine, words.clone())?) {
            Err(ExecError::Start { source, .. }) if source.raw_os_error() == Some(ENOEXEC) => {
                words.insert(0, self.usable_shell(machine)?.to_owned());
                Ok(machine.run(&self.command(machine, words)?)?)
            }
            outcome => Ok(outcome?),
        }
    }

    fn usable_shell(&self, machine: &Machine) -> Result<&str, CommandRefused> {
        let shell = self.shell.as_deref().unwrap_or(DEFAULT_SHELL);
        if self.root.is_some() || may_run(machine, Path::new(shell)) {
            return Ok(shell);
        }
        Err(CommandRefused::Message(format!("The shell {shell} is not available")))
    }

    /// The words to start when no shell is needed.
    fn direct_argv(&self, shell: &str, text: &str) -> Option<Vec<String>> {
        let reads_more = || self.env.iter().any(|(name, _)| name == "BASH_ENV");
        let is_plain = self.root.is_none() && shell_words::is_posix_shell(shell) && !reads_more();
        is_plain.then(|| shell_words::split_without_shell(text)).flatten()
    }

    fn shell_argv(&self, machine: &Machine, shell: &str, text: &str) -> Vec<String> {
        let Some(root) = &self.root else { return vec![shell.into(), "-c".into(), text.into()] };
        let inside = if machine.is_file(root.join("bin/bash")) { "/bin/bash" } else { DEFAULT_SHELL };
        let mut words = vec!["chroot".to_owned()];
        words.extend(self.runas.as_ref().map(|who| format!("--userspec={}:", who.name)));
        words.extend([root.to_string_lossy().into_owned(), inside.into(), "-c".into(), text.into()]);
        words
    }

    /// What is started for these words.
    ///
    /// # Errors
    /// Fails in Salt's words when the working directory cannot be used.
    pub fn command(&self, machine: &Machine, words: Vec<String>) -> Result<ExecCommand, CommandRefused> {
        let mut words = words.into_iter();
        let program = words.next().ok_or_else(|| CommandRefused::Message("there is no command".into()))?;
        let mut command = ExecCommand::new(program).args(words);
        let cwd = self.working_dir(machine)?;
        command.env = self.build_env();
        if !self.clean_env {
            // A shell would say so; a program that is started without one looks there too.
            command.env.push(("PWD".into(), cwd.clone().into()));
        }
        command.cwd = Some(cwd);
        command.unset.clone_from(&self.unset);
        command.clear_env = self.clean_env;
        command.stdin.clone_from(&self.stdin);
        command.timeout = self.timeout;
        command.merge_stderr = self.merge_stderr;
        command.umask = self.umask;
        // States and templates put secrets into command lines, and the report shows what ran.
        command.hide_args = true;
        command.cancel.clone_from(&self.cancel);
        if self.discard_output {
            command.output_cap = 0;
        }
        if self.root.is_none() {
            command.user = self.runas.as_ref().map(|who| who.ids.clone());
        }
        Ok(command)
    }

    fn working_dir(&self, machine: &Machine) -> Result<PathBuf, CommandRefused> {
        if let Some(cwd) = &self.cwd {
            if cwd.is_absolute() && machine.is_dir(cwd) {
                return Ok(cwd.clone());
            }
            let words = format!("Specified cwd '{}' either not absolute or does not exist", cwd.display());
            return Err(CommandRefused::Message(words));
        }
        let own = || std::env::var_os("HOME").map(PathBuf::from);
        let home = self.runas.as_ref().map(|who| who.home.clone()).or_else(own);
        Ok(home.filter(|h| h.is_absolute() && machine.is_dir(h)).unwrap_or_else(|| "/".into()))
    }

    fn build_env(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = Vec::with_capacity(LOCALE_VARS.len() + self.env.len() + 4);
        if !self.keep_locale {
            env.extend(c_locale_env());
        }
        if let Some(who) = &self.runas {
            env.push(("HOME".into(), who.home.clone().into()));
            env.extend(["USER", "LOGNAME"].map(|name| (name.into(), who.name.as_str().into())));
        }
        env.extend(self.env.iter().cloned());
        if let Some(more) = &self.prepend_path {
            let given = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, v)| v.clone());
            let mut path = OsString::from(format!("{more}:"));
            path.push(given.unwrap_or_else(zagent_config::child_process::search_path));
            env.push(("PATH".into(), path));
        }
        env
    }
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum CommandRefused {
    /// In words.
    #[error("{0}")]
    Message(String),
    /// It could not be started.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// The exit code as Salt counts: a signal is negative, a timeout is 1.
#[must_use]
pub fn salt_retcode(outcome: &ExitOutcome) -> i64 {
    match outcome.reason {
        ExitReason::Exited(code) => code.into(),
        ExitReason::Signaled(signal) => -i64::from(signal),
        ExitReason::TimedOut => 1,
        ExitReason::Cancelled => outcome.shell_code().into(),
    }
}

/// A value as text, as Python's `str` would.
pub fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| zagent_config::value::python_str(value), str::to_owned)
}

fn may_run(machine: &Machine, path: &Path) -> bool {
    if !machine.is_this_host() {
        return machine.is_program(path);
    }
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A mapping, or a list of them; a null is an empty text.
fn parse_env(env: Option<&Value>) -> Result<Vec<(OsString, OsString)>, String> {
    let bad = || "Invalidly-formatted 'env' parameter. See documentation.".to_owned();
    let maps: Vec<&Map> = match env {
        None => return Ok(Vec::new()),
        Some(Value::Map(map)) => vec![map],
        Some(Value::List(list)) => {
            list.iter().map(|v| v.as_map().ok_or_else(bad)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(bad()),
    };
    let entries = maps.into_iter().flat_map(Map::iter);
    entries
        .map(|(name, value)| {
            let (name, value) =
                (value_text(name), if value.is_null() { String::new() } else { value_text(value) });
            let is_sound = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
            if is_sound { Ok((name.into(), value.into())) } else { Err(bad()) }
        })
        .collect()
}

fn parse_umask(value: &Value) -> Result<u32, String> {
    let text = value_text(value);
    let parsed = u32::from_str_radix(&text, 8).ok().filter(|mask| *mask <= 0o777);
    parsed.ok_or_else(|| format!("Invalid umask: {text}"))
}

/// Exit codes that count as success: a list, or a text with commas.
///
/// # Errors
/// Fails in Salt's words when one is no number.
pub fn success_retcodes(value: Option<&Value>) -> Result<Vec<i64>, String> {
    let words = text_list(value);
    let codes = words.iter().map(|w| w.parse()).collect::<Result<Vec<i64>, _>>();
    let codes = codes.map_err(|_| "success_retcodes must be a list of integers".to_owned())?;
    Ok(if words.is_empty() { vec![0] } else { codes })
}

/// The texts of a list, or of a text with commas.
pub fn text_list(value: Option<&Value>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(list)) => list.iter().map(|v| value_text(v).trim().to_owned()).collect(),
        Some(other) => value_text(other).split(',').map(|w| w.trim().to_owned()).collect(),
    }
}

/// Seconds; zero is no limit.
fn parse_timeout(value: &Value) -> Result<Option<Duration>, String> {
    let number = match value {
        Value::Str(text) => text.trim().parse::<f64>().ok(),
        other => other.as_number(),
    };
    match number.map(Duration::try_from_secs_f64) {
        Some(Ok(time)) => Ok((!time.is_zero()).then_some(time)),
        _ => Err(format!("Error: timeout {} must be a number", value_text(value))),
    }
}

#[cfg(test)]
pub mod tests;
