//! The cache between runs: which modifications are detected, how they are repaired, what is kept and what is removed.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its cache has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::site::{CacheSite, file};
use zagent_cache::testing::{EntryKind, ScratchRepo};
use zagent_cache::{CacheError, CheckDepth, Generation};

fn history(count: usize) -> (ScratchRepo, Vec<String>) {
    let mut scratch = ScratchRepo::new();
    let commit = |n: usize| {
        let text = format!("version {n}");
        scratch.commit_at(
            &[
                file("states/top.sls", &text),
                file("states/web/init.sls", "same"),
                ("run", EntryKind::BlobExecutable, "#!"),
                ("link", EntryKind::Link, "states/web"),
            ],
            n as u32,
        )
    };
    let commits = (0..count).map(commit).collect();
    (scratch, commits)
}

fn published(count: usize) -> (CacheSite, ScratchRepo, Vec<String>, Vec<String>) {
    let (site, (scratch, commits)) = (CacheSite::new(), history(count));
    let names = commits.iter().map(|c| site.publish(scratch.path(), c).unwrap().name().to_owned()).collect();
    (site, scratch, commits, names)
}

/// Rewrites a file so that the file system shows no sign of it except the change time.
fn rewrite(path: &Path, bytes: &[u8]) {
    let meta = fs::metadata(path).unwrap();
    fs::write(path, bytes).unwrap();
    let time = fs::FileTimes::new().set_modified(meta.modified().unwrap());
    fs::File::options().write(true).open(path).unwrap().set_times(time).unwrap();
}

