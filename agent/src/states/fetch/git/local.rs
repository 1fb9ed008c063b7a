//! `git.latest`: how the local repository stands towards what is wanted.

use std::collections::BTreeSet;
use std::path::Path;

use zagent_compiler::functions::Refusal;

use super::super::super::Failure;
use super::latest::{Latest, Reset};
use super::short;
use super::wanted::{Sort, Wanted};
use crate::host::git::Git;

/// How the local repository stands.
pub(super) struct Local {
    pub(super) revision: Option<String>,
    pub(super) branch: Option<String>,
    /// The branch that has to be checked out.
    pub(super) switches: Option<String>,
    /// It is there.
    pub(super) has_branch: bool,
    /// Where the branch stands that has to come to the wanted commit.
    pub(super) base: Option<String>,
    pub(super) tags: BTreeSet<String>,
    pub(super) url: Option<String>,
    pub(super) upstream: Option<String>,
    pub(super) dirty: bool,
    /// The wanted commit is here, under the names that it has in the remote repository.
    pub(super) has_commit: bool,
    /// The wanted commit comes after the base.
    pub(super) is_ahead: bool,
    /// A submodule is not as the commit says.
    pub(super) modules: bool,
    /// It was cloned just now.
    pub(super) fresh: bool,
}

impl Local {
    pub(super) fn look(latest: &Latest, git: &Git<'_>, wanted: &Wanted) -> Result<Self, Failure> {
        let dir = &latest.target.path;
        let verify = |rev: &str| git.line(dir, &["rev-parse", "--verify", "--quiet", rev]);
        let (revision, branch) = (git.revision(dir)?, git.branch(dir)?);
        let switches = latest.branch.clone().filter(|b| Some(b) != branch.as_ref());
        let mut base = revision.clone();
        let mut has_branch = false;
        if let Some(name) = &switches {
            let there = verify(&format!("refs/heads/{name}^{{commit}}"))?;
            has_branch = there.is_some();
            base = there.or_else(|| wanted.commit.clone());
        }
        let tags: BTreeSet<String> = git.names(dir, "refs/tags/")?.into_iter().collect();
        let commit = wanted.commit.as_deref().unwrap_or_default();
        let here = !commit.is_empty() && verify(&format!("{commit}^{{commit}}"))?.is_some();
        let has_commit = here && is_named(latest, &verify, wanted, commit)?;
        let is_ahead = match &base {
            Some(base) if has_commit => {
                git.ask(Some(dir), &["merge-base", "--is-ancestor", base, commit])?.is_fine()
            }
            _ => true,
        };
        let follows =
            if has_branch { switches.clone() } else { branch.clone().filter(|_| switches.is_none()) };
        let upstream = match follows {
            Some(name) => git.line(
                dir,
                &["rev-parse", "--abbrev-ref", "--verify", "--quiet", &format!("{name}@{{upstream}}")],
            )?,
            None => None,
        };
        let dirty = revision.is_some() && has_changes(git, dir)?;
        let modules = latest.flag("submodules", false)
            && git
                .lines(dir, &["submodule", "status", "--recursive"])?
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
fn has_changes(git: &Git<'_>, dir: &Path) -> Result<bool, Failure> {
    let words = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"];
    Ok(!git.must(Some(dir), &words)?.trim().is_empty())
}

/// True when the branch or tag that is wanted stands at the same commit here.
fn is_named(
    latest: &Latest,
    verify: &dyn Fn(&str) -> Result<Option<String>, Refusal>,
    wanted: &Wanted,
    commit: &str,
) -> Result<bool, Failure> {
    let tag = match wanted.kind {
        Sort::Branch => {
            let upstream = verify(wanted.upstream.as_deref().unwrap_or_default())?;
            return Ok(upstream.as_deref() == Some(commit));
        }
        Sort::Tag => verify(&format!("refs/tags/{}^{{commit}}", latest.rev))?,
        _ => return Ok(true),
    };
    if let Some(own) = tag.as_deref().filter(|own| *own != commit && latest.reset == Reset::No) {
        return Err(Failure::new(format!(
            "'{}' is a tag, but the remote SHA1 for this tag ({}) doesn't match the local SHA1 ({}). Set 'force_reset' to True \
             to force this update.",
            latest.rev,
            short(commit),
            short(own)
        )));
    }
    Ok(tag.as_deref() == Some(commit))
}
