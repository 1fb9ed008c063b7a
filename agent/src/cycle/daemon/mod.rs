//! The clock, the remotes, signals and wishes in, turns out: the loop that stays.
//!
//! Law: the loop never waits for anything but the next event. A turn is a process of its own, a poll a thread of its own;
//! one turn at a time, and a wish that comes while one runs waits, together with its like.

mod desk;
mod drive;
mod errand;
mod listen;
mod marks;
mod part;
mod poller;
mod rollouts;
mod turns;
mod world;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_cache::source::{Polled, Watch};
use zagent_config::settings::Settings;

use self::desk::Desk;
use self::errand::{Errand, Joined, Queue, What};
use self::listen::Signals;
use self::marks::Marks;
use self::part::Part;
use self::poller::Poller;
use self::rollouts::Heard;
use super::child::Child;
use super::clock::{Clock, Due, Saved};
use super::ground;
use super::memory::{Memory, Why};
use super::orders::Orders;
use crate::api::{self, Ticket};
use crate::notify::Notify;
use crate::output::local_zone;
use crate::report::{Trouble, chain};
use crate::run::Trigger;
use crate::status::{self, Entry, Next, Pieces};

/// The longest the loop sleeps: a clock that was set, and a watchdog, are noticed by then.
const NAP: Duration = Duration::from_secs(30);
/// How long after its last sign the loop counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(120);
/// How long a turn that was told to end may take before it is ended.
const GRACE: Duration = Duration::from_secs(90);

/// Something that the loop must answer.
#[derive(Debug)]
enum Event {
    /// The remotes were asked.
    Polled(Box<Polled>),
    /// The records of rollouts were read, or the board was told.
    Rollouts(Heard),
    /// Somebody wants a run.
    Asked(api::Wish, Ticket),
    /// Pause, pin or quarantine may be others.
    Changed,
    /// A local source directory changed.
    Touched,
    /// A process ended.
    Ended(io::Result<ExitStatus>),
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    Stop,
}

/// What the daemon is made from.
pub struct Setup<'a> {
    /// The program that turns run as.
    pub program: PathBuf,
    /// The arguments of every process, such as `--config FILE`.
    pub args: Vec<OsString>,
    /// What only turns take.
    pub turn_args: Vec<OsString>,
    /// Reads the settings.
    pub settings: &'a dyn Fn() -> Result<Settings, Trouble>,
    /// What spreads the fleet over time.
    pub seed: u64,
}

/// The daemon.
struct Daemon<'a> {
    setup: Setup<'a>,
    settings: Settings,
    clock: Clock,
    memory: Memory,
    /// What the files tell, as of the last look.
    seen: Pieces,
    orders: Orders,
    /// The files that all this was read from.
    marks: Marks,
    poller: Option<Poller>,
    part: Part,
    watches: Vec<Watch>,
    queue: Queue,
    running: Option<Running>,
    desk: Arc<Desk>,
    notify: Notify,
    events: Sender<Event>,
    since: Timestamp,
    /// What the service manager was told last.
    said: String,
    /// True while there is nothing that a run could read.
    nothing: bool,
    stopping: bool,
}

/// A process that is under way.
struct Running {
    child: Child,
    errand: Errand,
    since: Timestamp,
    /// When it is told to end, then ended.
    until: Instant,
    told: bool,
}

/// Runs until it is told to stop.
///
/// # Errors
/// Fails when the settings are wrong, another daemon serves the socket, or the system refuses threads or signals.
pub fn run(setup: Setup<'_>) -> Result<(), Trouble> {
    let settings = (setup.settings)()?;
    let (events, heard) = channel();
    let failed =
        |what: &str, error: &dyn std::error::Error| Trouble::failed(format!("{what}: {}", chain(error)));
    let _signals =
        Signals::watch(events.clone()).map_err(|error| failed("cannot listen for signals", &error))?;
    let desk = Arc::new(Desk::new(events.clone()));
    let paths = settings.paths();
    let config = api::Config {
        socket: paths.socket(),
        group: settings.socket_group.clone(),
        listen: settings.listen,
        limits: api::Limits::default(),
    };
    let _serving = api::serve(config, Arc::clone(&desk) as Arc<dyn api::Answers>)
        .map_err(|error| failed("cannot answer", &error))?;
    let now = Timestamp::now();
    let saved = Saved::read(&paths.schedule()).unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "when entries ran is forgotten");
        Saved::default()
    });
    let clock = Clock::new(&settings, setup.seed, local_zone(), saved, now);
    let mut daemon = Daemon {
        clock,
        memory: Memory::load(&paths.memory()),
        seen: Pieces::default(),
        orders: Orders::default(),
        marks: Marks::default(),
        poller: None,
        part: Part::default(),
        watches: Vec::new(),
        queue: Queue::default(),
        running: None,
        desk,
        notify: Notify::from_env(),
        events,
        since: now,
        said: String::new(),
        nothing: false,
        stopping: false,
        settings,
        setup,
    };
    daemon.begin();
    daemon.turn_round(&heard);
    Ok(())
}

