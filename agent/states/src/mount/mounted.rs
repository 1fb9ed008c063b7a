//! `mount.mounted`: a device at a place, now and after a boot.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zagent_compiler::Compat;
use zagent_config::Map;

use super::opts::MountOptionRules;
use super::{MountUndo, fstab, fstab_path, number, options, read_fstab, required, trim_slash};
use crate::mount::mounts;
use crate::mount::mounts::{FstabChange, FstabEntry, MountedFs};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError};
use zagent_host::Machine;
use zagent_host::fs::FileMeta;
use zagent_host::text_file;

pub(crate) struct MountMounted {
    entry: FstabEntry,
    opts: Vec<String>,
    rules: MountOptionRules,
    mkmnt: bool,
    config: String,
    persist: bool,
    mount: bool,
    match_on: Vec<String>,
    /// Devices that are fine although they are not the wanted one.
    accepted_devices: Vec<fancy_regex::Regex>,
}

/// What is to be done about the mount itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MountAction {
    Nothing,
    Mount,
    /// The place is made, and nothing mounted.
    MakeDir,
    /// These options differ.
    Remount(String),
    /// Another device is mounted there.
    Replace(String),
}

impl MountMounted {
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let opts = options(args, "opts")?;
        let entry = FstabEntry {
            device: required(args, "device")?,
            name: trim_slash(&args.name()),
            fstype: required(args, "fstype")?,
            opts: opts.join(","),
            dump: number(args, "dump")?,
            pass_num: number(args, "pass_num")?,
        };
        let fine = args.texts("device_name_regex")?.unwrap_or_default();
        let compiled = |text: String| {
            let whole = fancy_regex::Regex::new(&format!("^(?:{text})"));
            whole.map_err(|e| StateError::new(format!("`device_name_regex` is wrong: {e}")))
        };
        Ok(Self {
            entry,
            opts,
            rules: MountOptionRules::read(args)?,
            mkmnt: args.flag("mkmnt", false),
            config: fstab_path(args)?,
            persist: args.flag("persist", true),
            mount: args.flag("mount", true),
            match_on: args.texts("match_on")?.unwrap_or_default(),
            accepted_devices: fine.into_iter().map(compiled).collect::<Result<_, _>>()?,
        })
    }

    fn is_bind(&self) -> bool {
        self.opts.iter().any(|o| o == "bind" || o == "rbind")
    }

    /// True when what is mounted is the wanted device.
    fn is_device(&self, now: &MountedFs, ctx: &StateCtx<'_>) -> bool {
        let wanted = &self.entry.device;
        if self.is_bind() {
            // The same directory under two names.
            let id = |path: &str| ctx.machine.metadata(path).ok().map(|m| (m.dev(), m.ino()));
            let (a, b) = (id(wanted), id(&self.entry.name));
            return a.is_some() && a == b;
        }
        let device = mounts::resolve_device(ctx.machine, &now.device);
        let is_wanted = [&now.device, &device]
            .into_iter()
            .any(|d| d == wanted || *d == mounts::resolve_device(ctx.machine, wanted));
        let backing =
            || mounts::loop_backing_file(ctx.tools().machine, &device).is_some_and(|f| f == *wanted);
        let fits = |r: &fancy_regex::Regex| {
            [&now.device, &device].into_iter().any(|d| r.is_match(d).unwrap_or(false))
        };
        is_wanted || backing() || self.accepted_devices.iter().any(fits)
    }

    fn plan_action(
        &self,
        ctx: &StateCtx<'_>,
    ) -> Result<(MountAction, Option<(String, FstabChange)>), StateError> {
        let machine = ctx.tools().machine;
        let name = &self.entry.name;
        let act = match mounts::find_mounted(machine, name)? {
            Some(_) if !self.mount => MountAction::Nothing,
            Some(now) if !self.is_device(&now, ctx) => MountAction::Replace(now.device),
            Some(now) => {
                let files = ["/etc/passwd", "/etc/group"].map(|p| machine.read(p));
                let [users, groups] = [files[0].clone()?, files[1].clone()?].map(Option::unwrap_or_default);
                let id = |kind: &str, who: &str| lookup_id(if kind == "uid" { &users } else { &groups }, who);
                let missing = self.rules.missing_options(&self.opts, &self.entry.fstype, &now, id);
                if missing.is_empty() {
                    MountAction::Nothing
                } else {
                    MountAction::Remount(missing.join(","))
                }
            }
            None if self.mount => MountAction::Mount,
            None if self.mkmnt && ctx.fs.stat(Path::new(name))?.is_none() => MountAction::MakeDir,
            None => MountAction::Nothing,
        };
        if !self.persist {
            return Ok((act, None));
        }
        let (text, kept) =
            mounts::set_fstab_entry(&read_fstab(ctx, &self.config)?, &self.entry, &self.match_on, false)?;
        Ok((act, (kept != FstabChange::Present).then_some((text, kept))))
    }

    /// Refuses a device, or what is bound, that is not there. What only its file system can tell is left to it.
    fn verify_device(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let FstabEntry { device, fstype, .. } = &self.entry;
        // Then `mount` does not mind.
        if self.opts.iter().any(|o| o == "nofail") {
            return Ok(());
        }
        let is_named = if self.is_bind() {
            device.starts_with('/')
        } else {
            device.starts_with("/dev/") && !is_nodev(ctx.tools().machine, fstype)?
        };
        if !is_named || ctx.fs.stat(Path::new(device))?.is_some() {
            return Ok(());
        }
        let what = if self.is_bind() { "what should be bound" } else { "the device" };
        Err(StateError::new(format!(
            "{what} is not present: {device} does not exist (`nofail` in `opts` lets it be missing)"
        )))
    }

    fn make_mountpoint(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let path = Path::new(&self.entry.name);
        let mut missing = Vec::new();
        for dir in path.ancestors() {
            if ctx.fs.stat(dir)?.is_some() {
                break;
            }
            missing.push(dir);
        }
        if !missing.is_empty() && !self.mkmnt {
            return Err(StateError::new("Mount directory is not present"));
        }
        for dir in missing.into_iter().rev() {
            ctx.fs.make_dir(dir, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
        }
        Ok(())
    }

    fn run_mount(&self, ctx: &StateCtx<'_>, remount: bool) -> Result<(), StateError> {
        let FstabEntry { device, name, fstype, opts, .. } = &self.entry;
        let opts = if remount { format!("{opts},remount") } else { opts.clone() };
        ctx.tools().run_checked("mount", &["-o", &opts, "-t", fstype, "--", device, name])?;
        Ok(())
    }

    /// True when options of this file system take effect only by mounting it anew.
    fn needs_fresh_mount(&self) -> bool {
        let fstype = &self.entry.fstype;
        fstype == "nfs" || fstype == "cvfs" || fstype.starts_with("fuse")
    }

    fn perform_action(&self, act: &MountAction, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let name = &self.entry.name;
        if matches!(act, MountAction::Mount | MountAction::Replace(_)) {
            self.verify_device(ctx)?;
        }
        if matches!(act, MountAction::Mount | MountAction::MakeDir | MountAction::Replace(_)) {
            self.make_mountpoint(ctx)?;
        }
        if matches!(act, MountAction::Nothing | MountAction::MakeDir) {
            return Ok(());
        }
        ctx.with_undo(&MountUndo, name.as_str(), || {
            let anew = matches!(act, MountAction::Replace(_))
                || (matches!(act, MountAction::Remount(_)) && self.needs_fresh_mount());
            if anew {
                ctx.tools().run_checked("umount", &["--", name])?;
            }
            self.run_mount(ctx, matches!(act, MountAction::Remount(_)) && !anew)
        })
    }

    fn changes(&self, act: &MountAction, kept: Option<FstabChange>) -> Map {
        let mut changes = Map::new();
        match act {
            MountAction::Nothing => {}
            MountAction::MakeDir => drop(changes.insert("mkmnt", self.entry.name.as_str())),
            MountAction::Mount => drop(changes.insert("mount", true)),
            MountAction::Remount(opts) => {
                let how = if self.needs_fresh_mount() { "unmount and mount" } else { "remount" };
                changes.insert("umount", format!("Forced {how} because options ({opts}) changed"));
            }
            MountAction::Replace(now) => {
                let wanted = &self.entry.device;
                changes.insert(
                    "umount",
                    format!("Forced unmount because devices don't match. Wanted: {wanted}, current: {now}"),
                );
                changes.insert("mount", true);
            }
        }
        if let Some(kept) = kept {
            changes.insert("persist", fstab::describe_change(kept).0);
        }
        changes
    }
}

