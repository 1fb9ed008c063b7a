//! Hostile trees: none is published, the last good one stays, and the error names the cause.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its trees has failed")]

use std::os::unix::fs::symlink;

use crate::site::{self, CacheSite, file};
use zagent_cache::testing::ScratchRepo;
use zagent_cache::{CacheError, GitRepository, Refusal};

/// An entry, written exactly as given.
enum RawTreeEntry {
    /// Mode, name and content.
    Blob(&'static str, Vec<u8>, Vec<u8>),
    /// Name and entries.
    Dir(Vec<u8>, Vec<Self>),
    /// Mode, name and an id that may not exist.
    Id(&'static str, Vec<u8>, [u8; 20]),
}

fn write_raw_tree(scratch: &ScratchRepo, entries: &[RawTreeEntry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        let (mode, name, id) = match entry {
            RawTreeEntry::Blob(mode, name, text) => (*mode, name, scratch.write_blob(text)),
            RawTreeEntry::Dir(name, inner) => ("40000", name, write_raw_tree(scratch, inner)),
            RawTreeEntry::Id(mode, name, id) => (*mode, name, id.to_vec()),
        };
        bytes.extend_from_slice(mode.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(&id);
    }
    scratch.write_tree(&bytes)
}

fn plain(name: impl AsRef<[u8]>) -> RawTreeEntry {
    RawTreeEntry::Blob("100644", name.as_ref().to_vec(), b"x".to_vec())
}

fn link(name: &str, target: impl AsRef<[u8]>) -> RawTreeEntry {
    RawTreeEntry::Blob("120000", name.into(), target.as_ref().to_vec())
}

fn dir(name: &str, inner: Vec<RawTreeEntry>) -> RawTreeEntry {
    RawTreeEntry::Dir(name.into(), inner)
}

/// A directory in a directory, nested this many times.
fn nested(depth: usize) -> RawTreeEntry {
    (0..depth).fold(plain("f"), |inner, _| dir("d", vec![inner]))
}

/// Ten names for one directory, which again has ten names for one, and so on: few objects, many files.
fn bomb(scratch: &ScratchRepo, width: usize, depth: usize, core: Vec<RawTreeEntry>) -> Vec<u8> {
    let mut id: [u8; 20] = write_raw_tree(scratch, &core).try_into().unwrap();
    for _ in 0..depth {
        let entries: Vec<RawTreeEntry> =
            (0..width).map(|n| RawTreeEntry::Id("40000", format!("d{n}").into(), id)).collect();
        id = write_raw_tree(scratch, &entries).try_into().unwrap();
    }
    id.to_vec()
}

/// Names that no tree may contain.
fn names() -> Vec<Vec<u8>> {
    let texts = [
        ".",
        "..",
        ".git",
        ".GIT",
        ".Git",
        ".gIt",
        ".git.",
        ".git...",
        ".git ",
        ".git. .",
        "git~1",
        "GIT~1",
        "git~2",
        ".git::$INDEX_ALLOCATION",
        ".git:x",
        ".g\u{200c}it",
        "\u{200d}.git",
        ".git\u{feff}",
        ".\u{200b}git",
        ".gi\u{2060}t",
        ".g\u{ad}it",
        "a\\b",
        "..\\..\\etc",
        "C:\\x",
        "a\nb",
        "a\rb",
        "a\tb",
        "\u{1b}[2J",
        "\u{7f}",
        "\u{9b}31m",
        "x\u{202e}sls",
        "\u{2066}x",
        "a/b",
        "../x",
        "/etc/passwd",
        "/",
    ];
    let mut names: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    names.extend([Vec::new(), b"\xff\xfe".to_vec(), b"\xc0\xaf".to_vec(), vec![b'x'; 256], vec![b'x'; 5000]]);
    names
}

/// Trees by what they attempt, and the code of the cause.
fn trees() -> Vec<(&'static str, Vec<RawTreeEntry>, &'static str)> {
    let long = || (0..5).fold(plain("f"), |inner, _| RawTreeEntry::Dir(vec![b'd'; 250], vec![inner]));
    vec![
        ("link to a root file", vec![link("l", "/etc/passwd")], "link"),
        ("link to the root", vec![link("l", "/")], "link"),
        ("link above", vec![link("l", "..")], "link"),
        ("link far above", vec![link("l", "../../../../etc/shadow")], "link"),
        ("link from below", vec![dir("a", vec![link("l", "../../x")])], "link"),
        ("link down and up", vec![link("l", "a/../../x"), dir("a", vec![plain("f")])], "link"),
        (
            "chain of links",
            vec![link("a", "b"), link("b", "d/c"), dir("d", vec![link("c", "../../x")])],
            "link",
        ),
        (
            "harmless by its text",
            vec![dir("p", vec![dir("q", vec![link("c", "../.."), link("l", "c/../etc/passwd")])])],
            "link",
        ),
        ("link to the manifest's place", vec![link("manifest.yaml", "other"), plain("other")], "link"),
        ("link as a signature", vec![link("manifest.yaml.sig", "other"), plain("other")], "link"),
        ("empty link", vec![link("l", "")], "link"),
        ("link with a zero", vec![link("l", b"a\0b")], "link"),
        ("link with a line break", vec![link("l", "a\nb")], "link"),
        ("link that is no text", vec![link("l", b"\xff\xfe")], "link"),
        ("link with a backslash", vec![link("l", "..\\x")], "link"),
        ("long link", vec![link("l", "a/".repeat(600))], "link"),
        ("huge link", vec![link("l", "a/".repeat(60_000))], "too-large"),
        ("same file twice", vec![plain("a"), plain("a")], "duplicate"),
        ("file and directory", vec![plain("a"), dir("a", vec![plain("b")])], "duplicate"),
        (
            "link and directory",
            vec![link("a", "b"), dir("a", vec![plain("f")]), dir("b", vec![plain("g")])],
            "duplicate",
        ),
        ("link and file", vec![link("a", "b"), plain("a"), plain("b")], "duplicate"),
        ("twice below", vec![dir("d", vec![plain("a"), plain("b"), plain("a")])], "duplicate"),
        (
            "large file",
            vec![RawTreeEntry::Blob("100644", b"f".to_vec(), vec![0; (64 << 10) + 1])],
            "too-large",
        ),
        (
            "large together",
            (0..70)
                .map(|n| RawTreeEntry::Blob("100644", format!("f{n:02}").into(), vec![n; 64 << 10]))
                .collect(),
            "too-much",
        ),
        ("many files", (0..3001).map(|n| plain(format!("f{n:04}"))).collect(), "too-many"),
        ("deep", vec![nested(70)], "too-deep"),
        ("very deep", vec![nested(500)], "too-deep"),
        ("long path", vec![long()], "name"),
        ("submodule", vec![plain("f"), RawTreeEntry::Id("160000", b"sub".to_vec(), [7; 20])], "submodule"),
        ("nothing", vec![], "empty"),
        ("only directories", vec![dir("a", vec![dir("b", vec![])])], "empty"),
        ("pipe", vec![plain("a"), RawTreeEntry::Blob("10644", b"p".to_vec(), b"".to_vec())], "special"),
        ("device", vec![RawTreeEntry::Blob("20666", b"null".to_vec(), b"".to_vec())], "special"),
        ("block device", vec![RawTreeEntry::Blob("60660", b"sda".to_vec(), b"".to_vec())], "special"),
        ("socket", vec![RawTreeEntry::Blob("140777", b"s".to_vec(), b"".to_vec())], "repository"),
        ("missing file", vec![RawTreeEntry::Id("100644", b"f".to_vec(), [9; 20])], "repository"),
        ("missing directory", vec![RawTreeEntry::Id("40000", b"d".to_vec(), [9; 20])], "repository"),
    ]
}

fn code(error: &CacheError) -> &'static str {
    match error {
        CacheError::Refused(refusal) => refusal.code(),
        CacheError::Repository(_) => "repository",
        error => panic!("{error}"),
    }
}

struct HostileTreeTest {
    site: CacheSite,
    scratch: ScratchRepo,
    good: String,
    count: usize,
}

impl HostileTreeTest {
    fn new() -> Self {
        let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
        let first = scratch.commit(&[file("states/top.sls", "good")]);
        let good = site.publish(scratch.path(), &first).unwrap().name().to_owned();
        Self { site, scratch, good, count: 0 }
    }

    /// A commit of this tree is refused for this cause, and nothing has changed.
    fn assert_refused(&mut self, what: &str, tree: &[u8], want: &[&str]) {
        let commit = self.scratch.commit_directory(tree);
        let taken = self.site.publish(self.scratch.path(), &commit);
        let error = taken.map(|g| g.name().to_owned()).expect_err(what);
        assert!(want.contains(&code(&error)), "{what}: {} ({error})", code(&error));
        self.assert_unchanged(what);
    }

    fn assert_unchanged(&mut self, what: &str) {
        assert_eq!(self.site.current().name(), self.good, "{what}");
        assert_eq!((self.site.staged_count(), self.site.generations().len()), (0, 1), "{what}");
        self.count += 1;
    }
}

#[test]
fn no_hostile_tree_is_published() {
    let mut trial = HostileTreeTest::new();
    for name in names() {
        for nested in [false, true] {
            let bad = vec![plain("good"), plain(&name)];
            let entries = if nested { vec![dir("states", bad)] } else { bad };
            let tree = write_raw_tree(&trial.scratch, &entries);
            trial.assert_refused(
                &format!("{:?}", String::from_utf8_lossy(&name)),
                &tree,
                &["name", "repository"],
            );
        }
    }
    for (what, entries, want) in trees() {
        let tree = write_raw_tree(&trial.scratch, &entries);
        trial.assert_refused(what, &tree, &[want]);
    }
    for (what, core, want) in
        [("bomb of files", vec![plain("f")], "too-many"), ("bomb of directories", vec![], "too-many")]
    {
        let tree = bomb(&trial.scratch, 10, 10, core);
        trial.assert_refused(what, &tree, &[want]);
    }
    let tangle: Vec<RawTreeEntry> = (0..40)
        .map(|n| dir(&format!("d{n}"), ["x", "y"].map(|name| link(name, format!("../d{}", n + 1))).into()))
        .collect();
    let tree = write_raw_tree(&trial.scratch, &tangle);
    trial.assert_refused("symlink loops", &tree, &["link"]);
    for garbage in [
        b"".as_slice(),
        b"100644",
        b"100644 a",
        b"100644 a\0short",
        &[0xff; 64],
        b"999999999 a\0aaaaaaaaaaaaaaaaaaaa",
    ] {
        let tree = trial.scratch.write_tree(garbage);
        trial.assert_refused(&format!("{garbage:?}"), &tree, &["repository", "empty", "special"]);
    }
    assert!(trial.count >= 60, "{} trees", trial.count);
}

#[test]
fn no_hostile_directory_is_published() {
    let mut trial = HostileTreeTest::new();
    let refuse = |trial: &mut HostileTreeTest, what: &str, want: &str, make: &dyn Fn(&std::path::Path)| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("good"), "x").unwrap();
        make(dir.path());
        let error = trial.site.cache.stage_dir(dir.path()).map(|s| s.revision().to_owned()).expect_err(what);
        assert_eq!(code(&error), want, "{what}: {error}");
        trial.assert_unchanged(what);
    };
    let fifo = |dir: &std::path::Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    };
    refuse(&mut trial, "pipe", "special", &fifo);
    refuse(&mut trial, "socket", "special", &|dir| {
        std::os::unix::net::UnixListener::bind(dir.join("s")).unwrap();
    });
    refuse(&mut trial, "link out", "link", &|dir| symlink("/etc", dir.join("l")).unwrap());
    refuse(&mut trial, "link up", "link", &|dir| symlink("../x", dir.join("l")).unwrap());
    refuse(&mut trial, "control", "name", &|dir| std::fs::write(dir.join("a\nb"), "x").unwrap());
    refuse(&mut trial, ".GIT", "name", &|dir| std::fs::create_dir(dir.join(".GIT")).unwrap());
    refuse(&mut trial, "large", "too-large", &|dir| std::fs::write(dir.join("l"), vec![0; 70_000]).unwrap());
    refuse(&mut trial, "many", "too-many", &|dir| {
        (0..3001).for_each(|n| std::fs::write(dir.join(n.to_string()), "").unwrap());
    });
}

