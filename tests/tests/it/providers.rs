//! Package and service managers other than Debian's, run for real in Debian containers with `NSPAWN=1`: dnf, zypper and
//! pacman with repositories of the tests, OpenRC and init scripts with another process 1, busybox instead of shadow.
//!
//! The report of a state is compared with what the manager itself shows afterwards.

use serde_json::{Value, json};
use zagent_tests::container::{Host, Init, is_asked_for};

/// A name that does not fit into the columns of a table.
const LONG_NAME: &str = "zabird-with-a-name-that-is-longer-than-a-column-of-a-table";
/// The installed packages, except the one that is always installed.
const RPMS: &str = "rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\\n' | grep -v ^zabase | sort";
const PACKAGES: &str = "pacman -Q | sort";

/// A package manager in a container, and how it lists installed packages.
struct Shop {
    host: Host,
    /// Additional arguments of every state.
    provider: String,
    look: &'static str,
}

impl Shop {
    fn sls(&self, function: &str, name: &str, more: &str) -> String {
        format!("{name}:\n  {function}:\n    - refresh: false{}{more}\n", self.provider)
    }

    /// A state converges, with these changes: name, old version, new version.
    fn settles(&self, function: &str, name: &str, more: &str, changes: &[(&str, &str, &str)]) {
        let sls = self.sls(function, name, more);
        let told = self.host.settles(&sls, self.look).changes();
        let text = |(name, old, new): &(&str, &str, &str)| {
            ((*name).to_owned(), ((*old).to_owned(), (*new).to_owned()))
        };
        assert_eq!(told, changes.iter().map(text).collect(), "{sls}");
    }

    /// A state fails with this message, also in test mode, and the host is unchanged.
    fn refuses(&self, function: &str, name: &str, more: &str, words: &[&str]) {
        let (sls, before) = (self.sls(function, name, more), self.installed());
        self.host.foretell(&sls).is_told(words);
        self.host.apply(&sls).is_told(words);
        assert_eq!(self.installed(), before, "{sls}");
    }

    /// A state is in sync.
    fn rests(&self, function: &str, name: &str, more: &str) {
        self.host.apply(&self.sls(function, name, more)).is_still();
    }

    /// The installed packages, as the manager itself lists them.
    fn installed(&self) -> String {
        self.host.sh(self.look)
    }

    fn has(&self, lines: &[&str]) {
        let want: String = lines.iter().map(|l| format!("{l}\n")).collect();
        assert_eq!(self.installed(), want);
    }

    /// Reverts the last run.
    fn reverts(&self) {
        let report = self.host.call("run --revert last");
        assert_eq!(report["success"], true, "{report:#}");
    }
}

/// A repository of rpm packages.
fn rpms(provider: &str, packages: &[&str]) -> Shop {
    let host = Host::with(&[packages, &["rpm", "createrepo-c"]].concat());
    host.node.write("/srv/comps.xml", include_str!("../../providers/comps.xml"));
    host.node.write("/srv/rpm.sh", include_str!("../../providers/rpm.sh"));
    host.sh("sh /srv/rpm.sh");
    Shop { host, provider: format!("\n    - provider: {provider}"), look: RPMS }
}

const REPO: &str = "[tests]\nname=tests\nbaseurl=file:///srv/repo\nenabled=1\ngpgcheck=0\n";

/// Versions, lists, removals and refusals, for both managers of rpm packages.
fn rpms_come_and_go(shop: &Shop) {
    shop.refuses("pkg.installed", "nosuch", "", &["nosuch"]);
    shop.refuses("pkg.installed", "x", "\n    - pkgs: [zalib, nosuch]", &["nosuch"]);
    shop.refuses("pkg.installed", "zaapp", "\n    - version: '>2.0-1'", &["zaapp>2.0-1", "2.0-1, 1.0-1"]);
    shop.has(&[]);
    // Dependencies are installed too, and predicted.
    let old = "\n    - version: '>=1.0, <2'";
    shop.settles("pkg.installed", "zaapp", old, &[("zaapp", "", "1.0-1"), ("zalib", "", "2.0-1")]);
    shop.has(&["zaapp 1.0-1", "zalib 2.0-1"]);
    shop.reverts();
    shop.has(&[]);
    shop.settles("pkg.installed", "zaapp", "", &[("zaapp", "", "2.0-1"), ("zalib", "", "2.0-1")]);
    // Back to an exact version, and up again in all ways.
    let exact = "\n    - version: 1.0-1";
    let (down, up) = ([("zaapp", "2.0-1", "1.0-1")], [("zaapp", "1.0-1", "2.0-1")]);
    shop.settles("pkg.installed", "zaapp", exact, &down);
    shop.settles("pkg.installed", "zaapp", "\n    - version: '!=1.0-1'", &up);
    shop.settles("pkg.installed", "zaapp", exact, &down);
    shop.settles("pkg.latest", "zaapp", "", &up);
    shop.settles("pkg.installed", "zaapp", exact, &down);
    shop.settles("pkg.uptodate", "all", "", &up);
    shop.has(&["zaapp 2.0-1", "zalib 2.0-1"]);
    let both = format!("\n    - pkgs: [zaapp: 1.0-1, {LONG_NAME}: '']");
    shop.settles("pkg.installed", "x", &both, &[down[0], (LONG_NAME, "", "1.0-1")]);
    shop.settles("pkg.removed", LONG_NAME, "", &[(LONG_NAME, "1.0-1", "")]);
}

