//! `npm.*`: libraries of Node.js.

use crate::exec_function::{ExecFunction, query_fn};
use crate::shared::lang_pkg_functions::list_language_packages;

/// The execution functions of `npm`.
pub(crate) const TABLE: &[ExecFunction] = &[query_fn("npm.list", "pkg? dir? runas? env? depth?", |m, a| {
    list_language_packages(m, a, &super::Npm, "dir")
})];
