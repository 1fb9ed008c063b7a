//! `zagent self rollback|status`.

use clap::Subcommand;
use serde_json::json as object;
use zagent_rollout::watchdog::{Answer, Ask};

use super::common::Common;
use super::settings;
use super::status::installed;
use super::watchdog::{StatusArgs, ask};
use crate::output::{Format, Ui};
use crate::report::{Exit, Trouble};

/// Look at the agent's own binary, or go back to the one before
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Go back to the version before, also when this one was confirmed; it is not taken again unless it is ordered by name
    Rollback(Rollback),
    /// Tell which version runs, since when, and where it stands in a rollout
    Status(StatusArgs),
}

#[derive(Debug, clap::Args)]
struct Rollback {
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "somebody on the host asked for it")]
    reason: String,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match &self.what {
            What::Rollback(rollback) => rollback.common.out,
            What::Status(status) => status.common.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.what {
            What::Rollback(rollback) => rollback.run(ui),
            What::Status(status) => status.run(ui),
        }
    }
}

impl Rollback {
    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = installed(settings::load(self.common.config.as_deref())?);
        let question = Ask::GoBack { reason: self.reason.clone() };
        match ask(&settings.paths().watchdog_socket(), &question)? {
            Answer::Done { words } => {
                self.common.print(&words, object!({"done": words}), ui);
                Ok(Exit::Fine)
            }
            Answer::Refused { why } => Err(Trouble::failed(why)),
            Answer::Status(_) => Err(Trouble::failed("the watchdog gave an answer that makes no sense")),
        }
    }
}
