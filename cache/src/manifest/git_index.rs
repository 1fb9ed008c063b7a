//! A directory in, what Git knows about it out: the repository and the branch, and which listed files it would not
//! commit.
//!
//! Nodes get what is committed. They refuse a manifest that lists a file which Git does not have, so zagent reports it
//! where the manifest is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gix::bstr::ByteSlice;
use zagent_config::manifest::ManifestEntry;
use zagent_config::repository_name;
use zagent_config::sorted::CollectSorted;

/// The place of a checkout.
#[derive(Debug, Default)]
pub(super) struct Checkout {
    /// The name of the remote repository.
    pub(super) repository: Option<String>,
    /// The branch that is checked out.
    pub(super) branch: Option<String>,
}

/// Where a directory was checked out from; nothing outside a repository.
pub(super) fn checkout(dir: &Path) -> Checkout {
    let Some(repo) = dir.canonicalize().ok().and_then(|root| gix::discover(root).ok()) else {
        return Checkout::default();
    };
    let fetch = gix::remote::Direction::Fetch;
    let remote = repo.find_default_remote(fetch).and_then(Result::ok);
    let url = remote.and_then(|remote| remote.url(fetch).map(|url| url.to_bstring().to_string()));
    let branch = repo.head_name().ok().flatten().map(|name| name.shorten().to_string());
    Checkout { repository: url.map(|url| repository_name(&url)), branch }
}

/// The listed files that are not in the index of the repository that contains `dir`; empty outside a repository.
#[must_use]
pub fn untracked(dir: &Path, files: &BTreeMap<String, ManifestEntry>) -> Vec<String> {
    let Some((root, held)) = indexed_paths(dir) else { return Vec::new() };
    let is_held = |path: &String| {
        held.contains(path)
            // A file below a symlink is stored where the symlink points.
            || root.join(path).canonicalize().is_ok_and(|real| {
                real.strip_prefix(&root).is_ok_and(|real| held.contains(&*real.to_string_lossy()))
            })
    };
    files.keys().filter(|path| !is_held(path)).cloned().collect()
}

/// The directory, resolved, and the paths below it that are in the index.
fn indexed_paths(dir: &Path) -> Option<(std::path::PathBuf, BTreeSet<String>)> {
    let root = dir.canonicalize().ok()?;
    let repo = gix::discover(&root).ok()?;
    let work = repo.workdir()?.canonicalize().ok()?;
    let prefix = root.strip_prefix(&work).ok()?.to_str()?.to_owned();
    let index = repo.index_or_empty().ok()?;
    let inside = |path: &str| match prefix.as_str() {
        "" => Some(path.to_owned()),
        prefix => Some(path.strip_prefix(prefix)?.strip_prefix('/')?.to_owned()),
    };
    let paths = index.entries().iter().filter_map(|entry| inside(&entry.path(&index).to_str_lossy()));
    Some((root, paths.into_set()))
}
