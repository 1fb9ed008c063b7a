//! A chunk of a plan in, something that can look at the host and change it out; one file a module.
//!
//! Law: a state holds no dry-run code. `check` looks, `apply` changes, `react` answers a watch; [`crate::run`] composes them,
//! once for all. Files are touched through `Scene::fs` only, which notes every change for undo before it is made.

mod accounts;
mod args;
mod cmd;
mod command;
mod environ;
mod exec;
mod external;
mod fetch;
mod file;
mod firewall;
pub(crate) mod imagined;
mod module;
pub(crate) mod packages;
mod pkg;
mod services;
#[cfg(test)]
pub(crate) mod stage;
mod stores;
mod test;
mod thing;
mod veil;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use zagent_compiler::functions::Refusal;
use zagent_compiler::{Chunk, Compat, Files, Host, Plan};
use zagent_config::{Map, Value};

pub use args::Args;
pub use external::{Memo as ExternalMemo, revert as revert_external};
pub use thing::{PutBack, Returns, Thing, ThingNote};
use thing::{key_parts, keyed};
pub use veil::Veil;

use crate::fs::{FileSystem, FsError};
use crate::host::{Cancel, Machine, Tools};
use crate::report::chain;
use crate::undo::Journal;

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As they should.
    Right,
    /// Not as they should: `apply` has something to do.
    Drift,
    /// Nobody can tell without doing it; the text says why.
    Unknown(String),
}

/// What a look found. Its words and changes are those of a dry run: what would be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// How things stand.
    pub standing: Standing,
    /// What would change, in Salt's shape; empty when nothing would.
    pub changes: Map,
    /// In words.
    pub comment: String,
    /// The lines that would change, as a unified diff; empty when there are none to show.
    pub diff: String,
}

impl Look {
    /// Everything is as it should be.
    pub fn right(comment: impl Into<String>) -> Self {
        let (changes, diff) = (Map::new(), String::new());
        Self { standing: Standing::Right, changes, comment: comment.into(), diff }
    }

    /// Something would change.
    pub fn drift(comment: impl Into<String>, changes: Map) -> Self {
        Self { standing: Standing::Drift, changes, comment: comment.into(), diff: String::new() }
    }

    /// Nobody can tell.
    pub fn unknown(why: impl Into<String>) -> Self {
        let why = why.into();
        Self { standing: Standing::Unknown(why.clone()), ..Self::right(format!("unknown: {why}")) }
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
pub struct Done {
    /// What changed, in Salt's shape.
    pub changes: Map,
    /// In words.
    pub comment: String,
    /// The lines that changed, as a unified diff.
    pub diff: String,
    /// What only this module knows: exit code, bytes, ….
    pub details: Map,
}

impl Done {
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
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key, value);
        self
    }
}

/// Why a state failed, and what it had changed by then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    /// What was done all the same.
    pub done: Done,
}

impl Failure {
    /// A failure in words.
    pub fn new(comment: impl Into<String>) -> Self {
        Self { done: Done::new(comment, Map::new()) }
    }
}

impl From<Done> for Failure {
    fn from(done: Done) -> Self {
        Self { done }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.words())
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self::new(chain(&error))
    }
}

/// What two states must not touch at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
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
pub enum Cost {
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
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure>;

    /// Makes it so. Called only after a look that did not find everything right.
    ///
    /// # Errors
    /// Fails with what it had done by then.
    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure>;

