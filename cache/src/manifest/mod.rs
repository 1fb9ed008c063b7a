//! A directory in, the manifest of its files out; or how its files differ from the existing manifest.
//!
//! Law: the manifest lists what the cache would stage: the same names are refused, symlinks count as their targets,
//! and Git's own directory, the manifest and its signatures are excluded (held by
//! `names_and_links_are_checked_as_the_cache_does`).

mod atomic_file;
mod git_index;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zagent_config::Diagnostics;
use zagent_config::manifest::{
    AgentVersion, MAX_BYTES, Manifest, ManifestEntry, ManifestTarget, is_signature,
};
use zagent_config::paths::tree;
use zagent_config::repository_name;
use zagent_config::settings::RunSchedule;

pub use self::atomic_file::{remove_file, write_atomic};
pub use self::git_index::untracked;
pub use self::walk::list_files;
use crate::{CacheLimits, RepositoryError};

/// Why the manifest of a directory could not be written or checked.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file or directory cannot be read.
    #[error("cannot read `{path}`")]
    Io {
        /// Which.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: io::Error,
    },
    /// An entry that the cache would refuse.
    #[error(transparent)]
    Refused(#[from] RepositoryError),
    /// A file cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// Which.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: io::Error,
    },
    /// Neither a file nor a directory nor a symlink to one.
    #[error("`{path}` is neither a file nor a directory")]
    Special {
        /// Which.
        path: String,
    },
    /// The existing manifest has errors.
    #[error("{0}")]
    Faults(Diagnostics),
    /// There is no manifest to check.
    #[error("there is no `{path}`")]
    Missing {
        /// The expected path.
        path: PathBuf,
    },
    /// Nodes that have seen the old serial would refuse the new one.
    #[error("the serial {new} is lower than {old}, the serial of the existing manifest")]
    Serial {
        /// The serial of the existing manifest.
        old: u64,
        /// The requested serial.
        new: u64,
    },
}

/// The values for a new manifest.
#[derive(Clone, Debug, Default)]
pub struct ManifestOptions {
    /// Its serial; one more than the old one if anything changed, unless given.
    pub serial: Option<u64>,
    /// The repository that it is for; as before unless given, else the remote of the Git repository.
    pub repository: Option<String>,
    /// The branch that it is for; the one that is checked out unless given, else as before.
    pub branch: Option<String>,
    /// When it expires; as before unless given.
    pub expires: Option<Timestamp>,
    /// The oldest accepted agent; as before unless given.
    pub min_agent: Option<AgentVersion>,
    /// The order of states; as before unless given.
    pub schedule: Option<RunSchedule>,
    /// The limits for the tree.
    pub limits: CacheLimits,
}

/// A manifest that is not on disk yet.
#[derive(Clone, Debug)]
pub struct ManifestDraft {
    /// The existing manifest.
    pub old: Option<Manifest>,
    /// The new one.
    pub new: Manifest,
    /// Its text.
    pub text: String,
    /// True when the text on disk differs, so that its signatures are no longer valid.
    pub is_new: bool,
}

/// Builds the manifest of a directory. All other values of the old manifest are kept.
///
/// # Errors
/// Fails when something in the directory cannot be read or would be refused, or when the serial would decrease.
pub fn build(dir: &Path, options: &ManifestOptions) -> Result<ManifestDraft, ManifestError> {
    let (old_text, old) = match read(dir) {
        Ok((text, manifest)) => (text, Some(manifest)),
        Err(ManifestError::Missing { .. }) => (Vec::new(), None),
        Err(error) => return Err(error),
    };
    let mut new = old.clone().unwrap_or_default();
    new.files = Some(list_files(dir, options.limits)?);
    new.target = target(dir, options, new.target);
    new.expires = options.expires.or(new.expires);
    new.min_agent = options.min_agent.clone().or(new.min_agent);
    new.schedule = options.schedule.or(new.schedule);
    let before = old.as_ref().map_or(0, |old| old.serial);
    let changed = old.as_ref() != Some(&new);
    new.serial = options.serial.unwrap_or(if changed { before.saturating_add(1) } else { before });
    if new.serial < before {
        return Err(ManifestError::Serial { old: before, new: new.serial });
    }
    // A manifest with the same meaning keeps its text, and so its signatures stay valid.
    if old.as_ref() == Some(&new) {
        let text = String::from_utf8_lossy(&old_text).into_owned();
        return Ok(ManifestDraft { old, new, text, is_new: false });
    }
    let text = new.to_yaml();
    Ok(ManifestDraft { old, new, text, is_new: true })
}

