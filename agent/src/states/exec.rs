//! States of the module `exec`: a command that runs when it has to, and not otherwise.
//!
//! Law: who subscribes is triggered before anything else counts; then a file that `creates` names, then the guards, then
//! `refresh_only`. A guard that fails is an answer, a guard that cannot start is a failure.

mod decide;

use std::ffi::OsString;
use std::path::PathBuf;

use zagent_config::settings::parse_duration;
use zagent_config::{Map, Value};

use self::decide::{Decision, Found, decide};
use super::{Args, Built, Cost, Done, Failure, Look, Scene, State};
use crate::host::command::{Keys, Options, retcode, shown};
use crate::host::exec::{self, End, Outcome};
use crate::host::line;
use crate::report::chain;

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    (fun == "run").then(|| Exec::read(args).map(|exec| Box::new(exec) as Box<dyn State>))
}

/// How a command line is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    /// Its words are started as they are.
    Posix,
    /// `/bin/sh -c`.
    Shell,
}

#[derive(Debug)]
struct Exec {
    tag: String,
    command: String,
    provider: Provider,
    args: Map,
    env: Vec<(OsString, OsString)>,
    timeout: Option<std::time::Duration>,
    returns: Vec<i64>,
    creates: Option<PathBuf>,
    onlyif: Option<String>,
    unless: Option<String>,
    refresh_only: bool,
    logs: bool,
    /// Set once a subscription has triggered it.
    is_triggered: bool,
}

impl Exec {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let provider = match args.text("provider")?.as_deref() {
            None | Some("posix") => Provider::Posix,
            Some("shell") => Provider::Shell,
            Some(other) => {
                return Err(Failure::new(format!("exec has the providers posix and shell, not {other}")));
            }
        };
        let command = args.text("command")?.unwrap_or_else(|| args.name());
        let mut env = environment(args.get("environment"))?;
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
                let words =
                    || Failure::new(format!("`timeout` must be a time such as 30s, not {}", shown(value)));
                Some(parsed.filter(|t| !t.is_zero()).ok_or_else(words)?)
            }
        };
        let exec = Self {
            tag: args.chunk.tag(),
            command,
            provider,
            args: args.chunk.args.clone(),
            env,
            timeout,
            returns: returns(args.get("returns"))?,
            creates: args.path("creates")?,
            onlyif: args.text("onlyif")?,
            unless: args.text("unless")?,
            refresh_only: args.flag("refresh_only", false),
            logs: args.flag("logoutput", false),
            is_triggered: false,
        };
        for line in [Some(&exec.command), exec.onlyif.as_ref(), exec.unless.as_ref()].into_iter().flatten() {
            exec.words(line)?;
        }
        Ok(exec)
    }

    /// What is started for a line.
    fn words(&self, line: &str) -> Result<Vec<String>, Failure> {
        if self.provider == Provider::Shell {
            return Ok(vec![crate::host::command::SHELL.into(), "-c".into(), line.into()]);
        }
        match line::split(line) {
            None => Err(Failure::new(format!("a quotation mark is not closed in `{line}`"))),
            Some(words) if words.is_empty() => Err(Failure::new("there is no command")),
            Some(words) => Ok(words),
        }
    }

    /// Runs a line: the command, or a guard, which shares all but the output.
    fn run(&self, line: &str, is_guard: bool, scene: &Scene<'_>) -> Result<Outcome, String> {
        let runas = scene.options(&self.args, Keys::Runas, &[])?;
        let cwd = self.args.get("cwd").filter(|v| v.is_truthy()).map(|v| PathBuf::from(shown(v)));
        let mut env = runas.env.clone();
        env.extend(self.env.iter().cloned());
        let umask =
            if is_guard { None } else { Options::read(&self.args_of("umask"), Keys::Own, &[])?.umask };
        let options =
            Options { cwd, env, umask, timeout: self.timeout, keep_locale: true, discard: is_guard, ..runas };
        let words = self.words(line).map_err(|f| f.done.comment)?;
        let command = options.until(scene.deadline).command(words).map_err(|e| chain(&e))?;
        exec::run(&command).map_err(|e| chain(&e))
    }

    fn args_of(&self, key: &str) -> Map {
        self.args.get(key).map(|v| Map::from_iter([(key, v.clone())])).unwrap_or_default()
    }

    /// True when a guard exits with 0; nothing when there is no such guard.
    fn guard(&self, name: &str, line: Option<&String>, scene: &Scene<'_>) -> Result<Option<bool>, Failure> {
        let Some(line) = line else { return Ok(None) };
        let failed = |why: &str| Failure::new(format!("cannot tell whether `{name}` holds: {why}"));
        let outcome = self.run(line, true, scene).map_err(|e| failed(&e))?;
        match outcome.end {
            End::Exited(code) => Ok(Some(code == 0)),
            End::Signaled(_) => Ok(Some(false)),
            End::TimedOut => Err(failed(&format!("`{line}` did not end in time"))),
            End::Cancelled => Err(failed("the run was stopped")),
        }
    }

    fn is_created(&self, scene: &Scene<'_>) -> Result<bool, Failure> {
        Ok(match &self.creates {
            Some(path) => scene.fs.stat(path)?.is_some(),
            None => false,
        })
    }

    /// What there is to do. Guards are asked only when their answer counts.
    fn decision(&self, scene: &Scene<'_>) -> Result<Decision, Failure> {
        let mut found = Found {
            is_triggered: self.is_triggered,
            is_created: self.is_created(scene)?,
            refresh_only: self.refresh_only,
            ..Found::default()
        };
        if !found.is_triggered && !found.is_created {
            found.onlyif = self.guard("onlyif", self.onlyif.as_ref(), scene)?;
            if found.onlyif != Some(false) {
                found.unless = self.guard("unless", self.unless.as_ref(), scene)?;
            }
        }
        Ok(decide(&found))
    }

    fn would(&self, decision: Decision) -> Look {
        let changes = || Map::from_iter([("cmd", self.command.as_str())]);
        match decision {
            Decision::Execute => Look::drift("Would have executed", changes()),
            Decision::Refresh => Look::drift("Would have executed via subscribe", changes()),
            Decision::Created => {
                let path = self.creates.as_deref().unwrap_or_else(|| std::path::Path::new(""));
                Look::right(format!("{} exists", path.display()))
            }
            Decision::OnlyifFailed => Look::right("onlyif condition is false"),
            Decision::UnlessHeld => Look::right("unless condition is true"),
            Decision::Waits => Look::right("refresh_only: nothing it subscribes to has changed"),
        }
    }

    /// Runs the command, and says whether things are then as they should be.
    fn execute(&self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let command = &self.command;
        let outcome = self.run(command, false, scene).map_err(Failure::new)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let (code, stdout, stderr) = (retcode(&outcome), text(&outcome.stdout), text(&outcome.stderr));
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
        let done = |comment: String| Done::new(comment, changes).with("retcode", code);
        match outcome.end {
            End::TimedOut => return Err(done(format!("Command \"{command}\" did not end in time")).into()),
            End::Cancelled => {
                return Err(done(format!("Command \"{command}\" was ended: the run was stopped")).into());
            }
            End::Exited(_) | End::Signaled(_) => {}
        }
        if self.creates.is_some() && self.is_created(scene)? || self.returns.contains(&code) {
            return Ok(done(format!("Command \"{command}\" executed{via}")));
        }
        let wanted = self.returns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(done(format!("Command \"{command}\" executed{via} and returned {code}, not one of: {wanted}"))
            .into())
    }
}

