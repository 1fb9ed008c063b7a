//! `git.latest`: how the local repository stands towards what is wanted.

use std::collections::BTreeSet;
use std::path::Path;

use zagent_config::FunctionError;

use super::latest::{ForceReset, GitLatest};
use super::remote_rev::{RemoteRev, RevKind};
use super::short_rev;
use crate::StateError;
use zagent_config::sorted::CollectSorted;
use zagent_host::git::GitCli;

/// How the local repository stands.
pub(crate) struct LocalRepo {
    pub revision: Option<String>,
    pub branch: Option<String>,
    /// The branch that has to be checked out.
    pub switches: Option<String>,
    /// It is there.
    pub(crate) has_branch: bool,
    /// Where the branch stands that has to come to the wanted commit.
    pub base: Option<String>,
    pub tags: BTreeSet<String>,
    pub url: Option<String>,
    pub upstream: Option<String>,
    pub(crate) dirty: bool,
    /// The wanted commit is here, under the names that it has in the remote repository.
    pub has_commit: bool,
    /// The wanted commit comes after the base.
    pub(crate) is_ahead: bool,
    /// A submodule is not as the commit says.
    pub modules: bool,
    /// It was cloned just now.
    pub fresh: bool,
}

impl LocalRepo {
    pub(crate) fn inspect(
        latest: &GitLatest,
        git: &GitCli<'_>,
        wanted: &RemoteRev,
    ) -> Result<Self, StateError> {
        let dir = &latest.target.path;
        let verify = |rev: &str| git.output_line(dir, &["rev-parse", "--verify", "--quiet", rev]);
        let (revision, branch) = (git.head_commit(dir)?, git.head_branch(dir)?);
        let switches = latest.branch.clone().filter(|b| Some(b) != branch.as_ref());
        let mut base = revision.clone();
        let mut has_branch = false;
        if let Some(name) = &switches {
            let there = verify(&format!("refs/heads/{name}^{{commit}}"))?;
            has_branch = there.is_some();
            base = there.or_else(|| wanted.commit.clone());
        }
        let tags: BTreeSet<String> = git.list_refs(dir, "refs/tags/")?.into_iter().into_set();
        let commit = wanted.commit.as_deref().unwrap_or_default();
        let here = !commit.is_empty() && verify(&format!("{commit}^{{commit}}"))?.is_some();
        let has_commit = here && is_ref_current(latest, &verify, wanted, commit)?;
        let is_ahead = match &base {
            Some(base) if has_commit => {
                git.run(Some(dir), &["merge-base", "--is-ancestor", base, commit])?.is_success()
            }
            _ => true,
        };
        let follows =
            if has_branch { switches.clone() } else { branch.clone().filter(|_| switches.is_none()) };
        let upstream = match follows {
            Some(name) => git.output_line(
                dir,
                &["rev-parse", "--abbrev-ref", "--verify", "--quiet", &format!("{name}@{{upstream}}")],
            )?,
            None => None,
        };
        let dirty = revision.is_some() && has_changes(git, dir)?;
        let modules = latest.flag("submodules", false)
            && git
                .output_lines(dir, &["submodule", "status", "--recursive"])?
                .iter()
                .any(|l| l.starts_with(['-', '+']));
        let url = git.remote_url(dir, &latest.remote)?;
        Ok(Self {
            revision,
            branch,
            switches,
            has_branch,
            base,
            tags,
            url,
            upstream,
            dirty,
            has_commit,
            is_ahead,
            modules,
            fresh: false,
        })
    }
}

/// True when something that is tracked was changed and not committed.
fn has_changes(git: &GitCli<'_>, dir: &Path) -> Result<bool, StateError> {
    let words = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"];
    Ok(!git.run_checked(Some(dir), &words)?.trim().is_empty())
}

/// True when the branch or tag that is wanted stands at the same commit here.
fn is_ref_current(
    latest: &GitLatest,
    verify: &dyn Fn(&str) -> Result<Option<String>, FunctionError>,
    wanted: &RemoteRev,
    commit: &str,
) -> Result<bool, StateError> {
    let tag = match wanted.kind {
        RevKind::Branch => {
            let upstream = verify(wanted.upstream.as_deref().unwrap_or_default())?;
            return Ok(upstream.as_deref() == Some(commit));
        }
        RevKind::Tag => verify(&format!("refs/tags/{}^{{commit}}", latest.rev))?,
        _ => return Ok(true),
    };
    if let Some(own) = tag.as_deref().filter(|own| *own != commit && latest.reset == ForceReset::No) {
        return Err(StateError::new(format!(
            "'{}' is a tag, but the remote SHA1 for this tag ({}) doesn't match the local SHA1 ({}). Set 'force_reset' to True \
             to force this update.",
            latest.rev,
            short_rev(commit),
            short_rev(own)
        )));
    }
    Ok(tag.as_deref() == Some(commit))
}
