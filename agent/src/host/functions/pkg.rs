//! `pkg.*` that look: the package databases, read without the package manager where they are text.

use zagent_compiler::functions::version::Scheme;
use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::glob::Glob;
use zagent_config::{Map, Value};

use super::{Entry, entry, flag, strings, text};
use crate::host::Machine;

pub(super) const TABLE: &[Entry] = &[
    entry("pkg.version", "* versions_as_list? **", version),
    entry("pkg.list_pkgs", "versions_as_list? removed? purge_desired? **", list_pkgs),
    entry("pkg.latest_version", "* **", latest_version),
    entry("pkg.available_version", "* **", latest_version),
    entry("pkg.upgrade_available", "name **", upgrade_available),
    entry("pkg.owner", "* **", owner),
];

/// What is installed: names and versions, sorted.
type Installed = Vec<(String, String)>;

fn installed(machine: &Machine) -> Result<Installed, Refusal> {
    if let Some(status) = machine.read("/var/lib/dpkg/status")? {
        return Ok(dpkg(&status, native(machine).as_deref()));
    }
    if let Some(db) = machine.read("/lib/apk/db/installed")? {
        return Ok(apk(&db));
    }
    if !machine.names("/var/lib/pacman/local").is_empty() {
        return Ok(pacman(machine));
    }
    if let Some(rpm) = machine.which("rpm").filter(|_| machine.is_own()) {
        let out = machine
            .look(&rpm, &["-qa", "--qf", "%{NAME} %|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\n"])?;
        let text = String::from_utf8_lossy(&out.stdout);
        return Ok(sorted(text.lines().filter_map(|l| l.split_once(' ')).map(pair).collect()));
    }
    Err(Refusal::failed("no package database was found (dpkg, apk, pacman or rpm)"))
}

fn pair((name, version): (&str, &str)) -> (String, String) {
    (name.to_owned(), version.to_owned())
}

fn sorted(mut all: Installed) -> Installed {
    all.sort();
    all
}

/// The architecture that dpkg itself is built for.
fn native(machine: &Machine) -> Option<String> {
    let text = machine.read("/var/lib/dpkg/arch-native").ok().flatten();
    text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
}

/// The paragraphs of dpkg's status file whose package is installed.
fn dpkg(status: &str, native: Option<&str>) -> Installed {
    let mut all: Vec<(String, String, String)> = Vec::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| {
            paragraph.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let words: Vec<&str> = field("Status").unwrap_or_default().split(' ').collect();
        let [want, _, "installed"] = words[..] else { continue };
        if !matches!(want, "install" | "hold") {
            continue;
        }
        if let (Some(name), Some(version)) = (field("Package"), field("Version")) {
            all.push((name.into(), version.into(), field("Architecture").unwrap_or("all").into()));
        }
    }
    // A status file does not say which architecture is the machine's own: dpkg's package has it.
    let own = native.map(str::to_owned);
    let own = own.or_else(|| all.iter().find(|(n, _, _)| n == "dpkg").map(|(_, _, arch)| arch.clone()));
    let name = |name: String, arch: &str| {
        if arch == "all" || own.as_deref().is_none_or(|own| own == arch) {
            name
        } else {
            format!("{name}:{arch}")
        }
    };
    sorted(all.into_iter().map(|(n, v, arch)| (name(n, &arch), v)).collect())
}

fn apk(db: &str) -> Installed {
    let paragraphs = db.split("\n\n").filter_map(|p| {
        let field = |key: &str| p.lines().find_map(|l| l.strip_prefix(key));
        Some((field("P:")?.to_owned(), field("V:")?.to_owned()))
    });
    sorted(paragraphs.collect())
}

/// Directories named `name-version-release`.
fn pacman(machine: &Machine) -> Installed {
    let names = machine.names("/var/lib/pacman/local");
    sorted(
        names
            .iter()
            .filter_map(|n| {
                let (rest, release) = n.rsplit_once('-')?;
                let (name, version) = rest.rsplit_once('-')?;
                Some((name.to_owned(), format!("{version}-{release}")))
            })
            .collect(),
    )
}

fn grouped(all: Installed) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for (name, version) in all {
        match out.last_mut() {
            Some((last, versions)) if *last == name => versions.push(version),
            _ => out.push((name, vec![version])),
        }
    }
    out
}

fn shown(versions: &[String], as_list: bool) -> Value {
    if as_list { strings(versions.iter().map(String::as_str)) } else { versions.join(",").into() }
}

fn version(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let as_list = flag(args, "versions_as_list", false);
    let all = if args.rest().is_empty() { Vec::new() } else { grouped(installed(machine)?) };
    let mut out = Map::new();
    let mut globbed = false;
    for name in args.rest() {
        let name = name.as_str().ok_or_else(|| Refusal::arguments("a package's name is text"))?;
        if name.contains('*') {
            globbed = true;
            let glob = Glob::new(name);
            for (found, versions) in all.iter().filter(|(n, _)| glob.matches(n)) {
                out.insert(found.as_str(), shown(versions, as_list));
            }
        } else {
            let versions = all.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, v)| v);
            out.insert(name, shown(versions, as_list));
        }
    }
    Ok(if globbed { out.into() } else { single(out, Value::empty_map()) })
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
    if flag(args, "removed", false) || flag(args, "purge_desired", false) {
        return Ok(Value::empty_map());
    }
    let as_list = flag(args, "versions_as_list", false);
    let all = grouped(installed(machine)?);
    Ok(all.iter().map(|(n, v)| (n.as_str(), shown(v, as_list))).collect::<Map>().into())
}

/// The version that would be installed: empty when the installed one is as new. The package lists are not refreshed.
fn candidate(machine: &Machine, name: &str) -> Result<String, Refusal> {
    let Some(apt) = machine.which("apt-cache").filter(|_| machine.is_own()) else {
        return Err(Refusal::failed("only apt tells the latest version here"));
    };
    let out = machine.look(&apt, &["-q", "policy", "--", name])?;
    let text = String::from_utf8_lossy(&out.stdout);
    let field = |key: &str| {
        let value = text.lines().find_map(|l| l.trim().strip_prefix(key)).map(str::trim);
        value.filter(|v| *v != "(none)").unwrap_or_default().to_owned()
    };
    let (have, newest) = (field("Installed:"), field("Candidate:"));
    let newer = have.is_empty() || Scheme::Debian.compare(&have, &newest).is_lt();
    Ok(if newer { newest } else { String::new() })
}

fn latest_version(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut out = Map::new();
    for name in args.rest() {
        let name = name.as_str().ok_or_else(|| Refusal::arguments("a package's name is text"))?;
        out.insert(name, candidate(machine, name)?);
    }
    Ok(single(out, "".into()))
}

fn upgrade_available(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    Ok((!candidate(machine, text(args, "name")?)?.is_empty()).into())
}

/// The packages that brought files along, by dpkg's file lists.
fn owner(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    const LISTS: &str = "/var/lib/dpkg/info";
    let mut out = Map::new();
    for path in args.rest() {
        let path = path.as_str().ok_or_else(|| Refusal::arguments("a path is text"))?;
        let mut found = String::new();
        for list in machine.names(LISTS).iter().filter(|n| n.ends_with(".list")) {
            let files = machine.read(&format!("{LISTS}/{list}"))?.unwrap_or_default();
            if files.lines().any(|f| f == path || (path.starts_with("/usr") && f == &path[4..])) {
                let name = list.trim_end_matches(".list");
                found = name.split(':').next().unwrap_or(name).to_owned();
                break;
            }
        }
        out.insert(path, found);
    }
    Ok(single(out, "".into()))
}
