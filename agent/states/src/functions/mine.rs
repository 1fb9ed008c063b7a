//! `mine.*` that publish: accepted and done with, since there is no mine.

use crate::exec_function::{ExecFunction, change_fn};

/// The execution functions of `mine`.
pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("mine.update", "**", |_, _| Ok(true.into())),
    change_fn("mine.send", "name **", |_, _| Ok(true.into())),
];
