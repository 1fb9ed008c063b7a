//! A Git repository as a board: one ref per key, and its commit as the token.
//!
//! Law: the server does the compare-and-swap. A rollout is a branch whose commits are its log; everything else is one
//! commit without a parent. A commit that is already known is not fetched again (held by
//! `a_git_board_conforms_over_http`, `a_second_list_is_one_request_and_fetches_nothing`).
//!
//! A temporary write is marked in its commit, and the next write replaces it instead of adding to it: a heartbeat every
//! ten seconds is not history. If the server refuses rewritten history, the next write is added on top.

mod config;
mod ref_names;

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_cache::source::{
    CommitDraft, Deadline, FetchedCommits, PreparedCommit, PushOutcome, RefStore, SourceError,
    SourceErrorKind,
};
use zagent_cache::trust::RECORD_NAMESPACE;
use zagent_config::ids::Revision;

pub use self::config::GitBoardConfig;
use super::{Board, BoardEntry, BoardError, BoardWrite, SkippedEntry, VersionToken, check_key};

/// The line that marks a temporary write.
const EPHEMERAL_TRAILER: &str = "Lasting: no";
/// Maximum characters of a subject.
const MAX_SUBJECT: usize = 200;
/// How often refs are read again when they move during the read.
const MAX_READS: usize = 3;

/// A board in a repository.
pub struct GitBoard {
    ref_store: RefStore,
    config: GitBoardConfig,
    seen: BTreeMap<String, CachedRef>,
    /// True when the server refuses rewritten history.
    appends: bool,
    /// What the last list skipped.
    skipped: Vec<SkippedEntry>,
    /// Skipped keys that were already logged, each commit once: every check asks for a list.
    logged: BTreeMap<String, Revision>,
}

/// A commit that was read or written.
struct CachedRef {
    revision: Revision,
    /// `None` when the commit does not have the file.
    value: Option<Vec<u8>>,
    parents: Vec<Revision>,
    /// The commit itself, for a rollout whose signature must be checked.
    signed: Option<Vec<u8>>,
    lasting: bool,
}

