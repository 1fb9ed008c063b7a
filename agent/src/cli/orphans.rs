//! `zagent orphans`: what earlier revisions managed on this host and the current states do not.

use serde_json::{Value, json as object};
use zagent_config::sanitize;

use super::checkout::LookArgs;
use super::common_args::print_as;
use crate::output::{OutputFormat, Ui, pluralize};
use std::fmt::Write;
use std::sync::Arc;
use zagent_daemon::compile_job::PlanCacheUse;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::plan_run::PlanRun;
use zagent_host::CancelToken;
use zagent_run::{Orphan, RunOptions, RunTrigger};

/// Digits of a revision that are shown.
const SHOWN_REVISION: usize = 12;

/// List what earlier revisions managed on this host and the current states do not; `zagent run --once --prune` removes it
#[derive(Debug, clap::Args)]
pub(super) struct OrphansArgs {
    #[command(flatten)]
    look: LookArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    pub(super) out: OutputFormat,

    /// Exit with 2 when there are orphans
    #[arg(long, help_heading = "Output")]
    detailed_exitcodes: bool,
}

impl OrphansArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let job = self.look.job(ui)?;
        let planned = job.plan(PlanCacheUse::default(), ui)?;
        let (order, cancel) =
            (RunOptions { test: true, ..RunOptions::default() }, Arc::new(CancelToken::new()));
        let run = PlanRun {
            job: &job,
            planned: &planned,
            order: &order,
            trigger: RunTrigger::Manual,
            cancel: &cancel,
        };
        let orphans = run.orphans()?;
        let found: Vec<Value> = orphans.iter().map(orphan_json).collect();
        let is_any = !found.is_empty();
        print_as(self.out, &orphans_table(&orphans), object!({ "orphans": found }), ui);
        Ok(if is_any && self.detailed_exitcodes { ExitStatus::Changes } else { ExitStatus::Success })
    }
}

fn orphan_json(orphan: &Orphan) -> Value {
    let entry = &orphan.entry;
    object!({
        "type": entry.thing.kind, "name": entry.thing.name, "created": entry.created,
        "changed": orphan.is_changed, "revision": entry.revision, "function": entry.function, "id": entry.id,
        "sls": entry.sls, "declared": entry.declared, "removable": entry.removal.is_some(),
    })
}

fn orphans_table(orphans: &[Orphan]) -> String {
    if orphans.is_empty() {
        return "no orphans: the current states manage all that earlier ones did".into();
    }
    let widest =
        |text: fn(&Orphan) -> &str| orphans.iter().map(|o| text(o).chars().count()).max().unwrap_or(0);
    let (kinds, names) = (widest(|o| &o.entry.thing.kind), widest(|o| &o.entry.thing.name).min(60));
    let mut out = String::new();
    for orphan in orphans {
        let entry = &orphan.entry;
        let revision: String = entry.revision.chars().take(SHOWN_REVISION).collect();
        let revision = if entry.source.is_empty() { revision } else { entry.revision.clone() };
        let place = entry.declared.as_deref().unwrap_or(&entry.sls);
        let _ = writeln!(
            out,
            "{:kinds$}  {:names$}  {} (revision {}, {})",
            entry.thing.kind,
            sanitize(&entry.thing.name),
            standing(orphan),
            sanitize(&revision),
            sanitize(place),
        );
    }
    let _ = write!(
        out,
        "{}; remove them with `zagent run --once --prune=TYPES`",
        pluralize(orphans.len(), "orphan")
    );
    out
}

/// What a removal would do with it, in words.
fn standing(orphan: &Orphan) -> &'static str {
    match (orphan.entry.removal.is_some(), orphan.entry.created, orphan.is_changed) {
        (false, ..) => "remove it by hand",
        (_, false, _) => "was there before zagent",
        (_, _, Some(true)) => "changed since outside zagent",
        _ => "made by zagent",
    }
}
