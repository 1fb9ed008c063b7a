//! A binary in, a ref that holds it out.
//!
//! Law: a version that was published keeps its bytes. Only signatures are added to it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use zagent_cache::source::{Deadline, Draft, Pushed, Sheet, Shelf, SourceError};
use zagent_cache::trust;
use zagent_config::ids::Revision;

use super::parts::{PART, RELEASE, part};
use super::{ArtifactError, HEAD, MOST, Published, Release, machine, reference};
use crate::record::{Artifact, Component};

/// A release that is to be published.
#[derive(Clone, Copy, Debug)]
pub struct Edition<'a> {
    /// The binary.
    pub file: &'a Path,
    /// What it is a binary of.
    pub component: Component,
    /// Its version.
    pub version: &'a str,
    /// The kernel that it is for, when the file does not say.
    pub os: Option<&'a str>,
    /// The machine that it is for, when the file does not say.
    pub arch: Option<&'a str>,
    /// The keys that sign it.
    pub keys: &'a [std::path::PathBuf],
}

/// A binary that was read, and its description.
pub struct Binary {
    parts: Vec<Vec<u8>>,
    /// What is published.
    pub published: Published,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there now.
    Published,
    /// It was there; signatures were added.
    Signed,
    /// It was there, just so.
    Known,
}

impl Binary {
    /// Reads and signs a binary.
    ///
    /// # Errors
    /// Fails when it cannot be read, is for another machine than was said, or a key does not sign.
    pub fn read(edition: &Edition<'_>) -> Result<Self, ArtifactError> {
        let unread = |source| ArtifactError::Unread { path: edition.file.into(), source };
        let mut file = File::open(edition.file).map_err(unread)?;
        let (mut hasher, mut size, mut parts) = (blake3::Hasher::new(), 0, Vec::new());
        loop {
            let mut bytes = Vec::with_capacity(PART);
            file.by_ref().take(PART as u64).read_to_end(&mut bytes).map_err(unread)?;
            if bytes.is_empty() {
                break;
            }
            hasher.update(&bytes);
            size += bytes.len() as u64;
            if size > MOST {
                return Err(ArtifactError::Odd { why: format!("it has more than {MOST} bytes") });
            }
            parts.push(bytes);
        }
        let head = parts.first().map_or(&[][..], |first| &first[..first.len().min(HEAD)]);
        let (os, arch) = settle(head, edition.os, edition.arch)?;
        let reference = Some(reference(edition.version, &os, &arch));
        let blake3 = hasher.finalize().to_hex().to_string();
        let mut artifact = Artifact { os, arch, size, blake3, url: None, reference, signature: None };
        let text =
            Release { component: edition.component, version: edition.version, artifact: &artifact }.text()?;
        let signed = |key: &std::path::PathBuf| trust::sign(key, trust::RELEASE, text.as_bytes());
        let signatures = edition.keys.iter().map(signed).collect::<Result<Vec<_>, _>>()?;
        artifact.signature = (!signatures.is_empty()).then(|| signatures.concat());
        let version = edition.version.to_owned();
        Ok(Self {
            parts,
            published: Published { schema: 1, component: edition.component, version, artifact },
        })
    }

