//! `zagent pin` and `zagent unpin`.

use jiff::Timestamp;
use serde_json::json as object;

use super::common::Common;
use super::pause::{reason, trouble};
use super::settings;
use super::status::look_again;
use crate::operate::pin::{NoTarget, Pin, To};
use crate::operate::who;
use crate::output::{Format, Ui, local_zone};
use crate::report::{Exit, Trouble};

/// Keep this node on a branch or a commit
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A branch, or all of a commit's id
    #[arg(value_name = "BRANCH|COMMIT", allow_hyphen_values = true)]
    to: String,

    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Follow the configured branch again
#[derive(Debug, clap::Args)]
pub(super) struct Unpin {
    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let to: To = self.to.parse().map_err(|error: NoTarget| {
            let hint = match &error {
                NoTarget::Short(text) => {
                    format!("write all of it (git rev-parse {text}), or refs/heads/{text} for a branch")
                }
                NoTarget::Name(_) => "write a branch such as `main`, or the 40 digits of a commit".into(),
            };
            Trouble::usage_hint(error.to_string(), hint)
        })?;
        let settings = settings::load(self.common.config.as_deref())?;
        let now = Timestamp::now();
        let pin = Pin { to, since: now, by: who(), reason: reason(self.reason.as_deref()) };
        pin.write(&settings.paths()).map_err(trouble)?;
        look_again(&settings.paths(), ui);
        self.common.print(&pin.words(now, &local_zone()), object!({"success": true, "pin": pin}), ui);
        Ok(Exit::Fine)
    }
}

impl Unpin {
    pub(super) const fn format(&self) -> Format {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = settings::load(self.common.config.as_deref())?;
        let paths = settings.paths();
        // What is in it does not matter any more, damaged or not.
        let was = Pin::read(&paths).unwrap_or_default();
        let cleared = Pin::clear(&paths).map_err(trouble)?;
        let words = match (&was, cleared) {
            (Some(pin), _) => format!("unpinned; it was {}", pin.words(Timestamp::now(), &local_zone())),
            (None, true) => "unpinned; the pin was damaged".into(),
            (None, false) => "it was not pinned".into(),
        };
        look_again(&settings.paths(), ui);
        self.common.print(&words, object!({"success": true, "was": was}), ui);
        Ok(Exit::Fine)
    }
}
