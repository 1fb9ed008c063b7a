//! Small facts of the system that are functions in Salt: time zone, locale, kernel settings, the environment, the
//! clock, chance, and the log.

use std::io::Read;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{ExecFunction, flag_arg, optional_text_arg, query_fn, string_list, text_arg};
use crate::sysctl::parameters as kernel;
use zagent_host::Machine;
use zagent_host::facts::{LiveSystem, System};
use zagent_host::machine::path_error;

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("timezone.get_zone", "", |m, _| Ok(timezone_name(m)?.into())),
    query_fn("timezone.get_offset", "", |_, _| strftime("%z")),
    query_fn("timezone.get_zonecode", "", |_, _| strftime("%Z")),
    query_fn("locale.get_locale", "", |m, _| Ok(system_locale(m)?.into())),
    query_fn("sysctl.get", "name", sysctl_value),
    query_fn("environ.get", "key default?", |_, a| {
        let found = LiveSystem.env(text_arg(a, "key")?).map(Value::from);
        Ok(found.or_else(|| a.get("default").cloned()).unwrap_or_else(|| "".into()))
    }),
    query_fn("environ.has_value", "key value?", |_, a| {
        let found = LiveSystem.env(text_arg(a, "key")?);
        Ok(found.is_some_and(|v| optional_text_arg(a, "value").is_none_or(|want| v == want)).into())
    }),
    query_fn("environ.item", "keys default?", environ_item),
    query_fn("environ.items", "", |_, _| {
        Ok(std::env::vars_os()
            .map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()))
            .collect::<Map>()
            .into())
    }),
    query_fn("status.time", "format?", |_, a| {
        strftime(optional_text_arg(a, "format").unwrap_or("%A, %d. %B %Y %I:%M%p"))
    }),
    query_fn("dnsutil.serial", "zone? update?", |_, _| strftime("%Y%m%d01")),
    query_fn("status.nproc", "", |_, _| {
        Ok(Value::Int(
            std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
        ))
    }),
    query_fn("kernelpkg.active", "", |_, _| Ok(LiveSystem.uname().release.into())),
    query_fn("kmod.lsmod", "", |m, _| {
        read_proc_modules(m).map(|all| all.into_iter().map(module_to_value).collect())
    }),
    query_fn("kmod.is_loaded", "mod", |m, a| {
        let name = text_arg(a, "mod")?.replace('-', "_");
        Ok(read_proc_modules(m)?.iter().any(|l| l.split(' ').next() == Some(&name)).into())
    }),
    query_fn(
        "random.get_str",
        "length? chars? lowercase? uppercase? digits? punctuation? whitespace? printable?",
        random_string,
    ),
    query_fn("log.debug", "message", |_, a| {
        tracing::debug!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.info", "message", |_, a| {
        tracing::info!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.warning", "message", |_, a| {
        tracing::warn!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.error", "message", |_, a| {
        tracing::error!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.critical", "message", |_, a| {
        tracing::error!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
    query_fn("log.exception", "message", |_, a| {
        tracing::error!(target: "template", "{}", message_arg(a));
        Ok(true.into())
    }),
];

fn message_arg(args: &FunctionArgs<Value>) -> String {
    args.get("message").map(|m| m.as_str().map_or_else(|| m.json_key(), str::to_owned)).unwrap_or_default()
}

/// The time zone's name: where `/etc/localtime` points, else what `/etc/timezone` says.
fn timezone_name(machine: &Machine) -> Result<String, FunctionError> {
    let link = machine.read_link("/etc/localtime");
    if let Some((_, zone)) = link.as_deref().and_then(|to| to.split_once("zoneinfo/")) {
        return Ok(zone.to_owned());
    }
    if let Some(zone) = machine.read("/etc/timezone")? {
        return Ok(zone.trim().to_owned());
    }
    Err(FunctionError::failed("neither `/etc/localtime` nor `/etc/timezone` tells the time zone"))
}

fn system_locale(machine: &Machine) -> Result<String, FunctionError> {
    for path in ["/etc/locale.conf", "/etc/default/locale", "/etc/sysconfig/i18n"] {
        let file = machine.read(path)?.unwrap_or_default();
        if let Some(lang) = file.lines().find_map(|l| l.trim().strip_prefix("LANG=")) {
            return Ok(lang.trim_matches(['"', '\'']).to_owned());
        }
    }
    Ok(String::new())
}

/// A setting of the kernel; `.` and `/` both part its name.
fn sysctl_value(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "name")?;
    match kernel::live_value(machine, name)? {
        Some(value) => Ok(value.into()),
        None => {
            let path = kernel::proc_path(name)?;
            Ok(format!("sysctl: cannot stat {path}: No such file or directory").into())
        }
    }
}

