//! `docker.inspect_volume`: arguments as Salt names them in, what the program says out.

use crate::exec_function::{ExecFunction, query_fn};
use crate::shared::docker_functions::inspect_objects;

pub(crate) const TABLE: &[ExecFunction] =
    &[query_fn("docker.inspect_volume", "name provider?", |m, a| inspect_objects(m, a, &["volume"]))];
