//! States of the module `mount`: what is mounted now, and what after a boot.
//!
//! Law: other lines of `/etc/fstab` stay as they are, and what is mounted stays so unless its device or options differ.

mod fstab;
mod mounted;
mod opts;

use std::path::Path;

use zagent_config::{Map, Value};

use self::fstab::Fstab;
use self::mounted::Mounted;
use crate::host::services::lines;
use crate::host::services::mounts::{self, Entry, Kept, Mount};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    fn boxed(state: impl State + 'static) -> Box<dyn State> {
        Box::new(state)
    }
    Some(match fun {
        "mounted" => Mounted::read(args).map(boxed),
        "unmounted" => Unmounted::read(args).map(boxed),
        "swap" => Swap::read(args).map(boxed),
        "fstab_present" => Fstab::read(true, args).map(boxed),
        "fstab_absent" => Fstab::read(false, args).map(boxed),
        _ => return None,
    })
}

/// What a dry run cannot see behind a mount: the files below it are others then.
const VEILS: Veil = Veil::KERNEL;

fn config(args: &Args<'_>) -> Result<String, Failure> {
    Ok(args.text("config")?.unwrap_or_else(|| "/etc/fstab".into()))
}

/// A place without the slash at its end.
fn place(name: &str) -> String {
    if name == "/" { name.to_owned() } else { name.trim_end_matches('/').to_owned() }
}

fn table(scene: &Scene<'_>, config: &str) -> Result<String, Failure> {
    lines::read(scene.fs, config)?.ok_or_else(|| Failure::new(format!("Bad config file \"{config}\"")))
}

fn required(args: &Args<'_>, key: &str) -> Result<String, Failure> {
    args.text(key)?
        .filter(|v| !v.is_empty())
        .ok_or_else(|| Failure::new(format!("Must provide {key} to mount.{}", args.chunk.fun)))
}

fn options(args: &Args<'_>, key: &str) -> Result<Vec<String>, Failure> {
    let given = args.texts(key)?.unwrap_or_else(|| vec!["defaults".into()]);
    Ok(given.iter().flat_map(|o| o.split(',')).map(|o| o.trim().to_owned()).collect())
}

fn number(args: &Args<'_>, key: &str) -> Result<String, Failure> {
    Ok(args.text(key)?.unwrap_or_else(|| "0".into()))
}

struct Unmounted {
    name: String,
    device: Option<String>,
    config: String,
    persist: bool,
}

impl Unmounted {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        Ok(Self {
            name: place(&args.name()),
            device: args.text("device")?,
            config: config(args)?,
            persist: args.flag("persist", false),
        })
    }

    /// What is mounted there, and the table without its line, when it has one.
    fn see(&self, scene: &Scene<'_>) -> Result<(Option<Mount>, Option<String>), Failure> {
        let now = mounts::at(scene.tools().machine, &self.name)?;
        let mut without = None;
        if self.persist {
            let text = lines::read(scene.fs, &self.config)?.unwrap_or_default();
            let (edited, found) = mounts::removed(&text, &self.name, self.device.as_deref());
            without = found.then_some(edited);
        }
        Ok((now, without))
    }
}

impl State for Unmounted {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (now, without) = self.see(scene)?;
        let name = &self.name;
        let mut changes = Map::new();
        if now.is_some() {
            changes.insert("umount", true);
        }
        if without.is_some() {
            changes.insert("persist", "purged");
        }
        Ok(match (now, without) {
            (Some(_), _) => Look::drift(format!("Mount point {name} is mounted but should not be"), changes),
            (None, Some(_)) => Look::drift(
                format!(
                    "Mount point {name} is unmounted but needs to be purged from {} to be made persistent",
                    self.config
                ),
                changes,
            ),
            (None, None) if self.persist => {
                Look::right("Target was already unmounted. fstab entry not found")
            }
            (None, None) => Look::right("Target was already unmounted"),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (now, without) = self.see(scene)?;
        let mut done = Done::new("Target was already unmounted", Map::new());
        if now.is_some() {
            let what = self.device.as_deref().unwrap_or(&self.name);
            scene.change(&MountThing, self.name.as_str(), || {
                Ok(scene.tools().must("umount", &["--", what]).map(drop)?)
            })?;
            done.comment = "Target was successfully unmounted".into();
            done.changes.insert("umount", true);
        }
        if let Some(text) = without {
            lines::write(scene.fs, &self.config, &text)?;
            done.comment.push_str(". Removed target from fstab");
            done.changes.insert("persist", "purged");
        }
        Ok(done)
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::FILES
    }

    fn veils(&self) -> Veil {
        VEILS
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.config.clone().into())]
    }
}

