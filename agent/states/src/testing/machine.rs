//! A small machine in a directory of its own, and calls on it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;
use zagent_compiler::{CallError, FunctionCall};
use zagent_config::{Map, Value};

use zagent_host::Machine;

/// A machine below a temporary directory.
pub(crate) struct SampleMachine {
    dir: TempDir,
    pub machine: Machine,
}

impl SampleMachine {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::at_root(dir.path()).unwrap();
        Self { dir, machine }
    }

    /// Adds a file.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let full = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
        self
    }

    /// Sets a file's mode.
    pub(crate) fn mode(self, path: &str, mode: u32) -> Self {
        let full = self.dir.path().join(path.trim_start_matches('/'));
        fs::set_permissions(full, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// Adds a link.
    pub(crate) fn link(self, path: &str, to: &str) -> Self {
        let full = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        symlink(to, full).unwrap();
        self
    }

    /// Calls a function; arguments as one JSON list, named ones as a mapping at its end after `"**"`.
    pub(crate) fn call(&self, function: &str, args: &str) -> String {
        render_answer(crate::functions::call_from_template(&self.machine, &parse_call(function, args)))
    }
}

/// A call from JSON.
pub(crate) fn parse_call(function: &str, args: &str) -> FunctionCall {
    let mut args = Value::from_json_str(args).unwrap().as_list().unwrap().to_vec();
    let mut kwargs = Map::new();
    if let Some(at) = args.iter().position(|a| a.as_str() == Some("**")) {
        kwargs = args[at + 1].as_map().unwrap().clone();
        args.truncate(at);
    }
    FunctionCall { function: function.to_owned(), args, kwargs }
}

/// An answer as JSON, an error in words.
pub(crate) fn render_answer(answer: Result<Value, CallError>) -> String {
    match answer {
        Ok(value) => serde_json::to_string(&value).unwrap(),
        Err(CallError::Unknown) => "unknown".into(),
        Err(CallError::Forbidden(words)) => format!("forbidden: {words}"),
        Err(CallError::Unavailable { message, hint }) => format!("unavailable: {message}; {hint}"),
        Err(CallError::Failed(words)) => format!("failed: {words}"),
    }
}
