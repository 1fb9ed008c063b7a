//! The entries of a tree in, one listing out: what is where, and where its symlinks point.
//!
//! Law: each name appears once, counts and depths are limited, and every symlink ends inside the tree. Symlinks are
//! followed as the kernel does it, component by component: a symlink with a harmless text may still leave the tree
//! through another symlink. The work is limited too, so that a few entries cannot stand for a million (held by
//! `links_end_where_the_kernel_ends`, `a_few_links_cannot_expand_to_a_million_files`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::RepositoryError;
use zagent_config::sorted::CollectSorted;

/// Maximum number of symlinks on the way to one file, as in the kernel.
const MAX_HOPS: usize = 40;
/// Maximum number of steps to follow all symlinks of one tree.
const MAX_STEPS: u64 = 4_000_000;

/// The limits for one tree.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Number of files, links included; the same limit applies to directories.
    pub files: usize,
    /// Bytes per file.
    pub bytes: u64,
    /// Bytes of all files together.
    pub total: u64,
    /// Depth of nested directories.
    pub depth: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { files: 100_000, bytes: 64 << 20, total: 4 << 30, depth: 64 }
    }
}

/// An entry.
#[derive(Clone, Debug)]
pub(crate) enum ListingEntry<F> {
    /// A file, and its metadata.
    File(F),
    /// A directory.
    Dir,
    /// A symlink, with its target as written.
    Link(String),
}

/// All entries, by their paths from the root.
pub(crate) struct TreeListing<F> {
    nodes: BTreeMap<String, ListingEntry<F>>,
    limits: CacheLimits,
    files: usize,
    dirs: usize,
    has_links: bool,
    steps: AtomicU64,
}

/// Where a path ends.
#[derive(Debug, PartialEq, Eq)]
enum LinkEnd {
    /// At this place in the tree, whether it exists or not.
    Inside(String),
    /// Outside the tree.
    Outside,
    /// In a loop, or after more symlinks than the kernel follows.
    Loop,
}

impl<F> TreeListing<F> {
    pub(crate) fn new(limits: CacheLimits) -> Self {
        Self { nodes: BTreeMap::new(), limits, files: 0, dirs: 0, has_links: false, steps: AtomicU64::new(0) }
    }

    pub(crate) fn limits(&self) -> CacheLimits {
        self.limits
    }

