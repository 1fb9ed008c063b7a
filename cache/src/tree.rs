//! A revision in, its files out: names at once, bytes when asked for.
//!
//! Law: every name was judged, every link was resolved inside the tree, and bytes that do not hash to the id that the
//! tree gives them are never handed out.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::{Error, name};

/// What one tree may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files, links included.
    pub files: usize,
    /// Bytes of one file.
    pub bytes: u64,
    /// Nested directories.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 100_000, bytes: 64 << 20, depth: 64 }
    }
}

/// The files of one commit.
pub struct Tree {
    repo: gix::ThreadSafeRepository,
    commit: String,
    files: BTreeMap<String, ObjectId>,
    limits: Limits,
}

impl Tree {
    pub(crate) fn open(
        repo: &gix::ThreadSafeRepository,
        revision: &str,
        prefix: &str,
        limits: Limits,
    ) -> Result<Self, Error> {
        let local = repo.to_thread_local();
        let unknown = |source| Error::Revision { revision: revision.into(), source: Box::new(source) };
        let id = local.rev_parse_single(revision).map_err(unknown)?;
        let commit = id.object().map_err(unknown)?.peel_to_commit().map_err(unknown)?;
        let commit_id = commit.id().to_string();
        let root = commit.tree_id().map_err(unknown)?.detach();
        let mut raw = Raw { repo: &local, commit: &commit_id, limits, nodes: BTreeMap::new() };
        raw.walk(root, "", 0)?;
        let files = raw.files(prefix)?;
        Ok(Self { repo: repo.clone(), commit: commit_id, files, limits })
    }

    /// The full id of the commit.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Every file, sorted by path.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// True when a file by that path is there.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// The id of a file's content: equal ids, equal bytes.
    #[must_use]
    pub fn id(&self, path: &str) -> Option<String> {
        self.files.get(path).map(ToString::to_string)
    }

    /// The bytes of a file; `None` when there is none by that path.
    ///
    /// # Errors
    /// Fails when the object is missing, damaged or too large.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(id) = self.files.get(path) else {
            return Ok(None);
        };
        blob(&self.repo.to_thread_local(), *id, path, &self.commit, self.limits.bytes).map(Some)
    }
}

/// The bytes of an object, checked against its id.
fn blob(
    repo: &gix::Repository,
    id: ObjectId,
    path: &str,
    commit: &str,
    limit: u64,
) -> Result<Vec<u8>, Error> {
    let broken =
        |source| Error::Object { path: path.into(), commit: commit.into(), source: Box::new(source) };
    let size = repo.find_header(id).map_err(broken)?.size();
    if size > limit {
        return Err(Error::TooLarge { path: path.into(), size, limit });
    }
    let object = repo.find_object(id).map_err(broken)?.detach();
    let hash = gix::objs::compute_hash(id.kind(), object.kind, &object.data)
        .map_err(|source| broken(gix::Error::from_error(source)))?;
    if hash == id { Ok(object.data) } else { Err(Error::Damaged { path: path.into(), id: id.to_string() }) }
}

/// An entry as the tree has it.
enum Node {
    File(ObjectId),
    Dir,
    Link(String),
}

/// The whole tree as it stands, links not yet followed.
struct Raw<'r> {
    repo: &'r gix::Repository,
    commit: &'r str,
    limits: Limits,
    nodes: BTreeMap<String, Node>,
}

