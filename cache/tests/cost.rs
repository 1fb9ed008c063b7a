//! What it costs to publish one changed file of many, beside `git pull`. Alone in its process, because it measures the
//! whole process and its children.
//!
//! Law: what did not change is shared, not written: only the changed file has a new inode, and all writes of a publication
//! together are smaller than the files (held by `one_changed_file_of_many`).
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

use std::os::unix::fs::MetadataExt;
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
/// Without `COST_FILES`.
const FEW_FILES: usize = 300;
/// Bytes that a publication may write per file that did not change: its entry in the record.
const BYTES_PER_KNOWN_FILE: u64 = 400;
/// Bytes that it may write besides: the changed file, its packs, the list of its directory, logs.
const BYTES_PER_CHANGE: u64 = 50_000;

fn git(dir: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn path_of(number: usize) -> String {
    format!("states/d{}/f{number}.sls", number / FILES_PER_DIR)
}

/// A file of the tree; its text says which version of it this is.
fn write_file(dir: &Path, number: usize, version: usize) {
    let path = dir.join(path_of(number));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let line = format!("# {number} {version} {}\n", (number * 7919) % 104_729);
    std::fs::write(path, line.repeat(FILE_BYTES / line.len())).unwrap();
}

/// The inodes of all files of a generation.
fn inodes(generation: &Generation, files: usize) -> Vec<u64> {
    (0..files)
        .map(|n| std::fs::symlink_metadata(generation.tree_dir().join(path_of(n))).unwrap().ino())
        .collect()
}

/// The bytes that this process and the children that ended gave to the kernel to write, wherever to.
fn written_bytes() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// The CPU time of this process and its children, and the bytes they wrote.
fn spent() -> (Duration, u64) {
    let usage = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let times = usage.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    let cpu = times.map(|time| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)).sum();
    (cpu, written_bytes())
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
    let files: usize = std::env::var("COST_FILES").map_or(FEW_FILES, |n| n.parse().unwrap());
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
    let (first, ..) = measure("first publish", || node.pull());
    let mut known = inodes(&first, files);
    for version in 1..=6 {
        write_file(&origin, files / 2, version);
        git(&origin, &["commit", "-qam", "one"]);
        let (_, pulled, _) = measure("git pull", || git(&clone, &["pull", "-q"]));
        let (made, ours, written) = measure("publish one changed file", || node.pull());
        let most = BYTES_PER_CHANGE + files as u64 * BYTES_PER_KNOWN_FILE;
        assert!(written < most, "version {version}: {written} bytes are written, {most} are allowed");
        let now = inodes(&made, files);
        let changed: Vec<usize> = (0..files).filter(|&number| known[number] != now[number]).collect();
        assert_eq!(changed, [files / 2], "version {version}: only the changed file is written");
        known = now;
        println!("{:>40.2} x git pull", ours.as_secs_f64() / pulled.as_secs_f64());
        measure("check before a run", || made.check(CheckDepth::Quick).unwrap());
    }
    node.site.current().check(CheckDepth::Full).unwrap();
}
