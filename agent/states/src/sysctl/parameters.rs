//! Parameters of the kernel: a name in, its value below `/proc/sys` and in a file out.

#![expect(clippy::disallowed_methods, reason = "a kernel parameter is written in place")]

use zagent_config::FunctionError;

use zagent_host::Machine;
use zagent_host::machine::path_error;
use zagent_host::services::unit_files;
use zagent_host::text_file;

/// What a new file begins with, as Salt writes it.
const NEW_FILE_HEADER: &str = "#\n# Kernel sysctl configuration\n#\n";

/// The file that parameters are kept in, when nobody names one.
pub fn default_config(machine: &Machine) -> &'static str {
    if unit_files::is_booted(machine) { "/etc/sysctl.d/99-salt.conf" } else { "/etc/sysctl.conf" }
}

/// Where a parameter is. The first `.` or `/` of a name parts it; the other of the two is then part of a word.
pub fn proc_path(name: &str) -> Result<String, FunctionError> {
    let is_slashed = name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/'));
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let inner: String = if is_slashed { name.to_owned() } else { name.chars().map(swap).collect() };
    if name.is_empty() || inner.split('/').any(|part| part == ".." || part.is_empty()) {
        return Err(FunctionError::failed(format!("`{name}` is not the name of a setting")));
    }
    Ok(format!("/proc/sys/{inner}"))
}

/// The value that the kernel holds; nothing when there is no such parameter.
pub fn live_value(machine: &Machine, name: &str) -> Result<Option<String>, FunctionError> {
    Ok(machine.read(&proc_path(name)?)?.map(|v| v.trim_end_matches('\n').to_owned()))
}

/// Refuses a parameter that cannot be written here, without writing it.
pub fn verify_writable(machine: &Machine, name: &str) -> Result<(), FunctionError> {
    let path = proc_path(name)?;
    let file = machine.to_host_path(&path).map_err(|e| path_error("write", &path, &e))?;
    match rustix::fs::access(file, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::ROFS) => Err(FunctionError::failed(format!(
            "`{path}` is mounted read-only, as in a container: set it on the host that the container runs on"
        ))),
        Err(error) => Err(path_error("write", &path, &error.into())),
    }
}

/// Gives the kernel a value.
pub fn set_live_value(machine: &Machine, name: &str, value: &str) -> Result<(), FunctionError> {
    let path = proc_path(name)?;
    if !machine.exists(&path) {
        return Err(FunctionError::failed(format!("sysctl {name} does not exist")));
    }
    let file = machine.to_host_path(&path).map_err(|e| path_error("write", &path, &e))?;
    std::fs::write(file, format!("{value}\n")).map_err(|e| path_error("write", &path, &e))
}

/// True when two values mean the same: the kernel parts its words by tabs.
pub fn is_same_value(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

fn parse_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    line.split_once('=').map(|(k, v)| (k.trim(), v.trim()))
}

/// All parameters of a file.
pub fn parse_config(text: &str) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    text.lines().filter_map(parse_line)
}

/// The file with a parameter set in it.
pub fn set_in_config(text: Option<&str>, name: &str, value: &str) -> String {
    let wanted = format!("{name} = {value}");
    let text = text.unwrap_or(NEW_FILE_HEADER);
    let (edited, found) = text_file::edit_lines(text, |line| {
        let (_, now) = parse_line(line).filter(|(key, _)| *key == name)?;
        Some(if is_same_value(now, value) { line.to_owned() } else { wanted.clone() })
    });
    if found { edited } else { text_file::append_line(text, &wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_kernel() {
        let path = |name: &str| proc_path(name).unwrap();
        assert_eq!(path("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(path("net.ipv4.conf.eth0/1.rp_filter"), "/proc/sys/net/ipv4/conf/eth0.1/rp_filter");
        assert_eq!(path("net/ipv4/conf/eth0.1/rp_filter"), "/proc/sys/net/ipv4/conf/eth0.1/rp_filter");
        assert!(proc_path("kernel/../../etc/passwd").is_err());
        assert!(proc_path("").is_err());
        assert!(is_same_value("4096\t87380 16777216", "4096 87380\t16777216"));
        assert_eq!(
            set_in_config(None, "vm.swappiness", "1"),
            "#\n# Kernel sysctl configuration\n#\nvm.swappiness = 1\n"
        );
        let text = "# vm.swappiness = 9\nvm.swappiness=60\nvm.dirty_ratio = 5";
        assert_eq!(
            set_in_config(Some(text), "vm.swappiness", "1"),
            "# vm.swappiness = 9\nvm.swappiness = 1\nvm.dirty_ratio = 5"
        );
        assert_eq!(set_in_config(Some(text), "vm.swappiness", "60"), text);
        assert_eq!(set_in_config(Some(text), "a", "b"), format!("{text}\na = b\n"));
    }
}
