//! Remotes that are slow, hang, lie or send without end: each ends at the deadline, with an error that names the cause.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, Kind, SourceError};
use zagent_cache::testing::source;

use crate::fixture::{Fixture, ample, client, head, top};

const SHORT: Duration = Duration::from_millis(1500);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(4);

/// How to behave, what comes of it, and a word of the message.
const POLLS: &[(&str, &[Kind], &str)] = &[
    ("hang", &[Kind::Timeout], "in time"),
    ("half", &[Kind::Timeout], "in time"),
    ("headers", &[Kind::Protocol, Kind::Unreachable], ""),
    ("body", &[Kind::Timeout], "in time"),
    ("trickle", &[Kind::Timeout], "in time"),
    ("loop", &[Kind::Protocol], "redirects more than 5 times"),
    ("tofile", &[Kind::Protocol], "`file:///etc/passwd`: only https and http"),
    ("toext", &[Kind::Protocol], "redirects to"),
    ("login", &[Kind::Protocol], "login page"),
    ("denied", &[Kind::Denied], "set `token_file`"),
    ("s500", &[Kind::Unreachable], "HTTP 500"),
    ("busy", &[Kind::Unreachable], "HTTP 503"),
    ("html", &[Kind::Protocol], "web page"),
    ("type", &[Kind::Protocol], "application/octet-stream"),
    ("garbage", &[Kind::Protocol], "Git server"),
    ("endless", &[Kind::TooLarge, Kind::Timeout], ""),
    ("truncated", &[Kind::Unreachable], "broke off"),
    ("close", &[Kind::Unreachable], "cannot reach"),
];

const FETCHES: &[(&str, &[Kind])] = &[
    ("late-hang", &[Kind::Timeout]),
    ("late-body", &[Kind::Timeout]),
    ("late-trickle", &[Kind::Timeout]),
    ("late-endless", &[Kind::TooLarge]),
    ("late-truncated", &[Kind::Unreachable]),
    ("late-garbage", &[Kind::Protocol]),
    ("late-close", &[Kind::Unreachable]),
    ("late-html", &[Kind::Protocol]),
    ("late-s500", &[Kind::Unreachable]),
    ("late-denied", &[Kind::Denied]),
];

fn judge(mode: &str, begun: Instant, error: &SourceError, kinds: &[Kind]) {
    assert!(begun.elapsed() < SHORT + SLACK, "{mode} took {:?}", begun.elapsed());
    assert!(kinds.contains(&error.kind), "{mode}: {error:?}");
    assert!(error.to_string().contains("http://127.0.0.1"), "{mode}: {error}");
    assert!(!error.to_string().contains('\u{1b}'));
}

#[test]
fn polls_of_bad_remotes_end_in_time_and_say_why() {
    let (fixture, _) = Fixture::with_commit();
    std::thread::scope(|scope| {
        for (mode, kinds, word) in POLLS {
            let mut client = fixture.client(mode);
            scope.spawn(move || {
                let begun = Instant::now();
                let error = client.poll(&["main"], Deadline::after(SHORT)).unwrap_err();
                judge(mode, begun, &error, kinds);
                assert!(error.to_string().contains(word), "{mode}: {error}");
                let after = (*mode == "busy").then(|| Duration::from_secs(120));
                assert_eq!(error.retry_after, after, "{mode}");
            });
        }
    });
}

#[test]
fn fetches_from_bad_remotes_end_in_time_and_leave_the_store_as_it_was() {
    let (mut fixture, first) = Fixture::with_commit();
    for (mode, _) in FETCHES {
        fixture.client("").fetch(&fixture.store(mode), "main", &first, ample()).unwrap();
    }
    let second = fixture.commit("two");
    std::thread::scope(|scope| {
        for (mode, kinds) in FETCHES {
            let mut settings = source(&fixture.url(mode));
            settings.max_pack = 1 << 20;
            let (mut client, store) = (client(&settings), fixture.store(mode));
            let (first, second) = (&first, &second);
            scope.spawn(move || {
                assert_eq!(head(&mut client).unwrap().as_ref(), Some(second), "{mode}");
                let begun = Instant::now();
                let error = client.fetch(&store, "main", second, Deadline::after(SHORT)).unwrap_err();
                judge(mode, begun, &error, kinds);
                assert!(!store.has(second), "{mode}");
                assert_eq!(top(&store, first), "one", "{mode}");
            });
        }
    });
    for (mode, _) in FETCHES {
        let store = fixture.store(mode);
        fixture.client("").fetch(&store, "main", &second, ample()).unwrap();
        assert_eq!(top(&store, &second), "two");
    }
}

#[test]
fn hosts_that_are_not_there_are_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (url, word) in [
        (format!("http://127.0.0.1:{port}/x"), "connection refused"),
        (format!("https://127.0.0.1:{port}/x"), "connection refused"),
        ("http://no-such-host.invalid/x".to_owned(), "cannot reach"),
    ] {
        let error = client(&source(&url)).poll(&["main"], Deadline::after(SHORT)).unwrap_err();
        assert!(matches!(error.kind, Kind::Unreachable | Kind::Timeout), "{error:?}");
        assert!(error.to_string().contains(word) || error.kind == Kind::Timeout, "{error}");
    }
}

#[test]
fn a_host_that_accepts_and_says_nothing_is_left_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for url in [
        format!("http://127.0.0.1:{port}/x"),
        format!("https://127.0.0.1:{port}/x"),
        format!("ssh://127.0.0.1:{port}/x"),
    ] {
        let begun = Instant::now();
        let error = client(&source(&url)).poll(&["main"], Deadline::after(SHORT)).unwrap_err();
        assert!(begun.elapsed() < SHORT + SLACK, "{url}");
        assert!(matches!(error.kind, Kind::Timeout | Kind::Unreachable), "{error:?}");
    }
}

#[test]
fn a_server_that_turns_bad_is_asked_from_the_beginning() {
    let (fixture, first) = Fixture::with_commit();
    let mut client = fixture.client("");
    assert_eq!(head(&mut client).unwrap(), Some(first));
    drop(fixture.server);
    let error = head(&mut client).unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
}