    /// Puts it into its ref.
    ///
    /// # Errors
    /// Fails when the repository cannot be asked or does not take it, or has other bytes under that version.
    pub fn publish(
        &mut self,
        shelf: &mut Shelf,
        author: &str,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<Outcome, ArtifactError> {
        let Published { version, artifact, .. } = &self.published;
        let name = reference(version, &artifact.os, &artifact.arch);
        let failed = git(&name);
        let old = shelf.list(std::slice::from_ref(&name), deadline).map_err(&failed)?.remove(&name);
        let outcome = match &old {
            None => Outcome::Published,
            Some(revision) => match self.compare(shelf, &name, revision, deadline)? {
                false => return Ok(Outcome::Known),
                true => Outcome::Signed,
            },
        };
        let sheet = self.sheet(old.as_ref(), author, now)?;
        let refused = |why: String| ArtifactError::NotTaken { reference: name.clone(), why };
        match shelf.put(&name, old.as_ref(), &sheet, deadline).map_err(&failed)? {
            Pushed::Done => Ok(outcome),
            Pushed::Stale => Err(refused("somebody else published it at the same time; try again".into())),
            Pushed::NotForward { message } | Pushed::Denied { message } => Err(refused(message)),
            Pushed::Unknown(error) => {
                let now = shelf.list(std::slice::from_ref(&name), deadline).map_err(&failed)?;
                if now.get(&name) == Some(sheet.revision()) { Ok(outcome) } else { Err(failed(error)) }
            }
        }
    }

    /// Looks at what was published before; true when there is a signature to add.
    fn compare(
        &mut self,
        shelf: &mut Shelf,
        name: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<bool, ArtifactError> {
        let failed = git(name);
        let taken = shelf.take(std::slice::from_ref(revision), deadline).map_err(&failed)?;
        let odd = |why: String| ArtifactError::NoRelease { reference: name.to_owned(), why };
        let text = taken.file(revision, RELEASE).map_err(&failed)?;
        let text = text.ok_or_else(|| odd(format!("it has no `{RELEASE}`")))?;
        let before: Published = serde_yaml::from_slice(&text).map_err(|error| odd(error.to_string()))?;
        let ours = &mut self.published;
        let (was, is) = (&before.artifact, &mut ours.artifact);
        if (was.size, &was.blake3, before.component) != (is.size, &is.blake3, ours.component) {
            return Err(ArtifactError::Other { version: ours.version.clone(), reference: name.to_owned() });
        }
        let known = was.signature.clone().unwrap_or_default();
        let new = is.signature.take().unwrap_or_default();
        // The same key makes the same signature, or one more; either way nobody counts twice.
        let added = !new.is_empty() && !known.contains(&new);
        let all = if added { format!("{known}{new}") } else { known };
        is.signature = (!all.is_empty()).then_some(all);
        Ok(added)
    }

    fn sheet(&self, old: Option<&Revision>, author: &str, now: Timestamp) -> Result<Sheet, ArtifactError> {
        let Published { version, artifact, component, .. } = &self.published;
        let odd = |why: String| ArtifactError::Odd { why };
        let yaml = serde_yaml::to_string(&self.published).map_err(|error| odd(error.to_string()))?;
        let names: Vec<_> = (0..self.parts.len()).map(part).collect();
        let parts = names.iter().map(String::as_str).zip(self.parts.iter().map(Vec::as_slice));
        let files: Vec<_> = std::iter::once((RELEASE, yaml.as_bytes())).chain(parts).collect();
        let message = format!("release {} {version} for {}-{}", component.word(), artifact.os, artifact.arch);
        let parents = old.map_or(&[][..], std::slice::from_ref);
        let draft = Draft { files: &files, parents, message: &message, author, at: now, key: None };
        Sheet::make(&draft).map_err(|error| odd(error.to_string()))
    }
}

fn git(name: &str) -> impl Fn(SourceError) -> ArtifactError {
    move |source| ArtifactError::Git { reference: name.to_owned(), source: Box::new(source) }
}

/// The machine that a file is for: as it says itself, or as was said.
fn settle(head: &[u8], os: Option<&str>, arch: Option<&str>) -> Result<(String, String), ArtifactError> {
    let odd = |why: String| Err(ArtifactError::Odd { why });
    match (machine(head), os, arch) {
        (Some((os, arch)), said_os, said_arch) => {
            if said_os.is_some_and(|said| said != os) || said_arch.is_some_and(|said| said != arch) {
                let (said_os, said_arch) = (said_os.unwrap_or(os), said_arch.unwrap_or(arch));
                return odd(format!("it is a program for {os}-{arch}, not for {said_os}-{said_arch}"));
            }
            Ok((os.to_owned(), arch.to_owned()))
        }
        (None, Some(os), Some(arch)) => Ok((os.to_owned(), arch.to_owned())),
        _ => odd("the file does not say for which machine it is: give --os and --arch".into()),
    }
}

/// What was published: versions and machines, and the commits that hold them.
///
/// # Errors
/// Fails when the repository cannot be asked.
pub fn published(
    shelf: &mut Shelf,
    deadline: Deadline,
) -> Result<Vec<(String, String, Revision)>, ArtifactError> {
    let prefix = "refs/zagent/release/";
    let refs = shelf.list(&[prefix.to_owned()], deadline).map_err(git(prefix))?;
    let read = |(name, revision): (String, Revision)| {
        let (version, machine) = name.strip_prefix(prefix)?.split_once('/')?;
        Some((version.to_owned(), machine.to_owned(), revision))
    };
    Ok(refs.into_iter().filter_map(read).collect())
}
