//! The service manager of a host: a name in, how the service stands or what came of an act out. Beside it, what else of
//! the system states and functions share.
//!
//! Law: a look changes nothing, not even what the manager has loaded. States and execution functions read from here
//! (held by `what_systemctl_shows`).

pub(crate) mod openrc;
pub mod systemd;
pub(crate) mod sysv;
pub mod unit_files;

use zagent_config::FunctionError;

use super::{CommandOutput, Machine, Tools};

/// How a service stands now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceStatus {
    /// It runs.
    pub is_running: bool,
    /// It is about to: somebody told it to and did not wait.
    pub is_starting: bool,
    /// It ended by itself and is started again and again.
    pub is_restart_looping: bool,
    /// It does its work and ends.
    pub is_oneshot: bool,
    /// It did its work since the host started.
    pub has_completed: bool,
}

/// Whether a service starts with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootState {
    /// It was told to.
    Enabled,
    /// It does not.
    Disabled,
    /// Others start it, and nobody can tell it to or not to.
    Static,
}

impl BootState {
    /// What Salt calls enabled.
    pub const fn is_enabled(self) -> bool {
        !matches!(self, Self::Disabled)
    }
}

/// What can be done to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceAction {
    /// Made to run.
    Start,
    /// Made to end.
    Stop,
    /// Ended and made to run again.
    Restart,
    /// Told to read its configuration again.
    Reload,
    /// Told to read its configuration again, or restarted where it cannot.
    ForceReload,
    /// Stopped and started, or what the manager has for it.
    FullRestart,
    /// Made to start with the host.
    Enable,
    /// Kept from starting with the host.
    Disable,
    /// Kept from starting; until the next boot when it is true.
    Mask(bool),
    /// Allowed to start again; only a mask until the next boot is taken away when it is true.
    Unmask(bool),
}

impl ServiceAction {
    /// The word for it that most managers and scripts know.
    pub(crate) const fn command_word(self) -> &'static str {
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
pub trait ServiceProvider {
    /// How a service stands; nothing when there is no such service.
    fn status(&self, name: &str) -> Result<Option<ServiceStatus>, FunctionError>;

    /// Whether it starts with the host.
    fn boot_state(&self, name: &str) -> Result<BootState, FunctionError>;

    /// Does it; a manager that says no is an answer. `no_block` does not wait for the end of it.
    fn perform(
        &self,
        action: ServiceAction,
        name: &str,
        no_block: bool,
    ) -> Result<CommandOutput, FunctionError>;

    /// All services, sorted.
    fn list(&self) -> Result<Vec<String>, FunctionError>;

    /// All services that are `enabled`, `disabled` or (where there is such a thing) `static`, sorted.
    fn list_by_boot(&self, word: &str) -> Result<Vec<String>, FunctionError> {
        let wanted = if word == "enabled" { BootState::Enabled } else { BootState::Disabled };
        let mut names = self.list()?;
        names.retain(|n| word != "static" && self.boot_state(n) == Ok(wanted));
        Ok(names)
    }

    /// All services that run, sorted.
    fn list_running(&self) -> Result<Vec<String>, FunctionError> {
        let mut running = Vec::new();
        for name in self.list()? {
            if self.status(&name)?.is_some_and(|s| s.is_running) {
                running.push(name);
            }
        }
        Ok(running)
    }

    /// All properties of a service, a line each, where the manager keeps any.
    fn show_properties(&self, _name: &str) -> Result<String, FunctionError> {
        Err(FunctionError::failed("only systemd tells the properties of a service"))
    }

    /// Whether it is masked, until the next boot or for good; nothing where there are no masks.
    fn is_masked(&self, _name: &str, _runtime: bool) -> Option<bool> {
        None
    }

    /// Why it does not run, as far as the manager knows.
    fn failure_reason(&self, _name: &str) -> String {
        String::new()
    }

    /// Why nothing can be started here at all.
    fn offline_reason(&self) -> Option<&'static str> {
        None
    }

