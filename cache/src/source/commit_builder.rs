//! Files and a message in, the objects of one commit out, and the pack that contains them.
//!
//! Law: the result is the same as Git's: a file name is one path component, a message cannot become a header, and a
//! signature covers every other byte, as `git commit -S` does it, in a namespace that says what the commit is (held
//! by `a_record_is_signed_for_records_only`).

use std::io::Write;
use std::path::Path;

use gix::ObjectId;
use gix::objs::tree::{Entry, EntryKind};
use gix::objs::{Kind, WriteTo, compute_hash};
use jiff::Timestamp;
use zagent_config::ids::Revision;

use crate::trust::{SignError, sign};

const SHA1: gix::hash::Kind = gix::hash::Kind::Sha1;

/// A commit to create.
#[derive(Clone, Copy, Debug)]
pub struct CommitDraft<'a> {
    /// Its files: a name without a slash, and the content.
    pub files: &'a [(&'a str, &'a [u8])],
    /// Its parent commits.
    pub parents: &'a [Revision],
    /// Its message; the first line is the subject.
    pub message: &'a str,
    /// The author.
    pub author: &'a str,
    /// The commit time.
    pub at: Timestamp,
    /// The SSH key that signs it, and the namespace: what the commit is.
    pub signer: Option<(&'a Path, &'static str)>,
}

/// A commit and all its objects, not pushed yet.
#[derive(Clone, Debug)]
pub struct PreparedCommit {
    revision: Revision,
    objects: Vec<(Kind, Vec<u8>)>,
}

/// Why the commit was not created.
#[derive(Debug, thiserror::Error)]
pub enum CommitBuildError {
    /// The file name is not valid.
    #[error("`{0}` is not a valid file name in a commit")]
    Name(String),
    /// It cannot be signed.
    #[error("cannot sign the commit")]
    Sign(#[source] SignError),
    /// The Git library refuses.
    #[error("cannot create the commit")]
    Object(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl PreparedCommit {
    /// Creates the commit.
    ///
    /// # Errors
    /// Fails when a name is not valid, or the key does not sign.
    pub fn build(draft: &CommitDraft<'_>) -> Result<Self, CommitBuildError> {
        let broken = |error: gix::Error| CommitBuildError::Object(Box::new(error));
        let mut objects = Vec::new();
        let mut entries = Vec::new();
        for (name, bytes) in draft.files {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0', '\n']) {
                return Err(CommitBuildError::Name((*name).to_owned()));
            }
            let oid = compute_hash(SHA1, Kind::Blob, bytes).map_err(broken)?;
            entries.push(Entry { mode: EntryKind::Blob.into(), filename: (*name).into(), oid });
            objects.push((Kind::Blob, bytes.to_vec()));
        }
        entries.sort();
        let mut tree = Vec::new();
        let written = gix::objs::Tree { entries }.write_to(&mut tree);
        written.map_err(|error| CommitBuildError::Object(Box::new(error)))?;
        let id = compute_hash(SHA1, Kind::Tree, &tree).map_err(broken)?;
        objects.push((Kind::Tree, tree));
        let commit = commit_object(draft, id)?;
        let id = compute_hash(SHA1, Kind::Commit, &commit).map_err(broken)?;
        objects.push((Kind::Commit, commit));
        let revision = id.to_string().parse().map_err(|error| CommitBuildError::Object(Box::new(error)))?;
        Ok(Self { revision, objects })
    }

    /// The id of the commit.
    #[must_use]
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The pack with all objects, without deltas.
    pub(super) fn pack(&self) -> std::io::Result<Vec<u8>> {
        let mut out = b"PACK\0\0\0\x02".to_vec();
        out.extend_from_slice(&u32::try_from(self.objects.len()).unwrap_or(u32::MAX).to_be_bytes());
        for (kind, bytes) in &self.objects {
            pack_header(&mut out, *kind, bytes.len());
            let mut deflate =
                gix::zlib::stream::deflate::Write::new(&mut out, gix::zlib::Compression::DEFAULT);
            deflate.write_all(bytes)?;
            deflate.flush()?;
        }
        let mut hasher = gix::hash::hasher(SHA1);
        hasher.update(&out);
        let sum = hasher.try_finalize().map_err(std::io::Error::other)?;
        out.extend_from_slice(sum.as_slice());
        Ok(out)
    }
}

/// Type and size of an object in a pack: four bits of the size beside the type, seven in each following byte.
fn pack_header(out: &mut Vec<u8>, kind: Kind, size: usize) {
    let kind: u8 = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut byte = (kind << 4) | (size & 0x0f) as u8;
    let mut rest = size >> 4;
    while rest > 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
}

/// The bytes of the commit.
fn commit_object(draft: &CommitDraft<'_>, tree: ObjectId) -> Result<Vec<u8>, CommitBuildError> {
    let who: String = draft.author.chars().filter(|c| !c.is_control() && !"<>".contains(*c)).collect();
    let line = format!("{who} <{}@zagent> {} +0000", who.replace(' ', "."), draft.at.as_second());
    let mut text = format!("tree {tree}\n");
    for parent in draft.parents {
        text.push_str(&format!("parent {parent}\n"));
    }
    text.push_str(&format!("author {line}\ncommitter {line}\n"));
    let message = draft.message.replace('\0', " ");
    let body = format!("\n{}\n", message.trim_end_matches('\n'));
    if let Some((key, namespace)) = draft.signer {
        let signature =
            sign(key, namespace, format!("{text}{body}").as_bytes()).map_err(CommitBuildError::Sign)?;
        text.push_str(&format!("gpgsig {}\n", signature.trim_end().replace('\n', "\n ")));
    }
    text.push_str(&body);
    Ok(text.into_bytes())
}
