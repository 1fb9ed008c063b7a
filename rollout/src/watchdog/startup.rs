//! The state that the last watchdog left in, a watchdog that continues from there out.
//!
//! Law: an agent is kept if this very process started it, also before a self-update; one that a dead watchdog left is
//! stopped before another is started.

use std::cmp::Ordering;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::heartbeats::HeartbeatStore;
use super::net::NetThread;
use super::process::ProcessIdentity;
use super::readiness::connect_with_timeout;
use super::saved_state::{SavedWatchdog, StartedAgent};
use super::{
    DueTimes, LoggedProblems, SelfTest, Watchdog, WatchdogError, WatchdogEvent, WatchdogSetup, error_chain,
    slot_from_path, socket, system_error,
};
use crate::phase::{self, NodePhase, NodeState};
use crate::slots::{AgentProgram, Slots};
use crate::supervise::{ProcessEvent, SupervisedProcess};
use crate::version::compare;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// The time limit to find out which process listens on a socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

impl<'a> Watchdog<'a> {
    #[expect(clippy::too_many_lines, reason = "one decision, read from top to bottom")]
    pub(super) fn from_setup(
        mut setup: WatchdogSetup<'a>,
        events: Sender<WatchdogEvent>,
    ) -> Result<Self, WatchdogError> {
        let paths = setup.paths.clone();
        let mut kept = read_or_discard::<SavedWatchdog>(&paths.watchdog())?.unwrap_or_default();
        let renewed = kept
            .renewal
            .as_ref()
            .filter(|it| it.process.is_some() && it.process == ProcessIdentity::current());
        let slot =
            renewed.map(|it| it.version.clone()).or_else(|| slot_from_path(&paths, &setup.program.path));
        let before = kept.installed.clone();
        let installed = match (&slot, &before) {
            (Some(_), Some(installed)) => installed.clone(),
            _ => setup.program.clone(),
        };
        let own = slot.unwrap_or_else(|| setup.program.version.clone());
        kept.installed = Some(installed.clone());
        let slots = Slots::new(paths.slots(), installed);
        let node = read_or_discard::<NodeState>(&paths.phase())?.filter(|node| !node.running.is_empty());
        let node = node.unwrap_or_else(|| NodeState::with_version(slots.current()));
        let node = apply_manual_upgrade(node, before.as_ref(), &slots);
        let connect =
            std::mem::replace(&mut setup.connect, Box::new(|| Err("there is no connection".into())));
        let net = NetThread::start(connect, events.clone()).map_err(system_error("start a thread"))?;
        socket::serve_socket(&paths.watchdog_socket(), events.clone())
            .map_err(system_error(format!("listen on `{}`", paths.watchdog_socket().display())))?;
        let began = Instant::now();
        // Hosts that start together do not poll together.
        let spread = u64::try_from(setup.pace.idle.as_millis()).unwrap_or(u64::MAX).max(1);
        let first = began + Duration::from_millis(setup.seed % spread);
        let due = DueTimes {
            look: began,
            beat: began,
            // A node in the middle of a rollout does not wait.
            first: if node.phase == NodePhase::Idle { first } else { began },
            polled: None,
            published: None,
        };
        let mut watchdog = Self {
            own_version: own,
            slots,
            node,
            saved: kept,
            process: SupervisedProcess::NEW,
            agent: None,
            ended: None,
            pending_start: None,
            wanted: None,
            fetching: None,
            checking_readiness: false,
            probing: false,
            prune: true,
            unsaved_answers: Vec::new(),
            records: Vec::new(),
            missing_polls: 0,
            self_test: SelfTest::default(),
            hold_reason: None,
            notes: std::collections::BTreeMap::new(),
            net,
            beats: HeartbeatStore::new(paths.heartbeats()),
            published: None,
            due,
            logged: LoggedProblems::default(),
            last_status: String::new(),
            events,
            began,
            since: Timestamp::now(),
            stopping: false,
            setup,
        };
        watchdog.save_state();
        watchdog.adopt_child();
        let (version, agent) = (watchdog.own_version.clone(), watchdog.node.current_version().to_owned());
        tracing::info!(node = %watchdog.setup.id, version, agent, phase = watchdog.node.phase.name(), "the watchdog started");
        watchdog.handle_node_event(phase::NodeEvent::Boot, Timestamp::now());
        Ok(watchdog)
    }

