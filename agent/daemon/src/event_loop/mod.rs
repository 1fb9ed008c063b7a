//! Clock, remotes, signals and requests in, runs out: the event loop of the daemon.
//!
//! Law: the loop waits only for the next event. A turn is a separate process, a poll a separate thread; one turn at
//! a time, and a request that arrives meanwhile waits, merged with equal requests (held by
//! `equal_requests_share_a_run`, `a_poll_during_a_run_starts_no_second_run`,
//! `a_hanging_remote_delays_nothing_else`).

#![expect(
    clippy::disallowed_methods,
    reason = "the edge of the daemon: it reads the clock and hands time to decisions"
)]

pub(crate) mod daemon_state;
pub(crate) mod driver_thread;
pub(crate) mod inode_stamps;
pub mod job;
pub mod jobs;
pub(crate) mod participation;
pub(crate) mod poller;
pub mod refresh;
pub(crate) mod rollout_thread;
pub mod signals;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_cache::source::{DirWatcher, RemotePoll};
use zagent_config::ids::short_revision;
use zagent_config::settings::Settings;

use self::daemon_state::DaemonState;
use self::inode_stamps::InodeStamps;
use self::job::{Job, JobKind, JobQueue, QueueResult};
use self::participation::RolloutParticipation;
use self::poller::Poller;
use self::rollout_thread::RolloutThreadEvent;
use self::signals::DaemonSignals;
use super::held_revision::HoldReason;
use super::memory::AgentMemory;
use super::operator_orders::OperatorOrders;
use super::scheduler::{DueAction, Scheduler, SchedulerState};
use super::states_source;
use super::turn_process::TurnProcess;
use crate::api;
use crate::api::Ticket;
use crate::error::AgentError;
use crate::sd_notify::SdNotify;
use crate::status;
use crate::status::{ScheduledEntry, StatusInputs, UpcomingEvents};
use crate::trust_warnings;
use zagent_config::error_chain;
use zagent_host::timezone::local_zone;
use zagent_run::RunTrigger;

/// Maximum sleep of the loop, to notice a changed clock and to serve the systemd watchdog.
const MAX_SLEEP: Duration = Duration::from_secs(30);
/// Time without a sign of life after which the loop counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(120);
/// Time for a turn to stop before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(90);

/// An event for the loop.
#[derive(Debug)]
pub enum DaemonEvent {
    /// The remotes were polled.
    Polled(Box<RemotePoll>),
    /// Rollout records were read, or a report was published.
    Rollouts(RolloutThreadEvent),
    /// A client requests a run.
    RunRequested(api::RunRequest, Ticket),
    /// Pause, pin or quarantine may have changed.
    OrdersChanged,
    /// A local source directory changed.
    SourceChanged,
    /// A process ended.
    JobEnded(io::Result<ExitStatus>),
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGUSR1: the program was replaced, and the service manager starts the new one.
    StopWhenIdle,
}

/// Inputs of the daemon.
pub struct DaemonSetup<'a> {
    /// Program to run turns with.
    pub program: PathBuf,
    /// Arguments of every process, such as `--config FILE`.
    pub args: Vec<OsString>,
    /// Additional arguments of turns.
    pub turn_args: Vec<OsString>,
    /// Loads the settings.
    pub settings: &'a dyn Fn() -> Result<Settings, AgentError>,
    /// Seed that spreads the fleet over time.
    pub seed: u64,
}

/// The daemon.
struct Daemon<'a> {
    setup: DaemonSetup<'a>,
    settings: Settings,
    clock: Scheduler,
    memory: AgentMemory,
    /// State read from the files, as of the last refresh.
    seen: StatusInputs,
    orders: OperatorOrders,
    /// Stamps of the files that were read.
    stamps: InodeStamps,
    poller: Option<Poller>,
    participation: RolloutParticipation,
    watches: Vec<DirWatcher>,
    queue: JobQueue,
    running: Option<RunningJob>,
    state: Arc<DaemonState>,
    notify: SdNotify,
    events: Sender<DaemonEvent>,
    since: Timestamp,
    /// Last status sent to the service manager.
    last_status: String,
    /// True while there are no states to run.
    no_source: bool,
    stopping: bool,
    /// True when the daemon ends with the current run.
    leaving: bool,
}

