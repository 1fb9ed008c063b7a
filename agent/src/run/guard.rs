//! `onlyif`, `unless` and `creates` of a chunk in, whether its state runs out; and `check_cmd`, which judges it afterwards.
//!
//! Law: a chunk without any of them costs nothing. What a shell would answer by looking at a file or at the words themselves
//! (`true`, `test -f …`) is answered without a process, by the files that states see, so that a dry run sees the future.

mod native;

use std::cell::OnceCell;

use zagent_compiler::{Call, CallError, Chunk, Compat};
use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{List, Map, Value};

use crate::host::command::{Keys, Options, retcode, shown, success_retcodes};
use crate::host::exec::End;
use crate::report::chain;
use crate::states::{Failure, Scene};

/// Whether a state runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
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
pub fn owns_guards(state: &str) -> bool {
    state == "exec"
}

/// True when there is anything to weigh.
#[must_use]
pub fn has(chunk: &Chunk) -> bool {
    ["onlyif", "unless", "creates"].iter().any(|key| chunk.args.contains(key))
}

/// True when `check_cmd` judges the state; a function that takes it itself does that alone.
#[must_use]
pub fn judges(chunk: &Chunk) -> bool {
    chunk.args.contains("check_cmd") && (&*chunk.state, &*chunk.fun) != ("file", "managed")
}

/// True when deciding starts a process, or calls a function that may.
#[must_use]
pub fn is_command(chunk: &Chunk) -> bool {
    let args = &chunk.args;
    let others = ["runas", "root", "shell"].iter().any(|key| args.contains(key));
    let starts = |key: &str| {
        args.get(key).is_some_and(|value| {
            entries(value).into_iter().any(|entry| match entry {
                Value::Str(line) => others || native::parse(line, None).is_none(),
                Value::Map(_) => true,
                _ => false,
            })
        })
    };
    starts("onlyif") || starts("unless")
}

/// Weighs the guards of a chunk.
///
/// # Errors
/// Fails when a guard calls a function that is not there or fails; in strict mode also when a command cannot be started.
pub fn evaluate(chunk: &Chunk, scene: &Scene<'_>) -> Result<Guard, Failure> {
    let args = &chunk.args;
    if !has(chunk) {
        return Ok(Guard::Run);
    }
    let (onlyif, unless, creates) = (args.get("onlyif"), args.get("unless"), args.get("creates"));
    let asker = Asker { chunk, scene, options: OnceCell::new() };
    let mut skips = false;
    let mut comments = Vec::new();
    let mut note = |said: Said| {
        skips |= said.skips;
        comments.extend(said.comment);
    };
    if let Some(value) = onlyif {
        note(asker.onlyif(&entries(value))?);
    }
    if let Some(value) = unless {
        note(asker.unless(&entries(value))?);
    }
    if let Some(value) = creates {
        note(asker.creates(value)?);
    }
    Ok(if skips { Guard::Skip { comment: comments.join("\n") } } else { Guard::Run })
}

/// Judges a state by commands, whatever it said itself.
///
/// # Errors
/// Fails in Salt's words when one of them does.
pub fn check_cmd(chunk: &Chunk, scene: &Scene<'_>) -> Result<(), String> {
    let failed = "check_cmd determined the state failed";
    let commands = chunk.args.get("check_cmd").map(entries).unwrap_or_default();
    // Salt finds no success in an empty list.
    if commands.is_empty() && scene.compat == Compat::Salt {
        return Err(failed.into());
    }
    for entry in commands {
        let mut options =
            scene.options(&chunk.args, Keys::Runas, &[]).map_err(|words| format!("{failed}: {words}"))?;
        options.discard = true;
        match options.run_line(&shown(entry)).map(|outcome| retcode(&outcome)) {
            Ok(0) => {}
            Ok(_) => return Err(failed.into()),
            Err(e) => return Err(format!("{failed}: {}", chain(&e))),
        }
    }
    Ok(())
}

/// A list as its entries, anything else as one.
fn entries(value: &Value) -> Vec<&Value> {
    match value {
        Value::List(list) => list.iter().collect(),
        one => vec![one],
    }
}

/// What one kind of guard says.
#[derive(Default)]
struct Said {
    skips: bool,
    comment: Option<String>,
}

impl Said {
    fn new(skips: bool, comment: impl Into<String>) -> Self {
        Self { skips, comment: Some(comment.into()) }
    }
}

/// Which guard asks.
#[derive(Clone, Copy)]
enum Which {
    Onlyif,
    Unless,
}

impl Which {
    const fn key(self) -> &'static str {
        match self {
            Self::Onlyif => "onlyif",
            Self::Unless => "unless",
        }
    }

    /// Whether a command that cannot be started counts as one that succeeded: either way the state is skipped.
    const fn when_unstarted(self) -> bool {
        matches!(self, Self::Unless)
    }
}

struct Asker<'a, 's> {
    chunk: &'a Chunk,
    scene: &'a Scene<'s>,
    /// Read once, and only when a command needs them.
    options: OnceCell<Result<Options, String>>,
}

impl Asker<'_, '_> {
    /// All must hold.
    fn onlyif(&self, entries: &[&Value]) -> Result<Said, Failure> {
        let mut said = Said::default();
        for entry in entries {
            let Some(holds) = self.holds(Which::Onlyif, entry)? else {
                return Ok(Said::new(false, self.unusable(Which::Onlyif, entry)));
            };
            if !holds {
                return Ok(Said::new(true, "onlyif condition is false"));
            }
            said = Said::new(false, "onlyif condition is true");
        }
        self.told(said)
    }

