//! Branches in, the commits they point at out.
//!
//! Law: nothing is written; names are compared whole; on a connection that is kept and proven, one round trip.

use std::collections::BTreeMap;
use std::io::Read;

use gix::progress::Discard;
use gix_protocol::{Handshake, LsRefsCommand};
use gix_transport::Service;
use zagent_config::ids::Revision;

use super::client::Session;
use super::error::{Kind, tame};
use super::wire::{Request, Wire};
use super::{AGENT, Client, Deadline, MAX_REFS, SourceError, full_ref, pkt};

/// How many branches an error lists.
const LISTED: usize = 12;

/// Refs as they were told: name and id.
pub(super) type Refs = Vec<(String, String)>;

/// Branches, and the commits that they point at.
type Branches = BTreeMap<String, Revision>;

impl Client {
    /// The commits that branches point at, in the order of the question; `None` for a branch that is not there.
    ///
    /// # Errors
    /// Fails when the remote cannot be asked, or a name is no branch.
    pub fn poll(
        &mut self,
        branches: &[&str],
        deadline: Deadline,
    ) -> Result<Vec<Option<Revision>>, SourceError> {
        Ok(self.poll_below(branches, None, deadline)?.0)
    }

    /// The same, and by the same question all branches whose names begin so, with their commits.
    ///
    /// # Errors
    /// As [`Client::poll`].
    pub fn poll_below(
        &mut self,
        branches: &[&str],
        below: Option<&str>,
        deadline: Deadline,
    ) -> Result<(Vec<Option<Revision>>, Branches), SourceError> {
        let names = branches.iter().map(|branch| self.name(branch)).collect::<Result<Vec<_>, _>>()?;
        let prefix = below.map(|below| format!("refs/heads/{below}"));
        let asked: Vec<String> = names.iter().cloned().chain(prefix.clone()).collect();
        let refs = self.refs(&asked, deadline)?;
        let id = |name: &String| refs.iter().find(|(found, _)| found == name).map(|(_, id)| id);
        let heads = names.iter().map(|name| id(name).map(|id| self.revision(id)).transpose());
        let heads = heads.collect::<Result<_, _>>()?;
        let mut found = BTreeMap::new();
        let is_below = |name: &String| prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix));
        for (name, id) in refs.iter().filter(|(name, _)| is_below(name)) {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            found.insert(branch.to_owned(), self.revision(id)?);
        }
        Ok((heads, found))
    }

    /// The error for a branch that is not there, with the branches that are.
    pub fn no_branch(&mut self, branch: &str, deadline: Deadline) -> SourceError {
        let listed = self.refs(&["refs/heads/".to_owned()], deadline).unwrap_or_default();
        let mut there: Vec<String> =
            listed.iter().filter_map(|(name, _)| name.strip_prefix("refs/heads/")).map(tame).collect();
        there.sort();
        let more = there.len().saturating_sub(LISTED);
        there.truncate(LISTED);
        let list = match (there.is_empty(), more) {
            (true, _) => "it has no branches at all".to_owned(),
            (false, 0) => format!("there are: {}", there.join(", ")),
            (false, more) => format!("there are: {} and {more} more", there.join(", ")),
        };
        self.fail(Kind::NoBranch, format!("the branch `{branch}` does not exist on {}; {list}", self.shown))
    }

    /// The full name of a branch.
    pub(super) fn name(&self, branch: &str) -> Result<String, SourceError> {
        let bad = || self.fail(Kind::Local, format!("{:?} is no name of a branch", tame(branch)));
        full_ref(branch).ok_or_else(bad)
    }

    pub(super) fn revision(&self, id: &str) -> Result<Revision, SourceError> {
        id.parse()
            .map_err(|_| self.fail(Kind::Protocol, format!("{} names a commit `{}`", self.shown, tame(id))))
    }

    pub(super) fn refs(&mut self, names: &[String], deadline: Deadline) -> Result<Refs, SourceError> {
        if let Some(wire) = self.wire.as_ref().filter(|wire| wire.proven()) {
            match quick(wire, names, deadline) {
                Ok(Some(refs)) => return Ok(refs),
                // Somebody else answers now, or the connection was stale: begin at the beginning.
                Ok(None) => {}
                Err(failure) => {
                    if failure.kind == Kind::Timeout || failure.retry_after.is_some() {
                        return Err(failure.at(&self.shown));
                    }
                }
            }
        }
        let mut session = self.open(deadline)?;
        match guarded(|| self.listen(&mut session, names)) {
            Ok(refs) => {
                session.end();
                Ok(refs)
            }
            Err(error) => Err(session.fail(error, "does not answer as a Git server does")),
        }
    }

    fn listen(&self, session: &mut Session, names: &[String]) -> gix::Result<Refs> {
        let handshake = greet(session)?;
        let refs = match handshake.refs {
            Some(refs) => refs,
            None => {
                let mut prefixes = gix_protocol::ls_refs::RefPrefixes::new();
                prefixes.extend(names.iter().map(|name| name.as_str().into()));
                let agent = ("agent", Some(AGENT.into()));
                let command = LsRefsCommand::new(Some(prefixes), &handshake.capabilities, agent);
                let refs = command.invoke_blocking(&mut session.transport, &mut Discard, false)?;
                if let Some(wire) = &self.wire {
                    wire.prove();
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

/// Runs what reads foreign bytes with foreign code: should that give up in a panic, the answer is bad, not the agent.
pub(super) fn guarded<T>(act: impl FnOnce() -> gix::Result<T>) -> gix::Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or_else(|_| {
        Err(gix::Error::from_error(std::io::Error::other("the Git library cannot cope with the answer")))
    })
}

/// Begins to talk.
pub(super) fn greet(session: &mut Session) -> gix::Result<Handshake> {
    let nobody = |_| Ok(None);
    gix_protocol::handshake(&mut session.transport, Service::UploadPack, nobody, vec![], &mut Discard)
}

/// Asks for refs without a greeting; `None` when the answer is not one to that question.
fn quick(wire: &Wire, names: &[String], deadline: Deadline) -> Result<Option<Refs>, super::error::Failure> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![
        header("Content-Type", "application/x-git-upload-pack-request"),
        header("Accept", "application/x-git-upload-pack-result"),
        header("Git-Protocol", "version=2"),
    ];
    let url = format!("{}/git-upload-pack", wire.found_at());
    let request = Request { url, headers, body: Some(pkt::ls_refs(names, AGENT)), limit: MAX_REFS };
    let mut answer = Vec::new();
    let read = wire.exchange(request, deadline)?.body.read_to_end(&mut answer);
    if read.is_err() {
        return wire.failure().map_or(Ok(None), Err);
    }
    let Some(refs) = pkt::refs(&answer) else {
        return Ok(None);
    };
    Ok(Some(refs.into_iter().map(|(id, name)| (name.to_owned(), id.to_owned())).collect()))
}
