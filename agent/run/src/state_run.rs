//! A plan and an order in, a report out: the lock, the journal and the run itself, in that order.
//!
//! Law: a dry run writes nothing, takes no lock and leaves no trace. A run that changes nothing leaves no journal
//! (held by `a_query_or_a_dry_run_creates_nothing`, `a_run_without_changes_leaves_nothing`,
//! `a_dry_run_works_next_to_a_run`).

#![expect(clippy::disallowed_methods, reason = "a run has a start and a duration")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_compiler::{Compat, FileTree, Plan, TemplateHost};
use zagent_config::paths::Paths;
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, SecretMask, Value};

use super::outcome::{FileLines, IRREVERSIBLE, LEFT_ALONE, OutcomeDraft};
use super::runner::{self, RunCtx, RunFs, RunnerSettings};
use super::{LockError, RunLock, RunMode, RunOptions, RunReport, RunTrigger, StateOutcome};
use crate::secret_files::SecretFiles;
use crate::{GlobalConditions, RunProgress};
use zagent_config::error_chain;
use zagent_host::disk::Disk;
use zagent_host::fs::{FileSystem, FsError, Overlay};
use zagent_host::undo;
use zagent_host::undo::{JournalReader, RevertOptions, RevertedState, UndoJournal, UndoOutcome};
use zagent_host::{CancelToken, Machine};
use zagent_states as states;
use zagent_states::{
    ExternalUndoNote, RenderTemplate, RestoreOutcome, RunShared, StateCtx, UndoNote, UndoReplay,
};

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

    fn converge(&self, cancel: &Arc<CancelToken>) -> Result<runner::RunResult, StateRunError> {
        let settings = RunnerSettings {
            mode: self.order.mode(),
            schedule: self.order.schedule.unwrap_or(self.schedule),
            compat: self.compat,
            jobs: self.order.jobs.or(self.jobs).unwrap_or_else(default_jobs),
            timeout: self.order.timeout.or(self.timeout),
            failhard: self.failhard,
            max_parallel: self.max_parallel,
        };
        let cache = self.paths.downloads();
        let secrets = Arc::new(self.load_secret_files()?);
        let run = |run_fs: &dyn RunFs, spare: &Path| {
            let run_ctx = RunCtx {
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
            return Ok(run(
                &OverlayRunFs(Arc::new(Overlay::new(Arc::new(self.machine.disk(None))))),
                spare.path(),
            ));
        }
        let _lock = self.acquire_lock(cancel)?;
        let journal = Arc::new(UndoJournal::create(&self.paths.undo(), &self.run)?.hiding(&self.mask));
        let disk = self.machine.disk(Some(Arc::clone(&journal)));
        let ran = run(&DiskRunFs { disk: &disk, journal: &journal }, &cache);
        self.finish_journal(&disk, &journal);
        Ok(ran)
    }

    /// Which files hold or held a secret.
    fn load_secret_files(&self) -> Result<SecretFiles, StateRunError> {
        let path = self.paths.secret_files();
        let loaded = SecretFiles::load(path.clone(), self.mask.clone(), self.order.test);
        loaded.map_err(|source| StateRunError::Root { path, source })
    }

    /// Takes the lock and clears up what a killed run left.
    fn acquire_lock(&self, cancel: &CancelToken) -> Result<RunLock, StateRunError> {
        let path = self.paths.lock();
        let dir = path.parent().unwrap_or(&path);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| StateRunError::Root { path: self.paths.root().to_owned(), source })?;
        let timeout = self.order.timeout.map_or(LOCK_TIMEOUT, |t| t.min(LOCK_TIMEOUT));
        let lock = RunLock::acquire(&path, &self.run, timeout, cancel)?;
        undo::recover(self.machine.root(), &self.paths.undo())?;
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

    /// Undoes what a run did, as a run of its own; says which run that was.
    fn revert_run(
        &self,
        run: Option<&str>,
        cancel: &Arc<CancelToken>,
        start: Timestamp,
    ) -> Result<(Vec<StateOutcome>, String), StateRunError> {
        let root = self.paths.undo();
        let test = self.order.test;
        let _lock = if test { None } else { Some(self.acquire_lock(cancel)?) };
        let past = undo::list_runs(&root)?;
        let found = match run {
            None | Some("last") => past.iter().max_by_key(|p| (p.started, &p.run)),
            Some(name) => past
                .iter()
                .find(|p| p.run == name)
                .or_else(|| single(past.iter().filter(|p| p.run.starts_with(name)))),
        };
        let Some(found) = found else {
            return Err(StateRunError::NothingToRevert(match run {
                Some(name) if past.iter().any(|p| p.run.starts_with(name)) => {
                    format!("several runs begin with `{name}`: write more of the name")
                }
                Some(name) => format!(
                    "no run `{name}` left undo notes: it changed nothing, is not known, or is too old"
                ),
                None => "no run has changed anything yet".into(),
            }));
        };
        let notes = JournalReader::open(&root.join(&found.run))?;
        let tags = match &self.order.state {
            Some(id) => Some(tags_for_id(&notes, &found.run, id)?),
            None => None,
        };
        let choice = RevertOptions { is_forced: self.order.force, tags };
        let returns = RefCell::new(UndoReplay::default());
        let other = |tag: &str, data: &serde_json::Value, run_fs: &dyn RunFs| {
            let cache = self.paths.downloads();
            let (fs, shared) = (run_fs.state_fs(tag), RunShared::default());
            let ctx = self.revert_ctx(tag, run_fs, &*fs, &shared, &cache);
            undo_note(data, &ctx, &mut returns.borrow_mut(), self.order.force)
        };
        let reverted = if test {
            let overlay: Arc<dyn FileSystem> = Arc::new(Overlay::new(Arc::new(self.machine.disk(None))));
            let run_fs = OverlayRunFs(Arc::clone(&overlay));
            undo::revert_with(
                &notes,
                &|_| Arc::clone(&overlay),
                &|tag, data| other(tag, data, &run_fs),
                &choice,
            )
        } else {
            let journal = Arc::new(UndoJournal::create(&root, &self.run)?.hiding(&self.mask));
            let disk = self.machine.disk(Some(Arc::clone(&journal)));
            let run_fs = DiskRunFs { disk: &disk, journal: &journal };
            let reverted = undo::revert_with(
                &notes,
                &|tag| Arc::new(disk.for_state(tag)),
                &|tag, data| other(tag, data, &run_fs),
                &choice,
            );
            self.finish_journal(&disk, &journal);
            reverted
        };
        let states = reverted
            .iter()
            .enumerate()
            .map(|(n, r)| revert_outcome(n, r, test, start).into_outcome(&self.mask, FileLines::Shown))
            .collect();
        Ok((states, found.run.clone()))
    }

    /// What a revert may use.
    fn revert_ctx<'s>(
        &'s self,
        tag: &'s str,
        run_fs: &'s dyn RunFs,
        fs: &'s dyn FileSystem,
        shared: &'s RunShared,
        cache: &'s Path,
    ) -> StateCtx<'s> {
        StateCtx {
            tag,
            journal: run_fs.journal(),
            machine: self.machine,
            fs,
            files: self.files,
            host: self.host,
            templates: self.templates,
            pillar: self.pillar,
            plan: self.plan,
            compat: self.compat,
            cancel: self.cancel,
            deadline: None,
            shared,
            cache_dir: cache,
            staging_dir: cache,
        }
    }
}

