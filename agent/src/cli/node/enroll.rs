//! `zagent node enroll`: signs which key belongs to a node, and puts that on the board.

use std::path::{Path, PathBuf};

use serde_json::json as object;
use zagent_config::error_chain;
use zagent_config::ids::NodeId;
use zagent_config::settings::{RequiredSignatures, Settings};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::envelope::public_key;
use zagent_rollout::records::Reports;

use crate::cli::rollout::{BoardArgs, open_board_reports, to_agent_error};
use crate::output::{OutputFormat, Ui};

/// Sign that a key belongs to a node, so that drivers count its reports
#[derive(Debug, clap::Args)]
pub(super) struct NodeEnrollArgs {
    /// Node ID
    #[arg(value_name = "ID")]
    id: NodeId,

    /// Public key of the node, or a file with it; default: the key that signs its reports now
    #[arg(value_name = "KEY")]
    node_key: Option<String>,

    /// Private key to sign with, instead of `rollout.key`
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    #[command(flatten)]
    place: BoardArgs,
}

impl NodeEnrollArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let signer = self.signer(&settings)?;
        let mut board = open_board_reports(&settings)?;
        let (line, print) = match &self.node_key {
            Some(text) => given_key(text)?,
            None => self.reported_key(&mut board)?,
        };
        board.enroll(&self.id, &line, settings.fleet.clone(), &signer).map_err(to_agent_error)?;
        self.ensure_accepted(&mut board)?;
        let checked = match &self.node_key {
            Some(_) => String::new(),
            None => format!(
                "; it is the key that reports as {} now: compare it with `ssh-keygen -lf` of the node's key file",
                self.id
            ),
        };
        let words = format!("{} is enrolled with {print}{checked}\n", self.id);
        let data = object!({"success": true, "node": self.id, "key": line, "fingerprint": print});
        self.place.print(&words, &data, ui);
        Ok(ExitStatus::Success)
    }

    fn signer(&self, settings: &Settings) -> Result<PathBuf, AgentError> {
        if settings.trust.require == RequiredSignatures::None {
            let hint = "set `trust.require` and the accepted signers here and on the drivers, or list the keys of the \
                        nodes in `board.allowed_nodes`";
            let message = "nobody could verify an enrolment: `trust.require` is `none`";
            return Err(AgentError::usage_hint(message, hint));
        }
        let key = self.key.clone().or_else(|| settings.rollout.key.clone());
        key.ok_or_else(|| {
            AgentError::usage_hint("no key to sign with", "set `rollout.key`, or use --key FILE")
        })
    }

    /// The one key that signs reports of this node.
    fn reported_key(&self, board: &mut BoardReports) -> Result<(String, String), AgentError> {
        let keys: Vec<_> = board.claimed_keys(&self.id).map_err(to_agent_error)?.into_iter().collect();
        match keys.as_slice() {
            [one] => {
                public_key(one).ok_or_else(|| AgentError::failed(format!("`{one}` is not a public key")))
            }
            [] => Err(AgentError::usage_hint(
                format!("no node `{}` reports on the board", self.id),
                format!("give its public key: zagent node enroll {} KEY", self.id),
            )),
            many => {
                let prints: Vec<String> = many.iter().filter_map(|key| Some(public_key(key)?.1)).collect();
                Err(AgentError::usage_hint(
                    format!("several keys sign reports of `{}`: {}", self.id, prints.join(", ")),
                    format!("give the right one: zagent node enroll {} KEY", self.id),
                ))
            }
        }
    }

    /// An enrolment that its own host does not accept helps nobody.
    fn ensure_accepted(&self, board: &mut BoardReports) -> Result<(), AgentError> {
        let part = zagent_rollout::record::Component::States;
        board.latest_reports(part).map_err(to_agent_error)?;
        if board.is_vouched_for(&self.id) {
            return Ok(());
        }
        let why = board.refused().into_iter().find(|one| one.node == self.id).map(|one| one.why);
        let message = why.unwrap_or_else(|| format!("the enrolment of `{}` is not accepted here", self.id));
        let hint = "check `rollout.allowed_signers` or `trust.allowed_signers`: the line of the signing key must allow \
                    the namespace `zagent-enroll`";
        Err(AgentError::Refusal { exit: ExitStatus::Refused, message, hint: Some(hint.into()) })
    }
}

/// A key as typed, or in a file.
fn given_key(text: &str) -> Result<(String, String), AgentError> {
    if let Some(key) = public_key(text) {
        return Ok(key);
    }
    let read = std::fs::read_to_string(Path::new(text)).map_err(|error| {
        let message =
            format!("`{text}` is neither a public key nor a file with one: {}", error_chain(&error));
        AgentError::usage_hint(message, "give a line such as `ssh-ed25519 AAAA…`, or a .pub file")
    })?;
    public_key(&read).ok_or_else(|| AgentError::usage(format!("`{text}` has no public key")))
}
