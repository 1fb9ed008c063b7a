//! A whole fleet on virtual time: a seed in, one history out, and the first law that it breaks.
//!
//! Law: everything is drawn from the seed. Nothing here reads a clock, starts a thread or touches a disk, so a history can be
//! played again. What is tried is the real thing: the driver's turn, the node's steps, what a record asks; only wires, disks
//! and clocks are made up.

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

/// Plays a scenario to its end, also when the program falls over on the way.
///
/// # Errors
/// Tells the law that it breaks; that nothing falls over is one of them.
pub fn stand(scenario: &Scenario, seed: u64, diary: Option<&mut Vec<String>>) -> Result<Told, String> {
    // The diary is only ever added to; what there was of the world is gone.
    let played = catch_unwind(AssertUnwindSafe(|| play(scenario, seed, diary)));
    played.unwrap_or_else(|fall| {
        let words = fall.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| fall.downcast_ref::<&str>().copied());
        Err(format!("the program fell over: {}", words.unwrap_or("it did not say why")))
    })
}
