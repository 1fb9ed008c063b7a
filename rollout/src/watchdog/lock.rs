//! One watchdog per node: the lock names its holder.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::{WatchdogError, system_error};

/// Takes the lock; it is released when the file is closed, or when the process ends in any way.
pub(super) fn acquire_lock(path: &Path) -> Result<File, WatchdogError> {
    let cannot = || system_error(format!("use the lock `{}`", path.display()));
    let dir = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot())?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).map_err(cannot())?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            // An unreadable holder still counts as a holder.
            let _ = file.take(20).read_to_string(&mut text);
            let holder = text.trim().parse::<u32>();
            let holder = holder.map_or_else(|_| "an unknown process".into(), |pid| format!("process {pid}"));
            return Err(WatchdogError::AlreadyRunning { holder });
        }
        Err(error) => return Err(cannot()(error.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(cannot())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_watchdog_gets_the_name_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/watchdog.lock");
        let first = acquire_lock(&path).unwrap();
        let second = acquire_lock(&path).unwrap_err();
        assert!(second.to_string().ends_with(&format!("process {}", std::process::id())), "{second}");
        assert!(!second.is_permission());
        drop(first);
    }
}
