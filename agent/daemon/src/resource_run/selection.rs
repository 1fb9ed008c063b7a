//! A compile job in, the resources of its node out; with a target, those that are meant, and whether the node is.

use std::sync::{Arc, OnceLock};

use zagent_config::resources::ResourceName;
use zagent_config::settings::{ResourceSettings, TemplatePermission};
use zagent_config::target::{MatchKind, SubjectRole, Target, TargetError, TargetSubject};
use zagent_config::{Map, Value, error_chain};
use zagent_resources::custom::CustomLimits;
use zagent_resources::grains::GrainsUse;
use zagent_resources::inventory::DiscoverySources;
use zagent_resources::ssh::SshSettings;
use zagent_resources::ssh::binary::AgentBinaries;
use zagent_resources::ssh::session::SessionLimits;
use zagent_resources::{Inventory, Resource, ResourceStore};

use super::parallel;
use crate::compile_job::CompileJob;
use crate::compile_job::declared_resources::declaration_diagnostics;
use crate::error::AgentError;
use crate::run_output::Messages;

/// The text of a target and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetText {
    /// The text.
    pub text: String,
    /// How it is read.
    pub kind: MatchKind,
}

impl TargetText {
    /// A compound target, which a glob and an id are too.
    pub fn compound(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: MatchKind::Compound }
    }

    fn parse(&self) -> Result<Target, AgentError> {
        Target::parse(&self.text, self.kind).map_err(|error| self.fault(error))
    }

    fn fault(&self, error: TargetError) -> AgentError {
        let column = if error.column > 0 { format!(" (column {})", error.column) } else { String::new() };
        let message = format!("the target `{}` is wrong: {}{column}", self.text, error.message);
        AgentError::Usage { message, hint: error.hint }
    }
}

/// Grains of a resource, or why there are none.
pub(super) type GrainsResult = Result<Map, String>;

/// The resources of a node.
pub struct ResourceSet {
    pub(super) inventory: Inventory,
    pub(super) store: ResourceStore,
    /// The pillar of the node.
    pub(super) pillar: Value,
    grains: Vec<OnceLock<GrainsResult>>,
    wanted: GrainsUse,
    jobs: usize,
}

/// What a target means.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// True when the node itself runs.
    pub node: bool,
    /// Positions of the resources that run.
    resources: Vec<usize>,
}

impl Selection {
    /// Positions of the resources that run.
    #[must_use]
    pub fn resources(&self) -> &[usize] {
        &self.resources
    }

    /// Number of targets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.resources.len() + usize::from(self.node)
    }
}

