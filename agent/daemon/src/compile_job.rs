//! Compile job in, plan out: from the plan cache when no input changed, otherwise compiled.
//!
//! A plan with secrets is never written to disk.

#![expect(clippy::disallowed_methods, reason = "a plan is saved with the time of its compile")]

pub(crate) mod declared_resources;
mod empty_plan;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use zagent_compiler::{Compat, CompileInputs, CompileOutput, CompileTarget, Compiler, FileTree, Plan};
use zagent_config::mask::{self, Secret, secret_keys};
use zagent_config::settings::Settings;
use zagent_config::{SecretMask, Value};
use zagent_host::Machine;

use crate::error::AgentError;
use crate::run_output::Messages;
use zagent_run::plan_cache::{self, CachedPlan, CompileTrace, PlanKey, RenderedTexts, RenderedTextsUse};

/// Everything one compile needs.
pub struct CompileJob {
    /// The compiler.
    pub compiler: Compiler,
    /// Inputs of the compiler, with what was read to build them.
    pub inputs: CompileInputs,
    pub(crate) trace: Arc<CompileTrace>,
    /// What the templates of managed files read.
    pub(crate) file_trace: Arc<CompileTrace>,
    /// The rendered templates of managed files.
    pub(crate) rendered: RenderedTexts,
    /// The states, and what is read of them is recorded.
    pub(crate) traced_states: Arc<dyn FileTree>,
    /// What to compile.
    pub want: CompileTarget,
    /// Node ID.
    pub node: String,
    /// The states.
    pub states: Arc<dyn FileTree>,
    /// Whose behaviour to follow.
    pub compat: Compat,
    /// The settings, with what the manifest of the repository adds.
    pub settings: Settings,
    /// The machine that templates ask and states work on.
    pub machine: Machine,
    /// Description of where the states come from.
    pub revision: String,
    /// The directory that was named for this compile; empty for the states that the node follows, and none for a resource,
    /// whose runs remember nothing.
    pub source: Option<String>,
    /// True when it is about this node as it is: no other id, facts or pillar data.
    pub is_own_node: bool,
}

/// Plan, and the pillar it was compiled with.
pub struct PlanWithPillar {
    /// The plan.
    pub plan: Plan,
    /// The pillar.
    pub pillar: Value,
    /// True when it holds all that the compile job asks for; false for single chunks, a part of it, or nothing.
    pub is_complete: bool,
}

/// What to do with the plan cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanCacheUse {
    /// True to save the plan.
    pub save: bool,
    /// True to compile although no input changed.
    pub fresh: bool,
}

impl CompileJob {
    /// Returns the plan and warns when it is empty.
    ///
    /// # Errors
    /// The compile errors, or that there is no top file.
    pub fn plan(
        &self,
        cache: PlanCacheUse,
        messages: &mut dyn Messages,
    ) -> Result<PlanWithPillar, AgentError> {
        let kept = if cache.fresh {
            None
        } else {
            plan_cache::load(&self.settings.paths().plans(), &self.plan_key(), &self.inputs)
        };
        let planned = match kept {
            Some(CachedPlan { plan, pillar }) => {
                self.rendered.allow(RenderedTextsUse { load: true, save: cache.save });
                PlanWithPillar { plan, pillar, is_complete: true }
            }
            None => return self.finish_plan(self.compile_quietly()?, cache, messages),
        };
        declared_resources::report_wrong_declaration(self, &planned.pillar, messages);
        empty_plan::explain_empty_plan(self, &planned, messages)?;
        Ok(planned)
    }

    /// Same, for what was compiled already: prints its warnings and saves the plan.
    ///
    /// # Errors
    /// As [`CompileJob::plan`].
    pub(crate) fn finish_plan(
        &self,
        compiled: CompileOutput,
        cache: PlanCacheUse,
        messages: &mut dyn Messages,
    ) -> Result<PlanWithPillar, AgentError> {
        compiled.warnings.iter().for_each(|warning| messages.compile_warning(warning));
        let pillar = self.compiler.pillar()?;
        // Plans with warnings or decrypted secrets are not cached: warnings must show every time, secrets must not
        // reach the disk.
        if compiled.warnings.is_empty() && self.compiler.decrypted_secrets().is_empty() {
            self.rendered.allow(RenderedTextsUse { load: !cache.fresh, save: cache.save });
            if cache.save {
                self.save_plan(&compiled.plan, &pillar);
            }
        }
        let planned = PlanWithPillar { plan: compiled.plan, pillar, is_complete: true };
        declared_resources::report_wrong_declaration(self, &planned.pillar, messages);
        empty_plan::explain_empty_plan(self, &planned, messages)?;
        Ok(planned)
    }

    /// Records also what a run reads of the states, such as the sources of files.
    pub fn trace_run(&mut self) {
        self.states = Arc::clone(&self.traced_states);
    }

    /// Compiles and prints warnings.
    ///
    /// # Errors
    /// The compile errors.
    pub fn compile(&self, messages: &mut dyn Messages) -> Result<CompileOutput, AgentError> {
        let compiled = self.compile_quietly()?;
        compiled.warnings.iter().for_each(|warning| messages.compile_warning(warning));
        Ok(compiled)
    }

    /// Compiles; the warnings are in the result.
    ///
    /// # Errors
    /// The compile errors.
    pub fn compile_quietly(&self) -> Result<CompileOutput, AgentError> {
        // A template may log what the pillar holds.
        mask::hide_in_messages(&self.compiler.secrets());
        let compiled = self.compiler.compile(&self.want)?;
        mask::hide_in_messages(&self.compiler.decrypted_secrets());
        Ok(compiled)
    }

    pub(crate) fn plan_key(&self) -> PlanKey {
        let programs = format!(
            "{:?} {:?} {:?}",
            self.settings.ext_pillar, self.settings.master_tops, self.settings.cmd_run
        );
        PlanKey::new(&self.inputs, &self.want, &programs)
    }

    fn save_plan(&self, plan: &Plan, pillar: &Value) {
        let dir = self.settings.paths().plans();
        let saved = plan_cache::save(&dir, &self.plan_key(), &self.trace, (plan, pillar), SystemTime::now());
        if let Err(error) = saved {
            tracing::debug!(%error, dir = %dir.display(), "cannot write the plan cache");
        }
    }

    /// The mask of a run of this plan: what was decrypted, and what keys of the pillar or names of parameters mark as secrets.
    /// What was decrypted is known when the plan was compiled; a cached plan has nothing of it, and the pillar is not compiled
    /// for this.
    pub(crate) fn run_mask(&self, planned: &PlanWithPillar) -> SecretMask {
        self.run_mask_with(planned, &[])
    }

    /// The same for a resource: the secrets of the node that manages it are hidden too.
    pub(crate) fn run_mask_with(&self, planned: &PlanWithPillar, more: &[Secret]) -> SecretMask {
        let decrypted = [self.compiler.decrypted_secrets().as_slice(), more].concat();
        let mut marked = secret_keys::marked_secrets(&planned.pillar);
        marked
            .extend(planned.plan.chunks.iter().flat_map(|chunk| secret_keys::argument_secrets(&chunk.args)));
        let mut seen = HashSet::new();
        marked.retain(|secret| seen.insert(secret.clone()));
        mask::hide_in_messages(&[decrypted.as_slice(), &marked].concat());
        SecretMask::with_marked(&decrypted, &marked)
    }

    /// Secret mask; empty when secrets are to be shown.
    #[must_use]
    pub fn mask(&self, unmask: bool) -> SecretMask {
        if unmask { SecretMask::default() } else { SecretMask::new(&self.compiler.secrets()) }
    }
}
