//! A binary in, a ref that contains it out.
//!
//! Law: the content of a published version never changes. Only signatures are added (held by
//! `a_ref_with_other_content_is_refused`).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use zagent_cache::source::{CommitDraft, Deadline, PreparedCommit, PushOutcome, RefStore, SourceError};
use zagent_cache::trust;
use zagent_config::ids::Revision;

use super::parts::{PART_BYTES, RELEASE_FILE, part_name};
use super::{
    ArtifactError, ELF_HEADER_BYTES, MAX_ARTIFACT_BYTES, PublishedRelease, ReleaseArtifact, elf_machine,
    release_ref,
};
use crate::record::{Artifact, Component};

/// A release to publish.
#[derive(Clone, Copy, Debug)]
pub struct PublishRequest<'a> {
    /// The binary.
    pub file: &'a Path,
    /// The component.
    pub component: Component,
    /// Its version.
    pub version: &'a str,
    /// The kernel that it is for, if the file does not say.
    pub os: Option<&'a str>,
    /// The machine that it is for, if the file does not say.
    pub arch: Option<&'a str>,
    /// The keys that sign it.
    pub keys: &'a [std::path::PathBuf],
    /// The protocol that a node must support to take it; 0 for any.
    pub min_protocol: u32,
}

/// A binary that was read, and its description.
pub struct ReleaseBinary {
    parts: Vec<Vec<u8>>,
    /// What is published.
    pub published: PublishedRelease,
}

/// The result.
#[derive(Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// It is published now.
    Published,
    /// It was published before; signatures were added.
    SignaturesAdded,
    /// It was published before, unchanged.
    Unchanged,
}

impl ReleaseBinary {
    /// Reads and signs a binary.
    ///
    /// # Errors
    /// Fails when it cannot be read, is for another machine than given, or a key does not sign.
    pub fn read(request: &PublishRequest<'_>) -> Result<Self, ArtifactError> {
        let unread = |source| ArtifactError::Unreadable { path: request.file.into(), source };
        let mut file = File::open(request.file).map_err(unread)?;
        let (mut hasher, mut size, mut parts) = (blake3::Hasher::new(), 0, Vec::new());
        loop {
            let mut bytes = Vec::with_capacity(PART_BYTES);
            file.by_ref().take(PART_BYTES as u64).read_to_end(&mut bytes).map_err(unread)?;
            if bytes.is_empty() {
                break;
            }
            hasher.update(&bytes);
            size += bytes.len() as u64;
            if size > MAX_ARTIFACT_BYTES {
                return Err(ArtifactError::Malformed {
                    why: format!("it has more than {MAX_ARTIFACT_BYTES} bytes"),
                });
            }
            parts.push(bytes);
        }
        let head = parts.first().map_or(&[][..], |first| &first[..first.len().min(ELF_HEADER_BYTES)]);
        let (os, arch) = resolve_machine(head, request.os, request.arch)?;
        let reference = Some(release_ref(request.version, &os, &arch));
        let blake3 = hasher.finalize().to_hex().to_string();
        let min_protocol = request.min_protocol;
        let mut artifact =
            Artifact { os, arch, size, blake3, url: None, reference, signature: None, min_protocol };
        let text =
            ReleaseArtifact { component: request.component, version: request.version, artifact: &artifact }
                .signed_text()?;
        let signed = |key: &std::path::PathBuf| trust::sign(key, trust::RELEASE_NAMESPACE, text.as_bytes());
        let signatures = request.keys.iter().map(signed).collect::<Result<Vec<_>, _>>()?;
        artifact.signature = (!signatures.is_empty()).then(|| signatures.concat());
        let version = request.version.to_owned();
        Ok(Self {
            parts,
            published: PublishedRelease { schema: 1, component: request.component, version, artifact },
        })
    }

