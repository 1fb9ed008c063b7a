//! Nodes as processes: each a watchdog with its agent, its own directory and sockets; one Git server for all.
//!
//! A release is a script that executes the real program, so that gigabytes need not be copied; a bad release
//! misbehaves. No test sleeps for a result.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use zagent_cache::testing::GitHttpServer;
use zagent_config::paths::Paths;
use zagent_rollout::phase::{self, NodePhase};
use zagent_rollout::record::{Component, NodeStatus, RolloutRecord};
use zagent_rollout::report::NodeReport;
use zagent_rollout::stored_record::parse_record;
use zagent_rollout::watchdog::{
    Readiness, SocketReadiness, WatchdogRequest, WatchdogResponse, WatchdogStatus, send_request,
};

use super::shelf::Shelf;

/// A fleet without keys uses rollouts that nothing signs.
const UNSIGNED: &str = "trust: {unsigned_refs: [testing, rollout]}\n";

/// The program, and the version it reports.
pub(crate) const ZAGENT: &str = env!("CARGO_BIN_EXE_zagent");
pub(crate) const BUILT_IN: &str = env!("CARGO_PKG_VERSION");
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(120);
/// Poll interval for conditions without notification.
const LOOK: Duration = Duration::from_millis(100);
/// A release that is the real program under another name.
pub(crate) const GOOD: &str = "exec $ZAGENT \"$@\"";

/// Waits until a condition holds.
pub(crate) fn eventually<T>(what: &str, more: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}\n{}", more());
        std::thread::park_timeout(LOOK);
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

/// Continues a stopped process, unless it was killed meanwhile.
pub(crate) fn go_on(pid: u32) {
    let told = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGCONT);
    assert!(matches!(told, Ok(()) | Err(nix::errno::Errno::ESRCH)), "{told:?}");
}

/// A process with captured output; it is killed with this value.
pub(crate) struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (stderr, said) = (child.stderr.take().unwrap(), Arc::<Mutex<String>>::default());
        let keep = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut said = keep.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        Self { child, said }
    }

    /// Its output so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let said = Arc::clone(&self.said);
        eventually(
            "the process ends",
            move || said.lock().unwrap().clone(),
            || self.child.try_wait().unwrap(),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Cleans up after a fleet when this program is gone, for any reason: it kills every process with the fleet's
/// directory in its command line.
struct Janitor {
    process: Child,
    /// Closing it tells the janitor to start.
    pipe: Option<ChildStdin>,
}

impl Janitor {
    fn start(dir: &Path) -> Self {
        let script = "cat; for it in /proc/[0-9]*; do pid=${it#/proc/}; [ $pid = $$ ] && continue; \
                      tr '\\0' ' ' <$it/cmdline | grep -qF \"$0\" && kill -9 $pid; done; rm -rf \"$0\"";
        let mut command = Command::new("sh");
        // In its own process group: a signal to this program must not reach the janitor.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.args(["-c", script]).arg(dir).stdin(Stdio::piped());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pipe = process.stdin.take();
        Self { process, pipe }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.process.wait();
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) watchdog: Option<Process>,
}

/// A fleet, and the server of its repositories. Processes are dropped before their directories.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) server: GitHttpServer,
    pub(crate) shelf: Shelf,
    _janitor: Janitor,
    dir: TempDir,
}

