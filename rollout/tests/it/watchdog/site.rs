//! A node in a directory: a real watchdog process, agents that are shell scripts, and a board that is two files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::{Pid, Signal as Told, kill_process};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGUSR1};
use zagent_config::ids::{NodeId, RolloutId};
use zagent_config::paths::Paths;
use zagent_rollout::Span;
use zagent_rollout::board::BoardError;
use zagent_rollout::record::{
    Artifact, BatchPhase, Canary, Component, NodeProgress, NodeStatus, RECORD_SCHEMA, RolloutMode,
    RolloutProfile, RolloutRecord, RolloutStatus,
};
use zagent_rollout::report::NodeReport;
use zagent_rollout::slots::AgentProgram;
use zagent_rollout::supervise::RestartPolicy;
use zagent_rollout::watchdog::{
    self, FetchBinary, FetchFailure, Readiness, RolloutLink, ServiceNotifier, WatchdogInbox, WatchdogPace,
    WatchdogRequest, WatchdogResponse, WatchdogSetup, WatchdogSignal, WatchdogStatus,
};

/// The directory of the node of a watchdog process.
const ROOT: &str = "WATCHDOG_ROOT";
/// The program that the process was started as, and its version.
const PROGRAM: &str = "WATCHDOG_PROGRAM";
const VERSION: &str = "WATCHDOG_VERSION";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The behaviour of a fake agent.
pub(crate) const GOOD: &str = "echo $VERSION > $ROOT/ready";
/// It exits at once.
pub(crate) const EXITS: &str = "rm -f $ROOT/ready; exit 3";
/// It is never ready.
pub(crate) const UNREADY: &str = "rm -f $ROOT/ready";
/// It is never ready, and does not stop when asked.
pub(crate) const HANGS: &str = "rm -f $ROOT/ready; trap '' TERM";

/// A node.
pub(crate) struct Site {
    dir: tempfile::TempDir,
    watchdog: Option<Child>,
    points: Option<String>,
    serial: u64,
}

