//! A path in, free space of its file system out.

use std::io;
use std::path::Path;

use crate::settings::format_size;

/// Bytes that this process may still write on the file system of a path, which need not exist yet.
///
/// # Errors
/// Fails when the file system does not answer.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let there = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A size for people: `12MiB`, `700KiB`.
#[must_use]
pub fn readable_size(bytes: u64) -> String {
    let unit = match bytes {
        0..1024 => 0,
        1024..0x10_0000 => 10,
        0x10_0000..0x2_8000_0000 => 20,
        _ => 30,
    };
    format_size(bytes >> unit << unit)
}

/// True when an error means that nothing more can be written: no space, or no quota.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// True when a message names a full disk or a used-up quota as its cause: saved reasons are texts.
#[must_use]
pub fn says_full(message: &str) -> bool {
    ["No space left on device", "Disk quota exceeded", "are free for"]
        .iter()
        .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_has_the_space_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b/c");
        assert!(free_bytes(&below).unwrap() > 0);
        assert!(!below.exists());
        assert!(is_full(&io::Error::from_raw_os_error(28)));
        assert!(!is_full(&io::Error::from(io::ErrorKind::NotFound)));
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0B"),
            (1000, "1000B"),
            (70_000, "68KiB"),
            (3_333_333, "3MiB"),
            (5_000_000_000, "4768MiB"),
            (50_000_000_000, "46GiB"),
        ] {
            assert_eq!(readable_size(bytes), text);
        }
    }
}
