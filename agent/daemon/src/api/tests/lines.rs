//! Metrics as text: the full output, and that a parser of the format accepts every line.

use crate::api::{Metrics, ProcessMetrics};
use crate::status::{AgentStatus, PauseStatus, QuarantineStatus, RebootStatus, samples};

fn busy() -> Metrics {
    let mut pieces = samples::fine();
    pieces.memory.newest = Some(samples::newest(samples::OFFERED, samples::at("02:08:00")));
    pieces.memory.rollbacks = 1;
    pieces.memory.drift = 3;
    let remote = &mut pieces.memory.remotes[0];
    remote.url = "ssh://git@\"quoted\\host\"/a\nb".into();
    remote.failures = [("timeout".to_owned(), 2), ("unreachable".to_owned(), 14)].into();
    let since = samples::at("11:00:00");
    pieces.paused = Some(PauseStatus { reason: None, by: None, since, until: None });
    pieces.quarantined = vec![QuarantineStatus {
        revision: samples::OFFERED.into(),
        since,
        message: "health check web failed".into(),
    }];
    pieces.reboot = Some(RebootStatus { reason: "kernel".into(), since: None, at: None });
    Metrics {
        status: AgentStatus::from_inputs(pieces),
        runs: [("failed".to_owned(), 1), ("ok".to_owned(), 41)].into(),
    }
}

const PROCESS: ProcessMetrics = ProcessMetrics { resident: Some(9 << 20), fds: Some(21) };

#[test]
fn all_of_it() {
    insta::assert_snapshot!("metrics", busy().render(PROCESS));
}

#[test]
fn a_node_without_runs_has_no_run_times() {
    let metrics = Metrics { status: AgentStatus::from_inputs(samples::fresh()), runs: [].into() };
    let text = metrics.render(ProcessMetrics::default());
    assert!(!text.contains("timestamp") && text.contains("zagent_behind_seconds 0\n"), "{text}");
    check(&text).unwrap();
}

#[test]
fn every_line_is_in_the_format() {
    check(&busy().render(PROCESS)).unwrap();
    for wrong in
        ["zagent_x 1\n", "# TYPE zagent_x gauge\nzagent_x\n", "# TYPE zagent_x gauge\nzagent_x{a=\"\n\"} 1\n"]
    {
        check(wrong).unwrap_err();
    }
}

#[test]
fn this_process_uses_something() {
    let now = ProcessMetrics::measure();
    assert!(now.resident.unwrap() > 1 << 20 && now.fds.unwrap() > 2, "{now:?}");
}

/// Parses the text as a scraper does: contiguous families, valid names and labels, numeric values.
fn check(text: &str) -> Result<(), String> {
    let mut families: Vec<&str> = Vec::new();
    if !text.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    for line in text.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, "gauge" | "counter")) = rest.split_once(' ') else { return wrong("no type") };
            if families.contains(&name) || name.ends_with("_total") != rest.ends_with(" counter") {
                return wrong("a family twice, or a counter without its ending");
            }
            families.push(name);
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').ok_or_else(|| format!("no value: {line}"))?;
        if value.parse::<f64>().is_err() {
            return wrong("no number");
        }
        let (name, labels) = series.split_once('{').map_or((series, None), |(name, rest)| (name, Some(rest)));
        if families.last() != Some(&name) || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return wrong("outside its family, or a bad name");
        }
        if let Some(labels) = labels {
            let Some(labels) = labels.strip_suffix('}') else { return wrong("labels without an end") };
            if !are_labels(labels) {
                return wrong("bad labels");
            }
        }
    }
    Ok(())
}

fn are_labels(mut labels: &str) -> bool {
    loop {
        let Some((name, rest)) = labels.split_once("=\"") else { return false };
        let mut end = None;
        let mut chars = rest.char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    end = Some(i);
                    break;
                }
                '\\' if !matches!(chars.next(), Some((_, '\\' | '"' | 'n'))) => return false,
                _ => {}
            }
        }
        let Some(end) = end else { return false };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return false;
        }
        match &rest[end + 1..] {
            "" => return true,
            more => match more.strip_prefix(',') {
                Some(more) => labels = more,
                None => return false,
            },
        }
    }
}
