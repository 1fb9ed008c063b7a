//! A request and the reports of the nodes in, a rollout that could start out: which nodes, in which order, from when.
//!
//! Law: pure and deterministic, and the same for a dry run. Only nodes that report are seen. One that stopped reporting
//! is left out by name (held by `nodes_that_stopped_reporting_are_left_out_by_name`, `pure_modules_do_not_touch_the_machine`, `rollout/src/plan/tests.rs`).

mod error;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::{FleetId, NodeId, Revision, RolloutId};

pub use self::error::PlanError;

use crate::phase::saturating_after;
use crate::record::{
    Artifact, BatchPhase, Canary, Component, NodeProgress, RECORD_SCHEMA, RECORD_VALIDITY, RolloutMode,
    RolloutProfile, RolloutRecord, RolloutStatus,
};
use crate::report::{NodeActivity, NodeReport};
use crate::{BatchSize, Span, split_batches, targeting, version, waves};
use zagent_config::sorted::CollectSorted;

/// How long nodes soak.
pub const SOAK_TIME: Span = Span::seconds(60);
/// The pause between two batches.
pub const BATCH_PAUSE: Span = Span::seconds(30);
/// Abort after this number of failed nodes.
pub const MAX_FAILED: usize = 1;
/// Canaries per stratum.
pub const CANARY: usize = 1;
/// Nodes per batch.
pub const BATCH_SIZE: BatchSize = BatchSize::Percent(10);
/// How long nodes soak in an emergency.
pub const EMERGENCY_SOAK: Span = Span::seconds(30);
/// Maximum number of names in a message.
const MAX_NAMED_NODES: usize = 10;

/// The request for a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutDraft {
    /// Its name.
    pub id: RolloutId,
    /// What is rolled out.
    pub component: Component,
    /// The target version or commit.
    pub to: String,
    /// The version or commit before.
    pub from: Option<String>,
    /// The target nodes: a compound target.
    pub target: String,
    /// Nodes per batch.
    pub batch_size: BatchSize,
    /// The nodes that go first.
    pub canary: Canary,
    /// How long nodes soak.
    pub soak_time: Span,
    /// The pause between two batches.
    pub batch_pause: Span,
    /// Abort after this number of failed nodes.
    pub max_failed: usize,
    /// This number of silent nodes is allowed.
    pub max_silent: usize,
    /// The protocol that every node must support.
    pub min_protocol: u32,
    /// True for a dry run.
    pub dry_run: bool,
    /// How the time of each node is decided.
    pub mode: RolloutMode,
    /// How careful the rollout is.
    pub profile: RolloutProfile,
    /// True to accept an older version, or one that a node rejected.
    pub anyway: bool,
    /// The binaries.
    pub artifacts: Vec<Artifact>,
    /// Who requests it.
    pub by: Option<String>,
    /// The fleet that it is for.
    pub fleet: Option<FleetId>,
    /// How long it is valid.
    pub valid_for: Span,
    /// A node without a report for longer is left out; `None` to take every node that ever reported.
    pub silent_after: Option<Span>,
}

impl RolloutDraft {
    /// A rollout to all nodes, with defaults for everything else.
    #[must_use]
    pub fn new(id: RolloutId, component: Component, to: impl Into<String>) -> Self {
        Self {
            id,
            component,
            to: to.into(),
            from: None,
            target: "*".to_owned(),
            batch_size: BATCH_SIZE,
            canary: Canary { count: CANARY, ..Canary::default() },
            soak_time: SOAK_TIME,
            batch_pause: BATCH_PAUSE,
            max_failed: MAX_FAILED,
            max_silent: 0,
            min_protocol: 0,
            dry_run: false,
            mode: RolloutMode::default(),
            profile: RolloutProfile::default(),
            anyway: false,
            artifacts: vec![],
            by: None,
            fleet: None,
            valid_for: RECORD_VALIDITY,
            silent_after: None,
        }
    }
}

/// Similar nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stratum {
    /// What they have in common, such as `Debian/x86_64/web`.
    pub name: String,
    /// How many there are.
    pub nodes: usize,
    /// The canaries among them; with none, the stratum is not covered.
    pub canaries: Vec<NodeId>,
}

impl Stratum {
    /// True when one of its nodes is a canary.
    #[must_use]
    pub const fn is_covered(&self) -> bool {
        !self.canaries.is_empty()
    }
}

