//! The end of a run: those who listen react, one after the other.

use std::borrow::Cow;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::{Chunk, Compat};
use zagent_config::Map;

use super::finish::ReportEntry;
use super::pool::WorkerMessage;
use super::{HaltReason, Runner};
use crate::RunMode;
use crate::converge::{ConvergeMode, ConvergeResult, PriorEffects, ShouldReact, StateTask};
use crate::listeners;
use crate::listeners::{DidChange, Listener};
use crate::slot;
use zagent_states::{ApplyResult, StateError};

impl Runner<'_, '_> {
    /// At the end, those who listen react, one after the other.
    pub(crate) fn run_listeners(&mut self, inbox: &Receiver<WorkerMessage>) {
        let stopped = matches!(self.halt, Some(HaltReason::Cancelled | HaltReason::Aborted));
        if stopped || !listeners::has_listeners(self.run_ctx.plan) {
            return;
        }
        let marks = std::mem::take(&mut self.finished);
        let mut prior = PriorEffects::default();
        for mark in marks.iter().flatten().filter(|_| self.settings.mode == RunMode::Test) {
            prior.unpredicted |= mark.prior_effects.unpredicted;
            prior.any |= mark.prior_effects.any;
            prior.causes.merge(&mark.prior_effects.causes);
        }
        let all = listeners::find_listeners(self.run_ctx.plan, |i| match &marks[i] {
            Some(mark) if mark.unknown => DidChange::Maybe,
            Some(mark) if mark.changed => DidChange::Yes,
            _ => DidChange::No,
        });
        let level = self.outcomes.iter().map(|o| o.level + 1).max().unwrap_or(0);
        for listener in all {
            match listener {
                Listener::Reacts(chunk, DidChange::Yes) => {
                    self.run_listener(*chunk, level, inbox, &mut prior);
                }
                Listener::Reacts(mut chunk, _) => {
                    chunk.fun = "mod_watch".into();
                    let ended = ConvergeResult::unknown("would react if a state that it listens for changes");
                    let tag = chunk.tag();
                    self.add_outcome(&chunk, ReportEntry { tag, run_number: None, ended, skip: None, level });
                }
                Listener::Missing { state, id } => {
                    let text = format!("Referenced state {state}: {id} does not exist");
                    let mut chunk =
                        Chunk::single("Listen_Error", "Listen_Error", &format!("listen_{state}"), Map::new());
                    chunk.id = format!("listen_{id}").into();
                    let tag = chunk.tag();
                    chunk.name = format!("listen_{state}:{id}").into();
                    let ended = ConvergeResult::new(Some(false), ApplyResult::new(text, Map::new()));
                    self.add_outcome(&chunk, ReportEntry { tag, run_number: None, ended, skip: None, level });
                }
            }
        }
    }

    /// `prior` is what a dry run knows about the host by then.
    pub(crate) fn run_listener(
        &mut self,
        chunk: Chunk,
        level: usize,
        inbox: &Receiver<WorkerMessage>,
        prior: &mut PriorEffects,
    ) {
        if self.run_ctx.cancel.is_cancelled() {
            self.halt = Some(HaltReason::Cancelled);
            return;
        }
        let mut shown = chunk.clone();
        shown.fun = "mod_watch".into();
        let tag = shown.tag();
        if self.settings.compat == Compat::Salt && lacks_mod_watch(&chunk.state) {
            let ended = ConvergeResult::failed(StateError::new(no_mod_watch(&chunk)));
            // Salt does not say whose failure it is.
            (shown.id, shown.sls) = ("".into(), "".into());
            return self.add_outcome(&shown, ReportEntry { tag, run_number: None, ended, skip: None, level });
        }
        let how =
            if self.settings.mode == RunMode::Test { ConvergeMode::Simulate } else { ConvergeMode::Apply };
        let task = StateTask {
            index: usize::MAX,
            chunk: Cow::Owned(slot::fill_slots(&chunk, self.run_ctx.place(&chunk).host).into_owned()),
            tag: tag.clone(),
            state: None,
            check_result: None,
            mode: how,
            should_react: ShouldReact::Yes,
            is_listener: true,
            is_denied: !self.run_ctx.conditions.allow(&chunk, "mod_watch"),
            causes: self.causes(prior),
            prior_effects: prior.clone(),
            uncertain: None,
            start: Timestamp::now(),
            started_at: Instant::now(),
        };
        self.run_ctx.tell_started(self.run_ctx.plan.chunks.len(), &tag);
        self.pool.send_task(task, None);
        let ended = loop {
            if let Some((_, _, _, ended)) = self.receive(inbox) {
                break ended;
            }
        };
        let is_test = how == ConvergeMode::Simulate;
        prior.any |= is_test && ended.result.is_none();
        prior.unpredicted |= ended.unpredicted;
        prior.causes.is_cut |= !ended.unpredicted.is_none();
        self.add_outcome(&shown, ReportEntry { tag, run_number: None, ended, skip: None, level });
    }
}

/// Modules whose states answer a watch in Salt; ours that Salt does not have answer as they can.
const WATCHING_MODULES: [&str; 8] = ["at", "cmd", "event", "module", "mount", "pkg", "service", "test"];
/// Modules that Salt does not have.
const OWN_MODULES: [&str; 1] = ["exec"];

/// True when Salt has no `mod_watch` for a listener of this module.
fn lacks_mod_watch(module: &str) -> bool {
    let is_salts = zagent_states::schema().module(module).is_some() && !OWN_MODULES.contains(&module);
    is_salts && !WATCHING_MODULES.contains(&module)
}

fn no_mod_watch(chunk: &Chunk) -> String {
    let Chunk { state, sls, .. } = chunk;
    format!(
        "State '{state}.mod_watch' was not found in SLS '{sls}'\nReason: '{state}.mod_watch' is not available.\n"
    )
}
