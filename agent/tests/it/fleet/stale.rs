//! Rollouts without a driver.

use jiff::Timestamp;
use nix::sys::signal::Signal;
use zagent_rollout::record::{BatchPhase, RolloutRecord, RolloutStatus};

use super::nodes::{Fleet, GOOD, git, order, signal};

/// Without manual adoption: the driver dies, and after a minute without a heartbeat, a node with `driver:
/// true` continues. It takes part itself: the driving agent is replaced on the way.
pub(crate) fn a_rollout_that_nobody_drives_any_more_is_adopted_by_a_node() {
    let fleet = Fleet::new(3, "driver: true\n");
    let artifacts = fleet.release("2.0.0", GOOD, |_| {});
    let words = ["--soak", "3s", "--pause", "1s", "--batch-size", "2"];
    let mut driver = fleet.background(&order("two", "2.0.0", &artifacts, &words));
    let record = fleet.until("two", "it soaks", |record| record.phase == BatchPhase::Soak);
    driver.kill();
    let dead = record.driver.unwrap();
    let stale = |record: &RolloutRecord| {
        let driver = record.driver.as_ref().unwrap();
        driver.id != dead.id || Timestamp::now().duration_since(driver.heartbeat).as_secs() >= 60
    };
    let record = fleet.until("two", "it is stale", stale);
    assert_eq!(record.driver.unwrap().id, dead.id, "nobody takes over before its time");
    // After a reload they scan at once and not at the next minute.
    for node in &fleet.nodes {
        signal(node.watchdog.as_ref().unwrap().pid(), Signal::SIGHUP);
    }
    let record = fleet.until("two", "it is over", |record| record.state.is_final());
    assert_eq!((record.state, record.failed), (RolloutStatus::Completed, 0), "{record:#?}");
    let heir = record.driver.unwrap().id;
    assert!(fleet.nodes.iter().any(|node| heir == format!("{}/daemon", node.id)), "{heir}");
    let log = git(&fleet.states(), &["log", "--format=%s%n%b", "rollout/two"]);
    assert!(log.contains(&format!("takes over from {}", dead.id)), "{log}");
    fleet.all_run("2.0.0");
}
