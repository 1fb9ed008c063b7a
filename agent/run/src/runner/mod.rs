//! A plan in, how every state ended out: the only owner of threads.
//!
//! Law: one thread decides (queue, requisites, locks) and does what takes microseconds itself; what may take longer
//! goes to workers, of whom there are never more than jobs. Whatever happens, what runs is awaited and every state
//! gets its outcome (held by `no_more_run_at_once_than_allowed_and_no_fewer`,
//! `the_run_timeout_ends_everything_that_waits`).

#![expect(clippy::disallowed_methods, reason = "the run has a deadline, and every state a start")]

pub(crate) mod dispatch;
pub mod finish;
pub mod pool;
pub(crate) mod run_listeners;
pub mod start;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zagent_compiler::{Chunk, Compat, FileTree, Plan, TemplateHost, schema};
use zagent_config::Value;
use zagent_config::settings::RunSchedule;

use self::pool::{WorkerMessage, WorkerPool, worker_loop};
use super::causes::Cause;
use super::converge::{ConvergeResult, PriorEffects, StateTask, panic_message};
use super::graph::{ImpliedOrder, RunGraph};
use super::queue::{RankedGraph, RunQueue};
use super::state_locks::StateLocks;
use super::{RunMode, StateOutcome};
use crate::secret_files::SecretFiles;
use crate::sls_line::SlsLines;
use crate::{GlobalConditions, RunProgress};
use zagent_host::CancelToken;
use zagent_host::Machine;
use zagent_host::fs::FileSystem;
use zagent_host::undo::UndoJournal;
use zagent_states::{Effects, RenderTemplate, RunShared, StateCtx};

/// So many states at most wait for others on the same thing; then no more are begun.
const MAX_BLOCKED: usize = 1024;

/// The file system of each state: the disk, with notes for undo under its tag, or what a dry run imagines.
pub(crate) trait RunFs: Sync {
    /// What a state of this tag may touch.
    fn state_fs(&self, tag: &str) -> Arc<dyn FileSystem>;

    /// Where undo notes go that are not about files; nowhere in a dry run.
    fn journal(&self) -> Option<&UndoJournal>;
}

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct RunnerSettings {
    /// Apply or test.
    pub mode: RunMode,
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
    /// How many states with `parallel: true` run at a time; as many as `jobs` when unset.
    pub max_parallel: Option<usize>,
}

/// Where a run takes place.
#[derive(Clone, Copy)]
pub struct RunCtx<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// The machine that the states work on.
    pub machine: &'a Machine,
    /// Its files.
    pub(crate) run_fs: &'a dyn RunFs,
    /// The state trees.
    pub files: &'a dyn FileTree,
    /// Facts and execution functions.
    pub host: &'a dyn TemplateHost,
    /// The pillar.
    pub pillar: &'a Value,
    /// Which states may run at all.
    pub conditions: &'a GlobalConditions,
    /// Where downloads are kept.
    pub cache: &'a Path,
    /// Where new ones are put.
    pub spare: &'a Path,
    /// Says when to stop.
    pub cancel: &'a Arc<CancelToken>,
    /// Is told how it goes.
    pub progress: &'a dyn RunProgress,
    /// What must not be shown, and the files that hold or held it.
    pub(crate) secrets: &'a Arc<SecretFiles>,
    /// The node that manages the machine, for states with `minion: true`; none when the machine is that node.
    pub(crate) manager: Option<RunPlace<'a>>,
}

/// Where a state runs: a machine, its files and its functions.
#[derive(Clone, Copy)]
pub(crate) struct RunPlace<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) run_fs: &'a dyn RunFs,
    pub(crate) host: &'a dyn TemplateHost,
}

impl<'a> RunCtx<'a> {
    /// Where a state runs.
    fn place(&self, chunk: &Chunk) -> RunPlace<'a> {
        let own = RunPlace { machine: self.machine, run_fs: self.run_fs, host: self.host };
        self.manager.filter(|_| chunk.runs_on_manager()).unwrap_or(own)
    }

    /// What a state of this tag may touch.
    fn state_fs(&self, place: &RunPlace<'_>, tag: &str) -> Arc<dyn FileSystem> {
        self.secrets.watch(place.run_fs.state_fs(tag), tag)
    }

    /// Tells who watches that a state begins.
    fn tell_started(&self, index: usize, tag: &str) {
        self.progress.started(index, &self.secrets.mask().mask_tag(tag));
    }
}

