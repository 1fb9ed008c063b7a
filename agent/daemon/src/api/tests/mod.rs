//! A real socket, a real thread, and clients of every kind.

pub mod hostile;
pub mod lines;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fake::FakeBackend;
use super::server::ApiError;
use super::{
    ApiClient, ApiConfig, ApiLimits, ApiServer, ClientError, RunRefusedReason, RunRequest, Ticket, serve,
};
use crate::status::{AgentStatus, samples};
use zagent_config::settings::ListenPages;

struct TestServer {
    dir: tempfile::TempDir,
    fake: Arc<FakeBackend>,
    serving: Option<ApiServer>,
}

fn quick() -> ApiLimits {
    let short = Duration::from_millis(300);
    ApiLimits {
        header_timeout: short,
        connection_timeout: Duration::from_secs(2),
        answer_timeout: short,
        progress_wait: short,
        ..ApiLimits::default()
    }
}

impl TestServer {
    fn new(fake: FakeBackend) -> Self {
        Self::with(fake, quick())
    }

    fn with(fake: FakeBackend, limits: ApiLimits) -> Self {
        Self::with_pages(fake, limits, ListenPages::Summary)
    }

    fn with_pages(fake: FakeBackend, limits: ApiLimits, pages: ListenPages) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (fake, group, readers) = (Arc::new(fake), None, None);
        let listen = Some("127.0.0.1:0".parse().unwrap());
        let config =
            ApiConfig { socket: dir.path().join("run/agent.sock"), group, readers, listen, pages, limits };
        let serving = Some(serve(config, Arc::<FakeBackend>::clone(&fake)).unwrap());
        Self { dir, fake, serving }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/agent.sock")
    }

    fn client(&self) -> ApiClient {
        ApiClient::new(self.socket())
    }

    fn unix(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn tcp(&self, request: &str) -> String {
        let address = self.serving.as_ref().unwrap().listen().unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        rest(&mut stream)
    }

    fn get(&self, path: &str) -> String {
        self.tcp(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"))
    }
}

/// Everything until the other side closes; a reset ends it as well.
fn rest(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn the_socket_answers_everything() {
    let server = TestServer::new(FakeBackend { waits: 5, ..FakeBackend::default() });
    let client = server.client();
    assert_eq!(client.status().unwrap(), AgentStatus::from_inputs(samples::fine()));
    assert_eq!(client.last_run().unwrap().unwrap().run, "20261116T115600-3f9a7");
    client.notify_changed().unwrap();
    assert_eq!(server.fake.told.load(Ordering::SeqCst), 1);
    let request = RunRequest { sls: vec!["web.conf".into()], test: true, fetch: false, wait: true };
    let ticket = client.trigger(&request).unwrap();
    assert_eq!(*server.fake.requests.lock().unwrap(), [request]);
    assert_eq!(client.wait(ticket).unwrap().unwrap().exit, 0);
    assert!(server.fake.asked.load(Ordering::SeqCst) > 5);
    assert_eq!(client.wait(Ticket(8)).unwrap(), None);
}

#[test]
fn a_refusal_keeps_its_message() {
    let server = TestServer::new(FakeBackend { paused: true, ..FakeBackend::default() });
    let refused = server.client().trigger(&RunRequest::default()).unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(r) if r.why == RunRefusedReason::Paused), "{refused:?}");
    assert_eq!(refused.to_string(), "paused until 15:30 (disk swap): zagent resume");
}

