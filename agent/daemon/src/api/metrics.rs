//! Status and counters in, Prometheus text out.
//!
//! Law: every line is a comment or a sample, every value is a number, and labels have a maximum length and hold no
//! secrets (held by `every_line_is_in_the_format`).

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;

use crate::status::AgentStatus;

/// Longest label, in characters.
const MAX_LABEL: usize = 200;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Agent status.
    pub status: AgentStatus,
    /// Runs since the start, by result: `ok`, `failed`, `canceled`.
    pub runs: BTreeMap<String, u64>,
}

/// Resource use of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMetrics {
    /// Bytes in memory.
    pub(crate) resident: Option<u64>,
    /// Open file descriptors.
    pub fds: Option<u64>,
}

impl ProcessMetrics {
    /// Measures this process now.
    #[must_use]
    pub fn measure() -> Self {
        let statm = std::fs::read_to_string("/proc/self/statm").ok();
        let pages = statm.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        // The directory listing itself holds one descriptor.
        let fds = std::fs::read_dir("/proc/self/fd").ok().map(|dir| dir.count().saturating_sub(1) as u64);
        Self { resident: pages.map(|pages| pages * page), fds }
    }
}

impl Metrics {
    /// Renders the text, including the resource use of the process.
    #[must_use]
    pub fn render(&self, process: ProcessMetrics) -> String {
        let mut out = MetricsText::default();
        self.write_runs(&mut out);
        self.write_revision(&mut out);
        self.write_holds(&mut out);
        self.write_fetch_failures(&mut out);
        let mut info = out.family("zagent_build_info", "gauge", "The version of the agent.");
        info.sample(&[("version", &self.status.version)], 1);
        if let Some(bytes) = process.resident {
            out.single("process_resident_memory_bytes", "gauge", "Bytes of the process in memory.", bytes);
        }
        if let Some(fds) = process.fds {
            out.single("process_open_fds", "gauge", "Open file descriptors of the process.", fds);
        }
        out.text
    }

    fn write_runs(&self, out: &mut MetricsText) {
        let status = &self.status;
        if let Some(time) = status.last_success {
            let help = "Time of the last successful run.";
            out.single("zagent_last_success_timestamp_seconds", "gauge", help, seconds(time));
        }
        if let Some(run) = &status.last_run {
            let help = "Start time of the last run.";
            out.single("zagent_last_run_timestamp_seconds", "gauge", help, seconds(run.at));
            let help = "Duration of the last run.";
            let took = format!("{}.{:03}", run.duration_ms / 1000, run.duration_ms % 1000);
            out.single("zagent_last_run_duration_seconds", "gauge", help, took);
            let mut states = out.family("zagent_states", "gauge", "States of the last run, by result.");
            for word in ["changed", "failed", "skipped", "unchanged"] {
                states.sample(&[("result", word)], run.counts.get(word).copied().unwrap_or(0));
            }
        }
        let help = "States of the last run that the host drifted from: modified outside zagent.";
        out.single("zagent_drift_states", "gauge", help, status.drift);
        let help = "States of the last run that ask for something that audit mode does not apply.";
        out.single("zagent_pending_states", "gauge", help, status.pending);
        let help = "Things that earlier revisions managed and the current states do not.";
        out.single("zagent_orphans", "gauge", help, status.orphans);
        let help = "1 while runs check and report, and change nothing.";
        out.single("zagent_audit_mode", "gauge", help, u8::from(status.audit));
        let mut runs = out.family("zagent_runs_total", "counter", "Runs since the agent started, by result.");
        for (result, count) in &self.runs {
            runs.sample(&[("result", result)], count);
        }
        let help = "Number of revisions rolled back.";
        out.single("zagent_rollbacks_total", "counter", help, status.rollbacks);
    }

    fn write_revision(&self, out: &mut MetricsText) {
        if let Some(current) = &self.status.current {
            let help = "Current revision and its signers.";
            let signed_by = current.signed_by.join(",");
            let labels = [
                ("revision", current.revision.as_str()),
                ("generation", &current.generation),
                ("signed_by", &signed_by),
                ("branch", current.branch.as_deref().unwrap_or_default()),
            ];
            out.family("zagent_revision_info", "gauge", help).sample(&labels, 1);
        }
        if let Some(expires) = self.status.current.as_ref().and_then(|c| c.expires) {
            let help = "Expiry time of the manifest of the current generation.";
            out.single("zagent_expires_timestamp_seconds", "gauge", help, seconds(expires));
        }
        let help =
            "Time since a newer revision was seen that the node does not have; 0 when it has the newest.";
        let behind = self.status.behind_duration().map_or(0, |behind| behind.as_secs());
        out.single("zagent_behind_seconds", "gauge", help, behind);
    }

    fn write_holds(&self, out: &mut MetricsText) {
        let status = &self.status;
        let flag = |claim: bool| u8::from(claim);
        out.single("zagent_paused", "gauge", "1 while the agent is paused.", flag(status.paused.is_some()));
        out.single("zagent_pinned", "gauge", "1 while the node is pinned.", flag(status.pinned.is_some()));
        let help = "Number of quarantined revisions.";
        out.single("zagent_quarantined", "gauge", help, status.quarantined.len());
        let help = "1 when the host should be rebooted.";
        out.single("zagent_reboot_required", "gauge", help, flag(status.reboot.is_some()));
    }

    fn write_fetch_failures(&self, out: &mut MetricsText) {
        let help = "Number of failed requests to a remote, by kind.";
        let mut failures = out.family("zagent_fetch_failures_total", "counter", help);
        for remote in &self.status.remotes {
            for (kind, count) in &remote.failures {
                failures.sample(&[("remote", &remote.url), ("kind", kind)], count);
            }
        }
    }
}

fn seconds(time: Timestamp) -> i64 {
    time.as_second()
}

#[derive(Default)]
struct MetricsText {
    text: String,
}

struct MetricFamily<'s> {
    out: &'s mut MetricsText,
    name: &'static str,
}

impl MetricsText {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> MetricFamily<'_> {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily { out: self, name }
    }

    fn single(&mut self, name: &'static str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help).sample(&[], value);
    }
}

impl MetricFamily<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escape_label(text))).collect();
        let text = &mut self.out.text;
        let _ = match labels.as_slice() {
            [] => writeln!(text, "{} {value}", self.name),
            labels => writeln!(text, "{}{{{}}} {value}", self.name, labels.join(",")),
        };
    }
}

fn escape_label(label: &str) -> String {
    let mut out = String::with_capacity(label.len());
    for c in label.chars().take(MAX_LABEL) {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}