    /// What a dry run says. By default what `check` says; another answer has only who makes its own words and results for a
    /// dry run (`test.*`, a stateful command with a `test_name`).
    ///
    /// # Errors
    /// Fails as `check` does.
    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.check(scene)
    }

    /// What a reaction to a watched change would do (Salt's `mod_watch`). By default what `check` says.
    ///
    /// # Errors
    /// Fails as `check` does.
    fn foresee(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.check(scene)
    }

    /// Answers a change of what it watches, when it had nothing to do itself. By default it applies once more.
    ///
    /// # Errors
    /// Fails as `apply` does.
    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.apply(scene)
    }

    /// True when a look after `apply` must find everything right: the state is about how things are, not about an act.
    fn is_lasting(&self) -> bool {
        true
    }

    /// True when what `apply` does can be foreseen in memory: it works through `Scene::fs` alone.
    fn is_foreseeable(&self) -> bool {
        false
    }

    /// What a look depends on; nothing when neither a look nor a change depends on how the host stands. By default
    /// everything, or files and who owns them when it works on files alone.
    fn sees(&self) -> Veil {
        if self.is_foreseeable() { Veil::FILES | Veil::BROUGHT | Veil::USERS } else { Veil::ALL }
    }

    /// What may be different after it changed something, that a dry run cannot imagine. By default everything, or nothing when
    /// what it does is foreseen.
    fn veils(&self) -> Veil {
        if self.is_foreseeable() { Veil::NONE } else { Veil::ALL }
    }

    /// True when what a look found holds although some of what it sees may be different by then; `hidden` says what.
    /// By default nothing does, but that a file belongs to users who are there already.
    fn holds(&self, look: &Look, hidden: Veil) -> bool {
        let _ = look;
        self.is_foreseeable() && hidden == Veil::USERS
    }

    /// True when the look that just failed would fail although some of what it sees may be different by then; `hidden` says
    /// what. By default no failure is that certain.
    fn is_lost(&self, hidden: Veil) -> bool {
        let _ = hidden;
        false
    }

    /// True when what it lacks may come along with a package: a directory, a unit, a user. Then it cannot be told what it
    /// would do while a package would come before it, whether it waits for that package by a requisite or not.
    fn may_come(&self, look: &Look) -> bool {
        let _ = look;
        false
    }

    /// True when it works on files alone and what it leaves does not depend on what it finds.
    fn settles(&self) -> bool {
        false
    }

    /// Lets packages that a dry run foresees have brought what `apply` lacks (a directory, an owner), and says what that is;
    /// nothing when it lacks nothing of the kind.
    ///
    /// # Errors
    /// Fails when it cannot be imagined.
    fn suppose(&self, scene: &Scene<'_>) -> Result<Vec<String>, Failure> {
        let _ = scene;
        Ok(Vec::new())
    }

    /// Tells the states after it in a dry run what they may count on, where that cannot be put into files.
    fn imagine(&self, scene: &Scene<'_>) {
        let _ = scene;
    }

    /// True when one act may serve several states of this function.
    fn joins(&self) -> bool {
        false
    }

    /// Other states of the same function that are ready to run, with nothing between them and this one. Whoever can do all of
    /// them in one act (packages in one transaction) takes note of them here; they still run, each for itself, after it.
    fn join(&mut self, others: &[&Chunk]) {
        let _ = others;
    }

    /// What it is about, when that is not its name.
    fn about(&self) -> Option<Value> {
        None
    }

    /// Why what it does cannot be undone, for states that are acts; noted before it is done.
    fn irreversible(&self) -> Option<&'static str> {
        None
    }

    /// How long a look may take.
    fn cost(&self) -> Cost {
        Cost::Heavy
    }

    /// What nobody else may touch meanwhile.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }
}

/// Renders the template of a file.
pub trait Render {
    /// The text that a template gives.
    ///
    /// # Errors
    /// Fails with words when it does not render.
    fn render(&self, template: &Template) -> Result<String, String>;
}

/// A template of a managed file.
#[derive(Clone, Debug)]
pub struct Template {
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
pub struct Shared {
    /// Texts of `file.accumulated`: by file, then by the accumulator's name.
    pub accumulated: Mutex<BTreeMap<PathBuf, BTreeMap<String, Vec<String>>>>,
    /// What a state watches and has changed (or would), as `module: id`, by the tag of the state that watches. Noted before
    /// that state is looked at.
    pub fired: Mutex<BTreeMap<String, Vec<String>>>,
    /// Users and groups that would be there by now; only a dry run has any.
    pub names: Arc<imagined::Names>,
    /// Directories that a dry run takes for brought by a package; nobody knows more of them.
    pub supposed: Mutex<BTreeSet<PathBuf>>,
    /// Variables that `environ.setenv` gave to all commands after it; nothing stands for a variable that is taken away.
    pub environment: Mutex<BTreeMap<String, Option<String>>>,
    /// The repositories are others than when the list of packages was last fetched.
    pub packages_stale: AtomicBool,
    /// Which packages there are, and what was brought for whom.
    pub packages: pkg::Memo,
}

impl Shared {
    /// What a state watches and has changed.
    #[must_use]
    pub fn fired(&self, tag: &str) -> Vec<String> {
        let fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
        fired.get(tag).cloned().unwrap_or_default()
    }

