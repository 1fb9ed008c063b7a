//! Modules of the kernel: which are loaded, which can be, which are loaded at boot.

use zagent_config::FunctionError;
use zagent_config::Value;

use zagent_host::Machine;
use zagent_host::facts::machine_system;
use zagent_host::fs::FileSystem;
use zagent_host::text_file;

/// Refuses to load or remove a module below another root: programs there reach the kernel of this host.
pub(crate) fn check_kernel(machine: &Machine) -> Result<(), FunctionError> {
    if machine.is_this_host() {
        return Ok(());
    }
    Err(FunctionError::failed(
        "cannot change the modules of the running kernel below another root: `persist: true` changes those of its next boot",
    ))
}

/// The file of modules that are loaded at boot, by whether systemd loads them.
pub(crate) fn boot_config_path(systemd: Option<&Value>) -> &'static str {
    if systemd.is_some_and(Value::is_truthy) {
        "/etc/modules-load.d/salt_managed.conf"
    } else {
        "/etc/modules"
    }
}

/// The name as the kernel writes it.
pub(crate) fn normalize_name(name: &str) -> String {
    name.replace('-', "_")
}

/// The names of all loaded modules, as the kernel tells them.
pub(crate) fn list_loaded(machine: &Machine) -> Result<Vec<String>, FunctionError> {
    let file = machine.read("/proc/modules")?.unwrap_or_default();
    Ok(file.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect())
}

/// True when a module is there, loaded or built in.
pub(crate) fn is_loaded(machine: &Machine, name: &str) -> Result<bool, FunctionError> {
    let name = normalize_name(name);
    if list_loaded(machine)?.contains(&name) {
        return Ok(true);
    }
    let builtin = machine.read(&format!("{}/modules.builtin", modules_dir(machine)))?.unwrap_or_default();
    Ok(builtin.lines().any(|l| name_from_path(l).is_some_and(|s| s == name)))
}

/// The names of all modules that the running kernel has, sorted.
pub(crate) fn list_available(machine: &Machine) -> Result<Vec<String>, FunctionError> {
    let dir = modules_dir(machine);
    let mut names = Vec::new();
    for file in ["modules.builtin", "modules.dep"] {
        let text = machine.read(&format!("{dir}/{file}"))?.unwrap_or_default();
        names.extend(text.lines().filter_map(|l| name_from_path(l.split(':').next()?)));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn modules_dir(machine: &Machine) -> String {
    format!("/lib/modules/{}", machine_system(machine).uname().release)
}

/// `kernel/net/foo-bar.ko.xz` is `foo_bar`.
fn name_from_path(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    Some(normalize_name(name.split_once(".ko")?.0))
}

/// The name in a line of a file of modules.
fn name_from_line(line: &str) -> Option<String> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    line.split_whitespace().next().map(normalize_name)
}

/// The modules that are loaded at boot.
pub(crate) fn boot_modules(
    fs: &dyn FileSystem,
    config: &str,
) -> Result<Vec<String>, zagent_host::fs::FsError> {
    Ok(text_file::read_text(fs, config)?.unwrap_or_default().lines().filter_map(name_from_line).collect())
}

/// The file with a module in it; a line that was commented out is taken back in.
pub(crate) fn add_boot_module(text: &str, name: &str) -> String {
    let mut done = false;
    let (edited, found) = text_file::edit_lines(text, |line| {
        let bare = line.trim_start().strip_prefix('#')?.trim();
        let fits = !done && normalize_name(bare) == normalize_name(name);
        done |= fits;
        fits.then(|| bare.to_owned())
    });
    if found { edited } else { text_file::append_line(text, name) }
}

/// The file without a module: its line is commented out or taken away.
pub(crate) fn remove_boot_module(text: &str, name: &str, comment: bool) -> String {
    let wanted = normalize_name(name);
    let fits = |line: &str| name_from_line(line).is_some_and(|n| n == wanted);
    let new = |line: &str| if comment { format!("#{line}") } else { String::new() };
    text_file::edit_lines(text, |line| fits(line).then(|| new(line))).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_modules() {
        assert_eq!(add_boot_module("loop\n#  br_netfilter\n", "br-netfilter"), "loop\nbr_netfilter\n");
        assert_eq!(add_boot_module("loop", "dummy"), "loop\ndummy\n");
        assert_eq!(remove_boot_module("loop\nbr_netfilter\n", "br-netfilter", true), "loop\n#br_netfilter\n");
        assert_eq!(remove_boot_module("loop\nbr_netfilter\n", "br_netfilter", false), "loop\n");
    }
}
