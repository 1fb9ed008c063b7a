//! Run reports in, recent reports out: by run ID, by the start of an ID, or the last one.
//!
//! Law: the history never blocks a run. It is plain files of limited number and size: an index with a line per run,
//! and a file for every run with many changes. A run without changes appends its line, and that is all it writes.
//! What cannot be written, because the disk is full or another process does not finish, is a warning (held by
//! `a_run_without_changes_appends_one_line_that_only_its_owner_reads`,
//! `the_newest_runs_are_kept_and_nothing_is_written_again`,
//! `a_process_that_does_not_finish_costs_a_record_and_no_run`, `the_history_answers`).
//!
//! The line of a run without changes is not synced: a power cut may cost it. The others are on the disk when the run ends.

#![expect(clippy::disallowed_methods, reason = "owns the files of the history and waits for its lock")]

mod earlier;
pub mod error;
mod files;
mod index;
pub mod record;

#[cfg(test)]
pub mod tests;

pub use error::HistoryError;
pub use record::RunRecord;
pub use record::RunSummary;
use record::StoredRun;

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use zagent_config::disk_space::free_bytes;
use zagent_config::durable::create_dirs;
use zagent_config::paths::Paths;

use crate::lock::{self, KilledRun};
use crate::{RunMode, RunReport};
use earlier::EarlierHistory;
use files::RunFiles;
use index::{IndexLine, IndexLines, RunIndex};

/// The index of dry runs.
const DRY_RUNS_FILE: &str = "dry-runs";
/// How long a run waits for another process that writes the history.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// The retry interval for the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Runs up to this size are in the index with all their states; others have a file of their own.
const LINE_LIMIT: usize = 8 << 10;
/// Free space that the changes of a run leave for what matters more.
const RESERVED_BYTES: u64 = 1 << 20;

/// `20261116T084512-3f9a7`: start of a run (UTC) to a 4096th of a second, and a random part for runs that
/// start together.
#[must_use]
pub fn run_name(start: Timestamp, chance: u8) -> String {
    let part = i64::from(start.subsec_nanosecond().max(0)) * 4096 / 1_000_000_000;
    format!("{}-{part:03x}{chance:02x}", time_stamp(start))
}

/// Eight bits that most likely differ between processes.
#[must_use]
pub fn random_suffix() -> u8 {
    let random = RandomState::new().build_hasher().finish();
    u8::try_from(random & 0xff).unwrap_or_default()
}

fn time_stamp(time: Timestamp) -> String {
    TimeZone::UTC.to_datetime(time).strftime("%Y%m%dT%H%M%S").to_string()
}

/// A result, and warnings.
#[derive(Debug)]
pub struct HistoryAnswer<T> {
    /// The result.
    pub found: T,
    /// Warnings: damaged lines, or changes that are gone.
    pub warnings: Vec<HistoryError>,
}

/// The runs of this node.
#[derive(Clone, Debug)]
pub struct History {
    dir: PathBuf,
    index: RunIndex,
    /// Dry runs, apart from the others: they must not displace them.
    dry_runs: RunIndex,
    files: RunFiles,
    earlier: EarlierHistory,
    /// The lock of runs: names the run whose process was killed.
    run_lock: PathBuf,
    keep: usize,
    lock_timeout: Duration,
}

impl History {
    /// The history below a root; keeps the newest `keep` runs. Opens nothing.
    #[must_use]
    pub fn new(paths: &Paths, keep: usize) -> Self {
        Self {
            dir: paths.history(),
            index: RunIndex { path: paths.history_index(), old: paths.history_index_old() },
            dry_runs: RunIndex {
                path: paths.history().join(DRY_RUNS_FILE),
                old: paths.history().join(format!("{DRY_RUNS_FILE}.old")),
            },
            run_lock: paths.lock(),
            files: RunFiles::new(paths.history_runs()),
            earlier: EarlierHistory::new(paths),
            keep: keep.max(1),
            lock_timeout: LOCK_TIMEOUT,
        }
    }

