//! Records and reports on boards: values of the driver and the nodes in, values of a board out, and back.
//!
//! Law: an unreadable record is reported, and does not hide the others; a report that is not signed by its node is
//! named in the log and never counted.

#![expect(clippy::disallowed_methods, reason = "signatures of reports are judged at the time they are read")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_config::paths::Paths;
use zagent_config::settings::{BoardKind, RequiredSignatures, Settings};

use crate::board::{self, Board, BoardError, BoardWrite, GitBoard, GitBoardConfig, VersionToken};
use crate::envelope::{self, EnvelopeError, NodeKeys, VerifiedReport};
use crate::record::{Component, RECORD_SCHEMA, RolloutRecord};
use crate::records::{Records, Reports, VersionedValue};
use crate::report::NodeReport;

/// The key prefix of records.
const ROLLOUT_PREFIX: &str = "rollout/";
/// The value of `rollout.url` when records are on the board itself.
pub const ON_BOARD: &str = "board";
/// How often a report is written again when someone else wrote it in the meantime.
const MAX_ATTEMPTS: usize = 3;

/// Records on a board.
pub struct BoardRecords {
    board: Box<dyn Board>,
    unreadable: Vec<RolloutId>,
    /// Skipped records that were already logged, each version once.
    logged: BTreeMap<RolloutId, VersionToken>,
}

impl BoardRecords {
    /// Records on this board.
    #[must_use]
    pub fn new(board: Box<dyn Board>) -> Self {
        Self { board, unreadable: Vec::new(), logged: BTreeMap::new() }
    }

    /// Records at the place in the settings: `rollout.url`, the first remote that is a repository, or the board.
    ///
    /// # Errors
    /// Fails when none is configured.
    pub fn open(settings: &Settings) -> Result<Self, BoardError> {
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
            return Ok(Self::new(Box::new(GitBoard::new(place)?)));
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
        board::open(settings)?.map(Self::new).ok_or_else(|| refused(way))
    }
}

fn parse_record(key: &str, id: &RolloutId, bytes: &[u8]) -> Result<RolloutRecord, BoardError> {
    let damaged = |message: String| BoardError::Damaged { key: key.to_owned(), message };
    let record: RolloutRecord = serde_yaml::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if record.schema > RECORD_SCHEMA {
        return Err(damaged(format!(
            "its format {} is newer than {RECORD_SCHEMA}: update this agent",
            record.schema
        )));
    }
    if record.id != *id {
        return Err(damaged(format!("it is the record of `{}`", record.id)));
    }
    Ok(record)
}

impl Records for BoardRecords {
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError> {
        let key = format!("{ROLLOUT_PREFIX}{id}");
        let Some(entry) = self.board.get(&key)? else { return Ok(None) };
        Ok(Some(VersionedValue { value: parse_record(&key, id, &entry.value)?, token: entry.token }))
    }

    fn put(
        &mut self,
        record: &RolloutRecord,
        expected: Option<&VersionToken>,
        note: &str,
        lasting: bool,
    ) -> Result<VersionToken, BoardError> {
        let key = format!("{ROLLOUT_PREFIX}{}", record.id);
        let broken =
            |error: serde_yaml::Error| BoardError::Damaged { key: key.clone(), message: error.to_string() };
        let text = serde_yaml::to_string(record).map_err(broken)?;
        self.board.put(&key, BoardWrite { value: text.as_bytes(), expected, note, lasting })
    }

    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError> {
        let (mut all, mut unread) = (Vec::new(), Vec::new());
        let id_of = |key: &str| key.strip_prefix(ROLLOUT_PREFIX).and_then(|id| id.parse::<RolloutId>().ok());
        for (key, entry) in self.board.list(ROLLOUT_PREFIX)? {
            let Some(id) = id_of(&key) else { continue };
            match parse_record(&key, &id, &entry.value) {
                Ok(value) => all.push(VersionedValue { value, token: entry.token }),
                Err(error) => {
                    if self.logged.get(&id) != Some(&entry.token) {
                        tracing::warn!(rollout = %id, %error, "skipped: it cannot be read");
                        self.logged.insert(id.clone(), entry.token);
                    }
                    unread.push(id);
                }
            }
        }
        unread.extend(self.board.skipped_keys().iter().filter_map(|key| id_of(key)));
        self.unreadable = unread;
        Ok(all)
    }

    fn unreadable(&self) -> Vec<RolloutId> {
        self.unreadable.clone()
    }

    fn delete(&mut self, id: &RolloutId, expected: &VersionToken) -> Result<(), BoardError> {
        self.board.delete(&format!("{ROLLOUT_PREFIX}{id}"), expected)
    }
}

/// Reports on a board.
pub struct BoardReports {
    board: Box<dyn Board>,
    /// The key that signs the reports of this node.
    key: PathBuf,
    keys: NodeKeys,
    /// The last value under each key, by its token.
    seen: BTreeMap<String, CachedReport>,
    /// The tokens of the values that this node has written.
    written: BTreeMap<String, VersionToken>,
}