/// True for a file system that needs no device, as the kernel tells it.
fn is_nodev(machine: &Machine, fstype: &str) -> Result<bool, StateError> {
    let text = machine.read("/proc/filesystems")?.unwrap_or_default();
    let is_listed = text.lines().filter_map(|l| l.strip_prefix("nodev")).any(|name| name.trim() == fstype);
    Ok(is_listed || fstype.starts_with("fuse.") || fstype == "none")
}

/// The number of a user or group, from the text of its file.
fn lookup_id(file: &str, who: &str) -> Option<u32> {
    let row = file.lines().find(|l| l.split(':').next() == Some(who))?;
    row.split(':').nth(2)?.parse().ok()
}

impl State for MountMounted {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (act, table) = self.plan_action(ctx)?;
        // Salt finds out when it mounts.
        if ctx.compat == Compat::Strict && matches!(act, MountAction::Mount | MountAction::Replace(_)) {
            self.verify_device(ctx)?;
        }
        let kept = table.map(|(_, kept)| kept);
        let name = &self.entry.name;
        let is_there = ctx.fs.stat(Path::new(name))?.is_some();
        let mut words = match &act {
            MountAction::Nothing if self.mount => "Target was already mounted".to_owned(),
            MountAction::Nothing => format!("{name} not mounted"),
            MountAction::Mount if is_there => format!("{name} would be mounted"),
            MountAction::Mount if self.mkmnt => format!("{name} would be created and mounted"),
            MountAction::Mount => return Err(StateError::new("Mount directory is not present")),
            MountAction::MakeDir => format!("{name} would be created, but not mounted"),
            MountAction::Remount(opts) => format!("Remount would be forced because options ({opts}) changed"),
            MountAction::Replace(_) => format!(
                "An umount would have been forced because devices do not match.  Watched: {}",
                self.entry.device
            ),
        };
        match kept {
            None if self.persist => words.push_str(". Entry already exists in the fstab."),
            None => {}
            Some(FstabChange::Change) => {
                words.push_str(&format!(". The {name} fstab entry must be updated."));
            }
            Some(_) => {
                words.push_str(&format!(
                    ". {name} needs to be written to the fstab in order to be made persistent."
                ));
            }
        }
        let changes = self.changes(&act, kept);
        Ok(if changes.is_empty() {
            CheckResult::in_sync(words)
        } else {
            CheckResult::drifted(words, changes)
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (act, table) = self.plan_action(ctx)?;
        let name = &self.entry.name;
        let was_there = ctx.fs.stat(Path::new(name))?.is_some();
        if let Err(mut failure) = self.perform_action(&act, ctx) {
            // The place is there now, whatever came of the mount.
            if !was_there && ctx.fs.stat(Path::new(name))?.is_some() {
                failure.result.changes.insert("mkmnt", name.as_str());
            }
            return Err(failure);
        }
        let mut words = match &act {
            MountAction::Nothing | MountAction::Remount(_) if self.mount => {
                "Target was already mounted".to_owned()
            }
            MountAction::MakeDir => format!("{name} was created, not mounted"),
            MountAction::Mount | MountAction::Replace(_) => "Target was successfully mounted".to_owned(),
            MountAction::Nothing | MountAction::Remount(_) => format!("{name} not mounted"),
        };
        let kept = table.as_ref().map(|(_, kept)| *kept);
        if let Some((text, kept)) = &table {
            text_file::write_text(ctx.fs, &self.config, text)?;
            words.push_str(fstab::describe_change(*kept).1);
        } else if self.persist {
            words.push_str(fstab::describe_change(FstabChange::Present).1);
        }
        Ok(ApplyResult::new(words, self.changes(&act, kept)))
    }

    fn predict_reaction(&mut self, _scene: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = &self.entry.name;
        Ok(CheckResult::drifted(format!("{name} would be remounted"), Map::from_iter([("remount", true)])))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let name = &self.entry.name;
        let is_mounted = mounts::find_mounted(ctx.tools().machine, name)?.is_some();
        self.run_mount(ctx, is_mounted)
            .map_err(|f| StateError::new(format!("{name} failed to remount: {}", f.result.comment)))?;
        Ok(ApplyResult::new(format!("{name} remounted"), Map::from_iter([("remount", true)])))
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::FILES | Effects::PACKAGE_FILES
    }

    fn writes(&self) -> Effects {
        super::WRITES | if self.mount { Effects::FILES } else { Effects::NONE }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.config.clone().into())]
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{StateTestBed, apply_line, build_state, chunk, preview_chunk};

