//! What every state is: it can look at its machine, change it, and answer a watch.
//!
//! Law: `check` looks, `apply` changes, `react` answers a watch; the crate `zagent-run` composes them for real and
//! for dry runs. A state that must answer differently in a dry run asks `StateCtx::is_dry` (held by
//! `each_act_has_its_owners`).

use std::path::PathBuf;

use zagent_compiler::Chunk;
use zagent_config::{FunctionError, Map, Value, error_chain};
use zagent_host::fs::FsError;

use crate::{Effects, StateCtx};

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As they should.
    InSync,
    /// Not as they should: `apply` has something to do.
    Drifted,
    /// Nobody can tell without doing it; the text says why.
    Unknown(String),
}

/// What a look found. Its words and changes are those of a dry run: what would be done.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// How things stand.
    pub verdict: Verdict,
    /// What would change, in Salt's shape; empty when nothing would.
    pub changes: Map,
    /// In words.
    pub comment: String,
    /// The lines that would change, as a unified diff; empty when there are none to show.
    pub diff: String,
    /// What only this module knows: guards, exit code, ….
    pub details: Map,
}

impl CheckResult {
    /// Everything is as it should be.
    pub fn in_sync(comment: impl Into<String>) -> Self {
        let (changes, diff, details) = (Map::new(), String::new(), Map::new());
        Self { verdict: Verdict::InSync, changes, comment: comment.into(), diff, details }
    }

    /// Something would change.
    pub fn drifted(comment: impl Into<String>, changes: Map) -> Self {
        Self { verdict: Verdict::Drifted, changes, ..Self::in_sync(comment) }
    }

    /// Nobody can tell.
    pub fn unknown(why: impl Into<String>) -> Self {
        let why = why.into();
        Self { verdict: Verdict::Unknown(why.clone()), ..Self::in_sync(format!("unknown: {why}")) }
    }

    /// The same with a diff.
    #[must_use]
    pub(crate) fn with_diff(mut self, diff: impl Into<String>) -> Self {
        self.diff = diff.into();
        self
    }

    /// The same with details.
    #[must_use]
    pub(crate) fn with_details(mut self, details: Map) -> Self {
        self.details = details;
        self
    }
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplyResult {
    /// What changed, in Salt's shape.
    pub changes: Map,
    /// In words.
    pub comment: String,
    /// The lines that changed, as a unified diff.
    pub diff: String,
    /// What only this module knows: exit code, bytes, ….
    pub details: Map,
}

impl ApplyResult {
    /// Done, with what changed.
    pub fn new(comment: impl Into<String>, changes: Map) -> Self {
        Self { changes, comment: comment.into(), ..Self::default() }
    }

    /// The same with a diff.
    #[must_use]
    pub(crate) fn with_diff(mut self, diff: impl Into<String>) -> Self {
        self.diff = diff.into();
        self
    }

    /// The same with one more detail.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key, value);
        self
    }
}

/// Why a state failed, and what it had changed by then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateError {
    /// What was done all the same.
    pub result: ApplyResult,
}

impl StateError {
    /// A failure in words.
    pub fn new(comment: impl Into<String>) -> Self {
        Self { result: ApplyResult::new(comment, Map::new()) }
    }
}

impl From<ApplyResult> for StateError {
    fn from(done: ApplyResult) -> Self {
        Self { result: done }
    }
}

impl From<FunctionError> for StateError {
    fn from(refusal: FunctionError) -> Self {
        Self::new(refusal.message())
    }
}

impl From<FsError> for StateError {
    fn from(error: FsError) -> Self {
        Self::new(error_chain(&error))
    }
}

/// What two states must not touch at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKey {
    /// A path, and everything below it.
    Path(PathBuf),
    /// The package database.
    Packages,
    /// Users and groups.
    Users,
    /// The crontabs.
    Crontab,
    /// The service manager.
    Services,
    /// What databases and the like keep.
    Stores,
    /// The rules of the firewall.
    Firewall,
}

/// How long a look may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckCost {
    /// Nothing is looked at: neither a look nor a change needs a thread of its own.
    Instant,
    /// Microseconds: a few system calls. Looked at where it stands, without a thread of its own.
    Light,
    /// It may start a process, sleep or ask the network.
    Heavy,
}

/// One state of a plan.
pub trait State: Send {
    /// Compares the host with what should be; changes nothing.
    ///
    /// # Errors
    /// Fails when it cannot look, or when what is asked for cannot be.
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError>;

    /// Makes it so. Called only after a look that did not find everything right.
    ///
    /// # Errors
    /// Fails with what it had done by then.
    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError>;

