//! Journals of killed runs in, a host without their leftovers out.
//!
//! Law: only what such a journal names is removed, and only when it looks as we would have made it (held by
//! `leftovers_of_a_killed_run_are_removed_and_nothing_else`).

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use zagent_config::disk_space::is_full;

use super::frame;
use super::journal::JOURNAL_FILE;
use super::journal_reader::{JournalReader, run_names};
use super::record::{ChangeNote, JournalRecord};
use crate::fs::atomic_write::is_temp_name;
use crate::fs::path_at::PathAt;
use crate::fs::{FileKind, FsError, FsRoot};

/// Removes what runs that were killed left behind half-made below a root, and ends their journals. Gives the paths that it
/// removed.
/// No run may be under way.
///
/// # Errors
/// Fails when the journals cannot be listed or ended, unless the disk is full. A leftover that cannot be removed is not an error: its journal stays
/// open, so that the next call tries again.
pub fn recover(root: &FsRoot, undo_dir: &Path) -> Result<Vec<PathBuf>, FsError> {
    let mut removed = Vec::new();
    for run in run_names(undo_dir)? {
        let dir = undo_dir.join(&run);
        if is_ended(&dir.join(JOURNAL_FILE)) {
            continue;
        }
        // What cannot be read at all names nothing to clear up.
        let Ok(notes) = JournalReader::open(&dir) else { continue };
        if notes.is_finished() {
            continue;
        }
        if notes.records().is_empty() {
            // Killed before it noted anything, so before it changed anything; or not ours to cut off.
            continue;
        }
        let mut is_clear = true;
        for record in notes.records() {
            let JournalRecord::Note(note) = record else { continue };
            match remove_leftover(root, note) {
                Ok(Some(path)) => removed.push(path),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(path = %note.path.display(), %error, "cannot remove what a killed run left");
                    is_clear = false;
                }
            }
        }
        if is_clear {
            match end_journal(&dir.join(JOURNAL_FILE), notes.valid_end()) {
                // The next call tries again, with more space.
                Err(error) if is_full(&error) => {
                    tracing::warn!(run, %error, "cannot end the undo journal of a killed run");
                }
                ended => {
                    ended.map_err(|error| FsError::new("end undo journal", dir.join(JOURNAL_FILE), error))?;
                }
            }
        }
    }
    Ok(removed)
}

/// True when the last bytes of a journal end it: the cheap answer for nearly all of them.
fn is_ended(path: &Path) -> bool {
    let look = || -> io::Result<bool> {
        let file = std::fs::File::open(path)?;
        let len = file.metadata()?.len();
        for is_clean in [true, false] {
            let end = frame::encode_record(&JournalRecord::End { is_clean }, &[])?;
            let mut tail = vec![0; end.len()];
            let Some(at) = len.checked_sub(end.len() as u64) else { continue };
            file.read_exact_at(&mut tail, at)?;
            if tail == end {
                return Ok(true);
            }
        }
        Ok(false)
    };
    look().unwrap_or(false)
}

fn remove_leftover(root: &FsRoot, note: &ChangeNote) -> io::Result<Option<PathBuf>> {
    let Some(temp) = note.temp.as_ref().filter(|temp| is_temp_name(&temp.name)) else { return Ok(None) };
    let path = note.path.with_file_name(&temp.name);
    let place = match PathAt::open(root, &path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        place => place?,
    };
    let Some(stat) = place.stat()? else { return Ok(None) };
    let is_ours = stat.uid == rustix::process::geteuid().as_raw() || Some(stat.uid) == temp.uid;
    let flags = match stat.kind {
        FileKind::File | FileKind::Link if is_ours => AtFlags::empty(),
        FileKind::Dir if is_ours => AtFlags::REMOVEDIR,
        _ => return Ok(None),
    };
    match rustix::fs::unlinkat(&place.dir, &place.name, flags) {
        // Ours are empty.
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(None),
        answer => Ok(answer.map(|()| Some(path))?),
    }
}

/// Cuts off what is no record and ends the journal.
fn end_journal(path: &Path, end: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(end)?;
    file.write_all_at(&frame::encode_record(&JournalRecord::End { is_clean: false }, &[])?, end)?;
    file.sync_all()
}
