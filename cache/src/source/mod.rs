//! A remote in, the commit of a branch out, and its objects in the store.
//!
//! Law: whatever the remote does, every call ends at its deadline, reads no more bytes than its limit, writes
//! nothing outside the store, and fails with an error that names the remote and the cause but never a secret (held
//! by `polls_of_bad_remotes_end_in_time_and_name_the_cause`,
//! `fetches_from_bad_remotes_end_in_time_and_leave_the_store_as_it_was`).

#![expect(
    clippy::disallowed_methods,
    reason = "the edge to remotes: deadlines, `ssh`, `.netrc` and the age of left-over files"
)]

mod address;
mod client;
mod commit_builder;
mod credentials;
mod deadline_timer;
mod dir_source;
mod error;
mod exchange;
mod fetch;
mod git_process;
mod http_agent;
mod http_errors;
mod http_remote;
mod http_transport;
mod local_refs;
mod pkt_line;
mod poll;
mod push;
mod push_report;
mod ref_store;
mod remotes;

pub use crate::deadline::Deadline;
pub use client::RemoteClient;
pub use commit_builder::{CommitBuildError, CommitDraft, PreparedCommit};
pub use dir_source::{DirSource, DirWatcher};
pub use error::{SourceError, SourceErrorKind};
pub use fetch::FetchError;
pub use push::PushOutcome;
pub use ref_store::{FetchedCommits, RefStore};
pub use remotes::{FetchTarget, RemoteHeads, RemotePoll, Remotes, SourceHealth};

/// Maximum bytes of an answer that lists refs; such a list is held in memory.
const MAX_REFS: u64 = 16 << 20;

/// The agent name that servers see.
const AGENT: &str = concat!("git/zagent-", env!("CARGO_PKG_VERSION"));

/// The full name of a branch, if it is valid.
fn full_ref(branch: &str) -> Option<String> {
    let name = format!("refs/heads/{branch}");
    let plain = !branch.starts_with('-') && branch.len() <= 255;
    let valid = gix::validate::reference::name(name.as_str().into()).is_ok();
    (plain && valid).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::full_ref;

    #[test]
    fn unsafe_branch_names_are_refused() {
        for good in ["main", "testing/web-01", "a.b", "ünï"] {
            assert_eq!(full_ref(good).unwrap(), format!("refs/heads/{good}"));
        }
        let long = "x".repeat(300);
        for bad in
            ["", "-x", "a b", "a..b", "a~1", "a^", "a:b", "a?", "a*", "[a", "a\\b", "/a", "a/", "a//b", "a\n"]
                .into_iter()
                .chain([".a", "a/.b", "a.lock", "@{u}", "a\0b", "a.", long.as_str()])
        {
            assert_eq!(full_ref(bad), None, "{bad:?}");
        }
    }
}
