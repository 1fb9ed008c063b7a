//! The watchdog: keeps the agent running and carries out rollouts of its binary.
//!
//! Law: the loop waits only for the next event, and every decision is on disk before it is carried out. So a crash, a
//! power failure or a kill at any point loses nothing: the next watchdog reads the state of the node and continues from
//! there (held by `a_power_failure_at_any_point_of_a_good_release_loses_nothing`,
//! `a_watchdog_killed_in_any_phase_is_replaced_by_one_that_continues`).
//!
//! [`crate::phase`] decides about rollouts and [`crate::supervise`] about the process; this module carries the
//! decisions out.

#![expect(
    clippy::disallowed_methods,
    reason = "the watchdog is an edge: it owns the clock, its processes and its files"
)]

mod actions;
mod event_loop;
mod heartbeats;
mod life;
mod lock;
mod net;
mod process;
mod readiness;
mod saved_files;
mod saved_state;
mod self_update;
mod socket;
mod startup;
mod status;

use std::collections::{BTreeMap, BTreeSet};
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
use crate::phase::{NodeState, RolloutOrder, SOAK_CHECK_INTERVAL};
use crate::record::RolloutRecord;
use crate::report::NodeReport;
use crate::slots::{AgentProgram, Slots};
use crate::supervise::{RestartPolicy, SupervisedProcess};
use zagent_config::json_file::JsonFileError;

pub use self::life::{LifeEvent, LifeEventKind, LifeGap, LifeHistory, VersionSpan};
pub use self::net::{ConnectLink, FetchBinary, FetchFailure, Readiness, RolloutLink};
pub use self::readiness::SocketReadiness;
pub use self::saved_files::file_problems;
pub use self::saved_state::{DamageNote, SavedWatchdog, WatchdogUpdate};
pub use self::socket::{RunningWatchdog, WatchdogRequest, WatchdogResponse, WatchdogStatus, send_request};

/// The intervals. A real host uses [`WatchdogPace::PRODUCTION`]; tests have less time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogPace {
    /// How the process is supervised.
    pub rules: RestartPolicy,
    /// How often the agent is checked for readiness, while that matters.
    pub readiness: Duration,
    /// How often records are polled.
    pub idle: Duration,
    /// The same while this node is part of a rollout.
    pub poll: Duration,
    /// How often a heartbeat is saved.
    pub heartbeat: Duration,
    /// How often a report is published without a change.
    pub publish: Duration,
    /// How long another watchdog may take to read its files.
    pub probe: Duration,
}

impl WatchdogPace {
    /// For a real host; `poll` and `publish` come from the configuration.
    pub const REAL: Self = Self {
        rules: RestartPolicy::PRODUCTION,
        readiness: SOAK_CHECK_INTERVAL,
        idle: Duration::from_secs(60),
        poll: Duration::from_secs(10),
        heartbeat: Duration::from_secs(30),
        publish: Duration::from_secs(15 * 60),
        probe: Duration::from_secs(30),
    };

    /// For tests with many nodes on one machine: about ten times as fast.
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

    /// For tests: everything about a hundred times as fast.
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

/// The receiver of the watchdog's status: the service manager.
pub trait ServiceNotifier {
    /// The watchdog is ready.
    fn ready(&self, words: &str);
    /// What it does.
    fn status(&self, words: &str);
    /// The keep-alive.
    fn keep_alive(&self);
    /// The minimum interval of keep-alives.
    fn keep_alive_interval(&self) -> Option<Duration>;
    /// It is stopping.
    fn stopping(&self, words: &str);
}

/// Everything that a watchdog needs.
pub struct WatchdogSetup<'a> {
    /// The node.
    pub id: NodeId,
    /// Its files.
    pub paths: Paths,
    /// This program: its path, and the version it reports.
    pub program: AgentProgram,
    /// The arguments of this program: a new watchdog gets the same.
    pub args: Vec<OsString>,
    /// The arguments with which a new watchdog only checks whether it could start.
    pub probe_args: Vec<OsString>,
    /// The arguments that start the agent.
    pub agent_args: Vec<OsString>,
    /// The intervals.
    pub pace: WatchdogPace,
    /// The seed that spreads the fleet over time.
    pub seed: u64,
    /// Its kernel and its machine.
    pub machine: (String, String),
    /// The facts for targets and strata.
    pub facts: BTreeMap<String, serde_json::Value>,
    /// Connects to the board.
    pub connect: ConnectLink,
    /// Fetches binaries.
    pub fetch: Arc<dyn FetchBinary>,
    /// Checks the agent.
    pub ready: Arc<dyn Readiness>,
    /// The receiver of its status.
    pub notifier: &'a dyn ServiceNotifier,
    /// Why a rollout may not switch this node now; `None` when it may.
    pub hold: &'a dyn Fn(&RolloutRecord, Timestamp) -> Option<String>,
}

