//! A board on NATS: a bucket of JetStream's key-value store.
//!
//! Law: the token of a value is its revision, and the server compares it. Nothing waits for ever, and a connection that
//! disappointed is thrown away whole: the next call makes another.
//!
//! Calls block, so they must not be made by a task of an async runtime.

mod address;
mod keys;
mod link;
mod list;

use std::collections::HashMap;

use async_nats::jetstream::kv::{self, Operation, UpdateErrorKind};
use zagent_config::settings;

use self::address::Address;
use self::link::{Bucket, Door, Link, Trouble, said};
use self::list::Seen;
use super::{Board, BoardError, Entry, Token, Write, check_key};

/// Bytes of a message beside the value: subject and headers.
const AROUND: usize = 1024;

/// A board on NATS.
#[derive(Debug)]
pub struct NatsBoard {
    door: Door,
    link: Option<Link>,
    seen: HashMap<String, Seen>,
}

impl NatsBoard {
    /// The board of the settings; it connects when it is first asked something.
    ///
    /// # Errors
    /// Fails when `board.url` is no address of a NATS server.
    pub fn open(board: &settings::Board) -> Result<Self, BoardError> {
        let refused = |message| BoardError::Refused { board: "nats".into(), message };
        let url =
            board.url.as_deref().ok_or_else(|| refused("`board.url` does not say where it is".into()))?;
        let address = Address::read(url).map_err(|why| refused(format!("`board.url`: {why}")))?;
        let (bucket, credentials, ca) = (board.bucket.clone(), board.credentials.clone(), board.ca.clone());
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if bucket.is_empty() || !bucket.chars().all(fine) {
            return Err(refused("`board.bucket` has letters, digits, `-` and `_` only".into()));
        }
        Ok(Self { door: Door { address, bucket, credentials, ca }, link: None, seen: HashMap::new() })
    }

    fn shown(&self) -> String {
        format!("{} (bucket `{}`)", self.door.address.shown(), self.door.bucket)
    }

    fn unreachable(&self, source: Box<dyn std::error::Error + Send + Sync>) -> BoardError {
        BoardError::Unreachable { board: self.shown(), source }
    }

    fn refused(&self, message: String) -> BoardError {
        BoardError::Refused { board: self.shown(), message }
    }

    /// The connection, made when there is none; true when it was there.
    fn link(&mut self) -> Result<(Link, bool), BoardError> {
        match self.link.take().filter(Link::is_fresh) {
            Some(link) => Ok((link, true)),
            None => match Link::open(&self.door) {
                Ok(link) => Ok((link, false)),
                Err(Trouble::Lost(source)) => Err(self.unreachable(source)),
                Err(Trouble::Refused(message)) => Err(self.refused(message)),
                Err(Trouble::Conflict) => Err(self.refused("somebody else made the bucket meanwhile".into())),
            },
        }
    }

    /// Asks what changes nothing: with another connection when an old one does not answer.
    fn read<T>(
        &mut self,
        key: &str,
        ask: impl AsyncFn(&Bucket) -> Result<T, Trouble>,
    ) -> Result<T, BoardError> {
        let (mut link, was_there) = self.link()?;
        let mut answer = link.ask(&ask);
        if was_there && answer.is_err() {
            drop(link);
            link = self.link()?.0;
            answer = link.ask(&ask);
        }
        match answer {
            Ok(value) => {
                self.link = Some(link);
                Ok(value)
            }
            Err(Trouble::Lost(source)) => Err(self.unreachable(source)),
            Err(Trouble::Refused(message)) => Err(self.refused(message)),
            Err(Trouble::Conflict) => Err(BoardError::Conflict { key: key.into() }),
        }
    }