/// Undoes what is no file: puts a thing back, or asks the module of the tree that left the note.
fn undo_note(
    data: &serde_json::Value,
    ctx: &StateCtx<'_>,
    returns: &mut UndoReplay,
    is_forced: bool,
) -> UndoOutcome {
    let test = ctx.is_dry();
    if let Some(note) = UndoNote::read(data) {
        return match returns.replay_note(&note, is_forced, test, ctx) {
            Ok(None | Some(RestoreOutcome::AlreadyRestored)) => UndoOutcome::AlreadyRestored,
            Ok(Some(RestoreOutcome::Skipped(why))) => UndoOutcome::LeftAlone(why),
            Ok(Some(RestoreOutcome::Restored(done))) => {
                UndoOutcome::Undone { comment: done.comment, changes: done.changes }
            }
            Err(failure) => UndoOutcome::Failed(format!(
                "{} was not put back: {}",
                note.describe(),
                failure.result.comment
            )),
        };
    }
    let Some(memo) = ExternalUndoNote::read(data) else { return unknown_note() };
    let what = memo.describe();
    if test {
        let changes = Map::from_iter([(what.as_str(), Value::from("undone"))]);
        return UndoOutcome::Undone { comment: format!("`{what}` would be asked to undo it"), changes };
    }
    match states::revert_external(&memo, ctx) {
        Ok(done) => UndoOutcome::Undone { comment: done.comment, changes: done.changes },
        Err(failure) => UndoOutcome::Failed(format!("`{what}` was not undone: {}", failure.result.comment)),
    }
}

