//! `cmd.*`: commands of templates. As in Salt, `cmd.run` uses no shell unless asked for.

#![expect(clippy::disallowed_methods, reason = "a command runs in the home of the agent's user")]

use std::ffi::OsString;
use std::time::Duration;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, flag_arg, optional_text_arg, query_fn, string_list, text_arg};
use zagent_host::Machine;
use zagent_host::command_options;
use zagent_host::exec::error_message;
use zagent_host::exec::shell_words;
use zagent_host::exec::{ExecCommand, ExitReason};

/// The execution functions of `cmd`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("cmd.run", RUN_SIGNATURE, |m, a| Ok(run(m, a, OutputStreams::Merged, false)?.stdout.into())),
    query_fn("cmd.shell", RUN_SIGNATURE, |m, a| Ok(run(m, a, OutputStreams::Merged, true)?.stdout.into())),
    query_fn("cmd.run_stdout", RUN_SIGNATURE, |m, a| {
        Ok(run(m, a, OutputStreams::Separate, false)?.stdout.into())
    }),
    query_fn("cmd.run_stderr", RUN_SIGNATURE, |m, a| {
        Ok(run(m, a, OutputStreams::Separate, false)?.stderr.into())
    }),
    query_fn("cmd.retcode", RUN_SIGNATURE, |m, a| {
        Ok(Value::Int(run(m, a, OutputStreams::Merged, false)?.code))
    }),
    query_fn("cmd.run_all", RUN_SIGNATURE, run_all),
    query_fn("cmd.which", "cmd", |m, a| Ok(m.which(text_arg(a, "cmd")?).into())),
    query_fn("cmd.has_exec", "cmd", |m, a| Ok(m.which(text_arg(a, "cmd")?).is_some().into())),
    query_fn("cmd.which_bin", "cmds", which_bin),
    query_fn("cmd.shells", "", list_shells),
];

const RUN_SIGNATURE: &str = "cmd cwd? stdin? runas? group? shell? python_shell? env? clean_env? template? rstrip? umask? \
                   output_encoding? output_loglevel? log_callback? hide_output? timeout? reset_system_locale? \
                   ignore_retcode? saltenv? use_vt? redirect_stderr? bg? password? prepend_path? success_retcodes? \
                   success_stdout? success_stderr? raise_err? **";

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputStreams {
    Merged,
    Separate,
}

struct CmdOutput {
    stdout: String,
    stderr: String,
    code: i64,
    pid: u32,
}

fn run_all(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let streams = if flag_arg(args, "redirect_stderr", false) {
        OutputStreams::Merged
    } else {
        OutputStreams::Separate
    };
    let done = run(machine, args, streams, false)?;
    let mut out = Map::new();
    out.insert("pid", i64::from(done.pid));
    out.insert("retcode", done.code);
    out.insert("stdout", done.stdout);
    out.insert("stderr", done.stderr);
    Ok(out.into())
}

fn run(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    streams: OutputStreams,
    shell: bool,
) -> Result<CmdOutput, FunctionError> {
    if !machine.commands_allowed {
        return Err(FunctionError::Forbidden(
            "templates may run no commands: `templates.cmd_run` is `forbid`".into(),
        ));
    }
    let command = build_command(machine, args, streams, shell)?;
    let outcome = machine.run(&command).map_err(|e| FunctionError::failed(error_message(&e)))?;
    let hidden = flag_arg(args, "hide_output", false);
    let strip = flag_arg(args, "rstrip", true);
    let show = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        match (hidden, strip) {
            (true, _) => String::new(),
            (false, true) => text.trim_end().to_owned(),
            (false, false) => text.into_owned(),
        }
    };
    if outcome.reason == ExitReason::TimedOut {
        let seconds = command.timeout.map_or(0, |t| t.as_secs());
        let stdout = format!("{} : Timed out after {seconds} seconds", display_command(&command));
        return Ok(CmdOutput { stdout, stderr: String::new(), code: 1, pid: outcome.pid });
    }
    Ok(CmdOutput {
        stdout: show(&outcome.stdout),
        stderr: show(&outcome.stderr),
        code: outcome.shell_code().into(),
        pid: outcome.pid,
    })
}

fn display_command(command: &ExecCommand) -> String {
    let all = std::iter::once(&command.program).chain(&command.args);
    format!("[{}]", all.map(|a| format!("'{}'", a.to_string_lossy())).collect::<Vec<_>>().join(", "))
}