/// What came of it.
#[derive(Debug)]
pub struct RunResult {
    /// Every state, in the order they ran.
    pub states: Vec<StateOutcome>,
    /// True when it was stopped.
    pub canceled: bool,
    /// Why the whole run was given up, with Salt's verdicts only.
    pub aborted: Option<String>,
}

/// Runs a plan. `templates` is only used on this thread.
#[must_use]
pub fn run_plan(
    run_ctx: &RunCtx<'_>,
    templates: &dyn RenderTemplate,
    settings: &RunnerSettings,
) -> RunResult {
    let (to_me, inbox) = mpsc::channel();
    let (to_workers, work) = mpsc::channel();
    let work = Arc::new(Mutex::new(work));
    let shared = RunShared::default();
    std::thread::scope(|scope| {
        let spawn = || {
            let (work, to_me, shared) = (Arc::clone(&work), to_me.clone(), &shared);
            scope.spawn(move || worker_loop(run_ctx, settings, &work, &to_me, shared));
        };
        let pool = WorkerPool { to_workers, spawn: &spawn, workers: 0, busy: 0 };
        Runner::new(run_ctx, templates, settings, &shared, pool).run_loop(&inbox)
    })
}

/// Which state runs, and as what.
#[derive(Clone, Copy)]
struct RunningState<'s> {
    place: RunPlace<'s>,
    tag: &'s str,
    fs: &'s dyn FileSystem,
}

fn state_ctx<'s>(
    run_ctx: &RunCtx<'s>,
    settings: &RunnerSettings,
    templates: &'s dyn RenderTemplate,
    shared: &'s RunShared,
    RunningState { place, tag, fs }: RunningState<'s>,
) -> StateCtx<'s> {
    StateCtx {
        tag,
        journal: place.run_fs.journal(),
        machine: place.machine,
        fs,
        files: run_ctx.files,
        host: place.host,
        templates,
        pillar: run_ctx.pillar,
        plan: run_ctx.plan,
        compat: settings.compat,
        cancel: run_ctx.cancel,
        deadline: None,
        shared,
        cache_dir: run_ctx.cache,
        staging_dir: run_ctx.spare,
    }
}

/// The graph of a plan and its lanes; should what is implied close a circle, then only what was written counts.
fn rank_graph(plan: &Plan, schedule: RunSchedule) -> (RunGraph, RankedGraph) {
    let implied = match schedule {
        RunSchedule::Levels | RunSchedule::Eager => ImpliedOrder::Kinds,
        RunSchedule::Declared => ImpliedOrder::Written,
        RunSchedule::Ordered => ImpliedOrder::None,
    };
    let graph = RunGraph::new(plan, implied);
    if let Some(ranked_graph) = RankedGraph::new(&graph.nodes, &graph.edges) {
        return (graph, ranked_graph);
    }
    tracing::error!(
        ?implied,
        "what states imply for each other closes a circle; only what was written counts"
    );
    let graph = RunGraph::new(plan, ImpliedOrder::None);
    // A plan has no circles: the compiler refuses them.
    let ranked_graph =
        RankedGraph::new(&graph.nodes, &graph.edges).or_else(|| RankedGraph::new(&graph.nodes, &[]));
    (graph, ranked_graph.unwrap_or_default())
}

/// What others need to know of a state that has ended.
#[derive(Clone, Debug)]
struct FinishedState {
    result: Option<bool>,
    changed: bool,
    ran: bool,
    unknown: bool,
    /// A dry run cannot tell whether it would succeed.
    may_fail: bool,
    /// It would run a command that a dry run does not understand.
    command_may_fail: bool,
    /// Nobody can tell whether it would fail.
    failure_unknown: bool,
    /// What it would change itself that nobody can foresee.
    unpredicted: Effects,
    prior_effects: PriorEffects,
}

/// Why nothing more is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HaltReason {
    Failhard,
    Cancelled,
    Aborted,
}

