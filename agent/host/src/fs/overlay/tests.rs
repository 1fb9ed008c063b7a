//! The overlay against the disk: the same changes, the same answers.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::{FileMeta, FileSystem};
use super::Overlay;
use crate::disk::Disk;
use crate::disk::tests::actions::{FsAction, apply_action, fs_action, snapshot};
use crate::disk::tests::temp_dir;

/// Does the first acts on both disks, the rest on one disk and on an overlay over the other.
fn agree(before: &[FsAction], after: &[FsAction]) {
    // Deep enough that no path of a test leads out of its room.
    let rooms = (temp_dir(), temp_dir());
    let (one, other) = (rooms.0.path().join("1/2/3/4"), rooms.1.path().join("1/2/3/4"));
    for root in [&one, &other] {
        std::fs::create_dir_all(root).unwrap();
    }
    let disk = Disk::default();
    for act in before {
        apply_action(&disk, &one, act);
        apply_action(&disk, &other, act);
    }
    let untouched = snapshot(&disk, rooms.1.path());
    let overlay = Overlay::new(Arc::new(Disk::default()));
    for (at, act) in after.iter().enumerate() {
        let (real, foreseen) = (apply_action(&disk, &one, act), apply_action(&overlay, &other, act));
        assert_eq!(real, foreseen, "act {at}, {act:?}\nbefore {before:?}\nafter {after:?}");
    }
    let (real, foreseen) = (snapshot(&disk, rooms.0.path()), snapshot(&overlay, rooms.1.path()));
    assert_eq!(real, foreseen, "before {before:?}\nafter {after:?}");
    assert_eq!(snapshot(&disk, rooms.1.path()), untouched, "the overlay changed the disk");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_overlay_answers_as_the_disk_would(
        before in proptest::collection::vec(fs_action(), 0..20),
        after in proptest::collection::vec(fs_action(), 1..40),
    ) {
        agree(&before, &after);
    }
}

#[test]
fn a_directory_that_is_made_again_is_empty() {
    let room = temp_dir();
    let disk = Disk::default();
    let at = |name: &str| room.path().join(name);
    disk.make_dir(&at("d"), FileMeta::default()).unwrap();
    disk.write(&at("d/x"), b"x", FileMeta::default()).unwrap();
    let overlay = Overlay::new(Arc::new(disk.clone()));
    overlay.rename(&at("d"), &at("e")).unwrap();
    assert_eq!(overlay.read(&at("e/x")).unwrap(), b"x");
    overlay.make_dir(&at("d"), FileMeta::default()).unwrap();
    assert_eq!(overlay.read_dir(&at("d")).unwrap(), []);
    assert!(overlay.read(&at("d/x")).unwrap_err().is_not_found());
    assert_eq!(disk.read(&at("d/x")).unwrap(), b"x");
}

#[test]
fn both_names_of_a_file_below_change_together() {
    let room = temp_dir();
    let disk = Disk::default();
    let at = |name: &str| room.path().join(name);
    disk.write(&at("a"), b"x", FileMeta::default()).unwrap();
    disk.hard_link(&at("b"), &at("a")).unwrap();
    let overlay = Overlay::new(Arc::new(disk.clone()));
    overlay.set_meta(&at("a"), FileMeta { mode: Some(0o611), ..FileMeta::default() }, true).unwrap();
    assert_eq!(overlay.lstat(&at("b")).unwrap().unwrap().mode, 0o611);
    assert_ne!(disk.lstat(&at("b")).unwrap().unwrap().mode, 0o611);
}
