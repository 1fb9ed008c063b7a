//! `zagent doctor`: whether this host can run the agent, one line a check.

use std::fmt::Write;

use jiff::Timestamp;

use super::common::Common;
use super::settings;
use crate::doctor::{Finding, Scope, Verdict, examine, to_json};
use crate::output::{Format, Paint, Ui, count, harmless, json, yaml};
use crate::report::{Exit, Trouble};

/// Look for what is wrong with this host as a home of the agent; changes nothing
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Ask nobody over the network
    #[arg(long)]
    offline: bool,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let findings = self.findings();
        ui.data(&match self.common.out {
            Format::Text => text(&findings, ui.paint),
            Format::Json => json(&to_json(&findings)),
            Format::Yaml => yaml(&serde_json::from_value(to_json(&findings)).unwrap_or_default()),
        });
        let failed = findings.iter().any(|f| f.verdict == Verdict::Fail);
        Ok(if failed { Exit::Failed } else { Exit::Fine })
    }

    fn findings(&self) -> Vec<Finding> {
        let settings = match settings::load(self.common.config.as_deref()) {
            Ok(settings) => settings,
            // Without settings nobody knows what else to look at.
            Err(Trouble::Configuration(faults)) => {
                let told = |fault: &zagent_config::Fault| {
                    let hint =
                        fault.hint.clone().unwrap_or_else(|| format!("zagent explain {}", fault.code.id));
                    Finding::fail("config", fault.to_string(), hint)
                };
                return faults.0.iter().map(told).collect();
            }
            Err(other) => {
                let message = other.to_json()["errors"][0]["message"].as_str().unwrap_or_default().to_owned();
                return vec![Finding::fail("config", message, "zagent config show")];
            }
        };
        let scope = Scope { offline: self.offline, now: Timestamp::now(), system: "/".into() };
        let mut findings = vec![Finding::ok("config", format!("loads; this node is {}", settings.id))];
        findings.extend(examine(&settings, &scope));
        findings
    }
}

fn text(findings: &[Finding], paint: Paint) -> String {
    let width = findings.iter().map(|f| f.check.len()).max().unwrap_or(0);
    let mut out = String::new();
    for Finding { check, verdict, message, hint } in findings {
        let mark = match verdict {
            Verdict::Ok => paint.green("ok  "),
            Verdict::Warn => paint.yellow("warn"),
            Verdict::Fail => paint.red("fail"),
        };
        let _ = writeln!(out, "{mark}  {check:width$}  {}", harmless(message));
        if let Some(hint) = hint {
            let _ = writeln!(out, "      {:width$}  {} {}", "", paint.blue("="), harmless(hint));
        }
    }
    let number = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let (ok, warn, fail) = (number(Verdict::Ok), number(Verdict::Warn), number(Verdict::Fail));
    let _ = writeln!(out, "\n{ok} ok, {}, {}", count(warn, "warning"), count(fail, "failure"));
    out
}
