//! A version in, its binaries in the form of a record out.

use zagent_cache::source::{Deadline, RefStore, SourceError};

use super::parts::RELEASE_FILE;
use super::{ArtifactError, PublishedRelease, list_published};
use crate::record::{Artifact, Component};

/// The published binaries of a version, one per machine.
///
/// # Errors
/// Fails when the repository cannot be reached, and when a ref does not contain what its name says.
pub fn published_artifacts(
    ref_store: &mut RefStore,
    component: Component,
    version: &str,
    deadline: Deadline,
) -> Result<Vec<Artifact>, ArtifactError> {
    let mut all = Vec::new();
    for (_, machine, revision) in
        list_published(ref_store, deadline)?.into_iter().filter(|(v, ..)| v == version)
    {
        let reference = format!("refs/zagent/release/{version}/{machine}");
        let failed = |source: SourceError| ArtifactError::Git {
            reference: reference.clone(),
            source: Box::new(source),
        };
        let odd = |why: String| ArtifactError::NoRelease { reference: reference.clone(), why };
        let taken = ref_store.fetch(std::slice::from_ref(&revision), deadline).map_err(failed)?;
        let text = taken.read_file(&revision, RELEASE_FILE).map_err(failed)?;
        let text = text.ok_or_else(|| odd(format!("it has no `{RELEASE_FILE}`")))?;
        let found: PublishedRelease =
            serde_yaml::from_slice(&text).map_err(|error| odd(error.to_string()))?;
        if found.version != version || found.component != component {
            return Err(odd(format!("it is {} {}", found.component.name(), found.version)));
        }
        all.push(Artifact { reference: Some(reference), ..found.artifact });
    }
    Ok(all)
}
