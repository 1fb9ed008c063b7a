//! `service.*` that look: unit files and init scripts; only the state of a running service is asked of its manager.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::glob::Glob;
use zagent_config::{Map, Value};

use super::{Entry, entry, strings, text};
use crate::host::Machine;

pub(super) const TABLE: &[Entry] = &[
    entry("service.available", "name", |m, a| Ok(available(m, text(a, "name")?).into())),
    entry("service.missing", "name", |m, a| Ok((!available(m, text(a, "name")?)).into())),
    entry("service.enabled", "name **", |m, a| Ok(enabled(m, text(a, "name")?).into())),
    entry("service.disabled", "name **", |m, a| {
        let name = text(a, "name")?;
        Ok((available(m, name) && !enabled(m, name)).into())
    }),
    entry("service.get_all", "", |m, _| Ok(strings(all(m)))),
    entry("service.get_enabled", "", |m, _| Ok(strings(all(m).into_iter().filter(|n| enabled(m, n))))),
    entry("service.get_disabled", "", |m, _| Ok(strings(all(m).into_iter().filter(|n| !enabled(m, n))))),
    entry("service.status", "name sig? **", status),
];

/// Where unit files lie; the first wins.
const UNITS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

fn unit(name: &str) -> String {
    const KINDS: [&str; 8] =
        [".service", ".socket", ".timer", ".target", ".mount", ".path", ".slice", ".automount"];
    if KINDS.iter().any(|k| name.ends_with(k)) { name.to_owned() } else { format!("{name}.service") }
}

/// The template behind an instance: `getty@.service` for `getty@tty1.service`.
fn template(unit: &str) -> Option<String> {
    let (base, rest) = unit.split_once('@')?;
    let kind = rest.rsplit_once('.')?.1;
    Some(format!("{base}@.{kind}"))
}

fn exists(machine: &Machine, path: &str) -> bool {
    fs::metadata(machine.path(path)).is_ok()
}

/// Unit files count where systemd runs, and in other roots, where nothing runs yet.
fn units(machine: &Machine) -> &'static [&'static str] {
    if !machine.is_own() || exists(machine, "/run/systemd/system") { &UNITS } else { &[] }
}

fn is_script(machine: &Machine, name: &str) -> bool {
    let path = machine.path(&format!("/etc/init.d/{name}"));
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn available(machine: &Machine, name: &str) -> bool {
    if name.contains('/') {
        return false;
    }
    let unit = unit(name);
    let names: Vec<String> = [Some(unit.clone()), template(&unit)].into_iter().flatten().collect();
    units(machine).iter().any(|dir| names.iter().any(|n| exists(machine, &format!("{dir}/{n}"))))
        || is_script(machine, name)
}

fn enabled(machine: &Machine, name: &str) -> bool {
    let unit = unit(name);
    let wanted = units(machine).iter().take(2).any(|dir| {
        machine.names(dir).iter().any(|sub| {
            let wants = sub.ends_with(".wants") || sub.ends_with(".requires");
            (wants && fs::symlink_metadata(machine.path(&format!("{dir}/{sub}/{unit}"))).is_ok())
                || (*sub != unit && is_alias(machine, &format!("{dir}/{sub}"), &unit))
        })
    });
    wanted || started_by_script(machine, name)
}

/// A link in the units' directory under another name is an alias, and only an enabled unit has one.
fn is_alias(machine: &Machine, path: &str, unit: &str) -> bool {
    machine.link(path).is_some_and(|to| to.rsplit('/').next() == Some(unit))
}

/// `/etc/rc3.d/S01name` for a service that has only an init script.
fn started_by_script(machine: &Machine, name: &str) -> bool {
    let has_unit = units(machine).iter().any(|dir| exists(machine, &format!("{dir}/{}", unit(name))));
    !has_unit
        && ["2", "3", "4", "5", "S"].iter().any(|level| {
            let links = machine.names(&format!("/etc/rc{level}.d"));
            links.iter().any(|l| {
                let digits = l.strip_prefix('S').and_then(|r| r.get(2..));
                digits == Some(name)
            })
        })
}

/// All services by name, units without their suffix.
fn all(machine: &Machine) -> Vec<String> {
    let units = units(machine).iter().flat_map(|dir| machine.names(dir));
    let mut names: Vec<String> =
        units.filter_map(|n| n.strip_suffix(".service").map(str::to_owned)).collect();
    let scripts = machine.names("/etc/init.d").into_iter().filter(|n| n != "README" && is_script(machine, n));
    names.extend(scripts);
    names.sort_unstable();
    names.dedup();
    names
}

/// True when it runs; with a pattern, a mapping of all that fit.
fn status(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let name = text(args, "name")?;
    if name.contains(['*', '?', '[']) {
        let glob = Glob::new(name);
        let mut out = Map::new();
        for name in all(machine).into_iter().filter(|n| glob.matches(n)) {
            let runs = is_running(machine, &name)?;
            out.insert(name, runs);
        }
        return Ok(out.into());
    }
    is_running(machine, name).map(Value::from)
}

fn is_running(machine: &Machine, name: &str) -> Result<bool, Refusal> {
    if !machine.is_own() {
        return Err(Refusal::failed("the services of another root do not run"));
    }
    if exists(machine, "/run/systemd/system") && machine.which("systemctl").is_some() {
        return Ok(machine.look("systemctl", &["is-active", "--quiet", "--", &unit(name)])?.success());
    }
    if machine.which("rc-service").is_some() {
        return Ok(machine.look("rc-service", &["--quiet", "--", name, "status"])?.success());
    }
    if !name.contains('/') && is_script(machine, name) {
        return Ok(machine.look(&format!("/etc/init.d/{name}"), &["status"])?.success());
    }
    Ok(false)
}
