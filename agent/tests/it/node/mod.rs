//! A node with the agent, and the repository that it follows, in a scratch directory.
//!
//! No test sleeps for a result: conditions are awaited, and fail on a timeout.

#![allow(dead_code, reason = "each suite uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a fixture uses the machine directly, and has failed its test when it cannot"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tempfile::TempDir;
use zagent_cache::testing::{EntryKind, GitHttpServer, ScratchRepo};
use zagent_daemon::api::{ApiClient, RequestResult, RunRequest};
use zagent_daemon::status::AgentStatus;

/// The program.
const ZAGENT: &str = env!("CARGO_BIN_EXE_zagent");
/// Timeout of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Poll interval for conditions without notification.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until a condition holds.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::park_timeout(LOOK);
    }
}

/// A node; its daemon ends with this value.
pub(crate) struct Node {
    dir: TempDir,
    program: PathBuf,
    daemon: Option<Child>,
    said: Arc<Mutex<String>>,
}

impl Node {
    /// A node with this configuration; `$D` is its scratch directory.
    pub(crate) fn new(config: &str) -> Self {
        // In memory where possible: these tests kill a process, not the machine.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::Builder::new().prefix("zagent-node-").tempdir_in(place).unwrap();
        fs::create_dir(dir.path().join("host")).unwrap();
        let node = Self { dir, program: ZAGENT.into(), daemon: None, said: Arc::default() };
        node.configure(config);
        node
    }

    /// Same with another program.
    pub(crate) fn with_program(config: &str, program: Option<PathBuf>) -> Self {
        let mut node = Self::new(config);
        node.program = program.unwrap_or(node.program.clone());
        node
    }

    /// Writes another configuration.
    pub(crate) fn configure(&self, config: &str) {
        // What is not about signatures uses every ref without them.
        let trust =
            if config.contains("trust:") { "" } else { "trust: {unsigned_refs: [testing, rollout]}\n" };
        let whole = format!("root: $D/root\nid: node\nbaked: $D/baked\n{trust}{config}")
            .replace("$D", self.dir.path().to_str().unwrap());
        fs::write(self.path("zagent.yaml"), whole).unwrap();
    }

    /// A path in the scratch directory: `host/…`, `root/…`.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Content of a file on the host; empty when it does not exist.
    pub(crate) fn host(&self, name: &str) -> String {
        fs::read_to_string(self.path("host").join(name)).unwrap_or_default()
    }

    /// A pipe on the host that a command can wait at.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path("host").join(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--config").arg(self.path("zagent.yaml")).stdin(Stdio::null());
        // The systemd variables are not meant for this process.
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        command
    }

    /// Runs the program to its end.
    pub(crate) fn zagent(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program, which must succeed.
    pub(crate) fn fine(&self, args: &[&str]) -> String {
        let output = self.zagent(args);
        let [out, err] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(output.status.success(), "{args:?}: {}\n{out}\n{err}", output.status);
        out
    }

    /// Starts the daemon and waits until it responds.
    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// Same, with more or less output.
    pub(crate) fn start_with(&mut self, more: &[&str]) {
        let mut daemon = self.command(&["run"]);
        let daemon = daemon.args(more).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut daemon = daemon.spawn().unwrap();
        let (stderr, said) = (daemon.stderr.take().unwrap(), Arc::clone(&self.said));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut said = said.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        self.daemon = Some(daemon);
        eventually("the daemon answers", || {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.said());
            self.client().status().ok()
        });
    }

    /// Output of the daemon and its turns so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until the daemon prints this.
    pub(crate) fn says(&self, words: &str) {
        eventually(&format!("`{words}`"), || self.said().contains(words).then_some(()));
    }

    /// Process ID of the daemon.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.daemon.as_ref().unwrap().id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits until the daemon has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().unwrap();
        eventually("the daemon ends", || daemon.try_wait().unwrap())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        let root = zagent_config::paths::Paths::new(self.path("root"));
        root.socket()
    }

    pub(crate) fn client(&self) -> ApiClient {
        ApiClient::new(self.socket())
    }

    pub(crate) fn status(&self) -> AgentStatus {
        self.client().status().unwrap()
    }

    /// Waits until the status satisfies a condition.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {what}\n{status:#?}\n{}", self.said());
            std::thread::park_timeout(LOOK);
        }
    }

    /// Waits until the last run was one of this revision.
    pub(crate) fn converges(&self, revision: &str) -> AgentStatus {
        self.until(&format!("a run of {revision}"), |status| {
            let ran = status.last_run.as_ref().is_some_and(|run| run.revision == revision);
            status.is_current && ran && is_idle(status)
        })
    }

    /// Requests a run and waits for its end.
    pub(crate) fn run(&self, wish: &RunRequest) -> RequestResult {
        let ticket = self.client().trigger(wish).unwrap();
        self.client().wait(ticket).unwrap().unwrap()
    }

    /// Child processes that the daemon has not yet waited for.
    pub(crate) fn children(&self) -> Vec<i32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let children = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
        children
            .flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the daemon of the failed test said:\n{}", self.said());
        }
        let Some(mut daemon) = self.daemon.take() else { return };
        // A second signal kills its turn; then nothing is left behind.
        let pid = Pid::from_raw(i32::try_from(daemon.id()).unwrap());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let _ = kill(pid, Signal::SIGTERM);
            if !matches!(daemon.try_wait(), Ok(None)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(200));
        }
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
}

