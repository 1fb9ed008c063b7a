//! The service manager of a host: a name in, how the service stands or what came of an act out. Beside it, what else of
//! the system states and functions share.
//!
//! Law: a look changes nothing, not even what the manager has loaded. States and execution functions read from here.

pub(crate) mod files;
pub(crate) mod lines;
pub(crate) mod locales;
pub(crate) mod modules;
pub(crate) mod mounts;
mod openrc;
pub(crate) mod sysctl;
mod systemd;
mod sysv;
pub(crate) mod zone;

use zagent_compiler::functions::Refusal;

use super::{Machine, Said, Tools};

/// How a service stands now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// It runs.
    pub(crate) is_running: bool,
    /// It is about to: somebody told it to and did not wait.
    pub(crate) is_coming: bool,
    /// It ended by itself and is started again and again.
    pub(crate) is_looping: bool,
    /// It does its work and ends.
    pub(crate) is_brief: bool,
    /// It did its work since the host started.
    pub(crate) is_done: bool,
}

/// Whether a service starts with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// It was told to.
    Yes,
    /// It does not.
    No,
    /// Others start it, and nobody can tell it to or not to.
    Fixed,
}

impl Boot {
    /// What Salt calls enabled.
    pub(crate) const fn is_enabled(self) -> bool {
        !matches!(self, Self::No)
    }
}

/// What can be done to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start,
    Stop,
    Restart,
    Reload,
    ForceReload,
    /// Stopped and started, or what the manager has for it.
    FullRestart,
    Enable,
    Disable,
    /// Kept from starting; until the next boot when it is true.
    Mask(bool),
    Unmask(bool),
}

impl Act {
    /// The word for it that most managers and scripts know.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart | Self::FullRestart => "restart",
            Self::Reload => "reload",
            Self::ForceReload => "force-reload",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Mask(_) => "mask",
            Self::Unmask(_) => "unmask",
        }
    }
}

/// A service manager.
pub(crate) trait Provider {
    /// How a service stands; nothing when there is no such service.
    fn find(&self, name: &str) -> Result<Option<Service>, Refusal>;

    /// Whether it starts with the host.
    fn boot(&self, name: &str) -> Result<Boot, Refusal>;

    /// Does it; a manager that says no is an answer. `no_block` does not wait for the end of it.
    fn act(&self, act: Act, name: &str, no_block: bool) -> Result<Said, Refusal>;

    /// All services, sorted.
    fn all(&self) -> Result<Vec<String>, Refusal>;

    /// All services that are `enabled`, `disabled` or (where there is such a thing) `static`, sorted.
    fn with_boot(&self, word: &str) -> Result<Vec<String>, Refusal> {
        let wanted = if word == "enabled" { Boot::Yes } else { Boot::No };
        let mut names = self.all()?;
        names.retain(|n| word != "static" && self.boot(n) == Ok(wanted));
        Ok(names)
    }

    /// All services that run, sorted.
    fn running(&self) -> Result<Vec<String>, Refusal> {
        let mut running = Vec::new();
        for name in self.all()? {
            if self.find(&name)?.is_some_and(|s| s.is_running) {
                running.push(name);
            }
        }
        Ok(running)
    }

    /// All properties of a service, a line each, where the manager keeps any.
    fn show(&self, _name: &str) -> Result<String, Refusal> {
        Err(Refusal::failed("only systemd tells the properties of a service"))
    }

    /// Whether it is masked, until the next boot or for good; nothing where there are no masks.
    fn is_masked(&self, _name: &str, _runtime: bool) -> Option<bool> {
        None
    }

    /// Why it does not run, as far as the manager knows.
    fn why(&self, _name: &str) -> String {
        String::new()
    }

    /// Why nothing can be started here at all.
    fn is_offline(&self) -> Option<&'static str> {
        None
    }

    /// Reads again what services there are, where that has to be asked for.
    fn refresh(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// True when a process may be looked for by its command line.
    fn takes_signature(&self) -> bool {
        true
    }

    /// The same as [`Provider::act`], and a manager that says no is a refusal with its words.
    fn must(&self, act: Act, name: &str, no_block: bool) -> Result<(), Refusal> {
        let said = self.act(act, name, no_block)?;
        if said.is_fine() {
            return Ok(());
        }
        let mut words = said.words().to_owned();
        if words.is_empty() {
            words = format!("`{} {name}` ended with code {}", act.word(), said.code);
        }
        Err(Refusal::failed(words))
    }
}

/// Managers by the names that `provider` may give, Salt's among them.
const NAMES: [(&str, Kind); 14] = [
    ("systemd", Kind::Systemd),
    ("systemd_service", Kind::Systemd),
    ("openrc", Kind::OpenRc),
    ("gentoo_service", Kind::OpenRc),
    ("gentooservice", Kind::OpenRc),
    ("alpine_service", Kind::OpenRc),
    ("sysv", Kind::SysV),
    ("sysvinit", Kind::SysV),
    ("service", Kind::SysV),
    ("linux_service", Kind::SysV),
    ("debian_service", Kind::SysV),
    ("rh_service", Kind::SysV),
    ("upstart", Kind::SysV),
    ("upstart_service", Kind::SysV),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Systemd,
    OpenRc,
    SysV,
}

/// The manager of a machine, or the one that is asked for by name.
pub(crate) fn of<'a>(tools: Tools<'a>, wanted: Option<&str>) -> Result<Box<dyn Provider + 'a>, Refusal> {
    let kind = match wanted {
        Some(name) => match NAMES.iter().find(|(n, _)| *n == name) {
            Some((_, kind)) => *kind,
            None => {
                let words = format!("there is no service provider `{name}`: use systemd, openrc or sysv");
                return Err(Refusal::arguments(words));
            }
        },
        None => kind_of(tools.machine),
    };
    Ok(match kind {
        Kind::Systemd => Box::new(systemd::Systemd::new(tools)),
        Kind::OpenRc => Box::new(openrc::OpenRc { tools }),
        Kind::SysV => Box::new(sysv::SysV { tools }),
    })
}

/// Who manages the services: systemd where it runs, OpenRC where its programs are, scripts where the first process is an
/// `init` of old, systemd that does not run yet, scripts.
fn kind_of(machine: &Machine) -> Kind {
    if files::is_booted(machine) {
        Kind::Systemd
    } else if machine.which("rc-service").is_some() {
        Kind::OpenRc
    } else if files::is_old_init(machine) {
        Kind::SysV
    } else if machine.which("systemctl").is_some() || !machine.is_own() {
        Kind::Systemd
    } else {
        Kind::SysV
    }
}

/// True when systemd manages the services of a machine.
pub(crate) fn is_systemd(machine: &Machine) -> bool {
    kind_of(machine) == Kind::Systemd
}

/// True when the command line of some process contains a text, our own left out.
pub(crate) fn is_process(machine: &Machine, text: &str) -> bool {
    let own = std::process::id().to_string();
    machine.names("/proc").into_iter().filter(|n| *n != own && n.bytes().all(|b| b.is_ascii_digit())).any(
        |pid| {
            // A process that has ended meanwhile has no command line.
            let line = std::fs::read(machine.path(&format!("/proc/{pid}/cmdline"))).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
        },
    )
}

#[cfg(test)]
mod tests;
