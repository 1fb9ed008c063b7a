//! A Git repository in, the files of one commit out.
//!
//! Law: nothing is checked out. Objects are read, names are judged before they are believed, and a tree that holds a
//! hostile name or a link that leaves it is refused whole.

mod error;
mod name;
mod repository;
#[cfg(feature = "testing")]
#[expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]
pub mod testing;
mod tree;

pub use error::Error;
pub use repository::Repository;
pub use tree::{Limits, Tree};
