//! Records and reports on boards: what the driver and the nodes say in, values of a board out, and back.
//!
//! Law: a record that cannot be read is told, and does not hide the others; a report that is not its node's own is named
//! in the log and never counted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_config::paths::Paths;
use zagent_config::settings::{BoardKind, Require, Settings};

use crate::board::{self, Board, BoardError, GitBoard, Place, Token, Write};
use crate::envelope::{self, EnvelopeError, Keys, Opened};
use crate::record::{Component, Record, SCHEMA};
use crate::records::{Held, Records, Reports};
use crate::report::Report;

/// What keys of records begin with.
const ROLLOUT: &str = "rollout/";
/// `rollout.url` when records are on the board itself.
const ON_BOARD: &str = "board";
/// How often a report is tried again when somebody else wrote it meanwhile.
const ATTEMPTS: usize = 3;

/// Records on a board.
pub struct BoardRecords {
    board: Box<dyn Board>,
    unread: Vec<RolloutId>,
    /// What was said to be left out, each version once.
    told: BTreeMap<RolloutId, Token>,
}

impl BoardRecords {
    /// Records on this board.
    #[must_use]
    pub fn new(board: Box<dyn Board>) -> Self {
        Self { board, unread: Vec::new(), told: BTreeMap::new() }
    }

    /// Records where the settings say: `rollout.url`, the first remote that is a repository, or the board.
    ///
    /// # Errors
    /// Fails when there is no such place.
    pub fn open(settings: &Settings) -> Result<Self, BoardError> {
        let on_board = settings.rollout.url.as_deref() == Some(ON_BOARD);
        let git = if on_board {
            None
        } else {
            Place::of_rollouts(settings).map(Some).or_else(|error| {
                // On one machine there may be no repository at all.
                if settings.rollout.url.is_none() { Ok(None) } else { Err(error) }
            })?
        };
        if let Some(place) = git {
            return Ok(Self::new(Box::new(GitBoard::new(place)?)));
        }
        let refused = |way: &str| BoardError::Refused { board: "of rollouts".into(), message: way.into() };
        if settings.trust.require != Require::None && settings.board.kind == BoardKind::Nats {
            return Err(refused(
                "`trust.require` lets only what is signed count, and records on NATS are not: set `rollout.url` to a repository",
            ));
        }
        let way = "there is no place for rollouts: set `rollout.url` to a repository, or set `board.kind`";
        board::open(settings)?.map(Self::new).ok_or_else(|| refused(way))
    }
}

fn read(key: &str, id: &RolloutId, bytes: &[u8]) -> Result<Record, BoardError> {
    let damaged = |message: String| BoardError::Damaged { key: key.to_owned(), message };
    let record: Record = serde_yaml::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if record.schema > SCHEMA {
        return Err(damaged(format!(
            "its format {} is newer than {SCHEMA}: update this agent",
            record.schema
        )));
    }
    if record.id != *id {
        return Err(damaged(format!("it is the record of `{}`", record.id)));
    }
    Ok(record)
}

impl Records for BoardRecords {
    fn get(&mut self, id: &RolloutId) -> Result<Option<Held<Record>>, BoardError> {
        let key = format!("{ROLLOUT}{id}");
        let Some(entry) = self.board.get(&key)? else { return Ok(None) };
        Ok(Some(Held { value: read(&key, id, &entry.value)?, token: entry.token }))
    }

    fn put(
        &mut self,
        record: &Record,
        expected: Option<&Token>,
        note: &str,
        lasting: bool,
    ) -> Result<Token, BoardError> {
        let key = format!("{ROLLOUT}{}", record.id);
        let broken =
            |error: serde_yaml::Error| BoardError::Damaged { key: key.clone(), message: error.to_string() };
        let text = serde_yaml::to_string(record).map_err(broken)?;
        self.board.put(&key, Write { value: text.as_bytes(), expected, note, lasting })
    }

    fn list(&mut self) -> Result<Vec<Held<Record>>, BoardError> {
        let (mut all, mut unread) = (Vec::new(), Vec::new());
        let id_of = |key: &str| key.strip_prefix(ROLLOUT).and_then(|id| id.parse::<RolloutId>().ok());
        for (key, entry) in self.board.list(ROLLOUT)? {
            let Some(id) = id_of(&key) else { continue };
            match read(&key, &id, &entry.value) {
                Ok(value) => all.push(Held { value, token: entry.token }),
                Err(error) => {
                    if self.told.get(&id) != Some(&entry.token) {
                        tracing::warn!(rollout = %id, %error, "left out");
                        self.told.insert(id.clone(), entry.token);
                    }
                    unread.push(id);
                }
            }
        }
        unread.extend(self.board.left_out().iter().filter_map(|key| id_of(key)));
        self.unread = unread;
        Ok(all)
    }

    fn unread(&self) -> Vec<RolloutId> {
        self.unread.clone()
    }

    fn delete(&mut self, id: &RolloutId, expected: &Token) -> Result<(), BoardError> {
        self.board.delete(&format!("{ROLLOUT}{id}"), expected)
    }
}

