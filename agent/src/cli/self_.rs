//! `zagent self rollback|status`.

use clap::Subcommand;
use serde_json::json as object;
use zagent_rollout::watchdog::{WatchdogRequest, WatchdogResponse};

use super::common_args::CommonArgs;
use super::settings;
use super::status::with_installed_root;
use super::watchdog::{WatchdogStatusArgs, ask_watchdog};
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{CliError, ExitStatus};

/// Look at the agent's own binary, or go back to the one before
#[derive(Debug, clap::Args)]
pub(super) struct SelfArgs {
    #[command(subcommand)]
    what: SelfCommand,
}

#[derive(Debug, Subcommand)]
enum SelfCommand {
    /// Go back to the version before, also when this one was confirmed; it is not taken again unless it is ordered by name
    Rollback(SelfRollbackArgs),
    /// Tell which version runs, since when, and where it stands in a rollout
    Status(WatchdogStatusArgs),
}

#[derive(Debug, clap::Args)]
struct SelfRollbackArgs {
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "somebody on the host asked for it")]
    reason: String,

    #[command(flatten)]
    common: CommonArgs,
}

impl SelfArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            SelfCommand::Rollback(rollback) => rollback.common.out,
            SelfCommand::Status(status) => status.common.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        match &self.what {
            SelfCommand::Rollback(rollback) => rollback.run(ui),
            SelfCommand::Status(status) => status.run(ui),
        }
    }
}

impl SelfRollbackArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let settings = with_installed_root(settings::load(self.common.config.as_deref())?);
        let question = WatchdogRequest::GoBack { reason: self.reason.clone() };
        match ask_watchdog(&settings.paths().watchdog_socket(), &question)? {
            WatchdogResponse::Done { words } => {
                self.common.print(&words, object!({"done": words}), ui);
                Ok(ExitStatus::Success)
            }
            WatchdogResponse::Refused { why } => Err(CliError::failed(why)),
            WatchdogResponse::Status(_) => {
                Err(CliError::failed("the watchdog gave an answer that makes no sense"))
            }
        }
    }
}
