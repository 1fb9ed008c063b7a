//! What the last watchdog left behind in, a watchdog that goes on from there out.
//!
//! Law: an agent is kept when this very process started it, in whatever shape it was then; one that a dead watchdog left is
//! ended before another is started.

use std::cmp::Ordering;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::beats::Beats;
use super::child::Process;
use super::net::Net;
use super::ready::connect;
use super::state::{Held, Kept};
use super::{Due, Event, Lived, Setup, Told, Watchdog, WatchdogError, slot_of, socket, system, words};
use crate::kept::{self, KeptError};
use crate::phase::{self, Node, Phase};
use crate::slots::{Program, Slots};
use crate::supervise::{Happening, Supervised};
use crate::version::compare;

/// How long a socket may take to say who listens.
const KNOCK: Duration = Duration::from_secs(2);

impl<'a> Watchdog<'a> {
    pub(super) fn begin(mut setup: Setup<'a>, events: Sender<Event>) -> Result<Self, WatchdogError> {
        let paths = setup.paths.clone();
        let mut kept = readable::<Kept>(&paths.watchdog())?.unwrap_or_default();
        let renewed =
            kept.renewal.as_ref().filter(|it| it.process.is_some() && it.process == Process::this());
        let slot = renewed.map(|it| it.version.clone()).or_else(|| slot_of(&paths, &setup.program.path));
        let before = kept.installed.clone();
        let installed = match (&slot, &before) {
            (Some(_), Some(installed)) => installed.clone(),
            _ => setup.program.clone(),
        };
        let own = slot.unwrap_or_else(|| setup.program.version.clone());
        kept.installed = Some(installed.clone());
        let slots = Slots::new(paths.slots(), installed);
        let node = readable::<Node>(&paths.phase())?.filter(|node| !node.running.is_empty());
        let node = node.unwrap_or_else(|| Node::on(slots.current()));
        let node = upgraded(node, before.as_ref(), &slots);
        let connect = std::mem::replace(&mut setup.connect, Box::new(|| Err("there is no link".into())));
        let net = Net::start(connect, events.clone()).map_err(system("start a thread"))?;
        socket::serve(&paths.watchdog_socket(), events.clone())
            .map_err(system(format!("listen on `{}`", paths.watchdog_socket().display())))?;
        let began = Instant::now();
        // Hosts that begin together do not ask together.
        let spread = u64::try_from(setup.pace.idle.as_millis()).unwrap_or(u64::MAX).max(1);
        let first = began + Duration::from_millis(setup.seed % spread);
        let due = Due {
            look: began,
            beat: began,
            // Whoever is in the middle of a rollout does not wait.
            first: if node.phase == Phase::Idle { first } else { began },
            polled: None,
            published: None,
        };
        let mut watchdog = Self {
            own,
            slots,
            node,
            kept,
            life: Supervised::NEW,
            held: None,
            ended: None,
            awaited: None,
            wanted: None,
            fetching: None,
            looking: false,
            probing: false,
            prune: true,
            again: Vec::new(),
            records: Vec::new(),
            missing: 0,
            lived: Lived::default(),
            held_up: None,
            notes: std::collections::BTreeMap::new(),
            net,
            beats: Beats::new(paths.heartbeats()),
            published: None,
            due,
            told: Told::default(),
            said: String::new(),
            events,
            began,
            since: Timestamp::now(),
            stopping: false,
            setup,
        };
        watchdog.keep();
        watchdog.find_child();
        let (version, agent) = (watchdog.own.clone(), watchdog.node.current().to_owned());
        tracing::info!(node = %watchdog.setup.id, version, agent, phase = watchdog.node.phase.word(), "the watchdog is up");
        watchdog.happen(phase::Event::Boot, Timestamp::now());
        Ok(watchdog)
    }

