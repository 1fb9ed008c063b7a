//! A repository, a server for it, and a store to fetch into.

use std::time::Duration;

use zagent_cache::source::{Deadline, RemoteClient, SourceError};
use zagent_cache::testing::{EntryKind, GitHttpServer, ScratchRepo, test_source};
use zagent_cache::{CacheLimits, ObjectStore};
use zagent_config::ids::Revision;
use zagent_config::settings::SourceSettings;

pub(crate) struct RemoteFixture {
    pub(crate) scratch: ScratchRepo,
    pub(crate) server: GitHttpServer,
    pub(crate) dir: tempfile::TempDir,
}

impl RemoteFixture {
    pub(crate) fn new() -> Self {
        let scratch = ScratchRepo::new();
        let server = GitHttpServer::start(scratch.path().parent().unwrap());
        Self { scratch, server, dir: tempfile::tempdir().unwrap() }
    }

    /// One that has a commit.
    pub(crate) fn with_commit() -> (Self, Revision) {
        let mut fixture = Self::new();
        let revision = fixture.commit("one");
        (fixture, revision)
    }

    /// Commits a few files, one of them with this text.
    pub(crate) fn commit(&mut self, text: &str) -> Revision {
        let filler: Vec<(String, String)> =
            (0..40).map(|n| (format!("states/f{n}.sls"), format!("{n} {}", "filler ".repeat(n)))).collect();
        let mut files = vec![("states/top.sls", EntryKind::Blob, text)];
        files.extend(filler.iter().map(|(path, text)| (path.as_str(), EntryKind::Blob, text.as_str())));
        self.scratch.commit(&files).parse().unwrap()
    }

    /// The URL of the repository, served with a given behaviour.
    pub(crate) fn url(&self, mode: &str) -> String {
        let name = self.scratch.path().file_name().unwrap().to_str().unwrap();
        let mode = if mode.is_empty() { String::new() } else { format!("{mode}/") };
        self.server.url(&format!("{mode}{name}"))
    }

    pub(crate) fn client(&self, mode: &str) -> RemoteClient {
        client(&test_source(&self.url(mode)))
    }

    pub(crate) fn store(&self, name: &str) -> ObjectStore {
        ObjectStore::open(self.dir.path().join(name)).unwrap()
    }
}

pub(crate) fn client(source: &SourceSettings) -> RemoteClient {
    RemoteClient::new(&source.remotes[0], source).unwrap()
}

/// Enough time.
pub(crate) fn long_deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

pub(crate) fn head(client: &mut RemoteClient) -> Result<Option<Revision>, SourceError> {
    Ok(client.poll(&["main"], long_deadline())?.remove(0))
}

/// The text of the file that differs between commits.
pub(crate) fn read_top(store: &ObjectStore, revision: &Revision) -> String {
    let tree = store.read_tree(revision, CacheLimits::default()).unwrap();
    assert_eq!(tree.list().count(), 41);
    for path in tree.list() {
        tree.read(path).unwrap().unwrap();
    }
    String::from_utf8(tree.read("states/top.sls").unwrap().unwrap()).unwrap()
}
