//! A chunk of a plan in, something that can look at the host and change it out; one file a module.
//!
//! Law: a state holds no dry-run code. `check` looks, `apply` changes, `react` answers a watch; [`zagent_run`] composes them,
//! once for all. Files are touched through `StateCtx::fs` only, which notes every change for undo before it is made.

pub mod acl;
pub mod alternatives;
pub mod archive;
pub mod at;
pub mod cron;
pub mod databases;
pub mod debconf;
pub mod docker_container;
pub mod event;
pub mod file_tree;
pub mod firewalld;
pub mod functions;
pub mod gem;
pub mod git;
pub mod grains;
pub mod group;
pub mod groups;
pub mod host;
pub mod http;
pub mod ini;
pub mod iptables;
pub mod kmod;
pub mod locale;
pub mod logrotate;
pub mod lvm;
pub mod mount;
pub mod named_args;
pub mod network;
pub mod nftables;
pub mod npm;
pub mod pdbedit;
pub mod pip;
pub mod pkgrepo;
pub mod schedule;
pub mod selinux;
pub mod service;
pub mod shared;
pub mod ssh_auth;
pub mod sysctl;
pub mod system;
pub mod template_host;
pub mod timezone;
pub mod user;
pub mod x509;

pub mod args;
pub mod assumed_accounts;
pub mod cmd;
pub mod command;
pub mod effects;
pub mod environ;
pub mod exec;
pub mod external;
pub mod file;
pub mod module;
pub mod pkg;
pub mod test;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod undoable;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use zagent_compiler::{Chunk, Compat, FileTree, Plan, TemplateHost};
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

pub use args::ChunkArgs;
pub use effects::Effects;
pub use external::{ExternalUndoNote, revert as revert_external};
pub use undoable::{RestoreOutcome, UndoNote, UndoReplay, Undoable};
use undoable::{key_with_provider, split_key};

use zagent_config::error_chain;
use zagent_host::fs::{FileSystem, FsError};
use zagent_host::undo::UndoJournal;
use zagent_host::{CancelToken, Machine, Tools};

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
}

impl CheckResult {
    /// Everything is as it should be.
    pub fn in_sync(comment: impl Into<String>) -> Self {
        let (changes, diff) = (Map::new(), String::new());
        Self { verdict: Verdict::InSync, changes, comment: comment.into(), diff }
    }

    /// Something would change.
    pub fn drifted(comment: impl Into<String>, changes: Map) -> Self {
        Self { verdict: Verdict::Drifted, changes, comment: comment.into(), diff: String::new() }
    }

    /// Nobody can tell.
    pub fn unknown(why: impl Into<String>) -> Self {
        let why = why.into();
        Self { verdict: Verdict::Unknown(why.clone()), ..Self::in_sync(format!("unknown: {why}")) }
    }

    /// The same with a diff.
    #[must_use]
    pub fn with_diff(mut self, diff: impl Into<String>) -> Self {
        self.diff = diff.into();
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
    pub fn with_diff(mut self, diff: impl Into<String>) -> Self {
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

    /// True when one act may serve several states of this function.
    fn can_batch(&self) -> bool {
        false
    }

    /// Other states of the same function that are ready to run, with nothing between them and this one. Whoever can do all of
    /// them in one act (packages in one transaction) takes note of them here; they still run, each for itself, after it.
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

/// Renders the template of a file.
pub trait RenderTemplate {
    /// The text that a template gives.
    ///
    /// # Errors
    /// Fails with words when it does not render.
    fn render(&self, template: &FileTemplate) -> Result<String, String>;
}

/// A template of a managed file.
#[derive(Clone, Debug)]
pub struct FileTemplate {
    /// Its environment.
    pub env: String,
    /// Its path in the tree, or on the host.
    pub path: String,
    /// Its text.
    pub source: String,
    /// `defaults` and `context` of the state, merged.
    pub variables: Map,
}

/// What states of one run tell each other.
#[derive(Debug, Default)]
pub struct RunShared {
    /// Texts of `file.accumulated`: by file, then by the accumulator's name.
    pub accumulated: Mutex<BTreeMap<PathBuf, BTreeMap<String, Vec<String>>>>,
    /// What a state watches and has changed (or would), as `module: id`, by the tag of the state that watches. Noted before
    /// that state is looked at.
    pub watched_changes: Mutex<BTreeMap<String, Vec<String>>>,
    /// Users and groups that would be there by now; only a dry run has any.
    pub assumed_accounts: Arc<assumed_accounts::AssumedAccounts>,
    /// Directories that a dry run takes for brought by a package; nobody knows more of them.
    pub assumed_dirs: Mutex<BTreeSet<PathBuf>>,
    /// Variables that `environ.setenv` gave to all commands after it; nothing stands for a variable that is taken away.
    pub environment: Mutex<BTreeMap<String, Option<String>>>,
    /// The repositories are others than when the list of packages was last fetched.
    pub packages_stale: AtomicBool,
    /// Which packages there are, and what was brought for whom.
    pub packages: pkg::PkgRunCache,
}

impl RunShared {
    /// What a state watches and has changed.
    #[must_use]
    pub fn watched_changes(&self, tag: &str) -> Vec<String> {
        let fired = self.watched_changes.lock().unwrap_or_else(PoisonError::into_inner);
        fired.get(tag).cloned().unwrap_or_default()
    }

    /// True when a dry run only takes it for brought by a package.
    #[must_use]
    pub fn is_assumed_dir(&self, dir: &std::path::Path) -> bool {
        self.assumed_dirs.lock().unwrap_or_else(PoisonError::into_inner).contains(dir)
    }
}

/// What a state may use.
#[derive(Clone, Copy)]
pub struct StateCtx<'a> {
    /// The state's tag.
    pub tag: &'a str,
    /// Where undo notes go that are not about files; nowhere in a dry run.
    pub journal: Option<&'a UndoJournal>,
    /// The files of the host.
    pub fs: &'a dyn FileSystem,
    /// The state trees, for `salt://`.
    pub files: &'a dyn FileTree,
    /// Execution functions and facts.
    pub host: &'a dyn TemplateHost,
    /// Renders templates.
    pub templates: &'a dyn RenderTemplate,
    /// The pillar.
    pub pillar: &'a Value,
    /// The whole plan, for states that look at their neighbours.
    pub plan: &'a Plan,
    /// Whose verdicts count.
    pub compat: Compat,
    /// Says when to stop.
    pub cancel: &'a Arc<CancelToken>,
    /// When this state must have ended.
    pub deadline: Option<Instant>,
    /// What the states of this run tell each other.
    pub shared: &'a RunShared,
    /// Where downloads and `salt://` files are kept (`file.cached`).
    pub cache_dir: &'a std::path::Path,
    /// Where new ones are put: the same place, or in a dry run one that is gone after it.
    pub staging_dir: &'a std::path::Path,
}

impl StateCtx<'_> {
    /// The programs of the host.
    #[must_use]
    pub fn tools(&self) -> Tools<'_> {
        static HOST: LazyLock<Machine> = LazyLock::new(Machine::new);
        Tools::new(&HOST).with_limits(self.cancel, self.deadline)
    }

