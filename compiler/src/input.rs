//! What the compiler is given: files, a host to ask, options and limits. It takes nothing else from the world.

use std::sync::Arc;

use zagent_config::value::MergeStrategy;
use zagent_config::{Map, Value};

/// The environment that every tree has.
pub const BASE_ENV: &str = "base";

/// The files of a tree (states or pillar), by environment. Paths are relative, with `/`, without a leading one.
pub trait FileTree: Send + Sync {
    /// The environments, `base` first, the others in the order they were given.
    fn envs(&self) -> Vec<String>;

    /// The bytes of a file; `None` when there is no such file.
    ///
    /// # Errors
    /// Fails with words when the file is there and cannot be read.
    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String>;

    /// True when there is such a file, readable or not.
    fn has(&self, env: &str, path: &str) -> bool {
        !matches!(self.read(env, path), Ok(None))
    }

    /// Every file of an environment, sorted by path.
    ///
    /// # Errors
    /// Fails with words when a directory cannot be read.
    fn list(&self, env: &str) -> Result<Arc<[String]>, String>;

    /// A cheap proof of what a file holds, without reading it; `None` where there is none.
    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        let _ = (env, path);
        None
    }

    /// The permission bits of a file; `None` where the tree keeps none.
    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        let _ = (env, path);
        None
    }

    /// Every directory of an environment, sorted by path; where a tree keeps no empty ones, those that hold files.
    ///
    /// # Errors
    /// Fails with words when a directory cannot be read.
    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        let list = self.list(env)?;
        let parents =
            |path: &str| path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect::<Vec<_>>();
        let all: std::collections::BTreeSet<String> = list.iter().flat_map(|path| parents(path)).collect();
        Ok(all.into_iter().collect())
    }

    /// Every symbolic link of an environment and where it points, sorted by path; none where a tree keeps none.
    ///
    /// # Errors
    /// Fails with words when a directory cannot be read.
    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        let _ = env;
        Ok(Arc::new([]))
    }

    /// The name by which a human finds the file, for messages.
    fn display(&self, env: &str, path: &str) -> String;
}

/// A proof of what a file holds: two that are equal mean the same content, as far as the file system tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Device, inode, size, and last changes of content and of the inode in nanoseconds; all zero when there is no file.
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

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No such function here.
    Unknown,
    /// The configuration forbids it; the text says which key.
    Forbidden(String),
    /// It was tried and failed, in words.
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

/// The node, as far as templates may ask it. The agent implements it; tests and recorded hosts do too.
pub trait TemplateHost: Send + Sync {
    /// One grain, collected when asked for.
    fn grain(&self, name: &str) -> Option<Value>;

    /// All grains, as one mapping.
    fn grains(&self) -> Value;

    /// Calls an execution function that looks at the host.
    ///
    /// # Errors
    /// Fails when there is no such function, it is forbidden, or it failed.
    fn call(&self, call: &FunctionCall) -> Result<Value, CallError>;

    /// Calls an execution function, also one that changes the host: for states and the command line.
    ///
    /// # Errors
    /// Fails when there is no such function, it is forbidden, or it failed.
    fn call_mutating(&self, call: &FunctionCall) -> Result<Value, CallError> {
        self.call(call)
    }

    /// The names of all functions that `call` knows, for suggestions.
    fn functions(&self) -> Vec<&'static str>;

    /// Decrypts one armoured text.
    ///
    /// # Errors
    /// Fails with words when no key fits or the text is damaged.
    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<String, String>;

    /// What external pillars add, each merged in turn; `pillar` is what is known so far.
    ///
    /// # Errors
    /// Fails with words when an executable fails.
    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String>;

    /// What external tops add: `{env: [sls, …]}` each.
    ///
    /// # Errors
    /// Fails with words when an executable fails.
    fn external_tops(&self) -> Result<Vec<Value>, String>;
}

/// Whose verdicts count where Salt and zagent differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Ours: stricter.
    #[default]
    Strict,
    /// Salt's.
    Salt,
}

/// What a hostile or broken tree may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// Steps of one template, imports included.
    pub fuel: u64,
    /// Nested calls, includes and imports of templates.
    pub recursion: usize,
    /// Bytes that one template may print, and that one value made by a template may hold.
    pub output: usize,
    /// Bytes of one source file.
    pub source: usize,
    /// Nodes of one YAML document, aliases expanded.
    pub yaml_nodes: usize,
    /// Nesting of one YAML document.
    pub yaml_depth: usize,
    /// SLS files of one compile.
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

/// How to compile: Salt's minion options that matter here, and ours.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The node's id.
    pub id: String,
    /// Whose verdicts count.
    pub compat: Compat,
    /// Number states in the order they stand (`state_auto_order`).
    pub auto_order: bool,
    /// How pillars merge (`pillar_source_merging_strategy`).
    pub pillar_merge: MergeStrategy,
    /// Lists of merged pillars add up (`pillar_merge_lists`).
    pub pillar_merge_lists: bool,
    /// Pillar given by the caller; wins over the tree.
    pub pillar_override: Map,
    /// Pillar environment of the node; all of them when none.
    pub pillar_env: Option<String>,
    /// State environment of the node; all of them when none.
    pub state_env: Option<String>,
    /// Named groups for `N@`.
    pub nodegroups: Map,
    /// Requisites that are taken out before linking (`disabled_requisites`).
    pub disabled_requisites: Vec<String>,
    /// The renderer pipe of a file without a shebang.
    pub renderer: String,
    /// `jinja_env` options for templates and pillar: `trim_blocks`, `lstrip_blocks`, ….
    pub jinja_env: Map,
    /// `jinja_sls_env` options for SLS files.
    pub jinja_sls_env: Map,
    /// Everything else of the configuration, as templates see it in `opts`.
    pub opts: Map,
    /// What a tree may cost.
    pub limits: TreeLimits,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            id: "localhost".into(),
            compat: Compat::default(),
            auto_order: true,
            pillar_merge: MergeStrategy::default(),
            pillar_merge_lists: false,
            pillar_override: Map::new(),
            pillar_env: None,
            state_env: None,
            nodegroups: Map::new(),
            disabled_requisites: Vec::new(),
            renderer: "jinja|yaml".into(),
            jinja_env: Map::new(),
            jinja_sls_env: Map::new(),
            opts: Map::new(),
            limits: TreeLimits::default(),
        }
    }
}

/// All that one compile is given. Shared, because templates keep hold of what they may ask.
#[derive(Clone)]
pub struct CompileInputs {
    /// The state trees.
    pub states: Arc<dyn FileTree>,
    /// The pillar trees.
    pub pillar: Arc<dyn FileTree>,
    /// The node.
    pub host: Arc<dyn TemplateHost>,
    /// How.
    pub options: Arc<CompileOptions>,
}
