//! `kmod.*`: modules of the kernel.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, change_fn, flag_arg, fs_error, query_fn, string_list, text_arg};
use crate::kmod::kernel_modules;
use zagent_host::text_file;
use zagent_host::{Machine, Tools};

/// The execution functions of `kmod`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("kmod.available", "", |m, _| Ok(string_list(kernel_modules::list_available(m)?))),
    query_fn("kmod.check_available", "mod", |m, a| {
        Ok(kernel_modules::list_available(m)?
            .contains(&kernel_modules::normalize_name(text_arg(a, "mod")?))
            .into())
    }),
    query_fn("kmod.mod_list", "only_persist?", |m, a| {
        let mut names = if flag_arg(a, "only_persist", false) {
            kernel_modules::boot_modules(&m.disk(None), kmod_config(m)).map_err(fs_error)?
        } else {
            kernel_modules::list_loaded(m)?
        };
        names.sort_unstable();
        Ok(string_list(names))
    }),
    change_fn("kmod.load", "mod persist?", |m, a| load_or_remove(m, a, true)),
    change_fn("kmod.remove", "mod persist? comment?", |m, a| load_or_remove(m, a, false)),
    query_fn("kmod.lsmod", "", |m, _| {
        read_proc_modules(m).map(|all| all.into_iter().map(module_to_value).collect())
    }),
    query_fn("kmod.is_loaded", "mod", |m, a| {
        let name = text_arg(a, "mod")?.replace('-', "_");
        Ok(read_proc_modules(m)?.iter().any(|l| l.split(' ').next() == Some(&name)).into())
    }),
];

fn read_proc_modules(machine: &Machine) -> Result<Vec<String>, FunctionError> {
    let file = machine.read("/proc/modules")?.unwrap_or_default();
    Ok(file.lines().map(str::to_owned).collect())
}

fn module_to_value(line: String) -> Value {
    let f: Vec<&str> = line.split(' ').collect();
    let field = |i: usize| f.get(i).copied().unwrap_or_default();
    let mut out = Map::new();
    out.insert("module", field(0));
    out.insert("size", field(1));
    out.insert("depcount", field(2));
    out.insert("deps", string_list(field(3).split(',').filter(|d| !d.is_empty() && *d != "-")));
    out.into()
}

fn kmod_config(machine: &Machine) -> &'static str {
    let systemd = machine.which("systemctl").is_some() && machine.which("localectl").is_some();
    kernel_modules::boot_config_path(Some(&systemd.into()))
}

/// Loads or removes a module; the names of all that came or went.
fn load_or_remove(machine: &Machine, args: &FunctionArgs<Value>, on: bool) -> Result<Value, FunctionError> {
    let name = text_arg(args, "mod")?;
    kernel_modules::check_kernel(machine)?;
    let before = kernel_modules::list_loaded(machine)?;
    let output = Tools::new(machine).run_change(if on { "modprobe" } else { "rmmod" }, &["--", name])?;
    if !output.is_success() {
        let verb = if on { "loading" } else { "removing" };
        return Ok(format!("Error {verb} module {name}: {}", output.message()).into());
    }
    let after = kernel_modules::list_loaded(machine)?;
    let (more, less) = if on { (&after, &before) } else { (&before, &after) };
    let mut changed: Vec<String> = more.iter().filter(|m| !less.contains(m)).cloned().collect();
    if flag_arg(args, "persist", false) {
        let (disk, config) = (machine.disk(None), kmod_config(machine));
        let now = text_file::read_text(&disk, config).map_err(fs_error)?.unwrap_or_default();
        let is_kept = kernel_modules::boot_modules(&disk, config)
            .map_err(fs_error)?
            .contains(&kernel_modules::normalize_name(name));
        if is_kept != on {
            let comment = flag_arg(args, "comment", true);
            let new = if on {
                kernel_modules::add_boot_module(&now, name)
            } else {
                kernel_modules::remove_boot_module(&now, name, comment)
            };
            text_file::write_text(&disk, config, &new).map_err(fs_error)?;
            changed.push(name.to_owned());
        }
    }
    changed.sort_unstable();
    changed.dedup();
    Ok(string_list(changed))
}
