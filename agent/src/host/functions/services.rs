//! Functions of the modules in `states/services`: kernel parameters and modules, mounts, the time zone, locales, the power.

use std::path::Path;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::paths::{DEFAULT_ROOT, Paths};
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, flag, strings, text, word};
use crate::fs::{Disk, FsError};
use crate::host::command::shown;
use crate::host::services::mounts::{self, Entry as Line};
use crate::host::services::{lines, locales, modules, sysctl, zone};
use crate::host::{Machine, Said, Tools};
use crate::operate::reboot;
use crate::report::chain;

pub(super) const TABLE: &[Entry] = &[
    entry("sysctl.default_config", "", |m, _| Ok(sysctl::default_config(m).into())),
    entry("sysctl.show", "config_file?", sysctl_show),
    acting("sysctl.assign", "name value", |m, a| {
        let (name, value) = (text(a, "name")?, given(a, "value"));
        sysctl::assign(m, name, &value)?;
        Ok(Map::from_iter([(name, sysctl::live(m, name)?.unwrap_or_default())]).into())
    }),
    acting("sysctl.persist", "name value config?", sysctl_persist),
    entry("kmod.available", "", |m, _| Ok(strings(modules::available(m)?))),
    entry("kmod.check_available", "mod", |m, a| {
        Ok(modules::available(m)?.contains(&modules::plain(text(a, "mod")?)).into())
    }),
    entry("kmod.mod_list", "only_persist?", |m, a| {
        let mut names = if flag(a, "only_persist", false) {
            modules::kept(&Disk::default(), kmod_config(m)).map_err(refused)?
        } else {
            modules::loaded(m)?
        };
        names.sort_unstable();
        Ok(strings(names))
    }),
    acting("kmod.load", "mod persist?", |m, a| kmod(m, a, true)),
    acting("kmod.remove", "mod persist? comment?", |m, a| kmod(m, a, false)),
    entry("timezone.zone_compare", "timezone", |_, a| {
        let now = zone::current(&Disk::default()).map_err(refused)?;
        Ok((now.as_deref() == Some(text(a, "timezone")?)).into())
    }),
    entry("timezone.get_hwclock", "", |_, _| {
        let local = zone::is_local(&Disk::default()).map_err(refused)?;
        Ok(if local { "localtime" } else { "UTC" }.into())
    }),
    acting("timezone.set_zone", "timezone", set_zone),
    entry("locale.list_avail", "", |m, _| Ok(strings(locales::list(&Tools::new(m))?))),
    entry("locale.avail", "locale", |m, a| Ok(locales::is_there(&Tools::new(m), text(a, "locale")?)?.into())),
    acting("locale.gen_locale", "locale **", |m, a| {
        let (disk, name) = (Disk::default(), text(a, "locale")?);
        if locales::note(&disk, name).map_err(refused)?.is_none() {
            return Ok(false.into());
        }
        Ok(locales::make(&Tools::new(m), name)?.is_fine().into())
    }),
    acting("locale.set_locale", "locale", |m, a| {
        let (disk, config) = (Disk::default(), locales::config(is_debian(m).then_some("Debian")));
        let now = lines::read(&disk, config).map_err(refused)?.unwrap_or_default();
        lines::write(&disk, config, &locales::with_lang(&now, text(a, "locale")?)).map_err(refused)?;
        Ok(true.into())
    }),
    acting(
        "mount.set_fstab",
        "name device fstype opts? dump? pass_num? config? test? match_on? not_change? **",
        set_fstab,
    ),
    acting("mount.rm_fstab", "name device? config?", |_, a| {
        let (disk, config) = (Disk::default(), fstab(a));
        let now = lines::read(&disk, config).map_err(refused)?.unwrap_or_default();
        let (new, found) = mounts::removed(&now, text(a, "name")?, word(a, "device"));
        if found {
            lines::write(&disk, config, &new).map_err(refused)?;
        }
        Ok(true.into())
    }),
    acting("mount.mount", "name device? mkmnt? fstype? opts? user? util?", |m, a| mount(m, a, false)),
    acting("mount.remount", "name device mkmnt? fstype? opts? user?", |m, a| {
        let is_mounted = mounts::at(m, text(a, "name")?)?.is_some();
        mount(m, a, is_mounted)
    }),
    acting("mount.umount", "name device? user? util? lazy?", |m, a| {
        let name = text(a, "name")?;
        if mounts::at(m, name)?.is_none() {
            return Ok(format!("{name} does not have anything mounted").into());
        }
        let mut args = vec!["--", word(a, "device").unwrap_or(name)];
        if flag(a, "lazy", false) {
            args.insert(0, "-l");
        }
        Ok(answer(&Tools::new(m).tell("umount", &args)?))
    }),
    acting("mount.swapon", "name priority?", |m, a| {
        let (name, mut out) = (text(a, "name")?, Map::new());
        let is_new = !mounts::swaps(m)?.contains(name);
        if is_new {
            Tools::new(m).must("swapon", &["--", name])?;
        }
        out.insert("stats", mounts::swaps(m)?.get(name).cloned().unwrap_or_default());
        out.insert("new", is_new);
        Ok(out.into())
    }),
    acting("mount.swapoff", "name", |m, a| {
        let name = text(a, "name")?;
        if !mounts::swaps(m)?.contains(name) {
            return Ok(Value::Null);
        }
        Ok(Tools::new(m).tell("swapoff", &["--", name])?.is_fine().into())
    }),
    acting("system.reboot", "at_time?", |m, a| power(m, a, "-r")),
    acting("system.shutdown", "at_time?", |m, a| power(m, a, "-h")),
    acting("system.poweroff", "", |m, a| power(m, a, "-P")),
    acting("system.halt", "", |m, a| power(m, a, "-H")),
];

