//! The arguments of `exec.run` in, settings or every fault of them out: the one table that the compiler and the run use.
//!
//! Law: what passes here runs, and what runs passed here. Only what depends on the host is left for the run: that
//! `cwd` exists and that the user of `runas` does (held by `check_accepts_what_the_run_accepts_and_nothing_else`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use zagent_compiler::Chunk;
use zagent_compiler::schema::{ArgFault, ParamTable, Schema};
use zagent_config::settings::parse_duration;
use zagent_config::{Map, Value};
use zagent_host::command_options::value_text;
use zagent_host::exec::shell_words;

/// How a command line is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExecProvider {
    /// Its words are started as they are.
    #[default]
    Posix,
    /// `/bin/sh -c`.
    Shell,
}

/// What `exec.run` was asked to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ExecSettings {
    pub(super) command: String,
    pub(super) provider: ExecProvider,
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) stdin: Vec<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) expected_codes: Vec<i64>,
    pub(super) creates: Option<PathBuf>,
    pub(super) onlyif: Option<String>,
    pub(super) unless: Option<String>,
    pub(super) refresh_only: bool,
    pub(super) logs: bool,
    path: Option<String>,
}

/// Why a value cannot be used: what is wrong, and how to fix it.
type Fault = (String, &'static str);

/// Puts one value into the settings.
type Reader = fn(&mut ExecSettings, &Value) -> Result<(), Fault>;

/// Every parameter with its reader. A value that is null, false or empty counts as not given, except for `command`.
const PARAMS: &[(&str, Reader)] = &[
    ("command", |s, v| command_line("command", v).map(|line| s.command = line)),
    ("provider", |s, v| provider(v).map(|provider| s.provider = provider)),
    ("cwd", |s, v| absolute_path("cwd", v).map(|path| s.cwd = Some(path))),
    ("environment", |s, v| environment(v).map(|env| s.env = env)),
    ("stdin", |s, v| {
        s.stdin = value_text(v).into_bytes();
        Ok(())
    }),
    ("path", |s, v| search_path(v).map(|path| s.path = Some(path))),
    ("returns", |s, v| exit_codes(v).map(|codes| s.expected_codes = codes)),
    ("timeout", |s, v| time_limit(v).map(|limit| s.timeout = Some(limit))),
    ("creates", |s, v| absolute_path("creates", v).map(|path| s.creates = Some(path))),
    ("onlyif", |s, v| command_line("onlyif", v).map(|line| s.onlyif = Some(line))),
    ("unless", |s, v| command_line("unless", v).map(|line| s.unless = Some(line))),
    ("refresh_only", |s, _| {
        s.refresh_only = true;
        Ok(())
    }),
    ("logoutput", |s, _| {
        s.logs = true;
        Ok(())
    }),
    ("umask", |_, v| umask(v)),
];

/// Every fault of the arguments of a chunk; what the compiler reports.
pub(crate) fn check_args(fun: &str, chunk: &Chunk) -> Vec<ArgFault> {
    if fun == "run" { ExecSettings::read(chunk).err().unwrap_or_default() } else { Vec::new() }
}

impl ExecSettings {
    /// Reads the arguments of a chunk.
    ///
    /// # Errors
    /// Fails with everything that is wrong with them.
    pub(super) fn read(chunk: &Chunk) -> Result<Self, Vec<ArgFault>> {
        let mut settings = Self { expected_codes: vec![0], ..Self::default() };
        let mut faults = Vec::new();
        let mut has_slot = false;
        for entry in chunk.args.entries() {
            let Some(name) = entry.key.as_str() else { continue };
            // A slot is text until the run puts its value there.
            if entry.value.as_str().is_some_and(|text| text.starts_with("__slot__:")) {
                has_slot = true;
                continue;
            }
            if let Err((message, hint)) = settings.set(name, &entry.value) {
                faults.push(ArgFault::new(name, message, hint));
            }
        }
        let is_named = matches!(chunk.name, Value::Str(_));
        if !is_named {
            let message = format!("the name must be text, not {}", chunk.name.kind());
            faults.push(ArgFault::new("name", message, "put the name in quotes"));
        }
        let is_given = |key: &str| chunk.args.get(key).is_some_and(|v| !v.is_null());
        if !is_given("command") {
            settings.command = value_text(&chunk.name);
        }
        if let Some(path) = settings.path.take() {
            settings.env.push(("PATH".into(), path.into()));
        }
        if is_named && !has_slot {
            faults.extend(settings.line_faults(is_given("command")));
        }
        if faults.is_empty() { Ok(settings) } else { Err(faults) }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), Fault> {
        let explain = "`zagent explain exec.run` lists its parameters";
        let Some(kinds) = param_table().and_then(|table| table.kinds(name)) else {
            return Err((format!("there is no parameter `{name}`"), explain));
        };
        if kinds.check_value(value).is_err() {
            let message = format!("`{name}` must be {}, not {}", kinds.describe(), value.kind());
            return Err((message, explain));
        }
        let is_given = value.is_truthy() || name == "command" && !value.is_null();
        match PARAMS.iter().find(|(param, _)| *param == name) {
            Some((_, read)) if is_given => read(self, value),
            _ => Ok(()),
        }
    }

    /// What is wrong with the command and the guards as command lines.
    fn line_faults(&self, has_command: bool) -> Vec<ArgFault> {
        let command = if has_command { "command" } else { "name" };
        let lines = [(command, Some(&self.command)), ("onlyif", self.onlyif.as_ref())];
        lines
            .into_iter()
            .chain([("unless", self.unless.as_ref())])
            .filter_map(|(key, line)| {
                let (message, hint) = self.argv(line?).err()?;
                Some(ArgFault::new(key, format!("`{key}`: {message}"), hint))
            })
            .collect()
    }

    /// What is started for a line.
    ///
    /// # Errors
    /// Fails when it names no program.
    pub(super) fn argv(&self, line: &str) -> Result<Vec<String>, Fault> {
        if line.trim().is_empty() {
            return Err(("there is no command".into(), "write the program and its arguments"));
        }
        if line.contains('\0') {
            return Err(("a command line cannot hold a NUL character".into(), "remove it"));
        }
        if self.provider == ExecProvider::Shell {
            return Ok(vec![zagent_host::command_options::DEFAULT_SHELL.into(), "-c".into(), line.into()]);
        }
        match shell_words::split(line) {
            None => Err((
                format!("a quotation mark is not closed in `{line}`"),
                "close it, or put a backslash before it",
            )),
            Some(words) if words.first().is_none_or(String::is_empty) => {
                Err(("there is no command".into(), "write the program and its arguments"))
            }
            Some(words) => Ok(words),
        }
    }
}

/// The description of this module, as the compiler reads it.
static SCHEMA: Schema = Schema::new(&[("exec", super::DESCRIPTION)]);

/// What states of `exec.run` take, as the description says.
fn param_table() -> Option<&'static ParamTable> {
    static TABLE: OnceLock<Option<ParamTable>> = OnceLock::new();
    TABLE.get_or_init(|| SCHEMA.function("exec", "run").map(ParamTable::new)).as_ref()
}

