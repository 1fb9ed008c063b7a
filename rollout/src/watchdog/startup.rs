//! The state that the last watchdog left in, a watchdog that continues from there out.
//!
//! Law: an agent is kept if this very process started it, also before a self-update; one that a dead watchdog left is
//! stopped before another is started (held by `an_agent_whose_record_is_lost_is_found_and_replaced`,
//! `a_watchdog_killed_in_any_phase_is_replaced_by_one_that_continues`).

use std::cmp::Ordering;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::heartbeats::HeartbeatStore;
use super::life::{LifeEventKind, crash_streak};
use super::net::NetThread;
use super::process::ProcessIdentity;
use super::readiness::connect_with_timeout;
use super::saved_state::{DamageNote, SavedWatchdog, StartedAgent};
use super::{
    DueTimes, LoggedProblems, SelfTest, Watchdog, WatchdogError, WatchdogEvent, WatchdogSetup, error_chain,
    saved_files, slot_from_path, socket, system_error,
};
use crate::phase::{self, NodePhase, NodeState};
use crate::recovery::RecoveredNode;
use crate::slots::{AgentProgram, Slots};
use crate::supervise::{ProcessEvent, SupervisedProcess};
use crate::version::compare;
use zagent_config::paths::Paths;

/// The time limit to find out which process listens on a socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of remembered damages.
const MAX_DAMAGE_NOTES: usize = 8;

/// What the last watchdog left, and what follows from it.
struct LastRun {
    /// The version of this watchdog.
    own_version: String,
    slots: Slots,
    saved: SavedWatchdog,
    node: NodeState,
    sequence: u64,
    /// True when the last watchdog was killed, or the host crashed.
    has_crashed: bool,
    /// True when it left a record of itself.
    is_saved: bool,
    /// True when `node` is not what the disk has.
    is_unsaved: bool,
}

impl LastRun {
    /// Reads what is saved, and moves damaged files aside.
    fn read(paths: &Paths, program: &AgentProgram, now: Timestamp) -> Result<Self, WatchdogError> {
        let (found, damaged) = saved_files::read_watchdog(paths)?;
        let is_saved = found.is_some();
        let mut saved = found.unwrap_or_default();
        let renewed = saved
            .renewal
            .as_ref()
            .filter(|it| it.process.is_some() && it.process == ProcessIdentity::current());
        // A watchdog that became another one was not killed.
        let has_crashed = saved.open && renewed.is_none();
        let slot = renewed.map(|it| it.version.clone()).or_else(|| slot_from_path(paths, &program.path));
        let before = saved.installed.clone();
        let installed = match (&slot, &before) {
            (Some(_), Some(installed)) => installed.clone(),
            _ => program.clone(),
        };
        let own_version = slot.unwrap_or_else(|| program.version.clone());
        (saved.installed, saved.open) = (Some(installed.clone()), true);
        let slots = Slots::new(paths.slots(), installed);
        let recovered = saved_files::read_node(paths, &slots, saved.sequence, now)?;
        note_damage(&mut saved, &recovered, damaged, paths, now);
        let node = apply_manual_upgrade(recovered.node.clone(), before.as_ref(), &slots);
        let is_unsaved = recovered.is_damaged() || node != recovered.node;
        let sequence = recovered.sequence;
        Ok(Self { own_version, slots, saved, node, sequence, has_crashed, is_saved, is_unsaved })
    }
}

impl<'a> Watchdog<'a> {
    pub(super) fn from_setup(
        mut setup: WatchdogSetup<'a>,
        events: Sender<WatchdogEvent>,
    ) -> Result<Self, WatchdogError> {
        let now = Timestamp::now();
        let last = LastRun::read(&setup.paths, &setup.program, now)?;
        let (node, is_unsaved) = (last.node.clone(), last.is_unsaved);
        let (has_crashed, is_record_doubtful) = (last.has_crashed, last.has_crashed || !last.is_saved);
        let connect =
            std::mem::replace(&mut setup.connect, Box::new(|| Err("there is no connection".into())));
        let net = NetThread::start(connect, events.clone()).map_err(system_error("start a thread"))?;
        let socket = setup.paths.watchdog_socket();
        socket::serve_socket(&socket, events.clone())
            .map_err(system_error(format!("listen on `{}`", socket.display())))?;
        let mut watchdog = Self::continue_from(last, setup, net, events);
        if is_unsaved {
            watchdog.write_node(node);
        }
        watchdog.save_state();
        watchdog.adopt_child(is_record_doubtful);
        watchdog.continue_life(now);
        let (version, agent) = (watchdog.own_version.clone(), watchdog.node.current_version().to_owned());
        tracing::info!(node = %watchdog.setup.id, version, agent, phase = watchdog.node.phase.name(), "the watchdog started");
        let event = if has_crashed { phase::NodeEvent::BootAfterCrash } else { phase::NodeEvent::Boot };
        watchdog.handle_node_event(event, Timestamp::now());
        Ok(watchdog)
    }

    /// A watchdog that has done nothing yet.
    fn continue_from(
        last: LastRun,
        setup: WatchdogSetup<'a>,
        net: NetThread,
        events: Sender<WatchdogEvent>,
    ) -> Self {
        let began = Instant::now();
        Self {
            own_version: last.own_version,
            slots: last.slots,
            due: first_due_times(&setup, &last.node.phase, began),
            node: last.node,
            sequence: last.sequence,
            is_copy_due: false,
            saved: last.saved,
            process: SupervisedProcess::NEW,
            agent: None,
            ended: None,
            tried: None,
            failing: std::collections::BTreeSet::new(),
            pending_start: None,
            wanted: None,
            fetching: None,
            checking_readiness: false,
            probing: false,
            prune: true,
            is_node_unsaved: false,
            unsaved_answers: Vec::new(),
            records: Vec::new(),
            missing_polls: 0,
            self_test: SelfTest::default(),
            hold_reason: None,
            notes: std::collections::BTreeMap::new(),
            net,
            beats: HeartbeatStore::new(setup.paths.heartbeats()),
            published: None,
            logged: LoggedProblems::default(),
            last_status: String::new(),
            events,
            began,
            since: Timestamp::now(),
            stopping: false,
            leaving: false,
            setup,
        }
    }

