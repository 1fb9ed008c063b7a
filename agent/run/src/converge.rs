//! One state in, how it ended out: guard, look, change, look again, react, try again.
//!
//! Law: a dry run is composed here: it calls `check`, then `apply` on the overlay, never on the host. A panic
//! inside a state is that state's failure (held by `look_change_and_look_again`, `a_look_alone_changes_nothing`,
//! `a_panic_is_the_failure_of_that_state`).

#![expect(clippy::disallowed_methods, reason = "the time of a state and its deadline begin here")]

mod file_details;
mod predict;
pub(crate) mod retry;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_compiler::{Chunk, Compat, name_text};
use zagent_config::{Map, Value};

use self::predict::Sight;
use self::retry::StateRetry;
use super::causes::{Cause, CauseSet, Touch};
use super::guard::{self, GuardDecision};
use crate::outcome::SKIP_WATCH;
use zagent_states::assumed_accounts::AssumedScope;
use zagent_states::{ApplyResult, CheckResult, Effects, State, StateCtx, StateError, Verdict, build};

/// What is wanted of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConvergeMode {
    /// Look, change, look again.
    Apply,
    /// Look; then change the overlay, so that later states see it.
    Simulate,
    /// Look, for a `prereq`.
    CheckOnly,
}

/// How a state ended, before it has its place in the report.
#[derive(Clone, Debug)]
pub(crate) struct ConvergeResult {
    pub result: Option<bool>,
    pub unknown: bool,
    /// Unknown, and it may fail as well.
    pub(crate) failure_unknown: bool,
    pub done: ApplyResult,
    /// Guards kept it from running, so it does not react either.
    pub(crate) guarded: bool,
    /// What it would change that nobody can foresee.
    pub(crate) unpredicted: Effects,
    /// A dry run does not understand the command that it would run, which may fail.
    pub(crate) command_may_fail: bool,
    /// What it touches when it changes something; only a dry run says so.
    pub(crate) touch: Option<Touch>,
    /// How many run numbers it used.
    pub(crate) run_numbers: u64,
    pub start: Timestamp,
    pub duration: Duration,
    /// What it was about, when that is not just a text.
    pub about: Option<Value>,
}

impl ConvergeResult {
    pub(crate) fn new(result: Option<bool>, done: ApplyResult) -> Self {
        Self {
            result,
            unknown: false,
            failure_unknown: false,
            done,
            guarded: false,
            unpredicted: Effects::NONE,
            command_may_fail: false,
            touch: None,
            run_numbers: 1,
            start: Timestamp::now(),
            duration: Duration::ZERO,
            about: None,
        }
    }

    pub(crate) fn failed(failure: StateError) -> Self {
        Self::new(Some(false), failure.result)
    }

    /// A state that `global_state_conditions` keeps from running, in Salt's words.
    pub(crate) fn denied() -> Self {
        let comment = "Failed to meet global state conditions. State not called.";
        Self { guarded: true, ..Self::new(None, ApplyResult::new(comment, Map::new())) }
    }

    pub(crate) fn unknown(why: impl std::fmt::Display) -> Self {
        let done = ApplyResult::new(format!("unknown: {why}"), Map::new());
        Self { unknown: true, failure_unknown: true, unpredicted: Effects::ALL, ..Self::new(None, done) }
    }
}

/// A state on its way.
pub(crate) struct StateTask<'p> {
    pub index: usize,
    pub chunk: std::borrow::Cow<'p, Chunk>,
    pub tag: String,
    pub state: Option<Box<dyn State>>,
    /// What was already seen of it.
    pub(crate) check_result: Option<CheckResult>,
    pub mode: ConvergeMode,
    /// Something it watches has changed.
    pub(crate) should_react: ShouldReact,
    /// It is a listener: only its reaction counts.
    pub(crate) is_listener: bool,
    /// `global_state_conditions` keep it from running.
    pub(crate) is_denied: bool,
    /// What it waits for would change the host in a way that a look cannot see.
    pub(crate) prior_effects: PriorEffects,
    /// The states behind that, where there are few.
    pub(crate) causes: Vec<Cause>,
    /// Nobody can tell whether it runs at all.
    pub(crate) uncertain: Option<UncertainRun>,
    pub start: Timestamp,
    pub(crate) started_at: Instant,
}