    /// One that does not hold is enough to run.
    fn unless(&self, entries: &[&Value]) -> Result<Said, Failure> {
        let mut said = Said::default();
        for entry in entries {
            match self.holds(Which::Unless, entry)? {
                Some(true) => said = Said::new(true, "unless condition is true"),
                Some(false) => return Ok(Said::new(false, "unless condition is false")),
                None if entry.as_map().is_some() => {
                    return Ok(Said { comment: Some(self.unusable(Which::Unless, entry)), ..said });
                }
                None => said = Said::new(false, self.unusable(Which::Unless, entry)),
            }
        }
        self.told(said)
    }

    /// Salt stumbles over an empty list.
    fn told(&self, said: Said) -> Result<Said, Failure> {
        match (&said.comment, self.scene.compat) {
            (None, Compat::Salt) => {
                Err(Failure::new("An exception occurred in this state: KeyError: 'comment'"))
            }
            _ => Ok(said),
        }
    }

    fn unusable(&self, which: Which, entry: &Value) -> String {
        match (entry, which) {
            (Value::Map(_), _) => format!("no `fun` argument in {}: {}", which.key(), shown(entry)),
            (_, Which::Onlyif) => "onlyif execution failed, bad type passed".into(),
            (_, Which::Unless) => "unless condition is false, bad type passed".into(),
        }
    }

    /// Whether one entry holds; nothing for what is neither a command nor a call.
    fn holds(&self, which: Which, entry: &Value) -> Result<Option<bool>, Failure> {
        match entry {
            Value::Str(line) => self.line(which, line).map(Some),
            Value::Map(call) => self.call(which, call),
            _ => Ok(None),
        }
    }

    fn line(&self, which: Which, line: &str) -> Result<bool, Failure> {
        let outcome = match self.options.get_or_init(|| self.read_options()) {
            Ok(options) => {
                if let Some(question) =
                    native::parse(line, options.cwd.as_deref()).filter(|_| is_shells_own(options))
                {
                    return Ok(question.holds(self.scene.fs));
                }
                options.run_line(line).map_err(|e| chain(&e))
            }
            Err(words) => Err(words.clone()),
        };
        match outcome {
            Ok(outcome) if outcome.end == End::Cancelled => Err(Failure::new("the run was stopped")),
            Ok(outcome) => {
                let codes =
                    success_retcodes(self.chunk.args.get("success_retcodes")).map_err(Failure::new)?;
                let code = retcode(&outcome);
                Ok(code == 0 || codes.contains(&code))
            }
            Err(_) if self.scene.compat == Compat::Salt => Ok(which.when_unstarted()),
            Err(words) => Err(Failure::new(format!("cannot tell whether `{}` holds: {words}", which.key()))),
        }
    }

    fn read_options(&self) -> Result<Options, String> {
        let skip: Vec<String> = self
            .chunk
            .args
            .get("cmd_opts_exclude")
            .map(entries)
            .unwrap_or_default()
            .into_iter()
            .map(shown)
            .collect();
        let mut options = self.scene.options(&self.chunk.args, Keys::Guard, &skip)?;
        options.discard = true;
        Ok(options)
    }

    /// `fun`, `args` and named arguments; `get_return` looks into the answer.
    fn call(&self, which: Which, entry: &Map) -> Result<Option<bool>, Failure> {
        let Some(function) = entry.get("fun").map(shown) else { return Ok(None) };
        let args = match entry.get("args") {
            Some(Value::List(list)) => List::clone(list).into_vec(),
            None | Some(Value::Null) => Vec::new(),
            Some(one) => vec![one.clone()],
        };
        let mut kwargs = entry.clone();
        kwargs.retain(|e| !matches!(e.key.as_str(), Some("fun" | "args" | "get_return")));
        let value =
            self.scene.host.call(&Call { function: function.clone(), args, kwargs }).map_err(|e| {
                let key = which.key();
                Failure::new(match (e, self.scene.compat) {
                    (CallError::Unknown, Compat::Salt) => {
                        format!("An exception occurred in this state: KeyError: '{function}'")
                    }
                    (CallError::Unknown, Compat::Strict) => {
                        format!("`{key}` calls `{function}`, and there is no such function here")
                    }
                    (CallError::Forbidden(words) | CallError::Failed(words), _) => {
                        format!("cannot tell whether `{key}` holds: `{function}` failed: {words}")
                    }
                })
            })?;
        let value = match entry.get("get_return").filter(|p| p.is_truthy()) {
            Some(path) => traverse(&value, &shown(path), DEFAULT_DELIMITER).cloned().unwrap_or_default(),
            None => value,
        };
        Ok(Some(value.is_truthy()))
    }

    fn creates(&self, value: &Value) -> Result<Said, Failure> {
        let exists = |v: &Value| -> Result<bool, Failure> {
            let Some(text) = v.as_str() else { return Ok(false) };
            let Ok(path) = std::path::absolute(text) else { return Ok(false) };
            match self.scene.fs.stat(&path) {
                Ok(stat) => Ok(stat.is_some()),
                Err(_) if self.scene.compat == Compat::Salt => Ok(false),
                Err(e) => Err(e.into()),
            }
        };
        match value {
            Value::Str(path) if exists(value)? => Ok(Said::new(true, format!("{path} exists"))),
            Value::List(list) => {
                for path in list.iter() {
                    if !exists(path)? {
                        return Ok(Said::new(false, "Creates files not found"));
                    }
                }
                Ok(Said::new(true, "All files in creates exist"))
            }
            _ => Ok(Said::new(false, "Creates files not found")),
        }
    }
}

/// True when it is a POSIX shell of this process that would answer.
fn is_shells_own(options: &Options) -> bool {
    let shell = options.shell.as_deref().unwrap_or(crate::host::command::SHELL);
    options.runas.is_none() && options.root.is_none() && crate::host::line::is_posix_shell(shell)
}

#[cfg(test)]
mod tests;
