//! `zagent pin` and `zagent unpin`: fix the revision source of this node.

use jiff::Timestamp;
use serde_json::json as object;

use super::common_args::CommonArgs;
use super::pause::{clean_reason, to_agent_error};
use super::settings;
use super::status::notify_daemon;
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;
use zagent_daemon::operator::pin::{NodePin, PinTarget, PinTargetError};
use zagent_host::timezone::local_zone;

/// Pin this node to a branch or a commit
#[derive(Debug, clap::Args)]
pub(super) struct PinArgs {
    /// Branch, or full commit ID
    #[arg(value_name = "BRANCH|COMMIT", allow_hyphen_values = true)]
    to: String,

    /// Reason, shown in `zagent status`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    common: CommonArgs,
}

/// Follow the configured branch again
#[derive(Debug, clap::Args)]
pub(super) struct UnpinArgs {
    #[command(flatten)]
    common: CommonArgs,
}

impl PinArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let to: PinTarget = self.to.parse().map_err(|error: PinTargetError| {
            let hint = match &error {
                PinTargetError::Short(text) => {
                    format!(
                        "use the full commit ID (git rev-parse {text}), or refs/heads/{text} for a branch"
                    )
                }
                PinTargetError::Name(_) => {
                    "use a branch such as `main`, or a full commit ID of 40 digits".into()
                }
            };
            AgentError::usage_hint(error.to_string(), hint)
        })?;
        let settings = settings::load(self.common.config.as_deref())?;
        let now = Timestamp::now();
        let pin =
            NodePin { to, since: now, by: current_user(), reason: clean_reason(self.reason.as_deref()) };
        pin.write(&settings.paths()).map_err(to_agent_error)?;
        notify_daemon(&settings.paths(), ui);
        self.common.print(&pin.summary(now, &local_zone()), object!({"success": true, "pin": pin}), ui);
        Ok(ExitStatus::Success)
    }
}

impl UnpinArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(self.common.config.as_deref())?;
        let paths = settings.paths();
        // The content no longer matters, even if it is damaged.
        let was = NodePin::read(&paths).unwrap_or_default();
        let cleared = NodePin::clear(&paths).map_err(to_agent_error)?;
        let words = match (&was, cleared) {
            (Some(pin), _) => format!("unpinned; it was {}", pin.summary(Timestamp::now(), &local_zone())),
            (None, true) => "unpinned; the pin file was damaged".into(),
            (None, false) => "not pinned".into(),
        };
        notify_daemon(&settings.paths(), ui);
        self.common.print(&words, object!({"success": true, "was": was}), ui);
        Ok(ExitStatus::Success)
    }
}
