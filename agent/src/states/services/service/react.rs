//! What a service does when something that it watches has changed: restart, reload, start, or stop.

use std::time::Duration;

use super::{Want, Wanted};
use crate::host::services::{Act, Provider};
use crate::states::{Done, Failure, Look, Scene, keyed};

/// An act with Salt's verb for it, and how that ends when it is done.
type Answer = (Act, &'static str, &'static str);

impl Wanted {
    /// What to do; nothing when it is as it should be.
    fn answer(&self, manager: &dyn Provider, scene: &Scene<'_>) -> Result<Option<Answer>, Failure> {
        let service = self.find(manager, scene)?.unwrap_or_default();
        let runs = self.is_running(manager, &service, scene) && !service.is_done;
        Ok(match self.want {
            Want::Dead => (runs || service.is_looping).then_some((Act::Stop, "stop", "ped")),
            Want::Running if !runs => Some((Act::Start, "start", "ed")),
            Want::Running if self.reload && self.force => Some((Act::ForceReload, "forcefully reload", "ed")),
            Want::Running if self.reload => Some((Act::Reload, "reload", "ed")),
            Want::Running if self.full_restart => Some((Act::FullRestart, "fully restart", "ed")),
            Want::Running => Some((Act::Restart, "restart", "ed")),
            Want::Enabled | Want::Disabled => {
                let fun = if self.want == Want::Enabled { "enabled" } else { "disabled" };
                return Err(Failure::new(format!("Unable to trigger watch for service.{fun}")));
            }
        })
    }

    pub(super) fn foreseen(&self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let manager = self.manager(scene)?;
        if let Some(why) = manager.is_offline() {
            return Ok(Look::right(format!("{why}: there is nothing to do for service {}", self.name)));
        }
        Ok(match self.answer(&*manager, scene)? {
            None => Look::right("Service is already stopped"),
            Some((_, verb, end)) => {
                let changes = self.changed(true);
                Look::drift(format!("Service is set to be {verb}{end}"), changes)
            }
        })
    }

    pub(super) fn reacted(&self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let manager = self.manager(scene)?;
        if let Some(why) = manager.is_offline() {
            return Ok(Done { comment: format!("{why}: there is nothing to do"), ..Done::default() });
        }
        let Some((act, verb, end)) = self.answer(&*manager, scene)? else {
            return Ok(Done { comment: "Service is already stopped".into(), ..Done::default() });
        };
        let name = &self.name;
        scene.change(&super::ServiceThing, keyed(name, self.provider.as_deref()), || {
            let masks = [(self.unmask, false), (self.unmask_runtime, true)];
            for (_, runtime) in masks.into_iter().filter(|(on, _)| *on && act != Act::Stop) {
                manager.must(Act::Unmask(runtime), name, false)?;
            }
            let said = manager.act(act, name, self.no_block)?;
            if said.is_fine() {
                return Ok(());
            }
            let why = format!("{}\n{}", said.words(), manager.why(name));
            Err(Failure::new(format!("Failed to {verb} the service {name}: {}", why.trim())))
        })?;
        if let Some(delay) = self.init_delay.and_then(|d| Duration::try_from_secs_f64(d).ok()) {
            scene.cancel.wait(delay);
        }
        let service = manager.find(name)?.unwrap_or_default();
        let runs = self.is_running(&*manager, &service, scene) || service.is_brief || self.no_block;
        if self.want == Want::Running && (!runs || service.is_looping) {
            return Err(Failure::new(format!("Failed to {verb} the service {name}: {}", manager.why(name))));
        }
        Ok(Done::new(format!("Service {verb}{end}"), self.changed(true)))
    }
}
