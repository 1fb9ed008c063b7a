//! Faults of many hosts in, each once with its hosts out.

use std::collections::{BTreeSet, HashMap};

use zagent_config::Fault;

use crate::draw::fault::Severity;

/// Something that was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub fault: Fault,
    /// The hosts it was found on; empty when it is about the tree itself.
    pub hosts: BTreeSet<String>,
}

impl Finding {
    pub(super) fn to_json(&self) -> serde_json::Value {
        let mut json = self.fault.to_json();
        json["hosts"] = self.hosts.iter().cloned().collect();
        json
    }
}

/// Collects findings.
#[derive(Default)]
pub struct Findings {
    all: Vec<Finding>,
    known: HashMap<(Severity, String), usize>,
}

impl Findings {
    /// Notes a fault of a host.
    pub fn add(&mut self, severity: Severity, fault: &Fault, host: &str) {
        let i = self.slot(severity, fault);
        self.all[i].hosts.insert(host.to_owned());
    }

    /// Notes a fault of the tree.
    pub fn add_for_all(&mut self, severity: Severity, fault: &Fault) {
        self.slot(severity, fault);
    }

    fn slot(&mut self, severity: Severity, fault: &Fault) -> usize {
        // The line and the words are the same for all hosts that share a fault; how it was reached may differ.
        let key = (severity, fault.to_string());
        *self.known.entry(key).or_insert_with(|| {
            self.all.push(Finding { severity, fault: fault.clone(), hosts: BTreeSet::new() });
            self.all.len() - 1
        })
    }

    /// Errors first, then by place.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<Finding> {
        let key = |f: &Finding| {
            let place = f.fault.place.as_ref();
            (f.severity, place.map(|p| (p.file.clone(), p.pos)), f.fault.code.id, f.fault.message.clone())
        };
        self.all.sort_by_cached_key(key);
        self.all
    }
}
