//! Parameters of the kernel: a name in, its value below `/proc/sys` and in a file out.

use zagent_compiler::functions::Refusal;

use super::{files, lines};
use crate::host::Machine;
use crate::host::ask::cannot;

/// What a new file begins with, as Salt writes it.
const HEAD: &str = "#\n# Kernel sysctl configuration\n#\n";

/// The file that parameters are kept in, when nobody names one.
pub(crate) fn default_config(machine: &Machine) -> &'static str {
    if files::is_booted(machine) { "/etc/sysctl.d/99-salt.conf" } else { "/etc/sysctl.conf" }
}

/// Where a parameter is. The first `.` or `/` of a name parts it; the other of the two is then part of a word.
pub(crate) fn path(name: &str) -> Result<String, Refusal> {
    let is_slashed = name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/'));
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let inner: String = if is_slashed { name.to_owned() } else { name.chars().map(swap).collect() };
    if name.is_empty() || inner.split('/').any(|part| part == ".." || part.is_empty()) {
        return Err(Refusal::failed(format!("`{name}` is not the name of a setting")));
    }
    Ok(format!("/proc/sys/{inner}"))
}

/// The value that the kernel holds; nothing when there is no such parameter.
pub(crate) fn live(machine: &Machine, name: &str) -> Result<Option<String>, Refusal> {
    Ok(machine.read(&path(name)?)?.map(|v| v.trim_end_matches('\n').to_owned()))
}

/// Refuses a parameter that cannot be written here, without writing it.
pub(crate) fn verify_writable(machine: &Machine, name: &str) -> Result<(), Refusal> {
    let path = path(name)?;
    match rustix::fs::access(machine.path(&path), rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::ROFS) => Err(Refusal::failed(format!(
            "`{path}` is mounted read-only, as in a container: set it on the host that the container runs on"
        ))),
        Err(error) => Err(cannot("write", &path, &error.into())),
    }
}

/// Gives the kernel a value.
pub(crate) fn assign(machine: &Machine, name: &str, value: &str) -> Result<(), Refusal> {
    let path = path(name)?;
    let file = machine.path(&path);
    if !file.exists() {
        return Err(Refusal::failed(format!("sysctl {name} does not exist")));
    }
    std::fs::write(&file, format!("{value}\n")).map_err(|e| cannot("write", &path, &e))
}

/// True when two values mean the same: the kernel parts its words by tabs.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    line.split_once('=').map(|(k, v)| (k.trim(), v.trim()))
}

/// All parameters of a file.
pub(crate) fn configured(text: &str) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    text.lines().filter_map(pair)
}

/// The file with a parameter set in it.
pub(crate) fn edited(text: Option<&str>, name: &str, value: &str) -> String {
    let wanted = format!("{name} = {value}");
    let text = text.unwrap_or(HEAD);
    let (edited, found) = lines::edit(text, |line| {
        let (_, now) = pair(line).filter(|(key, _)| *key == name)?;
        Some(if is_same(now, value) { line.to_owned() } else { wanted.clone() })
    });
    if found { edited } else { lines::append(text, &wanted) }
}
