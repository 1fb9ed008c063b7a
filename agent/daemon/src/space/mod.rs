//! The files below `root` in, at most `keep_bytes` of them out.
//!
//! Law: only what can be made or fetched again is removed, and old records: never the replay protection, the phase,
//! a slot, the current generation or the one before it, a file that an operator wrote, or a backup. The order is
//! fixed, and ends as soon as enough is free (held by `the_order_is_fixed_and_ends_when_enough_is_free`,
//! `what_matters_stays_and_the_largest_is_named`).

#![expect(clippy::disallowed_methods, reason = "measures at the current time")]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_cache::Cache;
use zagent_config::disk_space::{free_bytes, readable_size};
use zagent_config::paths::Paths;
use zagent_config::settings::Settings;
use zagent_config::{error_chain, json_file};
use zagent_run::history::History;
use zagent_run::{NoRun, RunReport};

/// Free space below which the agent removes what it can spare.
pub const MIN_FREE_BYTES: u64 = 16 << 20;
/// Runs whose changes are kept, however short space is.
const MIN_RUNS: usize = 5;
/// Undo journals that are kept, however short space is: the last run can be reverted.
const MIN_JOURNALS: usize = 1;

/// Space used by the agent, as it was last measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceUse {
    /// Bytes below `root`.
    pub used: u64,
    /// When they were counted.
    pub at: Timestamp,
}

impl SpaceUse {
    /// The last measurement; none before the first.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub fn read(paths: &Paths) -> Result<Option<Self>, json_file::JsonFileError> {
        json_file::read(&paths.space())
    }

    /// Counts the bytes below a root now.
    #[must_use]
    pub fn measure(root: &Path) -> Self {
        Self { used: used_bytes(root), at: Timestamp::now() }
    }
}

/// Bytes that a directory takes on the disk; a file with several names is counted once.
fn used_bytes(dir: &Path) -> u64 {
    let (mut todo, mut seen, mut used) = (vec![dir.to_owned()], HashSet::new(), 0);
    while let Some(path) = todo.pop() {
        // What vanishes meanwhile takes no space.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.nlink() < 2 || meta.is_dir() || seen.insert((meta.dev(), meta.ino())) {
            used += meta.blocks() * 512;
        }
        if meta.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            todo.extend(entries.map(|entry| entry.path()));
        }
    }
    used
}

/// Before something is written: removes what can be spared if the file system is almost full. One system call otherwise.
/// Returns warnings.
#[must_use]
pub fn make_room(settings: &Settings) -> Vec<String> {
    match free_bytes(&settings.root) {
        Ok(free) if free < MIN_FREE_BYTES && settings.root.exists() => SpareSpace::new(settings).enforce(),
        _ => Vec::new(),
    }
}

/// After something was written: keeps the agent below `keep_bytes`, and saves what it uses. Returns warnings.
#[must_use]
pub fn limit(settings: &Settings) -> Vec<String> {
    SpareSpace::new(settings).enforce()
}

/// True when a run has written more than its line in the history.
#[must_use]
pub(crate) fn has_written(report: &RunReport) -> bool {
    report.states.iter().any(|state| !state.changes.is_empty())
}

/// What may be removed.
#[derive(Clone, Copy)]
enum Spare {
    Aside,
    Generations,
    History,
    Journals,
    Plans,
    Repository,
    Downloads,
}

impl Spare {
    /// In this order.
    const ORDER: [Self; 7] = [
        Self::Aside,
        Self::Generations,
        Self::History,
        Self::Journals,
        Self::Plans,
        Self::Repository,
        Self::Downloads,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Aside => "stores that were moved aside",
            Self::Generations => "old generations",
            Self::History => "changes of old runs",
            Self::Journals => "old undo journals",
            Self::Plans => "cached plans",
            Self::Repository => "the fetched repository",
            Self::Downloads => "downloaded files",
        }
    }
}

struct SpareSpace<'s> {
    settings: &'s Settings,
    paths: Paths,
    used: u64,
}

impl<'s> SpareSpace<'s> {
    fn new(settings: &'s Settings) -> Self {
        Self { settings, paths: settings.paths(), used: used_bytes(&settings.root) }
    }

    fn is_enough(&self) -> bool {
        let is_free = free_bytes(&self.settings.root).map_or(true, |free| free >= MIN_FREE_BYTES);
        self.used <= self.settings.keep_bytes && is_free
    }

