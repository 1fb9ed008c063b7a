//! Branches in, the commits they point to out.
//!
//! Law: nothing is written; names are compared as a whole; on an open connection that works, a poll is one round
//! trip (held by `an_idle_poll_is_one_request_on_the_same_connection`,
//! `names_are_compared_whole_and_several_are_polled_at_once`).

use std::collections::BTreeMap;
use std::io::Read;

use gix::progress::Discard;
use gix_protocol::{Handshake, LsRefsCommand};
use gix_transport::Service;
use zagent_config::ids::Revision;

use super::client::GitSession;
use super::error::{SourceErrorKind, sanitize_line};
use super::http_remote::{HttpRemote, RemoteRequest};
use super::{AGENT, Deadline, MAX_REFS, RemoteClient, SourceError, full_ref, local_refs, pkt_line};

/// How many branches an error lists.
const MAX_LISTED: usize = 12;

/// Refs as the remote lists them: name and id.
pub(super) type RefList = Vec<(String, String)>;

/// Branches, and the commits that they point to.
type BranchHeads = BTreeMap<String, Revision>;

impl RemoteClient {
    /// The commits that branches point to, in the given order; `None` for a branch that does not exist.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached, or a name is not a valid branch.
    pub fn poll(
        &mut self,
        branches: &[&str],
        deadline: Deadline,
    ) -> Result<Vec<Option<Revision>>, SourceError> {
        Ok(self.poll_with_prefix(branches, None, deadline)?.0)
    }

    /// The same, and in the same request all branches with this prefix, with their commits.
    ///
    /// # Errors
    /// As [`RemoteClient::poll`].
    pub fn poll_with_prefix(
        &mut self,
        branches: &[&str],
        below: Option<&str>,
        deadline: Deadline,
    ) -> Result<(Vec<Option<Revision>>, BranchHeads), SourceError> {
        let names = branches.iter().map(|branch| self.ref_name(branch)).collect::<Result<Vec<_>, _>>()?;
        let prefix = below.map(|below| format!("refs/heads/{below}"));
        let asked: Vec<String> = names.iter().cloned().chain(prefix.clone()).collect();
        let refs = self.list_refs(&asked, deadline)?;
        let id = |name: &String| refs.iter().find(|(found, _)| found == name).map(|(_, id)| id);
        let heads = names.iter().map(|name| id(name).map(|id| self.parse_revision(id)).transpose());
        let heads = heads.collect::<Result<_, _>>()?;
        let mut found = BTreeMap::new();
        let is_below = |name: &String| prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix));
        for (name, id) in refs.iter().filter(|(name, _)| is_below(name)) {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            found.insert(branch.to_owned(), self.parse_revision(id)?);
        }
        Ok((heads, found))
    }

    /// The error for a branch that does not exist, with a list of the existing branches.
    pub fn no_branch_error(&mut self, branch: &str, deadline: Deadline) -> SourceError {
        let listed = self.list_refs(&["refs/heads/".to_owned()], deadline).unwrap_or_default();
        let mut there: Vec<String> = listed
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("refs/heads/"))
            .map(sanitize_line)
            .collect();
        there.sort();
        let more = there.len().saturating_sub(MAX_LISTED);
        there.truncate(MAX_LISTED);
        let list = match (there.is_empty(), more) {
            (true, _) => "it has no branches".to_owned(),
            (false, 0) => format!("existing branches: {}", there.join(", ")),
            (false, more) => format!("existing branches: {} and {more} more", there.join(", ")),
        };
        self.new_error(
            SourceErrorKind::NoBranch,
            format!("the branch `{branch}` does not exist on {}; {list}", self.display_url),
        )
    }

    /// The full name of a branch.
    pub(super) fn ref_name(&self, branch: &str) -> Result<String, SourceError> {
        let bad = || {
            self.new_error(
                SourceErrorKind::Local,
                format!("{:?} is not a valid branch name", sanitize_line(branch)),
            )
        };
        full_ref(branch).ok_or_else(bad)
    }

    pub(super) fn parse_revision(&self, id: &str) -> Result<Revision, SourceError> {
        id.parse().map_err(|_| {
            self.new_error(
                SourceErrorKind::Protocol,
                format!("{} sends an invalid commit id `{}`", self.display_url, sanitize_line(id)),
            )
        })
    }

    pub(super) fn list_refs(&mut self, names: &[String], deadline: Deadline) -> Result<RefList, SourceError> {
        if let Some(wire) = self.http.as_ref().filter(|wire| wire.speaks_v2()) {
            match list_refs_directly(wire, names, deadline) {
                Ok(Some(refs)) => return Ok(refs),
                // A different server answers now, or the connection was stale: start again.
                Ok(None) => {}
                Err(failure) => {
                    if failure.kind == SourceErrorKind::Timeout || failure.retry_after.is_some() {
                        return Err(failure.with_remote(&self.display_url));
                    }
                }
            }
        }
        if let Some(refs) = self.path().and_then(|path| local_refs::read_refs(path, names)) {
            return Ok(refs);
        }
        let mut session = self.open_session(deadline)?;
        match catch_panics(|| self.receive_refs(&mut session, names)) {
            Ok(refs) => {
                session.close();
                Ok(refs)
            }
            Err(error) => Err(session.into_error(error, "does not answer as a Git server does")),
        }
    }

    fn receive_refs(&self, session: &mut GitSession, names: &[String]) -> gix::Result<RefList> {
        let handshake = handshake(session)?;
        let refs = match handshake.refs {
            Some(refs) => refs,
            None => {
                let mut prefixes = gix_protocol::ls_refs::RefPrefixes::new();
                prefixes.extend(names.iter().map(|name| name.as_str().into()));
                let agent = ("agent", Some(AGENT.into()));
                let command = LsRefsCommand::new(Some(prefixes), &handshake.capabilities, agent);
                let refs = command.invoke_blocking(&mut session.transport, &mut Discard, false)?;
                if let Some(wire) = &self.http {
                    wire.mark_v2();
                }
                refs
            }
        };
        let told = refs.iter().filter_map(|found| {
            let (name, target, _) = found.unpack();
            Some((name.to_string(), target?.to_string()))
        });
        Ok(told.collect())
    }
}

