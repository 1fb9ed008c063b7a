//! A staged tree and a proof in, a verified tree out, or why it is refused.
//!
//! Law: the only way to a [`VerifiedTree`]. Signatures are checked before any signed content is read; then the
//! manifest; then whether the history moved forward. The replay protection record stores what was accepted;
//! publishing writes it before `current` changes (held by `VerifiedTree`,
//! `anything_but_one_good_signature_is_refused`, `rewritten_history_is_refused`).

mod signatures;

use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::settings::RequiredSignatures;

use crate::commit_history::{Ancestry, CommitIdentity, VerifyContext, check_first_commit, check_history};
use crate::generation::TREE;
use crate::record::{self, GenerationRecord};
use crate::replay_floor::{AcceptedRevision, BranchFloor, ReplayFloor};
use crate::stage::StagedTree;
use crate::{Cache, CacheError, Generation, Refusal, StagedRevision, disk};

/// A tree that can be published.
#[derive(Debug)]
#[must_use = "a verified tree is deleted unless it is published"]
pub struct VerifiedTree {
    pub(crate) staged_tree: StagedTree,
    pub(crate) record: GenerationRecord,
    /// The record as it will be on the disk.
    pub(crate) record_bytes: Vec<u8>,
    /// The new replay protection record; `None` when nothing changes.
    pub(crate) floor: Option<ReplayFloor>,
    /// True when the node has accepted nothing before, and nothing told it what to expect.
    first_use: bool,
}

impl VerifiedTree {
    /// The tree: in the staging directory, or at its final place.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.staged_tree.staging_dir.path().join(TREE)
    }

    /// True when it is the first revision of this node, is trusted because of its signatures, and `trust.first` does
    /// not pin it: trust on first use.
    #[must_use]
    pub const fn is_first_use(&self) -> bool {
        self.first_use
    }

    /// What is known of it.
    #[must_use]
    pub const fn record(&self) -> &GenerationRecord {
        &self.record
    }
}

/// What was accepted last for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestAccepted {
    /// The revision.
    pub revision: String,
    /// When that commit was made.
    pub committed: Option<Timestamp>,
    /// The lowest serial that is accepted.
    pub serial: Option<u64>,
}

impl Cache {
    /// What was accepted last for a line; `None` when nothing was.
    ///
    /// # Errors
    /// Fails when the replay protection records cannot be read.
    pub fn newest_accepted(&self, line: &str) -> Result<Option<NewestAccepted>, CacheError> {
        let (floor, _) = ReplayFloor::read(self)?;
        Ok(floor.branch(line).map(|line| NewestAccepted {
            revision: line.revision.clone(),
            committed: line.committed,
            serial: line.serial,
        }))
    }

    /// True when nothing was accepted before, by any line: a new node, or one whose root directory was wiped.
    ///
    /// # Errors
    /// Fails when the replay protection records cannot be read.
    pub fn is_first_contact(&self) -> Result<bool, CacheError> {
        Ok(ReplayFloor::read(self)?.0.is_empty())
    }
}

impl StagedRevision {
    /// Verifies the tree.
    ///
    /// # Errors
    /// Fails with the first reason to refuse it.
    pub fn verify(self, context: &VerifyContext<'_>) -> Result<VerifiedTree, Refusal> {
        let mut staged_tree = self.0;
        let signers = signatures::verify_signatures(&staged_tree, context)?;
        let manifest = signatures::verify_manifest(&staged_tree, context)?;
        let current = staged_tree.current.take();
        let content = record::content_digest(&staged_tree.written.dirs, &staged_tree.written.files);
        let mut record = GenerationRecord {
            schema: record::SCHEMA,
            revision: staged_tree.revision.clone(),
            line: context.branch.to_owned(),
            source: context.source.to_owned(),
            serial: manifest.as_ref().map(|manifest| manifest.serial),
            expires: manifest.as_ref().and_then(|manifest| manifest.expires),
            signers,
            committed: staged_tree.committed,
            published: context.now,
            previous: current.as_ref().map(|current| current.name().to_owned()),
            content,
            dirs: std::mem::take(&mut staged_tree.written.dirs),
            files: std::mem::take(&mut staged_tree.written.files),
        };
        let again = current.as_ref().filter(|current| is_unchanged(current, &record));
        let (floor, first_use) = match again {
            // The current revision is accepted again if its generation was damaged, also after a rollback to it.
            Some(current) => {
                record.previous.clone_from(&current.record().previous);
                (None, false)
            }
            None => raise_floor(&staged_tree, &record, context)?,
        };
        let place = staged_tree.staging_dir.path();
        disk::failpoint("verify::done").map_err(disk::io_error("verify", place))?;
        let record_bytes =
            serde_json::to_vec(&record).map_err(|error| disk::io_error("write", place)(error.into()))?;
        Ok(VerifiedTree { staged_tree, record, record_bytes, floor, first_use })
    }
}

