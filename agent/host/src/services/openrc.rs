//! OpenRC, by `rc-service` and `rc-update`.

use zagent_config::FunctionError;

use super::{BootState, ServiceAction, ServiceProvider, ServiceStatus, unit_files};
use crate::{CommandOutput, Tools};

pub(crate) struct OpenRc<'a> {
    pub tools: Tools<'a>,
}

/// The runlevel that a service is put into; what needs another says so by `rc-update` itself.
const DEFAULT_RUNLEVEL: &str = "default";
/// Where OpenRC links what it has started.
const STARTED_DIR: &str = "/run/openrc/started";

impl OpenRc<'_> {
    /// The runlevels that a service is in.
    fn runlevels(&self, name: &str) -> Vec<String> {
        let machine = self.tools.machine;
        let linked =
            |level: &String| machine.list_dir(&format!("/etc/runlevels/{level}")).iter().any(|n| n == name);
        machine.list_dir("/etc/runlevels").into_iter().filter(linked).collect()
    }
}

impl ServiceProvider for OpenRc<'_> {
    fn status(&self, name: &str) -> Result<Option<ServiceStatus>, FunctionError> {
        if !unit_files::has_init_script(self.tools.machine, name) {
            return Ok(None);
        }
        let output = self.tools.run_query("rc-service", &["--quiet", name, "status"])?;
        Ok(Some(ServiceStatus { is_running: output.is_success(), ..ServiceStatus::default() }))
    }

    fn boot_state(&self, name: &str) -> Result<BootState, FunctionError> {
        Ok(if self.runlevels(name).is_empty() { BootState::Disabled } else { BootState::Enabled })
    }

    fn perform(
        &self,
        action: ServiceAction,
        name: &str,
        _no_block: bool,
    ) -> Result<CommandOutput, FunctionError> {
        match action {
            ServiceAction::Enable => self.tools.run_change("rc-update", &["add", name, DEFAULT_RUNLEVEL]),
            ServiceAction::Disable => {
                // With `--all` it ends with 1, as most runlevels do not have the service.
                let levels = self.runlevels(name);
                let words: Vec<&str> =
                    ["delete", name].into_iter().chain(levels.iter().map(String::as_str)).collect();
                self.tools.run_change("rc-update", &words)
            }
            ServiceAction::Mask(_) | ServiceAction::Unmask(_) => {
                Err(FunctionError::failed("OpenRC has no masks"))
            }
            ServiceAction::FullRestart => {
                self.tools.run_change("rc-service", &[name, "stop"])?;
                self.tools.run_change("rc-service", &[name, "start"])
            }
            ServiceAction::ForceReload => self.tools.run_change("rc-service", &[name, "reload"]),
            ServiceAction::Start | ServiceAction::Stop | ServiceAction::Restart | ServiceAction::Reload => {
                self.tools.run_change("rc-service", &[name, action.command_word()])
            }
        }
    }

    fn list(&self) -> Result<Vec<String>, FunctionError> {
        Ok(unit_files::list_init_scripts(self.tools.machine))
    }

    fn list_running(&self) -> Result<Vec<String>, FunctionError> {
        // A script that knows no `status` says yes to everything: only what was started can run.
        let mut running = self.tools.machine.list_dir(STARTED_DIR);
        running.retain(|name| matches!(self.status(name), Ok(Some(service)) if service.is_running));
        running.sort_unstable();
        Ok(running)
    }
}
