//! `mount.mounted`: a device at a place, now and after a boot.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zagent_compiler::Compat;
use zagent_config::Map;

use super::opts::Rules;
use super::{MountThing, config, fstab, number, options, place, required, table};
use crate::fs::Meta;
use crate::host::Machine;
use crate::host::services::lines;
use crate::host::services::mounts::{self, Entry, Kept, Mount};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Veil};

pub(super) struct Mounted {
    entry: Entry,
    opts: Vec<String>,
    rules: Rules,
    mkmnt: bool,
    config: String,
    persist: bool,
    mount: bool,
    match_on: Vec<String>,
    /// Devices that are fine although they are not the wanted one.
    fine: Vec<fancy_regex::Regex>,
}

/// What is to be done about the mount itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Mount,
    /// The place is made, and nothing mounted.
    Make,
    /// These options differ.
    Remount(String),
    /// Another device is mounted there.
    Replace(String),
}

impl Mounted {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let opts = options(args, "opts")?;
        let entry = Entry {
            device: required(args, "device")?,
            name: place(&args.name()),
            fstype: required(args, "fstype")?,
            opts: opts.join(","),
            dump: number(args, "dump")?,
            pass_num: number(args, "pass_num")?,
        };
        let fine = args.texts("device_name_regex")?.unwrap_or_default();
        let compiled = |text: String| {
            let whole = fancy_regex::Regex::new(&format!("^(?:{text})"));
            whole.map_err(|e| Failure::new(format!("`device_name_regex` is wrong: {e}")))
        };
        Ok(Self {
            entry,
            opts,
            rules: Rules::read(args)?,
            mkmnt: args.flag("mkmnt", false),
            config: config(args)?,
            persist: args.flag("persist", true),
            mount: args.flag("mount", true),
            match_on: args.texts("match_on")?.unwrap_or_default(),
            fine: fine.into_iter().map(compiled).collect::<Result<_, _>>()?,
        })
    }

    fn is_bind(&self) -> bool {
        self.opts.iter().any(|o| o == "bind" || o == "rbind")
    }

    /// True when what is mounted is the wanted device.
    fn is_device(&self, now: &Mount, scene: &Scene<'_>) -> bool {
        let wanted = &self.entry.device;
        if self.is_bind() {
            // The same directory under two names.
            let id = |path: &str| metadata(path).ok().map(|m| (m.dev(), m.ino()));
            let (a, b) = (id(wanted), id(&self.entry.name));
            return a.is_some() && a == b;
        }
        let device = mounts::device(&now.device);
        let is_wanted =
            [&now.device, &device].into_iter().any(|d| d == wanted || *d == mounts::device(wanted));
        let backing = || mounts::backing(scene.tools().machine, &device).is_some_and(|f| f == *wanted);
        let fits = |r: &fancy_regex::Regex| {
            [&now.device, &device].into_iter().any(|d| r.is_match(d).unwrap_or(false))
        };
        is_wanted || backing() || self.fine.iter().any(fits)
    }

    fn see(&self, scene: &Scene<'_>) -> Result<(Act, Option<(String, Kept)>), Failure> {
        let machine = scene.tools().machine;
        let name = &self.entry.name;
        let act = match mounts::at(machine, name)? {
            Some(_) if !self.mount => Act::Nothing,
            Some(now) if !self.is_device(&now, scene) => Act::Replace(now.device),
            Some(now) => {
                let files = ["/etc/passwd", "/etc/group"].map(|p| machine.read(p));
                let [users, groups] = [files[0].clone()?, files[1].clone()?].map(Option::unwrap_or_default);
                let id = |kind: &str, who: &str| id_of(if kind == "uid" { &users } else { &groups }, who);
                let missing = self.rules.missing(&self.opts, &self.entry.fstype, &now, id);
                if missing.is_empty() { Act::Nothing } else { Act::Remount(missing.join(",")) }
            }
            None if self.mount => Act::Mount,
            None if self.mkmnt && scene.fs.stat(Path::new(name))?.is_none() => Act::Make,
            None => Act::Nothing,
        };
        if !self.persist {
            return Ok((act, None));
        }
        let (text, kept) = mounts::set(&table(scene, &self.config)?, &self.entry, &self.match_on, false)?;
        Ok((act, (kept != Kept::Present).then_some((text, kept))))
    }

    /// Refuses a device, or what is bound, that is not there. What only its file system can tell is left to it.
    fn verify_device(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        let Entry { device, fstype, .. } = &self.entry;
        // Then `mount` does not mind.
        if self.opts.iter().any(|o| o == "nofail") {
            return Ok(());
        }
        let is_named = if self.is_bind() {
            device.starts_with('/')
        } else {
            device.starts_with("/dev/") && !is_nodev(scene.tools().machine, fstype)?
        };
        if !is_named || scene.fs.stat(Path::new(device))?.is_some() {
            return Ok(());
        }
        let what = if self.is_bind() { "what should be bound" } else { "the device" };
        Err(Failure::new(format!(
            "{what} is not present: {device} does not exist (`nofail` in `opts` lets it be missing)"
        )))
    }

    fn make(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        let path = Path::new(&self.entry.name);
        let mut missing = Vec::new();
        for dir in path.ancestors() {
            if scene.fs.stat(dir)?.is_some() {
                break;
            }
            missing.push(dir);
        }
        if !missing.is_empty() && !self.mkmnt {
            return Err(Failure::new("Mount directory is not present"));
        }
        for dir in missing.into_iter().rev() {
            scene.fs.make_dir(dir, Meta { mode: Some(0o755), ..Meta::default() })?;
        }
        Ok(())
    }

    fn call(&self, scene: &Scene<'_>, remount: bool) -> Result<(), Failure> {
        let Entry { device, name, fstype, opts, .. } = &self.entry;
        let opts = if remount { format!("{opts},remount") } else { opts.clone() };
        scene.tools().must("mount", &["-o", &opts, "-t", fstype, "--", device, name])?;
        Ok(())
    }

    /// True when options of this file system take effect only by mounting it anew.
    fn is_stubborn(&self) -> bool {
        let fstype = &self.entry.fstype;
        fstype == "nfs" || fstype == "cvfs" || fstype.starts_with("fuse")
    }

    fn perform(&self, act: &Act, scene: &Scene<'_>) -> Result<(), Failure> {
        let name = &self.entry.name;
        if matches!(act, Act::Mount | Act::Replace(_)) {
            self.verify_device(scene)?;
        }
        if matches!(act, Act::Mount | Act::Make | Act::Replace(_)) {
            self.make(scene)?;
        }
        if matches!(act, Act::Nothing | Act::Make) {
            return Ok(());
        }
        scene.change(&MountThing, name.as_str(), || {
            let anew =
                matches!(act, Act::Replace(_)) || (matches!(act, Act::Remount(_)) && self.is_stubborn());
            if anew {
                scene.tools().must("umount", &["--", name])?;
            }
            self.call(scene, matches!(act, Act::Remount(_)) && !anew)
        })
    }

    fn changes(&self, act: &Act, kept: Option<Kept>) -> Map {
        let mut changes = Map::new();
        match act {
            Act::Nothing => {}
            Act::Make => drop(changes.insert("mkmnt", self.entry.name.as_str())),
            Act::Mount => drop(changes.insert("mount", true)),
            Act::Remount(opts) => {
                let how = if self.is_stubborn() { "unmount and mount" } else { "remount" };
                changes.insert("umount", format!("Forced {how} because options ({opts}) changed"));
            }
            Act::Replace(now) => {
                let wanted = &self.entry.device;
                changes.insert(
                    "umount",
                    format!("Forced unmount because devices don't match. Wanted: {wanted}, current: {now}"),
                );
                changes.insert("mount", true);
            }
        }
        if let Some(kept) = kept {
            changes.insert("persist", fstab::told(kept).0);
        }
        changes
    }
}

