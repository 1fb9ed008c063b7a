//! `zagent self install|uninstall|rollback|status`: the agent's own binary.

use clap::Subcommand;
use serde_json::json as object;
use zagent_rollout::watchdog::{WatchdogRequest, WatchdogResponse};

use super::common_args::CommonArgs;
use super::self_install::{SelfInstallArgs, SelfUninstallArgs};
use super::settings;
use super::status::with_installed_root;
use super::watchdog::{WatchdogStatusArgs, ask_watchdog};
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Install, remove or show the agent's binary, or roll back to the previous one
#[derive(Debug, clap::Args)]
pub(super) struct SelfArgs {
    #[command(subcommand)]
    what: SelfCommand,
}

#[derive(Debug, Subcommand)]
enum SelfCommand {
    /// Roll back to the previous version, or without one to the packaged version, even when this one is
    /// confirmed; this version is used again only when requested by name
    Rollback(SelfRollbackArgs),
    /// Show the running version, its uptime and its rollout state
    Status(WatchdogStatusArgs),
    /// Install this binary with its units, manual pages, completions and a sample configuration
    Install(SelfInstallArgs),
    /// Remove what `self install` installed; keeps the configuration and the state
    Uninstall(SelfUninstallArgs),
}

#[derive(Debug, clap::Args)]
struct SelfRollbackArgs {
    /// Reason, for the record
    #[arg(long, value_name = "TEXT", default_value = "requested on the host")]
    reason: String,

    #[command(flatten)]
    common: CommonArgs,
}

impl SelfArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            SelfCommand::Rollback(rollback) => rollback.common.out,
            SelfCommand::Status(status) => status.common.out,
            SelfCommand::Install(_) | SelfCommand::Uninstall(_) => OutputFormat::Text,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.what {
            SelfCommand::Rollback(rollback) => rollback.run(ui),
            SelfCommand::Status(status) => status.run(ui),
            SelfCommand::Install(install) => install.run(ui),
            SelfCommand::Uninstall(uninstall) => uninstall.run(ui),
        }
    }
}

impl SelfRollbackArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = with_installed_root(settings::load(self.common.config.as_deref())?);
        let question = WatchdogRequest::GoBack { reason: self.reason.clone() };
        match ask_watchdog(&settings.paths().watchdog_socket(), &question)? {
            WatchdogResponse::Done { words } => {
                self.common.print(&words, object!({"done": words}), ui);
                Ok(ExitStatus::Success)
            }
            WatchdogResponse::Refused { why } => Err(AgentError::failed(why)),
            WatchdogResponse::Status(_) | WatchdogResponse::History(_) => {
                Err(AgentError::failed("the watchdog sent an unexpected response"))
            }
        }
    }
}
