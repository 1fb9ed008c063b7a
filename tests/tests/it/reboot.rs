//! Three hosts with real systemd take a release of the agent, and one of them reboots during the rollout. Runs with
//! NSPAWN=1 only (`.ci/nspawn`).

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use zagent_rollout::record::{NodeStatus, RolloutRecord, RolloutStatus};
use zagent_rollout::stored_record::parse_record;
use zagent_tests::container::{Node, Server, eventually, is_asked_for, motd, program};

const WATCHDOG: &str = "zagent-watchdog.service";
/// The time limit of a rollout step, or a boot.
const SOON: Duration = Duration::from_secs(180);

/// The hosts, and the repository they follow.
struct Fleet {
    server: Server,
    nodes: Vec<Node>,
    driver: PathBuf,
}

impl Fleet {
    fn new() -> Self {
        let server = Server::start();
        server.push(&motd("one"));
        let nodes: Vec<Node> = (1..=3).map(|number| host(&server, number)).collect();
        let driver = server.dir().join("driver.yaml");
        let at = |name: &str| server.dir().join(name).display().to_string();
        let config = format!(
            "id: driver\nroot: {}\nsource: {{remotes: [{{url: 'file://{}'}}]}}\nboard: {{kind: git, url: 'file://{}'}}\ntrust: {{unsigned_refs: [rollout]}}\n",
            at("driver"),
            at("states.git"),
            at("board.git")
        );
        fs::write(&driver, config).expect("a configuration");
        Self { server, nodes, driver }
    }

    fn zagent(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).arg("--config").arg(&self.driver).stdin(Stdio::null());
        command
    }

    /// Publishes a script as a version, in a ref of the repository.
    fn publish(&self, version: &str, script: &str) {
        let path = self.server.dir().join(version);
        fs::write(&path, format!("#!/bin/sh\n# {version}\n{script}\n")).expect("a release");
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let path = path.display().to_string();
        let words = ["release", "publish", &path, "--version", version, "--os", os, "--arch", arch];
        let said = self.zagent(&words).output().expect("the program runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    fn record(&self, id: &str) -> Option<RolloutRecord> {
        let bare = self.server.dir().join("states.git");
        let name = format!("rollout/{id}:rollout.yaml");
        let said = Command::new("git").arg("-C").arg(bare).args(["show", &name]).output().ok()?;
        parse_record(&id.parse().ok()?, &said.stdout).ok()
    }

    fn status(&self, at: usize) -> Option<Value> {
        let said = self.nodes[at].run(&["zagent", "watchdog", "status", "--out", "json"]);
        serde_json::from_str(&said.out).ok()
    }

    /// Waits until all hosts have reported their binary and their states to the board: others are not seen.
    fn is_there(&self) {
        for at in 0..self.nodes.len() {
            self.until(at, "the agent is up", |status| status["child"]["pid"].is_u64());
        }
        let bare = self.server.dir().join("board.git");
        eventually("all hosts report", SOON, || {
            let refs = ["for-each-ref", "--format=%(refname)"];
            let said = Command::new("git").arg("-C").arg(&bare).args(refs).output().expect("git runs");
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let reports =
                |number: usize| said.lines().filter(move |it| it.ends_with(&format!("/host-{number}")));
            let all = (1..=self.nodes.len()).all(|number| reports(number).count() == 2);
            if all { Ok(()) } else { Err(said) }
        });
    }

    /// Waits until a host's watchdog reports this.
    fn until(&self, at: usize, what: &str, holds: impl Fn(&Value) -> bool) {
        eventually(&format!("host {}: {what}", at + 1), SOON, || match self.status(at) {
            Some(status) if holds(&status) => Ok(()),
            other => Err(format!("{other:#?}\n{}", self.nodes[at].journal())),
        });
    }
}

fn host(server: &Server, number: usize) -> Node {
    let node = Node::boot();
    node.install(&program());
    let here = node.network().host();
    let own = format!(
        "id: host-{number}\nsource: {{remotes: [{{url: '{}'}}], poll: 2s}}\nboard: {{kind: git, url: '{}'}}\nrollout: {{poll: 2s}}\ntrust: {{unsigned_refs: [rollout]}}\n",
        server.url(here),
        server.board(here)
    );
    node.write("/etc/zagent/conf.d/test.yaml", own);
    let quick = "[Service]\nExecStart=\nExecStart=/usr/bin/zagent watchdog --pace brisk\n";
    node.write(&format!("/etc/systemd/system/{WATCHDOG}.d/test.conf"), quick);
    node.must(&["systemctl", "daemon-reload"]);
    node.must(&["systemctl", "enable", "--now", WATCHDOG]);
    node
}

fn is_on(version: &'static str) -> impl Fn(&Value) -> bool {
    move |status| {
        let node = &status["node"];
        let is_up = status["version"] == version && status["child"]["pid"].is_u64();
        is_up && node["running"] == version && node["phase"]["is"] == "idle"
    }
}

#[test]
fn three_hosts_take_a_release_and_one_of_them_reboots_while_it_soaks() {
    if !is_asked_for() {
        return;
    }
    let mut fleet = Fleet::new();
    fleet.is_there();
    fleet.publish("9.1.0", "exec /usr/bin/zagent \"$@\"");
    let order = ["--component", "agent", "--batch-size", "2", "--soak", "15s", "--pause", "1s"];
    let start = |id: &'static str, to: &'static str| {
        [&["rollout", "start", "--id", id, "--to", to][..], &order].concat()
    };
    let mut driver = fleet.zagent(&start("good", "9.1.0")).stdout(Stdio::null()).spawn().expect("a driver");
    let soaks = |status: &Value| status["node"]["phase"]["is"] == "soaking";
    let last = fleet.nodes.len() - 1;
    fleet.until(last, "it soaks", soaks);
    fleet.nodes[last].reboot();
    let booted = Timestamp::now();
    let ended = eventually("the rollout is over", SOON * 2, || match driver.try_wait() {
        Ok(Some(ended)) => Ok(ended),
        other => Err(format!("{other:?} {:#?}", fleet.record("good"))),
    });
    let record = fleet.record("good").expect("a record");
    assert!(ended.success() && record.state == RolloutStatus::Completed, "{record:#?}");
    assert!(record.nodes.values().all(|node| node.status == NodeStatus::Confirmed), "{record:#?}");
    let kept = record.nodes.iter().find(|(id, _)| id.as_str() == "host-3").and_then(|(_, node)| node.at);
    assert!(
        kept > Some(booted),
        "what had not proved itself before the boot had to do so after it: {record:#?}"
    );
    for at in 0..3 {
        fleet.until(at, "it keeps 9.1.0", is_on("9.1.0"));
    }

    // After a boot the confirmed version runs.
    fleet.nodes[0].reboot();
    fleet.until(0, "it runs 9.1.0 after a boot", is_on("9.1.0"));

    // A release that crashes its agent is rolled back by the first host that tries it, and no other host tries it.
    fleet.publish("9.2.0", "exit 3");
    let said = fleet.zagent(&start("bad", "9.2.0")).output().expect("a driver");
    assert_eq!(said.status.code(), Some(1), "{}", String::from_utf8_lossy(&said.stderr));
    let record = fleet.record("bad").expect("a record");
    assert_eq!(
        (record.state, record.failed, record.current_batch),
        (RolloutStatus::Aborted, 1, 0),
        "{record:#?}"
    );
    for at in 0..3 {
        fleet.until(at, "it is on 9.1.0", is_on("9.1.0"));
    }
}
