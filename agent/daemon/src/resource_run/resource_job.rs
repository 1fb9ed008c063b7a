//! The compile job of a node and one resource in, the compile job of the resource out: same tree, own id, grains, pillar and machine.

use std::sync::Arc;

use zagent_compiler::{
    Compat, CompileInputs, CompileOptions, CompileTarget, CompiledResource, Compiler, FileTree,
};
use zagent_config::mask::Secret;
use zagent_config::settings::{ResourcePillar, Settings, TemplatePermission};
use zagent_config::{Map, SecretMask, Value, error_chain};
use zagent_host::Machine;
use zagent_resources::host::ResourceTree;
use zagent_resources::{Resource, ResourceHost, ResourceStore};
use zagent_run::plan_cache::{CompileTrace, RenderedTexts};
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};
use zagent_states::template_host::recorded_facts::RecordedFacts;

use super::selection::ResourceSet;
use crate::compile_job::CompileJob;

/// What all resources of one command share; unlike the compile job of the node, threads may share it.
pub(super) struct NodeContext {
    pub(super) inputs: CompileInputs,
    pub(super) settings: Settings,
    pub(super) machine: Machine,
    pub(super) pillar: Value,
    pub(super) mask: SecretMask,
    /// What the mask hides.
    pub(super) secrets: Vec<Secret>,
    store: ResourceStore,
    want: CompileTarget,
    compat: Compat,
    states: Arc<dyn FileTree>,
    revision: String,
    node: String,
}

/// A resource that can be compiled for and called.
pub(super) struct ResourceJob {
    pub(super) job: CompileJob,
    pub(super) host: Arc<ResourceHost>,
}

impl NodeContext {
    pub(super) fn new(job: &CompileJob, set: &ResourceSet) -> Self {
        let mut secrets: Vec<Secret> = job.compiler.secrets();
        secrets.extend(job.compiler.decrypted_secrets());
        zagent_config::mask::hide_in_messages(&secrets);
        Self {
            inputs: job.inputs.clone(),
            settings: job.settings.clone(),
            machine: job.machine.clone(),
            pillar: set.pillar.clone(),
            mask: SecretMask::new(&secrets),
            secrets,
            store: set.store.clone(),
            want: job.want.clone(),
            compat: job.compat,
            states: Arc::clone(&job.states),
            revision: job.revision.clone(),
            node: job.node.clone(),
        }
    }

    /// Whether templates may run commands of their own.
    pub(super) fn commands_allowed(&self) -> bool {
        self.settings.cmd_run == TemplatePermission::Allow
    }

    /// The job of one resource.
    pub(super) fn resource_job(&self, resource: &Resource, grains: &Map) -> Result<ResourceJob, String> {
        let name = resource.name();
        let machine = resource.machine(&self.machine).map_err(|error| error_chain(&error))?;
        let machine =
            machine.allow_commands(self.commands_allowed()).timeout(self.settings.limits.program_timeout);
        let live = LiveHostSettings {
            external_pillar: self.settings.ext_pillar.clone(),
            external_tops: self.settings.master_tops.clone(),
            ..LiveHostSettings::new(&*name.id, machine.clone())
        };
        let live = LiveHost::new(Arc::new(RecordedFacts::new(grains.clone())), live);
        let host = ResourceHost::new(resource, &self.store, live, Arc::clone(&self.inputs.host));
        let host = Arc::new(host);
        let states = ResourceTree::wrap(&self.states, resource);
        let inputs = CompileInputs {
            states: Arc::clone(&states),
            pillar: Arc::clone(&self.inputs.pillar),
            host: Arc::clone(&host) as _,
            schema: self.inputs.schema,
            options: Arc::new(self.options(resource)),
        };
        let (traced, trace) = CompileTrace::trace_inputs(&inputs);
        let (file_inputs, file_trace) = CompileTrace::trace_inputs(&inputs);
        let mut settings = self.settings.clone();
        settings.root = self.store.paths(name).root().to_owned();
        let job = CompileJob {
            traced_states: Arc::clone(&traced.states),
            compiler: Compiler::with_file_inputs(traced, file_inputs),
            inputs,
            trace,
            file_trace,
            rendered: RenderedTexts::default(),
            want: self.want.clone(),
            node: name.id.clone(),
            states,
            compat: self.compat,
            settings,
            machine,
            revision: self.revision.clone(),
            source: None,
            is_own_node: false,
        };
        Ok(ResourceJob { job, host })
    }

    fn options(&self, resource: &Resource) -> CompileOptions {
        let name = resource.name();
        let pillar = match self.settings.resources.pillar {
            ResourcePillar::Resource => None,
            ResourcePillar::Node => Some(self.pillar.as_map().cloned().unwrap_or_default()),
        };
        let mut options = (*self.inputs.options).clone();
        options.id.clone_from(&name.id);
        options.opts.insert("id", name.id.as_str());
        options.opts.insert("resource_type", name.kind.as_str());
        options.resource =
            Some(CompiledResource { kind: name.kind.clone(), manager: self.node.clone(), pillar });
        options
    }
}
