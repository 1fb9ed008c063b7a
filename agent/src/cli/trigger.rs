//! `zagent trigger`: tells the daemon to run.

use std::fmt::Write;

use serde_json::json as object;
use zagent_config::Value;

use super::common_args::CommonArgs;
use super::settings;
use super::status::{permission_error, with_installed_root};
use crate::exit_code;
use crate::output::counts_text;
use crate::output::report::format_millis;
use crate::output::{OutputFormat, Paint, Ui, json, yaml};
use zagent_config::error_chain;
use zagent_config::sanitize;
use zagent_daemon::api::{ApiClient, ClientError, RequestResult, RunRefusedReason, RunRequest};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Tell the daemon to run now
#[derive(Debug, clap::Args)]
pub(super) struct TriggerArgs {
    /// Change nothing, show what would change
    #[arg(long)]
    test: bool,

    /// Only these SLS files, separated by commas
    #[arg(long, value_name = "SLS", value_delimiter = ',')]
    sls: Vec<String>,

    /// Do not contact the remotes first
    #[arg(long)]
    no_fetch: bool,

    /// Wait until the run ends, print its result and exit with its code
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    common: CommonArgs,
}

impl TriggerArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = with_installed_root(settings::load(self.common.config.as_deref())?);
        let client = ApiClient::new(settings.paths().socket());
        let wish =
            RunRequest { test: self.test, sls: self.sls.clone(), fetch: !self.no_fetch, wait: self.wait };
        let ticket = client.trigger(&wish).map_err(to_agent_error)?;
        if !self.wait {
            let words = "run requested; follow it with `zagent status`\n";
            self.print_answer(words.into(), &object!({"ticket": ticket}), ui);
            return Ok(ExitStatus::Success);
        }
        let Some(end) = client.wait(ticket).map_err(to_agent_error)? else {
            let message = "the daemon restarted and lost track of the run";
            let hint = Some("list finished runs with `zagent history`".into());
            return Err(AgentError::Refusal { exit: ExitStatus::Failed, message: message.into(), hint });
        };
        self.print_answer(result_text(&end, self.test, ui.paint), &object!(end), ui);
        Ok(exit_code::status_of(end.exit))
    }

    fn print_answer(&self, text: String, data: &serde_json::Value, ui: &mut Ui<'_>) {
        ui.print(&match self.common.out {
            OutputFormat::Text => text,
            OutputFormat::Json => json(data),
            OutputFormat::Yaml => yaml(&serde_json::from_value::<Value>(data.clone()).unwrap_or_default()),
        });
    }
}

fn to_agent_error(error: ClientError) -> AgentError {
    let message = error_chain(&error);
    let refusal = |exit, hint: Option<&str>| AgentError::Refusal {
        exit,
        message: message.clone(),
        hint: hint.map(str::to_owned),
    };
    match &error {
        ClientError::NoDaemon(_) => {
            let hint = "start it (systemctl start zagent), or run without it: zagent run --once";
            refusal(ExitStatus::Unreachable, Some(hint))
        }
        ClientError::Denied(_) | ClientError::ReadOnly(_) => permission_error(message),
        ClientError::Refused(refused) => match refused.why {
            RunRefusedReason::Invalid => AgentError::usage(message),
            RunRefusedReason::Paused
            | RunRefusedReason::Window
            | RunRefusedReason::Busy
            | RunRefusedReason::Stopping => refusal(ExitStatus::Locked, None),
        },
        _ => refusal(ExitStatus::Failed, None),
    }
}

/// Result of a run as text.
fn result_text(end: &RequestResult, is_test: bool, paint: Paint) -> String {
    let mut out = String::new();
    if let Some(run) = &end.run {
        let verdict = if run.success { paint.green("OK") } else { paint.red("FAILED") };
        let mode = if is_test { " (test: nothing was changed)" } else { "" };
        let took = format_millis(std::time::Duration::from_millis(run.duration_ms).as_secs_f64() * 1000.0);
        let _ =
            writeln!(out, "{verdict}  run {} took {took}{mode}: {}", sanitize(&run.run), counts_text(run));
        for error in &run.errors {
            let _ = writeln!(out, "  {}", paint.red(sanitize(error)));
        }
        let _ = writeln!(out, "{}", paint.dim(format!("full report: zagent history {}", sanitize(&run.run))));
    }
    if let Some(message) = &end.message {
        let _ = writeln!(out, "{}", sanitize(message));
    }
    out
}
