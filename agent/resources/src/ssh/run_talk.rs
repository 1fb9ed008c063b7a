//! What the other side says during one run in, answers and bounded outcomes out.
//!
//! Law: it gets the files of its package once and no others, and what it tells is kept up to a limit
//! (held by `a_run_gets_its_files_once`, `a_large_report_loses_its_details_and_not_its_states`).

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use zagent_compiler::FileTree;

use super::package::RunPackage;
use super::protocol::AgentRequest;
use super::served_files::ServedFiles;
use super::session::SessionError;

/// How many files of the states one run may ask for beside those of its package.
const MAX_READS: usize = 10_000;

/// One run, as this side has heard of it so far.
pub(super) struct RunTalk<'r> {
    package: &'r RunPackage,
    files: &'r dyn FileTree,
    served: Option<ServedFiles<'r>>,
    reads: usize,
    has_needed: bool,
    max_output: usize,
    /// Bytes of all outcomes.
    told: usize,
}

impl<'r> RunTalk<'r> {
    pub(super) fn new(package: &'r RunPackage, files: &'r dyn FileTree, max_output: usize) -> Self {
        Self { package, files, served: None, reads: 0, has_needed: false, max_output, told: 0 }
    }

    /// The files of the package that the other side does not have. It asks once, and cannot ask for others.
    pub(super) fn needed_files(&mut self, digests: &[String]) -> Result<AgentRequest, SessionError> {
        if std::mem::replace(&mut self.has_needed, true) {
            return Err(SessionError("it asks for the files of its plan twice".into()));
        }
        let files = self.package.files.iter().filter(|file| file.is_file());
        let mut known: BTreeMap<&str, (&str, &str)> =
            files.map(|file| (&*file.digest, (&*file.env, &*file.path))).collect();
        let content = |digest: &String| {
            let foreign =
                || SessionError("it asks for a file that the plan does not name, or for one twice".into());
            let (env, path) = known.remove(digest.as_str()).ok_or_else(foreign)?;
            let content = self.files.read(env, path).map_err(SessionError)?;
            let content = content.ok_or_else(|| SessionError(format!("`{path}` is gone from the states")))?;
            Ok(BASE64_STANDARD.encode(&content))
        };
        Ok(AgentRequest::Files {
            contents: digests.iter().map(content).collect::<Result<_, SessionError>>()?,
        })
    }

    /// The answer to a question for a file beside those of the package.
    pub(super) fn read_file(&mut self, env: &str, path: &str) -> Result<AgentRequest, SessionError> {
        self.reads += 1;
        if self.reads > MAX_READS {
            return Err(SessionError(format!("it asks for more than {MAX_READS} files")));
        }
        let (package, files) = (self.package, self.files);
        Ok(self.served.get_or_insert_with(|| ServedFiles::new(&package.files, files)).answer(env, path))
    }

    /// An outcome; without its details when all of them together are too large.
    pub(super) fn bound_outcome(
        &mut self,
        mut outcome: serde_json::Value,
    ) -> Result<serde_json::Value, SessionError> {
        let size = |outcome: &serde_json::Value| serde_json::to_vec(outcome).map_or(0, |bytes| bytes.len());
        let whole = size(&outcome);
        if self.told.saturating_add(whole) <= self.max_output {
            self.told += whole;
            return Ok(outcome);
        }
        if let Some(state) = outcome.get_mut("state").and_then(serde_json::Value::as_object_mut) {
            state.remove("diff");
            state.remove("details");
            if state.contains_key("changes") {
                state.insert(
                    "changes".into(),
                    json!({"left out": "the report is larger than `resources.max_output`"}),
                );
            }
        }
        self.told = self.told.saturating_add(size(&outcome));
        // As much again for what remains of them.
        if self.told > self.max_output.saturating_mul(2) {
            return Err(SessionError("its report is too large: raise `resources.max_output`".into()));
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use zagent_compiler::Plan;
    use zagent_config::Map;
    use zagent_states::file_tree::DirFiles;

    use super::super::package::PackedFile;
    use super::*;

    fn package() -> RunPackage {
        let digest = blake3::hash(b"here").to_hex().to_string();
        let file = PackedFile { env: "base".into(), path: "a".into(), digest, mode: None, link: None };
        RunPackage { plan: Plan::default(), about: Map::new(), files: vec![file] }
    }

    fn words<T>(result: Result<T, SessionError>) -> String {
        result.err().map(|error| error.0).unwrap_or_default()
    }

    #[test]
    fn a_run_gets_its_files_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "here").unwrap();
        let (tree, package) = (DirFiles::base(dir.path()), package());
        let digest = package.files[0].digest.clone();
        let talk = || RunTalk::new(&package, &tree, 1000);
        let mut once = talk();
        assert!(once.needed_files(std::slice::from_ref(&digest)).is_ok());
        assert!(words(once.needed_files(std::slice::from_ref(&digest))).contains("twice"));
        assert!(words(talk().needed_files(&[digest.clone(), digest])).contains("one twice"));
        assert!(words(talk().needed_files(&[String::new()])).contains("does not name"));
    }

    #[test]
    fn a_large_report_loses_its_details_and_not_its_states() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, package) = (DirFiles::base(dir.path()), package());
        let mut talk = RunTalk::new(&package, &tree, 1000);
        let outcome = || json!({"state": {"tag": "x", "diff": "d".repeat(700), "changes": {"a": 1}}});
        assert_eq!(talk.bound_outcome(outcome()).ok(), Some(outcome()));
        let second = talk.bound_outcome(outcome()).ok().unwrap();
        assert_eq!((&second["state"]["tag"], &second["state"]["diff"]), (&json!("x"), &json!(null)));
        assert!(second["state"]["changes"].to_string().contains("resources.max_output"));
        let end = (0..1000).find_map(|_| talk.bound_outcome(outcome()).err()).map(|error| error.0);
        assert!(end.is_some_and(|words| words.contains("resources.max_output")));
    }
}
