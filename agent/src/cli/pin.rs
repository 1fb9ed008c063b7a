//! `zagent pin` and `zagent unpin`: fix the revision source of this node.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json as object;

use super::common_args::CommonArgs;
use super::pause::{clean_reason, to_agent_error};
use super::status::notify_daemon;
use super::{settings, warn};
use crate::output::{OutputFormat, Ui};
use zagent_cache::source::{Deadline, DirSource, RemoteClient};
use zagent_config::error_chain;
use zagent_config::settings::SourceSettings;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;
use zagent_daemon::operator::pin::{NodePin, PinTarget, PinTargetError};
use zagent_host::timezone::local_zone;

/// How long a remote may take to say whether it has the branch.
const POLL_TIMEOUT: Duration = Duration::from_secs(20);

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
        if let PinTarget::Branch(branch) = &to {
            check_branch(&settings.source, branch, ui)?;
        }
        let now = Timestamp::now();
        let pin =
            NodePin { to, since: now, by: current_user(), reason: clean_reason(self.reason.as_deref()) };
        pin.write(&settings.paths()).map_err(to_agent_error)?;
        notify_daemon(&settings.paths(), ui);
        self.common.print(&pin.summary(now, &local_zone()), object!({"success": true, "pin": pin}), ui);
        Ok(ExitStatus::Success)
    }
}

/// Refuses a branch that no remote has. A remote that does not answer cannot tell, and a directory has no branches.
fn check_branch(source: &SourceSettings, branch: &str, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let is_directory =
        |url: &str| DirSource::is_plain_dir(Path::new(url.strip_prefix("file://").unwrap_or(url)));
    let (mut missing, mut unreachable) = (None, Vec::new());
    for remote in source.remotes.iter().filter(|remote| !is_directory(&remote.url)) {
        let deadline = || Deadline::after(POLL_TIMEOUT.min(source.timeout));
        let polled = RemoteClient::new(remote, source).and_then(|mut client| {
            let heads = client.poll(&[branch], deadline())?;
            let is_there = heads.into_iter().next().flatten().is_some();
            Ok(if is_there { None } else { Some(client.no_branch_error(branch, deadline())) })
        });
        match polled {
            Ok(None) => return Ok(()),
            Ok(Some(error)) => missing = Some(error),
            Err(error) => unreachable.push(error_chain(&error)),
        }
    }
    match missing {
        Some(error) if unreachable.is_empty() => Err(AgentError::usage_hint(
            error_chain(&error),
            "push the branch first, or pin another one; list them with `git ls-remote --heads URL`",
        )),
        _ => {
            for words in unreachable {
                warn(&format!("cannot check whether the branch `{branch}` exists: {words}"), ui);
            }
            Ok(())
        }
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
