//! `service.*`: what the service manager says, and what it is told.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::glob::Glob;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, string_list, text_arg,
};
use zagent_host::services;
use zagent_host::services::{BootState, ServiceAction, ServiceProvider, unit_files};
use zagent_host::{Machine, Tools};

/// The execution functions of `service`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("service.available", "name", |m, a| Ok(is_available(m, text_arg(a, "name")?)?.into())),
    query_fn("service.missing", "name", |m, a| Ok((!is_available(m, text_arg(a, "name")?)?).into())),
    query_fn("service.enabled", "name **", |m, a| {
        Ok(service_provider(m)?.boot_state(text_arg(a, "name")?)?.is_enabled().into())
    }),
    query_fn("service.disabled", "name **", |m, a| {
        let name = text_arg(a, "name")?;
        Ok((is_available(m, name)? && service_provider(m)?.boot_state(name)? == BootState::Disabled).into())
    }),
    query_fn("service.masked", "name runtime? root?", |m, a| {
        Ok(service_provider(m)?
            .is_masked(text_arg(a, "name")?, flag_arg(a, "runtime", false))
            .unwrap_or(false)
            .into())
    }),
    query_fn("service.get_all", "root?", |m, _| Ok(string_list(service_provider(m)?.list()?))),
    query_fn("service.get_enabled", "root?", |m, _| {
        Ok(string_list(service_provider(m)?.list_by_boot("enabled")?))
    }),
    query_fn("service.get_disabled", "root?", |m, _| {
        Ok(string_list(service_provider(m)?.list_by_boot("disabled")?))
    }),
    query_fn("service.get_static", "root?", |m, _| {
        Ok(string_list(service_provider(m)?.list_by_boot("static")?))
    }),
    query_fn("service.get_running", "", |m, _| Ok(string_list(service_provider(m)?.list_running()?))),
    query_fn("service.offline", "", |m, _| Ok(service_provider(m)?.offline_reason().is_some().into())),
    query_fn("service.status", "name sig? **", status),
    query_fn("service.show", "name root?", |m, a| {
        Ok(parse_properties(&service_provider(m)?.show_properties(text_arg(a, "name")?)?).into())
    }),
    query_fn("service.execs", "root?", list_execs),
    change_fn("service.start", CHANGE_SIGNATURE, |m, a| perform_action(m, a, ServiceAction::Start)),
    change_fn("service.stop", CHANGE_SIGNATURE, |m, a| perform_action(m, a, ServiceAction::Stop)),
    change_fn("service.restart", CHANGE_SIGNATURE, |m, a| perform_action(m, a, ServiceAction::Restart)),
    change_fn("service.reload", CHANGE_SIGNATURE, |m, a| perform_action(m, a, ServiceAction::Reload)),
    change_fn("service.force_reload", CHANGE_SIGNATURE, |m, a| {
        perform_action(m, a, ServiceAction::ForceReload)
    }),
    change_fn("service.full_restart", CHANGE_SIGNATURE, |m, a| {
        perform_action(m, a, ServiceAction::FullRestart)
    }),
    change_fn("service.enable", CHANGE_SIGNATURE, |m, a| perform_action(m, a, ServiceAction::Enable)),
    change_fn("service.disable", CHANGE_SIGNATURE, |m, a| perform_action(m, a, ServiceAction::Disable)),
    change_fn("service.mask", "name runtime? root?", |m, a| {
        perform_action(m, a, ServiceAction::Mask(flag_arg(a, "runtime", false)))
    }),
    change_fn("service.unmask", "name runtime? root?", |m, a| {
        perform_action(m, a, ServiceAction::Unmask(flag_arg(a, "runtime", false)))
    }),
    change_fn("service.systemctl_reload", "", refresh),
    change_fn("service.daemon_reload", "", refresh),
];

/// What functions that act take.
const CHANGE_SIGNATURE: &str = "name no_block? unmask? unmask_runtime? **";

fn service_provider(machine: &Machine) -> Result<Box<dyn ServiceProvider + '_>, FunctionError> {
    services::select_provider(Tools::new(machine), None)
}

fn is_available(machine: &Machine, name: &str) -> Result<bool, FunctionError> {
    // What has a file is there, and asking nobody is faster. Units are nothing to other managers.
    let has_unit = services::is_systemd(machine) && unit_files::has_unit(machine, name);
    Ok(has_unit || service_provider(machine)?.status(name)?.is_some())
}

fn refresh(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    service_provider(machine)?.daemon_reload()?;
    Ok(true.into())
}

fn perform_action(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    act: ServiceAction,
) -> Result<Value, FunctionError> {
    let (name, manager) = (text_arg(args, "name")?, service_provider(machine)?);
    for (key, runtime) in [("unmask", false), ("unmask_runtime", true)] {
        if flag_arg(args, key, false) {
            manager.perform_checked(ServiceAction::Unmask(runtime), name, false)?;
        }
    }
    manager.perform_checked(act, name, flag_arg(args, "no_block", false))?;
    Ok(true.into())
}

/// True when it runs; with a pattern, a mapping of all that fit.
fn status(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    if !machine.is_this_host() {
        return Err(FunctionError::failed("the services of another root do not run"));
    }
    let (name, manager) = (text_arg(args, "name")?, service_provider(machine)?);
    if let Some(sig) = optional_text_arg(args, "sig").filter(|s| manager.supports_sig() && !s.is_empty()) {
        return Ok(services::has_process_matching(machine, sig).into());
    }
    let runs = |name: &str| Ok(manager.status(name)?.is_some_and(|s| s.is_running));
    if !name.contains(['*', '?', '[']) {
        return runs(name).map(Value::from);
    }
    let glob = Glob::new(name);
    let mut out = Map::new();
    for name in manager.list()?.into_iter().filter(|n| glob.matches(n)) {
        let is_running = runs(&name)?;
        out.insert(name, is_running);
    }
    Ok(out.into())
}

/// Properties as Salt cuts them: a command line is a mapping, some are lists.
fn parse_properties(text: &str) -> Map {
    let mut out = Map::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let value: Value = if value.starts_with('{') {
            let inner = value.replace(['{', '}'], "");
            let pairs = inner.split(" ; ").map(|p| p.split_once('=').unwrap_or((p, "")));
            pairs.map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())).collect::<Map>().into()
        } else if matches!(key, "Before" | "After" | "Wants") {
            string_list(value.split_whitespace())
        } else {
            value.into()
        };
        out.insert(key, value);
    }
    out
}

/// The programs that services start, by service.
fn list_execs(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let manager = service_provider(machine)?;
    let mut out = Map::new();
    for name in manager.list()?.into_iter().filter(|n| !n.ends_with('@')) {
        let shown = parse_properties(&manager.show_properties(&name)?);
        if let Some(path) = shown.get("ExecStart").and_then(Value::as_map).and_then(|m| m.get("path")) {
            out.insert(name, path.clone());
        }
    }
    Ok(out.into())
}
