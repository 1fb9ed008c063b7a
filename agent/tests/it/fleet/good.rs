//! Releases that work.

use zagent_rollout::record::{BatchPhase, NodeStatus, RolloutStatus};
use zagent_rollout::report::NodeActivity;

use super::nodes::{BUILT_IN, Fleet, GOOD, ZAGENT, eventually, git, order, that_are};

/// Options that make a rollout fast enough for a test.
pub(crate) const QUICK: [&str; 6] = ["--soak", "1s", "--pause", "1s", "--batch-size", "11"];

#[test]
fn a_good_release_reaches_all_twelve_and_the_log_shows_it() {
    let fleet = Fleet::new(12, "");
    let artifacts = fleet.release("2.0.0", GOOD, |_| {});
    let mut driver = fleet.background(&order("good", "2.0.0", &artifacts, &QUICK));
    // Paused while the first batch soaks: it finishes, and no other starts.
    fleet.until("good", "it soaks", |record| record.phase == BatchPhase::Soak);
    fleet.exits(0, &["rollout", "pause", "good", "--reason", "lunch"]);
    let record = fleet.until("good", "the batch is done", |record| record.phase == BatchPhase::Pause);
    assert_eq!((record.state, record.current_batch), (RolloutStatus::Paused, 0));
    assert_eq!(record.batches[0].len(), 1, "one canary of the one stratum");
    let since = record.phase_since.unwrap();
    let record = fleet.until("good", "the pause of one second is over, and the driver is there", |record| {
        record.driver.as_ref().is_some_and(|driver| driver.heartbeat.duration_since(since).as_secs() > 2)
    });
    assert_eq!((record.state, record.phase), (RolloutStatus::Paused, BatchPhase::Pause), "{record:#?}");
    assert_eq!(that_are(&record, NodeStatus::Confirmed), that_are(&record, NodeStatus::Confirmed)[..1]);
    let is_new = |status: &zagent_rollout::watchdog::WatchdogStatus| status.version == "2.0.0";
    assert_eq!(fleet.nodes.iter().filter_map(|node| node.status()).filter(is_new).count(), 1);
    fleet.exits(0, &["rollout", "resume", "good"]);
    assert_eq!(driver.ended().code(), Some(0), "{}\n{}", driver.said(), fleet.words());

    let record = fleet.record("good").unwrap();
    assert_eq!((record.state, record.failed), (RolloutStatus::Completed, 0));
    assert_eq!(that_are(&record, NodeStatus::Confirmed).len(), 12);
    fleet.all_run("2.0.0");
    // As text and as data.
    let said = fleet.nodes[4].asks(&["watchdog", "status", "--out", "json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["version"], &said["node"]["running"]), (&"2.0.0".into(), &"2.0.0".into()), "{said:#}");
    assert_eq!((&said["node"]["previous"], &said["node"]["phase"]["is"]), (&BUILT_IN.into(), &"idle".into()));
    let log = git(&fleet.states(), &["log", "--format=%s%n%b", "rollout/good"]);
    assert!(log.lines().count() < 60, "heartbeats are no history:\n{log}");
    for words in ["prepare (", "apply (", "soak for 1s (", "confirm (", "lunch", "completed: 12 confirmed"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    // On different nodes, and so at the same time.
    std::thread::scope(|scope| {
        scope.spawn(|| goes_back_by_hand(&fleet));
        scope.spawn(|| comes_out_of_a_ref(&fleet));
    });
    fleet.all_are("on what was ordered last", |node| {
        node.is_well_on(if node.id == "n03" { "2.1.0" } else { "2.0.0" }).then_some(())
    });
}

/// A node rolls back after all; ordered again, the version is refused there until it is overridden.
fn goes_back_by_hand(fleet: &Fleet) {
    let node = &fleet.nodes[0];
    node.asks(&["self", "rollback", "--reason", "it is too loud"]);
    eventually("n01 is back", || fleet.words(), || node.is_well_on(BUILT_IN).then_some(()));
    let artifacts = fleet.path("2.0.0.yaml").display().to_string();
    fleet
        .until_told("n01", "it is back", |told| told.version == BUILT_IN && told.state == NodeActivity::Idle);
    let only = [&QUICK[..], &["--target", "n01"]].concat();
    let refused = fleet.exits(1, &order("again", "2.0.0", &artifacts, &only));
    assert!(refused.contains("rejected") && refused.contains("it is too loud"), "{refused}");
    assert!(fleet.record("again").is_none(), "{refused}");
    eventually("rejected stays rejected", || fleet.words(), || node.is_well_on(BUILT_IN).then_some(()));
    fleet.exits(0, &order("meant", "2.0.0", &artifacts, &[&only[..], &["--anyway"]].concat()));
}

/// A release from a Git ref, for one of the nodes.
fn comes_out_of_a_ref(fleet: &Fleet) {
    let script = fleet.path("release");
    std::fs::write(&script, format!("#!/bin/sh\n{}\n", GOOD.replace("$ZAGENT", ZAGENT))).unwrap();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let script = script.display().to_string();
    fleet.exits(0, &["release", "publish", &script, "--version", "2.1.0", "--os", os, "--arch", arch]);
    let to = ["--component", "agent", "--to", "2.1.0", "--target", "n03", "--id", "ref"];
    fleet.exits(0, &[&["rollout", "start"][..], &to, &QUICK].concat());
}
