//! A plain directory as a source: its files in, one digest of them all out; and a notification when something changes.
//!
//! Law: directories are watched, never files, because an editor replaces the old file with a new one (held by
//! `changes_in_a_directory_are_reported_when_it_is_quiet`).

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use rustix::fs::OFlags;
use zagent_config::ids::Revision;
use zagent_config::settings::SourceSettings;

use super::error::{SourceErrorKind, SourceFailure};
use super::{Deadline, SourceError};

/// How deeply directories may be nested.
const MAX_DEPTH: usize = 64;
/// How long nothing may change before a change is reported.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// How long a change is held back at most.
const MAX_DEBOUNCE: Duration = Duration::from_secs(5);

/// A directory, and its last scan.
pub struct DirSource {
    root: PathBuf,
    max_file: u64,
    max_files: usize,
    known: HashMap<PathBuf, (DirStamp, blake3::Hash)>,
}

/// Metadata that changes when a file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct DirStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl DirSource {
    /// The source in a directory.
    #[must_use]
    pub fn new(root: &Path, source: &SourceSettings) -> Self {
        let (max_file, max_files) = (source.max_file, source.max_files);
        Self { root: root.into(), max_file, max_files, known: HashMap::new() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// True when a path is a directory that is not a Git repository.
    #[must_use]
    pub fn is_plain_dir(path: &Path) -> bool {
        let bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
        path.is_dir() && !bare && !path.join(".git").exists()
    }

    /// The digest of all names, modes and contents; unchanged files are not read again.
    ///
    /// # Errors
    /// Fails when something cannot be read, or when there is too much.
    pub fn fingerprint(&mut self, deadline: Deadline) -> Result<Revision, SourceError> {
        let shown = self.root.display().to_string();
        self.scan_tree(deadline).map_err(|failure| failure.with_remote(&shown))
    }

    fn scan_tree(&mut self, deadline: Deadline) -> Result<Revision, SourceFailure> {
        let mut known = HashMap::new();
        let mut digest = blake3::Hasher::new();
        let mut todo = vec![(PathBuf::new(), 0)];
        let mut files = 0;
        while let Some((dir, depth)) = todo.pop() {
            for name in list_dir(&self.root.join(&dir))? {
                let path = dir.join(&name);
                let full = self.root.join(&path);
                if deadline.remaining().is_none() {
                    let late = format!("cannot read `{}` within the time limit", self.root.display());
                    return Err(SourceFailure::new(SourceErrorKind::Timeout, late));
                }
                let Some(seen) =
                    absent_as_none(std::fs::symlink_metadata(&full)).map_err(|e| read_failure(&full, &e))?
                else {
                    continue;
                };
                files += 1;
                if files > self.max_files || depth > MAX_DEPTH {
                    let most =
                        format!("`{}` contains too many files, or is nested too deeply", self.root.display());
                    return Err(SourceFailure::new(SourceErrorKind::TooLarge, most));
                }
                let content = match seen.file_type() {
                    kind if kind.is_dir() => {
                        todo.push((path.clone(), depth + 1));
                        blake3::hash(b"directory")
                    }
                    kind if kind.is_symlink() => {
                        let to = std::fs::read_link(&full).map_err(|e| read_failure(&full, &e))?;
                        blake3::hash(to.as_os_str().as_bytes())
                    }
                    kind if kind.is_file() => self.digest_cached(&path, &seen, &mut known)?,
                    _ => blake3::hash(b"neither file nor directory nor link"),
                };
                let length = path.as_os_str().len() as u64;
                digest.update(&length.to_le_bytes()).update(path.as_os_str().as_bytes());
                digest.update(&seen.mode().to_le_bytes()).update(content.as_bytes());
            }
        }
        self.known = known;
        let text = digest.finalize().to_hex().to_string();
        text.parse()
            .map_err(|_| SourceFailure::new(SourceErrorKind::Local, "the digest is not a valid revision"))
    }

    fn digest_cached(
        &self,
        path: &Path,
        seen: &Metadata,
        known: &mut HashMap<PathBuf, (DirStamp, blake3::Hash)>,
    ) -> Result<blake3::Hash, SourceFailure> {
        let stamp = DirStamp {
            inode: seen.ino(),
            size: seen.size(),
            modified: (seen.mtime(), seen.mtime_nsec()),
            changed: (seen.ctime(), seen.ctime_nsec()),
        };
        let full = self.root.join(path);
        let digest = match self.known.get(path) {
            Some((then, digest)) if *then == stamp => *digest,
            _ => digest_file(&full, self.max_file)?,
        };
        known.insert(path.into(), (stamp, digest));
        Ok(digest)
    }
}

/// The names in a directory, sorted, without `.git`.
fn list_dir(dir: &Path) -> Result<Vec<OsString>, SourceFailure> {
    let Some(entries) = absent_as_none(std::fs::read_dir(dir)).map_err(|e| read_failure(dir, &e))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|e| read_failure(dir, &e))?.file_name());
    }
    names.retain(|name| name != ".git");
    names.sort();
    Ok(names)
}

