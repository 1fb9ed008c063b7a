//! A record in, `rollout.yaml` out, and back: the order as it was signed, its node lists, the progress, the results and
//! the driver, each in a part of its own.
//!
//! Law: the order is a text that is never written again. Its signatures are over exactly these bytes, and it names the
//! digest of the node lists; so a driver changes the progress with one key, and the order with none (held by
//! `a_record_is_stored_in_parts_and_its_order_never_changes`,
//! `node_lists_that_are_not_those_of_the_order_are_refused`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{FleetId, NodeId, RolloutId};

use crate::record::{
    Artifact, BatchPhase, Canary, Component, DriverLease, NodeProgress, Postponement, RECORD_SCHEMA,
    RolloutMode, RolloutProfile, RolloutRecord, RolloutStatus, SealedOrder, UNBOUND_SCHEMA,
    apply_postponement,
};
use crate::{BatchSize, Span};

/// Maximum bytes of a stored record: a hundred thousand nodes.
const MAX_RECORD_BYTES: usize = 32 << 20;
/// Maximum times that nodes were postponed.
const MAX_POSTPONEMENTS: usize = 10_000;

/// The parts of a stored record.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRecord {
    schema: u32,
    order: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    signatures: String,
    #[serde(default)]
    batches: Vec<Vec<NodeId>>,
    progress: StoredProgress,
    #[serde(default)]
    results: BTreeMap<NodeId, NodeProgress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    driver: Option<DriverLease>,
    /// Parts that this version does not know.
    #[serde(flatten)]
    unknown: BTreeMap<String, serde_json::Value>,
}

/// What never changes.
#[derive(Debug, Serialize, Deserialize)]
struct StoredOrder {
    id: RolloutId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fleet: Option<FleetId>,
    component: Component,
    to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    target: String,
    created: Timestamp,
    expires: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    batch_size: BatchSize,
    canary: Canary,
    soak_time: Span,
    batch_pause: Span,
    max_failed: usize,
    max_silent: usize,
    min_protocol: u32,
    dry_run: bool,
    mode: RolloutMode,
    profile: RolloutProfile,
    anyway: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<Artifact>,
    /// The digest of the node lists.
    batches: String,
}

/// What the driver and people change.
#[derive(Debug, Serialize, Deserialize)]
struct StoredProgress {
    serial: u64,
    state: RolloutStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    current_batch: usize,
    phase: BatchPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase_since: Option<Timestamp>,
    failed: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    postponed: Vec<Postponement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished: Option<Timestamp>,
}

/// The order of a record as a text, without a signature.
///
/// # Errors
/// Fails when it cannot be written as text, with the reason.
pub fn seal_order(record: &RolloutRecord) -> Result<SealedOrder, String> {
    let order = StoredOrder {
        id: record.id.clone(),
        fleet: record.fleet.clone(),
        component: record.component,
        to: record.to.clone(),
        from: record.from.clone(),
        target: record.target.clone(),
        created: record.created,
        expires: record.expires_at(),
        by: record.by.clone(),
        batch_size: record.batch_size,
        canary: record.canary.clone(),
        soak_time: record.soak_time,
        batch_pause: record.batch_pause,
        max_failed: record.max_failed,
        max_silent: record.max_silent,
        min_protocol: record.min_protocol,
        dry_run: record.dry_run,
        mode: record.mode,
        profile: record.profile,
        anyway: record.anyway,
        artifacts: record.artifacts.clone(),
        batches: batches_digest(&record.batches)?,
    };
    let text = serde_yaml::to_string(&order).map_err(|error| error.to_string())?;
    Ok(SealedOrder { text, signatures: String::new(), batches: record.batches.clone() })
}