/// Runs `git`, which must succeed.
pub(crate) fn git(dir: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@example.org")])
        .envs([("GIT_COMMITTER_NAME", "t"), ("GIT_COMMITTER_EMAIL", "t@example.org")])
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Fleet {
    /// A fleet of this size, with running watchdogs, ready agents and reports on the board; `more` is added
    /// to every configuration, where `$D` is the directory of the node.
    pub(crate) fn new(size: usize, more: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("zagent-fleet-").tempdir().unwrap();
        let repos = dir.path().join("repos");
        for name in ["states.git", "board.git"] {
            fs::create_dir_all(repos.join(name)).unwrap();
            git(&repos.join(name), &["init", "-q", "--bare", "-b", "main"]);
            // One process per request is enough.
            for (key, value) in
                [("http.receivepack", "true"), ("receive.autogc", "false"), ("core.fsync", "none")]
            {
                git(&repos.join(name), &["config", key, value]);
            }
        }
        let work = dir.path().join("work");
        fs::create_dir_all(work.join("states")).unwrap();
        fs::create_dir(dir.path().join("shelf")).unwrap();
        git(&work, &["init", "-q", "-b", "main"]);
        let (server, shelf) = (GitHttpServer::start(&repos), Shelf::start(&dir.path().join("shelf")));
        let mut fleet = Self { nodes: vec![], server, shelf, _janitor: Janitor::start(dir.path()), dir };
        fleet.push("one: {test.nop: []}\n");
        for number in 1..=size {
            let id = format!("n{number:02}");
            let dir = fleet.path(&id);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("zagent.yaml"), fleet.config(&id, more)).unwrap();
            fleet.nodes.push(Node { id, dir, watchdog: None });
        }
        fs::write(fleet.path("driver.yaml"), fleet.config("driver", "")).unwrap();
        for at in 0..size {
            fleet.start(at);
        }
        fleet.all_are("up", |node| node.is_up().then_some(()));
        eventually(
            "all report",
            || fleet.words(),
            || {
                let refs = git(&fleet.path("repos/board.git"), &["for-each-ref", "--format=%(refname)"]);
                let reports = |node: &Node| {
                    refs.lines().filter(|name| name.ends_with(&format!("/{}", node.id))).count()
                };
                // The watchdog reports the binary, the agent the states.
                fleet.nodes.iter().all(|node| reports(node) == 2).then_some(())
            },
        );
        fleet
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The bare repository that records are in.
    pub(crate) fn states(&self) -> PathBuf {
        self.path("repos/states.git")
    }

    /// Pushes states; returns the commit.
    pub(crate) fn push(&self, sls: &str) -> String {
        let work = self.path("work");
        fs::write(work.join("states/top.sls"), "base: {'*': [all]}\n").unwrap();
        fs::write(work.join("states/all.sls"), sls).unwrap();
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-q", "--allow-empty", "-m", "states"]);
        git(&work, &["push", "-q", &self.states().display().to_string(), "main"]);
        git(&work, &["rev-parse", "HEAD"])
    }

    fn config(&self, id: &str, more: &str) -> String {
        let (states, board) = (self.server.url("states.git"), self.server.url("board.git"));
        let dir = self.path(id).display().to_string();
        // A small machine cannot answer many nodes every second.
        let rollout = if more.contains("rollout:") { "" } else { "rollout: {poll: 2s}\n" };
        format!(
            "id: {id}\nroot: {dir}/root\nbaked: /nonexistent\n\
             source:\n  remotes: [{{url: '{states}', branch: main}}]\n  poll: 5s\n\
             board: {{kind: git, url: '{board}'}}\n{UNSIGNED}{rollout}{}",
            more.replace("$D", &dir)
        )
    }

    /// Starts the watchdog of a node.
    pub(crate) fn start(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let mut command = Command::new(ZAGENT);
        command.args(["watchdog", "--pace", "brisk", "--config"]).arg(node.config());
        command.stdin(Stdio::null()).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        node.watchdog = Some(Process::start(&mut command));
    }

    /// Waits until this holds for every node.
    pub(crate) fn all_are(&self, what: &str, mut holds: impl FnMut(&Node) -> Option<()>) {
        for node in &self.nodes {
            eventually(&format!("{} is {what}", node.id), || self.words(), || holds(node));
        }
    }

    /// Waits until every node runs this version, confirmed, and nothing else is active.
    pub(crate) fn all_run(&self, version: &str) {
        self.all_are(&format!("well on {version}"), |node| node.is_well_on(version).then_some(()));
    }

    /// Output of all watchdogs.
    pub(crate) fn words(&self) -> String {
        let one = |node: &Node| {
            let said = node.watchdog.as_ref().map(Process::said).unwrap_or_default();
            let tail: Vec<&str> = said.lines().rev().take(12).collect();
            let status = node.status();
            format!("--- {}\n{}\n{status:?}", node.id, tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
        };
        self.nodes.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(ZAGENT);
        command.args(words).arg("--config").arg(self.path("driver.yaml")).stdin(Stdio::null());
        command
    }

    /// Runs the program as the driver's operator.
    pub(crate) fn zagent(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The same in the background.
    pub(crate) fn background(&self, words: &[&str]) -> Process {
        Process::start(&mut self.command(words))
    }

    /// Runs the program, which must exit with this code; returns both of its streams.
    pub(crate) fn exits(&self, code: i32, words: &[&str]) -> String {
        let output = self.zagent(words);
        let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
        assert_eq!(output.status.code(), Some(code), "{words:?}:\n{out}\n{err}\n{}", self.words());
        format!("{out}\n{err}")
    }

    /// The record of a rollout, as Git holds it.
    pub(crate) fn record(&self, id: &str) -> Option<RolloutRecord> {
        let name = format!("rollout/{id}:rollout.yaml");
        let output = Command::new("git").args(["show", &name]).current_dir(self.states()).output().unwrap();
        parse_record(&id.parse().ok()?, &output.stdout).ok()
    }

    /// Waits until the record satisfies a condition.
    pub(crate) fn until(
        &self,
        id: &str,
        what: &str,
        holds: impl Fn(&RolloutRecord) -> bool,
    ) -> RolloutRecord {
        let more = || format!("{:#?}\n{}", self.record(id), self.words());
        eventually(&format!("{id}: {what}"), more, || self.record(id).filter(&holds))
    }

    /// Waits until a node's report about its binary, as on the board, satisfies a condition.
    pub(crate) fn until_told(&self, id: &str, what: &str, holds: impl Fn(&NodeReport) -> bool) {
        eventually(
            &format!("the board is told of {id}: {what}"),
            || self.words(),
            || {
                let said = self.zagent(&["node", "list", id, "--out", "json"]);
                let said: Value = serde_json::from_slice(&said.stdout).ok()?;
                let reports =
                    said.as_array()?.iter().map(|it| NodeReport::deserialize(&it["report"]).unwrap());
                reports.filter(|it| it.component == Component::Agent).any(|it| holds(&it)).then_some(())
            },
        );
    }

    /// Publishes a release that is a script: the file and the entry for `--artifacts`.
    pub(crate) fn release(&self, version: &str, script: &str, entry: impl FnOnce(&mut Value)) -> String {
        let script = script.replace("$ZAGENT", ZAGENT);
        let script = if script.starts_with("#!") { script } else { format!("#!/bin/sh\n{script}") };
        self.release_of(version, format!("{script}\n# {version}\n").as_bytes(), entry)
    }

    /// Same for any bytes.
    pub(crate) fn release_of(&self, version: &str, bytes: &[u8], entry: impl FnOnce(&mut Value)) -> String {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        fs::write(self.path("shelf").join(version), bytes).unwrap();
        let mut one = serde_json::json!({
            "os": os, "arch": arch, "size": bytes.len(), "blake3": blake3::hash(bytes).to_hex().as_str(),
            "url": self.shelf.url(version),
        });
        entry(&mut one);
        let path = self.path(format!("{version}.yaml"));
        fs::write(&path, serde_json::json!([one]).to_string()).unwrap();
        path.display().to_string()
    }
}

/// Arguments that start a rollout of an agent version.
pub(crate) fn order<'a>(id: &'a str, to: &'a str, artifacts: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["rollout", "start", "--component", "agent", "--to", to, "--id", id];
    words.extend(["--artifacts", artifacts]);
    words.extend(more);
    words
}

/// Nodes of a record with this status.
pub(crate) fn that_are(record: &RolloutRecord, status: NodeStatus) -> Vec<String> {
    let nodes = record.nodes.iter().filter(|(_, progress)| progress.status == status);
    nodes.map(|(id, _)| id.to_string()).collect()
}

impl Node {
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("zagent.yaml")
    }

    /// Adds to its configuration, without notification.
    pub(crate) fn add_to_config(&self, more: &str) {
        let config = fs::read_to_string(self.config()).unwrap();
        let config = if more.starts_with("trust:") { config.replace(UNSIGNED, "") } else { config };
        fs::write(self.config(), config + more).unwrap();
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths::new(self.dir.join("root"))
    }

    /// Runs the program on this node, which must succeed; returns its output.
    pub(crate) fn asks(&self, words: &[&str]) -> String {
        let output = Command::new(ZAGENT).args(words).arg("--config").arg(self.config()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Status of its watchdog; none while it does not answer.
    pub(crate) fn status(&self) -> Option<WatchdogStatus> {
        match send_request(&self.paths().watchdog_socket(), &WatchdogRequest::Status) {
            Ok(WatchdogResponse::Status(status)) => Some(*status),
            _ => None,
        }
    }

    /// Process ID of its agent.
    pub(crate) fn agent(&self) -> Option<u32> {
        Some(self.status()?.child?.pid)
    }

    /// Name of the phase on its disk, independent of running processes.
    pub(crate) fn on_disk(&self) -> &'static str {
        let kept = zagent_config::json_file::read::<phase::NodeState>(&self.paths().phase()).unwrap();
        kept.map_or("none", |kept| kept.phase.name())
    }

    /// True when its agent is ready.
    pub(crate) fn is_ready(&self) -> bool {
        let socket = self.paths().socket();
        SocketReadiness { socket, timeout: Duration::from_secs(5) }.ready().is_ok()
    }

    fn is_up(&self) -> bool {
        self.agent().is_some() && self.is_ready()
    }

    /// True when it runs this version, confirmed, and is in no rollout.
    pub(crate) fn is_well_on(&self, version: &str) -> bool {
        let is = |status: WatchdogStatus| {
            let runs = status.version == version && status.node.running == version && status.child.is_some();
            runs && status.node.phase == NodePhase::Idle && status.degraded.is_none()
        };
        self.status().is_some_and(is) && self.is_ready()
    }

    /// Process ID of its agent, once it was started by this watchdog and is ready.
    pub(crate) fn own_agent(&self) -> Option<u32> {
        let (agent, watchdog) = (self.agent()?, self.watchdog.as_ref()?.pid());
        let stat = fs::read_to_string(format!("/proc/{agent}/stat")).ok()?;
        let parent: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (parent == watchdog && self.is_ready()).then_some(agent)
    }

    /// kill -9 to its watchdog.
    pub(crate) fn kill_watchdog(&mut self) {
        self.watchdog.take().unwrap().kill();
    }
}