#[test]
fn tcp_serves_health_metrics_and_a_page_but_no_api() {
    let server = TestServer::new(FakeBackend::default());
    assert!(
        server.get("/healthz").starts_with("HTTP/1.1 200 OK\r\n") && server.get("/healthz").ends_with("ok\n")
    );
    assert!(server.get("/readyz").ends_with("ready\n"));
    let metrics = server.get("/metrics");
    assert!(
        metrics.contains("content-type: text/plain; version=0.0.4") && metrics.contains("zagent_paused 0\n")
    );
    for path in ["/v1/status", "/v1/runs/last", "/v1/trigger/7", "/metrics/", "/healthz/../v1/status"] {
        assert!(server.get(path).starts_with("HTTP/1.1 404"), "{path}");
    }
    for path in ["/v1/trigger", "/v1/changed"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
        assert!(
            server.tcp(&format!("{head}content-length: 2\r\n\r\n{{}}")).starts_with("HTTP/1.1 404"),
            "{path}"
        );
    }
    assert!(server.fake.requests.lock().unwrap().is_empty());
}

#[test]
fn a_stuck_or_unready_daemon_says_so() {
    let server = TestServer::new(FakeBackend { paused: true, stuck: true.into(), ..FakeBackend::default() });
    assert!(server.get("/healthz").starts_with("HTTP/1.1 503"));
    let ready = server.get("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("does not compile\n"), "{ready}");
}

#[test]
fn a_blocked_daemon_gets_503_and_recovers() {
    let server = TestServer::new(FakeBackend::default());
    let held = server.fake.lock.lock().unwrap();
    for _ in 0..4 {
        let failed = server.client().status().unwrap_err();
        assert!(matches!(failed, ClientError::Failed { code: 503, .. }), "{failed:?}");
    }
    drop(held);
    // The two blocked threads first answer clients that are gone.
    let answered = (0..100).any(|_| server.client().status().is_ok());
    assert!(answered);
}

#[test]
fn shutdown_does_not_wait_for_a_client_or_a_lock() {
    let mut server = TestServer::with(FakeBackend::default(), ApiLimits::default());
    let mut idle = server.unix();
    let mut asking = server.unix();
    let fake = Arc::clone(&server.fake);
    let held = fake.lock.lock().unwrap();
    asking.write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    server.serving = None;
    drop(held);
    assert_eq!((rest(&mut idle), rest(&mut asking)), (String::new(), String::new()));
    assert!(!server.socket().exists());
    assert!(matches!(server.client().status(), Err(ClientError::NoDaemon(_))));
}

#[test]
fn only_its_owner_can_open_it() {
    let server = TestServer::new(FakeBackend::default());
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(server.socket()), mode(server.dir.path().join("run"))), (0o600, 0o700));
}

#[test]
fn a_group_can_reach_the_socket_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let own = nix::unistd::Group::from_gid(nix::unistd::getegid()).unwrap().unwrap().name;
    let socket = dir.path().join("root/run/agent.sock");
    let config = |group: &str| ApiConfig {
        socket: socket.clone(),
        group: Some(group.into()),
        readers: None,
        listen: None,
        pages: ListenPages::Summary,
        limits: quick(),
    };
    std::fs::create_dir(dir.path().join("root")).unwrap();
    std::fs::set_permissions(dir.path().join("root"), PermissionsExt::from_mode(0o700)).unwrap();
    let _serving = serve(config(&own), Arc::new(FakeBackend::default())).unwrap();
    let mode = |path: &str| std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(["root", "root/run", "root/run/agent.sock"].map(mode), [0o710, 0o710, 0o660]);
    ApiClient::new(&socket).status().unwrap();
    let unknown = serve(config("no-such-group"), Arc::new(FakeBackend::default())).unwrap_err();
    assert!(unknown.to_string().starts_with("group `no-such-group` does not exist"), "{unknown}");
}