    /// Writes it to its ref.
    ///
    /// # Errors
    /// Fails when the repository cannot be reached or refuses it, or has different content for that version.
    pub fn publish(
        &mut self,
        ref_store: &mut RefStore,
        author: &str,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<PublishOutcome, ArtifactError> {
        let PublishedRelease { version, artifact, .. } = &self.published;
        let name = release_ref(version, &artifact.os, &artifact.arch);
        let failed = git_error(&name);
        let old = ref_store.list(std::slice::from_ref(&name), deadline).map_err(&failed)?.remove(&name);
        let outcome = match &old {
            None => PublishOutcome::Published,
            Some(revision) => match self.compare_published(ref_store, &name, revision, deadline)? {
                false => return Ok(PublishOutcome::Unchanged),
                true => PublishOutcome::SignaturesAdded,
            },
        };
        let sheet = self.build_commit(old.as_ref(), author, now)?;
        let refused = |why: String| ArtifactError::PushRejected { reference: name.clone(), why };
        match ref_store.update(&name, old.as_ref(), &sheet, deadline).map_err(&failed)? {
            PushOutcome::Done => Ok(outcome),
            PushOutcome::Stale => {
                Err(refused("someone else published it at the same time; try again".into()))
            }
            PushOutcome::NotFastForward { message } | PushOutcome::Denied { message } => {
                Err(refused(message))
            }
            PushOutcome::Unknown(error) => {
                let now = ref_store.list(std::slice::from_ref(&name), deadline).map_err(&failed)?;
                if now.get(&name) == Some(sheet.revision()) { Ok(outcome) } else { Err(failed(error)) }
            }
        }
    }

    /// Checks what was published before; true when there is a signature to add.
    fn compare_published(
        &mut self,
        ref_store: &mut RefStore,
        name: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<bool, ArtifactError> {
        let failed = git_error(name);
        let taken = ref_store.fetch(std::slice::from_ref(revision), deadline).map_err(&failed)?;
        let odd = |why: String| ArtifactError::NoRelease { reference: name.to_owned(), why };
        let text = taken.read_file(revision, RELEASE_FILE).map_err(&failed)?;
        let text = text.ok_or_else(|| odd(format!("it has no `{RELEASE_FILE}`")))?;
        let before: PublishedRelease =
            serde_yaml::from_slice(&text).map_err(|error| odd(error.to_string()))?;
        let ours = &mut self.published;
        let (was, is) = (&before.artifact, &mut ours.artifact);
        if (was.size, &was.blake3, before.component) != (is.size, &is.blake3, ours.component) {
            return Err(ArtifactError::AlreadyPublished {
                version: ours.version.clone(),
                reference: name.to_owned(),
            });
        }
        let known = was.signature.clone().unwrap_or_default();
        let new = is.signature.take().unwrap_or_default();
        // The same key makes the same signature, or one more; in both cases a signer counts once.
        let added = !new.is_empty() && !known.contains(&new);
        let all = if added { format!("{known}{new}") } else { known };
        is.signature = (!all.is_empty()).then_some(all);
        Ok(added)
    }

    fn build_commit(
        &self,
        old: Option<&Revision>,
        author: &str,
        now: Timestamp,
    ) -> Result<PreparedCommit, ArtifactError> {
        let PublishedRelease { version, artifact, component, .. } = &self.published;
        let odd = |why: String| ArtifactError::Malformed { why };
        let yaml = serde_yaml::to_string(&self.published).map_err(|error| odd(error.to_string()))?;
        let names: Vec<_> = (0..self.parts.len()).map(part_name).collect();
        let parts = names.iter().map(String::as_str).zip(self.parts.iter().map(Vec::as_slice));
        let files: Vec<_> = std::iter::once((RELEASE_FILE, yaml.as_bytes())).chain(parts).collect();
        let message = format!("release {} {version} for {}-{}", component.name(), artifact.os, artifact.arch);
        let parents = old.map_or(&[][..], std::slice::from_ref);
        let draft = CommitDraft { files: &files, parents, message: &message, author, at: now, signer: None };
        PreparedCommit::build(&draft).map_err(|error| odd(error.to_string()))
    }
}

fn git_error(name: &str) -> impl Fn(SourceError) -> ArtifactError {
    move |source| ArtifactError::Git { reference: name.to_owned(), source: Box::new(source) }
}

/// The machine that a file is for: from the file, or as given.
fn resolve_machine(
    head: &[u8],
    os: Option<&str>,
    arch: Option<&str>,
) -> Result<(String, String), ArtifactError> {
    let odd = |why: String| Err(ArtifactError::Malformed { why });
    match (elf_machine(head), os, arch) {
        (Some((os, arch)), said_os, said_arch) => {
            if said_os.is_some_and(|said| said != os) || said_arch.is_some_and(|said| said != arch) {
                let (said_os, said_arch) = (said_os.unwrap_or(os), said_arch.unwrap_or(arch));
                return odd(format!("it is a program for {os}-{arch}, not for {said_os}-{said_arch}"));
            }
            Ok((os.to_owned(), arch.to_owned()))
        }
        (None, Some(os), Some(arch)) => Ok((os.to_owned(), arch.to_owned())),
        _ => odd("cannot detect the machine type of the file: pass --os and --arch".into()),
    }
}

/// The published versions and machines, and the commits that contain them.
///
/// # Errors
/// Fails when the repository cannot be reached.
pub fn list_published(
    ref_store: &mut RefStore,
    deadline: Deadline,
) -> Result<Vec<(String, String, Revision)>, ArtifactError> {
    let prefix = "refs/zagent/release/";
    let refs = ref_store.list(&[prefix.to_owned()], deadline).map_err(git_error(prefix))?;
    let read = |(name, revision): (String, Revision)| {
        let (version, machine) = name.strip_prefix(prefix)?.split_once('/')?;
        Some((version.to_owned(), machine.to_owned(), revision))
    };
    Ok(refs.into_iter().filter_map(read).collect())
}
