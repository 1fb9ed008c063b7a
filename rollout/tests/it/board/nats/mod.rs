//! The board on NATS, against a real server.

mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use zagent_cache::needs;
use zagent_config::settings;
use zagent_rollout::board::{Board, BoardError, NatsBoard};

use self::server::{Server, keys, tls};
use super::conforms::{conforms, write};

fn settings(url: &str) -> settings::BoardSettings {
    settings::BoardSettings {
        kind: settings::BoardKind::Nats,
        url: Some(url.into()),
        credentials: None,
        user: None,
        known_hosts: None,
        ca: None,
        bucket: "fleet".into(),
        every: Duration::from_secs(60),
        allowed_nodes: None,
        require_enrolment: false,
    }
}

fn open(url: &str) -> NatsBoard {
    NatsBoard::open(&settings(url)).unwrap()
}

/// An error with all its causes.
fn all(error: &BoardError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

#[test]
fn a_nats_board_conforms() {
    needs!("nats-server");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), -1, "");
    let url = format!("nats://127.0.0.1:{}", server.port);
    conforms(&|| Box::new(open(&url)));
}

#[test]
fn a_nats_board_with_tls_and_keys_conforms_and_denies_other_users() {
    needs!("nats-server", "openssl");
    let dir = tempfile::tempdir().unwrap();
    let (config, creds) = keys(dir.path());
    let server = Server::start(dir.path(), -1, &format!("{}\n{config}", tls(dir.path())));
    let url = format!("tls://127.0.0.1:{}", server.port);
    let ca = Some(dir.path().join("ca.pem"));
    let known =
        settings::BoardSettings { ca: ca.clone(), credentials: Some(creds.clone()), ..settings(&url) };
    conforms(&|| Box::new(NatsBoard::open(&known).unwrap()));

    let strange = settings::BoardSettings { ca, ..settings(&url) };
    let error = NatsBoard::open(&strange).unwrap().get("node/agent/x").unwrap_err();
    assert!(
        matches!(&error, BoardError::Refused { message, .. } if message.contains("board.credentials")),
        "{error:?}"
    );
    let distrusted = settings::BoardSettings { credentials: Some(creds), ..settings(&url) };
    let error = NatsBoard::open(&distrusted).unwrap().get("node/agent/x").unwrap_err();
    assert!(matches!(error, BoardError::Unreachable { .. }), "{error:?}");
    for (credentials, ca) in [(Some("no.creds"), None), (None, Some("no.pem"))] {
        let at = |name: &str| dir.path().join(name);
        let lost =
            settings::BoardSettings { credentials: credentials.map(at), ca: ca.map(at), ..settings(&url) };
        let error = NatsBoard::open(&lost).unwrap().get("node/agent/x").unwrap_err();
        let name = credentials.or(ca).unwrap();
        assert!(matches!(&error, BoardError::Refused { message, .. } if message.contains(name)), "{error:?}");
    }
}

#[test]
fn a_password_is_used_and_never_shown() {
    needs!("nats-server");
    let dir = tempfile::tempdir().unwrap();
    let users = "authorization { users: [{ user: me, password: \"hunt@er2\" }] }";
    let server = Server::start(dir.path(), -1, users);
    let mut board = open(&format!("nats://me:hunt%40er2@127.0.0.1:{}", server.port));
    board.put("node/agent/a", write(b"x", None)).unwrap();
    let nobody = format!("nats://me:wrongpass@127.0.0.1:{}", server.port);
    for url in [nobody.as_str(), "nats://me:wrongpass@127.0.0.1:1", "nats://wrongpass@127.0.0.1:1"] {
        let mut board = open(url);
        let error = board.put("node/agent/a", write(b"x", None)).unwrap_err();
        assert!(!all(&error).contains("wrongpass"), "{}", all(&error));
        assert!(all(&error).contains("127.0.0.1"), "{}", all(&error));
        assert!(!format!("{board:?}").contains("wrongpass"));
    }
}

