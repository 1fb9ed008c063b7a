//! A state that runs in, where it runs out: here, when that takes no time, else on a worker.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zagent_compiler::Chunk;
use zagent_config::Value;
use zagent_config::settings::RunSchedule;

use super::{Runner, scene};
use crate::fs::Masked;
use crate::run::converge::{self, Ended, How, Reacts, Task, panic_words, umask};
use crate::run::guard;
use crate::run::requisite::{self, Decision};
use crate::states::{Cost, Failure, Resource, Standing};

impl<'p> Runner<'_, 'p> {
    /// Does it here when that takes no time, else hands it on; waits when somebody else is at the same thing.
    pub(super) fn dispatch(&mut self, mut task: Task<'p>) {
        let weighed = catch_unwind(AssertUnwindSafe(|| self.weigh(&mut task)));
        let (cost, resources) = match weighed {
            Ok(weighed) => weighed,
            Err(panic) => {
                let ended = Ended::failed(Failure::new(panic_words(&*panic)));
                return self.settle(task.index, task.tag, None, ended);
            }
        };
        if cost == Cost::Instant {
            return self.finish_here(task);
        }
        if !self.holds.are_free(&resources) {
            return self.blocked.push(task);
        }
        if cost == Cost::Light && (task.how != How::Apply || self.is_right(&mut task)) {
            return self.finish_here(task);
        }
        self.join(&mut task);
        let ordered = self.settings.schedule == RunSchedule::Ordered;
        let aside = ordered && !task.listener && self.graph.nodes[task.index].parallel;
        let number = aside.then(|| self.take_number(1));
        self.stage.watcher.started(task.index, &task.tag);
        self.holds.take(task.index, resources);
        self.pool.give(task, number);
    }

    /// Tells a state which others of its kind are ready too, so that one act may serve them all.
    fn join(&self, task: &mut Task<'p>) {
        let (plan, index) = (self.stage.plan, task.index);
        let chunk = &plan.chunks[index];
        let Some(state) = task.state.as_mut().filter(|state| task.how == How::Apply && state.joins()) else {
            return;
        };
        let may_join = |chunk: &Chunk| {
            let is_bound = guard::has(chunk) || chunk.prereq.check || converge::takes_time(chunk);
            // In Salt's own order states keep to themselves, unless they ask for it.
            let usual = self.settings.schedule != RunSchedule::Ordered;
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
                && self.marks[other].is_none()
                && self.queue.level(other) == self.queue.level(index)
                && may_join(them)
                && self
                    .graph
                    .before(other)
                    .chain(self.graph.under(other))
                    .all(|from| self.marks[from].is_some())
                && requisite::decide(&self.seen(other), self.settings.compat) == Decision::Run
        };
        let others: Vec<&Chunk> = (0..plan.chunks.len()).filter(is_ready).map(|i| &plan.chunks[i]).collect();
        state.join(&others);
    }

    /// How long a state may take, and what it touches.
    fn weigh(&self, task: &mut Task<'p>) -> (Cost, Vec<Resource>) {
        if self.is_settled_by_guard(task) {
            return (Cost::Instant, Vec::new());
        }
        let light = !guard::is_command(&task.chunk) && !converge::takes_time(&task.chunk);
        match task.state() {
            Ok(state) if light => (state.cost(), state.resources()),
            Ok(state) => (Cost::Heavy, state.resources()),
            // Its failure is found where it runs.
            Err(_) => (Cost::Instant, Vec::new()),
        }
    }

    /// True when a guard that starts no process keeps it from running.
    pub(super) fn is_settled_by_guard(&self, task: &Task<'p>) -> bool {
        let chunk = &*task.chunk;
        let quick = guard::has(chunk) && !guard::is_command(chunk) && !guard::owns_guards(&chunk.state);
        quick && !converge::takes_time(chunk) && {
            let fs = self.stage.ground.fs(&task.tag);
            let scene = scene(self.stage, self.settings, self.templates, self.shared, &*fs, &task.tag);
            matches!(guard::evaluate(chunk, &scene), Ok(guard::Guard::Skip { .. }))
        }
    }

    /// Looks; true when there is nothing to change, or no way to look.
    pub(super) fn is_right(&self, task: &mut Task<'p>) -> bool {
        if task.react != Reacts::No || task.listener {
            return false;
        }
        let fs = self.stage.ground.fs(&task.tag);
        let scene = scene(self.stage, self.settings, self.templates, self.shared, &*fs, &task.tag);
        let Some(state) = task.state.as_mut() else { return true };
        match catch_unwind(AssertUnwindSafe(|| state.check(&scene))) {
            Ok(Ok(look)) => {
                let right = look.standing == Standing::Right;
                task.looked = Some(look);
                right
            }
            // It fails, or panics, once more where that is dealt with.
            Ok(Err(_)) | Err(_) => true,
        }
    }

    pub(super) fn finish_here(&mut self, mut task: Task<'p>) {
        let tag = std::mem::take(&mut task.tag);
        let ended = {
            let _mask = Masked::set(umask(&task.chunk));
            let fs = self.stage.ground.fs(&tag);
            let scene = scene(self.stage, self.settings, self.templates, self.shared, &*fs, &tag);
            task.run(&scene)
        };
        self.settle(task.index, tag, None, ended);
    }
}
