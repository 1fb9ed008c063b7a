//! A plan and an order in, a report out: the lock, the journal and the run itself, in that order.
//!
//! Law: a dry run writes nothing, takes no lock and leaves no trace. A run that changes nothing leaves no journal.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_compiler::{Compat, Files, Host, Plan};
use zagent_config::paths::Paths;
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, Value};

use super::outcome::{IRREVERSIBLE, LEFT_ALONE};
use super::runner::{self, Ground, Settings, Stage};
use super::{LockError, Mode, Order, Outcome, Report, RunLock, Trigger};
use crate::fs::{Disk, FileSystem, FsError, Overlay};
use crate::host::Cancel;
use crate::output::Progress;
use crate::report::chain;
use crate::states::{self, ExternalMemo, PutBack, Render, Returns, Scene, Shared, ThingNote};
use crate::undo::{self, Choice, Journal, Notes, Reverted, Verdict};

/// At least so many states run at once.
const FEWEST_JOBS: usize = 8;
/// How long a run waits for another to end.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
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
    Nothing(String),
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
    GivenUp(String),
}

/// Everything that one run needs.
pub struct Turn<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// What was asked.
    pub order: &'a Order,
    /// The state trees.
    pub files: &'a dyn Files,
    /// Facts and execution functions.
    pub host: &'a dyn Host,
    /// Renders templates.
    pub templates: &'a dyn Render,
    /// The pillar.
    pub pillar: &'a Value,
    /// Whose verdicts count.
    pub compat: Compat,
    /// The first failure ends the run.
    pub failhard: bool,
    /// In which order, when the order does not say.
    pub schedule: RunSchedule,
    /// How many at a time, when the order does not say.
    pub jobs: Option<usize>,
    /// How long, when the order does not say.
    pub timeout: Option<Duration>,
    /// How many journals are kept.
    pub keep: usize,
    /// The agent's own directories.
    pub paths: &'a Paths,
    /// The run's name.
    pub run: String,
    /// The node.
    pub node: String,
    /// Where the states come from.
    pub revision: String,
    /// Who asked.
    pub trigger: Trigger,
    /// Is told how it goes.
    pub watcher: &'a dyn Progress,
    /// Says when to stop.
    pub cancel: &'a Arc<Cancel>,
}