fn environ_item(_: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names: Vec<&str> = match args.get("keys") {
        Some(Value::Str(name)) => vec![name],
        Some(Value::List(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Err(FunctionError::bad_arguments("`keys` must be text or a list")),
    };
    let default = args.get("default").cloned().unwrap_or_else(|| "".into());
    let value = |name: &str| LiveSystem.env(name).map_or_else(|| default.clone(), Value::from);
    Ok(names.into_iter().map(|n| (n, value(n))).collect::<Map>().into())
}

/// The local time in a format.
fn strftime(format: &str) -> Result<Value, FunctionError> {
    let now = jiff::Timestamp::try_from(LiveSystem.now())
        .map_err(|e| FunctionError::failed(format!("the clock is off: {e}")))?;
    let local = now.to_zoned(jiff::tz::TimeZone::system());
    let text = jiff::fmt::strtime::format(format, &local);
    text.map(Value::from).map_err(|e| FunctionError::failed(format!("the format `{format}` is wrong: {e}")))
}

fn read_proc_modules(machine: &Machine) -> Result<Vec<String>, FunctionError> {
    let file = machine.read("/proc/modules")?.unwrap_or_default();
    Ok(file.lines().map(str::to_owned).collect())
}

fn module_to_value(line: String) -> Value {
    let f: Vec<&str> = line.split(' ').collect();
    let field = |i: usize| f.get(i).copied().unwrap_or_default();
    let mut out = Map::new();
    out.insert("module", field(0));
    out.insert("size", field(1));
    out.insert("depcount", field(2));
    out.insert("deps", string_list(field(3).split(',').filter(|d| !d.is_empty() && *d != "-")));
    out.into()
}

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// A text by chance.
fn random_string(_: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let length = args.get("length").map_or(Some(20), Value::as_int).and_then(|n| usize::try_from(n).ok());
    let length = length
        .filter(|n| *n <= 1 << 16)
        .ok_or_else(|| FunctionError::bad_arguments("`length` is a number up to 65536"))?;
    let mut chars: Vec<char> = optional_text_arg(args, "chars").unwrap_or_default().chars().collect();
    if chars.is_empty() {
        let printable = flag_arg(args, "printable", false);
        let mut add = |name: &str, default: bool, set: &str| {
            if printable || flag_arg(args, name, default) {
                chars.extend(set.chars());
            }
        };
        add("lowercase", true, "abcdefghijklmnopqrstuvwxyz");
        add("uppercase", true, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        add("digits", true, "0123456789");
        add("punctuation", true, PUNCTUATION);
        add("whitespace", false, " \t\n\r\x0b\x0c");
    }
    if chars.is_empty() {
        return Err(FunctionError::bad_arguments("there is no character to choose from"));
    }
    let mut source =
        std::fs::File::open("/dev/urandom").map_err(|e| path_error("open", "/dev/urandom", &e))?;
    let mut out = String::with_capacity(length);
    while out.chars().count() < length {
        let mut drawn = [0; 4];
        source.read_exact(&mut drawn).map_err(|e| path_error("read", "/dev/urandom", &e))?;
        let n = chars.len() as u64;
        let limit = (1_u64 << 32) / n * n;
        let drawn = u64::from(u32::from_ne_bytes(drawn));
        // What lies beyond the last whole round would favour the first characters.
        if drawn < limit {
            out.extend(usize::try_from(drawn % n).ok().and_then(|i| chars.get(i)));
        }
    }
    Ok(out.into())
}