fn refused(error: FsError) -> Refusal {
    Refusal::failed(chain(&error))
}

/// An argument as text, also a number.
fn given(args: &Bound<Value>, name: &str) -> String {
    args.get(name).map(shown).unwrap_or_default()
}

/// What Salt says of a program: true, or its complaint.
fn answer(said: &Said) -> Value {
    if said.is_fine() { true.into() } else { said.words().into() }
}

fn is_debian(machine: &Machine) -> bool {
    machine.path("/etc/debian_version").exists()
}

fn kmod_config(machine: &Machine) -> &'static str {
    let systemd = machine.which("systemctl").is_some() && machine.which("localectl").is_some();
    modules::config(Some(&systemd.into()))
}

fn fstab(args: &Bound<Value>) -> &str {
    word(args, "config").unwrap_or("/etc/fstab")
}

fn sysctl_show(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    if let Some(path) = word(args, "config_file") {
        let file = machine.read(path)?.unwrap_or_default();
        return Ok(sysctl::configured(&file).collect::<Map>().into());
    }
    let said = Tools::new(machine).ask("sysctl", &["-a"])?;
    Ok(said.out.lines().filter_map(|l| l.split_once(" = ")).collect::<Map>().into())
}

fn sysctl_persist(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (name, value) = (text(args, "name")?, given(args, "value"));
    let config = word(args, "config").unwrap_or_else(|| sysctl::default_config(machine));
    let disk = Disk::default();
    let now = lines::read(&disk, config).map_err(refused)?;
    let new = sysctl::edited(now.as_deref(), name, &value);
    let live = sysctl::live(machine, name)?.is_some_and(|v| sysctl::is_same(&v, &value));
    if live && now.as_ref() == Some(&new) {
        return Ok("Already set".into());
    }
    sysctl::assign(machine, name, &value)?;
    lines::write(&disk, config, &new).map_err(refused)?;
    Ok("Updated".into())
}

/// Loads or removes a module; the names of all that came or went.
fn kmod(machine: &Machine, args: &Bound<Value>, on: bool) -> Result<Value, Refusal> {
    let name = text(args, "mod")?;
    let before = modules::loaded(machine)?;
    let said = Tools::new(machine).tell(if on { "modprobe" } else { "rmmod" }, &["--", name])?;
    if !said.is_fine() {
        let verb = if on { "loading" } else { "removing" };
        return Ok(format!("Error {verb} module {name}: {}", said.words()).into());
    }
    let after = modules::loaded(machine)?;
    let (more, less) = if on { (&after, &before) } else { (&before, &after) };
    let mut changed: Vec<String> = more.iter().filter(|m| !less.contains(m)).cloned().collect();
    if flag(args, "persist", false) {
        let (disk, config) = (Disk::default(), kmod_config(machine));
        let now = lines::read(&disk, config).map_err(refused)?.unwrap_or_default();
        let is_kept = modules::kept(&disk, config).map_err(refused)?.contains(&modules::plain(name));
        if is_kept != on {
            let comment = flag(args, "comment", true);
            let new = if on { modules::with(&now, name) } else { modules::without(&now, name, comment) };
            lines::write(&disk, config, &new).map_err(refused)?;
            changed.push(name.to_owned());
        }
    }
    changed.sort_unstable();
    changed.dedup();
    Ok(strings(changed))
}