    /// Asks what changes something: once.
    fn write<T>(
        &mut self,
        key: &str,
        ask: impl AsyncFn(&Bucket) -> Result<T, Trouble>,
    ) -> Result<T, BoardError> {
        let (mut link, _) = self.link()?;
        let answer = link.ask(&ask);
        let key = key.to_owned();
        match answer {
            Err(Trouble::Lost(source)) => return Err(BoardError::Unknown { key, source }),
            Err(Trouble::Refused(message)) => return Err(self.refused(message)),
            _ => self.link = Some(link),
        }
        answer.map_err(|_| BoardError::Conflict { key })
    }
}

impl Board for NatsBoard {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, BoardError> {
        check_key(&self.shown(), key)?;
        let name = keys::encode(key);
        self.read(key, async |bucket| {
            let found = bucket.store.entry(name.clone()).await.map_err(said)?;
            Ok(found
                .filter(is_there)
                .map(|found| Entry { value: found.value.to_vec(), token: Token(found.revision.to_string()) }))
        })
    }

    fn put(&mut self, key: &str, write: Write<'_>) -> Result<Token, BoardError> {
        check_key(&self.shown(), key)?;
        let name = keys::encode(key);
        let expected = write.expected.map(revision);
        let (link, _) = self.link()?;
        let most = link.most();
        self.link = Some(link);
        if write.value.len() + AROUND > most {
            let size = write.value.len();
            return Err(self.refused(format!(
                "`{key}` has {size} bytes, and the server takes messages of {most}; raise its `max_payload`"
            )));
        }
        let number = self.write(key, async |bucket| match &expected {
            None => create(bucket, &name, write.value).await,
            Some(Some(revision)) => update(bucket, &name, write.value, *revision).await,
            Some(None) => Err(Trouble::Conflict),
        })?;
        Ok(Token(number.to_string()))
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, Entry)>, BoardError> {
        let before = std::cell::Cell::new(self.seen.remove(prefix));
        let seen = self.read(prefix, async |bucket| list::read(bucket, prefix, before.take()).await)?;
        let all = seen.values.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect();
        self.seen.insert(prefix.to_owned(), seen);
        Ok(all)
    }

    fn delete(&mut self, key: &str, expected: &Token) -> Result<(), BoardError> {
        check_key(&self.shown(), key)?;
        let name = keys::encode(key);
        let revision = revision(expected);
        self.write(key, async |bucket| {
            let deleted = match &revision {
                Some(revision) => bucket.store.delete_expect_revision(&name, Some(*revision)).await,
                None => Err(UpdateErrorKind::WrongLastRevision.into()),
            };
            match deleted {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                    match bucket.store.entry(name.clone()).await.map_err(said)?.filter(is_there) {
                        None => Ok(()),
                        Some(_) => Err(Trouble::Conflict),
                    }
                }
                Err(error) => Err(said(error)),
            }
        })
    }
}

/// The revision that a token names; none for the token of another board. Revisions begin with one: to the server,
/// nought means that nothing is there.
fn revision(token: &Token) -> Option<u64> {
    token.0.parse().ok().filter(|number| *number > 0)
}

/// False for the mark that a removed value leaves.
fn is_there(entry: &kv::Entry) -> bool {
    entry.operation == Operation::Put
}

async fn update(bucket: &Bucket, name: &str, value: &[u8], revision: u64) -> Result<u64, Trouble> {
    let written = bucket.store.update(name, value.to_vec().into(), revision).await;
    written.map_err(|error| match error.kind() {
        UpdateErrorKind::WrongLastRevision => Trouble::Conflict,
        _ => said(error),
    })
}

/// Writes what must not be there; the mark of a removed value is replaced.
async fn create(bucket: &Bucket, name: &str, value: &[u8]) -> Result<u64, Trouble> {
    match update(bucket, name, value, 0).await {
        Err(Trouble::Conflict) => {}
        other => return other,
    }
    match bucket.store.entry(name).await.map_err(said)? {
        Some(mark) if !is_there(&mark) => update(bucket, name, value, mark.revision).await,
        _ => Err(Trouble::Conflict),
    }
}
