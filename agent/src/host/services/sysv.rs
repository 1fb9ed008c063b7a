//! Init scripts, linked into runlevels by `update-rc.d` (Debian) or `chkconfig` (Red Hat).

use zagent_compiler::functions::Refusal;

use super::{Act, Boot, Provider, Service, files};
use crate::host::{Said, Tools};

pub(super) struct SysV<'a> {
    pub(super) tools: Tools<'a>,
}

impl SysV<'_> {
    /// Tells a script; by `service` where it is, as that cleans the environment.
    fn script(&self, name: &str, word: &str) -> Result<Said, Refusal> {
        if self.tools.which("service").is_some() {
            return self.tools.tell("service", &[name, word]);
        }
        self.tools.tell(&format!("/etc/init.d/{name}"), &[word])
    }

    fn links(&self, name: &str, on: bool) -> Result<Said, Refusal> {
        if self.tools.which("update-rc.d").is_some() {
            if on {
                // A script that was never linked has nothing to enable yet.
                self.tools.tell("update-rc.d", &[name, "defaults"])?;
            }
            return self.tools.tell("update-rc.d", &[name, if on { "enable" } else { "disable" }]);
        }
        if self.tools.which("chkconfig").is_some() {
            return self.tools.tell("chkconfig", &[name, if on { "on" } else { "off" }]);
        }
        Err(Refusal::failed("there is neither `update-rc.d` nor `chkconfig` here"))
    }
}

impl Provider for SysV<'_> {
    fn find(&self, name: &str) -> Result<Option<Service>, Refusal> {
        if !files::is_script(self.tools.machine, name) {
            return Ok(None);
        }
        let said = self.script(name, "status")?;
        Ok(Some(Service { is_running: said.is_fine(), ..Service::default() }))
    }

    fn boot(&self, name: &str) -> Result<Boot, Refusal> {
        Ok(if files::is_linked(self.tools.machine, name) { Boot::Yes } else { Boot::No })
    }

    fn act(&self, act: Act, name: &str, _no_block: bool) -> Result<Said, Refusal> {
        match act {
            Act::Enable => self.links(name, true),
            Act::Disable => self.links(name, false),
            Act::Mask(_) | Act::Unmask(_) => Err(Refusal::failed("init scripts cannot be masked")),
            Act::FullRestart => {
                self.script(name, "stop")?;
                self.script(name, "start")
            }
            _ => self.script(name, act.word()),
        }
    }

    fn all(&self) -> Result<Vec<String>, Refusal> {
        Ok(files::scripts(self.tools.machine))
    }
}
