//! Faults of many hosts in, each once with its hosts out.

use std::collections::{BTreeSet, HashMap};

use zagent_config::Diagnostic;

use crate::draw::diagnostic::Severity;

/// Something that was found.
#[derive(Clone, Debug)]
pub struct CheckFinding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub diagnostic: Diagnostic,
    /// The hosts it was found on; empty when it is about the tree itself.
    pub hosts: BTreeSet<String>,
}

impl CheckFinding {
    pub(super) fn to_json(&self) -> serde_json::Value {
        let mut json = self.diagnostic.to_json();
        json["hosts"] = self.hosts.iter().cloned().collect();
        json
    }
}

/// Collects findings.
#[derive(Default)]
pub struct CheckFindings {
    all: Vec<CheckFinding>,
    known: HashMap<(Severity, String), usize>,
}

impl CheckFindings {
    /// Notes a fault of a host.
    pub fn add(&mut self, severity: Severity, fault: &Diagnostic, host: &str) {
        let i = self.find_or_insert(severity, fault);
        self.all[i].hosts.insert(host.to_owned());
    }

    /// Notes a fault of the tree.
    pub fn add_for_tree(&mut self, severity: Severity, fault: &Diagnostic) {
        self.find_or_insert(severity, fault);
    }

    fn find_or_insert(&mut self, severity: Severity, fault: &Diagnostic) -> usize {
        // The line and the words are the same for all hosts that share a fault; how it was reached may differ.
        let key = (severity, fault.to_string());
        *self.known.entry(key).or_insert_with(|| {
            self.all.push(CheckFinding { severity, diagnostic: fault.clone(), hosts: BTreeSet::new() });
            self.all.len() - 1
        })
    }

    /// Errors first, then by place.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<CheckFinding> {
        let key = |f: &CheckFinding| {
            let place = f.diagnostic.location.as_ref();
            (
                f.severity,
                place.map(|p| (p.file.clone(), p.pos)),
                f.diagnostic.code.id,
                f.diagnostic.message.clone(),
            )
        };
        self.all.sort_by_cached_key(key);
        self.all
    }
}
