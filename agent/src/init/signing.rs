//! New repository in, signed repository out: a key, the list of signers, the manifest and its signature.
//!
//! Law: the private key never becomes part of the repository: it stays in Git's own directory, or where it was
//! (held by `a_new_repository_checks_runs_and_then_has_nothing_to_do`).

use std::path::{Path, PathBuf};

use zagent_cache::CacheLimits;
use zagent_cache::manifest::{self, ManifestOptions};
use zagent_cache::trust;
use zagent_config::error_chain;
use zagent_config::paths::tree;
use zagent_config::settings::RunSchedule;

use super::git;

/// The list of signers, beside the manifest: CI and nodes use it.
pub(super) const SIGNERS_FILE: &str = "allowed_signers";
/// A new key, in Git's own directory.
const KEY_FILE: &str = ".git/zagent-signing-key";

/// Result of the signing setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningSetup {
    /// The manifest is signed.
    Signed(RepositorySigner),
    /// It is not, with the reason.
    Unsigned(String),
}

/// Who signed a new repository, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositorySigner {
    /// The private key.
    pub key: PathBuf,
    /// The name in the list of signers.
    pub principal: String,
    /// The name of the repository in the manifest.
    pub repository: String,
    /// The branch in the manifest.
    pub branch: String,
}

/// Lists and signs the files of a repository, whose states run in this order unless it is the default; the files that were written are added to `written`.
pub(super) fn sign_repository(
    dir: &Path,
    key: Option<&Path>,
    schedule: Option<RunSchedule>,
    written: &mut Vec<String>,
) -> SigningSetup {
    match sign(dir, key, schedule, written) {
        Ok(signer) => SigningSetup::Signed(signer),
        Err(why) => SigningSetup::Unsigned(why),
    }
}

fn sign(
    dir: &Path,
    key: Option<&Path>,
    schedule: Option<RunSchedule>,
    written: &mut Vec<String>,
) -> Result<RepositorySigner, String> {
    let unreadable =
        |path: &Path, error: std::io::Error| format!("cannot use the key `{}`: {error}", path.display());
    let key = match key {
        Some(key) => key.to_owned(),
        None => {
            let path = dir.join(KEY_FILE);
            trust::create_key(&path).map_err(|error| unreadable(&path, error))?;
            path
        }
    };
    let public = trust::public_key(&key).map_err(|error| unreadable(&key, error))?;
    let principal = git::config_value(dir, "user.email").filter(|name| is_principal(name));
    let principal = principal.unwrap_or_else(|| "owner".to_owned());
    let signers = format!(
        "# Who may sign the states, one line per key (see ssh-keygen(1), ALLOWED SIGNERS). Nodes use their own copy:\n\
         # /etc/zagent/allowed_signers. Drivers of rollouts sign with keys in another file, `rollout.allowed_signers`.\n\
         {principal} namespaces=\"git,zagent-manifest\" {public}\n"
    );
    let failed = |error: manifest::ManifestError| error_chain(&error);
    manifest::write_atomic(dir, SIGNERS_FILE, &signers).map_err(failed)?;
    written.push(SIGNERS_FILE.to_owned());
    let options = ManifestOptions {
        repository: git::config_value(dir, "remote.origin.url").or_else(|| directory_name(dir)),
        schedule,
        limits: CacheLimits::default(),
        ..ManifestOptions::default()
    };
    let draft = manifest::build(dir, &options).map_err(failed)?;
    let target = draft.new.target.ok_or("the repository and the branch have no name")?;
    manifest::write_atomic(dir, tree::MANIFEST, &draft.text).map_err(failed)?;
    written.push(tree::MANIFEST.to_owned());
    let signature = trust::sign(&key, trust::MANIFEST_NAMESPACE, draft.text.as_bytes())
        .map_err(|error| error_chain(&error))?;
    let name = format!("{}.sig", tree::MANIFEST);
    manifest::write_atomic(dir, &name, &signature).map_err(failed)?;
    written.push(name);
    Ok(RepositorySigner { key, principal, repository: target.repository, branch: target.branch })
}

fn is_principal(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._+@-".contains(c))
}

/// The name of a repository without a remote: that of its directory.
fn directory_name(dir: &Path) -> Option<String> {
    let real = dir.canonicalize().ok()?;
    let name: String = real
        .file_name()?
        .to_str()?
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() { '-' } else { c })
        .collect();
    Some(name)
}
