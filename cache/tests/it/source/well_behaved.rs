//! Servers that follow the protocol.

use zagent_cache::source::{Deadline, SourceErrorKind};
use zagent_cache::testing::{judged, test_source};
use zagent_config::ids::Revision;

use super::fixture::{RemoteFixture, client, head, long_deadline, read_top};

#[test]
fn a_commit_is_found_and_fetched_over_http_old_and_new() {
    for mode in ["", "v0", "moved"] {
        let (mut fixture, first) = RemoteFixture::with_commit();
        let (mut client, store) = (fixture.client(mode), fixture.store("store"));
        assert_eq!(head(&mut client).unwrap(), Some(first.clone()), "{mode}");
        assert!(!store.has_commit(&first));
        client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &first), "one");
        let second = fixture.commit("two");
        assert_eq!(head(&mut client).unwrap(), Some(second.clone()));
        client.fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
        assert_eq!(
            (read_top(&store, &second), read_top(&store, &first)),
            ("two".into(), "one".into()),
            "{mode}"
        );
        let commit = store.commit(&second).unwrap();
        assert_eq!((commit.parents, commit.summary.as_str()), (vec![first], "c"));
        assert!(commit.bytes.starts_with(b"tree "));
    }
}

#[test]
fn an_idle_poll_is_one_request_on_the_same_connection() {
    let (mut fixture, first) = RemoteFixture::with_commit();
    let mut client = fixture.client("");
    assert_eq!(head(&mut client).unwrap(), Some(first.clone()));
    assert_eq!(fixture.server.log().len(), 2);
    for _ in 0..5 {
        assert_eq!(head(&mut client).unwrap(), Some(first.clone()));
        let log = fixture.server.log();
        assert!(log.len() == 1 && log[0].starts_with("POST"), "{log:?}");
    }
    assert_eq!(fixture.server.connections(), 1);
    let second = fixture.commit("two");
    assert_eq!(head(&mut client).unwrap(), Some(second));
    assert_eq!(fixture.server.log().len(), 1);
}

#[test]
fn names_are_compared_whole_and_several_are_polled_at_once() {
    let (fixture, first) = RemoteFixture::with_commit();
    fixture.scratch.set_branch("main2", first.as_str());
    fixture.scratch.set_branch("testing/web-01", first.as_str());
    let mut client = fixture.client("");
    for _ in 0..2 {
        let asked = ["testing/web-01", "main", "mai", "testing/web"];
        let found = client.poll(&asked, long_deadline()).unwrap();
        assert_eq!(found, [Some(first.clone()), Some(first.clone()), None, None]);
    }
    let error = client.no_branch_error("nope", long_deadline());
    assert_eq!(error.kind, SourceErrorKind::NoBranch);
    assert!(error.to_string().ends_with("existing branches: main, main2, testing/web-01"), "{error}");
    for bad in ["-x", "a b", "../x", "a\nb"] {
        assert_eq!(client.poll(&[bad], long_deadline()).unwrap_err().kind, SourceErrorKind::Local);
    }
}

#[test]
fn an_empty_repository_and_a_deleted_branch_have_no_head() {
    let mut fixture = RemoteFixture::new();
    for mode in ["", "v0"] {
        assert_eq!(head(&mut fixture.client(mode)).unwrap(), None);
    }
    fixture.commit("one");
    let mut client = fixture.client("");
    assert!(head(&mut client).unwrap().is_some());
    fixture.scratch.start_orphan();
    assert_eq!(head(&mut client).unwrap(), None);
    assert!(client.no_branch_error("main", long_deadline()).to_string().contains("it has no branches"));
}

#[test]
fn rewritten_history_is_fetched_and_differs_from_a_fast_forward() {
    for filter in ["", "\n[uploadpack]\nallowFilter = true\n"] {
        follow_history(filter);
    }
}

fn follow_history(filter: &str) {
    let (mut fixture, first) = RemoteFixture::with_commit();
    let config = fixture.scratch.path().join(".git/config");
    let text = std::fs::read_to_string(&config).unwrap() + filter;
    std::fs::write(&config, text).unwrap();
    let (mut client, store) = (fixture.client(""), fixture.store("store"));
    let second = fixture.commit("two");
    client.fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
    assert_eq!(store.is_ancestor(&first, &second).unwrap(), Some(true), "a commit names its parent");
    let mut last = second.clone();
    for n in 0..4 {
        last = fixture.commit(&format!("more {n}"));
    }
    client.fetch(&store, "main", &mut judged(&last), long_deadline()).unwrap();
    assert_eq!(store.is_ancestor(&second, &last).unwrap(), None, "shallow: unknown");
    client.fetch_history(&store, &last, 3, long_deadline()).unwrap();
    assert_eq!(store.is_ancestor(&first, &last).unwrap(), None);
    client.fetch_history(&store, &last, 5, long_deadline()).unwrap();
    assert_eq!(store.is_ancestor(&second, &last).unwrap(), Some(true));
    assert_eq!(store.is_ancestor(&first, &last).unwrap(), Some(true));
    client.fetch_history(&store, &last, 50, long_deadline()).unwrap();
    assert_eq!(store.is_ancestor(&first, &last).unwrap(), Some(true));
    assert_eq!(store.is_ancestor(&last, &first).unwrap(), Some(false));
    // What an ancestor contained, and may have arrived without it.
    let back = fixture.commit("one");
    client.fetch(&store, "main", &mut judged(&back), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &back), "one");
    fixture.scratch.start_orphan();
    let orphan = fixture.commit("rewritten");
    client.fetch(&store, "main", &mut judged(&orphan), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &orphan), "rewritten");
    assert_eq!(store.is_ancestor(&last, &orphan).unwrap(), Some(false));
    assert_eq!(store.is_ancestor(&orphan, &orphan).unwrap(), Some(true));
}

