//! The watchdog: keeps the agent up and carries out rollouts of its binary.
//!
//! Law: the loop waits for nothing but the next event, and what it decides is on the disk before it is done. So a crash, a
//! power cut or a kill at any point loses nothing: whoever comes next reads where the node stood and goes on from there.
//!
//! [`crate::phase`] decides about rollouts and [`crate::supervise`] about the process; here is only what carries them out.

mod actions;
mod event_loop;
mod heartbeats;
mod lock;
mod net;
mod process;
mod readiness;
mod saved_state;
mod self_update;
mod socket;
mod startup;
mod status;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::ids::NodeId;
use zagent_config::paths::Paths;

use self::heartbeats::HeartbeatStore;
use self::net::{NetThread, PolledRecords};
use self::saved_state::StartedAgent;
use crate::json_file::JsonFileError;
use crate::phase::{NodeState, RolloutOrder, SOAK_CHECK_INTERVAL};
use crate::record::RolloutRecord;
use crate::report::NodeReport;
use crate::slots::{AgentProgram, Slots};
use crate::supervise::{RestartPolicy, SupervisedProcess};

pub use self::net::{ConnectLink, FetchBinary, FetchFailure, Readiness, RolloutLink};
pub use self::readiness::SocketReadiness;
pub use self::saved_state::{SavedWatchdog, WatchdogUpdate};
pub use self::socket::{RunningWatchdog, WatchdogRequest, WatchdogResponse, WatchdogStatus, send_request};

/// How fast everything goes. A real host has [`WatchdogPace::PRODUCTION`]; tests have less time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogPace {
    /// How a process is kept up.
    pub rules: RestartPolicy,
    /// How often the agent is asked whether it is ready, while that counts.
    pub readiness: Duration,
    /// How often records are asked for.
    pub idle: Duration,
    /// The same while this node is part of a rollout.
    pub poll: Duration,
    /// How often a heartbeat is kept.
    pub heartbeat: Duration,
    /// How often a report is published without a change.
    pub publish: Duration,
    /// How long another watchdog may take to read its files.
    pub probe: Duration,
}

impl WatchdogPace {
    /// As on a real host; `poll` and `publish` are the configuration's.
    pub const REAL: Self = Self {
        rules: RestartPolicy::PRODUCTION,
        readiness: SOAK_CHECK_INTERVAL,
        idle: Duration::from_secs(60),
        poll: Duration::from_secs(10),
        heartbeat: Duration::from_secs(30),
        publish: Duration::from_secs(15 * 60),
        probe: Duration::from_secs(30),
    };

    /// For tests of many nodes on one machine: about ten times as fast.
    pub const BRISK: Self = Self {
        rules: RestartPolicy {
            base_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(2),
            degraded_delay: Duration::from_secs(10),
            healthy_after: Duration::from_secs(3),
            grace: Duration::from_secs(20),
            degraded_after: RestartPolicy::PRODUCTION.degraded_after,
        },
        readiness: Duration::from_secs(3),
        idle: Duration::from_secs(2),
        poll: Duration::from_secs(1),
        heartbeat: Duration::from_secs(5),
        publish: Duration::from_secs(10),
        probe: Duration::from_secs(60),
    };

    /// For tests: everything a hundred times as fast, more or less.
    pub const FAST: Self = Self {
        rules: RestartPolicy {
            base_delay: Duration::from_millis(10),
            max_delay: Duration::from_millis(200),
            degraded_delay: Duration::from_millis(500),
            healthy_after: Duration::from_millis(300),
            grace: Duration::from_secs(5),
            degraded_after: RestartPolicy::PRODUCTION.degraded_after,
        },
        readiness: Duration::from_millis(100),
        idle: Duration::from_millis(200),
        poll: Duration::from_millis(100),
        heartbeat: Duration::from_millis(300),
        publish: Duration::from_millis(500),
        probe: Duration::from_secs(10),
    };
}

/// Who is told how the watchdog is: the service manager.
pub trait ServiceNotifier {
    /// It is up.
    fn ready(&self, words: &str);
    /// What it does.
    fn status(&self, words: &str);
    /// It still turns.
    fn keep_alive(&self);
    /// How often that should be said at least.
    fn keep_alive_interval(&self) -> Option<Duration>;
    /// It is about to end.
    fn stopping(&self, words: &str);
}

