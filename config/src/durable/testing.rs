//! Syncs in, the disk after a power cut out: a journal of what is durable below one directory.
//!
//! Law: what the journal restores is what some file system may leave: a synced file has its content, a synced
//! directory its names, and of everything else the old state, the new one or an empty file ([`Loss`]). Only calls
//! in this process are seen (held by `what_is_not_synced_is_lost`).

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::SyncKind;

/// How many mixtures of old and new are tried.
const MIXTURES: u64 = 8;
/// How many levels of directories are tried one by one.
const LEVELS: usize = 6;

/// What a power cut takes of the changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them.
    All,
    /// The content of files, but not names: a renamed file is empty.
    Content,
    /// Names in directories of fewer levels below the root, and nothing else.
    Above(usize),
    /// Names in directories of more levels below the root, and all content.
    Below(usize),
    /// Of some files and directories; which ones depends on the number.
    Mixed(u64),
}

impl Loss {
    /// Everything worth trying.
    pub fn each() -> impl Iterator<Item = Self> {
        let levels = (1..=LEVELS).flat_map(|level| [Self::Above(level), Self::Below(level)]);
        [Self::All, Self::Content].into_iter().chain(levels).chain((0..MIXTURES).map(Self::Mixed))
    }

    /// True when the unsynced names of a directory survive.
    fn keeps_names(self, path: &Path) -> bool {
        match self {
            Self::All => false,
            Self::Content => true,
            Self::Above(level) => path.components().count() >= level,
            Self::Below(level) => path.components().count() <= level,
            Self::Mixed(seed) => chance(seed, "names", path),
        }
    }

    /// True when the unsynced content of a file survives.
    fn keeps_content(self, path: &Path) -> bool {
        match self {
            Self::All | Self::Content | Self::Below(_) => false,
            Self::Above(_) => true,
            Self::Mixed(seed) => chance(seed, "content", path),
        }
    }
}

fn chance(seed: u64, what: &str, path: &Path) -> bool {
    let mut hasher = DefaultHasher::new();
    (seed, what, path).hash(&mut hasher);
    hasher.finish().is_multiple_of(2)
}

/// Which file or directory it is, whatever its name. The number of an inode alone is used again.
type NodeKey = (u64, Option<SystemTime>);

fn node_key(meta: &Metadata) -> NodeKey {
    (meta.ino(), meta.created().ok())
}

/// A name in a directory.
#[derive(Clone, Debug)]
enum NameEntry {
    File(NodeKey, u32),
    Dir(NodeKey, u32),
    Link(PathBuf),
}

/// Files and directories by key.
#[derive(Clone, Debug, Default)]
struct DiskImage {
    files: HashMap<NodeKey, Vec<u8>>,
    dirs: HashMap<NodeKey, BTreeMap<OsString, NameEntry>>,
}

impl DiskImage {
    /// Adds everything below a directory, as it is now.
    fn capture(&mut self, dir: &Path) {
        let Ok(meta) = std::fs::symlink_metadata(dir) else { return };
        let names = read_names(dir);
        for (name, entry) in &names {
            match entry {
                NameEntry::File(key, _) => {
                    self.files.insert(*key, std::fs::read(dir.join(name)).unwrap_or_default());
                }
                NameEntry::Dir(..) => self.capture(&dir.join(name)),
                NameEntry::Link(_) => {}
            }
        }
        self.dirs.insert(node_key(&meta), names);
    }
}

fn read_names(dir: &Path) -> BTreeMap<OsString, NameEntry> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let known = entries.filter_map(|entry| {
        let meta = std::fs::symlink_metadata(entry.path()).ok()?;
        let mode = meta.mode() & 0o7777;
        let found = match meta.file_type() {
            kind if kind.is_dir() => NameEntry::Dir(node_key(&meta), mode),
            kind if kind.is_symlink() => NameEntry::Link(std::fs::read_link(entry.path()).ok()?),
            kind if kind.is_file() => NameEntry::File(node_key(&meta), mode),
            // A socket does not survive anything.
            _ => return None,
        };
        Some((entry.file_name(), found))
    });
    known.collect()
}