    /// Takes over the running agent, or makes sure that it stops.
    fn adopt_child(&mut self) {
        let held = self.saved.child.clone().filter(|held| held.process.is_alive());
        let Some(held) =
            held.or_else(|| self.find_unrecorded_agent()).or_else(|| self.find_listening_agent())
        else {
            return;
        };
        if held.process.is_ours() {
            tracing::info!(pid = held.process.pid, version = held.version, "the agent keeps running");
            self.process = SupervisedProcess::running_since(self.elapsed());
            let is_other = held.version != self.node.current_version();
            self.adopt_agent(held);
            if is_other {
                self.supervise(ProcessEvent::Restart);
            }
            return;
        }
        tracing::warn!(pid = held.process.pid, "stopping an agent without a watchdog, and starting another");
        held.process.signal(rustix::process::Signal::TERM);
        self.process = SupervisedProcess::from_leftover(self.elapsed(), &self.setup.pace.rules);
        self.adopt_agent(held);
    }

    /// An agent that was started and not recorded.
    fn find_unrecorded_agent(&self) -> Option<StartedAgent> {
        let AgentProgram { version, path } = self.saved.starting.clone()?;
        let process = ProcessIdentity::find_orphan(&path, &self.setup.agent_args)?;
        Some(StartedAgent { process, version, since: Timestamp::now() })
    }

    /// An agent that is not recorded: it answers on the socket, and is one of our programs.
    fn find_listening_agent(&self) -> Option<StartedAgent> {
        let stream = connect_with_timeout(&self.setup.paths.socket(), SOCKET_TIMEOUT).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(stream.as_fd()).ok()?;
        let process = ProcessIdentity::from_pid(peer.pid.as_raw_nonzero().get())?;
        let program = process.program()?;
        let is_built_in =
            std::fs::canonicalize(&self.slots.built_in().path).is_ok_and(|path| path == program);
        let version = slot_from_path(&self.setup.paths, &program);
        let version = version.or_else(|| is_built_in.then(|| self.slots.built_in().version.clone()))?;
        Some(StartedAgent { process, version, since: Timestamp::now() })
    }

    /// The program to start now, and notes about it. An unconfirmed version runs exactly or not at all; of the good
    /// versions, there is always one that runs.
    pub(super) fn choose_program(&mut self) -> Result<AgentProgram, String> {
        if self.node.is_unconfirmed() {
            return self.slots.verify(self.node.current_version()).map_err(|error| error_chain(&error));
        }
        let wanted = [Some(self.node.current_version()), self.node.previous.as_deref()];
        let (program, passed_over) = self.slots.pick_runnable(wanted.into_iter().flatten());
        if passed_over.is_empty() {
            self.notes.remove("slot");
            return Ok(program);
        }
        let why: Vec<_> = passed_over.iter().map(|error| error_chain(error)).collect();
        let note = format!("{}; {} runs instead", why.join("; "), program.version);
        tracing::warn!("{note}");
        self.notes.insert("slot", note);
        Ok(program)
    }

    /// The running version becomes the good one, when the good version is lost.
    pub(super) fn accept_running(&mut self, version: &str) {
        if matches!(self.node.phase, NodePhase::Applying { .. } | NodePhase::Soaking { .. })
            || self.node.running == version
        {
            return;
        }
        let mut node = self.node.clone();
        node.running = version.to_owned();
        node.previous = node.previous.filter(|previous| previous != version);
        self.write_node(node);
    }
}

/// Someone has installed a newer version by hand since the last start: use it.
fn apply_manual_upgrade(mut node: NodeState, before: Option<&AgentProgram>, slots: &Slots) -> NodeState {
    let installed = slots.built_in();
    let is_other = before.is_some_and(|before| before.version != installed.version);
    let is_newer = compare(&installed.version, &node.running) == Some(Ordering::Greater);
    if is_other && is_newer && node.phase == NodePhase::Idle {
        let old = std::mem::replace(&mut node.running, installed.version.clone());
        tracing::info!(from = old, to = node.running, "a newer version was installed by hand; running it");
        node.previous = slots.verify(&old).is_ok().then_some(old);
    }
    node
}

/// A file of the watchdog; a damaged one is moved aside, because without a watchdog there is no agent either.
fn read_or_discard<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, JsonFileError> {
    match json_file::read(path) {
        Err(error) if error.is_damaged() => {
            let aside = path.with_extension("damaged");
            tracing::error!(error = error_chain(&error), aside = %aside.display(), "the state file is moved aside, and a new one is started");
            let failed = |source| JsonFileError::Write { path: path.to_owned(), source };
            std::fs::rename(path, aside).map_err(failed)?;
            Ok(None)
        }
        other => other,
    }
}