/// A held package stays, and the state says so. Starts and ends with an old version.
fn rpms_are_held(shop: &Shop) {
    shop.host.settles(&shop.sls("pkg.held", "zaapp", ""), shop.look);
    assert_eq!(shop.host.apply(&shop.sls("pkg.held", "zaapp", "")).is_still().code, 0);
    shop.refuses("pkg.latest", "zaapp", "", &["zaapp", "held"]);
    shop.refuses("pkg.installed", "zaapp", "\n    - version: 2.0-1", &["zaapp", "held"]);
    shop.rests("pkg.uptodate", "all", "");
    shop.host.settles(&shop.sls("pkg.unheld", "zaapp", ""), shop.look);
    let hold = "\n    - hold: true\n    - version: 1.0-1";
    shop.host.apply(&shop.sls("pkg.installed", "zaapp", hold)).is_well();
    shop.rests("pkg.installed", "zaapp", hold);
    shop.rests("pkg.held", "zaapp", "");
    shop.reverts();
    shop.settles("pkg.latest", "zaapp", "", &[("zaapp", "1.0-1", "2.0-1")]);
    shop.settles("pkg.installed", "zaapp", "\n    - version: 1.0-1", &[("zaapp", "2.0-1", "1.0-1")]);
    shop.refuses("pkg.held", LONG_NAME, "", &[LONG_NAME, "not installed"]);
}

/// An unsigned package file.
const FILE: &str = "\n    - sources: [{zaapp: /srv/repo/zaapp-2.0-1.noarch.rpm}]";

/// Package files, and packages from files.
fn rpms_are_files(shop: &Shop) {
    shop.host.sh("echo other >/opt/zaapp/version");
    let verify = "\n    - pkg_verify: true";
    shop.host.apply(&shop.sls("pkg.installed", "zaapp", verify)).is_well();
    assert_eq!(shop.host.sh("cat /opt/zaapp/version"), "1.0\n");
    shop.rests("pkg.installed", "zaapp", verify);
    shop.has(&["zaapp 1.0-1", "zalib 2.0-1"]);
    let file = format!("{FILE}\n    - skip_verify: true");
    shop.settles("pkg.installed", "zaapp", &file, &[("zaapp", "1.0-1", "2.0-1")]);
    shop.refuses("pkg.downloaded", "zaapp", "", &["not available"]);
    // Packages that depend on it are removed too, and that is predicted.
    shop.settles("pkg.purged", "zalib", "", &[("zaapp", "2.0-1", ""), ("zalib", "2.0-1", "")]);
    shop.has(&[]);
}

