//! `zagent show sls NAME…`: prints SLS files after template rendering.

use zagent_config::{Map, Value};

use super::ShowStageArgs;
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_daemon::error::AgentError;

/// SLS file after template rendering
#[derive(Debug, clap::Args)]
pub(super) struct ShowSlsArgs {
    /// SLS names, such as `web.nginx`
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    pub(super) stage: ShowStageArgs,
}

pub(super) fn run(args: &ShowSlsArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.stage.tree.job(ui)?;
    let names: Vec<&String> = args.names.iter().chain(&args.stage.tree.tree.sls).collect();
    if names.is_empty() {
        return Err(AgentError::usage_hint("no SLS name given", "zagent show sls NAME --states DIR"));
    }
    let env = args.stage.tree.tree.saltenv.as_deref().unwrap_or(zagent_compiler::BASE_ENV);
    let mut texts = Vec::new();
    for name in names {
        texts.push((name, job.compiler.render_sls(name, env)?));
    }
    let mask = job.mask(args.stage.unmask);
    let value: Map =
        texts.iter().map(|(name, text)| (name.as_str(), Value::from(mask.mask_string(text)))).collect();
    let value = Value::from(value);
    let out = match args.stage.out {
        OutputFormat::Json => json(&value),
        OutputFormat::Yaml => yaml(&value),
        OutputFormat::Text => {
            sls_text(&texts.iter().map(|(n, t)| (n.as_str(), mask.mask_string(t))).collect::<Vec<_>>())
        }
    };
    ui.print(&out);
    Ok(())
}

/// The rendered text; several files are separated by a comment.
fn sls_text(texts: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (name, text) in texts {
        if texts.len() > 1 {
            out.push_str(&format!("# {name}\n"));
        }
        out.push_str(text);
        if !text.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}