    /// Every entry, sorted by path: a directory comes before its entries.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &ListingEntry<F>)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// True when there is a symlink.
    pub(crate) const fn has_links(&self) -> bool {
        self.has_links
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, path: String, node: ListingEntry<F>) -> Result<(), RepositoryError> {
        let count = if matches!(node, ListingEntry::Dir) { &mut self.dirs } else { &mut self.files };
        *count += 1;
        self.has_links |= matches!(node, ListingEntry::Link(_));
        if *count > self.limits.files {
            return Err(RepositoryError::TooMany { limit: self.limits.files });
        }
        if path.matches('/').count() > self.limits.depth {
            return Err(RepositoryError::TooDeep { path, limit: self.limits.depth });
        }
        match self.nodes.entry(path) {
            std::collections::btree_map::Entry::Occupied(entry) => {
                Err(RepositoryError::Duplicate { path: entry.key().clone() })
            }
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(node);
                Ok(())
            }
        }
    }

    /// Refuses the tree when one of its symlinks leaves it.
    pub(crate) fn check_links(&self) -> Result<(), RepositoryError> {
        for (path, node) in &self.nodes {
            if let ListingEntry::Link(target) = node
                && self.resolve_path(path)? == LinkEnd::Outside
            {
                return Err(RepositoryError::Link { path: path.clone(), target: target.clone() });
            }
        }
        Ok(())
    }

    /// Symlinks that point neither to a file nor to a directory.
    pub(crate) fn broken_links(&self) -> Result<Vec<String>, RepositoryError> {
        let mut idle = Vec::new();
        for (path, node) in &self.nodes {
            if matches!(node, ListingEntry::Link(_)) {
                match self.resolve_path(path)? {
                    LinkEnd::Inside(end) if end.is_empty() || self.nodes.contains_key(&end) => {}
                    _ => idle.push(path.clone()),
                }
            }
        }
        Ok(idle)
    }

    /// Groups of names in one directory that differ only in case.
    pub(crate) fn case_collisions(&self) -> Vec<(&str, &str)> {
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        let mut found = Vec::new();
        let has_case = |path: &String| path.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
        if !self.nodes.keys().any(has_case) {
            return found;
        }
        for path in self.nodes.keys() {
            if let Some(first) = seen.insert(path.to_lowercase(), path) {
                found.push((first, path.as_str()));
            }
        }
        found
    }

    /// All files below `prefix`, with symlinks followed, and their real paths; a symlink that points to nothing is not
    /// a file.
    pub(crate) fn files_below(
        &self,
        prefix: &str,
    ) -> Result<BTreeMap<String, (String, &F)>, RepositoryError> {
        if !self.has_links {
            return Ok(self.plain_files_below(prefix));
        }
        let mut found = BTreeMap::new();
        self.collect_files(prefix, "", &mut Vec::new(), &mut found)?;
        Ok(found)
    }

    /// The same when there are no symlinks: every path is where it seems to be.
    pub(crate) fn plain_files_below(&self, prefix: &str) -> BTreeMap<String, (String, &F)> {
        let below = self.nodes.iter().filter_map(|(path, node)| match (path.strip_prefix(prefix), node) {
            (Some(rest), ListingEntry::File(file)) if prefix.is_empty() => Some((rest, (path, file))),
            (Some(rest), ListingEntry::File(file)) => Some((rest.strip_prefix('/')?, (path, file))),
            _ => None,
        });
        below.map(|(shown, (path, file))| (shown.to_owned(), (path.clone(), file))).into_map()
    }

    fn collect_files<'s>(
        &'s self,
        real: &str,
        shown: &str,
        open: &mut Vec<String>,
        found: &mut BTreeMap<String, (String, &'s F)>,
    ) -> Result<(), RepositoryError> {
        if open.iter().any(|dir| dir == real) || open.len() > self.limits.depth {
            return Ok(());
        }
        open.push(real.to_owned());
        for (path, name) in self.children(real) {
            self.count_step(path)?;
            let shown = join_path(shown, name);
            let LinkEnd::Inside(end) = self.resolve_path(path)? else {
                continue;
            };
            match self.nodes.get(&end) {
                Some(ListingEntry::File(file)) => {
                    if found.len() >= self.limits.files {
                        return Err(RepositoryError::TooMany { limit: self.limits.files });
                    }
                    found.insert(shown, (end, file));
                }
                Some(ListingEntry::Dir) => self.collect_files(&end, &shown, open, found)?,
                None if end.is_empty() => self.collect_files(&end, &shown, open, found)?,
                Some(ListingEntry::Link(_)) | None => {}
            }
        }
        open.pop();
        Ok(())
    }

    /// The entries of a directory: full path and name. Deeper entries are skipped, not read.
    fn children(&self, dir: &str) -> Vec<(&str, &str)> {
        let start = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let mut found = Vec::new();
        let mut from = Bound::Included(start.clone());
        while let Some((path, _)) = self.nodes.range((from.clone(), Bound::Unbounded)).next() {
            let Some(rest) = path.strip_prefix(&start) else {
                break;
            };
            from = match rest.split_once('/') {
                // `0` is the character after `/`.
                Some((name, _)) => Bound::Included(format!("{start}{name}0")),
                None => {
                    found.push((path.as_str(), rest));
                    Bound::Excluded(path.clone())
                }
            };
        }
        found
    }

    fn count_step(&self, path: &str) -> Result<(), RepositoryError> {
        if self.steps.fetch_add(1, Ordering::Relaxed) >= MAX_STEPS {
            Err(RepositoryError::LinkLoop { path: path.into() })
        } else {
            Ok(())
        }
    }

    /// Where a path ends when every symlink on the way is followed, including the last one.
    fn resolve_path(&self, path: &str) -> Result<LinkEnd, RepositoryError> {
        let mut todo: Vec<&str> = path.rsplit('/').collect();
        let mut at = String::new();
        let mut hops = 0;
        while let Some(part) = todo.pop() {
            self.count_step(path)?;
            match part {
                "" | "." => {}
                ".." if at.is_empty() => return Ok(LinkEnd::Outside),
                ".." => at.truncate(at.rfind('/').unwrap_or(0)),
                name => {
                    let back = at.len();
                    if back > 0 {
                        at.push('/');
                    }
                    at.push_str(name);
                    if let Some(ListingEntry::Link(target)) = self.nodes.get(&at) {
                        hops += 1;
                        if target.starts_with('/') {
                            return Ok(LinkEnd::Outside);
                        }
                        if hops > MAX_HOPS {
                            return Ok(LinkEnd::Loop);
                        }
                        at.truncate(back);
                        todo.extend(target.rsplit('/'));
                    }
                }
            }
        }
        Ok(LinkEnd::Inside(at))
    }
}

