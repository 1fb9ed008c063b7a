//! A directory of the configuration in, the programs that can be sent to resources out, by system and machine.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Name of a program in the directory, before its machine: `zagent-aarch64`.
const NAME_PREFIX: &str = "zagent-";
/// This program.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A program for one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentBinary {
    /// The machine, as `uname -m` says it.
    pub(crate) machine: String,
    path: PathBuf,
    /// Its BLAKE3 digest.
    pub(crate) digest: String,
    /// Its size in bytes.
    pub(crate) size: u64,
}

impl AgentBinary {
    fn read(machine: String, path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        let size = file.metadata()?.len();
        let digest = blake3::Hasher::new().update_reader(file)?.finalize().to_hex().to_string();
        Ok(Self { machine, path, digest, size })
    }

    /// Opens it for reading.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

/// The programs that can be sent, read once.
#[derive(Debug, Default)]
pub struct AgentBinaries {
    dir: Option<PathBuf>,
    found: OnceLock<Result<Vec<AgentBinary>, String>>,
}

impl AgentBinaries {
    /// This program, and those of a directory: they win for their machine.
    #[must_use]
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, found: OnceLock::new() }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Result<&[AgentBinary], &str> {
        let found = self.found.get_or_init(|| find(self.dir.as_deref()));
        found.as_deref().map_err(String::as_str)
    }
}

fn find(dir: Option<&Path>) -> Result<Vec<AgentBinary>, String> {
    let mut found = Vec::new();
    if let Some(dir) = dir {
        let fail =
            |error: io::Error| format!("cannot read `{}` (`resources.binaries`): {error}", dir.display());
        for entry in std::fs::read_dir(dir).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(machine) = name.strip_prefix(NAME_PREFIX).filter(|machine| !machine.is_empty()) {
                found.push(AgentBinary::read(machine.to_owned(), path.clone()).map_err(fail)?);
            }
        }
    }
    let own = rustix::system::uname().machine().to_string_lossy().into_owned();
    if found.iter().all(|binary| binary.machine != own) {
        let fail = |error: io::Error| format!("cannot read the program of this process: {error}");
        found.push(AgentBinary::read(own, OWN_PROGRAM.into()).map_err(fail)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_directory_win_for_their_machine() {
        let own = rustix::system::uname().machine().to_string_lossy().into_owned();
        let alone = AgentBinaries::new(None);
        assert_eq!(alone.all().unwrap()[0].machine, own);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("zagent-mips"), "m").unwrap();
        std::fs::write(dir.path().join(format!("zagent-{own}")), "own").unwrap();
        std::fs::write(dir.path().join("README"), "no").unwrap();
        let binaries = AgentBinaries::new(Some(dir.path().into()));
        let mut all: Vec<(String, u64)> =
            binaries.all().unwrap().iter().map(|b| (b.machine.clone(), b.size)).collect();
        all.sort();
        let mut want = vec![("mips".to_owned(), 1), (own, 3)];
        want.sort();
        assert_eq!(all, want);
        let missing = AgentBinaries::new(Some("/no/such/dir".into()));
        assert!(missing.all().unwrap_err().contains("resources.binaries"));
    }
}
