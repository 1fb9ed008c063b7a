//! `service.*`: what the service manager says, and what it is told.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::glob::Glob;
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, flag, strings, text, word};
use crate::host::services::{self, Act, Boot, Provider, files};
use crate::host::{Machine, Tools};

pub(super) const TABLE: &[Entry] = &[
    entry("service.available", "name", |m, a| Ok(is_available(m, text(a, "name")?)?.into())),
    entry("service.missing", "name", |m, a| Ok((!is_available(m, text(a, "name")?)?).into())),
    entry("service.enabled", "name **", |m, a| Ok(of(m)?.boot(text(a, "name")?)?.is_enabled().into())),
    entry("service.disabled", "name **", |m, a| {
        let name = text(a, "name")?;
        Ok((is_available(m, name)? && of(m)?.boot(name)? == Boot::No).into())
    }),
    entry("service.masked", "name runtime? root?", |m, a| {
        Ok(of(m)?.is_masked(text(a, "name")?, flag(a, "runtime", false)).unwrap_or(false).into())
    }),
    entry("service.get_all", "root?", |m, _| Ok(strings(of(m)?.all()?))),
    entry("service.get_enabled", "root?", |m, _| Ok(strings(of(m)?.with_boot("enabled")?))),
    entry("service.get_disabled", "root?", |m, _| Ok(strings(of(m)?.with_boot("disabled")?))),
    entry("service.get_static", "root?", |m, _| Ok(strings(of(m)?.with_boot("static")?))),
    entry("service.get_running", "", |m, _| Ok(strings(of(m)?.running()?))),
    entry("service.offline", "", |m, _| Ok(of(m)?.is_offline().is_some().into())),
    entry("service.status", "name sig? **", status),
    entry("service.show", "name root?", |m, a| Ok(shown(&of(m)?.show(text(a, "name")?)?).into())),
    entry("service.execs", "root?", execs),
    acting("service.start", TOLD, |m, a| tell(m, a, Act::Start)),
    acting("service.stop", TOLD, |m, a| tell(m, a, Act::Stop)),
    acting("service.restart", TOLD, |m, a| tell(m, a, Act::Restart)),
    acting("service.reload", TOLD, |m, a| tell(m, a, Act::Reload)),
    acting("service.force_reload", TOLD, |m, a| tell(m, a, Act::ForceReload)),
    acting("service.full_restart", TOLD, |m, a| tell(m, a, Act::FullRestart)),
    acting("service.enable", TOLD, |m, a| tell(m, a, Act::Enable)),
    acting("service.disable", TOLD, |m, a| tell(m, a, Act::Disable)),
    acting("service.mask", "name runtime? root?", |m, a| tell(m, a, Act::Mask(flag(a, "runtime", false)))),
    acting("service.unmask", "name runtime? root?", |m, a| {
        tell(m, a, Act::Unmask(flag(a, "runtime", false)))
    }),
    acting("service.systemctl_reload", "", refresh),
    acting("service.daemon_reload", "", refresh),
];

/// What functions that act take.
const TOLD: &str = "name no_block? unmask? unmask_runtime? **";

fn of(machine: &Machine) -> Result<Box<dyn Provider + '_>, Refusal> {
    services::of(Tools::new(machine), None)
}

fn is_available(machine: &Machine, name: &str) -> Result<bool, Refusal> {
    // What has a file is there, and asking nobody is faster. Units are nothing to other managers.
    let has_unit = services::is_systemd(machine) && files::has_unit(machine, name);
    Ok(has_unit || of(machine)?.find(name)?.is_some())
}

fn refresh(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    of(machine)?.refresh()?;
    Ok(true.into())
}

fn tell(machine: &Machine, args: &Bound<Value>, act: Act) -> Result<Value, Refusal> {
    let (name, manager) = (text(args, "name")?, of(machine)?);
    for (key, runtime) in [("unmask", false), ("unmask_runtime", true)] {
        if flag(args, key, false) {
            manager.must(Act::Unmask(runtime), name, false)?;
        }
    }
    manager.must(act, name, flag(args, "no_block", false))?;
    Ok(true.into())
}

/// True when it runs; with a pattern, a mapping of all that fit.
fn status(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    if !machine.is_own() {
        return Err(Refusal::failed("the services of another root do not run"));
    }
    let (name, manager) = (text(args, "name")?, of(machine)?);
    if let Some(sig) = word(args, "sig").filter(|s| manager.takes_signature() && !s.is_empty()) {
        return Ok(services::is_process(machine, sig).into());
    }
    let runs = |name: &str| Ok(manager.find(name)?.is_some_and(|s| s.is_running));
    if !name.contains(['*', '?', '[']) {
        return runs(name).map(Value::from);
    }
    let glob = Glob::new(name);
    let mut out = Map::new();
    for name in manager.all()?.into_iter().filter(|n| glob.matches(n)) {
        let is_running = runs(&name)?;
        out.insert(name, is_running);
    }
    Ok(out.into())
}

/// Properties as Salt cuts them: a command line is a mapping, some are lists.
fn shown(text: &str) -> Map {
    let mut out = Map::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let value: Value = if value.starts_with('{') {
            let inner = value.replace(['{', '}'], "");
            let pairs = inner.split(" ; ").map(|p| p.split_once('=').unwrap_or((p, "")));
            pairs.map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())).collect::<Map>().into()
        } else if matches!(key, "Before" | "After" | "Wants") {
            strings(value.split_whitespace())
        } else {
            value.into()
        };
        out.insert(key, value);
    }
    out
}

/// The programs that services start, by service.
fn execs(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    let manager = of(machine)?;
    let mut out = Map::new();
    for name in manager.all()?.into_iter().filter(|n| !n.ends_with('@')) {
        let shown = shown(&manager.show(&name)?);
        if let Some(path) = shown.get("ExecStart").and_then(Value::as_map).and_then(|m| m.get("path")) {
            out.insert(name, path.clone());
        }
    }
    Ok(out.into())
}
