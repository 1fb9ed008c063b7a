//! The power is cut: before every sync of a publish, and after one whose syncs are all there, or all but one. What is left
//! is the old generation or the new one, and what was reported as published stays.

use std::path::{Path, PathBuf};

use crate::site::{self, CacheSite, file};
use tempfile::TempDir;
use zagent_cache::testing::{EntryKind, ScratchRepo};
use zagent_cache::{Cache, CacheError, CheckDepth};
use zagent_config::durable::testing::{check_cuts, check_syncs};
use zagent_config::paths::Paths;

/// Commits, each with other content.
fn history(scratch: &mut ScratchRepo) -> Vec<String> {
    let commit = |n: u32| {
        let text = format!("version {n}\n");
        let files = [
            file("states/top.sls", &text),
            file("states/web/init.sls", &text),
            ("states/alias", EntryKind::Link, "web"),
        ];
        scratch.commit_at(&files, n)
    };
    (0..5).map(commit).collect()
}

/// A directory for a cache, in memory: the journal decides what survives, not the file system.
struct PowerSite {
    root: PathBuf,
    _dir: TempDir,
}

impl PowerSite {
    /// A node that has published these commits.
    fn new(scratch: &ScratchRepo, commits: &[String]) -> (Self, PathBuf) {
        let dir = site::memory_dir();
        let site = Self { root: dir.path().join("root"), _dir: dir };
        for commit in commits {
            site.publish(scratch, commit).unwrap();
        }
        let place = site.root.parent().unwrap().to_owned();
        (site, place)
    }

    fn publish(&self, scratch: &ScratchRepo, commit: &str) -> Result<(), CacheError> {
        // Opening it is part of what is cut.
        Cache::open(&Paths::new(&self.root), &site::source())?;
        CacheSite::at(&self.root).publish(scratch.path(), commit).map(drop)
    }

    /// The current revision, if everything here is whole.
    fn revision(&self) -> Result<Option<String>, String> {
        let cache = CacheSite::at(&self.root).cache;
        let broken = |error: &dyn std::error::Error| error.to_string();
        for generation in cache.list().map_err(|e| broken(&e))? {
            generation.check(CheckDepth::Full).map_err(|e| broken(&e))?;
        }
        let current = cache.current().map_err(|e| broken(&e))?;
        Ok(current.map(|current| current.record().revision.clone()))
    }

    /// Fails unless this revision was published, and both replay protection records know it.
    fn check_published(&self, commit: &str) -> Result<(), String> {
        let found = self.revision()?;
        if found.as_deref() != Some(commit) {
            return Err(format!("current is {found:?}"));
        }
        let paths = Paths::new(&self.root);
        for place in [paths.floor(), paths.floor_copy()] {
            let text = std::fs::read_to_string(&place).map_err(|e| e.to_string())?;
            if !text.contains(&format!("\"revision\":\"{commit}\"")) {
                return Err(format!("{} is behind: {text}", place.display()));
            }
        }
        Ok(())
    }

    /// Fails unless one of these revisions is current, and the next publish works.
    fn check_continues(&self, scratch: &ScratchRepo, old: Option<&str>, new: &str) -> Result<(), String> {
        let found = self.revision()?;
        if found.as_deref() != old && found.as_deref() != Some(new) {
            return Err(format!("current is {found:?}"));
        }
        let cache = CacheSite::at(&self.root);
        let newest = cache.cache.newest_accepted("main").map_err(|e| e.to_string())?;
        let newest = newest.map(|newest| newest.revision);
        if found.as_deref() == Some(new) && newest.as_deref() != Some(new) {
            return Err("the replay protection record is behind current".to_owned());
        }
        cache.cache.repair().map_err(|e| e.to_string())?;
        cache.publish(scratch.path(), new).map(drop).map_err(|e| e.to_string())?;
        self.check_published(new)
    }
}

