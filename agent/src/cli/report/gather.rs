//! Board and rollout repository in, what the pages of a fleet show out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_config::ids::NodeId;
use zagent_config::settings::{BoardKind, Settings};
use zagent_daemon::error::AgentError;
use zagent_daemon::operator::span_text;
use zagent_rollout::record::{Component, NodeStatus, RolloutMode, RolloutRecord, RolloutStatus};
use zagent_rollout::report::NodeReport;

use crate::cli::node::{BoardContent, is_silent, silence_limit};
use crate::cli::rollout::{self, node_state_text, record_text, short_version, to_agent_error};
use crate::output::Tone;
use crate::pages::{FleetBatch, FleetData, FleetNode, FleetRollout, NodeCondition, RolloutLook};

/// Reads the fleet. Without a rollout repository, or when it does not answer, the nodes are shown all the same.
pub(super) fn read_fleet(settings: &Settings, now: Timestamp) -> Result<FleetData, AgentError> {
    let BoardContent { nodes, refused } = BoardContent::read(settings)?;
    let mut unread = Vec::new();
    let records = rollout::open_records_for_review(settings)
        .and_then(|mut records| records.list().map_err(to_agent_error))
        .unwrap_or_else(|error| {
            unread.push(format!("cannot read the rollouts: {}", error.summary()));
            Vec::new()
        });
    let limit = silence_limit(settings);
    let mut all: BTreeMap<NodeId, FleetNode> = BTreeMap::new();
    for (id, reports) in nodes {
        let is_stale = reports.iter().all(|report| is_silent(report, now, limit));
        all.insert(id.clone(), fleet_node(&id, &reports, is_stale, now));
    }
    for (component, one) in refused {
        let node = all.entry(one.node.clone()).or_insert_with(|| empty_node(&one.node));
        node.condition = node.condition.min(NodeCondition::Refused);
        node.errors.push(format!("report of the {} refused: {}", component.name(), one.why));
    }
    let mut rollouts: Vec<FleetRollout> =
        records.iter().map(|held| fleet_rollout(&held.value, now)).collect();
    zagent_config::sorted::sort_by_key(&mut rollouts, |rollout| std::cmp::Reverse(rollout.created));
    let name = settings.fleet.as_ref().map(ToString::to_string).unwrap_or_default();
    if settings.board.kind == BoardKind::None {
        unread.push("no board is configured".into());
    }
    Ok(FleetData { name, at: now, nodes: all.into_values().collect(), rollouts, unread })
}

fn empty_node(id: &NodeId) -> FleetNode {
    FleetNode {
        id: id.to_string(),
        condition: NodeCondition::Ok,
        version: String::new(),
        revision: String::new(),
        os: String::new(),
        activity: String::new(),
        reported: None,
        errors: Vec::new(),
        facts: Vec::new(),
    }
}

/// One node from its reports, one per component.
fn fleet_node(id: &NodeId, reports: &[NodeReport], is_stale: bool, now: Timestamp) -> FleetNode {
    let mut node = empty_node(id);
    for report in reports {
        node.version.clone_from(&report.version);
        if let Some(revision) = &report.revision {
            node.revision = short_version(Component::States, revision);
            node.facts.push(("commit".into(), revision.clone()));
        }
        node.os = system_text(report);
        node.activity = node_state_text(report, report.updated_at.min(now));
        node.reported = node.reported.max(Some(report.updated_at));
        add_errors(&mut node, report);
        if report.hold.is_some() {
            node.condition = node.condition.min(NodeCondition::Held);
        }
        if report.stopped.is_some() {
            node.condition = node.condition.min(NodeCondition::Stopped);
        }
        if report.degraded.is_some() {
            node.condition = node.condition.min(NodeCondition::Degraded);
        }
        if !report.failing_checks.is_empty() || report.last_run.as_ref().is_some_and(|run| !run.success) {
            node.condition = NodeCondition::Failed;
        }
    }
    if is_stale && node.condition > NodeCondition::Stale && node.condition != NodeCondition::Stopped {
        node.condition = NodeCondition::Stale;
    }
    node
}

