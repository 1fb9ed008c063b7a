//! `test.*`, and functions whose result on a node without a master is always the same.

use minijinja::value::Value;
use zagent_config::{Map, Value as Data};

use super::table::{FunctionEntry, data_function, live_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::FunctionCall;
use crate::jinja::object::{Dict, DictKey, dict, repr, to_template, tuple};

/// The Salt version whose behaviour zagent follows, when the facts do not give one.
const SALT_VERSION: &str = "3008.3";

pub(super) const TABLE: &[FunctionEntry] = &[
    live_function("test.echo", "text", |_, args| Ok(args.get("text").cloned().unwrap_or_default())),
    live_function("test.outputter", "data", |_, args| Ok(args.get("data").cloned().unwrap_or_default())),
    live_function("test.arg", "* **", arg),
    live_function("test.kwarg", "**", |_, args| Ok(named(args))),
    data_function("test.arg_repr", "* **", arg_repr),
    data_function("test.ping", "", |_, _| Ok(true.into())),
    data_function("test.true", "", |_, _| Ok(true.into())),
    data_function("test.false", "", |_, _| Ok(false.into())),
    data_function("test.version", "", version),
    data_function("test.provider", "module", provider),
    data_function("test.get_opts", "", |inner, _| Ok(inner.inputs.options.opts.clone().into())),
];

pub(super) const SERVICES: &[FunctionEntry] = &[
    data_function("log.debug", "message", |inner, args| log(inner, "log.debug", args)),
    data_function("log.info", "message", |inner, args| log(inner, "log.info", args)),
    data_function("log.warning", "message", |inner, args| log(inner, "log.warning", args)),
    data_function("log.error", "message", |inner, args| log(inner, "log.error", args)),
    data_function("log.critical", "message", |inner, args| log(inner, "log.critical", args)),
    data_function("log.exception", "message", |inner, args| log(inner, "log.exception", args)),
    data_function("mine.get", "tgt fun tgt_type? exclude_minion?", |_, _| Ok(Data::empty_map())),
    data_function("mine.valid", "", |_, _| Ok(Data::Null)),
    data_function("publish.publish", "tgt fun arg? tgt_type? returner? timeout? via_master?", |_, _| {
        Ok(Data::empty_map())
    }),
    data_function("publish.full_data", "tgt fun arg? tgt_type? returner? timeout?", |_, _| {
        Ok(Data::empty_map())
    }),
];

fn named(args: &FunctionArgs<Value>) -> Value {
    dict(args.named().iter().map(|(k, v)| (DictKey::from(k.as_str()), v.clone())).collect())
}

pub(super) fn arg(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut out = Dict::new();
    out.insert(DictKey::from("args"), tuple(args.rest().to_vec()));
    out.insert(DictKey::from("kwargs"), named(args));
    Ok(dict(out))
}

fn arg_repr(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let positional = tuple(args.rest().iter().map(to_template).collect());
    let kwargs: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let shown = [("args", repr(&positional)), ("kwargs", repr(&to_template(&kwargs.into())))];
    Ok(shown.into_iter().collect::<Map>().into())
}

fn version(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(inner.inputs.host.grain("saltversion").unwrap_or_else(|| SALT_VERSION.into()))
}

fn provider(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(provider_of(inner, super::files::text_arg(args, "module")?).into())
}

/// The real Salt module of a virtual module on this system; empty when unknown.
pub(super) fn provider_of<'m>(inner: &FunctionsInner, module: &'m str) -> &'m str {
    let grain = |name: &str| {
        let value = inner.inputs.host.grain(name);
        value.as_ref().and_then(Data::as_str).unwrap_or_default().to_owned()
    };
    match (module, grain("os_family").as_str()) {
        ("pkg", "Debian") => "aptpkg",
        ("pkg", "RedHat") => "yumpkg",
        ("pkg", "Suse") => "zypperpkg",
        ("pkg", "Arch") => "pacmanpkg",
        ("service", family) => match (grain("init").as_str(), family) {
            ("systemd", _) => "systemd_service",
            (_, "Debian") => "debian_service",
            (_, "RedHat") => "rh_service",
            _ => "service",
        },
        ("user", _) => "useradd",
        ("group", _) => "groupadd",
        ("shadow", _) => "linux_shadow",
        ("sysctl", _) => "linux_sysctl",
        ("ip", "Debian") => "debian_ip",
        ("ip", "RedHat") => "rh_ip",
        ("lowpkg", "Debian") => "dpkg_lowpkg",
        ("lowpkg", "RedHat" | "Suse") => "rpm_lowpkg",
        ("kernelpkg", "Debian") => "kernelpkg_linux_apt",
        ("cmd", _) => "cmdmod",
        (
            "cron" | "file" | "network" | "test" | "pillar" | "grains" | "config" | "state" | "git" | "cp"
            | "mount" | "disk" | "event" | "ssh",
            _,
        ) => module,
        _ => "",
    }
}

/// Sends a message to the host's log; a host without a log drops it, the result is the same.
fn log(inner: &FunctionsInner, function: &str, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let args = vec![args.get("message").cloned().unwrap_or_default()];
    // A message that cannot be logged is not an error.
    let _ = inner.inputs.host.call(&FunctionCall { function: function.to_owned(), args, kwargs: Map::new() });
    Ok(true.into())
}
