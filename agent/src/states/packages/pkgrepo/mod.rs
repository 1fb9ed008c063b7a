//! States of the module `pkgrepo`: where packages come from.
//!
//! Law: a repository is a change of files that is thought out first and written then; a look and an act think the same.

pub(crate) mod apt;
pub(crate) mod ini;
mod key;
mod told;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use self::apt::{Asked, Entry, Sources};
use self::ini::Repos;
use self::key::Key;
use crate::fs::{FileSystem, Meta};
use crate::host::command::shown;
use crate::states::file::parents;
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State, Veil};

pub(crate) use self::told::{change, family, list};

/// A file and what it should hold; nothing stands for a file that should go.
pub(crate) type Edit = (PathBuf, Option<String>);

/// What there is to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// How it was; nothing when there was none.
    pub(crate) before: Option<Map>,
    /// How it will be.
    pub(crate) after: Option<Map>,
    /// What to write.
    pub(crate) edits: Vec<Edit>,
}

/// How a host keeps its repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// apt: the system's name and release.
    Debian(String, String),
    /// Sections of files in a directory.
    Sections(&'static str),
    /// Lines of a file.
    Lines(&'static str),
}

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let is_absent = match fun {
        "managed" => false,
        "absent" => true,
        _ => return None,
    };
    Some(read(args, is_absent))
}

fn read(args: &Args<'_>, is_absent: bool) -> Built {
    if args.get("repo").is_some() {
        let words = "'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.";
        return Err(Failure::new(words));
    }
    if args.get("enabled").is_some() && args.get("disabled").is_some() {
        return Err(Failure::new("Only one of enabled/disabled is allowed"));
    }
    if args.flag("consolidate", false) {
        return Err(Failure::new(
            "`consolidate` is not supported here: files of sources are left where they are",
        ));
    }
    if args.get("copr").is_some() {
        return Err(Failure::new(
            "`copr` is not supported here: give `baseurl` and `gpgkey` of the repository",
        ));
    }
    if is_absent {
        key::Gone::read(args)?;
    } else {
        Key::read(args, None)?;
    }
    Ok(Box::new(Repo { chunk: args.chunk.clone(), is_absent }))
}

struct Repo {
    chunk: Chunk,
    is_absent: bool,
}

/// What a look found: what to do, and the key that goes with it.
struct Found {
    plan: Plan,
    key: Option<Key>,
    /// The key has to be written.
    lacks_key: bool,
}

impl Repo {
    fn name(&self) -> String {
        Args::new(&self.chunk).name()
    }

    fn look(&self, scene: &Scene<'_>) -> Result<Found, Failure> {
        let args = Args::new(&self.chunk);
        let family = family(&|name| scene.host.grain(name));
        let family =
            family.ok_or_else(|| Failure::new("Repo management not implemented on this platform"))?;
        let mut plan = plan(scene.fs, &family, &args, self.is_absent)?;
        // As in Salt, the key goes with its repository.
        if self.is_absent && !plan.edits.is_empty() && matches!(family, Family::Debian(..)) {
            plan.edits.extend(key::Gone::read(&args)?.rings(scene.fs)?.into_iter().map(|ring| (ring, None)));
        }
        let key = match &family {
            Family::Debian(..) if !self.is_absent => Key::read(&args, ring(&args, &family)?.as_deref())?,
            _ => None,
        };
        let lacks_key = match &key {
            Some(key) => key.is_missing(scene, &self.chunk.env)?,
            None => false,
        };
        Ok(Found { plan, key, lacks_key })
    }

    /// What changed, as Salt tells it: the name of a new one, else each setting that is another now.
    fn changes(&self, found: &Found) -> Map {
        let mut changes = Map::new();
        match (&found.plan.before, &found.plan.after) {
            _ if found.plan.edits.is_empty() => {}
            (Some(before), Some(after)) => {
                for (key, new) in after.iter() {
                    let old = before.get_value(key).cloned().unwrap_or(Value::Null);
                    if old != *new {
                        changes.insert(key.clone(), Map::from_iter([("new", new.clone()), ("old", old)]));
                    }
                }
                if changes.is_empty() {
                    changes.insert("repo", self.name());
                }
            }
            _ => {
                changes.insert("repo", self.name());
            }
        }
        let is_ring = |path: &&PathBuf| key::RINGS.iter().any(|dir| path.starts_with(dir));
        let rings = found.plan.edits.iter().filter(|(_, text)| text.is_none()).map(|(path, _)| path);
        let rings: Vec<String> = rings.filter(is_ring).map(|path| path.display().to_string()).collect();
        if !rings.is_empty() {
            changes.insert("keyid", rings.join(" "));
        }
        if let Some(key) = found.key.as_ref().filter(|_| found.lacks_key) {
            changes.insert("key", key.path().display().to_string());
        }
        changes
    }
}