/// True for a file system that needs no device, as the kernel tells it.
fn is_nodev(machine: &Machine, fstype: &str) -> Result<bool, Failure> {
    let text = machine.read("/proc/filesystems")?.unwrap_or_default();
    let is_listed = text.lines().filter_map(|l| l.strip_prefix("nodev")).any(|name| name.trim() == fstype);
    Ok(is_listed || fstype.starts_with("fuse.") || fstype == "none")
}

/// The number of a user or group, from the text of its file.
fn id_of(file: &str, who: &str) -> Option<u32> {
    let row = file.lines().find(|l| l.split(':').next() == Some(who))?;
    row.split(':').nth(2)?.parse().ok()
}

impl State for Mounted {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (act, table) = self.see(scene)?;
        // Salt finds out when it mounts.
        if scene.compat == Compat::Strict && matches!(act, Act::Mount | Act::Replace(_)) {
            self.verify_device(scene)?;
        }
        let kept = table.map(|(_, kept)| kept);
        let name = &self.entry.name;
        let is_there = scene.fs.stat(Path::new(name))?.is_some();
        let mut words = match &act {
            Act::Nothing if self.mount => "Target was already mounted".to_owned(),
            Act::Nothing => format!("{name} not mounted"),
            Act::Mount if is_there => format!("{name} would be mounted"),
            Act::Mount if self.mkmnt => format!("{name} would be created and mounted"),
            Act::Mount => return Err(Failure::new("Mount directory is not present")),
            Act::Make => format!("{name} would be created, but not mounted"),
            Act::Remount(opts) => format!("Remount would be forced because options ({opts}) changed"),
            Act::Replace(_) => format!(
                "An umount would have been forced because devices do not match.  Watched: {}",
                self.entry.device
            ),
        };
        match kept {
            None if self.persist => words.push_str(". Entry already exists in the fstab."),
            None => {}
            Some(Kept::Change) => words.push_str(&format!(". The {name} fstab entry must be updated.")),
            Some(_) => {
                words.push_str(&format!(
                    ". {name} needs to be written to the fstab in order to be made persistent."
                ));
            }
        }
        let changes = self.changes(&act, kept);
        Ok(if changes.is_empty() { Look::right(words) } else { Look::drift(words, changes) })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (act, table) = self.see(scene)?;
        let name = &self.entry.name;
        let was_there = scene.fs.stat(Path::new(name))?.is_some();
        if let Err(mut failure) = self.perform(&act, scene) {
            // The place is there now, whatever came of the mount.
            if !was_there && scene.fs.stat(Path::new(name))?.is_some() {
                failure.done.changes.insert("mkmnt", name.as_str());
            }
            return Err(failure);
        }
        let mut words = match &act {
            Act::Nothing | Act::Remount(_) if self.mount => "Target was already mounted".to_owned(),
            Act::Make => format!("{name} was created, not mounted"),
            Act::Mount | Act::Replace(_) => "Target was successfully mounted".to_owned(),
            Act::Nothing | Act::Remount(_) => format!("{name} not mounted"),
        };
        let kept = table.as_ref().map(|(_, kept)| *kept);
        if let Some((text, kept)) = &table {
            lines::write(scene.fs, &self.config, text)?;
            words.push_str(fstab::told(*kept).1);
        } else if self.persist {
            words.push_str(fstab::told(Kept::Present).1);
        }
        Ok(Done::new(words, self.changes(&act, kept)))
    }

    fn foresee(&mut self, _scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = &self.entry.name;
        Ok(Look::drift(format!("{name} would be remounted"), Map::from_iter([("remount", true)])))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let name = &self.entry.name;
        let is_mounted = mounts::at(scene.tools().machine, name)?.is_some();
        self.call(scene, is_mounted)
            .map_err(|f| Failure::new(format!("{name} failed to remount: {}", f.done.comment)))?;
        Ok(Done::new(format!("{name} remounted"), Map::from_iter([("remount", true)])))
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::FILES | Veil::BROUGHT
    }

    fn veils(&self) -> Veil {
        super::VEILS | if self.mount { Veil::FILES } else { Veil::NONE }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.config.clone().into())]
    }
}