fn batches_digest(batches: &[Vec<NodeId>]) -> Result<String, String> {
    let bytes = serde_json::to_vec(batches).map_err(|error| error.to_string())?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// The stored form of a record. A record in the format before this one keeps it.
///
/// # Errors
/// Fails when it cannot be written as text, with the reason.
pub fn record_text(record: &RolloutRecord) -> Result<String, String> {
    if record.schema <= UNBOUND_SCHEMA {
        return serde_yaml::to_string(record).map_err(|error| error.to_string());
    }
    let sealed = match &record.sealed {
        Some(sealed) => SealedOrder::clone(sealed),
        None => seal_order(record)?,
    };
    let stored = StoredRecord {
        schema: record.schema,
        order: sealed.text,
        signatures: sealed.signatures,
        batches: sealed.batches,
        progress: StoredProgress {
            serial: record.serial,
            state: record.state,
            reason: record.reason.clone(),
            current_batch: record.current_batch,
            phase: record.phase,
            phase_since: record.phase_since,
            failed: record.failed,
            postponed: record.postponed.clone(),
            started: record.started,
            finished: record.finished,
        },
        results: record.nodes.clone(),
        driver: record.driver.clone(),
        unknown: record.unknown_fields.clone(),
    };
    serde_yaml::to_string(&stored).map_err(|error| error.to_string())
}

/// The record in a stored text that was found under this id.
///
/// # Errors
/// Fails when it is not the record of that rollout, with the reason.
pub fn parse_record(id: &RolloutId, bytes: &[u8]) -> Result<RolloutRecord, String> {
    #[derive(Deserialize)]
    struct Format {
        schema: u32,
    }
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(format!("it has more than {MAX_RECORD_BYTES} bytes"));
    }
    let Format { schema } = serde_yaml::from_slice(bytes).map_err(|error| error.to_string())?;
    let record: RolloutRecord = match schema {
        ..=UNBOUND_SCHEMA => serde_yaml::from_slice(bytes).map_err(|error| error.to_string())?,
        RECORD_SCHEMA => open_stored(serde_yaml::from_slice(bytes).map_err(|error| error.to_string())?)?,
        newer => return Err(format!("its format {newer} is newer than {RECORD_SCHEMA}: update this agent")),
    };
    if record.id != *id {
        return Err(format!("it is the record of `{}`", record.id));
    }
    Ok(record)
}

fn open_stored(stored: StoredRecord) -> Result<RolloutRecord, String> {
    let order: StoredOrder =
        serde_yaml::from_str(&stored.order).map_err(|error| format!("its order: {error}"))?;
    if batches_digest(&stored.batches)? != order.batches {
        return Err("its node lists are not those of its order".to_owned());
    }
    let progress = stored.progress;
    if progress.postponed.len() > MAX_POSTPONEMENTS {
        return Err(format!("nodes were postponed more than {MAX_POSTPONEMENTS} times"));
    }
    let mut batches = stored.batches.clone();
    for step in &progress.postponed {
        if !apply_postponement(&mut batches, step) {
            return Err(format!("it postpones nodes that are not in batch {}", step.batch.saturating_add(1)));
        }
    }
    let sealed = SealedOrder { text: stored.order, signatures: stored.signatures, batches: stored.batches };
    Ok(RolloutRecord {
        schema: stored.schema,
        id: order.id,
        fleet: order.fleet,
        expires: Some(order.expires),
        component: order.component,
        to: order.to,
        from: order.from,
        target: order.target,
        batch_size: order.batch_size,
        canary: order.canary,
        soak_time: order.soak_time,
        batch_pause: order.batch_pause,
        max_failed: order.max_failed,
        max_silent: order.max_silent,
        min_protocol: order.min_protocol,
        dry_run: order.dry_run,
        mode: order.mode,
        profile: order.profile,
        anyway: order.anyway,
        artifacts: order.artifacts,
        batches,
        postponed: progress.postponed,
        current_batch: progress.current_batch,
        phase: progress.phase,
        phase_since: progress.phase_since,
        nodes: stored.results,
        failed: progress.failed,
        state: progress.state,
        reason: progress.reason,
        driver: stored.driver,
        created: order.created,
        by: order.by,
        started: progress.started,
        finished: progress.finished,
        serial: progress.serial,
        unknown_fields: stored.unknown,
        sealed: Some(Box::new(sealed)),
    })
}

#[cfg(test)]
mod tests;
