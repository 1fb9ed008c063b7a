//! `gem.*`: libraries of Ruby.

use crate::functions::lang_pkg::list_language_packages;
use crate::functions::{ExecFunction, query_fn};

/// The execution functions of `gem`.
pub(crate) const TABLE: &[ExecFunction] = &[query_fn("gem.list", "prefix? ruby? runas? gem_bin?", |m, a| {
    list_language_packages(m, a, &super::Gem, "gem_bin")
})];