fn set_zone(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (disk, name) = (Disk::default(), text(args, "timezone")?);
    let file = zone::file(&disk, name).map_err(refused)?;
    let file =
        file.ok_or_else(|| Refusal::failed(format!("Zone does not exist: /usr/share/zoneinfo/{name}")))?;
    zone::set(&disk, &file, name, is_debian(machine)).map_err(refused)?;
    Ok(true.into())
}

/// Options as one text, given as a text or a list.
fn options(args: &Bound<Value>) -> String {
    match args.get("opts") {
        Some(Value::List(list)) => list.iter().map(shown).collect::<Vec<_>>().join(","),
        Some(Value::Null) | None => "defaults".into(),
        Some(other) => shown(other),
    }
}

fn set_fstab(_: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let number = |name| args.get(name).map_or_else(|| "0".to_owned(), shown);
    let line = Line {
        device: text(args, "device")?.to_owned(),
        name: text(args, "name")?.to_owned(),
        fstype: text(args, "fstype")?.to_owned(),
        opts: options(args),
        dump: number("dump"),
        pass_num: number("pass_num"),
    };
    let match_on: Vec<String> = match args.get("match_on") {
        Some(Value::List(list)) => list.iter().map(shown).collect(),
        Some(Value::Str(one)) => vec![one.to_string()],
        _ => Vec::new(),
    };
    let (disk, config) = (Disk::default(), fstab(args));
    let now = lines::read(&disk, config).map_err(refused)?;
    let now = now.ok_or_else(|| Refusal::failed(format!("Bad config file \"{config}\"")))?;
    let (new, kept) = mounts::set(&now, &line, &match_on, flag(args, "not_change", false))?;
    if new != now && !flag(args, "test", false) {
        lines::write(&disk, config, &new).map_err(refused)?;
    }
    Ok(kept.word().into())
}

fn mount(machine: &Machine, args: &Bound<Value>, again: bool) -> Result<Value, Refusal> {
    let (name, mut opts) = (text(args, "name")?, options(args));
    if flag(args, "mkmnt", false) && !Path::new(name).exists() {
        std::fs::create_dir_all(name).map_err(|e| crate::host::ask::cannot("make", name, &e))?;
    }
    if again {
        opts.push_str(",remount");
    }
    let mut words = vec!["-o", &opts];
    if let Some(fstype) = word(args, "fstype").filter(|f| !f.is_empty()) {
        words.extend(["-t", fstype]);
    }
    match word(args, "device") {
        Some(device) => words.extend(["--", device, name]),
        None => words = vec!["--", name],
    }
    Ok(answer(&Tools::new(machine).tell("mount", &words)?))
}

/// True when this process belongs to the agent's own unit, whose settings say when the host may reboot.
fn is_managed() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|l| l.ends_with("/zagent.service"))
}

/// Shuts the host down; at a time in minutes from now, or at once. The agent itself only asks for a reboot.
fn power(machine: &Machine, args: &Bound<Value>, how: &str) -> Result<Value, Refusal> {
    if how == "-r" && is_managed() {
        let (paths, host) = (Paths::new(DEFAULT_ROOT), reboot::Host::default());
        reboot::ask(&paths, &host, "`system.reboot` asked for it", jiff::Timestamp::now())
            .map_err(|e| Refusal::failed(chain(&e)))?;
        return Ok("a reboot is asked for; it comes as the settings allow".into());
    }
    let at = match args.get("at_time") {
        None | Some(Value::Null) => "now".to_owned(),
        Some(time) => match shown(time) {
            minutes if minutes.bytes().all(|b| b.is_ascii_digit()) => format!("+{minutes}"),
            other => other,
        },
    };
    let said = Tools::new(machine).must("shutdown", &[how, &at])?;
    Ok(said.words().into())
}
