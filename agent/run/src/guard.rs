//! `onlyif`, `unless` and `creates` of a chunk in, whether its state runs out; and `run_check_cmd`, which judges it afterwards.
//!
//! Law: a chunk without guards costs nothing. What a shell would answer by looking at a file or at the words
//! themselves (`true`, `test -f …`) is answered without a process, from the files that states see, so that a dry
//! run includes predicted changes (held by `what_a_shell_answers_itself_starts_nothing`,
//! `the_own_answers_are_the_programs`).

use std::cell::OnceCell;

use zagent_compiler::{CallError, Chunk, Compat, FunctionCall};
use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{List, Map, Value};

use zagent_config::error_chain;
use zagent_host::command_options::{CommandOptions, OptionKeys, salt_retcode, success_retcodes, value_text};
use zagent_host::exec::{ExitReason, builtin_test, shell_preview};
use zagent_states::{StateCtx, StateError};

/// Whether a state runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardDecision {
    /// It runs.
    Run,
    /// It does not, and neither does its reaction to a watch.
    Skip {
        /// Why, in Salt's words.
        comment: String,
    },
}

/// True for modules that weigh `onlyif`, `unless` and `creates` themselves: the runner leaves these alone.
#[must_use]
pub(crate) fn owns_guards(state: &str) -> bool {
    state == "exec"
}

/// True when there is anything to weigh.
#[must_use]
pub(crate) fn has_guards(chunk: &Chunk) -> bool {
    ["onlyif", "unless", "creates"].iter().any(|key| chunk.args.contains(key))
}

/// True when `run_check_cmd` judges the state; a function that takes it itself does that alone.
#[must_use]
pub(crate) fn has_check_cmd(chunk: &Chunk) -> bool {
    chunk.args.contains("check_cmd")
        && !matches!((&*chunk.state, &*chunk.fun), ("file", "managed" | "serialize"))
}

/// True when deciding starts a process, or calls a function that may.
#[must_use]
pub(crate) fn runs_command(chunk: &Chunk) -> bool {
    let args = &chunk.args;
    let others = ["runas", "root", "shell"].iter().any(|key| args.contains(key));
    let starts = |key: &str| {
        args.get(key).is_some_and(|value| {
            as_entries(value).into_iter().any(|entry| match entry {
                Value::Str(line) => others || builtin_test::parse(line, None).is_none(),
                Value::Map(_) => true,
                _ => false,
            })
        })
    };
    starts("onlyif") || starts("unless")
}

/// True when a dry run cannot answer the guards from the files that it imagines.
#[must_use]
pub(crate) fn starts_process(chunk: &Chunk) -> bool {
    let args = &chunk.args;
    let others = ["runas", "root", "shell", "env", "cwd"].iter().any(|key| args.contains(key));
    let starts = |key: &str| {
        args.get(key).is_some_and(|value| {
            as_entries(value).into_iter().any(|entry| match entry {
                Value::Str(line) => {
                    let is_query =
                        || shell_preview::parse(line, None).is_some_and(|preview| preview.is_query());
                    others && runs_command(chunk) || builtin_test::parse(line, None).is_none() && !is_query()
                }
                Value::Map(_) => true,
                _ => false,
            })
        })
    };
    starts("onlyif") || starts("unless")
}

/// True when every guard is `true` or `false`, whatever the host is like.
#[must_use]
pub(crate) fn is_constant(chunk: &Chunk) -> bool {
    let constant = |entry: &Value| match entry {
        Value::Str(line) => {
            matches!(builtin_test::parse(line, None), Some(builtin_test::BuiltinTest::Constant(_)))
        }
        Value::Map(_) => false,
        _ => true,
    };
    !chunk.args.contains("creates")
        && ["onlyif", "unless"]
            .iter()
            .filter_map(|key| chunk.args.get(key))
            .all(|v| as_entries(v).into_iter().all(constant))
}