/// A states repository, and its server.
pub(crate) struct Upstream {
    pub(crate) repo: ScratchRepo,
    pub(crate) server: GitHttpServer,
    name: String,
}

impl Upstream {
    pub(crate) fn new() -> Self {
        let repo = ScratchRepo::new();
        let (parent, name) = (repo.path().parent().unwrap(), repo.path().file_name().unwrap());
        let (server, name) = (GitHttpServer::start(parent), name.to_str().unwrap().to_owned());
        Self { repo, server, name }
    }

    /// Configuration that follows it, with a poll every second.
    pub(crate) fn config(&self) -> String {
        self.config_as("honest")
    }

    /// Same, from a server with this behaviour.
    pub(crate) fn config_as(&self, mode: &str) -> String {
        let url = self.server.url(&format!("{mode}/{}/.git", self.name));
        format!("source: {{poll: 1s, timeout: 60s, remotes: [{{url: '{url}'}}]}}\n")
    }

    /// Pushes an SLS that every node gets; `$D` is the scratch directory of the node.
    pub(crate) fn push(&mut self, node: &Node, sls: &str) -> String {
        let sls = sls.replace("$D", node.path("host").to_str().unwrap());
        let blob = EntryKind::Blob;
        self.repo.commit(&[("states/top.sls", blob, "base: {'*': [all]}\n"), ("states/all.sls", blob, &sls)])
    }

    /// Pushes an SLS that writes this into `$D/marker`.
    pub(crate) fn push_marker(&mut self, node: &Node, text: &str) -> String {
        self.push(node, &marker(text))
    }

    /// Waits for this many more polls.
    pub(crate) fn polls(&self, many: usize) {
        let _ = self.server.log();
        let mut seen = 0;
        eventually("the remote is asked", || {
            seen += self.server.log().iter().filter(|line| line.starts_with("POST ")).count();
            (seen >= many).then_some(())
        });
    }
}

/// An SLS that writes this into `$D/marker`.
pub(crate) fn marker(text: &str) -> String {
    format!("marker: {{file.managed: [{{name: $D/marker, contents: {text}}}]}}\n")
}

/// An SLS whose command waits until the pipe `never` is written to, or the file `go` exists.
pub(crate) const STUCK: &str =
    "stuck: {cmd.run: [{name: 'echo $$ > $D/pid; test -e $D/go || read x < $D/never; echo x >> $D/ran'}]}\n";

/// True while the daemon runs nothing.
pub(crate) fn is_idle(status: &AgentStatus) -> bool {
    let doing = status.daemon.as_ref().map_or("", |daemon| &daemon.doing);
    !["a run", "a dry run", "checking"].iter().any(|words| doing.starts_with(words))
}
