//! Directories of the state tree in, the entries of a copy out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use zagent_compiler::FileTree;

use crate::file::args::{missing_argument, saltenv};
use crate::file::filter::PathFilter;
use crate::file::sources::{ContentLocation, parse_location};
use crate::{ChunkArgs, StateError};

/// What is copied.
#[derive(Debug)]
pub(crate) struct RecurseSource {
    sources: Vec<String>,
    env: Arc<str>,
    max_depth: Option<usize>,
    include_empty: bool,
    keep_symlinks: bool,
    merge: bool,
}

/// The entries of a copy.
#[derive(Debug, Default)]
pub(crate) struct RecurseTree {
    /// Files, by where they go, and their sources.
    pub files: BTreeMap<PathBuf, String>,
    /// Directories.
    pub dirs: BTreeSet<PathBuf>,
    /// Links, and where they point.
    pub links: BTreeMap<PathBuf, String>,
    empty: BTreeSet<PathBuf>,
}

impl RecurseSource {
    /// Reads `source` and what narrows it.
    ///
    /// # Errors
    /// Fails when one cannot be understood.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let sources = args.texts("source")?.ok_or_else(|| missing_argument(args, "source"))?;
        let sources: Vec<String> = sources.iter().map(|s| s.trim_end_matches('/').to_owned()).collect();
        if let Some(odd) = sources.iter().find(|s| !s.starts_with("salt://")) {
            return Err(StateError::new(format!(
                "Recurse failed: Invalid source '{odd}' (must be a salt:// URI)"
            )));
        }
        Ok(Self {
            sources,
            env: saltenv(args)?,
            max_depth: args.int("maxdepth")?.map(|n| usize::try_from(n).unwrap_or(0)),
            include_empty: args.flag("include_empty", false),
            keep_symlinks: args.flag("keep_symlinks", false),
            merge: args.flag("merge", false),
        })
    }

    /// The entries to copy.
    ///
    /// # Errors
    /// Fails in Salt's words when none of the sources is there.
    pub(crate) fn build_tree(
        &self,
        files: &dyn FileTree,
        path: &Path,
        filter: &PathFilter,
    ) -> Result<RecurseTree, StateError> {
        let failed = |error: String| StateError::new(format!("Recurse failed: {error}"));
        let mut tree = RecurseTree::default();
        let mut is_found = false;
        for source in &self.sources {
            let ContentLocation::Tree(own, dir) = parse_location(source) else { continue };
            let env = own.unwrap_or(&self.env);
            if !dir.is_empty()
                && files.dirs(env).map_err(failed)?.binary_search_by(|d| d.as_str().cmp(dir)).is_err()
            {
                continue;
            }
            is_found = true;
            let root = if dir.is_empty() { String::new() } else { format!("{dir}/") };
            let layer = SourceLayer { files, env, root: &root, path, filter };
            self.add_layer(&mut tree, &layer).map_err(failed)?;
            if !self.merge {
                break;
            }
        }
        if is_found { Ok(tree) } else { Err(failed("none of the specified sources were found".into())) }
    }

    fn add_layer(&self, tree: &mut RecurseTree, layer: &SourceLayer<'_>) -> Result<(), String> {
        let links = if self.keep_symlinks { layer.files.links(layer.env)? } else { [].into() };
        for (link, target) in links.iter() {
            if let Some(to) = self.target(layer, link).filter(|to| !tree.is_taken(to)) {
                tree.links.insert(to, target.clone());
            }
        }
        let is_behind_link = |file: &str| {
            links.iter().any(|(link, _)| {
                file.strip_prefix(link.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'))
            })
        };
        let all = layer.files.list(layer.env)?;
        let from = all.partition_point(|file| file.as_str() < layer.root);
        let mine = all[from..].iter().take_while(|file| file.starts_with(layer.root));
        for file in mine.filter(|file| !is_behind_link(file)) {
            let Some(to) = self.target(layer, file).filter(|to| !tree.is_taken(to)) else { continue };
            tree.dirs.extend(to.parent().map(Path::to_owned));
            tree.files.insert(to, format!("salt://{file}?saltenv={}", layer.env));
        }
        if self.include_empty {
            let dirs = layer.files.dirs(layer.env)?;
            let mine = dirs.iter().filter(|dir| dir.starts_with(layer.root) && !is_behind_link(dir));
            let targets: Vec<PathBuf> = mine.filter_map(|dir| self.target(layer, dir)).collect();
            for to in targets {
                if !tree.is_taken(&to) {
                    tree.empty.insert(to.clone());
                    tree.dirs.insert(to);
                }
            }
        }
        Ok(())
    }

    /// Where an entry of the tree goes; nothing when it is not meant.
    fn target(&self, layer: &SourceLayer<'_>, entry: &str) -> Option<PathBuf> {
        let below = entry.strip_prefix(layer.root)?;
        let is_down = Path::new(below).components().all(|c| matches!(c, Component::Normal(_)));
        let is_near = self.max_depth.is_none_or(|depth| below.matches('/').count() <= depth);
        (is_down && is_near && layer.filter.accepts(below)).then(|| layer.path.join(below))
    }
}

/// One source of a copy.
struct SourceLayer<'l> {
    files: &'l dyn FileTree,
    env: &'l str,
    root: &'l str,
    path: &'l Path,
    filter: &'l PathFilter,
}

impl RecurseTree {
    /// All paths that the copy makes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.files.keys().chain(self.links.keys()).chain(&self.empty).cloned()
    }

    /// True when a source before gives this path, or something that is no directory on the way to it.
    fn is_taken(&self, to: &Path) -> bool {
        self.is_dir(to) || to.ancestors().any(|p| self.files.contains_key(p) || self.links.contains_key(p))
    }

    fn is_dir(&self, to: &Path) -> bool {
        self.dirs.range(to.to_owned()..).next().is_some_and(|dir| dir.starts_with(to))
    }
}