/// Reports on a board.
pub struct BoardReports {
    board: Box<dyn Board>,
    /// The key that signs what this node says.
    key: PathBuf,
    keys: Keys,
    /// What was found under each key last, by its token.
    seen: BTreeMap<String, Seen>,
    /// The tokens of what this node has written.
    written: BTreeMap<String, Token>,
}

/// What was found under a key.
struct Seen {
    token: Token,
    /// None when it was refused.
    opened: Option<Opened>,
    /// When the newest report was made that was ever taken, by its own clock and at the latest when it was read.
    newest: Option<Timestamp>,
}

impl BoardReports {
    /// Reports on this board, signed with the key in a file; `keys` says whose others' are.
    #[must_use]
    pub fn new(board: Box<dyn Board>, key: PathBuf, keys: Keys) -> Self {
        Self { board, key, keys, seen: BTreeMap::new(), written: BTreeMap::new() }
    }

    /// Reports on the board of the settings; none when they name none.
    ///
    /// # Errors
    /// As [`board::open`].
    pub fn open(settings: &Settings) -> Result<Option<Self>, BoardError> {
        let Some(board) = board::open(settings)? else { return Ok(None) };
        let paths = Paths::new(&settings.root);
        let keys = Keys::new(settings.board.allowed_nodes.clone(), paths.nodes());
        Ok(Some(Self::new(board, paths.key(), keys)))
    }

    /// The reports that are their nodes' own, and what is wrong with the others.
    ///
    /// # Errors
    /// Fails when the board, or the file of keys, cannot be read.
    pub fn judged(
        &mut self,
        component: Component,
        now: Timestamp,
    ) -> Result<(BTreeMap<NodeId, Opened>, Vec<EnvelopeError>), BoardError> {
        let prefix = envelope::prefix_of(component);
        let entries = self.board.list(&prefix)?;
        self.keys.refresh().map_err(|error| unusable(&error))?;
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
            let judged = envelope::open(component, &node, &entry.value, &mut self.keys, now);
            let judged = judged.and_then(|opened| match newest {
                Some(last) if opened.report.updated_at < last => {
                    Err(EnvelopeError::Replayed { node: node.clone(), said: opened.report.updated_at, last })
                }
                _ => Ok(opened),
            });
            let opened = match judged {
                Ok(opened) => {
                    // A clock that was ahead must not make liars of its own later reports.
                    newest = Some(opened.report.updated_at.min(now));
                    good.insert(node, opened.clone());
                    Some(opened)
                }
                Err(error) => {
                    refused.push(error);
                    None
                }
            };
            self.seen.insert(key, Seen { token: entry.token, opened, newest });
        }
        self.keys.keep().map_err(|error| unusable(&error))?;
        Ok((good, refused))
    }

    /// Writes over what this node said before, whatever that is.
    fn say(&mut self, key: &str, value: &[u8]) -> Result<Token, BoardError> {
        for attempt in 1.. {
            let expected = match self.written.remove(key) {
                Some(token) => Some(token),
                None => self.board.get(key)?.map(|entry| entry.token),
            };
            let write = Write { value, expected: expected.as_ref(), note: "report", lasting: false };
            match self.board.put(key, write) {
                Err(BoardError::Conflict { .. }) if attempt < ATTEMPTS => {}
                done => return done,
            }
        }
        Err(BoardError::Conflict { key: key.to_owned() })
    }
}

/// What an error says, and what lies below it.
fn words(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn unusable(error: &dyn std::error::Error) -> BoardError {
    BoardError::Refused { board: "of reports".into(), message: words(error) }
}

impl Reports for BoardReports {
    fn all(&mut self, component: Component) -> Result<BTreeMap<NodeId, Report>, BoardError> {
        let (good, refused) = self.judged(component, Timestamp::now())?;
        for error in refused {
            tracing::warn!("{}", words(&error));
        }
        Ok(good.into_iter().map(|(node, opened)| (node, opened.report)).collect())
    }

    fn put(&mut self, report: &Report) -> Result<(), BoardError> {
        let key = envelope::key_of(report.component, &report.id);
        let sealed = envelope::seal(report, &self.key).map_err(|error| unusable(&error))?;
        let token = self.say(&key, &sealed)?;
        self.written.insert(key, token);
        Ok(())
    }

    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError> {
        let key = envelope::key_of(component, id);
        if let Some(entry) = self.board.get(&key)? {
            self.board.delete(&key, &entry.token)?;
        }
        self.seen.remove(&key);
        self.keys.forget(id).map_err(|error| unusable(&error))
    }

    fn keys(&self) -> BTreeMap<NodeId, String> {
        let opened = self.seen.values().filter_map(|seen| seen.opened.as_ref());
        opened.map(|opened| (opened.report.id.clone(), opened.key.clone())).collect()
    }

    fn expect(&mut self, record: &Record) {
        self.keys.expect(record);
    }
}