    /// Reads again what services there are, where that has to be asked for.
    fn daemon_reload(&self) -> Result<(), FunctionError> {
        Ok(())
    }

    /// True when a process may be looked for by its command line.
    fn supports_sig(&self) -> bool {
        true
    }

    /// The same as [`ServiceProvider::perform`], and a manager that says no is a refusal with its words.
    fn perform_checked(
        &self,
        action: ServiceAction,
        name: &str,
        no_block: bool,
    ) -> Result<(), FunctionError> {
        let output = self.perform(action, name, no_block)?;
        if output.is_success() {
            return Ok(());
        }
        let mut words = output.message().to_owned();
        if words.is_empty() {
            words = format!("`{} {name}` ended with code {}", action.command_word(), output.code);
        }
        Err(FunctionError::failed(words))
    }
}

/// Managers by the names that `provider` may give, Salt's among them.
const PROVIDER_NAMES: [(&str, InitSystem); 14] = [
    ("systemd", InitSystem::Systemd),
    ("systemd_service", InitSystem::Systemd),
    ("openrc", InitSystem::OpenRc),
    ("gentoo_service", InitSystem::OpenRc),
    ("gentooservice", InitSystem::OpenRc),
    ("alpine_service", InitSystem::OpenRc),
    ("sysv", InitSystem::SysV),
    ("sysvinit", InitSystem::SysV),
    ("service", InitSystem::SysV),
    ("linux_service", InitSystem::SysV),
    ("debian_service", InitSystem::SysV),
    ("rh_service", InitSystem::SysV),
    ("upstart", InitSystem::SysV),
    ("upstart_service", InitSystem::SysV),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InitSystem {
    Systemd,
    OpenRc,
    SysV,
}

/// The manager of a machine, or the one that is asked for by name.
pub fn select_provider<'a>(
    tools: Tools<'a>,
    wanted: Option<&str>,
) -> Result<Box<dyn ServiceProvider + 'a>, FunctionError> {
    let kind = match wanted {
        Some(name) => match PROVIDER_NAMES.iter().find(|(n, _)| *n == name) {
            Some((_, kind)) => *kind,
            None => {
                let words = format!("there is no service provider `{name}`: use systemd, openrc or sysv");
                return Err(FunctionError::bad_arguments(words));
            }
        },
        None => detect_init_system(tools.machine),
    };
    Ok(match kind {
        InitSystem::Systemd => Box::new(systemd::Systemd::new(tools)),
        InitSystem::OpenRc => Box::new(openrc::OpenRc { tools }),
        InitSystem::SysV => Box::new(sysv::SysV { tools }),
    })
}

/// Who manages the services: systemd where it runs, OpenRC where its programs are, scripts where the first process is an
/// `init` of old, systemd that does not run yet, scripts.
fn detect_init_system(machine: &Machine) -> InitSystem {
    if unit_files::is_booted(machine) {
        InitSystem::Systemd
    } else if machine.which("rc-service").is_some() {
        InitSystem::OpenRc
    } else if unit_files::is_sysv_init(machine) {
        InitSystem::SysV
    } else if machine.which("systemctl").is_some() || !machine.is_this_host() {
        InitSystem::Systemd
    } else {
        InitSystem::SysV
    }
}

/// True when systemd manages the services of a machine.
pub fn is_systemd(machine: &Machine) -> bool {
    detect_init_system(machine) == InitSystem::Systemd
}

/// True when the command line of some process contains a text, our own left out.
pub fn has_process_matching(machine: &Machine, text: &str) -> bool {
    let own = std::process::id().to_string();
    machine.list_dir("/proc").into_iter().filter(|n| *n != own && n.bytes().all(|b| b.is_ascii_digit())).any(
        |pid| {
            // A process that has ended meanwhile has no command line.
            let line = machine.read_bytes(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
        },
    )
}

/// Tests of the service managers.
#[cfg(test)]
pub mod tests;
