//! What is pushed, requested or due runs once and is reported.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use zagent_daemon::api::{RequestProgress, RunRequest};
use zagent_daemon::{FALLBACK_WARNING, HoldReason, NO_STATES, NO_STATES_AT_BOOT};

use crate::node::{Node, PATIENCE, STUCK, Upstream, eventually, marker};

#[test]
fn a_push_converges_and_so_does_the_next() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    let status = node.converges(&first);
    assert_eq!(node.host("marker"), "one\n");
    let run = status.last_run.unwrap();
    assert_eq!((run.trigger.as_str(), run.success, run.counts["changed"]), ("git", true, 1));
    let second = upstream.push_marker(&node, "two");
    let status = node.converges(&second);
    assert_eq!(node.host("marker"), "two\n");
    assert_eq!((status.drift, status.why_not, status.failures), (0, None, 0));
}

#[test]
fn a_new_revision_is_polled_once_and_compiled_once() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let counted = "{% set _ = salt['cmd.run']('sh -c \"echo x >> $D/compiled\"') %}\n";
    let push = |upstream: &mut Upstream, node: &Node, text: &str| {
        upstream.push(node, &format!("{counted}{}", marker(text)))
    };
    let first = push(&mut upstream, &node, "one");
    node.start_with(&["-vv"]);
    node.converges(&first);
    assert_eq!(node.host("compiled").lines().count(), 1, "{}", node.said());
    let second = push(&mut upstream, &node, "two");
    node.converges(&second);
    assert_eq!(node.host("marker"), "two\n");
    assert_eq!(node.host("compiled").lines().count(), 2, "{}", node.said());
    // The daemon lists the branches, and nobody else does.
    eventually("every listing is a poll of the daemon", || {
        let listed = upstream.server.listings();
        (node.said().matches("remotes polled").count() == listed).then_some(())
    });
}

#[test]
fn a_waiting_client_gets_the_code_and_the_run() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    // A manual change on the host, then a requested run: that is drift.
    fs::write(node.path("host/marker"), "another\n").unwrap();
    let end = node.run(&RunRequest { fetch: false, ..RunRequest::default() });
    let run = end.run.unwrap();
    assert_eq!((end.exit, run.trigger.as_str(), run.counts["changed"]), (0, "manual", 1));
    assert_eq!(node.host("marker"), "one\n");
    assert_eq!(node.status().drift, 1);

    let second = upstream.push(&node, &format!("{}bad: {{test.fail_without_changes: []}}\n", marker("two")));
    let output = node.zagent(&["trigger", "--wait"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("FAILED"), "{output:?}");
    let status = node.status();
    assert_eq!(status.last_run.unwrap().revision, second);
    assert_eq!(node.host("marker"), "two\n");
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    let before = node.converges(&first);
    fs::write(node.path("host/marker"), "another\n").unwrap();
    let end = node.run(&RunRequest { test: true, ..RunRequest::default() });
    assert_eq!(end.exit, 0, "{end:?}");
    assert_eq!(node.host("marker"), "another\n");
    let after = node.status();
    assert_eq!((after.last_run, after.current), (before.last_run, before.current));
}

#[test]
fn equal_requests_share_a_run() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    node.pipe("never");
    let revision = upstream.push(&node, STUCK);
    node.start();
    eventually("the first run waits", || (!node.host("pid").is_empty()).then_some(()));
    let client = node.client();
    let wish = RunRequest::default();
    let tickets = [client.trigger(&wish).unwrap(), client.trigger(&wish).unwrap()];
    for ticket in tickets {
        assert_eq!(client.progress(ticket).unwrap(), RequestProgress::Waiting);
    }
    fs::write(node.path("host/go"), "").unwrap();
    fs::write(node.path("host/never"), "go\n").unwrap();
    let ends = tickets.map(|ticket| client.wait(ticket).unwrap().unwrap());
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0].exit, 0);
    node.converges(&revision);
    assert_eq!(node.host("ran").lines().count(), 2, "the first run and the one that was shared");
}

#[test]
fn a_poll_during_a_run_starts_no_second_run() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    node.pipe("never");
    let revision = upstream.push(&node, STUCK);
    node.start();
    eventually("the run is stuck", || (!node.host("pid").is_empty()).then_some(()));
    upstream.polls(2);
    fs::write(node.path("host/never"), "go\n").unwrap();
    // A second run would wait at the pipe.
    node.converges(&revision);
    upstream.polls(2);
    assert_eq!(node.host("ran").lines().count(), 1);
}

#[test]
fn manual_changes_are_noticed() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    let report = node.fine(&["run", "--once", "--no-fetch", "--out", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let by_hand = |status: &zagent_daemon::status::AgentStatus| {
        status.last_run.as_ref().is_some_and(|run| report["run"] == run.run.as_str())
    };
    node.until("the run by hand", by_hand);
    upstream.polls(2);
    let kept = fs::read_to_string(zagent_config::paths::Paths::new(node.path("root")).memory()).unwrap();
    assert!(kept.contains(report["run"].as_str().unwrap()), "it was forgotten again: {kept}");
}

#[test]
fn the_last_good_revision_stays_when_a_bad_one_is_pushed() {
    let mut upstream = Upstream::new();
    let address = free_port();
    let mut node = Node::new(&format!("{}listen: {address}\n", upstream.config()));
    let good = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&good);
    assert_eq!(ask(address, "/readyz").0, 200);
    let bad =
        upstream.push(&node, "marker: {file.managed: [{name: $D/marker, require: [{file: gone}]}]}\nx: [\n");
    let status = node.until("the bad one is held", |status| status.why_not.is_some());
    let held = status.why_not.unwrap();
    assert_eq!((held.revision.as_str(), held.why), (bad.as_str(), HoldReason::Broken), "{}", held.message);
    assert!(held.message.contains("all.sls"), "{}", held.message);
    assert_eq!(status.current.unwrap().revision, good);
    assert_eq!(ask(address, "/readyz").0, 200);
    assert_eq!(node.host("marker"), "one\n");
    let mended = upstream.push_marker(&node, "three");
    assert_eq!(node.converges(&mended).why_not, None);
}

