//! What it costs to publish one changed file of many, beside `git pull`. Alone in its process, because it measures the
//! whole process and its children.
//!
//! `COST_FILES=n` sets the number of files; `cargo test --release -p zagent-cache --test cost -- --nocapture` prints the
//! figures of docs/src/performance.md.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "measures the machine and prints figures"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]

#[path = "it/site/mod.rs"]
mod site;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use site::CacheSite;
use zagent_cache::source::{Deadline, RemoteClient};
use zagent_cache::testing::{judged, test_source};
use zagent_cache::{Cache, CheckDepth, Generation, ObjectStore};
use zagent_config::settings::SourceSettings;

/// Bytes of a file: with 20,000 files, a tree of 88 MB.
const FILE_BYTES: usize = 4400;
const FILES_PER_DIR: usize = 100;

fn git(dir: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file of the tree; its text says which version of it this is.
fn write_file(dir: &Path, number: usize, version: usize) {
    let path = dir.join(format!("states/d{}/f{number}.sls", number / FILES_PER_DIR));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let line = format!("# {number} {version} {}\n", (number * 7919) % 104_729);
    std::fs::write(path, line.repeat(FILE_BYTES / line.len())).unwrap();
}

/// The CPU time of this process and its children, and the bytes it wrote.
fn spent() -> (Duration, u64) {
    let usage = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let times = usage.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    let cpu = times.map(|time| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)).sum();
    (cpu, usage.iter().map(|usage| usage.as_ref().ru_oublock as u64 * 512).sum())
}

fn measure<T>(what: &str, act: impl FnOnce() -> T) -> (T, Duration, u64) {
    let (cpu, bytes) = spent();
    let begun = std::time::Instant::now();
    let made = act();
    let wall = begun.elapsed();
    let (now, written) = spent();
    println!("{what:<28} {:>8.1?} CPU {wall:>8.1?} wall {:>8} KB", now - cpu, (written - bytes) / 1024);
    (made, now - cpu, written - bytes)
}

/// A node that follows a repository on this machine.
struct CostNode {
    site: CacheSite,
    store: ObjectStore,
    client: RemoteClient,
}

impl CostNode {
    fn new(root: &Path, remote: &Path) -> Self {
        let mut site = CacheSite::at(root);
        let limits =
            SourceSettings { max_files: 100_000, max_pack: 1 << 30, ..test_source(remote.to_str().unwrap()) };
        site.cache = Cache::open(&site.paths, &limits).unwrap();
        let client = RemoteClient::new(&limits.remotes[0], &limits).unwrap();
        Self { store: ObjectStore::open(site.paths.repository()).unwrap(), site, client }
    }

    /// Polls, fetches, publishes and prunes, as a turn does.
    fn pull(&mut self) -> Generation {
        let deadline = Deadline::after(Duration::from_secs(600));
        let (head, ..) = measure("  poll", || self.client.poll(&["main"], deadline).unwrap().pop().flatten());
        let mut commit = judged(&head.unwrap());
        let (client, store, cache) = (&mut self.client, &self.store, &self.site.cache);
        measure("  fetch", || client.fetch(store, "main", &mut commit, deadline).unwrap());
        let (staged, ..) = measure("  stage", || cache.stage_commit(store, &commit).unwrap());
        let (verified, ..) = measure("  verify", || staged.verify(&self.site.verify_context()).unwrap());
        let (made, ..) = measure("  publish", || verified.publish().unwrap());
        measure("  gc", || cache.gc().unwrap());
        made
    }
}

#[test]
fn one_changed_file_of_many() {
    let files: usize = std::env::var("COST_FILES").map_or(2000, |n| n.parse().unwrap());
    let dir = std::env::var("COST_DIR").map_or_else(|_| tempfile::tempdir(), tempfile::tempdir_in).unwrap();
    let origin = dir.path().join("origin");
    std::fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q", "-b", "main"]);
    (0..files).for_each(|number| write_file(&origin, number, 0));
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-qm", "all"]);
    let clone = dir.path().join("clone");
    let from = format!("file://{}", origin.display());
    git(dir.path(), &["clone", "-q", &from, "clone"]);
    let mut node = CostNode::new(&dir.path().join("root"), &origin);
    let _first = measure("first publish", || node.pull());
    for version in 1..=6 {
        write_file(&origin, files / 2, version);
        git(&origin, &["commit", "-qam", "one"]);
        let (_, pulled, _) = measure("git pull", || git(&clone, &["pull", "-q"]));
        let (made, ours, _) = measure("publish one changed file", || node.pull());
        println!("{:>40.2} x git pull", ours.as_secs_f64() / pulled.as_secs_f64());
        measure("check before a run", || made.check(CheckDepth::Quick).unwrap());
    }
    node.site.current().check(CheckDepth::Full).unwrap();
}