/// What a process of user and group 65534 gets for a request.
fn ask_as_nobody(socket: &std::path::Path, request: &str) -> String {
    use std::os::unix::process::CommandExt;
    let script = r#"use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ARGV[0]) or die "cannot connect: $!";
        print $s $ARGV[1]; $s->flush; local $/; print <$s>"#;
    let mut perl = std::process::Command::new("perl");
    perl.args(["-e", script]).arg(socket).arg(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n"));
    let output = perl.uid(65534).gid(65534).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn readers_only_read() {
    let found = nix::unistd::Group::from_gid(65534.into()).unwrap();
    let Some(nogroup) = found.filter(|_| nix::unistd::geteuid().is_root()) else { return };
    for (group, is_refused) in [(None, true), (Some("root"), true), (Some(&*nogroup.name), false)] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let socket = dir.path().join("root/run/agent.sock");
        let readers = Some(nogroup.name.clone());
        let group = group.map(str::to_owned);
        let config = ApiConfig {
            socket: socket.clone(),
            group,
            readers,
            listen: None,
            pages: ListenPages::Summary,
            limits: quick(),
        };
        let fake = Arc::new(FakeBackend::default());
        let _serving = serve(config, Arc::<FakeBackend>::clone(&fake)).unwrap();
        for path in ["/v1/status", "/v1/runs/last", "/metrics"] {
            let answer = ask_as_nobody(&socket, &format!("GET {path}"));
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path}: {answer}");
        }
        let post = |path: &str| ask_as_nobody(&socket, &format!("POST {path}"));
        let changed = post("/v1/changed");
        assert_eq!(changed.starts_with("HTTP/1.1 403"), is_refused, "{changed}");
        assert_eq!(changed.contains("may only read"), is_refused, "{changed}");
        assert_eq!(fake.told.load(Ordering::SeqCst) == 0, is_refused);
        let answer = post("/v1/trigger");
        assert_eq!(answer.starts_with("HTTP/1.1 403"), is_refused, "{answer}");
        assert!(fake.requests.lock().unwrap().is_empty());
        // Root and the daemon's own user are not restricted.
        ApiClient::new(&socket).trigger(&RunRequest::default()).unwrap();
    }
    let refused = super::socket::SocketWriters::from_groups(None, Some("no-such-group")).unwrap_err();
    assert!(refused.to_string().contains("correct `socket_readers`"), "{refused}");
}

#[test]
fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let start = || {
        let config = ApiConfig {
            socket: socket.clone(),
            group: None,
            readers: None,
            listen: None,
            pages: ListenPages::Summary,
            limits: quick(),
        };
        serve(config, Arc::new(FakeBackend::default()))
    };
    drop(UnixListener::bind(&socket).unwrap());
    let first = start().unwrap();
    let second = start().unwrap_err();
    assert!(matches!(&second, ApiError::Taken(path) if *path == socket), "{second:?}");
    ApiClient::new(&socket).status().unwrap();
    drop(first);
    std::fs::write(&socket, "a file").unwrap();
    assert!(matches!(start(), Err(ApiError::NoSocket(_))));
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "a file");
}

#[test]
fn the_socket_of_a_successor_is_left_alone() {
    let mut server = TestServer::new(FakeBackend::default());
    std::fs::remove_file(server.socket()).unwrap();
    let _successor = UnixListener::bind(server.socket()).unwrap();
    server.serving = None;
    assert!(server.socket().exists());
}

#[test]
fn an_address_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let socket = dir.path().join("agent.sock");
    let config = ApiConfig {
        socket: socket.clone(),
        group: None,
        readers: None,
        listen: Some(address),
        pages: ListenPages::Summary,
        limits: quick(),
    };
    let error = serve(config, Arc::new(FakeBackend::default())).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(!socket.exists());
}

