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
        let (all, dirs) = (layer.files.list(layer.env)?, layer.files.dirs(layer.env)?);
        let from = all.partition_point(|file| file.as_str() < layer.root);
        let mine = all[from..].iter().take_while(|file| file.starts_with(layer.root));
        let every_link = layer.files.links(layer.env)?;
        let links = if self.keep_symlinks { Arc::clone(&every_link) } else { [].into() };
        let mut ignored = BTreeSet::new();
        for (link, target) in links.iter() {
            let Some(to) = self.target(layer, link).filter(|to| !tree.is_taken(to)) else { continue };
            let below = format!("{link}/");
            let was_dir = mine.clone().any(|file| file.starts_with(&below));
            let end = normalized(&to.parent().unwrap_or(layer.path).join(target));
            // A link whose target another source made something else is not kept.
            if was_dir && tree.files.contains_key(&end) {
                ignored.insert(to);
            } else if was_dir || !tree.dirs.contains(&end) {
                tree.links.insert(to, target.clone());
            }
        }
        let is_behind_link = |file: &str| {
            links.iter().any(|(link, _)| {
                file.strip_prefix(link.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'))
            })
        };
        // A link that leads nowhere, or out of the tree, is not dropped: reading it fails and says why.
        let lost = every_link.iter().map(|(link, _)| link).filter(|link| {
            link.starts_with(layer.root)
                && all.binary_search(link).is_err()
                && dirs.binary_search(link).is_err()
        });
        for file in mine.chain(lost).filter(|file| !is_behind_link(file)) {
            let Some(to) = self.target(layer, file).filter(|to| !tree.is_taken(to)) else { continue };
            tree.dirs.extend(to.parent().map(Path::to_owned));
            tree.files.insert(to, format!("salt://{file}?saltenv={}", layer.env));
        }
        if self.include_empty {
            let mine = dirs.iter().filter(|dir| dir.starts_with(layer.root) && !is_behind_link(dir));
            let targets: Vec<PathBuf> = mine.filter_map(|dir| self.target(layer, dir)).collect();
            for to in targets.into_iter().filter(|to| !ignored.contains(to)) {
                if !tree.is_taken(&to) {
                    tree.empty.insert(to.clone());
                    tree.dirs.insert(to);
                }
            }
        } else if self.keep_symlinks {
            drop_links_to_empty_dirs(tree, layer, &dirs);
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

/// Removes links to directories of the source that hold nothing and so are not copied; then links to those.
fn drop_links_to_empty_dirs(tree: &mut RecurseTree, layer: &SourceLayer<'_>, dirs: &[String]) {
    loop {
        let is_idle = |target: &String| {
            let of_tree = normalized(&Path::new(layer.root).join(target));
            let end = normalized(&layer.path.join(target));
            let is_dir =
                of_tree.to_str().is_some_and(|d| dirs.binary_search_by(|x| x.as_str().cmp(d)).is_ok());
            is_dir && !tree.files.contains_key(&end) && !tree.links.contains_key(&end) && !tree.is_dir(&end)
        };
        let idle: Vec<PathBuf> =
            tree.links.iter().filter(|(_, target)| is_idle(target)).map(|(link, _)| link.clone()).collect();
        if idle.is_empty() {
            return;
        }
        idle.iter().for_each(|link| _ = tree.links.remove(link));
    }
}

/// A path without `.` and `..`, as it is written: links are not followed.
fn normalized(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut at, part| {
        match part {
            Component::ParentDir => _ = at.pop(),
            Component::CurDir => {}
            other => at.push(other),
        }
        at
    })
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::file_tree::DirFiles;
    use crate::testing::chunk;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a/f", "a/sub/s", "b/inner", "b/f2", "b/dlink/q", "c/f/x", "c/sub"] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        std::fs::create_dir(dir.path().join("a/empty")).unwrap();
        for (link, target) in [
            ("dangling", "nowhere"),
            ("outward", "/proc/version"),
            ("inner", "f"),
            ("dlink", "sub"),
            ("elink", "empty"),
            ("elink2", "elink"),
        ] {
            symlink(target, dir.path().join("a").join(link)).unwrap();
        }
        dir
    }

    /// What a copy makes: files, links with `>`, and empty directories with `/`.
    fn entries(dir: &Path, args: &str) -> String {
        let chunk = chunk("file.recurse", "/t", args);
        let args = ChunkArgs::new(&chunk);
        let filter = PathFilter::read(&args).unwrap();
        let files = DirFiles::base(dir);
        let tree = RecurseSource::read(&args).unwrap().build_tree(&files, Path::new("/t"), &filter).unwrap();
        let shown = |path: &Path| path.strip_prefix("/t").unwrap().display().to_string();
        let mut all: Vec<String> = tree.files.keys().map(|path| shown(path)).collect();
        all.extend(tree.links.iter().map(|(path, target)| format!("{}>{target}", shown(path))));
        all.extend(tree.empty.iter().map(|path| format!("{}/", shown(path))));
        all.sort();
        all.join(" ")
    }

    /// As Salt 3008.3 copies them, except `outward`: Salt follows it out of the tree and copies what is there.
    #[test]
    fn links_are_kept_where_they_still_mean_something() {
        let dir = tree();
        for (args, want) in [
            (r#""source": "salt://a""#, "dangling>nowhere dlink>sub f inner>f outward>/proc/version sub/s"),
            (
                r#""source": "salt://a", "include_empty": true"#,
                "dangling>nowhere dlink>sub elink2>elink elink>empty empty/ f inner>f outward>/proc/version sub/s",
            ),
            (
                r#""source": ["salt://c", "salt://a"], "merge": true"#,
                "dangling>nowhere f/x outward>/proc/version sub",
            ),
            (
                r#""source": ["salt://c", "salt://a"], "merge": true, "include_empty": true"#,
                "dangling>nowhere elink2>elink elink>empty empty/ f/x outward>/proc/version sub",
            ),
            (
                r#""source": ["salt://b", "salt://a"], "merge": true"#,
                "dangling>nowhere dlink/q f f2 inner outward>/proc/version sub/s",
            ),
        ] {
            assert_eq!(entries(dir.path(), &format!(r#"{{{args}, "keep_symlinks": true}}"#)), want, "{args}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_not_dropped() {
        let dir = tree();
        let found = entries(dir.path(), r#"{"source": "salt://a"}"#);
        assert_eq!(found, "dangling dlink/s f inner outward sub/s");
    }
}
