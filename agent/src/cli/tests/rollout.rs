//! Rollout commands against a real Git server, with nodes that follow the records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use zagent_cache::needs;
use zagent_cache::testing::GitHttpServer;
use zagent_config::settings::{ConfigLocation, Settings, load};
use zagent_rollout::board_stores::{BoardRecords, BoardReports};
use zagent_rollout::node::driven_action;
use zagent_rollout::phase::{NodeAction, NodeEvent, NodeState, step};
use zagent_rollout::record::Component;
use zagent_rollout::records::{Records, Reports};
use zagent_rollout::report::{NodeActivity, NodeReport};

use super::*;

const OLD: &str = "1111111111111111111111111111111111111111";

/// A Git server with two repositories, and the configuration of a host that uses them.
struct Fleet {
    dir: tempfile::TempDir,
    server: GitHttpServer,
    /// Commit to roll out.
    to: String,
}

impl Fleet {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["states.git", "board.git"] {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            git(&path, &["init", "-q", "--bare", "-b", "main", "."]);
            git(&path, &["config", "http.receivepack", "true"]);
        }
        let states = dir.path().join("states.git");
        let tree = git(&states, &["mktree"]);
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let to = git(&states, &[&who[..], &["commit-tree", &tree, "-m", "c"]].concat());
        git(&states, &["update-ref", "refs/heads/main", &to]);
        let server = GitHttpServer::start(dir.path());
        let fleet = Self { dir, server, to };
        fleet.configure("laptop");
        fleet
    }

    /// Writes the configuration of a host.
    fn configure(&self, id: &str) -> PathBuf {
        let path = self.dir.path().join(format!("{id}.yaml"));
        let root = self.dir.path().join("roots").join(id);
        let (states, board) = (self.server.url("states.git"), self.server.url("board.git"));
        let text = format!(
            "id: {id}\nroot: {}\nsource: {{remotes: [{{url: '{states}', branch: main}}]}}\n\
             board: {{kind: git, url: '{board}'}}\n",
            root.display()
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    fn settings(&self, id: &str) -> Settings {
        load(&ConfigLocation::File(self.configure(id)), [], &[], None).unwrap()
    }

    fn say(&self, args: &[&str]) -> Said {
        let config = self.dir.path().join("laptop.yaml").display().to_string();
        let mut args = args.to_vec();
        args.extend(["--config", &config]);
        zagent(&args, self.dir.path())
    }

    fn start(&self, more: &[&str]) -> Said {
        let mut args = vec!["rollout", "start", "--component", "states", "--to", "main"];
        args.extend(["--soak", "1s", "--pause", "0s", "--batch-size", "1"]);
        args.extend(more);
        self.say(&args)
    }

    fn nodes(&self, ids: &[&str]) -> Vec<Host> {
        ids.iter().map(|id| Host::new(self, id)).collect()
    }

    fn log(&self, id: &str) -> Vec<String> {
        let branch = format!("refs/heads/rollout/{id}");
        let log = git(&self.dir.path().join("states.git"), &["log", "--format=%s", &branch]);
        log.lines().rev().map(str::to_owned).collect()
    }
}

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(key);
    }
    let done = command.args(args).current_dir(dir).stdin(std::process::Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A node where every action succeeds at once, or where new states never become ready.
struct Host {
    report: NodeReport,
    node: NodeState,
    is_sick: bool,
    records: BoardRecords,
    reports: BoardReports,
}

impl Host {
    fn new(fleet: &Fleet, id: &str) -> Self {
        let settings = fleet.settings(id);
        let report = NodeReport {
            id: id.parse().unwrap(),
            component: Component::States,
            version: "1.3.2".into(),
            revision: Some(OLD.into()),
            state: NodeActivity::Idle,
            taken: None,
            os: "linux".into(),
            arch: "x86_64".into(),
            facts: BTreeMap::from([("os".to_owned(), "Debian".into())]),
            updated_at: Timestamp::now(),
            child: None,
            degraded: None,
            protocol: 1,
            hold: None,
            last_run: None,
            stopped: None,
            rejected: Default::default(),
            failing_checks: Vec::new(),
            waits: Default::default(),
        };
        let records = BoardRecords::open(&settings).unwrap();
        let reports = BoardReports::open(&settings).unwrap().unwrap();
        let mut host = Self { report, node: NodeState::with_version(OLD), is_sick: false, records, reports };
        host.tell();
        host
    }

    fn tell(&mut self) {
        self.report.update_from_node(&self.node);
        self.report.revision = Some(self.node.current_version().to_owned());
        self.report.updated_at = Timestamp::now();
        self.reports.put(&self.report).unwrap();
    }

    fn happens(&mut self, event: NodeEvent) {
        let (node, actions) = step(&self.node, event, Timestamp::now());
        self.node = node;
        for action in actions {
            match action {
                NodeAction::Fetch(_) => self.happens(NodeEvent::Fetched),
                NodeAction::Apply(_) => self.happens(NodeEvent::Applied),
                NodeAction::RollBack(_) => self.happens(NodeEvent::RolledBack),
                NodeAction::Discard(_) | NodeAction::Settle(_) => {}
            }
        }
    }

    /// Polls once, acts and reports; true when all rollouts are over.
    fn look(&mut self) -> bool {
        let all = self.records.list().unwrap();
        for held in &all {
            if let Some(event) = driven_action(&held.value, &self.report.id, &self.node, Timestamp::now()) {
                self.happens(event);
            }
        }
        if self.node.is_unconfirmed() {
            self.happens(if self.is_sick { NodeEvent::NotReady("503".into()) } else { NodeEvent::Ready });
        }
        self.tell();
        all.iter().all(|held| held.value.state.is_final())
    }
}

/// Runs a command while nodes work until all rollouts are over.
fn meanwhile(mut nodes: Vec<Host>, act: impl FnOnce() -> Said) -> (Said, Vec<Host>) {
    std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            while nodes.iter_mut().map(Host::look).filter(|over| !over).count() > 0 {}
            nodes
        });
        let said = act();
        (said, working.join().unwrap())
    })
}

