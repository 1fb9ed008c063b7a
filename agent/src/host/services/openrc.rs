//! OpenRC, by `rc-service` and `rc-update`.

use zagent_compiler::functions::Refusal;

use super::{Act, Boot, Provider, Service, files};
use crate::host::{Said, Tools};

pub(super) struct OpenRc<'a> {
    pub(super) tools: Tools<'a>,
}

/// The runlevel that a service is put into; what needs another says so by `rc-update` itself.
const LEVEL: &str = "default";

impl Provider for OpenRc<'_> {
    fn find(&self, name: &str) -> Result<Option<Service>, Refusal> {
        if !files::is_script(self.tools.machine, name) {
            return Ok(None);
        }
        let said = self.tools.ask("rc-service", &["--quiet", name, "status"])?;
        Ok(Some(Service { is_running: said.is_fine(), ..Service::default() }))
    }

    fn boot(&self, name: &str) -> Result<Boot, Refusal> {
        let machine = self.tools.machine;
        let levels = machine.names("/etc/runlevels");
        let linked =
            |level: &String| machine.names(&format!("/etc/runlevels/{level}")).iter().any(|n| n == name);
        Ok(if levels.iter().any(linked) { Boot::Yes } else { Boot::No })
    }

    fn act(&self, act: Act, name: &str, _no_block: bool) -> Result<Said, Refusal> {
        match act {
            Act::Enable => self.tools.tell("rc-update", &["add", name, LEVEL]),
            Act::Disable => self.tools.tell("rc-update", &["--all", "delete", name]),
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
}
