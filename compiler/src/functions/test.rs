//! `test.*`, and functions whose answer on a node without a master is always the same.

use minijinja::value::Value;
use zagent_config::{Map, Value as Data};

use super::table::{Entry, data, live};
use super::{Bound, Inner, Refusal};
use crate::Call;
use crate::jinja::object::{Dict, Key, dict, repr, to_template, tuple};

/// The version of Salt whose verdicts are kept, when the facts do not say one.
const SALT_VERSION: &str = "3008.3";

pub(super) const TABLE: &[Entry] = &[
    live("test.echo", "text", |_, args| Ok(args.get("text").cloned().unwrap_or_default())),
    live("test.outputter", "data", |_, args| Ok(args.get("data").cloned().unwrap_or_default())),
    live("test.arg", "* **", arg),
    live("test.kwarg", "**", |_, args| Ok(named(args))),
    data("test.arg_repr", "* **", arg_repr),
    data("test.ping", "", |_, _| Ok(true.into())),
    data("test.true", "", |_, _| Ok(true.into())),
    data("test.false", "", |_, _| Ok(false.into())),
    data("test.version", "", version),
    data("test.provider", "module", provider),
    data("test.get_opts", "", |inner, _| Ok(inner.inputs.options.opts.clone().into())),
];

pub(super) const SERVICES: &[Entry] = &[
    data("log.debug", "message", |inner, args| log(inner, "log.debug", args)),
    data("log.info", "message", |inner, args| log(inner, "log.info", args)),
    data("log.warning", "message", |inner, args| log(inner, "log.warning", args)),
    data("log.error", "message", |inner, args| log(inner, "log.error", args)),
    data("log.critical", "message", |inner, args| log(inner, "log.critical", args)),
    data("log.exception", "message", |inner, args| log(inner, "log.exception", args)),
    data("mine.get", "tgt fun tgt_type? exclude_minion?", |_, _| Ok(Data::empty_map())),
    data("mine.valid", "", |_, _| Ok(Data::Null)),
    data("publish.publish", "tgt fun arg? tgt_type? returner? timeout? via_master?", |_, _| {
        Ok(Data::empty_map())
    }),
    data("publish.full_data", "tgt fun arg? tgt_type? returner? timeout?", |_, _| Ok(Data::empty_map())),
];

fn named(args: &Bound<Value>) -> Value {
    dict(args.named().iter().map(|(k, v)| (Key::from(k.as_str()), v.clone())).collect())
}

fn arg(_: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut out = Dict::new();
    out.insert(Key::from("args"), tuple(args.rest().to_vec()));
    out.insert(Key::from("kwargs"), named(args));
    Ok(dict(out))
}

fn arg_repr(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let positional = tuple(args.rest().iter().map(to_template).collect());
    let kwargs: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let shown = [("args", repr(&positional)), ("kwargs", repr(&to_template(&kwargs.into())))];
    Ok(shown.into_iter().collect::<Map>().into())
}

fn version(inner: &Inner, _: &Bound<Data>) -> Result<Data, Refusal> {
    Ok(inner.inputs.host.grain("saltversion").unwrap_or_else(|| SALT_VERSION.into()))
}

/// The name of Salt's own module behind a virtual one, as it is on this system.
fn provider(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let grain = |name: &str| {
        let value = inner.inputs.host.grain(name);
        value.as_ref().and_then(Data::as_str).unwrap_or_default().to_owned()
    };
    let module = super::files::text(args, "module")?;
    let name = match (module, grain("os_family").as_str()) {
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
    };
    Ok(name.into())
}

/// Hands a message to the host's log; a host without one loses it, the answer is the same.
fn log(inner: &Inner, function: &str, args: &Bound<Data>) -> Result<Data, Refusal> {
    let args = vec![args.get("message").cloned().unwrap_or_default()];
    // A message that nobody takes is no reason to stop.
    let _ = inner.inputs.host.call(&Call { function: function.to_owned(), args, kwargs: Map::new() });
    Ok(true.into())
}