#[test]
fn the_socket_serves_the_whole_page_and_tcp_what_is_allowed() {
    let ask =
        |server: &TestServer, host: &str| server.tcp(&format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    let server = TestServer::new(FakeBackend::default());
    let mut unix = server.unix();
    unix.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let page = rest(&mut unix);
    assert!(page.contains("Recent runs") && page.contains("git.example.org"), "{page}");
    let summary = ask(&server, "evil.example");
    assert!(summary.starts_with("HTTP/1.1 200") && summary.contains("counts and names only"), "{summary}");
    assert!(!summary.contains("Recent runs") && !summary.contains("git.example.org"), "{summary}");
    for header in
        ["content-security-policy: default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-store"]
    {
        assert!(summary.contains(header), "{header}: {summary}");
    }
    let off = TestServer::with_pages(FakeBackend::default(), quick(), ListenPages::Off);
    assert!(ask(&off, "localhost").starts_with("HTTP/1.1 404"));
    let full = TestServer::with_pages(FakeBackend::default(), quick(), ListenPages::Full);
    for (host, code) in
        [("127.0.0.1:9470", 200), ("[::1]:9470", 200), ("localhost", 200), ("evil.example", 421)]
    {
        let answer = ask(&full, host);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{host}: {answer}");
        assert_eq!(answer.contains("Recent runs"), code == 200, "{host}");
    }
    assert!(
        full.tcp("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
            .starts_with("HTTP/1.1 405")
    );
}

struct FakeSite;

impl super::site::SiteFiles for FakeSite {
    fn file(&self, path: &str) -> Option<super::site::ServedFile> {
        (path == "nodes.html").then(|| ("text/html; charset=utf-8", "the nodes".to_owned()))
    }
}

#[test]
fn a_site_is_served_and_tells_of_changes() {
    let any = "127.0.0.1:0".parse().unwrap();
    let site = super::site::serve_site(any, &["fleet.example".into()], 1, Arc::new(FakeSite)).unwrap();
    let open = |request: &str, host: &str| {
        let mut stream = std::net::TcpStream::connect(site.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).unwrap();
        stream
    };
    let ask = |request: &str, host: &str| rest(&mut open(request, host));
    let page = ask("GET /nodes.html", "localhost");
    assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("the nodes"), "{page}");
    assert!(page.contains("script-src 'self'") && page.contains("nosniff"), "{page}");
    assert!(ask("GET /nodes.html", "fleet.example:80").starts_with("HTTP/1.1 200"));
    assert!(ask("GET /nodes.html", "evil.example").starts_with("HTTP/1.1 421"));
    assert!(ask("GET /events", "evil.example").starts_with("HTTP/1.1 421"));
    assert!(ask("GET /none.html", "localhost").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /nodes.html", "localhost").starts_with("HTTP/1.1 405"));
    let mut events = open("GET /events", "localhost");
    let mut heard = String::new();
    let mut hear = |words: &str| {
        let mut bytes = [0; 512];
        while !heard.contains(words) {
            let n = events.read(&mut bytes).unwrap();
            assert_ne!(n, 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    };
    hear("data: 1\n\n");
    site.announce(2);
    hear("data: 2\n\n");
}

/// Every metric that an alert rule or a dashboard asks for is one that the agent serves.
#[test]
fn dashboards_and_rules_name_metrics_that_exist() {
    let mut inputs = samples::fine();
    inputs.current.as_mut().unwrap().expires = Some(samples::at("18:00:00"));
    let metrics =
        super::Metrics { status: AgentStatus::from_inputs(inputs), runs: [("success".into(), 1)].into() };
    let text = metrics.render(super::ProcessMetrics { resident: Some(1), fds: Some(1) });
    let served: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    for file in ["prometheus/zagent.rules.yaml", "grafana/zagent.json"] {
        let text = std::fs::read_to_string(dist.join(file)).unwrap();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c| !is_name(c));
        let named: Vec<&str> =
            words.filter(|word| word.starts_with("zagent_") || word.starts_with("process_")).collect();
        assert!(named.len() > 10, "{file}");
        for name in named {
            assert!(served.contains(&name), "{file}: no metric `{name}`");
        }
    }
    let rules: serde_yaml::Value =
        serde_yaml::from_str(&std::fs::read_to_string(dist.join("prometheus/zagent.rules.yaml")).unwrap())
            .unwrap();
    for rule in rules["groups"][0]["rules"].as_sequence().unwrap() {
        assert!(
            rule["alert"].is_string()
                && rule["expr"].is_string()
                && rule["annotations"]["summary"].is_string()
        );
    }
    let board = std::fs::read_to_string(dist.join("grafana/zagent.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    assert!(board["panels"].as_array().is_some_and(|panels| panels.len() > 10));
}
