//! A service as a revert puts it back: whether it runs, starts with the host, is masked.

use zagent_config::{Map, Value};

use crate::undoable::split_key;
use crate::{StateCtx, StateError, Undoable};
use zagent_host::services;
use zagent_host::services::{BootState, ServiceAction};

/// Services by name, and by the manager that the state asked for.
pub(crate) struct ServiceUndo;

impl Undoable for ServiceUndo {
    fn kind(&self) -> &'static str {
        "service"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let (name, provider) = split_key(key);
        let manager = services::select_provider(ctx.tools(), provider)?;
        let masked = |runtime| manager.is_masked(name, runtime).unwrap_or(false);
        let service = manager.status(name)?;
        let (for_good, for_now) = (masked(false), masked(true));
        if service.is_none() && !for_good && !for_now {
            return Ok(Value::Null);
        }
        let active = service.is_some_and(|s| s.is_running);
        Ok(Map::from_iter([
            ("active", active),
            ("enabled", manager.boot_state(name)? == BootState::Enabled),
            ("masked", for_good),
            ("masked_runtime", for_now),
        ])
        .into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (name, provider) = split_key(key);
        let manager = services::select_provider(ctx.tools(), provider)?;
        // A service that was not there at all neither ran nor started with the host.
        let wanted = |what: &str| to.as_map().and_then(|m| m.get(what)).is_some_and(Value::is_truthy);
        let masks = [("masked", false), ("masked_runtime", true)];
        for (what, runtime) in masks {
            if !wanted(what) && manager.is_masked(name, runtime) == Some(true) {
                manager.perform_checked(ServiceAction::Unmask(runtime), name, false)?;
            }
        }
        let is_enabled = manager.boot_state(name)? == BootState::Enabled;
        if is_enabled != wanted("enabled") {
            let act = if is_enabled { ServiceAction::Disable } else { ServiceAction::Enable };
            manager.perform_checked(act, name, false)?;
        }
        let is_active = manager.status(name)?.is_some_and(|s| s.is_running);
        if is_active != wanted("active") {
            let act = if is_active { ServiceAction::Stop } else { ServiceAction::Start };
            manager.perform_checked(act, name, false)?;
        }
        for (what, runtime) in masks {
            if wanted(what) && manager.is_masked(name, runtime) == Some(false) {
                manager.perform_checked(ServiceAction::Mask(runtime), name, false)?;
            }
        }
        Ok(())
    }
}
