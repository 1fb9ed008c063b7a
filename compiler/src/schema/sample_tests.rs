//! The descriptions beside the state modules in, a schema for tests out.

use std::path::Path;
use std::sync::LazyLock;

use super::Schema;

/// The schema of every module that has a description.
pub(crate) fn sample_schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::new(read_descriptions().leak()));
    &SCHEMA
}

fn read_descriptions() -> Vec<(&'static str, &'static str)> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/states/src");
    let entries = std::fs::read_dir(modules).expect("the state modules are there");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name()?.to_str()?.to_owned();
        let text = std::fs::read_to_string(folder.join("description.txt")).ok()?;
        Some((&*name.leak(), &*text.leak()))
    };
    let mut all: Vec<_> = entries.filter_map(read).collect();
    all.sort_unstable();
    all
}