impl Turn<'_> {
    /// Runs, or undoes.
    ///
    /// # Errors
    /// Fails when it could not begin: nothing was changed then.
    pub fn take(self) -> Result<Report, TurnError> {
        let (start, clock) = (Timestamp::now(), Instant::now());
        let cancel = self.cancel;
        let (states, reverts, canceled) = match &self.order.revert {
            Some(run) => {
                let (states, run) = self.undo(run.as_deref(), cancel, start)?;
                (states, Some(run), cancel.is_said())
            }
            None => {
                let ran = self.converge(cancel)?;
                if let Some(words) = ran.given_up {
                    return Err(TurnError::GivenUp(words));
                }
                (ran.states, None, ran.canceled)
            }
        };
        Ok(Report {
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

    fn converge(&self, cancel: &Arc<Cancel>) -> Result<runner::Ran, TurnError> {
        let settings = Settings {
            mode: self.order.mode(),
            schedule: self.order.schedule.unwrap_or(self.schedule),
            compat: self.compat,
            jobs: self.order.jobs.or(self.jobs).unwrap_or_else(usual_jobs),
            timeout: self.order.timeout.or(self.timeout),
            failhard: self.failhard,
        };
        let cache = self.paths.downloads();
        let run = |ground: &dyn Ground, spare: &Path| {
            let stage = Stage {
                plan: self.plan,
                ground,
                files: self.files,
                host: self.host,
                pillar: self.pillar,
                cache: &cache,
                spare,
                cancel,
                watcher: self.watcher,
            };
            runner::run(&stage, self.templates, &settings)
        };
        if settings.mode == Mode::Test {
            let spare = spare()?;
            return Ok(run(&Imagined(Arc::new(Overlay::new(Arc::new(Disk::new(None))))), spare.path()));
        }
        let _lock = self.lock(cancel)?;
        let journal = Arc::new(Journal::create(&self.paths.undo(), &self.run)?);
        let disk = Disk::new(Some(Arc::clone(&journal)));
        let ran = run(&Real { disk: &disk, journal: &journal }, &cache);
        self.close(&disk, &journal);
        Ok(ran)
    }

    /// Takes the lock and clears up what a killed run left.
    fn lock(&self, cancel: &Cancel) -> Result<RunLock, TurnError> {
        let path = self.paths.lock();
        let dir = path.parent().unwrap_or(&path);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| TurnError::Root { path: self.paths.root().to_owned(), source })?;
        let patience = self.order.timeout.map_or(PATIENCE, |t| t.min(PATIENCE));
        let lock = RunLock::take(&path, &self.run, patience, cancel)?;
        undo::recover(&self.paths.undo())?;
        Ok(lock)
    }

    /// Makes all of it durable and ends the journal. What was done is told in any case, so a failure here is only a warning.
    fn close(&self, disk: &Disk, journal: &Journal) {
        if journal.is_empty() {
            return;
        }
        let closed = disk.settle().and_then(|()| journal.finish());
        let closed = closed.and_then(|()| undo::prune(&self.paths.undo(), self.keep).map(drop));
        if let Err(error) = closed {
            tracing::warn!(error = chain(&error), "the end of a run may not be on the disk");
        }
    }

    /// Undoes what a run did, as a run of its own; says which run that was.
    fn undo(
        &self,
        run: Option<&str>,
        cancel: &Arc<Cancel>,
        start: Timestamp,
    ) -> Result<(Vec<Outcome>, String), TurnError> {
        let root = self.paths.undo();
        let test = self.order.test;
        let _lock = if test { None } else { Some(self.lock(cancel)?) };
        let past = undo::list(&root)?;
        let found = match run {
            None | Some("last") => past.iter().max_by_key(|p| (p.started, &p.run)),
            Some(name) => past
                .iter()
                .find(|p| p.run == name)
                .or_else(|| only(past.iter().filter(|p| p.run.starts_with(name)))),
        };
        let Some(found) = found else {
            return Err(TurnError::Nothing(match run {
                Some(name) if past.iter().any(|p| p.run.starts_with(name)) => {
                    format!("several runs begin with `{name}`: write more of the name")
                }
                Some(name) => format!(
                    "no run `{name}` left undo notes: it changed nothing, is not known, or is too old"
                ),
                None => "no run has changed anything yet".into(),
            }));
        };
        let notes = Notes::open(&root.join(&found.run))?;
        let tags = match &self.order.state {
            Some(id) => Some(tags_of(&notes, &found.run, id)?),
            None => None,
        };
        let choice = Choice { is_forced: self.order.force, tags };
        let returns = RefCell::new(Returns::default());
        let other = |tag: &str, data: &serde_json::Value, ground: &dyn Ground| {
            let cache = self.paths.downloads();
            let (fs, shared) = (ground.fs(tag), Shared::default());
            let scene = self.scene(tag, ground, &*fs, &shared, &cache);
            undo_other(data, &scene, &mut returns.borrow_mut(), self.order.force)
        };
        let reverted = if test {
            let overlay: Arc<dyn FileSystem> = Arc::new(Overlay::new(Arc::new(Disk::new(None))));
            let ground = Imagined(Arc::clone(&overlay));
            undo::revert_with(
                &notes,
                &|_| Arc::clone(&overlay),
                &|tag, data| other(tag, data, &ground),
                &choice,
            )
        } else {
            let journal = Arc::new(Journal::create(&root, &self.run)?);
            let disk = Disk::new(Some(Arc::clone(&journal)));
            let ground = Real { disk: &disk, journal: &journal };
            let reverted = undo::revert_with(
                &notes,
                &|tag| Arc::new(disk.for_state(tag)),
                &|tag, data| other(tag, data, &ground),
                &choice,
            );
            self.close(&disk, &journal);
            reverted
        };
        let states = reverted.iter().enumerate().map(|(n, r)| outcome(n, r, test, start)).collect();
        Ok((states, found.run.clone()))
    }

    /// What a revert may use.
    fn scene<'s>(
        &'s self,
        tag: &'s str,
        ground: &'s dyn Ground,
        fs: &'s dyn FileSystem,
        shared: &'s Shared,
        cache: &'s Path,
    ) -> Scene<'s> {
        Scene {
            tag,
            journal: ground.journal(),
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
            cache,
            spare: cache,
        }
    }
}

