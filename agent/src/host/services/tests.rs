use super::systemd::{UnitProperties, parse_boot_state, parse_unit_files};
use super::*;

#[test]
fn what_systemctl_shows() {
    let shown = |text: &str| UnitProperties(text).to_status();
    assert_eq!(shown("LoadState=not-found\nActiveState=inactive\n"), None);
    let active = shown("Type=notify\nLoadState=loaded\nActiveState=active\nSubState=running\n").unwrap();
    assert!(active.is_running && !active.is_restart_looping && !active.is_oneshot);
    let looping =
        shown("Type=simple\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n").unwrap();
    assert!(!looping.is_running && looping.is_restart_looping);
    let brief = "Type=oneshot\nLoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\n";
    assert!(!shown(brief).unwrap().has_completed);
    assert!(shown(&format!("{brief}ExecMainExitTimestampMonotonic=7\n")).unwrap().has_completed);
}

#[test]
fn what_starts_with_the_host() {
    for (word, wanted) in [
        ("enabled\n", BootState::Enabled),
        ("enabled-runtime\n", BootState::Enabled),
        ("static\n", BootState::Static),
        ("indirect\n", BootState::Static),
        ("disabled\n", BootState::Disabled),
        ("masked\n", BootState::Disabled),
        ("", BootState::Disabled),
    ] {
        assert_eq!(parse_boot_state(word), wanted, "{word}");
    }
}

#[test]
fn what_units_are_listed() {
    let out = "apt-daily.timer       enabled  enabled\nssh.service  enabled enabled\n\
               ● broken.service not-found failed failed broken\ndev-sda.device loaded active plugged x\n";
    let rows: Vec<_> = parse_unit_files(out).collect();
    assert_eq!(rows, [("apt-daily.timer", "enabled"), ("ssh", "enabled"), ("broken", "not-found")]);
}

fn write(dir: &std::path::Path, path: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_drop_in_that_systemd_has_not_read_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::at(root.path());
    let is_new = |name: &str, read: &str| unit_files::has_unread_dropin(&machine, name, read);
    assert!(!is_new("web", ""));
    write(root.path(), "etc/systemd/system/web.service.d/empty.conf", "");
    write(root.path(), "etc/systemd/system/web.service.d/note.txt", "x");
    assert!(!is_new("web", ""));
    write(root.path(), "etc/systemd/system/web.service.d/limit.conf", "[Service]\n");
    assert!(is_new("web", "") && is_new("web.service", "/etc/systemd/system/web.service.d/other.conf"));
    assert!(!is_new("web", "/etc/systemd/system/web.service.d/limit.conf") && !is_new("web.timer", ""));
    write(root.path(), "run/systemd/system/getty@.service.d/x.conf", "[Service]\n");
    assert!(is_new("getty@tty1", "") && !is_new("getty@tty1", "/run/systemd/system/getty@.service.d/x.conf"));
    write(root.path(), "etc/systemd/system/timer.d/all.conf", "[Timer]\n");
    assert!(is_new("web.timer", ""));
}

#[test]
fn services_of_other_managers() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "etc/init.d/nginx", "#!/sbin/openrc-run\n");
    write(dir.path(), "etc/init.d/idle", "#!/sbin/openrc-run\n");
    write(dir.path(), "etc/runlevels/default/nginx", "");
    write(dir.path(), "etc/rc3.d/S01idle", "");
    let machine = Machine::at(dir.path());
    let boot = |provider: &str, name: &str| {
        select_provider(Tools::new(&machine), Some(provider)).unwrap().boot_state(name).unwrap()
    };
    assert_eq!(boot("gentoo_service", "nginx"), BootState::Enabled);
    assert_eq!(boot("openrc", "idle"), BootState::Disabled);
    assert_eq!(boot("debian_service", "idle"), BootState::Enabled);
    assert_eq!(boot("sysv", "nginx"), BootState::Disabled);
    let all = select_provider(Tools::new(&machine), Some("sysv")).unwrap();
    assert_eq!(all.list_by_boot("disabled").unwrap(), ["nginx"]);
    assert!(select_provider(Tools::new(&machine), Some("launchd")).is_err());
}

#[test]
fn who_manages_the_services() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::at(root.path());
    write(root.path(), "usr/bin/systemctl", "");
    assert_eq!(detect_init_system(&machine), InitSystem::Systemd);
    // systemd may be there and not run: process 1 has the last word.
    write(root.path(), "proc/1/comm", "systemd\n");
    assert_eq!(detect_init_system(&machine), InitSystem::Systemd);
    write(root.path(), "proc/1/comm", "init\n");
    assert_eq!(detect_init_system(&machine), InitSystem::SysV);
    write(root.path(), "usr/sbin/rc-service", "");
    assert_eq!(detect_init_system(&machine), InitSystem::OpenRc);
    for name in ["rc", "rcS", "skeleton", "README", "web"] {
        write(root.path(), &format!("etc/init.d/{name}"), "");
    }
    assert_eq!(unit_files::list_init_scripts(&machine), ["web"]);
}

#[test]
fn names_of_units() {
    assert_eq!(unit_files::unit_name("ssh"), "ssh.service");
    assert_eq!(unit_files::unit_name("backup.timer"), "backup.timer");
    assert_eq!(unit_files::unit_name("php8.2-fpm"), "php8.2-fpm.service");
    assert_eq!(unit_files::template_name("getty@tty1.service").as_deref(), Some("getty@.service"));
    assert_eq!(unit_files::template_name("ssh.service"), None);
}