/// The names of syncs, with the same word for every generation.
fn plain(points: Vec<String>) -> Vec<String> {
    let is_generation = |part: &str| part.len() > 9 && part.bytes().take(8).all(|b| b.is_ascii_digit());
    let plain = |point: String| {
        let parts = point.split('/').map(|part| if is_generation(part) { "N" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    points.into_iter().map(plain).collect()
}

/// The syncs of a publish on a node that has published before.
const PUBLISH: [&str; 13] = [
    "file root/cache/generations/N/tree/states/top.sls",
    "file root/cache/generations/N/tree/states/web/init.sls",
    "dir root/cache/generations/N/tree",
    "dir root/cache/generations/N/tree/states",
    "dir root/cache/generations/N/tree/states/web",
    "file root/state/floor.new",
    "dir root/state",
    "file root/trust/floor.new",
    "dir root/trust",
    "file root/cache/generations/N/record.json.new",
    "dir root/cache/generations/N",
    "dir root/cache/generations",
    "dir root/cache",
];

#[test]
fn every_sync_of_a_publish_is_needed() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let points = check_syncs(
        || PowerSite::new(&scratch, &commits[..1]),
        |site| site.publish(&scratch, &commits[1]),
        |site| site.check_published(&commits[1]),
    );
    assert_eq!(plain(points), PUBLISH);
}

#[test]
fn every_sync_of_the_first_publish_is_needed() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let points = check_syncs(
        || PowerSite::new(&scratch, &[]),
        |site| site.publish(&scratch, &commits[0]),
        |site| {
            // Opening a cache creates its directories, which must not hide that they were lost.
            let paths = Paths::new(&site.root);
            let lock = paths.cache_lock();
            for dir in [&paths.staging(), &paths.generations(), lock.parent().unwrap_or(Path::new("/"))] {
                if !dir.is_dir() {
                    return Err(format!("{} is lost", dir.display()));
                }
            }
            site.check_published(&commits[0])
        },
    );
    let mut points = plain(points);
    points.retain(|point| !PUBLISH.contains(&point.as_str()));
    // New directories: `root`, `cache`, `staging`, `run`; `generations`, `state` and `trust` share a name with the above.
    points.sort_unstable();
    points.dedup();
    assert_eq!(points, ["dir .", "dir root"]);
}

#[test]
fn every_sync_of_a_large_publish_is_needed() {
    let mut scratch = ScratchRepo::new();
    let names: Vec<String> = (0..300).map(|n| format!("states/{n}.sls")).collect();
    let commit = scratch.commit(&names.iter().map(|name| file(name, "same")).collect::<Vec<_>>());
    let points = check_syncs(
        || PowerSite::new(&scratch, &[]),
        |site| site.publish(&scratch, &commit),
        |site| site.check_published(&commit),
    );
    let points = plain(points);
    assert!(points.contains(&"below root/cache/generations/N".to_owned()), "{points:?}");
    assert!(!points.iter().any(|point| point.contains("N/tree")), "{points:?}");
}

/// A site whose next publish begins with the tree of a removed generation.
fn with_spare(scratch: &ScratchRepo, commits: &[String]) -> (PowerSite, PathBuf) {
    let (site, place) = PowerSite::new(scratch, &commits[..4]);
    CacheSite::at(&site.root).cache.gc().unwrap();
    assert!(Paths::new(&site.root).spare_tree().is_dir());
    (site, place)
}

#[test]
fn every_sync_of_a_publish_from_a_spare_tree_is_needed() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let points = check_syncs(
        || with_spare(&scratch, &commits),
        |site| site.publish(&scratch, &commits[4]),
        |site| site.check_published(&commits[4]),
    );
    let points = plain(points);
    assert!(points.iter().any(|point| point == PUBLISH[0]), "{points:?}");
    let cuts = check_cuts(
        || with_spare(&scratch, &commits),
        |site| site.publish(&scratch, &commits[4]),
        |site| site.check_continues(&scratch, Some(&commits[3]), &commits[4]),
    );
    assert!(cuts >= points.len(), "{cuts} cuts");
}

#[test]
fn every_sync_of_a_removal_is_needed() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let points = check_syncs(
        || PowerSite::new(&scratch, &commits),
        |site| CacheSite::at(&site.root).cache.gc(),
        |site| site.revision().map(drop),
    );
    assert_eq!(plain(points), ["dir root/cache/generations"; 2]);
}

#[test]
fn every_sync_of_a_rollback_is_needed() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    let points = check_syncs(
        || PowerSite::new(&scratch, &commits[..2]),
        |site| CacheSite::at(&site.root).cache.rollback(None).map(drop),
        |site| match site.revision()? {
            Some(revision) if revision == commits[0] => Ok(()),
            other => Err(format!("current is {other:?}")),
        },
    );
    assert_eq!(points, ["dir root/cache"]);
}

#[test]
fn a_cut_at_any_moment_leaves_the_old_or_the_new_generation() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch);
    for before in [0, 1] {
        let old = commits[..before].last().map(String::as_str);
        let cuts = check_cuts(
            || PowerSite::new(&scratch, &commits[..before]),
            |site| site.publish(&scratch, &commits[before]),
            |site| site.check_continues(&scratch, old, &commits[before]),
        );
        assert!(cuts >= PUBLISH.len(), "{cuts} cuts");
    }
}