/// A host that identifies as a related distribution uses the manager without configuration, and its execution functions
/// too.
fn rpms_are_the_hosts_own(shop: &mut Shop, release: &str, family: &str) {
    shop.host.node.write("/etc/os-release", release);
    shop.provider.clear();
    let host = &shop.host;
    assert_eq!(host.call("grains.get os_family"), family);
    shop.settles(
        "pkg.installed",
        "zaapp",
        "\n    - version: 1.0-1",
        &[("zaapp", "", "1.0-1"), ("zalib", "", "2.0-1")],
    );
    assert_eq!(host.call("pkg.list_pkgs"), json!({"zaapp": "1.0-1", "zabase": "1.0-1", "zalib": "2.0-1"}));
    assert_eq!(host.call("pkg.version zaapp"), "1.0-1");
    assert_eq!(host.call("pkg.version nosuch"), "");
    assert_eq!(host.call("pkg.latest_version zaapp zalib"), json!({"zaapp": "2.0-1", "zalib": ""}));
    assert_eq!(host.call("pkg.upgrade_available zaapp"), true);
    assert_eq!(host.call("pkg.upgrade_available zalib"), false);
    assert_eq!(host.call("pkg.list_upgrades"), json!({"zaapp": "2.0-1"}));
    assert_eq!(host.call("pkg.list_repo_pkgs zaapp"), json!({"zaapp": ["2.0-1", "1.0-1"]}));
    assert_eq!(host.call("pkg.owner /opt/zaapp/version"), "zaapp");
    assert_eq!(host.call("pkg.hold zaapp")["zaapp"]["result"], true);
    assert_eq!((host.call("pkg.list_holds"), host.call("pkg.list_upgrades")), (json!(["zaapp"]), json!({})));
    assert_eq!(host.call("pkg.unhold zaapp")["zaapp"]["result"], true);
    assert_eq!(host.call("pkg.list_holds"), json!([]));
    assert_eq!(host.call("pkg.upgrade")["zaapp"], json!({"old": "1.0-1", "new": "2.0-1"}));
    assert_eq!(host.call("pkg.remove zaapp")["zaapp"], json!({"old": "2.0-1", "new": ""}));
}

/// After a repository is added, its packages are available; after it is removed, they are not.
fn rpms_come_from_repositories(shop: &Shop, file: &str) {
    let (host, words) =
        (&shop.host, "[{name: second}, {humanname: Second}, {baseurl: 'file:///srv/second'}, {gpgcheck: 0}]");
    let managed = format!("second: {{pkgrepo.managed: {words}}}\n");
    let solo = "zasolo: {pkg.installed: [{require: [pkgrepo: second]}]}\n";
    assert!(!host.holds(&format!("test -e {file}")));
    assert_eq!(host.foretell(&managed).is_well().last()["result"], Value::Null);
    assert!(!host.holds(&format!("test -e {file}")), "a dry run wrote it");
    let ran = host.apply(&format!("{managed}{solo}"));
    assert_eq!(ran.is_well().report["changed"], 2, "{:#}", ran.report);
    host.apply(&format!("{managed}{solo}")).is_still();
    assert!(host.sh(shop.look).contains("zasolo 1.0-1\n"));
    assert_eq!(host.call("pkg.get_repo second")["baseurl"], "file:///srv/second");
    // The message names what is needed, not only that something is.
    shop.refuses("pkg.installed", "zaneedy", "", &["no-such-thing", "zaneedy"]);
    // A repository that is down does not affect the others.
    let dead = managed.replace("second", "dead").replace("}]", "}, {autorefresh: 1}]");
    host.apply(&format!("{dead}{LONG_NAME}: {{pkg.installed: [{{require: [pkgrepo: dead]}}]}}\n")).is_well();
    assert!(host.sh(shop.look).contains(LONG_NAME));
    host.apply("dead: {pkgrepo.absent: []}\n").is_well();
    host.settles("second: {pkgrepo.absent: []}\n", &format!("cat {file} || true"));
    host.sh("rpm -e zasolo");
    let ran = host.apply("zasolo: {pkg.installed: [{refresh: true}]}\n");
    ran.is_told(&["zasolo"]);
}

#[test]
fn dnf_for_real() {
    if !is_asked_for() {
        return;
    }
    let mut shop = rpms("dnf", &["dnf", "dnf-plugins-core"]);
    shop.host.node.write("/etc/yum.repos.d/tests.repo", REPO);
    shop.host.node.write("/etc/dnf/vars/releasever", "1\n");
    shop.host.sh("sed -i 's/^enabled.*/enabled = false/' /etc/dnf/plugins/local.conf");
    rpms_come_and_go(&shop);
    rpms_are_held(&shop);
    rpms_are_files(&shop);
    rpms_are_the_hosts_own(&mut shop, "NAME=\"Fedora Linux\"\nID=fedora\nVERSION_ID=38\n", "RedHat");
    rpms_come_from_repositories(&shop, "/etc/yum.repos.d/second.repo");
    // Package groups exist only with dnf.
    let host = &shop.host;
    assert_eq!(host.call("pkg.group_list"), json!({"available": ["Za Tools"]}));
    let group = "Za Tools: {pkg.group_installed: []}\n";
    host.foretell(group).is_well();
    assert!(!host.sh(RPMS).contains("zaapp"));
    host.apply(group).is_well();
    host.apply(group).is_still();
    assert!(host.sh(RPMS).contains("zaapp 2.0-1\n"));
    host.apply("No Tools: {pkg.group_installed: []}\n").is_told(&["No Tools"]);
}

