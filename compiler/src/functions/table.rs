//! All functions by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use minijinja::value::Value;
use zagent_config::Value as Data;

use super::{
    FunctionArgs, FunctionError, FunctionsInner, config, defaults, files, grains, hash, matching, network,
    paths, pillar, random, serialize, slsutil, test, test_calls, version,
};

/// One function.
pub(super) struct FunctionEntry {
    /// `pillar.get`.
    pub(super) name: &'static str,
    /// Its parameters; see `signature`.
    pub(super) signature: &'static str,
    /// What it does.
    pub(super) body: FunctionImpl,
}

/// What a function works on.
#[derive(Clone, Copy)]
pub(super) enum FunctionImpl {
    /// Data in, data out.
    Data(fn(&FunctionsInner, &FunctionArgs<Data>) -> Result<Data, FunctionError>),
    /// The template's own values in and out.
    Live(fn(&FunctionsInner, &FunctionArgs<Value>) -> Result<Value, FunctionError>),
}

/// A function on data.
pub(super) const fn data_function(
    name: &'static str,
    signature: &'static str,
    f: fn(&FunctionsInner, &FunctionArgs<Data>) -> Result<Data, FunctionError>,
) -> FunctionEntry {
    FunctionEntry { name, signature, body: FunctionImpl::Data(f) }
}

/// A function on the template's own values.
pub(super) const fn live_function(
    name: &'static str,
    signature: &'static str,
    f: fn(&FunctionsInner, &FunctionArgs<Value>) -> Result<Value, FunctionError>,
) -> FunctionEntry {
    FunctionEntry { name, signature, body: FunctionImpl::Live(f) }
}

const TABLES: [&[FunctionEntry]; 16] = [
    pillar::TABLE,
    grains::TABLE,
    config::TABLE,
    defaults::TABLE,
    slsutil::TABLE,
    serialize::TABLE,
    files::TABLE,
    paths::TABLE,
    matching::TABLE,
    network::TABLE,
    hash::TABLE,
    random::TABLE,
    version::TABLE,
    test::TABLE,
    test::SERVICES,
    test_calls::TABLE,
];

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.into_iter().flatten().map(|e| e.name)
}

/// The functions that need nothing of the host: their names and signatures.
pub fn built_in_signatures() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.into_iter().flatten().map(|e| (e.name, e.signature))
}

/// Finds a function.
pub(super) fn find_function(name: &str) -> Option<&'static FunctionEntry> {
    static INDEX: OnceLock<HashMap<&'static str, &'static FunctionEntry>> = OnceLock::new();
    INDEX.get_or_init(|| TABLES.into_iter().flatten().map(|e| (e.name, e)).collect()).get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut all: Vec<_> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