#[test]
fn a_plan_is_shown_under_the_id_that_is_written() {
    needs!("git");
    let fleet = Fleet::new();
    let _nodes = fleet.nodes(&["web-01", "web-02"]);
    let mut names = Vec::new();
    for _ in 0..2 {
        let said = fleet.start(&["--dry-run"]);
        let written =
            said.out.lines().find_map(|line| line.strip_suffix(" is written as a dry run: nodes do nothing"));
        let written = written.unwrap_or_else(|| panic!("{}", said.all())).to_owned();
        assert!(said.out.lines().next().is_some_and(|head| head.contains(&written)), "{}", said.all());
        names.push(written);
    }
    assert_eq!(names[1], format!("{}-2", names[0]));
}

#[test]
fn a_rollout_from_plan_to_completion() {
    needs!("git");
    let fleet = Fleet::new();
    let plan = ["rollout", "plan", "--component", "states", "--to", "main", "--id", "r1"];
    let said = fleet.say(&plan);
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    assert!(
        said.err.contains("no node reports for states") && said.err.contains("board.kind"),
        "{}",
        said.all()
    );
    let nodes = fleet.nodes(&["web-01", "web-02", "web-03"]);
    let list = fleet.say(&["node", "list", "web-0[12]"]);
    assert_eq!(list.out.lines().count(), 3, "{}", list.all());
    assert!(list.out.contains("web-02  states     1.3.2    111111111111  idle"), "{}", list.all());
    let said = fleet.say(&plan);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.contains("1 canary  now"), "{}", said.all());
    let data = fleet.say(&[&plan[..], &["--out", "json"]].concat()).json();
    assert_eq!(data["record"]["to"], fleet.to, "a branch is looked up");
    assert_eq!(fleet.say(&["rollout", "list", "--all"]).out, "no active rollout\n", "a plan writes nothing");

    let said = fleet.start(&["--id", "r1", "--detach"]);
    assert!(
        said.exit == ExitStatus::Success && said.out.contains("to drive it here: zagent rollout drive r1"),
        "{}",
        said.all()
    );
    let twice = fleet.start(&["--id", "r1", "--anyway"]);
    assert!(
        twice.exit == ExitStatus::Failed && twice.err.contains("rollout `r1` already exists"),
        "{}",
        twice.all()
    );
    let second = fleet.start(&["--id", "r2"]);
    assert!(second.exit == ExitStatus::Failed && second.err.contains("`r1` (states to "), "{}", second.all());
    let status = fleet.say(&["rollout", "status"]);
    assert!(status.out.contains("no active driver: zagent rollout drive r1"), "{}", status.all());

    let step = fleet.say(&["rollout", "step", "r1", "--out", "json"]);
    assert_eq!((step.exit, &step.json()["over"]), (ExitStatus::Locked, &false.into()), "{}", step.all());
    let other = fleet.say(&["rollout", "drive", "r1"]);
    assert!(other.exit == ExitStatus::Locked && other.err.contains("is driven by step"), "{}", other.all());
    let (said, nodes) = meanwhile(nodes, || fleet.say(&["rollout", "drive", "r1", "--adopt"]));
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.contains("r1 completed; 3 nodes: 3 confirmed"), "{}", said.all());
    assert!(nodes.iter().all(|host| host.node.running == fleet.to && host.node.phase == Default::default()));
    let step = fleet.say(&["rollout", "step", "r1"]);
    assert_eq!(step.exit, ExitStatus::Success, "{}", step.all());
    assert_eq!(fleet.say(&["rollout", "watch"]).exit, ExitStatus::Success);
    let late = fleet.say(&["rollout", "abort", "r1"]);
    assert!(late.exit == ExitStatus::Success && late.out.contains("already completed"), "{}", late.all());
    let log = fleet.log("r1");
    assert!(
        log[0].starts_with("created by ") && log.iter().any(|line| line.contains("takes over")),
        "{log:?}"
    );
}

