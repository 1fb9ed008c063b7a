//! What generations share: which files, what that costs, and that damage of one does not spread to the next.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its cache has failed")]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::site::{CacheSite, file};
use zagent_cache::testing::{EntryKind, ScratchRepo};
use zagent_cache::{CheckDepth, Generation};

/// A commit in which only one file differs from the others.
fn commit(scratch: &mut ScratchRepo, number: u32) -> String {
    let text = format!("version {number}\n");
    let files = [
        file("states/top.sls", &text),
        file("states/web/init.sls", "same\n"),
        file("states/web-2/init.sls", "same too\n"),
        ("states/run", EntryKind::BlobExecutable, "#!\n"),
        ("alias", EntryKind::Link, "states/web"),
    ];
    scratch.commit_at(&files, number)
}

fn inode(generation: &Generation, path: &str) -> u64 {
    fs::symlink_metadata(generation.tree_dir().join(path)).unwrap().ino()
}

fn spare(site: &CacheSite) -> PathBuf {
    site.paths.root().join("cache/spare")
}

/// A site with a spare tree, and the number of the next commit.
fn with_spare(scratch: &mut ScratchRepo) -> (CacheSite, u32) {
    let site = CacheSite::new();
    for number in 0..5 {
        let commit = commit(scratch, number);
        assert!(site.publish(scratch.path(), &commit).is_ok());
        site.cache.gc().unwrap();
    }
    assert!(spare(&site).join("states/web/init.sls").is_file());
    (site, 5)
}

#[test]
fn unchanged_files_are_shared_and_changed_ones_are_not() {
    let mut scratch = ScratchRepo::new();
    let site = CacheSite::new();
    let mut last: Option<Generation> = None;
    for number in 0..8 {
        let commit = commit(&mut scratch, number);
        let new = site.publish(scratch.path(), &commit).unwrap();
        site.cache.gc().unwrap();
        let _whole = site.current();
        for path in ["states/web/init.sls", "states/web-2/init.sls", "states/run"] {
            assert!(
                last.as_ref().is_none_or(|last| inode(last, path) == inode(&new, path)),
                "{number} {path}"
            );
        }
        assert!(
            last.as_ref().is_none_or(|last| inode(last, "states/top.sls") != inode(&new, "states/top.sls"))
        );
        let top = fs::read_to_string(new.tree_dir().join("states/top.sls")).unwrap();
        assert_eq!(top, format!("version {number}\n"));
        last = Some(new);
    }
    for generation in site.cache.list().unwrap() {
        generation.check(CheckDepth::Full).unwrap();
    }
}

#[test]
fn a_changed_mode_is_not_shared() {
    let mut scratch = ScratchRepo::new();
    let site = CacheSite::new();
    let one = scratch.commit_at(&[file("a", "#!\n"), file("b", "x")], 0);
    let two = scratch.commit_at(&[("a", EntryKind::BlobExecutable, "#!\n"), file("b", "x")], 1);
    let one = site.publish(scratch.path(), &one).unwrap();
    let two = site.publish(scratch.path(), &two).unwrap();
    assert_ne!(inode(&one, "a"), inode(&two, "a"));
    assert_eq!(inode(&one, "b"), inode(&two, "b"));
    assert_eq!(fs::metadata(one.tree_dir().join("a")).unwrap().mode() & 0o777, 0o600);
    two.check(CheckDepth::Full).unwrap();
}

/// Rewrites a file in place, so that only its change time shows it.
fn rewrite(path: &Path, text: &str) {
    let meta = fs::metadata(path).unwrap();
    fs::write(path, text).unwrap();
    let time = fs::FileTimes::new().set_modified(meta.modified().unwrap());
    fs::File::options().write(true).open(path).unwrap().set_times(time).unwrap();
}

#[test]
fn damage_does_not_spread_to_the_next_generation() {
    let mut scratch = ScratchRepo::new();
    let (site, next) = with_spare(&mut scratch);
    let damaged = site.current();
    rewrite(&damaged.tree_dir().join("states/web/init.sls"), "evil\n");
    let commit = commit(&mut scratch, next);
    let new = site.publish(scratch.path(), &commit).unwrap();
    new.check(CheckDepth::Full).unwrap();
    assert_ne!(inode(&damaged, "states/web/init.sls"), inode(&new, "states/web/init.sls"));
    assert_eq!(inode(&damaged, "states/run"), inode(&new, "states/run"));
    assert_eq!(fs::read_to_string(new.tree_dir().join("states/web/init.sls")).unwrap(), "same\n");
    // A rollback to a generation that shares the damaged file is refused.
    assert!(site.cache.rollback(None).is_err());
    assert_eq!(site.current().name(), new.name());
}

