//! A release in a Git ref: the binary in parts, and its description, in one commit.
//!
//! A reader holds one part in memory at a time.

use serde::{Deserialize, Serialize};
use zagent_cache::source::{Deadline, RefStore, SourceError};

use super::{ArtifactError, ArtifactSink};
use crate::record::{Artifact, Component};

/// Bytes of a part; the last one may be smaller.
pub(super) const PART_BYTES: usize = 1 << 20;
/// The file that describes the parts.
pub(super) const RELEASE_FILE: &str = "release.yaml";

/// `release.yaml`: what was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRelease {
    /// The version of the format.
    pub schema: u32,
    /// The component.
    pub component: Component,
    /// Its version.
    pub version: String,
    /// The binary.
    pub artifact: Artifact,
}

/// The ref of a binary.
#[must_use]
pub fn release_ref(version: &str, os: &str, arch: &str) -> String {
    format!("refs/zagent/release/{version}/{os}-{arch}")
}

/// The name of a part.
pub(super) fn part_name(number: usize) -> String {
    format!("part-{number:04}")
}

/// Reads a binary out of a ref.
pub(super) fn read_parts(
    ref_store: &mut RefStore,
    reference: &str,
    sink: &mut ArtifactSink<'_>,
    deadline: Deadline,
) -> Result<(), ArtifactError> {
    let failed = |source: SourceError| {
        let source = Box::new(source);
        ArtifactError::Git { reference: reference.to_owned(), source }
    };
    let nothing = |why: &str| ArtifactError::NoRelease { reference: reference.to_owned(), why: why.into() };
    let mut refs = ref_store.list(&[reference.to_owned()], deadline).map_err(failed)?;
    let revision = refs.remove(reference).ok_or_else(|| nothing("the repository does not have it"))?;
    sink.write_chunk(&[])?;
    let taken = ref_store.fetch(std::slice::from_ref(&revision), deadline).map_err(failed)?;
    let mut number = 0;
    while let Some(bytes) = taken.read_file(&revision, &part_name(number)).map_err(failed)? {
        sink.write_chunk(&bytes)?;
        number += 1;
    }
    if number == 0 { Err(nothing("it has no parts")) } else { Ok(()) }
}
