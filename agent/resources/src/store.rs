//! A resource's name in, the places of its files out: everything that is kept about it is below one directory of its own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zagent_config::json_file;
use zagent_config::paths::Paths;
use zagent_config::resources::{DeclaredResource, ResourceName};
use zagent_config::{Map, Value};

use crate::ResourceError;

/// Where the files of resources are.
#[derive(Clone, Debug)]
pub struct ResourceStore {
    root: PathBuf,
}

/// Grains as they are kept.
#[derive(Debug, Serialize, Deserialize)]
struct KeptGrains {
    /// What the declaration looked like when they were collected.
    declared: String,
    grains: Value,
}

impl ResourceStore {
    /// The store below the root of the node.
    #[must_use]
    pub fn new(node: &Paths) -> Self {
        Self { root: node.resources() }
    }

    /// The paths of one resource: its lock, its undo journals, its downloads.
    #[must_use]
    pub fn paths(&self, name: &ResourceName) -> Paths {
        Paths::new(self.root.join(&name.kind).join(&name.id))
    }

    fn grains_file(&self, name: &ResourceName) -> PathBuf {
        self.paths(name).root().join("grains.json")
    }

    /// The file that a dummy keeps its state in.
    pub(crate) fn dummy_file(&self, name: &ResourceName) -> PathBuf {
        self.paths(name).root().join("dummy.json")
    }

    /// The grains that were kept for a declaration; none when there are none, or the declaration has changed.
    pub(crate) fn kept_grains(&self, resource: &DeclaredResource) -> Option<Map> {
        let kept: KeptGrains = json_file::read(&self.grains_file(&resource.name)).ok()??;
        let grains = kept.grains.as_map().cloned()?;
        (kept.declared == fingerprint(resource)).then_some(grains)
    }

    /// Keeps grains until they are refreshed.
    pub(crate) fn keep_grains(&self, resource: &DeclaredResource, grains: &Map) -> Result<(), ResourceError> {
        let kept = KeptGrains { declared: fingerprint(resource), grains: grains.clone().into() };
        Ok(json_file::write(&self.grains_file(&resource.name), &kept)?)
    }

    /// The names of all resources that anything is kept about, sorted.
    #[must_use]
    pub fn known(&self) -> Vec<ResourceName> {
        let names = |dir: &PathBuf| -> Vec<String> {
            let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
            let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let mut names: Vec<String> =
                dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.sort_unstable();
            names
        };
        let of_kind = |kind: String| {
            let ids = names(&self.root.join(&kind));
            ids.into_iter().map(move |id| ResourceName::new(kind.clone(), id))
        };
        names(&self.root).into_iter().flat_map(of_kind).collect()
    }

    /// Removes everything that is kept about a resource; false when there was nothing.
    ///
    /// # Errors
    /// Fails when it cannot be removed.
    pub fn forget(&self, name: &ResourceName) -> Result<bool, ResourceError> {
        let path = self.paths(name).root().to_owned();
        match std::fs::remove_dir_all(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(ResourceError::Remove { path, source }),
        }
    }
}

/// What tells one declaration from another; secrets are not part of it.
fn fingerprint(resource: &DeclaredResource) -> String {
    blake3::hash(format!("{:?}", resource.config).as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use zagent_config::resources::ResourceConfig;

    use super::*;

    #[test]
    fn grains_are_kept_until_the_declaration_changes_or_the_resource_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = ResourceStore::new(&Paths::new(dir.path()));
        let declared = |config| DeclaredResource { name: ResourceName::new("chroot", "a"), config };
        let resource = declared(ResourceConfig::Chroot("/srv/a".into()));
        assert_eq!(store.kept_grains(&resource), None);
        let grains = Map::from_iter([("os", Value::from("Debian"))]);
        store.keep_grains(&resource, &grains).unwrap();
        assert_eq!(store.kept_grains(&resource), Some(grains));
        assert_eq!(store.kept_grains(&declared(ResourceConfig::Chroot("/srv/b".into()))), None);
        assert_eq!(store.known(), std::slice::from_ref(&resource.name));
        assert!(store.forget(&resource.name).unwrap() && !store.forget(&resource.name).unwrap());
        assert_eq!(store.kept_grains(&resource), None);
    }
}
