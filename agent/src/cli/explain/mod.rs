//! `zagent explain ZA0107 | file.managed | file.managed:source | ID | pillar:KEY`.

mod exec_function;
mod function;

use std::fmt::Write;

use serde_json::json as object;
use zagent_compiler::{Chunk, Plan, name_text};
use zagent_config::codes::{self, Code};
use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{Value, suggest};

use super::checkout::LookArgs;
use crate::output::{OutputFormat, Paint, Ui, json, yaml};
use zagent_config::sanitize;
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Explain a diagnostic code, a state function, a state or a pillar key
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// `ZA0107`, `file`, `file.managed`, `cmd.run`, `functions`, `require`, a state ID, or `pillar:KEY`; without it,
    /// list all codes
    #[arg(value_name = "WHAT")]
    what: Option<String>,

    /// One parameter of the function (or write `file.managed:source`)
    #[arg(value_name = "PARAMETER")]
    parameter: Option<String>,

    #[command(flatten)]
    tree: LookArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: OutputFormat,
}

/// Explanation as text and as data.
struct Explanation {
    text: String,
    data: serde_json::Value,
}

impl ExplainArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let explanation = match self.what.as_deref() {
            None => explain_codes(ui.paint),
            Some(what) => match &self.parameter {
                None => self.explain(what, ui)?,
                Some(parameter) => function::explain_parameter(what, parameter, ui.paint)?,
            },
        };
        ui.print(&match self.out {
            OutputFormat::Text => explanation.text,
            OutputFormat::Json => json(&explanation.data),
            OutputFormat::Yaml => {
                yaml(&serde_json::from_value::<Value>(explanation.data).unwrap_or_default())
            }
        });
        Ok(ExitStatus::Success)
    }

    fn explain(&self, what: &str, ui: &mut Ui<'_>) -> Result<Explanation, AgentError> {
        if let Some(code) = Code::find(what) {
            let data = object!({"code": code.id, "title": code.title, "explanation": code.explanation});
            return Ok(Explanation { text: code.explanation.to_owned(), data });
        }
        if is_code(what) {
            let ids: Vec<&str> = codes::all().map(|c| c.id).collect();
            let near =
                suggest::nearest(&what.to_ascii_uppercase(), ids).map(|id| format!("did you mean `{id}`? "));
            let hint = format!("{}list all codes with `zagent explain`", near.unwrap_or_default());
            return Err(AgentError::usage_hint(format!("unknown code `{what}`"), hint));
        }
        if let Some(key) = what.strip_prefix("pillar:") {
            return explain_pillar(&self.tree.job(ui)?, key);
        }
        // A state in the tree takes precedence over a function of the same name: with a tree given, the
        // question is about it. In a checkout, a function is explained even when the tree does not compile.
        let is_given = self.tree.tree.states.is_some() || self.tree.node.node.is_some();
        if !is_given && let Some(Ok(explanation)) = function::explain_name(what, ui.paint) {
            return Ok(explanation);
        }
        let tree = self.tree.located(ui)?;
        if tree.states.is_some() {
            let job = tree.job()?;
            let plan = job.compile(ui)?.plan;
            if let Some(explanation) = explain_states(&job, &plan, what, ui.paint) {
                return Ok(explanation);
            }
            return function::explain_name(what, ui.paint).unwrap_or_else(|| Err(unknown_state(&plan, what)));
        }
        function::explain_name(what, ui.paint).unwrap_or_else(|| Err(function::unknown_name(what)))
    }
}

