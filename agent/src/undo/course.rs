//! The notes of a run in, for each path everything that stood there in the course of the run out.
//!
//! Law: a revert is idempotent because it asks where on its course a path stands, not whether a step was made before.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::notes::Notes;
use super::record::{Change, Dress, Entry, Record, Trace};
use super::revert::Choice;
use crate::fs::{FileSystem, FsError, Kind, Stat};

/// What a record says stood or will stand at a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Was<'a> {
    /// Complete.
    Entry(&'a Entry),
    /// As far as one can see.
    Trace(&'a Trace),
}

/// One change as a single path saw it.
#[derive(Clone, Copy, Debug)]
enum Event<'a> {
    Whole {
        before: Was<'a>,
        after: Was<'a>,
    },
    Dress {
        before: &'a Dress,
        after: &'a Dress,
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
struct Shape<'a> {
    whole: Option<Was<'a>>,
    dress: Option<&'a Dress>,
    mtime: Option<i128>,
    attrs: Option<&'a str>,
    xattrs: Option<&'a [(OsString, Vec<u8>)]>,
}

/// What happened to one path, in the order of the run.
type Course<'a> = Vec<(u64, Event<'a>)>;

/// All that happened, by path.
#[derive(Debug)]
pub(super) struct Courses<'a> {
    by_path: BTreeMap<&'a Path, Course<'a>>,
    moves: Vec<(&'a Path, &'a Path)>,
}

impl<'a> Courses<'a> {
    pub(super) fn new(notes: &'a Notes, choice: &Choice) -> Self {
        let mut courses = Self { by_path: BTreeMap::new(), moves: Vec::new() };
        for record in notes.records() {
            let Record::Note(note) = record else { continue };
            if !choice.includes(&note.tag) {
                continue;
            }
            let path = &*note.path;
            if let Change::Move { to, .. } = &note.change {
                courses.moves.push((path, to));
                for (_, course) in courses.by_path.iter_mut().filter(|(inside, _)| inside.starts_with(path)) {
                    course.push((note.seq, Event::Gone));
                }
            }
            let mut add =
                |path: &'a Path, event| courses.by_path.entry(path).or_default().push((note.seq, event));
            match &note.change {
                Change::Replace { before, after } => {
                    add(path, Event::Whole { before: Was::Entry(before), after: Was::Trace(after) });
                }
                Change::Move { to, before, after } => {
                    add(path, Event::Whole { before: Was::Trace(after), after: Was::Trace(&Trace::Absent) });
                    add(to, Event::Whole { before: Was::Entry(before), after: Was::Trace(after) });
                }
                Change::Dress { before, after } => add(path, Event::Dress { before, after }),
                Change::Times { before, after } => {
                    add(path, Event::Times { before: before.mtime, after: after.mtime });
                }
                Change::Attrs { before, after } => add(path, Event::Attrs { before, after }),
                Change::Xattrs { before, after } => add(path, Event::Xattrs { before, after }),
            }
        }
        courses
    }

    fn course(&self, path: &Path) -> &[(u64, Event<'a>)] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// All paths that something happened to, sorted.
    pub(super) fn paths(&self) -> impl Iterator<Item = &'a Path> {
        self.by_path.keys().copied()
    }

    /// From where to where something moved.
    pub(super) fn moves(&self) -> &[(&'a Path, &'a Path)] {
        &self.moves
    }

    /// When something happened to a path.
    pub(super) fn times(&self, path: &Path) -> impl Iterator<Item = u64> {
        self.course(path).iter().map(|(seq, _)| *seq)
    }

    /// True when a path is as it was after all changes up to this one; `with_time` also in the times of files.
    pub(super) fn is_as_after(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        seq: u64,
        with_time: bool,
    ) -> Result<bool, FsError> {
        for above in path.ancestors().skip(1) {
            match self.shape_after(above, seq).whole {
                // Whatever is found there is found elsewhere.
                Some(Was::Entry(Entry::Link { .. }) | Was::Trace(Trace::Link { .. })) => return Ok(true),
                Some(whole) if !whole.is_dir() => return Ok(fs.lstat(path)?.is_none()),
                _ => {}
            }
        }
        self.shape_after(path, seq).is_at(fs, path, with_time)
    }

    /// True when this is the first change of a path after a point of the run.
    pub(super) fn is_next(&self, path: &Path, seq: u64, point: Option<u64>) -> bool {
        point.is_some_and(|point| self.times(path).find(|at| *at > point) == Some(seq))
    }

    fn shape_after(&self, path: &Path, seq: u64) -> Shape<'a> {
        let course = self.course(path);
        shape(course, course.iter().filter(|(at, _)| *at <= seq).count())
    }

