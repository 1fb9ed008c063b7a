//! Modules of the kernel: which are loaded, which can be, which are loaded at boot.

use zagent_compiler::functions::Refusal;
use zagent_config::Value;

use super::lines;
use crate::facts::{Live, System};
use crate::fs::FileSystem;
use crate::host::Machine;

/// The file of modules that are loaded at boot, by whether systemd loads them.
pub(crate) fn config(systemd: Option<&Value>) -> &'static str {
    if systemd.is_some_and(Value::is_truthy) {
        "/etc/modules-load.d/salt_managed.conf"
    } else {
        "/etc/modules"
    }
}

/// The name as the kernel writes it.
pub(crate) fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// The names of all loaded modules, as the kernel tells them.
pub(crate) fn loaded(machine: &Machine) -> Result<Vec<String>, Refusal> {
    let file = machine.read("/proc/modules")?.unwrap_or_default();
    Ok(file.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect())
}

/// True when a module is there, loaded or built in.
pub(crate) fn is_there(machine: &Machine, name: &str) -> Result<bool, Refusal> {
    let name = plain(name);
    if loaded(machine)?.contains(&name) {
        return Ok(true);
    }
    let builtin = machine.read(&format!("{}/modules.builtin", dir()))?.unwrap_or_default();
    Ok(builtin.lines().any(|l| stem(l).is_some_and(|s| s == name)))
}

/// The names of all modules that the running kernel has, sorted.
pub(crate) fn available(machine: &Machine) -> Result<Vec<String>, Refusal> {
    let dir = dir();
    let mut names = Vec::new();
    for file in ["modules.builtin", "modules.dep"] {
        let text = machine.read(&format!("{dir}/{file}"))?.unwrap_or_default();
        names.extend(text.lines().filter_map(|l| stem(l.split(':').next()?)));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn dir() -> String {
    format!("/lib/modules/{}", Live.uname().release)
}

/// `kernel/net/foo-bar.ko.xz` is `foo_bar`.
fn stem(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    Some(plain(name.split_once(".ko")?.0))
}

/// The name in a line of a file of modules.
fn named(line: &str) -> Option<String> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    line.split_whitespace().next().map(plain)
}

/// The modules that are loaded at boot.
pub(crate) fn kept(fs: &dyn FileSystem, config: &str) -> Result<Vec<String>, crate::fs::FsError> {
    Ok(lines::read(fs, config)?.unwrap_or_default().lines().filter_map(named).collect())
}

/// The file with a module in it; a line that was commented out is taken back in.
pub(crate) fn with(text: &str, name: &str) -> String {
    let mut done = false;
    let (edited, found) = lines::edit(text, |line| {
        let bare = line.trim_start().strip_prefix('#')?.trim();
        let fits = !done && plain(bare) == plain(name);
        done |= fits;
        fits.then(|| bare.to_owned())
    });
    if found { edited } else { lines::append(text, name) }
}

/// The file without a module: its line is commented out or taken away.
pub(crate) fn without(text: &str, name: &str, comment: bool) -> String {
    let wanted = plain(name);
    let fits = |line: &str| named(line).is_some_and(|n| n == wanted);
    let new = |line: &str| if comment { format!("#{line}") } else { String::new() };
    lines::edit(text, |line| fits(line).then(|| new(line))).0
}
