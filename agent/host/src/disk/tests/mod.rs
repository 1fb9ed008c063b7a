//! The disk: what it keeps, what it refuses, and who tries to trick it.

pub mod actions;
pub(crate) mod race;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use super::Disk;
use crate::fs::{FileKind, FileMeta, FileSystem, FsError, Overlay};
use crate::undo::UndoJournal;

/// Somebody who is not us.
const STRANGER: u32 = 12345;

fn mode(mode: u32) -> FileMeta {
    FileMeta { mode: Some(mode), ..FileMeta::default() }
}

/// Where a sync costs nothing, if there is such a place.
pub fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn writes_and_looks_agree() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (Disk::default(), dir.path().join("x"));
    assert_eq!(disk.compare(&path, b"one").unwrap(), None);
    disk.write(&path, b"one", mode(0o640)).unwrap();
    let (stat, is_same) = disk.compare(&path, b"one").unwrap().unwrap();
    assert_eq!((stat.mode, stat.size, is_same), (0o640, 3, true));
    assert!(!disk.compare(&path, b"two").unwrap().unwrap().1);
    assert!(!disk.compare(&path, b"longer").unwrap().unwrap().1);
    disk.write(&path, b"two", FileMeta::default()).unwrap();
    assert_eq!(disk.lstat(&path).unwrap().unwrap().mode, 0o640);
    assert_eq!(disk.read(&path).unwrap(), b"two");
    assert_eq!(disk.read_dir(dir.path()).unwrap(), [(OsString::from("x"), FileKind::File)]);
    disk.remove(&path).unwrap();
    assert!(disk.remove(&path).unwrap_err().is_not_found());
}

#[test]
fn content_is_compared_over_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (Disk::default(), dir.path().join("x"));
    for len in [0, 1, 4096, 128 * 1024, 128 * 1024 + 1, 700_000] {
        let mut content: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        disk.write(&path, &content, FileMeta::default()).unwrap();
        assert!(disk.compare(&path, &content).unwrap().unwrap().1, "{len}");
        if let Some(last) = content.last_mut() {
            *last ^= 1;
            assert!(!disk.compare(&path, &content).unwrap().unwrap().1, "{len}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_not_absent() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    disk.symlink(&at("loop"), Path::new("loop"), FileMeta::default()).unwrap();
    disk.symlink(&at("nowhere"), Path::new("missing"), FileMeta::default()).unwrap();
    disk.write(&at("file"), b"", FileMeta::default()).unwrap();
    assert!(disk.stat(&at("loop")).is_err() && disk.compare(&at("loop"), b"").is_err());
    assert_eq!(disk.stat(&at("nowhere")).unwrap(), None);
    assert_eq!(disk.lstat(&at("file/below")).unwrap(), None);
    assert_eq!(disk.compare(&at("file/below"), b"").unwrap(), None);
    assert_eq!(disk.read(dir.path()).unwrap_err().source.kind(), ErrorKind::IsADirectory);
    assert_eq!(
        disk.compare(dir.path(), b"").unwrap().map(|(stat, is_same)| (stat.kind, is_same)),
        Some((FileKind::Dir, false))
    );
    assert!(disk.read(&at("x\0y")).is_err() && disk.write(&at("x\0y"), b"", FileMeta::default()).is_err());
}

#[test]
fn sockets_and_pipes_are_looked_at_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    disk.make_node(&at("pipe"), FileKind::Fifo, (0, 0), mode(0o600)).unwrap();
    for (name, kind) in [("socket", FileKind::Socket), ("pipe", FileKind::Fifo)] {
        let (stat, is_same) = disk.compare(&at(name), b"").unwrap().unwrap();
        assert_eq!((stat.kind, is_same), (kind, false));
        assert!(disk.read(&at(name)).is_err());
        assert_eq!(
            disk.write(&at(name), b"", FileMeta::default()).unwrap_err().source.kind(),
            ErrorKind::AlreadyExists
        );
    }
}

#[test]
fn new_entries_obey_the_mask_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    std::fs::write(dir.path().join("theirs"), b"").unwrap();
    std::fs::create_dir(dir.path().join("their dir")).unwrap();
    disk.write(&dir.path().join("ours"), b"", FileMeta::default()).unwrap();
    disk.make_dir(&dir.path().join("our dir"), FileMeta::default()).unwrap();
    disk.make_dir(
        &dir.path().join("owned dir"),
        FileMeta { gid: Some(rustix::process::getegid().as_raw()), ..FileMeta::default() },
    )
    .unwrap();
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().mode();
    assert_eq!(mode("ours"), mode("theirs"));
    assert_eq!(mode("our dir"), mode("their dir"));
    assert_eq!(mode("owned dir"), mode("their dir"));
}

