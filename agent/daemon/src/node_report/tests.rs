//! What a node reports, and how often.

use zagent_config::settings::{ConfigFragment, MergedConfig};

use super::*;
use crate::held_revision::HoldReason;
use crate::operator::pause::Pause;
use crate::operator::pin::NodePin;

fn settings(more: &str) -> Settings {
    let text = format!("source: {{remotes: [{{url: 'https://git.example.org/states.git'}}]}}\n{more}");
    let fragment = ConfigFragment::read("zagent.yaml", &text).unwrap();
    MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap()
}

fn at(clock: &str) -> Timestamp {
    format!("2026-11-16T{clock}Z").parse().unwrap()
}

fn moment<'a>(
    memory: &'a AgentMemory,
    orders: &'a OperatorOrders,
    windows: &'a [MaintenanceWindow],
) -> ReportInputs<'a> {
    let (since, now) = (Some(at("10:00:00")), at("12:00:00"));
    ReportInputs { revision: None, memory, orders, damaged: &[], windows, since, now }
}

#[test]
fn reports_follow_the_board_interval_and_every_read_in_a_rollout() {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let seconds = Duration::from_secs;
    for (board, idle, under_way) in [
        ("board: {kind: git, url: 'https://git.example.org/board.git'}", minutes(15), seconds(10)),
        ("board: {kind: nats, url: 'tls://nats.example.org'}", seconds(30), seconds(10)),
        ("board: {kind: sled}", seconds(30), seconds(10)),
        (
            "board: {kind: nats, url: 'tls://nats.example.org', every: 20s}\nrollout: {poll: 60s}",
            seconds(20),
            seconds(20),
        ),
        (
            "board: {kind: git, url: 'https://git.example.org/board.git'}\nrollout: {poll: 60s}",
            minutes(15),
            seconds(60),
        ),
    ] {
        let settings = settings(board);
        assert_eq!(
            (publish_interval(&settings, false), publish_interval(&settings, true)),
            (idle, under_way),
            "{board}"
        );
    }
}

#[test]
fn a_node_that_needs_a_fixed_revision_takes_part() {
    let base = base_report(&settings(""));
    let mut memory = AgentMemory { failures: 9, ..AgentMemory::default() };
    let head = "a".repeat(40).parse().unwrap();
    memory.hold_revision(head, HoldReason::Quarantined, "it is quarantined: it broke".into(), at("11:00:00"));
    let told = current_report(&base, &moment(&memory, &OperatorOrders::default(), &[]));
    assert_eq!(told.degraded, None);
}

#[test]
fn a_held_node_takes_no_part_and_reports_the_reason() {
    let base = base_report(&settings(""));
    let memory = AgentMemory::default();
    let pin = NodePin { to: "main".parse().unwrap(), since: at("09:00:00"), by: "root".into(), reason: None };
    let pinned = OperatorOrders { pin: Some(pin), ..OperatorOrders::default() };
    let report = current_report(&base, &moment(&memory, &pinned, &[]));
    assert!(report.degraded.is_some_and(|why| why.starts_with("pinned to")));
    let damaged =
        OperatorOrders { damaged: Some("`pin.json` is damaged".into()), ..OperatorOrders::default() };
    assert_eq!(current_report(&base, &moment(&memory, &damaged, &[])).degraded, damaged.damaged);
    // Files of its own: what repairs itself is no reason.
    let own = |degraded| OwnDamage { message: "the key is damaged".into(), hint: String::new(), degraded };
    let orders = OperatorOrders::default();
    for (degraded, expected) in [(true, Some("the key is damaged")), (false, None)] {
        let inputs = ReportInputs { damaged: &[own(degraded)], ..moment(&memory, &orders, &[]) };
        assert_eq!(current_report(&base, &inputs).degraded.as_deref(), expected);
    }

    let pause =
        Pause { since: at("09:00:00"), until: None, reason: Some("disk swap".into()), by: "root".into() };
    let paused = OperatorOrders { pause: Some(pause), ..OperatorOrders::default() };
    let report = current_report(&base, &moment(&memory, &paused, &[]));
    assert_eq!(
        (report.degraded.as_deref(), report.hold.as_deref()),
        (None, Some("paused without an end by root: disk swap"))
    );
    let later = current_report(&base, &ReportInputs { now: at("12:30:00"), ..moment(&memory, &paused, &[]) });
    assert!(is_same_report(&report, &later), "a pause that goes on is no news");

    let windows = settings("windows: [{from: '22:00', to: '23:00', timezone: UTC}]").windows;
    let hold = current_report(&base, &moment(&memory, &OperatorOrders::default(), &windows)).hold.unwrap();
    assert!(hold.starts_with("outside its window until 2026-11-16 "), "{hold}");
    let orders = OperatorOrders::default();
    let open = ReportInputs { now: at("22:30:00"), ..moment(&memory, &orders, &windows) };
    assert_eq!(current_report(&base, &open).hold, None);
}

#[test]
fn the_daemon_reports_itself_and_its_age_alone_is_no_change() {
    let base = base_report(&settings(""));
    let (memory, orders) = (AgentMemory::default(), OperatorOrders::default());
    let one = current_report(&base, &moment(&memory, &orders, &[]));
    assert_eq!(one.child, Some(AgentProcess { pid: std::process::id(), uptime: 7200 }));
    let later = current_report(&base, &ReportInputs { now: at("13:00:00"), ..moment(&memory, &orders, &[]) });
    assert_ne!(one.child, later.child);
    assert!(is_same_report(&one, &later));
    let alone = current_report(&base, &ReportInputs { since: None, ..moment(&memory, &orders, &[]) });
    assert!(alone.child.is_none() && !is_same_report(&one, &alone));
}

#[test]
fn grains_are_the_fixed_and_configured_ones_and_none_is_long() {
    let told = reported_facts(&settings("rollout: {facts: [num_cpus, no_such_fact]}"));
    assert!(told.contains_key("num_cpus") && !told.contains_key("no_such_fact"), "{told:?}");
    assert!(!reported_facts(&settings("")).contains_key("num_cpus"));
    assert!(told.values().all(|fact| fact.to_string().len() <= MAX_FACT_BYTES));
    let many: Vec<String> = (0..255).map(|n| format!("10.0.0.{n}")).collect();
    let Json::Array(some) = truncate_list(Json::from(many)) else { panic!("a list stays one") };
    assert!(some.len() > 20 && Json::from(some).to_string().len() <= MAX_FACT_BYTES);
    assert_eq!(truncate_list(Json::from("x".repeat(900))).as_str().map(str::len), Some(900));
}
