//! The notes of a run in, for each path everything that stood there in the course of the run out.
//!
//! Law: a revert is idempotent because it asks where on its course a path stands, not whether a step was made
//! before (held by `a_revert_that_was_cut_off_anywhere_is_completed_by_the_next`,
//! `a_revert_may_be_cut_off_and_repeated`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::journal_reader::JournalReader;
use super::record::{ExpectedEntry, FileChange, JournalRecord, OwnerMode, SavedEntry};
use super::revert::RevertOptions;
use crate::fs::{FileKind, FileSystem, FsError, Stat};

/// What a record says stood or will stand at a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KnownEntry<'a> {
    /// Complete.
    Saved(&'a SavedEntry),
    /// As far as one can see.
    Expected(&'a ExpectedEntry),
}

/// One change as a single path saw it.
#[derive(Clone, Copy, Debug)]
enum PathChange<'a> {
    Replaced {
        before: KnownEntry<'a>,
        after: KnownEntry<'a>,
    },
    OwnerMode {
        before: &'a OwnerMode,
        after: &'a OwnerMode,
    },
    Times {
        before: i128,
        after: i128,
    },
    Attrs {
        before: &'a str,
        after: &'a str,
    },
    Xattrs {
        before: &'a [(OsString, Vec<u8>)],
        after: &'a [(OsString, Vec<u8>)],
    },
    /// It went away with a directory that it was in.
    Gone,
}

/// What is known of a path between two changes.
#[derive(Clone, Copy, Debug, Default)]
struct PathSnapshot<'a> {
    entry: Option<KnownEntry<'a>>,
    owner_mode: Option<&'a OwnerMode>,
    mtime: Option<i128>,
    attrs: Option<&'a str>,
    xattrs: Option<&'a [(OsString, Vec<u8>)]>,
}

/// What happened to one path, in the order of the run.
type PathHistory<'a> = Vec<(u64, PathChange<'a>)>;

/// All that happened, by path.
#[derive(Debug)]
pub(crate) struct PathHistories<'a> {
    by_path: BTreeMap<&'a Path, PathHistory<'a>>,
    moves: Vec<(&'a Path, &'a Path)>,
}

impl<'a> PathHistories<'a> {
    pub(crate) fn new(notes: &'a JournalReader, choice: &RevertOptions) -> Self {
        let mut histories = Self { by_path: BTreeMap::new(), moves: Vec::new() };
        for record in notes.records() {
            let JournalRecord::Note(note) = record else { continue };
            if !choice.includes(&note.tag) {
                continue;
            }
            let path = &*note.path;
            if let FileChange::Move { to, .. } = &note.change {
                histories.moves.push((path, to));
                for (_, history) in
                    histories.by_path.iter_mut().filter(|(inside, _)| inside.starts_with(path))
                {
                    history.push((note.seq, PathChange::Gone));
                }
            }
            let mut add =
                |path: &'a Path, event| histories.by_path.entry(path).or_default().push((note.seq, event));
            match &note.change {
                FileChange::Replace { before, after } => {
                    add(
                        path,
                        PathChange::Replaced {
                            before: KnownEntry::Saved(before),
                            after: KnownEntry::Expected(after),
                        },
                    );
                }
                FileChange::Move { to, before, after } => {
                    add(
                        path,
                        PathChange::Replaced {
                            before: KnownEntry::Expected(after),
                            after: KnownEntry::Expected(&ExpectedEntry::Absent),
                        },
                    );
                    add(
                        to,
                        PathChange::Replaced {
                            before: KnownEntry::Saved(before),
                            after: KnownEntry::Expected(after),
                        },
                    );
                }
                FileChange::Dress { before, after } => add(path, PathChange::OwnerMode { before, after }),
                FileChange::Times { before, after } => {
                    add(path, PathChange::Times { before: before.mtime, after: after.mtime });
                }
                FileChange::Attrs { before, after } => add(path, PathChange::Attrs { before, after }),
                FileChange::Xattrs { before, after } => add(path, PathChange::Xattrs { before, after }),
            }
        }
        histories
    }

