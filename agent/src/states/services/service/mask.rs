//! `service.masked` and `service.unmasked`: whether anybody can start a service at all.

use zagent_config::Map;

use super::ServiceThing;
use crate::host::services::{self, Act, Provider};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil, keyed};

pub(super) fn build(on: bool, args: &Args<'_>) -> Built {
    let provider = super::provider(args)?;
    Ok(Box::new(Mask { on, name: args.name(), runtime: args.flag("runtime", false), provider }))
}

struct Mask {
    on: bool,
    name: String,
    /// Until the next boot only.
    runtime: bool,
    provider: Option<String>,
}

impl Mask {
    fn manager<'s>(&self, scene: &'s Scene<'_>) -> Result<Box<dyn Provider + 's>, Failure> {
        Ok(services::of(scene.tools(), self.provider.as_deref())?)
    }

    fn changes(&self) -> Map {
        let change = Map::from_iter([("old", !self.on), ("new", self.on)]);
        Map::from_iter([(if self.runtime { "runtime masked" } else { "masked" }, change)])
    }

    const fn word(&self) -> &'static str {
        match (self.on, self.runtime) {
            (true, false) => "masked",
            (true, true) => "runtime masked",
            (false, false) => "unmasked",
            (false, true) => "runtime unmasked",
        }
    }
}

impl State for Mask {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let masked = self.manager(scene)?.is_masked(&self.name, self.runtime);
        let masked = masked.ok_or_else(|| Failure::new("Service masking not available on this minion"))?;
        let (name, word) = (&self.name, self.word());
        Ok(match (masked == self.on, self.on) {
            (true, true) => Look::right(format!("Service {name} is already {word}")),
            (true, false) => Look::right(format!("Service {name} was already {word}")),
            (false, _) => Look::drift(format!("Service {name} would be {word}"), self.changes()),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let manager = self.manager(scene)?;
        let act = if self.on { Act::Mask(self.runtime) } else { Act::Unmask(self.runtime) };
        let key = keyed(&self.name, self.provider.as_deref());
        scene.change(&ServiceThing, key, || Ok(manager.must(act, &self.name, false)?))?;
        Ok(Done::new(format!("Service {} was {}", self.name, self.word()), self.changes()))
    }

    fn sees(&self) -> Veil {
        Veil::SERVICES
    }

    fn veils(&self) -> Veil {
        Veil::SERVICES
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Services]
    }
}
