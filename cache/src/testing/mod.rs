//! A repository for tests, written object by object, also with names that no correct tool would write; and the servers
//! that serve it, well-behaved or hostile.

#![expect(clippy::disallowed_methods, reason = "test servers use the machine directly")]

use std::path::Path;

use gix::objs::tree::Entry;

pub use gix::objs::tree::EntryKind;

mod git_server;
mod pack_builder;
mod sshd;

pub use crate::pack::testing::read_pack;
pub use git_server::{GitHttpServer, ServerStream, StreamWrapper};
pub use pack_builder::{PackBuilder, compress, copying_delta, seal_pack};
pub use sshd::Sshd;

/// A commit that nobody judged, for the tests of what happens afterwards.
pub fn judged(revision: &zagent_config::ids::Revision) -> crate::JudgedCommit {
    crate::JudgedCommit::unjudged(revision)
}

/// Skips a test that needs programs which this machine does not have. With `CI` set that is a failure.
#[macro_export]
macro_rules! needs {
    ($($program:literal),+) => {
        if !$crate::testing::has(&[$($program),+]) {
            return;
        }
    };
}

/// True when all programs are installed; with `CI` set, a missing one is a failure.
#[must_use]
pub fn has(programs: &[&str]) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = std::env::split_paths(&places).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let is_missing = |program: &&&str| !places.iter().any(|dir| dir.join(program).is_file());
    let Some(missing) = programs.iter().find(is_missing) else { return true };
    assert!(std::env::var_os("CI").is_none(), "this suite needs `{missing}`");
    #[expect(clippy::print_stderr, reason = "the person who runs the tests must see that one did not run")]
    {
        eprintln!("not run: `{missing}` is not installed on this machine");
    }
    false
}

/// The settings of a source that has one remote.
#[must_use]
pub fn test_source(url: &str) -> zagent_config::settings::SourceSettings {
    use std::time::Duration;
    let remote = zagent_config::settings::RemoteSettings {
        url: url.into(),
        branch: "main".into(),
        user: None,
        token_file: None,
        credential_helper: None,
        key: None,
        known_hosts: None,
        ca: None,
        proxy: None,
    };
    zagent_config::settings::SourceSettings {
        remotes: vec![remote],
        poll: Duration::from_secs(60),
        timeout: Duration::from_secs(60),
        keep: 3,
        testing: true,
        verify_every: Duration::from_secs(86_400),
        max_pack: 64 << 20,
        max_file: 16 << 20,
        max_files: 10_000,
    }
}

/// Reads the branch `main` of a repository with the Git library alone, without zagent code; returns the number of
/// answers.
#[must_use]
pub fn ls_refs(path: &str) -> usize {
    use gix::progress::Discard;
    use gix_transport::client::blocking_io::connect;
    let url = gix::url::parse(path).unwrap();
    let options = connect::Options { version: gix_transport::Protocol::V2, ..Default::default() };
    let mut transport = connect::connect(url, options).unwrap();
    let service = gix_transport::Service::UploadPack;
    let handshake =
        gix_protocol::handshake(&mut transport, service, |_| Ok(None), vec![], &mut Discard).unwrap();
    let mut prefixes = gix_protocol::ls_refs::RefPrefixes::new();
    prefixes.extend(["refs/heads/main".into()]);
    let agent = ("agent", Some("git/x".into()));
    let command = gix_protocol::LsRefsCommand::new(Some(prefixes), &handshake.capabilities, agent);
    let refs = command.invoke_blocking(&mut transport, &mut Discard, false).unwrap();
    let _ = gix_protocol::indicate_end_of_interaction(&mut transport, false);
    refs.len()
}

/// A file of a commit: path, kind and content.
pub type TestFile<'a> = (&'a str, EntryKind, &'a str);

/// A repository that is removed with this value.
pub struct ScratchRepo {
    dir: tempfile::TempDir,
    repo: gix::Repository,
    last: Option<gix::ObjectId>,
}

impl ScratchRepo {
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

    /// Writes a tree with exactly these names, including hostile ones.
    fn tree(&self, files: &[TestFile<'_>]) -> gix::ObjectId {
        let mut entries: Vec<Entry> = Vec::new();
        let mut below: Vec<(&str, Vec<TestFile<'_>>)> = Vec::new();
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

    /// Writes a file; returns the id of its content, in binary.
    #[must_use]
    pub fn write_blob(&self, bytes: &[u8]) -> Vec<u8> {
        self.repo.write_blob(bytes).unwrap().detach().as_bytes().to_vec()
    }

    /// Writes a directory from the raw bytes of its object; returns its id, in binary.
    #[must_use]
    pub fn write_tree(&self, bytes: &[u8]) -> Vec<u8> {
        let id = gix::objs::Write::write_buf(&self.repo.objects, gix::object::Kind::Tree, bytes).unwrap();
        id.as_bytes().to_vec()
    }

    /// Commits a directory by its id, on top of the last commit.
    pub fn commit_directory(&mut self, id: &[u8]) -> String {
        self.commit_tree(gix::ObjectId::try_from(id).unwrap(), 0)
    }

    /// Forgets the last commit: the next one has no parent, as after a rewrite of history.
    pub fn start_orphan(&mut self) {
        self.last = None;
        if let Ok(main) = self.repo.find_reference("refs/heads/main") {
            main.delete().unwrap();
        }
    }

    /// Points a branch at a commit.
    pub fn set_branch(&self, name: &str, commit: &str) {
        let id = gix::ObjectId::from_hex(commit.as_bytes()).unwrap();
        let any = gix::refs::transaction::PreviousValue::Any;
        self.repo.reference(format!("refs/heads/{name}"), id, any, "test").unwrap();
    }

    /// Commits a tree with exactly these files to `main`; returns the commit id.
    pub fn commit(&mut self, files: &[TestFile<'_>]) -> String {
        self.commit_at(files, 0)
    }

    /// The same, made at a time in seconds.
    pub fn commit_at(&mut self, files: &[TestFile<'_>], seconds: u32) -> String {
        let tree = self.tree(files);
        self.commit_tree(tree, seconds)
    }

    /// Makes this commit the parent of the next one.
    pub fn checkout(&mut self, commit: &str) {
        self.start_orphan();
        self.last = Some(gix::ObjectId::from_hex(commit.as_bytes()).unwrap());
    }

    fn commit_tree(&mut self, tree: gix::ObjectId, seconds: u32) -> String {
        let time = format!("{seconds} +0000");
        let who = gix::actor::SignatureRef { name: "t".into(), email: "t@example.org".into(), time: &time };
        let id = match self.repo.find_reference("refs/heads/main") {
            Ok(_) => self.repo.commit_as(who, who, "refs/heads/main", "c", tree, self.last).unwrap().detach(),
            // The first one, or one without a parent.
            Err(_) => {
                let id = self.repo.new_commit_as(who, who, "c", tree, self.last).unwrap().id;
                self.repo
                    .reference("refs/heads/main", id, gix::refs::transaction::PreviousValue::Any, "c")
                    .unwrap();
                id
            }
        };
        self.last = Some(id);
        id.to_string()
    }
}
