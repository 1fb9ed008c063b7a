//! States of the module `pip`: libraries of Python.

use zagent_compiler::Chunk;
use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use super::version::{Wanted, normal};
use super::{Shelf, Shelved, has_login, redact};
use crate::host::command::shown;
use crate::host::refuse_option;
use crate::host::scratch::Scratch;
use crate::states::file::source::{self, Place};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};

/// What `pip list --format=json` printed.
pub(super) fn listed(out: &str) -> Result<Shelved, Refusal> {
    let start = out.find('[').unwrap_or(0);
    let json = Value::from_json_str(out[start..].trim()).map_err(|_| Refusal::failed("Invalid JSON"))?;
    let one = |v: &Value| {
        let text = |key: &str| v.get(key).and_then(Value::as_str).map(str::to_owned);
        Some((normal(&text("name")?), vec![text("version")?]))
    };
    Ok(json.as_list().into_iter().flat_map(|l| l.iter()).filter_map(one).collect())
}

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let act = match fun {
        "installed" => Act::Install,
        "removed" => Act::Remove,
        "uptodate" => Act::Update,
        _ => return None,
    };
    Some(read(act, args))
}

fn read(act: Act, args: &Args<'_>) -> Built {
    let mut shelf = Shelf::read("pip", args, &["bin_env", "pip_bin"], "env_vars")?;
    for (key, variable) in ADDRESSES {
        let given = args.texts(key)?.filter(|all| !all.is_empty());
        shelf.env.extend(given.map(|all| (variable.to_owned(), all.join(" "))));
    }
    let names = match args.get("pkgs").filter(|_| act == Act::Install) {
        None => vec![args.name()],
        Some(Value::List(items)) => items.iter().map(package).collect(),
        Some(_) => return Err(Failure::new("pkgs argument must be formatted as a list")),
    };
    // What is worked on may stand in the place of a name.
    let is_option =
        |name: &&String| !["-e ", "--editable "].iter().any(|editable| name.starts_with(editable));
    names.iter().filter(is_option).try_for_each(|name| refuse_option("package", name))?;
    let by_name = args.get("requirements").is_none() && args.get("editable").is_none();
    if by_name && act == Act::Install {
        let wrong: Vec<String> = names.iter().filter_map(|n| Wanted::parse(n).err()).collect();
        if !wrong.is_empty() {
            return Err(Failure::new(wrong.join("\n")));
        }
    }
    Ok(Box::new(Pip { act, shelf, names, chunk: args.chunk.clone() }))
}