#[test]
fn a_replaced_file_keeps_what_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (Disk::default(), dir.path().join("x"));
    disk.write(&path, b"one", mode(0o2711)).unwrap();
    if is_root() {
        disk.set_meta(&path, FileMeta { uid: Some(STRANGER), ..FileMeta::default() }, false).unwrap();
    }
    let label = vec![(OsString::from("user.label"), b"kept".to_vec())];
    let has_labels = disk.set_xattrs(&path, &label).is_ok();
    let before = disk.lstat(&path).unwrap().unwrap();
    assert_eq!(before.mode, 0o2711, "a change of owner does not take the bits away");
    disk.write(&path, b"two", FileMeta::default()).unwrap();
    let after = disk.lstat(&path).unwrap().unwrap();
    assert_eq!((after.mode, after.uid, after.gid), (before.mode, before.uid, before.gid));
    if has_labels {
        assert_eq!(disk.xattrs(&path).unwrap(), label);
    }
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    disk.write(&at("target"), b"kept", mode(0o600)).unwrap();
    disk.symlink(&at("link"), Path::new("target"), FileMeta::default()).unwrap();
    disk.write(&at("link"), b"new", FileMeta::default()).unwrap();
    assert_eq!(disk.lstat(&at("link")).unwrap().unwrap().kind, FileKind::File);
    assert_eq!(disk.read(&at("target")).unwrap(), b"kept");
}

#[test]
fn a_tree_is_removed_and_links_in_it_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    disk.write(&at("kept"), b"kept", FileMeta::default()).unwrap();
    for name in ["t", "t/a", "t/a/b", "t/c"] {
        disk.make_dir(&at(name), mode(0o755)).unwrap();
    }
    disk.write(&at("t/a/b/x"), b"x", FileMeta::default()).unwrap();
    disk.symlink(&at("t/c/l"), dir.path(), FileMeta::default()).unwrap();
    disk.hard_link(&at("t/h"), &at("kept")).unwrap();
    disk.make_node(&at("t/p"), FileKind::Fifo, (0, 0), FileMeta::default()).unwrap();
    disk.remove(&at("t")).unwrap();
    assert_eq!(disk.read_dir(dir.path()).unwrap(), [(OsString::from("kept"), FileKind::File)]);
}

#[test]
fn what_has_no_name_of_its_own_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    disk.make_dir(&dir.path().join("d"), FileMeta::default()).unwrap();
    for path in [dir.path().join("d/.."), dir.path().join(".."), "/".into()] {
        assert_eq!(
            disk.remove(&path).unwrap_err().source.kind(),
            ErrorKind::InvalidInput,
            "{}",
            path.display()
        );
        assert!(disk.rename(&path, &dir.path().join("new")).is_err());
    }
    disk.write(&dir.path().join("x"), b"x", FileMeta::default()).unwrap();
    disk.rename(&dir.path().join("x"), &dir.path().join("d/../x")).unwrap();
    assert_eq!(disk.read(&dir.path().join("x")).unwrap(), b"x");
}

#[test]
fn a_tree_deeper_than_any_path_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let (none, all) = (rustix::fs::Mode::empty(), rustix::fs::Mode::from_raw_mode(0o700));
    let mut here = rustix::fs::openat(rustix::fs::CWD, dir.path(), flags, none).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&here, "d", all).unwrap();
        here = rustix::fs::openat(&here, "d", flags, none).unwrap();
    }
    rustix::fs::symlinkat("/", &here, "root").unwrap();
    let journal = Arc::new(UndoJournal::create(&dir.path().join("undo"), "a").unwrap());
    Disk::new(Some(journal)).remove(&dir.path().join("d")).unwrap();
    assert!(!dir.path().join("d").exists());
}