    /// True when a path is as it was right before this change, or before one that came earlier: there is nothing left to
    /// undo.
    pub(super) fn is_back(&self, fs: &dyn FileSystem, path: &Path, seq: u64) -> Result<bool, FsError> {
        let course = self.course(path);
        for done in 0..=course.iter().filter(|(at, _)| *at < seq).count() {
            if shape(course, done).is_at(fs, path, true)? {
                return Ok(true);
            }
        }
        // A directory on the way that is as before it was made has nothing of this in it.
        for above in path.ancestors().skip(1) {
            for (at, event) in self.course(above) {
                if let Event::Whole { before, .. } = event
                    && *at < seq
                    && !before.is_dir()
                    && before.is_at(fs, above, None)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// What is known after so many changes: what the next ones found, else what the last ones left.
fn shape<'a>(course: &[(u64, Event<'a>)], done: usize) -> Shape<'a> {
    let mut shape = Shape::default();
    for (_, event) in &course[done..] {
        match event {
            Event::Whole { before, .. } => {
                shape.whole = Some(*before);
                shape.mtime = shape.mtime.or(before.mtime());
                return shape;
            }
            Event::Gone => break,
            Event::Dress { before, .. } => shape.dress = shape.dress.or(Some(before)),
            Event::Times { before, .. } => shape.mtime = shape.mtime.or(Some(*before)),
            Event::Attrs { before, .. } => shape.attrs = shape.attrs.or(Some(before)),
            Event::Xattrs { before, .. } => shape.xattrs = shape.xattrs.or(Some(before)),
        }
    }
    for (_, event) in course[..done].iter().rev() {
        match event {
            Event::Whole { after, .. } => {
                shape.whole = Some(*after);
                return shape;
            }
            Event::Gone => {
                shape.whole = Some(Was::Trace(&Trace::Absent));
                return shape;
            }
            Event::Dress { after, .. } => shape.dress = shape.dress.or(Some(after)),
            Event::Times { after, .. } => shape.mtime = shape.mtime.or(Some(*after)),
            Event::Attrs { after, .. } => shape.attrs = shape.attrs.or(Some(after)),
            Event::Xattrs { after, .. } => shape.xattrs = shape.xattrs.or(Some(after)),
        }
    }
    shape
}

impl Shape<'_> {
    fn is_at(&self, fs: &dyn FileSystem, path: &Path, with_time: bool) -> Result<bool, FsError> {
        let now = fs.lstat(path)?;
        // The time of a directory says only when something was last put into it, and of the rest none is noted.
        let is_timed = with_time && now.is_some_and(|now| now.kind == Kind::File);
        let is_then = match (self.mtime.filter(|_| is_timed), now) {
            (Some(mtime), Some(now)) => now.mtime == mtime,
            _ => true,
        };
        if !is_then {
            return Ok(false);
        }
        let is_dressed = self.dress.is_none_or(|dress| now.is_some_and(|now| dress.fits(&now)));
        if !is_dressed || (self.whole.is_none() && now.is_none()) {
            return Ok(false);
        }
        if let Some(whole) = self.whole
            && !whole.is_at(fs, path, self.dress)?
        {
            return Ok(false);
        }
        if !now.is_some_and(|now| matches!(now.kind, Kind::File | Kind::Dir)) {
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

impl Was<'_> {
    /// True when exactly this is there now; times do not count. Owner and mode may be known better than it says.
    pub(super) fn is_at(
        self,
        fs: &dyn FileSystem,
        path: &Path,
        better: Option<&Dress>,
    ) -> Result<bool, FsError> {
        let now = fs.lstat(path)?;
        let kind = now.map(|now| now.kind);
        let fits = |dress: &Dress| now.is_some_and(|now| better.unwrap_or(dress).fits(&now));
        Ok(match self {
            Was::Entry(Entry::Absent) | Was::Trace(Trace::Absent) => now.is_none(),
            Was::Entry(Entry::File { digest, size, dress, .. })
            | Was::Trace(Trace::File { digest, size, dress }) => {
                kind == Some(Kind::File)
                    && fits(dress)
                    && now.is_some_and(|now| now.size == *size)
                    && *blake3::hash(&fs.read(path)?).to_hex() == **digest
            }
            Was::Entry(Entry::Link { target, dress }) => {
                kind == Some(Kind::Link) && fits(dress) && fs.read_link(path)? == *target
            }
            Was::Trace(Trace::Link { target }) => kind == Some(Kind::Link) && fs.read_link(path)? == *target,
            Was::Entry(Entry::Dir { dress }) | Was::Trace(Trace::Dir { dress }) => {
                kind == Some(Kind::Dir) && fits(dress)
            }
            Was::Entry(Entry::Node { kind: wanted, device, dress }) => {
                is_node(now.as_ref(), *wanted, *device) && fits(dress)
            }
            Was::Trace(Trace::Node { kind: wanted, device }) => is_node(now.as_ref(), *wanted, *device),
        })
    }

    fn is_dir(self) -> bool {
        matches!(self, Was::Entry(Entry::Dir { .. }) | Was::Trace(Trace::Dir { .. }))
    }

    fn mtime(self) -> Option<i128> {
        match self {
            Was::Entry(Entry::File { times, .. }) => Some(times.mtime),
            _ => None,
        }
    }
}

fn is_node(now: Option<&Stat>, kind: Kind, device: (u32, u32)) -> bool {
    now.is_some_and(|now| now.kind == kind && now.device == device)
}
