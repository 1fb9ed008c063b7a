//! `disk.*`: how full the file systems are.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, query_fn};
use crate::mount::functions::read_proc_mounts;
use zagent_host::Machine;

/// The execution functions of `disk`.
pub(crate) const TABLE: &[ExecFunction] = &[query_fn("disk.usage", "", disk_usage)];

/// What `df -P` prints, for every file system that has room at all.
fn disk_usage(machine: &Machine, _: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut all = Map::new();
    for mount in read_proc_mounts(machine)? {
        let Ok(point) = machine.to_host_path(&mount.point) else { continue };
        let Ok(vfs) = rustix::fs::statvfs(point) else { continue };
        if vfs.f_blocks == 0 {
            continue;
        }
        let kib = |blocks: u64| u128::from(blocks) * u128::from(vfs.f_frsize) / 1024;
        let used = kib(vfs.f_blocks.saturating_sub(vfs.f_bfree));
        let (size, free) = (kib(vfs.f_blocks), kib(vfs.f_bavail));
        let percent = (used * 100).checked_div(used + free).unwrap_or(0)
            + u128::from(used + free > 0 && (used * 100) % (used + free) > 0);
        let mut one = Map::new();
        one.insert("filesystem", mount.device);
        one.insert("1K-blocks", size.to_string());
        one.insert("used", used.to_string());
        one.insert("available", free.to_string());
        one.insert("capacity", format!("{percent}%"));
        all.insert(mount.point, one);
    }
    Ok(all.into())
}
