//! A resource in, its grains out: what it says about itself, kept until somebody refreshes it.

use zagent_config::resources::ResourceConfig;
use zagent_config::{Map, Value};
use zagent_host::Machine;
use zagent_host::facts::{FactSources, Facts, Grains};
use zagent_states::template_host::recorded_facts::parse_facts;

use crate::{Resource, ResourceError, ResourceStore, dummy};

/// Whether kept grains will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrainsUse {
    /// Those that were kept, when there are any.
    Kept,
    /// Collected again, and kept.
    Fresh,
}

impl Resource {
    /// Its grains.
    ///
    /// # Errors
    /// Fails when it cannot be asked.
    pub fn grains(&self, store: &ResourceStore, wanted: GrainsUse) -> Result<Map, ResourceError> {
        if matches!(self.declared.config, ResourceConfig::Dummy) {
            return Ok(dummy::grains(self.name()));
        }
        if wanted == GrainsUse::Kept
            && let Some(grains) = store.kept_grains(&self.declared)
        {
            return Ok(grains);
        }
        let grains = match (self.collect_grains(), &self.link) {
            // A host that is down has an id and a type: targets that ask for more do not match it.
            (Err(_), Some(link)) if wanted == GrainsUse::Kept => {
                let mut grains = Map::from_iter([("host", Value::from(link.host().host.as_str()))]);
                self.add_identity(&mut grains);
                return Ok(grains);
            }
            (collected, _) => collected?,
        };
        // A dry run below a root that cannot be written still has its grains.
        if let Err(error) = store.keep_grains(&self.declared, &grains) {
            tracing::debug!(error = zagent_config::error_chain(&error), "grains of a resource are not kept");
        }
        Ok(grains)
    }

    fn collect_grains(&self) -> Result<Map, ResourceError> {
        match (&self.declared.config, &self.program) {
            (ResourceConfig::Dummy, _) => Ok(dummy::grains(self.name())),
            (ResourceConfig::Chroot(root), _) => {
                let machine = Machine::at_root(root).map_err(ResourceError::Root)?;
                // Facts of one's own may be programs of the other system: nothing of it is started for its grains.
                let sources = FactSources {
                    facts_dir: None,
                    ..FactSources::new(&machine, &*self.name().id, parse_facts)
                };
                let mut grains = Facts::new(sources).all().as_map().cloned().unwrap_or_default();
                self.add_identity(&mut grains);
                Ok(grains)
            }
            (ResourceConfig::Ssh(_), _) => {
                let link = self.link.as_ref().ok_or_else(|| self.no_loader())?;
                let mut grains = link.grains(&self.name().id).map_err(ResourceError::Unreachable)?;
                self.add_identity(&mut grains);
                Ok(grains)
            }
            (ResourceConfig::Custom(_), Some(program)) => program.grains(self.name()),
            (ResourceConfig::Custom(_), None) => Err(self.no_loader()),
        }
    }

    fn add_identity(&self, grains: &mut Map) {
        grains.insert("resource_type", self.name().kind.as_str());
        grains.insert("resource_id", self.name().id.as_str());
    }
}
