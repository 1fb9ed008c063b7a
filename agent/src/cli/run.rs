//! `zagent run --once --test`: what the states would do to this host.

use std::time::Instant;

use zagent_compiler::Compiler;
use zagent_config::Value;

use super::tree::{Job, TreeArgs};
use crate::output::{Format, Ui, json, yaml};
use crate::preview::{self, Head, Scene, TemplateFile, Templates};
use crate::report::{Exit, Trouble};

/// Apply the states of this node, or see what they would do
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One turn, then end
    #[arg(long)]
    once: bool,

    /// Change nothing: say what would change
    #[arg(long)]
    test: bool,

    #[command(flatten)]
    tree: TreeArgs,

    #[command(flatten)]
    report: ReportArgs,
}

/// How a run is reported.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    pub(super) out: Format,

    /// Exit with 0 for no change, 2 for changes, 4 for failures, 6 for both
    #[arg(long, help_heading = "Output")]
    pub(super) detailed_exitcodes: bool,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.report.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let start = Instant::now();
        let job = TreeArgs { test: self.test, ..self.tree.clone() }.job()?;
        // Faults of the states count more than what this version cannot do yet.
        let compiled = job.compile(ui)?;
        if !self.test {
            return Err(Trouble::usage_hint(
                "this version compiles and previews, it does not change the host yet",
                "add --test to see what would change",
            ));
        }
        if !self.once {
            return Err(Trouble::usage_hint("this version has no loop yet", "add --once for one turn"));
        }
        let source = self.tree.states.as_ref().map(|d| d.display().to_string()).unwrap_or_default();
        report(&job, &compiled.plan, &source, start, &self.report, ui)
    }
}

/// Looks at the host and prints what would happen.
pub(super) fn report(
    job: &Job,
    plan: &zagent_compiler::Plan,
    source: &str,
    start: Instant,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<Exit, Trouble> {
    let pillar = job.compiler.pillar()?;
    let mask = job.mask(false);
    let scene = Scene {
        files: &*job.states,
        pillar: &pillar,
        templates: &Renderer(&job.compiler),
        compat: job.compat,
        mask: &mask,
    };
    let seen = preview::preview(plan, &scene);
    let duration_ms = (start.elapsed().as_secs_f64() * 10_000.0).round() / 10.0;
    let head = Head { node: &job.node, revision: source, compat: job.compat, duration_ms };
    let text = match args.out {
        Format::Json => json(&preview::to_json(&seen, &head)),
        Format::Yaml => {
            yaml(&serde_json::from_value::<Value>(preview::to_json(&seen, &head)).unwrap_or_default())
        }
        Format::Text => preview::text(&seen, &head, ui.verbose > 0, ui.paint),
    };
    ui.data(&mask.text(&text));
    Ok(match (args.detailed_exitcodes, seen.changes(), seen.success()) {
        (true, true, true) => Exit::Changes,
        (true, false, false) => Exit::Failures,
        (true, true, false) => Exit::Both,
        (_, _, true) => Exit::Fine,
        (false, _, false) => Exit::Failed,
    })
}

struct Renderer<'c>(&'c Compiler);

impl Templates for Renderer<'_> {
    fn render(&self, file: &TemplateFile<'_>) -> Result<String, String> {
        let rendered = self.0.render_file(file.env, file.path, file.source, &file.variables);
        rendered.map_err(|fault| fault.to_string())
    }
}
