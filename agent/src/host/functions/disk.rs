//! `mount.*` and `disk.*` that look.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, entry, strings, text};
use crate::host::{Machine, services};

pub(super) const TABLE: &[Entry] = &[
    entry("mount.active", "extended?", |m, _| {
        Ok(mounts(m)?.iter().map(|x| (x.point.as_str(), shown(x))).collect::<Map>().into())
    }),
    entry("mount.is_mounted", "name", |m, a| {
        let name = text(a, "name")?;
        Ok(mounts(m)?.iter().any(|x| x.point == name).into())
    }),
    entry("mount.fstab", "config?", fstab),
    entry("mount.swaps", "", |m, _| Ok(services::mounts::swaps(m)?.into())),
    entry("disk.usage", "", usage),
];

struct Mount {
    device: String,
    point: String,
    fstype: String,
    opts: Vec<String>,
}

/// The kernel writes blanks in names as octal numbers.
fn plain(name: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(name.to_owned(), |s, (a, b)| s.replace(a, b))
}

fn mounts(machine: &Machine) -> Result<Vec<Mount>, Refusal> {
    let text = machine.read("/proc/self/mounts")?.unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut f = line.split(' ');
            Some(Mount {
                device: plain(f.next()?),
                point: plain(f.next()?),
                fstype: f.next()?.to_owned(),
                opts: f.next()?.split(',').map(str::to_owned).collect(),
            })
        })
        .collect())
}

fn shown(mount: &Mount) -> Value {
    let mut out = Map::new();
    out.insert("device", mount.device.as_str());
    out.insert("alt_device", mount.device.as_str());
    out.insert("fstype", mount.fstype.as_str());
    out.insert("opts", strings(mount.opts.iter().map(String::as_str)));
    out.into()
}

fn fstab(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let path = args.get("config").and_then(Value::as_str).unwrap_or("/etc/fstab");
    let file = machine.read(path)?.unwrap_or_default();
    let entries = services::mounts::entries(&file);
    Ok(entries.map(|e| (e.name.clone(), Value::from(e.shown()))).collect::<Map>().into())
}

/// What `df -P` prints, for every file system that has room at all.
fn usage(machine: &Machine, _: &Bound<Value>) -> Result<Value, Refusal> {
    let mut all = Map::new();
    for mount in mounts(machine)? {
        let Ok(vfs) = rustix::fs::statvfs(machine.path(&mount.point)) else { continue };
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
