//! Functions of the modules in `states/services`: kernel parameters and modules, mounts, the time zone, locales, the power.

use std::path::Path;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::paths::{DEFAULT_ROOT, Paths};
use zagent_config::{Map, Value};

use super::{ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, string_list, text_arg};
use crate::file::functions::changes;
use crate::kmod::kernel_modules;
use crate::locale::locale_gen as locale;
use crate::mount::mounts;
use crate::mount::mounts::FstabEntry as Line;
use crate::sysctl::parameters as sysctl;
use crate::timezone::zoneinfo as timezone;
use zagent_config::error_chain;
use zagent_host::exec::command_options::value_text;
use zagent_host::fs::{FileMeta, FsError};
use zagent_host::reboot;
use zagent_host::text_file;
use zagent_host::{CommandOutput, Machine, Tools};

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("sysctl.default_config", "", |m, _| Ok(sysctl::default_config(m).into())),
    query_fn("sysctl.show", "config_file?", sysctl_show),
    change_fn("sysctl.assign", "name value", |m, a| {
        let (name, value) = (text_arg(a, "name")?, arg_text(a, "value"));
        sysctl::set_live_value(m, name, &value)?;
        Ok(Map::from_iter([(name, sysctl::live_value(m, name)?.unwrap_or_default())]).into())
    }),
    change_fn("sysctl.persist", "name value config?", sysctl_persist),
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
    query_fn("timezone.zone_compare", "timezone", |m, a| {
        let now = timezone::current_zone(&m.disk(None)).map_err(fs_error)?;
        Ok((now.as_deref() == Some(text_arg(a, "timezone")?)).into())
    }),
    query_fn("timezone.get_hwclock", "", |m, _| {
        let local = timezone::is_hwclock_local(&m.disk(None)).map_err(fs_error)?;
        Ok(if local { "localtime" } else { "UTC" }.into())
    }),
    change_fn("timezone.set_zone", "timezone", set_timezone),
    query_fn("locale.list_avail", "", |m, _| Ok(string_list(locale::list_locales(&Tools::new(m))?))),
    query_fn("locale.avail", "locale", |m, a| {
        Ok(locale::is_available(&Tools::new(m), text_arg(a, "locale")?)?.into())
    }),
    change_fn("locale.gen_locale", "locale **", |m, a| {
        let (disk, name) = (m.disk(None), text_arg(a, "locale")?);
        if locale::enable_locale(&disk, name).map_err(fs_error)?.is_none() {
            return Ok(false.into());
        }
        Ok(locale::generate_locale(&Tools::new(m), name)?.is_success().into())
    }),
    change_fn("locale.set_locale", "locale", |m, a| {
        let (disk, config) = (m.disk(None), locale::lang_config_path(is_debian(m).then_some("Debian")));
        let now = text_file::read_text(&disk, config).map_err(fs_error)?.unwrap_or_default();
        text_file::write_text(&disk, config, &locale::set_lang(&now, text_arg(a, "locale")?))
            .map_err(fs_error)?;
        Ok(true.into())
    }),
    change_fn(
        "mount.set_fstab",
        "name device fstype opts? dump? pass_num? config? test? match_on? not_change? **",
        set_fstab,
    ),
    change_fn("mount.rm_fstab", "name device? config?", |m, a| {
        let (disk, config) = (m.disk(None), fstab_path(a));
        let now = text_file::read_text(&disk, config).map_err(fs_error)?.unwrap_or_default();
        let (new, found) =
            mounts::remove_fstab_entry(&now, text_arg(a, "name")?, optional_text_arg(a, "device"));
        if found {
            text_file::write_text(&disk, config, &new).map_err(fs_error)?;
        }
        Ok(true.into())
    }),
    change_fn("mount.mount", "name device? mkmnt? fstype? opts? user? util?", |m, a| run_mount(m, a, false)),
    change_fn("mount.remount", "name device mkmnt? fstype? opts? user?", |m, a| {
        let is_mounted = mounts::find_mounted(m, text_arg(a, "name")?)?.is_some();
        run_mount(m, a, is_mounted)
    }),
    change_fn("mount.umount", "name device? user? util? lazy?", |m, a| {
        let name = text_arg(a, "name")?;
        if mounts::find_mounted(m, name)?.is_none() {
            return Ok(format!("{name} does not have anything mounted").into());
        }
        let mut args = vec!["--", optional_text_arg(a, "device").unwrap_or(name)];
        if flag_arg(a, "lazy", false) {
            args.insert(0, "-l");
        }
        Ok(true_or_message(&Tools::new(m).run_change("umount", &args)?))
    }),
    change_fn("mount.swapon", "name priority?", |m, a| {
        let (name, mut out) = (text_arg(a, "name")?, Map::new());
        let is_new = !mounts::list_swaps(m)?.contains(name);
        if is_new {
            Tools::new(m).run_checked("swapon", &["--", name])?;
        }
        out.insert("stats", mounts::list_swaps(m)?.get(name).cloned().unwrap_or_default());
        out.insert("new", is_new);
        Ok(out.into())
    }),
    change_fn("mount.swapoff", "name", |m, a| {
        let name = text_arg(a, "name")?;
        if !mounts::list_swaps(m)?.contains(name) {
            return Ok(Value::Null);
        }
        Ok(Tools::new(m).run_change("swapoff", &["--", name])?.is_success().into())
    }),
    change_fn("system.reboot", "at_time?", |m, a| shut_down(m, a, "-r")),
    change_fn("system.shutdown", "at_time?", |m, a| shut_down(m, a, "-h")),
    change_fn("system.poweroff", "", |m, a| shut_down(m, a, "-P")),
    change_fn("system.halt", "", |m, a| shut_down(m, a, "-H")),
];

