//! Which nodes take part, in which order, and what is refused before anything starts.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::driver_logic::tests::{at, id, says};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn node(name: &str, os: &str, role: &str) -> NodeReport {
    let mut report = says(name, NodeActivity::Idle, None, at(0));
    report.taken = None;
    report.facts = [("os".to_owned(), json!(os)), ("role".to_owned(), json!(role))].into();
    report.revision = Some("f".repeat(40));
    report
}

fn fleet(nodes: impl IntoIterator<Item = NodeReport>) -> BTreeMap<NodeId, NodeReport> {
    nodes.into_iter().map(|report| (report.id.clone(), report)).collect()
}

fn six() -> BTreeMap<NodeId, NodeReport> {
    fleet([
        node("db-1", "Debian", "db"),
        node("db-2", "Debian", "db"),
        node("web-1", "Debian", "web"),
        node("web-2", "Ubuntu", "web"),
        node("web-3", "Ubuntu", "web"),
        node("web-4", "Ubuntu", "web"),
    ])
}

fn artifact(arch: &str) -> Artifact {
    Artifact {
        os: "linux".to_owned(),
        arch: arch.to_owned(),
        size: 1,
        blake3: "0".repeat(64),
        url: Some("https://releases.example.org/zagent".to_owned()),
        reference: None,
        signature: None,
        min_protocol: 0,
    }
}

fn draft() -> RolloutDraft {
    RolloutDraft {
        artifacts: vec![artifact("x86_64")],
        ..RolloutDraft::new(id("r1"), Component::Agent, "2.0.0")
    }
}

fn names(plan: &RolloutPlan) -> Vec<String> {
    let join = |batch: &Vec<NodeId>| batch.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" ");
    plan.record.batches.iter().map(join).collect()
}

fn refused(draft: &RolloutDraft, reports: &BTreeMap<NodeId, NodeReport>) -> String {
    let real = plan_rollout(draft, reports, at(0)).unwrap_err().to_string();
    let dry = plan_rollout(&RolloutDraft { dry_run: true, ..draft.clone() }, reports, at(0))
        .unwrap_err()
        .to_string();
    assert_eq!(real, dry, "a dry run is refused in the same way");
    real
}

#[test]
fn canaries_of_every_stratum_go_first() {
    let draft = RolloutDraft { batch_size: BatchSize::Nodes(2), ..draft() };
    let plan = plan_rollout(&draft, &six(), at(0)).unwrap();
    assert_eq!(names(&plan), ["db-1 web-1", "web-2", "db-2 web-3", "web-4"]);
    let strata: Vec<_> = plan.strata.iter().map(|s| (s.name.as_str(), s.nodes, s.is_covered())).collect();
    let wanted =
        [("Debian/x86_64/db", 2, true), ("Debian/x86_64/web", 1, true), ("Ubuntu/x86_64/web", 3, true)];
    assert_eq!(strata, wanted);
    assert_eq!(plan.earliest, [at(0), at(90), at(180), at(270)]);
    assert_eq!(
        (plan.record.state, plan.record.serial, plan.record.nodes.len()),
        (RolloutStatus::Created, 1, 6)
    );
}

#[test]
fn without_canaries_no_stratum_is_covered() {
    let canary = Canary { count: 0, by: vec!["role".to_owned(), "rack".to_owned()] };
    let plan =
        plan_rollout(&RolloutDraft { canary, batch_size: BatchSize::Percent(50), ..draft() }, &six(), at(0))
            .unwrap();
    assert_eq!(names(&plan), ["db-1 db-2 web-1", "web-2 web-3 web-4"]);
    let strata: Vec<_> = plan.strata.iter().map(|s| (s.name.as_str(), s.is_covered())).collect();
    assert_eq!(strata, [("db/-", false), ("web/-", false)]);
}

#[test]
fn an_emergency_is_one_canary_and_then_all_nodes() {
    let plan =
        plan_rollout(&RolloutDraft { profile: RolloutProfile::Emergency, ..draft() }, &six(), at(0)).unwrap();
    assert_eq!(names(&plan), ["web-2", "db-1 db-2 web-1 web-3 web-4"]);
    assert_eq!((plan.record.soak_time, plan.record.batch_pause), (Span::seconds(30), Span::seconds(0)));
    assert_eq!(plan.earliest, [at(0), at(30)]);
    let covered = plan.strata.iter().filter(|stratum| stratum.is_covered()).count();
    assert_eq!(covered, 1);
}

