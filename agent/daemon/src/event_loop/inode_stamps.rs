//! Files that the daemon has read in, whether one of them was replaced out.
//!
//! Law: it only stats a few files and opens none. Each of these files is replaced, never written in place (held by
//! `a_created_removed_or_replaced_file_is_detected`).

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use zagent_config::paths::Paths;

/// Identity of a file: its inode and its modification time.
type InodeStamp = Option<(u64, i64, i64)>;

/// Stamps of all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InodeStamps {
    pub memory: InodeStamp,
    others: [InodeStamp; 8],
}

impl InodeStamps {
    /// Reads the current stamps.
    pub(crate) fn read(paths: &Paths) -> Self {
        let others = [
            paths.current(),
            paths.pause(),
            paths.pin(),
            paths.quarantine(),
            paths.rollout_states(),
            paths.key(),
            paths.floor(),
            paths.floor_copy(),
        ];
        Self { memory: inode_stamp(paths.memory()), others: others.map(inode_stamp) }
    }
}

fn inode_stamp(path: PathBuf) -> InodeStamp {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_removed_or_replaced_file_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let none = InodeStamps::read(&paths);
        let damageable = [paths.key(), paths.floor(), paths.floor_copy()];
        let others = [paths.pause(), paths.pin(), paths.quarantine(), paths.rollout_states()].into_iter();
        let others = others.chain(damageable);
        for path in [paths.memory(), paths.current()].into_iter().chain(others) {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let before = InodeStamps::read(&paths);
            std::fs::write(&path, "a").unwrap();
            let there = InodeStamps::read(&paths);
            assert_ne!(there, before, "{}", path.display());
            assert_eq!(there, InodeStamps::read(&paths));
            let new = dir.path().join("new");
            std::fs::write(&new, "a").unwrap();
            std::fs::rename(&new, &path).unwrap();
            assert_ne!(InodeStamps::read(&paths), there, "{}", path.display());
            std::fs::remove_file(&path).unwrap();
            assert_eq!(InodeStamps::read(&paths), none, "{}", path.display());
        }
    }
}
