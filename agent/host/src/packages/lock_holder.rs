//! Who holds a lock: `/proc/locks` and a file in, a process and its program out.

use std::os::unix::fs::MetadataExt;

use crate::Machine;

/// The process that holds a lock on one of these files: the file, and who it is in words.
pub fn find_lock_holder<'f>(machine: &Machine, files: &[&'f str]) -> Option<(&'f str, String)> {
    let locks = machine.read("/proc/locks").ok().flatten()?;
    files.iter().find_map(|file| {
        let inode = machine.metadata(file).ok()?.ino();
        let pid = parse_lock_pid(&locks, inode)?;
        let program = machine.read(&format!("/proc/{pid}/comm")).ok().flatten();
        let program = program.as_deref().map_or("a program that is out of sight", str::trim);
        Some((*file, format!("process {pid} ({program})")))
    })
}

/// The process in `1: POSIX  ADVISORY  WRITE 42 08:01:5678 0 EOF` for an inode; lines with an arrow only wait.
fn parse_lock_pid(locks: &str, inode: u64) -> Option<i64> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, kind, _, "WRITE", pid, place, ..] = words[..] else { return None };
        let is_it = place.rsplit(':').next()?.parse() == Ok(inode);
        (kind != "->" && is_it).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::parse_lock_pid;

    #[test]
    fn the_writer_of_an_inode_is_found_and_who_waits_is_not() {
        let locks = "1: POSIX  ADVISORY  READ  7 00:2a:11 128 128\n\
                     2: POSIX  ADVISORY  WRITE 42 08:01:5678 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 43 08:01:5678 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 44 08:01:9 0 EOF\n";
        assert_eq!(parse_lock_pid(locks, 5678), Some(42));
        assert_eq!(parse_lock_pid(locks, 9), Some(44));
        assert_eq!(parse_lock_pid(locks, 11), None);
        assert_eq!(parse_lock_pid(locks, 1), None);
    }
}