/// A rollout that could start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPlan {
    /// Its record.
    pub record: RolloutRecord,
    /// Nodes that the target matches but that do not take part, and why.
    pub excluded: Vec<(NodeId, String)>,
    /// Nodes that take part but start nothing now, and why: the rollout waits for them.
    pub held: Vec<(NodeId, String)>,
    /// The strata, by name.
    pub strata: Vec<Stratum>,
    /// The earliest start of each batch, or of each wave in clock mode.
    pub earliest: Vec<Timestamp>,
}

/// Plans a rollout.
///
/// # Errors
/// Fails when the target matches no node or is not valid, and when a matching node must not take part in this rollout.
pub fn plan_rollout(
    draft: &RolloutDraft,
    reports: &BTreeMap<NodeId, NodeReport>,
    now: Timestamp,
) -> Result<RolloutPlan, PlanError> {
    check_goal(draft)?;
    let known: Vec<&NodeReport> =
        reports.values().filter(|report| report.component == draft.component).collect();
    let meant = targeting::targets(&draft.target, known.iter().copied())
        .map_err(|fault| PlanError::Target { target: draft.target.clone(), fault })?;
    let (nodes, excluded) = match draft.mode {
        RolloutMode::Driver if meant.is_empty() => return Err(no_nodes_error(draft, &known)),
        RolloutMode::Clock if meant.is_empty() => (vec![], vec![]),
        RolloutMode::Driver | RolloutMode::Clock => eligible_nodes(draft, &meant, now)?,
    };
    check_artifacts(draft, &nodes)?;
    let strata = group_strata(draft, &nodes);
    let record = new_record(draft, &nodes, &strata, now);
    let earliest = match draft.mode {
        RolloutMode::Driver => earliest_starts(&record, now),
        RolloutMode::Clock => waves::wave_starts(&record),
    };
    check_validity(&record, &earliest)?;
    let held = nodes.iter().filter_map(|report| Some((report.id.clone(), report.hold.clone()?))).collect();
    Ok(RolloutPlan { record, excluded, held, strata, earliest })
}

/// A rollout that expires before its last batch could end is a mistake.
fn check_validity(record: &RolloutRecord, earliest: &[Timestamp]) -> Result<(), PlanError> {
    let end = earliest.last().map_or(record.created, |last| saturating_after(*last, record.soak_time.0));
    match record.expires_at() {
        expires if expires <= end => Err(PlanError::ExpiresTooSoon { expires, end }),
        _ => Ok(()),
    }
}

fn check_goal(draft: &RolloutDraft) -> Result<(), PlanError> {
    let (is_good, wanted) = match draft.component {
        Component::Agent => (version::is_version(&draft.to), "version, such as `1.4.0`"),
        Component::States => (
            draft.to.parse::<Revision>().is_ok(),
            "full commit id: run `git rev-parse` to get the id of a branch or tag",
        ),
    };
    if is_good { Ok(()) } else { Err(PlanError::BadGoal { to: draft.to.clone(), wanted }) }
}

fn no_nodes_error(draft: &RolloutDraft, known: &[&NodeReport]) -> PlanError {
    let component = draft.component.name();
    if known.is_empty() {
        return PlanError::NoNodes { component };
    }
    let some = list_some_nodes(known.iter().map(|report| &report.id));
    PlanError::NoMatch { target: draft.target.clone(), component, known: known.len(), some }
}

