//! The refs of a remote repository and a rev in, what the rev is there out.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_hash, short};

/// What the rev is in the remote repository.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) commit: Option<String>,
    pub(super) kind: Sort,
    /// The branch that the local one follows.
    pub(super) upstream: Option<String>,
    /// How it is called in words.
    pub(super) shown: String,
    pub(super) default_branch: Option<String>,
    pub(super) tags: BTreeSet<String>,
    pub(super) heads: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    Head,
    Branch,
    Tag,
    Hash,
    #[default]
    None,
}

/// What a rev is among the refs of a remote repository.
pub(super) fn pick(refs: &BTreeMap<String, String>, rev: &str, remote: &str) -> Wanted {
    let mut wanted = Wanted::default();
    for (name, commit) in refs {
        if name.starts_with("refs/heads/") {
            wanted.heads.insert(name.clone(), commit.clone());
        } else if let Some(tag) = name.strip_prefix("refs/tags/").filter(|t| !t.ends_with("^{}")) {
            wanted.tags.insert(tag.to_owned());
        }
    }
    let head = refs.get("HEAD");
    let default = wanted.heads.iter().find(|(_, commit)| Some(*commit) == head);
    wanted.default_branch = default.and_then(|(name, _)| name.strip_prefix("refs/heads/")).map(str::to_owned);
    let tag = refs.get(&format!("refs/tags/{rev}^{{}}")).or_else(|| refs.get(&format!("refs/tags/{rev}")));
    (wanted.kind, wanted.commit) = if rev == "HEAD" {
        (if head.is_some() { Sort::Head } else { Sort::None }, head.cloned())
    } else if let Some(commit) = refs.get(&format!("refs/heads/{rev}")) {
        (Sort::Branch, Some(commit.clone()))
    } else if let Some(commit) = tag {
        (Sort::Tag, Some(commit.clone()))
    } else if is_hash(rev) {
        (Sort::Hash, Some(rev.to_ascii_lowercase()))
    } else {
        (Sort::None, None)
    };
    wanted.upstream = (wanted.kind == Sort::Branch).then(|| format!("{remote}/{rev}"));
    let commit = wanted.commit.as_deref().map_or("", short);
    wanted.shown = match wanted.kind {
        Sort::Head => format!("remote HEAD ({commit})"),
        Sort::Branch => format!("{remote}/{rev} ({commit})"),
        Sort::Tag => format!("{rev} ({commit})"),
        Sort::Hash | Sort::None => commit.to_owned(),
    };
    wanted
}

/// True when a commit is the wanted one.
pub(super) fn equal(commit: Option<&str>, wanted: &Wanted) -> bool {
    match (commit, wanted.commit.as_deref()) {
        (Some(commit), Some(want)) if wanted.kind == Sort::Hash => commit.starts_with(want),
        (commit, want) => commit == want,
    }
}