/// What `check_cmd` would say; `in_overlay` says whether the files of the dry run are those that it would see, `on_host` whether
/// those of this host are. Nothing when nobody can tell.
pub(crate) fn predict_check_cmd(
    chunk: &Chunk,
    ctx: &StateCtx<'_>,
    in_overlay: bool,
    on_host: bool,
) -> Option<Result<(), String>> {
    let commands = chunk.args.get("check_cmd").map(as_entries).unwrap_or_default();
    let is_plain = !chunk.args.contains("runas");
    let mut unanswered = false;
    for entry in commands {
        let line = value_text(entry);
        let preview = shell_preview::parse(&line, None).filter(|preview| is_plain && preview.is_query());
        let is_constant =
            matches!(builtin_test::parse(&line, None), Some(builtin_test::BuiltinTest::Constant(_)));
        match preview.filter(|_| in_overlay || is_constant).and_then(|preview| preview.run(ctx.fs)) {
            Some(0) => {}
            Some(_) if !unanswered => return Some(Err("check_cmd determined the state failed".into())),
            Some(_) | None => unanswered = true,
        }
    }
    match unanswered {
        false => Some(Ok(())),
        true if on_host => Some(run_check_cmd(chunk, ctx)),
        true => None,
    }
}

/// Weighs the guards of a chunk.
///
/// # Errors
/// Fails when a guard calls a function that is not there or fails; in strict mode also when a command cannot be started.
pub fn evaluate(chunk: &Chunk, ctx: &StateCtx<'_>) -> Result<GuardDecision, StateError> {
    let args = &chunk.args;
    if !has_guards(chunk) {
        return Ok(GuardDecision::Run);
    }
    let (onlyif, unless, creates) = (args.get("onlyif"), args.get("unless"), args.get("creates"));
    let asker = GuardEvaluator { chunk, ctx, options: OnceCell::new() };
    let mut skips = false;
    let mut comments = Vec::new();
    let mut note = |said: ConditionResult| {
        skips |= said.skips;
        comments.extend(said.comment);
    };
    if let Some(value) = onlyif {
        note(asker.onlyif(&as_entries(value))?);
    }
    if let Some(value) = unless {
        note(asker.unless(&as_entries(value))?);
    }
    if let Some(value) = creates {
        note(asker.creates(value)?);
    }
    Ok(if skips { GuardDecision::Skip { comment: comments.join("\n") } } else { GuardDecision::Run })
}

/// Judges a state by commands, whatever it said itself.
///
/// # Errors
/// Fails in Salt's words when one of them does.
pub(crate) fn run_check_cmd(chunk: &Chunk, ctx: &StateCtx<'_>) -> Result<(), String> {
    let failed = "check_cmd determined the state failed";
    let commands = chunk.args.get("check_cmd").map(as_entries).unwrap_or_default();
    // Salt finds no success in an empty list.
    if commands.is_empty() && ctx.compat == Compat::Salt {
        return Err(failed.into());
    }
    for entry in commands {
        let mut options = ctx
            .command_options(&chunk.args, OptionKeys::RunasOnly, &[])
            .map_err(|words| format!("{failed}: {words}"))?;
        options.discard_output = true;
        match options.run_line(ctx.machine, &value_text(entry)).map(|outcome| salt_retcode(&outcome)) {
            Ok(0) => {}
            Ok(_) => return Err(failed.into()),
            Err(e) => return Err(format!("{failed}: {}", error_chain(&e))),
        }
    }
    Ok(())
}

