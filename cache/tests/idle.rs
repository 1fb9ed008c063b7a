//! The cost of waiting. Alone in its process, because it measures the whole process.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its remote has failed")]

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use zagent_cache::source::{Deadline, RemoteClient};
use zagent_cache::testing::{EntryKind, GitHttpServer, ScratchRepo, judged, ls_refs, test_source};
use zagent_cache::{CacheLimits, ObjectStore};
use zagent_config::ids::Revision;

fn long_deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// The number of turns with each kind of remote.
fn turns() -> usize {
    std::env::var("IDLE_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The CPU time of this thread.
fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The CPU time of this process and its children.
fn process_time() -> Duration {
    let spent = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let times = spent.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    times.map(|time| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)).sum()
}

fn time(clock: fn() -> Duration, rounds: u32, mut act: impl FnMut()) -> Duration {
    act();
    let begun = clock();
    for _ in 0..rounds {
        act();
    }
    (clock() - begun) / rounds
}

#[test]
fn polling_leaks_nothing_and_costs_little() {
    let mut scratch = ScratchRepo::new();
    let first: Revision = scratch.commit(&[("states/top.sls", EntryKind::Blob, "one")]).parse().unwrap();
    let server = GitHttpServer::start(scratch.path().parent().unwrap());
    let name = scratch.path().file_name().unwrap().to_str().unwrap();
    let file = scratch.path().to_str().unwrap().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let client = |url: &str| {
        let source = test_source(url);
        RemoteClient::new(&source.remotes[0], &source).unwrap()
    };

    for url in [server.url(name), file.clone()] {
        let mut client = client(&url);
        let store = ObjectStore::open(dir.path().join("store")).unwrap();
        let mut turn = || {
            assert_eq!(client.poll(&["main"], long_deadline()).unwrap(), [Some(first.clone())]);
            client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
            assert_eq!(store.read_tree(&first, CacheLimits::default()).unwrap().list().count(), 1);
            store.discard().unwrap();
        };
        turn();
        let before = descriptors();
        (0..turns()).for_each(|_| turn());
        assert!(descriptors() <= before + 1, "{url}: {} after {before}", descriptors());
    }

    let mut http = client(&server.url(name));
    let idle =
        time(thread_time, 200, || assert!(http.poll(&["main"], long_deadline()).unwrap()[0].is_some()));
    let greeted = time(thread_time, 50, || {
        assert!(client(&server.url(name)).poll(&["main"], long_deadline()).unwrap()[0].is_some());
    });
    let mut local = client(&file);
    let ours =
        time(process_time, 100, || assert!(local.poll(&["main"], long_deadline()).unwrap()[0].is_some()));
    let gix = time(process_time, 100, || assert_eq!(ls_refs(&file), 1));
    println!("http: idle poll {idle:?}, with greeting {greeted:?}; file: ours {ours:?}, bare gix {gix:?}");
    assert!(ours < gix * 3, "a poll costs {ours:?}, the Git library alone {gix:?}");
    assert!(idle < greeted, "an idle poll costs {idle:?}, one with a greeting {greeted:?}");
}
