//! States of the module `exec`: a command that runs when it has to, and not otherwise.
//!
//! Law: a trigger by `subscribe` decides before anything else; then a file that `creates` names, then the guards,
//! then `refresh_only`. A guard that fails is an answer, a guard that cannot start is a failure, also of a state that
//! was triggered (held by `decision_table`, `a_guard_that_fails_is_an_answer_and_one_that_cannot_start_is_not`).

pub mod decide;
pub(crate) mod params;

use zagent_config::{Map, Value};

use self::decide::{ExecDecision, ExecFacts, decide};
use self::params::ExecSettings;
use super::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, State, StateCtx, StateError, StateModule,
};
use zagent_config::error_chain;
use zagent_host::command_options::{CommandOptions, OptionKeys, salt_retcode};
use zagent_host::exec::{ExitOutcome, ExitReason};

/// The module `exec`.
pub(crate) const MODULE: StateModule =
    StateModule { name: "exec", build, functions: &[], undo: &[], description: DESCRIPTION };

/// Its functions and parameters in words.
const DESCRIPTION: &str = include_str!("description.txt");

/// The log target of the output that `logoutput` asks for: it is shown without `-v`.
pub const LOGGED_OUTPUT: &str = "zagent::logoutput";

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    (fun == "run").then(|| ExecRun::read(args).map(|exec| Box::new(exec) as Box<dyn State>))
}

#[derive(Debug)]
struct ExecRun {
    tag: String,
    args: Map,
    settings: ExecSettings,
    /// Set once a subscription has triggered it.
    is_triggered: bool,
    /// What the last look found, for the details of the report.
    found: ExecFacts,
}

