//! `zagent status`: what this node runs, and what happens next.

use jiff::Timestamp;
use zagent_config::Value;
use zagent_config::paths::{DEFAULT_ROOT, Paths};
use zagent_config::settings::{SettingOrigin, Settings};

use super::common_args::CommonArgs;
use super::{settings, warn, watch};
use crate::output::{OutputFormat, StatusView, Ui, json, yaml};
use zagent_config::error_chain;
use zagent_daemon::api::{ApiClient, ClientError};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::pages::{NodeFacts, NodePage, PageDetail};
use zagent_daemon::status::{AgentStatus, files};
use zagent_host::reboot::RebootHost;
use zagent_host::timezone::local_zone;

/// Show the revision of this node, why it is not the newest, and what happens next
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Exit with 1 when attention is needed: a failed run, a refused revision, an expired manifest, no daemon though
    /// remotes are configured, an invalid configuration, nothing ever applied
    #[arg(long)]
    check: bool,

    /// With `--check`: this host runs `zagent run --once` on its own timer, so a missing daemon is not a problem
    #[arg(long, requires = "check")]
    no_daemon: bool,

    /// Print the page of this node as HTML: status, recent runs with diffs, state graph
    #[arg(long, conflicts_with_all = ["check", "watch"])]
    html: bool,

    /// Show it again and again until interrupted: on a terminal in place, in a pipe each line that changed, with the time
    #[arg(long, conflicts_with = "check")]
    watch: bool,

    #[command(flatten)]
    common: CommonArgs,
}

impl StatusArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if self.watch {
            return watch::watch(ui, self.common.out, |ui| self.show(ui));
        }
        self.show(ui)
    }

    fn show(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let mut told = Vec::new();
        let settings = settings::load_or_last_good(self.common.config.as_deref(), None, &mut |words| {
            told.push(words.to_owned());
        })?;
        told.iter().for_each(|words| warn(words, ui));
        let settings = with_installed_root(settings);
        let now = Timestamp::now();
        // Problems that only this command can see, besides those of the status.
        let mut wrong: Vec<String> =
            if told.is_empty() { Vec::new() } else { vec!["the configuration does not load".into()] };
        let status = match ApiClient::new(settings.paths().socket()).status() {
            Ok(status) => status,
            Err(error) => {
                match &error {
                    ClientError::NoDaemon(_) if settings.source.remotes.is_empty() || self.no_daemon => {}
                    ClientError::NoDaemon(_) => wrong.push(NO_DAEMON.into()),
                    ClientError::Denied(_) => {}
                    other => {
                        warn(&error_chain(other), ui);
                        wrong.push("the daemon does not answer".into());
                    }
                }
                status_from_files(&settings, now)?
            }
        };
        if self.html {
            let facts = NodeFacts::read(&settings.paths(), settings.run.keep);
            let detail = PageDetail::Full;
            ui.print(&NodePage { status: &status, facts: &facts, now, zone: local_zone(), detail }.render());
            return Ok(ExitStatus::Success);
        }
        ui.print(&match self.common.out {
            OutputFormat::Text => {
                StatusView { status: &status, now, zone: local_zone(), paint: ui.paint }.render()
            }
            OutputFormat::Json => json(&status),
            OutputFormat::Yaml => yaml(&status_value(&status)),
        });
        if !self.check {
            return Ok(ExitStatus::Success);
        }
        wrong.extend(status.problems());
        wrong.iter().for_each(|what| warn(what, ui));
        Ok(if wrong.is_empty() && status.unread.is_empty() {
            ExitStatus::Success
        } else {
            ExitStatus::Failed
        })
    }
}

/// Why a node with remotes needs a daemon, and what to do.
const NO_DAEMON: &str = "no daemon is running, so nothing follows the remotes: start it with `systemctl start zagent`; \
                         on a host with its own timer, check with `--no-daemon`";

fn status_value(status: &AgentStatus) -> Value {
    serde_json::to_value(status).and_then(serde_json::from_value).unwrap_or_default()
}

/// Settings of the agent installed on this host: a user without write access to its root still asks about
/// that agent, not about a root of their own.
pub(super) fn with_installed_root(mut settings: Settings) -> Settings {
    let is_default =
        settings.effective().iter().any(|e| e.key == "root" && e.origin == SettingOrigin::Default);
    if is_default && std::path::Path::new(DEFAULT_ROOT).exists() {
        settings.set_default_root(DEFAULT_ROOT.into());
    }
    settings
}

/// Status from files, without the daemon. Fails when files cannot be read, because the status would be a
/// guess.
fn status_from_files(settings: &Settings, now: Timestamp) -> Result<AgentStatus, AgentError> {
    let found = files::read_offline(settings, &RebootHost::default(), now, &local_zone());
    if found.denied {
        let message =
            format!("permission denied: cannot read the agent's files in `{}`", settings.root.display());
        return Err(permission_error(message));
    }
    Ok(AgentStatus::from_inputs(found.inputs))
}

/// Tells the daemon that pause, pin, quarantine or the generation changed. Without a daemon, the next run
/// reads the files.
pub(super) fn notify_daemon(paths: &Paths, ui: &mut Ui<'_>) {
    match ApiClient::new(paths.socket()).notify_changed() {
        Ok(()) | Err(ClientError::NoDaemon(_)) => {}
        Err(e) => warn(&format!("{}; the daemon reads the change before its next run", error_chain(&e)), ui),
    }
}

/// Permission error, with a hint about which users are allowed.
pub(super) fn permission_error(message: String) -> AgentError {
    let hint = Some("run it as root or as a member of the group set in `socket_group`".into());
    AgentError::Refusal { exit: ExitStatus::Permission, message, hint }
}