impl GitBoard {
    /// The board at a location; it does not connect yet.
    ///
    /// # Errors
    /// Fails when the address, or something it needs on this machine, cannot be used.
    pub fn new(place: GitBoardConfig) -> Result<Self, BoardError> {
        let ref_store = RefStore::new(&place.remote, &place.source, place.scratch.clone());
        let ref_store = ref_store.map_err(|error| source_error(error.remote.clone(), error))?;
        Ok(Self {
            ref_store,
            config: place,
            seen: BTreeMap::new(),
            appends: false,
            skipped: Vec::new(),
            logged: BTreeMap::new(),
        })
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.config.timeout())
    }

    fn display_name(&self) -> String {
        self.ref_store.url().to_owned()
    }

    fn refused(&self, message: String) -> BoardError {
        BoardError::Refused { board: self.display_name(), message }
    }

    /// Reads the refs with this prefix and their values; forgets deleted ones.
    fn refresh_refs(
        &mut self,
        prefixes: &[String],
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, BoardError> {
        let deadline = self.deadline();
        for attempt in 1.. {
            let listed = self.ref_store.list(prefixes, deadline);
            let mut listed = listed.map_err(|error| source_error(self.display_name(), error))?;
            listed.retain(|name, _| is_meant(name));
            self.seen.retain(|name, _| !is_meant(name) || listed.contains_key(name));
            let is_new = |(name, id): &(&String, &Revision)| {
                self.seen.get(*name).is_none_or(|seen| seen.revision != **id)
            };
            let new: Vec<_> =
                listed.iter().filter(is_new).map(|(name, id)| (name.clone(), id.clone())).collect();
            if new.is_empty() {
                return Ok(listed.into_keys().collect());
            }
            let ids: Vec<_> = new.iter().map(|(_, id)| id.clone()).collect();
            match self.ref_store.fetch(&ids, deadline) {
                Ok(taken) => {
                    for (name, id) in new {
                        let seen = self.read_commit(&taken, &name, id)?;
                        self.seen.insert(name, seen);
                    }
                    return Ok(listed.into_keys().collect());
                }
                // A ref has moved since, and the server does not send its old commit.
                Err(error) if error.kind == SourceErrorKind::NoBranch && attempt < MAX_READS => {}
                Err(error) => return Err(source_error(self.display_name(), error)),
            }
        }
        Ok(Vec::new())
    }

    fn read_commit(
        &self,
        taken: &FetchedCommits,
        name: &str,
        revision: Revision,
    ) -> Result<CachedRef, BoardError> {
        let odd = |error| source_error(self.display_name(), error);
        let commit = taken.commit(&revision).map_err(odd)?;
        let key = ref_names::key_from_ref(name).unwrap_or_default();
        let value = taken.read_file(&revision, ref_names::value_file(key)).map_err(odd)?;
        let lasting = !commit.bytes.ends_with(format!("\n\n{EPHEMERAL_TRAILER}\n").as_bytes());
        let signed = self.needs_signature(key).then_some(commit.bytes);
        Ok(CachedRef { revision, value, parents: commit.parents, signed, lasting })
    }

    /// One ref, as it is now.
    fn read_one(&mut self, name: &str) -> Result<Option<&CachedRef>, BoardError> {
        self.refresh_refs(&[name.to_owned()], |found| found == name)?;
        Ok(self.seen.get(name))
    }

    fn needs_signature(&self, key: &str) -> bool {
        ref_names::is_rollout(key) && self.config.trust.is_some()
    }

    /// The value, if it is trusted.
    fn entry(&self, key: &str, seen: &CachedRef) -> Result<BoardEntry, BoardError> {
        let Some(value) = &seen.value else {
            let message =
                format!("its commit {} has no file `{}`", seen.revision.short(), ref_names::value_file(key));
            return Err(BoardError::Damaged { key: key.to_owned(), message });
        };
        if let (Some(trust), Some(bytes)) = (&self.config.trust, &seen.signed) {
            let signers = trust.signers();
            let judged = signers.and_then(|signers| signers.verify_record(bytes, Timestamp::now()));
            judged.map_err(|error| {
                let (id, hint) = (seen.revision.short(), error.hint());
                self.refused(format!("the commit {id} of `{key}` is not accepted: {error} ({hint})"))
            })?;
        }
        Ok(BoardEntry { value: value.clone(), token: VersionToken(seen.revision.to_string()) })
    }

    /// The parent of the next commit of a key: the commit that the writer knows, or that one's parent if it is
    /// temporary.
    fn parents(
        &mut self,
        key: &str,
        name: &str,
        old: Option<&Revision>,
    ) -> Result<Vec<Revision>, BoardError> {
        let Some(old) = old.filter(|_| ref_names::is_rollout(key)) else { return Ok(Vec::new()) };
        if self.appends {
            return Ok(vec![old.clone()]);
        }
        if self.seen.get(name).is_none_or(|seen| seen.revision != *old) {
            self.read_one(name)?;
        }
        match self.seen.get(name).filter(|seen| seen.revision == *old) {
            None => Err(BoardError::Conflict { key: key.to_owned() }),
            Some(seen) if seen.lasting => Ok(vec![old.clone()]),
            Some(seen) => Ok(seen.parents.clone()),
        }
    }

    fn build_commit(
        &self,
        key: &str,
        write: &BoardWrite<'_>,
        old: Option<&Revision>,
        parents: &[Revision],
    ) -> Result<PreparedCommit, BoardError> {
        let rollout = ref_names::is_rollout(key);
        if rollout && self.config.trust.is_some() && self.config.key.is_none() {
            let way = "`trust.require` accepts only signed records: set `rollout.key` to the signing key";
            return Err(self.refused(way.into()));
        }
        let message = commit_message(write, rollout, old);
        let draft = CommitDraft {
            files: &[(ref_names::value_file(key), write.value)],
            parents,
            message: &message,
            author: &self.config.author,
            at: Timestamp::now(),
            signer: self.config.key.as_deref().filter(|_| rollout).map(|key| (key, RECORD_NAMESPACE)),
        };
        PreparedCommit::build(&draft).map_err(|error| {
            let why =
                std::error::Error::source(&error).map_or_else(String::new, |source| format!(": {source}"));
            self.refused(format!("{error}{why}"))
        })
    }

    /// The result of a push with a lost answer, if the ref shows it.
    fn recheck_write(
        &mut self,
        key: &str,
        name: &str,
        new: &Revision,
        lost: SourceError,
    ) -> Result<(), BoardError> {
        let unknown = || BoardError::Unknown { key: key.to_owned(), source: Box::new(lost) };
        let deadline = self.deadline();
        match self.ref_store.list(&[name.to_owned()], deadline) {
            Ok(found) if found.get(name) == Some(new) => Ok(()),
            _ => Err(unknown()),
        }
    }
}

/// The message of a commit: the note, and an id that makes it differ from another commit with the same content.
fn commit_message(write: &BoardWrite<'_>, rollout: bool, old: Option<&Revision>) -> String {
    let clean = |line: &str| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let mut lines = write.note.trim().lines().map(clean);
    let subject: String = lines.next().unwrap_or_default().trim().chars().take(MAX_SUBJECT).collect();
    let mut text = if subject.is_empty() { "update".to_owned() } else { subject };
    let body: Vec<_> = lines.filter(|line| !line.starts_with("Lasting:")).collect();
    let body = body.join("\n");
    if !body.trim().is_empty() {
        text.push_str(&format!("\n\n{}", body.trim()));
    }
    match (rollout, write.lasting, old) {
        (true, false, _) => text.push_str(&format!("\n\n{EPHEMERAL_TRAILER}")),
        (false, _, Some(old)) => text.push_str(&format!("\n\nPrevious: {old}")),
        _ => {}
    }
    text
}

fn source_error(board: String, error: SourceError) -> BoardError {
    match error.kind {
        SourceErrorKind::Denied => BoardError::Refused { board, message: error.message },
        _ => BoardError::Unreachable { board, source: Box::new(error) },
    }
}

