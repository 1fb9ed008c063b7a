//! A chunk of a plan in, the state that it asks for out: the one table of state modules.
//!
//! A new module is a folder of its own and one row of `MODULES` in `lib.rs`.

use zagent_compiler::Chunk;
use zagent_compiler::schema::{ArgCheck, Schema};
use zagent_config::Value;

use crate::{BuildResult, ChunkArgs, MODULES, StateError, StateModule, Undoable, external};

/// The names of all modules and their descriptions.
const DESCRIPTIONS: [(&str, &str); MODULES.len()] = {
    let mut all = [("", ""); MODULES.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = (MODULES[i].name, MODULES[i].description);
        i += 1;
    }
    all
};

/// Modules whose arguments the compiler checks with the code that reads them in the run.
const ARG_CHECKS: &[(&str, ArgCheck)] = &[("exec", crate::exec::params::check_args)];

/// What the compiler checks states against: made of the descriptions of all modules, parsed on demand.
#[must_use]
pub fn schema() -> &'static Schema {
    static SCHEMA: Schema = Schema::with_arg_checks(&DESCRIPTIONS, ARG_CHECKS);
    &SCHEMA
}

/// The module of this name.
fn module_named(name: &str) -> Option<&'static StateModule> {
    MODULES.binary_search_by(|module| module.name.cmp(name)).ok().map(|i| &MODULES[i])
}

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
    (module_named(&chunk.state)?.build)(&chunk.fun, &ChunkArgs::new(chunk))
}

/// All kinds of things that a revert can put back.
pub(crate) fn undoables() -> impl Iterator<Item = &'static dyn Undoable> {
    MODULES.iter().flat_map(|module| module.undo).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_module_is_found() {
        assert!(MODULES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for module in MODULES {
            let found = module_named(module.name).map(|found| found.name);
            assert_eq!(found, Some(module.name));
        }
        assert!(module_named("nosuch").is_none() && module_named("").is_none());
    }

    #[test]
    fn kinds_of_undo_notes_are_unique_but_for_the_shared_one() {
        let mut kinds: Vec<_> = undoables().map(Undoable::kind).collect();
        kinds.sort_unstable();
        let twice: Vec<_> = kinds.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        let mut twice = twice;
        twice.dedup();
        assert_eq!(
            twice,
            ["apache", "docker", "library", "postgres_object", "postgres_role"],
            "families of modules"
        );
    }
}
