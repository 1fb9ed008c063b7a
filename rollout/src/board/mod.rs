//! The place for node reports and rollout records: keys in, values with a token out.
//!
//! Law: only a writer that knows the present version replaces a value: [`Board::put`] names the token of the value it
//! replaces, or none for a key that must not exist. A lost answer is [`BoardError::Unknown`]: the caller reads again
//! (held by `a_git_board_conforms_through_a_path`, `a_sled_board_conforms`, `a_nats_board_conforms`).

#![expect(
    clippy::disallowed_methods,
    reason = "the edge to the boards: connections have deadlines and commits have a time"
)]

mod git;
#[cfg(feature = "nats")]
mod nats;
mod sled;

use std::fmt;

use zagent_config::ids::NodeId;
use zagent_config::paths::Paths;
use zagent_config::settings::{BoardKind, Settings};

pub use self::git::{GitBoard, GitBoardConfig};
#[cfg(feature = "nats")]
pub use self::nats::NatsBoard;
pub use self::sled::SledBoard;

/// Maximum bytes of a key.
const MAX_KEY: usize = 768;

/// The name of one version of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionToken(pub String);

impl fmt::Display for VersionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardEntry {
    /// The value.
    pub value: Vec<u8>,
    /// Its version.
    pub token: VersionToken,
}

/// A stored value that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its key.
    pub key: String,
    /// Why it is not accepted.
    pub why: String,
    /// The value, if there is one: nothing in it can be trusted.
    pub value: Option<Vec<u8>>,
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct BoardWrite<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The token it replaces; `None` when the key must not exist.
    pub expected: Option<&'a VersionToken>,
    /// What happened, for boards that keep a log.
    pub note: &'a str,
    /// False for a write that the log need not keep, such as a heartbeat.
    pub lasting: bool,
}

/// Why a board operation failed.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// Someone else has written in the meantime.
    #[error("`{key}` was changed by another writer in the meantime")]
    Conflict {
        /// Which value.
        key: String,
    },
    /// Unknown whether it happened.
    #[error("unknown whether `{key}` was written: the answer was lost")]
    Unknown {
        /// Which value.
        key: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The board does not answer.
    #[error("cannot reach {board}")]
    Unreachable {
        /// The board, without secrets.
        board: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The board refuses.
    #[error("the board {board} refuses: {message}")]
    Refused {
        /// Which board.
        board: String,
        /// Its message, and what may help.
        message: String,
    },
    /// The record is not obeyed here.
    #[error("`{key}` is not accepted: {message}")]
    NotAccepted {
        /// Which record.
        key: String,
        /// Why, and how to fix it.
        message: String,
        /// True when more signatures make it good.
        is_incomplete: bool,
    },
    /// The value is not in zagent's format.
    #[error("cannot read `{key}` on the board: {message}")]
    Damaged {
        /// Which value.
        key: String,
        /// The problem.
        message: String,
    },
}

/// A board.
pub trait Board: Send {
    /// One value; `None` when the key does not exist.
    ///
    /// # Errors
    /// Fails when the board cannot be reached.
    fn get(&mut self, key: &str) -> Result<Option<BoardEntry>, BoardError>;

    /// Writes one value, if it is still the version that the writer knows.
    ///
    /// # Errors
    /// Fails with a conflict when it is not, and when the board cannot be reached.
    fn put(&mut self, key: &str, write: BoardWrite<'_>) -> Result<VersionToken, BoardError>;

    /// All values with this key prefix, by key.
    ///
    /// # Errors
    /// Fails when the board cannot be reached.
    fn list(&mut self, prefix: &str) -> Result<Vec<(String, BoardEntry)>, BoardError>;

    /// What the last list skipped: values that exist and are not accepted.
    fn skipped(&self) -> Vec<SkippedEntry> {
        Vec::new()
    }

    /// Removes one value, if it is still the version that the writer knows. A missing value is not an error.
    ///
    /// # Errors
    /// As [`Board::put`].
    fn delete(&mut self, key: &str, expected: &VersionToken) -> Result<(), BoardError>;
}

/// The board in the settings; `None` when there is none.
///
/// # Errors
/// Fails when its address, or something it needs on this machine, cannot be used.
pub fn open(settings: &Settings) -> Result<Option<Box<dyn Board>>, BoardError> {
    let paths = Paths::new(&settings.root);
    match settings.board.kind {
        BoardKind::Sled => Ok(Some(Box::new(SledBoard::new(paths.board())))),
        BoardKind::Git => Ok(Some(Box::new(GitBoard::new(GitBoardConfig::from_board_settings(settings)?)?))),
        BoardKind::Nats => nats(settings).map(Some),
        BoardKind::None => Ok(None),
    }
}

#[cfg(feature = "nats")]
fn nats(settings: &Settings) -> Result<Box<dyn Board>, BoardError> {
    Ok(Box::new(NatsBoard::open(&settings.board)?))
}

#[cfg(not(feature = "nats"))]
fn nats(_: &Settings) -> Result<Box<dyn Board>, BoardError> {
    let message = "this program was built without NATS; set `board.kind` to git or sled, or build it with the \
                   feature `nats`";
    Err(BoardError::Refused { board: "nats".into(), message: message.into() })
}

/// Checks a key before it becomes a ref, a subject or a file: parts separated by slashes, each a valid name.
///
/// # Errors
/// Fails when one of them is not valid.
pub fn check_key(board: &str, key: &str) -> Result<(), BoardError> {
    let refused = |why: String| BoardError::Refused {
        board: board.to_owned(),
        message: format!("{key:?} is not a valid board key: {why}"),
    };
    if key.len() > MAX_KEY {
        return Err(refused(format!("it has more than {MAX_KEY} bytes")));
    }
    match key.split('/').find_map(|part| part.parse::<NodeId>().err()) {
        Some(error) => Err(refused(error.to_string())),
        None => Ok(()),
    }
}
