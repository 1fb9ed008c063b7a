//! Orphans in, what became of each out: removed, or kept and why.
//!
//! Law: an orphan is removed only when zagent made it, when it is as zagent left it, when nothing in the plan mentions it or
//! manages it under another name, and when no state of the run failed. More orphans than the cap are not removed at all (held by
//! `nothing_unmanaged_is_ever_touched`, `another_name_of_a_managed_path_is_not_removed`, `more_orphans_than_the_cap_are_refused`).

#![expect(clippy::disallowed_methods, reason = "a removal has a start and a duration")]

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::Path;
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::Chunk;
use zagent_config::Map;
use zagent_states::managed::{Presence, fingerprint, is_compared, look, removal_obstacle};
use zagent_states::{ApplyResult, RunShared, StateCtx, StateError};

use super::StateRun;
use crate::converge::{ConvergeMode, ConvergeResult, PriorEffects, ShouldReact, StateTask};
use crate::managed::{DeclaredEntries, ManagedEntry, ManagedScope, PlanMentions, PlanThings};
use crate::outcome::{ChangeCause, FileLines, OutcomeDraft, SOURCE};
use crate::runner::RunFs;
use crate::{StateOutcome, StateStatus};

/// The detail of the outcome of an orphan: the last revision that managed it.
const LAST_REVISION: &str = "last_revision";
/// The detail that marks the outcome of an orphan.
const PRUNED: &str = "prune";

/// Whether a thing is not as zagent left it; none when that is not known.
pub(super) fn is_changed(entry: &ManagedEntry, ctx: &StateCtx<'_>) -> Option<bool> {
    let Some(left) = &entry.digest else {
        // It could not be looked at when the state ended.
        return is_compared(&entry.thing).then_some(true);
    };
    Some(fingerprint(&entry.thing, entry.removal.as_ref(), ctx).ok().flatten().as_ref() != Some(left))
}

/// Orphans on their way.
pub(super) struct Pruning<'r> {
    pub(super) run: &'r StateRun<'r>,
    pub(super) scope: &'r ManagedScope,
    pub(super) run_fs: &'r dyn RunFs,
    pub(super) things: &'r PlanThings,
    pub(super) mentions: PlanMentions,
    /// What the paths of the plan lead to, when the first path is looked at.
    pub(super) declared: OnceCell<DeclaredEntries>,
}

/// What became of orphans.
#[derive(Default)]
pub(super) struct Pruned {
    pub(super) outcomes: Vec<StateOutcome>,
    pub(super) removed: Vec<ManagedEntry>,
    /// True when the run was cancelled before all of them had their turn.
    pub(super) is_canceled: bool,
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
    pub(super) fn run(&self, orphans: &[&ManagedEntry], first: u64) -> Pruned {
        let shared = RunShared::default();
        let is_going = |entry: &&&ManagedEntry| {
            let standing = self.with_ctx(entry, &shared, |ctx| self.standing(entry, ctx));
            matches!(standing, Fate::Removed)
        };
        let count = orphans.iter().filter(is_going).count();
        if count > self.scope.prune.max {
            return Pruned { outcomes: vec![self.refusal(count, first)], ..Pruned::default() };
        }
        let mut pruned = Pruned::default();
        for entry in orphans {
            if self.run.cancel.is_cancelled() {
                pruned.is_canceled = true;
                break;
            }
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
            let outcome = self.outcome(entry, ended, first + pruned.outcomes.len() as u64);
            let status = outcome.status();
            pruned.outcomes.push(outcome);
            match status {
                StateStatus::Changed => pruned.removed.push((*entry).clone()),
                // What is left may depend on what could not be removed.
                StateStatus::Failed => break,
                _ => {}
            }
        }
        pruned
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
        if entry.thing.is_path() {
            let declared =
                self.declared.get_or_init(|| DeclaredEntries::new(self.things, &self.mentions, ctx));
            if let Some(why) = declared.obstacle(&entry.thing, ctx) {
                return Fate::Kept(why);
            }
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

/// Removes a file, a link, or an empty directory; never what is in one.
fn remove_entry(entry: &ManagedEntry, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
    if let Some(why) = removal_obstacle(&entry.thing, ctx)? {
        return Err(StateError::new(format!("{} is not removed: {why}", entry.thing.name)));
    }
    ctx.fs.remove(Path::new(&entry.thing.name))?;
    let word = if ctx.is_dry() { "would be removed" } else { "removed" };
    let changes = Map::from_iter([("removed", entry.thing.name.as_str())]);
    Ok(ApplyResult::new(
        format!("{} {} {word}: no state manages it any more", entry.thing.kind, entry.thing.name),
        changes,
    ))
}
