//! Functions of the modules in `states/packages`: repositories, libraries of languages, archives, answers.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, flag, strings, text, word};
use crate::fs::{Disk, FileSystem, Meta};
use crate::host::command::shown;
use crate::host::{Machine, Tools, packages};
use crate::states::Failure;
use crate::states::packages::debconf::{self, Answer};
use crate::states::packages::library::Shelf;
use crate::states::packages::pkgrepo::{self, Family};

pub(super) const TABLE: &[Entry] = &[
    entry("pkg.list_repos", "**", |m, _| {
        Ok(pkgrepo::list(&Disk::default(), &family(m)?).map_err(told)?.into())
    }),
    entry("pkg.get_repo", "repo **", get_repo),
    acting("pkg.mod_repo", "repo **", |m, a| change_repo(m, a, false)),
    acting("pkg.del_repo", "repo **", |m, a| change_repo(m, a, true)),
    entry("pip.list", "prefix? bin_env? user? cwd? env_vars? **", |m, a| shelved(m, a, "pip", "bin_env")),
    entry("pip.freeze", "bin_env? user? cwd? use_vt? env_vars? **", |m, a| {
        let out = shelf(a, "pip", "bin_env").must(&Tools::new(m), &["freeze".into(), "--all".into()])?;
        Ok(strings(out.lines()))
    }),
    entry("pip.version", "bin_env? cwd? user?", |m, a| {
        let out = shelf(a, "pip", "bin_env").must(&Tools::new(m), &["--version".into()])?;
        Ok(out.split_whitespace().nth(1).unwrap_or_default().into())
    }),
    acting("pip.install", "pkgs? requirements? bin_env? user? cwd? upgrade? extra_args? **", |m, a| {
        let mut words = vec!["install".to_owned()];
        words.extend(flag(a, "upgrade", false).then(|| "--upgrade".to_owned()));
        words.extend(list(a, "extra_args"));
        words.extend(list(a, "requirements").into_iter().flat_map(|r| ["--requirement".to_owned(), r]));
        words.extend(list(a, "pkgs"));
        ran(m, a, &words)
    }),
    acting("pip.uninstall", "pkgs? requirements? bin_env? user? cwd? extra_args? **", |m, a| {
        let mut words = vec!["uninstall".to_owned(), "-y".into()];
        words.extend(list(a, "extra_args"));
        words.extend(list(a, "requirements").into_iter().flat_map(|r| ["--requirement".to_owned(), r]));
        words.extend(list(a, "pkgs"));
        ran(m, a, &words)
    }),
    entry("gem.list", "prefix? ruby? runas? gem_bin?", |m, a| shelved(m, a, "gem", "gem_bin")),
    entry("npm.list", "pkg? dir? runas? env? depth?", |m, a| shelved(m, a, "npm", "dir")),
    entry("debconf.get_selections", "fetchempty?", selections),
    entry("debconf.show", "name", |m, a| {
        let all = selections(m, a)?;
        Ok(all.get(text(a, "name")?).cloned().unwrap_or(Value::Null))
    }),
    acting("debconf.set", "package question type value *", |m, a| {
        let word = |key: &str| a.get(key).map(shown).unwrap_or_default();
        let value: Vec<String> = [word("value")].into_iter().chain(a.rest().iter().map(shown)).collect();
        let (package, question, kind) = (word("package"), word("question"), word("type"));
        debconf::give(&Tools::new(m), &[Answer { package, question, kind, value: value.join(" ") }])?;
        Ok(true.into())
    }),
];

/// Where the libraries are that a call is about.
fn shelf(args: &Bound<Value>, kind: &'static str, place: &str) -> Shelf {
    let text = |key: &str| word(args, key).map(str::to_owned);
    Shelf {
        kind,
        place: text(place),
        user: text("user").or_else(|| text("runas")),
        cwd: text("cwd"),
        env: Vec::new(),
    }
}

/// Libraries and their versions: one of pip's and npm's, all of gem's.
fn shelved(
    machine: &Machine,
    args: &Bound<Value>,
    kind: &'static str,
    place: &str,
) -> Result<Value, Refusal> {
    let all = shelf(args, kind, place).list(&Tools::new(machine))?;
    let prefix = word(args, "prefix").or_else(|| word(args, "pkg")).unwrap_or_default();
    let found = all.into_iter().filter(|(name, _)| name.starts_with(prefix));
    let version = |versions: Vec<String>| match kind {
        "pip" => versions.into_iter().next().map_or(Value::Null, Value::from),
        "gem" => strings(versions),
        _ => Map::from_iter([("version", versions.join(", "))]).into(),
    };
    Ok(found.map(|(name, versions)| (name, version(versions))).collect::<Map>().into())
}

