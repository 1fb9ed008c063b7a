//! What a service does when something that it watches has changed: restart, reload, start, or stop.

use std::time::Duration;

use super::{ServiceGoal, ServiceState};
use crate::undoable::key_with_provider;
use crate::{ApplyResult, CheckResult, StateCtx, StateError};
use zagent_host::services::{ServiceAction, ServiceProvider};

/// An act with Salt's verb for it, and how that ends when it is done.
type ServiceReaction = (ServiceAction, &'static str, &'static str);

impl ServiceState {
    /// What to do; nothing when it is as it should be.
    fn choose_reaction(
        &self,
        manager: &dyn ServiceProvider,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<ServiceReaction>, StateError> {
        let service = self.find_service(manager, ctx)?.unwrap_or_default();
        let runs = self.is_running(manager, &service, ctx) && !service.has_completed;
        Ok(match self.goal {
            ServiceGoal::Dead => {
                (runs || service.is_restart_looping).then_some((ServiceAction::Stop, "stop", "ped"))
            }
            ServiceGoal::Running if !runs => Some((ServiceAction::Start, "start", "ed")),
            ServiceGoal::Running if self.reload && self.force => {
                Some((ServiceAction::ForceReload, "forcefully reload", "ed"))
            }
            ServiceGoal::Running if self.reload => Some((ServiceAction::Reload, "reload", "ed")),
            ServiceGoal::Running if self.full_restart => {
                Some((ServiceAction::FullRestart, "fully restart", "ed"))
            }
            ServiceGoal::Running => Some((ServiceAction::Restart, "restart", "ed")),
            ServiceGoal::Enabled | ServiceGoal::Disabled => {
                let fun = if self.goal == ServiceGoal::Enabled { "enabled" } else { "disabled" };
                return Err(StateError::new(format!("Unable to trigger watch for service.{fun}")));
            }
        })
    }

    pub(crate) fn predicted_reaction(&self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let manager = self.manager(ctx)?;
        if let Some(why) = manager.offline_reason() {
            return Ok(CheckResult::in_sync(format!(
                "{why}: there is nothing to do for service {}",
                self.name
            )));
        }
        Ok(match self.choose_reaction(&*manager, ctx)? {
            None => CheckResult::in_sync("Service is already stopped"),
            Some((_, verb, end)) => {
                let changes = self.change_map(true);
                CheckResult::drifted(format!("Service is set to be {verb}{end}"), changes)
            }
        })
    }

    pub(super) fn run_reaction(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let manager = self.manager(ctx)?;
        if let Some(why) = manager.offline_reason() {
            return Ok(ApplyResult {
                comment: format!("{why}: there is nothing to do"),
                ..ApplyResult::default()
            });
        }
        let Some((act, verb, end)) = self.choose_reaction(&*manager, ctx)? else {
            return Ok(ApplyResult {
                comment: "Service is already stopped".into(),
                ..ApplyResult::default()
            });
        };
        let name = &self.name;
        ctx.with_undo(&super::ServiceUndo, key_with_provider(name, self.provider.as_deref()), || {
            let masks = [(self.unmask, false), (self.unmask_runtime, true)];
            for (_, runtime) in masks.into_iter().filter(|(on, _)| *on && act != ServiceAction::Stop) {
                manager.perform_checked(ServiceAction::Unmask(runtime), name, false)?;
            }
            let said = manager.perform(act, name, self.no_block)?;
            if said.is_success() {
                return Ok(());
            }
            let why = format!("{}\n{}", said.message(), manager.failure_reason(name));
            Err(StateError::new(format!("Failed to {verb} the service {name}: {}", why.trim())))
        })?;
        if let Some(delay) = self.init_delay.and_then(|d| Duration::try_from_secs_f64(d).ok()) {
            ctx.cancel.wait(delay);
        }
        let service = manager.status(name)?.unwrap_or_default();
        let runs = self.is_running(&*manager, &service, ctx) || service.is_oneshot || self.no_block;
        if self.goal == ServiceGoal::Running && (!runs || service.is_restart_looping) {
            return Err(StateError::new(format!(
                "Failed to {verb} the service {name}: {}",
                manager.failure_reason(name)
            )));
        }
        Ok(ApplyResult::new(format!("Service {verb}{end}"), self.change_map(true)))
    }
}