    /// True when a dry run only takes it for brought by a package.
    #[must_use]
    pub fn is_supposed(&self, dir: &std::path::Path) -> bool {
        self.supposed.lock().unwrap_or_else(PoisonError::into_inner).contains(dir)
    }
}

/// What a state may use.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The state's tag.
    pub tag: &'a str,
    /// Where undo notes go that are not about files; nowhere in a dry run.
    pub journal: Option<&'a Journal>,
    /// The files of the host.
    pub fs: &'a dyn FileSystem,
    /// The state trees, for `salt://`.
    pub files: &'a dyn Files,
    /// Execution functions and facts.
    pub host: &'a dyn Host,
    /// Renders templates.
    pub templates: &'a dyn Render,
    /// The pillar.
    pub pillar: &'a Value,
    /// The whole plan, for states that look at their neighbours.
    pub plan: &'a Plan,
    /// Whose verdicts count.
    pub compat: Compat,
    /// Says when to stop.
    pub cancel: &'a Arc<Cancel>,
    /// When this state must have ended.
    pub deadline: Option<Instant>,
    /// What the states of this run tell each other.
    pub shared: &'a Shared,
    /// Where downloads and `salt://` files are kept (`file.cached`).
    pub cache: &'a std::path::Path,
    /// Where new ones are put: the same place, or in a dry run one that is gone after it.
    pub spare: &'a std::path::Path,
}

impl Scene<'_> {
    /// The programs of the host.
    #[must_use]
    pub fn tools(&self) -> Tools<'_> {
        static HOST: LazyLock<Machine> = LazyLock::new(Machine::new);
        Tools::new(&HOST).within(self.cancel, self.deadline)
    }

    /// True in a dry run: what would be done is only imagined. For what is worth foreseeing in [`Shared`]; a state holds no
    /// other code for dry runs.
    #[must_use]
    pub const fn is_dry(&self) -> bool {
        self.journal.is_none()
    }
}

/// A state, or why there is none.
pub type Built = Result<Box<dyn State>, Failure>;

/// Makes the state that a chunk asks for.
///
/// # Errors
/// Fails with Salt's words when there is no such function, and when its arguments cannot be understood.
pub fn build(chunk: &Chunk) -> Built {
    if !matches!(chunk.name, Value::Str(_)) && chunk.name.is_truthy() {
        return Err(Failure::new(format!(
            "ID '{}' in SLS '{}' is not formed as a string, but is a {}\n",
            zagent_compiler::yaml::python_str(&chunk.name),
            chunk.sls,
            python_kind(&chunk.name)
        )));
    }
    own(chunk).unwrap_or_else(|| Ok(external::build(chunk)))
}

/// Makes the state of a module of our own; nothing when there is no such function, which may then be one of the tree's.
pub fn own(chunk: &Chunk) -> Option<Built> {
    let args = Args::new(chunk);
    let fun = &*chunk.fun;
    match &*chunk.state {
        "cmd" => cmd::build(fun, &args),
        "environ" => environ::build(fun, &args),
        "exec" => exec::build(fun, &args),
        "file" => file::build(fun, &args),
        "module" => module::build(fun, &args),
        "test" => test::build(fun, &args),
        state => GROUPS.iter().find_map(|build| build(state, fun, &args)),
    }
}

/// Makes the state of a module and a function; nothing when they are somebody else's.
type Build = fn(&str, &str, &Args<'_>) -> Option<Built>;

/// The modules by what they are about; each knows its own.
const GROUPS: [Build; 7] = [
    pkg::build,
    services::build,
    packages::build,
    accounts::build,
    fetch::build,
    firewall::build,
    stores::build,
];

/// All kinds of things that a revert can put back.
fn things() -> impl Iterator<Item = &'static dyn Thing> {
    [
        pkg::THINGS,
        services::THINGS,
        packages::THINGS,
        accounts::THINGS,
        fetch::THINGS,
        firewall::THINGS,
        stores::THINGS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

fn unavailable(chunk: &Chunk) -> Failure {
    let Chunk { state, fun, sls, .. } = chunk;
    Failure::new(format!(
        "State '{state}.{fun}' was not found in SLS '{sls}'\nReason: '{state}.{fun}' is not available.\n"
    ))
}

/// What Python calls the type of a value.
const fn python_kind(value: &Value) -> &'static str {
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