impl ExecRun {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let settings = ExecSettings::read(args.chunk).map_err(|faults| {
            StateError::new(faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>().join("\n"))
        })?;
        Ok(Self {
            tag: args.chunk.tag(),
            args: args.chunk.args.clone(),
            settings,
            is_triggered: false,
            found: ExecFacts::default(),
        })
    }

    /// Runs a line: the command, or a guard, which shares all but the output.
    fn run(&self, line: &str, is_guard: bool, ctx: &StateCtx<'_>) -> Result<ExitOutcome, String> {
        let runas = ctx.command_options(&self.args, OptionKeys::RunasOnly, &[])?;
        let mut env = runas.env.clone();
        env.extend(self.settings.env.iter().cloned());
        let umask = if is_guard {
            None
        } else {
            CommandOptions::from_args(ctx.machine, &self.single_arg("umask"), OptionKeys::All, &[])?.umask
        };
        let options = CommandOptions {
            cwd: self.settings.cwd.clone(),
            env,
            umask,
            stdin: if is_guard { Vec::new() } else { self.settings.stdin.clone() },
            timeout: self.settings.timeout,
            keep_locale: true,
            discard_output: is_guard,
            ..runas
        };
        let words = self.settings.argv(line).map_err(|(message, _)| message)?;
        let command =
            options.with_deadline(ctx.deadline).command(ctx.machine, words).map_err(|e| error_chain(&e))?;
        ctx.machine.run(&command).map_err(|e| error_chain(&e))
    }

    fn single_arg(&self, key: &str) -> Map {
        self.args.get(key).map(|v| Map::from_iter([(key, v.clone())])).unwrap_or_default()
    }

    /// True when a guard exits with 0; nothing when there is no such guard.
    fn run_guard(
        &self,
        name: &str,
        line: Option<&String>,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<bool>, StateError> {
        let Some(line) = line else { return Ok(None) };
        let failed = |why: &str| StateError::new(format!("cannot tell whether `{name}` holds: {why}"));
        let outcome = self.run(line, true, ctx).map_err(|e| failed(&e))?;
        match outcome.reason {
            ExitReason::Exited(code) => Ok(Some(code == 0)),
            ExitReason::Signaled(_) => Ok(Some(false)),
            ExitReason::TimedOut => Err(failed(&format!("`{line}` did not end in time"))),
            ExitReason::Cancelled => Err(failed("the run was stopped")),
        }
    }

    fn is_created(&self, ctx: &StateCtx<'_>) -> Result<bool, StateError> {
        Ok(match &self.settings.creates {
            Some(path) => ctx.fs.stat(path)?.is_some(),
            None => false,
        })
    }

    /// What there is to do. The guards are evaluated also for a subscription, so that one that cannot start shows; only
    /// the file of `creates` makes them superfluous.
    fn decision(&mut self, ctx: &StateCtx<'_>) -> Result<ExecDecision, StateError> {
        self.found = ExecFacts {
            is_triggered: self.is_triggered,
            is_created: self.is_created(ctx)?,
            refresh_only: self.settings.refresh_only,
            ..ExecFacts::default()
        };
        if !self.found.is_created {
            let (onlyif, unless) = (self.settings.onlyif.as_ref(), self.settings.unless.as_ref());
            self.found.onlyif =
                self.run_guard("onlyif", onlyif, ctx).map_err(|failure| self.with_details(failure))?;
            if self.found.onlyif != Some(false) || self.is_triggered {
                self.found.unless =
                    self.run_guard("unless", unless, ctx).map_err(|failure| self.with_details(failure))?;
            }
        }
        Ok(decide(&self.found))
    }

    /// What was found, for the details of the report; guards that were not evaluated are null.
    fn details(&self, exit_code: Option<i64>) -> Map {
        let answer = |said: Option<bool>| said.map_or(Value::Null, Value::Bool);
        Map::from_iter([
            ("creates_satisfied", Value::Bool(self.found.is_created)),
            ("onlyif_satisfied", answer(self.found.onlyif)),
            ("unless_satisfied", answer(self.found.unless)),
            ("exit_code", exit_code.map_or(Value::Null, Value::Int)),
        ])
    }

    fn with_details(&self, mut failure: StateError) -> StateError {
        failure.result.details = self.details(None);
        failure
    }

    fn predict_run(&self, decision: ExecDecision) -> CheckResult {
        let changes = || Map::from_iter([("cmd", self.settings.command.as_str())]);
        let look = match decision {
            ExecDecision::Execute => CheckResult::drifted("Would have executed", changes()),
            ExecDecision::Refresh => CheckResult::drifted("Would have executed via subscribe", changes()),
            ExecDecision::Created => {
                let path = self.settings.creates.as_deref().unwrap_or_else(|| std::path::Path::new(""));
                CheckResult::in_sync(format!("{} exists", path.display()))
            }
            ExecDecision::OnlyifFailed => CheckResult::in_sync("onlyif condition is false"),
            ExecDecision::UnlessSucceeded => CheckResult::in_sync("unless condition is true"),
            ExecDecision::RefreshOnly => {
                CheckResult::in_sync("refresh_only: nothing it subscribes to has changed")
            }
        };
        look.with_details(self.details(None))
    }

    /// Runs the command, and says whether things are then as they should be.
    fn execute(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let command = &self.settings.command;
        let outcome =
            self.run(command, false, ctx).map_err(|words| self.with_details(StateError::new(words)))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let (code, stdout, stderr) = (salt_retcode(&outcome), text(&outcome.stdout), text(&outcome.stderr));
        if self.settings.logs {
            for line in stdout.lines().chain(stderr.lines()) {
                tracing::info!(target: LOGGED_OUTPUT, exec = %self.tag, "{line}");
            }
        }
        let changes = Map::from_iter([
            ("pid", Value::Int(outcome.pid.into())),
            ("retcode", Value::Int(code)),
            ("stdout", stdout.into()),
            ("stderr", stderr.into()),
        ]);
        let via = if self.is_triggered { " via subscribe" } else { "" };
        let has_exited = matches!(outcome.reason, ExitReason::Exited(_) | ExitReason::Signaled(_));
        let done = |comment: String| {
            let mut details = self.details(has_exited.then_some(code));
            details.insert("retcode", code);
            ApplyResult { details, ..ApplyResult::new(comment, changes) }
        };
        match outcome.reason {
            ExitReason::TimedOut => {
                return Err(done(format!("Command \"{command}\" did not end in time")).into());
            }
            ExitReason::Cancelled => {
                return Err(done(format!("Command \"{command}\" was ended: the run was stopped")).into());
            }
            ExitReason::Exited(_) | ExitReason::Signaled(_) => {}
        }
        let expected = &self.settings.expected_codes;
        if self.settings.creates.is_some() && self.is_created(ctx)? || expected.contains(&code) {
            return Ok(done(format!("Command \"{command}\" executed{via}")));
        }
        let wanted = expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(done(format!("Command \"{command}\" executed{via} and returned {code}, not one of: {wanted}"))
            .into())
    }
}

impl State for ExecRun {
    fn runs_command(&self) -> bool {
        true
    }

    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.is_triggered = !ctx.shared.watched_changes(&self.tag).is_empty();
        let decision = self.decision(ctx)?;
        Ok(self.predict_run(decision))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.execute(ctx)
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.is_triggered = true;
        let decision = self.decision(ctx)?;
        Ok(self.predict_run(decision))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.is_triggered = true;
        self.decision(ctx)?;
        self.execute(ctx)
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("what a command did cannot be undone")
    }

    fn is_convergent(&self) -> bool {
        false
    }

    fn check_cost(&self) -> CheckCost {
        if self.settings.onlyif.is_some() || self.settings.unless.is_some() {
            CheckCost::Heavy
        } else {
            CheckCost::Light
        }
    }
}

#[cfg(test)]
pub mod tests;