/// The entry that a name stands for; nothing when it is no entry.
fn named(args: &Args<'_>, family: &Family) -> Result<Option<Entry>, Failure> {
    let Family::Debian(os, release) = family else { return Ok(None) };
    let ppa = args.text("ppa")?.or_else(|| args.name().strip_prefix("ppa:").map(str::to_owned));
    let Some(ppa) = ppa.filter(|_| os != "Debian") else { return Ok(Entry::parse(&args.name())) };
    let path = ppa.trim_start_matches("ppa:");
    if !path.contains('/') {
        return Err(Failure::new(format!(
            "Unable to get PPA info from argument. Expected format \"<PPA_OWNER>/<PPA_NAME>\" (e.g. saltstack/salt) \
             not found.  Received '{path}' instead."
        )));
    }
    let host = match args.text("ppa_auth")? {
        Some(auth) => format!("https://{auth}@private-ppa.launchpad.net"),
        None => "https://ppa.launchpadcontent.net".into(),
    };
    Ok(Entry::parse(&format!("deb {host}/{path}/ubuntu {release} main")))
}

/// The keyring that an entry will name: what the state says goes before what stands in the name.
fn ring(args: &Args<'_>, family: &Family) -> Result<Option<String>, Failure> {
    let named = named(args, family)?;
    let of_name = || named.and_then(|n| n.option("signed-by").map(str::to_owned));
    Ok(args.text("signedby")?.or_else(of_name))
}

/// What there is to do on a host of this family.
fn plan(fs: &dyn FileSystem, family: &Family, args: &Args<'_>, is_absent: bool) -> Result<Plan, Failure> {
    let name = args.name();
    match family {
        Family::Debian(..) if is_absent => match named(args, family)? {
            Some(entry) => Sources::read(fs)?.without(&entry),
            None => Err(Failure::new(format!(
                "Failed to configure repo '{name}': Error: repo '{name}' is not a well formatted definition"
            ))),
        },
        Family::Debian(..) => {
            let entry = named(args, family)?.ok_or_else(|| {
                Failure::new(format!(
                    "Failed to configure repo '{name}': Name {name} is not valid. This must be the complete repo entry \
                     as seen in the sources file"
                ))
            })?;
            let plan = Sources::read(fs)?.with(&asked(args, entry.clone())?)?;
            let is_signed = entry.option("signed-by").is_some() || args.get("signedby").is_some();
            let is_trusted = entry.option("trusted").is_some() || args.flag("trusted", false);
            if plan.before.is_none() && !args.flag("aptkey", true) && !is_signed && !is_trusted {
                return Err(Failure::new(format!(
                    "Failed to configure repo '{name}': missing 'signedby' or 'trusted' option when apt-key is missing"
                )));
            }
            Ok(plan)
        }
        Family::Sections(dir) if is_absent => Ok(Repos::read(fs, Path::new(dir))?.without(&name)),
        Family::Sections(dir) => {
            let comments = args.texts("comments")?.unwrap_or_default();
            let failed =
                |f: Failure| Failure::new(format!("Failed to configure repo '{name}': {}", f.done.comment));
            Repos::read(fs, Path::new(dir))?.with(&name, &settings(args), &comments).map_err(failed)
        }
        Family::Lines(file) => ini::line(fs, Path::new(file), &name, is_absent),
    }
}

/// What is asked of apt's sources.
fn asked(args: &Args<'_>, name: Entry) -> Result<Asked, Failure> {
    let list = |key: &str| -> Result<Option<Vec<String>>, Failure> {
        let cut = |all: Vec<String>| {
            all.iter()
                .flat_map(|t| t.split([',', ' ']))
                .filter(|t| !t.is_empty())
                .map(str::to_owned)
                .collect()
        };
        Ok(args.texts(key)?.map(cut))
    };
    let mut wanted = name.clone();
    wanted.is_disabled = is_disabled(args);
    wanted.comment.clear();
    let given = |keys: [&str; 2], field: &mut Vec<String>| -> Result<(), Failure> {
        for key in keys {
            if let Some(given) = list(key)?.filter(|l| !l.is_empty()) {
                *field = given;
            }
        }
        Ok(())
    };
    given(["uri", "uris"], &mut wanted.uris)?;
    given(["dist", "suites"], &mut wanted.suites)?;
    given(["type", "types"], &mut wanted.types)?;
    given(["comps", "components"], &mut wanted.comps)?;
    if let Some(given) = list("architectures")? {
        wanted.set_option("arch", &given.join(","));
    }
    if let Some(ring) = args.text("signedby")? {
        wanted.set_option("signed-by", &ring);
    }
    if args.get("trusted").is_some() {
        wanted.set_option("trusted", if args.flag("trusted", false) { "yes" } else { "" });
    }
    let comment = args.texts("comments")?.map(|all| all.join(" ").trim().to_owned());
    let is_alone = args.flag("clean_file", false);
    let file = args.path("file")?;
    if is_alone && file.is_none() {
        return Err(Failure::new("`clean_file` needs `file`"));
    }
    Ok(Asked { name, wanted, file, is_alone, comment })
}

