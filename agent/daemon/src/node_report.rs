//! Grains, files and saved state in, report of this node about its states out.
//!
//! Law: a fixed list of grains, the one set in `rollout.role` and those in `rollout.facts`, each of limited size:
//! every reader of the board sees a report (held by `grains_are_the_fixed_and_configured_ones_and_none_is_long`).

#![expect(clippy::disallowed_methods, reason = "a report carries the time at which it is made")]

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;
use zagent_cache::Cache;
use zagent_config::settings::{self, ApplyMode, BoardKind, MaintenanceWindow, Settings, UnsignedRef};
use zagent_rollout::PROTOCOL;
use zagent_rollout::board::BoardError;
use zagent_rollout::board_stores::BoardRecords;
use zagent_rollout::record::Component;
use zagent_rollout::report::{
    AgentProcess, MAX_FAILING_CHECKS, MAX_REJECTED, NodeActivity, NodeReport, ReportedRun, short_reason,
};

use super::damage::OwnDamage;
use super::memory::AgentMemory;
use super::operator_orders::OperatorOrders;
use super::sync;
use zagent_config::sorted::CollectSorted;
use zagent_host::Machine;
use zagent_host::facts::{FactSources, Facts, Grains};
use zagent_host::timezone::local_zone;
use zagent_states::template_host::recorded_facts::parse_facts;

/// Grains that targets and strata can use.
const REPORTED_FACTS: [&str; 20] = [
    "id",
    "host",
    "fqdn",
    "domain",
    "os",
    "os_family",
    "osrelease",
    "osmajorrelease",
    "oscodename",
    "osfinger",
    "kernel",
    "kernelrelease",
    "cpuarch",
    "virtual",
    "role",
    "roles",
    "environment",
    "datacenter",
    "ipv4",
    "ipv6",
];
/// Maximum size of one grain.
const MAX_FACT_BYTES: usize = 512;
/// Maximum number of grains from `rollout.facts`.
const MAX_EXTRA_FACTS: usize = 32;

/// Grains that targets and strata can use.
pub(crate) fn reported_facts(settings: &Settings) -> BTreeMap<String, Json> {
    let facts_dir = Some(settings.facts_dir.clone());
    let facts = Facts::new(FactSources {
        facts_dir,
        ..FactSources::new(&Machine::this_host(), settings.id.as_str(), parse_facts)
    });
    let named = settings.rollout.role.as_str();
    let more = settings.rollout.facts.iter().take(MAX_EXTRA_FACTS).map(String::as_str);
    let names = REPORTED_FACTS.into_iter().chain([named]).chain(more);
    let fact = |name: &str| -> Option<Json> {
        let value = truncate_list(serde_json::to_value(facts.get(name)?).ok()?);
        (!value.is_null() && value.to_string().len() <= MAX_FACT_BYTES).then_some(value)
    };
    let mut told: BTreeMap<String, Json> =
        names.filter_map(|name| Some((name.to_owned(), fact(name)?))).into_map();
    // Strata and targets use `role`, whatever the grain is called in this fleet.
    if let Some(role) = told.get(named).cloned() {
        told.insert("role".into(), role);
    }
    told
}

/// The start of a long list: a host with a hundred addresses is still found by its first ones.
fn truncate_list(value: Json) -> Json {
    let Json::Array(mut list) = value else { return value };
    while !list.is_empty() && Json::from(list.as_slice()).to_string().len() > MAX_FACT_BYTES {
        list.pop();
    }
    Json::Array(list)
}

/// The static part: identity and platform.
pub(crate) fn base_report(settings: &Settings) -> NodeReport {
    NodeReport {
        id: settings.id.clone(),
        component: Component::States,
        version: env!("CARGO_PKG_VERSION").into(),
        revision: None,
        state: NodeActivity::Idle,
        taken: None,
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        facts: reported_facts(settings),
        updated_at: Timestamp::now(),
        child: None,
        degraded: None,
        hold: (settings.run.mode == ApplyMode::Audit).then(|| "it is in audit mode".to_owned()),
        protocol: PROTOCOL,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
        waits: Default::default(),
    }
}

/// Inputs of the current report.
pub(crate) struct ReportInputs<'a> {
    /// Current revision.
    pub revision: Option<&'a str>,
    pub memory: &'a AgentMemory,
    pub orders: &'a OperatorOrders,
    /// Files of the agent that are damaged.
    pub damaged: &'a [OwnDamage],
    pub windows: &'a [MaintenanceWindow],
    /// Start time of the daemon; none without a daemon.
    pub since: Option<Timestamp>,
    pub now: Timestamp,
}

