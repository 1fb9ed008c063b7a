//! A run around the record of what is managed: what is new before it, which orphans it removes, what is remembered after.
//!
//! Law: an orphan is removed only when zagent made it, when it is as zagent left it, when nothing in the plan mentions it, and
//! when no state of the run failed. More orphans than the cap are not removed at all (held by
//! `nothing_unmanaged_is_ever_touched`, `more_orphans_than_the_cap_are_refused`).

#![expect(clippy::disallowed_methods, reason = "a removal has a start and a duration")]

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::Chunk;
use zagent_config::{Map, error_chain};
use zagent_host::fs::FileSystem;
use zagent_host::undo::JournalReader;
use zagent_states::managed::{Presence, fingerprint, look, removal_obstacle};
use zagent_states::{ApplyResult, RunShared, StateCtx, StateError};

use super::{StateRun, StateRunError};
use crate::converge::{ConvergeMode, ConvergeResult, PriorEffects, ShouldReact, StateTask};
use crate::managed::{
    ManagedEntry, ManagedRecord, ManagedScope, Orphan, PlanMentions, PlanThings, RecordHeader, RecordUpdate,
    removal_order, things_before,
};
use crate::outcome::{ChangeCause, FileLines, OutcomeDraft, SOURCE};
use crate::runner::{RunFs, RunResult};
use crate::sls_line::SlsLines;
use crate::{RunMode, StateOutcome, StateStatus};
use zagent_host::undo::UndoJournal;

/// The detail of the outcome of an orphan: the last revision that managed it.
const LAST_REVISION: &str = "last_revision";
/// The detail that marks the outcome of an orphan.
const PRUNED: &str = "prune";

/// What was known before a run.
pub(super) struct ManagedBefore {
    /// Digest of the plan and its revision.
    plan: String,
    /// None when the record holds this plan already, and nothing is to be removed.
    known: Option<(PlanThings, ManagedRecord)>,
    absent: crate::managed::Identities,
}

/// The disk of the machine, to look at only.
struct LookFs(Arc<dyn FileSystem>);

impl RunFs for LookFs {
    fn state_fs(&self, _tag: &str) -> Arc<dyn FileSystem> {
        Arc::clone(&self.0)
    }

    fn journal(&self) -> Option<&UndoJournal> {
        None
    }
}