impl Raw<'_> {
    fn walk(&mut self, id: ObjectId, dir: &str, depth: usize) -> Result<(), Error> {
        if depth > self.limits.depth {
            return Err(Error::TooDeep { path: dir.into(), limit: self.limits.depth });
        }
        let broken =
            |source| Error::Object { path: dir.into(), commit: self.commit.into(), source: Box::new(source) };
        let tree = self.repo.find_object(id).map_err(broken)?.peel_to_tree().map_err(broken)?;
        let mut entries = Vec::new();
        for entry in tree.iter() {
            let entry = entry.map_err(broken)?;
            entries.push((name::component(entry.filename(), dir)?, entry.mode().kind(), entry.object_id()));
        }
        for (name, kind, id) in entries {
            let path = join(dir, &name);
            match kind {
                EntryKind::Tree => {
                    self.nodes.insert(path.clone(), Node::Dir);
                    self.walk(id, &path, depth + 1)?;
                }
                EntryKind::Blob | EntryKind::BlobExecutable => self.note(path, Node::File(id))?,
                EntryKind::Link => {
                    let target = self.link(&path, id)?;
                    self.note(path, Node::Link(target))?;
                }
                // A submodule holds no file of this repository.
                EntryKind::Commit => {}
            }
        }
        Ok(())
    }

    fn note(&mut self, path: String, node: Node) -> Result<(), Error> {
        if self.nodes.len() >= self.limits.files {
            return Err(Error::TooMany { limit: self.limits.files });
        }
        self.nodes.insert(path, node);
        Ok(())
    }

    /// Where a link leads, from the root.
    fn link(&self, path: &str, id: ObjectId) -> Result<String, Error> {
        let raw = blob(self.repo, id, path, self.commit, 4096)?;
        let target = String::from_utf8_lossy(&raw).into_owned();
        let leaves = || Error::Link { path: path.into(), target: target.clone() };
        name::follow(path, &target).ok_or_else(leaves)
    }

    /// All files below `prefix`, links followed; a link that leads nowhere is no file.
    fn files(&self, prefix: &str) -> Result<BTreeMap<String, ObjectId>, Error> {
        let mut found = BTreeMap::new();
        self.visit(prefix, "", &mut Vec::new(), &mut found)?;
        Ok(found)
    }

    fn visit(
        &self,
        real: &str,
        shown: &str,
        open: &mut Vec<String>,
        found: &mut BTreeMap<String, ObjectId>,
    ) -> Result<(), Error> {
        if open.iter().any(|d| d == real) || open.len() > self.limits.depth {
            return Ok(());
        }
        open.push(real.to_owned());
        for (path, name) in self.children(real) {
            let shown = join(shown, name);
            match self.resolve(path) {
                Some((_, Node::File(id))) => {
                    if found.len() >= self.limits.files {
                        return Err(Error::TooMany { limit: self.limits.files });
                    }
                    found.insert(shown, *id);
                }
                Some((dir, Node::Dir)) => self.visit(&dir, &shown, open, found)?,
                _ => {}
            }
        }
        open.pop();
        Ok(())
    }

    /// The entries of a directory: full path and name.
    fn children<'t>(&'t self, dir: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
        let start = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let cut = start.len();
        let range = self
            .nodes
            .range::<str, _>((std::ops::Bound::Included(start.as_str()), std::ops::Bound::Unbounded));
        let paths: Vec<&str> =
            range.map(|(path, _)| path.as_str()).take_while(|path| path.starts_with(&start)).collect();
        paths.into_iter().filter(move |path| !path[cut..].contains('/')).map(move |path| (path, &path[cut..]))
    }

    /// The entry that a path leads to, links in any component followed.
    fn resolve(&self, path: &str) -> Option<(String, &Node)> {
        let mut path = path.to_owned();
        for _ in 0..40 {
            match self.first_link(&path) {
                Some((link, target)) => {
                    let rest = path[link.len()..].trim_start_matches('/');
                    path = join(target, rest);
                }
                None if path.is_empty() => return Some((path, &Node::Dir)),
                None => return self.nodes.get(&path).map(|node| (path.clone(), node)),
            }
        }
        None
    }

    fn first_link<'p>(&self, path: &'p str) -> Option<(&'p str, &str)> {
        let ends = path.match_indices('/').map(|(i, _)| i).chain([path.len()]);
        ends.map(|end| &path[..end]).find_map(|head| match self.nodes.get(head) {
            Some(Node::Link(target)) => Some((head, target.as_str())),
            _ => None,
        })
    }
}

fn join(dir: &str, name: &str) -> String {
    match (dir.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => dir.to_owned(),
        _ => format!("{dir}/{name}"),
    }
}
