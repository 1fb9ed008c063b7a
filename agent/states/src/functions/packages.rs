//! Functions of the modules in `states/packages`: repositories, libraries of languages, archives, answers.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, string_list, text_arg};
use crate::StateError;
use crate::debconf;
use crate::debconf::DebconfAnswer;
use crate::pkgrepo;
use crate::pkgrepo::RepoFormat;
use crate::shared::lang_pkg::LangPkgProvider;
use zagent_host::exec::command_options::value_text;
use zagent_host::fs::{FileMeta, FileSystem};
use zagent_host::{Machine, Tools, packages};

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("pkg.list_repos", "**", |m, _| {
        Ok(pkgrepo::list_repos(&m.disk(None), &repo_family(m)?).map_err(state_error)?.into())
    }),
    query_fn("pkg.get_repo", "repo **", get_repo),
    change_fn("pkg.mod_repo", "repo **", |m, a| change_repo(m, a, false)),
    change_fn("pkg.del_repo", "repo **", |m, a| change_repo(m, a, true)),
    query_fn("pip.list", "prefix? bin_env? user? cwd? env_vars? **", |m, a| {
        list_language_packages(m, a, "pip", "bin_env")
    }),
    query_fn("pip.freeze", "bin_env? user? cwd? use_vt? env_vars? **", |m, a| {
        let out = language_packages(a, "pip", "bin_env")
            .run_checked(&Tools::new(m), &["freeze".into(), "--all".into()])?;
        Ok(string_list(out.lines()))
    }),
    query_fn("pip.version", "bin_env? cwd? user?", |m, a| {
        let out =
            language_packages(a, "pip", "bin_env").run_checked(&Tools::new(m), &["--version".into()])?;
        Ok(out.split_whitespace().nth(1).unwrap_or_default().into())
    }),
    change_fn("pip.install", "pkgs? requirements? bin_env? user? cwd? upgrade? extra_args? **", |m, a| {
        let mut words = vec!["install".to_owned()];
        words.extend(flag_arg(a, "upgrade", false).then(|| "--upgrade".to_owned()));
        words.extend(list_arg(a, "extra_args"));
        words.extend(list_arg(a, "requirements").into_iter().flat_map(|r| ["--requirement".to_owned(), r]));
        words.extend(list_arg(a, "pkgs"));
        run_pip(m, a, &words)
    }),
    change_fn("pip.uninstall", "pkgs? requirements? bin_env? user? cwd? extra_args? **", |m, a| {
        let mut words = vec!["uninstall".to_owned(), "-y".into()];
        words.extend(list_arg(a, "extra_args"));
        words.extend(list_arg(a, "requirements").into_iter().flat_map(|r| ["--requirement".to_owned(), r]));
        words.extend(list_arg(a, "pkgs"));
        run_pip(m, a, &words)
    }),
    query_fn("gem.list", "prefix? ruby? runas? gem_bin?", |m, a| {
        list_language_packages(m, a, "gem", "gem_bin")
    }),
    query_fn("npm.list", "pkg? dir? runas? env? depth?", |m, a| list_language_packages(m, a, "npm", "dir")),
    query_fn("debconf.get_selections", "fetchempty?", debconf_selections),
    query_fn("debconf.show", "name", |m, a| {
        let all = debconf_selections(m, a)?;
        Ok(all.get(text_arg(a, "name")?).cloned().unwrap_or(Value::Null))
    }),
    change_fn("debconf.set", "package question type value *", |m, a| {
        let word = |key: &str| a.get(key).map(value_text).unwrap_or_default();
        let value: Vec<String> = [word("value")].into_iter().chain(a.rest().iter().map(value_text)).collect();
        let (package, question, kind) = (word("package"), word("question"), word("type"));
        debconf::set_selections(
            &Tools::new(m),
            &[DebconfAnswer { package, question, kind, value: value.join(" ") }],
        )?;
        Ok(true.into())
    }),
];

/// Where the libraries are that a call is about.
fn language_packages(args: &FunctionArgs<Value>, kind: &'static str, place: &str) -> LangPkgProvider {
    let text = |key: &str| optional_text_arg(args, key).map(str::to_owned);
    LangPkgProvider {
        kind,
        location: text(place),
        user: text("user").or_else(|| text("runas")),
        cwd: text("cwd"),
        env: Vec::new(),
    }
}

