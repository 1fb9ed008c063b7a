//! `zagent rollout sign`: adds the signature of one more person to the order of a rollout.
//!
//! Only the order is signed, exactly as it was written; its text is printed, so that people see what they sign.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::ids::RolloutId;
use zagent_config::settings::RequiredSignatures;
use zagent_rollout::acceptance::{OrderSignatures, sign_order};
use zagent_rollout::board::BoardError;
use zagent_rollout::record::RolloutRecord;
use zagent_rollout::records::Records;

use super::board_args::{self, BoardArgs};
use super::change::MAX_ATTEMPTS;
use super::load_record;
use crate::output::{OutputFormat, Ui};
use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;

/// Add a signature to the order of a rollout, for fleets with `trust.threshold`
#[derive(Debug, clap::Args)]
pub(super) struct RolloutSignArgs {
    /// Rollout ID
    #[arg(value_name = "ID")]
    id: RolloutId,

    /// Private key to sign with, instead of `rollout.key`
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    #[command(flatten)]
    place: BoardArgs,
}

impl RolloutSignArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let mut settings = self.place.settings()?;
        if let Some(key) = &self.key {
            settings.rollout.key = Some(key.clone());
        }
        if settings.trust.require == RequiredSignatures::None {
            let hint = "set `trust.require` and `trust.threshold` in the configuration of the nodes and of this host";
            return Err(AgentError::usage_hint(
                "no signature is needed here: `trust.require` is `none`",
                hint,
            ));
        }
        let Some(key) = settings.rollout.key.clone() else {
            let hint = "set `rollout.key`, or use --key FILE";
            return Err(AgentError::usage_hint("no key to sign with", hint));
        };
        let mut records = board_args::open_records_for_review(&settings)?;
        let (record, signed) = self.add_signature(records.as_mut(), &key)?;
        let order = record.sealed.as_ref().map(|sealed| sealed.text.clone()).unwrap_or_default();
        let words = format!("{order}\n{}\n", signed_text(&record, &signed));
        let data = object!({
            "success": true, "id": record.id, "order": order,
            "signatures": {"signers": signed.signers, "needed": signed.needed},
        });
        self.place.print(&words, &data, ui);
        Ok(ExitStatus::Success)
    }

    /// Signs and writes, retrying while others write.
    fn add_signature(
        &self,
        records: &mut dyn Records,
        key: &std::path::Path,
    ) -> Result<(RolloutRecord, OrderSignatures), AgentError> {
        for _ in 0..MAX_ATTEMPTS {
            let held = load_record(records, &self.id)?;
            let before = records.signatures(&held.value);
            self.ensure_open(&held.value)?;
            let mut next = held.value.clone();
            sign_order(&mut next, key).map_err(|error| AgentError::failed(error_chain(&error)))?;
            next.serial = next.serial.saturating_add(1);
            let after = records.signatures(&next);
            if after.signers.len() <= before.signers.len() {
                return Err(self.no_new_signature(&before, key));
            }
            let note = format!("signed by {}: {} of {}", current_user(), after.signers.len(), after.needed);
            match records.put(&next, Some(&held.token), &note, true) {
                Ok(_) => return Ok((next, after)),
                // The next read shows whether it was written.
                Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
                Err(error) => return Err(board_args::to_agent_error(error)),
            }
        }
        Err(AgentError::locked(format!("others keep writing `{}`: it was not signed", self.id), "try again"))
    }

    fn ensure_open(&self, record: &RolloutRecord) -> Result<(), AgentError> {
        let now = Timestamp::now();
        let why = if record.state.is_final() {
            format!("it is {}", record.state.name())
        } else if record.is_expired(now) {
            format!("it expired at {:.0}", record.expires_at())
        } else {
            return Ok(());
        };
        let hint = "start a new one with `zagent rollout start`".to_owned();
        let message = format!("`{}` needs no signature any more: {why}", self.id);
        Err(AgentError::Refusal { exit: ExitStatus::Failed, message, hint: Some(hint) })
    }

    fn no_new_signature(&self, before: &OrderSignatures, key: &std::path::Path) -> AgentError {
        let whom = if before.signers.is_empty() { "nobody".to_owned() } else { before.signers.join(", ") };
        let message = format!(
            "the key `{}` adds no signature to `{}`, which {whom} signed: it is the key of the same person, or it is \
             not accepted for records",
            key.display(),
            self.id
        );
        let hint =
            "check `rollout.allowed_signers` or `trust.allowed_signers`, and its `namespaces`".to_owned();
        AgentError::Refusal { exit: ExitStatus::Refused, message, hint: Some(hint) }
    }
}

fn signed_text(record: &RolloutRecord, signed: &OrderSignatures) -> String {
    let (id, have, needed) = (&record.id, signed.signers.len(), signed.needed);
    let whom = signed.signers.join(", ");
    match needed.saturating_sub(have) {
        0 => format!("{id} has {have} of {needed} signatures ({whom}): nodes follow it"),
        1 => format!("{id} has {have} of {needed} signatures ({whom}): one more person must sign it"),
        more => format!("{id} has {have} of {needed} signatures ({whom}): {more} more people must sign it"),
    }
}