fn add_errors(node: &mut FleetNode, report: &NodeReport) {
    node.errors.extend(report.failing_checks.iter().map(|check| format!("health check fails: {check}")));
    node.errors.extend(report.degraded.iter().map(|why| format!("degraded: {why}")));
    if let Some(run) = &report.last_run {
        let result = if run.success { "OK" } else { "failed" };
        let words = format!("{result}, {} changed, {} failed, run {}", run.changed, run.failed, run.run);
        node.facts.push(("last run".into(), words));
        if !run.success {
            node.errors.push("the last run failed".into());
        }
    }
    node.errors.extend(report.waits.iter().map(|(rollout, why)| format!("{rollout}: {why}")));
    node.facts.extend(report.hold.iter().map(|why| ("held".to_owned(), why.clone())));
    node.facts.extend(
        report.rejected.iter().map(|(version, why)| ("rejected".to_owned(), format!("{version}: {why}"))),
    );
    if let Some(taken) = &report.taken {
        let error = taken.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        node.facts
            .push((format!("{} rollout", report.component.name()), format!("{}{error}", taken.rollout)));
    }
}

/// `Debian 12, x86_64` from the facts of a report, or what the kernel says.
fn system_text(report: &NodeReport) -> String {
    let fact = |name: &str| report.facts.get(name).and_then(serde_json::Value::as_str);
    match (fact("os"), fact("osrelease").or_else(|| fact("osmajorrelease"))) {
        (Some(os), Some(release)) => format!("{os} {release}, {}", report.arch),
        (Some(os), None) => format!("{os}, {}", report.arch),
        _ => format!("{}, {}", report.os, report.arch),
    }
}

fn fleet_rollout(record: &RolloutRecord, now: Timestamp) -> FleetRollout {
    let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let look = match (record_text::state_tone(record.state), record.failed) {
        (Tone::Error, _) | (_, 1..) => RolloutLook::Bad,
        (Tone::Good, 0) => RolloutLook::Good,
        (Tone::Warn, 0) => RolloutLook::Warn,
        (Tone::Plain | Tone::Dim, 0) => RolloutLook::Plain,
    };
    let is_bad = |status| matches!(status, NodeStatus::Failed | NodeStatus::Silent);
    let failures = record.nodes.iter().filter(|(_, progress)| is_bad(progress.status));
    let failures = failures.map(|(id, progress)| {
        let word = record_text::status_word(progress.status).to_owned();
        (id.to_string(), progress.error.clone().unwrap_or(word))
    });
    FleetRollout {
        id: record.id.to_string(),
        order: record_text::order_text(record),
        state: format!("{}{reason}", record.state.name()),
        look,
        is_over: record.state.is_final() || record.is_expired(now),
        created: record.created,
        batches: (0..record.batches.len()).map(|index| fleet_batch(record, index, now)).collect(),
        facts: rollout_facts(record),
        failures: failures.collect(),
    }
}

fn fleet_batch(record: &RolloutRecord, index: usize, now: Timestamp) -> FleetBatch {
    let nodes = &record.batches[index];
    let count = |wanted: &[NodeStatus]| {
        nodes.iter().filter(|node| wanted.contains(&record.node_status(node))).count()
    };
    let doing = match index.cmp(&record.current_batch) {
        _ if record.mode == RolloutMode::Clock => "by the clock".into(),
        _ if record.state == RolloutStatus::Completed => "done".into(),
        std::cmp::Ordering::Less => "done".into(),
        std::cmp::Ordering::Greater => "waits".into(),
        std::cmp::Ordering::Equal if record.state == RolloutStatus::Aborted => "aborted".into(),
        // Ages change with every look; a timer names its beginning instead.
        std::cmp::Ordering::Equal => match record.phase_since {
            Some(since) => {
                format!("{} since {}", record_text::phase_word(record.phase), clock(since.min(now)))
            }
            None => record_text::phase_word(record.phase).into(),
        },
    };
    FleetBatch {
        nodes: nodes.len(),
        confirmed: count(&[NodeStatus::Confirmed]),
        failed: count(&[NodeStatus::Failed, NodeStatus::Silent]),
        doing,
    }
}

fn rollout_facts(record: &RolloutRecord) -> Vec<(String, String)> {
    let mut facts = vec![
        ("target", record.target.clone()),
        ("nodes", record_text::counts_text(record)),
        ("soak", record.soak_time.to_string()),
        ("pause between batches", record.batch_pause.to_string()),
        ("aborts after", format!("{} failed nodes", record.max_failed)),
        ("ordered", clock(record.created)),
        ("valid until", clock(record.expires_at())),
    ];
    facts.extend(record.by.iter().map(|by| ("ordered by", by.clone())));
    facts.extend(record.started.map(|at| ("began", clock(at))));
    facts.extend(record.finished.map(|at| ("ended", clock(at))));
    facts.extend(record.driver.as_ref().map(|driver| ("driver", driver.id.clone())));
    if let (Some(start), Some(end)) = (record.started, record.finished) {
        facts.push(("took", span_text(start, end)));
    }
    facts.into_iter().map(|(name, words)| (name.to_owned(), words)).collect()
}

fn clock(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
