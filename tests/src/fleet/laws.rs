//! What must hold in every history, after every event: a write or a node in, the broken law out.

use zagent_config::ids::NodeId;
use zagent_rollout::phase::NodePhase;
use zagent_rollout::record::{NodeStatus, RolloutMode, RolloutRecord, RolloutStatus};

use super::host::Host;

/// The law that a write of a record breaks, if any.
#[must_use]
pub fn of_write(old: &RolloutRecord, new: &RolloutRecord) -> Option<String> {
    let said = |words: String| Some(format!("{} {}: {words}", new.id, new.serial));
    if old.state.is_final() {
        return said(format!("it was {} and was written again", old.state.name()));
    }
    if new.serial != old.serial + 1 {
        return said(format!("the serial before was {}", old.serial));
    }
    let frozen =
        |record: &RolloutRecord| (record.to.clone(), record.created, record.max_failed, record.soak_time);
    if frozen(old) != frozen(new) || planned(old) != planned(new) {
        return said("the order itself was changed".into());
    }
    // A batch whose nodes have all ended is passed without a stop: `of_batches` checks that they have.
    if new.current_batch < old.current_batch {
        return said(format!("from batch {} to {}", old.current_batch, new.current_batch));
    }
    if old.state == RolloutStatus::Aborting
        && !matches!(new.state, RolloutStatus::Aborting | RolloutStatus::Aborted)
    {
        return said(format!("from aborting to {}", new.state.name()));
    }
    let count =
        |record: &RolloutRecord, status| record.nodes.values().filter(|node| node.status == status).count();
    let (failed, silent) = (count(new, NodeStatus::Failed), count(new, NodeStatus::Silent));
    if new.failed != failed || new.failed < old.failed {
        return said(format!("{} failures are recorded, {failed} nodes failed", new.failed));
    }
    let is_ending = matches!(new.state, RolloutStatus::Aborting | RolloutStatus::Aborted);
    if failed >= new.max_failed && !is_ending {
        return said(format!(
            "{failed} of at most {} failed, and it is {}",
            new.max_failed,
            new.state.name()
        ));
    }
    if silent > new.max_silent && !is_ending {
        return said(format!(
            "{silent} of at most {} are silent, and it is {}",
            new.max_silent,
            new.state.name()
        ));
    }
    of_nodes(old, new).or_else(|| of_batches(old, new)).and_then(said)
}

/// The batches of the order, before anything was postponed.
fn planned(record: &RolloutRecord) -> Vec<Vec<NodeId>> {
    let mut batches = record.batches.clone();
    for step in record.postponed.iter().rev() {
        let moved = batches.remove(step.batch + 1);
        batches[step.batch].extend(moved);
    }
    batches.iter_mut().for_each(|batch| batch.sort());
    batches
}

fn of_nodes(old: &RolloutRecord, new: &RolloutRecord) -> Option<String> {
    let ended = |status| matches!(status, NodeStatus::Confirmed | NodeStatus::Failed);
    // The set of nodes never changes, so both name the same nodes in the same order.
    if old.nodes.len() != new.nodes.len() {
        return Some(format!("it was about {} nodes and is about {}", old.nodes.len(), new.nodes.len()));
    }
    for ((was, before), (id, progress)) in old.nodes.iter().zip(&new.nodes) {
        if was != id {
            return Some(format!("{was} was forgotten"));
        }
        let (before, status) = (before.status, progress.status);
        if ended(before) && status != before {
            return Some(format!("{id} was {before:?} and is {status:?}"));
        }
        let begins = before == NodeStatus::Waiting && status != NodeStatus::Waiting;
        if begins && new.batch_of(id).is_none_or(|batch| batch > new.current_batch) {
            return Some(format!("{id} is {status:?} before its turn"));
        }
    }
    None
}

/// A batch ends only when every node in it has ended, with any result.
fn of_batches(old: &RolloutRecord, new: &RolloutRecord) -> Option<String> {
    let is_open =
        |id| matches!(new.node_status(id), NodeStatus::Waiting | NodeStatus::Prepared | NodeStatus::Applied);
    let left = if new.state == RolloutStatus::Completed { new.batches.len() } else { new.current_batch };
    let open = new.batches.iter().take(left).skip(old.current_batch).flatten().find(|id| is_open(id));
    open.map(|id| format!("{id} is {:?} and its batch is over", new.node_status(id)))
}

/// The law that the state of a node breaks, if any; `is_broken` knows which versions do not work there.
#[must_use]
pub fn of_host(host: &Host, is_broken: impl Fn(&str) -> bool) -> Option<String> {
    let said = |words: String| Some(format!("{}: {words}", host.id));
    // The state on disk counts too: the node uses it after a power failure.
    for node in [Some(&host.node), host.disk.as_ref()].into_iter().flatten() {
        for version in [Some(node.current_version()), Some(node.running.as_str()), node.previous.as_deref()] {
            if let Some(version) = version.filter(|version| !host.has(version)) {
                return said(format!("{version} may be needed and is missing"));
            }
        }
        for version in [Some(node.running.as_str()), node.previous.as_deref()].into_iter().flatten() {
            if is_broken(version) {
                return said(format!("it counts {version} as good, which does not work there"));
            }
        }
    }
    if !host.has(&host.slot) {
        return said(format!("it runs {}, which is not installed", host.slot));
    }
    let node = &host.node;
    if !host.past.good.contains(&node.running) {
        return said(format!("it counts {} as good, which was never confirmed there", node.running));
    }
    if node.phase == NodePhase::Idle {
        if host.slot != node.running {
            return said(format!("it is idle on {} and runs {}", node.running, host.slot));
        }
        if node.rejected.contains_key(&node.running) || host.past.rejected.contains(&node.running) {
            return said(format!("it is idle on {}, which it rejected", node.running));
        }
        let mut felling = host.past.felling.iter();
        if let Some(version) = felling.find(|version| !node.rejected.contains_key(*version)) {
            return said(format!("{version} crashed the host again and again and is not rejected"));
        }
    }
    if let Some(confirmed) = host.past.confirmed.as_ref().filter(|confirmed| **confirmed != node.running) {
        return said(format!("{confirmed} was confirmed and it is on {}", node.running));
    }
    None
}

/// The law for the whole fleet: never more nodes than the largest batch plus `max_failed` run an unconfirmed version.
///
/// Silent nodes are added, but only those that the record counts as silent, at most `max_silent` before it ends. This
/// is needed: a node that was cut off after it switched rolls back at its own deadline and not before, the next batch
/// does not wait for that, and a node without power keeps the version until it has power again.
#[must_use]
pub fn of_fleet(record: &RolloutRecord, unconfirmed: usize, hosts: &[Host], place: usize) -> Option<String> {
    let largest = planned(record).iter().map(Vec::len).max().unwrap_or(0);
    let most = largest + record.max_failed;
    if record.mode == RolloutMode::Clock || unconfirmed <= most {
        return None;
    }
    let is_silent =
        |host: &&Host| host.counts == Some(place) && record.node_status(&host.id) == NodeStatus::Silent;
    let heard = unconfirmed - hosts.iter().filter(is_silent).count();
    (heard > most).then(|| format!("{heard} nodes run an unconfirmed version, and the limit is {most}"))
}
