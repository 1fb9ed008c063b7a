//! `zagent adopt`: what a first run would overwrite on this host, and copies of it.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json as object;
use zagent_config::{Diagnostic, sanitize};

use super::checkout::LookArgs;
use super::common_args::print_as;
use crate::adopt::{Overwrite, back_up, overwrites};
use crate::output::{OutputFormat, Ui, pluralize};
use zagent_daemon::compile_job::PlanCacheUse;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::plan_run::PlanRun;
use zagent_daemon::run_output::{Messages, RunOutput};
use zagent_host::CancelToken;
use zagent_run::{NoProgress, RunOptions, RunProgress, RunReport, RunTrigger};

/// Show what a first run would overwrite on this host, and save it
#[derive(Debug, clap::Args)]
pub(super) struct AdoptArgs {
    #[command(flatten)]
    look: LookArgs,

    /// Copy the files and links that would be overwritten to a new directory
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    pub(super) out: OutputFormat,
}

/// Prints messages only.
struct Quiet<'u, 'o>(&'u mut Ui<'o>);

impl Messages for Quiet<'_, '_> {
    fn warn(&mut self, words: &str) {
        self.0.warn(words);
    }

    fn compile_warning(&mut self, warning: &Diagnostic) {
        self.0.compile_warning(warning);
    }
}

impl RunOutput for Quiet<'_, '_> {
    fn show_progress(&mut self, _states: usize, run: &mut dyn FnMut(&dyn RunProgress)) {
        run(&NoProgress);
    }

    fn report(&mut self, _report: &RunReport) {}
}

impl AdoptArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let mut look = LookArgs { tree: self.look.tree.clone(), node: self.look.node.clone() };
        look.tree.test = true;
        let job = look.job(ui)?;
        let planned = job.plan(PlanCacheUse::default(), ui)?;
        let order = RunOptions { test: true, ..RunOptions::default() };
        let run = PlanRun {
            job: &job,
            planned: &planned,
            order: &order,
            trigger: RunTrigger::Manual,
            cancel: &Arc::new(CancelToken::new()),
        };
        let report = run.run(&mut Quiet(ui))?;
        let found = overwrites(&planned.plan, &report);
        let saved = match &self.backup {
            Some(dir) => Some(back_up(&found, dir).map_err(|(path, error)| {
                AgentError::failed(format!("cannot save `{}`: {error}", path.display()))
            })?),
            None => None,
        };
        let data: Vec<_> = found.iter().map(overwrite_json).collect();
        print_as(self.out, &self.text(&found, saved), object!({"overwrites": data, "saved": saved}), ui);
        Ok(if report.is_success() { ExitStatus::Success } else { ExitStatus::Failed })
    }

    fn text(&self, found: &[Overwrite<'_>], saved: Option<usize>) -> String {
        let mut out = String::new();
        for one in found {
            let outcome = one.outcome;
            let _ = writeln!(out, "{}.{} {}: {}", outcome.state, outcome.fun, outcome.name, outcome.comment);
            out.extend(outcome.diff.lines().map(|line| format!("  {line}\n")));
        }
        match (found.len(), saved, &self.backup) {
            (0, ..) => out.push_str("a run would overwrite nothing that is there"),
            (count, Some(saved), Some(dir)) => {
                let (what, files) = (pluralize(count, "state"), pluralize(saved, "file"));
                let _ =
                    write!(out, "{what} would change what is there; saved {files} below {}", dir.display());
            }
            (count, ..) => {
                let what = pluralize(count, "state");
                let _ = write!(out, "{what} would change what is there; save it with `--backup DIR`");
            }
        }
        out
    }
}

fn overwrite_json(one: &Overwrite<'_>) -> serde_json::Value {
    let outcome = one.outcome;
    let paths: Vec<String> = one.paths.iter().map(|path| sanitize(&path.display().to_string())).collect();
    object!({
        "id": outcome.id, "sls": outcome.sls, "function": format!("{}.{}", outcome.state, outcome.fun),
        "name": outcome.name, "comment": outcome.comment, "diff": outcome.diff, "paths": paths,
    })
}
