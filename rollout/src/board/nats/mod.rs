//! A board on NATS: a bucket of JetStream's key-value store.
//!
//! Law: the token of a value is its revision, and the server compares it. Nothing waits forever, and a connection with
//! an error is dropped completely: the next call opens another (held by `a_nats_board_conforms`,
//! `a_restarted_server_is_used_again_and_an_empty_one_is_detected`).
//!
//! Calls block, so a task of an async runtime must not make them.

mod address;
mod connection;
mod keys;
mod list;

use std::collections::HashMap;

use async_nats::jetstream::kv::{self, Operation, UpdateErrorKind};
use zagent_config::settings;

use self::address::NatsAddress;
use self::connection::{NatsBucket, NatsConfig, NatsConnection, NatsError, from_client_error};
use self::list::BucketSnapshot;
use super::{Board, BoardEntry, BoardError, BoardWrite, VersionToken, check_key};

/// Bytes of a message in addition to the value: subject and headers.
const MESSAGE_OVERHEAD: usize = 1024;

/// A board on NATS.
#[derive(Debug)]
pub struct NatsBoard {
    config: NatsConfig,
    connection: Option<NatsConnection>,
    snapshots: HashMap<String, BucketSnapshot>,
}

impl NatsBoard {
    /// The board in the settings; it connects at the first request.
    ///
    /// # Errors
    /// Fails when `board.url` is not a NATS address.
    pub fn open(board: &settings::BoardSettings) -> Result<Self, BoardError> {
        let refused = |message| BoardError::Refused { board: "nats".into(), message };
        let url = board.url.as_deref().ok_or_else(|| refused("`board.url` is not set".into()))?;
        let address = NatsAddress::parse(url).map_err(|why| refused(format!("`board.url`: {why}")))?;
        let (bucket, credentials, ca) = (board.bucket.clone(), board.credentials.clone(), board.ca.clone());
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if bucket.is_empty() || !bucket.chars().all(fine) {
            return Err(refused("`board.bucket` may contain only letters, digits, `-` and `_`".into()));
        }
        Ok(Self {
            config: NatsConfig { address, bucket, credentials, ca },
            connection: None,
            snapshots: HashMap::new(),
        })
    }

    fn display_name(&self) -> String {
        format!("{} (bucket `{}`)", self.config.address.display_servers(), self.config.bucket)
    }

    fn unreachable(&self, source: Box<dyn std::error::Error + Send + Sync>) -> BoardError {
        BoardError::Unreachable { board: self.display_name(), source }
    }

    fn refused(&self, message: String) -> BoardError {
        BoardError::Refused { board: self.display_name(), message }
    }

    /// The connection, opened if there is none; true when it was open before.
    fn take_connection(&mut self) -> Result<(NatsConnection, bool), BoardError> {
        match self.connection.take().filter(NatsConnection::is_fresh) {
            Some(link) => Ok((link, true)),
            None => match NatsConnection::open(&self.config) {
                Ok(link) => Ok((link, false)),
                Err(NatsError::Lost(source)) => Err(self.unreachable(source)),
                Err(NatsError::Refused(message)) => Err(self.refused(message)),
                Err(NatsError::Conflict) => {
                    Err(self.refused("another client created the bucket at the same time".into()))
                }
            },
        }
    }

    /// Sends a read request: with another connection when an old one does not answer.
    fn read_retrying<T>(
        &mut self,
        key: &str,
        ask: impl AsyncFn(&NatsBucket) -> Result<T, NatsError>,
    ) -> Result<T, BoardError> {
        let (mut link, was_there) = self.take_connection()?;
        let mut answer = link.call(&ask);
        if was_there && answer.is_err() {
            drop(link);
            link = self.take_connection()?.0;
            answer = link.call(&ask);
        }
        match answer {
            Ok(value) => {
                self.connection = Some(link);
                Ok(value)
            }
            Err(NatsError::Lost(source)) => Err(self.unreachable(source)),
            Err(NatsError::Refused(message)) => Err(self.refused(message)),
            Err(NatsError::Conflict) => Err(BoardError::Conflict { key: key.into() }),
        }
    }