/// True when the tree is the same revision as the current generation.
fn is_unchanged(current: &Generation, new: &GenerationRecord) -> bool {
    let old = current.record();
    old.revision == new.revision && old.content == new.content && old.line == new.line
}

/// The floor after this tree, unless it is below the present one, and whether the tree is trusted on first use. `None`
/// when the floor stays as it is.
fn raise_floor(
    staged_tree: &StagedTree,
    record: &GenerationRecord,
    context: &VerifyContext<'_>,
) -> Result<(Option<ReplayFloor>, bool), Refusal> {
    let mut floor = match ReplayFloor::repair(&staged_tree.cache) {
        Err(CacheError::FloorDamaged { .. }) if context.allow_rewind => ReplayFloor::default(),
        floor => floor?,
    };
    let digest =
        staged_tree.written.manifest.as_deref().map(|bytes| blake3::hash(bytes).to_hex().to_string());
    let manifest = record.serial.zip(digest);
    if let Some(below) = context.base_branch.and_then(|line| floor.branch(line))
        && let Some(serial) = below.serial
    {
        match &manifest {
            Some((own, _)) if *own < serial => {
                return Err(Refusal::SerialReplayed { serial: *own, floor: serial });
            }
            Some(_) => {}
            None => {
                return Err(Refusal::ManifestGone { revision: record.revision.clone(), floor: serial });
            }
        }
    }
    let first_contact = floor.is_empty();
    let judged = match floor.branch(context.branch) {
        Some(line) => check_fast_forward(staged_tree, line, manifest.as_ref(), context),
        None if first_contact => check_first_contact(staged_tree, record.serial, context),
        None => Ok(()),
    };
    let mut rewound = false;
    if let Err(refusal) = judged {
        if !context.allow_rewind {
            return Err(refusal);
        }
        tracing::warn!(why = %refusal, "accepted anyway, as requested");
        rewound = true;
    }
    // The same manifest in another commit is the same revision: an unsigned commit must not become what the next one
    // is compared with.
    let manifest_alone = context.trust.require == RequiredSignatures::Manifest;
    let known = floor.branch(context.branch).zip(manifest.as_ref());
    if manifest_alone
        && !rewound
        && known.is_some_and(|(line, (serial, digest))| line.is_manifest(*serial, digest))
    {
        return Ok((None, false));
    }
    // Nobody signed the time of the commit.
    let committed = record.committed.filter(|_| !manifest_alone);
    let new = AcceptedRevision { revision: &record.revision, committed, manifest, rewound };
    floor.accept(context.branch, &new);
    // Without signatures nothing is trusted, and a directory is on this machine.
    let trusted = context.trust.require != RequiredSignatures::None && !staged_tree.is_directory();
    Ok((Some(floor), first_contact && trusted && context.trust.first.is_unknown()))
}

/// Fails when the first revision of the node is not what `trust.first` announces.
fn check_first_contact(
    staged_tree: &StagedTree,
    serial: Option<u64>,
    context: &VerifyContext<'_>,
) -> Result<(), Refusal> {
    check_first_commit(&staged_tree.identity(), context)?;
    match context.trust.first.serial {
        Some(wanted) if serial.is_none_or(|serial| serial < wanted) => {
            Err(Refusal::FirstSerial { found: serial_text(serial), wanted })
        }
        _ => Ok(()),
    }
}

/// A serial in words; a revision may have none.
pub(crate) fn serial_text(serial: Option<u64>) -> String {
    serial.map_or_else(|| "no manifest".to_owned(), |serial| format!("serial {serial}"))
}

/// Fails when the tree is older than what was accepted for its line.
fn check_fast_forward(
    staged_tree: &StagedTree,
    line: &BranchFloor,
    manifest: Option<&(u64, String)>,
    context: &VerifyContext<'_>,
) -> Result<(), Refusal> {
    let identity = staged_tree.identity();
    match (manifest, line.serial) {
        (Some((serial, _)), Some(floor)) if *serial < floor => {
            return Err(Refusal::SerialReplayed { serial: *serial, floor });
        }
        (Some((serial, digest)), Some(floor)) if *serial == floor && line.is_other_manifest(digest) => {
            return Err(Refusal::SerialReused { serial: *serial });
        }
        // A manifest may be dropped openly, by a commit on top of those that had one.
        (None, Some(floor)) if identity.ancestry(line, context) != Ancestry::Descendant => {
            return Err(Refusal::ManifestGone { revision: staged_tree.revision.clone(), floor });
        }
        _ => {}
    }
    // A directory may return to earlier content: it has no history.
    if staged_tree.is_directory() { Ok(()) } else { check_history(&identity, line, context) }
}

impl StagedTree {
    fn is_directory(&self) -> bool {
        self.commit.is_none()
    }

    fn identity(&self) -> CommitIdentity<'_> {
        CommitIdentity { revision: &self.revision, parents: &self.parents, committed: self.committed }
    }
}
