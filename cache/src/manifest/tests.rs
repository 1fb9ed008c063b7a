//! Directories to manifests and back.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    files.iter().for_each(|(path, text)| put(dir.path(), path, text));
    dir
}

fn put(dir: &Path, path: &str, text: &str) {
    let full = dir.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, text).unwrap();
}

/// Writes the manifest to disk, as the command does.
fn publish(dir: &Path, options: &ManifestOptions) -> ManifestDraft {
    let written = build(dir, options).unwrap();
    write_atomic(dir, tree::MANIFEST, &written.text).unwrap();
    written
}

fn differences_of(dir: &Path) -> Vec<String> {
    check(dir, CacheLimits::default()).unwrap().1
}

#[test]
fn every_difference_is_reported() {
    let dir = tree(&[("states/top.sls", "base: {}\n"), ("states/a.sls", "a"), ("x", "x"), ("y", "y")]);
    let dir = dir.path();
    put(dir, ".git/config", "not part of it");
    put(dir, "manifest.yaml.sig.alice", "neither");
    let written = publish(dir, &ManifestOptions::default());
    let files = written.new.files.unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["states/a.sls", "states/top.sls", "x", "y"]);
    assert_eq!(files["x"].blake3, blake3::hash(b"x").to_hex().as_str());
    assert!(differences_of(dir).is_empty());

    put(dir, "states/a.sls", "b");
    fs::remove_file(dir.join("x")).unwrap();
    fs::set_permissions(dir.join("y"), fs::Permissions::from_mode(0o755)).unwrap();
    put(dir, "states/new.sls", "");
    assert_eq!(
        differences_of(dir),
        [
            "`states/a.sls` has different content",
            "`x` is missing",
            "`y` has mode 0755, not 0644",
            "`states/new.sls` is not listed",
        ]
    );
}

#[test]
fn the_serial_rises_when_something_changed_and_only_then() {
    let dir = tree(&[("a", "1")]);
    let dir = dir.path();
    put(dir, "manifest.yaml", "# by hand\nschema: 1\nserial: 6\nschedule: ordered\nroots: {states: srv}\n");
    let first = publish(dir, &ManifestOptions::default());
    assert_eq!((first.new.serial, first.is_new), (7, true));
    assert!(first.text.contains("schedule: ordered\n") && first.text.contains("states: "), "{}", first.text);

    // The same meaning in a different notation: nothing to sign again.
    let spelled = format!("# mine\n{}", first.text);
    put(dir, "manifest.yaml", &spelled);
    let second = build(dir, &ManifestOptions::default()).unwrap();
    assert_eq!((second.new.serial, second.is_new, second.text), (7, false, spelled));

    put(dir, "a", "2");
    let third = publish(dir, &ManifestOptions::default());
    assert_eq!((third.new.serial, third.is_new), (8, true));
    let given = publish(dir, &ManifestOptions { serial: Some(20), ..ManifestOptions::default() });
    assert_eq!((given.new.serial, given.is_new), (20, true));
    let lower = build(dir, &ManifestOptions { serial: Some(19), ..ManifestOptions::default() });
    assert!(matches!(lower, Err(ManifestError::Serial { old: 20, new: 19 })));
    let expires = Some(Timestamp::from_second(4_000_000_000).unwrap());
    let later = publish(dir, &ManifestOptions { expires, ..ManifestOptions::default() });
    assert_eq!((later.new.serial, later.new.expires), (21, expires));
    // A value that was given once is kept.
    assert_eq!(build(dir, &ManifestOptions::default()).unwrap().new.expires, expires);
}

#[test]
fn names_and_links_are_checked_as_the_cache_does() {
    for (name, word) in [("a\nb", "control"), ("a\\b", "separator"), ("sub/.git/x", "Git's own")] {
        let dir = tree(&[(name, "")]);
        let error = list_files(dir.path(), CacheLimits::default()).unwrap_err().to_string();
        assert!(error.contains(word), "{name:?}: {error}");
    }
    let dir = tree(&[("real/file", "x"), ("outside/x", "")]);
    let root = dir.path().join("real");
    for (target, fine) in
        [("file", true), ("gone", false), (".", true), ("../outside/x", false), ("/etc/passwd", false)]
    {
        symlink(target, root.join("link")).unwrap();
        let listed = list_files(&root, CacheLimits::default());
        assert_eq!(listed.is_ok(), fine, "{target}: {listed:?}");
        if target == "file" {
            assert_eq!(listed.unwrap()["link"].blake3, blake3::hash(b"x").to_hex().as_str());
        }
        fs::remove_file(root.join("link")).unwrap();
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(matches!(list_files(&root, CacheLimits::default()), Err(ManifestError::Special { .. })));
}

#[test]
fn limits_hold() {
    let dir = tree(&[("a", "12345"), ("b", ""), ("d/e/f", "")]);
    let list = |limits| super::list_files(dir.path(), limits).map(|_| ()).unwrap_err().to_string();
    assert!(list(CacheLimits { files: 2, ..CacheLimits::default() }).contains("more than 2 files"));
    assert!(list(CacheLimits { bytes: 4, ..CacheLimits::default() }).contains("5 bytes"));
    assert!(list(CacheLimits { depth: 1, ..CacheLimits::default() }).contains("deep"));
}

#[test]
fn signatures_are_found_by_name() {
    let dir = tree(&[
        ("manifest.yaml.sig", "1"),
        ("manifest.yaml.sig.bob", "2"),
        ("manifest.yaml.sig-2", "3"),
        ("manifest.yaml.signed", "no"),
        ("manifest.yaml.si", "no"),
        ("sub/manifest.yaml.sig", "no"),
    ]);
    let names: Vec<String> = read_signatures(dir.path()).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["manifest.yaml.sig", "manifest.yaml.sig-2", "manifest.yaml.sig.bob"]);
}

#[test]
fn files_missing_from_git_are_reported() {
    let dir = tree(&[("states/a.sls", ""), ("states/b.sls", ""), ("other/c", "")]);
    let files = list_files(dir.path(), CacheLimits::default()).unwrap();
    assert!(untracked(dir.path(), &files).is_empty(), "no repository");
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).current_dir(dir.path());
        assert!(command.args(args).output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "states/a.sls"]);
    symlink("states", dir.path().join("link")).unwrap();
    let files = list_files(dir.path(), CacheLimits::default()).unwrap();
    assert_eq!(untracked(dir.path(), &files), ["link/b.sls", "other/c", "states/b.sls"]);
    let below = list_files(&dir.path().join("states"), CacheLimits::default()).unwrap();
    assert_eq!(untracked(&dir.path().join("states"), &below), ["b.sls"]);
}
