//! A managed thing and its machine in, whether it is there, how it is now, and why it must not be removed out.
//!
//! Law: looking changes nothing. What cannot be looked at counts as being there before zagent, and as changed since
//! (held by `nothing_unmanaged_is_ever_touched`).

use std::path::Path;

use zagent_compiler::name_text;
use zagent_config::Value;
use zagent_host::accounts;
use zagent_host::fs::{FileKind, Stat};
use zagent_host::packages::select_provider;
use zagent_host::undo::record::SavedEntry;

use super::{Removal, ThingName};
use crate::cron::crontab;
use crate::registry::undoables;
use crate::{StateCtx, StateError, Verdict, build};

/// Whether a thing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is not there.
    Absent,
    /// It is.
    Present,
    /// Nobody can tell.
    Unknown,
}

/// Looks whether a thing is there.
#[must_use]
pub fn look(thing: &ThingName, removal: Option<&Removal>, ctx: &StateCtx<'_>) -> Presence {
    match removal {
        None => Presence::Unknown,
        Some(Removal::Entry) => match ctx.fs.lstat(Path::new(&thing.name)) {
            Ok(None) => Presence::Absent,
            Ok(Some(_)) => Presence::Present,
            Err(_) => Presence::Unknown,
        },
        Some(removal @ Removal::State { .. }) => {
            let Some(chunk) = removal.chunk() else { return Presence::Unknown };
            match build(&chunk).and_then(|mut state| state.check(ctx)) {
                Ok(look) if look.verdict == Verdict::InSync => Presence::Absent,
                Ok(look) if look.verdict == Verdict::Drifted => Presence::Present,
                _ => Presence::Unknown,
            }
        }
    }
}

/// How a thing is now, as a digest: content, owner and mode of a file, the fields of an account, the line of a job. None
/// for kinds whose state is not compared, such as packages, which others upgrade.
///
/// # Errors
/// Fails when it cannot be looked at.
pub fn fingerprint(
    thing: &ThingName,
    removal: Option<&Removal>,
    ctx: &StateCtx<'_>,
) -> Result<Option<String>, StateError> {
    let digest = |text: &str| Some(short_digest(text));
    match (thing.kind.as_str(), removal) {
        (_, Some(Removal::Entry)) => {
            let path = Path::new(&thing.name);
            let Some(stat) = ctx.fs.lstat(path)? else { return Ok(digest("absent")) };
            Ok(digest(&entry_text(path, &stat, ctx)?))
        }
        ("user" | "group", _) => {
            let kind = undoables().find(|undoable| undoable.kind() == thing.kind);
            let Some(kind) = kind else { return Ok(None) };
            let mut now = kind.capture(&Value::from(thing.name.as_str()), ctx)?;
            // Which groups have a user as a member is a matter of those groups.
            if let Value::Map(map) = &mut now {
                std::sync::Arc::make_mut(map).remove("groups");
            }
            Ok(digest(&serde_json::to_string(&now).unwrap_or_default()))
        }
        ("cron", Some(Removal::State { function, name, args })) => {
            let arg = |key: &str| args.as_map().and_then(|args| args.get(key)).map(name_text);
            let user = arg("user").unwrap_or_else(|| "root".into());
            // `cron.present` marks a job with its command when no identifier is given.
            let identifier = arg("identifier").unwrap_or_else(|| name.clone());
            let text = crontab::read_crontab(&ctx.tools(), &user)?.unwrap_or_default();
            let lines = match function == "cron.env_absent" {
                true => crontab::variable_text(&text, name),
                false => crontab::job_text(&text, name, Some(&identifier)),
            };
            // What is not found was not left so.
            Ok(digest(&lines).filter(|_| !lines.is_empty()))
        }
        _ => Ok(None),
    }
}

/// True for kinds of which it is known how zagent left them, so that a change by others can be told.
#[must_use]
pub fn is_compared(thing: &ThingName) -> bool {
    thing.is_path() || matches!(thing.kind.as_str(), "user" | "group" | "cron")
}

/// The same of what stood at a path before a run changed it; none for what is no file.
#[must_use]
pub fn fingerprint_before(saved: &SavedEntry) -> Option<String> {
    let SavedEntry::File { digest: content, dress, .. } = saved else { return None };
    let text = file_text(dress.mode?, (dress.uid?, dress.gid?), content);
    Some(short_digest(&text))
}

fn short_digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn file_text(mode: u32, (uid, gid): (u32, u32), content: &str) -> String {
    format!("file {mode:o} {uid} {gid} {content}")
}

fn entry_text(path: &Path, stat: &Stat, ctx: &StateCtx<'_>) -> Result<String, StateError> {
    match stat.kind {
        FileKind::File => {
            let mut hasher = blake3::Hasher::new();
            ctx.fs.read_chunks(path, &mut |part| {
                hasher.update(part);
            })?;
            let content = hasher.finalize().to_hex();
            Ok(file_text(stat.mode, (stat.uid, stat.gid), &content))
        }
        FileKind::Link => Ok(format!("link {}", ctx.fs.read_link(path)?.display())),
        _ => Ok(format!("{:?} {:o} {} {}", stat.kind, stat.mode, stat.uid, stat.gid)),
    }
}

/// Why a thing must not be removed although nothing manages it any more: others depend on it.
///
/// # Errors
/// Fails when it cannot be looked at.
pub fn removal_obstacle(thing: &ThingName, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
    match thing.kind.as_str() {
        "file" | "symlink" | "directory" => {
            let path = Path::new(&thing.name);
            // What stands there decides, not what it was recorded as: a directory is removed only when it is empty.
            let is_dir = ctx.fs.lstat(path)?.is_some_and(|stat| stat.kind == FileKind::Dir);
            if is_dir && thing.kind != "directory" {
                return Ok(Some("a directory stands there".into()));
            }
            let is_full = is_dir && !ctx.fs.read_dir(path)?.is_empty();
            Ok(is_full.then(|| "it holds what zagent does not manage".into()))
        }
        "group" => {
            let machine = ctx.tools().machine;
            let Some(group) = accounts::find_local_group(machine, &thing.name)? else { return Ok(None) };
            let user = accounts::primary_user(machine, group.gid)?;
            Ok(user.map(|user| format!("it is the primary group of `{user}`")))
        }
        "pkg" => package_obstacle(&thing.name, ctx),
        _ => Ok(None),
    }
}

/// The removal of a package takes along what depends on it; the package databases say so without removing anything.
fn package_obstacle(name: &str, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
    let tools = ctx.tools();
    // A host may have the tools of other families, whose databases know nothing of its packages.
    let Ok(selected) = select_provider(tools.machine, None) else {
        return Ok(Some("nobody can tell what depends on it".into()));
    };
    let (program, args): (&str, &[&str]) = match selected.provider.name() {
        "apt" => ("dpkg", &["--simulate", "--remove", "--", name]),
        "dnf" | "zypper" => ("rpm", &["-e", "--test", "--", name]),
        // These two refuse to remove, or keep, what something else needs.
        "apk" | "pacman" => return Ok(None),
        _ => return Ok(Some("nobody can tell what depends on it".into())),
    };
    if tools.which(program).is_none() {
        return Ok(Some("nobody can tell what depends on it".into()));
    }
    let output = tools.run_query(program, args)?;
    Ok((!output.is_success()).then(|| "other packages depend on it".into()))
}
