//! `kernelpkg.*`: the kernel that runs.

use crate::exec_function::{ExecFunction, query_fn};
use zagent_host::facts::{LiveSystem, System};

/// The execution functions of `kernelpkg`.
pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("kernelpkg.active", "", |_, _| Ok(LiveSystem.uname().release.into()))];