struct Swap {
    name: String,
    config: String,
    persist: bool,
}

impl Swap {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        Ok(Self { name: args.name(), config: config(args)?, persist: args.flag("persist", true) })
    }

    /// Whether it is in use, and the table with its line, when that is missing.
    fn see(&self, scene: &Scene<'_>) -> Result<(bool, Option<(String, Kept)>), Failure> {
        let on = mounts::swaps(scene.tools().machine)?.contains(mounts::device(&self.name).as_str());
        if !self.persist {
            return Ok((on, None));
        }
        let text = table(scene, &self.config)?;
        let entry = Entry {
            device: self.name.clone(),
            name: "none".into(),
            fstype: "swap".into(),
            opts: "defaults".into(),
            dump: "0".into(),
            pass_num: "0".into(),
        };
        // A line with other options or another word for no place is fine too.
        if mounts::entries(&text).any(|e| e.device == self.name && e.fstype == "swap") {
            return Ok((on, None));
        }
        let (text, kept) = mounts::set(&text, &entry, &[], false)?;
        Ok((on, (kept != Kept::Present).then_some((text, kept))))
    }
}

impl State for Swap {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (on, table) = self.see(scene)?;
        let name = &self.name;
        Ok(match (on, table) {
            (true, None) => Look::right(format!("Swap {name} already active")),
            (true, Some(_)) => {
                let changes = Map::from_iter([("persist", "new")]);
                Look::drift(format!("Swap {name} is set to be added to the fstab"), changes)
            }
            (false, _) => Look::drift(
                format!("Swap {name} is set to be activated"),
                Map::from_iter([(name.as_str(), "activated")]),
            ),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (on, table) = self.see(scene)?;
        let name = &self.name;
        let mut done = Done::new(format!("Swap {name} already active"), Map::new());
        if !on {
            let device = mounts::device(name);
            scene.change(&SwapThing, device.as_str(), || {
                let said = scene.tools().tell("swapon", &["--", &device])?;
                let failed = || Failure::new(format!("Swap {name} failed to activate: {}", said.words()));
                if said.is_fine() { Ok(()) } else { Err(failed()) }
            })?;
            done.comment = format!("Swap {name} activated");
            let all = mounts::swaps(scene.tools().machine)?;
            done.changes = all.get(device.as_str()).and_then(Value::as_map).cloned().unwrap_or_default();
        }
        if let Some((text, kept)) = table {
            lines::write(scene.fs, &self.config, &text)?;
            let (word, words) = fstab::told(kept);
            done.changes.insert("persist", word);
            done.comment.push_str(words);
        }
        Ok(done)
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::FILES
    }

    fn veils(&self) -> Veil {
        VEILS
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.config.clone().into())]
    }
}

/// File systems by the place that they are mounted at.
pub(super) struct MountThing;

impl Thing for MountThing {
    fn kind(&self) -> &'static str {
        "mount"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let Some(now) = mounts::at(scene.tools().machine, key.as_str().unwrap_or_default())? else {
            return Ok(Value::Null);
        };
        let device = mounts::backing(scene.tools().machine, &now.device).unwrap_or(now.device);
        let about = [("device", device), ("fstype", now.fstype), ("opts", now.opts.join(","))];
        Ok(Map::from_iter(about).into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let name = key.as_str().unwrap_or_default();
        let tools = scene.tools();
        let now = mounts::at(tools.machine, name)?;
        let text =
            |what: &str| to.as_map().and_then(|m| m.get(what)).and_then(Value::as_str).unwrap_or_default();
        let Some(_) = to.as_map() else {
            if now.is_some() {
                tools.must("umount", &["--", name])?;
            }
            return Ok(());
        };
        let same = now.as_ref().is_some_and(|n| n.device == text("device"));
        if now.is_some() && !same {
            tools.must("umount", &["--", name])?;
        }
        let opts = if same { format!("remount,{}", text("opts")) } else { text("opts").to_owned() };
        if same || Path::new(name).is_dir() {
            tools.must("mount", &["-t", text("fstype"), "-o", &opts, "--", text("device"), name])?;
        }
        Ok(())
    }
}

/// Swap space by its device.
pub(super) struct SwapThing;

impl Thing for SwapThing {
    fn kind(&self) -> &'static str {
        "swap"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        Ok(mounts::swaps(scene.tools().machine)?.contains(key.as_str().unwrap_or_default()).into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let program = if to.is_truthy() { "swapon" } else { "swapoff" };
        scene.tools().must(program, &["--", key.as_str().unwrap_or_default()])?;
        Ok(())
    }
}
