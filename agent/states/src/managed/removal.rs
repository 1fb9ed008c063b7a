//! How a managed thing is taken away: an entry of the file system, or a state of its module.

use serde::{Deserialize, Serialize};
use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

/// How a thing is taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// A file or a link is removed, a directory only when it is empty.
    Entry,
    /// A state removes it.
    State {
        /// `cron.absent`.
        function: String,
        /// The name of that state.
        name: String,
        /// Its arguments.
        args: Value,
    },
}

impl Removal {
    pub(super) fn state(state: &str, fun: &str, name: &str, args: Map) -> Self {
        Self::State { function: format!("{state}.{fun}"), name: name.into(), args: args.into() }
    }

    /// The chunk of the state that removes it; none for an entry.
    #[must_use]
    pub fn chunk(&self) -> Option<Chunk> {
        let Self::State { function, name, args } = self else { return None };
        let (state, fun) = function.split_once('.')?;
        let args = args.as_map().cloned().unwrap_or_default();
        Some(Chunk::single(state, fun, name, args))
    }
}

impl std::fmt::Display for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entry => f.write_str("entry"),
            Self::State { function, name, args } => {
                let args = serde_json::to_string(args).unwrap_or_default();
                write!(f, "{function} {name} {}", args.replace("\":", "\": ").replace(",\"", ", \""))
            }
        }
    }
}
