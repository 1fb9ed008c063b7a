//! The load of a fleet on its board: bytes and connections per operation, measured in front of a real server.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zagent_cache::testing::{GitHttpServer, test_source};
use zagent_rollout::board::{Board, BoardWrite, GitBoard, GitBoardConfig, VersionToken};

use super::conforms::write;

/// Counts the traffic to a server.
pub(crate) struct Meter {
    pub(crate) at: SocketAddr,
    count: Arc<[AtomicU64; 3]>,
}

impl Meter {
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let count: Arc<[AtomicU64; 3]> = Arc::default();
        let counted = count.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                counted[2].fetch_add(1, Ordering::Relaxed);
                let server = TcpStream::connect(server).unwrap();
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (up, down) = (counted.clone(), counted.clone());
                std::thread::spawn(move || pass(client, server, &up[0]));
                std::thread::spawn(move || pass(forth, back, &down[1]));
            }
        });
        Self { at, count }
    }

    fn read(&self) -> [u64; 3] {
        [0, 1, 2].map(|i| self.count[i].load(Ordering::Relaxed))
    }

    /// Prints the cost of an operation.
    #[expect(clippy::print_stdout, reason = "the measurement is printed for the person who runs it")]
    fn tell(&self, what: &str, act: impl FnOnce()) {
        let (before, begun) = (self.read(), Instant::now());
        act();
        let (time, after) = (begun.elapsed(), self.read());
        let [up, down, connections] = [0, 1, 2].map(|i| after[i] - before[i]);
        println!("| {what} | {up} | {down} | {connections} | {:.1} ms |", time.as_secs_f64() * 1e3);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(n) = from.read(&mut chunk) {
        if n == 0 || to.write_all(&chunk[..n]).is_err() {
            break;
        }
        count.fetch_add(n as u64, Ordering::Relaxed);
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A report of the usual size: facts that compress, a signature that does not.
fn report(node: usize, turn: usize) -> Vec<u8> {
    let noise: String =
        (0..6).map(|i| blake3::hash(format!("{node} {turn} {i}").as_bytes()).to_string()).collect();
    let facts = "\"os\":\"linux\",\"os_family\":\"Debian\",\"osrelease\":\"12\",\"kernel\":\"Linux\",\"cpuarch\":\"x86_64\",\
                 \"roles\":[\"web\",\"front\"],\"virtual\":\"kvm\",\"num_cpus\":8,\"mem_total\":16384";
    format!(
        "{{\"id\":\"node-{node:05}\",\"component\":\"agent\",\"version\":\"1.2.3\",\"state\":\"idle\",\"os\":\"linux\",\
         \"arch\":\"x86_64\",\"facts\":{{{facts}}},\"updated_at\":\"2026-11-16T19:00:{turn:02}Z\",\"protocol\":1,\
         \"signature\":\"{noise}\"}}"
    )
    .into_bytes()
}

/// A rollout record for this many nodes.
fn record(nodes: usize, turn: usize) -> Vec<u8> {
    let mut text = format!("schema: 1\nid: r1\ncomponent: agent\nserial: {turn}\nbatches:\n");
    for node in 0..nodes {
        text.push_str(&format!("- - node-{node:05}\n"));
    }
    text.push_str("nodes:\n");
    for node in 0..nodes {
        text.push_str(&format!("  node-{node:05}:\n    status: confirmed\n    at: 2026-11-16T19:00:00Z\n"));
    }
    text.into_bytes()
}

/// The requests of nodes and a driver to a board with this many nodes. `near` is a client for the set-up, `far` one
/// whose traffic is measured.
#[expect(clippy::print_stdout, reason = "the measurement is printed for the person who runs it")]
pub(crate) fn measure(
    kind: &str,
    nodes: usize,
    near: &mut dyn Board,
    far: &dyn Fn() -> Box<dyn Board>,
    meter: &Meter,
) {
    let key = |node: usize| format!("node/agent/node-{node:05}");
    let mut tokens: Vec<VersionToken> =
        (0..nodes).map(|node| near.put(&key(node), write(&report(node, 0), None)).unwrap()).collect();
    let mut order = near.put("rollout/r1", write(&record(nodes, 0), None)).unwrap();
    println!("\n| {kind}, {nodes} nodes | up | down | connections | time |\n|---|---|---|---|---|");
    let (mut node, mut driver) = (far(), far());
    meter.tell("node: first look for rollouts", || drop(node.list("rollout/").unwrap()));
    meter.tell("node: looks again, nothing new", || drop(node.list("rollout/").unwrap()));
    order = near.put("rollout/r1", write(&record(nodes, 1), Some(&order))).unwrap();
    meter.tell("node: looks again, the record changed", || drop(node.list("rollout/").unwrap()));
    let mut token = tokens[0].clone();
    for (turn, what) in [(1, "node: first report"), (2, "node: next report")] {
        meter.tell(what, || {
            let fleeting = BoardWrite { lasting: false, ..write(&[], None) };
            token = node
                .put(&key(0), BoardWrite { value: &report(0, turn), expected: Some(&token), ..fleeting })
                .unwrap();
        });
    }
    tokens[0] = token;
    meter.tell("driver: first look at all reports", || {
        assert_eq!(driver.list("node/agent/").unwrap().len(), nodes);
    });
    meter.tell("driver: looks again, nothing new", || drop(driver.list("node/agent/").unwrap()));
    for (node, token) in tokens.iter_mut().enumerate().take(10) {
        *token = near.put(&key(node), write(&report(node, 3), Some(token))).unwrap();
    }
    meter.tell("driver: looks again, 10 have reported", || drop(driver.list("node/agent/").unwrap()));
    let mut beat = |turn| {
        let value = record(nodes, turn);
        let next = BoardWrite { lasting: false, ..write(&value, Some(&order)) };
        order = driver.put("rollout/r1", next).unwrap();
    };
    meter.tell("driver: first heartbeat", || beat(2));
    meter.tell("driver: next heartbeat", || beat(3));
}

#[test]
#[ignore = "a measurement: what nodes and a driver ask of a Git server"]
fn what_a_fleet_costs_a_git_server() {
    for nodes in [1, 100, 1000] {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("board.git");
        let git = |arguments: &[&str]| {
            let done = std::process::Command::new("git").args(arguments).current_dir(&at).status();
            assert!(done.unwrap().success());
        };
        std::fs::create_dir(&at).unwrap();
        git(&["init", "-q", "--bare", "."]);
        git(&["config", "http.receivepack", "true"]);
        let server = GitHttpServer::start(dir.path());
        let meter = Meter::before(server.address());
        let open = |url: &str| {
            let source = test_source(url);
            let (author, scratch) = ("node-1".into(), dir.path().join("scratch"));
            let place = GitBoardConfig {
                remote: source.remotes[0].clone(),
                source,
                scratch,
                author,
                key: None,
                trust: None,
            };
            GitBoard::new(place).unwrap()
        };
        let mut near = open(&format!("file://{}", at.display()));
        let way =
            server.url("honest/board.git").replace(&server.address().to_string(), &meter.at.to_string());
        let far = || -> Box<dyn Board> { Box::new(open(&way)) };
        measure("Git over HTTP", nodes, &mut near, &far, &meter);
    }
}
