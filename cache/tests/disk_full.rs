//! The disk is full at every write, one after the other, and on a file system that really has no space: the error names
//! the path, `current` is the old generation or the new one, complete and verified, and with free space the next turn
//! continues.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its cache has failed")]

#[path = "it/site/mod.rs"]
mod site;

use std::error::Error as _;
use std::path::Path;
use std::process::Command;

use site::{CacheSite, file};
use zagent_cache::CacheError;
use zagent_cache::testing::{EntryKind, ScratchRepo};

const POINTS: [&str; 8] = [
    "disk::dir",
    "disk::file",
    "disk::write",
    "disk::link",
    "disk::hardlink",
    "disk::sync",
    "disk::rename",
    "prune::one",
];
/// The arguments of the child: the directory with little space, the repository, and two commits.
const CHILD: &str = "FULL_CHILD";

fn history(scratch: &mut ScratchRepo) -> Vec<String> {
    let text = "0123456789abcdef".repeat(300);
    let files = |n: usize| format!("{n}{text}");
    (0..6)
        .map(|n| {
            let text = files(n);
            let names: Vec<String> = (0..12).map(|f| format!("d{}/f{f}", f % 3)).collect();
            let mut files: Vec<_> = names.iter().map(|name| file(name, &text)).collect();
            files.push(("link", EntryKind::Link, "d1/f1"));
            files.push(file("d1/same", "same"));
            scratch.commit_at(&files, n as u32)
        })
        .collect()
}

/// An error with the path and the cause.
fn names_its_cause(error: &CacheError, root: &Path, what: &str) {
    let CacheError::Io { path, source, .. } = error else {
        panic!("{what}: {error}");
    };
    assert!(path.starts_with(root), "{what}: {error}");
    assert_eq!(source.raw_os_error(), Some(28), "{what}: {error}");
    assert!(
        error.to_string().contains(path.to_str().unwrap()) && error.source().is_some(),
        "{what}: {error}"
    );
}

#[test]
fn every_write_may_fail() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let scenario = fail::FailScenario::setup();
    for point in POINTS {
        for skip in 0.. {
            let dir = site::memory_dir();
            let root = dir.path().join("root");
            let site = CacheSite::at(&root);
            for commit in &commits[..4] {
                assert!(site.publish(scratch.path(), commit).is_ok());
            }
            let old = site.current().name().to_owned();
            let action = if skip == 0 { "return(full)".into() } else { format!("{skip}*off->return(full)") };
            fail::cfg(point, &action).unwrap();
            let taken =
                site.publish(scratch.path(), &commits[4]).and_then(|new| site.cache.gc().map(|_| new));
            fail::remove(point);
            let what = format!("{point} after {skip}");
            let now = site.current().record().revision.clone();
            assert!(now == commits[3] || now == commits[4], "{what}");
            let Err(error) = taken else {
                assert!(skip > 0, "{what}: never failed");
                assert_ne!(site.current().name(), old);
                break;
            };
            names_its_cause(&error, &root, &what);
            site.cache.repair().unwrap();
            let last = site.publish(scratch.path(), &commits[5]).unwrap();
            assert_eq!(site.current().name(), last.name(), "{what}");
        }
    }
    scenario.teardown();
}

/// In the child, on a file system with little space. Does nothing in the parent.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let told: Vec<&str> = told.split(' ').collect();
    let (dir, repository) = (Path::new(told[0]), Path::new(told[1]));
    let root = dir.join("root");
    let site = CacheSite::at(&root);
    let first = site.publish(repository, told[2]).expect("space for one");
    let filler = dir.join("filler");
    // A little more space each time: every write fails once.
    let mut failures = 0;
    for free in 0..60_u64 {
        let room = rustix::fs::statvfs(dir).unwrap();
        let fill = (room.f_bavail * room.f_frsize).saturating_sub(free * 4096);
        std::fs::write(&filler, vec![0; usize::try_from(fill).unwrap()]).unwrap();
        let taken = site.publish(repository, told[3]);
        let now = site.current();
        match taken {
            Ok(new) => {
                assert_eq!(now.name(), new.name());
                break;
            }
            Err(error) => {
                failures += 1;
                names_its_cause(&error, &root, &format!("{free} pages"));
                assert!(now.name() == first.name() || now.record().revision == told[3]);
            }
        }
        std::fs::remove_file(&filler).unwrap();
        site.cache.repair().unwrap();
    }
    assert!(failures > 5, "{failures} failures");
    assert_eq!(site.current().record().revision, told[3]);
}

#[test]
fn a_full_file_system() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("CI").is_err(), "only root can mount a small file system");
        return;
    }
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let dir = tempfile::tempdir().unwrap();
    let told = format!("{} {} {} {}", dir.path().display(), scratch.path().display(), commits[0], commits[1]);
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", r#"mount -t tmpfs -o size=1m none "$1" && shift && exec "$@""#, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, told)
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
}
