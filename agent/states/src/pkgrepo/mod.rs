//! States of the module `pkgrepo`: where packages come from.
//!
//! A repository is a change of files that is thought out first and written then; a look and an act think the same.

pub(crate) mod apt;
pub(crate) mod functions;
pub(crate) mod repo_file;
pub(crate) mod signing_key;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use self::apt::{AptEntry, AptRequest, AptSources};
use self::repo_file::RepoFiles;
use self::signing_key::SigningKey;
use crate::file::parents;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, StateModule,
};
use zagent_host::command_options::value_text;
use zagent_host::fs::{FileMeta, FileSystem};

pub(crate) use self::functions::detect_format;

/// A file and what it should hold; nothing stands for a file that should go.
pub(crate) type RepoFileEdit = (PathBuf, Option<String>);

/// What there is to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepoPlan {
    /// How it was; nothing when there was none.
    pub before: Option<Map>,
    /// How it will be.
    pub after: Option<Map>,
    /// What to write.
    pub(crate) edits: Vec<RepoFileEdit>,
}

/// How a host keeps its repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepoFormat {
    /// apt: the system's name and release.
    Debian(String, String),
    /// Sections of files in a directory.
    Sections(&'static str),
    /// Lines of a file.
    Lines(&'static str),
}

/// The module `pkgrepo`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "pkgrepo",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let is_absent = match fun {
        "managed" => false,
        "absent" => true,
        _ => return None,
    };
    Some(state_from_args(args, is_absent))
}

fn state_from_args(args: &ChunkArgs<'_>, is_absent: bool) -> BuildResult {
    if args.get("repo").is_some() {
        let words = "'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.";
        return Err(StateError::new(words));
    }
    if args.get("enabled").is_some() && args.get("disabled").is_some() {
        return Err(StateError::new("Only one of enabled/disabled is allowed"));
    }
    if args.flag("consolidate", false) {
        return Err(StateError::new(
            "`consolidate` is not supported here: files of sources are left where they are",
        ));
    }
    if args.get("copr").is_some() {
        return Err(StateError::new(
            "`copr` is not supported here: give `baseurl` and `gpgkey` of the repository",
        ));
    }
    if is_absent {
        signing_key::RemovedKeys::from_args(args)?;
    } else {
        SigningKey::from_args(args, None)?;
    }
    Ok(Box::new(PkgrepoState { chunk: args.chunk.clone(), is_absent }))
}

struct PkgrepoState {
    chunk: Chunk,
    is_absent: bool,
}

/// What a look found: what to do, and the key that goes with it.
struct RepoCheck {
    plan: RepoPlan,
    key: Option<SigningKey>,
    /// The key has to be written.
    lacks_key: bool,
}

impl PkgrepoState {
    fn name(&self) -> String {
        ChunkArgs::new(&self.chunk).name()
    }

    fn inspect(&self, ctx: &StateCtx<'_>) -> Result<RepoCheck, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let family = detect_format(&|name| ctx.host.grain(name));
        let family =
            family.ok_or_else(|| StateError::new("Repo management not implemented on this platform"))?;
        let mut plan = plan_change(ctx.fs, &family, &args, self.is_absent)?;
        // As in Salt, the key goes with its repository.
        if self.is_absent && !plan.edits.is_empty() && matches!(family, RepoFormat::Debian(..)) {
            plan.edits.extend(
                signing_key::RemovedKeys::from_args(&args)?
                    .removable_keyrings(ctx.fs)?
                    .into_iter()
                    .map(|ring| (ring, None)),
            );
        }
        let key = match &family {
            RepoFormat::Debian(..) if !self.is_absent => {
                SigningKey::from_args(&args, keyring_path(&args, &family)?.as_deref())?
            }
            _ => None,
        };
        let lacks_key = match &key {
            Some(key) => key.is_missing(ctx, &self.chunk.env)?,
            None => false,
        };
        Ok(RepoCheck { plan, key, lacks_key })
    }

