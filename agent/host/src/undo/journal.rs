//! Records in, a durable file out: the journal of the run that is under way.
//!
//! Law: when [`UndoJournal::commit`] returns, its records are on disk. Many workers wait for one sync: the first
//! one syncs for all that have written by then, so that a run of a thousand files does not wait a thousand times
//! (held by `many_workers_share_one_journal`).

#![expect(clippy::disallowed_methods, reason = "a journal is named by the time at which it begins")]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use zagent_config::SecretMask;

use super::frame::{self, MAGIC};
use super::record::{BodyRange, ChangeNote, FileChange, JournalRecord, SavedContent, TempName};
use crate::fs::FsError;

/// The journal's file in the directory of a run.
pub(crate) const JOURNAL_FILE: &str = "journal";
/// The file beside the journal with the `retry` of each state that has one, by tag.
pub(crate) const RETRIES_FILE: &str = "retries";

/// The undo journal of a run that is under way; shared by all its workers. Nothing is on the disk before the first record.
#[derive(Debug)]
pub struct UndoJournal {
    run: String,
    dir: PathBuf,
    writer: Mutex<JournalWriter>,
    sync: Mutex<SyncState>,
    sync_done: Condvar,
    /// What tags must not show.
    mask: SecretMask,
    /// `retry` of states by tag.
    retries: serde_json::Map<String, serde_json::Value>,
}

/// Where a record ends; what is needed to wait for it.
#[must_use = "a record is durable only after a commit"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalOffset(u64);

/// A change that is to be noted.
#[derive(Debug)]
pub(crate) struct ChangeDraft<'a> {
    pub tag: &'a str,
    pub path: &'a Path,
    pub change: FileChange,
    pub temp: Option<TempName>,
    /// Old content that goes into the journal itself.
    pub body: &'a [u8],
}

#[derive(Debug, Default)]
struct JournalWriter {
    file: Option<std::sync::Arc<File>>,
    end: u64,
    seq: u64,
    blobs: u64,
    /// Set when the file may end in something that is no record; what came after it would not be read.
    is_broken: bool,
}

