//! `zagent doctor`: checks whether this host can run the agent, one line per check.

use std::fmt::Write;

use jiff::Timestamp;

use super::common_args::CommonArgs;
use super::settings;
use crate::doctor::{DoctorFinding, DoctorScope, DoctorStatus, run_checks, to_json};
use crate::output::{OutputFormat, Paint, Ui, json, pluralize, yaml};
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Check this host for problems that affect the agent; changes nothing
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Skip checks that need the network
    #[arg(long)]
    offline: bool,

    #[command(flatten)]
    common: CommonArgs,
}

impl DoctorArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let findings = self.run_doctor();
        ui.print(&match self.common.out {
            OutputFormat::Text => findings_text(&findings, ui.paint),
            OutputFormat::Json => json(&to_json(&findings)),
            OutputFormat::Yaml => yaml(&serde_json::from_value(to_json(&findings)).unwrap_or_default()),
        });
        let failed = findings.iter().any(|f| f.verdict == DoctorStatus::Fail);
        Ok(if failed { ExitStatus::Failed } else { ExitStatus::Success })
    }

    fn run_doctor(&self) -> Vec<DoctorFinding> {
        let settings = match settings::load(self.common.config.as_deref()) {
            Ok(settings) => settings,
            // Without settings, no other check can run.
            Err(AgentError::Configuration(faults)) => {
                let told = |fault: &zagent_config::Diagnostic| {
                    let hint =
                        fault.hint.clone().unwrap_or_else(|| format!("zagent explain {}", fault.code.id));
                    DoctorFinding::fail("config", fault.to_string(), hint)
                };
                return faults.0.iter().map(told).collect();
            }
            Err(other) => {
                let message = other.to_json()["errors"][0]["message"].as_str().unwrap_or_default().to_owned();
                return vec![DoctorFinding::fail("config", message, "zagent config show")];
            }
        };
        let scope = DoctorScope { offline: self.offline, now: Timestamp::now(), system: "/".into() };
        let mut findings = vec![DoctorFinding::ok("config", format!("valid; this node is {}", settings.id))];
        findings.extend(run_checks(&settings, &scope));
        findings
    }
}

fn findings_text(findings: &[DoctorFinding], paint: Paint) -> String {
    let width = findings.iter().map(|f| f.check.len()).max().unwrap_or(0);
    let mut out = String::new();
    for DoctorFinding { check, verdict, message, hint } in findings {
        let mark = match verdict {
            DoctorStatus::Ok => paint.green("ok  "),
            DoctorStatus::Warn => paint.yellow("warn"),
            DoctorStatus::Fail => paint.red("fail"),
        };
        let _ = writeln!(out, "{mark}  {check:width$}  {}", sanitize(message));
        if let Some(hint) = hint {
            let _ = writeln!(out, "      {:width$}  {} {}", "", paint.blue("="), sanitize(hint));
        }
    }
    let number = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let (ok, warn, fail) = (number(DoctorStatus::Ok), number(DoctorStatus::Warn), number(DoctorStatus::Fail));
    let _ = writeln!(out, "\n{ok} ok, {}, {}", pluralize(warn, "warning"), pluralize(fail, "failure"));
    out
}
