//! A stage for the states of this folder: a directory, a tree, a cache, and the real disk.

pub mod acts;
pub mod planted;
pub mod signed;
pub mod truth;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use crate::file_tree::DirFiles;
use crate::testing::StateTestBed;
use crate::{CheckResult, StateCtx, StateError, Verdict, build};
use zagent_host::fs::FileSystem;

impl StateTestBed {
    /// A place for file states: a directory `d`, a tree on disk, and a cache.
    pub(crate) fn for_files() -> Self {
        let mut test_bed = Self::new();
        let root = test_bed.dir.path().join("root");
        for name in ["root", "d", "cache"] {
            std::fs::create_dir(test_bed.dir.path().join(name)).unwrap();
        }
        std::fs::set_permissions(test_bed.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        test_bed.files = Box::new(DirFiles::base(&root).with_env("dev", root.join("devroot")));
        test_bed.cache = test_bed.dir.path().join("cache");
        test_bed
    }

    pub(crate) fn test_dir(&self) -> PathBuf {
        self.dir.path().join("d")
    }

    /// Adds a file to the state tree.
    pub fn tree(self, path: &str, content: &str) -> Self {
        let path = self.dir.path().join("root").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// A chunk whose texts name the directory as `$D`.
    pub fn chunk(&self, fun: &str, args: &Json) -> Chunk {
        let args = self.substitute(args);
        let Value::Map(map) = value(&args) else { panic!("arguments are a mapping") };
        let mut map = (*map).clone();
        let name = map.remove("name").unwrap();
        let mut chunk = Chunk::single("file", fun, "", map);
        chunk.name = name.clone();
        chunk.id = zagent_compiler::name_text(&name).into();
        chunk
    }

    /// A look: result, words, changes.
    pub(crate) fn check_chunk(&self, chunk: &Chunk) -> FileTestAnswer {
        match build(chunk).and_then(|mut state| state.preview(&self.scene())) {
            Ok(checked) => self.check_answer(checked),
            Err(failure) => self.error_answer(failure),
        }
    }

    /// A run, as the runner composes it.
    pub fn run_chunk(&self, chunk: &Chunk) -> FileTestAnswer {
        self.run_on(&self.fs, chunk)
    }

    /// The same on other files than those of the disk.
    fn run_on(&self, fs: &dyn FileSystem, chunk: &Chunk) -> FileTestAnswer {
        let ctx = StateCtx { fs, ..self.scene() };
        let mut state = match build(chunk) {
            Ok(state) => state,
            Err(failure) => return self.error_answer(failure),
        };
        match state.check(&ctx) {
            Ok(checked) if checked.verdict == Verdict::InSync => self.check_answer(checked),
            Ok(_) => match state.apply(&ctx) {
                Ok(done) => FileTestAnswer {
                    result: Some(true),
                    comment: self.with_placeholder(&done.comment),
                    changes: self.map(&done.changes),
                },
                Err(failure) => self.error_answer(failure),
            },
            Err(failure) => self.error_answer(failure),
        }
    }

    fn check_answer(&self, checked: CheckResult) -> FileTestAnswer {
        let result = (checked.verdict == Verdict::InSync).then_some(true);
        FileTestAnswer {
            result,
            comment: self.with_placeholder(&checked.comment),
            changes: self.map(&checked.changes),
        }
    }

    fn error_answer(&self, failure: StateError) -> FileTestAnswer {
        let StateError { result: done } = failure;
        FileTestAnswer {
            result: Some(false),
            comment: self.with_placeholder(&done.comment),
            changes: self.map(&done.changes),
        }
    }

    fn map(&self, changes: &Map) -> Json {
        let text = self.with_placeholder(&serde_json::to_string(&Value::from(changes.clone())).unwrap());
        serde_json::from_str(&text).unwrap()
    }

    fn with_placeholder(&self, text: &str) -> String {
        let text = text.replace(self.test_dir().to_str().unwrap(), "$D");
        text.replace(self.cache.to_str().unwrap(), "$C")
    }

    fn substitute(&self, json: &Json) -> Json {
        let text = serde_json::to_string(json).unwrap().replace("$D", self.test_dir().to_str().unwrap());
        serde_json::from_str(&text).unwrap()
    }

    fn prepare(&self, setup: &Json) {
        let d = self.test_dir();
        for op in setup.as_array().unwrap() {
            let text = |i: usize| op[i].as_str().unwrap_or_default();
            let path = d.join(text(1));
            match text(0) {
                "file" => put_file(&path, text(2), if text(3).is_empty() { "0644" } else { text(3) }),
                "dir" => {
                    std::fs::create_dir_all(&path).unwrap();
                    set_mode(&path, if text(2).is_empty() { "0755" } else { text(2) });
                }
                "link" => std::os::unix::fs::symlink(text(2), &path).unwrap(),
                "hard" => std::fs::hard_link(text(2).replace("$D", d.to_str().unwrap()), &path).unwrap(),
                "fifo" => {
                    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
                }
                "own" => {
                    let id = |i: usize| u32::try_from(op[i].as_u64().unwrap()).ok();
                    std::os::unix::fs::lchown(&path, id(2), id(3)).unwrap();
                }
                "time" => {
                    let at = |i: usize| {
                        std::time::UNIX_EPOCH + std::time::Duration::from_secs(op[i].as_u64().unwrap())
                    };
                    let times = std::fs::FileTimes::new().set_accessed(at(2)).set_modified(at(3));
                    std::fs::File::open(&path).unwrap().set_times(times).unwrap();
                }
                other => panic!("unknown {other}"),
            }
        }
    }

    /// All that is in the directory, in words.
    fn leftover_entries(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        let mut todo = vec![self.test_dir()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let found = path.symlink_metadata().unwrap();
                // Salt was run by the superuser; this test runs as any user.
                let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
                let (uid, gid) = (found.uid(), found.gid());
                let owner = if (uid, gid) == own { "0:0".to_owned() } else { format!("{uid}:{gid}") };
                let mode = found.mode() & 0o7777;
                let words = if found.is_symlink() {
                    format!(
                        "link {} {owner}",
                        self.with_placeholder(path.read_link().unwrap().to_str().unwrap())
                    )
                } else if found.is_dir() {
                    todo.push(path.clone());
                    format!("dir {mode:04o} {owner}")
                } else if found.is_file() {
                    let content: String =
                        std::fs::read(&path).unwrap().iter().map(|b| char::from(*b)).collect();
                    format!("file {mode:04o} {owner} {content}")
                } else {
                    format!("node {mode:04o} {owner}")
                };
                out.insert(path.strip_prefix(self.test_dir()).unwrap().to_str().unwrap().to_owned(), words);
            }
        }
        out
    }
}

/// What a state said.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTestAnswer {
    /// Verdict; none for what a dry run would change.
    pub result: Option<bool>,
    /// Its comment.
    pub comment: String,
    /// Its changes.
    pub changes: Json,
}

impl FileTestAnswer {
    fn read(json: &Json) -> Self {
        Self {
            result: json["result"].as_bool(),
            comment: json["comment"].as_str().unwrap_or_default().to_owned(),
            changes: json["changes"].clone(),
        }
    }
}

fn value(json: &Json) -> Value {
    Value::from_json_str(&json.to_string()).unwrap()
}

fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn put_file(path: &Path, content: &str, mode: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, latin1(content)).unwrap();
    set_mode(path, mode);
}

fn set_mode(path: &Path, mode: &str) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(u32::from_str_radix(mode, 8).unwrap())).unwrap();
}
