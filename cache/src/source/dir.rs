//! A plain directory as a source: its files in, one digest of them all out; and a word when something changes.
//!
//! Law: directories are watched, never files, for an editor puts a new file in the place of the old one.

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
use zagent_config::settings::Source;

use super::error::{Failure, Kind};
use super::{Deadline, SourceError};

/// How deeply directories may be nested.
const MAX_DEPTH: usize = 64;
/// How long there must be quiet before a change is told.
const QUIET: Duration = Duration::from_millis(250);
/// How long a change is held back at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// A directory, and what was seen in it last.
pub struct Dir {
    root: PathBuf,
    max_file: u64,
    max_files: usize,
    known: HashMap<PathBuf, (Stamp, blake3::Hash)>,
}

/// What changes when a file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Dir {
    /// The source in a directory.
    #[must_use]
    pub fn new(root: &Path, source: &Source) -> Self {
        let (max_file, max_files) = (source.max_file, source.max_files);
        Self { root: root.into(), max_file, max_files, known: HashMap::new() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// True when a path is a directory that is no Git repository.
    #[must_use]
    pub fn is_plain(path: &Path) -> bool {
        let bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
        path.is_dir() && !bare && !path.join(".git").exists()
    }

    /// The digest of all names, modes and bytes; files that did not change are not read again.
    ///
    /// # Errors
    /// Fails when something cannot be read, or there is too much.
    pub fn fingerprint(&mut self, deadline: Deadline) -> Result<Revision, SourceError> {
        let shown = self.root.display().to_string();
        self.scan(deadline).map_err(|failure| failure.at(&shown))
    }

    fn scan(&mut self, deadline: Deadline) -> Result<Revision, Failure> {
        let mut known = HashMap::new();
        let mut digest = blake3::Hasher::new();
        let mut todo = vec![(PathBuf::new(), 0)];
        let mut files = 0;
        while let Some((dir, depth)) = todo.pop() {
            for name in list(&self.root.join(&dir))? {
                let path = dir.join(&name);
                let full = self.root.join(&path);
                if deadline.remaining().is_none() {
                    let late = format!("`{}` could not be read in time", self.root.display());
                    return Err(Failure::new(Kind::Timeout, late));
                }
                let Some(seen) = gone(std::fs::symlink_metadata(&full)).map_err(|e| cannot(&full, &e))?
                else {
                    continue;
                };
                files += 1;
                if files > self.max_files || depth > MAX_DEPTH {
                    let most =
                        format!("`{}` holds too many files, or is nested too deeply", self.root.display());
                    return Err(Failure::new(Kind::TooLarge, most));
                }
                let content = match seen.file_type() {
                    kind if kind.is_dir() => {
                        todo.push((path.clone(), depth + 1));
                        blake3::hash(b"directory")
                    }
                    kind if kind.is_symlink() => {
                        let to = std::fs::read_link(&full).map_err(|e| cannot(&full, &e))?;
                        blake3::hash(to.as_os_str().as_bytes())
                    }
                    kind if kind.is_file() => self.file(&path, &seen, &mut known)?,
                    _ => blake3::hash(b"neither file nor directory nor link"),
                };
                let length = path.as_os_str().len() as u64;
                digest.update(&length.to_le_bytes()).update(path.as_os_str().as_bytes());
                digest.update(&seen.mode().to_le_bytes()).update(content.as_bytes());
            }
        }
        self.known = known;
        let text = digest.finalize().to_hex().to_string();
        text.parse().map_err(|_| Failure::new(Kind::Local, "a digest is no revision"))
    }

    fn file(
        &self,
        path: &Path,
        seen: &Metadata,
        known: &mut HashMap<PathBuf, (Stamp, blake3::Hash)>,
    ) -> Result<blake3::Hash, Failure> {
        let stamp = Stamp {
            inode: seen.ino(),
            size: seen.size(),
            modified: (seen.mtime(), seen.mtime_nsec()),
            changed: (seen.ctime(), seen.ctime_nsec()),
        };
        let full = self.root.join(path);
        let digest = match self.known.get(path) {
            Some((then, digest)) if *then == stamp => *digest,
            _ => digest(&full, self.max_file)?,
        };
        known.insert(path.into(), (stamp, digest));
        Ok(digest)
    }
}

/// The names in a directory, sorted; not Git's own.
fn list(dir: &Path) -> Result<Vec<OsString>, Failure> {
    let Some(entries) = gone(std::fs::read_dir(dir)).map_err(|e| cannot(dir, &e))? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|e| cannot(dir, &e))?.file_name());
    }
    names.retain(|name| name != ".git");
    names.sort();
    Ok(names)
}

/// The digest of a file; one that is replaced by something else meanwhile cannot hold us up.
fn digest(path: &Path, limit: u64) -> Result<blake3::Hash, Failure> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file: File = open.map_err(|e| cannot(path, &e))?;
    let mut hasher = blake3::Hasher::new();
    let size =
        io::copy(&mut file.take(limit.saturating_add(1)), &mut hasher).map_err(|e| cannot(path, &e))?;
    if size > limit {
        let most = format!("`{}` is larger than the {limit} bytes that are allowed", path.display());
        return Err(Failure::new(Kind::TooLarge, most));
    }
    Ok(hasher.finalize())
}

fn gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    let shown = OsString::from_vec(path.as_os_str().as_bytes().to_vec());
    Failure::new(Kind::Local, format!("cannot read `{}`: {error}", Path::new(&shown).display()))
}

/// A watch over a directory; dropping it ends it.
pub struct Watch {
    _watcher: std::sync::Arc<std::sync::Mutex<RecommendedWatcher>>,
}

impl Watch {
    /// Calls `tell` when something in the directory has changed and it is quiet again. The directory may come later,
    /// and may be replaced as a whole, as long as the one above it stays.
    ///
    /// # Errors
    /// Fails when the system cannot watch.
    pub fn new(root: &Path, tell: impl Fn() + Send + 'static) -> Result<Self, SourceError> {
        let shown = root.display().to_string();
        let fail = |error: notify::Error| {
            let way = "changes are seen at the next poll only; the limit is fs.inotify.max_user_watches";
            let mut failure = Failure::new(Kind::Local, format!("cannot watch `{shown}` ({way})")).at(&shown);
            failure.source = Some(Box::new(error));
            failure
        };
        let (send, events) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                // Nobody listens once the watch is gone.
                let _ = send.send(());
            }
        });
        let watcher = std::sync::Arc::new(std::sync::Mutex::new(watcher.map_err(&fail)?));
        watch(&watcher, root).map_err(&fail)?;
        let (again, root) = (std::sync::Arc::downgrade(&watcher), root.to_owned());
        std::thread::spawn(move || {
            while quiet(&events, QUIET, PATIENCE) {
                // The directory itself may be a new one.
                if let Some(watcher) = again.upgrade() {
                    let _ = watch(&watcher, &root);
                }
                tell();
            }
        });
        Ok(Self { _watcher: watcher })
    }
}

fn watch(watcher: &std::sync::Mutex<RecommendedWatcher>, root: &Path) -> notify::Result<()> {
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

/// Waits for a change and then for quiet; false when nobody will tell any more.
fn quiet(events: &Receiver<()>, quiet: Duration, patience: Duration) -> bool {
    if events.recv().is_err() {
        return false;
    }
    let end = Instant::now() + patience;
    loop {
        match events.recv_timeout(quiet) {
            Ok(()) if Instant::now() < end => {}
            Ok(()) | Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