#[derive(Debug, Default)]
struct SyncState {
    durable: u64,
    is_syncing: bool,
    /// A disk that failed once may have forgotten what it was given; nothing is believed any more.
    is_broken: bool,
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken_error() -> io::Error {
    io::Error::other("the undo journal could not be written before")
}

impl UndoJournal {
    /// The journal of a run, in a directory of its own below `root`.
    ///
    /// # Errors
    /// Fails when the run's name cannot be that of a directory.
    pub fn create(root: &Path, run: &str) -> Result<Self, FsError> {
        let mut parts = Path::new(run).components();
        let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !is_name || run.contains(['/', '\0']) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "a run's name must be a file name");
            return Err(FsError::new("create undo journal", root.join(run), error));
        }
        let (pen, sync) = (Mutex::default(), Mutex::default());
        let mask = SecretMask::default();
        Ok(Self {
            run: run.to_owned(),
            dir: root.join(run),
            writer: pen,
            sync,
            sync_done: Condvar::new(),
            mask,
            retries: serde_json::Map::new(),
        })
    }

    /// The same; tags are noted without these secrets, because a revert names them.
    #[must_use]
    pub fn hiding(self, mask: &SecretMask) -> Self {
        Self { mask: mask.clone(), ..self }
    }

    /// The same with the `retry` of the states of the run, by tag, so that a revert tries again as the run did.
    #[must_use]
    pub fn with_retries(self, retries: impl IntoIterator<Item = (String, serde_json::Value)>) -> Self {
        let retries = retries.into_iter().map(|(tag, retry)| (self.mask.mask_string(&tag), retry)).collect();
        Self { retries, ..self }
    }

    /// The directory that it stands in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// True when nothing was noted: there is nothing on the disk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock_mutex(&self.writer).file.is_none()
    }

    /// Notes that a state did something which cannot be undone. Nobody waits for the disk: there is nothing to lose, and
    /// the next record that matters takes it along.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn note_irreversible(&self, tag: &str, why: &str) -> Result<(), FsError> {
        let note = |seq| JournalRecord::Irreversible {
            seq,
            tag: self.mask.mask_tag(tag).into_owned(),
            why: why.to_owned(),
        };
        self.append_record(note, &[]).map(|_| ()).map_err(|error| self.fs_error(error))
    }

    /// Notes how something that is no file was; must be called before it is changed.
    ///
    /// # Errors
    /// Fails when it cannot be made durable.
    pub fn note_other(&self, tag: &str, data: serde_json::Value) -> Result<(), FsError> {
        let tag = self.mask.mask_tag(tag).into_owned();
        self.append_record(|seq| JournalRecord::Other { seq, tag, data }, &[])
            .and_then(|mark| self.commit(mark))
            .map_err(|error| self.fs_error(error))
    }

    /// Ends the journal: the run left nothing behind that has to be cleared up.
    ///
    /// # Errors
    /// Fails when it cannot be made durable.
    pub fn finish(&self) -> Result<(), FsError> {
        if self.is_empty() {
            return Ok(());
        }
        self.append_record(|_| JournalRecord::End { is_clean: true }, &[])
            .and_then(|mark| self.commit(mark))
            .map_err(|error| self.fs_error(error))
    }

    fn fs_error(&self, error: io::Error) -> FsError {
        FsError::new("write undo journal", self.dir.join(JOURNAL_FILE), error)
    }

    /// Writes down a change that is about to be made. It is durable after [`Self::commit`], and a reader
    /// of the journal sees it even before that, after this process was killed.
    pub(crate) fn note_change(&self, draft: ChangeDraft<'_>) -> io::Result<JournalOffset> {
        let ChangeDraft { tag, path, change, temp, body } = draft;
        let note = |seq| {
            let (tag, path) = (self.mask.mask_tag(tag).into_owned(), path.to_owned());
            JournalRecord::Note(Box::new(ChangeNote {
                seq,
                tag,
                path,
                change,
                temp,
                body: BodyRange::default(),
            }))
        };
        self.append_record(note, body).map_err(|error| self.wrap_error(error))
    }

    /// Waits until everything up to the mark is on the disk.
    pub fn commit(&self, mark: JournalOffset) -> io::Result<()> {
        let mut sync = lock_mutex(&self.sync);
        loop {
            if sync.is_broken {
                return Err(self.wrap_error(broken_error()));
            }
            if sync.durable >= mark.0 {
                return Ok(());
            }
            if sync.is_syncing {
                sync = self.sync_done.wait(sync).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            sync.is_syncing = true;
            drop(sync);
            let (file, end) = {
                let pen = lock_mutex(&self.writer);
                (pen.file.clone(), pen.end)
            };
            let answer = file.map_or(Ok(()), |file| file.sync_data());
            sync = lock_mutex(&self.sync);
            sync.is_syncing = false;
            sync.is_broken |= answer.is_err();
            if answer.is_ok() {
                sync.durable = sync.durable.max(end);
            }
            self.sync_done.notify_all();
            answer.map_err(|error| self.wrap_error(error))?;
        }
    }

    /// Keeps the content of a big file beside the journal, durably. Gives its place and the digest of what was read.
    pub(crate) fn store_blob(
        &self,
        content: &mut dyn io::Read,
    ) -> io::Result<(SavedContent, blake3::Hash, u64)> {
        self.store_blob_inner(content).map_err(|error| self.wrap_error(error))
    }

    fn store_blob_inner(&self, content: &mut dyn io::Read) -> io::Result<(SavedContent, blake3::Hash, u64)> {
        let name = {
            let mut pen = lock_mutex(&self.writer);
            self.open_file(&mut pen)?;
            pen.blobs += 1;
            format!("blob-{}", pen.blobs)
        };
        let path = self.dir.join(&name);
        let kept = copy_to_new_file(content, &path).and_then(|copied| {
            File::open(&self.dir)?.sync_all()?;
            Ok(copied)
        });
        if kept.is_err() {
            // Half a copy is of no use, and the disk may be full.
            let _ = std::fs::remove_file(&path);
        }
        let (digest, size) = kept?;
        Ok((SavedContent::Blob(name), digest, size))
    }

    /// Names the journal in an error that ends up in one about a managed file.
    fn wrap_error(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), self.fs_error(error))
    }

    fn append_record(
        &self,
        record: impl FnOnce(u64) -> JournalRecord,
        body: &[u8],
    ) -> io::Result<JournalOffset> {
        let mut pen = lock_mutex(&self.writer);
        let file = self.open_file(&mut pen)?;
        let bytes = frame::encode_record(&record(pen.seq + 1), body)?;
        append_bytes(&mut pen, &file, &bytes)?;
        pen.seq += 1;
        Ok(JournalOffset(pen.end))
    }

    fn open_file(&self, pen: &mut JournalWriter) -> io::Result<std::sync::Arc<File>> {
        if pen.is_broken {
            return Err(broken_error());
        }
        if let Some(file) = &pen.file {
            return Ok(file.clone());
        }
        let root = self.dir.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        DirBuilder::new().mode(0o700).create(&self.dir)?;
        let begun = self.begin_file(pen, root);
        if begun.is_err() {
            // As if it had not been tried: on a full disk the next change tries again, and gets the same answer.
            let _ = std::fs::remove_file(self.dir.join(JOURNAL_FILE));
            let _ = std::fs::remove_file(self.dir.join(RETRIES_FILE));
            let _ = std::fs::remove_dir(&self.dir);
            *pen = JournalWriter::default();
        }
        begun
    }

    fn begin_file(&self, pen: &mut JournalWriter, root: &Path) -> io::Result<std::sync::Arc<File>> {
        let path = self.dir.join(JOURNAL_FILE);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let file = std::sync::Arc::new(file);
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let started = u64::try_from(started).unwrap_or(u64::MAX);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frame::encode_record(&JournalRecord::Begin { run: self.run.clone(), started }, &[])?);
        append_bytes(pen, &file, &bytes)?;
        if !self.retries.is_empty() {
            let bytes = serde_json::to_vec(&self.retries)?;
            copy_to_new_file(&mut bytes.as_slice(), &self.dir.join(RETRIES_FILE))?;
        }
        File::open(&self.dir)?.sync_all()?;
        File::open(root)?.sync_all()?;
        pen.file = Some(file.clone());
        Ok(file)
    }
}

/// Copies everything into a new file, durably; gives the digest and the size.
fn copy_to_new_file(content: &mut dyn io::Read, path: &Path) -> io::Result<(blake3::Hash, u64)> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let count = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        file.write_all(&buffer[..count])?;
        size += count as u64;
    }
    file.sync_all()?;
    Ok((hasher.finalize(), size))
}

fn append_bytes(pen: &mut JournalWriter, file: &File, bytes: &[u8]) -> io::Result<()> {
    // Positioned, so that a write that failed half-way is overwritten by the next.
    if let Err(error) = file.write_all_at(bytes, pen.end) {
        pen.is_broken = file.set_len(pen.end).is_err();
        return Err(error);
    }
    pen.end += bytes.len() as u64;
    Ok(())
}