    fn history(&self, path: &Path) -> &[(u64, PathChange<'a>)] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// All paths that something happened to, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'a Path> {
        self.by_path.keys().copied()
    }

    /// From where to where something moved.
    pub(crate) fn moves(&self) -> &[(&'a Path, &'a Path)] {
        &self.moves
    }

    /// When something happened to a path.
    pub(crate) fn change_seqs(&self, path: &Path) -> impl Iterator<Item = u64> {
        self.history(path).iter().map(|(seq, _)| *seq)
    }

    /// True when a path is as it was after all changes up to this one; `with_time` also in the times of files.
    pub(crate) fn matches_after(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        seq: u64,
        with_time: bool,
    ) -> Result<bool, FsError> {
        for above in path.ancestors().skip(1) {
            match self.snapshot_after(above, seq).entry {
                // Whatever is found there is found elsewhere.
                Some(
                    KnownEntry::Saved(SavedEntry::Link { .. })
                    | KnownEntry::Expected(ExpectedEntry::Link { .. }),
                ) => return Ok(true),
                Some(whole) if !whole.is_dir() => return Ok(fs.lstat(path)?.is_none()),
                _ => {}
            }
        }
        self.snapshot_after(path, seq).matches(fs, path, with_time)
    }

    /// True when this is the first change of a path after a point of the run.
    pub(crate) fn is_next_change(&self, path: &Path, seq: u64, point: Option<u64>) -> bool {
        point.is_some_and(|point| self.change_seqs(path).find(|at| *at > point) == Some(seq))
    }

    fn snapshot_after(&self, path: &Path, seq: u64) -> PathSnapshot<'a> {
        let history = self.history(path);
        snapshot_at(history, history.iter().filter(|(at, _)| *at <= seq).count())
    }

    /// True when a path is as it was right before this change, or before one that came earlier: there is nothing left to
    /// undo.
    pub(crate) fn is_restored(&self, fs: &dyn FileSystem, path: &Path, seq: u64) -> Result<bool, FsError> {
        let history = self.history(path);
        for done in 0..=history.iter().filter(|(at, _)| *at < seq).count() {
            if snapshot_at(history, done).matches(fs, path, true)? {
                return Ok(true);
            }
        }
        // A directory on the way that is as before it was made has nothing of this in it.
        for above in path.ancestors().skip(1) {
            for (at, event) in self.history(above) {
                if let PathChange::Replaced { before, .. } = event
                    && *at < seq
                    && !before.is_dir()
                    && before.matches_path(fs, above, None)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// What is known after so many changes: what the next ones found, else what the last ones left.
fn snapshot_at<'a>(history: &[(u64, PathChange<'a>)], done: usize) -> PathSnapshot<'a> {
    let mut shape = PathSnapshot::default();
    for (_, event) in &history[done..] {
        match event {
            PathChange::Replaced { before, .. } => {
                shape.entry = Some(*before);
                shape.mtime = shape.mtime.or(before.mtime());
                return shape;
            }
            PathChange::Gone => break,
            PathChange::OwnerMode { before, .. } => shape.owner_mode = shape.owner_mode.or(Some(before)),
            PathChange::Times { before, .. } => shape.mtime = shape.mtime.or(Some(*before)),
            PathChange::Attrs { before, .. } => shape.attrs = shape.attrs.or(Some(before)),
            PathChange::Xattrs { before, .. } => shape.xattrs = shape.xattrs.or(Some(before)),
        }
    }
    for (_, event) in history[..done].iter().rev() {
        match event {
            PathChange::Replaced { after, .. } => {
                shape.entry = Some(*after);
                return shape;
            }
            PathChange::Gone => {
                shape.entry = Some(KnownEntry::Expected(&ExpectedEntry::Absent));
                return shape;
            }
            PathChange::OwnerMode { after, .. } => shape.owner_mode = shape.owner_mode.or(Some(after)),
            PathChange::Times { after, .. } => shape.mtime = shape.mtime.or(Some(*after)),
            PathChange::Attrs { after, .. } => shape.attrs = shape.attrs.or(Some(after)),
            PathChange::Xattrs { after, .. } => shape.xattrs = shape.xattrs.or(Some(after)),
        }
    }
    shape
}

impl PathSnapshot<'_> {
    fn matches(&self, fs: &dyn FileSystem, path: &Path, with_time: bool) -> Result<bool, FsError> {
        let now = fs.lstat(path)?;
        // The time of a directory says only when something was last put into it, and of the rest none is noted.
        let is_timed = with_time && now.is_some_and(|now| now.kind == FileKind::File);
        let is_then = match (self.mtime.filter(|_| is_timed), now) {
            (Some(mtime), Some(now)) => now.mtime == mtime,
            _ => true,
        };
        if !is_then {
            return Ok(false);
        }
        let is_dressed = self.owner_mode.is_none_or(|dress| now.is_some_and(|now| dress.matches(&now)));
        if !is_dressed || (self.entry.is_none() && now.is_none()) {
            return Ok(false);
        }
        if let Some(whole) = self.entry
            && !whole.matches_path(fs, path, self.owner_mode)?
        {
            return Ok(false);
        }
        if !now.is_some_and(|now| matches!(now.kind, FileKind::File | FileKind::Dir)) {
            return Ok(self.attrs.is_none() && self.xattrs.is_none() || now.is_none());
        }
        let has_attrs = match self.attrs {
            Some(attrs) => fs.attrs(path)?.as_deref() == Some(attrs),
            None => true,
        };
        let has_xattrs = match self.xattrs {
            Some(xattrs) => fs.xattrs(path)? == xattrs,
            None => true,
        };
        Ok(has_attrs && has_xattrs)
    }
}

