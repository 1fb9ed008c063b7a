//! `service.masked` and `service.unmasked`: whether anybody can start a service at all.

use zagent_config::Map;

use super::ServiceUndo;
use crate::undoable::key_with_provider;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
};
use zagent_host::services;
use zagent_host::services::{ServiceAction, ServiceProvider};

/// Builds a state that masks a service, or unmasks it when `on` is false.
///
/// # Errors
/// Fails when `provider` is neither a text nor a map.
pub fn build(on: bool, args: &ChunkArgs<'_>) -> BuildResult {
    let provider = super::provider_name(args)?;
    Ok(Box::new(ServiceMasked {
        should_mask: on,
        name: args.name(),
        runtime: args.flag("runtime", false),
        provider,
    }))
}

struct ServiceMasked {
    should_mask: bool,
    name: String,
    /// Until the next boot only.
    runtime: bool,
    provider: Option<String>,
}

impl ServiceMasked {
    fn manager<'s>(&self, ctx: &'s StateCtx<'_>) -> Result<Box<dyn ServiceProvider + 's>, StateError> {
        Ok(services::select_provider(ctx.tools(), self.provider.as_deref())?)
    }

    fn changes(&self) -> Map {
        let change = Map::from_iter([("old", !self.should_mask), ("new", self.should_mask)]);
        Map::from_iter([(if self.runtime { "runtime masked" } else { "masked" }, change)])
    }

    const fn verb(&self) -> &'static str {
        match (self.should_mask, self.runtime) {
            (true, false) => "masked",
            (true, true) => "runtime masked",
            (false, false) => "unmasked",
            (false, true) => "runtime unmasked",
        }
    }
}

impl State for ServiceMasked {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let masked = self.manager(ctx)?.is_masked(&self.name, self.runtime);
        let masked = masked.ok_or_else(|| StateError::new("Service masking not available on this minion"))?;
        let (name, word) = (&self.name, self.verb());
        Ok(match (masked == self.should_mask, self.should_mask) {
            (true, true) => CheckResult::in_sync(format!("Service {name} is already {word}")),
            (true, false) => CheckResult::in_sync(format!("Service {name} was already {word}")),
            (false, _) => CheckResult::drifted(format!("Service {name} would be {word}"), self.changes()),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let manager = self.manager(ctx)?;
        let act = if self.should_mask {
            ServiceAction::Mask(self.runtime)
        } else {
            ServiceAction::Unmask(self.runtime)
        };
        let key = key_with_provider(&self.name, self.provider.as_deref());
        ctx.with_undo(&ServiceUndo, key, || Ok(manager.perform_checked(act, &self.name, false)?))?;
        Ok(ApplyResult::new(format!("Service {} was {}", self.name, self.verb()), self.changes()))
    }

    fn reads(&self) -> Effects {
        Effects::SERVICES
    }

    fn writes(&self) -> Effects {
        Effects::SERVICES
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Services]
    }
}
