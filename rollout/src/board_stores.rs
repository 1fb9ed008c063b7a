//! Records on boards: values of the driver and the nodes in, values of a board out, and back.
//!
//! Law: an unreadable record is reported, and does not hide the others; a record that is not accepted here is named
//! with the reason and counts for nothing (held by `a_bad_record_does_not_hide_the_others`,
//! `a_record_is_obeyed_only_in_its_fleet_and_with_enough_signatures`).

#![expect(clippy::disallowed_methods, reason = "signatures of records are judged at the time they are read")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::error_chain;
use zagent_config::ids::RolloutId;
use zagent_config::settings::{BoardKind, RequiredSignatures, Settings};

use crate::acceptance::{OrderSignatures, RecordPolicy, sign_order};
use crate::board::{self, Board, BoardError, BoardWrite, GitBoard, GitBoardConfig, VersionToken};
pub use crate::board_reports::BoardReports;
use crate::record::{RolloutRecord, UNBOUND_SCHEMA};
use crate::records::{Records, SkippedRecord, VersionedValue};
use crate::stored_record::{parse_record, record_text, seal_order};

/// The key prefix of records.
const ROLLOUT_PREFIX: &str = "rollout/";
/// The value of `rollout.url` when records are on the board itself.
pub const ON_BOARD: &str = "board";

/// Records on a board.
pub struct BoardRecords {
    board: Box<dyn Board>,
    policy: RecordPolicy,
    /// The key that signs orders.
    key: Option<PathBuf>,
    /// True when a record that is not accepted is shown all the same.
    is_review: bool,
    skipped: Vec<SkippedRecord>,
    /// Skipped records that were already logged, each version once.
    logged: BTreeMap<RolloutId, VersionToken>,
}

impl BoardRecords {
    /// Records on this board, of no fleet and without signatures.
    #[must_use]
    pub fn new(board: Box<dyn Board>) -> Self {
        Self::with_policy(board, RecordPolicy::default(), None)
    }

    /// Records on this board that this policy accepts; orders are signed with the key in a file.
    #[must_use]
    pub fn with_policy(board: Box<dyn Board>, policy: RecordPolicy, key: Option<PathBuf>) -> Self {
        let (skipped, logged) = (Vec::new(), BTreeMap::new());
        Self { board, policy, key, is_review: false, skipped, logged }
    }

    /// Records at the place in the settings: `rollout.url`, the first remote that is a repository, or the board.
    ///
    /// # Errors
    /// Fails when none is configured.
    pub fn open(settings: &Settings) -> Result<Self, BoardError> {
        let here = |board| {
            Self::with_policy(board, RecordPolicy::from_settings(settings), settings.rollout.key.clone())
        };
        let on_board = settings.rollout.url.as_deref() == Some(ON_BOARD);
        let git = if on_board {
            None
        } else {
            GitBoardConfig::from_rollout_settings(settings).map(Some).or_else(|error| {
                // On a single machine there may be no repository.
                if settings.rollout.url.is_none() { Ok(None) } else { Err(error) }
            })?
        };
        if let Some(place) = git {
            return Ok(here(Box::new(GitBoard::new(place)?)));
        }
        let refused = |way: &str| BoardError::Refused { board: "of rollouts".into(), message: way.into() };
        if settings.trust.require != RequiredSignatures::None && settings.board.kind == BoardKind::Nats {
            return Err(refused(
                "`trust.require` accepts only signed records, and records on NATS are not signed: set `rollout.url` to a \
                 repository",
            ));
        }
        let way =
            "no rollout repository is configured: set `rollout.url` to a repository, or set `board.kind`";
        board::open(settings)?.map(here).ok_or_else(|| refused(way))
    }

    /// The same records, also those that are not accepted: for people who look at them, sign or abort them.
    #[must_use]
    pub fn for_review(self) -> Self {
        Self { is_review: true, ..self }
    }

    /// Why a record is skipped.
    fn refusal(&self, key: &str, record: &RolloutRecord) -> Option<(BoardError, bool)> {
        let refusal = self.policy.judge(record, Timestamp::now()).err().filter(|_| !self.is_review)?;
        let (message, is_incomplete) = (refusal.text(record), refusal.is_incomplete());
        Some((BoardError::NotAccepted { key: key.to_owned(), message, is_incomplete }, refusal.is_foreign()))
    }

