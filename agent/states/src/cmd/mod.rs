//! States of the module `cmd`: commands and scripts.
//!
//! A command is an act, not a condition: it runs whenever nothing holds it back, and nobody can undo it.

pub mod functions;

pub mod script;
pub(crate) mod stateful;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, FileTemplate, State, StateCtx,
    StateError, StateModule,
};
use zagent_config::error_chain;
use zagent_host::command_options::{
    CommandOptions, CommandRefused, OptionKeys, salt_retcode, success_retcodes, text_list, value_text,
};
use zagent_host::exec::{ExitOutcome, ExitReason, shell_preview};

/// The module `cmd`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "cmd",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let (act, waits) = match fun {
        "run" => (CmdFunction::Run, false),
        "wait" | "watch" => (CmdFunction::Run, true),
        "script" => (CmdFunction::Script, false),
        "wait_script" => (CmdFunction::Script, true),
        "call" | "wait_call" => {
            let words =
                format!("cmd.{fun} calls a Python function, and there is no Python here: use cmd.run");
            return Some(Err(StateError::new(words)));
        }
        _ => return None,
    };
    let env = args.chunk.args.get("saltenv").map_or_else(|| args.chunk.env.to_string(), value_text);
    Some(Ok(Box::new(CmdState {
        function: act,
        watch_only: waits,
        name: args.name(),
        env,
        args: args.chunk.args.clone(),
        extra: crate::template_args::extra_variables(args),
    })))
}

