//! A whole fleet on virtual time: a seed in, one history out, and the first law that it breaks.
//!
//! Law: everything comes from the seed. Nothing here reads a clock, starts a thread or touches a disk, so a history
//! can be replayed. The code under test is real: the driver's turn, the node's steps, what a record requires, its signatures
//! (`order_keys.rs` has the keys); only connections, disks and clocks are simulated (held by `pure_modules_do_not_touch_the_machine`,
//! `a_seed_gives_the_same_history_again`).

pub mod board;
mod course;
pub mod dice;
pub mod host;
pub mod laws;
mod nodes;
pub mod queue;
pub mod scenario;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::scenario::{Scenario, Wrong};
pub use self::world::{Told, play};

/// Plays the history of a seed.
///
/// # Errors
/// As [`stand`].
pub fn history(seed: u64, wrong: Wrong) -> Result<Told, String> {
    stand(&Scenario::of(seed, wrong), seed, None)
}

/// Plays a scenario to its end, even if the program panics on the way.
///
/// # Errors
/// Returns the law that it breaks; that nothing panics is one of them.
pub fn stand(scenario: &Scenario, seed: u64, diary: Option<&mut Vec<String>>) -> Result<Told, String> {
    // The log is only ever appended to; the world itself is dropped.
    let played = catch_unwind(AssertUnwindSafe(|| play(scenario, seed, diary)));
    played.unwrap_or_else(|fall| {
        let words = fall.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| fall.downcast_ref::<&str>().copied());
        Err(format!("the program panicked: {}", words.unwrap_or("no message")))
    })
}
