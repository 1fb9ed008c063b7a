//! `zagent run --revert`: which run is reverted, and whether somebody has to confirm it.
//!
//! Law: without a run, nothing is changed unless a person on a terminal says yes; scripts name the run or write `last`
//! (held by `a_revert_without_a_run_asks_and_scripts_write_last`).

use std::io::{BufRead, IsTerminal};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::run_args::RunOptionArgs;
use super::tree_args::TreeArgs;
use crate::output::{Ui, pluralize};
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::error::AgentError;
use zagent_daemon::plan_run;
use zagent_run::RunOptions;

/// The word for the newest run that changed something.
const LAST: &str = "last";

/// Refuses options that a revert cannot follow: it undoes what a run noted and compiles no states.
pub(super) fn reject_options(tree: &TreeArgs, flags: &RunOptionArgs) -> Result<(), AgentError> {
    let given = [
        ("--sls", !tree.sls.is_empty()),
        ("--schedule", flags.has_schedule()),
        ("--jobs", flags.has_jobs()),
        ("--fresh", flags.fresh),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(AgentError::usage_hint(
            format!(
                "`{flag}` has no meaning with --revert: a revert undoes what a run noted and compiles no states"
            ),
            "select one state of the run with `--state ID`; `zagent history RUN` lists them",
        )),
        None => Ok(()),
    }
}

/// Refuses a revert on resources that names no run: their last runs may be different ones.
pub(super) fn reject_unnamed(order: &RunOptions) -> Result<(), AgentError> {
    match order.revert == Some(None) && !order.test {
        false => Ok(()),
        true => Err(AgentError::usage_hint(
            "`--revert` on resources needs the name of a run",
            "list the runs with `zagent history`; `--revert last` reverts the last run of each resource",
        )),
    }
}

/// Decides which run is reverted, and asks when none is named.
pub(super) fn choose_run(
    job: &CompileJob,
    order: &mut RunOptions,
    ui: &mut Ui<'_>,
) -> Result<Choice, AgentError> {
    let is_named = matches!(&order.revert, Some(Some(name)) if name != LAST);
    if is_named {
        return Ok(Choice::Revert);
    }
    let is_bare = order.revert == Some(None);
    if order.force
        && let Some(run) = plan_run::last_reverted_run(job)?
    {
        order.revert = Some(Some(run));
    }
    if !is_bare || order.test {
        return Ok(Choice::Revert);
    }
    let name = order.revert.clone().flatten();
    let Some(run) = plan_run::undoable_run(job, name.as_deref())? else { return Ok(Choice::Revert) };
    let at = Timestamp::from_millisecond(i64::try_from(run.started).unwrap_or(0)).unwrap_or_default();
    let at = at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M");
    let what = format!("run {} of {at}, {}", run.run, pluralize(run.changes, "change"));
    if !(std::io::stdin().is_terminal() && ui.is_interactive()) {
        return Err(AgentError::usage_hint(
            format!("`--revert` without a run asks on a terminal, and this is none; the last is {what}"),
            "preview it with `zagent run --revert --test`, revert it with `zagent run --revert last`",
        ));
    }
    order.revert = Some(Some(run.run));
    ui.message(&format!("This reverts {what}."));
    ui.message("Preview it with `zagent run --revert --test`. Revert it now? [y/N]");
    Ok(if is_yes(&mut std::io::stdin().lock()) { Choice::Revert } else { Choice::Leave })
}

/// What a person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Revert,
    Leave,
}

/// True for `y` and `yes`; an empty line, anything else and the end of the input mean no.
pub(super) fn is_yes(input: &mut dyn BufRead) -> bool {
    let mut line = String::new();
    input.read_line(&mut line).is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (text, want) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("n\n", false), ("yeah\n", false)]
        {
            assert_eq!(is_yes(&mut text.as_bytes()), want, "{text:?}");
        }
    }
}