/// Arguments that change what a command line means or how its end is judged.
const SHELL_ARGUMENTS: [&str; 17] = [
    "runas",
    "shell",
    "env",
    "root",
    "template",
    "stateful",
    "bg",
    "stdin",
    "umask",
    "prepend_path",
    "python_shell",
    "success_retcodes",
    "success_stdout",
    "success_stderr",
    "args",
    "use_vt",
    "password",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CmdFunction {
    Run,
    Script,
}

/// A state that runs a command or a script.
pub struct CmdState {
    function: CmdFunction,
    /// It runs only for a watch.
    watch_only: bool,
    name: String,
    env: String,
    args: Map,
    /// Arguments that only the template of a script reads.
    extra: Map,
}

/// What a command did, as the changes of its state show it.
pub struct CmdResult {
    pid: i64,
    /// None for one that was left to itself.
    code: Option<i64>,
    stdout: String,
    stderr: String,
    /// Set when the script could not be had.
    is_missing: bool,
    timed_out: bool,
    cancelled: bool,
}

impl CmdResult {
    fn changes(&self) -> Map {
        let mut changes = Map::new();
        changes.insert("pid", self.pid);
        changes.insert("retcode", self.code.map_or(Value::Null, Value::Int));
        changes.insert("stdout", self.stdout.as_str());
        changes.insert("stderr", self.stderr.as_str());
        if self.is_missing {
            changes.insert("cache_error", true);
        }
        changes
    }
}

impl CmdState {
    fn flag(&self, key: &str) -> bool {
        self.args.get(key).is_some_and(Value::is_truthy)
    }

    /// The command's name in a comment: `cmd.run` and `cmd.script` quote differently.
    fn quoted(&self, name: &str) -> String {
        match self.function {
            CmdFunction::Run => format!("Command \"{name}\""),
            CmdFunction::Script => format!("Command '{name}'"),
        }
    }

    fn is_stateful(&self) -> bool {
        matches!(self.args.get("stateful"), Some(Value::Bool(true) | Value::List(_) | Value::Map(_)))
    }

    /// The command that a dry run may run in its stead.
    fn test_name(&self) -> Option<&str> {
        let first = match self.args.get("stateful")? {
            Value::List(list) => list.first()?,
            other => other,
        };
        first.get("test_name").and_then(Value::as_str)
    }

    /// What is wrong with the arguments, whatever is done with them.
    fn verify_args(&self) -> Result<(), StateError> {
        let env = self.args.get("env");
        if !matches!(env, None | Some(Value::Null | Value::List(_) | Value::Map(_))) {
            return Err(StateError::new("Invalidly-formatted 'env' parameter. See documentation."));
        }
        for key in ["context", "defaults"].into_iter().filter(|_| self.function == CmdFunction::Script) {
            if self.args.get(key).is_some_and(|v| v.is_truthy() && v.as_map().is_none()) {
                let words = format!("Invalidly-formatted '{key}' parameter. Must be formed as a dict.");
                return Err(StateError::new(words));
            }
        }
        Ok(())
    }

    /// What would be done.
    fn predict_run(&self) -> Result<CheckResult, StateError> {
        self.verify_args()?;
        if self.is_stateful() {
            return Ok(CheckResult::drifted("", Map::new()));
        }
        let mut changes = Map::new();
        if self.function == CmdFunction::Run {
            changes.insert("cmd", self.name.as_str());
        }
        Ok(CheckResult::drifted(format!("{} would have been executed", self.quoted(&self.name)), changes))
    }

    /// Runs it under this name.
    fn execute(&self, name: &str, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.verify_args()?;
        self.verify_directory(ctx)?;
        let options = ctx.command_options(&self.args, OptionKeys::All, &[]).map_err(StateError::new)?;
        let ran = match self.function {
            CmdFunction::Run => self.run(name, &options, ctx)?,
            CmdFunction::Script => script::run_script(self, name, options, ctx)?,
        };
        let mut comment = format!("{} run", self.quoted(name));
        if ran.is_missing {
            let source = self.args.get("source").map_or_else(|| name.to_owned(), value_text);
            comment = format!("Unable to cache script {source} from saltenv '{}'", self.env);
        }
        if ran.cancelled {
            comment = format!("{} was ended: the run was stopped", self.quoted(name));
        }
        let succeeded = matches!(ran.code, None | Some(0));
        let done = ApplyResult::new(comment, ran.changes())
            .with_detail("retcode", ran.code.map_or(Value::Null, Value::Int));
        let (done, succeeded) = if self.is_stateful() && !ran.cancelled {
            stateful::reinterpret(done, succeeded, ctx.compat)
        } else {
            (done, succeeded)
        };
        if succeeded { Ok(done) } else { Err(done.into()) }
    }

    /// The command line when it can be followed without running it: one for the default shell, as this user, in this environment.
    fn preview_line(&self) -> Option<shell_preview::ShellPreview> {
        let is_plain = self.function == CmdFunction::Run
            && !SHELL_ARGUMENTS.iter().any(|key| self.args.get(key).is_some_and(|v| !v.is_null()));
        let cwd = self.args.get("cwd").filter(|v| v.is_truthy()).map(value_text);
        is_plain.then(|| shell_preview::parse(&self.name, cwd.as_deref().map(std::path::Path::new))).flatten()
    }

    fn verify_directory(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some(cwd) = self.args.get("cwd").filter(|v| v.is_truthy()).map(value_text) else { return Ok(()) };
        let path = std::path::Path::new(&cwd);
        let stat = if path.is_absolute() { ctx.fs.stat(path)? } else { None };
        if stat.is_some_and(|s| s.kind == zagent_host::fs::FileKind::Dir) {
            return Ok(());
        }
        Err(StateError::new(format!("Desired working directory \"{cwd}\" is not available")))
    }

    fn run(&self, name: &str, options: &CommandOptions, ctx: &StateCtx<'_>) -> Result<CmdResult, StateError> {
        let rendered = if self.flag("template") {
            Some(self.render(name.to_owned(), name, Map::new(), ctx)?)
        } else {
            None
        };
        let line = rendered.as_deref().unwrap_or(name);
        if self.flag("bg") {
            let pid = options.spawn_line_detached(ctx.machine, line).map_err(|e| refused_error(&e))?;
            return Ok(CmdResult { pid: pid.into(), ..CmdResult::without_output() });
        }
        let outcome = options.run_line(ctx.machine, line).map_err(|e| refused_error(&e))?;
        self.interpret_outcome(&outcome, name, options)
    }

    /// What a command did, with what the state says about success.
    fn interpret_outcome(
        &self,
        outcome: &ExitOutcome,
        name: &str,
        options: &CommandOptions,
    ) -> Result<CmdResult, StateError> {
        let hidden = self.flag("hide_output");
        let strip = self.args.get("rstrip").is_none_or(Value::is_truthy);
        let show = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if strip { text.trim_end().to_owned() } else { text.into_owned() }
        };
        let mut ran = CmdResult {
            pid: outcome.pid.into(),
            code: Some(salt_retcode(outcome)),
            stdout: show(&outcome.stdout),
            stderr: show(&outcome.stderr),
            is_missing: false,
            timed_out: outcome.reason == ExitReason::TimedOut,
            cancelled: outcome.reason == ExitReason::Cancelled,
        };
        if ran.timed_out {
            let given = self.args.get("timeout").filter(|v| v.is_truthy()).map(value_text);
            let limit = options.timeout.map_or(0.0, |t| t.as_secs_f64());
            let limit = given.unwrap_or_else(|| limit.to_string());
            ran.stdout = format!("{name} : Timed out after {limit} seconds");
            ran.stderr.clear();
            if self.flag("ignore_timeout") {
                ran.code = Some(0);
            }
        } else if !ran.cancelled {
            let codes = success_retcodes(self.args.get("success_retcodes")).map_err(StateError::new)?;
            let says = |key: &str, text: &str| {
                text_list(self.args.get(key)).iter().any(|word| text.contains(word.as_str()))
            };
            let counts = ran.code.is_some_and(|code| codes.contains(&code));
            if counts || says("success_stdout", &ran.stdout) || says("success_stderr", &ran.stderr) {
                ran.code = Some(0);
            }
        }
        if hidden {
            ran.stdout.clear();
            ran.stderr.clear();
        }
        Ok(ran)
    }

    fn render(
        &self,
        source: String,
        path: &str,
        variables: Map,
        ctx: &StateCtx<'_>,
    ) -> Result<String, StateError> {
        if let Some(engine) = self.args.get("template").map(value_text).filter(|t| t != "jinja") {
            return Err(StateError::new(format!("`template` knows jinja only, not {engine}")));
        }
        let template = FileTemplate { env: self.env.clone(), path: path.to_owned(), source, variables };
        ctx.templates.render(&template).map_err(StateError::new)
    }
}