impl StateRun<'_> {
    /// What earlier revisions managed and the plan does not; what is gone is left out.
    ///
    /// # Errors
    /// Fails when the record cannot be read.
    pub fn orphans(&self) -> Result<Vec<Orphan>, StateRunError> {
        let Some(scope) = &self.managed else { return Ok(Vec::new()) };
        let record = ManagedRecord::load(&self.paths.managed())?;
        let things = PlanThings::new(self.plan);
        let mut entries: Vec<ManagedEntry> =
            record.entries.into_iter().filter(|entry| things.is_orphan(entry, &scope.source)).collect();
        entries.sort_by(removal_order);
        Ok(self.look_at("orphans", |ctx| {
            let is_there =
                |entry: &ManagedEntry| look(&entry.thing, entry.removal.as_ref(), ctx) != Presence::Absent;
            entries
                .into_iter()
                .filter(is_there)
                .map(|entry| Orphan { is_changed: is_changed(&entry, ctx), entry })
                .collect()
        }))
    }

    /// Looks at the machine, outside of a run.
    fn look_at<T>(&self, tag: &str, act: impl FnOnce(&StateCtx<'_>) -> T) -> T {
        let disk: Arc<dyn FileSystem> = Arc::new(self.machine.disk(None));
        let (run_fs, shared, cache) = (LookFs(disk), RunShared::default(), self.paths.downloads());
        let fs = run_fs.state_fs(tag);
        act(&self.side_ctx(tag, &run_fs, &*fs, &shared, &cache))
    }

    /// Reads the record before a run and looks for what is new in the plan. A record that cannot be read is a failure only
    /// when orphans are to be removed.
    pub(super) fn begin_managed(&self) -> Result<Option<ManagedBefore>, StateRunError> {
        let Some(scope) = &self.managed else { return Ok(None) };
        let is_dry = self.order.mode() == RunMode::Test;
        let prunes = !scope.prune.kinds.is_empty();
        if is_dry && !prunes {
            return Ok(None);
        }
        let plan = self.plan_digest(scope);
        let header = RecordHeader::load(&self.paths.managed());
        if header.plan == plan && !(prunes && header.orphans > 0) {
            return Ok(Some(ManagedBefore { plan, known: None, absent: Default::default() }));
        }
        let things = PlanThings::new(self.plan);
        let mut record = match ManagedRecord::load(&self.paths.managed()) {
            Ok(record) => record,
            Err(error) if prunes => return Err(error.into()),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "the record begins again: nothing is an orphan");
                ManagedRecord::default()
            }
        };
        let absent = match is_dry {
            true => Default::default(),
            false => self.look_at("managed", |ctx| things_before(&things, &mut record, ctx)),
        };
        Ok(Some(ManagedBefore { plan, known: Some((things, record)), absent }))
    }

    /// What decides which things are managed: the chunks, their revision, and the tree.
    fn plan_digest(&self, scope: &ManagedScope) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut note = |text: &str| {
            hasher.update(text.as_bytes());
            hasher.update(b"\0");
        };
        note(&self.revision);
        note(&scope.source);
        note(if scope.is_whole { "whole" } else { "part" });
        for chunk in &self.plan.chunks {
            note(&chunk.state);
            note(&chunk.fun);
            note(&chunk.id);
            note(&zagent_compiler::name_text(&chunk.name));
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// Removes orphans of the chosen kinds, and reports them behind the states of the run. Says which were removed.
    pub(super) fn prune_orphans(
        &self,
        before: &ManagedBefore,
        run_fs: &dyn RunFs,
        ran: &mut RunResult,
    ) -> Vec<ManagedEntry> {
        let (Some(scope), Some((things, record))) = (&self.managed, &before.known) else { return Vec::new() };
        if scope.prune.kinds.is_empty() || !scope.is_whole || ran.aborted.is_some() {
            return Vec::new();
        }
        let is_chosen = |entry: &&ManagedEntry| {
            scope.prune.kinds.contains(&entry.thing.kind) && things.is_orphan(entry, &scope.source)
        };
        let mut orphans: Vec<&ManagedEntry> = record.entries.iter().filter(is_chosen).collect();
        orphans.sort_by(|a, b| removal_order(a, b));
        let has_failed = ran.states.iter().any(|outcome| outcome.status() == StateStatus::Failed);
        if orphans.is_empty() || has_failed || ran.canceled {
            if !orphans.is_empty() {
                tracing::warn!("{} orphans were not removed, because the run failed", orphans.len());
            }
            return Vec::new();
        }
        let pruning = Pruning { run: self, scope, run_fs, mentions: PlanMentions::new(self.plan) };
        let (outcomes, removed) = pruning.run(&orphans, ran.states.len() as u64);
        outcomes.iter().for_each(|outcome| self.progress.finished(outcome));
        ran.states.extend(outcomes);
        removed
    }

    /// Remembers what is managed after a run. A failure is a warning: what was done was done.
    pub(super) fn note_managed(&self, before: ManagedBefore, ran: &RunResult, removed: &[ManagedEntry]) {
        let Some(scope) = &self.managed else { return };
        let is_quiet =
            |outcome: &StateOutcome| !matches!(outcome.status(), StateStatus::Changed | StateStatus::Failed);
        let is_complete = !ran.canceled && ran.states.iter().all(|o| o.status() != StateStatus::Failed);
        if before.known.is_none() && ran.states.iter().all(is_quiet) {
            return;
        }
        if let Err(error) = self.update_record(scope, before, ran, removed, is_complete) {
            tracing::warn!(error = error_chain(&error), "what this run manages is not remembered");
        }
    }

    fn update_record(
        &self,
        scope: &ManagedScope,
        before: ManagedBefore,
        ran: &RunResult,
        removed: &[ManagedEntry],
        is_complete: bool,
    ) -> Result<(), StateRunError> {
        let path = self.paths.managed();
        let (things, mut record) = match before.known {
            Some(known) => known,
            None => (PlanThings::new(self.plan), ManagedRecord::load(&path)?),
        };
        record.entries.retain(|entry| !removed.iter().any(|gone| gone.thing == entry.thing));
        let journal = JournalReader::open(&self.paths.undo().join(&self.run)).ok();
        let update = RecordUpdate {
            plan: self.plan,
            sls_lines: &SlsLines::new(self.files),
            things: &things,
            scope,
            revision: &self.revision,
            outcomes: &ran.states,
            absent: &before.absent,
            journal: journal.as_ref(),
            mask: &self.mask,
        };
        self.look_at("managed", |ctx| update.apply(&mut record, ctx));
        record.save(&path, if is_complete { &before.plan } else { "" })?;
        Ok(())
    }
}

