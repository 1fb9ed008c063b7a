//! The test bed of all states and functions: files, a pillar and a host in, a context to check and apply states with out.

#![expect(
    clippy::unwrap_used,
    clippy::new_without_default,
    reason = "a fixture that cannot be made has failed its test"
)]

#[cfg(test)]
mod machine;
#[cfg(test)]
mod memory_fs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use zagent_compiler::{
    Chunk, Compat, CompileInputs, CompileOptions, CompileTarget, Compiler, FileTree, Plan,
};
use zagent_config::{Map, Value};

#[cfg(test)]
pub(crate) use self::machine::{SampleMachine, parse_call, render_answer};
#[cfg(test)]
pub(crate) use self::memory_fs::MemoryFs;
use super::{
    ApplyResult, CheckResult, FileTemplate, RenderTemplate, RunShared, State, StateCtx, StateError, Verdict,
};
use crate::template_host::function_host::FunctionHost;
use crate::template_host::live_host::{LiveHost, LiveHostSettings};
use crate::template_host::recorded_facts::RecordedFacts;
use zagent_host::disk::Disk;
use zagent_host::fs::FileSystem;
use zagent_host::{CancelToken, Machine};

/// Files of one environment, in memory.
#[derive(Clone, Default)]
pub struct TestFiles(Vec<(String, Vec<u8>)>);

impl TestFiles {
    /// Files by path, with their text.
    #[must_use]
    pub fn new(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(n, t)| ((*n).to_owned(), t.as_bytes().to_vec())).collect())
    }
}

impl FileTree for TestFiles {
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

/// Stands in for the template engine: puts values in the place of `{{ name }}`, and fails at `{{ fail }}`.
struct FillVariables;

impl RenderTemplate for FillVariables {
    fn render(&self, template: &FileTemplate) -> Result<String, String> {
        if template.source.contains("{{ fail }}") {
            return Err(format!("{}: told to fail", template.path));
        }
        let fill = |text: String, (key, value): (&Value, &Value)| {
            text.replace(&format!("{{{{ {} }}}}", key.json_key()), &zagent_config::value::python_str(value))
        };
        Ok(template.variables.iter().fold(template.source.clone(), fill))
    }
}

/// The facts of the host.
const GRAINS: &str = r#"{"os": "Debian", "os_family": "Debian", "shell": "/bin/sh", "role": "web"}"#;

/// All that a context borrows.
pub struct StateTestBed<F = Disk> {
    /// A directory of its own.
    pub dir: TempDir,
    /// The machine.
    pub machine: Machine,
    /// The files of the host.
    pub fs: F,
    /// What states share within a run.
    pub shared: RunShared,
    /// Whose verdicts count.
    pub compat: Compat,
    /// Stops the run.
    pub cancel: Arc<CancelToken>,
    /// The pillar.
    pub pillar: Value,
    /// The state tree.
    pub files: Box<dyn FileTree>,
    /// Where downloads and backups are kept.
    pub cache: PathBuf,
    host: FunctionHost,
    /// What `t.sls` compiles to, when there is one.
    pub plan: Plan,
}

#[cfg(test)]
impl StateTestBed<MemoryFs> {
    /// A stage whose files are in memory, with a directory `/tmp/fe`.
    pub(crate) fn in_memory(compat: Compat) -> Self {
        let fs = MemoryFs::default();
        for dir in ["/", "/tmp", "/tmp/fe"] {
            fs.dir(dir);
        }
        let StateTestBed { dir, shared, cancel, pillar, files, host, plan, .. } = StateTestBed::new();
        Self {
            dir,
            machine: Machine::this_host(),
            fs,
            shared,
            compat,
            cancel,
            pillar,
            files,
            cache: "/cache".into(),
            host,
            plan,
        }
    }
}

impl StateTestBed {
    /// A stage without files and with an empty pillar.
    pub fn new() -> Self {
        Self::with_files(&[], "{}")
    }

    /// A stage where our own verdicts count.
    pub fn strict() -> Self {
        Self { compat: Compat::Strict, ..Self::new() }
    }

