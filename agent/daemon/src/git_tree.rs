//! Tree of a commit in, one of its directories as a file tree out.

use std::sync::Arc;

use zagent_cache::CommitTree;
use zagent_compiler::FileTree;
use zagent_config::ids::short_revision;

use zagent_compiler::BASE_ENV;

/// Files of a directory of a commit, as `base`.
pub struct GitFiles {
    tree: Arc<CommitTree>,
    /// The directory, empty for the root, otherwise with a final `/`.
    under: String,
    list: Arc<[String]>,
}

impl GitFiles {
    /// The files below `dir` (`states`, or `.` for the root).
    #[must_use]
    pub fn new(tree: Arc<CommitTree>, dir: &str) -> Self {
        let dir = dir.trim_matches('/');
        let under = if dir.is_empty() || dir == "." { String::new() } else { format!("{dir}/") };
        let list = tree.list().filter_map(|path| path.strip_prefix(&under)).map(str::to_owned).collect();
        Self { tree, under, list }
    }
}

impl FileTree for GitFiles {
    fn envs(&self) -> Vec<String> {
        vec![BASE_ENV.into()]
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        if env != BASE_ENV {
            return Ok(None);
        }
        let found = self.tree.read(&format!("{}{path}", self.under));
        found.map(|bytes| bytes.map(Into::into)).map_err(|e| zagent_config::error_chain(&e))
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        Ok(if env == BASE_ENV { Arc::clone(&self.list) } else { Arc::new([]) })
    }

    fn display(&self, _env: &str, path: &str) -> String {
        let commit = self.tree.commit_id();
        format!("{}:{}{path}", short_revision(commit), self.under)
    }
}