/// Why the watchdog could not start.
#[derive(Debug, thiserror::Error)]
pub enum WatchdogError {
    /// Another one runs.
    #[error("another watchdog runs on this node: {holder}")]
    AlreadyRunning {
        /// Its description.
        holder: String,
    },
    /// One of its files cannot be used.
    #[error(transparent)]
    JsonFile(#[from] JsonFileError),
    /// A system call failed.
    #[error("cannot {act}")]
    System {
        /// The operation.
        act: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl WatchdogError {
    /// True when the system denied permission.
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

/// An event for the loop.
#[derive(Debug)]
enum WatchdogEvent {
    /// A process exited, and how.
    ProcessEnded(i32, String),
    /// The result of a readiness check.
    ReadinessChecked(i32, Result<(), String>),
    /// The result of a poll of the records.
    Polled(Result<PolledRecords, String>),
    /// A report was published.
    Published(Result<(), String>),
    /// A binary was fetched and installed.
    Fetched(Result<(), FetchFailure>),
    /// The result of a start check of another watchdog.
    Probed(Result<(), String>),
    /// A request on the socket.
    Request(WatchdogRequest, Sender<WatchdogResponse>),
    /// A signal.
    Signal(WatchdogSignal),
}

/// Signals for the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogSignal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
    /// SIGUSR1: the program was replaced, and the service manager starts the new one.
    StopWhenIdle,
}

/// The event queue.
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
    /// The callback for signals; false when there is no listener any more.
    pub fn signal_sender(&self) -> impl Fn(WatchdogSignal) -> bool + Send + Clone + 'static {
        let events = self.events.clone();
        move |signal| events.send(WatchdogEvent::Signal(signal)).is_ok()
    }
}

/// What a start was requested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingStart {
    /// The new version.
    Apply,
    /// The one before.
    Rollback,
}

/// A binary that a rollout needs and that is not on this host yet.
#[derive(Clone, Debug)]
struct WantedBinary {
    order: RolloutOrder,
    /// When it was requested.
    since: Timestamp,
    /// How many requests got no answer.
    tries: u32,
    /// When it is requested again.
    next: Instant,
}

/// A running fetch.
struct FetchInProgress {
    /// True when it is no longer needed.
    stop: Arc<AtomicBool>,
}

/// Operations that a new watchdog must complete before it is trusted.
#[derive(Debug, Default)]
struct SelfTest {
    polled: bool,
    published: bool,
    beaten: bool,
}

/// When work is due.
struct DueTimes {
    look: Instant,
    beat: Instant,
    /// The time of the first poll of the records.
    first: Instant,
    /// The time of the last poll.
    polled: Option<Instant>,
    /// When a report was last published, or tried.
    published: Option<Instant>,
}

/// Problems that are logged once, and again only after they were resolved.
#[derive(Debug, Default)]
struct LoggedProblems {
    board: Option<String>,
    records: Option<String>,
    beats: bool,
    disk: bool,
    copy: bool,
}

