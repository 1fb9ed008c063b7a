//! A scene for tests: the real disk, files in memory, all execution functions.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use zagent_compiler::{Chunk, Compat, Compiler, Files, Inputs, Options, Plan, Want};
use zagent_config::{Map, Value};

use super::{Done, Failure, Look, Render, Scene, Shared, Standing, State, Template};
use crate::facts::Recorded;
use crate::fs::Disk;
use crate::host::{Answerer, Cancel, Live, LiveSettings};

/// Files of one environment, in memory.
#[derive(Clone, Default)]
pub(crate) struct Tree(Vec<(String, Vec<u8>)>);

impl Files for Tree {
    fn envs(&self) -> Vec<String> {
        vec!["base".into()]
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        let found = self.0.iter().find(|(name, _)| env == "base" && name == path);
        Ok(found.map(|(_, bytes)| bytes.as_slice().into()))
    }

    fn list(&self, _: &str) -> Result<Arc<[String]>, String> {
        Ok(self.0.iter().map(|(name, _)| name.clone()).collect())
    }

    fn display(&self, _: &str, path: &str) -> String {
        path.to_owned()
    }
}

/// Puts variables in, nothing more.
struct Fill;

impl Render for Fill {
    fn render(&self, template: &Template) -> Result<String, String> {
        let fill = |text: String, (key, value): (&Value, &Value)| {
            text.replace(&format!("{{{{ {} }}}}", key.json_key()), &value.json_key())
        };
        Ok(template.variables.iter().fold(template.source.clone(), fill))
    }
}

/// All that a scene borrows.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    disk: Disk,
    pub(crate) shared: Shared,
    compat: Compat,
    pub(crate) cancel: Arc<Cancel>,
    pillar: Value,
    tree: Tree,
    host: Answerer,
    /// What `t.sls` compiles to, when there is one.
    pub(crate) plan: Plan,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(&[], "{}")
    }

    /// A stage where our own verdicts count.
    pub(crate) fn strict() -> Self {
        Self { compat: Compat::Strict, ..Self::new() }
    }

    /// A stage with files of the state tree and a pillar.
    pub(crate) fn with(files: &[(&str, &str)], pillar: &str) -> Self {
        let tree = Tree(files.iter().map(|(n, t)| ((*n).to_owned(), t.as_bytes().to_vec())).collect());
        let grains =
            Recorded::from_json(r#"{"os": "Debian", "os_family": "Debian", "shell": "/bin/sh"}"#).unwrap();
        let pillar = Value::from_json_str(pillar).unwrap();
        let inputs = Inputs {
            states: Arc::new(tree.clone()),
            pillar: Arc::new(Tree::default()),
            host: Arc::new(Live::new(Arc::new(grains), LiveSettings::new("web-01"))),
            options: Arc::new(Options::default()),
        };
        let want = Want::Sls { names: vec!["t".into()], env: "base".into() };
        let plan = if files.iter().any(|(name, _)| *name == "t.sls") {
            Compiler::new(inputs.clone()).compile(&want).unwrap().plan
        } else {
            Plan::default()
        };
        Self {
            dir: tempfile::tempdir().unwrap(),
            disk: Disk::default(),
            shared: Shared::default(),
            compat: Compat::Salt,
            cancel: Arc::new(Cancel::new()),
            host: Answerer::new(&inputs, pillar.clone()),
            pillar,
            tree,
            plan,
        }
    }

    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene {
            tag: "",
            journal: None,
            fs: &self.disk,
            files: &self.tree,
            host: &self.host,
            templates: &Fill,
            pillar: &self.pillar,
            plan: &self.plan,
            compat: self.compat,
            cancel: &self.cancel,
            deadline: None,
            shared: &self.shared,
            cache: self.dir.path(),
            spare: self.dir.path(),
        }
    }

    /// A path below the stage's own directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }

    /// Notes what a state watches and has changed.
    pub(crate) fn fire(&self, chunk: &Chunk, changed: &[&str]) {
        let changed = changed.iter().map(|c| (*c).to_owned()).collect();
        self.shared.fired.lock().unwrap().insert(chunk.tag(), changed);
    }
}

/// `module.function`, a name, and arguments as JSON.
pub(crate) fn chunk(function: &str, name: &str, args: &str) -> Chunk {
    let (state, fun) = function.split_once('.').unwrap();
    let args = Value::from_json_str(args).unwrap();
    let mut chunk = Chunk::single(state, fun, name, args.as_map().cloned().unwrap_or_else(Map::new));
    chunk.sls = "t".into();
    chunk
}

/// The state of a chunk.
pub(crate) fn built(chunk: &Chunk) -> Box<dyn State> {
    super::build(chunk).unwrap_or_else(|f| panic!("{}", f.done.comment))
}

/// What a run of one state says, as the runner composes it: result, comment, changes.
pub(crate) fn apply(chunk: &Chunk, scene: &Scene<'_>) -> String {
    let mut state = match super::build(chunk) {
        Ok(state) => state,
        Err(failure) => return done("false", &failure.done),
    };
    match state.check(scene) {
        Ok(look) if look.standing == Standing::Right => seen(Ok(look)),
        Ok(_) => acted(state.apply(scene)),
        Err(failure) => done("false", &failure.done),
    }
}

/// What a dry run of one state says.
pub(crate) fn preview(chunk: &Chunk, scene: &Scene<'_>) -> String {
    super::build(chunk).map_or_else(|f| done("false", &f.done), |mut state| seen(state.preview(scene)))
}

/// A look in one line.
pub(crate) fn seen(look: Result<Look, Failure>) -> String {
    match look {
        Ok(look) => {
            let result = if look.standing == Standing::Right { "true" } else { "null" };
            done(result, &Done::new(look.comment, look.changes))
        }
        Err(failure) => done("false", &failure.done),
    }
}

/// An act in one line.
pub(crate) fn acted(act: Result<Done, Failure>) -> String {
    match act {
        Ok(act) => done("true", &act),
        Err(failure) => done("false", &failure.done),
    }
}

fn done(result: &str, done: &Done) -> String {
    let mut changes = done.changes.clone();
    if changes.contains("pid") {
        changes.insert("pid", 1);
    }
    let changes = serde_json::to_string(&Value::from(changes)).unwrap();
    format!("{result} {:?} {changes}", done.comment)
}