#[test]
fn a_restarted_server_is_used_again_and_an_empty_one_is_detected() {
    needs!("nats-server");
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(dir.path(), -1, "");
    let port = i32::from(server.port);
    let mut board = open(&format!("nats://127.0.0.1:{port}"));
    let token = board.put("node/agent/a", write(b"one", None)).unwrap();
    board.put("node/agent/b", write(b"two", None)).unwrap();
    assert_eq!(board.list("node/").unwrap().len(), 2);

    drop(server);
    assert!(matches!(board.get("node/agent/a"), Err(BoardError::Unreachable { .. })));
    let server = Server::start(dir.path(), port, "");
    assert_eq!(board.get("node/agent/a").unwrap().unwrap().token, token);
    drop(server);
    let server = Server::start(dir.path(), port, "");
    assert_eq!(board.list("node/").unwrap().len(), 2);

    drop(server);
    let server = Server::start(other.path(), port, "");
    assert_eq!(board.list("node/").unwrap(), vec![]);
    board.put("node/agent/c", write(b"three", None)).unwrap();
    let names: Vec<_> = board.list("node/").unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(names, ["node/agent/c"]);
    drop(server);
}

#[test]
fn a_value_over_the_server_limit_is_named_with_a_hint() {
    needs!("nats-server");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), -1, "max_payload: 4096");
    let mut board = open(&format!("nats://127.0.0.1:{}", server.port));
    let error = board.put("rollout/r", write(&[b'x'; 5000], None)).unwrap_err();
    assert!(
        matches!(&error, BoardError::Refused { message, .. } if message.contains("max_payload")),
        "{error:?}"
    );
    assert_eq!(board.get("rollout/r").unwrap(), None);
}

#[test]
fn many_changes_between_two_lists_are_all_seen() {
    needs!("nats-server");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), -1, "");
    let url = format!("nats://127.0.0.1:{}", server.port);
    let (mut writer, mut reader) = (open(&url), open(&url));
    let mut tokens = Vec::new();
    for n in 0..60 {
        let key = format!("node/agent/n{n:02}");
        tokens.push((key.clone(), writer.put(&key, write(b"one", None)).unwrap()));
    }
    assert_eq!(reader.list("node/agent/").unwrap().len(), 60);
    for (n, (key, token)) in tokens.iter().enumerate() {
        match n % 3 {
            0 => writer.delete(key, token).unwrap(),
            1 => drop(writer.put(key, write(b"two", Some(token))).unwrap()),
            _ => drop(writer.put(&format!("rollout/n{n}"), write(b"", None)).unwrap()),
        }
    }
    let found = reader.list("node/agent/").unwrap();
    assert_eq!(found, open(&url).list("node/agent/").unwrap());
    assert_eq!(found.iter().filter(|(_, entry)| entry.value == b"two").count(), 20);
    assert_eq!(found.len(), 40);
}

#[test]
#[ignore = "a measurement: how long a board of 10 000 nodes takes"]
fn how_long_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), -1, "");
    let url = format!("nats://127.0.0.1:{}", server.port);
    let mut board = open(&url);
    let value = vec![b'x'; 1000];
    let timed = |what: &str, act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        println!("{what}: {:?}", begun.elapsed());
    };
    timed("connect", &mut || drop(board.get("rollout/x").unwrap()));
    timed("10 000 puts", &mut || {
        for n in 0..10_000 {
            board.put(&format!("node/agent/n{n}"), write(&value, None)).unwrap();
        }
    });
    timed("1000 gets", &mut || {
        for n in 0..1000 {
            board.get(&format!("node/agent/n{n}")).unwrap().unwrap();
        }
    });
    let mut reader = open(&url);
    timed("first list of 10 000", &mut || assert_eq!(reader.list("node/agent/").unwrap().len(), 10_000));
    timed("list without a change", &mut || assert_eq!(reader.list("node/agent/").unwrap().len(), 10_000));
    for (n, changes) in [(0, 1), (1, 500)] {
        for i in 0..changes {
            board.put(&format!("node/agent/m{n}-{i}"), write(&value, None)).unwrap();
        }
        timed(&format!("list after {changes} changes"), &mut || drop(reader.list("node/agent/").unwrap()));
    }
    timed("list of another prefix, first", &mut || drop(reader.list("rollout/").unwrap()));
    timed("list of another prefix", &mut || drop(reader.list("rollout/").unwrap()));
    println!("store {} bytes", size(dir.path()));
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries.map(|e| if e.path().is_dir() { size(&e.path()) } else { e.metadata().unwrap().len() }).sum()
}

#[test]
#[ignore = "a measurement: what nodes and a driver ask of a NATS server"]
fn what_a_fleet_costs() {
    for nodes in [1, 100, 1000, 10_000] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), -1, "max_payload: 8388608");
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], server.port));
        let meter = super::scale::Meter::before(at);
        let mut near = open(&format!("nats://{at}"));
        let far = || -> Box<dyn Board> { Box::new(open(&format!("nats://{}", meter.at))) };
        super::scale::measure("NATS", nodes, &mut near, &far, &meter);
    }
}
