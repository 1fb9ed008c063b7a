//! `kmod.present` and `kmod.absent`: modules of the kernel, loaded now and at boot.

pub(crate) mod functions;
pub(crate) mod kernel_modules;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable,
};
use zagent_host::Tools;
use zagent_host::text_file;

/// The module `kmod`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "kmod",
    build,
    functions: functions::TABLE,
    undo: &[&KmodUndo],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
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
        Ok(Box::new(KmodState { should_load: on, mods, persist, comment }) as Box<dyn State>)
    };
    Some(args.reject_options(&["mods"]).and_then(|()| read()))
}

struct KmodState {
    /// They should be there.
    should_load: bool,
    mods: Vec<String>,
    persist: bool,
    /// A line is commented out instead of taken away.
    comment: bool,
}

/// `Kernel module x is …` or `Kernel modules x, y are …`.
fn module_comment(mods: &[String], rest: &str) -> String {
    match mods {
        [one] => format!("Kernel module {one} is {rest}"),
        many => format!("Kernel modules {} are {rest}", many.join(", ")),
    }
}

impl KmodState {
    fn config(ctx: &StateCtx<'_>) -> &'static str {
        kernel_modules::boot_config_path(ctx.host.grain("systemd").as_ref())
    }

    /// The modules that are not as they should, each with whether that is about now and about the next boot.
    fn differing_modules(&self, ctx: &StateCtx<'_>) -> Result<Vec<(String, bool, bool)>, StateError> {
        let machine = ctx.tools().machine;
        let kept =
            if self.persist { kernel_modules::boot_modules(ctx.fs, Self::config(ctx))? } else { Vec::new() };
        let loaded = kernel_modules::list_loaded(machine)?;
        let mut wrong = Vec::new();
        for name in &self.mods {
            let is_there = if self.should_load {
                kernel_modules::is_loaded(machine, name)?
            } else {
                loaded.contains(&kernel_modules::normalize_name(name))
            };
            let boot =
                self.persist && kept.contains(&kernel_modules::normalize_name(name)) != self.should_load;
            // Below another root, only the next boot can change.
            let now = is_there != self.should_load && (machine.is_this_host() || !self.persist);
            if now || boot {
                wrong.push((name.clone(), now, boot));
            }
        }
        if wrong.iter().any(|(_, now, _)| *now) {
            kernel_modules::check_kernel(machine)?;
        }
        Ok(wrong)
    }

    /// The program that loads or removes a module now.
    const fn program(&self) -> &'static str {
        if self.should_load { "modprobe" } else { "rmmod" }
    }

    /// Refuses a change of the running kernel that nothing on the host can make.
    fn verify_program(&self, tools: &Tools<'_>, wrong: &[(String, bool, bool)]) -> Result<(), StateError> {
        if !wrong.iter().any(|(_, now, _)| *now) || tools.which(self.program()).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = wrong.iter().filter(|(_, now, _)| *now).map(|(name, ..)| &**name).collect();
        let verb = if self.should_load { "load" } else { "remove" };
        Err(StateError::new(format!(
            "Failed to {verb} kernel module {}: there is no `{}` program on this host: a package such as kmod brings it",
            names.join(", "),
            self.program()
        )))
    }

    fn changes(&self, names: &[String]) -> Map {
        let word = if self.should_load { "loaded" } else { "removed" };
        names.iter().map(|n| (n.clone(), word)).collect()
    }

    fn change_module(&self, name: &str, now: bool, boot: bool, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        if now {
            let verb = if self.should_load { "load" } else { "remove" };
            ctx.with_undo(&KmodUndo, name, || {
                let said = ctx.tools().run_change(self.program(), &[name])?;
                if said.is_success() {
                    return Ok(());
                }
                Err(StateError::new(format!("Failed to {verb} kernel module {name}: {}", said.message())))
            })?;
        }
        if boot {
            let config = Self::config(ctx);
            let text = text_file::read_text(ctx.fs, config)?.unwrap_or_default();
            let text = if self.should_load {
                kernel_modules::add_boot_module(&text, name)
            } else {
                kernel_modules::remove_boot_module(&text, name, self.comment)
            };
            text_file::write_text(ctx.fs, config, &text)?;
        }
        Ok(())
    }
}

impl State for KmodState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let wrong = self.differing_modules(ctx)?;
        // Salt finds out when it calls the program.
        if ctx.compat == Compat::Strict {
            self.verify_program(&ctx.tools(), &wrong)?;
        }
        let wrong: Vec<String> = wrong.into_iter().map(|(n, ..)| n).collect();
        let (already, will) = if self.should_load {
            ("already present", "set to be loaded")
        } else {
            ("already removed", "set to be removed")
        };
        if wrong.is_empty() {
            return Ok(CheckResult::in_sync(module_comment(&self.mods, already)));
        }
        Ok(CheckResult::drifted(module_comment(&wrong, will), self.changes(&wrong)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let mut done = Vec::new();
        let verb = if self.should_load { "Loaded" } else { "Removed" };
        let told = |done: &[String]| match done {
            [] => String::new(),
            [one] => format!("{verb} kernel module {one}"),
            many => format!("{verb} kernel modules {}", many.join(", ")),
        };
        for (name, now, boot) in self.differing_modules(ctx)? {
            if let Err(failure) = self.change_module(&name, now, boot, ctx) {
                let words = format!("{}\n{}", told(&done), failure.result.comment).trim().to_owned();
                return Err(ApplyResult::new(words, self.changes(&done)).into());
            }
            done.push(name);
        }
        Ok(ApplyResult::new(told(&done), self.changes(&done)))
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::FILES | Effects::PACKAGE_FILES
    }

    fn writes(&self) -> Effects {
        Effects::KERNEL
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path("/etc/modules-load.d".into()), LockKey::Path("/etc/modules".into())]
    }
}

/// Modules of the running kernel by name.
pub(crate) struct KmodUndo;

impl Undoable for KmodUndo {
    fn kind(&self) -> &'static str {
        "kmod"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let name = kernel_modules::normalize_name(key.as_str().unwrap_or_default());
        Ok(kernel_modules::list_loaded(ctx.tools().machine)?.contains(&name).into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let program = if to.is_truthy() { "modprobe" } else { "rmmod" };
        ctx.tools().run_checked(program, &[key.as_str().unwrap_or_default()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_host::Machine;

    #[test]
    fn a_host_without_the_program_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let bare = Machine::at_root(dir.path()).unwrap();
        let tools = Tools::new(&bare);
        let state =
            |on| KmodState { should_load: on, mods: vec!["loop".into()], persist: true, comment: true };
        for (on, program) in [(true, "`modprobe`"), (false, "`rmmod`")] {
            let refused = state(on).verify_program(&tools, &[("loop".into(), true, false)]).unwrap_err();
            assert!(refused.result.comment.contains(program), "{}", refused.result.comment);
            // Only the next boot is to change: a line of a file.
            assert!(state(on).verify_program(&tools, &[("loop".into(), false, true)]).is_ok());
        }
    }
}