fn unknown_note() -> UndoOutcome {
    UndoOutcome::Failed("nobody knows how to undo what was noted".into())
}

/// Where a dry run puts what it cannot do without, until it is over.
fn create_spare_dir() -> Result<tempfile::TempDir, StateRunError> {
    tempfile::Builder::new()
        .prefix("zagent-")
        .tempdir()
        .map_err(|source| StateRunError::Root { path: std::env::temp_dir(), source })
}

/// The tags of the state of this id in the notes of a run.
fn tags_for_id(notes: &JournalReader, run: &str, id: &str) -> Result<BTreeSet<String>, StateRunError> {
    let id_of = |tag: &str| tag.split("_|-").nth(1).map(str::to_owned);
    let all = || notes.records().iter().filter_map(undo::JournalRecord::tag);
    let tags: BTreeSet<String> =
        all().filter(|tag| *tag == id || id_of(tag).as_deref() == Some(id)).map(str::to_owned).collect();
    if !tags.is_empty() {
        return Ok(tags);
    }
    let ids: BTreeSet<String> = all().filter_map(id_of).collect();
    Err(StateRunError::NoState { run: run.to_owned(), id: id.to_owned(), ids: ids.into_iter().collect() })
}

/// The only one, when there is only one.
fn single<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

fn default_jobs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).max(MIN_JOBS)
}

/// What became of the changes of one state, as its outcome.
fn revert_outcome(number: usize, reverted: &RevertedState, test: bool, start: Timestamp) -> OutcomeDraft {
    let mut parts = reverted.tag.split("_|-").map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    let (state, id, name, fun) = (part(), part(), part(), part());
    let changes = reverted.changes();
    let result = match (reverted.is_success(), test && !changes.is_empty()) {
        (false, _) => Some(false),
        (true, true) => None,
        (true, false) => Some(true),
    };
    let mut details = Map::new();
    for (key, is_so) in [
        (LEFT_ALONE, (|v| matches!(v, UndoOutcome::LeftAlone(_))) as fn(&UndoOutcome) -> bool),
        (IRREVERSIBLE, |v| matches!(v, UndoOutcome::Irreversible(_))),
    ] {
        if reverted.steps.iter().any(|step| is_so(&step.outcome)) {
            details.insert(key, true);
        }
    }
    OutcomeDraft {
        tag: reverted.tag.clone(),
        state,
        fun,
        id,
        sls: String::new(),
        name,
        about: None,
        result,
        unknown: false,
        skip: None,
        changes,
        comment: reverted.comment(),
        diff: String::new(),
        details,
        run_num: number as u64,
        level: number,
        start,
        duration: Duration::ZERO,
    }
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
