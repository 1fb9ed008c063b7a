//! What nodes report and rollouts record in, a site for a browser out.
//!
//! Law: pure. A site is a function from a path to a file, so that the same site is written to a directory or rendered page
//! by page on request. No page lists more than [`PAGE_SIZE`] nodes (held by `pure_modules_do_not_touch_the_machine`,
//! `ten_thousand_nodes_stay_in_pages`).

mod fleet;
mod rollouts;
mod site;
#[cfg(test)]
pub(crate) mod tests;

pub use fleet::{FleetData, FleetNode, NodeCondition};
pub use rollouts::{FleetBatch, FleetRollout, RolloutLook};
pub use site::{FleetSite, SiteFile};

/// Number of nodes on a page.
pub const PAGE_SIZE: usize = 250;
