//! Trees of real repositories, written object by object.

use std::path::Path;

use zagent_cache::testing::{EntryKind, ScratchRepo, TestFile};
use zagent_cache::{CacheLimits, CommitTree, GitRepository, RepositoryError};

fn open(scratch: &ScratchRepo, revision: &str) -> Result<CommitTree, RepositoryError> {
    GitRepository::discover(scratch.path())?.read_tree(revision, CacheLimits::default())
}

fn file<'a>(path: &'a str, text: &'a str) -> TestFile<'a> {
    (path, EntryKind::Blob, text)
}

fn names(tree: &CommitTree) -> Vec<&str> {
    tree.list().collect()
}

#[test]
fn revisions_are_read_without_a_checkout() {
    let mut scratch = ScratchRepo::new();
    let first = scratch.commit(&[file("states/top.sls", "one")]);
    scratch.commit(&[file("states/top.sls", "two"), file("manifest.yaml", "x")]);
    for (revision, want) in
        [("main", "two"), ("main~1", "one"), (first.as_str(), "one"), (&first[..8], "one")]
    {
        let tree = open(&scratch, revision).unwrap();
        assert_eq!(tree.read("states/top.sls").unwrap().unwrap(), want.as_bytes(), "{revision}");
    }
    assert_eq!(open(&scratch, "main").unwrap().read("nope").unwrap(), None);
    assert_eq!(names(&open(&scratch, "main").unwrap()), ["manifest.yaml", "states/top.sls"]);
    for bad in ["nope", "main~9", "", "--all", "main:states"] {
        assert!(matches!(open(&scratch, bad), Err(RepositoryError::Revision { .. })), "{bad:?}");
    }
}

#[test]
fn a_directory_of_the_repository_is_seen_from_there_on() {
    let mut scratch = ScratchRepo::new();
    scratch.commit(&[file("infra/states/top.sls", "in"), file("other", "out")]);
    std::fs::create_dir_all(scratch.path().join("infra/states")).unwrap();
    let repository = GitRepository::discover(&scratch.path().join("infra")).unwrap();
    assert_eq!(repository.prefix(), "infra");
    let tree = repository.read_tree("main", CacheLimits::default()).unwrap();
    assert_eq!(names(&tree), ["states/top.sls"]);
}

#[test]
fn hostile_trees_are_refused_completely() {
    for name in ["..", ".git", ".GIT", "a\nb", "\u{1b}[2J"] {
        let mut scratch = ScratchRepo::new();
        scratch.commit(&[file("good", "x"), file(&format!("dir/{name}"), "x")]);
        assert!(matches!(open(&scratch, "main"), Err(RepositoryError::Name { .. })), "{name:?}");
    }
    for target in ["/etc/passwd", "../../x", ".."] {
        let mut scratch = ScratchRepo::new();
        scratch.commit(&[("dir/link", EntryKind::Link, target), file("good", "x")]);
        let opened = open(&scratch, "main");
        match target {
            ".." => assert!(opened.is_ok(), "it points to the root, which is inside"),
            _ => assert!(matches!(opened, Err(RepositoryError::Link { .. })), "{target}"),
        }
    }
}

#[test]
fn links_are_followed_inside() {
    let mut scratch = ScratchRepo::new();
    scratch.commit(&[
        file("real/a.sls", "a"),
        ("alias", EntryKind::Link, "real"),
        ("deep/b.sls", EntryKind::Link, "../alias/a.sls"),
        ("loop", EntryKind::Link, "loop"),
        ("real/up", EntryKind::Link, "../real"),
        ("dangling", EntryKind::Link, "nowhere"),
    ]);
    let tree = open(&scratch, "main").unwrap();
    assert_eq!(names(&tree), ["alias/a.sls", "deep/b.sls", "real/a.sls"]);
    assert_eq!(tree.read("deep/b.sls").unwrap().unwrap(), b"a");
    assert_eq!(tree.blob_id("alias/a.sls"), tree.blob_id("real/a.sls"));
    assert!(tree.contains("real/a.sls") && !tree.contains("dangling"));
}

#[test]
fn limits_hold() {
    let mut scratch = ScratchRepo::new();
    scratch.commit(&[file("a", "12345"), file("b", ""), file("c/d/e", "")]);
    let repository = GitRepository::discover(scratch.path()).unwrap();
    let open_with = |limits| repository.read_tree("main", limits);
    let tree = open_with(CacheLimits { bytes: 4, ..CacheLimits::default() }).unwrap();
    assert!(matches!(tree.read("a"), Err(RepositoryError::TooLarge { size: 5, limit: 4, .. })));
    assert!(matches!(
        open_with(CacheLimits { files: 1, ..CacheLimits::default() }),
        Err(RepositoryError::TooMany { limit: 1 })
    ));
    assert!(matches!(
        open_with(CacheLimits { depth: 1, ..CacheLimits::default() }),
        Err(RepositoryError::TooDeep { .. })
    ));
}

#[test]
fn a_missing_repository_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(GitRepository::discover(dir.path()), Err(RepositoryError::NoRepository { .. })));
    assert!(matches!(
        GitRepository::discover(Path::new("/nonexistent/x")),
        Err(RepositoryError::Resolve { .. })
    ));
}