/// Undoes what is no file: puts a thing back, or asks the module of the tree that left the note.
fn undo_other(
    data: &serde_json::Value,
    scene: &Scene<'_>,
    returns: &mut Returns,
    is_forced: bool,
) -> Verdict {
    let test = scene.is_dry();
    if let Some(note) = ThingNote::read(data) {
        return match returns.take(&note, is_forced, test, scene) {
            Ok(None | Some(PutBack::Already)) => Verdict::Already,
            Ok(Some(PutBack::Kept(why))) => Verdict::Kept(why),
            Ok(Some(PutBack::Done(done))) => Verdict::Undone { comment: done.comment, changes: done.changes },
            Err(failure) => {
                Verdict::Failed(format!("{} was not put back: {}", note.what(), failure.done.comment))
            }
        };
    }
    let Some(memo) = ExternalMemo::read(data) else { return nobody() };
    let what = memo.what();
    if test {
        let changes = Map::from_iter([(what.as_str(), Value::from("undone"))]);
        return Verdict::Undone { comment: format!("`{what}` would be asked to undo it"), changes };
    }
    match states::revert_external(&memo, scene) {
        Ok(done) => Verdict::Undone { comment: done.comment, changes: done.changes },
        Err(failure) => Verdict::Failed(format!("`{what}` was not undone: {}", failure.done.comment)),
    }
}

fn nobody() -> Verdict {
    Verdict::Failed("nobody knows how to undo what was noted".into())
}

/// Where a dry run puts what it cannot do without, until it is over.
fn spare() -> Result<tempfile::TempDir, TurnError> {
    tempfile::Builder::new()
        .prefix("zagent-")
        .tempdir()
        .map_err(|source| TurnError::Root { path: std::env::temp_dir(), source })
}

/// The tags of the state of this id in the notes of a run.
fn tags_of(notes: &Notes, run: &str, id: &str) -> Result<BTreeSet<String>, TurnError> {
    let id_of = |tag: &str| tag.split("_|-").nth(1).map(str::to_owned);
    let all = || notes.records().iter().filter_map(undo::Record::tag);
    let tags: BTreeSet<String> =
        all().filter(|tag| *tag == id || id_of(tag).as_deref() == Some(id)).map(str::to_owned).collect();
    if !tags.is_empty() {
        return Ok(tags);
    }
    let ids: BTreeSet<String> = all().filter_map(id_of).collect();
    Err(TurnError::NoState { run: run.to_owned(), id: id.to_owned(), ids: ids.into_iter().collect() })
}

/// The only one, when there is only one.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

fn usual_jobs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).max(FEWEST_JOBS)
}

/// What became of the changes of one state, as its outcome.
fn outcome(number: usize, reverted: &Reverted, test: bool, start: Timestamp) -> Outcome {
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
        (LEFT_ALONE, (|v| matches!(v, Verdict::Kept(_))) as fn(&Verdict) -> bool),
        (IRREVERSIBLE, |v| matches!(v, Verdict::Irreversible(_))),
    ] {
        if reverted.steps.iter().any(|step| is_so(&step.verdict)) {
            details.insert(key, true);
        }
    }
    Outcome {
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
struct Real<'d> {
    disk: &'d Disk,
    journal: &'d Arc<Journal>,
}

impl Ground for Real<'_> {
    fn fs(&self, tag: &str) -> Arc<dyn FileSystem> {
        Arc::new(self.disk.for_state(tag))
    }

    fn journal(&self) -> Option<&Journal> {
        Some(self.journal)
    }
}

/// What a dry run imagines, one for all states.
struct Imagined(Arc<dyn FileSystem>);

impl Ground for Imagined {
    fn fs(&self, _tag: &str) -> Arc<dyn FileSystem> {
        Arc::clone(&self.0)
    }

    fn journal(&self) -> Option<&Journal> {
        None
    }
}