    /// Continues what the heartbeats tell: crashes in a row count across watchdogs, so that a crash loop is found also when
    /// the watchdog is restarted meanwhile.
    fn continue_life(&mut self, now: Timestamp) {
        let life = self.beats.read().unwrap_or_else(|why| {
            tracing::warn!(why, "cannot read the heartbeats; crashes are counted from now on");
            super::heartbeats::StoredLife::default()
        });
        let last_seen = life.last_seen();
        if self.agent.is_none() {
            self.process.failures = crash_streak(&life.events, now, &self.setup.pace.rules);
            let crashed = life.events.iter().rev().find_map(|event| match &event.kind {
                LifeEventKind::AgentCrashed { how, .. } => Some(how.clone()),
                _ => None,
            });
            self.ended = crashed.filter(|_| self.process.failures > 0);
        }
        self.note_life(self.own_version.clone(), LifeEventKind::WatchdogStarted { last_seen });
    }

    /// Takes over the running agent, or makes sure that it stops. The record of it may be lost or old.
    fn adopt_child(&mut self, is_record_doubtful: bool) {
        let held = self.saved.child.clone().filter(|held| held.process.is_alive());
        let Some(held) = held
            .or_else(|| self.find_unrecorded_agent(is_record_doubtful))
            .or_else(|| self.find_listening_agent())
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

    /// An agent that was started and not recorded: of the program that was about to start, or of any.
    fn find_unrecorded_agent(&self, of_any: bool) -> Option<StartedAgent> {
        let mut programs: Vec<AgentProgram> = self.saved.starting.iter().cloned().collect();
        if of_any {
            programs.extend(self.slots.programs());
        }
        let files: Vec<&Path> = programs.iter().map(|program| program.path.as_path()).collect();
        let (process, which) = ProcessIdentity::find_orphan(&files, &self.setup.agent_args)?;
        let version = programs.get(which)?.version.clone();
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
        let wanted = wanted.into_iter().flatten().filter(|version| !self.failing.contains(*version));
        let (program, passed_over) = self.slots.pick_runnable(wanted);
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

    /// The running version becomes the good one, when the good version is lost. A good version that only fails now
    /// stays the good one.
    pub(super) fn accept_running(&mut self, version: &str) {
        if self.node.is_unconfirmed() || !self.failing.is_empty() || self.node.running == version {
            return;
        }
        if let Some(text) = self.notes.get("slot").cloned() {
            self.saved.damage.push(DamageNote { text, at: Timestamp::now() });
        }
        let mut node = self.node.clone();
        node.running = version.to_owned();
        node.previous = node.previous.filter(|previous| previous != version);
        self.write_node(node);
    }
}

/// When a watchdog that starts now does each of its tasks first.
fn first_due_times(setup: &WatchdogSetup<'_>, phase: &NodePhase, began: Instant) -> DueTimes {
    // Hosts that start together do not poll together.
    let spread = u64::try_from(setup.pace.idle.as_millis()).unwrap_or(u64::MAX).max(1);
    let first = began + Duration::from_millis(setup.seed % spread);
    DueTimes {
        look: began,
        beat: began,
        // A node in the middle of a rollout does not wait.
        first: if *phase == NodePhase::Idle { first } else { began },
        polled: None,
        published: None,
    }
}

/// Someone has installed a newer version by hand since the last start: use it.
fn apply_manual_upgrade(mut node: NodeState, before: Option<&AgentProgram>, slots: &Slots) -> NodeState {
    let installed = slots.built_in();
    let is_other = before.is_some_and(|before| before.version != installed.version);
    let is_newer = compare(&installed.version, &node.running) == Some(Ordering::Greater);
    if is_other && is_newer && node.rejected.contains_key(&installed.version) {
        let (version, running) = (&installed.version, &node.running);
        tracing::warn!(
            "{version} was installed by hand, and was rejected on this node: {running} keeps running"
        );
        return node;
    }
    if is_other && is_newer && node.phase == NodePhase::Idle {
        let old = std::mem::replace(&mut node.running, installed.version.clone());
        tracing::info!(from = old, to = node.running, "a newer version was installed by hand; running it");
        node.previous = slots.verify(&old).is_ok().then_some(old);
    }
    node
}

/// Logs and remembers damage, and moves the damaged files aside: without a watchdog there is no agent either.
fn note_damage(
    saved: &mut SavedWatchdog,
    recovered: &RecoveredNode,
    watchdog: Option<String>,
    paths: &Paths,
    now: Timestamp,
) {
    let files = [
        (watchdog.is_some(), paths.watchdog()),
        (recovered.first.is_some(), paths.phase()),
        (recovered.second.is_some(), paths.phase_copy()),
    ];
    files.iter().filter(|(is_damaged, _)| *is_damaged).for_each(|(_, path)| saved_files::move_aside(path));
    saved.damage.retain(|note| note.is_recent(now));
    let found = watchdog.map(|problem| saved_files::watchdog_note(&problem));
    for text in found.into_iter().chain(saved_files::node_notes(recovered)) {
        tracing::error!("{text}");
        saved.damage.push(DamageNote { text, at: now });
    }
    let surplus = saved.damage.len().saturating_sub(MAX_DAMAGE_NOTES);
    saved.damage.drain(..surplus);
}
