//! Empty plan in, reason out: no top file, or a top file that does not target this node.
//!
//! Law: a node without states is not a failure; a tree without a top file is a usage error (held by
//! `an_empty_plan_is_explained`).

use zagent_compiler::{Compat, CompileTarget};

use super::{CompileJob, PlanWithPillar};
use crate::error::AgentError;
use crate::run_output::Messages;

/// File that assigns SLS files to nodes.
const TOP_FILE: &str = "top.sls";
/// Maximum number of targets to print.
const MAX_NAMED: usize = 8;

/// Says why there is nothing to run. In Salt mode, an empty plan is a failed state instead.
pub(super) fn explain_empty_plan(
    job: &CompileJob,
    planned: &PlanWithPillar,
    messages: &mut dyn Messages,
) -> Result<(), AgentError> {
    if !planned.plan.chunks.is_empty() || job.want != CompileTarget::Highstate || job.compat == Compat::Salt {
        return Ok(());
    }
    let envs = job.states.envs();
    if job.settings.master_tops.is_empty() && !envs.iter().any(|env| job.states.has(env, TOP_FILE)) {
        let place = if job.revision.is_empty() { "the states".into() } else { format!("`{}`", job.revision) };
        return Err(AgentError::usage_hint(
            format!("no `{TOP_FILE}` in {place} (environments: {})", envs.join(", ")),
            "select an SLS with --sls NAME, or add a top file: base: {'*': [NAME]}",
        ));
    }
    let targets = job.compiler.top_targets()?;
    let node = &job.node;
    if targets.iter().any(|t| t.matched) {
        messages.warn(&format!("nothing to run: the SLS files selected for `{node}` contain no states"));
        return Ok(());
    }
    let mut names: Vec<String> = targets.iter().map(|t| format!("`{}`", t.target)).collect();
    names.dedup();
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let targets = if names.is_empty() {
        "it has no targets".to_owned()
    } else {
        format!("its targets are {}{more}", names.join(", "))
    };
    messages.warn(&format!("nothing to run: the top file selects nothing for `{node}`; {targets}"));
    Ok(())
}
