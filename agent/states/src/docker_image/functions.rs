//! `docker.*` for images: arguments as Salt names them in, what the program says out.

use crate::exec_function::{ExecFunction, change_fn, query_fn};
use crate::shared::docker_functions::{inspect_objects, list_objects, run_verb};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("docker.images", "provider?", |m, a| {
        list_objects(m, a, &["images", "--no-trunc", "--format", "{{json .}}"])
    }),
    query_fn("docker.inspect_image", "name provider?", |m, a| inspect_objects(m, a, &["image"])),
    change_fn("docker.rmi", "name force? provider?", |m, a| run_verb(m, a, "rmi")),
    change_fn("docker.pull", "name provider?", |m, a| run_verb(m, a, "pull")),
];
