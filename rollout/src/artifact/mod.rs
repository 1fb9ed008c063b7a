//! A binary of a release in the record, the file on this machine out.
//!
//! Law: nothing replaces the file before its size, its digest and its signatures are checked, and it is never
//! completely in memory. A signature also covers the component, the version and the machine, so it cannot be used for
//! another binary (held by `a_binary_is_fetched_completely_or_not_at_all`,
//! `a_signature_is_valid_for_one_version_and_one_machine`).

#![expect(clippy::disallowed_methods, reason = "a signature is judged at the time of the download")]

mod elf;
mod error;
mod https;
mod lookup;
mod parts;
mod publish;
mod release;
mod release_store;

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use zagent_cache::source::{Deadline, RefStore};
use zagent_config::durable;

pub use self::elf::{ELF_HEADER_BYTES, elf_machine};
pub use self::error::ArtifactError;
pub use self::lookup::published_artifacts;
pub use self::parts::{PublishedRelease, release_ref};
pub use self::publish::{PublishOutcome, PublishRequest, ReleaseBinary, list_published};
pub use self::release::{ReleaseArtifact, ReleaseTrust};
pub use self::release_store::open_release_store;
use crate::record::Artifact;

/// Maximum bytes of a binary.
pub const MAX_ARTIFACT_BYTES: u64 = 512 << 20;
/// The default time limit of a fetch.
pub const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The kernel and the machine that this program was built for, as artifacts name them.
#[must_use]
pub const fn host_platform() -> (&'static str, &'static str) {
    (std::env::consts::OS, std::env::consts::ARCH)
}

/// The artifact for a kernel and a machine.
///
/// # Errors
/// Fails when there is none; the error names the available ones.
pub fn select_artifact<'a>(
    artifacts: &'a [Artifact],
    os: &str,
    arch: &str,
) -> Result<&'a Artifact, ArtifactError> {
    let fits = |artifact: &&Artifact| artifact.os == os && artifact.arch == arch;
    artifacts.iter().find(fits).ok_or_else(|| ArtifactError::NoArtifactForMachine {
        machine: format!("{os}-{arch}"),
        there: artifacts.iter().map(|artifact| format!("{}-{}", artifact.os, artifact.arch)).collect(),
    })
}

/// Fetches artifacts.
pub struct ArtifactFetcher {
    /// The accepted signers.
    pub trust: ReleaseTrust,
    /// The repository of the record, for artifacts in a ref.
    pub ref_store: Option<RefStore>,
    /// The time limit per fetch.
    pub timeout: Duration,
}

impl ArtifactFetcher {
    /// Fetches an artifact into a file, which is replaced only by the right one. From its URL, or else from its ref.
    ///
    /// # Errors
    /// Fails when it cannot be fetched, does not match the record, is not signed as required, or `stop` is set.
    pub fn fetch(
        &mut self,
        release: &ReleaseArtifact<'_>,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), ArtifactError> {
        let artifact = release.artifact;
        if artifact.size == 0 || artifact.size > MAX_ARTIFACT_BYTES {
            return Err(ArtifactError::Malformed {
                why: format!("a binary cannot have {} bytes", artifact.size),
            });
        }
        // The signature covers size and digest: if it is refused, nothing is downloaded.
        self.trust.check(release, Timestamp::now())?;
        let deadline = Deadline::after(self.timeout);
        let mut last = ArtifactError::NoLocation;
        if let Some(url) = &artifact.url {
            match download_file(artifact, into, stop, |sink| https::download(url, sink, deadline)) {
                Err(error) if !matches!(error, ArtifactError::Stopped) => last = error,
                done => return done,
            }
        }
        if let Some(reference) = &artifact.reference {
            let Some(ref_store) = &mut self.ref_store else {
                return Err(ArtifactError::NoRepository { reference: reference.clone() });
            };
            return download_file(artifact, into, stop, |sink| {
                parts::read_parts(ref_store, reference, sink, deadline)
            });
        }
        Err(last)
    }
}

/// The sink for the bytes: a file, a digest, and a count that never exceeds the announced size.
struct ArtifactSink<'a> {
    file: &'a mut File,
    hasher: blake3::Hasher,
    size: u64,
    max_size: u64,
    stop: &'a AtomicBool,
}

impl ArtifactSink<'_> {
    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), ArtifactError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ArtifactError::Stopped);
        }
        self.size += bytes.len() as u64;
        if self.size > self.max_size {
            return Err(ArtifactError::TooLong { want: self.max_size });
        }
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(ArtifactError::local_error(Path::new("a temporary file")))
    }
}

/// Fills a temporary file, checks it, and renames it to the target.
fn download_file(
    artifact: &Artifact,
    into: &Path,
    stop: &AtomicBool,
    fill: impl FnOnce(&mut ArtifactSink<'_>) -> Result<(), ArtifactError>,
) -> Result<(), ArtifactError> {
    let dir = into.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = ArtifactError::local_error(into);
    let mut temp = tempfile::Builder::new()
        .prefix(".fetch-")
        .permissions(Permissions::from_mode(0o700))
        .tempfile_in(dir)
        .map_err(&failed)?;
    let hasher = blake3::Hasher::new();
    let mut sink = ArtifactSink { file: temp.as_file_mut(), hasher, size: 0, max_size: artifact.size, stop };
    fill(&mut sink)?;
    let (size, digest) = (sink.size, sink.hasher.finalize().to_hex());
    if size != artifact.size {
        return Err(ArtifactError::Short { want: artifact.size, got: size });
    }
    if !digest.eq_ignore_ascii_case(&artifact.blake3) {
        return Err(ArtifactError::Digest { want: artifact.blake3.clone(), got: digest.to_string() });
    }
    let file = temp.as_file();
    file.set_permissions(Permissions::from_mode(0o755))
        .and_then(|()| durable::sync_file(file, temp.path()))
        .map_err(&failed)?;
    temp.persist(into).map_err(|error| failed(error.error))?;
    durable::sync_dir(dir).map_err(&failed)
}

#[cfg(test)]
mod tests {
    use zagent_config::durable::testing::check_syncs;

    use super::*;

    #[test]
    fn every_sync_of_a_fetched_binary_is_needed() {
        const BINARY: &[u8] = b"#!/bin/sh\nexit 0\n";
        let artifact = Artifact {
            os: "linux".into(),
            arch: "x86_64".into(),
            size: BINARY.len() as u64,
            blake3: blake3::hash(BINARY).to_hex().to_string(),
            url: None,
            reference: None,
            signature: None,
            min_protocol: 0,
        };
        let points = check_syncs(
            || {
                let dir = tempfile::tempdir().unwrap();
                let root = dir.path().to_owned();
                (dir, root)
            },
            |dir| {
                let into = dir.path().join("zagent");
                download_file(&artifact, &into, &AtomicBool::new(false), |sink| sink.write_chunk(BINARY))
            },
            |dir| match std::fs::read(dir.path().join("zagent")) {
                Ok(found) if found == BINARY => Ok(()),
                other => Err(format!("{other:?}")),
            },
        );
        assert_eq!(points.len(), 2, "{points:?}");
        assert!(points[0].starts_with("file .fetch-"), "{points:?}");
        assert_eq!(points[1], "dir .");
    }
}