/// A running process.
struct RunningJob {
    child: TurnProcess,
    job: Job,
    since: Timestamp,
    /// When it is told to stop, then killed.
    until: Instant,
    terminated: bool,
}

/// Runs until it is told to stop.
///
/// # Errors
/// Fails when the settings are invalid, another daemon uses the socket, or the system refuses threads or
/// signals.
pub fn run(setup: DaemonSetup<'_>) -> Result<(), AgentError> {
    let settings = (setup.settings)()?;
    let (events, heard) = channel();
    let failed = |what: &str, error: &dyn std::error::Error| {
        AgentError::failed(format!("{what}: {}", error_chain(error)))
    };
    let _signals =
        DaemonSignals::watch(events.clone()).map_err(|error| failed("cannot listen for signals", &error))?;
    let paths = settings.paths();
    let state = Arc::new(DaemonState::new(events.clone(), paths.clone(), settings.run.keep));
    let config = api::ApiConfig {
        socket: paths.socket(),
        group: settings.socket_group.clone(),
        readers: settings.socket_readers.clone(),
        listen: settings.listen,
        pages: settings.listen_pages,
        limits: api::ApiLimits::default(),
    };
    let _serving = api::serve(config, Arc::clone(&state) as Arc<dyn api::ApiBackend>)
        .map_err(|error| failed("cannot start the API", &error))?;
    let now = Timestamp::now();
    let saved = SchedulerState::read(&paths.schedule()).unwrap_or_else(|error| {
        tracing::warn!(
            error = error_chain(&error),
            "cannot read the schedule state, starting with an empty one"
        );
        SchedulerState::default()
    });
    let clock = Scheduler::new(&settings, setup.seed, local_zone(), saved, now);
    let mut daemon = Daemon {
        clock,
        memory: AgentMemory::load(&paths.memory()),
        seen: StatusInputs::default(),
        orders: OperatorOrders::default(),
        stamps: InodeStamps::default(),
        poller: None,
        participation: RolloutParticipation::default(),
        watches: Vec::new(),
        queue: JobQueue::default(),
        running: None,
        state,
        notify: SdNotify::from_env(),
        events,
        since: now,
        last_status: String::new(),
        no_source: false,
        stopping: false,
        leaving: false,
        settings,
        setup,
    };
    daemon.initialize();
    daemon.run_loop(&heard);
    Ok(())
}