/// Whether a state has something to react to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShouldReact {
    /// Nothing that it watches changed.
    No,
    /// Nobody can tell.
    Maybe,
    /// Something that it watches changed, or would.
    Yes,
}

/// Why nobody can tell whether a state runs.
#[derive(Clone, Debug)]
pub(crate) struct UncertainRun {
    /// In words: `if …`.
    pub(crate) condition: String,
    /// What decides.
    pub(crate) decided_by: RunDecider,
}

/// What decides whether a state runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunDecider {
    /// A guard: without it the state counts as unchanged.
    Guard,
    /// A requisite: without it the state is skipped.
    Requisite,
    /// A requisite that may fail: the state fails with it.
    Failure,
}

/// What would have happened to the host before a state looks at it in a dry run.
#[derive(Clone, Debug, Default)]
pub(crate) struct PriorEffects {
    /// What nobody can foresee.
    pub(crate) unpredicted: Effects,
    /// What nobody can foresee of that which it comes after and does not wait for by a requisite.
    pub(crate) foundation_effects: Effects,
    /// Something at all.
    pub any: bool,
    /// Who did it.
    pub(crate) causes: CauseSet,
}

impl StateTask<'_> {
    /// Runs it to its end.
    pub(crate) fn run(&mut self, ctx: &StateCtx<'_>) -> ConvergeResult {
        let _names =
            (self.mode == ConvergeMode::Simulate).then(|| AssumedScope::enter(&ctx.shared.assumed_accounts));
        let mut ended = match catch_unwind(AssertUnwindSafe(|| self.run_with_retry(ctx))) {
            Ok(ended) => ended,
            Err(panic) => ConvergeResult::failed(StateError::new(panic_message(&*panic))),
        };
        if self.mode == ConvergeMode::Simulate && (ended.result.is_none() || !ended.unpredicted.is_none()) {
            ended.touch = Some(Touch::new(&self.chunk, self.state.as_deref()));
        }
        ended.about = self.state.as_ref().and_then(|s| s.subject()).or_else(|| self.slot_name(&ended));
        ended.start = self.start;
        ended.duration = self.started_at.elapsed();
        ended
    }

    /// The name that a slot gave; a state that guards keep from running is called by the slot.
    fn slot_name(&self, ended: &ConvergeResult) -> Option<Value> {
        matches!(&self.chunk, std::borrow::Cow::Owned(chunk) if !ended.guarded && !self.is_listener)
            .then(|| self.chunk.name.clone())
    }

    fn run_with_retry(&mut self, ctx: &StateCtx<'_>) -> ConvergeResult {
        let Some(retry) = self.chunk.args.get("retry") else { return self.attempt_and_react(ctx) };
        let retry = StateRetry::from_value(retry);
        if self.mode != ConvergeMode::Apply {
            let mut ended = self.attempt_and_react(ctx);
            if self.mode == ConvergeMode::Simulate {
                let said = std::mem::take(&mut ended.done.comment);
                ended.done.comment = format!("{said}  {}", retry.describe());
            }
            return ended;
        }
        let parallel = self.chunk.args.contains("parallel") && ctx.compat == Compat::Salt;
        retry::run_with_retries(&retry, parallel, ctx.cancel, self.index as u64, || {
            self.attempt_and_react(ctx)
        })
    }

    /// The same scene, with the time that one look, change or guard has.
    fn with_timeout<'s>(&self, ctx: &StateCtx<'s>) -> StateCtx<'s> {
        let timeout = match self.chunk.args.get("timeout") {
            Some(Value::Int(n)) => u64::try_from(*n).ok().map(Duration::from_secs),
            Some(Value::Float(n)) => Duration::try_from_secs_f64(*n).ok(),
            _ => None,
        };
        // Nothing means no limit, as in Salt.
        let timeout = timeout.filter(|t| !t.is_zero());
        StateCtx { deadline: timeout.and_then(|t| Instant::now().checked_add(t)), ..*ctx }
    }

    fn attempt_and_react(&mut self, ctx: &StateCtx<'_>) -> ConvergeResult {
        if self.is_listener && self.is_denied {
            return ConvergeResult::denied();
        }
        if self.is_listener {
            return self.run_reaction(ctx);
        }
        if let Some(uncertain) = self.uncertain.take() {
            return self.predict_uncertain(&uncertain, ctx);
        }
        let own = self.run_guarded(ctx);
        let is_settled = own.guarded || !own.done.changes.is_empty() || self.mode == ConvergeMode::CheckOnly;
        if self.should_react == ShouldReact::No || is_settled {
            return own;
        }
        if self.should_react == ShouldReact::Maybe {
            return self.uncertain_reaction(own, ctx);
        }
        // Strict: what would change by itself needs no reaction, and what nobody can tell stays so.
        if ctx.compat == Compat::Strict && own.result != Some(true) {
            return if own.unknown { self.certain_reaction(own, ctx) } else { own };
        }
        let mut reaction = self.run_reaction(ctx);
        reaction.run_numbers += own.run_numbers;
        reaction
    }

    /// It would react to what nobody can foresee: unknown, unless it changes anyway or has no answer to it.
    fn uncertain_reaction(&mut self, own: ConvergeResult, ctx: &StateCtx<'_>) -> ConvergeResult {
        if own.result != Some(true) || self.run_reaction(ctx).result == Some(true) {
            return own;
        }
        let veil = self.build_state().map_or(Effects::ALL, |state| state.writes());
        let why = format!("would react if {} changes", self.describe_causes());
        ConvergeResult { unpredicted: veil, failure_unknown: false, ..ConvergeResult::unknown(why) }
    }

    /// Whatever it finds by then: what it watches changes, so it either changes too or reacts to that.
    fn certain_reaction(&mut self, own: ConvergeResult, ctx: &StateCtx<'_>) -> ConvergeResult {
        let reaction = self.run_reaction(ctx);
        if reaction.result.is_none() && !reaction.unknown { reaction } else { own }
    }

    /// Guards, the state itself, and `run_check_cmd`.
    fn run_guarded(&mut self, ctx: &StateCtx<'_>) -> ConvergeResult {
        let guards = !guard::owns_guards(&self.chunk.state);
        let mut ended = match if guards {
            guard::evaluate(&self.chunk, &self.with_timeout(ctx))
        } else {
            Ok(GuardDecision::Run)
        } {
            Ok(_) if !self.is_denied && self.is_guard_uncertain() => {
                let condition = format!("its guard says so after {}", self.describe_causes());
                self.predict_uncertain(&UncertainRun { condition, decided_by: RunDecider::Guard }, ctx)
            }
            Ok(GuardDecision::Skip { comment }) => ConvergeResult {
                guarded: true,
                ..ConvergeResult::new(Some(true), skipped_by_guard(comment, ctx.compat))
            },
            Ok(GuardDecision::Run) if self.is_denied => return ConvergeResult::denied(),
            Ok(GuardDecision::Run) => self.check_and_apply(ctx),
            Err(failure) => ConvergeResult::failed(failure),
        };
        if !guard::has_check_cmd(&self.chunk) {
            return ended;
        }
        match self.mode {
            ConvergeMode::Simulate if ctx.compat == Compat::Strict => self.predict_check_cmd(ended, ctx),
            ConvergeMode::CheckOnly if ctx.compat == Compat::Strict => ended,
            _ => {
                (ended.result, ended.done.comment) = match guard::run_check_cmd(&self.chunk, ctx) {
                    Ok(()) => (Some(true), "check_cmd determined the state succeeded".into()),
                    Err(words) => (Some(false), words),
                };
                ended
            }
        }
    }

    fn check_and_apply(&mut self, ctx: &StateCtx<'_>) -> ConvergeResult {
        let ctx = &self.with_timeout(ctx);
        let how = self.mode;
        let sight = match self.build_state().map(|state| (state.reads(), state.lock_keys())) {
            Ok((reads, keys)) => self.sight(reads, &keys),
            Err(failure) => return ConvergeResult::failed(failure),
        };
        let after = self.describe_hidden(&sight);
        let looked = self.check_result.take();
        let state = match self.build_state() {
            Ok(state) => state,
            Err(failure) => return ConvergeResult::failed(failure),
        };
        let look = || if how == ConvergeMode::Apply { state.check(ctx) } else { state.preview(ctx) };
        let look = match looked.map_or_else(look, Ok) {
            Ok(look) => look,
            Err(failure) => {
                let hidden = sight.hidden | sight.below;
                if hidden.is_none() || state.fails_regardless(hidden) {
                    return ConvergeResult::failed(failure);
                }
                return unknown_result(&**state, hidden, &after, &failure.result.comment);
            }
        };
        let (hidden, below) = (sight.hidden, sight.below);
        let comes = !below.is_none() && state.package_may_provide(&look);
        if how == ConvergeMode::Simulate && (comes || !hidden.is_none() && !state.still_valid(&look, hidden))
        {
            // Whichever state brings it: by then it is there.
            if comes && look.verdict == Verdict::Drifted {
                state.simulate(ctx);
            }
            let hidden = hidden | below;
            // A package takes nothing away from those after it; a command may.
            let shaky = hidden.intersects(Effects::FILES);
            let ended = ConvergeResult {
                failure_unknown: shaky,
                ..unknown_result(&**state, hidden, &after, &look.comment)
            };
            return if simulate_settled(&mut **state, hidden, ctx) {
                ConvergeResult { unpredicted: Effects::NONE, ..ended }
            } else {
                ended
            };
        }
        let mut ended = match how {
            _ if look.verdict == Verdict::InSync => {
                return ConvergeResult::new(Some(true), into_apply_result(look));
            }
            ConvergeMode::Apply => apply_and_verify(&mut **state, ctx),
            ConvergeMode::Simulate => {
                let sight = Sight { hidden: hidden | below, ..sight };
                simulate_apply(&mut **state, look, &sight, &after, ctx)
            }
            ConvergeMode::CheckOnly => return result_from_check(look),
        };
        file_details::add(&self.chunk, ctx, &mut ended);
        ended
    }

    fn run_reaction(&mut self, ctx: &StateCtx<'_>) -> ConvergeResult {
        let ctx = &self.with_timeout(ctx);
        let how = self.mode;
        if self.is_listener {
            match guard::evaluate(&self.chunk, ctx) {
                Ok(_) if self.is_guard_uncertain() => {
                    let condition = format!("its guard says so after {}", self.describe_causes());
                    return self
                        .predict_uncertain(&UncertainRun { condition, decided_by: RunDecider::Guard }, ctx);
                }
                Ok(GuardDecision::Skip { comment }) => {
                    return ConvergeResult::new(Some(true), skipped_by_guard(comment, ctx.compat));
                }
                Ok(GuardDecision::Run) => {}
                Err(failure) => return ConvergeResult::failed(failure),
            }
        }
        let sight = match self.build_state().map(|state| (state.reads(), state.lock_keys())) {
            Ok((reads, keys)) => self.sight(reads, &keys),
            Err(failure) => return ConvergeResult::failed(failure),
        };
        let after = self.describe_hidden(&sight);
        let state = match self.build_state() {
            Ok(state) => state,
            Err(failure) => return ConvergeResult::failed(failure),
        };
        if how == ConvergeMode::Apply {
            return match note_irreversible(&**state, ctx).and_then(|()| state.react(ctx)) {
                Ok(done) => ConvergeResult::new(Some(true), done),
                Err(failure) => ConvergeResult::failed(failure),
            };
        }
        match state.predict_reaction(ctx) {
            Ok(look)
                if state.is_predictable()
                    && !sight.hidden.is_none()
                    && !state.still_valid(&look, sight.hidden) =>
            {
                unknown_result(&**state, sight.hidden, &after, &look.comment)
            }
            Ok(look) if how == ConvergeMode::Simulate => {
                simulate_reaction(&mut **state, look, sight.may_follow, ctx)
            }
            Ok(look) => result_from_check(look),
            Err(failure) => ConvergeResult::failed(failure),
        }
    }

    pub(crate) fn build_state(&mut self) -> Result<&mut Box<dyn State>, StateError> {
        if self.state.is_none() {
            check_umask(&self.chunk)?;
            self.state = Some(build(&self.chunk)?);
        }
        self.state.as_mut().ok_or_else(|| StateError::new("there is no state"))
    }
}

