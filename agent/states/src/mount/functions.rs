//! `mount.*`: what is mounted now and what after a boot, and changes of both.

use std::path::Path;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, change_fn, flag_arg, fs_error, optional_text_arg, query_fn, string_list, text_arg,
};
use crate::file::functions::changes::create_directory;
use crate::mount::mounts;
use crate::mount::mounts::FstabEntry;
use zagent_host::command_options::value_text;
use zagent_host::fs::FileMeta;
use zagent_host::text_file;
use zagent_host::{CommandOutput, Machine, Tools};

/// The execution functions of `mount`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("mount.active", "extended?", |m, _| {
        Ok(read_proc_mounts(m)?.iter().map(|x| (x.point.as_str(), mount_to_value(x))).collect::<Map>().into())
    }),
    query_fn("mount.is_mounted", "name", |m, a| {
        let name = text_arg(a, "name")?;
        Ok(read_proc_mounts(m)?.iter().any(|x| x.point == name).into())
    }),
    query_fn("mount.fstab", "config?", fstab_entries),
    query_fn("mount.swaps", "", |m, _| Ok(mounts::list_swaps(m)?.into())),
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
];

/// A line of the kernel's table of mounts.
pub(crate) struct ProcMount {
    pub(crate) device: String,
    pub(crate) point: String,
    fstype: String,
    opts: Vec<String>,
}

/// The kernel writes blanks in names as octal numbers.
fn unescape_octal(name: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(name.to_owned(), |s, (a, b)| s.replace(a, b))
}

/// The kernel's table of mounts.
pub(crate) fn read_proc_mounts(machine: &Machine) -> Result<Vec<ProcMount>, FunctionError> {
    let text = machine.read("/proc/self/mounts")?.unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut f = line.split(' ');
            Some(ProcMount {
                device: unescape_octal(f.next()?),
                point: unescape_octal(f.next()?),
                fstype: f.next()?.to_owned(),
                opts: f.next()?.split(',').map(str::to_owned).collect(),
            })
        })
        .collect())
}

fn mount_to_value(mount: &ProcMount) -> Value {
    let mut out = Map::new();
    out.insert("device", mount.device.as_str());
    out.insert("alt_device", mount.device.as_str());
    out.insert("fstype", mount.fstype.as_str());
    out.insert("opts", string_list(mount.opts.iter().map(String::as_str)));
    out.into()
}

fn fstab_entries(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = args.get("config").and_then(Value::as_str).unwrap_or("/etc/fstab");
    let file = machine.read(path)?.unwrap_or_default();
    let entries = mounts::parse_fstab(&file);
    Ok(entries.map(|e| (e.name.clone(), Value::from(e.to_salt_map()))).collect::<Map>().into())
}

/// What Salt says of a program: true, or its complaint.
fn true_or_message(output: &CommandOutput) -> Value {
    if output.is_success() { true.into() } else { output.message().into() }
}

fn fstab_path(args: &FunctionArgs<Value>) -> &str {
    optional_text_arg(args, "config").unwrap_or("/etc/fstab")
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
    let line = FstabEntry {
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
        create_directory(&machine.disk(None), Path::new(name), FileMeta::default())?;
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