/// What is durable below a directory, and what was synced so far.
#[derive(Debug)]
struct JournalState {
    root: PathBuf,
    durable: DiskImage,
    points: Vec<String>,
    skipped: Vec<usize>,
    cut_at: Option<usize>,
    /// The durable state and the whole one, at the moment of the cut.
    cut: Option<(DiskImage, DiskImage)>,
}

static JOURNALS: Mutex<Vec<Arc<Mutex<JournalState>>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the syncs below a directory until it is dropped.
#[derive(Debug)]
pub struct Journal(Arc<Mutex<JournalState>>);

impl Journal {
    /// Starts to watch; everything below `root` counts as durable now.
    #[must_use]
    pub fn start(root: &Path) -> Self {
        let mut durable = DiskImage::default();
        durable.capture(root);
        let state = JournalState {
            root: root.to_owned(),
            durable,
            points: Vec::new(),
            skipped: Vec::new(),
            cut_at: None,
            cut: None,
        };
        let state = Arc::new(Mutex::new(state));
        lock(&JOURNALS).push(state.clone());
        Self(state)
    }

    /// Leaves out these syncs: the first has the number 0.
    #[must_use]
    pub fn skip(self, numbers: &[usize]) -> Self {
        lock(&self.0).skipped = numbers.to_vec();
        self
    }

    /// Cuts the power just before one sync, which fails, as all later ones do.
    #[must_use]
    pub fn cut_at(self, number: usize) -> Self {
        lock(&self.0).cut_at = Some(number);
        self
    }

    /// The names of all syncs so far: `file`, `dir` or `below`, and the path.
    #[must_use]
    pub fn points(&self) -> Vec<String> {
        lock(&self.0).points.clone()
    }

    /// Ends the journal; below its root is then what a power cut leaves.
    pub fn power_cut(self, loss: Loss) {
        let mut state = lock(&self.0);
        let root = state.root.clone();
        let (durable, live) = state.cut.take().unwrap_or_else(|| {
            let mut live = DiskImage::default();
            live.capture(&root);
            (std::mem::take(&mut state.durable), live)
        });
        drop(state);
        drop(self);
        let key = node_key(&std::fs::metadata(&root).unwrap());
        let rest = PowerCut { durable, live, loss };
        rest.restore(&root, Path::new(""), key).unwrap();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        lock(&JOURNALS).retain(|state| !Arc::ptr_eq(state, &self.0));
    }
}

/// Makes a sync, unless a journal leaves it out, and notes what is durable now.
pub(super) fn observe(
    kind: SyncKind,
    path: &Path,
    file: Option<&File>,
    sync: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let known = lock(&JOURNALS).iter().find(|state| path.starts_with(&lock(state).root)).cloned();
    let Some(state) = known else { return sync() };
    if !lock(&state).begin(kind, path)? {
        return Ok(());
    }
    sync()?;
    lock(&state).finish(kind, path, file)
}

impl JournalState {
    /// False when the sync is left out.
    fn begin(&mut self, kind: SyncKind, path: &Path) -> io::Result<bool> {
        let number = self.points.len();
        let word = match kind {
            SyncKind::File => "file",
            SyncKind::Dir => "dir",
            SyncKind::Below => "below",
        };
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        self.points.push(format!("{word} {}", below.display()));
        if self.cut_at == Some(number) {
            let mut live = DiskImage::default();
            live.capture(&self.root);
            self.cut = Some((self.durable.clone(), live));
        }
        match self.cut {
            Some(_) => Err(io::Error::other("the power is cut")),
            None => Ok(!self.skipped.contains(&number)),
        }
    }

    fn finish(&mut self, kind: SyncKind, path: &Path, file: Option<&File>) -> io::Result<()> {
        match (kind, file) {
            (SyncKind::File, Some(file)) => {
                // The name may have changed, and the file may be open for writing only.
                let mut bytes = Vec::new();
                File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.read_to_end(&mut bytes)?;
                self.durable.files.insert(node_key(&file.metadata()?), bytes);
            }
            (SyncKind::Below, _) => self.durable.capture(path),
            _ => {
                self.durable.dirs.insert(node_key(&std::fs::metadata(path)?), read_names(path));
            }
        }
        Ok(())
    }
}

/// What the disk holds after the cut.
struct PowerCut {
    durable: DiskImage,
    live: DiskImage,
    loss: Loss,
}

