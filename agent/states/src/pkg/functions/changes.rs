//! Acts on packages, for `module.run` and the command line.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::read_database;
use crate::exec_function::{flag_arg, optional_text_arg, string_list, text_arg};
use zagent_host::command_options::value_text;
use zagent_host::packages;
use zagent_host::packages::{PkgAction, PkgActionOptions, PkgDb, PkgRunner, PkgTarget};
use zagent_host::{Machine, Tools};

/// The packages of `name` (commas between them) and `pkgs`, with what stands beside each.
fn packages_arg(args: &FunctionArgs<Value>) -> Vec<(String, Option<String>)> {
    let mut out = Vec::new();
    match args.get("pkgs") {
        Some(Value::List(items)) => {
            for item in items.iter() {
                match item {
                    Value::Map(map) => {
                        out.extend(map.iter().map(|(k, v)| {
                            (value_text(k), Some(v).filter(|v| !matches!(v, Value::Null)).map(value_text))
                        }));
                    }
                    name => out.push((value_text(name), None)),
                }
            }
        }
        _ => {
            let version = args.get("version").filter(|v| v.is_truthy()).map(value_text);
            let names = optional_text_arg(args, "name").unwrap_or_default().split(',');
            out.extend(names.filter(|n| !n.is_empty()).map(|n| (n.to_owned(), version.clone())));
        }
    }
    out
}

fn package_names(args: &FunctionArgs<Value>) -> Result<Vec<String>, FunctionError> {
    let names: Vec<String> = packages_arg(args).into_iter().map(|(n, _)| n).collect();
    if names.is_empty() {
        Err(FunctionError::bad_arguments("name a package, or several as `pkgs`"))
    } else {
        Ok(names)
    }
}

/// Does something; what is different after, in Salt's shape.
fn execute_and_diff(machine: &Machine, acts: &[PkgAction<'_>]) -> Result<Value, FunctionError> {
    let (selected, before) = read_database(machine)?;
    let teller = PkgRunner::new(Tools::new(machine), selected);
    teller.repair(&before)?;
    acts.iter()
        .filter(|act| matches!(act, PkgAction::Remove(..)))
        .try_for_each(|act| teller.dry_run_checked(act, &before).map(drop))?;
    acts.iter().try_for_each(|act| teller.execute(act))?;
    Ok(changes_value(&before, &selected.provider.read_db(machine)?))
}

fn changes_value(before: &PkgDb, after: &PkgDb) -> Value {
    let mut all = Map::new();
    for s in before.changes_to(after) {
        all.insert(s.name.as_str(), Map::from_iter([("old", s.old), ("new", s.new)]));
    }
    all.into()
}

fn action_options(args: &FunctionArgs<Value>) -> PkgActionOptions {
    PkgActionOptions {
        fromrepo: optional_text_arg(args, "fromrepo").map(str::to_owned),
        skip_verify: flag_arg(args, "skip_verify", false),
        recommends: args.get("install_recommends").map(Value::is_truthy),
        replace_config: flag_arg(args, "force_conf_new", false),
        only_upgrade: flag_arg(args, "only_upgrade", false),
        reinstall: flag_arg(args, "reinstall", false),
        download_only: flag_arg(args, "downloadonly", false) || flag_arg(args, "download_only", false),
        dist_upgrade: flag_arg(args, "dist_upgrade", false),
        downgrade: true,
        ..PkgActionOptions::default()
    }
}

pub(crate) fn refresh_db(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let selected = packages::select_provider(machine, None)?;
    PkgRunner::new(Tools::new(machine), selected).execute(&PkgAction::Refresh)?;
    Ok(true.into())
}

/// Installs packages; answers with the old and new versions.
///
/// # Errors
/// Fails when the package manager does.
pub fn install(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut targets: Vec<PkgTarget> = packages_arg(args)
        .into_iter()
        .map(|(name, version)| PkgTarget {
            name,
            version: version.map(|v| v.trim_start_matches('=').to_owned()).filter(|v| !v.is_empty()),
            file: None,
        })
        .collect();
    if let Some(Value::List(sources)) = args.get("sources") {
        for (name, file) in sources.iter().filter_map(Value::as_map).flat_map(|m| m.iter()) {
            targets
                .push(PkgTarget { file: Some(value_text(file)), ..PkgTarget::from_name(&value_text(name)) });
        }
    }
    if targets.is_empty() {
        return Ok(Value::empty_map());
    }
    let options = action_options(args);
    let act = PkgAction::Install(&targets, &options);
    if flag_arg(args, "refresh", false) {
        execute_and_diff(machine, &[PkgAction::Refresh, act])
    } else {
        execute_and_diff(machine, &[act])
    }
}

/// Removes packages and keeps their configuration; answers with the old and new versions.
///
/// # Errors
/// Fails when no package is named, or when the package manager does.
pub fn remove(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    remove_packages(machine, args, false)
}

/// Removes packages with their configuration; answers with the old and new versions.
///
/// # Errors
/// Fails when no package is named, or when the package manager does.
pub fn purge(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let installed = remove_packages(machine, args, true)?;
    Ok(Map::from_iter([("installed", installed), ("removed", Value::empty_map())]).into())
}

fn remove_packages(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    purge: bool,
) -> Result<Value, FunctionError> {
    let (_, db) = read_database(machine)?;
    let here = |n: &String| {
        db.packages.get(n).is_some_and(|p| p.is_installed() || purge && p.removed_version.is_some())
    };
    let names: Vec<String> = package_names(args)?.into_iter().filter(here).collect();
    if names.is_empty() {
        Ok(Value::empty_map())
    } else {
        execute_and_diff(machine, &[PkgAction::Remove(&names, purge)])
    }
}

/// Upgrades packages, all when none are named; answers with the old and new versions.
///
/// # Errors
/// Fails when the package manager does.
pub fn upgrade(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names: Vec<String> = packages_arg(args).into_iter().map(|(n, _)| n).collect();
    let options = PkgActionOptions { downgrade: false, ..action_options(args) };
    let act = PkgAction::Upgrade(&names, &options);
    if flag_arg(args, "refresh", true) {
        execute_and_diff(machine, &[PkgAction::Refresh, act])
    } else {
        execute_and_diff(machine, &[act])
    }
}

pub(crate) fn autoremove(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let act = PkgAction::Autoremove(flag_arg(args, "purge", false));
    if !flag_arg(args, "list_only", false) {
        return execute_and_diff(machine, &[act]);
    }
    let selected = packages::select_provider(machine, None)?;
    let changes = PkgRunner::new(Tools::new(machine), selected).dry_run(&act)?.unwrap_or_default();
    Ok(string_list(changes.into_iter().map(|s| s.name)))
}

/// Keeps packages at their versions.
///
/// # Errors
/// Fails when no package is named, or when the package manager does.
pub fn hold(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    set_hold(machine, &package_names(args)?, true)
}

pub(crate) fn unhold(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    set_hold(machine, &package_names(args)?, false)
}

fn set_hold(machine: &Machine, names: &[String], hold: bool) -> Result<Value, FunctionError> {
    let (selected, before) = read_database(machine)?;
    let act = if hold { PkgAction::Hold(names) } else { PkgAction::Unhold(names) };
    PkgRunner::new(Tools::new(machine), selected).execute(&act)?;
    let mut out = Map::new();
    for name in names {
        let was = before.packages.get(name).is_some_and(|p| p.is_held);
        let (old, new) = if hold { ("install", "hold") } else { ("hold", "install") };
        let changes = if was == hold { Map::new() } else { Map::from_iter([("old", old), ("new", new)]) };
        let how = match (hold, was) {
            (true, true) => "is already set to be held",
            (true, false) => "is now being held",
            (false, true) => "is no longer being held",
            (false, false) => "is already not held",
        };
        let one = Map::from_iter([
            ("name", Value::from(name.as_str())),
            ("changes", changes.into()),
            ("result", true.into()),
            ("comment", format!("Package {name} {how}.").into()),
        ]);
        out.insert(name.as_str(), one);
    }
    Ok(out.into())
}

/// Selections of dpkg: `{'hold': ['vim']}`, or a file of lines `vim hold`.
pub(crate) fn set_selections(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (_, before) = read_database(machine)?;
    let mut lines = match optional_text_arg(args, "path") {
        Some(path) => {
            machine.read(path)?.ok_or_else(|| FunctionError::failed(format!("`{path}` is not there")))?
        }
        None => String::new(),
    };
    for (state, names) in args.get("selection").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
        let names: Vec<String> = match names {
            Value::List(names) => names.iter().map(value_text).collect(),
            name => vec![value_text(name)],
        };
        for name in names {
            lines.push_str(&format!("{name} {}\n", value_text(state)));
        }
    }
    let tools = Tools::new(machine);
    if flag_arg(args, "clear", false) {
        tools.run_checked("dpkg", &["--clear-selections"])?;
    }
    let mut command = Tools::command("dpkg", &["--set-selections"], machine.timeout);
    command.stdin = lines.clone().into_bytes();
    let output = tools.run(command)?;
    if !output.is_success() {
        return Err(FunctionError::failed(output.message()));
    }
    let mut out = Map::new();
    for (name, new) in lines.lines().filter_map(|l| l.split_once(char::is_whitespace)) {
        let was = before.packages.get(name).is_some_and(|p| p.is_held);
        let (old, new) = (if was { "hold" } else { "install" }, new.trim());
        if old != new {
            out.insert(name, Map::from_iter([("old", old), ("new", new)]));
        }
    }
    Ok(out.into())
}

