//! Sample reports in every format.

use jiff::tz::{Offset, TimeZone};

use super::*;
use zagent_run::RunMode;
use zagent_run::samples;

const FORMATS: [(&str, ReportFormat); 5] = [
    ("text", ReportFormat::Text),
    ("json", ReportFormat::Json),
    ("yaml", ReportFormat::Yaml),
    ("ndjson", ReportFormat::Ndjson),
    ("highstate", ReportFormat::Highstate),
];

fn samples() -> [(&'static str, RunReport); 6] {
    [
        ("failed", samples::failed()),
        ("quiet", samples::quiet()),
        ("dry_run", samples::dry_run()),
        ("reverted", samples::reverted()),
        ("stopped", samples::stopped()),
        ("long", samples::long()),
    ]
}

fn print(report: &RunReport, format: ReportFormat, all: bool) -> String {
    ReportView::new(report, TimeZone::fixed(Offset::constant(1))).render(format, all, Paint::default())
}

#[test]
fn every_report_as_text() {
    for (name, report) in samples() {
        insta::assert_snapshot!(format!("text_{name}"), print(&report, ReportFormat::Text, false));
    }
    insta::assert_snapshot!("text_failed_all", print(&samples::failed(), ReportFormat::Text, true));
}

#[test]
fn a_failure_in_every_format() {
    for (name, format) in &FORMATS[1..] {
        insta::assert_snapshot!(format!("{name}_failed"), print(&samples::failed(), *format, false));
    }
    insta::assert_snapshot!("highstate_dry_run", print(&samples::dry_run(), ReportFormat::Highstate, false));
}

/// A real run of Salt 3008.3: what its JSON outputter printed, and what its highstate outputter did.
#[test]
fn the_layout_is_that_of_salt() {
    let result: serde_json::Value = serde_json::from_str(include_str!("salt/result.json")).unwrap();
    let state = |(tag, ret): (&String, &serde_json::Value)| {
        let text = |key: &str| ret[key].as_str().unwrap().to_owned();
        let parts: Vec<&str> = tag.split("_|-").collect();
        let day = format!("2026-11-16T{}Z", text("start_time"));
        let micros = (ret["duration"].as_f64().unwrap() * 1000.0).round();
        let outcome = samples::state(&format!("{}.{}", parts[0], parts[3]), parts[1], parts[2]);
        let mut outcome = samples::changed(outcome, &text("comment"), &ret["changes"].to_string());
        outcome.result = ret["result"].as_bool();
        outcome.start = day.parse().unwrap();
        outcome.duration = std::time::Duration::from_secs_f64(micros / 1e6);
        outcome
    };
    let states = result["local"].as_object().unwrap().iter().map(state).collect();
    let report = samples::report(RunMode::Apply, states);
    let text =
        ReportView::new(&report, TimeZone::UTC).render(ReportFormat::Highstate, false, Paint::default());
    for (ours, salts) in text.lines().zip(include_str!("salt/highstate.txt").lines()) {
        assert_eq!(ours, salts);
    }
    assert_eq!(text, include_str!("salt/highstate.txt"));
}

#[test]
fn the_summary_does_not_depend_on_verbosity() {
    for (name, report) in samples() {
        let last = |all| print(&report, ReportFormat::Text, all).lines().last().unwrap().to_owned();
        assert_eq!(last(false), last(true), "{name}");
    }
}

#[test]
fn json_yaml_and_lines_have_the_same_content() {
    for (name, report) in samples() {
        let json: serde_json::Value =
            serde_json::from_str(&print(&report, ReportFormat::Json, false)).unwrap();
        let yaml = print(&report, ReportFormat::Yaml, false);
        let yaml = zagent_compiler::yaml::load(&yaml, &zagent_compiler::TreeLimits::default()).unwrap();
        assert_eq!(serde_json::to_value(yaml).unwrap(), json, "{name}");
        let lines = print(&report, ReportFormat::Ndjson, false);
        let mut states = serde_json::Map::new();
        let mut head = serde_json::Map::new();
        for line in lines.lines() {
            let mut read: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            match read.remove("type").unwrap().as_str().unwrap() {
                "state" => {
                    let tag = read.remove("tag").unwrap();
                    states.insert(tag.as_str().unwrap().to_owned(), read.into());
                }
                _ => head = read,
            }
        }
        head.insert("states".into(), states.into());
        assert_eq!(serde_json::Value::from(head), json, "{name}");
    }
}

#[test]
fn keys_come_in_the_documented_order() {
    let json: serde_json::Value =
        serde_json::from_str(&print(&samples::dry_run(), ReportFormat::Json, false)).unwrap();
    let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&json),
        "run node revision test mode schedule trigger success canceled duration_ms changed failed skipped unchanged \
         unknown total states"
    );
    let state = json["states"].as_object().unwrap().values().next().unwrap();
    assert_eq!(
        keys(state),
        "__id__ __sls__ __run_num__ name result changes comment diff start_time duration level skipped skip_reason \
         error details"
    );
    assert_eq!(state["start_time"], "09:45:12.000000");
    assert_eq!((&json["changed"], &json["unknown"], &json["total"]), (&1.into(), &1.into(), &4.into()));
    assert_eq!(json["states"]["module_|-odd_|-odd_|-run"]["details"]["unknown"], true);
}

