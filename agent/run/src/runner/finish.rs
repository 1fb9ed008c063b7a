//! A state that has ended in, its place in the report out; who waits for it is freed.

use std::path::Path;
use std::sync::Arc;

use zagent_compiler::{Chunk, Compat, name_text};
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, Value, mask};

use super::{FinishedState, HaltReason, Runner};
use crate::causes::Cause;
use crate::converge::ConvergeResult;
use crate::outcome::{FileLines, OutcomeDraft, PARALLEL, SKIP_REQ, SOURCE, STATE_RAN};
use crate::{RunMode, SkipReason};
use zagent_states::ApplyResult;

/// What the report says of a state, beside what its chunk says.
pub(crate) struct ReportEntry {
    pub tag: String,
    pub(crate) run_number: Option<u64>,
    pub ended: ConvergeResult,
    pub skip: Option<SkipReason>,
    pub level: usize,
}

impl Runner<'_, '_> {
    pub(crate) fn next_run_number(&mut self, calls: u64) -> u64 {
        self.next_number += calls;
        self.next_number - 1
    }

    /// A state that does not run because nothing runs any more.
    pub(crate) fn skip_halted(&mut self, index: usize, tag: String) {
        let reason = match self.halt {
            Some(HaltReason::Cancelled) => SkipReason::Cancelled,
            // Salt's report holds only what ran.
            Some(HaltReason::Aborted) => return self.drop_node(index),
            _ if self.settings.compat == Compat::Salt => return self.drop_node(index),
            _ if self.may_still_run(index) => {
                let why = "it may have started when a state with failhard fails";
                return self.finish_ran(index, tag, None, ConvergeResult::unknown(why));
            }
            _ => SkipReason::FailhardAbort,
        };
        self.skip_node(index, tag, reason, &[]);
    }

    /// True when a dry run cannot tell whether a state would have started before the one that ends the run failed: without levels,
    /// for all that do not wait for it.
    fn may_still_run(&self, index: usize) -> bool {
        let waits = matches!(self.settings.schedule, RunSchedule::Levels | RunSchedule::Ordered);
        self.settings.mode == RunMode::Test
            && !waits
            && self.halted_by.is_some_and(|failed| !self.queue.is_after(failed, index))
    }

    pub(crate) fn drop_node(&mut self, index: usize) {
        self.queue.finish(index);
    }

    pub(crate) fn skip_node(&mut self, index: usize, tag: String, reason: SkipReason, failed: &[String]) {
        let salt = self.settings.compat == Compat::Salt;
        if let (true, SkipReason::RequireFailed, Some(check)) = (salt, reason, self.prereq_checks.get(&tag)) {
            // A target whose prereq failed keeps what its check said, as something that was not done.
            let mut ended = check.clone();
            ended.done.changes = Map::new();
            return self.finish_ran(index, tag, None, ended);
        }
        let (result, comment) = match reason {
            SkipReason::RequireFailed => {
                (false, format!("One or more requisite failed: {}", failed.join(", ")))
            }
            SkipReason::OnchangesNotMet => {
                (true, "State was not run because none of the onchanges reqs changed".into())
            }
            SkipReason::OnfailNotMet => (true, "State was not run because onfail req did not change".into()),
            SkipReason::PrereqNotMet => (true, "No changes detected".into()),
            SkipReason::FailhardAbort => (false, "Not run: a state with failhard failed before".into()),
            SkipReason::Cancelled => (false, "Not run: the run was stopped".into()),
        };
        let ended = ConvergeResult::new(Some(result), ApplyResult::new(comment, Map::new()));
        self.finish_node(index, tag, None, ended, Some(reason));
    }

    pub(crate) fn finish_ran(
        &mut self,
        index: usize,
        tag: String,
        number: Option<u64>,
        ended: ConvergeResult,
    ) {
        self.finish_node(index, tag, number, ended, None);
    }

    /// Gives a state its place in the report and frees who waits for it.
    pub(crate) fn finish_node(
        &mut self,
        index: usize,
        tag: String,
        number: Option<u64>,
        ended: ConvergeResult,
        skip: Option<SkipReason>,
    ) {
        let Some(chunk) = self.run_ctx.plan.chunks.get(index) else { return };
        let strict_test = self.settings.mode == RunMode::Test && self.settings.compat == Compat::Strict;
        // What a state ignores on purpose moves nobody else.
        let is_hushed = ended.done.details.get(SKIP_REQ).is_some_and(Value::is_truthy);
        let changes = !ended.done.changes.is_empty() && !is_hushed;
        let changed = !ended.unknown && (changes || strict_test && ended.result.is_none());
        let mut shadow = self.prior_effects(index);
        shadow.any |= ended.result.is_none();
        shadow.unpredicted |= ended.unpredicted;
        if let Some(touch) = ended.touch.clone().filter(|_| strict_test) {
            let (id, unpredicted) = (Arc::clone(&chunk.id), ended.unpredicted);
            self.causes.insert(index, Cause { id, unpredicted, touch });
            shadow.causes.add(index);
        } else if !ended.unpredicted.is_none() {
            shadow.causes.is_cut = true;
        }
        let mark = FinishedState {
            result: ended.result,
            changed,
            ran: skip.is_none(),
            unknown: ended.unknown,
            may_fail: strict_test && !ended.unpredicted.is_none(),
            command_may_fail: strict_test && ended.command_may_fail,
            failure_unknown: ended.failure_unknown,
            unpredicted: ended.unpredicted,
            prior_effects: shadow,
        };
        self.finished[index] = Some(mark.clone());
        if chunk.prereq.check && skip.is_none() {
            self.prereq_checks.insert(tag, ended);
            return self.queue.finish(index);
        }
        if chunk.prereq.check {
            self.decided_prereqs.insert(tag.clone(), mark);
        }
        self.weigh_failhard(index, chunk, &ended, skip);
        let level = self.queue.level(index);
        self.add_outcome(chunk, ReportEntry { tag, run_number: number, ended, skip, level });
        self.queue.finish(index);
    }

