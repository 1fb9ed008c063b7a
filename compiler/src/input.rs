//! The inputs of the compiler: files, a host, the state functions that exist, options and limits. It has no other inputs.

use std::sync::Arc;

use zagent_config::mask::Secret;
use zagent_config::value::MergeStrategy;
use zagent_config::{Diagnostic, Map, Value};

use crate::schema::Schema;
use zagent_config::sorted::CollectSorted;

/// The environment that every tree has.
pub const BASE_ENV: &str = "base";

/// The files of a tree (states or pillar), by environment. Paths are relative, with `/`, without a leading one.
pub trait FileTree: Send + Sync {
    /// The environments, `base` first, the others in the configured order.
    fn envs(&self) -> Vec<String>;

    /// The bytes of a file; `None` when the file does not exist.
    ///
    /// # Errors
    /// Fails with a message when the file exists but cannot be read.
    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String>;

    /// True when the file exists, readable or not.
    fn has(&self, env: &str, path: &str) -> bool {
        !matches!(self.read(env, path), Ok(None))
    }

    /// Every file of an environment, sorted by path.
    ///
    /// # Errors
    /// Fails with a message when a directory cannot be read.
    fn list(&self, env: &str) -> Result<Arc<[String]>, String>;

    /// A cheap fingerprint of a file's content, without reading it; `None` when the tree has none.
    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        let _ = (env, path);
        None
    }

    /// The permission bits of a file; `None` when the tree does not store them.
    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        let _ = (env, path);
        None
    }

    /// Every directory of an environment, sorted by path; when a tree does not store empty ones, those that contain files.
    ///
    /// # Errors
    /// Fails with a message when a directory cannot be read.
    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        let list = self.list(env)?;
        let parents =
            |path: &str| path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect::<Vec<_>>();
        let all: std::collections::BTreeSet<String> = list.iter().flat_map(|path| parents(path)).into_set();
        Ok(all.into_iter().collect())
    }

    /// Every symbolic link of an environment and where it points, sorted by path; empty when a tree does not store links.
    ///
    /// # Errors
    /// Fails with a message when a directory cannot be read.
    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        let _ = env;
        Ok(Arc::new([]))
    }

    /// The name of the file in messages.
    fn display(&self, env: &str, path: &str) -> String;
}

/// A fingerprint of a file's content: equal fingerprints mean equal content, as far as the file system shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Device, inode, size, and last changes of content and of the inode in nanoseconds; all zero when the file does not exist.
    pub of: [u64; 5],
}

/// A call of an execution function: `salt['mod.fun'](positional, named=…)`.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// `mod.fun`.
    pub function: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// Named arguments.
    pub kwargs: Map,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Unknown function.
    Unknown,
    /// The configuration forbids it; the text says which key.
    Forbidden(String),
    /// Nobody may answer it here, whatever the configuration says.
    Unavailable {
        /// Why.
        message: String,
        /// What to do.
        hint: String,
    },
    /// It ran and failed; the text says why.
    Failed(String),
}

/// How a value is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// OpenPGP, ASCII armour.
    Gpg,
    /// age, ASCII armour.
    Age,
}

/// The node, as templates see it. The agent implements it; so do tests and recorded hosts.
pub trait TemplateHost: Send + Sync {
    /// One grain, collected on demand.
    fn grain(&self, name: &str) -> Option<Value>;

    /// All grains, as one mapping.
    fn grains(&self) -> Value;

    /// Calls an execution function that reads from the host.
    ///
    /// # Errors
    /// Fails when the function is unknown, forbidden, or failed.
    fn call(&self, call: &FunctionCall) -> Result<Value, CallError>;

    /// Calls an execution function, including those that change the host: for states and the command line.
    ///
    /// # Errors
    /// Fails when the function is unknown, forbidden, or failed.
    fn call_mutating(&self, call: &FunctionCall) -> Result<Value, CallError> {
        self.call(call)
    }

    /// The node that manages this one, when this is a resource: `__minion__` in templates.
    fn manager(&self) -> Option<Arc<dyn TemplateHost>> {
        None
    }

    /// What an external module is told about this resource; nothing for a node.
    fn resource(&self) -> Option<Value> {
        None
    }

    /// The names of all functions that `call` knows, for suggestions.
    fn functions(&self) -> Vec<&'static str>;

    /// Decrypts one armoured text.
    ///
    /// # Errors
    /// Fails with a message when no key fits or the text is damaged.
    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<Secret, String>;

    /// What external pillars add, each merged in turn; `pillar` is the pillar so far.
    ///
    /// # Errors
    /// Fails with a message when an executable fails.
    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String>;