#[test]
fn zypper_for_real() {
    if !is_asked_for() {
        return;
    }
    let mut shop = rpms("zypper", &["zypper"]);
    shop.host.node.write("/etc/zypp/repos.d/tests.repo", REPO);
    rpms_come_and_go(&shop);
    rpms_are_held(&shop);
    let unsigned = shop.host.apply(&shop.sls("pkg.installed", "zaapp", FILE));
    unsigned.is_told(&["zaapp-2.0-1", "Signature verification failed", "unsigned"]);
    rpms_are_files(&shop);
    let release =
        "NAME=\"openSUSE Leap\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.5\"\n";
    rpms_are_the_hosts_own(&mut shop, release, "Suse");
    rpms_come_from_repositories(&shop, "/etc/zypp/repos.d/second.repo");
    shop.refuses("pkg.group_installed", "Za Tools", "", &["not available"]);
}

#[test]
fn pacman_for_real() {
    if !is_asked_for() {
        return;
    }
    let host = Host::with(&["pacman-package-manager", "makepkg", "zstd", "libarchive-tools"]);
    host.node.write("/srv/pacman.sh", include_str!("../../providers/pacman.sh"));
    let conf = "[options]\nArchitecture = auto\nSigLevel = Never\n[tests]\nServer = file:///srv/repo\n";
    host.node.write("/etc/pacman.conf", conf);
    host.sh("sh /srv/pacman.sh 1.0 && pacman -Sy");
    let mut shop = Shop { host, provider: "\n    - provider: pacman".into(), look: PACKAGES };
    shop.refuses("pkg.installed", "nosuch", "", &["nosuch"]);
    shop.refuses("pkg.installed", "zaapp", "\n    - version: '>=2'", &["zaapp>=2", "1.0-1"]);
    let new = [("zaapp", "", "1.0-1"), ("zalib", "", "1.0-1")];
    shop.settles("pkg.installed", "zaapp", "\n    - version: '>=1.0, <2'", &new);
    shop.reverts();
    shop.has(&[]);
    shop.settles(
        "pkg.installed",
        "x",
        "\n    - pkgs: [zaapp, zabird: 1.0-1]",
        &[new[0], ("zabird", "", "1.0-1"), new[1]],
    );
    // Other packages need it: it stays, and they are named.
    shop.refuses("pkg.removed", "zalib", "", &["zalib", "required by zaapp"]);
    shop.refuses("pkg.held", "zaapp", "", &["held"]);
    shop.refuses("pkg.downloaded", "zaapp", "", &["not available"]);
    shop.host.sh("sh /srv/pacman.sh 2.0 && pacman -Sy");
    shop.settles("pkg.latest", "zaapp", "", &[("zaapp", "1.0-1", "2.0-1")]);
    shop.settles("pkg.uptodate", "x", "\n    - pkgs: [zabird]", &[("zabird", "1.0-1", "2.0-1")]);
    shop.settles("pkg.uptodate", "all", "", &[("zalib", "1.0-1", "2.0-1")]);
    shop.has(&["zaapp 2.0-1", "zabird 2.0-1", "zalib 2.0-1"]);
    let file = "\n    - sources: [{zabird: /srv/repo/zabird-1.0-1-any.pkg.tar.zst}]";
    shop.settles("pkg.installed", "zabird", file, &[("zabird", "2.0-1", "1.0-1")]);
    // A host that identifies as Arch needs no configuration.
    shop.host.node.write("/etc/os-release", "NAME=\"Arch Linux\"\nID=arch\n");
    shop.provider.clear();
    let host = &shop.host;
    let all = json!({"zaapp": "2.0-1", "zabird": "1.0-1", "zalib": "2.0-1"});
    assert_eq!(host.call("pkg.list_pkgs"), all);
    assert_eq!(host.call("pkg.latest_version zabird zalib"), json!({"zabird": "2.0-1", "zalib": ""}));
    assert_eq!(host.call("pkg.upgrade_available zabird"), true);
    assert_eq!(host.call("pkg.list_upgrades"), json!({"zabird": "2.0-1"}));
    assert_eq!(host.call("pkg.owner /opt/zaapp/version"), "zaapp");
    let gone = [("zaapp", "2.0-1", ""), ("zalib", "2.0-1", "")];
    shop.settles("pkg.removed", "x", "\n    - pkgs: [zaapp, zalib]", &gone);
    shop.settles("pkg.purged", "zabird", "", &[("zabird", "1.0-1", "")]);
    shop.has(&[]);
}