#[test]
fn valid_trees_with_unusual_files_are_published() {
    let (site, scratch) = (CacheSite::new(), ScratchRepo::new());
    let entries = [
        dir(".github", vec![plain("x")]),
        plain(".gitignore"),
        link("alias", "real"),
        link("idle", "nowhere"),
        link("loop", "loop"),
        dir(
            "real",
            vec![
                RawTreeEntry::Blob("100755", b"run".to_vec(), b"#!".to_vec()),
                link("up", ".."),
                plain("ünï cödé"),
            ],
        ),
    ];
    let tree = write_raw_tree(&scratch, &entries);
    let mut scratch = scratch;
    let commit = scratch.commit_directory(&tree);
    let generation = site.publish(scratch.path(), &commit).unwrap();
    let read = |path: &str| std::fs::read_to_string(generation.tree_dir().join(path)).unwrap();
    assert_eq!((read("alias/run"), read("real/up/alias/ünï cödé")), ("#!".into(), "x".into()));
    let mode = |path: &str| generation.record().files[path].mode;
    assert_eq!((mode("real/run"), mode(".gitignore"), mode("idle")), (0o100_700, 0o100_600, 0o120_777));
    assert_eq!(site.current().name(), generation.name());
}

#[test]
fn a_damaged_object_is_refused() {
    let mut trial = HostileTreeTest::new();
    let commit = trial.scratch.commit(&[file("states/top.sls", "tampered with later")]);
    let id = GitRepository::discover(trial.scratch.path())
        .and_then(|r| r.read_tree(&commit, site::limits()))
        .unwrap()
        .blob_id("states/top.sls")
        .unwrap();
    let other = trial.scratch.write_blob(b"something else entirely");
    let hex: String = other.iter().map(|b| format!("{b:02x}")).collect();
    let place = |id: &str| trial.scratch.path().join(".git/objects").join(&id[..2]).join(&id[2..]);
    std::fs::remove_file(place(&id)).unwrap();
    std::fs::copy(place(&hex), place(&id)).unwrap();
    let error = trial.site.publish(trial.scratch.path(), &commit).map(|g| g.name().to_owned()).unwrap_err();
    assert!(matches!(error, CacheError::Repository(_)), "{error}");
    trial.assert_unchanged("another object under its id");
    assert_eq!(code(&Refusal::Unlisted.into()), "unlisted");
}