    /// True in a dry run: what would be done is only imagined. For what is worth foreseeing in [`RunShared`]; a state holds no
    /// other code for dry runs.
    #[must_use]
    pub const fn is_dry(&self) -> bool {
        self.journal.is_none()
    }
}

/// A state, or why there is none.
pub type BuildResult = Result<Box<dyn State>, StateError>;

/// Makes the state that a chunk asks for.
///
/// # Errors
/// Fails with Salt's words when there is no such function, and when its arguments cannot be understood.
pub fn build(chunk: &Chunk) -> BuildResult {
    if !matches!(chunk.name, Value::Str(_)) && chunk.name.is_truthy() {
        return Err(StateError::new(format!(
            "ID '{}' in SLS '{}' is not formed as a string, but is a {}\n",
            zagent_config::value::python_str(&chunk.name),
            chunk.sls,
            python_type(&chunk.name)
        )));
    }
    build_builtin(chunk).unwrap_or_else(|| Ok(external::build(chunk)))
}

/// Makes the state of a module of our own; nothing when there is no such function, which may then be one of the tree's.
pub fn build_builtin(chunk: &Chunk) -> Option<BuildResult> {
    let args = ChunkArgs::new(chunk);
    let fun = &*chunk.fun;
    match &*chunk.state {
        "cmd" => cmd::build(fun, &args),
        "environ" => environ::build(fun, &args),
        "exec" => exec::build(fun, &args),
        "file" => file::build(fun, &args),
        "module" => module::build(fun, &args),
        "test" => test::build(fun, &args),
        state => BUILDERS.iter().find_map(|build| build(state, fun, &args)),
    }
}

/// Makes the state of a module and a function; nothing when they are somebody else's.
type BuildFn = fn(&str, &str, &ChunkArgs<'_>) -> Option<BuildResult>;

/// The modules by what they are about; each knows its own.
const BUILDERS: [BuildFn; 7] = [
    pkg::build,
    crate::groups::services::build,
    crate::groups::packages::build,
    crate::groups::accounts::build,
    crate::groups::fetch::build,
    crate::groups::firewall::build,
    crate::groups::stores::build,
];

/// All kinds of things that a revert can put back.
fn undoables() -> impl Iterator<Item = &'static dyn Undoable> {
    [
        pkg::UNDOABLES,
        crate::groups::services::UNDOABLES,
        crate::groups::packages::UNDOABLES,
        crate::groups::accounts::UNDOABLES,
        crate::groups::fetch::UNDOABLES,
        crate::groups::firewall::UNDOABLES,
        crate::groups::stores::UNDOABLES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

fn unavailable_error(chunk: &Chunk) -> StateError {
    let Chunk { state, fun, sls, .. } = chunk;
    StateError::new(format!(
        "State '{state}.{fun}' was not found in SLS '{sls}'\nReason: '{state}.{fun}' is not available.\n"
    ))
}

/// What Python calls the type of a value.
const fn python_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Big(_) => "int",
        Value::Float(_) => "float",
        Value::Str(_) => "str",
        Value::List(_) => "list",
        Value::Map(_) => "dict",
    }
}
