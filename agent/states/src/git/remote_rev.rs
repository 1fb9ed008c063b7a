//! The refs of a remote repository and a rev in, what the rev is there out.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_hash, short_rev};

/// What the rev is in the remote repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemoteRev {
    pub commit: Option<String>,
    pub kind: RevKind,
    /// The branch that the local one follows.
    pub upstream: Option<String>,
    /// How it is called in words.
    pub shown: String,
    pub(crate) default_branch: Option<String>,
    pub tags: BTreeSet<String>,
    pub heads: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RevKind {
    Head,
    Branch,
    Tag,
    Hash,
    #[default]
    None,
}

/// What a rev is among the refs of a remote repository.
pub(crate) fn resolve_rev(refs: &BTreeMap<String, String>, rev: &str, remote: &str) -> RemoteRev {
    let mut wanted = RemoteRev::default();
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
        (if head.is_some() { RevKind::Head } else { RevKind::None }, head.cloned())
    } else if let Some(commit) = refs.get(&format!("refs/heads/{rev}")) {
        (RevKind::Branch, Some(commit.clone()))
    } else if let Some(commit) = tag {
        (RevKind::Tag, Some(commit.clone()))
    } else if is_hash(rev) {
        (RevKind::Hash, Some(rev.to_ascii_lowercase()))
    } else {
        (RevKind::None, None)
    };
    wanted.upstream = (wanted.kind == RevKind::Branch).then(|| format!("{remote}/{rev}"));
    let commit = wanted.commit.as_deref().map_or("", short_rev);
    wanted.shown = match wanted.kind {
        RevKind::Head => format!("remote HEAD ({commit})"),
        RevKind::Branch => format!("{remote}/{rev} ({commit})"),
        RevKind::Tag => format!("{rev} ({commit})"),
        RevKind::Hash | RevKind::None => commit.to_owned(),
    };
    wanted
}

/// True when a commit is the wanted one.
pub(crate) fn is_at_rev(commit: Option<&str>, wanted: &RemoteRev) -> bool {
    match (commit, wanted.commit.as_deref()) {
        (Some(commit), Some(want)) if wanted.kind == RevKind::Hash => commit.starts_with(want),
        (commit, want) => commit == want,
    }
}
