//! Acts on packages, for `module.run` and the command line.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::super::{flag, strings, text, word};
use super::database;
use crate::host::command::shown;
use crate::host::packages::{self, Act, Db, Options, Target, Teller};
use crate::host::{Machine, Tools};

/// The packages of `name` (commas between them) and `pkgs`, with what stands beside each.
fn wanted(args: &Bound<Value>) -> Vec<(String, Option<String>)> {
    let mut out = Vec::new();
    match args.get("pkgs") {
        Some(Value::List(items)) => {
            for item in items.iter() {
                match item {
                    Value::Map(map) => {
                        out.extend(map.iter().map(|(k, v)| {
                            (shown(k), Some(v).filter(|v| !matches!(v, Value::Null)).map(shown))
                        }));
                    }
                    name => out.push((shown(name), None)),
                }
            }
        }
        _ => {
            let version = args.get("version").filter(|v| v.is_truthy()).map(shown);
            let names = word(args, "name").unwrap_or_default().split(',');
            out.extend(names.filter(|n| !n.is_empty()).map(|n| (n.to_owned(), version.clone())));
        }
    }
    out
}

fn names(args: &Bound<Value>) -> Result<Vec<String>, Refusal> {
    let names: Vec<String> = wanted(args).into_iter().map(|(n, _)| n).collect();
    if names.is_empty() { Err(Refusal::arguments("name a package, or several as `pkgs`")) } else { Ok(names) }
}