/// The digest of a file; does not block if something else replaced it.
fn digest_file(path: &Path, limit: u64) -> Result<blake3::Hash, SourceFailure> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file: File = open.map_err(|e| read_failure(path, &e))?;
    let mut hasher = blake3::Hasher::new();
    let size =
        io::copy(&mut file.take(limit.saturating_add(1)), &mut hasher).map_err(|e| read_failure(path, &e))?;
    if size > limit {
        let most = format!("`{}` exceeds the limit of {limit} bytes", path.display());
        return Err(SourceFailure::new(SourceErrorKind::TooLarge, most));
    }
    Ok(hasher.finalize())
}

fn absent_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn read_failure(path: &Path, error: &io::Error) -> SourceFailure {
    let shown = OsString::from_vec(path.as_os_str().as_bytes().to_vec());
    SourceFailure::new(
        SourceErrorKind::Local,
        format!("cannot read `{}`: {error}", Path::new(&shown).display()),
    )
}

/// A watch over a directory; dropping it ends it.
pub struct DirWatcher {
    _watcher: std::sync::Arc<std::sync::Mutex<RecommendedWatcher>>,
}

impl DirWatcher {
    /// Calls `tell` when something in the directory changed and no change followed for a while. The directory may
    /// appear later, and may be replaced as a whole, as long as its parent stays.
    ///
    /// # Errors
    /// Fails when the system cannot watch it.
    pub fn new(root: &Path, tell: impl Fn() + Send + 'static) -> Result<Self, SourceError> {
        let shown = root.display().to_string();
        let fail = |error: notify::Error| {
            let way = "changes are only seen at the next poll; check the limit fs.inotify.max_user_watches";
            let mut failure =
                SourceFailure::new(SourceErrorKind::Local, format!("cannot watch `{shown}` ({way})"))
                    .with_remote(&shown);
            failure.source = Some(Box::new(error));
            failure
        };
        let (send, events) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                // There is no listener after the watch is dropped.
                let _ = send.send(());
            }
        });
        let watcher = std::sync::Arc::new(std::sync::Mutex::new(watcher.map_err(&fail)?));
        watch_paths(&watcher, root).map_err(&fail)?;
        let (again, root) = (std::sync::Arc::downgrade(&watcher), root.to_owned());
        std::thread::spawn(move || {
            while wait_for_quiet(&events, DEBOUNCE, MAX_DEBOUNCE) {
                // The directory itself may be a new one.
                if let Some(watcher) = again.upgrade() {
                    let _ = watch_paths(&watcher, &root);
                }
                tell();
            }
        });
        Ok(Self { _watcher: watcher })
    }
}

fn watch_paths(watcher: &std::sync::Mutex<RecommendedWatcher>, root: &Path) -> notify::Result<()> {
    let mut watcher = watcher.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // It may not have been watched before.
    let _ = watcher.unwatch(root);
    if let Some(above) = root.parent() {
        watcher.watch(above, RecursiveMode::NonRecursive)?;
    }
    if root.is_dir() {
        watcher.watch(root, RecursiveMode::Recursive)?;
    }
    Ok(())
}

/// Waits for a change and then for quiet; false when no more notifications can come.
fn wait_for_quiet(events: &Receiver<()>, quiet: Duration, max_wait: Duration) -> bool {
    if events.recv().is_err() {
        return false;
    }
    let end = Instant::now() + max_wait;
    loop {
        match events.recv_timeout(quiet) {
            Ok(()) if Instant::now() < end => {}
            Ok(()) | Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
