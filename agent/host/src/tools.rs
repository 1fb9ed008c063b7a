//! Programs of the host as states and execution functions use them: asked and told with a time, a stop and plain words.
//!
//! Words, not a shell; a program that fails is told with what it said, and what it said is known to its end.

#![expect(clippy::disallowed_methods, reason = "programs have a deadline")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zagent_config::FunctionError;

use crate::exec::{ExecCommand, ExitReason};
use crate::{CancelToken, Machine};

/// How long a program that changes something may take, when the state does not say.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(3600);

/// The most that a program may say: lists of archives and rules are long. What is cut is not taken for all.
const OUTPUT_CAP: usize = 64 << 20;

/// What a program said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// The code a shell would report.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl CommandOutput {
    /// True when it ended with code 0.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.code == 0
    }

    /// What it complained about, or else printed; without line ends around it.
    #[must_use]
    pub fn message(&self) -> &str {
        let err = self.stderr.trim();
        if err.is_empty() { self.stdout.trim() } else { err }
    }
}

/// Refuses a name that a program would take for an option.
///
/// # Errors
/// Fails when it begins like one.
pub fn refuse_option(what: &str, name: &str) -> Result<(), FunctionError> {
    if name.starts_with('-') {
        return Err(FunctionError::failed(format!("`{name}` is no {what}: it would be taken for an option")));
    }
    Ok(())
}

/// The programs of a machine.
#[derive(Clone, Debug)]
pub struct Tools<'a> {
    /// The machine that they look at.
    pub machine: &'a Machine,
    cancel: Option<&'a Arc<CancelToken>>,
    deadline: Option<Instant>,
}

impl<'a> Tools<'a> {
    /// The programs of a machine.
    #[must_use]
    pub const fn new(machine: &'a Machine) -> Self {
        Self { machine, cancel: None, deadline: None }
    }

    /// The same, ended when somebody says so or when the time is up.
    #[must_use]
    pub const fn with_limits(mut self, cancel: &'a Arc<CancelToken>, deadline: Option<Instant>) -> Self {
        (self.cancel, self.deadline) = (Some(cancel), deadline);
        self
    }

    /// How much time there is; nothing when nobody set a limit.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits for somebody else.
    ///
    /// # Errors
    /// Fails when the run was stopped meanwhile.
    pub fn sleep(&self, time: Duration) -> Result<(), FunctionError> {
        let own = Arc::new(CancelToken::new());
        let cancel = self.cancel.unwrap_or(&own);
        cancel.wait(time);
        if cancel.is_cancelled() { Err(FunctionError::failed("the run was stopped")) } else { Ok(()) }
    }

    /// Where a program is.
    #[must_use]
    pub fn which(&self, program: &str) -> Option<String> {
        self.machine.which(program)
    }

    /// Runs a program that only looks.
    ///
    /// # Errors
    /// Fails when it cannot be started or was ended; a program that fails is an answer.
    pub fn run_query<A: AsRef<str>>(
        &self,
        program: &str,
        args: &[A],
    ) -> Result<CommandOutput, FunctionError> {
        self.run(Self::command(program, args, self.machine.timeout))
    }

    /// Runs a program that changes something.
    ///
    /// # Errors
    /// Fails when it cannot be started or was ended; a program that fails is an answer.
    pub fn run_change<A: AsRef<str>>(
        &self,
        program: &str,
        args: &[A],
    ) -> Result<CommandOutput, FunctionError> {
        self.run(Self::command(program, args, CHANGE_TIMEOUT))
    }

    /// The same, and a program that fails is a refusal with what it said.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn run_checked<A: AsRef<str>>(
        &self,
        program: &str,
        args: &[A],
    ) -> Result<CommandOutput, FunctionError> {
        let output = self.run_change(program, args)?;
        if output.is_success() {
            return Ok(output);
        }
        Err(FunctionError::failed(format!(
            "`{program}` ended with code {}: {}",
            output.code,
            output.message()
        )))
    }

    /// A command with output in English, for callers that set more of it (`env`, `cwd`, `stdin`, `user`).
    #[must_use]
    pub fn command<A: AsRef<str>>(program: &str, args: &[A], timeout: Duration) -> ExecCommand {
        let mut command = ExecCommand::new(program).args(args.iter().map(AsRef::as_ref));
        command.timeout = Some(timeout);
        command.env = vec![("LC_ALL".into(), "C.UTF-8".into()), ("LANGUAGE".into(), "C".into())];
        command.cwd = Some(PathBuf::from("/"));
        command.hide_args = true;
        command.output_cap = OUTPUT_CAP;
        command
    }

    /// Runs a command within the time that there is.
    ///
    /// # Errors
    /// Fails when it cannot be started or was ended; a program that fails is an answer.
    pub fn run(&self, mut command: ExecCommand) -> Result<CommandOutput, FunctionError> {
        command.cancel = self.cancel.map(Arc::clone);
        let left = self.time_left();
        match left {
            // Its time is over before it began: nothing is half-way yet.
            Some(left) if command.uninterruptible && left.is_zero() => {
                let program = command.program.display();
                return Err(FunctionError::failed(format!(
                    "`{program}` was not started: the time of the state is over"
                )));
            }
            Some(left) if !command.uninterruptible => {
                command.timeout = Some(command.timeout.map_or(left, |own| own.min(left)));
            }
            _ => {}
        }
        let started = Instant::now();
        let program = command.program.to_string_lossy().into_owned();
        let outcome =
            self.machine.run(&command).map_err(|e| FunctionError::failed(crate::exec::error_message(&e)))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let output = CommandOutput {
            code: outcome.shell_code(),
            stdout: text(&outcome.stdout),
            stderr: text(&outcome.stderr),
        };
        match outcome.reason {
            ExitReason::TimedOut => {
                let limit = command.timeout.unwrap_or_default();
                Err(FunctionError::failed(format!(
                    "`{program}` was ended after {limit:?}: {}",
                    output.message()
                )))
            }
            ExitReason::Cancelled => {
                Err(FunctionError::failed(format!("`{program}` was ended: the run was stopped")))
            }
            ExitReason::Exited(_) | ExitReason::Signaled(_) if outcome.truncated => {
                let cap = command.output_cap >> 20;
                Err(FunctionError::failed(format!(
                    "`{program}` said more than {cap} MiB, of which the rest is not known"
                )))
            }
            ExitReason::Exited(_) | ExitReason::Signaled(_) => {
                if let Some(left) = left.filter(|left| started.elapsed() > *left) {
                    let took = started.elapsed();
                    tracing::warn!(
                        "`{program}` took {took:.0?}, longer than the {left:.0?} of the state: ended before, it would have left the host half-way"
                    );
                }
                Ok(output)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_does_not_end_what_must_not_be_left_half_way() {
        let machine = Machine::this_host();
        let cancel = Arc::new(CancelToken::new());
        let soon = || Some(Instant::now() + Duration::from_millis(50));
        let sleep = |finishes: bool| {
            let mut command = Tools::command("sleep", &["0.3"], Duration::from_secs(60));
            command.uninterruptible = finishes;
            Tools::new(&machine).with_limits(&cancel, soon()).run(command)
        };
        assert!(sleep(false).is_err_and(|e| e.message().contains("was ended after")));
        assert!(sleep(true).is_ok_and(|output| output.is_success()));

        let mut late = Tools::command("true", &[""; 0], Duration::from_secs(60));
        late.uninterruptible = true;
        let over = Tools::new(&machine).with_limits(&cancel, Some(Instant::now())).run(late);
        assert!(over.is_err_and(|e| e.message().contains("was not started")));
    }
}