pub(crate) fn group_list(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let selected = packages::select_provider(machine, None)?;
    let groups = selected.provider.list_groups(&Tools::new(machine))?;
    Ok(groups.into_iter().map(|(kind, names)| (kind, string_list(names))).collect::<Map>().into())
}

/// Members of a package group, by kind.
///
/// # Errors
/// Fails when no group is named, or when the package manager does not know it.
pub fn group_info(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let selected = packages::select_provider(machine, None)?;
    let group = selected.provider.group_members(&Tools::new(machine), text_arg(args, "name")?)?;
    let mut out = Map::from_iter([("group", text_arg(args, "name")?)]);
    for (kind, names) in group {
        out.insert(kind, string_list(names));
    }
    Ok(out.into())
}

pub(crate) fn group_diff(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (selected, db) = read_database(machine)?;
    let mut out = Map::new();
    for (kind, names) in selected.provider.group_members(&Tools::new(machine), text_arg(args, "name")?)? {
        let (there, lacking): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|n| db.get(n).is_some());
        out.insert(
            kind,
            Map::from_iter([("installed", string_list(there)), ("not installed", string_list(lacking))]),
        );
    }
    Ok(out.into())
}

pub(crate) fn group_install(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (selected, db) = read_database(machine)?;
    let group = selected.provider.group_members(&Tools::new(machine), text_arg(args, "name")?)?;
    let lacking = group.into_iter().filter(|(kind, _)| *kind != "optional").flat_map(|(_, names)| names);
    let targets: Vec<PkgTarget> =
        lacking.filter(|n| db.get(n).is_none()).map(|n| PkgTarget::from_name(&n)).collect();
    let options = action_options(args);
    if targets.is_empty() {
        Ok(Value::empty_map())
    } else {
        execute_and_diff(machine, &[PkgAction::Install(&targets, &options)])
    }
}