/// One of several packages: a text, or a mapping of a name and a version.
fn package(value: &Value) -> String {
    match value {
        Value::Map(map) => {
            map.iter().map(|(k, v)| format!("{} {}", shown(k), shown(v))).collect::<Vec<_>>().join(" ")
        }
        other => shown(other),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Install,
    Remove,
    Update,
}

struct Pip {
    act: Act,
    shelf: Shelf,
    names: Vec<String>,
    chunk: Chunk,
}

/// What a look found.
struct Found {
    /// What has to be told to pip.
    targets: Vec<String>,
    /// Their names as they are compared.
    names: Vec<String>,
    /// What is right already, in words.
    already: Vec<String>,
    /// Something surely has to be done.
    is_sure: bool,
    /// Nobody but pip can tell whether there is something to do.
    is_unsure: bool,
}

impl Pip {
    fn flag(&self, key: &str) -> bool {
        Args::new(&self.chunk).flag(key, false)
    }

    fn look(&self, scene: &Scene<'_>) -> Result<Found, Failure> {
        let failed = |e: Refusal| {
            let act = if self.act == Act::Remove { "uninstalling" } else { "installing" };
            Failure::new(format!("Error {act} '{}': {}", self.names.join(";"), e.words()))
        };
        let shelf = self.shelf.list(&scene.tools()).map_err(failed)?;
        let mut found = Found {
            targets: Vec::new(),
            names: Vec::new(),
            already: Vec::new(),
            is_sure: self.act != Act::Install,
            is_unsure: false,
        };
        match self.act {
            Act::Remove => {
                let name = normal(&self.names[0]);
                if shelf.contains_key(&name) {
                    found.targets.push(self.names[0].clone());
                    found.names.push(name);
                }
            }
            Act::Update => {
                let words = ["list", "--outdated", "--format=json"].map(str::to_owned);
                let old = listed(&self.shelf.must(&scene.tools(), &words)?)?;
                found.names = old.into_keys().collect();
                found.targets.clone_from(&found.names);
            }
            Act::Install => {
                for name in self.all(scene)? {
                    self.compare(&name, &shelf, &mut found);
                }
            }
        }
        Ok(found)
    }

    /// All that is asked for: by name, in files of requirements, and what is worked on.
    fn all(&self, scene: &Scene<'_>) -> Result<Vec<String>, Failure> {
        let args = Args::new(&self.chunk);
        let files = args.texts("requirements")?.unwrap_or_default();
        let worked_on = args.texts("editable")?.unwrap_or_default();
        let mut all: Vec<String> = worked_on.iter().map(|path| format!("-e {path}")).collect();
        for file in &files {
            let text = self.text(scene, file)?;
            let lines = text.lines().map(|l| l.split(" #").next().unwrap_or(l).trim().to_owned());
            all.extend(lines.filter(|l| !l.is_empty() && !l.starts_with('#')));
        }
        if files.is_empty() && worked_on.is_empty() {
            all.clone_from(&self.names);
        }
        Ok(all)
    }

    /// Where a file of this host is; nothing for one that has to be brought.
    fn local(&self, file: &str) -> Option<String> {
        let Place::Local(path) = source::place(file) else { return None };
        let cwd = self.shelf.cwd.as_deref().filter(|_| !path.starts_with('/'));
        Some(cwd.map_or_else(|| path.to_owned(), |cwd| format!("{cwd}/{path}")))
    }

    fn text(&self, scene: &Scene<'_>, file: &str) -> Result<String, Failure> {
        let path = self.local(file).unwrap_or_else(|| file.to_owned());
        let found = source::Sources::unverified(path.as_str().into()).find(scene, &self.chunk.env, &path);
        Ok(String::from_utf8_lossy(&found.map_err(Failure::new)?.bytes).into_owned())
    }

    fn compare(&self, name: &str, shelf: &Shelved, found: &mut Found) {
        let worked_on = name.strip_prefix("-e ").or_else(|| name.strip_prefix("--editable "));
        if name.starts_with('-') && worked_on.is_none() {
            // An option of a file of requirements; only more files may ask for more.
            found.is_unsure |= name.starts_with("-r") || name.starts_with("--req");
            return;
        }
        let egg = name.split_once("#egg=").map(|(_, egg)| egg.split('&').next().unwrap_or(egg));
        let wanted = match (worked_on, egg) {
            (_, Some(egg)) => Some(Wanted { name: normal(egg), specs: Vec::new() }),
            (Some(_), None) => None,
            (None, None) => Wanted::parse(name).ok().flatten(),
        };
        let force = self.flag("force_reinstall") || self.flag("ignore_installed");
        let Some(wanted) = wanted else {
            found.is_unsure = true;
            found.targets.push(name.to_owned());
            return;
        };
        let now = shelf.get(&wanted.name).and_then(|v| v.first());
        match now.filter(|v| wanted.takes(v) && !force) {
            Some(_) if !self.flag("upgrade") => {
                found.already.push(format!("Python package {name} was already installed"));
            }
            is_there => {
                // Only pip knows whether there is a newer one.
                found.is_unsure |= is_there.is_some();
                found.is_sure |= is_there.is_none();
                found.targets.push(name.to_owned());
                found.names.push(wanted.name);
            }
        }
    }

    /// What pip is told besides what to install.
    fn options(&self) -> Result<Vec<String>, Failure> {
        let args = Args::new(&self.chunk);
        let mut words = Vec::new();
        for (key, option) in FLAGS {
            words.extend(self.flag(key).then(|| option.to_owned()));
        }
        for (key, option) in VALUES {
            for value in args.texts(key)?.unwrap_or_default() {
                words.extend([option.to_owned(), value]);
            }
        }
        if let Some(Value::List(extra)) = args.get("extra_args") {
            for item in extra.iter() {
                match item {
                    Value::Map(map) => words.extend(map.iter().flat_map(|(k, v)| [shown(k), shown(v)])),
                    other => words.push(shown(other)),
                }
            }
        } else {
            words.extend(args.texts("extra_args")?.unwrap_or_default());
        }
        Ok(words)
    }

    fn install(&self, scene: &Scene<'_>, found: &Found) -> Result<Done, Failure> {
        let tools = scene.tools();
        let args = Args::new(&self.chunk);
        let mut words = vec!["install".to_owned()];
        words.extend(self.options()?);
        let files = args.texts("requirements")?.unwrap_or_default();
        let by_name = files.is_empty() && args.get("editable").is_none();
        let mut kept = Vec::new();
        let owner = self.shelf.account()?.map(|account| account.user.uid);
        for file in &files {
            // A file of this host may name others beside it.
            if let Some(path) = self.local(file) {
                words.extend(["--requirement".into(), path]);
                continue;
            }
            let text = self.text(scene, file)?;
            let scratch = Scratch::secret(text.as_bytes(), ".txt", owner);
            let scratch = scratch.map_err(|e| Failure::new(format!("cannot keep {file}: {e}")))?;
            words.extend(["--requirement".into(), scratch.path().display().to_string()]);
            kept.push(scratch);
        }
        for path in args.texts("editable")?.unwrap_or_default() {
            words.extend(["--editable".into(), path]);
        }
        if by_name {
            let plain = |t: &String| t.split(';').next().unwrap_or(t).replace(' ', "");
            let (secret, open): (Vec<String>, Vec<String>) =
                found.targets.iter().map(plain).partition(|t| has_login(t));
            words.extend(open);
            if !secret.is_empty() {
                let file = Scratch::secret((secret.join("\n") + "\n").as_bytes(), ".txt", owner);
                let file = file.map_err(|e| Failure::new(format!("cannot keep what to install: {e}")))?;
                words.extend(["--requirement".into(), file.path().display().to_string()]);
                kept.push(file);
            }
        }
        let before = self.shelf.list(&tools)?;
        let told = self.shelf.change(scene, &found.names, &mut || Ok(self.shelf.must(&tools, &words)?));
        told.map_err(|f| {
            let what = if by_name {
                format!("Failed to install packages: {}.", found.targets.join(", "))
            } else {
                format!("Unable to process requirements file \"{}\"", files.join(", "))
            };
            Failure::new(redact(&format!("{what} Error: {}", f.done.comment)))
        })?;
        let after = self.shelf.list(&tools)?;
        let is_forced = self.flag("force_reinstall") || self.flag("ignore_installed");
        let mut changes = Map::new();
        for (name, versions) in &after {
            let is_new = before.get(name) != Some(versions);
            let is_meant = !by_name || found.names.contains(name);
            if is_meant && (is_new || (is_forced && by_name)) {
                changes.insert(format!("{name}=={}", versions.join(",")), "Installed");
            }
        }
        if by_name && found.names.len() < found.targets.len() && after != before {
            changes.insert(redact(&format!("{}==???", found.targets.join(","))), "Installed");
        }
        let last = match (by_name, changes.is_empty()) {
            (true, _) => "All packages were successfully installed".to_owned(),
            (false, false) => format!("Successfully processed requirements file {}.", files.join(", ")),
            (false, true) => "Requirements were already installed.".to_owned(),
        };
        let already = if by_name { found.already.clone() } else { Vec::new() };
        let words = already.into_iter().chain([last]).collect::<Vec<_>>().join("\n");
        Ok(Done::new(redact(&words), changes))
    }
}

/// Arguments that switch an option of pip on.
const FLAGS: [(&str, &str); 9] = [
    ("upgrade", "--upgrade"),
    ("force_reinstall", "--force-reinstall"),
    ("ignore_installed", "--ignore-installed"),
    ("no_deps", "--no-deps"),
    ("no_index", "--no-index"),
    ("pre_releases", "--pre"),
    ("no_cache_dir", "--no-cache-dir"),
    ("no_install", "--no-install"),
    ("no_download", "--no-download"),
];

/// Arguments that are addresses, and the variables by which pip gets them.
const ADDRESSES: [(&str, &str); 4] = [
    ("proxy", "PIP_PROXY"),
    ("find_links", "PIP_FIND_LINKS"),
    ("index_url", "PIP_INDEX_URL"),
    ("extra_index_url", "PIP_EXTRA_INDEX_URL"),
];

/// Arguments that are the value of an option of pip.
const VALUES: [(&str, &str); 10] = [
    ("log", "--log"),
    ("timeout", "--timeout"),
    ("target", "--target"),
    ("source", "--source"),
    ("exists_action", "--exists-action"),
    ("global_options", "--global-option"),
    ("cert", "--cert"),
    ("trusted_host", "--trusted-host"),
    ("no_binary", "--no-binary"),
    ("cache_dir", "--cache-dir"),
];

impl State for Pip {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let found = self.look(scene)?;
        if found.targets.is_empty() && !found.is_unsure {
            return Ok(Look::right(match self.act {
                Act::Remove => "Package is not installed.".to_owned(),
                Act::Update => "System is already up-to-date.".to_owned(),
                Act::Install => {
                    let last = "All specified packages are already installed".to_owned();
                    redact(&found.already.into_iter().chain([last]).collect::<Vec<_>>().join("\n"))
                }
            }));
        }
        if found.is_unsure && !found.is_sure {
            return Ok(Look::unknown("only pip can tell what is newer, or what an address holds"));
        }
        let words = match (self.act, found.targets.as_slice()) {
            (Act::Remove, _) => format!("Package {} is set to be removed", self.names[0]),
            (Act::Update, _) => "System update will be performed".to_owned(),
            (Act::Install, [one]) => format!("Python package {one} is set to be installed"),
            (Act::Install, all) => format!("Python package(s) set to be installed:\n{}", all.join("\n")),
        };
        let change = if self.act == Act::Remove { "Removed" } else { "Installed" };
        Ok(Look::drift(redact(&words), found.targets.iter().map(|t| (redact(t), change)).collect()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let found = self.look(scene)?;
        let tools = scene.tools();
        let told = |first: &[&str]| -> Vec<String> {
            first.iter().map(|w| (*w).to_owned()).chain(found.targets.iter().cloned()).collect()
        };
        match self.act {
            Act::Install => self.install(scene, &found),
            Act::Remove => {
                let mut words = told(&["uninstall", "-y"]);
                words.extend(self.options()?);
                self.shelf.change(scene, &found.names, &mut || Ok(self.shelf.must(&tools, &words)?))?;
                let changes = Map::from_iter([(self.names[0].as_str(), "Removed")]);
                Ok(Done::new("Package was successfully removed.", changes))
            }
            Act::Update => {
                let words = told(&["install", "--upgrade"]);
                self.shelf.change(scene, &found.names, &mut || Ok(self.shelf.must(&tools, &words)?))?;
                Ok(Done::new(
                    "Upgrade successful.",
                    found.names.iter().map(|n| (n.as_str(), "Updated")).collect(),
                ))
            }
        }
    }

    fn is_lasting(&self) -> bool {
        let asks = ["upgrade", "force_reinstall", "ignore_installed", "requirements", "editable", "target"];
        self.act == Act::Remove
            || (self.act == Act::Install
                && !asks.iter().any(|k| self.flag(k))
                && self.names.iter().all(|n| matches!(Wanted::parse(n), Ok(Some(_)))))
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Stores]
    }

    fn sees(&self) -> Veil {
        Veil::STORES
    }

    fn veils(&self) -> Veil {
        Veil::STORES | Veil::BROUGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::stage::{Stage, chunk, preview};

    fn found(args: &str, shelf: &str, names: &[&str]) -> (Vec<String>, bool) {
        let chunk = chunk("pip.installed", "x", args);
        let pip = Pip { act: Act::Install, shelf: Shelf::default(), names: Vec::new(), chunk };
        let mut found = Found {
            targets: Vec::new(),
            names: Vec::new(),
            already: Vec::new(),
            is_sure: false,
            is_unsure: false,
        };
        let shelf = listed(shelf).unwrap_or_else(|e| panic!("{}", e.words()));
        names.iter().for_each(|n| pip.compare(n, &shelf, &mut found));
        (found.targets, found.is_unsure)
    }

    const SHELF: &str = "WARNING: old\n[{\"name\": \"Foo.Bar\", \"version\": \"1.2\"}, {\"name\": \"six\", \"version\": \"1.16.0\"}]";

    #[test]
    fn what_is_there_is_compared() {
        assert_eq!(found("{}", SHELF, &["foo_bar>=1", "six==1.16.0"]), (vec![], false));
        assert_eq!(
            found("{}", SHELF, &["foo-bar<1", "new"]),
            (vec!["foo-bar<1".into(), "new".into()], false)
        );
        assert_eq!(found(r#"{"force_reinstall": true}"#, SHELF, &["six"]), (vec!["six".into()], false));
        assert_eq!(found(r#"{"upgrade": true}"#, SHELF, &["six"]), (vec!["six".into()], true));
        assert_eq!(found("{}", SHELF, &["-e git+https://h/x.git#egg=six", "--index-url x"]), (vec![], false));
        assert_eq!(found("{}", SHELF, &["https://h/x.whl"]), (vec!["https://h/x.whl".into()], true));
        assert_eq!(found("{}", SHELF, &["-r more.txt"]), (vec![], true));
    }

    #[test]
    fn what_cannot_be_read_is_told_at_once() {
        let stage = Stage::new();
        let said = preview(&chunk("pip.installed", "foo=1", "{}"), &stage.scene());
        assert!(said.contains("use '==' instead"), "{said}");
        let said = preview(&chunk("pip.installed", "x", r#"{"pkgs": "a"}"#), &stage.scene());
        assert!(said.contains("must be formatted as a list"), "{said}");
        let removed = chunk("pip.removed", "x", r#"{"pkgs": [], "bin_env": "/nowhere/pip"}"#);
        assert!(preview(&removed, &stage.scene()).contains("Error uninstalling 'x'"));
    }

    #[test]
    fn addresses_are_not_among_the_words() {
        let stage = Stage::new();
        let bin = stage.path("pip");
        let script = "#!/bin/sh\ntest \"$1\" = list && echo '[]' && exit\n\
                      echo \"$*\" > $0.said\nenv | grep ^PIP_ | sort >> $0.said\nexec 2>&1; cat ${4:-/dev/null}; exit 1\n";
        std::fs::write(&bin, script).unwrap();
        std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let args = format!(
            r#"{{"bin_env": "{bin}", "index_url": "https://t1@h/", "extra_index_url": ["https://t2@h/", "https://h3/"],
                "proxy": "http://u:t3@p", "pkgs": ["six", "git+https://t4@h/x.git"]}}"#
        );
        let said = crate::states::stage::apply(&chunk("pip.installed", "x", &args), &stage.scene());
        let called = std::fs::read_to_string(stage.path("pip.said")).unwrap();
        let (words, variables) = called.split_once('\n').unwrap();
        assert!(words.starts_with("install six --requirement /") && !words.contains('@'), "{words}");
        for want in
            ["INDEX_URL=https://t1@h/", "EXTRA_INDEX_URL=https://t2@h/ https://h3/", "PROXY=http://u:t3@p"]
        {
            assert!(variables.lines().any(|l| l.strip_prefix("PIP_") == Some(want)), "{variables}");
        }
        // What pip was given in the file comes back in its complaint, without the login.
        assert!(said.starts_with("false") && said.contains("git+https://<redacted>@h/x.git"), "{said}");
        assert!(!said.contains("t4"), "{said}");
    }

    #[test]
    fn nothing_is_taken_for_an_option() {
        let stage = Stage::new();
        for (function, name) in [
            ("pip.removed", "-r/etc/passwd"),
            ("pip.installed", "--index-url=http://x"),
            ("gem.installed", "--source=http://x"),
            ("gem.sources_add", "-r"),
            ("npm.installed", "--prefix=/"),
            ("npm.removed", "-g"),
            ("alternatives.auto", "--force"),
            ("alternatives.set", "--force"),
        ] {
            let said = preview(&chunk(function, name, r#"{"path": "/x"}"#), &stage.scene());
            assert!(said.contains("would be taken for an option"), "{function} {name}: {said}");
        }
    }

    #[test]
    fn files_of_this_host_are_left_where_they_are() {
        let local = |cwd: Option<&str>, file: &str| {
            let shelf = Shelf { cwd: cwd.map(str::to_owned), ..Shelf::default() };
            let chunk = chunk("pip.installed", "x", "{}");
            Pip { act: Act::Install, shelf, names: Vec::new(), chunk }.local(file)
        };
        assert_eq!(local(None, "/a/r.txt").as_deref(), Some("/a/r.txt"));
        assert_eq!(local(Some("/b"), "/a/r.txt").as_deref(), Some("/a/r.txt"));
        assert_eq!(local(Some("/b"), "r.txt").as_deref(), Some("/b/r.txt"));
        assert_eq!(local(Some("/b"), "salt://r.txt"), None);
    }
}