/// What a watchdog is made from.
pub struct WatchdogSetup<'a> {
    /// The node.
    pub id: NodeId,
    /// Its files.
    pub paths: Paths,
    /// This program: where it is, and the version it says it has.
    pub program: AgentProgram,
    /// What this program was started with: a new watchdog gets the same.
    pub args: Vec<OsString>,
    /// What makes a new watchdog only look whether it could begin.
    pub probe_args: Vec<OsString>,
    /// What makes the program an agent.
    pub agent_args: Vec<OsString>,
    /// How fast.
    pub pace: WatchdogPace,
    /// What spreads the fleet over time.
    pub seed: u64,
    /// Its kernel and its machine.
    pub machine: (String, String),
    /// The facts that targets and strata ask for.
    pub facts: BTreeMap<String, serde_json::Value>,
    /// Reaches the board.
    pub connect: ConnectLink,
    /// Fetches binaries.
    pub fetch: Arc<dyn FetchBinary>,
    /// Asks the agent.
    pub ready: Arc<dyn Readiness>,
    /// Who is told how it is.
    pub notifier: &'a dyn ServiceNotifier,
    /// Why a rollout may not switch this node now; none when it may.
    pub hold: &'a dyn Fn(&RolloutRecord, Timestamp) -> Option<String>,
}

/// Why there is no watchdog.
#[derive(Debug, thiserror::Error)]
pub enum WatchdogError {
    /// There is one already.
    #[error("another watchdog runs on this node: {holder}")]
    AlreadyRunning {
        /// Who, in words.
        holder: String,
    },
    /// A file of its own cannot be used.
    #[error(transparent)]
    JsonFile(#[from] JsonFileError),
    /// The system says no.
    #[error("cannot {act}")]
    System {
        /// What was tried.
        act: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl WatchdogError {
    /// True when the system does not let us.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match self {
            Self::AlreadyRunning { .. } => false,
            Self::JsonFile(error) => error.is_permission(),
            Self::System { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
        }
    }
}

fn system_error(act: impl Into<String>) -> impl FnOnce(std::io::Error) -> WatchdogError {
    let act = act.into();
    move |source| WatchdogError::System { act, source }
}

/// Something that the loop must answer.
#[derive(Debug)]
enum WatchdogEvent {
    /// A process ended, and how.
    ProcessEnded(i32, String),
    /// The agent was asked whether it is ready.
    ReadinessChecked(i32, Result<(), String>),
    /// The records were asked for.
    Polled(Result<PolledRecords, String>),
    /// A report was published.
    Published(Result<(), String>),
    /// A binary was fetched and installed.
    Fetched(Result<(), FetchFailure>),
    /// Another watchdog was asked whether it could begin.
    Probed(Result<(), String>),
    /// Someone asks on the socket.
    Request(WatchdogRequest, Sender<WatchdogResponse>),
    /// A signal.
    Signal(WatchdogSignal),
}

/// What the system tells the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogSignal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Where events come in.
#[derive(Debug)]
pub struct WatchdogInbox {
    events: Sender<WatchdogEvent>,
    receiver: Receiver<WatchdogEvent>,
}

impl Default for WatchdogInbox {
    fn default() -> Self {
        let (events, heard) = channel();
        Self { events, receiver: heard }
    }
}

impl WatchdogInbox {
    /// What whoever hears signals calls; false when nobody listens any more.
    pub fn signal_sender(&self) -> impl Fn(WatchdogSignal) -> bool + Send + Clone + 'static {
        let events = self.events.clone();
        move |signal| events.send(WatchdogEvent::Signal(signal)).is_ok()
    }
}

/// What a start is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingStart {
    /// The new version.
    Apply,
    /// The one before.
    Rollback,
}

/// A binary that a rollout asks for and that is not here yet.
#[derive(Clone, Debug)]
struct WantedBinary {
    order: RolloutOrder,
    /// When it was asked for.
    since: Timestamp,
    /// How often nobody answered.
    tries: u32,
    /// When it is asked for again.
    next: Instant,
}

/// A fetch that is under way.
struct FetchInProgress {
    /// True when nobody wants it any more.
    stop: Arc<AtomicBool>,
}

