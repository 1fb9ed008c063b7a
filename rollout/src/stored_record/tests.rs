use proptest::prelude::*;

use super::*;
use crate::driver_logic::tests::{at, id, record};

fn bound() -> RolloutRecord {
    let fleet = Some(id("prod"));
    let expires = Some(at(9000));
    RolloutRecord { schema: RECORD_SCHEMA, fleet, expires, ..record(&[&["a"], &["b", "c"], &["d"]]) }
}

fn read(text: &str) -> Result<RolloutRecord, String> {
    parse_record(&id("r1"), text.as_bytes())
}

#[test]
fn a_record_is_stored_in_parts_and_its_order_never_changes() {
    let mut record = bound();
    record.sealed = Some(Box::new(seal_order(&record).unwrap()));
    let first = record_text(&record).unwrap();
    assert_eq!(read(&first).unwrap(), record);
    let order = record.sealed.clone();
    record.serial = 7;
    record.state = RolloutStatus::Rolling;
    record.postpone(1, vec![id("c")]);
    record.driver = Some(DriverLease { id: "me".into(), heartbeat: at(5) });
    record.nodes.entry(id("a")).or_default().waits = Some("a window".into());
    let text = record_text(&record).unwrap();
    let again = read(&text).unwrap();
    assert_eq!(again, record);
    assert_eq!(again.sealed, order, "progress does not touch the order");
    let batches: Vec<Vec<NodeId>> = vec![vec![id("a")], vec![id("b")], vec![id("c")], vec![id("d")]];
    assert_eq!(again.batches, batches);
    let parts: BTreeMap<String, serde_yaml::Value> = serde_yaml::from_str(&text).unwrap();
    let names: Vec<&str> = parts.keys().map(String::as_str).collect();
    assert_eq!(names, ["batches", "driver", "order", "progress", "results", "schema"]);
    // What the order says cannot be changed beside it.
    record.to = "9.9.9".into();
    record.anyway = true;
    record.fleet = None;
    let kept = read(&record_text(&record).unwrap()).unwrap();
    assert_eq!((kept.to.as_str(), kept.anyway, kept.fleet), ("2.0.0", false, Some(id("prod"))));
}

#[test]
fn node_lists_that_are_not_those_of_the_order_are_refused() {
    let text = record_text(&bound()).unwrap();
    let parts: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let change = |part: &str, value: &str| {
        let mut parts = parts.clone();
        parts[part] = serde_yaml::from_str(value).unwrap();
        read(&serde_yaml::to_string(&parts).unwrap())
    };
    let why = change("batches", "[[a, b, c, d, e]]").unwrap_err();
    assert!(why.contains("node lists"), "{why}");
    let mut progress = parts["progress"].clone();
    progress["postponed"] = serde_yaml::from_str("[{batch: 0, nodes: [e]}]").unwrap();
    let why = change("progress", &serde_yaml::to_string(&progress).unwrap()).unwrap_err();
    assert!(why.contains("not in batch 1"), "{why}");
    assert!(change("order", "'id: r1'").unwrap_err().contains("its order"));
    assert!(change("schema", "3").unwrap_err().contains("update this agent"));
    assert!(parse_record(&id("r2"), text.as_bytes()).unwrap_err().contains("record of `r1`"));
    let more = change("later", "{part: 1}").unwrap();
    assert!(record_text(&more).unwrap().contains("later:"), "a newer version's part is kept");
}

#[test]
fn a_record_of_the_format_before_is_read_and_stays_in_it() {
    let old = RolloutRecord { schema: UNBOUND_SCHEMA, ..record(&[&["a"]]) };
    let text = record_text(&old).unwrap();
    assert!(text.contains("\nbatches:\n") && !text.contains("order:"));
    assert_eq!(read(&text).unwrap(), old);
}

proptest! {
    /// Nodes never appear twice, never disappear, and never come earlier than the order says.
    #[test]
    fn what_is_postponed_only_moves_nodes_back(
        steps in proptest::collection::vec((0usize..6, proptest::collection::vec(0usize..4, 0..3)), 0..8),
    ) {
        let mut record = bound();
        record.sealed = Some(Box::new(seal_order(&record).unwrap()));
        let planned = record.batches.clone();
        for (batch, nodes) in steps {
            record.postpone(batch, nodes.into_iter().map(|n| id(["a", "b", "c", "d"][n])).collect());
        }
        let mut all: Vec<NodeId> = record.batches.iter().flatten().cloned().collect();
        all.sort();
        prop_assert_eq!(all, vec![id("a"), id("b"), id("c"), id("d")]);
        for node in planned.iter().flatten() {
            let before = planned.iter().position(|batch| batch.contains(node));
            prop_assert!(record.batch_of(node) >= before);
        }
        prop_assert_eq!(read(&record_text(&record).unwrap()).unwrap(), record);
    }
}
