//! Init scripts, linked into runlevels by `update-rc.d` (Debian) or `chkconfig` (Red Hat).

use zagent_config::FunctionError;

use super::{BootState, ServiceAction, ServiceProvider, ServiceStatus, unit_files};
use crate::{CommandOutput, Tools};

pub(crate) struct SysV<'a> {
    pub tools: Tools<'a>,
}

impl SysV<'_> {
    /// Tells a script; by `service` where it is, as that cleans the environment.
    fn run_script(&self, name: &str, word: &str) -> Result<CommandOutput, FunctionError> {
        if self.tools.which("service").is_some() {
            return self.tools.run_change("service", &[name, word]);
        }
        self.tools.run_change(&format!("/etc/init.d/{name}"), &[word])
    }

    fn set_runlevel_links(&self, name: &str, on: bool) -> Result<CommandOutput, FunctionError> {
        if self.tools.which("update-rc.d").is_some() {
            if on {
                // A script that was never linked has nothing to enable yet.
                self.tools.run_change("update-rc.d", &[name, "defaults"])?;
            }
            return self.tools.run_change("update-rc.d", &[name, if on { "enable" } else { "disable" }]);
        }
        if self.tools.which("chkconfig").is_some() {
            return self.tools.run_change("chkconfig", &[name, if on { "on" } else { "off" }]);
        }
        Err(FunctionError::failed("there is neither `update-rc.d` nor `chkconfig` here"))
    }
}

impl ServiceProvider for SysV<'_> {
    fn status(&self, name: &str) -> Result<Option<ServiceStatus>, FunctionError> {
        if !unit_files::has_init_script(self.tools.machine, name) {
            return Ok(None);
        }
        let output = self.run_script(name, "status")?;
        Ok(Some(ServiceStatus { is_running: output.is_success(), ..ServiceStatus::default() }))
    }

    fn boot_state(&self, name: &str) -> Result<BootState, FunctionError> {
        Ok(if unit_files::is_script_enabled(self.tools.machine, name) {
            BootState::Enabled
        } else {
            BootState::Disabled
        })
    }

    fn perform(
        &self,
        action: ServiceAction,
        name: &str,
        _no_block: bool,
    ) -> Result<CommandOutput, FunctionError> {
        match action {
            ServiceAction::Enable => self.set_runlevel_links(name, true),
            ServiceAction::Disable => self.set_runlevel_links(name, false),
            ServiceAction::Mask(_) | ServiceAction::Unmask(_) => {
                Err(FunctionError::failed("init scripts cannot be masked"))
            }
            ServiceAction::FullRestart => {
                self.run_script(name, "stop")?;
                self.run_script(name, "start")
            }
            _ => self.run_script(name, action.command_word()),
        }
    }

    fn list(&self) -> Result<Vec<String>, FunctionError> {
        Ok(unit_files::list_init_scripts(self.tools.machine))
    }
}