impl State for Exec {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.is_triggered = !scene.shared.fired(&self.tag).is_empty();
        Ok(self.would(self.decision(scene)?))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.execute(scene)
    }

    fn foresee(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        Ok(self.would(Decision::Refresh))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.is_triggered = true;
        self.execute(scene)
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("what a command did cannot be undone")
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn cost(&self) -> Cost {
        if self.onlyif.is_some() || self.unless.is_some() { Cost::Heavy } else { Cost::Light }
    }
}

/// `KEY=value` each; mappings count too.
fn environment(value: Option<&Value>) -> Result<Vec<(OsString, OsString)>, Failure> {
    let bad = |v: &Value| Failure::new(format!("`environment` holds {}, not KEY=value", shown(v)));
    let items: Vec<&Value> = match value {
        None => return Ok(Vec::new()),
        Some(Value::List(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    let mut env: Vec<(String, String)> = Vec::new();
    for item in items {
        match item {
            Value::Map(map) => env.extend(map.iter().map(|(k, v)| (shown(k), shown(v)))),
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
fn search_path(path: &str) -> Result<String, Failure> {
    match path.split(':').find(|dir| !dir.starts_with('/')) {
        None => Ok(path.to_owned()),
        Some(dir) => Err(Failure::new(format!("`path` holds `{dir}`, which is no absolute directory"))),
    }
}

/// Exit codes; 0 when none are given.
fn returns(value: Option<&Value>) -> Result<Vec<i64>, Failure> {
    let items: Vec<&Value> = match value {
        None => Vec::new(),
        Some(Value::List(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    let code = |v: &Value| {
        let number = v.as_int().or_else(|| v.as_str()?.trim().parse().ok());
        number.ok_or_else(|| Failure::new(format!("`returns` holds {}, not an exit code", shown(v))))
    };
    let codes = items.into_iter().map(code).collect::<Result<Vec<_>, _>>()?;
    Ok(if codes.is_empty() { vec![0] } else { codes })
}

#[cfg(test)]
mod tests;