/// What a guard leaves of a state: Salt marks it as one that does not react either.
fn skipped_by_guard(comment: String, compat: Compat) -> ApplyResult {
    let done = ApplyResult::new(comment, Map::new());
    if compat == Compat::Salt { done.with_detail(SKIP_WATCH, true) } else { done }
}

/// `umask` of a state, written as octal digits.
pub(crate) fn chunk_umask(chunk: &Chunk) -> Option<u32> {
    let text = name_text(chunk.args.get("umask")?);
    u32::from_str_radix(text.strip_prefix("0o").unwrap_or(&text), 8).ok().filter(|mask| *mask <= 0o777)
}

fn check_umask(chunk: &Chunk) -> Result<(), StateError> {
    match chunk.args.get("umask") {
        Some(mask) if chunk_umask(chunk).is_none() => {
            Err(StateError::new(format!("Invalid umask: {}\n", name_text(mask))))
        }
        _ => Ok(()),
    }
}

/// A state behind a veil: what it may do itself is hidden too, and nothing more.
fn unknown_result(state: &dyn State, hidden: Effects, after: &str, now: &str) -> ConvergeResult {
    let why = format!("{} may be others by then{after}; now: {now}", hidden.describe());
    ConvergeResult { unpredicted: own_effects(state), ..ConvergeResult::unknown(why) }
}

