//! Whole fleets on virtual time, generated from random seeds, with every kind of failure; and rules broken on purpose.
//!
//! `HISTORIES=100000` plays this many, `NODES=10000` sets the size of the large fleet; `SEED=7` replays one and prints
//! it. CI uses these numbers.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use zagent_rollout::record::RolloutStatus;
use zagent_tests::fleet::{Scenario, Told, Wrong, history, play, stand};

/// The default number of histories.
const FEW: u64 = 5_000;
/// Stop after this many histories that break a law.
const MANY: u64 = 20;
/// Histories in which a broken rule must be detected.
const ENOUGH: u64 = 3_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn again(seed: u64, wrong: Wrong) -> String {
    let mut diary = vec![];
    let scenario = Scenario::of(seed, wrong);
    let end = stand(&scenario, seed, Some(&mut diary));
    format!("{scenario:#?}\n{}\n{end:?}", diary.join("\n"))
}

#[test]
fn every_history_keeps_every_law() {
    if let Some(seed) = number("SEED") {
        println!("{}", again(seed, Wrong::Nothing));
        history(seed, Wrong::Nothing).unwrap();
        return;
    }
    let histories = number("HISTORIES").unwrap_or(FEW);
    let (next, broken) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut all = vec![];
        while broken.load(Ordering::Relaxed) < MANY {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= histories {
                break;
            }
            let told = history(seed, Wrong::Nothing);
            broken.fetch_add(u64::from(told.is_err()), Ordering::Relaxed);
            all.push((seed, told));
        }
        all
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(u64, Result<Told, String>)> = thread::scope(|scope| {
        let all: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|one| one.join().expect("a history catches what falls over")).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    let (told, laws): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, told)| told.is_ok());
    let laws = laws.into_iter().filter_map(|(seed, told)| Some(format!("SEED={seed}: {}", told.err()?)));
    let laws: Vec<String> = laws.collect();
    assert!(laws.is_empty(), "these histories break a law:\n{}", laws.join("\n"));
    let told: Vec<Told> = told.into_iter().filter_map(|(_, told)| told.ok()).collect();
    let ends = |state| told.iter().flat_map(|one| &one.ends).filter(|end| **end == state).count();
    let events: u64 = told.iter().map(|one| one.events).sum();
    let (completed, aborted) = (ends(RolloutStatus::Completed), ends(RolloutStatus::Aborted));
    let hours = told.iter().map(|one| one.seconds).sum::<i64>() / 3600;
    println!("{histories} histories, {events} events, {hours} h; {completed} completed, {aborted} aborted");
    // The random histories must be useful: both results are common, and some are left.
    let share = |count: usize| count as u64 * 10 > histories;
    assert!(share(completed) && share(aborted) && ends(RolloutStatus::Paused) > 0, "{completed}, {aborted}");
}

#[test]
fn a_seed_gives_the_same_history_again() {
    for seed in 0..20 {
        assert_eq!(again(seed, Wrong::Nothing), again(seed, Wrong::Nothing));
    }
}

#[test]
fn a_history_is_the_same_when_records_and_reports_are_kept_as_text() {
    for seed in 0..40 {
        let scenario = Scenario::of(seed, Wrong::Nothing);
        let as_text = Scenario { as_text: true, ..scenario.clone() };
        assert_eq!(play(&as_text, seed, None), play(&scenario, seed, None), "SEED={seed}");
    }
}

