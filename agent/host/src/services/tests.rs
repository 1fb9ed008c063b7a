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
    let machine = Machine::at_root(root.path()).unwrap();
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
    let machine = Machine::at_root(dir.path()).unwrap();
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
    let machine = Machine::at_root(root.path()).unwrap();
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