/// An argument as words; a text may hold several, with commas between them.
fn list(args: &Bound<Value>, key: &str) -> Vec<String> {
    match args.get(key) {
        Some(Value::List(items)) => items.iter().map(shown).collect(),
        Some(Value::Str(text)) => {
            text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

/// What pip said to these words.
fn ran(machine: &Machine, args: &Bound<Value>, words: &[String]) -> Result<Value, Refusal> {
    let said = shelf(args, "pip", "bin_env").run(&Tools::new(machine), words)?;
    Ok(Map::from_iter([
        ("retcode", Value::from(i64::from(said.code))),
        ("stdout", said.out.trim_end().into()),
        ("stderr", said.err.trim_end().into()),
    ])
    .into())
}

/// All answers, by package.
fn selections(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let empty = flag(args, "fetchempty", true);
    let mut all: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
    for answer in debconf::answers(machine)?.into_iter().filter(|a| empty || !a.value.is_empty()) {
        let said = [answer.question, answer.kind, answer.value].into_iter().map(Value::from).collect();
        all.entry(answer.package).or_default().push(said);
    }
    Ok(all.into_iter().map(|(p, list)| (p, list.into_iter().collect::<Value>())).collect::<Map>().into())
}

fn told(failure: Failure) -> Refusal {
    Refusal::failed(failure.done.comment)
}

/// How this host keeps its repositories.
fn family(machine: &Machine) -> Result<Family, Refusal> {
    let release = machine.read("/etc/os-release")?.unwrap_or_default();
    let says = |key: &str| {
        let value = release.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_default().trim_matches('"').to_owned()
    };
    let name = match packages::choose(machine, None)?.provider.name() {
        "apt" => "Debian",
        "zypper" => "Suse",
        "dnf" => "RedHat",
        "apk" => "Alpine",
        _ => "",
    };
    let grain = |key: &str| match key {
        "os_family" => Some(Value::from(name)),
        "os" if says("ID") == "ubuntu" => Some("Ubuntu".into()),
        "os" => Some("Debian".into()),
        "oscodename" => Some(says("VERSION_CODENAME").into()),
        _ => None,
    };
    pkgrepo::family(&grain).ok_or_else(|| Refusal::failed("Repo management not implemented on this platform"))
}

fn get_repo(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let name = text(args, "repo")?;
    let family = family(machine)?;
    if !matches!(family, Family::Debian(..)) {
        let all = pkgrepo::list(&Disk::default(), &family).map_err(told)?;
        return Ok(all.get(name).cloned().unwrap_or_else(Value::empty_map));
    }
    let plan = pkgrepo::change(&Disk::default(), &family, name, Map::new(), false).map_err(told)?;
    Ok(plan.before.map_or_else(Value::empty_map, Value::from))
}

fn change_repo(machine: &Machine, args: &Bound<Value>, is_absent: bool) -> Result<Value, Refusal> {
    let name = text(args, "repo")?;
    let family = family(machine)?;
    let given: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let disk = Disk::default();
    let plan = pkgrepo::change(&disk, &family, name, given.clone(), is_absent).map_err(told)?;
    if is_absent && plan.before.is_none() {
        return Err(Refusal::failed(format!("Repo {name} doesn't exist in the sources.list(s)")));
    }
    let mut words = String::new();
    for (path, text) in &plan.edits {
        let meta = Meta { mode: (!path.exists()).then_some(0o644), ..Meta::default() };
        let done = match text {
            Some(text) => disk.end_for_change(path).and_then(|p| disk.write(&p, text.as_bytes(), meta)),
            None => disk.remove(path),
        };
        done.map_err(|e| told(e.into()))?;
        words.push_str(&match text {
            Some(_) => format!("Repo '{name}' has been removed from {}.\n", path.display()),
            None => format!("File {} containing repo '{name}' has been removed.", path.display()),
        });
    }
    let refreshes = given.get("refresh").is_none_or(Value::is_truthy);
    if refreshes && !plan.edits.is_empty() && machine.which("apt-get").is_some() {
        Tools::new(machine).must("apt-get", &["-q", "update"])?;
    }
    if is_absent {
        return Ok(words.into());
    }
    let after = plan.after.map_or(Value::Null, Value::from);
    Ok(Map::from_iter([(name, after)]).into())
}