#[test]
fn a_large_fleet_in_one_process() {
    let nodes = number("NODES").map_or(1_000, |nodes| nodes as usize);
    let begun = Instant::now();
    let told = play(&Scenario::large(nodes), 1, None).unwrap_or_else(|law| panic!("{law}"));
    let (events, hours) = (told.events, told.seconds as f64 / 3600.0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    let (took, writes, most) = (begun.elapsed(), told.writes, told.most);
    println!(
        "{nodes} nodes: {hours:.1} h in {took:.1?}, {events} events, {writes} writes, {most} at once; {memory}"
    );
    assert_eq!(told.ends, [RolloutStatus::Completed]);
    // Ten of them are lost for good.
    assert_eq!(told.confirmed, nodes - 10);
    assert!(told.most <= nodes / 10 + 20);
}

/// A rule is broken on purpose: some history must detect it, with this message.
fn is_seen(wrong: Wrong, words: &str) {
    let mut laws = (0..ENOUGH).filter_map(|seed| history(seed, wrong).err());
    assert!(laws.any(|law| law.contains(words)), "{wrong:?} is not noticed: no history says `{words}`");
}

#[test]
fn the_simulation_sees_a_node_that_ignores_its_deadline() {
    is_seen(Wrong::NoDeadline, "past its deadline");
}

#[test]
fn the_simulation_sees_a_node_that_extends_its_deadline() {
    is_seen(Wrong::Patient, "past its deadline");
}

#[test]
fn the_simulation_sees_a_node_that_keeps_a_broken_version() {
    is_seen(Wrong::Blind, "as good, which does not work there");
}

#[test]
fn the_simulation_sees_a_node_that_promotes_what_it_tried_after_damage() {
    is_seen(Wrong::TrustsLink, "which was never confirmed there");
}

#[test]
fn the_simulation_sees_a_node_that_forgets_what_it_did() {
    is_seen(Wrong::Forgetful, "again");
}

#[test]
fn the_simulation_sees_a_node_that_follows_an_older_order() {
    is_seen(Wrong::Backward, "in clock mode although it took a newer one");
}

#[test]
fn the_simulation_sees_a_node_that_never_switches_in_clock_mode() {
    is_seen(Wrong::Hesitant, "never ends");
}

#[test]
fn the_simulation_sees_a_program_that_panics() {
    is_seen(Wrong::Falls, "the program panicked: it panics on purpose");
    let falls = |seed: &u64| history(*seed, Wrong::Falls).is_err();
    let told = again((0..ENOUGH).find(falls).expect("one that panics"), Wrong::Falls);
    assert!(told.contains("node 0 reads r0") && told.ends_with("it panics on purpose\")"), "{told}");
}

#[test]
fn the_simulation_sees_nodes_that_do_not_wait_for_their_turn() {
    is_seen(Wrong::NoTurns, "run an unconfirmed version");
}

#[test]
fn the_simulation_sees_a_node_that_deletes_the_old_version() {
    is_seen(Wrong::ForgetsOld, "may be needed and is missing");
}

#[test]
fn the_simulation_sees_a_node_that_only_reports_a_rollback() {
    is_seen(Wrong::StaysPut, "it is idle on 1.0 and runs 2.0");
}

#[test]
fn the_simulation_sees_a_node_that_starts_after_an_abort() {
    is_seen(Wrong::DeafToAbort, "it starts although an abort was requested");
}

#[test]
fn the_simulation_sees_a_node_that_drops_a_confirmed_version() {
    is_seen(Wrong::GivesUp, "was confirmed and it is on");
}

#[test]
fn the_simulation_sees_a_node_that_tries_a_rejected_version() {
    is_seen(Wrong::Forgiving, "which it rejected");
}

#[test]
fn the_simulation_sees_a_driver_that_does_not_count_failures() {
    is_seen(Wrong::NoMaxFailed, "failed, and it is rolling");
}

#[test]
fn the_simulation_sees_a_driver_whose_abort_never_ends() {
    is_seen(Wrong::NeverAborted, "never ends: an abort was requested");
}

#[test]
fn the_simulation_sees_a_driver_that_confirms_too_early() {
    is_seen(Wrong::Credulous, "counts as confirmed and never was");
}

#[test]
fn the_simulation_sees_a_node_that_obeys_the_record_of_another_fleet() {
    is_seen(Wrong::AnyFleet, "it obeys r900, which it must not");
}

#[test]
fn the_simulation_sees_a_node_that_obeys_a_record_with_too_few_signatures() {
    for forged in ["r902", "r903", "r904", "r905"] {
        is_seen(Wrong::AnySignature, &format!("it obeys {forged}, which it must not"));
    }
}

#[test]
fn the_simulation_sees_a_node_that_obeys_an_expired_record() {
    is_seen(Wrong::NoExpiry, "it obeys r901, which it must not");
}