    /// A stage with files of the state tree and a pillar.
    pub fn with_files(files: &[(&str, &str)], pillar: &str) -> Self {
        let tree = TestFiles::new(files);
        let grains = RecordedFacts::from_json(GRAINS).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let pillar = Value::from_json_str(pillar).unwrap();
        let inputs = CompileInputs {
            states: Arc::new(tree.clone()),
            pillar: Arc::new(TestFiles::default()),
            host: Arc::new(LiveHost::new(
                Arc::new(grains),
                LiveHostSettings::new("web-01", Machine::this_host()),
            )),
            schema: crate::schema(),
            options: Arc::new(CompileOptions::default()),
        };
        let want = CompileTarget::Sls { names: vec!["t".into()], env: "base".into() };
        let plan = if files.iter().any(|(name, _)| *name == "t.sls") {
            Compiler::new(inputs.clone()).compile(&want).unwrap().plan
        } else {
            Plan::default()
        };
        Self {
            cache: dir.path().to_owned(),
            dir,
            fs: Disk::default(),
            machine: Machine::this_host(),
            shared: RunShared::default(),
            compat: Compat::Salt,
            cancel: Arc::new(CancelToken::new()),
            host: FunctionHost::new(&inputs, pillar.clone()),
            pillar,
            files: Box::new(tree),
            plan,
        }
    }
}

impl<F: FileSystem> StateTestBed<F> {
    /// What a state runs in on this stage.
    pub fn scene(&self) -> StateCtx<'_> {
        StateCtx {
            tag: "",
            journal: None,
            machine: &self.machine,
            fs: &self.fs,
            files: &*self.files,
            host: &self.host,
            templates: &FillVariables,
            pillar: &self.pillar,
            plan: &self.plan,
            compat: self.compat,
            cancel: &self.cancel,
            deadline: None,
            shared: &self.shared,
            cache_dir: &self.cache,
            staging_dir: &self.cache,
        }
    }

    /// A path below the stage's own directory.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// True when there is such a path below the stage's own directory.
    pub fn exists(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }

    /// Notes what a state watches and has changed.
    #[cfg(test)]
    pub(crate) fn set_watched_changes(&self, chunk: &Chunk, changed: &[&str]) {
        let changed = changed.iter().map(|c| (*c).to_owned()).collect();
        self.shared.watched_changes.lock().unwrap().insert(chunk.tag(), changed);
    }
}

/// `module.function`, a name, and arguments as JSON.
pub fn chunk(function: &str, name: &str, args: &str) -> Chunk {
    let (state, fun) = function.split_once('.').unwrap();
    let args = Value::from_json_str(args).unwrap();
    let mut chunk = Chunk::single(state, fun, name, args.as_map().cloned().unwrap_or_else(Map::new));
    chunk.sls = "t".into();
    chunk
}

/// The state of a chunk.
pub fn build_state(chunk: &Chunk) -> Box<dyn State> {
    super::build(chunk).unwrap_or_else(|f| panic!("{}", f.result.comment))
}

/// What a run of one state says, as the runner composes it: result, comment, changes.
#[cfg(test)]
pub(crate) fn apply_chunk(chunk: &Chunk, ctx: &StateCtx<'_>) -> String {
    let mut state = match super::build(chunk) {
        Ok(state) => state,
        Err(failure) => return result_line("false", &failure.result),
    };
    match state.check(ctx) {
        Ok(checked) if checked.verdict == Verdict::InSync => check_line(Ok(checked)),
        Ok(_) => apply_line(state.apply(ctx)),
        Err(failure) => result_line("false", &failure.result),
    }
}

/// What a dry run of one state says.
#[cfg(test)]
pub(crate) fn preview_chunk(chunk: &Chunk, ctx: &StateCtx<'_>) -> String {
    super::build(chunk)
        .map_or_else(|f| result_line("false", &f.result), |mut state| check_line(state.preview(ctx)))
}

/// A look in one line.
pub fn check_line(checked: Result<CheckResult, StateError>) -> String {
    match checked {
        Ok(checked) => {
            let result = if checked.verdict == Verdict::InSync { "true" } else { "null" };
            result_line(result, &ApplyResult::new(checked.comment, checked.changes))
        }
        Err(failure) => result_line("false", &failure.result),
    }
}

/// An act in one line.
pub fn apply_line(act: Result<ApplyResult, StateError>) -> String {
    match act {
        Ok(act) => result_line("true", &act),
        Err(failure) => result_line("false", &failure.result),
    }
}

fn result_line(result: &str, done: &ApplyResult) -> String {
    let mut changes = done.changes.clone();
    if changes.contains("pid") {
        changes.insert("pid", 1);
    }
    let changes = serde_json::to_string(&Value::from(changes)).unwrap();
    format!("{result} {:?} {changes}", done.comment)
}