fn build_command(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    streams: OutputStreams,
    shell: bool,
) -> Result<ExecCommand, FunctionError> {
    if args.get("template").is_some_and(Value::is_truthy) {
        return Err(FunctionError::failed("a command is not rendered twice: `template` is not taken here"));
    }
    let mut argv = build_argv(args, flag_arg(args, "python_shell", shell))?;
    if let Some(user) = optional_text_arg(args, "runas").filter(|u| !u.is_empty()) {
        argv = wrap_as_user(machine, user, argv)?;
    }
    let mut argv = argv.into_iter();
    let program = argv.next().ok_or_else(|| FunctionError::failed("there is no command"))?;
    let mut command = ExecCommand::new(program).args(argv.map(OsString::from));
    command.merge_stderr = streams == OutputStreams::Merged;
    command.stdin = optional_text_arg(args, "stdin").unwrap_or_default().as_bytes().to_vec();
    command.hide_args = true;
    command.clear_env = flag_arg(args, "clean_env", false);
    command.env = env_arg(args);
    command.timeout = Some(match args.get("timeout").and_then(Value::as_number) {
        Some(seconds) if seconds > 0.0 => Duration::try_from_secs_f64(seconds).unwrap_or(machine.timeout),
        _ => machine.timeout,
    });
    command.cwd = match optional_text_arg(args, "cwd") {
        Some(cwd) => Some(cwd.into()),
        None => std::env::var_os("HOME").map(std::path::PathBuf::from).filter(|home| machine.is_dir(home)),
    };
    Ok(command)
}

fn build_argv(args: &FunctionArgs<Value>, shell: bool) -> Result<Vec<String>, FunctionError> {
    match args.get("cmd") {
        Some(Value::List(words)) => Ok(words.iter().map(Value::json_key).collect()),
        Some(Value::Str(text)) if shell => {
            let shell = optional_text_arg(args, "shell").unwrap_or("/bin/sh");
            Ok(vec![shell.to_owned(), "-c".into(), text.to_string()])
        }
        Some(Value::Str(text)) => {
            shell_words::split(text).ok_or_else(|| FunctionError::failed("a quotation mark is not closed"))
        }
        other => {
            let got = other.map_or("nothing", Value::kind);
            Err(FunctionError::bad_arguments(format!("`cmd` must be text or a list, not {got}")))
        }
    }
}

/// Wraps a command so that it runs as another user; as oneself it stays as it is.
fn wrap_as_user(machine: &Machine, user: &str, argv: Vec<String>) -> Result<Vec<String>, FunctionError> {
    let known = zagent_host::accounts::find_user(machine, user)?;
    let known = known.ok_or_else(|| FunctionError::failed(format!("there is no user `{user}`")))?;
    if known.uid == i64::from(rustix::process::geteuid().as_raw()) {
        return Ok(argv);
    }
    let mut wrapped: Vec<String> = ["runuser", "-u", user, "--"].map(str::to_owned).to_vec();
    wrapped.extend(argv);
    Ok(wrapped)
}

fn env_arg(args: &FunctionArgs<Value>) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    if flag_arg(args, "reset_system_locale", true) {
        env.extend(command_options::c_locale_env());
    }
    let mut add = |map: &Map| {
        for (name, value) in map.iter() {
            let value = if value.is_null() { String::new() } else { value_text(value) };
            env.push((name.json_key().into(), value.into()));
        }
    };
    match args.get("env") {
        Some(Value::Map(map)) => add(map),
        Some(Value::List(maps)) => maps.iter().filter_map(Value::as_map).for_each(add),
        _ => {}
    }
    if let Some(more) = optional_text_arg(args, "prepend_path") {
        let mut path = OsString::from(format!("{more}:"));
        path.push(zagent_config::child_process::search_path());
        env.push(("PATH".into(), path));
    }
    env
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.json_key(), str::to_owned)
}

fn which_bin(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names = args.get("cmds").and_then(Value::as_list);
    let names = names.ok_or_else(|| FunctionError::bad_arguments("`cmds` must be a list"))?;
    Ok(names.iter().filter_map(Value::as_str).find_map(|n| machine.which(n)).into())
}

fn list_shells(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let text = machine.read("/etc/shells")?.unwrap_or_default();
    Ok(string_list(text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'))))
}
