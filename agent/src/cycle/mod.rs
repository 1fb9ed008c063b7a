//! From a push to a converged host: one turn of the agent, and the loop around it.

mod after;
mod child;
pub mod clock;
mod course;
mod daemon;
mod ground;
mod me;
mod memory;
mod orders;
mod seed;
mod sync;
mod trial;
mod turn;
mod want;

pub use course::{Course, Hold as Obstacle};
pub use daemon::{Setup, run as stay};
pub use ground::{FALLS_BACK, Ground, Hold, NOTHING, NOTHING_AT_BOOT};
pub(crate) use me::{facts, records, seen};
pub use memory::{Held, LastRun, Memory, Newest, RemoteSeen, Weighed, Why};
pub use orders::Orders;
pub use seed::{machine_seed, seed};
pub use sync::{Sync, Synced, Wish, directory, plain, remotes, testing_branch};
pub use turn::{Ended, Ran, Stage, Turn};
pub use want::{Offer, Role, Ruling, Standing, Wanted, want};