/// A test service with a manager that the states do not name: `zad` records its actions.
fn services(host: &mut Host, init: Init, enabled: &str) {
    host.node.boot_by(init);
    assert!(!host.holds("test -e /run/systemd/system"), "systemd is process 1");
    let look = format!("cat /run/zad.log 2>/dev/null; {enabled} && echo enabled || true");
    let asked = |host: &Host| {
        ["service.available zad", "service.status zad", "service.enabled zad", "service.disabled zad"]
            .map(|f| host.call(f) == true)
    };
    assert_eq!(asked(host), [true, false, false, true]);
    assert_eq!(host.call("service.available nosuch"), false);
    // There are unit files, but nothing here starts them.
    assert!(host.holds("test -e /lib/systemd/system/systemd-journald.service"));
    assert_eq!(host.call("service.available systemd-journald"), false);
    host.settles("zad: {service.running: [{enable: true}]}\n", &look);
    assert_eq!(host.sh(&look), "start\nenabled\n");
    assert_eq!(asked(host), [true, true, true, false]);
    for list in ["service.get_all", "service.get_enabled", "service.get_running"] {
        let names = host.call(list);
        let names = names.as_array().expect("a list");
        assert!(names.contains(&"zad".into()) && !names.contains(&"rc".into()), "{list}: {names:?}");
    }
    // It runs after a boot.
    host.node.boot_by(init);
    assert_eq!(host.sh(&look), "start\nenabled\n");
    watched(host);
    assert_eq!(host.sh("cat /run/zad.log"), "start\nstop\nstart\nreload\n");
    host.settles("zad: {service.dead: [{enable: false}]}\n", &look);
    assert_eq!(asked(host), [true, false, false, true]);
    host.settles("zad: {service.enabled: []}\n", &look);
    host.settles("zad: {service.disabled: []}\n", &look);
    assert!(!host.holds(enabled));
    refused(host);
    host.node.boot_by(init);
    assert_eq!(host.sh(&look), "", "it starts with the host although it is disabled");
}

/// A changed file restarts a service, or reloads it.
fn watched(host: &Host) {
    let sls = |words: &str, more: &str| {
        format!(
            "/etc/zad.conf:\n  file.managed:\n    - contents: {words}\nzad:\n  service.running:\n    - watch: [{{file: /etc/zad.conf}}]\n{more}"
        )
    };
    let pid = || host.sh("cat /run/zad.pid");
    let first = pid();
    host.apply(&sls("one", "")).is_well();
    let second = pid();
    assert_ne!(first, second, "it was not restarted");
    host.apply(&sls("one", "")).is_still();
    host.apply(&sls("two", "    - reload: true\n")).is_well();
    assert_eq!(second, pid(), "it was restarted, not reloaded");
}

/// Impossible requests are reported.
fn refused(host: &Host) {
    host.apply("nosuch: {service.running: []}\n").is_told(&["nosuch", "not available"]);
    host.apply("zad: {service.masked: []}\n").is_told(&["masking not available"]);
    host.apply("zad: {service.running: [{provider: launchd}]}\n").is_told(&["launchd", "openrc"]);
    host.sh("touch /etc/zad.broken");
    host.apply("zad: {service.running: []}\n").is_told(&["zad", "cannot find its wits"]);
    host.sh("rm /etc/zad.broken");
}

/// The script of a service, as a file inside.
fn with_script(packages: &[&str], script: &str) -> Host {
    let host = Host::with(packages);
    host.node.write("/etc/init.d/zad", script);
    host.sh("chmod 755 /etc/init.d/zad");
    host
}

#[test]
fn openrc_for_real() {
    if !is_asked_for() {
        return;
    }
    let mut host = with_script(&["sysvinit-core", "openrc"], include_str!("../../providers/zad.openrc"));
    let is_up =
        "test \"$(rc-status -r)\" = default && test ! -e /run/openrc/rc.starting && ! pgrep -x openrc";
    let init = Init { program: Some("/sbin/init"), is_up };
    services(&mut host, init, "rc-update show default | grep -q ' zad '");
}

