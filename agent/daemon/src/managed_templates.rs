//! Template of a managed file in, text out: from an earlier run when no input changed, otherwise rendered by the compiler that
//! built the plan.

#![expect(clippy::disallowed_methods, reason = "texts are kept with the time of the run")]

use std::path::PathBuf;
use std::time::SystemTime;

use zagent_run::plan_cache::{PlanKey, RenderedTextsPlace};
use zagent_states::{FileTemplate, RenderTemplate};

use crate::compile_job::{CompileJob, PlanWithPillar};

/// The templates of the files of one plan.
pub(crate) struct ManagedTemplates<'j> {
    job: &'j CompileJob,
    planned: &'j PlanWithPillar,
    key: PlanKey,
    dir: PathBuf,
}

impl<'j> ManagedTemplates<'j> {
    pub(crate) fn new(job: &'j CompileJob, planned: &'j PlanWithPillar) -> Self {
        Self { job, planned, key: job.plan_key(), dir: job.settings.paths().plans() }
    }

    fn place(&self) -> RenderedTextsPlace<'_> {
        let (inputs, pillar) = (&self.job.inputs, &self.planned.pillar);
        RenderedTextsPlace { dir: &self.dir, key: &self.key, inputs, pillar }
    }

    /// Keeps what was rendered for the next run. Decrypted data is never kept, nor is what another template changed.
    pub(crate) fn keep_texts(&self) {
        let compiler = &self.job.compiler;
        if !self.job.rendered.has_new()
            || !compiler.decrypted_secrets().is_empty()
            || !compiler.are_file_variables_unchanged()
        {
            return;
        }
        let saved = self.job.rendered.save(&self.place(), &self.job.file_trace, SystemTime::now());
        if let Err(error) = saved {
            tracing::debug!(%error, dir = %self.dir.display(), "cannot write the rendered templates");
        }
    }
}

impl RenderTemplate for ManagedTemplates<'_> {
    fn render(&self, template: &FileTemplate) -> Result<String, String> {
        let trace = &self.job.file_trace;
        self.job.rendered.get_or_render(&self.place(), template, || {
            let calls = trace.call_count();
            let FileTemplate { env, path, source, variables } = template;
            let text = self.job.compiler.render_file(env, path, source, variables);
            Ok((text.map_err(|fault| fault.to_string())?, trace.call_count() == calls))
        })
    }
}
