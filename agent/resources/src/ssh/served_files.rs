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
    /// What they say.
    texts: Vec<ServedText>,
}

/// A file that the other side has.
struct ServedText {
    env: String,
    dir: String,
    text: String,
}

impl ServedText {
    /// True when one of its words is this path: from the top of the states, or from its own directory. A word that begins with `/`
    /// may follow a directory above it, as in `tplroot ~ '/map.jinja'`.
    fn names(&self, path: &str) -> bool {
        let file = path.rsplit('/').next().unwrap_or(path);
        let is_path = |word: &str| word.ends_with(file) && self.means(word, path);
        // Names with spaces and the like are words between quotes.
        self.text.split(['\'', '"', '\n']).any(is_path)
            || self.text.split(|c| !is_path_character(c)).any(is_path)
    }

    fn means(&self, word: &str, path: &str) -> bool {
        let word = word.strip_prefix("salt://").unwrap_or(word);
        let mut above = std::iter::successors(Some(&*self.dir), |dir| {
            (!dir.is_empty()).then(|| dir.rsplit_once('/').map_or("", |(above, _)| above))
        });
        match (word.starts_with('/'), word.starts_with("./") || word.starts_with("../")) {
            (true, _) => above.any(|dir| joins_to(dir, word, path)),
            (_, true) => joins_to(&self.dir, word, path),
            _ => joins_to(&self.dir, word, path) || joins_to("", word, path),
        }
    }
}

fn is_path_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | ':')
}

/// True when a word, seen from a directory, is this path; nothing is above the top of the states.
fn joins_to(dir: &str, word: &str, path: &str) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(word.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    parts.into_iter().eq(path.split('/'))
}

impl<'f> ServedFiles<'f> {
    /// The files of a package.
    pub(super) fn new(files: &[PackedFile], tree: &'f dyn FileTree) -> Self {
        let mut served = Self { tree, texts: Vec::new() };
        for file in files.iter().filter(|file| file.is_file()) {
            if let Ok(Some(content)) = tree.read(&file.env, &file.path) {
                served.add(&file.env, &file.path, &content);
            }
        }
        served
    }

    fn add(&mut self, env: &str, path: &str, content: &[u8]) {
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
        self.texts.push(ServedText {
            env: env.to_owned(),
            dir,
            text: String::from_utf8_lossy(content).into_owned(),
        });
    }

    /// True when a served file of the same environment names this path.
    fn names(&self, env: &str, path: &str) -> bool {
        self.texts.iter().any(|served| served.env == env && served.names(path))
    }

    /// The answer to a question for a file.
    pub(super) fn answer(&mut self, env: &str, path: &str) -> AgentRequest {
        match self.tree.read(env, path) {
            Ok(Some(_)) if !self.names(env, path) => {
                let words =
                    format!("no file of the run names `{path}`: write its name out where it is imported");
                AgentRequest::File { content: None, error: Some(words) }
            }
            Ok(content) => {
                if let Some(content) = &content {
                    self.add(env, path, content);
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
                "{% include 'web/part' %} {% import './lib.jinja' as lib %} {% include '../up' %} {% include '../my part' %} {% from tplroot ~ '/sub/map' import x %} abcd",
            ),
            ("web/part", "{% include 'deep/er' %}"),
            ("web/lib.jinja", "x"),
            ("up", "x"),
            ("deep/er", "x"),
            ("my part", "x"),
            ("web/sub/map", "x"),
            ("b", "x"),
            ("art", "x"),
            ("deep/up", "x"),
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
        for path in ["web/part", "web/lib.jinja", "up", "deep/er", "my part", "web/sub/map"] {
            assert_eq!(ask(path), (true, String::new()), "{path}");
        }
        for part_of_a_word in ["b", "art", "deep/up"] {
            assert!(ask(part_of_a_word).1.contains("no file of the run names"), "{part_of_a_word}");
        }
        assert!(ask("pillar/secret.sls").1.contains("no file of the run names"));
        assert_eq!(ask("nothing/here"), (false, String::new()));
        assert!(!ask("../../etc/passwd").0);
        assert!(served.names("base", "web/part") && !served.names("dev", "web/part"), "another environment");
    }
}
