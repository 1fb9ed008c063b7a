//! States of the module `exec`: a command that runs when it has to, and not otherwise.
//!
//! Law: who subscribes is triggered before anything else counts; then a file that `creates` names, then the guards,
//! then `refresh_only`. A guard that fails is an answer, a guard that cannot start is a failure (held by
//! `decision_table`, `a_guard_that_fails_is_an_answer_and_one_that_cannot_start_is_not`).

pub mod decide;

use std::ffi::OsString;
use std::path::PathBuf;

use zagent_config::settings::parse_duration;
use zagent_config::{Map, Value};

use self::decide::{ExecDecision, ExecFacts, decide};
use super::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, State, StateCtx, StateError, StateModule,
};
use zagent_config::error_chain;
use zagent_host::command_options::{CommandOptions, OptionKeys, salt_retcode, value_text};
use zagent_host::exec::shell_words;
use zagent_host::exec::{ExitOutcome, ExitReason};

/// The module `exec`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "exec",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    (fun == "run").then(|| ExecRun::read(args).map(|exec| Box::new(exec) as Box<dyn State>))
}

/// How a command line is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecProvider {
    /// Its words are started as they are.
    Posix,
    /// `/bin/sh -c`.
    Shell,
}

#[derive(Debug)]
struct ExecRun {
    tag: String,
    command: String,
    provider: ExecProvider,
    args: Map,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    timeout: Option<std::time::Duration>,
    expected_codes: Vec<i64>,
    creates: Option<PathBuf>,
    onlyif: Option<String>,
    unless: Option<String>,
    refresh_only: bool,
    logs: bool,
    /// Set once a subscription has triggered it.
    is_triggered: bool,
}

impl ExecRun {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let provider = match args.text("provider")?.as_deref() {
            None | Some("posix") => ExecProvider::Posix,
            Some("shell") => ExecProvider::Shell,
            Some(other) => {
                return Err(StateError::new(format!("exec has the providers posix and shell, not {other}")));
            }
        };
        let command = args.text("command")?.unwrap_or_else(|| args.name());
        let mut env = parse_environment(args.get("environment"))?;
        if let Some(path) = args.text("path")? {
            env.push(("PATH".into(), search_path(&path)?.into()));
        }
        let timeout = match args.get("timeout") {
            None => None,
            Some(value) => {
                let parsed = value.as_number().map_or_else(
                    || value.as_str().and_then(parse_duration),
                    |seconds| std::time::Duration::try_from_secs_f64(seconds).ok(),
                );
                let words = || {
                    StateError::new(format!(
                        "`timeout` must be a time such as 30s, not {}",
                        value_text(value)
                    ))
                };
                Some(parsed.filter(|t| !t.is_zero()).ok_or_else(words)?)
            }
        };
        let exec = Self {
            tag: args.chunk.tag(),
            command,
            provider,
            args: args.chunk.args.clone(),
            env,
            stdin: args.text("stdin")?.unwrap_or_default().into_bytes(),
            timeout,
            expected_codes: parse_exit_codes(args.get("returns"))?,
            creates: args.path("creates")?,
            onlyif: args.text("onlyif")?,
            unless: args.text("unless")?,
            refresh_only: args.flag("refresh_only", false),
            logs: args.flag("logoutput", false),
            is_triggered: false,
        };
        for line in [Some(&exec.command), exec.onlyif.as_ref(), exec.unless.as_ref()].into_iter().flatten() {
            exec.argv(line)?;
        }
        Ok(exec)
    }

    /// What is started for a line.
    fn argv(&self, line: &str) -> Result<Vec<String>, StateError> {
        if self.provider == ExecProvider::Shell {
            return Ok(vec![zagent_host::command_options::DEFAULT_SHELL.into(), "-c".into(), line.into()]);
        }
        match shell_words::split(line) {
            None => Err(StateError::new(format!("a quotation mark is not closed in `{line}`"))),
            Some(words) if words.is_empty() => Err(StateError::new("there is no command")),
            Some(words) => Ok(words),
        }
    }

    /// Runs a line: the command, or a guard, which shares all but the output.
    fn run(&self, line: &str, is_guard: bool, ctx: &StateCtx<'_>) -> Result<ExitOutcome, String> {
        let runas = ctx.command_options(&self.args, OptionKeys::RunasOnly, &[])?;
        let cwd = self.args.get("cwd").filter(|v| v.is_truthy()).map(|v| PathBuf::from(value_text(v)));
        let mut env = runas.env.clone();
        env.extend(self.env.iter().cloned());
        let umask = if is_guard {
            None
        } else {
            CommandOptions::from_args(ctx.machine, &self.single_arg("umask"), OptionKeys::All, &[])?.umask
        };
        let options = CommandOptions {
            cwd,
            env,
            umask,
            stdin: if is_guard { Vec::new() } else { self.stdin.clone() },
            timeout: self.timeout,
            keep_locale: true,
            discard_output: is_guard,
            ..runas
        };
        let words = self.argv(line).map_err(|f| f.result.comment)?;
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
        Ok(match &self.creates {
            Some(path) => ctx.fs.stat(path)?.is_some(),
            None => false,
        })
    }

    /// What there is to do. Guards are asked only when their answer counts.
    fn decision(&self, ctx: &StateCtx<'_>) -> Result<ExecDecision, StateError> {
        let mut found = ExecFacts {
            is_triggered: self.is_triggered,
            is_created: self.is_created(ctx)?,
            refresh_only: self.refresh_only,
            ..ExecFacts::default()
        };
        if !found.is_triggered && !found.is_created {
            found.onlyif = self.run_guard("onlyif", self.onlyif.as_ref(), ctx)?;
            if found.onlyif != Some(false) {
                found.unless = self.run_guard("unless", self.unless.as_ref(), ctx)?;
            }
        }
        Ok(decide(&found))
    }

    fn predict_run(&self, decision: ExecDecision) -> CheckResult {
        let changes = || Map::from_iter([("cmd", self.command.as_str())]);
        match decision {
            ExecDecision::Execute => CheckResult::drifted("Would have executed", changes()),
            ExecDecision::Refresh => CheckResult::drifted("Would have executed via subscribe", changes()),
            ExecDecision::Created => {
                let path = self.creates.as_deref().unwrap_or_else(|| std::path::Path::new(""));
                CheckResult::in_sync(format!("{} exists", path.display()))
            }
            ExecDecision::OnlyifFailed => CheckResult::in_sync("onlyif condition is false"),
            ExecDecision::UnlessSucceeded => CheckResult::in_sync("unless condition is true"),
            ExecDecision::RefreshOnly => {
                CheckResult::in_sync("refresh_only: nothing it subscribes to has changed")
            }
        }
    }

    /// Runs the command, and says whether things are then as they should be.
    fn execute(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let command = &self.command;
        let outcome = self.run(command, false, ctx).map_err(StateError::new)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let (code, stdout, stderr) = (salt_retcode(&outcome), text(&outcome.stdout), text(&outcome.stderr));
        if self.logs {
            for line in stdout.lines().chain(stderr.lines()) {
                tracing::info!(exec = %self.tag, "{line}");
            }
        }
        let changes = Map::from_iter([
            ("pid", Value::Int(outcome.pid.into())),
            ("retcode", Value::Int(code)),
            ("stdout", stdout.into()),
            ("stderr", stderr.into()),
        ]);
        let via = if self.is_triggered { " via subscribe" } else { "" };
        let done = |comment: String| ApplyResult::new(comment, changes).with_detail("retcode", code);
        match outcome.reason {
            ExitReason::TimedOut => {
                return Err(done(format!("Command \"{command}\" did not end in time")).into());
            }
            ExitReason::Cancelled => {
                return Err(done(format!("Command \"{command}\" was ended: the run was stopped")).into());
            }
            ExitReason::Exited(_) | ExitReason::Signaled(_) => {}
        }
        if self.creates.is_some() && self.is_created(ctx)? || self.expected_codes.contains(&code) {
            return Ok(done(format!("Command \"{command}\" executed{via}")));
        }
        let wanted = self.expected_codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(done(format!("Command \"{command}\" executed{via} and returned {code}, not one of: {wanted}"))
            .into())
    }
}

