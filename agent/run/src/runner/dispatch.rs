//! A state that runs in, where it runs out: here, when that takes no time, else on a worker.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zagent_compiler::Chunk;
use zagent_config::Value;
use zagent_config::settings::RunSchedule;

use super::{Runner, RunningState, state_ctx};
use crate::converge;
use crate::converge::{ConvergeMode, ConvergeResult, ShouldReact, StateTask, chunk_umask, panic_message};
use crate::guard;
use crate::requisite;
use crate::requisite::RequisiteDecision;
use zagent_host::fs::UmaskGuard;
use zagent_states::{CheckCost, LockKey, StateError, Verdict};

impl<'p> Runner<'_, 'p> {
    /// Does it here when that takes no time, else hands it on; waits when somebody else is at the same thing.
    pub(crate) fn dispatch(&mut self, mut task: StateTask<'p>) {
        let weighed = catch_unwind(AssertUnwindSafe(|| self.cost_and_locks(&mut task)));
        let (cost, resources) = match weighed {
            Ok(weighed) => weighed,
            Err(panic) => {
                let ended = ConvergeResult::failed(StateError::new(panic_message(&*panic)));
                return self.finish_ran(task.index, task.tag, None, ended);
            }
        };
        if cost == CheckCost::Instant {
            return self.run_inline(task);
        }
        if !self.locks.are_free(&resources) {
            return self.blocked.push(task);
        }
        if cost == CheckCost::Light && (task.mode != ConvergeMode::Apply || self.is_in_sync(&mut task)) {
            return self.run_inline(task);
        }
        if self.is_parallel_full(task.index) {
            return self.blocked.push(task);
        }
        self.aggregate(&mut task);
        let ordered = self.settings.schedule == RunSchedule::Ordered;
        let aside = ordered && !task.is_listener && self.graph.nodes[task.index].parallel;
        let number = aside.then(|| self.next_run_number(1));
        self.run_ctx.tell_started(task.index, &task.tag);
        self.locks.acquire(task.index, resources);
        self.pool.send_task(task, number);
    }

    /// True for a state with `parallel: true` when as many of them run as may.
    fn is_parallel_full(&self, index: usize) -> bool {
        let is_parallel = |index: usize| self.graph.nodes[index].parallel;
        let running = || self.locks.holders().filter(|&index| is_parallel(index)).count();
        is_parallel(index) && self.settings.max_parallel.is_some_and(|most| running() >= most)
    }

    /// Tells a state which others of its kind are ready too, so that one act may serve them all.
    fn aggregate(&self, task: &mut StateTask<'p>) {
        let (plan, index) = (self.run_ctx.plan, task.index);
        let chunk = &plan.chunks[index];
        let Some(state) =
            task.state.as_mut().filter(|state| task.mode == ConvergeMode::Apply && state.can_batch())
        else {
            return;
        };
        let may_join = |chunk: &Chunk| {
            let is_bound = guard::has_guards(chunk) || chunk.prereq.check || converge::is_slow(chunk);
            // In the written order states keep to themselves, unless they ask for it.
            let usual = !matches!(self.settings.schedule, RunSchedule::Ordered | RunSchedule::Declared);
            !is_bound && chunk.args.get("aggregate").map_or(usual, Value::is_truthy)
        };
        if !may_join(chunk) {
            return;
        }
        let is_ready = |&other: &usize| {
            let them = &plan.chunks[other];
            other != index
                && them.state == chunk.state
                && them.fun == chunk.fun
                && self.finished[other].is_none()
                && self.queue.level(other) == self.queue.level(index)
                && may_join(them)
                && self
                    .graph
                    .predecessors(other)
                    .chain(self.graph.foundations(other))
                    .all(|from| self.finished[from].is_some())
                && requisite::decide(&self.requisite_results(other), self.settings.compat)
                    == RequisiteDecision::Run
        };
        let others: Vec<&Chunk> = (0..plan.chunks.len()).filter(is_ready).map(|i| &plan.chunks[i]).collect();
        state.batch_with(&others);
    }

    /// How long a state may take, and what it touches.
    fn cost_and_locks(&self, task: &mut StateTask<'p>) -> (CheckCost, Vec<LockKey>) {
        if self.is_settled_by_guard(task) || (task.is_denied && !guard::runs_command(&task.chunk)) {
            return (CheckCost::Instant, Vec::new());
        }
        let light = !guard::runs_command(&task.chunk) && !converge::is_slow(&task.chunk);
        match task.build_state() {
            Ok(state) if light => (state.check_cost(), state.lock_keys()),
            Ok(state) => (CheckCost::Heavy, state.lock_keys()),
            // Its failure is found where it runs.
            Err(_) => (CheckCost::Instant, Vec::new()),
        }
    }

    /// True when a guard that starts no process keeps it from running.
    pub(crate) fn is_settled_by_guard(&self, task: &StateTask<'p>) -> bool {
        let chunk = &*task.chunk;
        let quick =
            guard::has_guards(chunk) && !guard::runs_command(chunk) && !guard::owns_guards(&chunk.state);
        quick && !converge::is_slow(chunk) && {
            let place = self.run_ctx.place(chunk);
            let fs = self.run_ctx.state_fs(&place, &task.tag);
            let running = RunningState { place, tag: &task.tag, fs: &*fs };
            let ctx = state_ctx(self.run_ctx, self.settings, self.templates, self.shared, running);
            matches!(guard::evaluate(chunk, &ctx), Ok(guard::GuardDecision::Skip { .. }))
        }
    }

    /// Looks; true when there is nothing to change, or no way to look.
    pub(super) fn is_in_sync(&self, task: &mut StateTask<'p>) -> bool {
        if task.should_react != ShouldReact::No || task.is_listener {
            return false;
        }
        let place = self.run_ctx.place(&task.chunk);
        let fs = self.run_ctx.state_fs(&place, &task.tag);
        let running = RunningState { place, tag: &task.tag, fs: &*fs };
        let ctx = state_ctx(self.run_ctx, self.settings, self.templates, self.shared, running);
        let Some(state) = task.state.as_mut() else { return true };
        match catch_unwind(AssertUnwindSafe(|| state.check(&ctx))) {
            Ok(Ok(look)) => {
                let right = look.verdict == Verdict::InSync;
                task.check_result = Some(look);
                right
            }
            // It fails, or panics, once more where that is dealt with.
            Ok(Err(_)) | Err(_) => true,
        }
    }

    pub(crate) fn run_inline(&mut self, mut task: StateTask<'p>) {
        let tag = std::mem::take(&mut task.tag);
        let ended = {
            let _mask = UmaskGuard::set(chunk_umask(&task.chunk));
            let place = self.run_ctx.place(&task.chunk);
            let fs = self.run_ctx.state_fs(&place, &tag);
            let running = RunningState { place, tag: &tag, fs: &*fs };
            let ctx = state_ctx(self.run_ctx, self.settings, self.templates, self.shared, running);
            task.run(&ctx)
        };
        self.finish_ran(task.index, tag, None, ended);
    }
}