/// A name below a directory; the root is empty.
pub(crate) fn join_path(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(links: &[(&str, &str)]) -> TreeListing<()> {
        let mut shape = TreeListing::new(CacheLimits::default());
        for dir in ["p", "p/q"] {
            shape.add(dir.into(), ListingEntry::Dir).unwrap();
        }
        for (path, target) in links {
            shape.add((*path).into(), ListingEntry::Link((*target).into())).unwrap();
        }
        shape
    }

    #[test]
    fn links_end_where_the_kernel_ends() {
        for (links, want) in [
            (&[("p/b", "c")][..], LinkEnd::Inside("p/c".into())),
            (&[("p/b", "../c")], LinkEnd::Inside("c".into())),
            (&[("p/b", "./c//d/")], LinkEnd::Inside("p/c/d".into())),
            (&[("p/b", "x/../../y")], LinkEnd::Inside("y".into())),
            (&[("p/b", "..")], LinkEnd::Inside(String::new())),
            (&[("p/b", "../..")], LinkEnd::Outside),
            (&[("b", "..")], LinkEnd::Outside),
            (&[("b", "/etc/passwd")], LinkEnd::Outside),
            // By its text `p/q/l` stays at `p/q/etc`; through the symlink it leaves the tree.
            (&[("p/q/l", "c/../etc"), ("p/q/c", "../..")], LinkEnd::Outside),
            (&[("l", "m"), ("m", "p/n"), ("p/n", "../../x")], LinkEnd::Outside),
            (&[("l", "l")], LinkEnd::Loop),
            (&[("l", "m"), ("m", "l")], LinkEnd::Loop),
        ] {
            assert_eq!(shape(links).resolve_path(links[0].0).unwrap(), want, "{links:?}");
        }
    }

    #[test]
    fn a_few_links_cannot_expand_to_a_million_files() {
        let mut shape: TreeListing<()> = TreeListing::new(CacheLimits::default());
        for n in 0..40 {
            shape.add(format!("d{n}"), ListingEntry::Dir).unwrap();
            for name in ["x", "y"] {
                shape.add(format!("d{n}/{name}"), ListingEntry::Link(format!("../d{}", n + 1))).unwrap();
            }
        }
        shape.check_links().unwrap();
        assert!(matches!(shape.files_below(""), Err(RepositoryError::LinkLoop { .. })));
    }

    #[test]
    fn children_skip_deeper_entries() {
        let mut shape = TreeListing::new(CacheLimits::default());
        for path in ["a", "a-b", "a0"] {
            shape
                .add(path.into(), if path == "a" { ListingEntry::Dir } else { ListingEntry::File(()) })
                .unwrap();
        }
        shape.add("a/x".into(), ListingEntry::Dir).unwrap();
        shape.add("a/x/y".into(), ListingEntry::File(())).unwrap();
        let names = |dir| shape.children(dir).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(""), ["a", "a-b", "a0"]);
        assert_eq!(names("a"), ["x"]);
        assert_eq!(shape.files_below("a").unwrap().into_keys().collect::<Vec<_>>(), ["x/y"]);
    }
}
