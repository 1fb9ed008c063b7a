//! `dnsutil.*`: serial numbers of zones.

use crate::exec_function::local_time::strftime;
use crate::exec_function::{ExecFunction, query_fn};

/// The execution functions of `dnsutil`.
pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("dnsutil.serial", "zone? update?", |m, _| strftime(m, "%Y%m%d01"))];