impl PowerCut {
    /// Makes a directory what the cut leaves of it; what is right already is not touched.
    fn restore(&self, dir: &Path, below: &Path, key: NodeKey) -> io::Result<()> {
        let first = if self.loss.keeps_names(below) { &self.live } else { &self.durable };
        let empty = BTreeMap::new();
        let names = first.dirs.get(&key).unwrap_or(&empty);
        let present = read_names(dir);
        for (name, entry) in &present {
            if !names.get(name).is_some_and(|wanted| wanted.is_same(entry)) {
                match entry {
                    NameEntry::Dir(..) => std::fs::remove_dir_all(dir.join(name))?,
                    _ => std::fs::remove_file(dir.join(name))?,
                }
            }
        }
        for (name, entry) in names {
            let (path, below) = (dir.join(name), below.join(name));
            let is_present = present.get(name).is_some_and(|present| present.is_same(entry));
            match entry {
                NameEntry::Link(target) if !is_present => std::os::unix::fs::symlink(target, &path)?,
                NameEntry::Link(_) => {}
                NameEntry::Dir(key, mode) => {
                    if !is_present {
                        DirBuilder::new().mode(*mode).create(&path)?;
                    }
                    self.restore(&path, &below, *key)?;
                }
                NameEntry::File(key, mode) => self.restore_file(&path, &below, (*key, *mode))?,
            }
        }
        Ok(())
    }

    fn restore_file(&self, path: &Path, below: &Path, (key, mode): (NodeKey, u32)) -> io::Result<()> {
        let synced = self.durable.files.get(&key);
        let kept = if self.loss.keeps_content(below) { self.live.files.get(&key) } else { None };
        let bytes = kept.or(synced).map(Vec::as_slice).unwrap_or_default();
        if std::fs::read(path).is_ok_and(|present| present == bytes) {
            return Ok(());
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
        file.write_all(bytes)
    }
}

impl NameEntry {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one, _), Self::File(other, _)) | (Self::Dir(one, _), Self::Dir(other, _)) => {
                one == other
            }
            (Self::Link(one), Self::Link(other)) => one == other,
            _ => false,
        }
    }
}

/// Shows that every sync of `act` is needed: with all of them, `check` passes after a power cut; without those of any one
/// name it fails after some. `setup` makes a new place and names its directory. Returns the names of the syncs.
pub fn check_syncs<S, T, E: Debug>(
    setup: impl Fn() -> (S, PathBuf),
    act: impl Fn(&S) -> Result<T, E>,
    check: impl Fn(&S) -> Result<(), String>,
) -> Vec<String> {
    let attempt = |skipped: &[usize], loss: Loss| {
        let (site, root) = setup();
        let journal = Journal::start(&root).skip(skipped);
        act(&site).unwrap();
        let points = journal.points();
        journal.power_cut(loss);
        (points, check(&site))
    };
    let mut all = Vec::new();
    for loss in Loss::each() {
        let (points, found) = attempt(&[], loss);
        assert_eq!(found, Ok(()), "a power cut ({loss:?}) after {points:?}");
        all = points;
    }
    for name in &all {
        let numbers: Vec<usize> = (0..all.len()).filter(|number| all[*number] == *name).collect();
        let is_noticed = Loss::each().any(|loss| attempt(&numbers, loss).1.is_err());
        assert!(is_noticed, "no power cut reveals that the sync `{name}` is left out");
    }
    all
}

/// Cuts the power before every sync of `act`, in every way, and calls `check`, which passes when what is left is whole.
/// Returns the number of cuts.
pub fn check_cuts<S, T, E>(
    setup: impl Fn() -> (S, PathBuf),
    act: impl Fn(&S) -> Result<T, E>,
    check: impl Fn(&S) -> Result<(), String>,
) -> usize {
    let mut cuts = 0;
    for number in 0.. {
        for loss in Loss::each() {
            let (site, root) = setup();
            let journal = Journal::start(&root).cut_at(number);
            let outcome = act(&site);
            let points = journal.points();
            if outcome.is_ok() && points.len() <= number {
                return cuts;
            }
            journal.power_cut(loss);
            let name = points.get(number).cloned().unwrap_or_default();
            assert_eq!(check(&site), Ok(()), "a power cut ({loss:?}) before the sync `{name}`");
            cuts += 1;
        }
    }
    cuts
}
