//! A plan without states in, why there are none out: no top file, or one that does not mean this node.
//!
//! Law: a node that nothing is meant for is no failure; a tree without a top file is a mistake in how it was called.

use zagent_compiler::{Compat, CompileTarget};

use super::compile_job::{CompileJob, PlanWithPillar};
use super::warn;
use crate::output::Ui;
use zagent_daemon::error::CliError;

/// Where a tree says what is for whom.
const TOP_FILE: &str = "top.sls";
/// How many targets are named.
const MAX_NAMED: usize = 8;

/// Tells why there is nothing to run. Salt's own verdict about that is a state that failed.
pub(super) fn explain_empty_plan(
    job: &CompileJob,
    planned: &PlanWithPillar,
    ui: &mut Ui<'_>,
) -> Result<(), CliError> {
    if !planned.plan.chunks.is_empty() || job.want != CompileTarget::Highstate || job.compat == Compat::Salt {
        return Ok(());
    }
    let envs = job.states.envs();
    if job.settings.master_tops.is_empty() && !envs.iter().any(|env| job.states.has(env, TOP_FILE)) {
        let place = if job.revision.is_empty() { "the states".into() } else { format!("`{}`", job.revision) };
        return Err(CliError::usage_hint(
            format!("there is no `{TOP_FILE}` in {place} (environments: {})", envs.join(", ")),
            "name the SLS to run: --sls NAME; or write a top file: base: {'*': [NAME]}",
        ));
    }
    let targets = job.compiler.top_targets()?;
    let node = &job.node;
    if targets.iter().any(|t| t.matched) {
        warn(&format!("nothing to run: the SLS that the top file selects for `{node}` hold no states"), ui);
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
    warn(&format!("nothing to run: the top file selects nothing for `{node}`; {targets}"), ui);
    Ok(())
}
