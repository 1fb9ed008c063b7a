//! `sysctl.*`: parameters of the kernel, now and after a boot.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, change_fn, fs_error, optional_text_arg, query_fn, text_arg};
use crate::sysctl::parameters as sysctl;
use zagent_host::command_options::value_text;
use zagent_host::text_file;
use zagent_host::{Machine, Tools};

/// The execution functions of `sysctl`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("sysctl.default_config", "", |m, _| Ok(sysctl::default_config(m).into())),
    query_fn("sysctl.show", "config_file?", sysctl_show),
    change_fn("sysctl.assign", "name value", |m, a| {
        let (name, value) = (text_arg(a, "name")?, arg_text(a, "value"));
        sysctl::set_live_value(m, name, &value)?;
        Ok(Map::from_iter([(name, sysctl::live_value(m, name)?.unwrap_or_default())]).into())
    }),
    change_fn("sysctl.persist", "name value config?", sysctl_persist),
    query_fn("sysctl.get", "name", sysctl_value),
];

/// An argument as text, also a number.
fn arg_text(args: &FunctionArgs<Value>, name: &str) -> String {
    args.get(name).map(value_text).unwrap_or_default()
}

fn sysctl_show(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    if let Some(path) = optional_text_arg(args, "config_file") {
        let file = machine.read(path)?.unwrap_or_default();
        return Ok(sysctl::parse_config(&file).collect::<Map>().into());
    }
    let output = Tools::new(machine).run_query("sysctl", &["-a"])?;
    Ok(output.stdout.lines().filter_map(|l| l.split_once(" = ")).collect::<Map>().into())
}

fn sysctl_persist(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (name, value) = (text_arg(args, "name")?, arg_text(args, "value"));
    let config = optional_text_arg(args, "config").unwrap_or_else(|| sysctl::default_config(machine));
    let disk = machine.disk(None);
    let now = text_file::read_text(&disk, config).map_err(fs_error)?;
    let new = sysctl::set_in_config(now.as_deref(), name, &value);
    let live = sysctl::live_value(machine, name)?.is_some_and(|v| sysctl::is_same_value(&v, &value));
    if live && now.as_ref() == Some(&new) {
        return Ok("Already set".into());
    }
    sysctl::set_live_value(machine, name, &value)?;
    text_file::write_text(&disk, config, &new).map_err(fs_error)?;
    Ok("Updated".into())
}

/// A setting of the kernel; `.` and `/` both part its name.
fn sysctl_value(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "name")?;
    match sysctl::live_value(machine, name)? {
        Some(value) => Ok(value.into()),
        None => {
            let path = sysctl::proc_path(name)?;
            Ok(format!("sysctl: cannot stat {path}: No such file or directory").into())
        }
    }
}
