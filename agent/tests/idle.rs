//! Cost of the idle daemon, and what it leaves behind after work.
//!
//! `POLLS` and `TURNS` set how long it is observed; `RELEASE_BIN` names the shipped program, whose memory has a
//! budget. A binary of its own: the CPU time of this process is measured too.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read or write its files has failed")]

#[path = "it/node/mod.rs"]
mod node;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;
use zagent_cache::testing::ls_refs;
use zagent_daemon::api::RunRequest;

use self::node::{Node, Upstream, eventually};

/// Maximum resident memory of the idle daemon that we ship: its data, its own code and the libraries.
const RESIDENT: u64 = 18_000_000;
/// Maximum of its own data in this: the heap, stacks and changed pages. Nothing else on the host can share it.
const PRIVATE: u64 = 5_000_000;
/// Maximum growth between the first and the last quarter of the polls: less than one page in ten polls.
const FLAT: u64 = 256 << 10;

/// A number from the environment. In CI everything is observed at full length.
fn size(name: &str, short: usize, long: usize) -> usize {
    let whole = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let named = std::env::var(name).ok().and_then(|text| text.parse().ok());
    named.unwrap_or(if whole { long } else { short })
}

fn release() -> Option<PathBuf> {
    std::env::var_os("RELEASE_BIN").map(PathBuf::from)
}

/// Resident memory of a process, and how much of it is its own data.
fn memory(pid: Pid) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    (bytes("VmRSS:"), bytes("RssAnon:"))
}

/// Bytes that a process has written, anywhere.
fn written(pid: Pid) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// CPU time of a process and the children that it has waited for.
fn spent(pid: Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(4).map(|field| field.parse::<u64>().unwrap()).sum();
    let second =
        u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap()).unwrap();
    Duration::from_millis(ticks * 1000 / second)
}

/// CPU time of this process.
fn spent_here() -> Duration {
    let spent = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let times = spent.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    times
        .map(|time| Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap()))
        .sum()
}

fn entries(dir: String) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// Everything below a directory: identity, size and modification time.
fn files(dir: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                dirs.push(path.clone());
            }
            all.insert(path, (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        }
    }
    all
}

#[test]
fn an_idle_poll_writes_nothing() {
    let mut upstream = Upstream::new();
    let mut node = Node::with_program(&upstream.config(), release());
    let revision = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&revision);
    upstream.polls(1);
    let (root, pid) = (node.path("root"), node.pid());
    let before = (files(&root), written(pid));
    upstream.polls(5);
    assert_eq!((files(&root), written(pid)), before);
}

/// A paused daemon that is notified polls its remotes at once and does nothing else: a poll without its
/// delay.
fn poll(node: &Node) {
    let asked = || node.said().matches("remotes polled").count();
    let before = asked();
    node.client().notify_changed().unwrap();
    eventually("a poll", || (asked() > before).then_some(()));
}

#[test]
fn memory_does_not_grow() {
    let polls = size("POLLS", 60, 1000);
    let mut upstream = Upstream::new();
    let mut node = Node::with_program(&upstream.config().replace("1s", "1h"), release());
    let revision = upstream.push_marker(&node, "one");
    node.start_with(&["-v"]);
    node.run(&RunRequest::default());
    node.converges(&revision);
    node.fine(&["pause", "--for", "1h"]);
    node.until("the pause is seen", |status| status.paused.is_some());
    let pid = node.pid();
    let seen: Vec<(u64, u64)> = (0..polls)
        .map(|_| {
            poll(&node);
            memory(pid)
        })
        .collect();
    let quarter = polls.div_ceil(4);
    let most =
        |part: &[(u64, u64)]| part.iter().copied().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).unwrap();
    let ((first, _), (last, private)) = (most(&seen[..quarter]), most(&seen[polls - quarter..]));
    println!(
        "idle daemon: VmRSS {} kB at first, {} kB after {polls} polls; RssAnon {} kB",
        first >> 10,
        last >> 10,
        private >> 10
    );
    assert!(last <= first + FLAT, "{first} bytes in the first quarter of {polls} polls, {last} in the last");
    if release().is_some() {
        assert!(last < RESIDENT, "VmRSS is {last} bytes");
        assert!(private < PRIVATE, "RssAnon is {private} bytes");
    }
}

#[test]
fn turns_leave_nothing_behind() {
    let turns = size("TURNS", 10, 100);
    let mut upstream = Upstream::new();
    let mut node = Node::with_program(&upstream.config().replace("1s", "1h"), release());
    upstream.push_marker(&node, "one");
    node.start();
    let turn = |fetch| assert_eq!(node.run(&RunRequest { fetch, ..RunRequest::default() }).exit, 0);
    (0..2).for_each(|_| turn(true));
    let pid = node.pid();
    let open = || entries(format!("/proc/{pid}/fd"));
    let threads = || entries(format!("/proc/{pid}/task"));
    let (before, ran_by) = (open(), threads());
    (0..turns).for_each(|n| turn(n % 5 == 0));
    eventually("no descriptor is left", || (open() <= before).then_some(()));
    // API threads come and go.
    eventually("no thread is left", || (threads() <= ran_by).then_some(()));
    assert_eq!(node.children(), [0; 0], "no process is left");
    println!("{turns} turns: {before} descriptors, {ran_by} threads");
}

#[test]
fn a_poll_costs_little_more_than_the_request() {
    let polls = u32::try_from(size("POLLS", 60, 1000)).unwrap();
    let mut upstream = Upstream::new();
    let path = upstream.repo.path().to_str().unwrap().to_owned();
    let config = format!("source: {{poll: 1h, remotes: [{{url: 'file://{path}'}}]}}\n");
    let mut node = Node::with_program(&config, release());
    let revision = upstream.push_marker(&node, "one");
    node.start_with(&["-v"]);
    node.run(&RunRequest::default());
    node.converges(&revision);
    node.fine(&["pause", "--for", "1h"]);
    node.until("the pause is seen", |status| status.paused.is_some());
    let (pid, begun) = (node.pid(), spent(node.pid()));
    for _ in 0..polls {
        poll(&node);
    }
    let ours = (spent(pid) - begun) / polls;
    let begun = spent_here();
    for _ in 0..polls {
        assert_eq!(ls_refs(&path), 1);
    }
    let bare = (spent_here() - begun) / polls;
    println!("a poll of the daemon {ours:?}, with all that asks for it; the Git library alone {bare:?}");
    // Without optimisation our own part costs several times as much, while the Git processes cost the same.
    let most = if release().is_some() { 3 } else { 8 };
    assert!(ours <= bare * most, "a poll costs {ours:?}, the Git library alone {bare:?}");
}
