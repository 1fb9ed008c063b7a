//! Reports and enrolments on a board: reports of the nodes in, those that count and those that do not out.
//!
//! Law: a report that is not signed by its node is named and never counted, and never hides the genuine one: a node
//! whose place was taken by another key reports beside it, and a driver that has seen the genuine report keeps it (held
//! by `one_key_speaks_for_one_node`, `a_report_under_another_name_is_refused_and_named`).

#![expect(clippy::disallowed_methods, reason = "signatures of reports are judged at the time they are read")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::error_chain;
use zagent_config::ids::{FleetId, NodeId};
use zagent_config::paths::Paths;
use zagent_config::settings::Settings;

use crate::board::{self, Board, BoardError, BoardWrite, VersionToken};
use crate::envelope::{
    self, EnrolmentTrust, EnvelopeError, NodeClaim, NodeKeys, SignedReport, VerifiedReport,
};
use crate::phase::saturating_after;
use crate::record::{Component, RolloutRecord};
use crate::records::{RefusedReport, Reports};
use crate::report::NodeReport;
use zagent_config::sorted::CollectSorted;

/// How often a report is written again when someone else wrote it in the meantime.
const MAX_ATTEMPTS: usize = 3;
/// How often enrolments are read.
const ENROLMENTS_EVERY: Duration = Duration::from_secs(60);

/// Reports on a board.
pub struct BoardReports {
    board: Box<dyn Board>,
    /// The key that signs the reports of this node.
    key: PathBuf,
    keys: NodeKeys,
    /// Who may sign enrolments; `None` when there are none.
    enrolment: Option<EnrolmentTrust>,
    enrolments_read: Option<Timestamp>,
    /// The last value under each key, by its token.
    seen: BTreeMap<String, CachedReport>,
    /// The last report of each node that counted.
    genuine: BTreeMap<(Component, NodeId), VerifiedReport>,
    refused: Vec<RefusedReport>,
    /// What was already told, each version once.
    told: BTreeMap<String, VersionToken>,
    /// The tokens of the values that this node has written.
    written: BTreeMap<String, VersionToken>,
}

/// The value under a key.
struct CachedReport {
    token: VersionToken,
    /// `None` when it was refused on its own.
    opened: Option<SignedReport>,
    /// Why it was refused on its own.
    why: Option<String>,
    /// When the newest accepted report was made, by its own clock, but not later than the time it was read.
    newest: Option<Timestamp>,
}

