//! `sysctl.present`: a parameter of the kernel, as it is and as it will be after a boot.

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use crate::host::services::{lines, sysctl};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    (fun == "present").then(|| {
        let value = args.text("value")?.ok_or_else(|| Failure::new("`value` is missing"))?;
        let shown = args.get("value").cloned().unwrap_or_default();
        Ok(Box::new(Present { name: args.name(), value, shown, config: args.text("config")? })
            as Box<dyn State>)
    })
}

struct Present {
    name: String,
    value: String,
    /// The value as it was given, for the changes.
    shown: Value,
    config: Option<String>,
}

/// What is not as it should be.
struct Seen {
    live: bool,
    kept: bool,
    /// The file as it is.
    text: Option<String>,
}

impl Present {
    fn config(&self, scene: &Scene<'_>) -> String {
        let own = || sysctl::default_config(scene.tools().machine).to_owned();
        self.config.clone().unwrap_or_else(own)
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(format!("Failed to set {} to {}: {why}", self.name, self.value))
    }

    fn see(&self, scene: &Scene<'_>) -> Result<Seen, Failure> {
        let live = sysctl::live(scene.tools().machine, &self.name)?;
        let live = live.ok_or_else(|| self.failed(&format!("sysctl {} does not exist", self.name)))?;
        let text = lines::read(scene.fs, &self.config(scene))?;
        let last = sysctl::configured(text.as_deref().unwrap_or_default()).rfind(|(k, _)| *k == self.name);
        let kept = last.is_some_and(|(_, v)| sysctl::is_same(v, &self.value));
        Ok(Seen { live: sysctl::is_same(&live, &self.value), kept, text })
    }

    fn changes(&self) -> Map {
        Map::from_iter([(self.name.as_str(), self.shown.clone())])
    }
}

impl State for Present {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let seen = self.see(scene)?;
        // Salt finds out when it writes.
        if !seen.live && scene.compat == Compat::Strict {
            sysctl::verify_writable(scene.tools().machine, &self.name)
                .map_err(|r| self.failed(&r.words()))?;
        }
        let Self { name, value, .. } = self;
        let words = match (seen.live, seen.kept) {
            (true, true) => return Ok(Look::right(format!("Sysctl value {name} = {value} is already set"))),
            (true, false) => format!(
                "Sysctl value is currently set on the running system but not in a config file. \
                 Sysctl option {name} set to be changed to {value} in config file."
            ),
            (false, _) => format!("Sysctl option {name} set to be changed to {value}"),
        };
        Ok(Look::drift(words, self.changes()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let seen = self.see(scene)?;
        if !seen.live {
            // The kernel first: a value that it refuses must not be left for the next boot.
            scene.change(&Parameter, self.name.as_str(), || {
                let machine = scene.tools().machine;
                sysctl::assign(machine, &self.name, &self.value).map_err(|r| self.failed(&r.words()))
            })?;
        }
        if !seen.kept {
            let text = sysctl::edited(seen.text.as_deref(), &self.name, &self.value);
            lines::write(scene.fs, &self.config(scene), &text)?;
        }
        Ok(Done::new(format!("Updated sysctl value {} = {}", self.name, self.value), self.changes()))
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::FILES
    }

    fn veils(&self) -> Veil {
        Veil::KERNEL
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        // Several parameters are kept in one file.
        self.config
            .iter()
            .map(|c| Resource::Path(c.into()))
            .chain([Resource::Path("/etc/sysctl.d".into())])
            .collect()
    }
}

/// Parameters of the running kernel by name.
pub(super) struct Parameter;

impl Thing for Parameter {
    fn kind(&self) -> &'static str {
        "sysctl"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let live = sysctl::live(scene.tools().machine, key.as_str().unwrap_or_default())?;
        Ok(live.map_or(Value::Null, Value::from))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let (Some(name), Some(value)) = (key.as_str(), to.as_str()) else { return Ok(()) };
        Ok(sysctl::assign(scene.tools().machine, name, value)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::states::stage::{Stage, chunk, preview};

    #[test]
    fn a_parameter_that_cannot_be_written_is_foretold() {
        let stage = Stage::strict();
        let args = format!(r#"{{"value": "x", "config": "{}"}}"#, stage.path("sysctl.conf"));
        // The kernel lets nobody change it.
        let ostype = chunk("sysctl.present", "kernel.ostype", &args);
        let would = preview(&ostype, &stage.scene());
        assert!(would.starts_with("false \"Failed to set kernel.ostype to x"), "{would}");
        assert!(preview(&ostype, &Stage::new().scene()).starts_with("null"), "Salt does not look");
    }
}
