//! The file states that are about a whole entry: which function makes which.

use super::{
    absent, cached, copy, directory, hardlink, managed, mknod, pruned, recurse, rename, retention, symlink,
    tidied, touch,
};
use crate::states::{Args, Built};

/// The state that a function makes; nothing when there is no such function here.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    Some(match fun {
        "managed" => managed::build(args),
        "directory" => directory::build(args),
        "recurse" => recurse::build(args),
        "absent" => absent::absent(args),
        "exists" => absent::claim(args, true),
        "missing" => absent::claim(args, false),
        "symlink" => symlink::build(args),
        "hardlink" => hardlink::build(args),
        "copy" | "copy_" => copy::build(args),
        "rename" => rename::build(args),
        "touch" => touch::build(args),
        "cached" => cached::cached(args),
        "not_cached" => cached::not_cached(args),
        "pruned" => pruned::build(args),
        "tidied" => tidied::build(args),
        "mknod" => mknod::build(args),
        "retention_schedule" => retention::build(args),
        _ => return None,
    })
}
