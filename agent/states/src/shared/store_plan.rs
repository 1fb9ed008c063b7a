//! A state function of a database, container engine or volume manager in, a planned state out.

use zagent_config::{Map, Value};

use super::planned_state::{self, ChangeFn, Planner, StatePlan};
use super::store_undo::{ServerLogin, UnlockedUndo, mark_needs_password};
use crate::named_args::NamedArgs;
use crate::{BuildResult, ChunkArgs, Effects, LockKey, StateCtx, StateError, Undoable};

/// Inspects the host, and says what is to be done.
pub(crate) type StorePlanner = fn(&NamedArgs<'_>, &StateCtx<'_>) -> Result<StatePlan, StateError>;

/// When a function is an act, which runs whatever a check would find.
#[derive(Clone, Copy)]
pub(crate) enum RunsAlways {
    Never,
    Always,
    /// With `force: true`.
    WhenForced,
}

/// How the arguments of a state change while it reacts to a watched change.
#[derive(Clone, Copy)]
pub(crate) struct ReactionArgs {
    pub(crate) set: fn(&mut Map),
    pub(crate) reset: fn(&mut Map),
}

/// A state function: its planner, and what the runner has to know about it.
#[derive(Clone, Copy)]
pub(crate) struct StoreFunction {
    name: &'static str,
    planner: StorePlanner,
    irreversible: Option<&'static str>,
    runs_always: RunsAlways,
    reaction: Option<ReactionArgs>,
}

impl StoreFunction {
    /// A function that is about how things are, and can be undone.
    pub(crate) const fn new(name: &'static str, planner: StorePlanner) -> Self {
        Self { name, planner, irreversible: None, runs_always: RunsAlways::Never, reaction: None }
    }

    /// The same; says why it cannot be undone.
    pub(crate) const fn irreversible(mut self, reason: &'static str) -> Self {
        self.irreversible = Some(reason);
        self
    }

    /// The same; says when it is an act.
    pub(crate) const fn runs(mut self, runs_always: RunsAlways) -> Self {
        self.runs_always = runs_always;
        self
    }

    /// The same; says how it reacts to a watched change.
    pub(crate) const fn reacts(mut self, reaction: ReactionArgs) -> Self {
        self.reaction = Some(reaction);
        self
    }
}

/// The state functions of a module, and what they have in common.
pub(crate) struct StoreModule {
    pub(crate) functions: &'static [StoreFunction],
    /// How its server is reached; nothing when there is none.
    pub(crate) login: Option<&'static ServerLogin>,
    pub(crate) reads: Effects,
    pub(crate) writes: Effects,
}

/// What a check of a server or an engine depends on.
const STORE_READS: Effects = Effects::STORES.union(Effects::USERS).union(Effects::SERVICES);

impl StoreModule {
    /// A module of a server or an engine.
    pub(crate) const fn new(
        functions: &'static [StoreFunction],
        login: Option<&'static ServerLogin>,
    ) -> Self {
        Self { functions, login, reads: STORE_READS, writes: Effects::STORES }
    }

    /// Makes the state of a function; nothing when there is no such function.
    pub(crate) fn build(&'static self, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
        let function = *self.functions.iter().find(|function| function.name == fun)?;
        let mut all = args.chunk.args.clone();
        all.insert("name", args.name());
        let runs_always = match function.runs_always {
            RunsAlways::Never => false,
            RunsAlways::Always => true,
            RunsAlways::WhenForced => args.flag("force", false),
        };
        Some(planned_state::build(StoreState { module: self, function, args: all, runs_always }))
    }
}

struct StoreState {
    module: &'static StoreModule,
    function: StoreFunction,
    args: Map,
    runs_always: bool,
}

impl StoreState {
    fn find_arg<'a>(&'a self, key: &str, ctx: &'a StateCtx<'_>) -> Option<&'a Value> {
        let default = || self.module.login?.default_arg(&self.args, key, ctx.pillar);
        self.args.get(key).or_else(default)
    }

    /// The server and the password that a check needs and that no journal may hold.
    fn password(&self, ctx: &StateCtx<'_>) -> Option<(&'static ServerLogin, Value)> {
        let login = self.module.login?;
        let password = self.find_arg(login.password_arg, ctx).filter(|v| v.is_truthy())?;
        Some((login, password.clone()))
    }
}

impl Planner for StoreState {
    fn plan(&self, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
        (self.function.planner)(&NamedArgs::new(&|key| self.find_arg(key, ctx)), ctx)
    }

    fn run_with_undo(
        &self,
        (undoable, key): (&'static dyn Undoable, Value),
        ctx: &StateCtx<'_>,
        change: &ChangeFn,
    ) -> Result<(), StateError> {
        match self.password(ctx) {
            Some((login, password)) => {
                ctx.with_undo(&UnlockedUndo { undoable, login, password }, mark_needs_password(&key), || {
                    change(ctx)
                })
            }
            None => ctx.with_undo(undoable, key, || change(ctx)),
        }
    }

    fn begin_reaction(&mut self) {
        if let Some(reaction) = self.function.reaction {
            (reaction.set)(&mut self.args);
        }
    }

    fn end_reaction(&mut self) {
        if let Some(reaction) = self.function.reaction {
            (reaction.reset)(&mut self.args);
        }
    }

    fn is_convergent(&self) -> bool {
        !self.runs_always
    }

    fn reads(&self) -> Effects {
        self.module.reads
    }

    fn writes(&self) -> Effects {
        self.module.writes
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Stores]
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        self.function.irreversible
    }
}
