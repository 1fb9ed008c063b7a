//! `mount.*` and `disk.*` that look.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{ExecFunction, query_fn, string_list, text_arg};
use zagent_host::Machine;

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("mount.active", "extended?", |m, _| {
        Ok(read_proc_mounts(m)?.iter().map(|x| (x.point.as_str(), mount_to_value(x))).collect::<Map>().into())
    }),
    query_fn("mount.is_mounted", "name", |m, a| {
        let name = text_arg(a, "name")?;
        Ok(read_proc_mounts(m)?.iter().any(|x| x.point == name).into())
    }),
    query_fn("mount.fstab", "config?", fstab_entries),
    query_fn("mount.swaps", "", |m, _| Ok(crate::mount::mounts::list_swaps(m)?.into())),
    query_fn("disk.usage", "", disk_usage),
];

struct ProcMount {
    device: String,
    point: String,
    fstype: String,
    opts: Vec<String>,
}

/// The kernel writes blanks in names as octal numbers.
fn unescape_octal(name: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(name.to_owned(), |s, (a, b)| s.replace(a, b))
}

fn read_proc_mounts(machine: &Machine) -> Result<Vec<ProcMount>, FunctionError> {
    let text = machine.read("/proc/self/mounts")?.unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut f = line.split(' ');
            Some(ProcMount {
                device: unescape_octal(f.next()?),
                point: unescape_octal(f.next()?),
                fstype: f.next()?.to_owned(),
                opts: f.next()?.split(',').map(str::to_owned).collect(),
            })
        })
        .collect())
}

fn mount_to_value(mount: &ProcMount) -> Value {
    let mut out = Map::new();
    out.insert("device", mount.device.as_str());
    out.insert("alt_device", mount.device.as_str());
    out.insert("fstype", mount.fstype.as_str());
    out.insert("opts", string_list(mount.opts.iter().map(String::as_str)));
    out.into()
}

fn fstab_entries(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = args.get("config").and_then(Value::as_str).unwrap_or("/etc/fstab");
    let file = machine.read(path)?.unwrap_or_default();
    let entries = crate::mount::mounts::parse_fstab(&file);
    Ok(entries.map(|e| (e.name.clone(), Value::from(e.to_salt_map()))).collect::<Map>().into())
}

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
