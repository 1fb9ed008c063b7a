//! `gem.*`: libraries of Ruby.

use crate::exec_function::{ExecFunction, query_fn};
use crate::shared::lang_pkg_functions::list_language_packages;

/// The execution functions of `gem`.
pub(crate) const TABLE: &[ExecFunction] = &[query_fn("gem.list", "prefix? ruby? runas? gem_bin?", |m, a| {
    list_language_packages(m, a, &super::Gem, "gem_bin")
})];
