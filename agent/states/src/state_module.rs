//! What the rest of the program knows about a state module: one row of the table of modules.

use crate::exec_function::ExecFunction;
use crate::{BuildResult, ChunkArgs, Undoable};

/// A state module: everything the rest of the program knows about it.
#[derive(Clone, Copy)]
pub(crate) struct StateModule {
    /// Its name, as in Salt: `cron`.
    pub name: &'static str,
    /// Makes the state of one of its functions; nothing when there is no such function.
    pub build: fn(&str, &ChunkArgs<'_>) -> Option<BuildResult>,
    /// Its execution functions, for `salt[...]` and the command line.
    pub functions: &'static [ExecFunction],
    /// What a revert of its states can restore.
    pub undo: &'static [&'static dyn Undoable],
    /// Its functions and parameters in words: the source of checks, `explain` and the reference pages.
    pub description: &'static str,
}