impl KnownEntry<'_> {
    /// True when exactly this is there now; times do not count. Owner and mode may be known better than it says.
    pub(crate) fn matches_path(
        self,
        fs: &dyn FileSystem,
        path: &Path,
        better: Option<&OwnerMode>,
    ) -> Result<bool, FsError> {
        let now = fs.lstat(path)?;
        let kind = now.map(|now| now.kind);
        let fits = |dress: &OwnerMode| now.is_some_and(|now| better.unwrap_or(dress).matches(&now));
        Ok(match self {
            KnownEntry::Saved(SavedEntry::Absent) | KnownEntry::Expected(ExpectedEntry::Absent) => {
                now.is_none()
            }
            KnownEntry::Saved(SavedEntry::File { digest, size, dress, .. })
            | KnownEntry::Expected(ExpectedEntry::File { digest, size, dress }) => {
                kind == Some(FileKind::File)
                    && fits(dress)
                    && now.is_some_and(|now| now.size == *size)
                    && *blake3::hash(&fs.read(path)?).to_hex() == **digest
            }
            KnownEntry::Saved(SavedEntry::Link { target, dress }) => {
                kind == Some(FileKind::Link) && fits(dress) && fs.read_link(path)? == *target
            }
            KnownEntry::Expected(ExpectedEntry::Link { target }) => {
                kind == Some(FileKind::Link) && fs.read_link(path)? == *target
            }
            KnownEntry::Saved(SavedEntry::Dir { dress })
            | KnownEntry::Expected(ExpectedEntry::Dir { dress }) => {
                kind == Some(FileKind::Dir) && fits(dress)
            }
            KnownEntry::Saved(SavedEntry::Node { kind: wanted, device, dress }) => {
                is_node(now.as_ref(), *wanted, *device) && fits(dress)
            }
            KnownEntry::Expected(ExpectedEntry::Node { kind: wanted, device }) => {
                is_node(now.as_ref(), *wanted, *device)
            }
        })
    }

    fn is_dir(self) -> bool {
        matches!(
            self,
            KnownEntry::Saved(SavedEntry::Dir { .. }) | KnownEntry::Expected(ExpectedEntry::Dir { .. })
        )
    }

    fn mtime(self) -> Option<i128> {
        match self {
            KnownEntry::Saved(SavedEntry::File { times, .. }) => Some(times.mtime),
            _ => None,
        }
    }
}

fn is_node(now: Option<&Stat>, kind: FileKind, device: (u32, u32)) -> bool {
    now.is_some_and(|now| now.kind == kind && now.device == device)
}