/// Libraries and their versions: one of pip's and npm's, all of gem's.
fn list_language_packages(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    kind: &'static str,
    place: &str,
) -> Result<Value, FunctionError> {
    let all = language_packages(args, kind, place).list(&Tools::new(machine))?;
    let prefix =
        optional_text_arg(args, "prefix").or_else(|| optional_text_arg(args, "pkg")).unwrap_or_default();
    let found = all.into_iter().filter(|(name, _)| name.starts_with(prefix));
    let version = |versions: Vec<String>| match kind {
        "pip" => versions.into_iter().next().map_or(Value::Null, Value::from),
        "gem" => string_list(versions),
        _ => Map::from_iter([("version", versions.join(", "))]).into(),
    };
    Ok(found.map(|(name, versions)| (name, version(versions))).collect::<Map>().into())
}

/// An argument as words; a text may hold several, with commas between them.
fn list_arg(args: &FunctionArgs<Value>, key: &str) -> Vec<String> {
    match args.get(key) {
        Some(Value::List(items)) => items.iter().map(value_text).collect(),
        Some(Value::Str(text)) => {
            text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

/// What pip said to these words.
fn run_pip(machine: &Machine, args: &FunctionArgs<Value>, words: &[String]) -> Result<Value, FunctionError> {
    let output = language_packages(args, "pip", "bin_env").run_command(&Tools::new(machine), words)?;
    Ok(Map::from_iter([
        ("retcode", Value::from(i64::from(output.code))),
        ("stdout", output.stdout.trim_end().into()),
        ("stderr", output.stderr.trim_end().into()),
    ])
    .into())
}

/// All answers, by package.
fn debconf_selections(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let empty = flag_arg(args, "fetchempty", true);
    let mut all: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
    for answer in debconf::load_answers(machine)?.into_iter().filter(|a| empty || !a.value.is_empty()) {
        let output = [answer.question, answer.kind, answer.value].into_iter().map(Value::from).collect();
        all.entry(answer.package).or_default().push(output);
    }
    Ok(all.into_iter().map(|(p, list)| (p, list.into_iter().collect::<Value>())).collect::<Map>().into())
}

fn state_error(failure: StateError) -> FunctionError {
    FunctionError::failed(failure.result.comment)
}

/// How this host keeps its repositories.
fn repo_family(machine: &Machine) -> Result<RepoFormat, FunctionError> {
    let release = machine.read("/etc/os-release")?.unwrap_or_default();
    let says = |key: &str| {
        let value = release.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_default().trim_matches('"').to_owned()
    };
    let name = match packages::select_provider(machine, None)?.provider.name() {
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
    pkgrepo::detect_format(&grain)
        .ok_or_else(|| FunctionError::failed("Repo management not implemented on this platform"))
}

fn get_repo(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "repo")?;
    let family = repo_family(machine)?;
    if !matches!(family, RepoFormat::Debian(..)) {
        let all = pkgrepo::list_repos(&machine.disk(None), &family).map_err(state_error)?;
        return Ok(all.get(name).cloned().unwrap_or_else(Value::empty_map));
    }
    let plan =
        pkgrepo::plan_repo(&machine.disk(None), &family, name, Map::new(), false).map_err(state_error)?;
    Ok(plan.before.map_or_else(Value::empty_map, Value::from))
}

fn change_repo(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    is_absent: bool,
) -> Result<Value, FunctionError> {
    let name = text_arg(args, "repo")?;
    let family = repo_family(machine)?;
    let given: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let disk = machine.disk(None);
    let plan = pkgrepo::plan_repo(&disk, &family, name, given.clone(), is_absent).map_err(state_error)?;
    if is_absent && plan.before.is_none() {
        return Err(FunctionError::failed(format!("Repo {name} doesn't exist in the sources.list(s)")));
    }
    let mut words = String::new();
    for (path, text) in &plan.edits {
        let meta = FileMeta { mode: (!machine.exists(path)).then_some(0o644), ..FileMeta::default() };
        let done = match text {
            Some(text) => disk.resolve_for_change(path).and_then(|p| disk.write(&p, text.as_bytes(), meta)),
            None => disk.remove(path),
        };
        done.map_err(|e| state_error(e.into()))?;
        words.push_str(&match text {
            Some(_) => format!("Repo '{name}' has been removed from {}.\n", path.display()),
            None => format!("File {} containing repo '{name}' has been removed.", path.display()),
        });
    }
    let refreshes = given.get("refresh").is_none_or(Value::is_truthy);
    if refreshes && !plan.edits.is_empty() && machine.which("apt-get").is_some() {
        Tools::new(machine).run_checked("apt-get", &["-q", "update"])?;
    }
    if is_absent {
        return Ok(words.into());
    }
    let after = plan.after.map_or(Value::Null, Value::from);
    Ok(Map::from_iter([(name, after)]).into())
}
