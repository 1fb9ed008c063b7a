//! The files that the daemon read in, what tells whether one of them is another by now out.
//!
//! Law: a few looks at directory entries; nothing is opened. Each of these files is replaced, never written in place.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use zagent_config::paths::Paths;

/// Which file it is: its inode, and when it was written.
type InodeStamp = Option<(u64, i64, i64)>;

/// The marks of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeStamps {
    pub memory: InodeStamp,
    others: [InodeStamp; 5],
}

impl InodeStamps {
    /// The files as they are now.
    pub fn read(paths: &Paths) -> Self {
        let others =
            [paths.current(), paths.pause(), paths.pin(), paths.quarantine(), paths.rollout_states()];
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
    fn a_file_that_came_went_or_was_replaced_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let none = InodeStamps::read(&paths);
        let others = [paths.pause(), paths.pin(), paths.quarantine(), paths.rollout_states()];
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