/// What a state may change of which nobody can tell whether it does.
fn own_effects(state: &dyn State) -> Effects {
    if state.is_predictable() { Effects::FILES } else { state.writes() }
}

/// True when what a state leaves does not depend on what it finds; that is imagined then, and nothing is hidden after it.
fn simulate_settled(state: &mut dyn State, hidden: Effects, ctx: &StateCtx<'_>) -> bool {
    state.is_deterministic() && (state.apply(ctx).is_ok() || simulate_assuming(state, hidden, ctx).is_some())
}

/// Changes, and looks whether that was enough.
fn apply_and_verify(state: &mut dyn State, ctx: &StateCtx<'_>) -> ConvergeResult {
    if let Err(failure) = note_irreversible(state, ctx) {
        return ConvergeResult::failed(failure);
    }
    let mut done = match state.apply(ctx) {
        Ok(done) => done,
        Err(failure) => return ConvergeResult::failed(failure),
    };
    // Once the run is stopped nobody may look any more; what was let finish is told as it ended.
    if ctx.compat == Compat::Salt || !state.is_convergent() || ctx.cancel.is_cancelled() {
        return ConvergeResult::new(Some(true), done);
    }
    let still = match state.check(ctx) {
        Ok(look) if look.verdict == Verdict::Drifted => look.comment,
        Ok(_) => return ConvergeResult::new(Some(true), done),
        Err(failure) => failure.result.comment,
    };
    done.comment = format!("{}\nIt was applied, and is still not as it should be: {still}", done.comment);
    ConvergeResult::new(Some(false), done)
}

