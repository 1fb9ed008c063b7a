//! Two compiles of every host in, the states that each host gains, loses or changes out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use zagent_compiler::{Chunk, Plan};
use zagent_config::Value;
use zagent_states::managed::{ThingName, managed_things};

/// Change of one state on one host.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanChange {
    /// The state is new.
    Added {
        /// Its tag.
        tag: String,
    },
    /// The state is removed.
    Removed {
        /// Its tag.
        tag: String,
        /// What it leaves behind on the host, because no other state manages it: `file /etc/motd`.
        leaves: Vec<String>,
    },
    /// Some of its arguments differ: name, before, after.
    Changed {
        /// Its tag.
        tag: String,
        /// Argument, old value, new value; `None` means absent.
        arguments: Vec<(String, Option<Value>, Option<Value>)>,
    },
}

impl PlanChange {
    /// The tag of the state.
    #[must_use]
    pub fn tag(&self) -> &str {
        match self {
            Self::Added { tag } | Self::Removed { tag, .. } | Self::Changed { tag, .. } => tag,
        }
    }
}

/// Change of one host.
#[derive(Clone, Debug)]
pub enum HostDiff {
    /// States that change; an empty list means no change.
    Changes(Vec<PlanChange>),
    /// It compiled before and no longer compiles.
    Breaks,
    /// It did not compile before and compiles now.
    Fixed,
    /// It compiles neither before nor now.
    Broken,
    /// It is new in the inventory, with that many states.
    New(usize),
    /// It was removed from the inventory.
    Removed,
}

/// The comparison of two revisions.
pub struct PlanDiff {
    /// Revision that is compared, as the user wrote it.
    pub from: String,
    /// Revision it is compared with.
    pub to: String,
    /// By host.
    pub hosts: BTreeMap<String, HostDiff>,
}

/// Compares one host; `None` means that it does not compile.
#[must_use]
pub fn diff_plans(before: Option<&Plan>, after: Option<&Plan>) -> HostDiff {
    match (before, after) {
        (Some(before), Some(after)) => HostDiff::Changes(plan_changes(before, after)),
        (Some(_), None) => HostDiff::Breaks,
        (None, Some(_)) => HostDiff::Fixed,
        (None, None) => HostDiff::Broken,
    }
}

fn plan_changes(before: &Plan, after: &Plan) -> Vec<PlanChange> {
    let mut old: BTreeMap<String, Vec<&Chunk>> = BTreeMap::new();
    for chunk in &before.chunks {
        old.entry(chunk.tag()).or_default().push(chunk);
    }
    let identity = |thing: &ThingName| {
        let (kind, name) = thing.identity();
        (kind.to_owned(), name.to_owned())
    };
    let managed: BTreeSet<(String, String)> =
        after.chunks.iter().flat_map(managed_things).map(|managed| identity(&managed.thing)).collect();
    let mut out = Vec::new();
    for chunk in &after.chunks {
        let tag = chunk.tag();
        let was = old.get_mut(&tag).and_then(|same| (!same.is_empty()).then(|| same.remove(0)));
        match was {
            None => out.push(PlanChange::Added { tag }),
            Some(was) => {
                let arguments = changed_arguments(was, chunk);
                if !arguments.is_empty() {
                    out.push(PlanChange::Changed { tag, arguments });
                }
            }
        }
    }
    for (tag, left) in old {
        for chunk in left {
            let things = managed_things(chunk).into_iter().map(|managed| managed.thing);
            let left_behind = things.filter(|thing| !managed.contains(&identity(thing)));
            let leaves = left_behind.map(|thing| format!("{} {}", thing.kind, thing.name)).collect();
            out.push(PlanChange::Removed { tag: tag.clone(), leaves });
        }
    }
    out
}

/// Arguments that differ; order and position are ignored.
fn changed_arguments(old: &Chunk, new: &Chunk) -> Vec<(String, Option<Value>, Option<Value>)> {
    let mut out = Vec::new();
    let visible = |key: &str| !key.starts_with("__") && key != "order";
    for (key, value) in new.args.iter() {
        let name = key.json_key();
        let was = old.args.get_value(key);
        if visible(&name) && was != Some(value) {
            out.push((name, was.cloned(), Some(value.clone())));
        }
    }
    for (key, value) in old.args.iter() {
        let name = key.json_key();
        if visible(&name) && new.args.get_value(key).is_none() {
            out.push((name, Some(value.clone()), None));
        }
    }
    out
}

impl HostDiff {
    /// True when the host does not change.
    #[must_use]
    pub const fn is_unchanged(&self) -> bool {
        match self {
            Self::Changes(changes) => changes.is_empty(),
            Self::Broken => true,
            _ => false,
        }
    }
}

impl PlanDiff {
    /// The comparison as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let hosts: serde_json::Map<_, _> =
            self.hosts.iter().map(|(name, host)| (name.clone(), host_json(host))).collect();
        json!({
            "from": self.from, "to": self.to,
            "changed_hosts": self.hosts.values().filter(|h| !h.is_unchanged()).count(),
            "total_hosts": self.hosts.len(),
            "hosts": hosts,
        })
    }
}

fn host_json(host: &HostDiff) -> serde_json::Value {
    let word = match host {
        HostDiff::Changes(changes) => {
            return json!({"status": "compiles", "changes": changes.iter().map(change_json).collect::<Vec<_>>()});
        }
        HostDiff::New(states) => return json!({"status": "new", "states": states, "changes": []}),
        HostDiff::Breaks => "breaks",
        HostDiff::Fixed => "mends",
        HostDiff::Broken => "broken",
        HostDiff::Removed => "gone",
    };
    json!({"status": word, "changes": []})
}

fn change_json(change: &PlanChange) -> serde_json::Value {
    match change {
        PlanChange::Added { tag } => json!({"change": "added", "state": tag}),
        PlanChange::Removed { tag, leaves } => {
            json!({"change": "removed", "state": tag, "leaves": leaves})
        }
        PlanChange::Changed { tag, arguments } => {
            let arguments: serde_json::Map<_, _> = arguments
                .iter()
                .map(|(name, old, new)| (name.clone(), json!({"old": old, "new": new})))
                .collect();
            json!({"change": "changed", "state": tag, "arguments": arguments})
        }
    }
}
