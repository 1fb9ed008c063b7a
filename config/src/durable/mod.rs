//! Files, directories and names in, the same on the disk out: what must survive a power cut.
//!
//! Law: zagent's own durable files are synced only through this module. Each call promises no more than its name
//! says, so that a test can leave out any of them, cut the power and see what is lost ([`testing`]) (held by
//! `every_sync_of_an_atomic_file_is_needed`, `every_sync_of_a_state_file_is_needed`).

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::disallowed_methods, reason = "a test rewrites the disk as a power cut leaves it")]
#[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot do that has failed")]
pub mod testing;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// What a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// The content of one file, but not its name.
    File,
    /// The names in one directory.
    Dir,
    /// Everything below one directory, but not the name of that directory.
    Below,
}

/// Makes the content of a file durable; its name is not, see [`sync_dir`].
///
/// # Errors
/// Fails when the file cannot be synced.
pub fn sync_file(file: &File, path: &Path) -> io::Result<()> {
    observed(SyncKind::File, path, Some(file), || file.sync_all())
}

/// Makes the names in a directory durable.
///
/// # Errors
/// Fails when the directory cannot be opened or synced.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    observed(SyncKind::Dir, path, None, || File::open(path)?.sync_all())
}

/// Makes the names in the directory of a file durable.
///
/// # Errors
/// Fails when the directory cannot be opened or synced.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    sync_dir(parent.unwrap_or(Path::new(".")))
}

/// Makes everything below a directory durable, with one call for the whole file system: for two thousand files this is
/// a hundred times faster than to sync each file.
///
/// # Errors
/// Fails when the directory cannot be opened or synced.
pub fn sync_below(path: &Path) -> io::Result<()> {
    observed(SyncKind::Below, path, None, || Ok(rustix::fs::syncfs(File::open(path)?)?))
}

/// Creates a directory and its missing parents; their names are durable when it returns.
///
/// # Errors
/// Fails when a directory cannot be created or synced.
pub fn create_dirs(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        create_dirs(parent, mode)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        // Another process created it at the same moment, and may not have synced it yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        created => created?,
    }
    sync_parent(path)
}

#[cfg(any(test, feature = "testing"))]
fn observed(
    kind: SyncKind,
    path: &Path,
    file: Option<&File>,
    sync: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    testing::observe(kind, path, file, sync)
}

#[cfg(not(any(test, feature = "testing")))]
#[inline]
fn observed(
    _: SyncKind,
    _: &Path,
    _: Option<&File>,
    sync: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    sync()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::testing::{Journal, Loss, check_cuts, check_syncs};
    use super::*;
    use crate::atomic_file::AtomicFile;
    use crate::json_file;

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        (dir, root)
    }

    fn expect(path: &Path, text: &str) -> Result<(), String> {
        match std::fs::read_to_string(path) {
            Ok(found) if found == text => Ok(()),
            found => Err(format!("{found:?} instead of {text:?}")),
        }
    }

    #[test]
    fn what_is_not_synced_is_lost() {
        let (_dir, root) = scratch();
        std::fs::write(root.join("old"), "old").unwrap();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/kept"), "1").unwrap();
        let make = |journal: &Journal| {
            std::fs::write(root.join("old"), "changed").unwrap();
            std::fs::rename(root.join("d/kept"), root.join("d/moved")).unwrap();
            let mut named = File::create(root.join("d/named")).unwrap();
            named.write_all(b"text").unwrap();
            sync_dir(&root.join("d")).unwrap();
            File::create(root.join("lost")).unwrap().write_all(b"x").unwrap();
            assert_eq!(journal.points(), ["dir d"]);
        };
        let journal = Journal::start(&root);
        make(&journal);
        journal.power_cut(Loss::All);
        expect(&root.join("old"), "old").unwrap();
        expect(&root.join("d/moved"), "1").unwrap();
        expect(&root.join("d/named"), "").unwrap();
        assert!(!root.join("d/kept").exists() && !root.join("lost").exists());
        std::fs::rename(root.join("d/moved"), root.join("d/kept")).unwrap();
        let journal = Journal::start(&root);
        make(&journal);
        journal.power_cut(Loss::Content);
        expect(&root.join("lost"), "").unwrap();
        expect(&root.join("old"), "old").unwrap();
    }

    #[test]
    fn a_deleted_file_does_not_lend_its_inode() {
        let (_dir, root) = scratch();
        std::fs::write(root.join("a"), "first").unwrap();
        let journal = Journal::start(&root);
        std::fs::remove_file(root.join("a")).unwrap();
        let other = AtomicFile::durable(0o600);
        other.write(&root.join("b"), b"second").unwrap();
        std::fs::write(root.join("a"), "third").unwrap();
        journal.power_cut(Loss::All);
        expect(&root.join("b"), "second").unwrap();
        assert!(!root.join("a").exists(), "its removal was synced with the name of the other");
    }

    #[test]
    fn every_sync_of_an_atomic_file_is_needed() {
        let points = check_syncs(
            || {
                let (dir, root) = scratch();
                std::fs::write(root.join("a"), "old").unwrap();
                ((dir, root.clone()), root)
            },
            |(_, root)| AtomicFile::durable(0o600).single_writer().write(&root.join("a"), b"new"),
            |(_, root)| expect(&root.join("a"), "new"),
        );
        assert_eq!(points, ["file a.new", "dir ."]);
    }

    #[test]
    fn every_sync_of_a_state_file_is_needed() {
        let path = |root: &Path| root.join("state/deep/thing");
        let points = check_syncs(
            || {
                let (dir, root) = scratch();
                ((dir, root.clone()), root)
            },
            |(_, root)| json_file::write(&path(root), &7),
            |(_, root)| match json_file::read::<u32>(&path(root)) {
                Ok(Some(7)) => Ok(()),
                other => Err(format!("{other:?}")),
            },
        );
        assert_eq!(points, ["dir .", "dir state", "file state/deep/thing.new", "dir state/deep"]);
        let points = check_syncs(
            || {
                let (dir, root) = scratch();
                json_file::write(&path(&root), &7).unwrap();
                ((dir, root.clone()), root)
            },
            |(_, root)| json_file::remove(&path(root)),
            |(_, root)| if path(root).exists() { Err("it is back".into()) } else { Ok(()) },
        );
        assert_eq!(points, ["dir state/deep"]);
    }

    #[test]
    fn a_cut_at_any_moment_leaves_the_old_or_the_new_file() {
        let setup = || {
            let (dir, root) = scratch();
            std::fs::write(root.join("a"), "old").unwrap();
            ((dir, root.clone()), root)
        };
        let act = |(_, root): &(tempfile::TempDir, PathBuf)| {
            AtomicFile::durable(0o600).write(&root.join("a"), b"new")
        };
        let cuts = check_cuts(setup, act, |(_, root)| {
            expect(&root.join("a"), "old").or_else(|_| expect(&root.join("a"), "new"))
        });
        assert!(cuts > 0);
    }
}
