//! Where nodes report and rollouts are written: keys in, values with a token out.
//!
//! Law: a value is replaced only by whoever knows it: [`Board::put`] names the token of what it replaces, or none for a
//! key that must not be there. An answer that got lost is [`BoardError::Unknown`]: whoever gets it reads again.

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

/// Bytes of a key.
const MAX_KEY: usize = 768;

/// What names one version of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionToken(pub String);

impl fmt::Display for VersionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardEntry {
    /// The value.
    pub value: Vec<u8>,
    /// Which version of it.
    pub token: VersionToken,
}

/// Something to write.
#[derive(Clone, Copy, Debug)]
pub struct BoardWrite<'a> {
    /// The value.
    pub value: &'a [u8],
    /// What it replaces; none when the key must not be there.
    pub expected: Option<&'a VersionToken>,
    /// What happened, for the log of those boards that keep one.
    pub note: &'a str,
    /// False for a write that the log need not keep, such as a heartbeat.
    pub lasting: bool,
}

/// Why a board did not do it.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// Someone else has written in the meantime.
    #[error("`{key}` was changed by another writer in the meantime")]
    Conflict {
        /// Which value.
        key: String,
    },
    /// It may have happened or not.
    #[error("unknown whether `{key}` was written: the answer was lost")]
    Unknown {
        /// Which value.
        key: String,
        /// What was seen.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nobody answers.
    #[error("cannot reach {board}")]
    Unreachable {
        /// Which board, without a secret.
        board: String,
        /// What was seen.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It says no.
    #[error("the board {board} refuses: {message}")]
    Refused {
        /// Which board.
        board: String,
        /// What it said, and what may help.
        message: String,
    },
    /// What is there is not what we write.
    #[error("cannot read `{key}` on the board: {message}")]
    Damaged {
        /// Which value.
        key: String,
        /// What is wrong with it.
        message: String,
    },
}

/// A board.
pub trait Board: Send {
    /// One value; none when the key is not there.
    ///
    /// # Errors
    /// Fails when the board cannot be asked.
    fn get(&mut self, key: &str) -> Result<Option<BoardEntry>, BoardError>;

    /// Writes one value, when it is still what the writer knows.
    ///
    /// # Errors
    /// Fails with a conflict when it is not, and when the board cannot be asked.
    fn put(&mut self, key: &str, write: BoardWrite<'_>) -> Result<VersionToken, BoardError>;

    /// All values whose keys begin so, by key.
    ///
    /// # Errors
    /// Fails when the board cannot be asked.
    fn list(&mut self, prefix: &str) -> Result<Vec<(String, BoardEntry)>, BoardError>;

    /// The keys that the last list left out: they are there, and what they hold does not count.
    fn skipped_keys(&self) -> Vec<String> {
        Vec::new()
    }

    /// Removes one value, when it is still what the writer knows. One that does not exist is removed.
    ///
    /// # Errors
    /// As [`Board::put`].
    fn delete(&mut self, key: &str, expected: &VersionToken) -> Result<(), BoardError>;
}

/// The board of the settings; none when they name none.
///
/// # Errors
/// Fails when its address or what it needs on this machine cannot be used.
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

/// Looks at a key before it becomes a ref, a subject or a file: parts between slashes, each one a name.
///
/// # Errors
/// Fails when one of them is none.
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