#[test]
fn every_modification_is_detected() {
    type TamperCase = (&'static str, &'static str, &'static str, fn(&Path));
    let touches: [TamperCase; 12] = [
        ("edited", "states/top.sls", "size", |d| fs::write(d.join("states/top.sls"), "evil").unwrap()),
        ("edited in secret", "states/top.sls", "different content", |d| {
            rewrite(&d.join("states/top.sls"), b"version X");
        }),
        ("removed", "states/top.sls", "missing", |d| fs::remove_file(d.join("states/top.sls")).unwrap()),
        ("added", "states/new.sls", "unexpected", |d| fs::write(d.join("states/new.sls"), "").unwrap()),
        ("directory added", "states/new", "unexpected", |d| fs::create_dir(d.join("states/new")).unwrap()),
        ("directory removed", "states/web", "missing", |d| fs::remove_dir_all(d.join("states/web")).unwrap()),
        ("mode", "run", "mode", |d| {
            fs::set_permissions(d.join("run"), Permissions::from_mode(0o600)).unwrap();
        }),
        ("open directory", "states", "mode", |d| {
            fs::set_permissions(d.join("states"), Permissions::from_mode(0o777)).unwrap();
        }),
        ("file made a link", "states/top.sls", "type", |d| {
            fs::remove_file(d.join("states/top.sls")).unwrap();
            symlink("/etc/passwd", d.join("states/top.sls")).unwrap();
        }),
        ("directory made a link", "states/web", "directory", |d| {
            fs::remove_dir_all(d.join("states/web")).unwrap();
            symlink("..", d.join("states/web")).unwrap();
        }),
        ("link turned", "link", "different content", |d| {
            fs::remove_file(d.join("link")).unwrap();
            symlink("states/xxx", d.join("link")).unwrap();
        }),
        ("beside the tree", "notes", "unexpected", |d| fs::write(d.with_file_name("notes"), "").unwrap()),
    ];
    let (scratch, commits) = history(1);
    for (what, path, word, touch) in touches {
        let site = CacheSite::new();
        let generation = site.publish(scratch.path(), &commits[0]).unwrap();
        generation.check(CheckDepth::Quick).unwrap();
        touch(generation.tree_dir());
        for depth in [CheckDepth::Quick, CheckDepth::Full] {
            let found = generation.check(depth).expect_err(what);
            assert!(found.path == path && found.what.contains(word), "{what}: {found}");
        }
        // Accepted again it is complete, under a new name.
        let again = site.publish(scratch.path(), &commits[0]).unwrap();
        assert_ne!(again.name(), generation.name());
        assert_eq!(site.current().name(), again.name(), "{what}");
    }
}

#[test]
fn an_unmodified_copy_is_accepted() {
    let (site, _, _, names) = published(1);
    let path = site.current().tree_dir().join("states/top.sls");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    site.cache.current().unwrap().unwrap().check(CheckDepth::Quick).unwrap();
    assert_eq!(site.current().name(), names[0]);
}

#[test]
fn an_edited_record_does_not_match_its_generation() {
    let (site, _, _, names) = published(2);
    let record = site.paths.generation(&names[1]).join("record.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replacen("main", "evil", 1)).unwrap();
    assert!(matches!(site.cache.current(), Err(CacheError::Tampered(_))));
    let healed = site.cache.repair().unwrap();
    assert_eq!((healed.current.as_ref(), &healed.broken[..]), (Some(&names[0]), &names[1..]));
    assert_eq!(site.current().name(), names[0]);
}

#[test]
fn everything_is_readable_only_by_root() {
    let (site, ..) = published(1);
    let mut todo = vec![site.paths.root().to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_symlink() {
            continue;
        }
        assert_eq!(meta.mode() & 0o077, 0, "{}", path.display());
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

#[test]
fn leftovers_of_a_crash_are_repaired() {
    let (site, _, _, names) = published(3);
    let staging = site.paths.staging();
    fs::create_dir_all(staging.join("7/tree/deep")).unwrap();
    fs::create_dir(site.paths.generation("00000009-abcdef-0123456789abcdef")).unwrap();
    fs::create_dir(site.paths.generations().join("junk")).unwrap();
    let healed = site.cache.repair().unwrap();
    assert_eq!((healed.staged, healed.broken.len(), healed.current), (1, 2, None));
    assert_eq!(site.current().name(), names[2]);
    // A symlink that is missing, points to nothing, or to something else.
    for break_it in [
        (|_: &CacheSite| {}) as fn(&CacheSite),
        |site| symlink("generations/00000009-abcdef-0123456789abcdef", site.paths.current()).unwrap(),
        |site| symlink("../../etc", site.paths.current()).unwrap(),
    ] {
        fs::remove_file(site.paths.current()).unwrap();
        break_it(&site);
        assert_eq!(site.cache.repair().unwrap().current.as_deref(), Some(names[2].as_str()));
        assert_eq!(site.current().name(), names[2]);
    }
    // The newest complete one: a damaged one is skipped.
    fs::remove_file(site.paths.current()).unwrap();
    fs::write(site.paths.generation(&names[2]).join("tree/states/top.sls"), "evil").unwrap();
    assert_eq!(site.cache.repair().unwrap().current.as_deref(), Some(names[1].as_str()));
    fs::remove_dir_all(site.paths.generations()).unwrap();
    assert_eq!(site.cache.repair().unwrap().current, None);
    assert!(site.cache.current().unwrap().is_none());
}

#[test]
fn rollback_goes_to_what_was_current_before() {
    let (site, scratch, commits, names) = published(3);
    assert_eq!(site.cache.rollback(None).unwrap().name(), names[1]);
    assert_eq!(site.current().name(), names[1]);
    // The newest floor stays: the next one goes forward, and a second rollback skips the one that was left.
    let (more, later) = {
        let mut scratch = scratch;
        let commit = scratch.commit_at(&[file("top.sls", "4")], 9);
        (site.publish(scratch.path(), &commit).unwrap().name().to_owned(), scratch)
    };
    assert_eq!(site.current().name(), more);
    assert_eq!(site.cache.rollback(None).unwrap().name(), names[1]);
    assert_eq!(site.cache.rollback(None).unwrap().name(), names[0]);
    assert!(matches!(site.cache.rollback(None), Err(CacheError::NoPrevious)));
    assert_eq!(site.cache.rollback(Some(&names[2])).unwrap().name(), names[2]);
    assert_eq!(site.cache.rollback(Some(&commits[0][..10])).unwrap().name(), names[0]);
    assert!(matches!(site.cache.rollback(Some("nope")), Err(CacheError::NoGeneration { .. })));
    // If it is damaged, the rollback target is accepted again although newer ones were accepted.
    let again = site.publish(later.path(), &commits[0]).unwrap();
    assert_eq!(site.current().name(), again.name());
    fs::write(site.paths.generation(&names[2]).join("tree/states/top.sls"), "evil").unwrap();
    assert!(matches!(site.cache.rollback(Some(&names[2])), Err(CacheError::Tampered(_))));
    assert_eq!(site.current().name(), again.name());
}

#[test]
fn pruning_keeps_every_needed_generation() {
    let (site, scratch, commits, names) = published(6);
    assert_eq!(site.cache.gc().unwrap(), names[..3]);
    assert_eq!(site.generations(), names[3..]);
    // A run reads the oldest, the current one is old, and so is the one before it.
    let (scratch, more) = {
        let mut scratch = scratch;
        let more: Vec<String> =
            (0..6).map(|n| scratch.commit_at(&[file("top.sls", &n.to_string())], 50 + n)).collect();
        (scratch, more)
    };
    let pinned: Generation = site.cache.find(&commits[3]).unwrap();
    let pin = pinned.pin().unwrap();
    for commit in &more {
        assert!(site.publish(scratch.path(), commit).is_ok());
    }
    site.cache.rollback(Some(&names[5])).unwrap().check(CheckDepth::Quick).unwrap();
    let kept = |site: &CacheSite| site.generations()[..site.generations().len() - 3].to_vec();
    site.cache.gc().unwrap();
    assert_eq!(kept(&site), names[3..], "pinned, before the current one, current");
    drop(pin);
    assert_eq!(site.cache.gc().unwrap(), names[3..4]);
    assert!(matches!(pinned.pin(), Err(CacheError::NoGeneration { .. })));
    pinned.check(CheckDepth::Quick).expect_err("it is gone");
}

#[test]
fn a_directory_is_a_source() {
    let site = CacheSite::new();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("states")).unwrap();
    fs::create_dir(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".git/HEAD"), "x").unwrap();
    fs::write(dir.path().join("states/top.sls"), "one").unwrap();
    symlink("states", dir.path().join("alias")).unwrap();
    let take = || {
        site.cache.stage_dir(dir.path()).unwrap().verify(&site.verify_context()).unwrap().publish().unwrap()
    };
    let one = take();
    assert!(one.record().revision.starts_with("dir:") && !one.tree_dir().join(".git").exists());
    assert_eq!(fs::read_to_string(one.tree_dir().join("alias/top.sls")).unwrap(), "one");
    fs::write(dir.path().join("states/top.sls"), "two").unwrap();
    assert_ne!(take().record().revision, one.record().revision);
    fs::write(dir.path().join("states/top.sls"), "one").unwrap();
    assert_eq!(take().record().revision, one.record().revision, "it may be what it was before");
}

#[test]
fn one_at_a_time() {
    let (site, scratch, commits, _) = published(2);
    for _ in 0..20 {
        let staged = site.stage(scratch.path(), &commits[1]).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| site.cache.gc());
            // Without the lock, the other one would remove what is staged.
            let new = staged.verify(&site.verify_context()).unwrap().publish().unwrap();
            other.join().unwrap().unwrap();
            new.check(CheckDepth::Full).unwrap();
        });
    }
}
