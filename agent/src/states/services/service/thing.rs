//! A service as a revert puts it back: whether it runs, starts with the host, is masked.

use zagent_config::{Map, Value};

use crate::host::services::{self, Act, Boot};
use crate::states::{Failure, Scene, Thing, key_parts};

/// Services by name, and by the manager that the state asked for.
pub(crate) struct ServiceThing;

impl Thing for ServiceThing {
    fn kind(&self) -> &'static str {
        "service"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let (name, provider) = key_parts(key);
        let manager = services::of(scene.tools(), provider)?;
        let masked = |runtime| manager.is_masked(name, runtime).unwrap_or(false);
        let service = manager.find(name)?;
        let (for_good, for_now) = (masked(false), masked(true));
        if service.is_none() && !for_good && !for_now {
            return Ok(Value::Null);
        }
        let active = service.is_some_and(|s| s.is_running);
        Ok(Map::from_iter([
            ("active", active),
            ("enabled", manager.boot(name)? == Boot::Yes),
            ("masked", for_good),
            ("masked_runtime", for_now),
        ])
        .into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let (name, provider) = key_parts(key);
        let manager = services::of(scene.tools(), provider)?;
        // A service that was not there at all neither ran nor started with the host.
        let wanted = |what: &str| to.as_map().and_then(|m| m.get(what)).is_some_and(Value::is_truthy);
        let masks = [("masked", false), ("masked_runtime", true)];
        for (what, runtime) in masks {
            if !wanted(what) && manager.is_masked(name, runtime) == Some(true) {
                manager.must(Act::Unmask(runtime), name, false)?;
            }
        }
        let is_enabled = manager.boot(name)? == Boot::Yes;
        if is_enabled != wanted("enabled") {
            let act = if is_enabled { Act::Disable } else { Act::Enable };
            manager.must(act, name, false)?;
        }
        let is_active = manager.find(name)?.is_some_and(|s| s.is_running);
        if is_active != wanted("active") {
            let act = if is_active { Act::Stop } else { Act::Start };
            manager.must(act, name, false)?;
        }
        for (what, runtime) in masks {
            if wanted(what) && manager.is_masked(name, runtime) == Some(false) {
                manager.must(Act::Mask(runtime), name, false)?;
            }
        }
        Ok(())
    }
}
