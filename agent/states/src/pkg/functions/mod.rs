//! `pkg.*`: what is installed, what can be had, and acts on it; from the same providers as the states.

pub mod changes;
pub mod files;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::glob::Glob;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, string_list, text_arg,
};
use zagent_host::packages;
use zagent_host::packages::{PkgAction, PkgActionOptions, PkgDb, PkgRunner, SelectedProvider};
use zagent_host::{Machine, Tools};

/// The execution functions of `pkg`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("pkg.version", "* versions_as_list? **", version),
    query_fn("pkg.list_pkgs", "versions_as_list? removed? purge_desired? **", list_pkgs),
    query_fn("pkg.is_installed", "name **", is_installed),
    query_fn("pkg.latest_version", "* **", latest_version),
    query_fn("pkg.available_version", "* **", latest_version),
    query_fn("pkg.upgrade_available", "name **", upgrade_available),
    query_fn("pkg.list_upgrades", "refresh? dist_upgrade? **", list_upgrades),
    query_fn("pkg.list_repo_pkgs", "* **", list_repo_pkgs),
    query_fn("pkg.get_selections", "pattern? state? **", get_selections),
    query_fn("pkg.list_holds", "**", list_holds),
    query_fn("pkg.normalize_name", "name", normalize_name),
    query_fn("pkg.owner", "* **", files::file_owners),
    query_fn("pkg.file_list", "* **", files::file_list),
    query_fn("pkg.file_dict", "* **", files::file_dict),
    query_fn("pkg.info_installed", "* **", files::info_installed),
    query_fn("pkg.verify", "* **", files::verify),
    query_fn("pkg.group_list", "**", changes::group_list),
    query_fn("pkg.group_info", "name **", changes::group_info),
    query_fn("pkg.group_diff", "name **", changes::group_diff),
    change_fn("pkg.refresh_db", "cache_valid_time? failhard? **", changes::refresh_db),
    change_fn(
        "pkg.install",
        "name? refresh? fromrepo? skip_verify? pkgs? sources? version? **",
        changes::install,
    ),
    change_fn("pkg.group_install", "name **", changes::group_install),
    change_fn("pkg.remove", "name? pkgs? **", changes::remove),
    change_fn("pkg.purge", "name? pkgs? **", changes::purge),
    change_fn("pkg.upgrade", "refresh? dist_upgrade? name? pkgs? **", changes::upgrade),
    change_fn("pkg.autoremove", "list_only? purge?", changes::autoremove),
    change_fn("pkg.hold", "name? pkgs? **", changes::hold),
    change_fn("pkg.unhold", "name? pkgs? **", changes::unhold),
    change_fn("pkg.set_selections", "path? selection? clear? **", changes::set_selections),
];

/// The manager of the machine and what it has installed.
fn read_database(machine: &Machine) -> Result<(SelectedProvider, PkgDb), FunctionError> {
    let selected = packages::select_provider(machine, None)?;
    Ok((selected, selected.provider.read_db(machine)?))
}

fn versions_value(versions: &[String], as_list: bool) -> Value {
    if as_list { string_list(versions.iter().map(String::as_str)) } else { versions.join(",").into() }
}

/// Names that stand one after the other.
fn names_arg(args: &FunctionArgs<Value>) -> Result<Vec<String>, FunctionError> {
    let name = |v: &Value| v.as_str().map(str::to_owned);
    args.rest()
        .iter()
        .map(|v| name(v).ok_or_else(|| FunctionError::bad_arguments("a package's name is text")))
        .collect()
}

fn version(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let as_list = flag_arg(args, "versions_as_list", false);
    let names = names_arg(args)?;
    if names.is_empty() {
        return Ok(Value::empty_map());
    }
    let (_, db) = read_database(machine)?;
    let mut out = Map::new();
    let is_globbed = names.iter().any(|n| n.contains('*'));
    for name in &names {
        if name.contains('*') {
            let glob = Glob::new(name);
            for (found, pack) in db.installed().filter(|(n, _)| glob.matches(n)) {
                out.insert(found, versions_value(&pack.versions, as_list));
            }
        } else {
            let versions = db.get(name).map_or(&[][..], |p| &p.versions);
            out.insert(name.as_str(), versions_value(versions, as_list));
        }
    }
    Ok(if is_globbed { out.into() } else { single_or_map(out, Value::empty_map()) })
}

/// The only value of a mapping of one, the mapping itself of more.
fn single_or_map(map: Map, none: Value) -> Value {
    match map.len() {
        0 => none,
        1 => map.values().next().cloned().unwrap_or_default(),
        _ => map.into(),
    }
}