impl Site {
    /// A node with 0.1.0 installed, whose watchdog is not started yet.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = Self { dir, watchdog: None, points: None, serial: 0 };
        fs::create_dir(site.path("releases")).unwrap();
        site.write("records.json", b"[]");
        site.release("0.1.0", GOOD, "");
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths::new(self.path("root"))
    }

    /// Replaces a file atomically: the watchdog may read it at any time.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(".new"), bytes).unwrap();
        fs::rename(self.path(".new"), self.path(name)).unwrap();
    }

    pub(crate) fn program(&self, version: &str) -> PathBuf {
        self.path("releases").join(version)
    }

    /// The program of the package.
    pub(crate) fn built_in(&self) -> AgentProgram {
        AgentProgram { version: "0.1.0".into(), path: self.program("0.1.0") }
    }

    /// Creates a release: what it does as an agent, and before it is a watchdog.
    pub(crate) fn release(&self, version: &str, agent: &str, watchdog: &str) {
        let script = format!(
            "#!/bin/sh\n\
             ROOT={root}; VERSION={version}\n\
             if [ \"$1\" = watchdog ]; then\n\
             [ \"$2\" = --probe ] && exit 0\n\
             {watchdog}\n\
             {PROGRAM}=\"$0\" {VERSION}=$VERSION exec {test} --exact watchdog::as_watchdog --nocapture --test-threads=1\n\
             fi\n\
             trap 'rm -f $ROOT/ready; kill $!; exit 0' TERM\n\
             trap 'echo $VERSION > $ROOT/reloaded' HUP\n\
             trap 'touch $ROOT/asked; read x < $ROOT/run-ends; kill $!; exit 0' USR1\n\
             {agent}\n\
             echo $$ $VERSION >> $ROOT/starts\n\
             while :; do sleep 1000 & wait $!; done\n",
            root = self.dir.path().display(),
            test = std::env::current_exe().unwrap().display(),
        );
        fs::write(self.program(version), script).unwrap();
        fs::set_permissions(self.program(version), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts the installed watchdog, as a service manager would.
    pub(crate) fn start(&mut self) {
        self.start_as("0.1.0");
    }

    /// The same when another version is installed.
    pub(crate) fn start_as(&mut self, version: &str) {
        let mut command = Command::new(self.program(version));
        command.arg("watchdog").env(ROOT, self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        command.stderr(log).env_remove("FAILPOINTS");
        if let Some(points) = self.points.take() {
            command.env("FAILPOINTS", points);
        }
        self.watchdog = Some(spawned(&mut command));
    }

    /// Starts another watchdog beside the running one, and waits for its exit: the status and the output.
    pub(crate) fn second(&self) -> (std::process::ExitStatus, String) {
        let log = self.path("second");
        let mut command = Command::new(self.program("0.1.0"));
        command.arg("watchdog").env(ROOT, self.dir.path()).env_remove("FAILPOINTS").stdin(Stdio::null());
        let mut child = spawned(command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()));
        let until = Instant::now() + PATIENCE;
        let ended = loop {
            if let Some(ended) = child.try_wait().unwrap() {
                break ended;
            }
            if Instant::now() > until {
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        (ended, fs::read_to_string(log).unwrap())
    }

    /// The next watchdog dies at this point.
    pub(crate) fn die_at(&mut self, points: String) {
        self.points = Some(points);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.watchdog.as_ref().unwrap().id()
    }

    /// Starts the installed watchdog again when the running one has died; true when it had.
    pub(crate) fn revive(&mut self) -> bool {
        let ended = self.watchdog.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
        if ended {
            self.start();
        }
        ended
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        let mut child = self.watchdog.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Everything dies at once: the watchdog and all agents.
    pub(crate) fn power_cut(&mut self) {
        self.kill();
        for (pid, _) in self.living() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Told::KILL);
        }
        self.until("the end of everything", |site| site.living().is_empty().then_some(()));
    }

    pub(crate) fn signal(&self, signal: Told) {
        kill_process(Pid::from_child(self.watchdog.as_ref().unwrap()), signal).unwrap();
    }

    /// Waits for the exit of the watchdog.
    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        self.until("its end", |site| site.watchdog.as_mut().unwrap().try_wait().unwrap())
    }

    /// Waits until a condition is true.
    pub(crate) fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(seen) = look(self) {
                return seen;
            }
            let seen = || format!("{:#?}\n{:?} of {:?}", self.status(), self.living(), self.starts());
            assert!(Instant::now() < until, "timed out waiting for {what}: {}", seen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn ask(&self, ask: &WatchdogRequest) -> Option<WatchdogResponse> {
        watchdog::send_request(&self.paths().watchdog_socket(), ask).ok()
    }

    pub(crate) fn status(&self) -> Option<WatchdogStatus> {
        match self.ask(&WatchdogRequest::Status)? {
            WatchdogResponse::Status(status) => Some(*status),
            _ => None,
        }
    }

    /// Waits until the status matches.
    pub(crate) fn status_with(
        &mut self,
        what: &str,
        mut is: impl FnMut(&WatchdogStatus) -> bool,
    ) -> WatchdogStatus {
        self.until(what, |site| site.status().filter(&mut is))
    }

    pub(crate) fn report(&self) -> Option<NodeReport> {
        serde_json::from_slice(&fs::read(self.path("report.json")).ok()?).ok()
    }

    /// The agents that were ever started, with their versions.
    pub(crate) fn starts(&self) -> Vec<(i32, String)> {
        let text = fs::read_to_string(self.path("starts")).unwrap_or_default();
        let parse = |line: &str| {
            let (pid, version) = line.split_once(' ')?;
            Some((pid.parse().ok()?, version.to_owned()))
        };
        text.lines().filter_map(parse).collect()
    }

    /// The agents that still run.
    pub(crate) fn living(&self) -> Vec<(i32, String)> {
        let place = self.dir.path().display().to_string();
        let lives = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&place)
        };
        self.starts().into_iter().filter(|(pid, _)| lives(*pid)).collect()
    }

    /// Writes the present record of a rollout.
    pub(crate) fn order(&mut self, to: &str, phase: BatchPhase, change: impl FnOnce(&mut RolloutRecord)) {
        self.serial += 1;
        let mut record = record(to, &self.program(to), phase, self.serial);
        change(&mut record);
        self.write("records.json", &serde_json::to_vec(&[record]).unwrap());
    }

    /// Drives a rollout as a driver does, from the node's reports, until it has ended there; a watchdog that dies is
    /// started again. Returns the last report.
    pub(crate) fn roll_out(&mut self, to: &str) -> NodeReport {
        use zagent_rollout::report::NodeActivity;
        let mut phase = BatchPhase::Prepare;
        self.order(to, phase, |_| ());
        self.until("the end of the rollout", |site| {
            site.revive();
            let report = site.report()?;
            let taken = report.taken.as_ref().filter(|taken| taken.rollout == id(to))?;
            let next = match report.state {
                NodeActivity::Staged => BatchPhase::Apply,
                NodeActivity::Soaking if taken.ready_since.is_some() => BatchPhase::Confirm,
                _ => phase,
            };
            if next > phase {
                phase = next;
                site.order(to, phase, |_| ());
            }
            taken.outcome.is_some().then_some(report)
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut child) = self.watchdog.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for (pid, _) in self.living() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Told::KILL);
        }
    }
}