/// Whether a thing is not as zagent left it; none when that is not known.
fn is_changed(entry: &ManagedEntry, ctx: &StateCtx<'_>) -> Option<bool> {
    let left = entry.digest.as_ref()?;
    Some(fingerprint(&entry.thing, entry.removal.as_ref(), ctx).ok().flatten().as_ref() != Some(left))
}

/// Orphans on their way.
struct Pruning<'r> {
    run: &'r StateRun<'r>,
    scope: &'r ManagedScope,
    run_fs: &'r dyn RunFs,
    mentions: PlanMentions,
}

/// What becomes of an orphan.
enum Fate {
    /// It is not there any more.
    Gone,
    /// It stays, and why.
    Kept(String),
    /// It goes.
    Removed,
}

impl Pruning<'_> {
    fn run(&self, orphans: &[&ManagedEntry], first: u64) -> (Vec<StateOutcome>, Vec<ManagedEntry>) {
        let shared = RunShared::default();
        let is_going = |entry: &&&ManagedEntry| {
            let standing = self.with_ctx(entry, &shared, |ctx| self.standing(entry, ctx));
            matches!(standing, Fate::Removed)
        };
        let count = orphans.iter().filter(is_going).count();
        if count > self.scope.prune.max {
            return (vec![self.refusal(count, first)], Vec::new());
        }
        let (mut outcomes, mut removed) = (Vec::new(), Vec::new());
        for entry in orphans {
            let (start, clock) = (Timestamp::now(), Instant::now());
            let ended = self.with_ctx(entry, &shared, |ctx| match self.fate(entry, ctx) {
                Fate::Gone => None,
                Fate::Kept(why) => Some(ConvergeResult::new(
                    Some(true),
                    ApplyResult::new(
                        format!("{} {} is kept: {why}", entry.thing.kind, entry.thing.name),
                        Map::new(),
                    ),
                )),
                Fate::Removed => Some(self.remove(entry, ctx)),
            });
            let Some(mut ended) = ended else { continue };
            (ended.start, ended.duration) = (start, clock.elapsed());
            let outcome = self.outcome(entry, ended, first + outcomes.len() as u64);
            if outcome.status() == StateStatus::Changed {
                removed.push((*entry).clone());
            }
            outcomes.push(outcome);
        }
        (outcomes, removed)
    }

    fn with_ctx<T>(
        &self,
        entry: &ManagedEntry,
        shared: &RunShared,
        act: impl FnOnce(&StateCtx<'_>) -> T,
    ) -> T {
        let (tag, cache) = (tag(entry), self.run.paths.downloads());
        let fs = self.run_fs.state_fs(&tag);
        act(&self.run.side_ctx(&tag, self.run_fs, &*fs, shared, &cache))
    }

    /// What becomes of an orphan when it is its turn.
    fn fate(&self, entry: &ManagedEntry, ctx: &StateCtx<'_>) -> Fate {
        let standing = self.standing(entry, ctx);
        if !matches!(standing, Fate::Removed) {
            return standing;
        }
        match removal_obstacle(&entry.thing, ctx) {
            Ok(None) => Fate::Removed,
            Ok(Some(why)) => Fate::Kept(why),
            Err(error) => Fate::Kept(format!("nobody can tell what depends on it: {}", error.result.comment)),
        }
    }

    /// What becomes of an orphan as far as it alone counts: what depends on it may go before it.
    fn standing(&self, entry: &ManagedEntry, ctx: &StateCtx<'_>) -> Fate {
        let kept = |why: &str| Fate::Kept(why.to_owned());
        match look(&entry.thing, entry.removal.as_ref(), ctx) {
            Presence::Absent => return Fate::Gone,
            Presence::Unknown => return kept("nobody can tell whether it is there"),
            Presence::Present => {}
        }
        if !entry.created && !self.scope.prune.found {
            return kept("it was there before zagent managed it");
        }
        if is_changed(entry, ctx) == Some(true) {
            return kept("it was changed since outside zagent");
        }
        if let Some(id) = self.mentions.find(&entry.thing) {
            return Fate::Kept(format!("the state `{id}` mentions it"));
        }
        Fate::Removed
    }

    fn remove(&self, entry: &ManagedEntry, ctx: &StateCtx<'_>) -> ConvergeResult {
        let Some(chunk) = entry.removal.as_ref().and_then(zagent_states::managed::Removal::chunk) else {
            return match remove_entry(entry, ctx) {
                Ok(done) => ConvergeResult::new((!ctx.is_dry()).then_some(true), done),
                Err(failure) => ConvergeResult::failed(failure),
            };
        };
        let mut task = StateTask {
            index: usize::MAX,
            tag: tag(entry),
            chunk: Cow::Owned(chunk),
            state: None,
            check_result: None,
            mode: if ctx.is_dry() { ConvergeMode::Simulate } else { ConvergeMode::Apply },
            should_react: ShouldReact::No,
            is_listener: false,
            is_denied: false,
            prior_effects: PriorEffects::default(),
            causes: Vec::new(),
            uncertain: None,
            start: Timestamp::now(),
            started_at: Instant::now(),
        };
        task.run(ctx)
    }

    fn outcome(&self, entry: &ManagedEntry, ended: ConvergeResult, number: u64) -> StateOutcome {
        let chunk = removal_chunk(entry);
        let mut details = ended.done.details;
        details.insert(PRUNED, true);
        details.insert(LAST_REVISION, entry.revision.as_str());
        if let Some(place) = &entry.declared {
            details.insert(SOURCE, place.as_str());
        }
        let draft = OutcomeDraft {
            tag: tag(entry),
            state: chunk.state.to_string(),
            fun: chunk.fun.to_string(),
            id: orphan_id(entry),
            sls: entry.sls.clone(),
            name: zagent_compiler::name_text(&chunk.name),
            about: None,
            result: ended.result,
            unknown: ended.unknown,
            skip: None,
            changes: ended.done.changes,
            comment: ended.done.comment,
            diff: String::new(),
            details,
            run_num: number,
            level: 0,
            start: ended.start,
            duration: ended.duration,
        };
        let mut outcome = draft.into_outcome(&self.run.mask, FileLines::Hidden);
        let changes = matches!(outcome.status(), StateStatus::Changed | StateStatus::WouldChange);
        outcome.cause = changes.then_some(ChangeCause::Change);
        outcome
    }

    /// More orphans than the cap: none is removed, and the run says so by failing.
    fn refusal(&self, count: usize, number: u64) -> StateOutcome {
        let max = self.scope.prune.max;
        let comment = format!(
            "{count} orphans would be removed, more than the limit of {max} (`run.prune.max`); none was removed. List them \
             with `zagent orphans`; remove them with `zagent run --once --prune --prune-max {count}`"
        );
        let draft = OutcomeDraft {
            tag: "prune_|-orphans_|-orphans_|-limit".into(),
            state: "prune".into(),
            fun: "limit".into(),
            id: "orphans".into(),
            sls: String::new(),
            name: "orphans".into(),
            about: None,
            result: Some(false),
            unknown: false,
            skip: None,
            changes: Map::new(),
            comment,
            diff: String::new(),
            details: Map::from_iter([(PRUNED, true)]),
            run_num: number,
            level: 0,
            start: Timestamp::now(),
            duration: std::time::Duration::ZERO,
        };
        draft.into_outcome(&self.run.mask, FileLines::Hidden)
    }
}

fn orphan_id(entry: &ManagedEntry) -> String {
    format!("orphan {} {}", entry.thing.kind, entry.thing.name)
}

/// The state that removes an orphan; for entries of the file system one stands in.
fn removal_chunk(entry: &ManagedEntry) -> Chunk {
    let chunk = entry.removal.as_ref().and_then(zagent_states::managed::Removal::chunk);
    chunk.unwrap_or_else(|| Chunk::single("file", "absent", &entry.thing.name, Map::new()))
}

fn tag(entry: &ManagedEntry) -> String {
    let mut chunk = removal_chunk(entry);
    chunk.id = orphan_id(entry).into();
    chunk.tag()
}

/// Removes a file, a link, or an empty directory.
fn remove_entry(entry: &ManagedEntry, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
    ctx.fs.remove(Path::new(&entry.thing.name))?;
    let word = if ctx.is_dry() { "would be removed" } else { "removed" };
    let changes = Map::from_iter([("removed", entry.thing.name.as_str())]);
    Ok(ApplyResult::new(
        format!("{} {} {word}: no state manages it any more", entry.thing.kind, entry.thing.name),
        changes,
    ))
}
