//! The index: one line per run in, the newest runs out.
//!
//! Law: a run appends one line and reads the end of the file, however long the history is. A line that a crash or a
//! full disk cut off costs that line. When the file has `keep` lines it becomes the older one of two, and the one
//! before it is replaced; nothing is ever written again (held by `a_line_that_was_cut_off_costs_one_run`,
//! `the_newest_runs_are_kept_and_nothing_is_written_again`).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zagent_config::durable::{sync_file, sync_parent};

use super::HistoryError;
use super::record::StoredRun;

/// Maximum bytes that are read of one file.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes at the end of a line that hold its number.
const NUMBER_BYTES: usize = 32;
/// In front of the number of a line, which is its last field.
const NUMBER_KEY: &str = "\"n\":";

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IndexLine {
    /// The run, with its states when they are few.
    #[serde(flatten)]
    pub(crate) stored: StoredRun,
    /// True when its states are in a file of their own.
    pub(crate) file: bool,
    /// Its place in the file, from 1. The last field: the end of the file tells how many lines it has.
    n: u64,
}

impl IndexLine {
    pub(crate) const fn new(stored: StoredRun, file: bool) -> Self {
        Self { stored, file, n: 0 }
    }

    pub(crate) fn run(&self) -> &str {
        &self.stored.head.run
    }

    fn to_text(&self, n: u64) -> String {
        // Keys are strings and numbers are finite, so JSON can hold everything.
        let mut text = serde_json::to_string(&Self { n, ..self.clone() }).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The two files of the index.
#[derive(Clone, Debug)]
pub(crate) struct RunIndex {
    pub(crate) path: PathBuf,
    pub(crate) old: PathBuf,
}

/// All lines that can be read, oldest first, and the number of others.
#[derive(Debug, Default)]
pub(crate) struct IndexLines {
    pub(crate) lines: Vec<IndexLine>,
    pub(crate) damaged: usize,
}

/// How a file ends.
struct IndexEnd {
    bytes: u64,
    /// Lines before the end.
    lines: u64,
    /// True when the last line is cut off.
    is_torn: bool,
}

impl RunIndex {
    /// Appends a line; the caller holds the lock. With `sync`, it is on the disk when this returns.
    pub(crate) fn append(&self, line: &IndexLine, keep: usize, sync: bool) -> Result<(), HistoryError> {
        let failed = |e| HistoryError::from_io("write", &self.path, e);
        let mut file = self.open().map_err(failed)?;
        let mut end = IndexEnd::read(&file).map_err(failed)?;
        if end.lines >= keep.max(1) as u64 {
            fs::rename(&self.path, &self.old).map_err(failed)?;
            file = self.open().map_err(failed)?;
            end = IndexEnd { bytes: 0, lines: 0, is_torn: false };
        }
        let mut text = if end.is_torn { "\n".to_owned() } else { String::new() };
        text.push_str(&line.to_text(end.lines + 1));
        if let Err(e) = file.write_all(text.as_bytes()) {
            // What does not fit must not be half a line.
            let _ = file.set_len(end.bytes);
            return Err(failed(e));
        }
        if sync {
            sync_file(&file, &self.path).map_err(failed)?;
            if end.bytes == 0 {
                sync_parent(&self.path).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)
    }

    /// Writes the whole index; only for a new one.
    pub(crate) fn write_new(&self, lines: &[IndexLine]) -> Result<(), HistoryError> {
        let text: String = (1..).zip(lines).map(|(n, line)| line.to_text(n)).collect();
        let written = zagent_config::atomic_file::AtomicFile::durable(0o600)
            .single_writer()
            .write(&self.path, text.as_bytes());
        written.map_err(|e| HistoryError::from_io("write", &self.path, e))
    }

    /// The newest `keep` lines. No lock: when a writer replaces the older file meanwhile, its lines are found twice, and
    /// taken once.
    pub(crate) fn read(&self, keep: usize) -> Result<IndexLines, HistoryError> {
        let newer = read_lines(&self.path)?;
        let older = read_lines(&self.old)?;
        let known: HashSet<&str> = newer.lines.iter().map(|line| line.run()).collect();
        let mut lines: Vec<IndexLine> =
            older.lines.iter().filter(|line| !known.contains(line.run())).cloned().collect();
        lines.extend(newer.lines);
        replace_by_later(&mut lines);
        lines.drain(..lines.len().saturating_sub(keep));
        Ok(IndexLines { lines, damaged: newer.damaged + older.damaged })
    }
}

/// A run that has several lines is told by the last one, in the place of the first.
fn replace_by_later(lines: &mut Vec<IndexLine>) {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(lines.len());
    let mut kept: Vec<IndexLine> = Vec::with_capacity(lines.len());
    for line in lines.drain(..) {
        match places.get(line.run()) {
            Some(&place) => kept[place] = line,
            None => {
                places.insert(line.run().to_owned(), kept.len());
                kept.push(line);
            }
        }
    }
    *lines = kept;
}

impl IndexEnd {
    fn read(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        if bytes == 0 {
            return Ok(Self { bytes, lines: 0, is_torn: false });
        }
        let mut tail = [0; NUMBER_BYTES];
        let start = bytes.saturating_sub(NUMBER_BYTES as u64);
        let tail = &mut tail[..usize::try_from(bytes - start).unwrap_or(NUMBER_BYTES)];
        file.read_exact_at(tail, start)?;
        let is_torn = tail.last() != Some(&b'\n');
        let number = std::str::from_utf8(tail)
            .ok()
            .and_then(|text| text.strip_suffix("}\n")?.rsplit_once(NUMBER_KEY)?.1.parse().ok());
        let lines = match number {
            Some(number) => number,
            None => count_lines(file, bytes)?,
        };
        Ok(Self { bytes, lines, is_torn })
    }
}

/// The number of lines, from the whole file: only after damage.
fn count_lines(file: &File, bytes: u64) -> io::Result<u64> {
    let (mut at, mut count, mut buffer) = (0, 0, vec![0; 64 << 10]);
    while at < bytes.min(MAX_BYTES) {
        let read = file.read_at(&mut buffer, at)?;
        if read == 0 {
            break;
        }
        count += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        at += read as u64;
    }
    Ok(count)
}

fn read_lines(path: &Path) -> Result<IndexLines, HistoryError> {
    let failed = |e| HistoryError::from_io("read", path, e);
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(IndexLines::default()),
        Err(e) => return Err(failed(e)),
    };
    let mut found = IndexLines::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<IndexLine>(line).ok().filter(|line| line.stored.head.is_readable()) {
            Some(line) => found.lines.push(line),
            None => found.damaged += 1,
        }
    }
    Ok(found)
}