/// Builds the current report.
pub(crate) fn current_report(base: &NodeReport, moment: &ReportInputs<'_>) -> NodeReport {
    let ReportInputs { revision, memory, orders, damaged, windows, since, now } = *moment;
    let zone = local_zone();
    let mut report = NodeReport {
        revision: revision.map(str::to_owned),
        degraded: degraded_reason(orders, damaged, now),
        hold: orders.rollout_obstacle(windows, now, &zone).or_else(|| base.hold.clone()),
        waits: orders.rollout_state.waits(now),
        updated_at: now,
        child: since.map(|since| own_process(since, now)),
        last_run: last_run(memory),
        rejected: rejected(orders),
        failing_checks: failing_checks(memory),
        ..base.clone()
    };
    report.update_from_node(&orders.rollout_state.node);
    report
}

/// Revisions that this node quarantined, the newest few.
fn rejected(orders: &OperatorOrders) -> BTreeMap<String, String> {
    let all = orders.quarantine.list();
    let newest = all.iter().rev().take(MAX_REJECTED);
    newest.map(|one| (one.revision.to_string(), short_reason(&one.reason))).into_map()
}

/// Health checks that fail, as `name: reason`.
fn failing_checks(memory: &AgentMemory) -> Vec<String> {
    let failing = memory.health.iter().filter(|check| !check.healthy).take(MAX_FAILING_CHECKS);
    failing.map(|check| short_reason(&format!("{}: {}", check.name, check.message))).collect()
}

fn last_run(memory: &AgentMemory) -> Option<ReportedRun> {
    memory.last_run.as_ref().map(|run| ReportedRun {
        run: run.run.clone(),
        at: run.at,
        success: run.success,
        changed: run.counts.get("changed").copied().unwrap_or_default(),
        failed: run.counts.get("failed").copied().unwrap_or_default(),
    })
}

/// Current revision and last run, read from the agent's files by another process that reports for it.
pub(crate) fn revision_and_run(settings: &Settings) -> (Option<String>, Option<ReportedRun>) {
    let paths = settings.paths();
    let current = Cache::open(&paths, &settings.source).and_then(|cache| cache.current()).ok().flatten();
    let revision = current.map(|current| sync::plain_revision(&current.record().revision).to_owned());
    (revision, last_run(&AgentMemory::load(&paths.memory())))
}

/// This process.
fn own_process(since: Timestamp, now: Timestamp) -> AgentProcess {
    let uptime = u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default();
    AgentProcess { pid: std::process::id(), uptime }
}

/// Why this node should not take part in a rollout: an operator holds it, the operator's files cannot be read,
/// or files of its own are damaged.
///
/// Failed runs and a quarantined head are no such reason: the node may be waiting for exactly what is rolled
/// out. They are visible in its last run, and a node whose runs failed before is not judged by its runs
/// (`run_rejection`).
fn degraded_reason(orders: &OperatorOrders, damaged: &[OwnDamage], now: Timestamp) -> Option<String> {
    let pinned = || orders.pin.as_ref().map(|pin| pin.summary(now, &local_zone()));
    let own = || damaged.iter().find(|damage| damage.degraded).map(|damage| damage.message.clone());
    orders.damaged.clone().or_else(own).or_else(pinned)
}

/// True when two reports are equal except for the time.
pub fn is_same_report(one: &NodeReport, other: &NodeReport) -> bool {
    let pid = |report: &NodeReport| report.child.as_ref().map(|child| child.pid);
    let child = if pid(one) == pid(other) { one.child.clone() } else { other.child.clone() };
    let other = NodeReport { updated_at: one.updated_at, child, ..other.clone() };
    *one == other
}

/// Report interval without a change: that of the board, and with every read of the record while a rollout is
/// active.
pub(crate) fn publish_interval(settings: &Settings, is_under_way: bool) -> Duration {
    let every = settings.board.every;
    if is_under_way { settings.rollout.poll.min(every) } else { every }
}

/// Record store; none without a repository and a board, and none when nothing signs records that others could write
/// and the configuration does not ask for them by name.
pub fn open_records(settings: &Settings) -> Result<Option<BoardRecords>, BoardError> {
    let is_git = |remote: &settings::RemoteSettings| sync::directory_remote(&remote.url).is_none();
    let has_none = settings.rollout.url.is_none()
        && settings.board.kind == BoardKind::None
        && !settings.source.remotes.iter().any(is_git);
    // Only root of this machine writes to a store on this machine.
    let is_local = settings.board.kind == BoardKind::Sled
        && match settings.rollout.url.as_deref() {
            Some(url) => url == zagent_rollout::board_stores::ON_BOARD,
            None => !settings.source.remotes.iter().any(is_git),
        };
    let is_ignored = !is_local && !settings.trust.uses(UnsignedRef::Rollout);
    if has_none || is_ignored { Ok(None) } else { BoardRecords::open(settings).map(Some) }
}

#[cfg(test)]
pub mod tests;
