//! Remotes that are slow, hang, lie or send endlessly: each ends at the deadline, with an error that names the cause.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, SourceError, SourceErrorKind};
use zagent_cache::testing::{judged, test_source};

use super::fixture::{RemoteFixture, client, head, long_deadline, read_top};

const SHORT: Duration = Duration::from_millis(1500);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(4);

/// The behaviour, the result, and a word of the message.
const POLLS: &[(&str, &[SourceErrorKind], &str)] = &[
    ("hang", &[SourceErrorKind::Timeout], "time limit"),
    ("half", &[SourceErrorKind::Timeout], "time limit"),
    ("headers", &[SourceErrorKind::Protocol, SourceErrorKind::Unreachable], ""),
    ("body", &[SourceErrorKind::Timeout], "time limit"),
    ("trickle", &[SourceErrorKind::Timeout], "time limit"),
    ("loop", &[SourceErrorKind::Protocol], "redirects more than 5 times"),
    ("tofile", &[SourceErrorKind::Protocol], "`file:///etc/passwd`: only https and http"),
    ("toext", &[SourceErrorKind::Protocol], "redirects to"),
    ("login", &[SourceErrorKind::Protocol], "login page"),
    ("denied", &[SourceErrorKind::Denied], "set `token_file`"),
    ("s500", &[SourceErrorKind::Unreachable], "HTTP 500"),
    ("busy", &[SourceErrorKind::Unreachable], "HTTP 503"),
    ("html", &[SourceErrorKind::Protocol], "web page"),
    ("type", &[SourceErrorKind::Protocol], "application/octet-stream"),
    ("garbage", &[SourceErrorKind::Protocol], "Git server"),
    ("endless", &[SourceErrorKind::TooLarge, SourceErrorKind::Timeout], ""),
    ("truncated", &[SourceErrorKind::Unreachable], "interrupted"),
    ("close", &[SourceErrorKind::Unreachable], "cannot reach"),
];

const FETCHES: &[(&str, &[SourceErrorKind])] = &[
    ("late-hang", &[SourceErrorKind::Timeout]),
    ("late-body", &[SourceErrorKind::Timeout]),
    ("late-trickle", &[SourceErrorKind::Timeout]),
    ("late-endless", &[SourceErrorKind::TooLarge]),
    ("late-truncated", &[SourceErrorKind::Unreachable]),
    ("late-garbage", &[SourceErrorKind::Protocol]),
    ("late-close", &[SourceErrorKind::Unreachable]),
    ("late-html", &[SourceErrorKind::Protocol]),
    ("late-s500", &[SourceErrorKind::Unreachable]),
    ("late-denied", &[SourceErrorKind::Denied]),
];

fn judge(mode: &str, begun: Instant, error: &SourceError, kinds: &[SourceErrorKind]) {
    assert!(begun.elapsed() < SHORT + SLACK, "{mode} took {:?}", begun.elapsed());
    assert!(kinds.contains(&error.kind), "{mode}: {error:?}");
    assert!(error.to_string().contains("http://127.0.0.1"), "{mode}: {error}");
    assert!(!error.to_string().contains('\u{1b}'));
}

#[test]
fn polls_of_bad_remotes_end_in_time_and_name_the_cause() {
    let (fixture, _) = RemoteFixture::with_commit();
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
    let (mut fixture, first) = RemoteFixture::with_commit();
    for (mode, _) in FETCHES {
        fixture.client("").fetch(&fixture.store(mode), "main", &mut judged(&first), long_deadline()).unwrap();
    }
    let second = fixture.commit("two");
    std::thread::scope(|scope| {
        for (mode, kinds) in FETCHES {
            let mut settings = test_source(&fixture.url(mode));
            settings.max_pack = 1 << 20;
            let (mut client, store) = (client(&settings), fixture.store(mode));
            let (first, second) = (&first, &second);
            scope.spawn(move || {
                assert_eq!(head(&mut client).unwrap().as_ref(), Some(second), "{mode}");
                let begun = Instant::now();
                let error =
                    client.fetch(&store, "main", &mut judged(second), Deadline::after(SHORT)).unwrap_err();
                judge(mode, begun, &error, kinds);
                assert!(!store.has_commit(second), "{mode}");
                assert_eq!(read_top(&store, first), "one", "{mode}");
            });
        }
    });
    for (mode, _) in FETCHES {
        let store = fixture.store(mode);
        fixture.client("").fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &second), "two");
    }
}

#[test]
fn unreachable_hosts_are_named() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (url, word) in [
        (format!("http://127.0.0.1:{port}/x"), "connection refused"),
        (format!("https://127.0.0.1:{port}/x"), "connection refused"),
        ("http://no-such-host.invalid/x".to_owned(), "cannot reach"),
    ] {
        let error = client(&test_source(&url)).poll(&["main"], Deadline::after(SHORT)).unwrap_err();
        assert!(matches!(error.kind, SourceErrorKind::Unreachable | SourceErrorKind::Timeout), "{error:?}");
        assert!(error.to_string().contains(word) || error.kind == SourceErrorKind::Timeout, "{error}");
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
        let error = client(&test_source(&url)).poll(&["main"], Deadline::after(SHORT)).unwrap_err();
        assert!(begun.elapsed() < SHORT + SLACK, "{url}");
        assert!(matches!(error.kind, SourceErrorKind::Timeout | SourceErrorKind::Unreachable), "{error:?}");
    }
}

#[test]
fn a_server_that_turns_bad_is_asked_from_the_beginning() {
    let (fixture, first) = RemoteFixture::with_commit();
    let mut client = fixture.client("");
    assert_eq!(head(&mut client).unwrap(), Some(first));
    drop(fixture.server);
    let error = head(&mut client).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Unreachable, "{error}");
}
