//! Unit files, init scripts and the links between them: a name in, whether there is such a service and starts at boot out.
//!
//! Law: only files are read, so that it works in a root where nothing runs (held by `what_starts_with_the_host`).

use crate::Machine;

/// Where unit files lie; the first wins.
const UNIT_DIRS: [&str; 7] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/transient",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// What the name of a unit ends with.
pub(crate) const UNIT_SUFFIXES: [&str; 10] = [
    ".service",
    ".socket",
    ".timer",
    ".target",
    ".mount",
    ".path",
    ".slice",
    ".automount",
    ".swap",
    ".scope",
];

/// The name of a unit: a service unless it says otherwise.
pub(crate) fn unit_name(name: &str) -> String {
    if UNIT_SUFFIXES.iter().any(|k| name.ends_with(k)) { name.to_owned() } else { format!("{name}.service") }
}

/// The template behind an instance: `getty@.service` for `getty@tty1.service`.
pub fn template_name(unit: &str) -> Option<String> {
    let (base, rest) = unit.split_once('@')?;
    let kind = rest.rsplit_once('.')?.1;
    Some(format!("{base}@.{kind}"))
}

/// True when systemd is process 1.
pub fn is_booted(machine: &Machine) -> bool {
    machine.is_this_host() && machine.exists("/run/systemd/system")
}

/// True when process 1 is a program named `init`: systemd goes by its own name.
pub(crate) fn is_sysv_init(machine: &Machine) -> bool {
    machine.read("/proc/1/comm").is_ok_and(|comm| comm.is_some_and(|comm| comm.trim_end() == "init"))
}

/// Paths where the file of a service may lie: its own, and that of its template.
pub fn unit_paths(name: &str) -> impl Iterator<Item = String> {
    let unit = unit_name(name);
    let names: Vec<String> = [template_name(&unit), Some(unit)].into_iter().flatten().collect();
    UNIT_DIRS.iter().flat_map(move |dir| names.clone().into_iter().map(move |n| format!("{dir}/{n}")))
}

/// True when there is a unit file.
pub fn has_unit(machine: &Machine, name: &str) -> bool {
    !name.contains('/') && unit_paths(name).any(|path| machine.exists(path))
}

/// True when a directory of drop-ins holds one that systemd has not read, by the paths of those it has. It does not say so
/// itself of a directory that was not there when it last looked.
pub(crate) fn has_unread_dropin(machine: &Machine, name: &str, read: &str) -> bool {
    let unit = unit_name(name);
    let kind = unit.rsplit_once('.').map(|(_, kind)| kind.to_owned());
    let owners: Vec<String> = [template_name(&unit), Some(unit), kind].into_iter().flatten().collect();
    // A name in one directory hides the same name in all others.
    let read: Vec<&str> = read.split_whitespace().filter_map(|path| path.rsplit('/').next()).collect();
    let dirs =
        UNIT_DIRS.iter().take(2).flat_map(|dir| owners.iter().map(move |owner| format!("{dir}/{owner}.d")));
    dirs.into_iter().any(|dir| {
        let is_new = |part: &String| {
            let path = format!("{dir}/{part}");
            // An empty one, or a link to nowhere, only hides others.
            let says = machine.metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0);
            part.ends_with(".conf") && says && !read.contains(&part.as_str())
        };
        machine.list_dir(&dir).iter().any(is_new)
    })
}

/// True when there is an init script.
pub(crate) fn has_init_script(machine: &Machine, name: &str) -> bool {
    if name.contains('/') {
        return false;
    }
    machine.is_program(format!("/etc/init.d/{name}"))
}

/// True when a unit is wanted by another or has another name, as only enabled ones are.
pub(crate) fn is_unit_enabled(machine: &Machine, name: &str) -> bool {
    let unit = unit_name(name);
    UNIT_DIRS.iter().take(2).any(|dir| {
        machine.list_dir(dir).iter().any(|sub| {
            let wants = sub.ends_with(".wants") || sub.ends_with(".requires");
            (wants && machine.symlink_metadata(format!("{dir}/{sub}/{unit}")).is_ok())
                || (*sub != unit && is_alias_link(machine, &format!("{dir}/{sub}"), &unit))
        })
    })
}

/// True when an init script is linked into a runlevel: `/etc/rc3.d/S01name`.
pub(crate) fn is_script_enabled(machine: &Machine, name: &str) -> bool {
    ["2", "3", "4", "5", "S"].iter().any(|level| {
        let links = [format!("/etc/rc{level}.d"), format!("/etc/rc.d/rc{level}.d")];
        links.iter().flat_map(|dir| machine.list_dir(dir)).any(|l| {
            let rest = l.strip_prefix('S').and_then(|r| r.get(2..));
            rest == Some(name)
        })
    })
}

/// The names of all units of services (without their suffix) and of other kinds, as far as files tell.
pub(crate) fn list_units(machine: &Machine) -> Vec<String> {
    let names = UNIT_DIRS.iter().flat_map(|dir| machine.list_dir(dir));
    names
        .filter_map(|n| match n.strip_suffix(".service") {
            Some(service) => Some(service.to_owned()),
            None => UNIT_SUFFIXES.iter().any(|k| n.ends_with(k)).then_some(n),
        })
        .collect()
}

/// The names of all init scripts.
pub(crate) fn list_init_scripts(machine: &Machine) -> Vec<String> {
    // These start the others, or are read by them.
    const NONE: [&str; 5] = ["README", "functions", "rc", "rcS", "skeleton"];
    let names = machine.list_dir("/etc/init.d").into_iter();
    names.filter(|n| !NONE.contains(&n.as_str()) && has_init_script(machine, n)).collect()
}

fn is_alias_link(machine: &Machine, path: &str, unit: &str) -> bool {
    machine.read_link(path).is_some_and(|to| to.rsplit('/').next() == Some(unit))
}