/// The first few names, and the number of the others.
pub(crate) fn list_some_nodes<'n>(nodes: impl ExactSizeIterator<Item = &'n NodeId>) -> String {
    let more = nodes.len().saturating_sub(MAX_NAMED_NODES);
    let named = nodes.take(MAX_NAMED_NODES).map(NodeId::as_str).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

type ExcludedNodes = Vec<(NodeId, String)>;

/// The nodes that take part, and those that do not; or why the rollout is refused.
fn eligible_nodes<'r>(
    draft: &RolloutDraft,
    meant: &[&'r NodeReport],
    now: Timestamp,
) -> Result<(Vec<&'r NodeReport>, ExcludedNodes), PlanError> {
    let (mut excluded, mut degraded) = (vec![], 0);
    let (mut well, mut there) = (vec![], vec![]);
    for report in meant {
        match (&report.degraded, silence_text(draft, report, now)) {
            (_, Some(why)) => excluded.push((report.id.clone(), why)),
            (Some(why), None) => {
                degraded += 1;
                excluded.push((report.id.clone(), format!("degraded: {why}")));
            }
            (None, None) => well.push(*report),
        }
    }
    if well.is_empty() {
        let silent = excluded.len() - degraded;
        excluded.retain(|(_, why)| !why.starts_with("degraded"));
        let names = excluded.iter().map(|(node, why)| format!("{node} {why}")).collect();
        return Err(PlanError::NoEligible { degraded, silent, names });
    }
    check_rejections(draft, &well)?;
    let least = draft.min_protocol;
    let below = well.iter().filter(|report| report.protocol < least);
    let below: Vec<String> =
        below.map(|report| format!("{} (protocol {} < {least})", report.id, report.protocol)).collect();
    if !below.is_empty() {
        return Err(PlanError::Protocol { to: draft.to.clone(), nodes: below });
    }
    well.retain(|report| {
        let is_there = is_up_to_date(draft, report);
        if is_there {
            there.push((report.id.clone(), "already there".to_owned()));
        }
        !is_there
    });
    excluded.append(&mut there);
    excluded.sort();
    if well.is_empty() && draft.mode == RolloutMode::Driver {
        return Err(PlanError::NothingToDo { nodes: meant.len(), to: draft.to.clone() });
    }
    let newer = well.iter().filter(|report| {
        draft.component == Component::Agent
            && version::compare(&report.version, &draft.to) == Some(Ordering::Greater)
    });
    let newer: Vec<String> = newer.map(|report| format!("{} ({})", report.id, report.version)).collect();
    if !newer.is_empty() && !draft.anyway {
        return Err(PlanError::Downgrade { to: draft.to.clone(), nodes: newer });
    }
    Ok((well, excluded))
}

/// Why a node does not take part though it reported once: it was stopped, or nothing has been heard since.
fn silence_text(draft: &RolloutDraft, report: &NodeReport, now: Timestamp) -> Option<String> {
    let patience = SignedDuration::try_from(draft.silent_after?.0).ok()?;
    if let Some(at) = report.stopped {
        return Some(format!("was stopped at {at:.0}"));
    }
    let last = report.updated_at;
    (now.duration_since(last) > patience).then(|| format!("has not reported since {last:.0}"))
}

/// A version that a node rejected, or a commit that it quarantined, is refused unless it is ordered all the same.
fn check_rejections(draft: &RolloutDraft, nodes: &[&NodeReport]) -> Result<(), PlanError> {
    let said =
        |report: &&NodeReport| report.rejected.get(&draft.to).map(|why| format!("{} ({why})", report.id));
    let nodes: Vec<String> = nodes.iter().filter_map(said).collect();
    if nodes.is_empty() || draft.anyway {
        return Ok(());
    }
    Err(PlanError::Rejected { to: draft.to.clone(), nodes })
}

/// True when a node runs the target version and does nothing else.
fn is_up_to_date(draft: &RolloutDraft, report: &NodeReport) -> bool {
    let runs = match draft.component {
        Component::Agent => Some(report.version.as_str()),
        Component::States => report.revision.as_deref(),
    };
    runs == Some(draft.to.as_str()) && report.state == NodeActivity::Idle
}

fn check_artifacts(draft: &RolloutDraft, nodes: &[&NodeReport]) -> Result<(), PlanError> {
    if draft.component != Component::Agent {
        return Ok(());
    }
    for artifact in &draft.artifacts {
        let is_digest = artifact.blake3.len() == 64 && artifact.blake3.bytes().all(|b| b.is_ascii_hexdigit());
        let why = match (&artifact.url, &artifact.reference) {
            _ if !is_digest => "its `blake3` is not 64 hexadecimal digits",
            (None, None) => "it has neither `url` nor `ref`",
            _ => continue,
        };
        return Err(PlanError::BadArtifact { os: artifact.os.clone(), arch: artifact.arch.clone(), why });
    }
    let mut without: BTreeMap<(&str, &str), Vec<&NodeId>> = BTreeMap::new();
    for report in nodes {
        let fits = |artifact: &Artifact| artifact.os == report.os && artifact.arch == report.arch;
        if !draft.artifacts.iter().any(fits) {
            without.entry((&report.os, &report.arch)).or_default().push(&report.id);
        }
    }
    let mut nodes: Vec<String> = without
        .into_iter()
        .map(|((os, arch), ids)| format!("{os}/{arch} ({})", list_some_nodes(ids.into_iter())))
        .collect();
    if draft.artifacts.is_empty() && nodes.is_empty() {
        nodes.push("any node".to_owned());
    }
    if nodes.is_empty() {
        return Ok(());
    }
    let there = draft.artifacts.iter().map(|artifact| format!("{}/{}", artifact.os, artifact.arch)).collect();
    Err(PlanError::NoArtifact { to: draft.to.clone(), nodes, there })
}

fn group_strata(draft: &RolloutDraft, nodes: &[&NodeReport]) -> Vec<Stratum> {
    let mut all: BTreeMap<String, Vec<&NodeId>> = BTreeMap::new();
    for report in nodes {
        all.entry(targeting::stratum(report, &draft.canary.by)).or_default().push(&report.id);
    }
    let largest = all.values().map(Vec::len).max().unwrap_or(0);
    let mut is_chosen = false;
    let mut canaries = |ids: &[&NodeId]| {
        let count = match (draft.mode, draft.profile) {
            // The hash decides which node comes first.
            (RolloutMode::Clock, _) => 0,
            (RolloutMode::Driver, RolloutProfile::Normal) => draft.canary.count,
            // The node that represents the most.
            (RolloutMode::Driver, RolloutProfile::Emergency) if ids.len() == largest => {
                usize::from(!std::mem::replace(&mut is_chosen, true))
            }
            (RolloutMode::Driver, RolloutProfile::Emergency) => 0,
        };
        ids.iter().take(count).map(|id| (*id).clone()).collect()
    };
    all.into_iter()
        .map(|(name, mut ids)| {
            ids.sort();
            Stratum { name, nodes: ids.len(), canaries: canaries(&ids) }
        })
        .collect()
}

fn new_record(
    draft: &RolloutDraft,
    nodes: &[&NodeReport],
    strata: &[Stratum],
    now: Timestamp,
) -> RolloutRecord {
    let is_emergency = draft.profile == RolloutProfile::Emergency;
    let by_clock = draft.mode == RolloutMode::Clock;
    let batch_size = if is_emergency { BatchSize::Percent(100) } else { draft.batch_size };
    let canaries = strata.iter().flat_map(|stratum| &stratum.canaries).map(NodeId::as_str);
    let ids: BTreeMap<&str, &NodeId> = nodes.iter().map(|report| (report.id.as_str(), &report.id)).into_map();
    let named =
        |names: Vec<&str>| names.into_iter().filter_map(|name| ids.get(name).copied().cloned()).collect();
    let order = split_batches(ids.keys().copied(), canaries, batch_size);
    let goes = by_clock && !draft.dry_run;
    RolloutRecord {
        schema: RECORD_SCHEMA,
        id: draft.id.clone(),
        fleet: draft.fleet.clone(),
        expires: Some(saturating_after(now, draft.valid_for.0)),
        component: draft.component,
        to: draft.to.clone(),
        from: draft.from.clone(),
        target: draft.target.clone(),
        batch_size,
        canary: if is_emergency { Canary { count: 1, ..draft.canary.clone() } } else { draft.canary.clone() },
        soak_time: if is_emergency { EMERGENCY_SOAK } else { draft.soak_time },
        batch_pause: if is_emergency { Span::default() } else { draft.batch_pause },
        // An empty list is treated like the first one.
        max_failed: draft.max_failed.max(1),
        max_silent: draft.max_silent,
        min_protocol: draft.min_protocol,
        dry_run: draft.dry_run,
        mode: draft.mode,
        profile: draft.profile,
        anyway: draft.anyway,
        artifacts: draft.artifacts.clone(),
        batches: if by_clock { vec![] } else { order.into_iter().map(named).collect() },
        postponed: vec![],
        current_batch: 0,
        phase: BatchPhase::default(),
        phase_since: None,
        nodes: if by_clock {
            BTreeMap::new()
        } else {
            nodes.iter().map(|report| (report.id.clone(), NodeProgress::default())).into_map()
        },
        failed: 0,
        state: if goes { RolloutStatus::Rolling } else { RolloutStatus::Created },
        reason: None,
        driver: None,
        created: now,
        by: draft.by.clone(),
        started: goes.then_some(now),
        finished: None,
        serial: 1,
        unknown_fields: BTreeMap::new(),
        sealed: None,
    }
}

/// The earliest time: fetching, switching and confirming count as zero.
fn earliest_starts(record: &RolloutRecord, now: Timestamp) -> Vec<Timestamp> {
    let each = record.soak_time.0.saturating_add(record.batch_pause.0);
    waves::spaced_times(now, each, record.batches.len())
}

#[cfg(test)]
mod tests;
