//! Every process is killed in every phase: each phase is held until a process was killed in it.

use jiff::Timestamp;
use nix::sys::signal::Signal;
use zagent_rollout::record::{BatchPhase, NodeStatus, RolloutStatus};

use super::nodes::{BUILT_IN, Fleet, GOOD, Process, eventually, go_on, order, signal, that_are};

/// Five drivers of one rollout die, each in another phase, and the next driver adopts the rollout. The sixth
/// survives, and loses its Git server for a while.
#[test]
fn a_driver_that_dies_in_any_phase_is_followed_by_another_and_an_outage_delays_and_breaks_nothing() {
    let fleet = Fleet::new(12, "");
    let artifacts = fleet.release("2.0.0", GOOD, |_| {});
    let slow = ["--soak", "5s", "--pause", "5s", "--batch-size", "11"];
    fleet.shelf.shut();
    let driver = fleet.background(&order("two", "2.0.0", &artifacts, &slow));
    let canary = |fleet: &Fleet| {
        let id = fleet.record("two").unwrap().batches[0][0].to_string();
        fleet.nodes.iter().position(|node| node.id == id).unwrap()
    };
    // All requests are blocked.
    let driver = dies_in(&fleet, driver, BatchPhase::Prepare, || {}, || {});
    let canary = &fleet.nodes[canary(&fleet)];
    // The old agent does not exit.
    let agent = canary.agent().unwrap();
    signal(agent, Signal::SIGSTOP);
    fleet.shelf.open();
    let driver = dies_in(&fleet, driver, BatchPhase::Apply, || {}, || go_on(agent));
    // The watchdog reports that its agent is ready, and then gets no confirmation.
    let watchdog = canary.watchdog.as_ref().unwrap().pid();
    let driver = dies_in(
        &fleet,
        driver,
        BatchPhase::Soak,
        || {
            fleet.until_told(&canary.id, "it is ready", |told| {
                told.taken.as_ref().is_some_and(|taken| taken.ready_since.is_some())
            });
            signal(watchdog, Signal::SIGSTOP);
        },
        || {},
    );
    let driver = dies_in(&fleet, driver, BatchPhase::Confirm, || {}, || go_on(watchdog));
    let mut driver = dies_in(&fleet, driver, BatchPhase::Pause, || {}, || {});
    let agents = outage(&fleet, &driver);
    assert_eq!(driver.ended().code(), Some(0), "{}\n{}", driver.said(), fleet.words());
    let record = fleet.record("two").unwrap();
    assert_eq!((record.state, record.failed), (RolloutStatus::Completed, 0), "{record:#?}");
    assert_eq!(that_are(&record, NodeStatus::Confirmed).len(), 12);
    fleet.all_run("2.0.0");
    let after: Vec<u32> = fleet.nodes.iter().map(|node| node.agent().unwrap()).collect();
    assert_eq!(after, agents, "nobody was started again");
}

/// The Git server is away from the soak of the second batch until after its end. Returns the running agents.
fn outage(fleet: &Fleet, driver: &Process) -> Vec<u32> {
    let record = fleet.until("two", "the second batch soaks", |record| {
        record.phase == BatchPhase::Soak && record.current_batch == 1
    });
    let agents: Vec<u32> = fleet.nodes.iter().map(|node| node.agent().unwrap()).collect();
    fleet.server.set_down(true);
    // All nodes notice: they cannot poll or report, and the agents keep running.
    fleet.all_are("deaf", |node| {
        let notes = node.status()?.notes;
        let is_told = |what: &&str| notes.iter().any(|note| note.starts_with(*what));
        ["rollouts: ", "board: "].iter().all(is_told).then_some(())
    });
    let deaf = "it continues from the same point";
    eventually("the driver is deaf", || driver.said(), || driver.said().contains(deaf).then_some(()));
    // Longer than the soak: without a confirmation, no node keeps the version.
    let over = record.phase_since.unwrap() + jiff::SignedDuration::from_secs(10);
    eventually("the soak is over", || fleet.words(), || (Timestamp::now() > over).then_some(()));
    for (node, agent) in fleet.nodes.iter().zip(&agents) {
        let status = node.status().unwrap();
        assert_eq!((status.child.unwrap().pid, status.version.as_str()), (*agent, "2.0.0"), "{}", node.id);
        let is_canary = record.batches[0][0].as_str() == node.id;
        assert_eq!(status.node.running, if is_canary { "2.0.0" } else { BUILT_IN }, "{}", node.id);
    }
    let record = fleet.record("two").unwrap();
    assert_eq!((record.state, record.phase), (RolloutStatus::Rolling, BatchPhase::Soak), "{record:#?}");
    fleet.server.set_down(false);
    agents
}