fn list_pkgs(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let as_list = flag_arg(args, "versions_as_list", false);
    let (_, db) = read_database(machine)?;
    let mut out = Map::new();
    for (name, pack) in &db.packages {
        let versions = match &pack.removed_version {
            Some(removed) if flag_arg(args, "removed", false) => vec![removed.clone()],
            _ if flag_arg(args, "removed", false) => continue,
            _ if flag_arg(args, "purge_desired", false) && !pack.is_purge_desired => continue,
            _ if !pack.is_installed() => continue,
            _ => pack.versions.clone(),
        };
        out.insert(name.as_str(), versions_value(&versions, as_list));
    }
    Ok(out.into())
}

fn is_installed(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    Ok(read_database(machine)?.1.get(text_arg(args, "name")?).is_some().into())
}

/// The versions that would be installed: empty when the installed one is as new. The package lists are not refreshed.
fn candidates(machine: &Machine, names: &[String], args: &FunctionArgs<Value>) -> Result<Map, FunctionError> {
    let (selected, db) = read_database(machine)?;
    if !machine.is_this_host() {
        return Err(FunctionError::failed("only the host itself tells what it can have"));
    }
    let options = PkgActionOptions {
        fromrepo: optional_text_arg(args, "fromrepo").map(str::to_owned),
        ..PkgActionOptions::default()
    };
    let offers = selected.provider.query_available(&Tools::new(machine), names, &options)?;
    let mut out = Map::new();
    for name in names {
        let newest = offers.get(name).map(|o| o.candidate.as_str()).unwrap_or_default();
        let have = db.version(name);
        let is_newer = have.is_empty() || selected.provider.version_scheme().compare(&have, newest).is_lt();
        let is_wanted = is_newer || flag_arg(args, "show_installed", false);
        out.insert(name.as_str(), if is_wanted { newest } else { "" });
    }
    Ok(out)
}

fn latest_version(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names = names_arg(args)?;
    if names.is_empty() {
        return Ok("".into());
    }
    Ok(single_or_map(candidates(machine, &names, args)?, "".into()))
}

fn upgrade_available(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names = [text_arg(args, "name")?.to_owned()];
    let newer = candidates(machine, &names, args)?;
    Ok(newer.values().any(Value::is_truthy).into())
}

fn list_upgrades(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let selected = packages::select_provider(machine, None)?;
    let options = PkgActionOptions {
        fromrepo: optional_text_arg(args, "fromrepo").map(str::to_owned),
        dist_upgrade: flag_arg(args, "dist_upgrade", true),
        ..PkgActionOptions::default()
    };
    let steps = PkgRunner::new(Tools::new(machine), selected).dry_run(&PkgAction::Upgrade(&[], &options))?;
    let steps = steps.unwrap_or_default();
    let coming = steps.iter().filter(|s| !s.new.is_empty());
    Ok(coming.map(|s| (s.name.as_str(), Value::from(s.new.as_str()))).collect::<Map>().into())
}

fn list_repo_pkgs(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let selected = packages::select_provider(machine, None)?;
    let names = names_arg(args)?;
    if names.is_empty() {
        return Err(FunctionError::bad_arguments(
            "name the packages: a catalogue may have a hundred thousand",
        ));
    }
    let options = PkgActionOptions {
        fromrepo: optional_text_arg(args, "fromrepo").map(str::to_owned),
        ..PkgActionOptions::default()
    };
    let offers = selected.provider.query_available(&Tools::new(machine), &names, &options)?;
    Ok(offers.iter().map(|(n, o)| (n.as_str(), versions_value(&o.versions, true))).collect::<Map>().into())
}

/// Packages by what dpkg is to do with them: `install`, `hold`, `deinstall` or `purge`.
fn get_selections(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (_, db) = read_database(machine)?;
    let glob = Glob::new(optional_text_arg(args, "pattern").unwrap_or("*"));
    let wanted = optional_text_arg(args, "state");
    let mut out: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for (name, pack) in db.packages.iter().filter(|(n, _)| glob.matches(n)) {
        let state = match pack {
            p if p.is_held => "hold",
            p if p.is_purge_desired => "purge",
            p if p.removed_version.is_some() => "deinstall",
            _ => "install",
        };
        if wanted.is_none_or(|w| w == state) {
            out.entry(state).or_default().push(name);
        }
    }
    Ok(out.into_iter().map(|(state, names)| (state, string_list(names))).collect::<Map>().into())
}

fn list_holds(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (_, db) = read_database(machine)?;
    Ok(string_list(db.packages.iter().filter(|(_, p)| p.is_held).map(|(n, _)| n.as_str())))
}

/// A name without the machine's own architecture.
fn normalize_name(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "name")?;
    let (_, db) = read_database(machine)?;
    Ok(db.without_native_arch(name).into())
}
