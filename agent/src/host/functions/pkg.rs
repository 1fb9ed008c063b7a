//! `pkg.*` and `lowpkg.*`: what is installed, what can be had, and acts on it; from the same providers as the states.

mod acts;
mod files;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::glob::Glob;
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, flag, strings, text, word};
use crate::host::packages::{self, Act, Chosen, Db, Options, Teller};
use crate::host::{Machine, Tools};

pub(super) const TABLE: &[Entry] = &[
    entry("pkg.version", "* versions_as_list? **", version),
    entry("pkg.list_pkgs", "versions_as_list? removed? purge_desired? **", list_pkgs),
    entry("pkg.is_installed", "name **", is_installed),
    entry("pkg.latest_version", "* **", latest_version),
    entry("pkg.available_version", "* **", latest_version),
    entry("pkg.upgrade_available", "name **", upgrade_available),
    entry("pkg.list_upgrades", "refresh? dist_upgrade? **", list_upgrades),
    entry("pkg.list_repo_pkgs", "* **", list_repo_pkgs),
    entry("pkg.get_selections", "pattern? state? **", get_selections),
    entry("pkg.list_holds", "**", list_holds),
    entry("pkg.normalize_name", "name", normalize_name),
    entry("pkg.owner", "* **", files::owner),
    entry("pkg.file_list", "* **", files::file_list),
    entry("pkg.file_dict", "* **", files::file_dict),
    entry("lowpkg.file_list", "* **", files::file_list),
    entry("lowpkg.file_dict", "* **", files::file_dict),
    entry("pkg.info_installed", "* **", files::info_installed),
    entry("lowpkg.bin_pkg_info", "path saltenv?", files::bin_pkg_info),
    entry("pkg.verify", "* **", files::verify),
    entry("pkg.group_list", "**", acts::group_list),
    entry("pkg.group_info", "name **", acts::group_info),
    entry("pkg.group_diff", "name **", acts::group_diff),
    acting("pkg.refresh_db", "cache_valid_time? failhard? **", acts::refresh_db),
    acting("pkg.install", "name? refresh? fromrepo? skip_verify? pkgs? sources? version? **", acts::install),
    acting("pkg.group_install", "name **", acts::group_install),
    acting("pkg.remove", "name? pkgs? **", acts::remove),
    acting("pkg.purge", "name? pkgs? **", acts::purge),
    acting("pkg.upgrade", "refresh? dist_upgrade? name? pkgs? **", acts::upgrade),
    acting("pkg.autoremove", "list_only? purge?", acts::autoremove),
    acting("pkg.hold", "name? pkgs? **", acts::hold),
    acting("pkg.unhold", "name? pkgs? **", acts::unhold),
    acting("pkg.set_selections", "path? selection? clear? **", acts::set_selections),
];

/// The manager of the machine and what it has installed.
fn database(machine: &Machine) -> Result<(Chosen, Db), Refusal> {
    let chosen = packages::choose(machine, None)?;
    Ok((chosen, chosen.provider.read(machine)?))
}

fn shown(versions: &[String], as_list: bool) -> Value {
    if as_list { strings(versions.iter().map(String::as_str)) } else { versions.join(",").into() }
}

/// Names that stand one after the other.
fn names(args: &Bound<Value>) -> Result<Vec<String>, Refusal> {
    let name = |v: &Value| v.as_str().map(str::to_owned);
    args.rest()
        .iter()
        .map(|v| name(v).ok_or_else(|| Refusal::arguments("a package's name is text")))
        .collect()
}

fn version(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let as_list = flag(args, "versions_as_list", false);
    let names = names(args)?;
    if names.is_empty() {
        return Ok(Value::empty_map());
    }
    let (_, db) = database(machine)?;
    let mut out = Map::new();
    let is_globbed = names.iter().any(|n| n.contains('*'));
    for name in &names {
        if name.contains('*') {
            let glob = Glob::new(name);
            for (found, pack) in db.installed().filter(|(n, _)| glob.matches(n)) {
                out.insert(found, shown(&pack.versions, as_list));
            }
        } else {
            let versions = db.get(name).map_or(&[][..], |p| &p.versions);
            out.insert(name.as_str(), shown(versions, as_list));
        }
    }
    Ok(if is_globbed { out.into() } else { single(out, Value::empty_map()) })
}

/// The only value of a mapping of one, the mapping itself of more.
fn single(map: Map, none: Value) -> Value {
    match map.len() {
        0 => none,
        1 => map.values().next().cloned().unwrap_or_default(),
        _ => map.into(),
    }
}

