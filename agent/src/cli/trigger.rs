//! `zagent trigger`.

use std::fmt::Write;

use serde_json::json as object;
use zagent_config::Value;

use super::common::Common;
use super::settings;
use super::status::{denied, installed};
use crate::api::{Client, ClientError, End, RefusedWhy, Wish};
use crate::output::report::seconds;
use crate::output::{Format, Paint, Ui, harmless, json, yaml};
use crate::report::{Exit, Trouble, chain};
use crate::status::tally;

/// Ask the daemon for a run now
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Change nothing; tell what would be done
    #[arg(long)]
    test: bool,

    /// Only these SLS, separated by commas
    #[arg(long, value_name = "SLS", value_delimiter = ',')]
    sls: Vec<String>,

    /// Do not ask the remotes first
    #[arg(long)]
    no_fetch: bool,

    /// Wait for the end of the run, print its result and exit with its code
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = installed(settings::load(self.common.config.as_deref())?);
        let client = Client::new(settings.paths().socket());
        let wish = Wish { test: self.test, sls: self.sls.clone(), fetch: !self.no_fetch, wait: self.wait };
        let ticket = client.trigger(&wish).map_err(trouble)?;
        if !self.wait {
            let words = "asked for a run; `zagent status` tells what became of it\n";
            self.print(words.into(), &object!({"ticket": ticket}), ui);
            return Ok(Exit::Fine);
        }
        let Some(end) = client.wait(ticket).map_err(trouble)? else {
            let message = "the daemon was restarted and knows nothing of the run any more";
            let hint = Some("`zagent history` lists the runs that ended".into());
            return Err(Trouble::Refusal { exit: Exit::Failed, message: message.into(), hint });
        };
        self.print(text(&end, self.test, ui.paint), &object!(end), ui);
        Ok(exit(end.exit))
    }

    fn print(&self, text: String, data: &serde_json::Value, ui: &mut Ui<'_>) {
        ui.data(&match self.common.out {
            Format::Text => text,
            Format::Json => json(data),
            Format::Yaml => yaml(&serde_json::from_value::<Value>(data.clone()).unwrap_or_default()),
        });
    }
}

fn trouble(error: ClientError) -> Trouble {
    let message = chain(&error);
    let refusal = |exit, hint: Option<&str>| Trouble::Refusal {
        exit,
        message: message.clone(),
        hint: hint.map(str::to_owned),
    };
    match &error {
        ClientError::NoDaemon(_) => {
            let hint = "start it (systemctl start zagent), or do without it: zagent run --once";
            refusal(Exit::Unreachable, Some(hint))
        }
        ClientError::Denied(_) => denied(message),
        ClientError::Refused(refused) => match refused.why {
            RefusedWhy::Invalid => Trouble::usage(message),
            RefusedWhy::Paused | RefusedWhy::Window | RefusedWhy::Busy | RefusedWhy::Stopping => {
                refusal(Exit::Locked, None)
            }
        },
        _ => refusal(Exit::Failed, None),
    }
}

/// How the run ended, for people.
fn text(end: &End, is_test: bool, paint: Paint) -> String {
    let mut out = String::new();
    if let Some(run) = &end.run {
        let verdict = if run.success { paint.green("OK") } else { paint.red("FAILED") };
        let mode = if is_test { " (test: nothing was changed)" } else { "" };
        let took = seconds(std::time::Duration::from_millis(run.duration_ms).as_secs_f64() * 1000.0);
        let _ = writeln!(out, "{verdict}  run {} took {took}{mode}: {}", harmless(&run.run), tally(run));
        for error in &run.errors {
            let _ = writeln!(out, "  {}", paint.red(harmless(error)));
        }
        // A dry run leaves no trace in the history.
        if !is_test {
            let _ =
                writeln!(out, "{}", paint.dim(format!("all of it: zagent history {}", harmless(&run.run))));
        }
    }
    if let Some(message) = &end.message {
        let _ = writeln!(out, "{}", harmless(message));
    }
    out
}

fn exit(code: u8) -> Exit {
    let codes = [
        Exit::Fine,
        Exit::Usage,
        Exit::Failures,
        Exit::Both,
        Exit::NotCompiled,
        Exit::Unreachable,
        Exit::Locked,
        Exit::Refused,
        Exit::Permission,
    ];
    codes.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Exit::Failed)
}
