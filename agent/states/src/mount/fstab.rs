//! `mount.fstab_present` and `mount.fstab_absent`: a line of `/etc/fstab`.

use zagent_config::Map;

use super::{fstab_path, number, options, read_fstab, required, trim_slash};
use crate::mount::mounts;
use crate::mount::mounts::{FstabChange, FstabEntry};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError};
use zagent_host::text_file;

/// What changed in the table, as a word for the changes and as words.
pub const fn describe_change(kept: FstabChange) -> (&'static str, &'static str) {
    match kept {
        FstabChange::Present => ("present", ". Entry already exists in the fstab."),
        FstabChange::New => ("new", ". Added new entry to the fstab."),
        FstabChange::Change => ("update", ". Updated the entry in the fstab."),
    }
}

pub struct MountFstab {
    should_exist: bool,
    entry: FstabEntry,
    /// The name by which a device is written.
    mount_by: Option<String>,
    config: String,
    mount: bool,
    match_on: Vec<String>,
    not_change: bool,
}

impl MountFstab {
    pub fn read(on: bool, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let entry = FstabEntry {
            device: args.name(),
            name: trim_slash(&required(args, "fs_file")?),
            fstype: if on { required(args, "fs_vfstype")? } else { String::new() },
            opts: options(args, "fs_mntops")?.join(","),
            dump: number(args, "fs_freq")?,
            pass_num: number(args, "fs_passno")?,
        };
        Ok(Self {
            should_exist: on,
            entry,
            mount_by: args.text("mount_by")?,
            config: fstab_path(args)?,
            mount: on && args.flag("mount", true),
            match_on: args.texts("match_on")?.unwrap_or_default(),
            not_change: args.flag("not_change", false),
        })
    }

    /// The entry, its device written as it is asked for.
    fn resolve_entry(&self, ctx: &StateCtx<'_>) -> Result<FstabEntry, StateError> {
        let Some(by) = &self.mount_by else { return Ok(self.entry.clone()) };
        let (name, tag) = (&self.entry.device, by.to_uppercase());
        if name.starts_with(&format!("{tag}=")) || (tag == "DEVICE" && name.starts_with('/')) {
            return Ok(self.entry.clone());
        }
        let device = mounts::resolve_device(ctx.machine, name);
        let failed = || StateError::new(format!("Device {name} cannot be converted to {by}"));
        if tag == "DEVICE" {
            return if device.starts_with('/') {
                Ok(FstabEntry { device, ..self.entry.clone() })
            } else {
                Err(failed())
            };
        }
        let said = ctx.tools().run_query("blkid", &["-o", "value", "-s", &tag, "--", &device])?;
        let value = said.stdout.trim();
        if !said.is_success() || value.is_empty() {
            return Err(failed());
        }
        Ok(FstabEntry { device: format!("{tag}={value}"), ..self.entry.clone() })
    }

    /// The table as it should be, when it is not.
    fn changed_fstab(&self, ctx: &StateCtx<'_>) -> Result<Option<(String, FstabChange)>, StateError> {
        let text = if self.should_exist {
            read_fstab(ctx, &self.config)?
        } else {
            text_file::read_text(ctx.fs, &self.config)?.unwrap_or_default()
        };
        if !self.should_exist {
            let device = self.resolve_entry(ctx)?.device;
            let (edited, found) = mounts::remove_fstab_entry(&text, &self.entry.name, Some(&device));
            return Ok(found.then_some((edited, FstabChange::Change)));
        }
        let (edited, kept) =
            mounts::set_fstab_entry(&text, &self.resolve_entry(ctx)?, &self.match_on, self.not_change)?;
        Ok((kept != FstabChange::Present).then_some((edited, kept)))
    }

    fn changes(&self, kept: FstabChange) -> Map {
        Map::from_iter([("persist", if self.should_exist { kept.salt_word() } else { "removed" })])
    }
}

impl State for MountFstab {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (file, config) = (&self.entry.name, &self.config);
        Ok(match self.changed_fstab(ctx)? {
            None if self.should_exist => {
                CheckResult::in_sync(format!("{file} entry was already in {config}."))
            }
            None => CheckResult::in_sync(format!("{file} entry is already missing in {config}.")),
            Some((_, kept)) => {
                let mut words = match kept {
                    _ if !self.should_exist => format!("{file} entry will be removed from {config}."),
                    FstabChange::New | FstabChange::Present => {
                        format!("{file} entry will be written in {config}.")
                    }
                    FstabChange::Change => format!("{file} entry will be updated in {config}."),
                };
                if self.mount && kept == FstabChange::New {
                    words.push_str(&format!("\nWill mount {} on {file}", self.entry.device));
                }
                CheckResult::drifted(words, self.changes(kept))
            }
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (file, config) = (&self.entry.name, &self.config);
        let Some((text, kept)) = self.changed_fstab(ctx)? else { return Ok(ApplyResult::default()) };
        text_file::write_text(ctx.fs, config, &text)?;
        let mut words = match kept {
            _ if !self.should_exist => format!("{file} entry removed from {config}."),
            FstabChange::New | FstabChange::Present => format!("{file} entry added in {config}."),
            FstabChange::Change => format!("{file} entry updated in {config}."),
        };
        if self.mount
            && kept == FstabChange::New
            && mounts::find_mounted(ctx.tools().machine, file)?.is_none()
        {
            let said = ctx.with_undo(&super::MountUndo, file.as_str(), || {
                Ok(ctx.tools().run_change("mount", &["--", file])?)
            })?;
            if !said.is_success() {
                let words = format!("{words}\nError while mounting {file}: {}", said.message());
                return Err(ApplyResult::new(words, self.changes(kept)).into());
            }
            words.push_str(&format!("\nMounted {} on {file}", self.entry.device));
        }
        Ok(ApplyResult::new(words, self.changes(kept)))
    }

    fn is_predictable(&self) -> bool {
        !self.mount
    }

    fn reads(&self) -> Effects {
        Effects::FILES
    }

    fn writes(&self) -> Effects {
        if self.mount { super::WRITES } else { Effects::NONE }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.config.clone().into())]
    }
}
