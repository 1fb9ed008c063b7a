//! `npm.*`: libraries of Node.js.

use crate::functions::lang_pkg::list_language_packages;
use crate::functions::{ExecFunction, query_fn};

/// The execution functions of `npm`.
pub(crate) const TABLE: &[ExecFunction] = &[query_fn("npm.list", "pkg? dir? runas? env? depth?", |m, a| {
    list_language_packages(m, a, &super::Npm, "dir")
})];