#[test]
fn a_link_that_anybody_could_have_planted_is_not_followed_for_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    for name in ["safe", "victim", "shared"] {
        disk.make_dir(&at(name), mode(0o755)).unwrap();
    }
    disk.write(&at("victim/file"), b"kept", mode(0o600)).unwrap();
    for name in ["safe/link", "shared/link"] {
        disk.symlink(&at(name), Path::new("../victim"), FileMeta::default()).unwrap();
    }
    disk.set_meta(&at("shared"), mode(0o777), false).unwrap();
    disk.write(&at("safe/link/ours"), b"", FileMeta::default()).unwrap();
    let planted = |answer: Result<(), FsError>| {
        let error = answer.unwrap_err();
        assert!(error.source.to_string().contains("another user"), "{error}: {}", error.source);
    };
    planted(disk.write(&at("shared/link/x"), b"", FileMeta::default()));
    planted(disk.make_dir(&at("shared/link/x"), FileMeta::default()));
    planted(disk.remove(&at("shared/link/file")));
    planted(disk.rename(&at("shared/link/file"), &at("stolen")));
    planted(disk.set_meta(&at("shared/link/file"), mode(0o666), false));
    planted(disk.set_meta(&at("shared/link"), mode(0o777), true));
    planted(disk.set_times(&at("shared/link"), 0, 0));
    assert_eq!(disk.read(&at("shared/link/file")).unwrap(), b"kept", "a look may follow it");
    assert_eq!(disk.read_dir(&at("victim")).unwrap().len(), 2);

    disk.set_meta(&at("shared"), mode(0o1777), false).unwrap();
    disk.write(&at("shared/link/x"), b"", FileMeta::default()).unwrap();
    if is_root() {
        let stranger = FileMeta { uid: Some(STRANGER), ..FileMeta::default() };
        disk.set_meta(&at("shared/link"), stranger, false).unwrap();
        planted(disk.write(&at("shared/link/y"), b"", FileMeta::default()));
        disk.set_meta(&at("safe"), stranger, false).unwrap();
        planted(disk.write(&at("safe/link/y"), b"", FileMeta::default()));
    }
}

#[test]
fn a_write_that_fails_leaves_all_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let at = |name: &str| dir.path().join(name);
    disk.make_dir(&at("d"), FileMeta::default()).unwrap();
    assert_eq!(
        disk.write(&at("d"), b"", FileMeta::default()).unwrap_err().source.kind(),
        ErrorKind::IsADirectory
    );
    assert!(disk.write(&at("missing/x"), b"", FileMeta::default()).unwrap_err().is_not_found());
    assert!(disk.write(&at(&"n".repeat(300)), b"", FileMeta::default()).is_err());
    assert!(disk.make_dir(&at("d"), FileMeta::default()).is_err());
    assert!(disk.make_node(&at("n"), FileKind::File, (0, 0), FileMeta::default()).is_err());
    assert!(disk.write(Path::new("relative"), b"", FileMeta::default()).is_err());
    if !is_root() {
        let root = FileMeta { uid: Some(0), ..FileMeta::default() };
        assert!(disk.write(&at("x"), b"", root).is_err());
        assert!(disk.make_dir(&at("x"), root).is_err());
    }
    assert_eq!(disk.read_dir(dir.path()).unwrap().len(), 1, "nothing is left behind");
}

#[test]
fn an_undo_note_that_cannot_be_written_stops_the_change() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("undo"), b"in the way").unwrap();
    let journal = Arc::new(UndoJournal::create(&dir.path().join("undo"), "a").unwrap());
    let disk = Disk::new(Some(journal));
    let path = dir.path().join("x");
    let error = disk.write(&path, b"", FileMeta::default()).unwrap_err();
    assert!(error.source.to_string().contains("undo journal"), "{}", error.source);
    assert!(
        disk.make_dir(&path, FileMeta::default()).is_err()
            && disk.symlink(&path, &path, FileMeta::default()).is_err()
    );
    assert_eq!(disk.read_dir(dir.path()).unwrap().len(), 1);
}