impl Daemon<'_> {
    fn begin(&mut self) {
        self.look();
        self.follow();
        self.take_part();
        self.nothing = self.has_nothing();
        if self.nothing {
            tracing::warn!("{}", ground::NOTHING_AT_BOOT);
        }
        self.queue.push(Errand::new(What::Probe));
        self.show();
        self.notify.ready(&self.words());
        tracing::info!(node = %self.settings.id, remotes = self.settings.source.remotes.len(), "the daemon is up");
    }

    /// The loop.
    fn turn_round(&mut self, heard: &Receiver<Event>) {
        while !(self.stopping && self.running.is_none()) {
            let now = Timestamp::now();
            self.refresh(now);
            self.due(now);
            self.roll(now);
            self.start_next(now);
            self.watch_child();
            self.show();
            let nap = self.nap(Timestamp::now());
            self.desk.alive_until(Instant::now() + nap + DEAD_AFTER);
            match heard.recv_timeout(nap) {
                Ok(event) => self.hear(event, Timestamp::now()),
                Err(RecvTimeoutError::Timeout) => {}
                // The sender is part of the daemon itself.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.notify.alive();
        }
        self.keep_clock();
        self.notify.stopping("stopped");
    }

    /// How long until something is due.
    fn nap(&mut self, now: Timestamp) -> Duration {
        let watchdog = self.notify.alive_every().unwrap_or(NAP);
        let child = self.running.as_ref().map_or(NAP, |running| {
            running.until.saturating_duration_since(Instant::now()).max(Duration::from_millis(10))
        });
        let (at, _) = self.clock.next(now);
        let due = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        let due = if self.stopping { NAP } else { due };
        due.min(NAP).min(watchdog).min(child).min(self.rollout_nap(now))
    }

    /// Does what the clock says.
    fn due(&mut self, now: Timestamp) {
        if self.stopping {
            return;
        }
        let (at, due) = self.clock.next(now);
        if at > now {
            return;
        }
        match &due {
            Due::Poll => {
                self.clock.passed(&due, now);
                if let Some(poller) = &mut self.poller {
                    poller.poll();
                }
            }
            Due::Converge | Due::Retry => {
                self.clock.passed(&due, now);
                self.ask(Errand::new(What::Turn { trigger: Trigger::Timer, fetch: false }), now);
            }
            Due::Entry(name) => {
                let Some(entry) = self.settings.schedule.iter().find(|entry| entry.name == *name) else {
                    return self.clock.passed(&due, now);
                };
                let mut errand = Errand::new(What::Turn { trigger: Trigger::Timer, fetch: false });
                errand.sls.clone_from(&entry.sls);
                errand.test = entry.test;
                errand.entry = Some(name.clone());
                self.clock.entry_started(name, now);
                self.ask(errand, now);
            }
        }
        self.keep_clock();
    }

    /// Queues an errand that nobody asked for by hand, unless changes are not wanted now.
    fn ask(&mut self, errand: Errand, now: Timestamp) {
        let nothing = self.nothing && matches!(errand.what, What::Turn { fetch: false, .. });
        let obstacle = self.obstacle(now).filter(|_| !errand.test).map(|(_, words)| words);
        match nothing.then(|| ground::NOTHING.to_owned()).or(obstacle) {
            Some(words) => {
                tracing::info!(why = words, "no run now");
                if let Some(name) = &errand.entry {
                    self.clock.entry_ran(name, now);
                }
            }
            None => self.push(errand, now),
        }
    }

    /// Queues an errand; an entry that joins one of its own that waits has no end of its own.
    fn push(&mut self, errand: Errand, now: Timestamp) {
        let entry = errand.entry.clone();
        if let (Joined::Another, Some(name)) = (self.queue.push(errand), entry) {
            self.clock.entry_ran(&name, now);
        }
    }

    /// Why nothing may be changed now.
    fn obstacle(&self, now: Timestamp) -> Option<(Why, String)> {
        self.orders.obstacle(&self.settings.windows, now, &local_zone())
    }

    /// True when there is nothing that a run could read.
    fn has_nothing(&self) -> bool {
        self.seen.current.is_none() && !ground::holds_files(&self.settings.baked)
    }

    fn hear(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Polled(polled) => self.polled(*polled, now),
            Event::Rollouts(heard) => self.heard(heard, now),
            Event::Asked(wish, ticket) => {
                let mut errand = Errand::new(What::Turn { trigger: Trigger::Manual, fetch: wish.fetch });
                (errand.test, errand.sls, errand.tickets) = (wish.test, wish.sls, vec![ticket]);
                self.queue.push(errand);
            }
            Event::Changed => {
                self.look();
                self.clock.triggered(now);
                if let Some(poller) = &mut self.poller {
                    poller.again();
                }
            }
            Event::Touched => {
                let errand = Errand::new(What::Turn { trigger: Trigger::Git, fetch: true });
                self.ask(errand, now);
            }
            Event::Ended(status) => self.ended(status, now),
            Event::Reload => self.reload(now),
            Event::Stop => self.stop(),
        }
    }

    /// The configuration is read again; one that is wrong changes nothing.
    fn reload(&mut self, now: Timestamp) {
        self.notify.reloading();
        match (self.setup.settings)() {
            Ok(settings) => {
                let fixed = |of: &Settings| (of.root.clone(), of.listen, of.socket_group.clone());
                if fixed(&settings) != fixed(&self.settings) {
                    tracing::warn!(
                        "the socket and the address stay as they are: `root`, `listen` and `socket_group` ask for a restart"
                    );
                }
                self.settings = settings;
                let saved = self.clock.saved();
                self.clock = Clock::new(&self.settings, self.setup.seed, local_zone(), saved, now);
                self.look();
                self.follow();
                self.take_part();
                self.queue.push(Errand::new(What::Probe));
                self.ask(Errand::new(What::Turn { trigger: Trigger::Timer, fetch: true }), now);
                tracing::info!("the configuration was read again");
            }
            Err(trouble) => {
                tracing::error!("the configuration is wrong and stays as it was: {}", trouble.words());
            }
        }
        self.notify.ready(&self.words());
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.as_mut().filter(|_| self.stopping) {
            // Told twice: whoever asks does not want to wait.
            return running.child.kill();
        }
        self.stopping = true;
        self.leave();
        self.desk.stop();
        self.notify.stopping("stopping: the run under way is told to end");
        if let Some(running) = &mut self.running {
            running.child.stop();
            (running.told, running.until) = (true, Instant::now() + GRACE);
        }
    }

    /// What the daemon does, in words.
    fn words(&self) -> String {
        let now = Timestamp::now();
        if let Some(running) = &self.running {
            return running.errand.words();
        }
        if let Some((_, words)) = self.obstacle(now) {
            return words;
        }
        match &self.seen.current {
            Some(current) => format!("on {}", current.revision.get(..12).unwrap_or(&current.revision)),
            None => "no states yet".into(),
        }
    }

    /// Lays on the desk what everybody may see.
    fn show(&mut self) {
        let words = self.words();
        if words != self.said {
            self.notify.status(&words);
            self.said.clone_from(&words);
        }
        let pieces = Pieces {
            daemon: Some(status::Daemon { pid: std::process::id(), since: self.since, doing: words }),
            memory: self.memory.clone(),
            next: self.next(),
            silent: self.part.silent.iter().flatten().cloned().collect(),
            window: status::Window::of(&self.settings.windows, Timestamp::now(), &local_zone()),
            ..self.seen.clone()
        };
        self.desk.show(pieces);
    }

    fn next(&self) -> Next {
        let entry = self.clock.next_entry().map(|(name, at)| Entry { name: name.to_owned(), at });
        Next { poll: self.clock.next_poll(), run: Some(self.clock.next_run()), entry }
    }

    fn keep_memory(&mut self, before: &Memory) {
        if self.memory != *before && self.running.is_none() {
            let paths = self.settings.paths();
            if let Err(error) = self.memory.save(&paths.memory()) {
                tracing::warn!(%error, "what was seen is not kept");
            }
            self.marks.memory = Marks::of(&paths).memory;
        }
    }

    fn keep_clock(&mut self) {
        if let Err(error) = self.clock.save(&self.settings.paths().schedule()) {
            tracing::warn!(error = chain(&error), "when entries ran is not kept");
        }
    }
}