/// Runs library code on remote data: if it panics, the answer is bad, and the agent continues.
pub(super) fn catch_panics<T>(act: impl FnOnce() -> gix::Result<T>) -> gix::Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or_else(|_| {
        Err(gix::Error::from_error(std::io::Error::other("the Git library cannot read the answer")))
    })
}

/// Starts the conversation.
pub(super) fn handshake(session: &mut GitSession) -> gix::Result<Handshake> {
    let nobody = |_| Ok(None);
    gix_protocol::handshake(&mut session.transport, Service::UploadPack, nobody, vec![], &mut Discard)
}

/// Requests refs without a greeting; `None` when the answer does not match the request.
fn list_refs_directly(
    wire: &HttpRemote,
    names: &[String],
    deadline: Deadline,
) -> Result<Option<RefList>, super::error::SourceFailure> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![
        header("Content-Type", "application/x-git-upload-pack-request"),
        header("Accept", "application/x-git-upload-pack-result"),
        header("Git-Protocol", "version=2"),
    ];
    let url = format!("{}/git-upload-pack", wire.current_url());
    let request =
        RemoteRequest { url, headers, body: Some(pkt_line::ls_refs(names, AGENT)), limit: MAX_REFS };
    let mut answer = Vec::new();
    let read = wire.send_request(request, deadline)?.body.read_to_end(&mut answer);
    if read.is_err() {
        return wire.take_failure().map_or(Ok(None), Err);
    }
    let Some(refs) = pkt_line::parse_refs(&answer) else {
        return Ok(None);
    };
    Ok(Some(refs.into_iter().map(|(id, name)| (name.to_owned(), id.to_owned())).collect()))
}
