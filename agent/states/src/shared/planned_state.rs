//! A planner in, a state out: the planner inspects the host and says what is to be done, and the one state here does it.
//!
//! Law: what was there before is noted before it changes, so that a revert takes away only what was new (held by
//! `a_thing_is_put_back_unless_somebody_else_changed_it`).

use zagent_config::{Map, Value};

use crate::{ApplyResult, BuildResult, CheckResult, Effects, LockKey, State, StateCtx, StateError, Undoable};

/// What a planner found out.
pub(crate) enum StatePlan {
    /// Nothing is to be done; the comment says so.
    InSync(String),
    /// Something is.
    Change(PlannedChange),
}

/// Does what is to be done.
pub(crate) type ChangeFn = Box<dyn Fn(&StateCtx<'_>) -> Result<(), StateError>>;

/// What is to be done.
pub(crate) struct PlannedChange {
    /// What a dry run says.
    pub(crate) preview_comment: String,
    /// What is said after it.
    pub(crate) done_comment: String,
    /// What is said before the reason when it failed; when empty, the reason stands alone.
    pub(crate) failure_prefix: String,
    pub(crate) changes: Map,
    /// What it changes, for a revert.
    pub(crate) undoable: Option<(&'static dyn Undoable, Value)>,
    pub(crate) run_change: ChangeFn,
}

impl PlannedChange {
    fn into_error(prefix: &str, failure: StateError) -> StateError {
        if prefix.is_empty() {
            return failure;
        }
        StateError::new(format!("{prefix}: {}", failure.result.comment))
    }
}

/// A state function that plans: it inspects the host, and knows what the runner has to know.
pub(crate) trait Planner: Send {
    /// Inspects the host and says what is to be done.
    ///
    /// # Errors
    /// Fails when the host cannot be inspected, or when what is asked for cannot be.
    fn plan(&self, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError>;

    /// Runs a change with notes for a revert around it.
    ///
    /// # Errors
    /// Fails as the change does, and when it cannot be noted.
    fn run_with_undo(
        &self,
        (undoable, key): (&'static dyn Undoable, Value),
        ctx: &StateCtx<'_>,
        change: &ChangeFn,
    ) -> Result<(), StateError> {
        ctx.with_undo(undoable, key, || change(ctx))
    }

    /// Sets the arguments for a reaction to a watched change.
    fn begin_reaction(&mut self) {}

    /// Resets the arguments after a reaction.
    fn end_reaction(&mut self) {}

    /// True when a check after the change must find nothing to do.
    fn is_convergent(&self) -> bool;

    /// What a check depends on.
    fn reads(&self) -> Effects;

    /// What may be different after a change.
    fn writes(&self) -> Effects;

    /// What no other state may touch meanwhile.
    fn lock_keys(&self) -> Vec<LockKey>;

    /// Why a change cannot be undone.
    fn irreversible_reason(&self) -> Option<&'static str>;
}

/// Makes the state of a planner.
#[expect(clippy::unnecessary_wraps, reason = "it is what the build functions of modules return")]
pub(crate) fn build(planner: impl Planner + 'static) -> BuildResult {
    Ok(Box::new(PlannedState(planner)))
}

struct PlannedState<P>(P);

impl<P: Planner> State for PlannedState<P> {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(match self.0.plan(ctx)? {
            StatePlan::InSync(comment) => CheckResult::in_sync(comment),
            StatePlan::Change(change) => CheckResult::drifted(change.preview_comment, change.changes),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let planned = match self.0.plan(ctx)? {
            StatePlan::InSync(comment) => return Ok(ApplyResult::new(comment, Map::new())),
            StatePlan::Change(planned) => planned,
        };
        let result = match planned.undoable {
            Some(target) => self.0.run_with_undo(target, ctx, &planned.run_change),
            None => (planned.run_change)(ctx),
        };
        result.map_err(|failure| PlannedChange::into_error(&planned.failure_prefix, failure))?;
        Ok(ApplyResult::new(planned.done_comment, planned.changes))
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.0.begin_reaction();
        self.check(ctx)
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.0.begin_reaction();
        let result = self.apply(ctx);
        self.0.end_reaction();
        result
    }

    fn is_convergent(&self) -> bool {
        self.0.is_convergent()
    }

    fn reads(&self) -> Effects {
        self.0.reads()
    }

    fn writes(&self) -> Effects {
        self.0.writes()
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        self.0.irreversible_reason()
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        self.0.lock_keys()
    }
}

/// One change, in Salt's shape.
pub(crate) fn single_change(name: &str, what: impl Into<Value>) -> Map {
    Map::from_iter([(name, what.into())])
}

/// Words of a command as owned text.
pub(crate) fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