/// Starts a program that was just written: a child that another thread starts at this moment has it open for writing
/// until it calls exec.
fn spawned(command: &mut Command) -> Child {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            started => return started.unwrap(),
        }
    }
}

pub(crate) fn id(to: &str) -> RolloutId {
    format!("to-{to}").parse().unwrap()
}

pub(crate) fn node() -> NodeId {
    "web-01".parse().unwrap()
}

fn record(to: &str, program: &Path, phase: BatchPhase, serial: u64) -> RolloutRecord {
    let bytes = fs::read(program).unwrap_or_default();
    let status = NodeStatus::Waiting;
    RolloutRecord {
        schema: RECORD_SCHEMA,
        id: id(to),
        component: Component::Agent,
        to: to.into(),
        from: None,
        target: "*".into(),
        batch_size: "1".parse().unwrap(),
        canary: Canary::default(),
        soak_time: Span(Duration::ZERO),
        batch_pause: Span::default(),
        max_failed: 1,
        max_silent: 0,
        min_protocol: 0,
        dry_run: false,
        mode: RolloutMode::Driver,
        profile: RolloutProfile::Normal,
        anyway: false,
        artifacts: vec![Artifact {
            os: "linux".into(),
            arch: "here".into(),
            size: bytes.len() as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
            url: Some(program.display().to_string()),
            reference: None,
            signature: None,
            min_protocol: 0,
        }],
        batches: vec![vec![node()]],
        current_batch: 0,
        phase,
        phase_since: None,
        nodes: BTreeMap::from([(node(), NodeProgress { status, ..NodeProgress::default() })]),
        failed: 0,
        state: RolloutStatus::Rolling,
        reason: None,
        driver: None,
        created: Timestamp::UNIX_EPOCH,
        unknown_fields: BTreeMap::new(),
        fleet: None,
        // It was ordered long ago, so that every start sees the same order.
        expires: Some(Timestamp::MAX),
        postponed: vec![],
        sealed: None,
        by: None,
        started: None,
        finished: None,
        serial,
    }
}

