//! A node that may start in, whether and how it runs out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::{Chunk, Compat, Requisite, name_text, schema};
use zagent_config::Value;
use zagent_config::settings::RunSchedule;

use super::{HaltReason, Runner};
use crate::causes::Cause;
use crate::converge::{
    ConvergeMode, ConvergeResult, PriorEffects, RunDecider, ShouldReact, StateTask, UncertainRun,
    panic_message,
};
use crate::requisite;
use crate::requisite::{RequisiteDecision, RequisiteResult};
use crate::{RunMode, slot};
use zagent_states::StateError;

impl<'p> Runner<'_, 'p> {
    /// Decides about a node that may start.
    pub(crate) fn start_node(&mut self, index: usize) {
        let chunk = &self.run_ctx.plan.chunks[index];
        let tag = chunk.tag();
        if self.halt.is_none()
            && (self.run_ctx.cancel.is_cancelled() || self.deadline.is_some_and(|d| Instant::now() >= d))
        {
            self.cancel_run();
        }
        if let Some(mark) = self.decided_prereqs.get(&tag).cloned() {
            self.finished[index] = Some(mark);
            return self.queue.finish(index);
        }
        if self.halt.is_some() && !self.finishes_level(index) {
            return self.skip_halted(index, tag);
        }
        if let Some(uncertain) = self.uncertain_halt(index) {
            return self.start_uncertain(index, tag, uncertain);
        }
        let seen = self.requisite_results(index);
        match requisite::decide(&seen, self.settings.compat) {
            RequisiteDecision::Run => self.start_task(index, tag, ShouldReact::No, None),
            RequisiteDecision::MayReact => self.start_task(index, tag, ShouldReact::Maybe, None),
            RequisiteDecision::React => {
                let fired = self.changed_watches(index);
                self.shared
                    .watched_changes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(tag.clone(), fired);
                self.start_task(index, tag, ShouldReact::Yes, None);
            }
            RequisiteDecision::Unknown { may_be_refused } => {
                let condition = requisite::condition(&seen);
                let decided_by = if may_be_refused { RunDecider::Failure } else { RunDecider::Requisite };
                self.start_uncertain(index, tag, UncertainRun { condition, decided_by });
            }
            RequisiteDecision::Skip(reason) => {
                let failed = requisite::failed_ids(&seen);
                self.skip_node(index, tag, reason, &failed);
            }
        }
    }

    /// How those that a chunk waits for have ended.
    pub(crate) fn requisite_results(&self, index: usize) -> Vec<RequisiteResult<'p>> {
        let plan = self.run_ctx.plan;
        let all = self.graph.requisites.for_chunk(index).iter();
        all.filter_map(|&(from, kind)| {
            let mark = self.finished[from].as_ref()?;
            let chunk = &plan.chunks[from];
            Some(RequisiteResult {
                kind,
                id: (&*chunk.sls, &*chunk.id),
                result: mark.result,
                changed: mark.changed,
                ran: mark.ran,
                unknown: mark.unknown,
                may_fail: mark.may_fail,
                command_may_fail: mark.command_may_fail,
                failure_unknown: mark.failure_unknown,
            })
        })
        .collect()
    }

    /// What a watcher watches and has changed, as `state: id`, in the order it names them.
    pub(crate) fn changed_watches(&self, index: usize) -> Vec<String> {
        let chunks = &self.run_ctx.plan.chunks;
        let watched = self.graph.requisites.for_chunk(index).iter();
        let watched = watched.filter(|(_, kind)| matches!(kind, Requisite::Watch | Requisite::WatchAny));
        let mut fired: Vec<&Chunk> = watched
            .filter(|(from, _)| self.finished[*from].as_ref().is_some_and(|m| m.changed))
            .map(|(from, _)| &chunks[*from])
            .collect();
        let named: Vec<&Value> = ["watch", "watch_any"]
            .iter()
            .filter_map(|key| chunks[index].args.get(key).and_then(Value::as_list))
            .flat_map(|list| list.iter())
            .collect();
        let place = |chunk: &Chunk| {
            let is_meant = |word: &Value| {
                let word = name_text(word);
                *word == *chunk.id || word == name_text(&chunk.name) || *word == *chunk.sls
            };
            named.iter().position(|item| match item {
                Value::Map(map) => map.values().any(is_meant),
                bare => is_meant(bare),
            })
        };
        zagent_config::sorted::sort_by_key(&mut fired, |chunk| place(chunk).unwrap_or(usize::MAX));
        fired.into_iter().map(|chunk| format!("{}: {}", chunk.state, chunk.id)).collect()
    }

    /// A state of which nobody can tell whether it runs; only in a dry run.
    fn start_uncertain(&mut self, index: usize, tag: String, uncertain: UncertainRun) {
        self.start_task(index, tag, ShouldReact::No, Some(uncertain));
    }

    /// True when a state still runs although a state with `failhard` has failed: those of its level run beside it.
    pub(crate) fn finishes_level(&self, index: usize) -> bool {
        let level = |node: usize| self.queue.level(node);
        self.halt == Some(HaltReason::Failhard)
            && self.settings.schedule == RunSchedule::Levels
            && self.halted_by.is_some_and(|failed| level(index) <= level(failed))
    }

    /// Why nobody can tell whether the run gets as far as a state.
    fn uncertain_halt(&self, index: usize) -> Option<UncertainRun> {
        let failing = self.may_halt?;
        let levels = self.settings.schedule == RunSchedule::Levels;
        if levels && self.queue.level(index) <= self.queue.level(failing) {
            return None;
        }
        let id = &self.run_ctx.plan.chunks[failing].id;
        Some(UncertainRun { condition: format!("`{id}` does not fail"), decided_by: RunDecider::Failure })
    }

    /// What would have changed the host before a state looks, one by one.
    pub(crate) fn causes(&self, prior: &PriorEffects) -> Vec<Cause> {
        prior.causes.iter().filter_map(|index| self.causes.get(&index).cloned()).collect()
    }

    pub(crate) fn start_task(
        &mut self,
        index: usize,
        tag: String,
        react: ShouldReact,
        uncertain: Option<UncertainRun>,
    ) {
        let chunk = &self.run_ctx.plan.chunks[index];
        if let Some(words) = self.invalid_argument(chunk) {
            self.aborted = Some(words);
            self.halt = Some(HaltReason::Aborted);
            return self.queue.finish(index);
        }
        let how = match self.settings.mode {
            _ if chunk.prereq.check => ConvergeMode::CheckOnly,
            RunMode::Test | RunMode::Audit => ConvergeMode::Simulate,
            RunMode::Apply | RunMode::Revert => ConvergeMode::Apply,
        };
        let is_denied = !self.run_ctx.conditions.allow(chunk, &chunk.fun);
        let chunk = match catch_unwind(AssertUnwindSafe(|| {
            slot::fill_slots(chunk, self.run_ctx.place(chunk).host)
        })) {
            Ok(chunk) => chunk,
            Err(panic) => {
                let ended = ConvergeResult::failed(StateError::new(panic_message(&*panic)));
                return self.finish_ran(index, tag, None, ended);
            }
        };
        let prior_effects = self.prior_effects(index);
        let task = StateTask {
            index,
            chunk,
            tag,
            state: None,
            check_result: None,
            mode: how,
            should_react: react,
            is_listener: false,
            is_denied,
            causes: self.causes(&prior_effects),
            prior_effects,
            uncertain,
            start: Timestamp::now(),
            started_at: Instant::now(),
        };
        self.dispatch(task);
    }

    /// An argument that Salt refuses when it calls the function, which ends its whole run.
    pub(crate) fn invalid_argument(&mut self, chunk: &Chunk) -> Option<String> {
        if self.settings.compat != Compat::Salt {
            return None;
        }
        let Chunk { state, fun, .. } = chunk;
        let function = (Arc::clone(state), Arc::clone(fun));
        let table = self.tables.entry(function).or_insert_with(|| {
            let function = zagent_states::schema().function(state, fun).filter(|f| !f.takes_any());
            function.map(schema::ParamTable::new)
        });
        let table = table.as_ref()?;
        let alien = |k: &&str| !k.starts_with("__") && table.kinds(k).is_none();
        let key = chunk.args.keys().filter_map(Value::as_str).find(alien)?;
        Some(format!("'{key}' is an invalid keyword argument for '{state}.{fun}'"))
    }

    /// What would have been done to the host before a state looks, in a dry run.
    pub(crate) fn prior_effects(&self, index: usize) -> PriorEffects {
        if self.settings.mode != RunMode::Test || self.settings.compat == Compat::Salt {
            return PriorEffects::default();
        }
        let mut all = PriorEffects::default();
        for from in self.graph.predecessors(index) {
            if let Some(mark) = &self.finished[from] {
                all.unpredicted |= mark.prior_effects.unpredicted;
                all.any |= mark.prior_effects.any;
                all.causes.merge(&mark.prior_effects.causes);
            }
        }
        for from in self.graph.foundations(index) {
            if let Some(mark) = &self.finished[from] {
                all.foundation_effects |= mark.unpredicted;
            }
        }
        all
    }
}
