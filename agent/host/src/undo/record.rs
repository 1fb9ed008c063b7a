//! What the journal says: one record for each change, written before the change is made.
//!
//! Law: a record holds what was there *and* what will be there, so that nothing must be written after the change: a
//! run that is killed between the two can be undone all the same (held by
//! `a_journal_that_was_cut_off_can_be_ended_and_reverted`).

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::raw_serde;
use crate::fs::{FileKind, Stat};

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRecord {
    /// The first: which run it is.
    Begin {
        /// The run's name.
        run: String,
        /// When its first change was noted, in milliseconds since 1970.
        started: u64,
    },
    /// A change of a file.
    Note(Box<ChangeNote>),
    /// Something that cannot be undone.
    Irreversible {
        /// Its place in the order of the run.
        seq: u64,
        /// The state's tag.
        tag: String,
        /// Why not, in words.
        why: String,
    },
    /// A change of something else than a file; only its module knows what the value means.
    Other {
        /// Its place in the order of the run.
        seq: u64,
        /// The state's tag.
        tag: String,
        /// What is needed to undo it.
        data: serde_json::Value,
    },
    /// The last: nothing is left behind.
    End {
        /// False when a later start cleared up behind it.
        is_clean: bool,
    },
}

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeNote {
    /// Its place in the order of the run.
    pub seq: u64,
    /// The state's tag.
    pub tag: String,
    /// Where.
    #[serde(with = "raw_serde::path")]
    pub path: PathBuf,
    /// What.
    pub change: FileChange,
    /// The name beside the path under which the new entry is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp: Option<TempName>,
    /// Where the journal holds the old content.
    #[serde(skip)]
    pub body: BodyRange,
}

/// A part of the journal's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyRange {
    /// Where it begins.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// The name of an entry that is not yet in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TempName {
    /// The name.
    #[serde(with = "raw_serde::name")]
    pub name: OsString,
    /// The user that will own it; before that, the user that makes it.
    pub uid: Option<u32>,
}

/// What changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// An entry is made, replaced or removed.
    Replace {
        /// What was there.
        before: SavedEntry,
        /// What will be there.
        after: ExpectedEntry,
    },
    /// Owner and mode.
    Dress {
        /// As they were.
        before: OwnerMode,
        /// As they will be.
        after: OwnerMode,
    },
    /// Times.
    Times {
        /// As they were.
        before: FileTimes,
        /// As they will be.
        after: FileTimes,
    },
    /// Attributes, as letters of `lsattr`.
    Attrs {
        /// As they were.
        before: String,
        /// As they will be.
        after: String,
    },
    /// Extended attributes.
    Xattrs {
        /// As they were.
        #[serde(with = "raw_serde::xattrs")]
        before: Vec<(OsString, Vec<u8>)>,
        /// As they will be.
        #[serde(with = "raw_serde::xattrs")]
        after: Vec<(OsString, Vec<u8>)>,
    },
    /// The entry moves elsewhere.
    Move {
        /// Where it will be.
        #[serde(with = "raw_serde::path")]
        to: PathBuf,
        /// What was there.
        before: SavedEntry,
        /// What moves.
        after: ExpectedEntry,
    },
}

/// What stood at a path, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedEntry {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Where its content is kept.
        content: SavedContent,
        /// The BLAKE3 digest of it.
        digest: String,
        /// Bytes.
        size: u64,
        /// Owner and mode.
        dress: OwnerMode,
        /// Times.
        times: FileTimes,
        /// Extended attributes.
        #[serde(with = "raw_serde::xattrs")]
        xattrs: Vec<(OsString, Vec<u8>)>,
        /// Attributes, as letters of `lsattr`.
        attrs: Option<String>,
    },
    /// A link.
    Link {
        /// Where it pointed.
        #[serde(with = "raw_serde::path")]
        target: PathBuf,
        /// Its owner.
        dress: OwnerMode,
    },
    /// A directory; what was in it has records of its own.
    Dir {
        /// Owner and mode.
        dress: OwnerMode,
    },
    /// A pipe, device or socket.
    Node {
        /// Which.
        kind: FileKind,
        /// Major and minor number.
        device: (u32, u32),
        /// Owner and mode.
        dress: OwnerMode,
    },
}

/// Where old content is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedContent {
    /// In the journal, behind the record.
    Inline,
    /// In a file beside the journal.
    Blob(String),
}

/// What will stand at a path: enough to see later whether it still does. What nobody decided beforehand is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedEntry {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// The BLAKE3 digest of its content.
        digest: String,
        /// Bytes.
        size: u64,
        /// Owner and mode.
        dress: OwnerMode,
    },
    /// A link.
    Link {
        /// Where it points.
        #[serde(with = "raw_serde::path")]
        target: PathBuf,
    },
    /// A directory.
    Dir {
        /// Owner and mode.
        dress: OwnerMode,
    },
    /// A pipe, device or socket.
    Node {
        /// Which.
        kind: FileKind,
        /// Major and minor number.
        device: (u32, u32),
    },
}

/// Owner and mode; what nobody decided is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerMode {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

impl OwnerMode {
    /// True when nothing that is decided here is otherwise there.
    #[must_use]
    pub fn matches(&self, stat: &Stat) -> bool {
        let is = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
        (stat.kind == FileKind::Link || is(self.mode, stat.mode))
            && is(self.uid, stat.uid)
            && is(self.gid, stat.gid)
    }
}

impl From<&Stat> for OwnerMode {
    fn from(stat: &Stat) -> Self {
        Self { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) }
    }
}

impl From<OwnerMode> for crate::fs::FileMeta {
    fn from(dress: OwnerMode) -> Self {
        Self { mode: dress.mode, uid: dress.uid, gid: dress.gid }
    }
}

/// Times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTimes {
    /// Last access.
    #[serde(with = "raw_serde::time")]
    pub atime: i128,
    /// Last change of the content.
    #[serde(with = "raw_serde::time")]
    pub mtime: i128,
}

impl From<&Stat> for FileTimes {
    fn from(stat: &Stat) -> Self {
        Self { atime: stat.atime, mtime: stat.mtime }
    }
}

impl JournalRecord {
    /// Its place in the order of the run.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        match self {
            Self::Note(note) => Some(note.seq),
            Self::Irreversible { seq, .. } | Self::Other { seq, .. } => Some(*seq),
            Self::Begin { .. } | Self::End { .. } => None,
        }
    }

    /// The tag of the state that it belongs to.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match self {
            Self::Note(note) => Some(&note.tag),
            Self::Irreversible { tag, .. } | Self::Other { tag, .. } => Some(tag),
            Self::Begin { .. } | Self::End { .. } => None,
        }
    }
}