/// Does something; what is different after, in Salt's shape.
fn done(machine: &Machine, acts: &[Act<'_>]) -> Result<Value, Refusal> {
    let (chosen, before) = database(machine)?;
    let teller = Teller::new(Tools::new(machine), chosen);
    teller.mend(&before)?;
    acts.iter()
        .filter(|act| matches!(act, Act::Remove(..)))
        .try_for_each(|act| teller.rehearse_within(act, &before).map(drop))?;
    acts.iter().try_for_each(|act| teller.tell(act))?;
    Ok(differences(&before, &chosen.provider.read(machine)?))
}

fn differences(before: &Db, after: &Db) -> Value {
    let mut all = Map::new();
    for s in before.differences(after) {
        all.insert(s.name.as_str(), Map::from_iter([("old", s.old), ("new", s.new)]));
    }
    all.into()
}

fn options(args: &Bound<Value>) -> Options {
    Options {
        fromrepo: word(args, "fromrepo").map(str::to_owned),
        skip_verify: flag(args, "skip_verify", false),
        recommends: args.get("install_recommends").map(Value::is_truthy),
        new_config: flag(args, "force_conf_new", false),
        only_upgrade: flag(args, "only_upgrade", false),
        reinstall: flag(args, "reinstall", false),
        download: flag(args, "downloadonly", false) || flag(args, "download_only", false),
        dist_upgrade: flag(args, "dist_upgrade", false),
        downgrade: true,
        ..Options::default()
    }
}

pub(super) fn refresh_db(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    let chosen = packages::choose(machine, None)?;
    Teller::new(Tools::new(machine), chosen).tell(&Act::Refresh)?;
    Ok(true.into())
}

pub(super) fn install(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut targets: Vec<Target> = wanted(args)
        .into_iter()
        .map(|(name, version)| Target {
            name,
            version: version.map(|v| v.trim_start_matches('=').to_owned()).filter(|v| !v.is_empty()),
            file: None,
        })
        .collect();
    if let Some(Value::List(sources)) = args.get("sources") {
        for (name, file) in sources.iter().filter_map(Value::as_map).flat_map(|m| m.iter()) {
            targets.push(Target { file: Some(shown(file)), ..Target::named(&shown(name)) });
        }
    }
    if targets.is_empty() {
        return Ok(Value::empty_map());
    }
    let options = options(args);
    let act = Act::Install(&targets, &options);
    if flag(args, "refresh", false) { done(machine, &[Act::Refresh, act]) } else { done(machine, &[act]) }
}

pub(super) fn remove(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    take_away(machine, args, false)
}

pub(super) fn purge(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let installed = take_away(machine, args, true)?;
    Ok(Map::from_iter([("installed", installed), ("removed", Value::empty_map())]).into())
}

fn take_away(machine: &Machine, args: &Bound<Value>, purge: bool) -> Result<Value, Refusal> {
    let (_, db) = database(machine)?;
    let here = |n: &String| db.packs.get(n).is_some_and(|p| p.is_installed() || purge && p.removed.is_some());
    let names: Vec<String> = names(args)?.into_iter().filter(here).collect();
    if names.is_empty() { Ok(Value::empty_map()) } else { done(machine, &[Act::Remove(&names, purge)]) }
}

pub(super) fn upgrade(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let names: Vec<String> = wanted(args).into_iter().map(|(n, _)| n).collect();
    let options = Options { downgrade: false, ..options(args) };
    let act = Act::Upgrade(&names, &options);
    if flag(args, "refresh", true) { done(machine, &[Act::Refresh, act]) } else { done(machine, &[act]) }
}

pub(super) fn autoremove(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let act = Act::Autoremove(flag(args, "purge", false));
    if !flag(args, "list_only", false) {
        return done(machine, &[act]);
    }
    let chosen = packages::choose(machine, None)?;
    let steps = Teller::new(Tools::new(machine), chosen).rehearse(&act)?.unwrap_or_default();
    Ok(strings(steps.into_iter().map(|s| s.name)))
}

pub(super) fn hold(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    set_hold(machine, &names(args)?, true)
}

pub(super) fn unhold(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    set_hold(machine, &names(args)?, false)
}

fn set_hold(machine: &Machine, names: &[String], hold: bool) -> Result<Value, Refusal> {
    let (chosen, before) = database(machine)?;
    let act = if hold { Act::Hold(names) } else { Act::Unhold(names) };
    Teller::new(Tools::new(machine), chosen).tell(&act)?;
    let mut out = Map::new();
    for name in names {
        let was = before.packs.get(name).is_some_and(|p| p.is_held);
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
pub(super) fn set_selections(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (_, before) = database(machine)?;
    let mut lines = match word(args, "path") {
        Some(path) => machine.read(path)?.ok_or_else(|| Refusal::failed(format!("`{path}` is not there")))?,
        None => String::new(),
    };
    for (state, names) in args.get("selection").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
        let names: Vec<String> = match names {
            Value::List(names) => names.iter().map(shown).collect(),
            name => vec![shown(name)],
        };
        for name in names {
            lines.push_str(&format!("{name} {}\n", shown(state)));
        }
    }
    let tools = Tools::new(machine);
    if flag(args, "clear", false) {
        tools.must("dpkg", &["--clear-selections"])?;
    }
    let mut command = Tools::command("dpkg", &["--set-selections"], machine.timeout);
    command.stdin = lines.clone().into_bytes();
    let said = tools.run(command)?;
    if !said.is_fine() {
        return Err(Refusal::failed(said.words()));
    }
    let mut out = Map::new();
    for (name, new) in lines.lines().filter_map(|l| l.split_once(char::is_whitespace)) {
        let was = before.packs.get(name).is_some_and(|p| p.is_held);
        let (old, new) = (if was { "hold" } else { "install" }, new.trim());
        if old != new {
            out.insert(name, Map::from_iter([("old", old), ("new", new)]));
        }
    }
    Ok(out.into())
}

pub(super) fn group_list(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    let chosen = packages::choose(machine, None)?;
    let groups = chosen.provider.groups(&Tools::new(machine))?;
    Ok(groups.into_iter().map(|(kind, names)| (kind, strings(names))).collect::<Map>().into())
}

pub(super) fn group_info(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let chosen = packages::choose(machine, None)?;
    let group = chosen.provider.group(&Tools::new(machine), text(args, "name")?)?;
    let mut out = Map::from_iter([("group", text(args, "name")?)]);
    for (kind, names) in group {
        out.insert(kind, strings(names));
    }
    Ok(out.into())
}

pub(super) fn group_diff(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (chosen, db) = database(machine)?;
    let mut out = Map::new();
    for (kind, names) in chosen.provider.group(&Tools::new(machine), text(args, "name")?)? {
        let (there, lacking): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|n| db.get(n).is_some());
        out.insert(
            kind,
            Map::from_iter([("installed", strings(there)), ("not installed", strings(lacking))]),
        );
    }
    Ok(out.into())
}

pub(super) fn group_install(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (chosen, db) = database(machine)?;
    let group = chosen.provider.group(&Tools::new(machine), text(args, "name")?)?;
    let lacking = group.into_iter().filter(|(kind, _)| *kind != "optional").flat_map(|(_, names)| names);
    let targets: Vec<Target> = lacking.filter(|n| db.get(n).is_none()).map(|n| Target::named(&n)).collect();
    let options = options(args);
    if targets.is_empty() {
        Ok(Value::empty_map())
    } else {
        done(machine, &[Act::Install(&targets, &options)])
    }
}
