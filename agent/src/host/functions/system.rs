//! Small facts of the system that are functions in Salt: time zone, locale, kernel settings, the environment, the
//! clock, chance, and the log.

use std::io::Read;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, entry, flag, strings, text, word};
use crate::facts::{Live, System};
use crate::host::Machine;
use crate::host::ask::cannot;
use crate::host::services::sysctl as kernel;

pub(super) const TABLE: &[Entry] = &[
    entry("timezone.get_zone", "", |m, _| Ok(zone(m)?.into())),
    entry("timezone.get_offset", "", |_, _| strftime("%z")),
    entry("timezone.get_zonecode", "", |_, _| strftime("%Z")),
    entry("locale.get_locale", "", |m, _| Ok(locale(m)?.into())),
    entry("sysctl.get", "name", sysctl),
    entry("environ.get", "key default?", |_, a| {
        let found = Live.env(text(a, "key")?).map(Value::from);
        Ok(found.or_else(|| a.get("default").cloned()).unwrap_or_else(|| "".into()))
    }),
    entry("environ.has_value", "key value?", |_, a| {
        let found = Live.env(text(a, "key")?);
        Ok(found.is_some_and(|v| word(a, "value").is_none_or(|want| v == want)).into())
    }),
    entry("environ.item", "keys default?", environ_item),
    entry("environ.items", "", |_, _| {
        Ok(std::env::vars_os()
            .map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned()))
            .collect::<Map>()
            .into())
    }),
    entry("status.time", "format?", |_, a| strftime(word(a, "format").unwrap_or("%A, %d. %B %Y %I:%M%p"))),
    entry("dnsutil.serial", "zone? update?", |_, _| strftime("%Y%m%d01")),
    entry("status.nproc", "", |_, _| {
        Ok(Value::Int(
            std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
        ))
    }),
    entry("kernelpkg.active", "", |_, _| Ok(Live.uname().release.into())),
    entry("kmod.lsmod", "", |m, _| modules(m).map(|all| all.into_iter().map(module).collect())),
    entry("kmod.is_loaded", "mod", |m, a| {
        let name = text(a, "mod")?.replace('-', "_");
        Ok(modules(m)?.iter().any(|l| l.split(' ').next() == Some(&name)).into())
    }),
    entry(
        "random.get_str",
        "length? chars? lowercase? uppercase? digits? punctuation? whitespace? printable?",
        get_str,
    ),
    entry("log.debug", "message", |_, a| {
        tracing::debug!(target: "template", "{}", said(a));
        Ok(true.into())
    }),
    entry("log.info", "message", |_, a| {
        tracing::info!(target: "template", "{}", said(a));
        Ok(true.into())
    }),
    entry("log.warning", "message", |_, a| {
        tracing::warn!(target: "template", "{}", said(a));
        Ok(true.into())
    }),
    entry("log.error", "message", |_, a| {
        tracing::error!(target: "template", "{}", said(a));
        Ok(true.into())
    }),
    entry("log.critical", "message", |_, a| {
        tracing::error!(target: "template", "{}", said(a));
        Ok(true.into())
    }),
    entry("log.exception", "message", |_, a| {
        tracing::error!(target: "template", "{}", said(a));
        Ok(true.into())
    }),
];

fn said(args: &Bound<Value>) -> String {
    args.get("message").map(|m| m.as_str().map_or_else(|| m.json_key(), str::to_owned)).unwrap_or_default()
}

/// The time zone's name: where `/etc/localtime` points, else what `/etc/timezone` says.
fn zone(machine: &Machine) -> Result<String, Refusal> {
    let link = machine.link("/etc/localtime");
    if let Some((_, zone)) = link.as_deref().and_then(|to| to.split_once("zoneinfo/")) {
        return Ok(zone.to_owned());
    }
    if let Some(zone) = machine.read("/etc/timezone")? {
        return Ok(zone.trim().to_owned());
    }
    Err(Refusal::failed("neither `/etc/localtime` nor `/etc/timezone` tells the time zone"))
}

fn locale(machine: &Machine) -> Result<String, Refusal> {
    for path in ["/etc/locale.conf", "/etc/default/locale", "/etc/sysconfig/i18n"] {
        let file = machine.read(path)?.unwrap_or_default();
        if let Some(lang) = file.lines().find_map(|l| l.trim().strip_prefix("LANG=")) {
            return Ok(lang.trim_matches(['"', '\'']).to_owned());
        }
    }
    Ok(String::new())
}

/// A setting of the kernel; `.` and `/` both part its name.
fn sysctl(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let name = text(args, "name")?;
    match kernel::live(machine, name)? {
        Some(value) => Ok(value.into()),
        None => {
            let path = kernel::path(name)?;
            Ok(format!("sysctl: cannot stat {path}: No such file or directory").into())
        }
    }
}

fn environ_item(_: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let names: Vec<&str> = match args.get("keys") {
        Some(Value::Str(name)) => vec![name],
        Some(Value::List(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Err(Refusal::arguments("`keys` must be text or a list")),
    };
    let default = args.get("default").cloned().unwrap_or_else(|| "".into());
    let value = |name: &str| Live.env(name).map_or_else(|| default.clone(), Value::from);
    Ok(names.into_iter().map(|n| (n, value(n))).collect::<Map>().into())
}

/// The local time in a format.
fn strftime(format: &str) -> Result<Value, Refusal> {
    let now = jiff::Timestamp::try_from(Live.now())
        .map_err(|e| Refusal::failed(format!("the clock is off: {e}")))?;
    let local = now.to_zoned(jiff::tz::TimeZone::system());
    let text = jiff::fmt::strtime::format(format, &local);
    text.map(Value::from).map_err(|e| Refusal::failed(format!("the format `{format}` is wrong: {e}")))
}

fn modules(machine: &Machine) -> Result<Vec<String>, Refusal> {
    let file = machine.read("/proc/modules")?.unwrap_or_default();
    Ok(file.lines().map(str::to_owned).collect())
}

fn module(line: String) -> Value {
    let f: Vec<&str> = line.split(' ').collect();
    let field = |i: usize| f.get(i).copied().unwrap_or_default();
    let mut out = Map::new();
    out.insert("module", field(0));
    out.insert("size", field(1));
    out.insert("depcount", field(2));
    out.insert("deps", strings(field(3).split(',').filter(|d| !d.is_empty() && *d != "-")));
    out.into()
}

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// A text by chance.
fn get_str(_: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let length = args.get("length").map_or(Some(20), Value::as_int).and_then(|n| usize::try_from(n).ok());
    let length = length
        .filter(|n| *n <= 1 << 16)
        .ok_or_else(|| Refusal::arguments("`length` is a number up to 65536"))?;
    let mut chars: Vec<char> = word(args, "chars").unwrap_or_default().chars().collect();
    if chars.is_empty() {
        let printable = flag(args, "printable", false);
        let mut add = |name: &str, default: bool, set: &str| {
            if printable || flag(args, name, default) {
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
        return Err(Refusal::arguments("there is no character to choose from"));
    }
    let mut source = std::fs::File::open("/dev/urandom").map_err(|e| cannot("open", "/dev/urandom", &e))?;
    let mut out = String::with_capacity(length);
    while out.chars().count() < length {
        let mut drawn = [0; 4];
        source.read_exact(&mut drawn).map_err(|e| cannot("read", "/dev/urandom", &e))?;
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
