//! States of the module `mount`: what is mounted now, and what after a boot.
//!
//! Law: other lines of `/etc/fstab` stay as they are, and what is mounted stays so unless its device or options
//! differ (held by `a_line_of_the_table_comes_and_goes`).

pub(crate) mod functions;
pub(crate) mod mounts;

pub(crate) mod fstab;
pub(crate) mod mounted;
pub(crate) mod opts;

use zagent_config::{Map, Value};

use self::fstab::MountFstab;
use self::mounted::MountMounted;
use crate::mount::mounts::{FstabChange, FstabEntry, MountedFs};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable,
};
use zagent_host::text_file;

/// The module `mount`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "mount",
    build,
    functions: functions::TABLE,
    undo: &[&MountUndo, &SwapUndo],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    fn boxed(state: impl State + 'static) -> Box<dyn State> {
        Box::new(state)
    }
    let state = match fun {
        "mounted" => MountMounted::read(args).map(boxed),
        "unmounted" => MountUnmounted::read(args).map(boxed),
        "swap" => MountSwap::read(args).map(boxed),
        "fstab_present" => MountFstab::read(true, args).map(boxed),
        "fstab_absent" => MountFstab::read(false, args).map(boxed),
        _ => return None,
    };
    Some(args.reject_options(&["device"]).and(state))
}

/// What a dry run cannot see behind a mount: the files below it are others then.
const WRITES: Effects = Effects::KERNEL;

fn fstab_path(args: &ChunkArgs<'_>) -> Result<String, StateError> {
    Ok(args.text("config")?.unwrap_or_else(|| "/etc/fstab".into()))
}

/// A place without the slash at its end.
fn trim_slash(name: &str) -> String {
    if name == "/" { name.to_owned() } else { name.trim_end_matches('/').to_owned() }
}

fn read_fstab(ctx: &StateCtx<'_>, config: &str) -> Result<String, StateError> {
    text_file::read_text(ctx.fs, config)?
        .ok_or_else(|| StateError::new(format!("Bad config file \"{config}\"")))
}

fn required(args: &ChunkArgs<'_>, key: &str) -> Result<String, StateError> {
    args.text(key)?
        .filter(|v| !v.is_empty())
        .ok_or_else(|| StateError::new(format!("Must provide {key} to mount.{}", args.chunk.fun)))
}

fn options(args: &ChunkArgs<'_>, key: &str) -> Result<Vec<String>, StateError> {
    let given = args.texts(key)?.unwrap_or_else(|| vec!["defaults".into()]);
    Ok(given.iter().flat_map(|o| o.split(',')).map(|o| o.trim().to_owned()).collect())
}

fn number(args: &ChunkArgs<'_>, key: &str) -> Result<String, StateError> {
    Ok(args.text(key)?.unwrap_or_else(|| "0".into()))
}

struct MountUnmounted {
    name: String,
    device: Option<String>,
    config: String,
    persist: bool,
}

impl MountUnmounted {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Ok(Self {
            name: trim_slash(&args.name()),
            device: args.text("device")?,
            config: fstab_path(args)?,
            persist: args.flag("persist", false),
        })
    }

    /// What is mounted there, and the table without its line, when it has one.
    fn find_mount(&self, ctx: &StateCtx<'_>) -> Result<(Option<MountedFs>, Option<String>), StateError> {
        let now = mounts::find_mounted(ctx.tools().machine, &self.name)?;
        let mut without = None;
        if self.persist {
            let text = text_file::read_text(ctx.fs, &self.config)?.unwrap_or_default();
            let (edited, found) = mounts::remove_fstab_entry(&text, &self.name, self.device.as_deref());
            without = found.then_some(edited);
        }
        Ok((now, without))
    }
}

impl State for MountUnmounted {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (now, without) = self.find_mount(ctx)?;
        let name = &self.name;
        let mut changes = Map::new();
        if now.is_some() {
            changes.insert("umount", true);
        }
        if without.is_some() {
            changes.insert("persist", "purged");
        }
        Ok(match (now, without) {
            (Some(_), _) => {
                CheckResult::drifted(format!("Mount point {name} is mounted but should not be"), changes)
            }
            (None, Some(_)) => CheckResult::drifted(
                format!(
                    "Mount point {name} is unmounted but needs to be purged from {} to be made persistent",
                    self.config
                ),
                changes,
            ),
            (None, None) if self.persist => {
                CheckResult::in_sync("Target was already unmounted. fstab entry not found")
            }
            (None, None) => CheckResult::in_sync("Target was already unmounted"),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (now, without) = self.find_mount(ctx)?;
        let mut done = ApplyResult::new("Target was already unmounted", Map::new());
        if now.is_some() {
            let what = self.device.as_deref().unwrap_or(&self.name);
            ctx.with_undo(&MountUndo, self.name.as_str(), || {
                Ok(ctx.tools().run_checked("umount", &["--", what]).map(drop)?)
            })?;
            done.comment = "Target was successfully unmounted".into();
            done.changes.insert("umount", true);
        }
        if let Some(text) = without {
            text_file::write_text(ctx.fs, &self.config, &text)?;
            done.comment.push_str(". Removed target from fstab");
            done.changes.insert("persist", "purged");
        }
        Ok(done)
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::FILES
    }

    fn writes(&self) -> Effects {
        WRITES
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.config.clone().into())]
    }
}

