//! `sysctl.present`: a parameter of the kernel, as it is and as it will be after a boot.

pub(crate) mod functions;
pub mod parameters;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use crate::sysctl::parameters as sysctl;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, StateModule, Undoable,
};
use zagent_host::text_file;

/// The module `sysctl`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "sysctl",
    build,
    functions: functions::TABLE,
    undo: &[&SysctlUndo],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    (fun == "present").then(|| {
        let value = args.text("value")?.ok_or_else(|| StateError::new("`value` is missing"))?;
        let shown = args.get("value").cloned().unwrap_or_default();
        Ok(Box::new(SysctlPresent {
            name: args.name(),
            value,
            given_value: shown,
            config: args.text("config")?,
        }) as Box<dyn State>)
    })
}

struct SysctlPresent {
    name: String,
    value: String,
    /// The value as it was given, for the changes.
    given_value: Value,
    config: Option<String>,
}

/// What is not as it should be.
struct SysctlDrift {
    live: bool,
    persisted: bool,
    /// The file as it is.
    text: Option<String>,
}

impl SysctlPresent {
    fn config(&self, ctx: &StateCtx<'_>) -> String {
        let own = || sysctl::default_config(ctx.tools().machine).to_owned();
        self.config.clone().unwrap_or_else(own)
    }

    fn write_error(&self, why: &str) -> StateError {
        StateError::new(format!("Failed to set {} to {}: {why}", self.name, self.value))
    }

    fn find_drift(&self, ctx: &StateCtx<'_>) -> Result<SysctlDrift, StateError> {
        let live = sysctl::live_value(ctx.tools().machine, &self.name)?;
        let live = live.ok_or_else(|| self.write_error(&format!("sysctl {} does not exist", self.name)))?;
        let text = text_file::read_text(ctx.fs, &self.config(ctx))?;
        let last = sysctl::parse_config(text.as_deref().unwrap_or_default()).rfind(|(k, _)| *k == self.name);
        let kept = last.is_some_and(|(_, v)| sysctl::is_same_value(v, &self.value));
        Ok(SysctlDrift { live: sysctl::is_same_value(&live, &self.value), persisted: kept, text })
    }

    fn changes(&self) -> Map {
        Map::from_iter([(self.name.as_str(), self.given_value.clone())])
    }
}

impl State for SysctlPresent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let seen = self.find_drift(ctx)?;
        // Salt finds out when it writes.
        if !seen.live && ctx.compat == Compat::Strict {
            sysctl::verify_writable(ctx.tools().machine, &self.name)
                .map_err(|r| self.write_error(&r.message()))?;
        }
        let Self { name, value, .. } = self;
        let words = match (seen.live, seen.persisted) {
            (true, true) => {
                return Ok(CheckResult::in_sync(format!("Sysctl value {name} = {value} is already set")));
            }
            (true, false) => format!(
                "Sysctl value is currently set on the running system but not in a config file. \
                 Sysctl option {name} set to be changed to {value} in config file."
            ),
            (false, _) => format!("Sysctl option {name} set to be changed to {value}"),
        };
        Ok(CheckResult::drifted(words, self.changes()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let seen = self.find_drift(ctx)?;
        if !seen.live {
            // The kernel first: a value that it refuses must not be left for the next boot.
            ctx.with_undo(&SysctlUndo, self.name.as_str(), || {
                let machine = ctx.tools().machine;
                sysctl::set_live_value(machine, &self.name, &self.value)
                    .map_err(|r| self.write_error(&r.message()))
            })?;
        }
        if !seen.persisted {
            let text = sysctl::set_in_config(seen.text.as_deref(), &self.name, &self.value);
            text_file::write_text(ctx.fs, &self.config(ctx), &text)?;
        }
        Ok(ApplyResult::new(format!("Updated sysctl value {} = {}", self.name, self.value), self.changes()))
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::FILES
    }

    fn writes(&self) -> Effects {
        Effects::KERNEL
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        // Several parameters are kept in one file.
        self.config
            .iter()
            .map(|c| LockKey::Path(c.into()))
            .chain([LockKey::Path("/etc/sysctl.d".into())])
            .collect()
    }
}

/// Parameters of the running kernel by name.
pub struct SysctlUndo;

impl Undoable for SysctlUndo {
    fn kind(&self) -> &'static str {
        "sysctl"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let live = sysctl::live_value(ctx.tools().machine, key.as_str().unwrap_or_default())?;
        Ok(live.map_or(Value::Null, Value::from))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (Some(name), Some(value)) = (key.as_str(), to.as_str()) else { return Ok(()) };
        Ok(sysctl::set_live_value(ctx.tools().machine, name, value)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{StateTestBed, chunk, preview_chunk};

    #[test]
    fn a_parameter_that_cannot_be_written_is_foretold() {
        let test_bed = StateTestBed::strict();
        let args = format!(r#"{{"value": "x", "config": "{}"}}"#, test_bed.path("sysctl.conf"));
        // The kernel lets nobody change it.
        let ostype = chunk("sysctl.present", "kernel.ostype", &args);
        let would = preview_chunk(&ostype, &test_bed.scene());
        assert!(would.starts_with("false \"Failed to set kernel.ostype to x"), "{would}");
        assert!(
            preview_chunk(&ostype, &StateTestBed::new().scene()).starts_with("null"),
            "Salt does not look"
        );
    }
}
