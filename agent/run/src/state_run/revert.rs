//! The journal of an earlier run in, the host as it was before and a report of it out: `--revert`.
//!
//! Law: a state is tried again as its `retry` says, unless it is a dry run; what was changed since by others is left
//! alone at once (held by `a_revert_retries_as_the_state_says`).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use zagent_config::paths::Paths;
use zagent_config::{Map, Value};

use super::{DiskRunFs, OverlayRunFs, StateRun, StateRunError};
use crate::StateOutcome;
use crate::converge::retry::StateRetry;
use crate::outcome::{FileLines, IRREVERSIBLE, LEFT_ALONE, OutcomeDraft};
use crate::runner::RunFs;
use zagent_config::sorted::CollectSorted;
use zagent_host::CancelToken;
use zagent_host::fs::{FileSystem, Overlay};
use zagent_host::undo::{
    self, JournalReader, RevertOptions, RevertedState, UndoJournal, UndoOutcome, UndoableRun,
};
use zagent_states as states;
use zagent_states::{ExternalUndoNote, RestoreOutcome, RunShared, StateCtx, UndoNote, UndoReplay};

/// The runs that can be reverted, oldest first.
///
/// # Errors
/// Fails when the undo notes cannot be listed.
pub fn undoable_runs(paths: &Paths) -> Result<Vec<UndoableRun>, StateRunError> {
    Ok(undo::list_runs(&paths.undo())?)
}

impl StateRun<'_> {
    /// Undoes what a run did, as a run of its own; says which run that was.
    pub(super) fn revert_run(
        &self,
        run: Option<&str>,
        cancel: &Arc<CancelToken>,
        start: Timestamp,
    ) -> Result<(Vec<StateOutcome>, String), StateRunError> {
        let root = self.paths.undo();
        let test = self.order.test;
        let _lock = if test { None } else { Some(self.acquire_lock(cancel)?) };
        let past = undo::list_runs(&root)?;
        let found = pick_run(&past, run)?;
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
            let ctx = self.side_ctx(tag, run_fs, &*fs, &shared, &cache);
            undo_note(data, &ctx, &mut returns.borrow_mut(), self.order.force)
        };
        let retries = notes.retries();
        let again = |tag: &str, tries: u64| {
            let retry = retries.get(tag).filter(|_| !test).map(read_retry);
            retry.is_some_and(|retry| retry.wait_for_attempt(tries, tag.len() as u64, cancel))
        };
        let reverted = if test {
            let overlay: Arc<dyn FileSystem> = Arc::new(Overlay::new(Arc::new(self.machine.disk(None))));
            let run_fs = OverlayRunFs(Arc::clone(&overlay));
            undo::revert_with(
                &notes,
                &|_| Arc::clone(&overlay),
                &|tag, data| other(tag, data, &run_fs),
                &again,
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
                &again,
                &choice,
            );
            self.finish_journal(&disk, &journal);
            self.forget_reverted();
            reverted
        };
        let states = reverted
            .iter()
            .enumerate()
            .map(|(n, r)| revert_outcome(n, r, test, start).into_outcome(&self.mask, FileLines::Shown))
            .collect();
        Ok((states, found.run.clone()))
    }

    /// What a step beside the states of the plan may use: a revert, or the removal of an orphan.
    pub(super) fn side_ctx<'s>(
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

/// The tags of the state of this id in the notes of a run.
fn tags_for_id(notes: &JournalReader, run: &str, id: &str) -> Result<BTreeSet<String>, StateRunError> {
    let id_of = |tag: &str| tag.split("_|-").nth(1).map(str::to_owned);
    let all = || notes.records().iter().filter_map(undo::JournalRecord::tag);
    let tags: BTreeSet<String> =
        all().filter(|tag| *tag == id || id_of(tag).as_deref() == Some(id)).map(str::to_owned).into_set();
    if !tags.is_empty() {
        return Ok(tags);
    }
    let ids: BTreeSet<String> = all().filter_map(id_of).into_set();
    Err(StateRunError::NoState { run: run.to_owned(), id: id.to_owned(), ids: ids.into_iter().collect() })
}

fn pick_run<'p>(past: &'p [UndoableRun], run: Option<&str>) -> Result<&'p UndoableRun, StateRunError> {
    let found = match run {
        None | Some("last") => past.iter().max_by_key(|p| (p.started, &p.run)),
        Some(name) => past
            .iter()
            .find(|p| p.run == name)
            .or_else(|| single(past.iter().filter(|p| p.run.starts_with(name)))),
    };
    found.ok_or_else(|| {
        StateRunError::NothingToRevert(match run {
            None | Some("last") => "no run has changed anything yet".into(),
            Some(name) if past.iter().any(|p| p.run.starts_with(name)) => {
                format!("several runs begin with `{name}`: write more of the name")
            }
            Some(name) => {
                format!("no run `{name}` left undo notes: it changed nothing, is not known, or is too old")
            }
        })
    })
}

/// `retry` as the run had it.
fn read_retry(value: &serde_json::Value) -> StateRetry {
    StateRetry::from_value(&serde_json::from_value(value.clone()).unwrap_or(Value::Null))
}

/// The only one, when there is only one.
fn single<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
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
    let mut details = reverted.details();
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
        start: start.checked_add(reverted.begun()).unwrap_or(start),
        duration: reverted.took(),
    }
}