/// A list as its entries, anything else as one.
fn as_entries(value: &Value) -> Vec<&Value> {
    match value {
        Value::List(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// What one kind of guard says.
#[derive(Default)]
struct ConditionResult {
    skips: bool,
    comment: Option<String>,
}

impl ConditionResult {
    fn new(skips: bool, comment: impl Into<String>) -> Self {
        Self { skips, comment: Some(comment.into()) }
    }
}

/// Which guard asks.
#[derive(Clone, Copy)]
enum GuardKind {
    Onlyif,
    Unless,
}

impl GuardKind {
    const fn key(self) -> &'static str {
        match self {
            Self::Onlyif => "onlyif",
            Self::Unless => "unless",
        }
    }

    /// Whether a command that cannot be started counts as one that succeeded: either way the state is skipped.
    const fn holds_if_unstartable(self) -> bool {
        matches!(self, Self::Unless)
    }
}

struct GuardEvaluator<'a, 's> {
    chunk: &'a Chunk,
    ctx: &'a StateCtx<'s>,
    /// Read once, and only when a command needs them.
    options: OnceCell<Result<CommandOptions, String>>,
}

impl GuardEvaluator<'_, '_> {
    /// All must hold.
    fn onlyif(&self, entries: &[&Value]) -> Result<ConditionResult, StateError> {
        let mut said = ConditionResult::default();
        for entry in entries {
            let Some(holds) = self.evaluate_entry(GuardKind::Onlyif, entry)? else {
                return Ok(ConditionResult::new(false, self.unusable_message(GuardKind::Onlyif, entry)));
            };
            if !holds {
                return Ok(ConditionResult::new(true, "onlyif condition is false"));
            }
            said = ConditionResult::new(false, "onlyif condition is true");
        }
        self.require_comment(said)
    }

    /// One that does not hold is enough to run.
    fn unless(&self, entries: &[&Value]) -> Result<ConditionResult, StateError> {
        let mut said = ConditionResult::default();
        for entry in entries {
            match self.evaluate_entry(GuardKind::Unless, entry)? {
                Some(true) => said = ConditionResult::new(true, "unless condition is true"),
                Some(false) => return Ok(ConditionResult::new(false, "unless condition is false")),
                None if entry.as_map().is_some() => {
                    return Ok(ConditionResult {
                        comment: Some(self.unusable_message(GuardKind::Unless, entry)),
                        ..said
                    });
                }
                None => said = ConditionResult::new(false, self.unusable_message(GuardKind::Unless, entry)),
            }
        }
        self.require_comment(said)
    }

    /// Salt stumbles over an empty list.
    fn require_comment(&self, said: ConditionResult) -> Result<ConditionResult, StateError> {
        match (&said.comment, self.ctx.compat) {
            (None, Compat::Salt) => {
                Err(StateError::new("An exception occurred in this state: KeyError: 'comment'"))
            }
            _ => Ok(said),
        }
    }

    fn unusable_message(&self, which: GuardKind, entry: &Value) -> String {
        match (entry, which) {
            (Value::Map(_), _) => format!("no `fun` argument in {}: {}", which.key(), value_text(entry)),
            (_, GuardKind::Onlyif) => "onlyif execution failed, bad type passed".into(),
            (_, GuardKind::Unless) => "unless condition is false, bad type passed".into(),
        }
    }

    /// Whether one entry holds; nothing for what is neither a command nor a call.
    fn evaluate_entry(&self, which: GuardKind, entry: &Value) -> Result<Option<bool>, StateError> {
        match entry {
            Value::Str(line) => self.evaluate_line(which, line).map(Some),
            Value::Map(call) => self.call_function(which, call),
            _ => Ok(None),
        }
    }

    fn evaluate_line(&self, which: GuardKind, line: &str) -> Result<bool, StateError> {
        let outcome = match self.options.get_or_init(|| self.read_options()) {
            Ok(options) => {
                if let Some(question) =
                    builtin_test::parse(line, options.cwd.as_deref()).filter(|_| is_local_shell(options))
                {
                    return Ok(question.evaluate(self.ctx.fs));
                }
                if let Some(code) = self.preview_answer(options, line) {
                    return Ok(code == 0);
                }
                options.run_line(self.ctx.machine, line).map_err(|e| error_chain(&e))
            }
            Err(words) => Err(words.clone()),
        };
        match outcome {
            Ok(outcome) if outcome.reason == ExitReason::Cancelled => {
                Err(StateError::new("the run was stopped"))
            }
            Ok(outcome) => {
                let codes =
                    success_retcodes(self.chunk.args.get("success_retcodes")).map_err(StateError::new)?;
                let code = salt_retcode(&outcome);
                Ok(code == 0 || codes.contains(&code))
            }
            Err(_) if self.ctx.compat == Compat::Salt => Ok(which.holds_if_unstartable()),
            Err(words) => {
                Err(StateError::new(format!("cannot tell whether `{}` holds: {words}", which.key())))
            }
        }
    }

    /// The exit code of a line that only looks at files, from the files that a dry run imagines.
    fn preview_answer(&self, options: &CommandOptions, line: &str) -> Option<i32> {
        let is_plain = !["env", "cwd", "success_retcodes"].iter().any(|key| self.chunk.args.contains(key));
        if !self.ctx.is_dry() || self.ctx.compat != Compat::Strict || !is_plain || !is_local_shell(options) {
            return None;
        }
        shell_preview::parse(line, None).filter(|preview| preview.is_query())?.run(self.ctx.fs)
    }

    fn read_options(&self) -> Result<CommandOptions, String> {
        let skip: Vec<String> = self
            .chunk
            .args
            .get("cmd_opts_exclude")
            .map(as_entries)
            .unwrap_or_default()
            .into_iter()
            .map(value_text)
            .collect();
        let mut options = self.ctx.command_options(&self.chunk.args, OptionKeys::Guard, &skip)?;
        options.discard_output = true;
        Ok(options)
    }

    /// `fun`, `args` and named arguments; `get_return` looks into the answer.
    fn call_function(&self, which: GuardKind, entry: &Map) -> Result<Option<bool>, StateError> {
        let Some(function) = entry.get("fun").map(value_text) else { return Ok(None) };
        let args = match entry.get("args") {
            Some(Value::List(list)) => List::clone(list).into_vec(),
            None | Some(Value::Null) => Vec::new(),
            Some(one) => vec![one.clone()],
        };
        let mut kwargs = entry.clone();
        kwargs.retain(|e| !matches!(e.key.as_str(), Some("fun" | "args" | "get_return")));
        let code = return_code(&function, &args, &kwargs);
        let value =
            self.ctx.host.call(&FunctionCall { function: function.clone(), args, kwargs }).map_err(|e| {
                let key = which.key();
                StateError::new(match (e, self.ctx.compat) {
                    (CallError::Unknown, Compat::Salt) => {
                        format!("An exception occurred in this state: KeyError: '{function}'")
                    }
                    (CallError::Unknown, Compat::Strict) => {
                        format!("`{key}` calls `{function}`, and there is no such function here")
                    }
                    (CallError::Forbidden(words) | CallError::Failed(words), _) => {
                        format!("cannot tell whether `{key}` holds: `{function}` failed: {words}")
                    }
                    (CallError::Unavailable { message, hint }, _) => {
                        format!("cannot tell whether `{key}` holds: `{function}`: {message}; {hint}")
                    }
                })
            })?;
        if let Some(code) = code {
            return Ok(Some(code == 0));
        }
        let value = match entry.get("get_return").filter(|p| p.is_truthy()) {
            Some(path) => traverse(&value, &value_text(path), DEFAULT_DELIMITER).cloned().unwrap_or_default(),
            None => value,
        };
        Ok(Some(value.is_truthy()))
    }

    fn creates(&self, value: &Value) -> Result<ConditionResult, StateError> {
        let exists = |v: &Value| -> Result<bool, StateError> {
            let Some(text) = v.as_str() else { return Ok(false) };
            let Ok(path) = std::path::absolute(text) else { return Ok(false) };
            match self.ctx.fs.stat(&path) {
                Ok(stat) => Ok(stat.is_some()),
                Err(_) if self.ctx.compat == Compat::Salt => Ok(false),
                Err(e) => Err(e.into()),
            }
        };
        match value {
            Value::Str(path) if exists(value)? => Ok(ConditionResult::new(true, format!("{path} exists"))),
            Value::List(list) => {
                for path in list.iter() {
                    if !exists(path)? {
                        return Ok(ConditionResult::new(false, "Creates files not found"));
                    }
                }
                Ok(ConditionResult::new(true, "All files in creates exist"))
            }
            _ => Ok(ConditionResult::new(false, "Creates files not found")),
        }
    }
}

/// The return code that a function gives beside its answer: a guard goes by it, as for a command.
fn return_code(function: &str, args: &[Value], kwargs: &Map) -> Option<i64> {
    /// What `test.retcode` gives when it is told nothing.
    const DEFAULT_CODE: i64 = 42;
    let code = args.first().or_else(|| kwargs.get("code"));
    (function == "test.retcode").then(|| code.map_or(Some(DEFAULT_CODE), Value::as_int)).flatten()
}

/// True when it is a POSIX shell of this process that would answer.
fn is_local_shell(options: &CommandOptions) -> bool {
    let shell = options.shell.as_deref().unwrap_or(zagent_host::command_options::DEFAULT_SHELL);
    options.runas.is_none() && options.root.is_none() && zagent_host::exec::shell_words::is_posix_shell(shell)
}

#[cfg(test)]
pub mod tests;