impl Board for GitBoard {
    fn get(&mut self, key: &str) -> Result<Option<BoardEntry>, BoardError> {
        check_key(&self.display_name(), key)?;
        let name = ref_names::ref_for_key(key);
        self.read_one(&name)?;
        self.seen.get(&name).map(|seen| self.entry(key, seen)).transpose()
    }

    fn put(&mut self, key: &str, write: BoardWrite<'_>) -> Result<VersionToken, BoardError> {
        check_key(&self.display_name(), key)?;
        let name = ref_names::ref_for_key(key);
        let conflict = || BoardError::Conflict { key: key.to_owned() };
        let old =
            write.expected.map(|token| token.0.parse::<Revision>()).transpose().map_err(|_| conflict())?;
        let mut parents = self.parents(key, &name, old.as_ref())?;
        loop {
            let sheet = self.build_commit(key, &write, old.as_ref(), &parents)?;
            let deadline = self.deadline();
            let pushed = self.ref_store.update(&name, old.as_ref(), &sheet, deadline);
            self.seen.remove(&name);
            let rewrites = ref_names::is_rollout(key) && old.is_some() && parents.first() != old.as_ref();
            match pushed.map_err(|error| source_error(self.display_name(), error))? {
                PushOutcome::Done => {}
                PushOutcome::Stale => return Err(conflict()),
                PushOutcome::NotFastForward { message } | PushOutcome::Denied { message } if rewrites => {
                    tracing::debug!(
                        board = self.ref_store.url(),
                        message,
                        "the server refuses to rewrite history; appending instead"
                    );
                    self.appends = true;
                    parents = old.iter().cloned().collect();
                    continue;
                }
                PushOutcome::NotFastForward { message } | PushOutcome::Denied { message } => {
                    return Err(self.refused(message));
                }
                PushOutcome::Unknown(lost) => self.recheck_write(key, &name, sheet.revision(), lost)?,
            }
            let revision = sheet.revision().clone();
            // A signed value is read again before it is trusted.
            if !self.needs_signature(key) {
                let value = Some(write.value.to_vec());
                let seen = CachedRef {
                    revision: revision.clone(),
                    value,
                    parents,
                    signed: None,
                    lasting: write.lasting,
                };
                self.seen.insert(name, seen);
            }
            return Ok(VersionToken(revision.to_string()));
        }
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, BoardEntry)>, BoardError> {
        if prefix.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Ok(Vec::new());
        }
        let is_meant = |name: &str| {
            ref_names::key_from_ref(name)
                .is_some_and(|key| key.starts_with(prefix) && check_key("", key).is_ok())
        };
        let listed = self.refresh_refs(&ref_names::ref_prefixes(prefix), is_meant)?;
        let (mut all, mut left_out) = (Vec::new(), Vec::new());
        for name in listed {
            let (Some(key), Some(seen)) = (ref_names::key_from_ref(&name), self.seen.get(&name)) else {
                continue;
            };
            match self.entry(key, seen) {
                Ok(entry) => all.push((key.to_owned(), entry)),
                // A value that someone else wrote must not hide the others.
                Err(error) => {
                    if self.logged.get(key) != Some(&seen.revision) {
                        tracing::warn!(key, %error, "skipped: it cannot be read");
                        self.logged.insert(key.to_owned(), seen.revision.clone());
                    }
                    let value = seen.value.clone();
                    left_out.push(SkippedEntry { key: key.to_owned(), why: error.to_string(), value });
                }
            }
        }
        zagent_config::sorted::sort_by(&mut all, |(a, _), (b, _)| a.cmp(b));
        self.skipped = left_out;
        Ok(all)
    }

    fn skipped(&self) -> Vec<SkippedEntry> {
        self.skipped.clone()
    }

    fn delete(&mut self, key: &str, expected: &VersionToken) -> Result<(), BoardError> {
        check_key(&self.display_name(), key)?;
        let name = ref_names::ref_for_key(key);
        let deadline = self.deadline();
        let pushed = match expected.0.parse::<Revision>() {
            Ok(old) => self
                .ref_store
                .remove(&name, &old, deadline)
                .map_err(|error| source_error(self.display_name(), error))?,
            Err(_) => PushOutcome::Stale,
        };
        self.seen.remove(&name);
        match pushed {
            PushOutcome::Done => Ok(()),
            PushOutcome::NotFastForward { message } | PushOutcome::Denied { message } => {
                Err(self.refused(message))
            }
            PushOutcome::Stale | PushOutcome::Unknown(_) => {
                let listed = self.ref_store.list(std::slice::from_ref(&name), deadline);
                let listed = listed.map_err(|error| source_error(self.display_name(), error))?;
                match (listed.get(&name), pushed) {
                    (None, _) => Ok(()),
                    (Some(now), PushOutcome::Unknown(lost)) if now.to_string() == expected.0 => {
                        Err(BoardError::Unknown { key: key.to_owned(), source: Box::new(lost) })
                    }
                    _ => Err(BoardError::Conflict { key: key.to_owned() }),
                }
            }
        }
    }
}
