//! Others who work on the same directories at the same time.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};

use super::super::Disk;
use super::{STRANGER, is_root, mode};
use crate::fs::{FileMeta, FileSystem};

const ROUNDS: usize = 1500;

/// Says that it is over when it goes, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps two names until told to stop.
fn swap(one: &Path, other: &Path, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        // It may be moved away by the other side; then there is nothing to swap just now.
        let _ = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    }
}

/// Does something many times while somebody swaps two names.
fn while_swapping(one: &Path, other: &Path, mut act: impl FnMut(usize)) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(one, other, &is_over));
        let _over = Over(&is_over);
        (0..ROUNDS).for_each(&mut act);
    });
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_elsewhere() {
    let dir = super::temp_dir();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    for name in ["victim", "shared", "shared/d"] {
        disk.make_dir(&at(name), mode(0o755)).unwrap();
    }
    disk.write(&at("victim/kept"), b"kept", mode(0o600)).unwrap();
    disk.symlink(&at("shared/link"), &at("victim"), FileMeta::default()).unwrap();
    disk.set_meta(&at("shared"), mode(0o777), false).unwrap();
    let mut refused = 0;
    while_swapping(&at("shared/d"), &at("shared/link"), |round| {
        let answers = [
            disk.write(&at("shared/d/x"), b"x", mode(0o644)),
            disk.make_dir(&at(&format!("shared/d/{round}")), mode(0o755)),
            disk.symlink(&at("shared/d/l"), Path::new("x"), FileMeta::default()),
            disk.remove(&at("shared/d/kept")),
            disk.set_meta(&at("shared/d/kept"), mode(0o666), true),
            disk.set_times(&at("shared/d/kept"), 0, 0),
        ];
        refused += answers.into_iter().filter(Result::is_err).count();
    });
    assert!(refused > 0);
    assert_eq!(disk.read_dir(&at("victim")).unwrap().len(), 1);
    let kept = disk.lstat(&at("victim/kept")).unwrap().unwrap();
    assert_eq!((kept.mode, kept.mtime == 0), (0o600, false));
}

#[test]
fn a_file_swapped_for_a_link_is_never_written_through() {
    let dir = super::temp_dir();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    disk.write(&at("victim"), b"kept", mode(0o600)).unwrap();
    disk.make_dir(&at("shared"), mode(0o777)).unwrap();
    let mut written = 0;
    while_swapping(&at("shared/x"), &at("shared/link"), |round| {
        // Either name may be the link just now, and become it between two looks; then some of it is refused.
        let _ = disk.symlink(&at("shared/link"), &at("victim"), FileMeta::default());
        written += usize::from(disk.write(&at("shared/x"), &round.to_le_bytes(), mode(0o666)).is_ok());
        let _ = disk.set_meta(&at("shared/x"), mode(0o666), true);
        let _ = disk.set_meta(&at("shared/x"), mode(0o666), false);
    });
    assert!(written > 0);
    assert_eq!(disk.read(&at("victim")).unwrap(), b"kept");
    assert_eq!(disk.lstat(&at("victim")).unwrap().unwrap().mode, 0o600);
}

#[test]
fn a_tree_whose_directories_are_swapped_for_links_is_removed_alone() {
    let dir = super::temp_dir();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    disk.make_dir(&at("victim"), mode(0o755)).unwrap();
    disk.write(&at("victim/kept"), b"kept", mode(0o600)).unwrap();
    disk.make_dir(&at("aside"), mode(0o755)).unwrap();
    disk.symlink(&at("aside/link"), &at("victim"), FileMeta::default()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&at("tree/d"), &at("aside/link"), &is_over));
        let _over = Over(&is_over);
        for _ in 0..ROUNDS / 5 {
            // Whatever of it the other side does not thwart; in a directory that all may write to, no link is followed.
            let _ = disk.make_dir(&at("tree"), mode(0o777));
            let _ = disk.make_dir(&at("tree/d"), mode(0o755));
            let _ = disk.write(&at("tree/d/kept"), b"ours", FileMeta::default());
            let _ = disk.remove(&at("tree"));
        }
    });
    assert_eq!(disk.read(&at("victim/kept")).unwrap(), b"kept");
}

/// What a file says about itself: the owner and the mode that it must have.
fn face(is_secret: bool) -> (&'static [u8], FileMeta) {
    let uid = is_root().then_some(if is_secret { 0 } else { STRANGER });
    match is_secret {
        true => (b"secret", FileMeta { mode: Some(0o600), uid, gid: None }),
        false => (b"public", FileMeta { mode: Some(0o644), uid, gid: None }),
    }
}

/// Reads a file and compares what it says with what it has. The content is read first: what is there by then must have its
/// owner and mode already.
fn verify(path: &Path) -> bool {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap();
    let Ok(mut file) = File::options().read(true).custom_flags(flags).open(path) else { return false };
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    let found = file.metadata().unwrap();
    if content.is_empty() {
        return false;
    }
    let is_secret = content.starts_with(b"s");
    let (whole, meta) = face(is_secret);
    assert!(whole.starts_with(&content));
    assert_eq!(Some(found.mode() & 0o7777), meta.mode, "content under a wrong mode");
    assert_eq!(found.uid(), meta.uid.unwrap_or(found.uid()), "content under a wrong owner");
    content == whole
}

#[test]
fn content_is_never_seen_under_a_wrong_owner_or_mode() {
    let dir = super::temp_dir();
    let (disk, path) = (Disk::default(), dir.path().join("x"));
    let (content, meta) = face(true);
    disk.write(&path, content, meta).unwrap();
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert!(verify(&path), "it is always there, and whole");
                // Also under the names that it has before it gets its own.
                for entry in std::fs::read_dir(dir.path()).unwrap() {
                    seen += usize::from(verify(&entry.unwrap().path()));
                }
            }
            seen
        });
        let over = Over(&is_over);
        for round in 0..ROUNDS {
            let (content, meta) = face(round % 2 == 0);
            disk.write(&path, content, meta).unwrap();
        }
        drop(over);
        reader.join().unwrap()
    });
    assert!(seen > 0);
    assert_eq!(disk.read_dir(dir.path()).unwrap().len(), 1, "nothing is left behind");
}