impl State for ExecRun {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.is_triggered = !ctx.shared.watched_changes(&self.tag).is_empty();
        Ok(self.predict_run(self.decision(ctx)?))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.execute(ctx)
    }

    fn predict_reaction(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(self.predict_run(ExecDecision::Refresh))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.is_triggered = true;
        self.execute(ctx)
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("what a command did cannot be undone")
    }

    fn is_convergent(&self) -> bool {
        false
    }

    fn check_cost(&self) -> CheckCost {
        if self.onlyif.is_some() || self.unless.is_some() { CheckCost::Heavy } else { CheckCost::Light }
    }
}

/// `KEY=value` each; mappings count too.
fn parse_environment(value: Option<&Value>) -> Result<Vec<(OsString, OsString)>, StateError> {
    let bad = |v: &Value| StateError::new(format!("`environment` holds {}, not KEY=value", value_text(v)));
    let items: Vec<&Value> = match value {
        None => return Ok(Vec::new()),
        Some(Value::List(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    let mut env: Vec<(String, String)> = Vec::new();
    for item in items {
        match item {
            Value::Map(map) => env.extend(map.iter().map(|(k, v)| (value_text(k), value_text(v)))),
            Value::Str(text) => {
                let (key, value) = text.split_once('=').ok_or_else(|| bad(item))?;
                env.push((key.to_owned(), value.to_owned()));
            }
            other => return Err(bad(other)),
        }
        if env.iter().any(|(k, v)| k.is_empty() || k.contains(['=', '\0']) || v.contains('\0')) {
            return Err(bad(item));
        }
    }
    Ok(env.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
}

/// Absolute directories with colons between them.
fn search_path(path: &str) -> Result<String, StateError> {
    match path.split(':').find(|dir| !dir.starts_with('/')) {
        None => Ok(path.to_owned()),
        Some(dir) => Err(StateError::new(format!("`path` holds `{dir}`, which is no absolute directory"))),
    }
}

/// Exit codes; 0 when none are given.
fn parse_exit_codes(value: Option<&Value>) -> Result<Vec<i64>, StateError> {
    let items: Vec<&Value> = match value {
        None => Vec::new(),
        Some(Value::List(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    let code = |v: &Value| {
        let number = v.as_int().or_else(|| v.as_str()?.trim().parse().ok());
        number.ok_or_else(|| StateError::new(format!("`returns` holds {}, not an exit code", value_text(v))))
    };
    let codes = items.into_iter().map(code).collect::<Result<Vec<_>, _>>()?;
    Ok(if codes.is_empty() { vec![0] } else { codes })
}

#[cfg(test)]
pub mod tests;