#[test]
fn targets_are_compound_and_match_facts() {
    for (target, wanted) in [
        ("web-*", 4),
        ("G@role:db", 2),
        ("G@os:Ubuntu and not L@web-4", 2),
        ("E@web-[12] or db-2", 3),
        ("G@arch:x86_64", 6),
        ("G@id:db-1", 1),
    ] {
        let plan =
            plan_rollout(&RolloutDraft { target: target.to_owned(), ..draft() }, &six(), at(0)).unwrap();
        assert_eq!(plan.record.nodes.len(), wanted, "{target}");
    }
}

#[test]
fn a_target_without_a_match_names_the_known_nodes() {
    let nobody = RolloutDraft { target: "mail-*".to_owned(), ..draft() };
    let words = refused(&nobody, &six());
    let wanted = "the target `mail-*` matches none of the 6 nodes that report for agent: db-1, db-2, web-1, web-2, web-3, web-4";
    assert_eq!(words, wanted);
    let many = fleet((0..14).map(|n| node(&format!("n{n:02}"), "Debian", "web")));
    assert!(refused(&nobody, &many).ends_with("n09 and 4 more"), "{}", refused(&nobody, &many));
    assert!(refused(&draft(), &BTreeMap::new()).starts_with("no node reports for agent"));
    let states = fleet(six().into_values().map(|node| NodeReport { component: Component::States, ..node }));
    assert!(
        refused(&draft(), &states).starts_with("no node reports for agent"),
        "reports of another component"
    );
    for bad in ["G@role", "web and", "N@nobody"] {
        let words = refused(&RolloutDraft { target: bad.to_owned(), ..draft() }, &six());
        assert!(words.starts_with(&format!("the target `{bad}` cannot be used: ")), "{words}");
    }
}

#[test]
fn degraded_nodes_are_excluded_and_a_degraded_fleet_is_refused() {
    let mut nodes = six();
    nodes.get_mut(&id("db-1")).unwrap().degraded = Some("it crashes".to_owned());
    let plan = plan_rollout(&draft(), &nodes, at(0)).unwrap();
    assert_eq!(plan.excluded, [(id("db-1"), "degraded: it crashes".to_owned())]);
    assert!(!plan.record.nodes.contains_key(&id("db-1")));
    nodes.values_mut().for_each(|node| node.degraded = Some("no".to_owned()));
    assert_eq!(refused(&draft(), &nodes), "no eligible nodes (6 degraded excluded)");
}

#[test]
fn held_nodes_take_part_and_are_named() {
    let mut nodes = six();
    nodes.get_mut(&id("db-1")).unwrap().hold = Some("outside of its window until 22:00".to_owned());
    let plan = plan_rollout(&draft(), &nodes, at(0)).unwrap();
    assert_eq!(plan.held, [(id("db-1"), "outside of its window until 22:00".to_owned())]);
    assert!(plan.record.nodes.contains_key(&id("db-1")) && plan.excluded.is_empty());
}

#[test]
fn one_node_below_the_protocol_refuses_the_rollout() {
    let mut nodes = six();
    nodes.get_mut(&id("db-1")).unwrap().protocol = 0;
    nodes.get_mut(&id("web-1")).unwrap().protocol = 3;
    nodes.get_mut(&id("web-2")).unwrap().degraded = Some("not asked".to_owned());
    assert!(
        plan_rollout(&draft(), &nodes, at(0)).is_ok(),
        "a node that needs nothing does not refuse the rollout"
    );
    let words = refused(&RolloutDraft { min_protocol: 2, ..draft() }, &nodes);
    assert!(
        words.contains(": db-1 (protocol 0 < 2), db-2 (protocol 1 < 2), web-3 (protocol 1 < 2), web-4"),
        "{words}"
    );
    assert!(!words.contains("web-1") && !words.contains("web-2"), "{words}");
}

