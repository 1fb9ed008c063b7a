//! What a state may use: its machine, the files of the tree, the pillar, and what the states of one run tell each other.
//!
//! Law: a state changes its machine through its context; what it reads beside that (clock, environment) is named by
//! an expectation in its module (held by `clippy.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use zagent_compiler::{Compat, FileTree, Plan, TemplateHost};
use zagent_config::Value;
use zagent_host::fs::FileSystem;
use zagent_host::undo::UndoJournal;
use zagent_host::{CancelToken, Machine, Tools};

use crate::package_cache::PkgRunCache;
use crate::{RenderTemplate, assumed_accounts};

/// What states of one run tell each other.
#[derive(Debug, Default)]
pub struct RunShared {
    /// Texts of `file.accumulated`: by file, then by the accumulator's name.
    pub(crate) accumulated: Mutex<BTreeMap<PathBuf, BTreeMap<String, Vec<String>>>>,
    /// What a state watches and has changed (or would), as `module: id`, by the tag of the state that watches. Noted before
    /// that state is looked at.
    pub watched_changes: Mutex<BTreeMap<String, Vec<String>>>,
    /// Users and groups that would be there by now; only a dry run has any.
    pub assumed_accounts: Arc<assumed_accounts::AssumedAccounts>,
    /// Directories that a dry run takes for brought by a package; nobody knows more of them.
    pub(crate) assumed_dirs: Mutex<BTreeSet<PathBuf>>,
    /// Variables that `environ.setenv` gave to all commands after it; nothing stands for a variable that is taken away.
    pub(crate) environment: Mutex<BTreeMap<String, Option<String>>>,
    /// The repositories are others than when the list of packages was last fetched.
    pub(crate) packages_stale: AtomicBool,
    /// Which packages there are, and what was brought for whom.
    pub packages: PkgRunCache,
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
    pub(crate) fn is_assumed_dir(&self, dir: &std::path::Path) -> bool {
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
    /// The machine that the state works on: its programs, users and kernel.
    pub machine: &'a Machine,
    /// The files of that machine.
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
    /// The programs of the machine.
    #[must_use]
    pub const fn tools(&self) -> Tools<'_> {
        Tools::new(self.machine).with_limits(self.cancel, self.deadline)
    }

    /// True in a dry run: what would be done is only imagined. For what is worth foreseeing in [`RunShared`]; a state holds no
    /// other code for dry runs.
    #[must_use]
    pub const fn is_dry(&self) -> bool {
        self.journal.is_none()
    }
}