#[test]
fn init_scripts_for_real() {
    if !is_asked_for() {
        return;
    }
    let mut host = with_script(&["sysvinit-core", "sysv-rc"], include_str!("../../providers/zad.sysv"));
    let is_up = "test \"$(runlevel)\" = 'N 2' && ! pgrep -x 'rc|startpar'";
    let init = Init { program: Some("/sbin/init"), is_up };
    services(&mut host, init, "test -e /etc/rc2.d/S??zad");
}

const ACCOUNTS: &str = "grep -hE '^(alice|svc|devs|ops|bob):' /etc/passwd /etc/group /etc/shadow || true";

/// Users as `/etc/passwd`, `/etc/group` and `/etc/shadow` have them afterwards.
#[test]
fn busybox_for_real() {
    if !is_asked_for() {
        return;
    }
    let host = Host::with(&["gcc", "libc6-dev", "make", "bzip2"]);
    host.node.write("/srv/busybox.config", include_str!("../../providers/busybox.config"));
    host.node.write("/srv/busybox.sh", include_str!("../../providers/busybox.sh"));
    host.sh("sh /srv/busybox.sh");
    let lines = |file: &str| host.sh(&format!("grep -E '^(alice|svc|devs|ops):' {file} || true"));
    host.settles("devs: {group.present: [{gid: 3000}]}\n", ACCOUNTS);
    host.settles("ops: {group.present: [{system: true}]}\n", ACCOUNTS);
    let number = host.sh("getent group ops | cut -d: -f3").trim().parse::<u32>().expect("a number");
    assert!((100..1000).contains(&number), "a group of the system: {number}");
    let user = |words: &str| format!("alice: {{user.present: [{{home: /home/alice}}, {words}]}}\n");
    host.apply(&user("{uid: 3001}, {gid: devs}, {groups: [ops]}, {fullname: Alice A}, {shell: /bin/sh}"))
        .is_well();
    assert_eq!(lines("/etc/passwd"), "alice:x:3001:3000:Alice A:/home/alice:/bin/sh\n");
    assert_eq!(host.sh("id -Gn alice; stat -c %U /home/alice"), "devs ops\nalice\n");
    let more = "{uid: 3005}, {gid: ops}, {groups: [devs]}, {remove_groups: true}, {fullname: Alice B}, {shell: /bin/bash}, \
                {password: '$6$salt$hash'}, {mindays: 1}, {maxdays: 90}, {allow_uid_change: true}, {allow_gid_change: true}";
    let before = host.sh(ACCOUNTS);
    host.foretell(&user(more)).is_well();
    assert_eq!(host.sh(ACCOUNTS), before, "a dry run changed a user");
    host.apply(&user(more)).is_well();
    host.apply(&user(more)).is_still();
    assert_eq!(lines("/etc/passwd"), format!("alice:x:3005:{number}:Alice B:/home/alice:/bin/bash\n"));
    let shadow = lines("/etc/shadow");
    assert!(shadow.starts_with("alice:$6$salt$hash:") && shadow.ends_with(":1:90:7:::\n"), "{shadow}");
    // The files in its home still belong to it.
    assert_eq!(host.sh("id -Gn alice; stat -c %U /home/alice"), "ops devs\nalice\n");
    let svc = "svc: {user.present: [{system: true}, {createhome: false}, {shell: /usr/sbin/nologin}]}\n";
    host.apply(svc).is_well();
    host.apply(svc).is_still();
    host.apply("devs: {group.present: [{addusers: [svc]}, {delusers: [alice]}]}\n").is_well();
    host.apply("ops: {group.present: [{gid: 3010}, {members: [svc]}]}\n").is_well();
    assert_eq!(lines("/etc/group"), "devs:x:3000:svc\nops:x:3010:svc\n");
    host.settles("alice: {user.absent: [{purge: true}]}\n", ACCOUNTS);
    assert!(host.holds("test ! -e /home/alice && ! getent passwd alice"));
    assert_eq!(host.call("run --revert last")["success"], true);
    assert!(lines("/etc/passwd").contains("alice:x:3005:"), "{}", lines("/etc/passwd"));
    assert_eq!(lines("/etc/shadow").lines().filter(|l| l.starts_with("alice:$6$salt$hash:")).count(), 1);
    host.settles("svc: {user.absent: []}\n", ACCOUNTS);
    host.settles("devs: {group.absent: []}\n", ACCOUNTS);
    assert_eq!(lines("/etc/group"), "ops:x:3010:\n");
    host.apply("bob: {user.present: [{gid: nobody-has-it}]}\n").is_told(&["nobody-has-it"]);
}
