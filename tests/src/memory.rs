//! A tree and a node without a disk: the input of the compiler in property tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use zagent_compiler::{
    CallError, Cipher, CompileInputs, CompileOptions, FileTree, FunctionCall, TemplateHost,
};
use zagent_config::Value;
use zagent_config::mask::Secret;

/// Files by environment and path.
#[derive(Clone, Debug, Default)]
pub struct Tree(BTreeMap<String, BTreeMap<String, Arc<[u8]>>>);

impl Tree {
    /// An environment `base` with these files.
    pub fn base(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(path, bytes)| (path, bytes.into())).collect();
        Self(BTreeMap::from([("base".to_owned(), files)]))
    }
}

impl FileTree for Tree {
    fn envs(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        Ok(self.0.get(env).and_then(|files| files.get(path)).cloned())
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        Ok(self.0.get(env).into_iter().flat_map(|files| files.keys().cloned()).collect())
    }

    fn display(&self, env: &str, path: &str) -> String {
        format!("{env}/{path}")
    }
}

/// A node that only has grains.
#[derive(Clone, Debug)]
pub struct Node {
    grains: Value,
}

impl Node {
    /// A node with these grains.
    pub fn new(grains: Value) -> Self {
        Self { grains }
    }
}

impl TemplateHost for Node {
    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.grains.clone()
    }

    fn call(&self, _: &FunctionCall) -> Result<Value, CallError> {
        Err(CallError::Unknown)
    }

    fn functions(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn decrypt(&self, _: Cipher, _: &str) -> Result<Secret, String> {
        Err("there are no keys in memory".to_owned())
    }

    fn external_pillar(&self, _: &Value) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

/// The whole input of one compile, from memory.
pub fn inputs(states: Tree, pillar: Tree, grains: Value, options: CompileOptions) -> CompileInputs {
    CompileInputs {
        states: Arc::new(states),
        pillar: Arc::new(pillar),
        host: Arc::new(Node::new(grains)),
        schema: zagent_states::schema(),
        options: Arc::new(options),
    }
}
