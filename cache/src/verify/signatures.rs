//! A staged tree in, its signers and its manifest out.
//!
//! Law: fail closed. A required signature that is missing, unknown or too old refuses the tree; an existing
//! manifest is always enforced, even if it is not required (held by `a_manifest_is_held_to_every_word`,
//! `only_allowed_keys_may_sign`).

use zagent_config::manifest::{self, AgentVersion, Manifest, ManifestMode};
use zagent_config::paths::tree::MANIFEST;
use zagent_config::repository_name;
use zagent_config::settings::{ManifestRule, RequiredSignatures};

use crate::record::FileRecord;
use crate::stage::StagedTree;
use crate::trust::{AllowedSigners, Signer};
use crate::verify::serial_text;
use crate::{ManifestAudience, Refusal, VerifyContext};

/// The version of this agent.
const AGENT_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everyone who signed, as far as signatures are required.
pub(crate) fn verify_signatures(
    staged_tree: &StagedTree,
    context: &VerifyContext<'_>,
) -> Result<Vec<Signer>, Refusal> {
    let (commit, listed) = match context.trust.require {
        RequiredSignatures::None => return Ok(Vec::new()),
        RequiredSignatures::Commit => (true, false),
        RequiredSignatures::Manifest => (false, true),
        RequiredSignatures::Both => (true, true),
    };
    let unsigned = |why| Refusal::Unsigned { revision: staged_tree.revision.clone(), why };
    let known = AllowedSigners::read(context.trust)?;
    let mut found = Vec::new();
    if commit {
        let bytes = staged_tree.commit.as_deref();
        let bytes =
            bytes.ok_or_else(|| unsigned("a directory source has no commit to sign; require `manifest`"))?;
        found.push(known.verify_commit(bytes, context.now)?);
    }
    if listed {
        let written = &staged_tree.written;
        let bytes = written.manifest.as_deref().ok_or_else(|| unsigned("it has no manifest.yaml"))?;
        for signer in
            known.verify_manifest(bytes, &written.signatures, context.trust.threshold, context.now)?
        {
            if !found.contains(&signer) {
                found.push(signer);
            }
        }
    }
    Ok(found)
}

/// The manifest, which the tree matches.
pub(crate) fn verify_manifest(
    staged_tree: &StagedTree,
    context: &VerifyContext<'_>,
) -> Result<Option<Manifest>, Refusal> {
    let signed = context.trust.signs_manifest();
    let minimum = context.trust.min_serial;
    let below = |serial: Option<u64>| Refusal::BelowMinimum { found: serial_text(serial), minimum };
    let Some(bytes) = staged_tree.written.manifest.as_deref() else {
        if minimum > 0 {
            return Err(below(None));
        }
        return match context.trust.manifest {
            ManifestRule::Required => Err(Refusal::NoManifest { revision: staged_tree.revision.clone() }),
            ManifestRule::Optional => Ok(None),
        };
    };
    let manifest = Manifest::read(MANIFEST, bytes).map_err(|faults| Refusal::Manifest(Box::new(faults)))?;
    if manifest.serial < minimum {
        return Err(below(Some(manifest.serial)));
    }
    if manifest.is_expired(context.now)
        && let Some(at) = manifest.expires
    {
        return Err(Refusal::Expired { at });
    }
    check_target(&manifest, context)?;
    let own: Option<AgentVersion> = AGENT_VERSION.parse().ok();
    if let Some(wanted) = &manifest.min_agent
        && own.is_none_or(|own| own < *wanted)
    {
        return Err(Refusal::OldAgent { wanted: wanted.to_string(), own: AGENT_VERSION });
    }
    match &manifest.files {
        Some(_) => check_files(staged_tree, &manifest)?,
        None if signed || context.trust.manifest == ManifestRule::Required => return Err(Refusal::Unlisted),
        None => {}
    }
    Ok(Some(manifest))
}

/// Fails when the manifest was written for another repository or branch.
fn check_target(manifest: &Manifest, context: &VerifyContext<'_>) -> Result<(), Refusal> {
    let ManifestAudience { repositories, branch } = context.audience;
    let Some(target) = &manifest.target else {
        return if context.trust.signs_manifest() { Err(Refusal::Unbound) } else { Ok(()) };
    };
    if !repositories.contains(&repository_name(&target.repository)) {
        let wanted = repositories.join("` or `");
        return Err(Refusal::OtherRepository { found: target.repository.clone(), wanted });
    }
    match branch {
        Some(wanted) if wanted != target.branch => {
            Err(Refusal::OtherBranch { found: target.branch.clone(), wanted: wanted.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Every listed file exists as listed, and there is no other file. A symlink counts as the files it points to; one that
/// points to nothing cannot be listed.
fn check_files(staged_tree: &StagedTree, manifest: &Manifest) -> Result<(), Refusal> {
    let Some(listed) = &manifest.files else {
        return Ok(());
    };
    let written = &staged_tree.written;
    for (path, entry) in listed {
        let file_record = written.resolved_files.get(path).and_then(|real| written.files.get(real));
        let file_record = file_record.ok_or_else(|| Refusal::Missing { path: path.clone() })?;
        if file_record.blake3 != entry.blake3 {
            return Err(Refusal::Digest { path: path.clone() });
        }
        let mode = manifest_mode(file_record);
        if mode != entry.mode {
            return Err(Refusal::Mode {
                path: path.clone(),
                found: mode.as_str(),
                wanted: entry.mode.as_str(),
            });
        }
    }
    let own = |path: &str| path == MANIFEST || manifest::is_signature(path);
    let extra = |path: &&String| !own(path) && !listed.contains_key(*path);
    match written.resolved_files.keys().find(extra).or(written.broken_links.first()) {
        Some(path) => Err(Refusal::Extra { path: path.clone() }),
        None => Ok(()),
    }
}

fn manifest_mode(file_record: &FileRecord) -> ManifestMode {
    ManifestMode::from_bits(if file_record.is_executable() { 0o755 } else { 0o644 })
}