/// Notes what cannot be undone, before it is done.
fn note_irreversible(state: &dyn State, ctx: &StateCtx<'_>) -> Result<(), StateError> {
    match (state.irreversible_reason(), ctx.journal) {
        (Some(why), Some(journal)) => Ok(journal.note_irreversible(ctx.tag, why)?),
        _ => Ok(()),
    }
}

/// What a look says, with no word about the future.
fn result_from_check(look: CheckResult) -> ConvergeResult {
    let (result, unknown) = match look.verdict {
        Verdict::InSync => (Some(true), false),
        Verdict::Drifted => (None, false),
        Verdict::Unknown(_) => (None, true),
    };
    ConvergeResult { unknown, ..ConvergeResult::new(result, into_apply_result(look)) }
}

/// What a look says; the overlay gets what would be done.
fn simulate_apply(
    state: &mut dyn State,
    look: CheckResult,
    sight: &Sight,
    after: &str,
    ctx: &StateCtx<'_>,
) -> ConvergeResult {
    let mut ended = result_from_check(look);
    // Salt's dry runs know nothing of the states before.
    if ctx.compat == Compat::Salt {
        ended.unpredicted = Effects::ALL;
        return ended;
    }
    ended.unpredicted = state.writes();
    if ended.unknown {
        return ended;
    }
    if !state.is_predictable() {
        if ended.result.is_none() {
            if sight.may_follow
                && let Some(done) = state.simulate_act(ctx)
            {
                ended.unpredicted = Effects::NONE;
                return with_simulated(ended, done);
            }
            ended.command_may_fail = state.runs_command();
            state.simulate(ctx);
        }
        return ended;
    }
    if let Err(failure) = state.apply(ctx) {
        // What it lacks (a user, a directory) may be there by then.
        if !sight.hidden.is_none() {
            return match simulate_assuming(state, sight.hidden, ctx) {
                Some(lacks) => {
                    ended.done.comment = format!("{}\n{lacks}", ended.done.comment);
                    ended
                }
                None => unknown_result(state, sight.hidden, after, &failure.result.comment),
            };
        }
        return with_simulated(ended, Err(failure));
    }
    ended
}

