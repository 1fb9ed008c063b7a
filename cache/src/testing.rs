//! A repository for tests, written object by object: also with names that no honest tool would write.

use std::path::Path;

use gix::objs::tree::Entry;

pub use gix::objs::tree::EntryKind;

/// A file of a commit: path, kind and content.
pub type File<'a> = (&'a str, EntryKind, &'a str);

/// A repository that goes away with this value.
pub struct Scratch {
    dir: tempfile::TempDir,
    repo: gix::Repository,
    last: Option<gix::ObjectId>,
}

impl Scratch {
    /// An empty repository in a new directory.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = gix::init(dir.path()).unwrap();
        Self { dir, repo, last: None }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a tree with exactly these names, hostile ones included.
    fn tree(&self, files: &[File<'_>]) -> gix::ObjectId {
        let mut entries: Vec<Entry> = Vec::new();
        let mut below: Vec<(&str, Vec<File<'_>>)> = Vec::new();
        for (path, kind, text) in files {
            match path.split_once('/') {
                None => {
                    let oid = self.repo.write_blob(text).unwrap().detach();
                    entries.push(Entry { mode: (*kind).into(), filename: (*path).into(), oid });
                }
                Some((dir, rest)) => match below.iter_mut().find(|(name, _)| *name == dir) {
                    Some((_, inner)) => inner.push((rest, *kind, text)),
                    None => below.push((dir, vec![(rest, *kind, text)])),
                },
            }
        }
        for (dir, inner) in below {
            let oid = self.tree(&inner);
            entries.push(Entry { mode: EntryKind::Tree.into(), filename: dir.into(), oid });
        }
        entries.sort();
        self.repo.write_object(gix::objs::Tree { entries }).unwrap().detach()
    }

    /// Commits a tree with exactly these files to `main`; gives the commit's id.
    pub fn commit(&mut self, files: &[File<'_>]) -> String {
        let tree = self.tree(files);
        let who =
            gix::actor::SignatureRef { name: "t".into(), email: "t@example.org".into(), time: "0 +0000" };
        let id = self.repo.commit_as(who, who, "refs/heads/main", "c", tree, self.last).unwrap().detach();
        self.last = Some(id);
        id.to_string()
    }
}