    /// Records a run: states that changed, failed or did not run in full, the others as a number. A dry run is
    /// recorded only where runs were recorded before, because it creates nothing. Returns warnings.
    ///
    /// # Errors
    /// Fails when the run cannot be recorded.
    pub fn record(&self, report: &RunReport) -> Result<Vec<HistoryError>, HistoryError> {
        let is_dry = report.mode == RunMode::Test;
        if is_dry && !self.index.path.exists() {
            return Ok(Vec::new());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if report.run.is_empty() || report.run.len() > 100 || !report.run.chars().all(is_plain) {
            return Err(HistoryError::Name(report.run.clone()));
        }
        let _lock = self.lock()?;
        let mut warnings = if self.index.path.exists() { Vec::new() } else { self.begin()? };
        let stored = RunRecord::from_report(report).to_stored();
        let tally = stored.head.tally;
        let is_quiet = tally.changed + tally.failed + tally.unknown == 0 && !report.canceled;
        let bytes = stored.to_bytes();
        let line = if bytes.len() <= LINE_LIMIT {
            IndexLine::new(stored, false)
        } else {
            let written = self.write_file(&report.run, &bytes).map_err(|warning| warnings.push(warning));
            IndexLine::new(StoredRun::summary_only(stored.head), written.is_ok())
        };
        if is_dry {
            self.dry_runs.append(&line, self.keep, false)?;
        } else {
            self.index.append(&line, self.keep, !is_quiet)?;
        }
        Ok(warnings)
    }

    /// Records that the revision of a run was rolled back, and why.
    ///
    /// # Errors
    /// Fails when that cannot be recorded, or when there is no such run.
    pub fn record_rollback(&self, run: &str, why: &str) -> Result<(), HistoryError> {
        let _lock = self.lock()?;
        let line = self.index.read(self.keep)?.lines.into_iter().rfind(|line| line.run() == run);
        let mut line = line.ok_or_else(|| HistoryError::NoRun(run.to_owned()))?;
        line.stored.head.rolled_back = Some(why.to_owned());
        self.index.append(&line, self.keep, true)
    }

    /// Records the run that the lock names, when its process was killed. The caller holds the lock of runs.
    ///
    /// # Errors
    /// Fails when that cannot be recorded.
    pub(crate) fn record_killed(&self, killed: &KilledRun) -> Result<(), HistoryError> {
        let _lock = self.lock()?;
        let known = self.index.read(self.keep)?;
        match RunSummary::of_killed(killed)
            .filter(|head| known.lines.iter().all(|line| line.run() != head.run))
        {
            Some(head) => {
                self.index.append(&IndexLine::new(StoredRun::summary_only(head), false), self.keep, true)
            }
            None => Ok(()),
        }
    }

    /// Makes room, then writes the file of a run.
    fn write_file(&self, run: &str, bytes: &[u8]) -> Result<(), HistoryError> {
        self.retain_newest(self.keep - 1)?;
        match free_bytes(&self.dir) {
            Ok(free) if free < bytes.len() as u64 + RESERVED_BYTES => {
                Err(HistoryError::NoSpace { path: self.dir.clone(), run: run.to_owned(), free })
            }
            // A file system that does not tell its free space may have some.
            _ => self.files.write(run, bytes),
        }
    }

    /// Removes the files of all but the newest runs. Their lines stay.
    ///
    /// # Errors
    /// Fails when a file cannot be removed, or another process uses the history.
    pub fn remove_files_beyond(&self, newest: usize) -> Result<(), HistoryError> {
        if !self.dir.exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        if self.index.path.exists() { self.retain_newest(newest) } else { Ok(()) }
    }

    fn retain_newest(&self, newest: usize) -> Result<(), HistoryError> {
        let (known, dry) = (self.index.read(newest)?, self.dry_runs.read(newest)?);
        let runs: HashSet<&str> = known.lines.iter().chain(&dry.lines).map(IndexLine::run).collect();
        self.files.retain(&runs)
    }

    /// The newest runs, newest first.
    ///
    /// # Errors
    /// Fails when the history cannot be read.
    pub fn list(&self, limit: usize) -> Result<HistoryAnswer<Vec<RunSummary>>, HistoryError> {
        let (known, warnings) = self.read_index()?;
        let found = known.lines.into_iter().rev().take(limit).map(|line| line.stored.head).collect();
        Ok(HistoryAnswer { found, warnings })
    }

    /// The newest runs and dry runs, newest first.
    ///
    /// # Errors
    /// Fails when the history cannot be read.
    pub fn list_all(&self, limit: usize) -> Result<HistoryAnswer<Vec<RunSummary>>, HistoryError> {
        let HistoryAnswer { mut found, warnings } = self.list(usize::MAX)?;
        found.extend(self.dry_runs.read(self.keep)?.lines.into_iter().map(|line| line.stored.head));
        zagent_config::sorted::sort_by_key(&mut found, |head| std::cmp::Reverse(head.start()));
        found.truncate(limit);
        Ok(HistoryAnswer { found, warnings })
    }

    /// The newest run.
    ///
    /// # Errors
    /// Fails when the history cannot be read.
    pub fn last(&self) -> Result<Option<RunSummary>, HistoryError> {
        Ok(self.list(1)?.found.pop())
    }

    /// One run: by its ID, by a unique start of it, or `last`.
    ///
    /// # Errors
    /// Fails when there is no such run, several match, or the history cannot be read.
    pub fn get(&self, which: &str) -> Result<HistoryAnswer<RunRecord>, HistoryError> {
        let (mut known, mut warnings) = self.read_index()?;
        if which != "last" {
            known.lines.extend(self.dry_runs.read(self.keep)?.lines);
        }
        let name = resolve_name(which, known.lines.iter().map(|line| line.run().to_owned()).collect())?;
        let line = known.lines.into_iter().rfind(|line| line.run() == name);
        let line = line.ok_or_else(|| HistoryError::NoRun(name.clone()))?;
        let in_file = if line.file { self.files.read(&name)? } else { None };
        let stored = in_file.as_deref().and_then(StoredRun::from_bytes).unwrap_or(line.stored);
        if stored.head.killed {
            warnings.push(HistoryError::Killed { run: name.clone() });
        }
        if stored.lacks_states() {
            warnings.push(HistoryError::NoChanges { run: name.clone(), path: self.files.path(&name) });
        }
        let found = RunRecord::from_stored(stored);
        let (found, omitted) = found.ok_or_else(|| HistoryError::NoRun(name.clone()))?;
        if omitted > 0 {
            warnings.push(HistoryError::Omitted { run: name, omitted });
        }
        Ok(HistoryAnswer { found, warnings })
    }

    /// The lines of the index. Files of an earlier version are taken over first; while that fails, they are not shown.
    fn read_index(&self) -> Result<(IndexLines, Vec<HistoryError>), HistoryError> {
        let mut warnings = Vec::new();
        if self.earlier.exists() && !self.index.path.exists() {
            match self.lock().and_then(|_lock| self.begin()) {
                Ok(said) => warnings = said,
                Err(e) if e.is_permission() => return Err(e),
                Err(e) => warnings.push(e),
            }
        }
        let mut known = self.index.read(self.keep)?;
        let killed = lock::killed_run(&self.run_lock).and_then(|killed| RunSummary::of_killed(&killed));
        if let Some(head) = killed.filter(|head| known.lines.iter().all(|line| line.run() != head.run)) {
            known.lines.push(IndexLine::new(StoredRun::summary_only(head), false));
        }
        if known.damaged > 0 {
            let (path, count) = (self.index.path.clone(), known.damaged);
            warnings.push(HistoryError::DamagedLines { path, count });
        }
        Ok((known, warnings))
    }

    /// Takes over what is there without an index; with the lock.
    fn begin(&self) -> Result<Vec<HistoryError>, HistoryError> {
        self.earlier.take_over(&self.files, &self.index, self.keep)
    }

    /// The directory, locked against other writers; created if it does not exist.
    fn lock(&self) -> Result<File, HistoryError> {
        let failed = |e| HistoryError::from_io("open", &self.dir, e);
        let dir = match File::open(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let made = create_dirs(&self.dir, 0o700);
                made.map_err(|e| HistoryError::from_io("create directory", &self.dir, e))?;
                File::open(&self.dir).map_err(failed)?
            }
            dir => dir.map_err(failed)?,
        };
        let until = Instant::now() + self.lock_timeout;
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(dir),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(HistoryError::Busy { path: self.dir.clone() });
                }
                Err(e) => return Err(HistoryError::from_io("lock", &self.dir, e.into())),
            }
        }
    }
}

fn resolve_name(which: &str, mut names: Vec<String>) -> Result<String, HistoryError> {
    if which == "last" {
        return names.pop().ok_or(HistoryError::Empty);
    }
    if names.iter().any(|n| n == which) {
        return Ok(which.to_owned());
    }
    names.retain(|n| n.starts_with(which));
    match names.len() {
        0 => Err(HistoryError::NoRun(which.to_owned())),
        1 => Ok(names.remove(0)),
        _ => Err(HistoryError::Ambiguous { beginning: which.to_owned(), runs: names }),
    }
}
