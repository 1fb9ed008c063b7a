//! Hosts that may change only at certain hours, and what does not wait for these.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_rollout::record::BatchPhase;

use super::nodes::{BUILT_IN, Fleet, GOOD, eventually, order};

pub(crate) fn a_closed_window_holds_a_release_up_and_an_emergency_does_not_wait() {
    // An hour that is about half a day away.
    let hour = (Timestamp::now().to_zoned(TimeZone::UTC).hour() + 12) % 24;
    let windows = format!("windows: [{{from: '{hour:02}:00', to: '{hour:02}:30', timezone: UTC}}]\n");
    let fleet = Fleet::new(2, "");
    // They have their states by now; the configuration is read for every switch.
    fleet.nodes.iter().for_each(|node| node.add_to_config(&windows));
    let artifacts = fleet.release("2.0.0", GOOD, |_| {});
    let words = ["--soak", "1s", "--pause", "0s"];
    let mut driver = fleet.background(&order("patient", "2.0.0", &artifacts, &words));
    let record = fleet.until("patient", "it should switch", |record| record.phase == BatchPhase::Apply);
    let canary = fleet.nodes.iter().find(|node| node.id == record.batches[0][0].as_str()).unwrap();
    eventually(
        "the switch waits",
        || fleet.words(),
        || canary.status()?.notes.iter().any(|note| note.starts_with("the switch waits: ")).then_some(()),
    );
    assert_eq!(canary.on_disk(), "staged");
    assert!(fleet.nodes.iter().all(|node| node.status().unwrap().version == BUILT_IN));
    fleet.exits(0, &["rollout", "abort", "patient", "--reason", "it cannot wait"]);
    assert_eq!(driver.ended().code(), Some(1), "{}", driver.said());
    fleet.all_run(BUILT_IN);

    let mut driver =
        fleet.background(&order("urgent", "2.0.0", &artifacts, &[&words[..], &["--emergency"]].concat()));
    let record = fleet.until("urgent", "the canary has it", |record| record.phase == BatchPhase::Soak);
    let canary = fleet.nodes.iter().find(|node| node.id == record.batches[0][0].as_str()).unwrap();
    assert_eq!(canary.status().unwrap().version, "2.0.0");
    // The half minute of soak for each of the two is not waited for.
    fleet.exits(0, &["rollout", "abort", "urgent", "--reason", "it was a false alarm"]);
    assert_eq!(driver.ended().code(), Some(1), "{}", driver.said());
    fleet.all_run(BUILT_IN);
}