#[test]
fn a_failed_node_aborts_the_rollout_and_abort_is_safe_to_repeat() {
    needs!("git");
    let fleet = Fleet::new();
    let mut nodes = fleet.nodes(&["web-01", "web-02"]);
    nodes.iter_mut().for_each(|host| host.is_sick = true);
    let (said, nodes) = meanwhile_started(&fleet, nodes);
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    assert!(said.out.contains("state    aborted") && said.out.contains("503"), "{}", said.all());
    assert!(nodes.iter().all(|host| host.node.current_version() == OLD), "all are on what they had");
    assert!(fleet.say(&["node", "show", "web-01"]).out.contains("failed for"));

    let said = fleet.start(&["--id", "r2", "--detach", "--anyway"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(fleet.say(&["rollout", "pause", "r2", "--reason", "lunch"]).out.contains("lunch"));
    assert_eq!(fleet.say(&["rollout", "resume", "r2"]).out, "r2 is resumed\n");
    for _ in 0..2 {
        let said = fleet.say(&["rollout", "abort", "r2", "--reason", "enough"]);
        assert!(said.exit == ExitStatus::Success && said.out.contains("r2 is aborted"), "{}", said.all());
    }
    let paused = fleet.say(&["rollout", "pause", "r2"]);
    assert!(paused.exit == ExitStatus::Failed && paused.err.contains("is aborted"), "{}", paused.all());
    for verb in ["step", "drive", "watch"] {
        assert_eq!(fleet.say(&["rollout", verb, "r2"]).exit, ExitStatus::Failed, "{verb}");
    }
    let aborts = fleet.log("r2").iter().filter(|line| line.starts_with("aborted")).count();
    assert_eq!(aborts, 1, "{:?}", fleet.log("r2"));
    assert_eq!(fleet.say(&["node", "forget", "web-02"]).exit, ExitStatus::Success);
    let gone = fleet.say(&["node", "show", "web-02"]);
    assert!(gone.exit == ExitStatus::Usage && gone.err.contains("did you mean `web-01`"), "{}", gone.all());
}

/// `start` in the foreground: nodes start to poll once there is a rollout.
fn meanwhile_started(fleet: &Fleet, mut nodes: Vec<Host>) -> (Said, Vec<Host>) {
    std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            while nodes[0].records.list().unwrap().is_empty() {}
            while nodes.iter_mut().map(Host::look).filter(|over| !over).count() > 0 {}
            nodes
        });
        (fleet.start(&["--id", "r1"]), working.join().unwrap())
    })
}

