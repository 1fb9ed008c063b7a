//! Several directories per environment in, one tree out, like Salt's file roots: the first directory that has
//! a file wins.

use std::collections::BTreeSet;
use std::sync::Arc;

use zagent_compiler::{FileStamp, FileTree};

use super::SaltRoots;
use zagent_compiler::BASE_ENV;
use zagent_states::file_tree::DirFiles;

/// File roots.
pub(super) struct UnionFiles {
    /// One layer holds at most one directory of each environment.
    layers: Vec<DirFiles>,
    envs: Vec<String>,
}

impl UnionFiles {
    pub(super) fn new(roots: &SaltRoots) -> Self {
        let deepest = roots.iter().map(|(_, dirs)| dirs.len()).max().unwrap_or(0);
        let layer = |n: usize| {
            let with = |files: DirFiles, (env, dirs): &(String, Vec<std::path::PathBuf>)| match dirs.get(n) {
                Some(dir) => files.with_env(env, dir),
                None => files,
            };
            roots.iter().fold(DirFiles::new(), with)
        };
        let mut envs: Vec<String> = roots.iter().map(|(env, _)| env.clone()).collect();
        zagent_config::sorted::sort_by_key(&mut envs, |env| env != BASE_ENV);
        Self { layers: (0..deepest).map(layer).collect(), envs }
    }

    /// The layer that a file comes from.
    fn first_with(&self, env: &str, path: &str) -> Option<&DirFiles> {
        self.layers.iter().find(|layer| layer.has(env, path))
    }

    fn merge_lists<T: Ord + Clone>(
        &self,
        all: impl Fn(&DirFiles) -> Result<Arc<[T]>, String>,
    ) -> Result<Arc<[T]>, String> {
        let mut found = BTreeSet::new();
        for layer in &self.layers {
            found.extend(all(layer)?.iter().cloned());
        }
        Ok(found.into_iter().collect())
    }
}

impl FileTree for UnionFiles {
    fn envs(&self) -> Vec<String> {
        self.envs.clone()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        for layer in &self.layers {
            if let Some(bytes) = layer.read(env, path)? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.first_with(env, path).is_some()
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.merge_lists(|layer| layer.list(env))
    }

    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.merge_lists(|layer| layer.dirs(env))
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        self.merge_lists(|layer| layer.links(env))
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        self.first_with(env, path)?.mode(env, path)
    }

    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        self.first_with(env, path).map_or_else(|| Some(FileStamp::default()), |layer| layer.stamp(env, path))
    }

    fn display(&self, env: &str, path: &str) -> String {
        let layer = self.first_with(env, path).or_else(|| self.layers.first());
        layer.map_or_else(|| path.to_owned(), |layer| layer.display(env, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_has_a_file_wins() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (path, text) in [("a/x", "first"), ("b/x", "second"), ("b/y", "only"), ("dev/z", "dev")] {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), text).unwrap();
        }
        let union = UnionFiles::new(&vec![
            ("dev".into(), vec![at("dev")]),
            (BASE_ENV.into(), vec![at("a"), at("b")]),
        ]);
        assert_eq!(union.envs(), [BASE_ENV, "dev"]);
        assert_eq!(*union.list(BASE_ENV).unwrap(), ["x".to_owned(), "y".to_owned()]);
        assert_eq!(&*union.read(BASE_ENV, "x").unwrap().unwrap(), b"first");
        assert_eq!(&*union.read(BASE_ENV, "y").unwrap().unwrap(), b"only");
        assert!(union.display(BASE_ENV, "y").ends_with("b/y"));
        assert!(!union.has(BASE_ENV, "z") && union.has("dev", "z"));
    }
}