struct MountSwap {
    name: String,
    config: String,
    persist: bool,
}

impl MountSwap {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Ok(Self { name: args.name(), config: fstab_path(args)?, persist: args.flag("persist", true) })
    }

    /// Whether it is in use, and the table with its line, when that is missing.
    fn find_swap(&self, ctx: &StateCtx<'_>) -> Result<(bool, Option<(String, FstabChange)>), StateError> {
        let on = mounts::list_swaps(ctx.tools().machine)?
            .contains(mounts::resolve_device(ctx.machine, &self.name).as_str());
        if !self.persist {
            return Ok((on, None));
        }
        let text = read_fstab(ctx, &self.config)?;
        let entry = FstabEntry {
            device: self.name.clone(),
            name: "none".into(),
            fstype: "swap".into(),
            opts: "defaults".into(),
            dump: "0".into(),
            pass_num: "0".into(),
        };
        // A line with other options or another word for no place is fine too.
        if mounts::parse_fstab(&text).any(|e| e.device == self.name && e.fstype == "swap") {
            return Ok((on, None));
        }
        let (text, kept) = mounts::set_fstab_entry(&text, &entry, &[], false)?;
        Ok((on, (kept != FstabChange::Present).then_some((text, kept))))
    }
}

impl State for MountSwap {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (on, table) = self.find_swap(ctx)?;
        let name = &self.name;
        Ok(match (on, table) {
            (true, None) => CheckResult::in_sync(format!("Swap {name} already active")),
            (true, Some(_)) => {
                let changes = Map::from_iter([("persist", "new")]);
                CheckResult::drifted(format!("Swap {name} is set to be added to the fstab"), changes)
            }
            (false, _) => CheckResult::drifted(
                format!("Swap {name} is set to be activated"),
                Map::from_iter([(name.as_str(), "activated")]),
            ),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (on, table) = self.find_swap(ctx)?;
        let name = &self.name;
        let mut done = ApplyResult::new(format!("Swap {name} already active"), Map::new());
        if !on {
            let device = mounts::resolve_device(ctx.machine, name);
            ctx.with_undo(&SwapUndo, device.as_str(), || {
                let said = ctx.tools().run_change("swapon", &["--", &device])?;
                let failed =
                    || StateError::new(format!("Swap {name} failed to activate: {}", said.message()));
                if said.is_success() { Ok(()) } else { Err(failed()) }
            })?;
            done.comment = format!("Swap {name} activated");
            let all = mounts::list_swaps(ctx.tools().machine)?;
            done.changes = all.get(device.as_str()).and_then(Value::as_map).cloned().unwrap_or_default();
        }
        if let Some((text, kept)) = table {
            text_file::write_text(ctx.fs, &self.config, &text)?;
            let (word, words) = fstab::describe_change(kept);
            done.changes.insert("persist", word);
            done.comment.push_str(words);
        }
        Ok(done)
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::FILES
    }

    fn writes(&self) -> Effects {
        WRITES
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.config.clone().into())]
    }
}

/// File systems by the place that they are mounted at.
pub(crate) struct MountUndo;

impl Undoable for MountUndo {
    fn kind(&self) -> &'static str {
        "mount"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let Some(now) = mounts::find_mounted(ctx.tools().machine, key.as_str().unwrap_or_default())? else {
            return Ok(Value::Null);
        };
        let device = mounts::loop_backing_file(ctx.tools().machine, &now.device).unwrap_or(now.device);
        let about = [("device", device), ("fstype", now.fstype), ("opts", now.opts.join(","))];
        Ok(Map::from_iter(about).into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let name = key.as_str().unwrap_or_default();
        let tools = ctx.tools();
        let now = mounts::find_mounted(tools.machine, name)?;
        let text =
            |what: &str| to.as_map().and_then(|m| m.get(what)).and_then(Value::as_str).unwrap_or_default();
        let Some(_) = to.as_map() else {
            if now.is_some() {
                tools.run_checked("umount", &["--", name])?;
            }
            return Ok(());
        };
        let same = now.as_ref().is_some_and(|n| n.device == text("device"));
        if now.is_some() && !same {
            tools.run_checked("umount", &["--", name])?;
        }
        let opts = if same { format!("remount,{}", text("opts")) } else { text("opts").to_owned() };
        if same || ctx.machine.is_dir(name) {
            tools.run_checked("mount", &["-t", text("fstype"), "-o", &opts, "--", text("device"), name])?;
        }
        Ok(())
    }
}

/// Swap space by its device.
pub(crate) struct SwapUndo;

impl Undoable for SwapUndo {
    fn kind(&self) -> &'static str {
        "swap"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        Ok(mounts::list_swaps(ctx.tools().machine)?.contains(key.as_str().unwrap_or_default()).into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let program = if to.is_truthy() { "swapon" } else { "swapoff" };
        ctx.tools().run_checked(program, &["--", key.as_str().unwrap_or_default()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
