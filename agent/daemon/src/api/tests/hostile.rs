//! Hostile clients: none gets more than its share, and all others are still served.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{ApiClient, ApiLimits, ClientError, FakeBackend, RunRequest, TestServer, quick, rest};

#[test]
fn garbage_gets_a_refusal_or_nothing() {
    let server = TestServer::new(FakeBackend::default());
    let garbage: [&[u8]; 8] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/status HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/trigger HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/trigger HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"GET /v1/status HTTP/1.1\r\nhost: \x00\r\n\r\n",
    ];
    for bytes in garbage {
        let mut stream = server.unix();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
    }
    server.client().status().unwrap();
}

#[test]
fn a_header_and_a_body_have_a_size_limit() {
    let server = TestServer::new(FakeBackend::default());
    let mut stream = server.unix();
    // The daemon may hang up before everything is written.
    let _ = stream.write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\nx: ");
    let _ = stream.write_all(&vec![b'a'; 1 << 20]);
    assert!(!rest(&mut stream).starts_with("HTTP/1.1 2"));

    let mut stream = server.unix();
    let many: String = (0..500).map(|n| format!("x{n}: 1\r\n")).collect();
    let _ = stream.write_all(format!("GET /v1/status HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes());
    assert!(rest(&mut stream).starts_with("HTTP/1.1 431"));

    let sls = vec!["x".repeat(1 << 10); 65];
    let error = server.client().trigger(&RunRequest { sls, ..RunRequest::default() }).unwrap_err();
    assert!(matches!(error, ClientError::Failed { code: 413, .. } | ClientError::Io { .. }), "{error:?}");
    assert!(server.fake.requests.lock().unwrap().is_empty());
}

#[test]
fn an_invalid_request_is_refused_with_a_message() {
    let server = TestServer::new(FakeBackend::default());
    for (body, words) in [("{\"tset\": true}", "tset"), ("[", "EOF"), ("{\"sls\": \"web\"}", "sls")] {
        let mut stream = server.unix();
        let head = "POST /v1/trigger HTTP/1.1\r\nhost: x\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains(words), "{answer}");
    }
    assert!(server.fake.requests.lock().unwrap().is_empty());
}

#[test]
fn a_client_that_stops_sending_is_disconnected() {
    let server = TestServer::new(FakeBackend::default());
    for start in ["G", "POST /v1/trigger HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"] {
        let began = Instant::now();
        let mut stream = server.unix();
        stream.write_all(start.as_bytes()).unwrap();
        let answer = rest(&mut stream);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        assert!(began.elapsed() < Duration::from_secs(10), "{start}");
    }
}

#[test]
fn waiting_clients_are_served_when_others_are_disconnected() {
    let server = TestServer::with(FakeBackend::default(), ApiLimits { connections: 4, ..quick() });
    let idle: Vec<UnixStream> = (0..40).map(|_| server.unix()).collect();
    // Each idle client keeps its slot for the header timeout, four at a time.
    server.client().status().unwrap();
    drop(idle);
}

#[test]
fn half_open_connections_do_not_block_a_health_check() {
    let slow = ApiLimits {
        connections: 8,
        header_timeout: Duration::from_secs(600),
        connection_timeout: Duration::from_secs(600),
        ..ApiLimits::default()
    };
    let server = TestServer::with(FakeBackend::default(), slow);
    let address = server.serving.as_ref().unwrap().listen().unwrap();
    let began = Instant::now();
    let mut held = Vec::new();
    for start in ["", "GET /hea", "GET /metrics HTTP/1.1\r\nhost: x\r\n"] {
        for _ in 0..40 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(start.as_bytes()).unwrap();
            held.push(stream);
        }
        assert!(server.get("/healthz").starts_with("HTTP/1.1 "), "{start}");
    }
    // Whole requests whose answers nobody reads.
    for _ in 0..40 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        held.push(stream);
    }
    assert!(server.get("/healthz").starts_with("HTTP/1.1 "));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// Sockets of the daemon, as counted by the system; those of other tests are not included.
fn sockets(server: &TestServer) -> usize {
    let unix = std::fs::read_to_string("/proc/net/unix").unwrap();
    let path = server.socket().display().to_string();
    let tcp = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", server.serving.as_ref().unwrap().listen().unwrap().port());
    let is_open = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The local address, and the inode, which is 0 once the process has closed it.
        words.get(1).is_some_and(|local| local.ends_with(&port))
            && words.get(9).is_some_and(|inode| *inode != "0")
    };
    unix.lines().filter(|line| line.ends_with(&path)).count() + tcp.lines().filter(is_open).count()
}

#[test]
fn two_hundred_requests_leave_no_socket_behind() {
    let server = TestServer::new(FakeBackend::default());
    assert_eq!(sockets(&server), 2);
    for n in 0..200 {
        server.client().status().unwrap();
        assert!(server.get("/metrics").starts_with("HTTP/1.1 200"), "{n}");
        // Half a request, then disconnected.
        server.unix().write_all(b"GET /v1").unwrap();
    }
    // A connection is closed a moment after its client.
    let until = Instant::now() + Duration::from_secs(20);
    while sockets(&server) > 2 {
        assert!(Instant::now() < until, "{} sockets are left", sockets(&server));
        std::thread::yield_now();
    }
}

/// A daemon that always responds with these bytes.
fn daemon(path: &Path, answer: Vec<u8>) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = std::io::Read::read(&mut stream, &mut request);
        // A client that has seen enough hangs up.
        let _ = stream.write_all(&answer);
    })
}

#[test]
fn a_client_tolerates_any_server_on_the_socket() {
    let endless = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &vec![b'x'; 5 << 20]].concat();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("empty", Vec::new(), "incomplete header"),
        ("other", b"SSH-2.0-x\r\n\r\n".to_vec(), "not an HTTP response"),
        ("code", b"HTTP/1.1 x\r\n\r\n{}".to_vec(), "no status code"),
        ("cut", b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{}".to_vec(), "truncated"),
        ("json", b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec(), "sent an invalid response"),
        ("endless", endless, "cannot communicate with the daemon"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, answer, words) in cases {
        let path = dir.path().join(name);
        let daemon = daemon(&path, answer);
        let error = ApiClient::new(&path).status().unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}");
        daemon.join().unwrap();
    }
}

#[test]
fn a_client_does_not_wait_for_a_silent_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = ApiClient::new(&path).with_timeout(Duration::from_millis(50)).status().unwrap_err();
    assert!(
        matches!(&error, ClientError::Io { source, .. } if source.kind() == std::io::ErrorKind::TimedOut)
    );
    assert!(matches!(ApiClient::new(dir.path().join("none")).status(), Err(ClientError::NoDaemon(_))));
}
