//! States of the module `cmd`: commands and scripts.
//!
//! Law: a command is an act, not a condition: it runs whenever nothing holds it back, and nobody can undo it.

mod script;
mod stateful;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::{Args, Built, Cost, Done, Failure, Look, Scene, State, Template, Veil};
use crate::host::command::{Keys, Options, Refused, retcode, shown, success_retcodes, words_of};
use crate::host::exec::{End, Outcome};
use crate::report::chain;

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let (act, waits) = match fun {
        "run" => (Act::Run, false),
        "wait" | "watch" => (Act::Run, true),
        "script" => (Act::Script, false),
        "wait_script" => (Act::Script, true),
        "call" | "wait_call" => {
            let words =
                format!("cmd.{fun} calls a Python function, and there is no Python here: use cmd.run");
            return Some(Err(Failure::new(words)));
        }
        _ => return None,
    };
    let env = args.chunk.args.get("saltenv").map_or_else(|| args.chunk.env.to_string(), shown);
    Some(Ok(Box::new(Cmd { act, waits, name: args.name(), env, args: args.chunk.args.clone() })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Run,
    Script,
}

struct Cmd {
    act: Act,
    /// It runs only for a watch.
    waits: bool,
    name: String,
    env: String,
    args: Map,
}

/// What a command did, as the changes of its state show it.
struct Ran {
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

impl Ran {
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

impl Cmd {
    fn flag(&self, key: &str) -> bool {
        self.args.get(key).is_some_and(Value::is_truthy)
    }

    /// The command's name in a comment: `cmd.run` and `cmd.script` quote differently.
    fn quoted(&self, name: &str) -> String {
        match self.act {
            Act::Run => format!("Command \"{name}\""),
            Act::Script => format!("Command '{name}'"),
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
    fn verify(&self) -> Result<(), Failure> {
        let env = self.args.get("env");
        if !matches!(env, None | Some(Value::Null | Value::List(_) | Value::Map(_))) {
            return Err(Failure::new("Invalidly-formatted 'env' parameter. See documentation."));
        }
        for key in ["context", "defaults"].into_iter().filter(|_| self.act == Act::Script) {
            if self.args.get(key).is_some_and(|v| v.is_truthy() && v.as_map().is_none()) {
                let words = format!("Invalidly-formatted '{key}' parameter. Must be formed as a dict.");
                return Err(Failure::new(words));
            }
        }
        Ok(())
    }

    /// What would be done.
    fn would(&self) -> Result<Look, Failure> {
        self.verify()?;
        if self.is_stateful() {
            return Ok(Look::drift("", Map::new()));
        }
        let mut changes = Map::new();
        if self.act == Act::Run {
            changes.insert("cmd", self.name.as_str());
        }
        Ok(Look::drift(format!("{} would have been executed", self.quoted(&self.name)), changes))
    }

    /// Runs it under this name.
    fn execute(&self, name: &str, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.verify()?;
        self.verify_directory(scene)?;
        let options = scene.options(&self.args, Keys::Own, &[]).map_err(Failure::new)?;
        let ran = match self.act {
            Act::Run => self.run(name, &options, scene)?,
            Act::Script => script::run(self, name, options, scene)?,
        };
        let mut comment = format!("{} run", self.quoted(name));
        if ran.is_missing {
            let source = self.args.get("source").map_or_else(|| name.to_owned(), shown);
            comment = format!("Unable to cache script {source} from saltenv '{}'", self.env);
        }
        if ran.cancelled {
            comment = format!("{} was ended: the run was stopped", self.quoted(name));
        }
        let succeeded = matches!(ran.code, None | Some(0));
        let done =
            Done::new(comment, ran.changes()).with("retcode", ran.code.map_or(Value::Null, Value::Int));
        let (done, succeeded) = if self.is_stateful() && !ran.cancelled {
            stateful::reinterpret(done, succeeded, scene.compat)
        } else {
            (done, succeeded)
        };
        if succeeded { Ok(done) } else { Err(done.into()) }
    }

    fn verify_directory(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        let Some(cwd) = self.args.get("cwd").filter(|v| v.is_truthy()).map(shown) else { return Ok(()) };
        let path = std::path::Path::new(&cwd);
        let stat = if path.is_absolute() { scene.fs.stat(path)? } else { None };
        if stat.is_some_and(|s| s.kind == crate::fs::Kind::Dir) {
            return Ok(());
        }
        Err(Failure::new(format!("Desired working directory \"{cwd}\" is not available")))
    }

    fn run(&self, name: &str, options: &Options, scene: &Scene<'_>) -> Result<Ran, Failure> {
        let rendered = if self.flag("template") {
            Some(self.render(name.to_owned(), name, Map::new(), scene)?)
        } else {
            None
        };
        let line = rendered.as_deref().unwrap_or(name);
        if self.flag("bg") {
            let pid = options.launch_line(line).map_err(|e| told(&e))?;
            return Ok(Ran { pid: pid.into(), ..Ran::nothing() });
        }
        let outcome = options.run_line(line).map_err(|e| told(&e))?;
        self.ran(&outcome, name, options)
    }

    /// What a command did, with what the state says about success.
    fn ran(&self, outcome: &Outcome, name: &str, options: &Options) -> Result<Ran, Failure> {
        let hidden = self.flag("hide_output");
        let strip = self.args.get("rstrip").is_none_or(Value::is_truthy);
        let show = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if strip { text.trim_end().to_owned() } else { text.into_owned() }
        };
        let mut ran = Ran {
            pid: outcome.pid.into(),
            code: Some(retcode(outcome)),
            stdout: show(&outcome.stdout),
            stderr: show(&outcome.stderr),
            is_missing: false,
            timed_out: outcome.end == End::TimedOut,
            cancelled: outcome.end == End::Cancelled,
        };
        if ran.timed_out {
            let given = self.args.get("timeout").filter(|v| v.is_truthy()).map(shown);
            let limit = options.timeout.map_or(0.0, |t| t.as_secs_f64());
            let limit = given.unwrap_or_else(|| limit.to_string());
            ran.stdout = format!("{name} : Timed out after {limit} seconds");
            ran.stderr.clear();
            if self.flag("ignore_timeout") {
                ran.code = Some(0);
            }
        } else if !ran.cancelled {
            let codes = success_retcodes(self.args.get("success_retcodes")).map_err(Failure::new)?;
            let says = |key: &str, text: &str| {
                words_of(self.args.get(key)).iter().any(|word| text.contains(word.as_str()))
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
        scene: &Scene<'_>,
    ) -> Result<String, Failure> {
        if let Some(engine) = self.args.get("template").map(shown).filter(|t| t != "jinja") {
            return Err(Failure::new(format!("`template` knows jinja only, not {engine}")));
        }
        let template = Template { env: self.env.clone(), path: path.to_owned(), source, variables };
        scene.templates.render(&template).map_err(Failure::new)
    }
}

impl Ran {
    fn nothing() -> Self {
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

fn told(error: &Refused) -> Failure {
    Failure::new(chain(error))
}

impl State for Cmd {
    fn check(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        if self.waits { Ok(Look::right("")) } else { self.would() }
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let Some(name) = self.test_name().filter(|_| !self.waits) else { return self.check(scene) };
        let done = self.execute(name, scene)?;
        if done.changes.is_empty() {
            return Ok(Look::right(done.comment));
        }
        Ok(Look::drift(done.comment, done.changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.execute(&self.name, scene)
    }

    fn foresee(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        self.would()
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("what a command did cannot be undone")
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn sees(&self) -> Veil {
        // It runs whatever it finds; only a stateful one tells by itself what it would do.
        if self.test_name().is_some() { Veil::ALL } else { Veil::NONE }
    }

    fn cost(&self) -> Cost {
        // Looking starts nothing; a dry run of a stateful command does.
        if self.test_name().is_some() { Cost::Heavy } else { Cost::Light }
    }
}

/// True where Salt's own slips are kept.
const fn is_salt(compat: Compat) -> bool {
    matches!(compat, Compat::Salt)
}

#[cfg(test)]
mod tests;
