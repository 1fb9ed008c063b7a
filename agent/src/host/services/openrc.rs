//! OpenRC, by `rc-service` and `rc-update`.

use zagent_compiler::functions::Refusal;

use super::{Act, Boot, Provider, Service, files};
use crate::host::{Said, Tools};

pub(super) struct OpenRc<'a> {
    pub(super) tools: Tools<'a>,
}

/// The runlevel that a service is put into; what needs another says so by `rc-update` itself.
const LEVEL: &str = "default";
/// Where OpenRC links what it has started.
const STARTED: &str = "/run/openrc/started";

impl OpenRc<'_> {
    /// The runlevels that a service is in.
    fn levels(&self, name: &str) -> Vec<String> {
        let machine = self.tools.machine;
        let linked =
            |level: &String| machine.names(&format!("/etc/runlevels/{level}")).iter().any(|n| n == name);
        machine.names("/etc/runlevels").into_iter().filter(linked).collect()
    }
}

impl Provider for OpenRc<'_> {
    fn find(&self, name: &str) -> Result<Option<Service>, Refusal> {
        if !files::is_script(self.tools.machine, name) {
            return Ok(None);
        }
        let said = self.tools.ask("rc-service", &["--quiet", name, "status"])?;
        Ok(Some(Service { is_running: said.is_fine(), ..Service::default() }))
    }

    fn boot(&self, name: &str) -> Result<Boot, Refusal> {
        Ok(if self.levels(name).is_empty() { Boot::No } else { Boot::Yes })
    }

    fn act(&self, act: Act, name: &str, _no_block: bool) -> Result<Said, Refusal> {
        match act {
            Act::Enable => self.tools.tell("rc-update", &["add", name, LEVEL]),
            Act::Disable => {
                // With `--all` it ends with 1, as most runlevels do not have the service.
                let levels = self.levels(name);
                let words: Vec<&str> =
                    ["delete", name].into_iter().chain(levels.iter().map(String::as_str)).collect();
                self.tools.tell("rc-update", &words)
            }
            Act::Mask(_) | Act::Unmask(_) => Err(Refusal::failed("OpenRC has no masks")),
            Act::FullRestart => {
                self.tools.tell("rc-service", &[name, "stop"])?;
                self.tools.tell("rc-service", &[name, "start"])
            }
            Act::ForceReload => self.tools.tell("rc-service", &[name, "reload"]),
            Act::Start | Act::Stop | Act::Restart | Act::Reload => {
                self.tools.tell("rc-service", &[name, act.word()])
            }
        }
    }

    fn all(&self) -> Result<Vec<String>, Refusal> {
        Ok(files::scripts(self.tools.machine))
    }

    fn running(&self) -> Result<Vec<String>, Refusal> {
        // A script that knows no `status` says yes to everything: only what was started can run.
        let mut running = self.tools.machine.names(STARTED);
        running.retain(|name| matches!(self.find(name), Ok(Some(service)) if service.is_running));
        running.sort_unstable();
        Ok(running)
    }
}
