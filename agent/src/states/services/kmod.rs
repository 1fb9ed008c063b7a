//! `kmod.present` and `kmod.absent`: modules of the kernel, loaded now and at boot.

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use crate::host::Tools;
use crate::host::services::{lines, modules};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let on = match fun {
        "present" => true,
        "absent" => false,
        _ => return None,
    };
    let read = || {
        let mods = match args.get("mods") {
            Some(Value::List(_)) => args.texts("mods")?.unwrap_or_default(),
            _ => vec![args.name()],
        };
        let (persist, comment) = (args.flag("persist", false), args.flag("comment", true));
        Ok(Box::new(Modules { on, mods, persist, comment }) as Box<dyn State>)
    };
    Some(read())
}

struct Modules {
    /// They should be there.
    on: bool,
    mods: Vec<String>,
    persist: bool,
    /// A line is commented out instead of taken away.
    comment: bool,
}

/// `Kernel module x is …` or `Kernel modules x, y are …`.
fn words(mods: &[String], rest: &str) -> String {
    match mods {
        [one] => format!("Kernel module {one} is {rest}"),
        many => format!("Kernel modules {} are {rest}", many.join(", ")),
    }
}

impl Modules {
    fn config(scene: &Scene<'_>) -> &'static str {
        modules::config(scene.host.grain("systemd").as_ref())
    }

    /// The modules that are not as they should, each with whether that is about now and about the next boot.
    fn wrong(&self, scene: &Scene<'_>) -> Result<Vec<(String, bool, bool)>, Failure> {
        let machine = scene.tools().machine;
        let kept = if self.persist { modules::kept(scene.fs, Self::config(scene))? } else { Vec::new() };
        let loaded = modules::loaded(machine)?;
        let mut wrong = Vec::new();
        for name in &self.mods {
            let is_there = if self.on {
                modules::is_there(machine, name)?
            } else {
                loaded.contains(&modules::plain(name))
            };
            let boot = self.persist && kept.contains(&modules::plain(name)) != self.on;
            if is_there != self.on || boot {
                wrong.push((name.clone(), is_there != self.on, boot));
            }
        }
        Ok(wrong)
    }

    /// The program that loads or removes a module now.
    const fn program(&self) -> &'static str {
        if self.on { "modprobe" } else { "rmmod" }
    }

    /// Refuses a change of the running kernel that nothing on the host can make.
    fn verify(&self, tools: &Tools<'_>, wrong: &[(String, bool, bool)]) -> Result<(), Failure> {
        if !wrong.iter().any(|(_, now, _)| *now) || tools.which(self.program()).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = wrong.iter().filter(|(_, now, _)| *now).map(|(name, ..)| &**name).collect();
        let verb = if self.on { "load" } else { "remove" };
        Err(Failure::new(format!(
            "Failed to {verb} kernel module {}: there is no `{}` program on this host: a package such as kmod brings it",
            names.join(", "),
            self.program()
        )))
    }

    fn changes(&self, names: &[String]) -> Map {
        let word = if self.on { "loaded" } else { "removed" };
        names.iter().map(|n| (n.clone(), word)).collect()
    }

    fn change(&self, name: &str, now: bool, boot: bool, scene: &Scene<'_>) -> Result<(), Failure> {
        if now {
            let verb = if self.on { "load" } else { "remove" };
            scene.change(&Module, name, || {
                let said = scene.tools().tell(self.program(), &[name])?;
                if said.is_fine() {
                    return Ok(());
                }
                Err(Failure::new(format!("Failed to {verb} kernel module {name}: {}", said.words())))
            })?;
        }
        if boot {
            let config = Self::config(scene);
            let text = lines::read(scene.fs, config)?.unwrap_or_default();
            let text = if self.on {
                modules::with(&text, name)
            } else {
                modules::without(&text, name, self.comment)
            };
            lines::write(scene.fs, config, &text)?;
        }
        Ok(())
    }
}

impl State for Modules {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let wrong = self.wrong(scene)?;
        // Salt finds out when it calls the program.
        if scene.compat == Compat::Strict {
            self.verify(&scene.tools(), &wrong)?;
        }
        let wrong: Vec<String> = wrong.into_iter().map(|(n, ..)| n).collect();
        let (already, will) = if self.on {
            ("already present", "set to be loaded")
        } else {
            ("already removed", "set to be removed")
        };
        if wrong.is_empty() {
            return Ok(Look::right(words(&self.mods, already)));
        }
        Ok(Look::drift(words(&wrong, will), self.changes(&wrong)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let mut done = Vec::new();
        let verb = if self.on { "Loaded" } else { "Removed" };
        let told = |done: &[String]| match done {
            [] => String::new(),
            [one] => format!("{verb} kernel module {one}"),
            many => format!("{verb} kernel modules {}", many.join(", ")),
        };
        for (name, now, boot) in self.wrong(scene)? {
            if let Err(failure) = self.change(&name, now, boot, scene) {
                let words = format!("{}\n{}", told(&done), failure.done.comment).trim().to_owned();
                return Err(Done::new(words, self.changes(&done)).into());
            }
            done.push(name);
        }
        Ok(Done::new(told(&done), self.changes(&done)))
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::FILES | Veil::BROUGHT
    }

    fn veils(&self) -> Veil {
        Veil::KERNEL
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path("/etc/modules-load.d".into()), Resource::Path("/etc/modules".into())]
    }
}

/// Modules of the running kernel by name.
pub(super) struct Module;

impl Thing for Module {
    fn kind(&self) -> &'static str {
        "kmod"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let name = modules::plain(key.as_str().unwrap_or_default());
        Ok(modules::loaded(scene.tools().machine)?.contains(&name).into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let program = if to.is_truthy() { "modprobe" } else { "rmmod" };
        scene.tools().must(program, &[key.as_str().unwrap_or_default()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Machine;

    #[test]
    fn a_host_without_the_program_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let bare = Machine::at(dir.path());
        let tools = Tools::new(&bare);
        let state = |on| Modules { on, mods: vec!["loop".into()], persist: true, comment: true };
        for (on, program) in [(true, "`modprobe`"), (false, "`rmmod`")] {
            let refused = state(on).verify(&tools, &[("loop".into(), true, false)]).unwrap_err();
            assert!(refused.done.comment.contains(program), "{}", refused.done.comment);
            // Only the next boot is to change: a line of a file.
            assert!(state(on).verify(&tools, &[("loop".into(), false, true)]).is_ok());
        }
    }
}
