//! `inventory/NODE.yaml` in, the hosts to compile for out.

use std::sync::Arc;

use zagent_compiler::TreeLimits;
use zagent_config::Value;

use zagent_daemon::repo_layout::RepoSource;

/// Directory of recorded grains.
const INVENTORY_DIR: &str = "inventory";

/// A host to compile for.
pub struct InventoryNode {
    /// Node ID.
    pub name: String,
    /// Recorded grains.
    pub grains: Arc<Value>,
}

/// The hosts of a repository.
pub struct Inventory {
    /// Sorted by name.
    pub nodes: Vec<InventoryNode>,
    /// False when this host is used instead.
    pub recorded: bool,
}

/// Why an inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// A file or the directory cannot be read.
    #[error("cannot read the inventory: {0}")]
    Read(String),
    /// A file is not YAML.
    #[error("`{path}` is not YAML: line {line}: {why}")]
    Yaml {
        /// The file.
        path: String,
        /// Where.
        line: u32,
        /// What is wrong.
        why: String,
    },
    /// A file does not hold a mapping.
    #[error("`{path}` holds {kind}, expected a mapping of grains")]
    NotAMapping {
        /// The file.
        path: String,
        /// What it holds.
        kind: &'static str,
    },
}

impl Inventory {
    /// Reads every recorded host of a repository; there may be none.
    ///
    /// # Errors
    /// Fails when a file cannot be read as a mapping of grains.
    pub fn read(source: &RepoSource) -> Result<Self, InventoryError> {
        let mut nodes = Vec::new();
        for file in source.list_names(INVENTORY_DIR).map_err(InventoryError::Read)? {
            let Some(stem) = [".yaml", ".yml", ".json"].iter().find_map(|end| file.strip_suffix(end)) else {
                continue;
            };
            nodes.push(Self::read_node(source, &file, stem)?);
        }
        zagent_config::sorted::sort_by(&mut nodes, |a, b| a.name.cmp(&b.name));
        Ok(Self { nodes, recorded: true })
    }

    fn read_node(source: &RepoSource, file: &str, stem: &str) -> Result<InventoryNode, InventoryError> {
        let path = format!("{INVENTORY_DIR}/{file}");
        let bytes = source.read(&path).map_err(InventoryError::Read)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let grains = zagent_compiler::yaml::load(&text, &TreeLimits::default())
            .map_err(|e| InventoryError::Yaml { path: path.clone(), line: e.pos.line, why: e.message })?;
        if grains.as_map().is_none() {
            return Err(InventoryError::NotAMapping { path, kind: grains.kind() });
        }
        let name = grains.get("id").and_then(Value::as_str).unwrap_or(stem).to_owned();
        Ok(InventoryNode { name, grains: Arc::new(grains) })
    }
}