impl Daemon<'_> {
    fn initialize(&mut self) {
        self.read_files();
        self.follow_remotes();
        self.start_participation();
        self.no_source = self.has_no_source();
        if self.no_source {
            tracing::warn!("{}", states_source::NO_STATES_AT_BOOT);
        }
        let warnings = trust_warnings::unsigned_warnings(&self.settings);
        let shared = trust_warnings::shared_key_warning(&self.settings);
        warnings.iter().chain(&shared).for_each(|warning| tracing::warn!("{warning}"));
        self.queue.push(Job::new(JobKind::Probe));
        self.publish_state();
        self.notify.ready(&self.status_text());
        tracing::info!(node = %self.settings.id, remotes = self.settings.source.remotes.len(), "daemon started");
    }

    /// The event loop.
    fn run_loop(&mut self, heard: &Receiver<DaemonEvent>) {
        while !(self.stopping && self.running.is_none()) {
            let now = Timestamp::now();
            self.refresh(now);
            self.run_due(now);
            self.run_rollout_due(now);
            self.start_next_job(now);
            self.enforce_timeout();
            self.publish_state();
            let nap = self.sleep_time(Timestamp::now());
            self.state.alive_until(Instant::now() + nap + DEAD_AFTER);
            match heard.recv_timeout(nap) {
                Ok(event) => self.handle_event(event, Timestamp::now()),
                Err(RecvTimeoutError::Timeout) => {}
                // The daemon itself holds a sender, so the channel never closes.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.notify.ping_watchdog();
        }
        self.save_schedule();
        self.report_stop(heard);
        self.notify.stopping("stopped");
    }

    /// Time until something is due.
    fn sleep_time(&mut self, now: Timestamp) -> Duration {
        let watchdog = self.notify.watchdog_interval().unwrap_or(MAX_SLEEP);
        let child = self.running.as_ref().map_or(MAX_SLEEP, |running| {
            running.until.saturating_duration_since(Instant::now()).max(Duration::from_millis(10))
        });
        let (at, _) = self.clock.next(now);
        let due = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        let due = if self.stopping { MAX_SLEEP } else { due };
        due.min(MAX_SLEEP).min(watchdog).min(child).min(self.rollout_sleep_time(now))
    }

    /// Does what is due by the clock.
    fn run_due(&mut self, now: Timestamp) {
        if self.stopping {
            return;
        }
        let (at, due) = self.clock.next(now);
        if at > now {
            return;
        }
        match &due {
            DueAction::Poll => {
                self.clock.skip_due(&due, now);
                if let Some(poller) = &mut self.poller {
                    poller.poll();
                }
            }
            DueAction::Converge | DueAction::Retry => {
                self.clock.skip_due(&due, now);
                self.queue_automatic(
                    Job::new(JobKind::Turn { trigger: RunTrigger::Timer, fetch: false }),
                    now,
                );
            }
            DueAction::Entry(name) => {
                let Some(entry) = self.settings.schedule.iter().find(|entry| entry.name == *name) else {
                    return self.clock.skip_due(&due, now);
                };
                let mut job = Job::new(JobKind::Turn { trigger: RunTrigger::Timer, fetch: false });
                job.sls.clone_from(&entry.sls);
                job.target.clone_from(&entry.target);
                job.test = entry.test;
                job.entry = Some(name.clone());
                self.clock.entry_started(name, now);
                self.queue_automatic(job, now);
            }
        }
        self.save_schedule();
    }

    /// Queues an automatic job, unless changes are not allowed now.
    fn queue_automatic(&mut self, job: Job, now: Timestamp) {
        let nothing = self.no_source && matches!(job.kind, JobKind::Turn { fetch: false, .. });
        let obstacle = self.change_obstacle(now).filter(|_| !job.test).map(|(_, words)| words);
        match nothing.then(|| states_source::NO_STATES.to_owned()).or(obstacle) {
            Some(words) => {
                tracing::info!(why = words, "automatic run skipped");
                if let Some(name) = &job.entry {
                    self.clock.entry_ended(name, now);
                }
            }
            None => self.enqueue(job, now),
        }
    }

    /// Queues a job; a schedule entry that is merged into its own waiting job does not end separately.
    fn enqueue(&mut self, job: Job, now: Timestamp) {
        let entry = job.entry.clone();
        if let (QueueResult::Merged, Some(name)) = (self.queue.push(job), entry) {
            self.clock.entry_ended(&name, now);
        }
    }

    /// Why nothing may be changed now.
    fn change_obstacle(&self, now: Timestamp) -> Option<(HoldReason, String)> {
        self.orders.change_obstacle(&self.settings.windows, now, &local_zone())
    }

    /// True when there are no states to run.
    fn has_no_source(&self) -> bool {
        self.seen.current.is_none() && !states_source::has_files(&self.settings.baked)
    }

    fn handle_event(&mut self, event: DaemonEvent, now: Timestamp) {
        match event {
            DaemonEvent::Polled(polled) => self.on_polled(*polled, now),
            DaemonEvent::Rollouts(heard) => self.on_thread_event(heard, now),
            DaemonEvent::RunRequested(request, ticket) => {
                let mut job = Job::new(JobKind::Turn { trigger: RunTrigger::Manual, fetch: request.fetch });
                (job.test, job.sls, job.tickets) = (request.test, request.sls, vec![ticket]);
                self.queue.push(job);
            }
            DaemonEvent::OrdersChanged => {
                self.read_files();
                self.clock.trigger_now(now);
                if let Some(poller) = &mut self.poller {
                    poller.request_again();
                }
            }
            DaemonEvent::SourceChanged => {
                let job = Job::new(JobKind::Turn { trigger: RunTrigger::Git, fetch: true });
                self.queue_automatic(job, now);
            }
            DaemonEvent::JobEnded(status) => {
                self.on_job_ended(status, now);
                if self.leaving {
                    self.stop();
                }
            }
            DaemonEvent::Reload => self.reload(now),
            DaemonEvent::Stop => self.stop(),
            DaemonEvent::StopWhenIdle => self.stop_when_idle(),
        }
    }

    /// Reads the configuration again; an invalid one changes nothing.
    fn reload(&mut self, now: Timestamp) {
        self.notify.reloading();
        match (self.setup.settings)() {
            Ok(settings) => {
                let groups = |of: &Settings| (of.socket_group.clone(), of.socket_readers.clone());
                let fixed = |of: &Settings| (of.root.clone(), of.listen, groups(of));
                if fixed(&settings) != fixed(&self.settings) {
                    tracing::warn!(
                        "the socket and the address are unchanged: restart to apply `root`, `listen`, \
                         `socket_group` and `socket_readers`"
                    );
                }
                self.settings = settings;
                let saved = self.clock.state_to_save();
                self.clock = Scheduler::new(&self.settings, self.setup.seed, local_zone(), saved, now);
                self.read_files();
                self.follow_remotes();
                self.start_participation();
                self.queue.push(Job::new(JobKind::Probe));
                self.queue_automatic(
                    Job::new(JobKind::Turn { trigger: RunTrigger::Timer, fetch: true }),
                    now,
                );
                tracing::info!("configuration reloaded");
            }
            Err(trouble) => {
                tracing::error!(
                    "the configuration is invalid, keeping the previous one: {}",
                    trouble.summary()
                );
            }
        }
        self.notify.ready(&self.status_text());
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.as_mut().filter(|_| self.stopping) {
            // A second signal: the sender does not want to wait.
            return running.child.kill();
        }
        self.stopping = true;
        self.stop_driving();
        self.state.set_stopping();
        self.notify.stopping("stopping: ending the current run");
        if let Some(running) = &mut self.running {
            running.child.stop();
            (running.terminated, running.until) = (true, Instant::now() + STOP_GRACE);
        }
    }

    /// Ends now, or with the current run: an upgrade of the package never interrupts a run.
    fn stop_when_idle(&mut self) {
        let is_run = |running: &RunningJob| running.job.kind != JobKind::Probe;
        if !self.running.as_ref().is_some_and(is_run) {
            return self.stop();
        }
        tracing::info!("the daemon stops after the current run");
        self.leaving = true;
    }

    /// What the daemon is doing, as text.
    fn status_text(&self) -> String {
        let now = Timestamp::now();
        if let Some(running) = &self.running {
            return running.job.label();
        }
        if let Some((_, words)) = self.change_obstacle(now) {
            return words;
        }
        match &self.seen.current {
            Some(current) => format!("on {}", short_revision(&current.revision)),
            None => "no states yet".into(),
        }
    }

    /// Publishes the state for API clients.
    fn publish_state(&mut self) {
        let words = self.status_text();
        if words != self.last_status {
            self.notify.status(&words);
            self.last_status.clone_from(&words);
        }
        let pieces = StatusInputs {
            daemon: Some(status::DaemonStatus { pid: std::process::id(), since: self.since, doing: words }),
            memory: self.memory.clone(),
            next: self.next_times(),
            silent: self.participation.unreachable.iter().flatten().cloned().collect(),
            window: status::WindowStatus::at_time(&self.settings.windows, Timestamp::now(), &local_zone()),
            ..self.seen.clone()
        };
        self.state.set_pieces(pieces);
    }

    fn next_times(&self) -> UpcomingEvents {
        let entry = self.clock.next_entry().map(|(name, at)| ScheduledEntry { name: name.to_owned(), at });
        UpcomingEvents { poll: self.clock.next_poll(), run: Some(self.clock.next_run()), entry }
    }

    fn save_memory(&mut self, before: &AgentMemory) {
        if self.memory != *before && self.running.is_none() {
            let paths = self.settings.paths();
            if let Err(error) = self.memory.save(&paths.memory()) {
                tracing::warn!(%error, "cannot save state");
            }
            self.stamps.memory = InodeStamps::read(&paths).memory;
        }
    }

    fn save_schedule(&mut self) {
        if let Err(error) = self.clock.save(&self.settings.paths().schedule()) {
            tracing::warn!(error = error_chain(&error), "cannot save the schedule state");
        }
    }
}
