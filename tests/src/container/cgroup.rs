//! A control group for one container: without it all containers of a suite share one, and systemd in one container
//! would stop the services of another.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the hierarchies that systemd uses are mounted: legacy, hybrid and unified.
const PLACES: [(&str, &str); 3] =
    [("name=systemd", "/sys/fs/cgroup/systemd"), ("", "/sys/fs/cgroup/unified"), ("", "/sys/fs/cgroup")];

/// One directory in each hierarchy; removed with the value.
#[derive(Debug)]
pub(super) struct Cgroup {
    dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// Creates it below the group of this process.
    pub(super) fn new(name: &str) -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut group = Self { dirs: Vec::new() };
        for (controller, place) in PLACES {
            // `4:memory:/some/where`
            let found = own.lines().find_map(|line| {
                let (which, path) = line.split_once(':')?.1.split_once(':')?;
                (which == controller).then(|| path.trim_start_matches('/'))
            });
            let Some(path) = found else { continue };
            let above = Path::new(place).join(path);
            if above.join("cgroup.procs").exists() {
                let dir = above.join(name);
                fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
                group.dirs.push(dir);
            }
        }
        group
    }

    /// The files that a process writes its pid to.
    pub(super) fn doors(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs.iter().map(|dir| dir.join("cgroup.procs"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        // A killed process leaves its group a moment later. A group that stays is not a failure.
        while self.dirs.iter().any(|dir| remove(dir).is_err()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Removes a group and its subgroups.
fn remove(dir: &Path) -> std::io::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(dir)
}
