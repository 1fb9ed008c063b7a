//! Notifications: the audit file has changes only, webhooks get the events they subscribe to, with a signature.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use zagent_tests::node::Node;

/// Receives calls until the listener's thread ends with the test: head and body of each.
pub(super) fn listen() -> (String, Receiver<(String, serde_json::Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = Vec::new();
            let body = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).unwrap();
                bytes.extend(&part[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let whole = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
                if let Some(body) = whole {
                    break (text, body);
                }
                assert!(read > 0, "cut off: {text}");
            };
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
            if tell.send(body).is_err() {
                return;
            }
        }
    });
    (url, heard)
}

#[test]
fn webhooks_get_changes_failures_and_rollbacks() {
    let (node, repo) = Node::with_repo();
    let (url, heard) = listen();
    node.write("secret", "a long secret\n");
    let more = format!(
        "webhooks: [{{url: '{url}', on: [failure, change, rollback], secret_file: $T/secret}}]\n\
         health: [{{name: motd, command: '! grep -q bad $D/motd', tries: 1}}]\n"
    );
    node.configure(&format!("source: {{remotes: [{{url: '{}'}}]}}\n", repo.url()), &more);
    let next = || heard.recv_timeout(Duration::from_secs(20)).expect("a call");
    node.turn().changed(1);
    let (head, event) = next();
    assert_eq!((&event["event"], &event["revision"]), (&"change".into(), &repo.head().into()), "{event:#}");
    assert!(head.to_ascii_lowercase().contains("x-zagent-signature: sha256="), "{head}");
    assert!(!head.contains("a long secret"), "{head}");
    node.turn().changed(0);
    assert!(heard.try_recv().is_err(), "nothing happened");

    repo.publish("bad");
    node.turn().expect(1, &[]);
    let events: Vec<String> =
        (0..2).map(|_| next().1["event"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(events, ["change", "rollback"]);

    repo.write("states/motd.sls", "motd: {cmd.run: [{name: 'exit 3'}]}\n");
    repo.commit();
    repo.push();
    node.turn().expect(1, &[]);
    assert_eq!(next().1["event"], "failure");
}

#[test]
fn the_audit_file_contains_changes_only() {
    let (node, repo) = Node::with_repo();
    let audit = node.root().join("log/audit.jsonl");
    let lines = || fs::read_to_string(&audit).unwrap_or_default().lines().count();
    node.turn_with(&["--test"]).expect(0, &[]);
    assert_eq!(lines(), 0);
    node.turn().changed(1);
    assert_eq!(lines(), 1);
    node.turn().changed(0);
    assert_eq!(lines(), 1);
    repo.publish("two");
    node.turn().changed(1);
    let text = fs::read_to_string(&audit).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["revision"], &last["id"]), (&repo.head().into(), &"motd".into()), "{text}");
    assert_eq!(lines(), 2);
}

/// A state that changed something may request a reboot; by default that is only reported.
#[test]
fn a_state_requests_a_reboot() {
    let (node, repo) = Node::with_repo();
    node.turn().changed(1);
    assert!(node.status()["reboot"].is_null());
    let sls =
        "new-kernel: {file.managed: [{name: $D/kernel}, {contents: v2}, {fire_event: zagent/reboot}]}\n";
    repo.write("states/motd.sls", sls);
    repo.commit();
    repo.push();
    node.turn().changed(1);
    let reason = node.status()["reboot"]["reason"].to_string();
    assert!(reason.contains("the state `new-kernel` requested it"), "{reason}");
    node.turn().changed(0);
    assert!(!node.status()["reboot"].is_null(), "it is needed until it was done");
}