#[test]
fn a_node_on_the_target_version_does_not_take_part() {
    let mut nodes = six();
    nodes.get_mut(&id("db-1")).unwrap().version = "2.0.0".to_owned();
    let plan_of = |nodes: &_| plan_rollout(&draft(), nodes, at(0));
    assert_eq!(plan_of(&nodes).unwrap().excluded, [(id("db-1"), "already there".to_owned())]);
    nodes.values_mut().for_each(|node| node.version = "2.0.0".to_owned());
    assert_eq!(refused(&draft(), &nodes), "nothing to do: all 6 nodes already run 2.0.0");
}

#[test]
fn a_downgrade_needs_anyway() {
    let mut nodes = six();
    nodes.get_mut(&id("web-1")).unwrap().version = "2.0.1-rc.1".to_owned();
    nodes.get_mut(&id("web-2")).unwrap().version = "2.0.0-rc.1".to_owned();
    let words = refused(&draft(), &nodes);
    assert_eq!(
        words,
        "2.0.0 is older than what these nodes run: web-1 (2.0.1-rc.1); pass `--anyway` to downgrade"
    );
    let plan = plan_rollout(&RolloutDraft { anyway: true, ..draft() }, &nodes, at(0)).unwrap();
    assert!(plan.record.anyway && plan.record.nodes.len() == 6);
}

#[test]
fn every_node_needs_a_binary() {
    let mut nodes = six();
    nodes.get_mut(&id("web-1")).unwrap().arch = "aarch64".to_owned();
    nodes.get_mut(&id("web-2")).unwrap().arch = "aarch64".to_owned();
    let words =
        "there is no artifact of 2.0.0 for linux/aarch64 (web-1, web-2); there is one for linux/x86_64";
    assert_eq!(refused(&draft(), &nodes), words);
    let both = RolloutDraft { artifacts: vec![artifact("x86_64"), artifact("aarch64")], ..draft() };
    assert!(plan_rollout(&both, &nodes, at(0)).is_ok());
}

#[test]
fn artifacts_that_no_node_could_use_are_refused() {
    let of = |artifact| RolloutDraft { artifacts: vec![artifact], ..draft() };
    let words = "the artifact of linux/x86_64 cannot be used: ";
    let short = Artifact { blake3: "zz".to_owned(), ..artifact("x86_64") };
    assert_eq!(refused(&of(short), &six()), format!("{words}its `blake3` is not 64 hexadecimal digits"));
    let nowhere = Artifact { url: None, ..artifact("x86_64") };
    assert_eq!(refused(&of(nowhere), &six()), format!("{words}it has neither `url` nor `ref`"));
}

#[test]
fn states_go_to_a_commit_and_binaries_to_a_version() {
    let nodes = fleet(six().into_values().map(|node| NodeReport { component: Component::States, ..node }));
    let states = RolloutDraft::new(id("r1"), Component::States, COMMIT);
    assert_eq!(plan_rollout(&states, &nodes, at(0)).unwrap().record.nodes.len(), 6);
    assert!(
        refused(&RolloutDraft { to: "main".to_owned(), ..states }, &nodes)
            .starts_with("`main` is not a full commit id")
    );
    assert!(
        refused(&RolloutDraft { to: "../2".to_owned(), ..draft() }, &six())
            .starts_with("`../2` is not a version")
    );
}

#[test]
fn the_clock_needs_no_reports() {
    let clock = RolloutDraft { mode: RolloutMode::Clock, ..draft() };
    let planned = plan_rollout(&clock, &BTreeMap::new(), at(7)).unwrap();
    assert_eq!((planned.record.state, planned.record.started), (RolloutStatus::Rolling, Some(at(7))));
    assert_eq!((planned.record.batches.len(), planned.earliest.len()), (0, 4), "10, 30, 70 and 100 percent");
    let known = plan_rollout(&clock, &six(), at(7)).unwrap();
    assert_eq!(known.record, planned.record, "known nodes make no difference");
    let old = fleet(six().into_values().map(|node| NodeReport { protocol: 0, ..node }));
    assert!(plan_rollout(&RolloutDraft { min_protocol: 1, ..clock.clone() }, &old, at(7)).is_err());
    assert!(plan_rollout(&RolloutDraft { artifacts: vec![], ..clock }, &BTreeMap::new(), at(7)).is_err());
}