#[test]
fn parameters_of_the_kernel() {
    let path = |name: &str| sysctl::proc_path(name).unwrap();
    assert_eq!(path("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
    assert_eq!(path("net.ipv4.conf.eth0/1.rp_filter"), "/proc/sys/net/ipv4/conf/eth0.1/rp_filter");
    assert_eq!(path("net/ipv4/conf/eth0.1/rp_filter"), "/proc/sys/net/ipv4/conf/eth0.1/rp_filter");
    assert!(sysctl::proc_path("kernel/../../etc/passwd").is_err());
    assert!(sysctl::proc_path("").is_err());
    assert!(sysctl::is_same_value("4096\t87380 16777216", "4096 87380\t16777216"));
    assert_eq!(
        sysctl::set_in_config(None, "vm.swappiness", "1"),
        "#\n# Kernel sysctl configuration\n#\nvm.swappiness = 1\n"
    );
    let text = "# vm.swappiness = 9\nvm.swappiness=60\nvm.dirty_ratio = 5";
    assert_eq!(
        sysctl::set_in_config(Some(text), "vm.swappiness", "1"),
        "# vm.swappiness = 9\nvm.swappiness = 1\nvm.dirty_ratio = 5"
    );
    assert_eq!(sysctl::set_in_config(Some(text), "vm.swappiness", "60"), text);
    assert_eq!(sysctl::set_in_config(Some(text), "a", "b"), format!("{text}\na = b\n"));
}

#[test]
fn files_of_modules() {
    assert_eq!(
        kernel_modules::add_boot_module("loop\n#  br_netfilter\n", "br-netfilter"),
        "loop\nbr_netfilter\n"
    );
    assert_eq!(kernel_modules::add_boot_module("loop", "dummy"), "loop\ndummy\n");
    assert_eq!(
        kernel_modules::remove_boot_module("loop\nbr_netfilter\n", "br-netfilter", true),
        "loop\n#br_netfilter\n"
    );
    assert_eq!(kernel_modules::remove_boot_module("loop\nbr_netfilter\n", "br_netfilter", false), "loop\n");
}

#[test]
fn locales_by_name() {
    assert_eq!(locale::normalize_locale("de_DE.UTF-8"), "de_DE.utf8");
    assert_eq!(locale::normalize_locale("de_DE@euro ISO-8859-15"), "de_DE@euro");
    assert_eq!(locale::parse_lang("# x\nLANG=\"C.UTF-8\"\n"), Some("C.UTF-8"));
    assert_eq!(locale::set_lang("LC_ALL=C\nLANG=C\n", "de_DE.UTF-8"), "LC_ALL=C\nLANG=de_DE.UTF-8\n");
    assert_eq!(locale::set_lang("", "C"), "LANG=C\n");
}

#[test]
fn what_is_mounted() {
    let line = "36 35 98:0 /mnt1 /my\\040disk rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
    let mount = mounts::parse_mountinfo_line(line).unwrap();
    assert_eq!(
        (mount.point.as_str(), mount.device.as_str(), mount.fstype.as_str()),
        ("/my disk", "/dev/root", "ext3")
    );
    assert_eq!(
        (mount.opts.join(","), mount.superopts.join(",")),
        ("rw,noatime".into(), "rw,errors=continue".into())
    );
}

fn entry(device: &str, name: &str, fstype: &str, opts: &str) -> mounts::FstabEntry {
    let [device, name, fstype, opts] = [device, name, fstype, opts].map(str::to_owned);
    mounts::FstabEntry { device, name, fstype, opts, dump: "0".into(), pass_num: "0".into() }
}

#[test]
fn lines_of_the_table_of_file_systems() {
    use mounts::FstabChange;
    let text = "# a remark\nUUID=1 /   ext4 errors=remount-ro 0 1\ntmpfs  /tmp tmpfs  nosuid,noexec 0 0";
    let set = |entry: &mounts::FstabEntry| mounts::set_fstab_entry(text, entry, &[], false).unwrap();
    assert_eq!(
        set(&entry("tmpfs", "/tmp", "tmpfs", "noexec,nosuid")),
        (text.to_owned(), FstabChange::Present)
    );
    let (changed, kept) = set(&entry("tmpfs", "/tmp", "tmpfs", "ro"));
    assert_eq!(kept, FstabChange::Change);
    assert_eq!(changed, "# a remark\nUUID=1 /   ext4 errors=remount-ro 0 1\ntmpfs\t\t/tmp\ttmpfs\tro\t0 0\n");
    let (new, kept) = set(&entry("/dev/sdb1", "/my disk", "ext4", "defaults"));
    assert_eq!(
        (new, kept),
        (format!("{text}\n/dev/sdb1\t\t/my\\040disk\text4\tdefaults\t0 0\n"), FstabChange::New)
    );
    let keep = mounts::set_fstab_entry(text, &entry("tmpfs", "/tmp", "tmpfs", "ro"), &[], true).unwrap();
    assert_eq!(keep, (text.to_owned(), FstabChange::Present));
    assert!(mounts::set_fstab_entry(text, &entry("a", "b", "c", "d"), &["colour".into()], false).is_err());
    assert_eq!(mounts::remove_fstab_entry(text, "/", Some("UUID=2")), (text.to_owned(), false));
    assert_eq!(
        mounts::remove_fstab_entry(text, "/tmp", None).0,
        "# a remark\nUUID=1 /   ext4 errors=remount-ro 0 1\n"
    );
}