    /// Sends a write request: once.
    fn write_once<T>(
        &mut self,
        key: &str,
        ask: impl AsyncFn(&NatsBucket) -> Result<T, NatsError>,
    ) -> Result<T, BoardError> {
        let (mut link, _) = self.take_connection()?;
        let answer = link.call(&ask);
        let key = key.to_owned();
        match answer {
            Err(NatsError::Lost(source)) => return Err(BoardError::Unknown { key, source }),
            Err(NatsError::Refused(message)) => return Err(self.refused(message)),
            _ => self.connection = Some(link),
        }
        answer.map_err(|_| BoardError::Conflict { key })
    }
}

impl Board for NatsBoard {
    fn get(&mut self, key: &str) -> Result<Option<BoardEntry>, BoardError> {
        check_key(&self.display_name(), key)?;
        let name = keys::encode(key);
        self.read_retrying(key, async |bucket| {
            let found = bucket.store.entry(name.clone()).await.map_err(from_client_error)?;
            Ok(found.filter(is_present).map(|found| BoardEntry {
                value: found.value.to_vec(),
                token: VersionToken(found.revision.to_string()),
            }))
        })
    }

    fn put(&mut self, key: &str, write: BoardWrite<'_>) -> Result<VersionToken, BoardError> {
        check_key(&self.display_name(), key)?;
        let name = keys::encode(key);
        let expected = write.expected.map(revision);
        let (link, _) = self.take_connection()?;
        let most = link.max_message_bytes();
        self.connection = Some(link);
        if write.value.len() + MESSAGE_OVERHEAD > most {
            let size = write.value.len();
            return Err(self.refused(format!(
                "`{key}` has {size} bytes, and the server accepts messages up to {most}; raise its `max_payload`"
            )));
        }
        let number = self.write_once(key, async |bucket| match &expected {
            None => create(bucket, &name, write.value).await,
            Some(Some(revision)) => update(bucket, &name, write.value, *revision).await,
            Some(None) => Err(NatsError::Conflict),
        })?;
        Ok(VersionToken(number.to_string()))
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, BoardEntry)>, BoardError> {
        let before = std::cell::Cell::new(self.snapshots.remove(prefix));
        let seen =
            self.read_retrying(prefix, async |bucket| list::read(bucket, prefix, before.take()).await)?;
        let all = seen.values.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect();
        self.snapshots.insert(prefix.to_owned(), seen);
        Ok(all)
    }

    fn delete(&mut self, key: &str, expected: &VersionToken) -> Result<(), BoardError> {
        check_key(&self.display_name(), key)?;
        let name = keys::encode(key);
        let revision = revision(expected);
        self.write_once(key, async |bucket| {
            let deleted = match &revision {
                Some(revision) => bucket.store.delete_expect_revision(&name, Some(*revision)).await,
                None => Err(UpdateErrorKind::WrongLastRevision.into()),
            };
            match deleted {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                    match bucket
                        .store
                        .entry(name.clone())
                        .await
                        .map_err(from_client_error)?
                        .filter(is_present)
                    {
                        None => Ok(()),
                        Some(_) => Err(NatsError::Conflict),
                    }
                }
                Err(error) => Err(from_client_error(error)),
            }
        })
    }
}

/// The revision of a token; `None` for a token of another board. Revisions start at one: for the server, zero means
/// that the key does not exist.
fn revision(token: &VersionToken) -> Option<u64> {
    token.0.parse().ok().filter(|number| *number > 0)
}

/// False for the marker of a deleted value.
fn is_present(entry: &kv::Entry) -> bool {
    entry.operation == Operation::Put
}

async fn update(bucket: &NatsBucket, name: &str, value: &[u8], revision: u64) -> Result<u64, NatsError> {
    let written = bucket.store.update(name, value.to_vec().into(), revision).await;
    written.map_err(|error| match error.kind() {
        UpdateErrorKind::WrongLastRevision => NatsError::Conflict,
        _ => from_client_error(error),
    })
}

/// Writes a key that must not exist; the marker of a deleted value is replaced.
async fn create(bucket: &NatsBucket, name: &str, value: &[u8]) -> Result<u64, NatsError> {
    match update(bucket, name, value, 0).await {
        Err(NatsError::Conflict) => {}
        other => return other,
    }
    match bucket.store.entry(name).await.map_err(from_client_error)? {
        Some(mark) if !is_present(&mark) => update(bucket, name, value, mark.revision).await,
        _ => Err(NatsError::Conflict),
    }
}