impl BoardReports {
    /// Reports on this board, signed with the key in a file; `keys` has the keys of the other nodes.
    #[must_use]
    pub fn new(board: Box<dyn Board>, key: PathBuf, keys: NodeKeys) -> Self {
        Self {
            board,
            key,
            keys,
            enrolment: None,
            enrolments_read: None,
            seen: BTreeMap::new(),
            genuine: BTreeMap::new(),
            refused: Vec::new(),
            told: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// The same, with enrolments that these people sign.
    #[must_use]
    pub fn with_enrolments(self, enrolment: Option<EnrolmentTrust>) -> Self {
        Self { enrolment, ..self }
    }

    /// Reports on the board in the settings; `None` when there is none.
    ///
    /// # Errors
    /// As [`board::open`].
    pub fn open(settings: &Settings) -> Result<Option<Self>, BoardError> {
        let Some(board) = board::open(settings)? else { return Ok(None) };
        let paths = Paths::new(&settings.root);
        let keys = NodeKeys::new(settings.board.allowed_nodes.clone(), paths.nodes())
            .enrolled_only(settings.board.require_enrolment);
        let reports = Self::new(board, paths.key(), keys);
        Ok(Some(reports.with_enrolments(EnrolmentTrust::from_settings(settings))))
    }

    /// The reports that count, and why others do not; a reason is returned once per version of a report.
    ///
    /// # Errors
    /// Fails when the board, or the key file, cannot be read.
    pub fn verified_reports(
        &mut self,
        component: Component,
        now: Timestamp,
    ) -> Result<(BTreeMap<NodeId, VerifiedReport>, Vec<EnvelopeError>), BoardError> {
        let entries = self.board.list(&envelope::report_prefix(component))?;
        self.keys.reload().map_err(|error| unusable_error(&error))?;
        let mut errors = self.read_enrolments(now)?;
        self.refused = errors.iter().filter_map(refused_report).collect();
        let (mut claims, mut there): (Vec<(String, NodeClaim)>, BTreeSet<NodeId>) = Default::default();
        for (key, entry) in entries {
            let Some(node) = envelope::node_of_key(component, &key) else { continue };
            there.insert(node.clone());
            if self.seen.get(&key).is_none_or(|seen| seen.token != entry.token) {
                let newest = self.seen.get(&key).and_then(|seen| seen.newest);
                let opened = envelope::open_report(component, &node, &entry.value, &self.keys, now);
                let opened = opened.and_then(|opened| not_older(opened, newest));
                let (opened, error) = match opened {
                    Ok(opened) => (Some(opened), None),
                    Err(error) => (None, Some(error)),
                };
                let why = error.as_ref().map(|error| error_chain(error));
                let token = entry.token.clone();
                self.seen.insert(key.clone(), CachedReport { token, opened, why, newest });
                errors.extend(error);
            }
            let Some(seen) = self.seen.get(&key) else { continue };
            match (&seen.opened, &seen.why) {
                (Some(opened), _) => claims.push((key, opened.claim.clone())),
                (None, why) => {
                    let why = why.clone().unwrap_or_default();
                    self.refused.push(RefusedReport { node, why });
                }
            }
        }
        let only: Vec<NodeClaim> = claims.iter().map(|(_, claim)| claim.clone()).collect();
        let judged = self.keys.judge_claims(&only);
        let mut good: BTreeMap<NodeId, VerifiedReport> = BTreeMap::new();
        for ((key, claim), result) in claims.into_iter().zip(judged) {
            match result {
                Ok(()) => self.count_report(&key, &claim, now, &mut good),
                Err(error) => errors.extend(self.refuse_claim(&key, error)),
            }
        }
        self.keys.save_first_seen().map_err(|error| unusable_error(&error))?;
        self.keep_genuine(component, &there, &mut good);
        Ok((good, errors))
    }

    /// Counts a report, unless the node has a newer one.
    fn count_report(
        &mut self,
        key: &str,
        claim: &NodeClaim,
        now: Timestamp,
        good: &mut BTreeMap<NodeId, VerifiedReport>,
    ) {
        let Some(seen) = self.seen.get_mut(key) else { return };
        let Some(opened) = &seen.opened else { return };
        // A node whose clock was ahead must not have its later reports refused.
        seen.newest = Some(opened.report.updated_at.min(now));
        let is_newer = |known: &VerifiedReport| known.report.updated_at < opened.report.updated_at;
        if good.get(&claim.node).is_none_or(is_newer) {
            let report = VerifiedReport { report: opened.report.clone(), key: claim.fingerprint.clone() };
            good.insert(claim.node.clone(), report);
        }
    }

    fn refuse_claim(&mut self, key: &str, error: EnvelopeError) -> Option<EnvelopeError> {
        self.refused.extend(refused_report(&error));
        let token = self.seen.get(key)?.token.clone();
        let is_told = self.told.insert(key.to_owned(), token.clone()).is_some_and(|told| told == token);
        (!is_told).then_some(error)
    }

    /// A forged report does not hide the genuine one that was read before it.
    fn keep_genuine(
        &mut self,
        component: Component,
        there: &BTreeSet<NodeId>,
        good: &mut BTreeMap<NodeId, VerifiedReport>,
    ) {
        self.genuine.retain(|(part, node), _| *part != component || there.contains(node));
        for ((_, node), known) in self.genuine.iter().filter(|((part, _), _)| *part == component) {
            good.entry(node.clone()).or_insert_with(|| known.clone());
        }
        for (node, report) in good.iter() {
            self.genuine.insert((component, node.clone()), report.clone());
        }
    }

    /// Reads the enrolments, now and then; an enrolment that is not accepted is named and does not count.
    fn read_enrolments(&mut self, now: Timestamp) -> Result<Vec<EnvelopeError>, BoardError> {
        let is_new = |at: Timestamp| now >= at && now < saturating_after(at, ENROLMENTS_EVERY);
        let Some(trust) = self.enrolment.as_ref().filter(|_| !self.enrolments_read.is_some_and(is_new))
        else {
            return Ok(Vec::new());
        };
        let (mut verified, mut tokens, mut errors) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (key, entry) in self.board.list(envelope::ENROLMENT_PREFIX)? {
            let Some(node) =
                key.strip_prefix(envelope::ENROLMENT_PREFIX).and_then(|id| id.parse::<NodeId>().ok())
            else {
                continue;
            };
            match envelope::open_enrolment(&node, &entry.value, trust, now) {
                Ok(enrolment) => {
                    tokens.insert(node.clone(), (key, entry.token));
                    verified.insert(node, enrolment);
                }
                Err(error) => errors.push((Some((key, entry.token)), error)),
            }
        }
        let enrolled = match trust.accept_newest(verified) {
            Ok((enrolled, old)) => {
                errors.extend(
                    old.into_iter()
                        .map(|error| (error.claimed_node().and_then(|node| tokens.remove(node)), error)),
                );
                enrolled
            }
            Err(error) => {
                errors.push((None, error));
                BTreeMap::new()
            }
        };
        self.keys.set_enrolled(enrolled);
        // Each problem is named once.
        errors.retain(|(place, _)| {
            place.as_ref().is_none_or(|(key, token)| {
                self.told.insert(key.clone(), token.clone()).is_none_or(|told| told != *token)
            })
        });
        let errors = errors.into_iter().map(|(_, error)| error).collect();
        self.enrolments_read = Some(now);
        Ok(errors)
    }

    /// Writes the signed enrolment of a node.
    ///
    /// # Errors
    /// Fails when the key cannot be used, and when the board refuses.
    pub fn enroll(
        &mut self,
        node: &NodeId,
        key: &str,
        fleet: Option<FleetId>,
        signer: &Path,
    ) -> Result<(), BoardError> {
        let now = Timestamp::now();
        let now = match &self.enrolment {
            Some(trust) => trust.next_time(node, now).map_err(|error| unusable_error(&error))?,
            None => now,
        };
        let value = envelope::sign_enrolment(node, key, fleet, signer, now)
            .map_err(|error| unusable_error(&error))?;
        let place = envelope::enrolment_key(node);
        let expected = self.board.get(&place)?.map(|entry| entry.token);
        let note = format!("enroll {node}");
        let write = BoardWrite { value: &value, expected: expected.as_ref(), note: &note, lasting: true };
        self.board.put(&place, write)?;
        self.enrolments_read = None;
        Ok(())
    }

    /// The keys that sign reports of a node now, as OpenSSH lines, whether or not they count.
    ///
    /// # Errors
    /// Fails when the board cannot be read.
    pub fn claimed_keys(&mut self, node: &NodeId) -> Result<BTreeSet<String>, BoardError> {
        let mut keys = BTreeSet::new();
        for component in [Component::Agent, Component::States] {
            self.verified_reports(component, Timestamp::now())?;
        }
        let opened = self.seen.values().filter_map(|seen| seen.opened.as_ref());
        keys.extend(
            opened.filter(|opened| opened.claim.node == *node).map(|opened| opened.claim.key.clone()),
        );
        Ok(keys)
    }

    /// Overwrites the earlier report of this node. Where another key has taken its place, it reports beside it.
    fn overwrite_report(&mut self, report: &NodeReport, value: &[u8]) -> Result<(), BoardError> {
        let own = envelope::signer_of(value).unwrap_or_default();
        let plain = envelope::report_key(report.component, &report.id);
        let beside = envelope::displaced_key(report.component, &report.id, &own);
        let mut key = if self.written.contains_key(&beside) { beside.clone() } else { plain };
        for attempt in 1.. {
            let expected = match self.written.remove(&key) {
                Some(token) => Some(token),
                None => match self.board.get(&key)? {
                    Some(entry)
                        if key != beside && envelope::signer_of(&entry.value).is_some_and(|by| by != own) =>
                    {
                        key.clone_from(&beside);
                        self.board.get(&key)?.map(|entry| entry.token)
                    }
                    entry => entry.map(|entry| entry.token),
                },
            };
            let write = BoardWrite { value, expected: expected.as_ref(), note: "report", lasting: false };
            match self.board.put(&key, write) {
                Err(BoardError::Conflict { .. }) if attempt < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(token) => {
                    self.written.insert(key, token);
                    return Ok(());
                }
            }
        }
        Err(BoardError::Conflict { key })
    }
}

/// The report, unless a newer one was read under the same key.
fn not_older(opened: SignedReport, newest: Option<Timestamp>) -> Result<SignedReport, EnvelopeError> {
    match newest {
        Some(last) if opened.report.updated_at < last => {
            let (node, said) = (opened.claim.node, opened.report.updated_at);
            Err(EnvelopeError::Replayed { node, said, last })
        }
        _ => Ok(opened),
    }
}

fn refused_report(error: &EnvelopeError) -> Option<RefusedReport> {
    Some(RefusedReport { node: error.claimed_node()?.clone(), why: error_chain(error) })
}

fn unusable_error(error: &dyn std::error::Error) -> BoardError {
    BoardError::Refused { board: "of reports".into(), message: error_chain(error) }
}

impl Reports for BoardReports {
    fn latest_reports(&mut self, component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        let (good, refused) = self.verified_reports(component, Timestamp::now())?;
        for error in refused {
            tracing::warn!("{}", error_chain(&error));
        }
        Ok(good.into_iter().map(|(node, opened)| (node, opened.report)).into_map())
    }

    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        let sealed = envelope::sign_report(report, &self.key).map_err(|error| unusable_error(&error))?;
        self.overwrite_report(report, &sealed)
    }

    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError> {
        let enrolment = envelope::enrolment_key(id);
        let places = self.board.list(&envelope::report_key(component, id))?;
        let mut places: Vec<(String, VersionToken)> = places
            .into_iter()
            .filter(|(key, _)| envelope::node_of_key(component, key).as_ref() == Some(id))
            .map(|(key, entry)| (key, entry.token))
            .collect();
        places.extend(self.board.get(&enrolment)?.map(|entry| (enrolment, entry.token)));
        for (key, token) in places {
            self.board.delete(&key, &token)?;
            self.seen.remove(&key);
        }
        self.genuine.remove(&(component, id.clone()));
        self.enrolments_read = None;
        self.keys.forget(id).map_err(|error| unusable_error(&error))
    }

    fn refused(&self) -> Vec<RefusedReport> {
        self.refused.clone()
    }

    fn is_vouched_for(&self, node: &NodeId) -> bool {
        self.keys.is_vouched_for(node)
    }

    fn signing_keys(&self) -> BTreeMap<NodeId, String> {
        self.genuine.iter().map(|((_, node), known)| (node.clone(), known.key.clone())).into_map()
    }

    fn pin_keys(&mut self, record: &RolloutRecord) {
        self.keys.pin_from_record(record);
    }
}