impl CmdResult {
    fn without_output() -> Self {
        Self {
            pid: 0,
            code: None,
            stdout: String::new(),
            stderr: String::new(),
            is_missing: false,
            timed_out: false,
            cancelled: false,
        }
    }
}

fn refused_error(error: &CommandRefused) -> StateError {
    StateError::new(error_chain(error))
}

impl State for CmdState {
    fn check(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if self.watch_only { Ok(CheckResult::in_sync("")) } else { self.predict_run() }
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let Some(name) = self.test_name().filter(|_| !self.watch_only) else { return self.check(ctx) };
        let done = self.execute(name, ctx)?;
        if done.changes.is_empty() {
            return Ok(CheckResult::in_sync(done.comment));
        }
        Ok(CheckResult::drifted(done.comment, done.changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.execute(&self.name, ctx)
    }

    fn predict_reaction(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.predict_run()
    }

    fn simulate_act(&mut self, ctx: &StateCtx<'_>) -> Option<Result<ApplyResult, StateError>> {
        let preview = self.preview_line()?;
        if let Err(failure) = self.verify_directory(ctx) {
            return Some(Err(failure));
        }
        Some(match preview.run(ctx.fs)? {
            0 => Ok(ApplyResult::default()),
            code => {
                let comment = format!("{} would exit with code {code}", self.quoted(&self.name));
                Err(ApplyResult::new(comment, Map::from_iter([("cmd", self.name.as_str())])).into())
            }
        })
    }

    fn runs_command(&self) -> bool {
        true
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("what a command did cannot be undone")
    }

    fn is_convergent(&self) -> bool {
        false
    }

    fn reads(&self) -> Effects {
        // It runs whatever it finds; only a stateful one tells by itself what it would do.
        if self.test_name().is_some() { Effects::ALL } else { Effects::NONE }
    }

    fn check_cost(&self) -> CheckCost {
        // Looking starts nothing; a dry run of a stateful command does.
        if self.test_name().is_some() { CheckCost::Heavy } else { CheckCost::Light }
    }
}

/// True where Salt's own slips are kept.
const fn is_salt(compat: Compat) -> bool {
    matches!(compat, Compat::Salt)
}

#[cfg(test)]
pub mod tests;
