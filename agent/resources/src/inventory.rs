//! A pillar and a state tree in, the resources that this node manages out, in the order of the pillar.

use std::path::Path;
use std::sync::Arc;

use zagent_compiler::FileTree;
use zagent_config::Value;
use zagent_config::resources::{
    Declaration, DeclarationError, DeclaredResource, ResourceConfig, ResourceName,
};
use zagent_host::Machine;

use crate::ResourceError;
use crate::custom::{self, CustomLimits, CustomProgram};
use crate::ssh::{SshLink, SshSettings};

/// One resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// What is declared about it.
    pub declared: DeclaredResource,
    /// The executable of its type, for a type of its own.
    pub program: Option<CustomProgram>,
    /// The way to it, for an ssh host.
    pub link: Option<Arc<SshLink>>,
}

/// All resources of a node.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The resources.
    pub resources: Vec<Resource>,
    /// Types whose resources are not known, and why; the others are not affected.
    pub problems: Vec<String>,
}

/// What discovery needs to know.
pub struct DiscoverySources<'a> {
    /// The pillar of the node.
    pub pillar: &'a Value,
    /// The pillar key.
    pub key: &'a str,
    /// The state tree, for types of its own.
    pub tree: &'a dyn FileTree,
    /// Where executables are installed.
    pub cache: &'a Path,
    /// The node.
    pub machine: &'a Machine,
    /// Limits for executables.
    pub limits: CustomLimits,
    /// What ssh hosts share.
    pub ssh: &'a Arc<SshSettings>,
}

impl Inventory {
    /// Finds all resources.
    ///
    /// # Errors
    /// Fails with every error of the declaration.
    pub fn discover(sources: &DiscoverySources<'_>) -> Result<Self, Vec<DeclarationError>> {
        if sources.pillar.get(sources.key).is_none_or(Value::is_null) {
            return Ok(Self::default());
        }
        let mut problems = Vec::new();
        let types = custom::provided_types(sources.tree).unwrap_or_else(|why| {
            problems.push(why);
            Vec::new()
        });
        let Declaration { resources, custom } = Declaration::read(sources.pillar, sources.key, &types)?;
        let plain = resources.into_iter().map(|declared| {
            let link = match &declared.config {
                ResourceConfig::Ssh(host) => Some(Arc::new(SshLink::new(host, sources.machine, sources.ssh))),
                _ => None,
            };
            Resource { declared, program: None, link }
        });
        let mut resources: Vec<Resource> = plain.collect();
        for declared in custom {
            let loaded =
                CustomProgram::load(&declared, sources.tree, sources.cache, sources.machine, sources.limits);
            match loaded.and_then(|program| Ok((program.discover()?, program))) {
                Ok((names, program)) => resources.extend(names.into_iter().map(|name| Resource {
                    declared: DeclaredResource {
                        name,
                        config: ResourceConfig::Custom(declared.config.clone()),
                    },
                    program: Some(program.clone()),
                    link: None,
                })),
                Err(error) => problems.push(zagent_config::error_chain(&error)),
            }
        }
        Ok(Self { resources, problems })
    }

    /// The resources of an id or a `type:id`.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<&Resource> {
        let is_it = |resource: &&Resource| resource.name().id == text || resource.name().to_string() == text;
        self.resources.iter().filter(is_it).collect()
    }
}

impl Resource {
    /// Its type and id.
    #[must_use]
    pub const fn name(&self) -> &ResourceName {
        &self.declared.name
    }

    /// The machine that its states work on.
    ///
    /// # Errors
    /// Fails when there is none.
    pub fn machine(&self, node: &Machine) -> Result<Machine, ResourceError> {
        match &self.declared.config {
            // As in Salt, states of a type without a system of its own run on the node, with its functions.
            ResourceConfig::Dummy => Ok(node.clone()),
            ResourceConfig::Custom(_) if self.program.is_some() => Ok(node.clone()),
            ResourceConfig::Custom(_) => Err(self.no_loader()),
            ResourceConfig::Chroot(root) => Machine::at_root(root).map_err(ResourceError::Root),
            // Its states and functions run on it. Here only what compiling asks of the node remains, such as keys.
            ResourceConfig::Ssh(_) => Ok(node.clone()),
        }
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// Fails when it does not, and says why.
    pub fn ping(&self, node: &Machine) -> Result<(), ResourceError> {
        if let Some(link) = &self.link {
            return link.connect().map_err(ResourceError::Unreachable);
        }
        match (&self.declared.config, &self.program) {
            (ResourceConfig::Custom(_), Some(program)) => match program.ping(self.name())? {
                true => Ok(()),
                false => Err(ResourceError::Unreachable("it does not answer".into())),
            },
            _ => self.machine(node).map(|_| ()),
        }
    }

    /// What an external module is told about it.
    pub(crate) fn description(&self) -> Value {
        let mut about = custom::identity(self.name()).as_map().cloned().unwrap_or_default();
        if let ResourceConfig::Custom(config) = &self.declared.config {
            about.insert("config", config.clone());
        }
        about.into()
    }

    pub(crate) fn no_loader(&self) -> ResourceError {
        ResourceError::Unreachable(format!("No resource loader for type '{}'", self.name().kind))
    }
}
