//! A formula in, two Debian hosts out, one configured by Salt and one by zagent, and their differences.
//!
//! Salt's result is recorded once and kept: it changes when the formula or its line in tests/formulas.yaml does.

mod compare;
mod imprint;
mod page;
mod plan;
mod side;

pub use compare::{Foresight, compare, foresight, results};
pub use imprint::imprint;
pub use page::{Outcome, page};
pub use plan::{Plan, plans};
pub use side::{Side, record, zagent};