/// The value under a key.
struct CachedReport {
    token: VersionToken,
    /// `None` when it was refused.
    opened: Option<VerifiedReport>,
    /// When the newest accepted report was made, by its own clock, but not later than the time it was read.
    newest: Option<Timestamp>,
}

impl BoardReports {
    /// Reports on this board, signed with the key in a file; `keys` has the keys of the other nodes.
    #[must_use]
    pub fn new(board: Box<dyn Board>, key: PathBuf, keys: NodeKeys) -> Self {
        Self { board, key, keys, seen: BTreeMap::new(), written: BTreeMap::new() }
    }

    /// Reports on the board in the settings; `None` when there is none.
    ///
    /// # Errors
    /// As [`board::verify_report`].
    pub fn open(settings: &Settings) -> Result<Option<Self>, BoardError> {
        let Some(board) = board::open(settings)? else { return Ok(None) };
        let paths = Paths::new(&settings.root);
        let keys = NodeKeys::new(settings.board.allowed_nodes.clone(), paths.nodes());
        Ok(Some(Self::new(board, paths.key(), keys)))
    }

    /// The reports that are signed by their nodes, and the errors of the others.
    ///
    /// # Errors
    /// Fails when the board, or the key file, cannot be read.
    pub fn verified_reports(
        &mut self,
        component: Component,
        now: Timestamp,
    ) -> Result<(BTreeMap<NodeId, VerifiedReport>, Vec<EnvelopeError>), BoardError> {
        let prefix = envelope::report_prefix(component);
        let entries = self.board.list(&prefix)?;
        self.keys.reload().map_err(|error| unusable_error(&error))?;
        let (mut good, mut refused) = (BTreeMap::new(), Vec::new());
        for (key, entry) in entries {
            let Some(node) = key.strip_prefix(&prefix).and_then(|id| id.parse::<NodeId>().ok()) else {
                continue;
            };
            let before = self.seen.get(&key);
            if let Some(seen) = before.filter(|seen| seen.token == entry.token) {
                good.extend(seen.opened.clone().map(|opened| (node, opened)));
                continue;
            }
            let mut newest = before.and_then(|seen| seen.newest);
            let judged = envelope::verify_report(component, &node, &entry.value, &mut self.keys, now);
            let judged = judged.and_then(|opened| match newest {
                Some(last) if opened.report.updated_at < last => {
                    Err(EnvelopeError::Replayed { node: node.clone(), said: opened.report.updated_at, last })
                }
                _ => Ok(opened),
            });
            let opened = match judged {
                Ok(opened) => {
                    // A node whose clock was ahead must not have its later reports refused.
                    newest = Some(opened.report.updated_at.min(now));
                    good.insert(node, opened.clone());
                    Some(opened)
                }
                Err(error) => {
                    refused.push(error);
                    None
                }
            };
            self.seen.insert(key, CachedReport { token: entry.token, opened, newest });
        }
        self.keys.save_first_seen().map_err(|error| unusable_error(&error))?;
        Ok((good, refused))
    }

    /// Overwrites the earlier report of this node.
    fn overwrite_report(&mut self, key: &str, value: &[u8]) -> Result<VersionToken, BoardError> {
        for attempt in 1.. {
            let expected = match self.written.remove(key) {
                Some(token) => Some(token),
                None => self.board.get(key)?.map(|entry| entry.token),
            };
            let write = BoardWrite { value, expected: expected.as_ref(), note: "report", lasting: false };
            match self.board.put(key, write) {
                Err(BoardError::Conflict { .. }) if attempt < MAX_ATTEMPTS => {}
                done => return done,
            }
        }
        Err(BoardError::Conflict { key: key.to_owned() })
    }
}

/// The error with all its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn unusable_error(error: &dyn std::error::Error) -> BoardError {
    BoardError::Refused { board: "of reports".into(), message: error_chain(error) }
}

impl Reports for BoardReports {
    fn latest_reports(&mut self, component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        let (good, refused) = self.verified_reports(component, Timestamp::now())?;
        for error in refused {
            tracing::warn!("{}", error_chain(&error));
        }
        Ok(good.into_iter().map(|(node, opened)| (node, opened.report)).collect())
    }

    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        let key = envelope::report_key(report.component, &report.id);
        let sealed = envelope::sign_report(report, &self.key).map_err(|error| unusable_error(&error))?;
        let token = self.overwrite_report(&key, &sealed)?;
        self.written.insert(key, token);
        Ok(())
    }

    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError> {
        let key = envelope::report_key(component, id);
        if let Some(entry) = self.board.get(&key)? {
            self.board.delete(&key, &entry.token)?;
        }
        self.seen.remove(&key);
        self.keys.forget(id).map_err(|error| unusable_error(&error))
    }

    fn signing_keys(&self) -> BTreeMap<NodeId, String> {
        let opened = self.seen.values().filter_map(|seen| seen.opened.as_ref());
        opened.map(|opened| (opened.report.id.clone(), opened.key.clone())).collect()
    }

    fn pin_keys(&mut self, record: &RolloutRecord) {
        self.keys.pin_from_record(record);
    }
}