    /// Takes over the agent that runs, or sees to it that it ends.
    fn find_child(&mut self) {
        let held = self.kept.child.clone().filter(|held| held.process.is_there());
        let Some(held) = held.or_else(|| self.stray()).or_else(|| self.listener()) else { return };
        if held.process.is_ours() {
            tracing::info!(pid = held.process.pid, version = held.version, "the agent goes on");
            self.life = Supervised::living(self.moment());
            let is_other = held.version != self.node.current();
            self.hold(held);
            if is_other {
                self.supervise(Happening::Restart);
            }
            return;
        }
        tracing::warn!(pid = held.process.pid, "an agent without a watchdog is ended, and another started");
        held.process.signal(rustix::process::Signal::TERM);
        self.life = Supervised::left_behind(self.moment(), &self.setup.pace.rules);
        self.hold(held);
    }

    /// An agent that was started and not written down.
    fn stray(&self) -> Option<Held> {
        let Program { version, path } = self.kept.starting.clone()?;
        let process = Process::running(&path, &self.setup.agent_args)?;
        Some(Held { process, version, since: Timestamp::now() })
    }

    /// An agent that nobody knows of: it answers on the socket, and is one of our programs.
    fn listener(&self) -> Option<Held> {
        let stream = connect(&self.setup.paths.socket(), KNOCK).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(stream.as_fd()).ok()?;
        let process = Process::of(peer.pid.as_raw_nonzero().get())?;
        let program = process.program()?;
        let is_built_in =
            std::fs::canonicalize(&self.slots.built_in().path).is_ok_and(|path| path == program);
        let version = slot_of(&self.setup.paths, &program);
        let version = version.or_else(|| is_built_in.then(|| self.slots.built_in().version.clone()))?;
        Some(Held { process, version, since: Timestamp::now() })
    }

    /// The program to start now, and what is to be known about it. What nobody has confirmed is run as it is or not at all; of
    /// what is good there is always one.
    pub(super) fn choose(&mut self) -> Result<Program, String> {
        if self.node.is_unconfirmed() {
            return self.slots.verify(self.node.current()).map_err(|error| words(&error));
        }
        let wanted = [Some(self.node.current()), self.node.previous.as_deref()];
        let (program, passed_over) = self.slots.pick(wanted.into_iter().flatten());
        if passed_over.is_empty() {
            self.notes.remove("slot");
            return Ok(program);
        }
        let why: Vec<_> = passed_over.iter().map(|error| words(error)).collect();
        let note = format!("{}; {} runs instead", why.join("; "), program.version);
        tracing::warn!("{note}");
        self.notes.insert("slot", note);
        Ok(program)
    }

    /// What runs is what counts as good, when the version that did is gone for good.
    pub(super) fn admit(&mut self, version: &str) {
        if matches!(self.node.phase, Phase::Applying { .. } | Phase::Soaking { .. })
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

/// Somebody has installed a newer version by hand since the last start: that one is meant.
fn upgraded(mut node: Node, before: Option<&Program>, slots: &Slots) -> Node {
    let installed = slots.built_in();
    let is_other = before.is_some_and(|before| before.version != installed.version);
    let is_newer = compare(&installed.version, &node.running) == Some(Ordering::Greater);
    if is_other && is_newer && node.phase == Phase::Idle {
        let old = std::mem::replace(&mut node.running, installed.version.clone());
        tracing::info!(from = old, to = node.running, "a newer version was installed by hand, and is run");
        node.previous = slots.verify(&old).is_ok().then_some(old);
    }
    node
}

/// A file of the watchdog's own; one that is damaged is put aside, since without a watchdog there is no agent either.
fn readable<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, KeptError> {
    match kept::read(path) {
        Err(error) if error.is_damage() => {
            let aside = path.with_extension("damaged");
            tracing::error!(error = words(&error), aside = %aside.display(), "it is put aside, and begun anew");
            let failed = |source| KeptError::Write { path: path.to_owned(), source };
            std::fs::rename(path, aside).map_err(failed)?;
            Ok(None)
        }
        other => other,
    }
}
