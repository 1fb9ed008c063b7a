//! What templates may ask: this node, a recorded one, and the execution functions behind `salt[...]`.

pub mod external_pillar;
#[cfg(any(test, feature = "testing"))]
#[cfg(any(test, feature = "testing"))]
pub(crate) mod function_host;
pub mod live_host;
pub mod recorded_facts;
pub mod recorded_host;
