//! `network.system`, `system.hostname` and `system.computer_desc`: what the host is called.

pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, StateModule, Undoable,
};
use zagent_host::text_file;

const HOSTNAME_FILE: &str = "/etc/hostname";
const KERNEL_HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// Where it stands whether the network is set up at boot, and by which variable.
const NETWORKING_SWITCH: (&str, &str) = ("/etc/default/networking", "CONFIGURE_INTERFACES");
const MACHINE_INFO: &str = "/etc/machine-info";

/// The module `system`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "system",
    build,
    functions: functions::TABLE,
    undo: &[&HostnameUndo],
    description: include_str!("description.txt"),
};

/// The state that a function of the module `system` makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let names = match fun {
        "hostname" | "computer_name" => args.reject_options(&[]).map(|()| SystemNames {
            hostname: Some(args.name()),
            live: true,
            description: None,
            networking: None,
            labels: ("hostname", "Hostname"),
        }),
        "computer_desc" | "computer_description" => Ok(SystemNames {
            hostname: None,
            live: false,
            description: Some(args.name()),
            networking: None,
            labels: ("Computer Description", "Computer description"),
        }),
        _ => return None,
    };
    Some(names.map(|names| Box::new(names) as Box<dyn State>))
}

pub struct SystemNames {
    hostname: Option<String>,
    /// The running kernel is told too.
    live: bool,
    /// A name for people.
    description: Option<String>,
    /// Whether the network is set up at boot.
    networking: Option<bool>,
    /// What changes, as a key and at the start of a sentence.
    labels: (&'static str, &'static str),
}

/// The file with a variable set in it.
fn set_variable(text: &str, key: &str, value: &str) -> String {
    let wanted = format!("{key}={value}");
    let is_own = |l: &str| l.trim_start().strip_prefix(key).is_some_and(|r| r.starts_with('='));
    let (edited, found) = text_file::edit_lines(text, |l| is_own(l).then(|| wanted.clone()));
    if found { edited } else { text_file::append_line(text, &wanted) }
}

impl SystemNames {
    pub fn from_network_system(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        // The rest of a full name is for the resolver, which is not told by this file.
        let hostname = args.text("hostname")?.map(|h| h.split('.').next().unwrap_or_default().to_owned());
        Ok(Self {
            live: hostname.is_some() && args.flag("apply_hostname", false),
            hostname,
            description: None,
            networking: args.get("enabled").map(Value::is_truthy),
            labels: ("network_settings", "Global network settings"),
        })
    }

    /// The files that differ, as they should be.
    fn differing_files(&self, ctx: &StateCtx<'_>) -> Result<Vec<(&'static str, String)>, StateError> {
        let mut wrong = Vec::new();
        let mut want = |path: &'static str, make: &dyn Fn(&str) -> String| -> Result<(), StateError> {
            let now = text_file::read_text(ctx.fs, path)?.unwrap_or_default();
            let new = make(&now);
            if new != now {
                wrong.push((path, new));
            }
            Ok(())
        };
        if let Some(name) = &self.hostname {
            want(HOSTNAME_FILE, &|now| {
                if now.trim() == name { now.to_owned() } else { format!("{name}\n") }
            })?;
        }
        if let Some(about) = &self.description {
            want(MACHINE_INFO, &|now| {
                set_variable(now, "PRETTY_HOSTNAME", &format!("\"{}\"", about.replace('"', "\\\"")))
            })?;
        }
        if let Some(on) = self.networking {
            want(NETWORKING_SWITCH.0, &|now| {
                set_variable(now, NETWORKING_SWITCH.1, if on { "yes" } else { "no" })
            })?;
        }
        Ok(wrong)
    }

    /// The name that the kernel should have and has not.
    fn pending_hostname(&self, ctx: &StateCtx<'_>) -> Result<Option<&str>, StateError> {
        let Some(name) = self.hostname.as_deref().filter(|_| self.live) else { return Ok(None) };
        let now = ctx.tools().machine.read(KERNEL_HOSTNAME)?.unwrap_or_default();
        Ok((now.trim() != name).then_some(name))
    }

    fn changes(&self) -> Map {
        let mut told: Vec<String> = Vec::new();
        told.extend(self.hostname.clone());
        told.extend(self.description.clone());
        told.extend(
            self.networking.map(|on| format!("{}={}", NETWORKING_SWITCH.1, if on { "yes" } else { "no" })),
        );
        Map::from_iter([(self.labels.0, told.join("\n"))])
    }
}

impl State for SystemNames {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let what = self.labels.1;
        if self.differing_files(ctx)?.is_empty() && self.pending_hostname(ctx)?.is_none() {
            let verb = if self.labels.0 == "network_settings" { "are up to date." } else { "is already set" };
            return Ok(CheckResult::in_sync(format!("{what} {verb}")));
        }
        let verb = if self.labels.0 == "network_settings" { "are" } else { "is" };
        Ok(CheckResult::drifted(format!("{what} {verb} set to be updated."), self.changes()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        for (path, text) in self.differing_files(ctx)? {
            text_file::write_text(ctx.fs, path, &text)?;
        }
        if let Some(name) = self.pending_hostname(ctx)? {
            ctx.with_undo(&HostnameUndo, HOSTNAME_FILE, || set_hostname(name, ctx))?;
        }
        Ok(ApplyResult::new(format!("{} updated.", self.labels.1), self.changes()))
    }

    fn is_predictable(&self) -> bool {
        !self.live
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::KERNEL
    }

    fn writes(&self) -> Effects {
        if self.live { Effects::KERNEL } else { Effects::NONE }
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        [HOSTNAME_FILE, MACHINE_INFO, NETWORKING_SWITCH.0]
            .into_iter()
            .map(|p| LockKey::Path(p.into()))
            .collect()
    }
}

fn set_hostname(name: &str, ctx: &StateCtx<'_>) -> Result<(), StateError> {
    ctx.tools().run_checked("hostname", &[name])?;
    Ok(())
}

/// The name that the running kernel has; there is only one.
pub struct HostnameUndo;

impl Undoable for HostnameUndo {
    fn kind(&self) -> &'static str {
        "hostname"
    }

    fn capture(&self, _key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        Ok(ctx.tools().machine.read(KERNEL_HOSTNAME)?.unwrap_or_default().trim().into())
    }

    fn restore(&self, _key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        set_hostname(to.as_str().unwrap_or_default(), ctx)
    }
}