/// Acts that a new watchdog must have lived through before it is trusted.
#[derive(Debug, Default)]
struct SelfTest {
    polled: bool,
    published: bool,
    beaten: bool,
}

/// When things are due.
struct DueTimes {
    look: Instant,
    beat: Instant,
    /// When the records are asked for the first time.
    first: Instant,
    /// When they were asked for last.
    polled: Option<Instant>,
    /// When a report was published last, or tried to be.
    published: Option<Instant>,
}

/// What is told once and again only after it was well.
#[derive(Debug, Default)]
struct LoggedProblems {
    board: Option<String>,
    records: Option<String>,
    beats: bool,
    disk: bool,
}

/// The watchdog.
struct Watchdog<'a> {
    setup: WatchdogSetup<'a>,
    /// The version of this process: that of the slot it runs from.
    own_version: String,
    slots: Slots,
    node: NodeState,
    saved: SavedWatchdog,
    process: SupervisedProcess,
    agent: Option<StartedAgent>,
    /// How the agent ended last.
    ended: Option<String>,
    pending_start: Option<PendingStart>,
    wanted: Option<WantedBinary>,
    fetching: Option<FetchInProgress>,
    checking_readiness: bool,
    probing: bool,
    prune: bool,
    /// Answers that could not be written down yet.
    unsaved_answers: Vec<crate::phase::NodeEvent>,
    /// The records of this component, as of the last poll.
    records: Vec<RolloutRecord>,
    /// Polls in a row that did not find the record of the rollout that this node is in.
    missing_polls: u32,
    /// What this process has lived through, for its proof.
    self_test: SelfTest,
    /// Why the switch that a record asks for is held up.
    hold_reason: Option<String>,
    /// What someone should know: why it does not run what it should, or not the watchdog that it should.
    notes: BTreeMap<&'static str, String>,
    net: NetThread,
    beats: HeartbeatStore,
    /// What the board was told last.
    published: Option<NodeReport>,
    due: DueTimes,
    logged: LoggedProblems,
    last_status: String,
    events: Sender<WatchdogEvent>,
    began: Instant,
    since: Timestamp,
    stopping: bool,
}

/// Looks after the agent until it is told to stop.
///
/// # Errors
/// Fails when another watchdog runs, and when the system refuses what it needs.
pub fn run(setup: WatchdogSetup<'_>, inbox: WatchdogInbox) -> Result<(), WatchdogError> {
    let _lock = lock::acquire_lock(&setup.paths.watchdog_lock())?;
    let mut watchdog = Watchdog::from_setup(setup, inbox.events)?;
    watchdog.run_loop(&inbox.receiver);
    watchdog.shut_down();
    Ok(())
}

/// Looks whether a watchdog could begin: reads its files.
///
/// # Errors
/// Fails when they cannot be read.
pub fn probe(paths: &Paths) -> Result<(), WatchdogError> {
    crate::json_file::read::<NodeState>(&paths.phase())?;
    crate::json_file::read::<SavedWatchdog>(&paths.watchdog())?;
    Ok(())
}

/// What can be told without a watchdog.
///
/// # Errors
/// Fails when the files cannot be read.
pub fn status_from_files(paths: &Paths, built_in: AgentProgram) -> Result<WatchdogStatus, JsonFileError> {
    let version = Slots::new(paths.slots(), built_in).current();
    let node = crate::json_file::read::<NodeState>(&paths.phase())?
        .unwrap_or_else(|| NodeState::with_version(version));
    Ok(WatchdogStatus {
        watchdog: None,
        version: node.current_version().to_owned(),
        node,
        child: None,
        failures: 0,
        degraded: None,
        next_retry: None,
        notes: Vec::new(),
    })
}

/// An error with all that caused it, in one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

/// Where the program of a slot would be, told from its path.
fn slot_from_path(paths: &Paths, program: &std::path::Path) -> Option<String> {
    let slots = std::fs::canonicalize(paths.slots()).unwrap_or_else(|_| paths.slots());
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| PathBuf::from(program));
    let version = program.strip_prefix(slots).ok()?.parent()?.to_str()?.to_owned();
    crate::slots::is_version(&version).then_some(version)
}
