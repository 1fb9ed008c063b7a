//! `lowpkg.*`: files of packages, as `pkg.*` tells them, and what a package file says.

use crate::exec_function::{ExecFunction, query_fn};
use crate::pkg::functions::files;

/// The execution functions of `lowpkg`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("lowpkg.file_list", "* **", files::file_list),
    query_fn("lowpkg.file_dict", "* **", files::file_dict),
    query_fn("lowpkg.bin_pkg_info", "path saltenv?", files::bin_pkg_info),
];