    /// Ends the run when a state with `failhard` failed, or would. A state that was skipped did not fail itself.
    fn weigh_failhard(
        &mut self,
        index: usize,
        chunk: &Chunk,
        ended: &ConvergeResult,
        skip: Option<SkipReason>,
    ) {
        let own = chunk.args.get("failhard");
        let is_salt_test = self.settings.mode == RunMode::Test && self.settings.compat == Compat::Salt;
        if is_salt_test || self.halt.is_some() || !own.map_or(self.settings.failhard, Value::is_truthy) {
            return;
        }
        if ended.result == Some(false) {
            self.halt = Some(HaltReason::Failhard);
            self.halted_by = Some(index);
        } else if own.is_some()
            && skip.is_none()
            && self.settings.mode == RunMode::Test
            && (ended.command_may_fail || ended.unknown && ended.failure_unknown)
        {
            self.may_halt.get_or_insert(index);
        }
    }

    /// Writes one line of the report, and tells who watches.
    pub(crate) fn add_outcome(&mut self, chunk: &Chunk, entry: ReportEntry) {
        let ReportEntry { tag, run_number: number, ended, skip, level } = entry;
        let run_num = number.unwrap_or_else(|| self.next_run_number(ended.run_numbers));
        let mut details = ended.done.details;
        if let Some(event) = event_name(chunk, &tag) {
            tracing::info!(event, result = ?ended.result, "fire_event");
            details.insert("event", event);
        }
        if ended.result == Some(false)
            && skip.is_none()
            && let Some(place) = self.sls_lines.locate(chunk)
        {
            details.insert(SOURCE, place);
        }
        if self.settings.compat == Compat::Salt {
            if skip.is_some() {
                details.insert(STATE_RAN, false);
            } else if chunk.args.get("parallel").is_some_and(Value::is_truthy)
                && !chunk.args.contains("retry")
            {
                details.insert(PARALLEL, true);
            }
        }
        let (name, about) = match ended.about {
            Some(Value::Str(name)) => (name.to_string(), None),
            about => (
                name_text(&chunk.name),
                about.or_else(|| Some(chunk.name.clone()).filter(|n| n.as_str().is_none())),
            ),
        };
        let mut draft = OutcomeDraft {
            state: chunk.state.to_string(),
            fun: chunk.fun.to_string(),
            id: chunk.id.to_string(),
            sls: chunk.sls.to_string(),
            name,
            about,
            tag,
            result: ended.result,
            unknown: ended.unknown,
            skip,
            changes: ended.done.changes,
            comment: ended.done.comment,
            diff: ended.done.diff,
            details,
            run_num,
            level,
            start: ended.start,
            duration: ended.duration,
        };
        if chunk.args.get("no_log").is_some_and(Value::is_truthy) {
            hide_all(&mut draft);
        }
        let secrets = self.run_ctx.secrets;
        if &*chunk.state == "cron" {
            // A crontab is read and written by a program: what is known of it is what its states say.
            let user = chunk.args.get("user").map_or_else(|| "root".into(), name_text);
            secrets.note_text(&draft.tag, &Path::new("crontab").join(user), &draft.diff);
        }
        let lines = if secrets.concerns(&draft.tag) { FileLines::Hidden } else { FileLines::Shown };
        let outcome = draft.into_outcome(secrets.mask(), lines);
        self.run_ctx.progress.finished(&outcome);
        self.outcomes.push(outcome);
    }
}

/// `no_log`: what a state says stays with it.
fn hide_all(draft: &mut OutcomeDraft) {
    draft.name = mask::NO_LOG_TEXT.into();
    draft.comment = mask::NO_LOG_TEXT.into();
    draft.diff = String::new();
    draft.details = Map::new();
    draft.about = None;
    if let Value::Map(changes) = mask::hide_content(&std::mem::take(&mut draft.changes).into()) {
        draft.changes = Arc::unwrap_or_clone(changes);
    }
}

/// The event that a state asks to be told of.
fn event_name(chunk: &Chunk, tag: &str) -> Option<String> {
    match chunk.args.get("fire_event")? {
        Value::Bool(true) => Some(format!("state_result/{tag}")),
        Value::Str(name) => Some(name.to_string()),
        _ => None,
    }
}
