//! Plan and flags in, the orphans of this node and what a run does with them out.

use zagent_compiler::CompileTarget;
use zagent_config::settings::PRUNABLE_KINDS;
use zagent_run::{GlobalConditions, ManagedScope, NoProgress, Orphan, PruneOptions};
use zagent_states::file_tree::CachedFiles;

use super::{FullTemplateHost, PlanRun, RunParts, RunPlace, to_agent_error};
use crate::error::AgentError;
use crate::managed_templates::ManagedTemplates;

impl PlanRun<'_> {
    /// What earlier revisions managed on this node and the plan does not.
    ///
    /// # Errors
    /// Fails when the record of what is managed cannot be read.
    pub fn orphans(&self) -> Result<Vec<Orphan>, AgentError> {
        let place = RunPlace::node(self.job.run_mask(self.planned));
        let host = FullTemplateHost::new(&self.job.inputs, &self.planned.pillar);
        let conditions =
            GlobalConditions::evaluate(&self.job.inputs.options.opts, &host).map_err(AgentError::failed)?;
        let (paths, files) = (self.job.settings.paths(), CachedFiles::new(&*self.job.states));
        let templates = ManagedTemplates::new(self.job, self.planned);
        let parts = RunParts {
            paths: &paths,
            files: &files,
            host: &host,
            templates: &templates,
            conditions: &conditions,
            progress: &NoProgress,
        };
        self.state_run(parts, &place).orphans().map_err(|error| to_agent_error(&error))
    }

    /// What this run remembers of the things it manages, and which orphans it removes.
    pub(super) fn managed_scope(&self, place: &RunPlace<'_>) -> Option<ManagedScope> {
        if place.manager.is_some() || self.order.revert.is_some() {
            return None;
        }
        let (job, settings) = (self.job, &self.job.settings.run.prune);
        let source = job.source.clone()?;
        let is_whole = self.is_whole();
        let prune = match &self.order.prune {
            Some(flags) => PruneOptions {
                kinds: if flags.kinds.is_empty() { settings.types.clone() } else { flags.kinds.clone() },
                max: flags.max.unwrap_or(settings.max),
                found: flags.found,
            },
            // Another tree than the one that the node follows removes nothing unasked.
            None if source.is_empty() && is_whole => {
                PruneOptions { kinds: settings.types.clone(), max: settings.max, found: false }
            }
            None => PruneOptions::default(),
        };
        Some(ManagedScope { source, is_whole, prune })
    }

    /// True when all states of this node run: what they do not manage is an orphan. A single state, an SLS or another node
    /// says nothing of the rest of the host.
    fn is_whole(&self) -> bool {
        self.planned.is_complete && self.job.want == CompileTarget::Highstate && self.job.is_own_node
    }

    /// Refuses `--prune` where it cannot mean anything.
    pub(super) fn reject_prune_misuse(&self) -> Result<(), AgentError> {
        let Some(flags) = &self.order.prune else { return Ok(()) };
        if !self.is_whole() {
            return Err(AgentError::usage_hint(
                "`--prune` compares all states of this node with the runs before",
                "omit `--sls`, `--id`, `--grains`, `--node` and `--pillar-data`",
            ));
        }
        if flags.kinds.is_empty() && self.job.settings.run.prune.types.is_empty() {
            let hint = format!("name them: `--prune={}`; or set `run.prune.types`", PRUNABLE_KINDS.join(","));
            return Err(AgentError::usage_hint("`--prune` needs the types to remove", hint));
        }
        Ok(())
    }
}