#[test]
fn attributes_are_told_apart_from_none() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (Disk::default(), dir.path().join("x"));
    disk.write(&path, b"", FileMeta::default()).unwrap();
    let Some(before) = disk.attrs(&path).unwrap() else { return };
    disk.set_attrs(&path, "d", "").unwrap();
    assert!(disk.attrs(&path).unwrap().unwrap().contains('d'));
    disk.set_attrs(&path, "", "d").unwrap();
    assert_eq!(disk.attrs(&path).unwrap().unwrap(), before);
    assert!(disk.set_attrs(&path, "?", "").is_err());
}

#[test]
fn times_come_back_as_they_were_set() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (Disk::default(), dir.path().join("x"));
    disk.write(&path, b"", FileMeta::default()).unwrap();
    for time in [0, 1, 1_700_000_000_123_456_789, -5_000_000_001] {
        disk.set_times(&path, time, time).unwrap();
        let stat = disk.lstat(&path).unwrap().unwrap();
        assert_eq!((stat.atime, stat.mtime), (time, time));
    }
    assert!(disk.set_times(&path, i128::MAX, 0).is_err());
}

#[test]
fn a_move_across_file_systems_copies_everything() {
    let (one, Ok(other)) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm")) else { return };
    let dev = |dir: &Path| std::fs::metadata(dir).unwrap().dev();
    if dev(one.path()) == dev(other.path()) {
        return;
    }
    let disk = Disk::default();
    let (from, to) = (one.path().join("t"), other.path().join("t"));
    disk.make_dir(&from, mode(0o750)).unwrap();
    disk.write(&from.join("x"), b"x", mode(0o604)).unwrap();
    disk.set_times(&from.join("x"), 1, 2_000_000_000).unwrap();
    disk.symlink(&from.join("l"), Path::new("x"), FileMeta::default()).unwrap();
    disk.rename(&from, &to).unwrap();
    assert!(!from.exists());
    assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o7777, 0o750);
    let stat = disk.lstat(&to.join("x")).unwrap().unwrap();
    assert_eq!(
        (stat.mode, stat.mtime, disk.read(&to.join("l")).unwrap()),
        (0o604, 2_000_000_000, b"x".to_vec())
    );
}

#[test]
fn what_is_read_for_a_change_is_no_link() {
    let dir = temp_dir();
    let (disk, at) = (Disk::default(), |name: &str| dir.path().join(name));
    disk.write(&at("real"), b"x", mode(0o600)).unwrap();
    disk.symlink(&at("link"), Path::new("real"), FileMeta::default()).unwrap();
    disk.symlink(&at("nowhere"), Path::new("no/thing"), FileMeta::default()).unwrap();
    disk.symlink(&at("circle"), Path::new("circle"), FileMeta::default()).unwrap();
    let overlay = Overlay::new(Arc::new(disk.clone()));
    for fs in [&disk as &dyn FileSystem, &overlay] {
        assert_eq!(fs.read_for_change(&at("real")).unwrap(), b"x");
        assert!(fs.read_for_change(&at("link")).is_err());
        assert!(fs.read_for_change(&at("gone")).unwrap_err().is_not_found());
        for (from, to) in [("real", "real"), ("link", "real"), ("nowhere", "no/thing"), ("gone/x", "gone/x")]
        {
            assert_eq!(fs.resolve_for_change(&at(from)).unwrap(), at(to), "{from}");
        }
        assert_eq!(fs.resolve_for_change(&at("real/x")).unwrap(), at("real/x"));
        assert!(fs.resolve_for_change(&at("circle")).is_err());
    }
}

#[test]
fn nobody_makes_files_where_only_the_kernel_does() {
    let disk = Disk::default();
    let overlay = Overlay::new(Arc::new(disk.clone()));
    for fs in [&disk as &dyn FileSystem, &overlay] {
        for path in ["/proc/sys/kernel/ostype", "/proc/nothing-here"] {
            let refused = fs.write(Path::new(path), b"x", FileMeta::default()).unwrap_err();
            let words = zagent_config::error_chain(&refused);
            assert!(words.contains("only the kernel makes files there"), "{words}");
        }
    }
}
