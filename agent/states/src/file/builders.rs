//! The file states that are about a whole entry: which function makes which.

use super::{
    absent, cached, copy, directory, hardlink, managed, mknod, pruned, recurse, rename, retention, symlink,
    tidied, touch,
};
use crate::{BuildResult, ChunkArgs};

/// The state that a function makes; nothing when there is no such function here.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    Some(match fun {
        "managed" => managed::build(args),
        "directory" => directory::build(args),
        "recurse" => recurse::build(args),
        "absent" => absent::build_absent(args),
        "exists" => absent::build_existence(args, true),
        "missing" => absent::build_existence(args, false),
        "symlink" => symlink::build(args),
        "hardlink" => hardlink::build(args),
        "copy" | "copy_" => copy::build(args),
        "rename" => rename::build(args),
        "touch" => touch::build(args),
        "cached" => cached::build_cached(args),
        "not_cached" => cached::build_not_cached(args),
        "pruned" => pruned::build(args),
        "tidied" => tidied::build(args),
        "mknod" => mknod::build(args),
        "retention_schedule" => retention::build(args),
        _ => return None,
    })
}
