//! The power is cut while a release is on trial, and the watchdog's state is damaged.

use std::fs;

use nix::sys::signal::Signal;
use zagent_rollout::record::{BatchPhase, NodeStatus};

use super::killed::steps;
use super::nodes::{BUILT_IN, Fleet, GOOD, eventually, order, signal};

/// What happens to the bytes of a file.
type Damage = fn(&[u8]) -> Vec<u8>;

/// Truncated, zeroed, flipped: each time the confirmed version runs, everyone is told, and the release goes out when it is
/// ordered again.
#[test]
fn a_power_cut_that_damages_the_state_of_a_trial_ends_it() {
    let mut fleet = Fleet::new(1, "");
    let damages: [(&str, Damage); 3] = [
        ("truncated", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("zeroed", |bytes| vec![0; bytes.len()]),
        ("flipped", |bytes| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            text.replacen(&format!("\"{BUILT_IN}\""), "\"2.0.0\"", 1).into_bytes()
        }),
    ];
    let artifacts = fleet.release("2.0.0", GOOD, |_| {});
    for (name, damage) in damages {
        let slow = ["--soak", "10m", "--detach"];
        fleet.exits(0, &order(name, "2.0.0", &artifacts, &slow));
        steps(&fleet, name, "it soaks", |record| record.phase == BatchPhase::Soak);
        let agent = fleet.nodes[0].agent().unwrap();
        fleet.nodes[0].kill_watchdog();
        signal(agent, Signal::SIGKILL);
        let paths = fleet.nodes[0].paths();
        let whole = fs::read(paths.phase()).unwrap();
        let broken = damage(&whole);
        assert_ne!(whole, broken, "{name}");
        fs::write(paths.phase(), broken).unwrap();
        fleet.start(0);
        let node = &fleet.nodes[0];
        eventually(name, || fleet.words(), || node.is_well_on(BUILT_IN).then_some(()));
        let said = node.asks(&["watchdog", "status"]);
        let note = "state/phase is damaged (";
        assert!(said.contains(note) && said.contains("the trial of 2.0.0 ended"), "{said}");
        assert!(node.asks(&["status"]).contains(note));
        fleet.until_told("n01", "the damage", |report| {
            report.facts.get("zagent_notes").is_some_and(|notes| notes.to_string().contains(note))
        });
        steps(&fleet, name, "it is over", |record| record.state.is_final());
        let record = fleet.record(name).unwrap();
        let progress = record.nodes.values().next().unwrap();
        assert_eq!(progress.status, NodeStatus::Failed, "{record:#?}");
        assert!(progress.error.as_ref().unwrap().contains("lost its state during the trial"), "{record:#?}");
    }
    // The version is not to blame.
    fleet.exits(0, &order("again", "2.0.0", &artifacts, &["--soak", "1s", "--pause", "0s"]));
    fleet.all_run("2.0.0");
    assert!(!fleet.nodes[0].asks(&["watchdog", "status"]).contains("damaged"));
}