    #[test]
    fn a_device_that_is_not_there_is_foretold_and_nothing_made() {
        let test_bed = StateTestBed::strict();
        let at = test_bed.path("mnt");
        for (more, words) in [
            (r#""device": "/dev/nosuch", "fstype": "ext4""#, "the device is not present: /dev/nosuch"),
            (r#""device": "/nosuch/dir", "fstype": "none", "opts": ["bind"]"#, "what should be bound is not"),
        ] {
            let args = format!(r#"{{{more}, "mkmnt": true, "persist": false}}"#);
            let chunk = chunk("mount.mounted", &at, &args);
            let would = preview_chunk(&chunk, &test_bed.scene());
            assert!(would.starts_with("false") && would.contains(words), "{would}");
            let did = apply_line(build_state(&chunk).apply(&test_bed.scene()));
            assert!(did.starts_with("false") && did.contains(words) && !test_bed.exists("mnt"), "{did}");
        }
        for more in [
            r#""device": "/dev/nosuch", "fstype": "ext4", "opts": ["nofail"]"#,
            r#""device": "/dev/nosuch", "fstype": "tmpfs""#,
            r#""device": "UUID=0", "fstype": "ext4""#,
        ] {
            let args = format!(r#"{{{more}, "mkmnt": true, "persist": false}}"#);
            let would = preview_chunk(&chunk("mount.mounted", &at, &args), &test_bed.scene());
            assert!(would.starts_with("null"), "{would}");
        }
    }
}
