//! A plan in, how every state ended out: the only owner of threads.
//!
//! Law: one thread decides (queue, requisites, locks) and does what takes microseconds itself; what may take longer goes to
//! workers, of whom there are never more than jobs. Whatever happens, what runs is awaited and every state gets its outcome.

mod begin;
mod close;
mod dispatch;
mod end;
mod pool;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zagent_compiler::{Compat, Files, Host, Plan, schema};
use zagent_config::Value;
use zagent_config::settings::RunSchedule;

use self::pool::{Message, Pool, labour};
use super::converge::{Ended, Shadow, Task, panic_words};
use super::graph::Graph;
use super::hold::Holds;
use super::queue::{Lanes, Queue};
use super::{Mode, Outcome};
use crate::fs::FileSystem;
use crate::host::Cancel;
use crate::output::Progress;
use crate::states::{Render, Scene, Shared, Veil};
use crate::undo::Journal;

/// So many states at most wait for others on the same thing; then no more are begun.
const MOST_BLOCKED: usize = 1024;

/// The file system of each state: the disk, with notes for undo under its tag, or what a dry run imagines.
pub trait Ground: Sync {
    /// What a state of this tag may touch.
    fn fs(&self, tag: &str) -> Arc<dyn FileSystem>;

    /// Where undo notes go that are not about files; nowhere in a dry run.
    fn journal(&self) -> Option<&Journal>;
}

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Apply or test.
    pub mode: Mode,
    /// In which order.
    pub schedule: RunSchedule,
    /// Whose verdicts count.
    pub compat: Compat,
    /// How many at a time, at most.
    pub jobs: usize,
    /// How long, at most.
    pub timeout: Option<Duration>,
    /// The first failure ends the run.
    pub failhard: bool,
}

/// Where a run takes place.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// The files of the host.
    pub ground: &'a dyn Ground,
    /// The state trees.
    pub files: &'a dyn Files,
    /// Facts and execution functions.
    pub host: &'a dyn Host,
    /// The pillar.
    pub pillar: &'a Value,
    /// Where downloads are kept.
    pub cache: &'a Path,
    /// Where new ones are put.
    pub spare: &'a Path,
    /// Says when to stop.
    pub cancel: &'a Arc<Cancel>,
    /// Is told how it goes.
    pub watcher: &'a dyn Progress,
}

/// What came of it.
#[derive(Debug)]
pub struct Ran {
    /// Every state, in the order they ran.
    pub states: Vec<Outcome>,
    /// True when it was stopped.
    pub canceled: bool,
    /// Why the whole run was given up, with Salt's verdicts only.
    pub given_up: Option<String>,
}

/// Runs a plan. `templates` is only used on this thread.
#[must_use]
pub fn run(stage: &Stage<'_>, templates: &dyn Render, settings: &Settings) -> Ran {
    let (to_me, inbox) = mpsc::channel();
    let (to_workers, work) = mpsc::channel();
    let work = Arc::new(Mutex::new(work));
    let shared = Shared::default();
    std::thread::scope(|scope| {
        let spawn = || {
            let (work, to_me, shared) = (Arc::clone(&work), to_me.clone(), &shared);
            scope.spawn(move || labour(stage, settings, &work, &to_me, shared));
        };
        let pool = Pool { to_workers, spawn: &spawn, workers: 0, busy: 0 };
        Runner::new(stage, templates, settings, &shared, pool).go(&inbox)
    })
}

fn scene<'s>(
    stage: &Stage<'s>,
    settings: &Settings,
    templates: &'s dyn Render,
    shared: &'s Shared,
    fs: &'s dyn FileSystem,
    tag: &'s str,
) -> Scene<'s> {
    Scene {
        tag,
        journal: stage.ground.journal(),
        fs,
        files: stage.files,
        host: stage.host,
        templates,
        pillar: stage.pillar,
        plan: stage.plan,
        compat: settings.compat,
        cancel: stage.cancel,
        deadline: None,
        shared,
        cache: stage.cache,
        spare: stage.spare,
    }
}

/// The graph of a plan and its lanes; should what is implied close a circle, then only what was written counts.
fn lanes(plan: &Plan, implied: bool) -> (Graph, Lanes) {
    let graph = Graph::new(plan, implied);
    if let Some(lanes) = Lanes::new(&graph.nodes, &graph.edges) {
        return (graph, lanes);
    }
    tracing::error!(
        implied,
        "what states imply for each other closes a circle; only what was written counts"
    );
    let graph = Graph::new(plan, false);
    // A plan has no circles: the compiler refuses them.
    let lanes = Lanes::new(&graph.nodes, &graph.edges).or_else(|| Lanes::new(&graph.nodes, &[]));
    (graph, lanes.unwrap_or_default())
}

