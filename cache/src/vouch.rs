//! A staged tree in, who and what vouches for it out: signatures and the manifest.
//!
//! Law: fail closed. A required signature that is missing, unknown or too old refuses the tree; a manifest that is there
//! is held to every word, also when nobody requires it.

use zagent_config::manifest::{self, Manifest, Mode, Version};
use zagent_config::paths::tree::MANIFEST;
use zagent_config::settings::{ManifestRule, Require};

use crate::record::Kept;
use crate::stage::Holding;
use crate::trust::{Signer, Signers};
use crate::{Proof, Refusal};

/// The version of this agent.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// Everybody who signed, as far as signatures are required.
pub(crate) fn signers(holding: &Holding, proof: &Proof<'_>) -> Result<Vec<Signer>, Refusal> {
    let (commit, listed) = match proof.trust.require {
        Require::None => return Ok(Vec::new()),
        Require::Commit => (true, false),
        Require::Manifest => (false, true),
        Require::Both => (true, true),
    };
    let unsigned = |why| Refusal::Unsigned { revision: holding.revision.clone(), why };
    let known = Signers::read(proof.trust)?;
    let mut found = Vec::new();
    if commit {
        let bytes = holding.commit.as_deref();
        let bytes = bytes.ok_or_else(|| unsigned("a directory has no commit to sign; require `manifest`"))?;
        found.push(known.commit(bytes, proof.now)?);
    }
    if listed {
        let written = &holding.written;
        let bytes = written.manifest.as_deref().ok_or_else(|| unsigned("it has no manifest.yaml to sign"))?;
        for signer in known.manifest(bytes, &written.signatures, proof.trust.threshold, proof.now)? {
            if !found.contains(&signer) {
                found.push(signer);
            }
        }
    }
    Ok(found)
}

/// The manifest, which the tree fulfils.
pub(crate) fn manifest(holding: &Holding, proof: &Proof<'_>) -> Result<Option<Manifest>, Refusal> {
    let signed = matches!(proof.trust.require, Require::Manifest | Require::Both);
    let Some(bytes) = holding.written.manifest.as_deref() else {
        return match proof.trust.manifest {
            ManifestRule::Required => Err(Refusal::NoManifest { revision: holding.revision.clone() }),
            ManifestRule::Optional => Ok(None),
        };
    };
    let manifest = Manifest::read(MANIFEST, bytes).map_err(|faults| Refusal::Manifest(Box::new(faults)))?;
    if manifest.is_expired(proof.now)
        && let Some(at) = manifest.expires
    {
        return Err(Refusal::Expired { at });
    }
    let own: Option<Version> = OWN.parse().ok();
    if let Some(wanted) = &manifest.min_agent
        && own.is_none_or(|own| own < *wanted)
    {
        return Err(Refusal::OldAgent { wanted: wanted.to_string(), own: OWN });
    }
    match &manifest.files {
        Some(_) => listed(holding, &manifest)?,
        None if signed || proof.trust.manifest == ManifestRule::Required => return Err(Refusal::Unlisted),
        None => {}
    }
    Ok(Some(manifest))
}

/// Every listed file is there as it is listed, and no other. A link counts as the files it leads to; one that leads
/// nowhere cannot be listed.
fn listed(holding: &Holding, manifest: &Manifest) -> Result<(), Refusal> {
    let Some(listed) = &manifest.files else {
        return Ok(());
    };
    let written = &holding.written;
    for (path, entry) in listed {
        let kept = written.seen.get(path).and_then(|real| written.files.get(real));
        let kept = kept.ok_or_else(|| Refusal::Missing { path: path.clone() })?;
        if kept.blake3 != entry.blake3 {
            return Err(Refusal::Digest { path: path.clone() });
        }
        let mode = mode(kept);
        if mode != entry.mode {
            return Err(Refusal::Mode { path: path.clone(), found: mode.text(), wanted: entry.mode.text() });
        }
    }
    let own = |path: &str| path == MANIFEST || manifest::is_signature(path);
    let extra = |path: &&String| !own(path) && !listed.contains_key(*path);
    match written.seen.keys().find(extra).or(written.idle.first()) {
        Some(path) => Err(Refusal::Extra { path: path.clone() }),
        None => Ok(()),
    }
}

fn mode(kept: &Kept) -> Mode {
    Mode::of(if kept.is_executable() { 0o755 } else { 0o644 })
}