#[test]
fn a_missing_commit_is_named_and_the_store_stays() {
    let (fixture, first) = RemoteFixture::with_commit();
    let (mut client, store) = (fixture.client(""), fixture.store("store"));
    client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    let unknown: Revision = "1234567890".repeat(4).parse().unwrap();
    let error = client.fetch(&store, "main", &mut judged(&unknown), long_deadline()).unwrap_err();
    assert!(matches!(error.kind, SourceErrorKind::NoBranch | SourceErrorKind::Protocol), "{error:?}");
    assert!(!store.has_commit(&unknown));
    assert_eq!(read_top(&store, &first), "one");
    let long: Revision = "ab".repeat(32).parse().unwrap();
    assert!(
        client
            .fetch(&store, "main", &mut judged(&long), long_deadline())
            .unwrap_err()
            .to_string()
            .contains("SHA-256")
    );
}

#[test]
fn a_damaged_or_locked_store_is_repaired() {
    let (mut fixture, first) = RemoteFixture::with_commit();
    let (mut client, store) = (fixture.client(""), fixture.store("store"));
    client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    let packs = store.dir().join("objects/pack");
    let pack = || {
        let all = std::fs::read_dir(&packs).unwrap().flatten().map(|entry| entry.path());
        all.filter(|path| path.extension().is_some_and(|end| end == "pack")).last().unwrap()
    };
    // Damage in the middle of a pack, whose commit is still readable.
    let mut bytes = std::fs::read(pack()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let writable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(pack(), writable).unwrap();
    std::fs::write(pack(), &bytes).unwrap();
    client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &first), "one");
    std::fs::remove_file(pack()).unwrap();
    assert!(!store.has_commit(&first));
    client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &first), "one");
    for lock in ["shallow.lock", "HEAD.lock", "objects/pack/.tmpXYZ"] {
        std::fs::write(store.dir().join(lock), "").unwrap();
    }
    let second = fixture.commit("two");
    client.fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &second), "two");
    assert!(!store.dir().join("objects/pack/.tmpXYZ").exists());
    std::fs::write(store.dir().join("HEAD"), "garbage").unwrap();
    std::fs::write(store.dir().join("config"), "[broken").unwrap();
    client.fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &second), "two");
    store.discard().unwrap();
    assert!(!store.has_commit(&second));
}

#[test]
fn packs_do_not_accumulate() {
    let (mut fixture, _) = RemoteFixture::with_commit();
    let (mut client, store) = (fixture.client(""), fixture.store("store"));
    for n in 0..40 {
        let revision = fixture.commit(&format!("number {n}"));
        client.fetch(&store, "main", &mut judged(&revision), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &revision), format!("number {n}"));
        let packs = std::fs::read_dir(store.dir().join("objects/pack")).unwrap().count();
        assert!(packs <= 2 * 17 + 2, "{packs}");
    }
    let beside = std::fs::read_dir(fixture.dir.path()).unwrap().flatten();
    let mut names: Vec<String> = beside.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["store", "store.lock"]);
}

#[test]
fn limits_of_pack_and_file_hold() {
    let (fixture, first) = RemoteFixture::with_commit();
    let mut settings = test_source(&fixture.url(""));
    settings.max_pack = 300;
    let store = fixture.store("store");
    let error = client(&settings).fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::TooLarge, "{error:?}");
    assert!(!store.has_commit(&first));
    let mut file = test_source(fixture.scratch.path().to_str().unwrap());
    file.max_pack = 300;
    let error = client(&file).fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::TooLarge, "{error:?}");
}

#[test]
fn two_concurrent_fetches_succeed() {
    let (fixture, first) = RemoteFixture::with_commit();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (mut client, store, first) = (fixture.client(""), fixture.store("store"), &first);
            scope.spawn(move || client.fetch(&store, "main", &mut judged(first), long_deadline()).unwrap());
        }
    });
    assert_eq!(read_top(&fixture.store("store"), &first), "one");
}

#[test]
fn a_fetch_stops_waiting_for_the_lock_at_the_deadline() {
    let (fixture, first) = RemoteFixture::with_commit();
    let store = fixture.store("store");
    let holder = std::fs::File::create(fixture.dir.path().join("store.lock")).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let soon = Deadline::after(std::time::Duration::from_millis(200));
    let error = fixture.client("").fetch(&store, "main", &mut judged(&first), soon).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Local);
    assert!(format!("{:?}", error.source).contains("another process is fetching"), "{error:?}");
    drop(holder);
    fixture.client("").fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
}

#[test]
fn no_time_is_an_error_at_once() {
    let (fixture, first) = RemoteFixture::with_commit();
    let mut client = fixture.client("");
    let over = Deadline::after(std::time::Duration::ZERO);
    assert_eq!(client.poll(&["main"], over).unwrap_err().kind, SourceErrorKind::Timeout);
    assert!(client.fetch(&fixture.store("store"), "main", &mut judged(&first), over).is_err());
    assert!(fixture.server.log().is_empty());
}
