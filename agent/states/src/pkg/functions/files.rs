//! Which package a file belongs to, which files a package has, and what it says about itself.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{names_arg, single_or_map};
use crate::exec_function::{string_list, text_arg};
use zagent_host::packages;
use zagent_host::{Machine, Tools};

/// The packages that brought files along, by dpkg's file lists or the manager's own answer.
pub(crate) fn file_owners(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut out = Map::new();
    for path in args.rest() {
        let path = path.as_str().ok_or_else(|| FunctionError::bad_arguments("a path is text"))?;
        let provider = packages::select_provider(machine, None)?.provider;
        out.insert(path, provider.file_owner(machine, path)?);
    }
    Ok(single_or_map(out, "".into()))
}

fn files_of(machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
    packages::select_provider(machine, None)?.provider.package_files(machine, name)
}

pub(crate) fn file_list(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for name in names_arg(args)? {
        match files_of(machine, &name)? {
            Some(more) => files.extend(more),
            None => errors.push(format!("package {name} is not installed")),
        }
    }
    files.sort_unstable();
    Ok(Map::from_iter([("errors", string_list(errors)), ("files", string_list(files))]).into())
}

pub(crate) fn file_dict(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (mut files, mut errors) = (Map::new(), Vec::new());
    for name in names_arg(args)? {
        match files_of(machine, &name)? {
            Some(more) => {
                files.insert(name.as_str(), string_list(more));
            }
            None => errors.push(format!("package {name} is not installed")),
        }
    }
    Ok(Map::from_iter([("errors", string_list(errors)), ("packages", files.into())]).into())
}

/// What dpkg's status file says about packages, by Salt's names of the fields.
pub(crate) fn info_installed(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    const FIELDS: [(&str, &str); 11] = [
        ("Version", "version"),
        ("Architecture", "arch"),
        ("Section", "group"),
        ("Source", "source"),
        ("Homepage", "url"),
        ("Maintainer", "packager"),
        ("Installed-Size", "size"),
        ("Description", "summary"),
        ("Priority", "priority"),
        ("Multi-Arch", "multi_arch"),
        ("Essential", "essential"),
    ];
    let status = machine.read("/var/lib/dpkg/status")?;
    let status = status.ok_or_else(|| FunctionError::failed("only dpkg tells this here"))?;
    let wanted = names_arg(args)?;
    let mut out = Map::new();
    for paragraph in status.split("\n\n") {
        let field =
            |key: &str| paragraph.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
        let is_whole = field("Status").is_some_and(|s| s.ends_with(" installed"));
        let Some(name) =
            field("Package").filter(|n| is_whole && (wanted.is_empty() || wanted.iter().any(|w| w == n)))
        else {
            continue;
        };
        let mut info = Map::new();
        for (key, shown) in FIELDS {
            if let Some(value) = field(key) {
                info.insert(shown, value);
            }
        }
        out.insert(name, info);
    }
    Ok(out.into())
}

/// The name and version in a package file.
pub(crate) fn bin_pkg_info(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (path, tools) = (text_arg(args, "path")?, Tools::new(machine));
    let output = if tools.which("dpkg-deb").is_some() {
        tools.run_query(
            "dpkg-deb",
            &["-W", "--showformat=${Package}\\n${Version}\\n${Architecture}\\n", path],
        )?
    } else {
        let format = "%{NAME}\\n%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\n%{ARCH}\\n";
        tools.run_query("rpm", &["-qp", "--qf", format, path])?
    };
    let lines: Vec<&str> = output.stdout.lines().collect();
    let [name, version, arch] = lines[..] else {
        return Err(FunctionError::failed(format!("cannot read the package `{path}`: {}", output.message())));
    };
    Ok(Map::from_iter([("name", name), ("version", version), ("arch", arch)]).into())
}

/// Files that are not as their package brought them.
pub fn verify(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names = names_arg(args)?;
    let line = packages::select_provider(machine, None)?.provider.verify_command(&names, &[]);
    let line = line.ok_or_else(|| FunctionError::failed("pkg.verify not implemented"))?;
    let output = packages::run_query_line(&Tools::new(machine), &line)?;
    let mut out = Map::new();
    for line in output.stdout.lines() {
        if let Some(at) = line.find('/') {
            out.insert(&line[at..], line[..at].trim());
        }
    }
    Ok(out.into())
}