    /// What a dry run says. By default what `check` says; another answer has only who makes its own words and results for a
    /// dry run (`test.*`, a stateful command with a `test_name`).
    ///
    /// # Errors
    /// Fails as `check` does.
    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.check(ctx)
    }

    /// What a reaction to a watched change would do (Salt's `mod_watch`). By default what `check` says.
    ///
    /// # Errors
    /// Fails as `check` does.
    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.check(ctx)
    }

    /// Answers a change of what it watches, when it had nothing to do itself. By default it applies once more.
    ///
    /// # Errors
    /// Fails as `apply` does.
    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.apply(ctx)
    }

    /// True when a look after `apply` must find everything right: the state is about how things are, not about an act.
    fn is_convergent(&self) -> bool {
        true
    }

    /// True when what `apply` does can be foreseen in memory: it works through `StateCtx::fs` alone.
    fn is_predictable(&self) -> bool {
        false
    }

    /// What a look depends on; nothing when neither a look nor a change depends on how the host stands. By default
    /// everything, or files and who owns them when it works on files alone.
    fn reads(&self) -> Effects {
        if self.is_predictable() {
            Effects::FILES | Effects::PACKAGE_FILES | Effects::USERS
        } else {
            Effects::ALL
        }
    }

    /// What may be different after it changed something, that a dry run cannot imagine. By default everything, or nothing when
    /// what it does is foreseen.
    fn writes(&self) -> Effects {
        if self.is_predictable() { Effects::NONE } else { Effects::ALL }
    }

    /// True when what a look found holds although some of what it sees may be different by then; `hidden` says what.
    /// By default nothing does, but that a file belongs to users who are there already.
    fn still_valid(&self, checked: &CheckResult, hidden: Effects) -> bool {
        let _ = checked;
        self.is_predictable() && hidden == Effects::USERS
    }

    /// True when the look that just failed would fail although some of what it sees may be different by then; `hidden` says
    /// what. By default no failure is that certain.
    fn fails_regardless(&self, hidden: Effects) -> bool {
        let _ = hidden;
        false
    }

    /// True when what it lacks may come along with a package: a directory, a unit, a user. Then it cannot be told what it
    /// would do while a package would come before it, whether it waits for that package by a requisite or not.
    fn package_may_provide(&self, checked: &CheckResult) -> bool {
        let _ = checked;
        false
    }

    /// True when it works on files alone and what it leaves does not depend on what it finds.
    fn is_deterministic(&self) -> bool {
        false
    }

    /// Lets packages that a dry run foresees have brought what `apply` lacks (a directory, an owner), and says what that is;
    /// nothing when it lacks nothing of the kind.
    ///
    /// # Errors
    /// Fails when it cannot be imagined.
    fn assume(&self, ctx: &StateCtx<'_>) -> Result<Vec<String>, StateError> {
        let _ = ctx;
        Ok(Vec::new())
    }

    /// Tells the states after it in a dry run what they may count on, where that cannot be put into files.
    fn simulate(&self, ctx: &StateCtx<'_>) {
        let _ = ctx;
    }

    /// Does to the files of a dry run what `apply` would do, where that can be foreseen although `apply` starts programs; nothing
    /// where it cannot.
    fn simulate_act(&mut self, ctx: &StateCtx<'_>) -> Option<Result<ApplyResult, StateError>> {
        let _ = ctx;
        None
    }

    /// True when it runs a command of the user, which may fail for reasons that nobody here knows.
    fn runs_command(&self) -> bool {
        false
    }

    /// True when one act may serve several states of this function.
    fn can_batch(&self) -> bool {
        false
    }

    /// Other states of the same function that are ready to run, with nothing between them and this one. A state that can
    /// do all of them in one act (packages in one transaction) takes note of them here; they still run after it, one by one.
    fn batch_with(&mut self, others: &[&Chunk]) {
        let _ = others;
    }

    /// What it is about, when that is not its name.
    fn subject(&self) -> Option<Value> {
        None
    }

    /// Why what it does cannot be undone, for states that are acts; noted before it is done.
    fn irreversible_reason(&self) -> Option<&'static str> {
        None
    }

    /// How long a look may take.
    fn check_cost(&self) -> CheckCost {
        CheckCost::Heavy
    }

    /// What nobody else may touch meanwhile.
    fn lock_keys(&self) -> Vec<LockKey> {
        Vec::new()
    }
}

/// A state, or why there is none.
pub(crate) type BuildResult = Result<Box<dyn State>, StateError>;