impl ResourceSet {
    /// Finds the resources that the pillar of a node declares.
    ///
    /// # Errors
    /// Fails with the errors of pillar and declaration.
    pub fn discover(
        job: &CompileJob,
        wanted: GrainsUse,
        messages: &mut dyn Messages,
    ) -> Result<Self, AgentError> {
        let pillar = job.compiler.pillar()?;
        let ResourceSettings { timeout, max_output, jobs, ref binaries, .. } = job.settings.resources;
        let paths = job.settings.paths();
        let limits = CustomLimits {
            timeout: timeout.min(job.settings.limits.program_timeout),
            max_output: usize::try_from(max_output).unwrap_or(usize::MAX),
        };
        let ssh = Arc::new(SshSettings {
            binaries: AgentBinaries::new(binaries.clone()),
            limits: SessionLimits { timeout, max_output: limits.max_output },
            commands_allowed: job.settings.cmd_run == TemplatePermission::Allow,
            program_timeout: job.settings.limits.program_timeout,
        });
        let sources = DiscoverySources {
            pillar: &pillar,
            key: &job.settings.resources_key,
            tree: &*job.states,
            cache: &paths.downloads(),
            machine: &job.machine,
            limits,
            ssh: &ssh,
        };
        let inventory = Inventory::discover(&sources)
            .map_err(|errors| AgentError::CompileErrors(declaration_diagnostics(job, errors)))?;
        inventory.problems.iter().for_each(|problem| messages.warn(problem));
        let grains = inventory.resources.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { inventory, store: ResourceStore::new(&paths), pillar, grains, wanted, jobs })
    }

    /// All resources, in the order of the pillar.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.inventory.resources
    }

    /// The resources of an id or `type:id`, by position.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<usize> {
        let is_it = |resource: &Resource| resource.name().id == text || resource.name().to_string() == text;
        (0..self.resources().len()).filter(|index| is_it(&self.resources()[*index])).collect()
    }

    /// The places of what is kept about resources.
    #[must_use]
    pub const fn store(&self) -> &ResourceStore {
        &self.store
    }

    /// The grains of one resource.
    ///
    /// # Errors
    /// Fails with the reason when it cannot be asked.
    pub fn grains(&self, index: usize) -> Result<&Map, &str> {
        let collect = || {
            let grains = self.resources()[index].grains(&self.store, self.wanted);
            grains.map_err(|error| error_chain(&error))
        };
        self.grains[index].get_or_init(collect).as_ref().map_err(String::as_str)
    }

    /// Collects the grains of these resources side by side.
    pub fn collect_grains(&self, indices: &[usize]) {
        parallel::for_each(indices, self.jobs, |index| self.grains(*index).map(drop).map_err(str::to_owned));
    }

    /// What a target means on this node.
    ///
    /// # Errors
    /// Fails when the target is wrong.
    pub fn select(&self, job: &CompileJob, target: &TargetText) -> Result<Selection, AgentError> {
        let parsed = target.parse()?;
        let all: Vec<usize> = (0..self.resources().len()).collect();
        if parsed.reads_grains() {
            self.collect_grains(&all);
        }
        let matches =
            |subject: &dyn TargetSubject| parsed.matches(subject).map_err(|error| target.fault(error));
        let node = matches(&NodeSubject { job, set: self })?;
        let mut resources = Vec::new();
        for index in all {
            let resource = self.resources()[index].name();
            if matches(&ResourceSubject { job, set: self, index, resource })? {
                resources.push(index);
            }
        }
        Ok(Selection { node, resources })
    }

    /// Names of resources at these positions.
    pub(super) fn names(&self, indices: &[usize]) -> Vec<ResourceName> {
        indices.iter().map(|index| self.resources()[*index].name().clone()).collect()
    }
}

/// The node, as a target sees it.
struct NodeSubject<'s> {
    job: &'s CompileJob,
    set: &'s ResourceSet,
}

impl TargetSubject for NodeSubject<'_> {
    fn id(&self) -> &str {
        &self.job.node
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.job.inputs.host.grain(name)
    }

    fn grains(&self) -> Value {
        self.job.inputs.host.grains()
    }

    fn pillar(&self) -> Value {
        self.set.pillar.clone()
    }

    fn nodegroups(&self) -> &Map {
        &self.job.inputs.options.nodegroups
    }

    fn resources(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn role(&self) -> SubjectRole<'_> {
        SubjectRole::Manager
    }
}

/// One resource, as a target sees it.
struct ResourceSubject<'s> {
    job: &'s CompileJob,
    set: &'s ResourceSet,
    index: usize,
    resource: &'s ResourceName,
}

impl TargetSubject for ResourceSubject<'_> {
    fn id(&self) -> &str {
        &self.resource.id
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.set.grains(self.index).ok()?.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.set.grains(self.index).cloned().unwrap_or_default().into()
    }

    fn pillar(&self) -> Value {
        Value::Null
    }

    fn nodegroups(&self) -> &Map {
        &self.job.inputs.options.nodegroups
    }

    fn resources(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn role(&self) -> SubjectRole<'_> {
        SubjectRole::Resource { kind: &self.resource.kind, manager: &self.job.node }
    }
}
