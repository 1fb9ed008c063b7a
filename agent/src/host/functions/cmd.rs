//! `cmd.*`: commands of templates. As in Salt, `cmd.run` uses no shell unless asked for.

use std::ffi::OsString;
use std::time::Duration;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, entry, flag, strings, text, word};
use crate::host::Machine;
use crate::host::ask::words;
use crate::host::exec::{self, Command, End};
use crate::host::{command, line};

pub(super) const TABLE: &[Entry] = &[
    entry("cmd.run", RUN, |m, a| Ok(run(m, a, Streams::Merged, false)?.stdout.into())),
    entry("cmd.shell", RUN, |m, a| Ok(run(m, a, Streams::Merged, true)?.stdout.into())),
    entry("cmd.run_stdout", RUN, |m, a| Ok(run(m, a, Streams::Apart, false)?.stdout.into())),
    entry("cmd.run_stderr", RUN, |m, a| Ok(run(m, a, Streams::Apart, false)?.stderr.into())),
    entry("cmd.retcode", RUN, |m, a| Ok(Value::Int(run(m, a, Streams::Merged, false)?.code))),
    entry("cmd.run_all", RUN, run_all),
    entry("cmd.which", "cmd", |m, a| Ok(m.which(text(a, "cmd")?).into())),
    entry("cmd.has_exec", "cmd", |m, a| Ok(m.which(text(a, "cmd")?).is_some().into())),
    entry("cmd.which_bin", "cmds", which_bin),
    entry("cmd.shells", "", shells),
];

const RUN: &str = "cmd cwd? stdin? runas? group? shell? python_shell? env? clean_env? template? rstrip? umask? \
                   output_encoding? output_loglevel? log_callback? hide_output? timeout? reset_system_locale? \
                   ignore_retcode? saltenv? use_vt? redirect_stderr? bg? password? prepend_path? success_retcodes? \
                   success_stdout? success_stderr? raise_err? **";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Streams {
    Merged,
    Apart,
}

struct Done {
    stdout: String,
    stderr: String,
    code: i64,
    pid: u32,
}

fn run_all(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let streams = if flag(args, "redirect_stderr", false) { Streams::Merged } else { Streams::Apart };
    let done = run(machine, args, streams, false)?;
    let mut out = Map::new();
    out.insert("pid", i64::from(done.pid));
    out.insert("retcode", done.code);
    out.insert("stdout", done.stdout);
    out.insert("stderr", done.stderr);
    Ok(out.into())
}

fn run(machine: &Machine, args: &Bound<Value>, streams: Streams, shell: bool) -> Result<Done, Refusal> {
    if !machine.may_run {
        return Err(Refusal::Forbidden(
            "templates may run no commands: `templates.cmd_run` is `forbid`".into(),
        ));
    }
    let command = asked(machine, args, streams, shell)?;
    let outcome = exec::run(&command).map_err(|e| Refusal::failed(words(&e)))?;
    let hidden = flag(args, "hide_output", false);
    let strip = flag(args, "rstrip", true);
    let show = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        match (hidden, strip) {
            (true, _) => String::new(),
            (false, true) => text.trim_end().to_owned(),
            (false, false) => text.into_owned(),
        }
    };
    if outcome.end == End::TimedOut {
        let seconds = command.timeout.map_or(0, |t| t.as_secs());
        let stdout = format!("{} : Timed out after {seconds} seconds", shown(&command));
        return Ok(Done { stdout, stderr: String::new(), code: 1, pid: outcome.pid });
    }
    Ok(Done {
        stdout: show(&outcome.stdout),
        stderr: show(&outcome.stderr),
        code: outcome.code().into(),
        pid: outcome.pid,
    })
}

fn shown(command: &Command) -> String {
    let all = std::iter::once(&command.program).chain(&command.args);
    format!("[{}]", all.map(|a| format!("'{}'", a.to_string_lossy())).collect::<Vec<_>>().join(", "))
}