#[test]
fn control_characters_stay_out_of_every_format() {
    let mut report = samples::failed();
    for outcome in &mut report.states {
        for text in
            [&mut outcome.tag, &mut outcome.id, &mut outcome.name, &mut outcome.comment, &mut outcome.sls]
        {
            text.push_str(" \u{1b}[31m x");
        }
        outcome.changes.insert("a \u{1b} key", Value::from(vec!["deep \u{1b}".into()]));
    }
    for (name, format) in FORMATS {
        for all in [false, true] {
            let text = print(&report, format, all);
            assert!(!text.contains('\u{1b}'), "{name}");
        }
    }
}

#[test]
fn a_dry_run_never_reads_as_done() {
    let text = print(&samples::dry_run(), ReportFormat::Text, true);
    assert!(text.starts_with("dry run of 4 states on web-01  (nothing is changed)"), "{text}");
    assert!(text.contains("1 would change, 1 would fail") && !text.contains("  changed"), "{text}");
}

#[test]
fn a_report_from_the_history_counts_what_it_does_not_list() {
    let report = samples::failed();
    let mut view = ReportView::new(&report, TimeZone::UTC);
    view.tally.unchanged = 1000;
    let salt = view.render(ReportFormat::Highstate, false, Paint::default());
    assert!(salt.contains("Succeeded: 1003 (changed=3)\nFailed:       3\n"), "{salt}");
    assert!(salt.contains("Total states run:     1006\n"), "{salt}");
    let text = view.render(ReportFormat::Text, true, Paint::default());
    assert!(text.contains("1000 unchanged, 1 not needed"), "{text}");
}

#[test]
fn long_chains_of_skipped_states_are_attributed_to_the_first() {
    let mut states = vec![samples::bad(samples::state("test.nop", "s0", "s0"), "no")];
    for n in 1..3000 {
        let comment = format!("One or more requisite failed: web.s{}", n - 1);
        let state = samples::state("test.nop", &format!("s{n}"), &format!("s{n}"));
        states.push(samples::skipped(state, zagent_run::SkipReason::RequireFailed, &comment));
    }
    let text = print(&samples::report(RunMode::Apply, states), ReportFormat::Text, false);
    assert!(text.contains("2999 states  require_failed  `s0` failed"), "{text}");
    assert!(text.contains("s1, s2, s3, s4, s5, s6, s7, s8 and 2991 more"), "{text}");
}

#[test]
fn colour_only_adds_codes() {
    let report = samples::failed();
    let view = ReportView::new(&report, TimeZone::UTC);
    for format in [ReportFormat::Text, ReportFormat::Highstate] {
        let painted = view.render(format, false, Paint::new(true));
        let mut plain = String::new();
        let mut rest = painted.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        assert_eq!(plain, view.render(format, false, Paint::default()));
    }
}

#[test]
fn omitted_lines_are_counted_including_those_cut_from_a_diff() {
    let mut state =
        samples::changed(samples::state("file.managed", "a", "a"), "", r#"{"/d": {"directory": "new"}}"#);
    state.diff = (0..30).map(|n| format!("+line {n}\n")).chain(["… 970 more lines\n".to_owned()]).collect();
    let report = samples::report(RunMode::Apply, vec![state]);
    let text = print(&report, ReportFormat::Text, false);
    assert!(text.contains("… 980 lines more (-v shows more)"), "{text}");
    assert!(text.contains("/d: directory: new\n"), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "no blanks at the end: {text}");
}
