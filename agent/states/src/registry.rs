//! A chunk of a plan in, the state that it asks for out: the one table of state modules.
//!
//! A new module is a folder of its own and one row here.

use zagent_compiler::Chunk;
use zagent_config::Value;

use crate::functions::ExecFunction;
use crate::groups::{accounts, fetch, firewall, packages, services, stores};
use crate::{
    BuildResult, ChunkArgs, StateError, Undoable, cmd, environ, exec, external, file, module, pkg, test,
};

/// A state module: everything the rest of the program knows about it.
#[derive(Clone, Copy)]
pub struct StateModule {
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

/// Every state module, by name.
pub const MODULES: &[StateModule] = &[];

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
pub(crate) fn undoables() -> impl Iterator<Item = &'static dyn Undoable> {
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

pub(crate) fn unavailable_error(chunk: &Chunk) -> StateError {
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