fn asked(machine: &Machine, args: &Bound<Value>, streams: Streams, shell: bool) -> Result<Command, Refusal> {
    if args.get("template").is_some_and(Value::is_truthy) {
        return Err(Refusal::failed("a command is not rendered twice: `template` is not taken here"));
    }
    let mut argv = argv(args, flag(args, "python_shell", shell))?;
    if let Some(user) = word(args, "runas").filter(|u| !u.is_empty()) {
        argv = as_user(machine, user, argv)?;
    }
    let mut argv = argv.into_iter();
    let program = argv.next().ok_or_else(|| Refusal::failed("there is no command"))?;
    let mut command = Command::new(program).args(argv.map(OsString::from));
    command.merge_stderr = streams == Streams::Merged;
    command.stdin = word(args, "stdin").unwrap_or_default().as_bytes().to_vec();
    command.quiet = true;
    command.clear_env = flag(args, "clean_env", false);
    command.env = environment(args);
    command.timeout = Some(match args.get("timeout").and_then(Value::as_number) {
        Some(seconds) if seconds > 0.0 => Duration::try_from_secs_f64(seconds).unwrap_or(machine.timeout),
        _ => machine.timeout,
    });
    command.cwd = match word(args, "cwd") {
        Some(cwd) => Some(machine.path(cwd)),
        None => std::env::var_os("HOME").map(std::path::PathBuf::from).filter(|home| home.is_dir()),
    };
    Ok(command)
}

fn argv(args: &Bound<Value>, shell: bool) -> Result<Vec<String>, Refusal> {
    match args.get("cmd") {
        Some(Value::List(words)) => Ok(words.iter().map(Value::json_key).collect()),
        Some(Value::Str(text)) if shell => {
            let shell = word(args, "shell").unwrap_or("/bin/sh");
            Ok(vec![shell.to_owned(), "-c".into(), text.to_string()])
        }
        Some(Value::Str(text)) => {
            line::split(text).ok_or_else(|| Refusal::failed("a quotation mark is not closed"))
        }
        other => {
            let got = other.map_or("nothing", Value::kind);
            Err(Refusal::arguments(format!("`cmd` must be text or a list, not {got}")))
        }
    }
}

/// Wraps a command so that it runs as another user; as oneself it stays as it is.
fn as_user(machine: &Machine, user: &str, argv: Vec<String>) -> Result<Vec<String>, Refusal> {
    let known = super::users::find(machine, user)?;
    let known = known.ok_or_else(|| Refusal::failed(format!("there is no user `{user}`")))?;
    if known.uid == i64::from(rustix::process::geteuid().as_raw()) {
        return Ok(argv);
    }
    let mut wrapped: Vec<String> = ["runuser", "-u", user, "--"].map(str::to_owned).to_vec();
    wrapped.extend(argv);
    Ok(wrapped)
}

fn environment(args: &Bound<Value>) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    if flag(args, "reset_system_locale", true) {
        env.extend(command::plain_locale());
    }
    let mut add = |map: &Map| {
        for (name, value) in map.iter() {
            let value = if value.is_null() { String::new() } else { plain(value) };
            env.push((name.json_key().into(), value.into()));
        }
    };
    match args.get("env") {
        Some(Value::Map(map)) => add(map),
        Some(Value::List(maps)) => maps.iter().filter_map(Value::as_map).for_each(add),
        _ => {}
    }
    if let Some(more) = word(args, "prepend_path") {
        let path = std::env::var("PATH").unwrap_or_default();
        env.push(("PATH".into(), format!("{more}:{path}").into()));
    }
    env
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.json_key(), str::to_owned)
}

fn which_bin(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let names = args.get("cmds").and_then(Value::as_list);
    let names = names.ok_or_else(|| Refusal::arguments("`cmds` must be a list"))?;
    Ok(names.iter().filter_map(Value::as_str).find_map(|n| machine.which(n)).into())
}

fn shells(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    let text = machine.read("/etc/shells")?.unwrap_or_default();
    Ok(strings(text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'))))
}