    fn enforce(mut self) -> Vec<String> {
        let (before, mut warnings, mut removed) = (self.used, Vec::new(), Vec::new());
        for spare in Spare::ORDER {
            if self.is_enough() {
                break;
            }
            let (used, what) = (self.used, spare.name());
            if let Err(why) = self.remove(spare) {
                warnings.push(format!("cannot remove {what}: {why}"));
            }
            self.used = used_bytes(&self.settings.root);
            if self.used < used {
                removed.push(what);
            }
        }
        let root = self.settings.root.display();
        if !removed.is_empty() {
            let freed = readable_size(before.saturating_sub(self.used));
            warnings.push(format!("space was short: removed {freed} below `{root}`: {}", removed.join(", ")));
        }
        let limit = self.settings.keep_bytes;
        if self.used > limit {
            warnings.push(format!(
                "`{root}` uses {}, and `keep_bytes` is {}: nothing more can be removed; most is in {}",
                readable_size(self.used),
                readable_size(limit),
                self.largest()
            ));
        } else if !self.is_enough() {
            let free = free_bytes(&self.settings.root).unwrap_or_default();
            warnings.push(format!(
                "only {} are free for `{root}`, and nothing of the agent can be removed: free space on this file system",
                readable_size(free)
            ));
        }
        let measured = SpaceUse { used: self.used, at: Timestamp::now() };
        if let Err(error) = json_file::write(&self.paths.space(), &measured) {
            warnings.push(error_chain(&error));
        }
        warnings
    }

    fn remove(&mut self, spare: Spare) -> Result<(), String> {
        match spare {
            Spare::Aside => self.remove_aside(),
            Spare::Generations => self.remove_generations(),
            Spare::History => self.remove_history(),
            Spare::Journals => self.remove_journals(),
            // Compiled again.
            Spare::Plans => remove(&self.paths.plans()),
            Spare::Repository => self.remove_repository(),
            Spare::Downloads => self.remove_downloads(),
        }
    }

    /// The largest directories below the root.
    fn largest(&self) -> String {
        let mut parts = Vec::new();
        for top in names(&self.settings.root) {
            let below = names(&self.settings.root.join(&top));
            let inner = below.iter().map(|name| format!("{top}/{name}"));
            parts.extend(inner.map(|name| (used_bytes(&self.settings.root.join(&name)), name)));
        }
        parts.sort_unstable_by(|a, b| b.cmp(a));
        let shown = parts.iter().take(3).map(|(bytes, name)| format!("{name} ({})", readable_size(*bytes)));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Stores that were damaged or belong to an earlier version; they were kept for an investigation.
    fn remove_aside(&self) -> Result<(), String> {
        let (history, paths) = (self.paths.history(), &self.paths);
        let is_aside = |name: &String| name.starts_with("store.");
        let mut aside: Vec<PathBuf> =
            names(&history).into_iter().filter(is_aside).map(|name| history.join(name)).collect();
        aside.extend([paths.heartbeats_aside(), paths.board_aside()]);
        aside.iter().try_for_each(|path| remove(path))
    }

    /// All but the current one, the one before it, the newest, and those that a run reads.
    fn remove_generations(&self) -> Result<(), String> {
        if !self.paths.generations().is_dir() {
            return Ok(());
        }
        let cache = Cache::open(&self.paths, &self.settings.source).map_err(|error| error_chain(&error))?;
        cache.gc_beyond(1).map(drop).map_err(|error| error_chain(&error))
    }

    fn remove_history(&self) -> Result<(), String> {
        let history = History::new(&self.paths, self.settings.run.keep);
        history.remove_files_beyond(MIN_RUNS).map_err(|error| error_chain(&error))
    }

    /// The oldest first, while no run is going on.
    fn remove_journals(&mut self) -> Result<(), String> {
        let Some(_idle) = NoRun::claim(&self.paths) else { return Ok(()) };
        let undo = self.paths.undo();
        let all = names(&undo);
        for name in all.iter().take(all.len().saturating_sub(MIN_JOURNALS)) {
            if self.is_enough() {
                break;
            }
            let path = undo.join(name);
            let bytes = used_bytes(&path);
            remove(&path)?;
            self.used = self.used.saturating_sub(bytes);
        }
        Ok(())
    }

    /// The next fetch downloads it again.
    fn remove_repository(&self) -> Result<(), String> {
        if !self.paths.repository().exists() {
            return Ok(());
        }
        let cache = Cache::open(&self.paths, &self.settings.source).map_err(|error| error_chain(&error))?;
        cache.remove_repository().map_err(|error| error_chain(&error))
    }

    /// The oldest first, while no run is going on.
    fn remove_downloads(&mut self) -> Result<(), String> {
        let Some(_idle) = NoRun::claim(&self.paths) else { return Ok(()) };
        let dir = self.paths.downloads();
        let dated = |name: String| {
            let path = dir.join(name);
            let meta = fs::symlink_metadata(&path).ok()?;
            Some((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
        };
        let mut all: Vec<(SystemTime, PathBuf)> = names(&dir).into_iter().filter_map(dated).collect();
        all.sort_unstable();
        for (_, path) in all {
            if self.is_enough() {
                break;
            }
            let bytes = used_bytes(&path);
            remove(&path)?;
            self.used = self.used.saturating_sub(bytes);
        }
        Ok(())
    }
}

/// Names in a directory, sorted; none when it cannot be read.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Removes a file or a directory; one that is missing is no error.
fn remove(path: &Path) -> Result<(), String> {
    let gone = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("`{}`: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
