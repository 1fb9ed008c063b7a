//! `mount.fstab_present` and `mount.fstab_absent`: a line of `/etc/fstab`.

use zagent_config::Map;

use super::{config, number, options, place, required, table};
use crate::host::services::lines;
use crate::host::services::mounts::{self, Entry, Kept};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Veil};

/// What changed in the table, as a word for the changes and as words.
pub(super) const fn told(kept: Kept) -> (&'static str, &'static str) {
    match kept {
        Kept::Present => ("present", ". Entry already exists in the fstab."),
        Kept::New => ("new", ". Added new entry to the fstab."),
        Kept::Change => ("update", ". Updated the entry in the fstab."),
    }
}

pub(super) struct Fstab {
    on: bool,
    entry: Entry,
    /// The name by which a device is written.
    mount_by: Option<String>,
    config: String,
    mount: bool,
    match_on: Vec<String>,
    not_change: bool,
}

impl Fstab {
    pub(super) fn read(on: bool, args: &Args<'_>) -> Result<Self, Failure> {
        let entry = Entry {
            device: args.name(),
            name: place(&required(args, "fs_file")?),
            fstype: if on { required(args, "fs_vfstype")? } else { String::new() },
            opts: options(args, "fs_mntops")?.join(","),
            dump: number(args, "fs_freq")?,
            pass_num: number(args, "fs_passno")?,
        };
        Ok(Self {
            on,
            entry,
            mount_by: args.text("mount_by")?,
            config: config(args)?,
            mount: on && args.flag("mount", true),
            match_on: args.texts("match_on")?.unwrap_or_default(),
            not_change: args.flag("not_change", false),
        })
    }

    /// The entry, its device written as it is asked for.
    fn entry(&self, scene: &Scene<'_>) -> Result<Entry, Failure> {
        let Some(by) = &self.mount_by else { return Ok(self.entry.clone()) };
        let (name, tag) = (&self.entry.device, by.to_uppercase());
        if name.starts_with(&format!("{tag}=")) || (tag == "DEVICE" && name.starts_with('/')) {
            return Ok(self.entry.clone());
        }
        let device = mounts::device(name);
        let failed = || Failure::new(format!("Device {name} cannot be converted to {by}"));
        if tag == "DEVICE" {
            return if device.starts_with('/') {
                Ok(Entry { device, ..self.entry.clone() })
            } else {
                Err(failed())
            };
        }
        let said = scene.tools().ask("blkid", &["-o", "value", "-s", &tag, "--", &device])?;
        let value = said.out.trim();
        if !said.is_fine() || value.is_empty() {
            return Err(failed());
        }
        Ok(Entry { device: format!("{tag}={value}"), ..self.entry.clone() })
    }

    /// The table as it should be, when it is not.
    fn see(&self, scene: &Scene<'_>) -> Result<Option<(String, Kept)>, Failure> {
        let text = if self.on {
            table(scene, &self.config)?
        } else {
            lines::read(scene.fs, &self.config)?.unwrap_or_default()
        };
        if !self.on {
            let device = self.entry(scene)?.device;
            let (edited, found) = mounts::removed(&text, &self.entry.name, Some(&device));
            return Ok(found.then_some((edited, Kept::Change)));
        }
        let (edited, kept) = mounts::set(&text, &self.entry(scene)?, &self.match_on, self.not_change)?;
        Ok((kept != Kept::Present).then_some((edited, kept)))
    }

    fn changes(&self, kept: Kept) -> Map {
        Map::from_iter([("persist", if self.on { kept.word() } else { "removed" })])
    }
}

impl State for Fstab {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (file, config) = (&self.entry.name, &self.config);
        Ok(match self.see(scene)? {
            None if self.on => Look::right(format!("{file} entry was already in {config}.")),
            None => Look::right(format!("{file} entry is already missing in {config}.")),
            Some((_, kept)) => {
                let mut words = match kept {
                    _ if !self.on => format!("{file} entry will be removed from {config}."),
                    Kept::New | Kept::Present => format!("{file} entry will be written in {config}."),
                    Kept::Change => format!("{file} entry will be updated in {config}."),
                };
                if self.mount && kept == Kept::New {
                    words.push_str(&format!("\nWill mount {} on {file}", self.entry.device));
                }
                Look::drift(words, self.changes(kept))
            }
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (file, config) = (&self.entry.name, &self.config);
        let Some((text, kept)) = self.see(scene)? else { return Ok(Done::default()) };
        lines::write(scene.fs, config, &text)?;
        let mut words = match kept {
            _ if !self.on => format!("{file} entry removed from {config}."),
            Kept::New | Kept::Present => format!("{file} entry added in {config}."),
            Kept::Change => format!("{file} entry updated in {config}."),
        };
        if self.mount && kept == Kept::New && mounts::at(scene.tools().machine, file)?.is_none() {
            let said = scene.change(&super::MountThing, file.as_str(), || {
                Ok(scene.tools().tell("mount", &["--", file])?)
            })?;
            if !said.is_fine() {
                let words = format!("{words}\nError while mounting {file}: {}", said.words());
                return Err(Done::new(words, self.changes(kept)).into());
            }
            words.push_str(&format!("\nMounted {} on {file}", self.entry.device));
        }
        Ok(Done::new(words, self.changes(kept)))
    }

    fn is_foreseeable(&self) -> bool {
        !self.mount
    }

    fn sees(&self) -> Veil {
        Veil::FILES
    }

    fn veils(&self) -> Veil {
        if self.mount { super::VEILS } else { Veil::NONE }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.config.clone().into())]
    }
}
