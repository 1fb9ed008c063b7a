//! The arguments of a state in, the variables of its template out.

use std::sync::LazyLock;

use zagent_compiler::schema::{ParamTable, Schema};
use zagent_config::Map;

use crate::{ChunkArgs, StateError};

/// Functions that show arguments they do not know to their templates, as Salt's take `**kwargs`.
const TEMPLATED: [(&str, &str); 5] =
    [("file", "managed"), ("file", "recurse"), ("cmd", "script"), ("cron", "file"), ("debconf", "set_file")];

/// The descriptions of these modules: what they know.
static DESCRIBED: Schema = Schema::new(&[
    ("cmd", include_str!("cmd/description.txt")),
    ("cron", include_str!("cron/description.txt")),
    ("debconf", include_str!("debconf/description.txt")),
    ("file", include_str!("file/description.txt")),
]);

/// What `file.recurse` keeps from the files it manages.
const KEPT_BY_RECURSE: [&str; 2] = ["mode", "makedirs"];

/// The arguments of a state that only its template reads.
pub(crate) fn extra_variables(args: &ChunkArgs<'_>) -> Map {
    static TABLES: LazyLock<Vec<((&str, &str), ParamTable)>> = LazyLock::new(|| {
        let table =
            |f: &(&'static str, &'static str)| Some((*f, ParamTable::new(DESCRIBED.function(f.0, f.1)?)));
        TEMPLATED.iter().filter_map(table).collect()
    });
    let called = (&*args.chunk.state, &*args.chunk.fun);
    let Some((_, table)) = TABLES.iter().find(|(function, _)| *function == called) else {
        return Map::new();
    };
    let is_extra = |key: &str| {
        !key.starts_with("__") && !table.is_named(key) && !KEPT_BY_RECURSE.contains(&key) && key != "env"
    };
    let extra = args.chunk.args.iter().filter(|(key, _)| key.as_str().is_some_and(is_extra));
    extra.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The variables of a template: what only it reads, then `defaults`, then `context`.
pub(crate) fn template_variables(args: &ChunkArgs<'_>) -> Result<Map, StateError> {
    let mut variables = extra_variables(args);
    for key in ["defaults", "context"] {
        for (key, value) in args.map(key)?.unwrap_or_default().iter() {
            variables.insert(key.clone(), value.clone());
        }
    }
    Ok(variables)
}
