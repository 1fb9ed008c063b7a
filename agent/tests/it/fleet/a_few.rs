//! Tests that need only a few nodes. They mostly wait, so the fleets run in parallel.

use super::{held, stale, states};

#[test]
fn a_stale_driver_states_and_windows() {
    let all: [(&str, fn()); 3] = [
        ("stale", stale::a_rollout_that_nobody_drives_any_more_is_adopted_by_a_node),
        ("states", states::states_go_batch_by_batch_and_a_sick_commit_stops_at_the_canary),
        ("windows", held::a_closed_window_holds_a_release_up_and_an_emergency_does_not_wait),
    ];
    std::thread::scope(|scope| {
        for (name, test) in all {
            std::thread::Builder::new().name(name.into()).spawn_scoped(scope, test).unwrap();
        }
    });
}