struct Runner<'s, 'p> {
    run_ctx: &'s RunCtx<'p>,
    templates: &'s dyn RenderTemplate,
    settings: &'s RunnerSettings,
    shared: &'s RunShared,
    pool: WorkerPool<'s, 'p>,
    graph: RunGraph,
    queue: RunQueue,
    finished: Vec<Option<FinishedState>>,
    /// Checks of prereq targets that ran, and what they said: by tag.
    prereq_checks: HashMap<String, ConvergeResult>,
    /// Targets of a prereq whose check already decided: they do not run again.
    decided_prereqs: HashMap<String, FinishedState>,
    outcomes: Vec<StateOutcome>,
    locks: StateLocks,
    blocked: Vec<StateTask<'p>>,
    next_number: u64,
    halt: Option<HaltReason>,
    /// The state whose failure ends the run.
    halted_by: Option<usize>,
    /// A state that may end the run by failing, and nobody can tell whether it does.
    may_halt: Option<usize>,
    /// What each state would change, in a dry run.
    causes: HashMap<usize, Cause>,
    aborted: Option<String>,
    deadline: Option<Instant>,
    /// What the functions of this run take, where that is limited.
    tables: HashMap<(Arc<str>, Arc<str>), Option<schema::ParamTable>>,
    /// Where failed states are declared.
    sls_lines: SlsLines<'p>,
}

impl<'s, 'p> Runner<'s, 'p> {
    fn new(
        run_ctx: &'s RunCtx<'p>,
        templates: &'s dyn RenderTemplate,
        settings: &'s RunnerSettings,
        shared: &'s RunShared,
        pool: WorkerPool<'s, 'p>,
    ) -> Self {
        let (graph, ranked_graph) = rank_graph(run_ctx.plan, settings.schedule);
        let count = run_ctx.plan.chunks.len();
        Self {
            run_ctx,
            templates,
            settings,
            shared,
            pool,
            queue: RunQueue::new(ranked_graph, settings.schedule),
            graph,
            finished: vec![None; count],
            prereq_checks: HashMap::new(),
            decided_prereqs: HashMap::new(),
            outcomes: Vec::with_capacity(count),
            locks: StateLocks::default(),
            blocked: Vec::new(),
            next_number: 0,
            halt: None,
            halted_by: None,
            may_halt: None,
            causes: HashMap::new(),
            aborted: None,
            deadline: settings.timeout.and_then(|t| Instant::now().checked_add(t)),
            tables: HashMap::new(),
            sls_lines: SlsLines::new(run_ctx.files),
        }
    }

    fn run_loop(mut self, inbox: &Receiver<WorkerMessage>) -> RunResult {
        loop {
            if self.halt.is_none() && self.run_ctx.cancel.is_cancelled() {
                self.cancel_run();
            }
            self.start_blocked();
            while self.pool.busy < self.settings.jobs && self.blocked.len() < MAX_BLOCKED {
                let Some(next) = self.queue.next_ready() else { break };
                self.start_node(next);
            }
            if self.pool.busy > 0 {
                if let Some((index, tag, number, ended)) = self.receive(inbox) {
                    self.finish_ran(index, tag, number, ended);
                }
            } else if self.blocked.is_empty() {
                break;
            }
        }
        self.run_listeners(inbox);
        // Who was at work when the word came may have been the last.
        let canceled = self.halt == Some(HaltReason::Cancelled) || self.run_ctx.cancel.is_cancelled();
        self.outcomes.sort_by_key(|o| o.run_num);
        RunResult { states: self.outcomes, canceled, aborted: self.aborted }
    }

    /// Waits for a word from a worker and does what it asks; gives back what a worker has finished.
    fn receive(
        &mut self,
        inbox: &Receiver<WorkerMessage>,
    ) -> Option<(usize, String, Option<u64>, ConvergeResult)> {
        let left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let message = match left {
            Some(left) if self.halt != Some(HaltReason::Cancelled) => inbox.recv_timeout(left),
            _ => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(WorkerMessage::Finished(index, tag, number, ended)) => {
                self.pool.busy -= 1;
                self.locks.release(index);
                return Some((index, tag, number, *ended));
            }
            Ok(WorkerMessage::Render(template, reply)) => {
                // A worker that was ended meanwhile needs no answer.
                let rendered = catch_unwind(AssertUnwindSafe(|| self.templates.render(&template)));
                let _ = reply.send(rendered.unwrap_or_else(|panic| Err(panic_message(&*panic))));
            }
            Err(_) => self.cancel_run(),
        }
        None
    }

    fn cancel_run(&mut self) {
        self.run_ctx.cancel.cancel();
        self.halt = Some(HaltReason::Cancelled);
    }

    fn start_blocked(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        for task in std::mem::take(&mut self.blocked) {
            if self.halt.is_some() && !self.finishes_level(task.index) {
                self.skip_halted(task.index, task.tag);
            } else if self.pool.busy < self.settings.jobs {
                self.dispatch(task);
            } else {
                self.blocked.push(task);
            }
        }
    }
}
