//! The files of a package in, an answer to each file that the other side asks for beside them: only what a served file names.
//!
//! Law: a resource that lies about what it needs does not get to read the states, or a pillar that lies beside them
//! (held by `only_files_that_served_files_name_are_served`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zagent_compiler::FileTree;

use super::package::PackedFile;
use super::protocol::AgentRequest;

/// The files that the other side has, with what they say.
pub(super) struct ServedFiles<'f> {
    tree: &'f dyn FileTree,
    /// Directory and text of each.
    texts: Vec<(String, String)>,
}

impl<'f> ServedFiles<'f> {
    /// The files of a package.
    pub(super) fn new(files: &[PackedFile], tree: &'f dyn FileTree) -> Self {
        let mut served = Self { tree, texts: Vec::new() };
        for file in files.iter().filter(|file| file.is_file()) {
            if let Ok(Some(content)) = tree.read(&file.env, &file.path) {
                served.add(&file.path, &content);
            }
        }
        served
    }

    fn add(&mut self, path: &str, content: &[u8]) {
        let dir = path.rsplit_once('/').map(|(dir, _)| format!("{dir}/")).unwrap_or_default();
        self.texts.push((dir, String::from_utf8_lossy(content).into_owned()));
    }

    /// True when a served file names this path, from the top of the states or from its own directory.
    fn names(&self, path: &str) -> bool {
        let file = path.rsplit('/').next().unwrap_or(path);
        self.texts.iter().any(|(dir, text)| {
            let from_dir = path.strip_prefix(dir.as_str()).is_some_and(|rest| text.contains(rest));
            text.contains(path) || from_dir || text.contains(&format!("../{file}"))
        })
    }

    /// The answer to a question for a file.
    pub(super) fn answer(&mut self, env: &str, path: &str) -> AgentRequest {
        match self.tree.read(env, path) {
            Ok(Some(_)) if !self.names(path) => {
                let words =
                    format!("no file of the run names `{path}`: write its name out where it is imported");
                AgentRequest::File { content: None, error: Some(words) }
            }
            Ok(content) => {
                if let Some(content) = &content {
                    self.add(path, content);
                }
                let content = content.map(|bytes| BASE64_STANDARD.encode(&bytes));
                AgentRequest::File { content, error: None }
            }
            Err(error) => AgentRequest::File { content: None, error: Some(error) },
        }
    }
}

#[cfg(test)]
mod tests {
    use zagent_states::file_tree::DirFiles;

    use super::*;

    #[test]
    fn only_files_that_served_files_name_are_served() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            (
                "web/motd.j2",
                "{% include 'web/part' %} {% import './lib.jinja' as lib %} {% include '../up' %}",
            ),
            ("web/part", "{% include 'deep/er' %}"),
            ("web/lib.jinja", "x"),
            ("up", "x"),
            ("deep/er", "x"),
            ("pillar/secret.sls", "password: x"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = DirFiles::base(dir.path());
        let file = PackedFile {
            env: "base".into(),
            path: "web/motd.j2".into(),
            digest: "x".into(),
            mode: None,
            link: None,
        };
        let mut served = ServedFiles::new(&[file], &tree);
        let mut ask = |path: &str| match served.answer("base", path) {
            AgentRequest::File { content, error } => (content.is_some(), error.unwrap_or_default()),
            other => panic!("{other:?}"),
        };
        assert!(!ask("deep/er").0, "not named by what was served so far");
        for path in ["web/part", "web/lib.jinja", "up", "deep/er"] {
            assert_eq!(ask(path), (true, String::new()), "{path}");
        }
        assert!(ask("pillar/secret.sls").1.contains("no file of the run names"));
        assert_eq!(ask("nothing/here"), (false, String::new()));
        assert!(!ask("../../etc/passwd").0);
    }
}
