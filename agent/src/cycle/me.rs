//! Facts, files and what was remembered in, the report of this node about its states out.
//!
//! Law: a fixed list of facts, the one that `rollout.role` names and those of `rollout.facts`, each short, all of them
//! bounded: a report is read by everybody who looks at the board.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;
use zagent_cache::Cache;
use zagent_config::ids::RolloutId;
use zagent_config::settings::{self, BoardKind, Settings, Window};
use zagent_rollout::PROTOCOL;
use zagent_rollout::board::BoardError;
use zagent_rollout::record::{Component, Record};
use zagent_rollout::records::Records;
use zagent_rollout::report::{Child, Doing, LastRun, Report};
use zagent_rollout::stores::BoardRecords;

use super::memory::Memory;
use super::orders::Orders;
use super::sync;
use crate::facts::{FactSources, Facts, Grains};
use crate::output::local_zone;

/// What targets and strata may ask for.
const FACTS: [&str; 20] = [
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
/// Bytes of one fact.
const LONGEST: usize = 512;
/// Facts of `rollout.facts` that are told.
const MORE: usize = 32;

/// The facts that targets and strata may ask for.
pub(crate) fn facts(settings: &Settings) -> BTreeMap<String, Json> {
    let facts_dir = Some(settings.facts_dir.clone());
    let facts = Facts::new(FactSources { facts_dir, ..FactSources::new(settings.id.as_str()) });
    let named = settings.rollout.role.as_str();
    let more = settings.rollout.facts.iter().take(MORE).map(String::as_str);
    let names = FACTS.into_iter().chain([named]).chain(more);
    let fact = |name: &str| -> Option<Json> {
        let value = short(serde_json::to_value(facts.get(name)?).ok()?);
        (!value.is_null() && value.to_string().len() <= LONGEST).then_some(value)
    };
    let mut told: BTreeMap<String, Json> =
        names.filter_map(|name| Some((name.to_owned(), fact(name)?))).collect();
    // Strata and targets ask for `role`, whatever this fleet calls it.
    if let Some(role) = told.get(named).cloned() {
        told.insert("role".into(), role);
    }
    told
}

/// Of a long list, the beginning: a host with a hundred addresses is still found by its first ones.
fn short(value: Json) -> Json {
    let Json::Array(mut list) = value else { return value };
    while !list.is_empty() && Json::from(list.as_slice()).to_string().len() > LONGEST {
        list.pop();
    }
    Json::Array(list)
}

/// What does not change while the agent runs: who it is and what it runs on.
pub(super) fn report(settings: &Settings) -> Report {
    Report {
        id: settings.id.clone(),
        component: Component::States,
        version: env!("CARGO_PKG_VERSION").into(),
        revision: None,
        state: Doing::Idle,
        taken: None,
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        facts: facts(settings),
        updated_at: Timestamp::now(),
        child: None,
        degraded: None,
        hold: None,
        protocol: PROTOCOL,
        last_run: None,
    }
}

/// What the report of this moment is made from.
pub(super) struct Moment<'a> {
    /// The revision that the node is on.
    pub(super) revision: Option<&'a str>,
    pub(super) memory: &'a Memory,
    pub(super) orders: &'a Orders,
    pub(super) windows: &'a [Window],
    /// Since when the daemon is up; none when there is none.
    pub(super) since: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// The report as of now.
pub(super) fn told(base: &Report, moment: &Moment<'_>) -> Report {
    let Moment { revision, memory, orders, windows, since, now } = *moment;
    let zone = local_zone();
    let mut report = Report {
        revision: revision.map(str::to_owned),
        degraded: degraded(orders, now),
        hold: orders.hold(windows, now, &zone),
        updated_at: now,
        child: since.map(|since| child(since, now)),
        last_run: last_run(memory),
        ..base.clone()
    };
    report.tell(&orders.course.node);
    report
}

fn last_run(memory: &Memory) -> Option<LastRun> {
    memory.last_run.as_ref().map(|run| LastRun {
        run: run.run.clone(),
        at: run.at,
        success: run.success,
        changed: run.counts.get("changed").copied().unwrap_or_default(),
        failed: run.counts.get("failed").copied().unwrap_or_default(),
    })
}

/// What the files of the agent tell whoever reports for it: the revision that it is on, and its last run.
pub(crate) fn seen(settings: &Settings) -> (Option<String>, Option<LastRun>) {
    let paths = settings.paths();
    let current = Cache::open(&paths, &settings.source).and_then(|cache| cache.current()).ok().flatten();
    let revision = current.map(|current| sync::plain(&current.record().revision).to_owned());
    (revision, last_run(&Memory::load(&paths.memory())))
}

/// This very process.
fn child(since: Timestamp, now: Timestamp) -> Child {
    let uptime = u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default();
    Child { pid: std::process::id(), uptime }
}

/// Why this node should take no part in a rollout: somebody wants it where it is, or what somebody wants cannot be read.
///
/// Runs that fail, and a head that is quarantined, are no such reason: the node may be waiting for just what is rolled
/// out. Whoever looks sees them in its last run, and a node whose runs failed before is not judged by its runs
/// (`course/edge.rs`).
fn degraded(orders: &Orders, now: Timestamp) -> Option<String> {
    let pinned = || orders.pin.as_ref().map(|pin| pin.words(now, &local_zone()));
    orders.damaged.clone().or_else(pinned)
}

/// True when two reports say the same, but for the time.
pub(super) fn is_same(one: &Report, other: &Report) -> bool {
    let pid = |report: &Report| report.child.as_ref().map(|child| child.pid);
    let child = if pid(one) == pid(other) { one.child.clone() } else { other.child.clone() };
    let other = Report { updated_at: one.updated_at, child, ..other.clone() };
    *one == other
}

/// How often the board is told without a change: at the pace of the board, and with every look at the record while a rollout is
/// under way.
pub(super) fn pace(settings: &Settings, is_under_way: bool) -> Duration {
    let every = settings.board.every;
    if is_under_way { settings.rollout.poll.min(every) } else { every }
}

/// The place of the records; none where there is neither a repository nor a board.
pub(crate) fn records(settings: &Settings) -> Result<Option<BoardRecords>, BoardError> {
    let is_git = |remote: &settings::Remote| sync::directory(&remote.url).is_none();
    let has_none = settings.rollout.url.is_none()
        && settings.board.kind == BoardKind::None
        && !settings.source.remotes.iter().any(is_git);
    if has_none { Ok(None) } else { BoardRecords::open(settings).map(Some) }
}

/// What was found where the records are.
pub(super) struct Found {
    pub(super) records: Vec<Record>,
    /// Rollouts whose records are there and cannot be read.
    pub(super) unread: Vec<RolloutId>,
}

/// All records that there are.
pub(super) fn read(records: &mut dyn Records) -> Result<Found, BoardError> {
    let all = records.list()?.into_iter().map(|held| held.value).collect();
    Ok(Found { records: all, unread: records.unread() })
}

#[cfg(test)]
mod tests;