fn is_disabled(args: &Args<'_>) -> bool {
    let truth = |v: &Value| match v {
        Value::Str(text) => !matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "no" | "false" | "off"),
        other => other.is_truthy(),
    };
    args.get("disabled").map_or_else(|| args.get("enabled").is_some_and(|v| !truth(v)), truth)
}

/// What other systems or the state itself are told, and no section holds.
const NO_SETTINGS: [&str; 24] = [
    "humanname",
    "name",
    "enabled",
    "disabled",
    "comments",
    "file",
    "dist",
    "comps",
    "architectures",
    "key_url",
    "key_text",
    "keyid",
    "keyserver",
    "aptkey",
    "ppa",
    "ppa_auth",
    "clean_file",
    "consolidate",
    "refresh",
    "refresh_db",
    "trusted",
    "signedby",
    "allow_insecure_key",
    "basedir",
];

/// The settings of a section.
fn settings(args: &Args<'_>) -> Map {
    let mut all = Map::new();
    if let Some(name) = args.get("humanname") {
        all.insert("name", name.clone());
    }
    all.insert("enabled", !is_disabled(args));
    for (key, value) in args.chunk.args.iter().filter(|(k, _)| !NO_SETTINGS.contains(&shown(k).as_str())) {
        let is_empty = matches!(value, Value::Str(s) if s.is_empty());
        all.insert(key.clone(), if is_empty { Value::Null } else { value.clone() });
    }
    all
}

/// Writes what was thought out.
pub(super) fn write(scene: &Scene<'_>, edits: &[Edit]) -> Result<(), Failure> {
    for (path, text) in edits {
        match text {
            Some(text) => {
                parents::make(scene, path, Meta { mode: Some(0o755), ..Meta::default() })?;
                let is_new = scene.fs.stat(path)?.is_none();
                let mode = is_new.then_some(0o644);
                let path = scene.fs.end_for_change(path)?;
                scene.fs.write(&path, text.as_bytes(), Meta { mode, ..Meta::default() })?;
            }
            None => scene.fs.remove(path)?,
        }
    }
    Ok(())
}

impl State for Repo {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let found = self.look(scene)?;
        let name = self.name();
        if found.plan.edits.is_empty() && !found.lacks_key {
            return Ok(Look::right(if self.is_absent {
                format!("Package repo {name} is absent")
            } else {
                format!("Package repo '{name}' already configured")
            }));
        }
        let act = if self.is_absent { "will be removed" } else { "would be configured" };
        let comment = format!(
            "Package repo '{name}' {act}. This may cause pkg states to behave differently than stated if this action is \
             repeated without test=True, due to the differences in the configured repositories."
        );
        Ok(Look::drift(comment, self.changes(&found)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let mut found = self.look(scene)?;
        let name = self.name();
        // A key that is there is not fetched once more: the line may have to change while nobody answers.
        if let Some(key) = found.key.as_ref().filter(|_| found.lacks_key) {
            let put = key.put(scene, &self.chunk.env);
            found.lacks_key = put.map_err(|f| {
                Failure::new(format!("Failed to configure repo '{name}': {}", f.done.comment))
            })?;
        }
        write(scene, &found.plan.edits)?;
        let args = Args::new(&self.chunk);
        let refreshes = args.flag("refresh_db", args.flag("refresh", true));
        if refreshes && !scene.is_dry() {
            scene.shared.packages_stale.store(true, Ordering::Relaxed);
        }
        let comment = if self.is_absent {
            format!("Removed repo {name}")
        } else {
            format!("Configured package repo '{name}'")
        };
        Ok(Done::new(comment, self.changes(&found)))
    }

    fn is_foreseeable(&self) -> bool {
        let key = Key::read(&Args::new(&self.chunk), None).ok().flatten();
        self.is_absent || !key.is_some_and(|key| key.is_remote())
    }

    fn sees(&self) -> Veil {
        Veil::FILES
    }

    fn veils(&self) -> Veil {
        Veil::CATALOG
    }

    fn cost(&self) -> Cost {
        if self.is_foreseeable() { Cost::Light } else { Cost::Heavy }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages, Resource::Path("/etc/apt/sources.list.d".into())]
    }
}

#[cfg(test)]
mod tests;
