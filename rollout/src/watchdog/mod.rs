//! The watchdog: keeps the agent up and carries out rollouts of its binary.
//!
//! Law: the loop waits for nothing but the next event, and what it decides is on the disk before it is done. So a crash, a
//! power cut or a kill at any point loses nothing: whoever comes next reads where the node stood and goes on from there.
//!
//! [`crate::phase`] decides about rollouts and [`crate::supervise`] about the process; here is only what carries them out.

mod act;
mod beats;
mod begin;
mod child;
mod lock;
mod net;
mod ready;
mod renew;
mod round;
mod socket;
mod state;
mod tell;

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

use self::beats::Beats;
use self::net::{Found, Net};
use self::state::Held;
use crate::kept::KeptError;
use crate::phase::{LOOK_EVERY, Node, Order};
use crate::record::Record;
use crate::report::Report;
use crate::slots::{Program, Slots};
use crate::supervise::{Rules, Supervised};

pub use self::net::{Connect, Fetch, Link, Readiness, Unfetched};
pub use self::ready::SocketReadiness;
pub use self::socket::{Answer, Ask, Status, Watch, ask};
pub use self::state::{Kept, Renewal};

/// How fast everything goes. A real host has [`Pace::REAL`]; tests have less time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How a process is kept up.
    pub rules: Rules,
    /// How often the agent is asked whether it is ready, while that counts.
    pub look: Duration,
    /// How often records are asked for.
    pub idle: Duration,
    /// The same while this node is part of a rollout.
    pub poll: Duration,
    /// How often a heartbeat is kept.
    pub beat: Duration,
    /// How often a report is published without a change.
    pub publish: Duration,
    /// How long another watchdog may take to read its files.
    pub probe: Duration,
}

impl Pace {
    /// As on a real host; `poll` and `publish` are the configuration's.
    pub const REAL: Self = Self {
        rules: Rules::REAL,
        look: LOOK_EVERY,
        idle: Duration::from_secs(60),
        poll: Duration::from_secs(10),
        beat: Duration::from_secs(30),
        publish: Duration::from_secs(15 * 60),
        probe: Duration::from_secs(30),
    };

    /// For tests of many nodes on one machine: about ten times as fast.
    pub const BRISK: Self = Self {
        rules: Rules {
            unit: Duration::from_millis(100),
            most: Duration::from_secs(2),
            slow: Duration::from_secs(10),
            healthy: Duration::from_secs(3),
            grace: Duration::from_secs(20),
            degraded_after: Rules::REAL.degraded_after,
        },
        look: Duration::from_secs(3),
        idle: Duration::from_secs(2),
        poll: Duration::from_secs(1),
        beat: Duration::from_secs(5),
        publish: Duration::from_secs(10),
        probe: Duration::from_secs(60),
    };

    /// For tests: everything a hundred times as fast, more or less.
    pub const FAST: Self = Self {
        rules: Rules {
            unit: Duration::from_millis(10),
            most: Duration::from_millis(200),
            slow: Duration::from_millis(500),
            healthy: Duration::from_millis(300),
            grace: Duration::from_secs(5),
            degraded_after: Rules::REAL.degraded_after,
        },
        look: Duration::from_millis(100),
        idle: Duration::from_millis(200),
        poll: Duration::from_millis(100),
        beat: Duration::from_millis(300),
        publish: Duration::from_millis(500),
        probe: Duration::from_secs(10),
    };
}

/// Who is told how the watchdog is: the service manager.
pub trait Voice {
    /// It is up.
    fn ready(&self, words: &str);
    /// What it does.
    fn status(&self, words: &str);
    /// It still turns.
    fn alive(&self);
    /// How often that should be said at least.
    fn alive_every(&self) -> Option<Duration>;
    /// It is about to end.
    fn stopping(&self, words: &str);
}

/// What a watchdog is made from.
pub struct Setup<'a> {
    /// The node.
    pub id: NodeId,
    /// Its files.
    pub paths: Paths,
    /// This program: where it is, and the version it says it has.
    pub program: Program,
    /// What this program was started with: a new watchdog gets the same.
    pub args: Vec<OsString>,
    /// What makes a new watchdog only look whether it could begin.
    pub probe_args: Vec<OsString>,
    /// What makes the program an agent.
    pub agent_args: Vec<OsString>,
    /// How fast.
    pub pace: Pace,
    /// What spreads the fleet over time.
    pub seed: u64,
    /// Its kernel and its machine.
    pub machine: (String, String),
    /// The facts that targets and strata ask for.
    pub facts: BTreeMap<String, serde_json::Value>,
    /// Reaches the board.
    pub connect: Connect,
    /// Fetches binaries.
    pub fetch: Arc<dyn Fetch>,
    /// Asks the agent.
    pub ready: Arc<dyn Readiness>,
    /// Who is told how it is.
    pub voice: &'a dyn Voice,
    /// Why a rollout may not switch this node now; none when it may.
    pub hold: &'a dyn Fn(&Record, Timestamp) -> Option<String>,
}

/// Why there is no watchdog.
#[derive(Debug, thiserror::Error)]
pub enum WatchdogError {
    /// There is one already.
    #[error("another watchdog looks after this node: {holder}")]
    Taken {
        /// Who, in words.
        holder: String,
    },
    /// A file of its own cannot be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
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
            Self::Taken { .. } => false,
            Self::Kept(error) => error.is_permission(),
            Self::System { source, .. } => matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem),
        }
    }
}

