//! A run around the record of what is managed: what is new before it, which orphans it removes, what is remembered after.

use std::cell::OnceCell;
use std::sync::Arc;

use zagent_config::error_chain;
use zagent_host::fs::FileSystem;
use zagent_host::undo::{JournalReader, UndoJournal};
use zagent_states::managed::{Presence, look};
use zagent_states::{RunShared, StateCtx};

use super::pruning::{Pruning, is_changed};
use super::{StateRun, StateRunError};
use crate::managed::{
    ManagedEntry, ManagedRecord, ManagedScope, Orphan, PlanMentions, PlanThings, RecordHeader, RecordUpdate,
    removal_order, things_before,
};
use crate::runner::{RunFs, RunResult};
use crate::sls_line::SlsLines;
use crate::{RunMode, StateOutcome, StateStatus};

/// What was known before a run.
pub(super) struct ManagedBefore {
    /// Digest of the plan and its revision.
    plan: String,
    /// None when the record holds this plan already, and there are no orphans.
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
        let things = PlanThings::new(self.plan);
        let plan = self.plan_digest(scope, &things);
        let header = RecordHeader::load(&self.paths.managed());
        // Orphans are looked at in every run: one that is gone is forgotten, so that what others put there later is theirs.
        if header.is_current(&plan) {
            return Ok(Some(ManagedBefore { plan, known: None, absent: Default::default() }));
        }
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

    /// What decides which things are managed: the tree, and the chunks with their revision.
    fn plan_digest(&self, scope: &ManagedScope, things: &PlanThings) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut note = |text: &str| {
            hasher.update(text.as_bytes());
            hasher.update(b"\0");
        };
        note(&self.revision);
        note(if scope.is_whole { "whole" } else { "part" });
        for chunk in &self.plan.chunks {
            note(&chunk.state);
            note(&chunk.fun);
            note(&chunk.id);
            note(&zagent_compiler::name_text(&chunk.name));
        }
        for (_, managed) in &things.things {
            let (kind, name) = managed.thing.identity();
            note(kind);
            note(name);
            note(&managed.removal.as_ref().map(ToString::to_string).unwrap_or_default());
        }
        let tree = blake3::hash(scope.source.as_bytes()).to_hex();
        format!("{}-{}", &tree[..16], &hasher.finalize().to_hex()[..32])
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
        let mentions = PlanMentions::new(self.plan);
        let pruning = Pruning { run: self, scope, run_fs, things, mentions, declared: OnceCell::new() };
        let pruned = pruning.run(&orphans, ran.states.len() as u64);
        pruned.outcomes.iter().for_each(|outcome| self.progress.finished(outcome));
        ran.states.extend(pruned.outcomes);
        ran.canceled |= pruned.is_canceled;
        pruned.removed
    }

    /// What a revert took away is forgotten: what others put there later is theirs. A failure is a warning.
    pub(super) fn forget_reverted(&self) {
        let path = self.paths.managed();
        let forget = || -> Result<(), StateRunError> {
            let mut record = ManagedRecord::load(&path)?;
            if record.entries.is_empty() {
                return Ok(());
            }
            self.look_at("managed", |ctx| {
                record
                    .entries
                    .retain(|entry| look(&entry.thing, entry.removal.as_ref(), ctx) != Presence::Absent);
            });
            Ok(record.save(&path, "", false)?)
        };
        if let Err(error) = forget() {
            tracing::warn!(error = error_chain(&error), "what this revert took away is not forgotten");
        }
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
        record.save(&path, &before.plan, is_complete)?;
        Ok(())
    }
}