fn any_fleet() -> impl Strategy<Value = BTreeMap<NodeId, NodeReport>> {
    let one = ("[a-c]{1,3}", "[xy]", "[pq]", any::<bool>());
    prop::collection::vec(one, 1..30).prop_map(|all| {
        fleet(all.into_iter().map(|(name, os, role, well)| NodeReport {
            degraded: (!well).then(|| "no".to_owned()),
            ..node(&name, &os, &role)
        }))
    })
}

proptest! {
    #[test]
    fn every_node_is_in_one_batch_or_excluded(
        nodes in any_fleet(),
        size in prop_oneof![(1usize..20).prop_map(BatchSize::Nodes), (1u8..=100).prop_map(BatchSize::Percent)],
        count in 0usize..4,
        emergency in any::<bool>(),
    ) {
        let profile = if emergency { RolloutProfile::Emergency } else { RolloutProfile::Normal };
        let canary = Canary { count, ..Canary::default() };
        let Ok(plan) = plan_rollout(&RolloutDraft { batch_size: size, canary, profile, ..draft() }, &nodes, at(0)) else {
            prop_assert!(nodes.values().all(|node| node.degraded.is_some()));
            return Ok(());
        };
        let mut all: Vec<&NodeId> = plan.record.batches.iter().flatten().collect();
        prop_assert_eq!(all.len(), plan.record.nodes.len());
        all.extend(plan.excluded.iter().map(|(id, _)| id));
        all.sort();
        prop_assert_eq!(all, nodes.keys().collect::<Vec<_>>());
        prop_assert!(plan.record.batches.iter().all(|batch| !batch.is_empty()));
        prop_assert!(plan.record.batches.len() >= 2 || plan.record.nodes.len() == 1);
        prop_assert_eq!(plan.strata.iter().map(|s| s.nodes).sum::<usize>(), plan.record.nodes.len());
        prop_assert_eq!(plan.earliest.len(), plan.record.batches.len());
        let first: usize = plan.strata.iter().map(|s| s.canaries.len()).sum();
        let canaries: Vec<&NodeId> = plan.record.batches.iter().flatten().take(first).collect();
        prop_assert!(plan.strata.iter().flat_map(|s| &s.canaries).all(|id| canaries.contains(&id)));
        prop_assert!(!emergency || first == 1 && plan.record.batches.len() <= 2);
    }
}

#[test]
fn nodes_that_stopped_reporting_are_left_out_by_name() {
    let mut reports = six();
    let mut change =
        |name: &str, act: fn(&mut NodeReport)| act(reports.get_mut(&name.parse().unwrap()).unwrap());
    change("web-3", |report| report.updated_at = at(-601));
    change("web-4", |report| report.stopped = Some(at(-30)));
    let strict = RolloutDraft { silent_after: Some(Span::seconds(600)), ..draft() };
    let plan = plan_rollout(&strict, &reports, at(0)).unwrap();
    let left_out: Vec<String> = plan.excluded.iter().map(|(node, why)| format!("{node} {why}")).collect();
    assert_eq!(
        left_out,
        [
            format!("web-3 has not reported since {:.0}", at(-601)),
            format!("web-4 was stopped at {:.0}", at(-30)),
        ]
    );
    assert!(names(&plan).iter().all(|batch| !batch.contains("web-3") && !batch.contains("web-4")));
    let only = RolloutDraft { target: "web-3".to_owned(), ..strict };
    let words = refused(&only, &reports);
    assert!(words.contains("no eligible nodes (0 degraded excluded, 1 not reporting: web-3"), "{words}");
}

#[test]
fn a_rejected_version_needs_to_be_ordered_all_the_same() {
    let mut reports = six();
    let rejected = [("2.0.0".to_owned(), "it does not stay up".to_owned())];
    reports.get_mut(&"web-1".parse().unwrap()).unwrap().rejected = rejected.into();
    let words = refused(&draft(), &reports);
    assert_eq!(words, "2.0.0 was rejected or quarantined on these nodes: web-1 (it does not stay up)");
    assert!(plan_rollout(&RolloutDraft { anyway: true, ..draft() }, &reports, at(0)).is_ok());
    let others = RolloutDraft { target: "db-*".to_owned(), ..draft() };
    assert!(plan_rollout(&others, &reports, at(0)).is_ok());
}
