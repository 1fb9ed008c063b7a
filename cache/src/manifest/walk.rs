//! A directory in, the digest and mode of every file out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zagent_config::manifest::{ManifestEntry, ManifestMode, is_signature};
use zagent_config::paths::tree;

use super::ManifestError;
use crate::{CacheLimits, RepositoryError, path_names};

/// Every file of a directory: its digest and mode.
///
/// # Errors
/// Fails when something cannot be read, or would be refused by the cache.
pub fn list_files(dir: &Path, limits: CacheLimits) -> Result<BTreeMap<String, ManifestEntry>, ManifestError> {
    let root = dir.canonicalize().map_err(|source| ManifestError::Io { path: dir.into(), source })?;
    let mut walk = ManifestWalk { root, limits, open: Vec::new(), files: BTreeMap::new() };
    let root = walk.root.clone();
    walk.visit_dir(&root, "", 0)?;
    Ok(walk.files)
}

struct ManifestWalk {
    root: PathBuf,
    limits: CacheLimits,
    /// The directories on the way, so that a symlink to one of them does not recurse forever.
    open: Vec<(u64, u64)>,
    files: BTreeMap<String, ManifestEntry>,
}

impl ManifestWalk {
    fn visit_dir(&mut self, dir: &Path, shown: &str, depth: usize) -> Result<(), ManifestError> {
        if depth > self.limits.depth {
            return Err(RepositoryError::TooDeep { path: shown.into(), limit: self.limits.depth }.into());
        }
        let failed = |source| ManifestError::Io { path: dir.into(), source };
        let meta = fs::metadata(dir).map_err(failed)?;
        let id = (meta.dev(), meta.ino());
        if self.open.contains(&id) {
            return Ok(());
        }
        self.open.push(id);
        let mut names: Vec<_> = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort_unstable();
        for raw in names {
            let top = shown.is_empty();
            if top && (raw == ".git" || raw == tree::MANIFEST || raw.to_str().is_some_and(is_signature)) {
                continue;
            }
            let name = path_names::check_component(raw.as_bytes(), shown)?;
            let path = if top { name } else { format!("{shown}/{name}") };
            self.visit_entry(&dir.join(&raw), path, depth)?;
        }
        self.open.pop();
        Ok(())
    }

    fn visit_entry(&mut self, at: &Path, shown: String, depth: usize) -> Result<(), ManifestError> {
        let failed = |source| ManifestError::Io { path: at.into(), source };
        let own = fs::symlink_metadata(at).map_err(failed)?;
        if own.is_symlink() {
            let target = fs::read_link(at).map_err(failed)?;
            let leaves =
                || RepositoryError::Link { path: shown.clone(), target: target.display().to_string() };
            path_names::check_target(target.as_os_str().as_bytes(), &shown)?;
            match at.canonicalize() {
                _ if target.is_absolute() => return Err(leaves().into()),
                // It cannot be listed by its target, and the cache accepts only listed files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let why = "it points to nothing, so a manifest cannot list it";
                    return Err(RepositoryError::Target { path: shown, why }.into());
                }
                Err(source) => return Err(failed(source)),
                Ok(real) if !real.starts_with(&self.root) => return Err(leaves().into()),
                Ok(_) => {}
            }
        }
        let meta = fs::metadata(at).map_err(failed)?;
        if meta.is_dir() {
            return self.visit_dir(at, &shown, depth + 1);
        }
        if !meta.is_file() {
            return Err(ManifestError::Special { path: shown });
        }
        if self.files.len() >= self.limits.files {
            return Err(RepositoryError::TooMany { limit: self.limits.files }.into());
        }
        if meta.len() > self.limits.bytes {
            return Err(RepositoryError::TooLarge {
                path: shown,
                size: meta.len(),
                limit: self.limits.bytes,
            }
            .into());
        }
        let blake3 = digest_file(at).map_err(failed)?;
        self.files.insert(shown, ManifestEntry { blake3, mode: ManifestMode::from_bits(meta.mode()) });
        Ok(())
    }
}

fn digest_file(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}