fn is_code(what: &str) -> bool {
    let upper = what.to_ascii_uppercase();
    upper.strip_prefix("ZA").is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

fn explain_codes(paint: Paint) -> Explanation {
    let mut text = String::new();
    for code in codes::all() {
        let _ = writeln!(text, "{}  {}", paint.bold(code.id), code.title);
    }
    let data = codes::all().map(|c| object!({"code": c.id, "title": c.title})).collect();
    Explanation { text, data }
}

fn unknown_state(plan: &Plan, what: &str) -> AgentError {
    let near = suggest::nearest(what, plan.chunks.iter().map(|c| &*c.id));
    let hint = near.map_or_else(
        || "list all states with `zagent show lowstate`".to_owned(),
        |id| format!("did you mean `{id}`?"),
    );
    AgentError::usage_hint(format!("no state of this node has the ID or name `{what}`"), hint)
}

fn explain_pillar(job: &CompileJob, key: &str) -> Result<Explanation, AgentError> {
    let pillar = job.compiler.pillar()?;
    let Some(value) = traverse(&pillar, key, DEFAULT_DELIMITER) else {
        let names: Vec<String> =
            pillar.as_map().into_iter().flat_map(|m| m.keys()).map(Value::json_key).collect();
        let near = suggest::nearest(key, names.iter().map(String::as_str))
            .map(|n| format!("did you mean `pillar:{n}`?"));
        let message = format!("the pillar of `{}` has no `{key}`", job.node);
        return Err(AgentError::usage_hint(
            message,
            near.unwrap_or_else(|| "print the whole pillar with `zagent show pillar`".into()),
        ));
    };
    // Masked together with its key, because the key decides whether the value is secret.
    let last = key.rsplit(DEFAULT_DELIMITER).next().unwrap_or(key);
    let mut alone = zagent_config::Map::new();
    alone.insert(last, value.clone());
    let shown = job.mask(false).mask_pillar(&alone.into());
    let place = job.compiler.pillar_origin(key).map(|p| p.to_string());
    let from =
        place.clone().map_or_else(|| "`--pillar-data` or an external pillar".to_owned(), |p| sanitize(&p));
    let text = format!("{}\nfrom: {from}\n", yaml(&shown).trim_end());
    Ok(Explanation { text, data: object!({"key": key, "value": shown.get(last), "from": place}) })
}

/// Explains every state with that ID or name: where it is declared and what it depends on.
fn explain_states(job: &CompileJob, plan: &Plan, what: &str, paint: Paint) -> Option<Explanation> {
    let fits = |c: &Chunk| !c.prereq.check && (*c.id == *what || name_text(&c.name) == what);
    let found: Vec<usize> = (0..plan.chunks.len()).filter(|i| fits(&plan.chunks[*i])).collect();
    if found.is_empty() {
        return None;
    }
    let explanation: Vec<Explanation> =
        found.into_iter().map(|i| explain_state(job, plan, i, paint)).collect();
    let text = explanation.iter().map(|t| t.text.as_str()).collect::<Vec<_>>().join("\n");
    Some(Explanation { text, data: explanation.into_iter().map(|t| t.data).collect() })
}

fn explain_state(job: &CompileJob, plan: &Plan, i: usize, paint: Paint) -> Explanation {
    let chunk = &plan.chunks[i];
    let place = job.compiler.place(chunk);
    let chain: Vec<String> = job
        .compiler
        .include_chain(chunk)
        .iter()
        .map(|step| format!("{} ({})", step.what, step.location))
        .collect();
    let tied = |to: bool| -> Vec<(&'static str, &Chunk)> {
        let edges = plan.graph.edges.iter().filter(|e| if to { e.to == i } else { e.from == i });
        edges.map(|e| (e.kind.key(), &plan.chunks[if to { e.from } else { e.to }])).collect()
    };
    let mut text = format!(
        "{}  {}\n",
        paint.bold(sanitize(&chunk.id)),
        paint.cyan(format!("{}.{}", chunk.state, chunk.fun))
    );
    let _ = writeln!(text, "  declared at {}", sanitize(&place.to_string()));
    let _ = writeln!(text, "  in SLS `{}`, environment `{}`", sanitize(&chunk.sls), sanitize(&chunk.env));
    for step in &chain {
        let _ = writeln!(text, "  {}", sanitize(step));
    }
    for (heading, to) in [("waits for", true), ("is required by", false)] {
        for (kind, other) in tied(to) {
            let function = format!("{}.{}", other.state, other.fun);
            let _ = writeln!(text, "  {heading} {} {} ({kind})", sanitize(&other.id), paint.cyan(function));
        }
    }
    let mask = job.mask(false);
    for line in yaml(&mask.mask_value(&chunk.args.clone().into())).lines().filter(|_| !chunk.args.is_empty())
    {
        let _ = writeln!(text, "    {}", sanitize(line));
    }
    let names = |to: bool| -> Vec<_> {
        tied(to).into_iter().map(|(kind, c)| object!({"kind": kind, "state": c.tag()})).collect()
    };
    let data = object!({
        "tag": chunk.tag(), "file": place.file, "line": place.pos.line, "sls": &*chunk.sls, "env": &*chunk.env,
        "chain": chain, "waits_for": names(true), "waited_for_by": names(false),
        "arguments": mask.mask_value(&chunk.args.clone().into()),
    });
    Explanation { text, data }
}