    /// The record with its order sealed, and signed when it is new.
    fn sealed(&self, key: &str, record: &RolloutRecord, is_new: bool) -> Result<RolloutRecord, BoardError> {
        let mut record = record.clone();
        if record.sealed.is_some() || !is_new || record.schema <= UNBOUND_SCHEMA {
            return Ok(record);
        }
        if let Some(signer) = &self.key {
            sign_order(&mut record, signer).map_err(|error| unusable_key(&error))?;
        } else if self.policy.needs_signatures() {
            let message =
                "`trust.require` accepts only signed records: set `rollout.key` to the signing key".into();
            return Err(BoardError::Refused { board: "of rollouts".into(), message });
        } else {
            let damaged = |message| BoardError::Damaged { key: key.to_owned(), message };
            record.sealed = Some(Box::new(seal_order(&record).map_err(damaged)?));
        }
        Ok(record)
    }
}

fn unusable_key(error: &dyn std::error::Error) -> BoardError {
    BoardError::Refused { board: "of rollouts".into(), message: error_chain(error) }
}

fn parse_stored(key: &str, id: &RolloutId, bytes: &[u8]) -> Result<RolloutRecord, BoardError> {
    parse_record(id, bytes).map_err(|message| BoardError::Damaged { key: key.to_owned(), message })
}

/// The rollout that a key is about.
fn rollout_of(key: &str) -> Option<RolloutId> {
    key.strip_prefix(ROLLOUT_PREFIX).and_then(|id| id.parse().ok())
}

impl Records for BoardRecords {
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError> {
        let key = format!("{ROLLOUT_PREFIX}{id}");
        let Some(entry) = self.board.get(&key)? else { return Ok(None) };
        let value = parse_stored(&key, id, &entry.value)?;
        match self.refusal(&key, &value) {
            Some((error, _)) => Err(error),
            None => Ok(Some(VersionedValue { value, token: entry.token })),
        }
    }

    fn put(
        &mut self,
        record: &RolloutRecord,
        expected: Option<&VersionToken>,
        note: &str,
        lasting: bool,
    ) -> Result<VersionToken, BoardError> {
        let key = format!("{ROLLOUT_PREFIX}{}", record.id);
        let record = self.sealed(&key, record, expected.is_none())?;
        let broken = |message| BoardError::Damaged { key: key.clone(), message };
        let text = record_text(&record).map_err(broken)?;
        self.board.put(&key, BoardWrite { value: text.as_bytes(), expected, note, lasting })
    }

    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError> {
        let (mut all, mut skipped) = (Vec::new(), Vec::new());
        for (key, entry) in self.board.list(ROLLOUT_PREFIX)? {
            let Some(id) = rollout_of(&key) else { continue };
            let read = parse_stored(&key, &id, &entry.value);
            let (error, is_foreign, record) = match read {
                Ok(value) => match self.refusal(&key, &value) {
                    None => {
                        all.push(VersionedValue { value, token: entry.token });
                        continue;
                    }
                    Some((error, is_foreign)) => (error, is_foreign, Some(Box::new(value))),
                },
                Err(error) => (error, false, None),
            };
            if self.logged.get(&id) != Some(&entry.token) {
                tracing::warn!(rollout = %id, %error, "skipped");
                self.logged.insert(id.clone(), entry.token);
            }
            let why = skip_reason(&error);
            skipped.push(SkippedRecord { id, why, record, is_foreign });
        }
        // The board itself has logged these.
        for entry in self.board.skipped() {
            let Some(id) = rollout_of(&entry.key) else { continue };
            let record = entry.value.and_then(|value| parse_record(&id, &value).ok()).map(Box::new);
            skipped.push(SkippedRecord { id, why: entry.why, record, is_foreign: false });
        }
        self.skipped = skipped;
        Ok(all)
    }

    fn skipped(&self) -> Vec<SkippedRecord> {
        self.skipped.clone()
    }

    fn signatures(&self, record: &RolloutRecord) -> OrderSignatures {
        self.policy.signatures(record, Timestamp::now())
    }

    fn delete(&mut self, id: &RolloutId, expected: &VersionToken) -> Result<(), BoardError> {
        self.board.delete(&format!("{ROLLOUT_PREFIX}{id}"), expected)
    }
}

fn skip_reason(error: &BoardError) -> String {
    match error {
        BoardError::NotAccepted { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