#[test]
fn tcp_serves_only_metrics_and_health() {
    let mut upstream = Upstream::new();
    let address = free_port();
    let mut node = Node::new(&format!("{}listen: {address}\n", upstream.config()));
    let revision = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&revision);
    assert_eq!(ask(address, "/healthz").0, 200);
    assert_eq!(ask(address, "/readyz").0, 200);
    let (code, metrics) = ask(address, "/metrics");
    assert_eq!(code, 200);
    for line in [
        "zagent_paused 0",
        "zagent_behind_seconds 0",
        &format!("revision=\"{revision}\""),
        "zagent_runs_total{result=\"success\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert_eq!(ask(address, "/v1/status").0, 404);
}

#[test]
fn a_daemon_without_states_reports_it_and_recovers() {
    let mut upstream = Upstream::new();
    let address = free_port();
    let mut node = Node::new(&format!("{}listen: {address}\n", upstream.config()));
    node.start();
    node.says(NO_STATES_AT_BOOT);
    eventually("why it is not ready", || ask(address, "/readyz").1.contains(NO_STATES).then_some(()));
    let output = node.zagent(&["trigger", "--wait"]);
    assert!(!output.status.success(), "{output:?}");
    node.says(NO_STATES);
    assert_eq!(ask(address, "/healthz").0, 200);
    // A failing state was run, so it compiles: the node is ready, though it is not healthy.
    let revision =
        upstream.push(&node, &format!("{}bad: {{test.fail_without_changes: []}}\n", marker("one")));
    let status = node.until("the first revision", |status| status.last_run.is_some());
    assert_eq!(status.last_run.unwrap().revision, revision);
    eventually("it is ready", || (ask(address, "/readyz").0 == 200).then_some(()));
    assert_eq!(node.host("marker"), "one\n");
}

#[test]
fn baked_states_that_appear_late_are_run() {
    let mut node = Node::new("run: {every: 1h}\n");
    node.start();
    node.says(NO_STATES_AT_BOOT);
    bake(&node, "late");
    // Notified as an operator would do; by itself the daemon checks twice a minute.
    node.client().notify_changed().unwrap();
    eventually("they are run", || (node.host("marker") == "late\n").then_some(()));
    assert!(!node.said().contains("error:"), "{}", node.said());
}

#[test]
fn a_directory_is_followed_by_its_changes() {
    let mut node = Node::new("source: {poll: 1h, remotes: [{url: $D/tree}]}\n");
    let states = node.path("tree/states");
    fs::create_dir_all(&states).unwrap();
    fs::write(states.join("top.sls"), "base: {'*': [all]}\n").unwrap();
    fs::write(states.join("all.sls"), "{}").unwrap();
    node.start();
    for text in ["one", "two"] {
        let sls = marker(text).replace("$D", node.path("host").to_str().unwrap());
        fs::write(states.join("all.sls"), sls).unwrap();
        let wanted = format!("{text}\n");
        eventually("what was written is on the host", || (node.host("marker") == wanted).then_some(()));
    }
    assert_eq!(node.until("it ended", |s| s.last_run.is_some()).last_run.unwrap().trigger, "git");
}

#[test]
fn schedule_entries_run() {
    let mut upstream = Upstream::new();
    let entry = "schedule: {often: {every: 10s, sls: [extra]}}\n";
    let mut node = Node::new(&format!("{}{entry}", upstream.config()));
    let host = node.path("host").display().to_string();
    let blob = zagent_cache::testing::EntryKind::Blob;
    let revision = upstream.repo.commit(&[
        ("states/top.sls", blob, "base: {'*': [all]}\n"),
        ("states/all.sls", blob, &marker("one").replace("$D", &host)),
        ("states/extra.sls", blob, &format!("extra: {{cmd.run: [{{name: 'echo x >> {host}/extra'}}]}}\n")),
    ]);
    node.start();
    node.converges(&revision);
    let next = node.status().next.entry.unwrap();
    assert_eq!(next.name, "often");
    eventually("the entry ran", || (!node.host("extra").is_empty()).then_some(()));
    let kept = zagent_config::paths::Paths::new(node.path("root")).schedule();
    assert!(fs::read_to_string(kept).unwrap().contains("often"));
}

#[test]
fn a_hanging_remote_delays_nothing_else() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config_as("hang"));
    bake(&node, "baked");
    upstream.push_marker(&node, "one");
    node.start();
    eventually("the remote hangs", || (!upstream.server.log().is_empty()).then_some(()));
    let quick = node.client().with_timeout(Duration::from_secs(5));
    quick.status().unwrap();
    let end = node.run(&RunRequest { fetch: false, ..RunRequest::default() });
    assert_eq!(end.exit, 0, "{end:?}");
    assert_eq!(node.host("marker"), "baked\n");
    node.says(FALLBACK_WARNING);
}

/// Baked states.
fn bake(node: &Node, text: &str) {
    let sls = marker(text).replace("$D", node.path("host").to_str().unwrap());
    let made = node.path("unbaked");
    fs::create_dir_all(made.join("states")).unwrap();
    fs::write(made.join("states/top.sls"), "base: {'*': [all]}\n").unwrap();
    fs::write(made.join("states/all.sls"), sls).unwrap();
    fs::rename(made, node.path("baked")).unwrap();
}

/// An address without a listener.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Status code and body of a response.
fn ask(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}
