//! Where private keys are: the files that open secrets on this computer.

#![expect(clippy::disallowed_methods, reason = "the owner of where a person keeps keys")]

use std::path::{Path, PathBuf};

use zagent_host::secrets::HOST_KEY;

/// The file of a person's own age identity, below the configuration directory.
const IDENTITY_FILE: &str = "zagent/age.key";

/// The file that `secrets keygen` writes: `$XDG_CONFIG_HOME/zagent/age.key`, or the same below `~/.config`.
#[must_use]
pub fn own_identity() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    Some(config.or_else(|| Some(set("HOME")?.join(".config")))?.join(IDENTITY_FILE))
}

/// The files that are tried: those given, or the own identity, the SSH key of this person, and the key of this host.
#[must_use]
pub fn identity_files(given: &[PathBuf]) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let ssh = std::env::var_os("HOME").map(|home| Path::new(&home).join(".ssh/id_ed25519"));
    let candidates = own_identity().into_iter().chain(ssh).chain([HOST_KEY.into()]);
    candidates.filter(|path| std::fs::File::open(path).is_ok()).collect()
}

/// The editor of this person.
#[must_use]
pub fn editor() -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned())
}

/// Directories that may be in memory, best first.
#[must_use]
pub fn memory_dirs() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.into_iter().chain(["/dev/shm".into(), "/run".into()]).collect()
}