/// Kills a driver once the record is in a phase, checks that it stays there, and starts another driver.
/// `between` runs without a driver, `after` lets the phase end. Returns the new driver.
fn dies_in(
    fleet: &Fleet,
    mut driver: Process,
    phase: BatchPhase,
    between: impl FnOnce(),
    after: impl FnOnce(),
) -> Process {
    let what = format!("it is in {phase:?}");
    let before = fleet.until("two", &what, |record| record.phase == phase && record.driver.is_some());
    driver.kill();
    let left = fleet.record("two").unwrap();
    assert_eq!((left.phase, left.state, left.current_batch), (phase, RolloutStatus::Rolling, 0), "{left:#?}");
    let said = fleet.exits(75, &["rollout", "drive", "two"]);
    let before = before.driver.unwrap().id;
    assert!(said.contains(&format!("`two` is driven by {before}")), "{said}");
    between();
    let next = fleet.background(&["rollout", "drive", "two", "--adopt"]);
    let is_other = |id: &str| id != before;
    let taken = fleet.until("two", "another drives", |record| {
        record.driver.as_ref().is_some_and(|driver| is_other(&driver.id))
    });
    assert!(taken.phase >= phase && taken.state == RolloutStatus::Rolling, "{taken:#?}");
    after();
    next
}

/// The watchdogs of a whole batch die in every phase. The rollout is driven in single steps, so nothing moves
/// while they are dead.
#[test]
fn watchdogs_killed_in_any_phase_continue_where_they_were() {
    let mut fleet = Fleet::new(12, "");
    let artifacts = fleet.release("2.0.0", GOOD, |_| {});
    let quick = ["--soak", "1s", "--pause", "0s", "--batch-size", "11", "--detach"];
    fleet.exits(0, &order("two", "2.0.0", &artifacts, &quick));
    steps(&fleet, "two", "the canary has it", |record| record.current_batch == 1);
    let batch = members(&fleet, "two", 1);

    fleet.shelf.shut();
    all_die_in(&mut fleet, &batch, "preparing");
    fleet.shelf.open();
    all_die_in(&mut fleet, &batch, "staged");
    let agents = halted(&fleet, &batch);
    steps(&fleet, "two", "they are told to switch", |record| record.phase == BatchPhase::Apply);
    all_die_in(&mut fleet, &batch, "applying");
    agents.into_iter().for_each(go_on);
    all_die_in(&mut fleet, &batch, "soaking");
    steps(&fleet, "two", "it is over", |record| record.state.is_final());
    let record = fleet.record("two").unwrap();
    assert_eq!((record.state, record.failed), (RolloutStatus::Completed, 0), "{record:#?}");
    fleet.all_run("2.0.0");
    all_die_in(&mut fleet, &batch, "idle");
    fleet.all_run("2.0.0");

    // And during the rollback: the agents that should exit do not.
    let artifacts = fleet.release("3.0.0", GOOD, |_| {});
    fleet.exits(0, &order("three", "3.0.0", &artifacts, &quick));
    steps(&fleet, "three", "the second batch soaks", |record| {
        record.current_batch == 1 && record.phase == BatchPhase::Soak
    });
    let batch = members(&fleet, "three", 1);
    let agents = halted(&fleet, &batch);
    fleet.exits(0, &["rollout", "abort", "three", "--reason", "we do not like it"]);
    all_die_in(&mut fleet, &batch, "rolling-back");
    agents.into_iter().for_each(go_on);
    for at in batch {
        let node = &fleet.nodes[at];
        let what = format!("{} is back", node.id);
        eventually(&what, || fleet.words(), || node.is_well_on("2.0.0").then_some(()));
        let status = eventually("its status", || fleet.words(), || node.status());
        assert!(status.node.rejected.is_empty(), "the version is not to blame: {status:?}");
    }
}

/// Moves a rollout step by step until the condition holds.
pub(crate) fn steps(
    fleet: &Fleet,
    id: &str,
    what: &str,
    holds: impl Fn(&zagent_rollout::record::RolloutRecord) -> bool,
) {
    let more = || format!("{:#?}\n{}", fleet.record(id), fleet.words());
    eventually(&format!("{id}: {what}"), more, || {
        if fleet.record(id).is_some_and(|record| holds(&record)) {
            return Some(());
        }
        fleet.zagent(&["rollout", "step", id]);
        None
    });
}

/// Suspended agents of these nodes.
fn halted(fleet: &Fleet, batch: &[usize]) -> Vec<u32> {
    let halt = |at: &usize| {
        let node = &fleet.nodes[*at];
        let agent = eventually(&format!("the agent of {}", node.id), || fleet.words(), || node.own_agent());
        signal(agent, Signal::SIGSTOP);
        agent
    };
    batch.iter().map(halt).collect()
}

fn members(fleet: &Fleet, id: &str, batch: usize) -> Vec<usize> {
    let batch = fleet.record(id).unwrap().batches[batch].clone();
    let is_in = |at: &usize| batch.iter().any(|id| id.as_str() == fleet.nodes[*at].id);
    (0..fleet.nodes.len()).filter(is_in).collect()
}

/// Waits until all of these are in a phase, kills their watchdogs, checks that phase on disk, and starts them
/// again.
fn all_die_in(fleet: &mut Fleet, batch: &[usize], phase: &str) {
    for at in batch {
        let node = &fleet.nodes[*at];
        let what = format!("{} is {phase}", node.id);
        eventually(&what, || fleet.words(), || (node.status()?.node.phase.name() == phase).then_some(()));
    }
    batch.iter().for_each(|at| fleet.nodes[*at].kill_watchdog());
    for at in batch {
        assert_eq!(fleet.nodes[*at].on_disk(), phase, "{}", fleet.nodes[*at].id);
        fleet.start(*at);
    }
}