#[test]
fn a_reinstalled_node_can_be_forgotten() {
    needs!("git");
    let fleet = Fleet::new();
    let host = fleet.nodes(&["web-01"]).remove(0);
    assert_eq!(
        fleet.say(&["node", "show", "web-01"]).exit,
        ExitStatus::Success,
        "its key is known from now on"
    );
    let root = fleet.settings("web-01").root;
    drop(host);
    std::fs::remove_dir_all(root).unwrap();
    let _again = fleet.nodes(&["web-01"]);
    let list = fleet.say(&["node", "list"]);
    let refused = list.out.split("REFUSED").nth(1).unwrap_or_else(|| panic!("another key: {}", list.all()));
    assert!(refused.contains("node forget web-01"), "{}", list.all());
    let said = fleet.say(&["node", "forget", "web-01"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    let _back = fleet.nodes(&["web-01"]);
    assert_eq!(fleet.say(&["node", "show", "web-01"]).exit, ExitStatus::Success);
    assert_eq!(fleet.say(&["node", "forget", "web-01"]).exit, ExitStatus::Success);
    let twice = fleet.say(&["node", "forget", "web-01"]);
    assert_eq!(twice.exit, ExitStatus::Usage, "nothing is left of it: {}", twice.all());
}

#[test]
fn a_plan_warns_about_the_branch_head_and_held_nodes() {
    needs!("git");
    let fleet = Fleet::new();
    let mut hosts = fleet.nodes(&["web-01", "web-02"]);
    hosts[0].report.hold = Some("outside of its window until 22:00".into());
    hosts[0].tell();
    let plan = |to: &str| fleet.say(&["rollout", "plan", "--component", "states", "--to", to]);
    let head = plan("main");
    assert!(head.exit == ExitStatus::Success && !head.err.contains("is not the head"), "{}", head.all());
    assert!(head.out.contains("HELD") && head.out.contains("until 22:00"), "{}", head.all());
    let back = plan("2222222222222222222222222222222222222222");
    assert!(
        back.exit == ExitStatus::Success && back.err.contains("222222222222 is not the head of `main`"),
        "{}",
        back.all()
    );
    assert!(back.err.contains("push a revert"), "{}", back.all());
}

#[test]
fn missing_settings_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (bare, root) = (dir.path().join("bare.yaml"), dir.path().join("root"));
    std::fs::write(&bare, format!("root: {}\n", root.display())).unwrap();
    let bare = bare.display().to_string();
    let say = |args: &[&str]| zagent(&[args, &["--config", &bare]].concat(), dir.path());
    let gone = "http://127.0.0.1:1/r.git";
    let order = ["--component", "states", "--to", OLD];
    for (args, exit, want) in [
        (&["rollout", "list"][..], ExitStatus::Usage, "`rollout.url`"),
        (&["rollout", "status", "x"], ExitStatus::Usage, "--url URL"),
        (&["node", "list"], ExitStatus::Usage, "`board.kind`"),
        (&["rollout", "drive", "--url", gone], ExitStatus::Usage, "--board git:URL"),
        (&["rollout", "list", "--url", gone], ExitStatus::Unreachable, "127.0.0.1:1"),
        (
            &["node", "list", "--board", "git:http://127.0.0.1:1/b.git"],
            ExitStatus::Unreachable,
            "127.0.0.1:1",
        ),
        (&["node", "list", "--board", "paper"], ExitStatus::Usage, "git:URL, nats:URL or sled"),
        (&["rollout", "start"], ExitStatus::Usage, "--component"),
        (
            &["rollout", "start", "--component", "agent", "--to", "1", "--batch-size", "0%"],
            ExitStatus::Usage,
            "not a batch size",
        ),
        (
            &["rollout", "start", "--component", "agent", "--to", "1", "--soak", "soon"],
            ExitStatus::Usage,
            "not a duration",
        ),
        (&["rollout", "start", "--from", "nowhere.yaml", "--url", gone], ExitStatus::Usage, "nowhere.yaml"),
        (
            &[&["rollout", "plan", "--url", gone, "--to", "abcdef12", "--component", "states"][..]].concat(),
            ExitStatus::Usage,
            "git rev-parse",
        ),
        (&[&["rollout", "plan", "--url", gone][..], &order].concat(), ExitStatus::Usage, "`board.kind`"),
    ] {
        let said = say(args);
        assert_eq!(said.exit, exit, "{args:?}: {}", said.all());
        assert!(said.err.contains(want), "{args:?}: {}", said.all());
        assert!(said.out.is_empty(), "{args:?}: {}", said.all());
    }
}

#[test]
fn a_second_person_signs_the_order_and_only_then_it_is_driven() {
    needs!("git");
    needs!("ssh-keygen");
    let fleet = Fleet::new();
    let _nodes = fleet.nodes(&["ada", "bob"]);
    let key = |who: &str| fleet.settings(who).paths().key();
    let signers = fleet.dir.path().join("signers");
    let line = |who: &str| {
        let made = Command::new("ssh-keygen").arg("-y").arg("-f").arg(key(who)).output().unwrap();
        format!("{who} {}\n", String::from_utf8(made.stdout).unwrap().trim())
    };
    std::fs::write(&signers, line("ada") + &line("bob")).unwrap();
    let plain = std::fs::read_to_string(fleet.configure("laptop")).unwrap();
    let live_in = |name: &str| {
        let text = format!(
            "{plain}fleet: {name}\ntrust: {{require: manifest, threshold: 2, allowed_signers: {}}}\n\
             rollout: {{key: {}}}\n",
            signers.display(),
            key("ada").display()
        );
        std::fs::write(fleet.dir.path().join("laptop.yaml"), text).unwrap();
    };
    live_in("prod");
    let said = fleet.start(&["--id", "r1", "--detach"]);
    assert!(said.err.contains("nothing but their first key identifies 2 nodes"), "{}", said.all());
    assert!(said.out.contains("no node starts before another person has signed it too"), "{}", said.all());
    let status = fleet.say(&["rollout", "status", "r1"]);
    assert!(status.out.contains("1 of 2 signatures: ada; no node starts"), "{}", status.all());
    let step = || fleet.say(&["rollout", "step", "r1"]);
    let said = step();
    assert_eq!(said.exit, ExitStatus::Refused, "{}", said.all());
    assert!(
        said.err.contains("1 of 2 signatures (ada)") && said.err.contains("rollout sign r1"),
        "{}",
        said.all()
    );
    let again = fleet.say(&["rollout", "sign", "r1"]);
    assert!(again.exit == ExitStatus::Refused && again.err.contains("adds no signature"), "{}", again.all());
    let bob = key("bob").display().to_string();
    let signed = fleet.say(&["rollout", "sign", "r1", "--key", &bob]);
    assert!(
        signed.out.contains("fleet: prod") && signed.out.contains("2 of 2 signatures"),
        "{}",
        signed.all()
    );
    let data = fleet.say(&["rollout", "status", "r1", "--out", "json"]).json();
    assert_eq!(data["signatures"], serde_json::json!({"signers": ["ada", "bob"], "needed": 2}));
    assert_eq!(step().exit, ExitStatus::Locked, "now it is driven");
    live_in("staging");
    let said = step();
    assert!(said.exit == ExitStatus::Refused && said.err.contains("for the fleet `prod`"), "{}", said.all());
    // An enrolment tells which key is a node's.
    live_in("prod");
    let said = fleet.say(&["node", "enroll", "ada", "--key", &bob]);
    assert!(said.out.contains("ada is enrolled with SHA256:"), "{}", said.all());
    let plan = fleet.say(&["rollout", "plan", "--component", "states", "--to", "main", "--anyway"]);
    assert!(plan.err.contains("nothing but their first key identifies 1 node (bob)"), "{}", plan.all());
}
