//! `kernelpkg.*`: the kernel that runs; below another root, the one that it has.

use crate::exec_function::{ExecFunction, query_fn};
use zagent_host::facts::machine_system;

/// The execution functions of `kernelpkg`.
pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("kernelpkg.active", "", |m, _| Ok(machine_system(m).uname().release.into()))];
