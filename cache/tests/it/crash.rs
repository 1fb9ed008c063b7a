//! A process that stages, verifies, publishes and prunes is killed: at every named fail point, and with kill -9 at
//! random points. Afterwards `current` is the old generation or the new one, complete and verified, and it is never
//! missing.
//!
//! `CRASH_POINTS=n` sets the number of random points.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its cache has failed")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::site::{self, CacheSite, CacheTestRng, file, iterations};
use zagent_cache::testing::{EntryKind, ScratchRepo};

/// The arguments of the child: the root, the repository, and the commits in order.
const CHILD: &str = "CRASH_CHILD";
/// Every operation during which a process can die.
const POINTS: [&str; 19] = [
    "disk::dir",
    "disk::file",
    "disk::write",
    "disk::link",
    "disk::hardlink",
    "disk::sync",
    "disk::rename",
    "stage::file",
    "stage::done",
    "verify::done",
    "publish::synced",
    "publish::floor_half",
    "publish::floor",
    "publish::renamed",
    "publish::named",
    "publish::flipped",
    "prune::one",
    "prune::moved",
    "heal::cleared",
];

/// Commits, each with different files.
fn history(scratch: &mut ScratchRepo, count: usize) -> Vec<String> {
    let mut commits = Vec::new();
    for n in 0..count {
        let text = format!("version {n}\n").repeat(50);
        let names: Vec<String> = (0..20).map(|f| format!("states/d{}/f{f}.sls", f % 4)).collect();
        let mut files: Vec<_> = names.iter().map(|name| file(name, &text)).collect();
        files.push(("states/alias", EntryKind::Link, "d1"));
        // Shared by all generations.
        let same: Vec<String> = (0..5).map(|f| format!("states/d{f}/same.sls")).collect();
        files.extend(same.iter().map(|name| file(name, "same\n")));
        commits.push(scratch.commit_at(&files, u32::try_from(n).unwrap()));
    }
    commits
}

/// In the child: takes one commit after the other, prints which, and prunes. Does nothing in the parent.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let scenario = fail::FailScenario::setup();
    let mut told = told.split(' ');
    let site = CacheSite::at(Path::new(told.next().unwrap()));
    let repository = Path::new(told.next().unwrap());
    site.cache.repair().unwrap();
    for commit in told {
        println!("begin {commit}");
        let taken = site.publish(repository, commit).unwrap();
        println!("taken {}", taken.name());
        site.cache.gc().unwrap();
    }
    println!("end");
    scenario.teardown();
}

fn start(root: &Path, scratch: &ScratchRepo, commits: &[String], points: &str) -> Child {
    let told = format!("{} {} {}", root.display(), scratch.path().display(), commits.join(" "));
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, told)
        .env("FAILPOINTS", points)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The revision that is current after a crash: one of the allowed ones, and complete.
fn survivor(root: &Path, old: &str, new: &str, what: &str) -> String {
    let site = CacheSite::at(root);
    // Complete before any repair: a run may start at once.
    let found = site.current().name().to_owned();
    site.cache.repair().unwrap();
    assert_eq!(site.current().name(), found, "{what}: a whole current was touched");
    assert_eq!(site.staged_count(), 0, "{what}: leftovers");
    let again = site.cache.repair().unwrap();
    assert!(again.is_clean(), "{what}: {again:?}");
    let revision = site.current().record().revision.clone();
    assert!([old, new].contains(&revision.as_str()), "{what}: {revision} is neither the old nor the new one");
    let newest = site.cache.newest_accepted("main").unwrap().unwrap().revision;
    assert!(revision == newest || revision == old && newest == new, "{what}: the floor is behind current");
    revision
}

#[test]
fn a_crash_at_any_point_leaves_the_old_or_the_new_generation() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch, 6);
    for point in POINTS {
        let mut hits = 0;
        // The first iterations, and some later ones: in the middle of a tree and of the next turns.
        let skips: &[usize] =
            if iterations("CRASH_POINTS", 60) > 60 { &[0, 1, 2, 5, 11, 29] } else { &[0, 7] };
        for skip in skips {
            let dir = site::memory_dir();
            let root = dir.path().join("root");
            let first =
                CacheSite::at(&root).publish(scratch.path(), &commits[0]).unwrap().record().revision.clone();
            let action =
                if *skip == 0 { "return(abort)".into() } else { format!("{skip}*off->return(abort)") };
            let child = start(&root, &scratch, &commits[1..], &format!("{point}={action}"));
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let begun = said.lines().rev().find_map(|line| line.split("begin ").nth(1));
            let old =
                begun.and_then(|b| commits.iter().position(|c| c == b)).map_or(0, |n| n.saturating_sub(1));
            if output.status.signal().is_some() {
                hits += 1;
            } else {
                assert!(output.status.success(), "{point}: {said}");
            }
            survivor(&root, &commits[old], begun.unwrap_or(&first), &format!("{point} after {skip}"));
            // And the next turn continues normally.
            let site = CacheSite::at(&root);
            let last = site.publish(scratch.path(), &commits[5]).unwrap();
            assert_eq!(site.current().name(), last.name(), "{point}");
        }
        assert!(hits > 0, "{point} is never passed");
    }
}

#[test]
fn a_kill_at_random_points_leaves_a_complete_generation() {
    let mut scratch = ScratchRepo::new();
    let commits = history(&mut scratch, 30);
    let mut dice = CacheTestRng(4);
    let (mut old, mut new) = (0, 0);
    for n in 0..iterations("CRASH_POINTS", 60) {
        let dir = site::memory_dir();
        let root = dir.path().join("root");
        let first =
            CacheSite::at(&root).publish(scratch.path(), &commits[0]).unwrap().record().revision.clone();
        let mut child = start(&root, &scratch, &commits[1..], "");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let turns = usize::try_from(dice.below(8)).unwrap();
        let begins = lines.by_ref().filter(|line| line.contains("begin ")).nth(turns).unwrap();
        // On a busy machine nothing is published in this time: some are killed right after that.
        if n % 3 == 0 {
            assert!(lines.by_ref().any(|line| line.contains("taken ")));
        } else {
            std::thread::sleep(Duration::from_micros(dice.below(12_000)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The output between the drawn turn and the end.
        let mut begun = begins.split("begin ").nth(1).unwrap().to_owned();
        for line in lines {
            if let Some(next) = line.split("begin ").nth(1).filter(|c| c.len() == 40) {
                next.clone_into(&mut begun);
            }
        }
        let at = commits.iter().position(|c| *c == begun).unwrap();
        let before = if at == 0 { first.as_str() } else { commits[at - 1].as_str() };
        match survivor(&root, before, &begun, &format!("point {n}")) == begun {
            true => new += 1,
            false => old += 1,
        }
    }
    assert!(old > 0 && new > 0, "the points fell on one side only: {old} old, {new} new");
}
