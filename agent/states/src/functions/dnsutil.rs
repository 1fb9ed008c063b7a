//! `dnsutil.*`: serial numbers of zones.

use super::status::strftime;
use super::{ExecFunction, query_fn};

/// The execution functions of `dnsutil`.
pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("dnsutil.serial", "zone? update?", |_, _| strftime("%Y%m%d01"))];