/// The watchdog.
struct Watchdog<'a> {
    setup: WatchdogSetup<'a>,
    /// The version of this process: that of the slot it runs from.
    own_version: String,
    slots: Slots,
    node: NodeState,
    /// The number of the last write of `node`.
    sequence: u64,
    /// True when the second copy of `node` is behind the first.
    is_copy_due: bool,
    saved: SavedWatchdog,
    process: SupervisedProcess,
    agent: Option<StartedAgent>,
    /// How the agent exited last.
    ended: Option<String>,
    /// The version that was started last.
    tried: Option<String>,
    /// Good versions that keep failing: another one runs in their place.
    failing: BTreeSet<String>,
    pending_start: Option<PendingStart>,
    wanted: Option<WantedBinary>,
    fetching: Option<FetchInProgress>,
    checking_readiness: bool,
    probing: bool,
    prune: bool,
    /// True while the state in memory is newer than the one on disk.
    is_node_unsaved: bool,
    /// Answers that could not be saved yet.
    unsaved_answers: Vec<crate::phase::NodeEvent>,
    /// The records of this component, from the last poll.
    records: Vec<RolloutRecord>,
    /// Polls in a row without the record of this node's rollout.
    missing_polls: u32,
    /// The operations that this process has completed.
    self_test: SelfTest,
    /// Why the requested switch is held.
    hold_reason: Option<String>,
    /// Notes for people: why it does not run the expected version, or the expected watchdog.
    notes: BTreeMap<&'static str, String>,
    net: NetThread,
    beats: HeartbeatStore,
    /// The last published report.
    published: Option<NodeReport>,
    due: DueTimes,
    logged: LoggedProblems,
    last_status: String,
    events: Sender<WatchdogEvent>,
    began: Instant,
    since: Timestamp,
    stopping: bool,
    /// True when the watchdog ends with the agent, which ends with its run.
    leaving: bool,
}

/// Supervises the agent until it is asked to stop.
///
/// # Errors
/// Fails when another watchdog runs, and when a system call that it needs fails.
pub fn run(setup: WatchdogSetup<'_>, inbox: WatchdogInbox) -> Result<(), WatchdogError> {
    let _lock = lock::acquire_lock(&setup.paths.watchdog_lock())?;
    let mut watchdog = Watchdog::from_setup(setup, inbox.events)?;
    watchdog.run_loop(&inbox.receiver);
    watchdog.report_stop(&inbox.receiver, Timestamp::now());
    watchdog.shut_down();
    Ok(())
}

/// Checks whether a watchdog could start: reads its files.
///
/// # Errors
/// Fails when they cannot be read.
pub fn probe(paths: &Paths) -> Result<(), WatchdogError> {
    saved_files::read_sealed::<NodeState>(&paths.phase())?;
    saved_files::read_sealed::<SavedWatchdog>(&paths.watchdog())?;
    Ok(())
}

/// The status without a running watchdog: what the next one would start with.
///
/// # Errors
/// Fails when the files may not be read.
pub fn status_from_files(paths: &Paths, built_in: AgentProgram) -> Result<WatchdogStatus, JsonFileError> {
    let (now, version) = (Timestamp::now(), built_in.version.clone());
    let slots = Slots::new(paths.slots(), built_in.clone());
    let sequence = saved_files::read_watchdog(paths)?.0.unwrap_or_default().sequence;
    let node = saved_files::read_node(paths, &slots, sequence, now)?.node;
    let life = HeartbeatStore::new(paths.heartbeats()).read().unwrap_or_default();
    let failures = life::crash_streak(&life.events, now, &RestartPolicy::PRODUCTION);
    Ok(WatchdogStatus {
        last_seen: life.last_seen(),
        watchdog: None,
        version: node.current_version().to_owned(),
        node,
        child: None,
        failures,
        degraded: None,
        next_retry: None,
        notes: file_problems(paths, built_in, now),
        built_in: Some(version),
    })
}

/// The history of the agent without a running watchdog, from the heartbeats.
///
/// # Errors
/// Fails when the heartbeats cannot be read.
pub fn history_from_files(paths: &Paths, pace: &WatchdogPace) -> Result<LifeHistory, String> {
    let life = HeartbeatStore::new(paths.heartbeats()).read()?;
    Ok(life::summarize(&life.beats, life.events, pace.heartbeat, (Timestamp::now(), &pace.rules)))
}

/// An error with all its causes, on one line.
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

/// The path that the program of a slot would have, derived from its path.
fn slot_from_path(paths: &Paths, program: &std::path::Path) -> Option<String> {
    let slots = std::fs::canonicalize(paths.slots()).unwrap_or_else(|_| paths.slots());
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| PathBuf::from(program));
    let version = program.strip_prefix(slots).ok()?.parent()?.to_str()?.to_owned();
    crate::slots::is_version(&version).then_some(version)
}
