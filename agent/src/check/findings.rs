//! Diagnostics of many hosts in, each diagnostic once with its hosts out.

use std::collections::{BTreeSet, HashMap};

use zagent_config::Diagnostic;

use crate::draw::diagnostic::Severity;

/// One finding.
#[derive(Clone, Debug)]
pub struct CheckFinding {
    /// Severity.
    pub severity: Severity,
    /// The diagnostic.
    pub diagnostic: Diagnostic,
    /// Hosts with this finding; empty when it is about the tree itself.
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
    /// Adds a diagnostic of a host.
    pub fn add(&mut self, severity: Severity, fault: &Diagnostic, host: &str) {
        let i = self.find_or_insert(severity, fault);
        self.all[i].hosts.insert(host.to_owned());
    }

    /// Adds a diagnostic of the tree.
    pub fn add_for_tree(&mut self, severity: Severity, fault: &Diagnostic) {
        self.find_or_insert(severity, fault);
    }

    fn find_or_insert(&mut self, severity: Severity, fault: &Diagnostic) -> usize {
        // Hosts that share a diagnostic have the same line and message; the include path may differ.
        let key = (severity, fault.to_string());
        *self.known.entry(key).or_insert_with(|| {
            self.all.push(CheckFinding { severity, diagnostic: fault.clone(), hosts: BTreeSet::new() });
            self.all.len() - 1
        })
    }

    /// Sorts errors first, then by position.
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
        zagent_config::sorted::sort_by_key(&mut self.all, key);
        self.all
    }
}