fn list_pkgs(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let as_list = flag(args, "versions_as_list", false);
    let (_, db) = database(machine)?;
    let mut out = Map::new();
    for (name, pack) in &db.packs {
        let versions = match &pack.removed {
            Some(removed) if flag(args, "removed", false) => vec![removed.clone()],
            _ if flag(args, "removed", false) => continue,
            _ if flag(args, "purge_desired", false) && !pack.is_purge_desired => continue,
            _ if !pack.is_installed() => continue,
            _ => pack.versions.clone(),
        };
        out.insert(name.as_str(), shown(&versions, as_list));
    }
    Ok(out.into())
}

fn is_installed(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    Ok(database(machine)?.1.get(text(args, "name")?).is_some().into())
}

/// The versions that would be installed: empty when the installed one is as new. The package lists are not refreshed.
fn candidates(machine: &Machine, names: &[String], args: &Bound<Value>) -> Result<Map, Refusal> {
    let (chosen, db) = database(machine)?;
    if !machine.is_own() {
        return Err(Refusal::failed("only the host itself tells what it can have"));
    }
    let options = Options { fromrepo: word(args, "fromrepo").map(str::to_owned), ..Options::default() };
    let offers = chosen.provider.offers(&Tools::new(machine), names, &options)?;
    let mut out = Map::new();
    for name in names {
        let newest = offers.get(name).map(|o| o.candidate.as_str()).unwrap_or_default();
        let have = db.version(name);
        let is_newer = have.is_empty() || chosen.provider.scheme().compare(&have, newest).is_lt();
        let is_wanted = is_newer || flag(args, "show_installed", false);
        out.insert(name.as_str(), if is_wanted { newest } else { "" });
    }
    Ok(out)
}

fn latest_version(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let names = names(args)?;
    if names.is_empty() {
        return Ok("".into());
    }
    Ok(single(candidates(machine, &names, args)?, "".into()))
}

fn upgrade_available(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let names = [text(args, "name")?.to_owned()];
    let newer = candidates(machine, &names, args)?;
    Ok(newer.values().any(Value::is_truthy).into())
}

fn list_upgrades(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let chosen = packages::choose(machine, None)?;
    let options = Options {
        fromrepo: word(args, "fromrepo").map(str::to_owned),
        dist_upgrade: flag(args, "dist_upgrade", true),
        ..Options::default()
    };
    let steps = Teller::new(Tools::new(machine), chosen).rehearse(&Act::Upgrade(&[], &options))?;
    let steps = steps.unwrap_or_default();
    let coming = steps.iter().filter(|s| !s.new.is_empty());
    Ok(coming.map(|s| (s.name.as_str(), Value::from(s.new.as_str()))).collect::<Map>().into())
}

fn list_repo_pkgs(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let chosen = packages::choose(machine, None)?;
    let names = names(args)?;
    if names.is_empty() {
        return Err(Refusal::arguments("name the packages: a catalogue may have a hundred thousand"));
    }
    let options = Options { fromrepo: word(args, "fromrepo").map(str::to_owned), ..Options::default() };
    let offers = chosen.provider.offers(&Tools::new(machine), &names, &options)?;
    Ok(offers.iter().map(|(n, o)| (n.as_str(), shown(&o.versions, true))).collect::<Map>().into())
}

/// Packages by what dpkg is to do with them: `install`, `hold`, `deinstall` or `purge`.
fn get_selections(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (_, db) = database(machine)?;
    let glob = Glob::new(word(args, "pattern").unwrap_or("*"));
    let wanted = word(args, "state");
    let mut out: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for (name, pack) in db.packs.iter().filter(|(n, _)| glob.matches(n)) {
        let state = match pack {
            p if p.is_held => "hold",
            p if p.is_purge_desired => "purge",
            p if p.removed.is_some() => "deinstall",
            _ => "install",
        };
        if wanted.is_none_or(|w| w == state) {
            out.entry(state).or_default().push(name);
        }
    }
    Ok(out.into_iter().map(|(state, names)| (state, strings(names))).collect::<Map>().into())
}

fn list_holds(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    let (_, db) = database(machine)?;
    Ok(strings(db.packs.iter().filter(|(_, p)| p.is_held).map(|(n, _)| n.as_str())))
}

/// A name without the machine's own architecture.
fn normalize_name(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let name = text(args, "name")?;
    let (_, db) = database(machine)?;
    Ok(db.own_name(name).into())
}