/// In the process of a watchdog: supervises the node until it is asked to stop.
pub(crate) fn watchdog_of_this_process() {
    let Some(place) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let scenario = fail::FailScenario::setup();
    let inbox = WatchdogInbox::default();
    let signals = [
        (SIGTERM, WatchdogSignal::Stop),
        (SIGHUP, WatchdogSignal::Reload),
        (SIGUSR1, WatchdogSignal::StopWhenIdle),
    ];
    for (number, signal) in signals {
        let (told, mut bell) = std::os::unix::net::UnixStream::pair().unwrap();
        signal_hook::low_level::pipe::register(number, told).unwrap();
        let ring = inbox.signal_sender();
        std::thread::spawn(move || {
            while matches!(std::io::Read::read(&mut bell, &mut [0]), Ok(1)) && ring(signal) {}
        });
    }
    let board = Arc::new(place.clone());
    let connect = Arc::clone(&board);
    let program = std::env::var_os(PROGRAM).map(PathBuf::from).unwrap();
    let version = std::env::var(VERSION).unwrap();
    // Without time pressure, the test waits for an agent that does not stop.
    let grace = if place.join("patient").exists() { PATIENCE } else { Duration::from_millis(500) };
    let rules = RestartPolicy { grace, ..WatchdogPace::FAST.rules };
    let setup = WatchdogSetup {
        id: node(),
        paths: Paths::new(place.join("root")),
        program: AgentProgram { version, path: program },
        args: vec!["watchdog".into()],
        probe_args: vec!["watchdog".into(), "--probe".into()],
        agent_args: vec!["run".into()],
        pace: WatchdogPace { rules, readiness: Duration::from_millis(50), ..WatchdogPace::FAST },
        seed: 0,
        machine: ("linux".into(), "here".into()),
        facts: BTreeMap::new(),
        connect: Box::new(move || Ok(Box::new(Files(Arc::clone(&connect))) as Box<dyn RolloutLink>)),
        fetch: Arc::new(Files(Arc::clone(&board))),
        ready: Arc::new(Files(board)),
        notifier: &Mute,
        hold: &|_, _| place.join("paused").exists().then(|| "it is paused".into()),
    };
    let ended = watchdog::run(setup, inbox);
    scenario.teardown();
    ended.unwrap();
}

/// Everything outside the node, as files.
struct Files(Arc<PathBuf>);

impl RolloutLink for Files {
    fn poll(&mut self) -> Result<Vec<RolloutRecord>, BoardError> {
        self.reach()?;
        Ok(serde_json::from_slice(&fs::read(self.0.join("records.json")).unwrap()).unwrap())
    }

    fn publish(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        self.reach()?;
        let new = self.0.join(".report");
        fs::write(&new, serde_json::to_vec(report).unwrap()).unwrap();
        fs::rename(new, self.0.join("report.json")).unwrap();
        Ok(())
    }
}

impl Files {
    fn reach(&self) -> Result<(), BoardError> {
        let source = || std::io::Error::other("the cable is out").into();
        let is_offline = self.0.join("offline").exists();
        if is_offline {
            Err(BoardError::Unreachable { board: "files".into(), source: source() })
        } else {
            Ok(())
        }
    }
}

impl FetchBinary for Files {
    fn fetch(
        &self,
        _: &RolloutRecord,
        artifact: &Artifact,
        into: &Path,
        _: &AtomicBool,
    ) -> Result<(), FetchFailure> {
        if self.0.join("jammed").exists() {
            return Err(FetchFailure { why: "the line is jammed".into(), transient: true });
        }
        while self.0.join("slow").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let from = artifact.url.as_ref().unwrap();
        fs::copy(from, into)
            .map(drop)
            .map_err(|error| FetchFailure::permanent(format!("cannot fetch `{from}`: {error}")))
    }
}

impl Readiness for Files {
    fn ready(&self) -> Result<(), String> {
        if self.0.join("ready").exists() { Ok(()) } else { Err("it is not ready".into()) }
    }
}

struct Mute;

impl ServiceNotifier for Mute {
    fn ready(&self, _: &str) {}
    fn status(&self, _: &str) {}
    fn keep_alive(&self) {}
    fn keep_alive_interval(&self) -> Option<Duration> {
        None
    }
    fn stopping(&self, _: &str) {}
}