#[cfg(test)]
mod tests {
    use crate::states::stage::{Stage, acted, built, chunk, preview};

    #[test]
    fn a_device_that_is_not_there_is_foretold_and_nothing_made() {
        let stage = Stage::strict();
        let at = stage.path("mnt");
        for (more, words) in [
            (r#""device": "/dev/nosuch", "fstype": "ext4""#, "the device is not present: /dev/nosuch"),
            (r#""device": "/nosuch/dir", "fstype": "none", "opts": ["bind"]"#, "what should be bound is not"),
        ] {
            let args = format!(r#"{{{more}, "mkmnt": true, "persist": false}}"#);
            let chunk = chunk("mount.mounted", &at, &args);
            let would = preview(&chunk, &stage.scene());
            assert!(would.starts_with("false") && would.contains(words), "{would}");
            let did = acted(built(&chunk).apply(&stage.scene()));
            assert!(did.starts_with("false") && did.contains(words) && !stage.exists("mnt"), "{did}");
        }
        for more in [
            r#""device": "/dev/nosuch", "fstype": "ext4", "opts": ["nofail"]"#,
            r#""device": "/dev/nosuch", "fstype": "tmpfs""#,
            r#""device": "UUID=0", "fstype": "ext4""#,
        ] {
            let args = format!(r#"{{{more}, "mkmnt": true, "persist": false}}"#);
            let would = preview(&chunk("mount.mounted", &at, &args), &stage.scene());
            assert!(would.starts_with("null"), "{would}");
        }
    }
}