#[test]
fn a_spare_tree_is_believed_in_nothing() {
    type SpareCase = (&'static str, fn(&Path));
    let cases: [SpareCase; 10] = [
        ("a file with other content", |tree| {
            fs::remove_file(tree.join("states/web/init.sls")).unwrap();
            fs::write(tree.join("states/web/init.sls"), "evil\n").unwrap();
        }),
        ("a file too many", |tree| fs::write(tree.join("states/evil.sls"), "evil").unwrap()),
        ("a file too many whose name is not UTF-8", |tree| {
            fs::write(tree.join("states").join(OsStr::from_bytes(b"evil\xff.sls")), "evil").unwrap();
        }),
        ("a directory too many", |tree| fs::create_dir_all(tree.join("states/evil/deep")).unwrap()),
        ("a symlink for a file", |tree| {
            fs::remove_file(tree.join("states/run")).unwrap();
            symlink("/etc/passwd", tree.join("states/run")).unwrap();
        }),
        ("a symlink for a directory", |tree| {
            fs::rename(tree.join("states/web"), tree.with_file_name("elsewhere")).unwrap();
            symlink(tree.with_file_name("elsewhere"), tree.join("states/web")).unwrap();
        }),
        ("a directory for a file", |tree| {
            fs::remove_file(tree.join("states/top.sls")).unwrap();
            fs::create_dir(tree.join("states/top.sls")).unwrap();
        }),
        ("another symlink", |tree| {
            fs::remove_file(tree.join("alias")).unwrap();
            symlink("states/run", tree.join("alias")).unwrap();
        }),
        ("an open directory", |tree| {
            fs::set_permissions(tree.join("states/web"), Permissions::from_mode(0o777)).unwrap();
        }),
        ("a symlink for the tree", |tree| {
            fs::rename(tree, tree.with_file_name("elsewhere")).unwrap();
            symlink(tree.with_file_name("elsewhere"), tree).unwrap();
        }),
    ];
    for (what, spoil) in cases {
        let mut scratch = ScratchRepo::new();
        let (site, next) = with_spare(&mut scratch);
        spoil(&spare(&site));
        let commit = commit(&mut scratch, next);
        let new = site.publish(scratch.path(), &commit).unwrap();
        let names = |dir: &str| fs::read_dir(new.tree_dir().join(dir)).unwrap().count();
        assert_eq!((names(""), names("states")), (2, 4), "{what}: a name stays");
        new.check(CheckDepth::Quick).unwrap_or_else(|error| panic!("{what}: {error}"));
        new.check(CheckDepth::Full).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(fs::symlink_metadata(spare(&site)).is_err(), "{what}: the spare tree is used up");
    }
}

#[test]
fn without_space_there_is_no_spare_tree() {
    let mut scratch = ScratchRepo::new();
    let (site, _) = with_spare(&mut scratch);
    site.cache.gc_beyond(1).unwrap();
    assert!(!spare(&site).exists());
    let _whole = site.current();
}

#[test]
fn a_generation_without_a_tree_is_removed() {
    for link in [false, true] {
        let mut scratch = ScratchRepo::new();
        let site = CacheSite::new();
        for number in 0..4 {
            let commit = commit(&mut scratch, number);
            assert!(site.publish(scratch.path(), &commit).is_ok());
        }
        let oldest = site.cache.list().unwrap().remove(0);
        let tree = oldest.tree_dir().to_owned();
        fs::remove_dir_all(&tree).unwrap();
        if link {
            symlink("/etc", &tree).unwrap();
        }
        assert_eq!(site.cache.gc().unwrap(), [oldest.name()]);
        assert!(!tree.exists() && fs::symlink_metadata(spare(&site)).is_err(), "{link}");
        let _whole = site.current();
    }
}

#[test]
fn damaged_stamps_are_not_believed() {
    let mut scratch = ScratchRepo::new();
    let site = CacheSite::new();
    let one = commit(&mut scratch, 0);
    let one = site.publish(scratch.path(), &one).unwrap();
    let stamps = site.paths.root().join("cache/stamps");
    assert!(!stamps.exists());
    // One more name moves the change time: the content is compared, and what was seen is saved.
    let path = one.tree_dir().join("states/web/init.sls");
    let touch = || {
        fs::hard_link(&path, site.paths.root().join("name")).unwrap();
        fs::remove_file(site.paths.root().join("name")).unwrap();
    };
    touch();
    one.check(CheckDepth::Quick).unwrap();
    let saved = fs::read(&stamps).unwrap();
    one.check(CheckDepth::Quick).unwrap();
    assert_eq!(fs::read(&stamps).unwrap(), saved, "written once");
    // A change after that is found, also when the file says otherwise.
    rewrite(&path, "evil\n");
    one.check(CheckDepth::Quick).unwrap_err();
    let meta = fs::metadata(&path).unwrap();
    let changed = meta.ctime() * 1_000_000_000 + meta.ctime_nsec();
    let mut forged = saved.clone();
    let at = forged.len() - 8;
    forged[at..].copy_from_slice(&changed.to_le_bytes());
    for bytes in [forged, saved[..saved.len() - 1].to_vec(), Vec::new()] {
        fs::write(&stamps, bytes).unwrap();
        one.check(CheckDepth::Quick).unwrap_err();
    }
    // The stamps of another generation say nothing about this one.
    rewrite(&path, "same\n");
    one.check(CheckDepth::Quick).unwrap();
    let of_one = fs::read(&stamps).unwrap();
    let two = commit(&mut scratch, 1);
    let two = site.publish(scratch.path(), &two).unwrap();
    assert_eq!(fs::read(&stamps).unwrap(), of_one);
    rewrite(&two.tree_dir().join("states/web/init.sls"), "evil\n");
    two.check(CheckDepth::Quick).unwrap_err();
}