fn fs_error(error: FsError) -> FunctionError {
    FunctionError::failed(error_chain(&error))
}

/// An argument as text, also a number.
fn arg_text(args: &FunctionArgs<Value>, name: &str) -> String {
    args.get(name).map(value_text).unwrap_or_default()
}

/// What Salt says of a program: true, or its complaint.
fn true_or_message(output: &CommandOutput) -> Value {
    if output.is_success() { true.into() } else { output.message().into() }
}

fn is_debian(machine: &Machine) -> bool {
    machine.exists("/etc/debian_version")
}

fn kmod_config(machine: &Machine) -> &'static str {
    let systemd = machine.which("systemctl").is_some() && machine.which("localectl").is_some();
    kernel_modules::boot_config_path(Some(&systemd.into()))
}

fn fstab_path(args: &FunctionArgs<Value>) -> &str {
    optional_text_arg(args, "config").unwrap_or("/etc/fstab")
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

/// Loads or removes a module; the names of all that came or went.
fn load_or_remove(machine: &Machine, args: &FunctionArgs<Value>, on: bool) -> Result<Value, FunctionError> {
    let name = text_arg(args, "mod")?;
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

fn set_timezone(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, name) = (machine.disk(None), text_arg(args, "timezone")?);
    let file = timezone::zone_file(&disk, name).map_err(fs_error)?;
    let file = file
        .ok_or_else(|| FunctionError::failed(format!("Zone does not exist: /usr/share/zoneinfo/{name}")))?;
    timezone::set_zone(&disk, &file, name, is_debian(machine)).map_err(fs_error)?;
    Ok(true.into())
}

/// Options as one text, given as a text or a list.
fn options_arg(args: &FunctionArgs<Value>) -> String {
    match args.get("opts") {
        Some(Value::List(list)) => list.iter().map(value_text).collect::<Vec<_>>().join(","),
        Some(Value::Null) | None => "defaults".into(),
        Some(other) => value_text(other),
    }
}

fn set_fstab(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let number = |name| args.get(name).map_or_else(|| "0".to_owned(), value_text);
    let line = Line {
        device: text_arg(args, "device")?.to_owned(),
        name: text_arg(args, "name")?.to_owned(),
        fstype: text_arg(args, "fstype")?.to_owned(),
        opts: options_arg(args),
        dump: number("dump"),
        pass_num: number("pass_num"),
    };
    let match_on: Vec<String> = match args.get("match_on") {
        Some(Value::List(list)) => list.iter().map(value_text).collect(),
        Some(Value::Str(one)) => vec![one.to_string()],
        _ => Vec::new(),
    };
    let (disk, config) = (machine.disk(None), fstab_path(args));
    let now = text_file::read_text(&disk, config).map_err(fs_error)?;
    let now = now.ok_or_else(|| FunctionError::failed(format!("Bad config file \"{config}\"")))?;
    let (new, kept) = mounts::set_fstab_entry(&now, &line, &match_on, flag_arg(args, "not_change", false))?;
    if new != now && !flag_arg(args, "test", false) {
        text_file::write_text(&disk, config, &new).map_err(fs_error)?;
    }
    Ok(kept.salt_word().into())
}

fn run_mount(machine: &Machine, args: &FunctionArgs<Value>, again: bool) -> Result<Value, FunctionError> {
    let (name, mut opts) = (text_arg(args, "name")?, options_arg(args));
    if flag_arg(args, "mkmnt", false) && !machine.exists(name) {
        changes::create_directory(&machine.disk(None), Path::new(name), FileMeta::default())?;
    }
    if again {
        opts.push_str(",remount");
    }
    let mut words = vec!["-o", &opts];
    if let Some(fstype) = optional_text_arg(args, "fstype").filter(|f| !f.is_empty()) {
        words.extend(["-t", fstype]);
    }
    match optional_text_arg(args, "device") {
        Some(device) => words.extend(["--", device, name]),
        None => words = vec!["--", name],
    }
    Ok(true_or_message(&Tools::new(machine).run_change("mount", &words)?))
}

/// True when this process belongs to the agent's own unit, whose settings say when the host may reboot.
fn is_agent_unit() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|l| l.ends_with("/zagent.service"))
}

/// Shuts the host down; at a time in minutes from now, or at once. The agent itself only asks for a reboot.
fn shut_down(machine: &Machine, args: &FunctionArgs<Value>, how: &str) -> Result<Value, FunctionError> {
    if how == "-r" && machine.is_this_host() && is_agent_unit() {
        let (paths, host) = (Paths::new(DEFAULT_ROOT), reboot::RebootHost::default());
        reboot::request_reboot(&paths, &host, "`system.reboot` asked for it", jiff::Timestamp::now())
            .map_err(|e| FunctionError::failed(error_chain(&e)))?;
        return Ok("a reboot is asked for; it comes as the settings allow".into());
    }
    let at = match args.get("at_time") {
        None | Some(Value::Null) => "now".to_owned(),
        Some(time) => match value_text(time) {
            minutes if minutes.bytes().all(|b| b.is_ascii_digit()) => format!("+{minutes}"),
            other => other,
        },
    };
    let output = Tools::new(machine).run_checked("shutdown", &[how, &at])?;
    Ok(output.message().into())
}