    /// What changed, as Salt tells it: the name of a new one, else each setting that is another now.
    fn changes(&self, found: &RepoCheck) -> Map {
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
        let is_ring = |path: &&PathBuf| signing_key::KEYRING_DIRS.iter().any(|dir| path.starts_with(dir));
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
fn entry_from_name(args: &ChunkArgs<'_>, family: &RepoFormat) -> Result<Option<AptEntry>, StateError> {
    let RepoFormat::Debian(os, release) = family else { return Ok(None) };
    let ppa = args.text("ppa")?.or_else(|| args.name().strip_prefix("ppa:").map(str::to_owned));
    let Some(ppa) = ppa.filter(|_| os != "Debian") else { return Ok(AptEntry::parse_line(&args.name())) };
    let path = ppa.trim_start_matches("ppa:");
    if !path.contains('/') {
        return Err(StateError::new(format!(
            "Unable to get PPA info from argument. Expected format \"<PPA_OWNER>/<PPA_NAME>\" (e.g. saltstack/salt) \
             not found.  Received '{path}' instead."
        )));
    }
    let host = match args.text("ppa_auth")? {
        Some(auth) => format!("https://{auth}@private-ppa.launchpad.net"),
        None => "https://ppa.launchpadcontent.net".into(),
    };
    Ok(AptEntry::parse_line(&format!("deb {host}/{path}/ubuntu {release} main")))
}

/// The keyring that an entry will name: what the state says goes before what stands in the name.
fn keyring_path(args: &ChunkArgs<'_>, family: &RepoFormat) -> Result<Option<String>, StateError> {
    let named = entry_from_name(args, family)?;
    let of_name = || named.and_then(|n| n.option("signed-by").map(str::to_owned));
    Ok(args.text("signedby")?.or_else(of_name))
}

/// What there is to do on a host of this family.
fn plan_change(
    fs: &dyn FileSystem,
    family: &RepoFormat,
    args: &ChunkArgs<'_>,
    is_absent: bool,
) -> Result<RepoPlan, StateError> {
    let name = args.name();
    match family {
        RepoFormat::Debian(..) if is_absent => match entry_from_name(args, family)? {
            Some(entry) => AptSources::read(fs)?.plan_absent(&entry),
            None => Err(StateError::new(format!(
                "Failed to configure repo '{name}': Error: repo '{name}' is not a well formatted definition"
            ))),
        },
        RepoFormat::Debian(..) => {
            let entry = entry_from_name(args, family)?.ok_or_else(|| {
                StateError::new(format!(
                    "Failed to configure repo '{name}': Name {name} is not valid. This must be the complete repo entry \
                     as seen in the sources file"
                ))
            })?;
            let plan = AptSources::read(fs)?.plan_present(&apt_request(args, entry.clone())?)?;
            let is_signed = entry.option("signed-by").is_some() || args.get("signedby").is_some();
            let is_trusted = entry.option("trusted").is_some() || args.flag("trusted", false);
            if plan.before.is_none() && !args.flag("aptkey", true) && !is_signed && !is_trusted {
                return Err(StateError::new(format!(
                    "Failed to configure repo '{name}': missing 'signedby' or 'trusted' option when apt-key is missing"
                )));
            }
            Ok(plan)
        }
        RepoFormat::Sections(dir) if is_absent => Ok(RepoFiles::read(fs, Path::new(dir))?.plan_absent(&name)),
        RepoFormat::Sections(dir) => {
            let comments = args.texts("comments")?.unwrap_or_default();
            let failed = |f: StateError| {
                StateError::new(format!("Failed to configure repo '{name}': {}", f.result.comment))
            };
            RepoFiles::read(fs, Path::new(dir))?
                .plan_present(&name, &section_settings(args), &comments)
                .map_err(failed)
        }
        RepoFormat::Lines(file) => repo_file::plan_line(fs, Path::new(file), &name, is_absent),
    }
}

/// What is asked of apt's sources.
fn apt_request(args: &ChunkArgs<'_>, name: AptEntry) -> Result<AptRequest, StateError> {
    let list = |key: &str| -> Result<Option<Vec<String>>, StateError> {
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
    let given = |keys: [&str; 2], field: &mut Vec<String>| -> Result<(), StateError> {
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
        return Err(StateError::new("`clean_file` needs `file`"));
    }
    Ok(AptRequest { name, wanted, file, clean_file: is_alone, comment })
}

fn is_disabled(args: &ChunkArgs<'_>) -> bool {
    let truth = |v: &Value| match v {
        Value::Str(text) => !matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "no" | "false" | "off"),
        other => other.is_truthy(),
    };
    args.get("disabled").map_or_else(|| args.get("enabled").is_some_and(|v| !truth(v)), truth)
}

/// What other systems or the state itself are told, and no section holds.
const NON_SECTION_ARGS: [&str; 24] = [
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
fn section_settings(args: &ChunkArgs<'_>) -> Map {
    let mut all = Map::new();
    if let Some(name) = args.get("humanname") {
        all.insert("name", name.clone());
    }
    all.insert("enabled", !is_disabled(args));
    for (key, value) in
        args.chunk.args.iter().filter(|(k, _)| !NON_SECTION_ARGS.contains(&value_text(k).as_str()))
    {
        let is_empty = matches!(value, Value::Str(s) if s.is_empty());
        all.insert(key.clone(), if is_empty { Value::Null } else { value.clone() });
    }
    all
}

/// Writes what was thought out.
pub(crate) fn write_edits(ctx: &StateCtx<'_>, edits: &[RepoFileEdit]) -> Result<(), StateError> {
    for (path, text) in edits {
        match text {
            Some(text) => {
                parents::make_parents(ctx, path, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
                let is_new = ctx.fs.stat(path)?.is_none();
                let mode = is_new.then_some(0o644);
                let path = ctx.fs.resolve_for_change(path)?;
                ctx.fs.write(&path, text.as_bytes(), FileMeta { mode, ..FileMeta::default() })?;
            }
            None => ctx.fs.remove(path)?,
        }
    }
    Ok(())
}

impl State for PkgrepoState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let found = self.inspect(ctx)?;
        let name = self.name();
        if found.plan.edits.is_empty() && !found.lacks_key {
            return Ok(CheckResult::in_sync(if self.is_absent {
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
        Ok(CheckResult::drifted(comment, self.changes(&found)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let mut found = self.inspect(ctx)?;
        let name = self.name();
        // A key that is there is not fetched once more: the line may have to change while nobody answers.
        if let Some(key) = found.key.as_ref().filter(|_| found.lacks_key) {
            let put = key.install(ctx, &self.chunk.env);
            found.lacks_key = put.map_err(|f| {
                StateError::new(format!("Failed to configure repo '{name}': {}", f.result.comment))
            })?;
        }
        write_edits(ctx, &found.plan.edits)?;
        let args = ChunkArgs::new(&self.chunk);
        let refreshes = args.flag("refresh_db", args.flag("refresh", true));
        if refreshes && !ctx.is_dry() {
            ctx.shared.packages_stale.store(true, Ordering::Relaxed);
        }
        let comment = if self.is_absent {
            format!("Removed repo {name}")
        } else {
            format!("Configured package repo '{name}'")
        };
        Ok(ApplyResult::new(comment, self.changes(&found)))
    }

    fn is_predictable(&self) -> bool {
        let key = SigningKey::from_args(&ChunkArgs::new(&self.chunk), None).ok().flatten();
        self.is_absent || !key.is_some_and(|key| key.is_remote())
    }

    fn reads(&self) -> Effects {
        Effects::FILES
    }

    fn writes(&self) -> Effects {
        Effects::CATALOG
    }

    fn check_cost(&self) -> CheckCost {
        if self.is_predictable() { CheckCost::Light } else { CheckCost::Heavy }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages, LockKey::Path("/etc/apt/sources.list.d".into())]
    }
}

#[cfg(test)]
pub(crate) mod tests;