    /// What external tops add: `{env: [sls, …]}` each.
    ///
    /// # Errors
    /// Fails with a message when an executable fails.
    fn external_tops(&self) -> Result<Vec<Value>, String>;
}

/// Which behaviour applies where Salt and zagent differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// zagent's: stricter.
    #[default]
    Strict,
    /// Salt's.
    Salt,
}

/// Limits for a hostile or broken tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// Maximum steps per template, including imports.
    pub fuel: u64,
    /// Maximum nesting of calls, includes and imports in templates.
    pub recursion: usize,
    /// Maximum output of one template and maximum size of one value in a template, in bytes.
    pub output: usize,
    /// Maximum size of one source file, in bytes.
    pub source: usize,
    /// Maximum nodes per YAML document, with aliases expanded.
    pub yaml_nodes: usize,
    /// Maximum nesting of a YAML document.
    pub yaml_depth: usize,
    /// Maximum SLS files per compile.
    pub files: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            fuel: 10_000_000,
            recursion: 100,
            output: 8 << 20,
            source: 8 << 20,
            yaml_nodes: 500_000,
            yaml_depth: 128,
            files: 20_000,
        }
    }
}

/// How to compile: the Salt minion options that zagent uses, and its own.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The node's id.
    pub id: String,
    /// Whose behaviour applies: zagent's or Salt's.
    pub compat: Compat,
    /// Number states in the order of the files (`state_auto_order`).
    pub auto_order: bool,
    /// How pillar data is merged (`pillar_source_merging_strategy`).
    pub pillar_merge: MergeStrategy,
    /// Concatenate lists when pillar data is merged (`pillar_merge_lists`).
    pub pillar_merge_lists: bool,
    /// Included pillar SLS win over the one that includes them (`pillar_includes_override_sls`).
    pub pillar_includes_override: bool,
    /// Pillar given by the caller; wins over the tree.
    pub pillar_override: Map,
    /// Pillar environment of the node; all environments when unset.
    pub pillar_env: Option<String>,
    /// State environment of the node; all environments when unset.
    pub state_env: Option<String>,
    /// Named groups for `N@`.
    pub nodegroups: Map,
    /// Requisites that are removed before linking (`disabled_requisites`).
    pub disabled_requisites: Vec<String>,
    /// The renderer pipe of a file without a shebang.
    pub renderer: String,
    /// `jinja_env` options for templates and pillar: `trim_blocks`, `lstrip_blocks`, ….
    pub jinja_env: Map,
    /// `jinja_sls_env` options for SLS files.
    pub jinja_sls_env: Map,
    /// Everything else of the configuration, as templates see it in `opts`.
    pub opts: Map,
    /// Warnings about the configuration, for the output of the compile.
    pub warnings: Vec<Diagnostic>,
    /// Limits for the tree.
    pub limits: TreeLimits,
    /// The pillar key that lists resources.
    pub resources_key: String,
    /// The resource that the tree is compiled for; none for the node itself.
    pub resource: Option<CompiledResource>,
}

/// A resource that a tree is compiled for, on the node that manages it.
#[derive(Clone, Debug)]
pub struct CompiledResource {
    /// Its type.
    pub kind: String,
    /// The id of the node that manages it.
    pub manager: String,
    /// The pillar of that node, when the resource gets it instead of one of its own.
    pub pillar: Option<Map>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            id: "localhost".into(),
            compat: Compat::default(),
            auto_order: true,
            pillar_merge: MergeStrategy::default(),
            pillar_merge_lists: false,
            pillar_includes_override: false,
            pillar_override: Map::new(),
            pillar_env: None,
            state_env: None,
            nodegroups: Map::new(),
            disabled_requisites: Vec::new(),
            renderer: "jinja|yaml".into(),
            jinja_env: Map::new(),
            jinja_sls_env: Map::new(),
            opts: Map::new(),
            warnings: Vec::new(),
            limits: TreeLimits::default(),
            resources_key: "resources".into(),
            resource: None,
        }
    }
}

/// All inputs of one compile. Shared, because templates keep references to them.
#[derive(Clone)]
pub struct CompileInputs {
    /// The state trees.
    pub states: Arc<dyn FileTree>,
    /// The pillar trees.
    pub pillar: Arc<dyn FileTree>,
    /// The node.
    pub host: Arc<dyn TemplateHost>,
    /// The state functions that exist.
    pub schema: &'static Schema,
    /// The options.
    pub options: Arc<CompileOptions>,
}