/// What a reaction would do; the overlay gets it where that can be foreseen.
fn simulate_reaction(
    state: &mut dyn State,
    look: CheckResult,
    may_follow: bool,
    ctx: &StateCtx<'_>,
) -> ConvergeResult {
    let mut ended = result_from_check(look);
    if ended.result == Some(true) && ended.done.changes.is_empty() {
        return ended;
    }
    ended.unpredicted = state.writes();
    if ctx.compat == Compat::Salt || ended.unknown {
        return ended;
    }
    if state.is_predictable() {
        let done = state.react(ctx);
        return with_simulated(ended, done);
    }
    match may_follow.then(|| state.simulate_act(ctx)).flatten() {
        Some(done) => {
            ended.unpredicted = Effects::NONE;
            with_simulated(ended, done)
        }
        None => ConvergeResult { command_may_fail: state.runs_command(), ..ended },
    }
}

/// What would be done, unless it fails already in memory.
fn with_simulated(ended: ConvergeResult, done: Result<ApplyResult, StateError>) -> ConvergeResult {
    match done {
        Ok(_) => ended,
        Err(failure) => {
            let comment = format!("It would fail: {}", failure.result.comment);
            let done = ApplyResult { comment, ..failure.result };
            ConvergeResult { unpredicted: ended.unpredicted, ..ConvergeResult::new(Some(false), done) }
        }
    }
}

/// What must come with a package for it to go well, where nothing but packages can bring it; what it makes is imagined then.
fn simulate_assuming(state: &mut dyn State, hidden: Effects, ctx: &StateCtx<'_>) -> Option<String> {
    if hidden.intersects(Effects::FILES) || !hidden.intersects(Effects::PACKAGE_FILES) {
        return None;
    }
    let lacks = state.assume(ctx).ok().filter(|lacks| !lacks.is_empty())?;
    state.apply(ctx).ok()?;
    Some(format!("A package before it is taken to bring {}", lacks.join(" and ")))
}

fn into_apply_result(look: CheckResult) -> ApplyResult {
    ApplyResult { changes: look.changes, comment: look.comment, diff: look.diff, details: look.details }
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".into());
    format!("a fault inside zagent stopped this state: {text}")
}

/// True when an argument asks for more than one look: it takes its own time.
pub(crate) fn is_slow(chunk: &Chunk) -> bool {
    ["retry", "check_cmd"].iter().any(|key| chunk.args.get(key).is_some_and(|v| !matches!(v, Value::Null)))
}

#[cfg(test)]
pub mod tests;
