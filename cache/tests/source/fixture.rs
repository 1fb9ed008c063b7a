//! A repository, a server for it, and a store to fetch into.

use std::time::Duration;

use zagent_cache::source::{Client, Deadline, SourceError};
use zagent_cache::testing::{EntryKind, Scratch, Server, source};
use zagent_cache::{Limits, Store};
use zagent_config::ids::Revision;
use zagent_config::settings::Source;

pub(crate) struct Fixture {
    pub(crate) scratch: Scratch,
    pub(crate) server: Server,
    pub(crate) dir: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let server = Server::start(scratch.path().parent().unwrap());
        Self { scratch, server, dir: tempfile::tempdir().unwrap() }
    }

    /// One that has a commit.
    pub(crate) fn with_commit() -> (Self, Revision) {
        let mut fixture = Self::new();
        let revision = fixture.commit("one");
        (fixture, revision)
    }

    /// Commits a few files of which one has this text.
    pub(crate) fn commit(&mut self, text: &str) -> Revision {
        let filler: Vec<(String, String)> =
            (0..40).map(|n| (format!("states/f{n}.sls"), format!("{n} {}", "filler ".repeat(n)))).collect();
        let mut files = vec![("states/top.sls", EntryKind::Blob, text)];
        files.extend(filler.iter().map(|(path, text)| (path.as_str(), EntryKind::Blob, text.as_str())));
        self.scratch.commit(&files).parse().unwrap()
    }

    /// The URL of the repository, served in a way.
    pub(crate) fn url(&self, mode: &str) -> String {
        let name = self.scratch.path().file_name().unwrap().to_str().unwrap();
        let mode = if mode.is_empty() { String::new() } else { format!("{mode}/") };
        self.server.url(&format!("{mode}{name}"))
    }

    pub(crate) fn client(&self, mode: &str) -> Client {
        client(&source(&self.url(mode)))
    }

    pub(crate) fn store(&self, name: &str) -> Store {
        Store::open(self.dir.path().join(name)).unwrap()
    }
}

pub(crate) fn client(source: &Source) -> Client {
    Client::new(&source.remotes[0], source).unwrap()
}

/// Time enough.
pub(crate) fn ample() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

pub(crate) fn head(client: &mut Client) -> Result<Option<Revision>, SourceError> {
    Ok(client.poll(&["main"], ample())?.remove(0))
}

/// The text of the file that commits differ in.
pub(crate) fn top(store: &Store, revision: &Revision) -> String {
    let tree = store.tree(revision, Limits::default()).unwrap();
    assert_eq!(tree.list().count(), 41);
    for path in tree.list() {
        tree.read(path).unwrap().unwrap();
    }
    String::from_utf8(tree.read("states/top.sls").unwrap().unwrap()).unwrap()
}
