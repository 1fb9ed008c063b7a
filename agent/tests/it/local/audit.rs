//! Audit mode: the node checks, reports and alerts, and changes nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::Checkout;

/// A node that follows a directory.
struct Follower {
    checkout: Checkout,
    webhook: String,
    calls: Receiver<Value>,
}

impl Follower {
    fn new() -> Self {
        let (webhook, calls) = listen();
        let follower = Self { checkout: Checkout::new(), webhook, calls };
        follower.set_mode("apply");
        follower
    }

    fn set_mode(&self, mode: &str) {
        let at = |name: &str| self.checkout.path(name).display().to_string();
        let config = format!(
            "root: {}\nid: web-01\nsource: {{remotes: [{{url: {}}}]}}\nrun: {{mode: {mode}}}\n\
             webhooks: [{{url: '{}', on: [drift, change]}}]\n",
            at("root"),
            at("repo"),
            self.webhook
        );
        self.checkout.write("zagent.yaml", &config);
    }

    /// One turn, as the timer of the daemon starts it.
    fn turn(&self) -> Value {
        let args = ["run", "--once", "--trigger", "timer", "--out", "json"];
        self.checkout.zagent("host", &args).expect(0).json()
    }

    fn status(&self) -> Value {
        self.checkout.zagent("host", &["status", "--out", "json"]).expect(0).json()
    }

    fn call(&self) -> Value {
        self.calls.recv_timeout(Duration::from_secs(60)).expect("a webhook call")
    }
}

/// Receives webhook calls until the test ends.
fn listen() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut bytes) = (stream.unwrap(), Vec::new());
            let body = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).unwrap();
                bytes.extend(&part[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some(body) =
                    text.split_once("\r\n\r\n").and_then(|(_, b)| serde_json::from_str(b).ok())
                {
                    break body;
                }
                assert!(read > 0, "cut off: {text}");
            };
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
            if tell.send(body).is_err() {
                return;
            }
        }
    });
    (url, heard)
}

fn causes(report: &Value) -> Vec<(String, String)> {
    let states = report["states"].as_object().unwrap();
    let cause = |(tag, state): (&String, &Value)| {
        let id = tag.split("_|-").nth(1).unwrap_or_default().to_owned();
        Some((id, state["cause"].as_str()?.to_owned()))
    };
    states.iter().filter_map(cause).collect()
}

fn pairs(want: &[(&str, &str)]) -> Vec<(String, String)> {
    want.iter().map(|(id, cause)| ((*id).to_owned(), (*cause).to_owned())).collect()
}

#[test]
fn drift_and_change_are_told_apart_state_by_state() {
    let node = Follower::new();
    let first = node.turn();
    assert_eq!(
        (&first["mode"], &first["cause"], &first["changed"]),
        (&"apply".into(), &"change".into(), &4.into())
    );
    assert_eq!((&node.call()["event"], &node.status()["drift"]), (&"change".into(), &0.into()));
    assert!(node.turn()["cause"].is_null());

    node.set_mode("audit");
    fs::write(node.checkout.host("motd"), "by hand\n").unwrap();
    let drift = node.turn();
    assert_eq!(
        (&drift["mode"], &drift["cause"], &drift["test"]),
        (&"audit".into(), &"drift".into(), &true.into())
    );
    assert_eq!(causes(&drift), pairs(&[("motd", "drift")]), "{drift:#}");
    assert_eq!(node.checkout.read("host/motd"), "by hand\n", "nothing is changed");
    let call = node.call();
    assert_eq!(
        (&call["event"], &call["run"]["drifted"][0]["id"]),
        (&"drift".into(), &"motd".into()),
        "{call:#}"
    );
    let status = node.status();
    assert_eq!(
        (&status["audit"], &status["drift"], &status["pending"]),
        (&true.into(), &1.into(), &0.into())
    );

    // A new revision touches another state: the drift stays drift, the rest is an intended change, also next time.
    node.checkout.write("repo/states/web/conf", "a = 2\n");
    for _ in 0..2 {
        let mixed = node.turn();
        assert_eq!(mixed["cause"], "mixed");
        let conf = causes(&mixed).into_iter().filter(|(id, _)| id != "page").collect::<Vec<_>>();
        assert_eq!(conf, pairs(&[("motd", "drift"), ("conf", "change")]), "{mixed:#}");
        let call = node.call();
        assert_eq!(call["occasions"], serde_json::json!(["drift", "change"]), "{call:#}");
    }
    assert_eq!(node.checkout.read("host/conf"), "a = 1\n");
    assert_eq!((&node.status()["drift"], &node.status()["pending"]), (&1.into(), &1.into()));

    // Pillar data is an intended change too.
    let pillar = node.checkout.read("repo/pillar/common.sls").replace("world", "moon");
    node.checkout.write("repo/pillar/common.sls", &pillar);
    assert_eq!(causes(&node.turn()), pairs(&[("motd", "change"), ("conf", "change")]));

    node.set_mode("apply");
    let applied = node.turn();
    assert_eq!((&applied["mode"], &applied["changed"]), (&"apply".into(), &2.into()));
    fs::write(node.checkout.host("conf"), "by hand\n").unwrap();
    let corrected = node.turn();
    assert_eq!(causes(&corrected), pairs(&[("conf", "drift")]));
    assert_eq!(node.checkout.read("host/conf"), "a = 2\n");
}

#[test]
fn a_node_in_audit_mode_says_so_and_changes_nothing() {
    let node = Follower::new();
    node.set_mode("audit");
    assert_eq!(node.turn()["changed"], 4);
    assert!(fs::read_dir(node.checkout.path("host")).unwrap().next().is_none());
    let text = node.checkout.zagent("host", &["status"]).expect(0).out;
    assert!(
        text.contains("mode      audit: runs check and report, and change nothing; 4 changes not applied"),
        "{text}"
    );
    let history = node.checkout.zagent("host", &["history", "--out", "json"]).expect(0).json();
    let text = history.to_string();
    assert!(text.contains("\"audit\"") && text.contains("\"cause\":\"change\""), "{history:#}");
    for args in [
        &["run", "--once", "--states", "../repo"][..],
        &["state.apply", "--states", "../repo"],
        &["run", "--once", "--here"],
    ] {
        let said = node.checkout.zagent("repo", args).expect(2);
        assert!(said.err.contains("audit mode"), "{args:?}: {}", said.err);
    }
    assert!(fs::read_dir(node.checkout.path("host")).unwrap().next().is_none());
    let status = node.checkout.zagent("host", &["status", "--check", "--no-daemon"]);
    assert_eq!(status.code, 0, "an intended change is no problem: {status:#?}");
    let mut command = node.checkout.command(env!("CARGO_BIN_EXE_zagent"), "host");
    let once = command.args(["run", "--once"]).env("ZAGENT_RUN_MODE", "apply").output().unwrap();
    assert!(once.status.success() && node.checkout.host("motd").exists());
}
