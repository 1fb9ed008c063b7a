//! A plan and an order in, a report out: the lock, the journal and the run itself, in that order.
//!
//! Law: a dry run writes nothing, takes no lock and leaves no trace. A run that changes nothing leaves no journal
//! (held by `a_query_or_a_dry_run_creates_nothing`, `a_run_without_changes_leaves_nothing`,
//! `a_dry_run_works_next_to_a_run`).

#![expect(clippy::disallowed_methods, reason = "a run has a start and a duration")]

mod managed_run;
mod pruning;
mod revert;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_compiler::{Compat, FileTree, Plan, TemplateHost};
use zagent_config::paths::Paths;
use zagent_config::settings::RunSchedule;
use zagent_config::{SecretMask, Value};

pub use revert::undoable_runs;

use super::runner::{self, RunCtx, RunFs, RunPlace, RunnerSettings};
use super::{LockError, RunLock, RunMode, RunOptions, RunReport, RunTrigger};
use crate::history::History;
use crate::lock::StartedRun;
use crate::managed::{ManagedScope, RecordError};
use crate::secret_files::SecretFiles;
use crate::{GlobalConditions, RunProgress};
use zagent_config::error_chain;
use zagent_host::disk::Disk;
use zagent_host::fs::{FileSystem, FsError, Overlay};
use zagent_host::undo::{self, UndoJournal};
use zagent_host::{CancelToken, Machine};
use zagent_states::RenderTemplate;

/// At least so many states run at once.
const MIN_JOBS: usize = 8;
/// How long a run waits for another to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(600);

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum StateRunError {
    /// Another run holds the host.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The agent's own directory cannot be used.
    #[error("cannot use `{}`, where runs and their undo notes are kept", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The undo notes of earlier runs cannot be used.
    #[error(transparent)]
    Undo(#[from] FsError),
    /// The record of what the node manages cannot be used, and orphans were to be removed or listed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is nothing to undo.
    #[error("{0}")]
    NothingToRevert(String),
    /// The run that is to be undone has no such state.
    #[error("run `{run}` changed nothing for a state `{id}`")]
    NoState {
        /// The run.
        run: String,
        /// What was asked for.
        id: String,
        /// The ids that it has.
        ids: Vec<String>,
    },
    /// Salt gives the whole run up for this.
    #[error("{0}")]
    Aborted(String),
}

/// Everything that one run needs.
pub struct StateRun<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// What was asked.
    pub order: &'a RunOptions,
    /// The machine that the states work on.
    pub machine: &'a Machine,
    /// The state trees.
    pub files: &'a dyn FileTree,
    /// Facts and execution functions.
    pub host: &'a dyn TemplateHost,
    /// Renders templates.
    pub templates: &'a dyn RenderTemplate,
    /// The pillar.
    pub pillar: &'a Value,
    /// Whose verdicts count.
    pub compat: Compat,
    /// The first failure ends the run.
    pub failhard: bool,
    /// Which states may run at all.
    pub conditions: &'a GlobalConditions,
    /// How many states with `parallel: true` run at a time.
    pub max_parallel: Option<usize>,
    /// In which order, when the order does not say.
    pub schedule: RunSchedule,
    /// How many at a time, when the order does not say.
    pub jobs: Option<usize>,
    /// How long, when the order does not say.
    pub timeout: Option<Duration>,
    /// How many journals are kept.
    pub keep_journals: usize,
    /// The agent's own directories.
    pub paths: &'a Paths,
    /// The run's name.
    pub run: String,
    /// The node.
    pub node: String,
    /// Where the states come from.
    pub revision: String,
    /// Who asked.
    pub trigger: RunTrigger,
    /// Is told how it goes.
    pub progress: &'a dyn RunProgress,
    /// Says when to stop.
    pub cancel: &'a Arc<CancelToken>,
    /// What must not be shown.
    pub mask: SecretMask,
    /// The node that manages the machine; none when the machine is that node.
    pub manager: Option<ManagingNode<'a>>,
    /// What the run remembers of the things it manages; none for a resource, and where nothing is remembered.
    pub managed: Option<ManagedScope>,
}

/// The node that manages a resource, as a run on the resource sees it.
#[derive(Clone, Copy)]
pub struct ManagingNode<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its facts and execution functions.
    pub host: &'a dyn TemplateHost,
    /// Its own directories: lock and undo journals.
    pub paths: &'a Paths,
    /// The name of the journal of what a run on the resource changes on the node.
    pub journal: &'a str,
}