fn system(act: impl Into<String>) -> impl FnOnce(std::io::Error) -> WatchdogError {
    let act = act.into();
    move |source| WatchdogError::System { act, source }
}

/// Something that the loop must answer.
#[derive(Debug)]
enum Event {
    /// A process ended, and how.
    Ended(i32, String),
    /// The agent was asked whether it is ready.
    Looked(i32, Result<(), String>),
    /// The records were asked for.
    Polled(Result<Found, String>),
    /// A report was published.
    Published(Result<(), String>),
    /// A binary was fetched and installed.
    Fetched(Result<(), Unfetched>),
    /// Another watchdog was asked whether it could begin.
    Probed(Result<(), String>),
    /// Somebody asks on the socket.
    Asked(Ask, Sender<Answer>),
    /// A signal.
    Signal(Signal),
}

/// What the system tells the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Where events come in.
#[derive(Debug)]
pub struct Inbox {
    events: Sender<Event>,
    heard: Receiver<Event>,
}

impl Default for Inbox {
    fn default() -> Self {
        let (events, heard) = channel();
        Self { events, heard }
    }
}

impl Inbox {
    /// What whoever hears signals calls; false when nobody listens any more.
    pub fn bell(&self) -> impl Fn(Signal) -> bool + Send + Clone + 'static {
        let events = self.events.clone();
        move |signal| events.send(Event::Signal(signal)).is_ok()
    }
}

/// What a start is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// The new version.
    Apply,
    /// The one before.
    Back,
}

/// A binary that a rollout asks for and that is not here yet.
#[derive(Clone, Debug)]
struct Wanted {
    order: Order,
    /// When it was asked for.
    since: Timestamp,
    /// How often nobody answered.
    tries: u32,
    /// When it is asked for again.
    next: Instant,
}

/// A fetch that is under way.
struct Fetching {
    /// True when nobody wants it any more.
    stop: Arc<AtomicBool>,
}

/// Acts that a new watchdog must have lived through before it is trusted.
#[derive(Debug, Default)]
struct Lived {
    polled: bool,
    published: bool,
    beaten: bool,
}

/// When things are due.
struct Due {
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
struct Told {
    board: Option<String>,
    records: Option<String>,
    beats: bool,
    disk: bool,
}

/// The watchdog.
struct Watchdog<'a> {
    setup: Setup<'a>,
    /// The version of this process: that of the slot it runs from.
    own: String,
    slots: Slots,
    node: Node,
    kept: Kept,
    life: Supervised,
    held: Option<Held>,
    /// How the agent ended last.
    ended: Option<String>,
    awaited: Option<Awaited>,
    wanted: Option<Wanted>,
    fetching: Option<Fetching>,
    looking: bool,
    probing: bool,
    prune: bool,
    /// Answers that could not be written down yet.
    again: Vec<crate::phase::Event>,
    /// The records of this component, as of the last poll.
    records: Vec<Record>,
    /// Polls in a row that did not find the record of the rollout that this node is in.
    missing: u32,
    /// What this process has lived through, for its proof.
    lived: Lived,
    /// Why the switch that a record asks for is held up.
    held_up: Option<String>,
    /// What somebody should know: why it does not run what it should, or not the watchdog that it should.
    notes: BTreeMap<&'static str, String>,
    net: Net,
    beats: Beats,
    /// What the board was told last.
    published: Option<Report>,
    due: Due,
    told: Told,
    said: String,
    events: Sender<Event>,
    began: Instant,
    since: Timestamp,
    stopping: bool,
}

/// Looks after the agent until it is told to stop.
///
/// # Errors
/// Fails when another watchdog runs, and when the system refuses what it needs.
pub fn run(setup: Setup<'_>, inbox: Inbox) -> Result<(), WatchdogError> {
    let _lock = lock::take(&setup.paths.watchdog_lock())?;
    let mut watchdog = Watchdog::begin(setup, inbox.events)?;
    watchdog.turn_round(&inbox.heard);
    watchdog.end();
    Ok(())
}

/// Looks whether a watchdog could begin: reads its files.
///
/// # Errors
/// Fails when they cannot be read.
pub fn probe(paths: &Paths) -> Result<(), WatchdogError> {
    crate::kept::read::<Node>(&paths.phase())?;
    crate::kept::read::<Kept>(&paths.watchdog())?;
    Ok(())
}

/// What can be told without a watchdog.
///
/// # Errors
/// Fails when the files cannot be read.
pub fn from_files(paths: &Paths, built_in: Program) -> Result<Status, KeptError> {
    let version = Slots::new(paths.slots(), built_in).current();
    let node = crate::kept::read::<Node>(&paths.phase())?.unwrap_or_else(|| Node::on(version));
    Ok(Status {
        watchdog: None,
        version: node.current().to_owned(),
        node,
        child: None,
        failures: 0,
        degraded: None,
        next_retry: None,
        notes: Vec::new(),
    })
}

/// An error with all that caused it, in one line.
fn words(error: &dyn std::error::Error) -> String {
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
fn slot_of(paths: &Paths, program: &std::path::Path) -> Option<String> {
    let slots = std::fs::canonicalize(paths.slots()).unwrap_or_else(|_| paths.slots());
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| PathBuf::from(program));
    let version = program.strip_prefix(slots).ok()?.parent()?.to_str()?.to_owned();
    crate::slots::is_version(&version).then_some(version)
}