/// What the manifest is for; `None` when that is unknown.
fn target(dir: &Path, options: &ManifestOptions, old: Option<ManifestTarget>) -> Option<ManifestTarget> {
    let (old_repository, old_branch) = old.map(|old| (old.repository, old.branch)).unzip();
    let here = git_index::checkout(dir);
    let given = options.repository.as_deref().map(repository_name);
    // A clone may have any remote: what the manifest said before is what nodes expect.
    let repository = given.or(old_repository).or(here.repository)?;
    let branch = options.branch.clone().or(here.branch).or(old_branch)?;
    Some(ManifestTarget { repository, branch })
}

/// How the files of a directory differ from its manifest, as messages; empty when they match.
///
/// # Errors
/// Fails when there is no manifest, it has errors, or something cannot be read.
pub fn check(dir: &Path, limits: CacheLimits) -> Result<(Manifest, Vec<String>), ManifestError> {
    let (_, manifest) = read(dir)?;
    let found = list_files(dir, limits)?;
    let differences = match &manifest.files {
        Some(listed) => differences(listed, &found),
        None => vec!["the manifest lists no files".to_owned()],
    };
    Ok((manifest, differences))
}

/// How the existing files differ from the listed ones, as messages.
#[must_use]
pub fn differences(
    listed: &BTreeMap<String, ManifestEntry>,
    found: &BTreeMap<String, ManifestEntry>,
) -> Vec<String> {
    let mut words = Vec::new();
    for (path, entry) in listed {
        match found.get(path) {
            None => words.push(format!("`{path}` is missing")),
            Some(now) if now.blake3 != entry.blake3 => words.push(format!("`{path}` has different content")),
            Some(now) if now.mode != entry.mode => {
                let (want, have) = (entry.mode.as_str(), now.mode.as_str());
                words.push(format!("`{path}` has mode {have}, not {want}"));
            }
            Some(_) => {}
        }
    }
    let extra = found.keys().filter(|path| !listed.contains_key(*path));
    words.extend(extra.map(|path| format!("`{path}` is not listed")));
    words
}

/// The text of a directory's manifest, and its parsed content.
///
/// # Errors
/// Fails when there is none, or it has errors.
pub fn read(dir: &Path) -> Result<(Vec<u8>, Manifest), ManifestError> {
    let path = dir.join(tree::MANIFEST);
    let text = match read_limited(&path, MAX_BYTES as u64) {
        Ok(text) => text,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err(ManifestError::Missing { path });
        }
        Err(source) => return Err(ManifestError::Io { path, source }),
    };
    let manifest = Manifest::read(&path.display().to_string(), &text).map_err(ManifestError::Faults)?;
    Ok((text, manifest))
}

/// The signatures of the manifest of a directory, by file name, sorted.
///
/// # Errors
/// Fails when one cannot be read.
pub fn read_signatures(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, ManifestError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ManifestError::Io { path, source }
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_signature(&name) {
            let path = entry.path();
            // One byte more than any signature has: the reader refuses longer ones.
            let bytes = read_limited(&path, 64 << 10).map_err(failed(&path))?;
            found.push((name, bytes));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The content of a file, cut one byte after the limit; does not block on a named pipe.
fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(nonblock).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