impl StateRun<'_> {
    /// Runs, or undoes.
    ///
    /// # Errors
    /// Fails when it could not begin: nothing was changed then.
    pub fn run(self) -> Result<RunReport, StateRunError> {
        let (start, clock) = (Timestamp::now(), Instant::now());
        let cancel = self.cancel;
        let (states, reverts, canceled) = match &self.order.revert {
            Some(run) => {
                let (states, run) = self.revert_run(run.as_deref(), cancel, start)?;
                (states, Some(run), cancel.is_cancelled())
            }
            None => {
                let ran = self.converge(cancel)?;
                if let Some(words) = ran.aborted {
                    return Err(StateRunError::Aborted(words));
                }
                (ran.states, None, ran.canceled)
            }
        };
        Ok(RunReport {
            run: self.run,
            node: self.node,
            revision: self.revision,
            mode: self.order.mode(),
            reverts,
            schedule: self.order.schedule.unwrap_or(self.schedule),
            trigger: self.trigger,
            canceled,
            start,
            duration: clock.elapsed(),
            states,
        })
    }

    fn runner_settings(&self) -> RunnerSettings {
        RunnerSettings {
            mode: self.order.mode(),
            schedule: self.order.schedule.unwrap_or(self.schedule),
            compat: self.compat,
            jobs: self.order.jobs.or(self.jobs).unwrap_or_else(default_jobs),
            timeout: self.order.timeout.or(self.timeout),
            failhard: self.failhard,
            max_parallel: self.max_parallel,
        }
    }

    fn converge(&self, cancel: &Arc<CancelToken>) -> Result<runner::RunResult, StateRunError> {
        let settings = self.runner_settings();
        let cache = self.paths.downloads();
        let secrets = Arc::new(self.load_secret_files()?);
        let run = |run_fs: &dyn RunFs, manager_fs: Option<&dyn RunFs>, spare: &Path| {
            let manager = self.manager.zip(manager_fs).map(|(manager, run_fs)| RunPlace {
                machine: manager.machine,
                run_fs,
                host: manager.host,
            });
            let run_ctx = RunCtx {
                manager,
                plan: self.plan,
                machine: self.machine,
                run_fs,
                files: self.files,
                host: self.host,
                pillar: self.pillar,
                conditions: self.conditions,
                cache: &cache,
                spare,
                cancel,
                progress: self.progress,
                secrets: &secrets,
            };
            runner::run_plan(&run_ctx, self.templates, &settings)
        };
        if settings.mode == RunMode::Test {
            let spare = create_spare_dir()?;
            let overlay =
                |machine: &Machine| OverlayRunFs(Arc::new(Overlay::new(Arc::new(machine.disk(None)))));
            let manager = self.manager.map(|manager| overlay(manager.machine));
            let manager = manager.as_ref().map(|fs| fs as &dyn RunFs);
            let managed = self.begin_managed()?;
            let own = overlay(self.machine);
            let mut ran = run(&own, manager, spare.path());
            managed.iter().for_each(|managed| drop(self.prune_orphans(managed, &own, &mut ran)));
            return Ok(ran);
        }
        let _lock = self.acquire_lock(cancel)?;
        let managed = self.begin_managed()?;
        let _node_lock = self.acquire_node_lock(cancel)?;
        let journal = UndoJournal::create(&self.paths.undo(), &self.run)?.hiding(&self.mask);
        let journal = Arc::new(journal.with_retries(self.retries()));
        let disk = self.machine.disk(Some(Arc::clone(&journal)));
        let own = DiskRunFs { disk: &disk, journal: &journal };
        let Some(manager) = self.manager.filter(|_| self.uses_manager()) else {
            let mut ran = run(&own, None, &cache);
            let pruned = managed.as_ref().map(|managed| self.prune_orphans(managed, &own, &mut ran));
            self.finish_journal(&disk, &journal);
            if let Some(managed) = managed {
                self.note_managed(managed, &ran, &pruned.unwrap_or_default());
            }
            return Ok(ran);
        };
        let node_journal = UndoJournal::create(&manager.paths.undo(), manager.journal)?.hiding(&self.mask);
        let node_journal = Arc::new(node_journal);
        let node_disk = manager.machine.disk(Some(Arc::clone(&node_journal)));
        let ran = run(&own, Some(&DiskRunFs { disk: &node_disk, journal: &node_journal }), &cache);
        self.finish_journal(&disk, &journal);
        self.finish_journal(&node_disk, &node_journal);
        Ok(ran)
    }

    /// `retry` of the states that have one, by tag: a revert tries again as the run did.
    fn retries(&self) -> impl Iterator<Item = (String, serde_json::Value)> {
        self.plan.chunks.iter().filter_map(|chunk| {
            let retry = chunk.args.get("retry").filter(|retry| retry.is_truthy())?;
            Some((chunk.tag(), serde_json::to_value(retry).ok()?))
        })
    }

    /// True when a state runs on the node that manages the machine.
    fn uses_manager(&self) -> bool {
        self.plan.chunks.iter().any(zagent_compiler::Chunk::runs_on_manager)
    }

    /// The lock of the node, when a run on a resource may change the node too.
    fn acquire_node_lock(&self, cancel: &CancelToken) -> Result<Option<RunLock>, StateRunError> {
        let Some(manager) = self.manager.filter(|_| self.machine.is_this_host() || self.uses_manager())
        else {
            return Ok(None);
        };
        self.lock_at(manager.paths, manager.machine, cancel).map(Some)
    }

    /// Which files hold or held a secret.
    fn load_secret_files(&self) -> Result<SecretFiles, StateRunError> {
        let path = self.paths.secret_files();
        let loaded = SecretFiles::load(path.clone(), self.mask.clone(), self.order.test);
        loaded.map_err(|source| StateRunError::Root { path, source })
    }

    /// Takes the lock and clears up what a killed run left.
    fn acquire_lock(&self, cancel: &CancelToken) -> Result<RunLock, StateRunError> {
        self.lock_at(self.paths, self.machine, cancel)
    }

    fn lock_at(
        &self,
        paths: &Paths,
        machine: &Machine,
        cancel: &CancelToken,
    ) -> Result<RunLock, StateRunError> {
        let path = paths.lock();
        let dir = path.parent().unwrap_or(&path);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| StateRunError::Root { path: paths.root().to_owned(), source })?;
        let timeout = self.order.timeout.map_or(LOCK_TIMEOUT, |t| t.min(LOCK_TIMEOUT));
        let started = StartedRun {
            node: self.node.clone(),
            revision: self.revision.clone(),
            mode: self.order.mode().as_str().into(),
            schedule: self.order.schedule.unwrap_or(self.schedule).name().into(),
            trigger: self.trigger.as_str().into(),
        };
        let lock = RunLock::acquire(&path, (&self.run, &started), timeout, cancel)?;
        let killed = lock.killed.as_ref();
        let history = History::new(paths, self.keep_journals);
        if let Some(Err(error)) = killed.map(|killed| history.record_killed(killed)) {
            tracing::warn!(error = error_chain(&error), "a run that was killed is not in the history");
        }
        undo::recover(machine.root(), &paths.undo())?;
        Ok(lock)
    }

    /// Makes all of it durable and ends the journal. What was done is told in any case, so a failure here is only a warning.
    fn finish_journal(&self, disk: &Disk, journal: &UndoJournal) {
        if journal.is_empty() {
            return;
        }
        if let Err(error) = disk.sync_dirs().and_then(|()| journal.finish()) {
            tracing::warn!(error = error_chain(&error), "the end of a run may not be on the disk");
        }
        // Also after a failure: a full disk is a reason to remove the old ones.
        if let Err(error) = undo::prune_runs(&self.paths.undo(), self.keep_journals) {
            tracing::warn!(error = error_chain(&error), "old undo journals cannot be removed");
        }
    }
}

/// Where a dry run puts what it cannot do without, until it is over.
fn create_spare_dir() -> Result<tempfile::TempDir, StateRunError> {
    tempfile::Builder::new()
        .prefix("zagent-")
        .tempdir()
        .map_err(|source| StateRunError::Root { path: std::env::temp_dir(), source })
}

fn default_jobs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).max(MIN_JOBS)
}

/// The disk, with undo notes under the tag of each state.
struct DiskRunFs<'d> {
    disk: &'d Disk,
    journal: &'d Arc<UndoJournal>,
}

impl RunFs for DiskRunFs<'_> {
    fn state_fs(&self, tag: &str) -> Arc<dyn FileSystem> {
        Arc::new(self.disk.for_state(tag))
    }

    fn journal(&self) -> Option<&UndoJournal> {
        Some(self.journal)
    }
}

/// What a dry run imagines, one for all states.
struct OverlayRunFs(Arc<dyn FileSystem>);

impl RunFs for OverlayRunFs {
    fn state_fs(&self, _tag: &str) -> Arc<dyn FileSystem> {
        Arc::clone(&self.0)
    }

    fn journal(&self) -> Option<&UndoJournal> {
        None
    }
}