fn command_line(key: &str, value: &Value) -> Result<String, Fault> {
    match value {
        Value::Bool(_) => Err((
            format!("`{key}` must be a command, not true or false"),
            "put the program `true` in quotes: 'true'",
        )),
        _ => Ok(value_text(value)),
    }
}

fn provider(value: &Value) -> Result<ExecProvider, Fault> {
    match value_text(value).to_lowercase().as_str() {
        "posix" => Ok(ExecProvider::Posix),
        "shell" => Ok(ExecProvider::Shell),
        other => {
            Err((format!("exec has the providers posix and shell, not {other}"), "use `posix` or `shell`"))
        }
    }
}

fn absolute_path(key: &str, value: &Value) -> Result<PathBuf, Fault> {
    let text = value_text(value);
    if Path::new(&text).is_absolute() && !text.contains('\0') {
        return Ok(text.into());
    }
    Err((format!("`{key}` holds `{text}`, which is not an absolute path"), "write the path from `/` on"))
}

/// `KEY=value` each; mappings count too.
fn environment(value: &Value) -> Result<Vec<(OsString, OsString)>, Fault> {
    let bad = |v: &Value| {
        (
            format!("`environment` holds {}, not KEY=value", value_text(v)),
            "write a list of `KEY=value`, or a mapping of names to texts",
        )
    };
    let items: Vec<&Value> = match value {
        Value::List(list) => list.iter().collect(),
        one => vec![one],
    };
    let mut env: Vec<(String, String)> = Vec::new();
    for item in items {
        match item {
            Value::Map(map) => env.extend(variables(map).ok_or_else(|| bad(item))?),
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

/// The variables of a mapping; nothing when a value is a list or a mapping. Null is an empty value.
fn variables(map: &Map) -> Option<Vec<(String, String)>> {
    let text = |v: &Value| match v {
        Value::List(_) | Value::Map(_) => None,
        Value::Null => Some(String::new()),
        other => Some(value_text(other)),
    };
    map.iter().map(|(k, v)| Some((text(k)?, text(v)?))).collect()
}

/// Absolute directories with colons between them.
fn search_path(value: &Value) -> Result<String, Fault> {
    let path = value_text(value);
    match path.split(':').find(|dir| !dir.starts_with('/') || dir.contains('\0')) {
        None => Ok(path),
        Some(dir) => Err((
            format!("`path` holds `{dir}`, which is no absolute directory"),
            "write absolute directories with colons between them, such as /usr/local/bin:/usr/bin",
        )),
    }
}

/// What a process can end with: an exit code, or minus the number of a signal.
const EXIT_CODES: std::ops::RangeInclusive<i64> = -64..=255;

fn exit_codes(value: &Value) -> Result<Vec<i64>, Fault> {
    let items: Vec<&Value> = match value {
        Value::List(list) => list.iter().collect(),
        one => vec![one],
    };
    let code = |v: &Value| {
        let number = v.as_int().or_else(|| v.as_str()?.trim().parse().ok());
        number.filter(|n| EXIT_CODES.contains(n)).ok_or_else(|| {
            (format!("`returns` holds {}, not an exit code", value_text(v)), "an exit code is 0 to 255")
        })
    };
    items.into_iter().map(code).collect()
}

/// A number of seconds, or a text such as `30s`.
fn time_limit(value: &Value) -> Result<Duration, Fault> {
    let seconds = |n: f64| Duration::try_from_secs_f64(n).ok();
    let limit = match value {
        Value::Str(text) => match text.trim().parse::<f64>() {
            Ok(number) => seconds(number),
            Err(_) => parse_duration(text),
        },
        other => other.as_number().and_then(seconds),
    };
    limit.filter(|t| !t.is_zero()).ok_or_else(|| {
        (
            format!("`timeout` must be a time such as 30s, not {}", value_text(value)),
            "write a number of seconds, or a time such as 30s, 5m or 1h30m",
        )
    })
}

fn umask(value: &Value) -> Result<(), Fault> {
    let text = value_text(value);
    let digits = text.strip_prefix("0o").unwrap_or(&text);
    match u32::from_str_radix(digits, 8) {
        Ok(mask) if mask <= 0o777 => Ok(()),
        _ => Err((format!("`umask` holds `{text}`, which is no umask"), "write octal digits such as '0027'")),
    }
}