/// What others need to know of a state that has ended.
#[derive(Clone, Copy, Debug)]
struct Mark {
    result: Option<bool>,
    changed: bool,
    ran: bool,
    unknown: bool,
    /// A dry run cannot tell whether it would succeed.
    may_fail: bool,
    /// Nobody can tell whether it would fail.
    shaky: bool,
    /// What it would change itself that nobody can foresee.
    veil: Veil,
    shadow: Shadow,
}

/// Why nothing more is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    Failhard,
    Cancelled,
    GivenUp,
}

struct Runner<'s, 'p> {
    stage: &'s Stage<'p>,
    templates: &'s dyn Render,
    settings: &'s Settings,
    shared: &'s Shared,
    pool: Pool<'s, 'p>,
    graph: Graph,
    queue: Queue,
    marks: Vec<Option<Mark>>,
    /// Checks of prereq targets that ran, and what they said: by tag.
    checks: HashMap<String, Ended>,
    /// Targets of a prereq whose check already decided: they do not run again.
    decided: HashMap<String, Mark>,
    outcomes: Vec<Outcome>,
    holds: Holds,
    blocked: Vec<Task<'p>>,
    number: u64,
    halt: Option<Halt>,
    given_up: Option<String>,
    deadline: Option<Instant>,
    /// What the functions of this run take, where that is limited.
    tables: HashMap<(Arc<str>, Arc<str>), Option<schema::Table>>,
}

impl<'s, 'p> Runner<'s, 'p> {
    fn new(
        stage: &'s Stage<'p>,
        templates: &'s dyn Render,
        settings: &'s Settings,
        shared: &'s Shared,
        pool: Pool<'s, 'p>,
    ) -> Self {
        let (graph, lanes) = lanes(stage.plan, settings.schedule != RunSchedule::Ordered);
        let count = stage.plan.chunks.len();
        Self {
            stage,
            templates,
            settings,
            shared,
            pool,
            queue: Queue::new(lanes, settings.schedule),
            graph,
            marks: vec![None; count],
            checks: HashMap::new(),
            decided: HashMap::new(),
            outcomes: Vec::with_capacity(count),
            holds: Holds::default(),
            blocked: Vec::new(),
            number: 0,
            halt: None,
            given_up: None,
            deadline: settings.timeout.and_then(|t| Instant::now().checked_add(t)),
            tables: HashMap::new(),
        }
    }

    fn go(mut self, inbox: &Receiver<Message>) -> Ran {
        loop {
            if self.halt.is_none() && self.stage.cancel.is_said() {
                self.stop();
            }
            self.start_blocked();
            while self.pool.busy < self.settings.jobs && self.blocked.len() < MOST_BLOCKED {
                let Some(next) = self.queue.take() else { break };
                self.begin(next);
            }
            if self.pool.busy > 0 {
                if let Some((index, tag, number, ended)) = self.hear(inbox) {
                    self.settle(index, tag, number, ended);
                }
            } else if self.blocked.is_empty() {
                break;
            }
        }
        self.listeners(inbox);
        // Who was at work when the word came may have been the last.
        let canceled = self.halt == Some(Halt::Cancelled) || self.stage.cancel.is_said();
        self.outcomes.sort_by_key(|o| o.run_num);
        Ran { states: self.outcomes, canceled, given_up: self.given_up }
    }

    /// Waits for a word from a worker and does what it asks; gives back what a worker has finished.
    fn hear(&mut self, inbox: &Receiver<Message>) -> Option<(usize, String, Option<u64>, Ended)> {
        let left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let message = match left {
            Some(left) if self.halt != Some(Halt::Cancelled) => inbox.recv_timeout(left),
            _ => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(Message::Finished(index, tag, number, ended)) => {
                self.pool.busy -= 1;
                self.holds.give_back(index);
                return Some((index, tag, number, *ended));
            }
            Ok(Message::Render(template, reply)) => {
                // A worker that was ended meanwhile needs no answer.
                let rendered = catch_unwind(AssertUnwindSafe(|| self.templates.render(&template)));
                let _ = reply.send(rendered.unwrap_or_else(|panic| Err(panic_words(&*panic))));
            }
            Err(_) => self.stop(),
        }
        None
    }

    fn stop(&mut self) {
        self.stage.cancel.say();
        self.halt = Some(Halt::Cancelled);
    }

    fn start_blocked(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        for task in std::mem::take(&mut self.blocked) {
            if self.halt.is_some() {
                self.queue_skip(task.index, task.tag);
            } else if self.pool.busy < self.settings.jobs {
                self.dispatch(task);
            } else {
                self.blocked.push(task);
            }
        }
    }
}
