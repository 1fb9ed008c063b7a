//! What managers say, as they were heard to say it, and what they are told.

use zagent_config::pkg_version::VersionScheme;

use super::*;

fn provider(name: &str) -> &'static dyn PkgProvider {
    PROVIDERS.into_iter().find(|p| p.name() == name || p.aliases().contains(&name)).unwrap()
}

fn told(name: &str, action: &PkgAction<'_>) -> String {
    let provider = provider(name);
    let lines = provider.command_lines(provider.program_names()[0], action).unwrap_or_default();
    lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>().join("; ")
}

fn seen(name: &str, output: &str) -> Vec<String> {
    let changes = provider(name).parse_dry_run(output);
    changes.iter().map(|s| format!("{} [{}] [{}]", s.name, s.old, s.new)).collect()
}

const STATUS: &str = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21\nDescription: x\n Status: no\n\n\
    Package: vim\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 2:9.0\n\n\
    Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 2.36\n\n\
    Package: old\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1.0\n\n\
    Package: half\nStatus: install reinstreq half-installed\nArchitecture: amd64\nVersion: 3\n\n\
    Package: laid\nStatus: install ok unpacked\nArchitecture: amd64\nVersion: 4\n\n\
    Package: kept\nStatus: purge ok installed\nArchitecture: amd64\nVersion: 5\n\n\
    Package: gone\nStatus: purge ok not-installed\nArchitecture: amd64\n";

#[test]
fn dpkg_tells_what_is_whole_held_left_and_broken() {
    let db = db::parse_dpkg_status(STATUS, None);
    let names: Vec<&str> = db.installed().map(|(n, _)| n).collect();
    assert_eq!(names, ["dpkg", "kept", "libc6:i386", "vim"]);
    assert!(db.packages["vim"].is_held && !db.packages["dpkg"].is_held);
    assert_eq!(db.packages["old"].removed_version.as_deref(), Some("1.0"));
    assert!(db.packages["kept"].is_purge_desired && !db.packages["gone"].is_purge_desired);
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::at_root(root.path()).unwrap();
    assert_eq!(provider("apt").find_broken(&machine, &db), ["half (half-installed)", "laid (unpacked)"]);
    assert_eq!(db.without_native_arch("vim:amd64"), "vim");
    assert_eq!(db.without_native_arch("libc6:i386"), "libc6:i386");
}

#[test]
fn a_journal_that_dpkg_left_means_it_was_interrupted() {
    let root = tempfile::tempdir().unwrap();
    let updates = root.path().join("var/lib/dpkg/updates");
    std::fs::create_dir_all(&updates).unwrap();
    let machine = Machine::at_root(root.path()).unwrap();
    assert!(provider("apt").find_broken(&machine, &PkgDb::default()).is_empty());
    std::fs::write(updates.join("tmp.i"), "").unwrap();
    assert!(provider("apt").find_broken(&machine, &PkgDb::default()).is_empty());
    std::fs::write(updates.join("0004"), "").unwrap();
    assert_eq!(provider("apt").find_broken(&machine, &PkgDb::default()), ["dpkg (interrupted)"]);
}

#[test]
fn other_databases_are_read() {
    let db = db::parse_apk_db("P:musl\nV:1.2.4-r2\nA:x86_64\n\nP:busybox\nV:1.36-r0\n");
    assert_eq!((db.version("musl"), db.version("busybox")), ("1.2.4-r2".into(), "1.36-r0".into()));
    let db =
        db::parse_pacman_dirs(&["vim-9.0.1-1".into(), "gcc-libs-13.2-3".into(), "ALPM_DB_VERSION".into()]);
    assert_eq!((db.version("vim"), db.version("gcc-libs")), ("9.0.1-1".into(), "13.2-3".into()));
    let rpm = "vim 2:9.0-1.fc38 x86_64\nkernel 6.1-1 x86_64\nkernel 6.2-1 x86_64\nglibc 2.37-1 i686\ngpg-pubkey 1-2 (none)\n";
    let db = db::parse_rpm_list(rpm, "x86_64");
    assert_eq!((db.version("vim"), db.version("kernel")), ("2:9.0-1.fc38".into(), "6.1-1,6.2-1".into()));
    assert!(db.get("glibc.i686").is_some() && db.get("gpg-pubkey").is_none());
}

#[test]
fn rehearsals_are_understood() {
    let apt = "Inst vim [2:9.0-1] (2:9.1-1 Debian:12/stable [amd64])\nInst xxd (2:9.1-1 Debian:12/stable [amd64]) []\n\
               Remv nano [7.2-1]\nConf vim (2:9.1-1 Debian:12/stable [amd64])\n";
    assert_eq!(seen("apt", apt), ["vim [2:9.0-1] [2:9.1-1]", "xxd [] [2:9.1-1]", "nano [7.2-1] []"]);
    let dnf = "Dependencies resolved.\n====\n Package  Arch  Version  Repository  Size\n====\nInstalling:\n vim-enhanced  x86_64  \
               2:9.0-1.fc38  updates  2.0 M\nInstalling dependencies:\n gpm-libs  x86_64  1.20-42.fc38  fedora  20 k\n\nRemoving:\n \
               nano  x86_64  7.2-1.fc38  @fedora  2 M\n\nTransaction Summary\n====\nInstall  2 Packages\n";
    let want = ["vim-enhanced [] [2:9.0-1.fc38]", "gpm-libs [] [1.20-42.fc38]", "nano [7.2-1.fc38] []"];
    assert_eq!(seen("dnf", dnf), want);
    let apk = "(1/3) Installing ncurses (6.4-r2)\n(2/3) Upgrading zlib (1.2-r0 -> 1.3-r0)\n(3/3) Purging vim (9.0-r0)\nOK: 9 MiB\n";
    assert_eq!(seen("apk", apk), ["ncurses [] [6.4-r2]", "zlib [1.2-r0] [1.3-r0]", "vim [9.0-r0] []"]);
    let pacman = "loading packages...\n+ vim 9.0.1-1\n- nano 7.2-1\nerror: target not found\n";
    assert_eq!(seen("pacman", pacman), ["vim [] [9.0.1-1]", "nano [7.2-1] []"]);
    let zypper = "<message type=\"info\">Loading repository data...</message>\n<install-summary packages-to-change=\"4\">\n<to-upgrade>\n\
                  <solvable type=\"package\" name=\"zlib\" edition=\"1.3-1\" arch=\"x86_64\" edition-old=\"1.2-1\" arch-old=\"x86_64\">\n\
                  <description>x</description></solvable>\n</to-upgrade>\n<to-install>\n<solvable type=\"package\" name=\"vim\" \
                  edition=\"2:9.0-1.1\" arch=\"x86_64\" summary=\"a &gt; b\">\n</solvable>\n<solvable type=\"pattern\" name=\"base\" \
                  edition=\"1-1\"/>\n</to-install>\n<to-remove>\n<solvable type=\"package\" name=\"nano\" edition=\"7.2-1\"/>\n</to-remove>\n";
    assert_eq!(seen("zypper", zypper), ["zlib [1.2-1] [1.3-1]", "vim [] [2:9.0-1.1]", "nano [7.2-1] []"]);
}

#[test]
fn a_rehearsal_of_zypper_that_fails_is_told_in_words() {
    let out = "<message type=\"info\">Loading repository data...</message>\n<message type=\"error\">Package &apos;nosuch&apos; not \
               found.</message>\n<prompt id=\"1\">\n<description>Problem: nothing provides a &amp; b\n Solution 1: x\n</description>\n";
    let output = provider("zypper").readable_failure(CommandOutput {
        code: 104,
        stdout: out.into(),
        stderr: String::new(),
    });
    assert_eq!(output.stdout, "Package 'nosuch' not found.\nProblem: nothing provides a & b\n Solution 1: x");
    let done: Vec<i32> = (0..110).filter(|code| provider("zypper").is_success_code(*code)).collect();
    assert_eq!(done, [0, 102, 103, 106]);
    assert!(provider("dnf").is_success_code(0) && !provider("dnf").is_success_code(102));
}

#[test]
fn locks_of_dnf_and_zypper_are_read() {
    let list = "\n# Added lock on Tue\nvim-enhanced-2:9.0.1-1.fc38.*\nbash-0:5.2-1.*\n!nano-0:7.2-1.*\n0:git-2.1-1.el7.*\nkernel*\n";
    assert_eq!(db::parse_dnf_locks(list), ["vim-enhanced", "bash", "git", "kernel*"]);
    let toml = "version = \"1.0\"\n\n[[packages]]\nname = \"bash\"\n[[packages.conditions]]\nkey = \"evr\"\ncomparator = \
                \"=\"\nvalue = \"0:5.2-1\"\n";
    assert_eq!(db::parse_dnf_locks(toml), ["bash"]);
    let locks = "\ntype: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: vim\n\ntype: patch\nsolvable_name: x\n\n";
    assert_eq!(db::parse_zypper_locks(locks), ["vim"]);
    let mut db =
        db::parse_rpm_list("kernel 6.1-1 x86_64\nkernel-core 6.1-1 x86_64\nvim 9-1 x86_64\n", "x86_64");
    ["kernel*", "absent"].iter().for_each(|pattern| db.mark_held(pattern));
    let held: Vec<&str> = db.packages.iter().filter(|(_, p)| p.is_held).map(|(n, _)| n.as_str()).collect();
    assert_eq!(held, ["absent", "kernel", "kernel-core"]);
    assert!(db.get("absent").is_none());
}

#[test]
fn catalogues_are_understood() {
    let policy = "vim:\n  Installed: 2:9.0-1\n  Candidate: 2:9.1-1\n  Version table:\n     2:9.1-1 500\n        500 http://deb x/main amd64 \
                  Packages\n *** 2:9.0-1 100\n        100 /var/lib/dpkg/status\nmail-transport-agent:\n  Installed: (none)\n  Candidate: \
                  (none)\n  Version table:\n";
    let offers = apt::parse_policy(policy);
    assert_eq!(offers["vim"].candidate, "2:9.1-1");
    assert_eq!(offers["vim"].versions, ["2:9.1-1", "2:9.0-1"]);
    assert_eq!(offers["mail-transport-agent"], AvailablePkg::default());
    let listed = dnf::parse_pkg_list(
        "Available Packages\nvim.x86_64  2:9.0-1.fc38  fedora\nvim.x86_64  2:9.1-1.fc38  updates\n",
        &dnf::Dnf,
    );
    assert_eq!(listed["vim"].versions, ["2:9.1-1.fc38", "2:9.0-1.fc38"]);
    let apk = apk::parse_policy(
        "vim policy:\n  9.0-r0:\n    lib/apk/db/installed\n  9.1-r0:\n    http://alpine/main\n",
    );
    assert_eq!(
        (apk["vim"].candidate.as_str(), &apk["vim"].versions[..]),
        ("9.1-r0", &["9.1-r0".to_owned()][..])
    );
    let found = "S | Name | Type    | Version | Arch   | Repository\n--+------+---------+---------+--------+-----------\ni | vim  | \
                 package | 9.0-1.1 | x86_64 | Main\nv | vim  | package | 9.1-1.1 | x86_64 | Update\ni | vim | package | 8-1 | x86_64 | \
                 (System Packages)\n";
    assert_eq!(zypper::parse_search(found, &zypper::Zypper)["vim"].versions, ["9.1-1.1", "9.0-1.1"]);
    let told = pacman::parse_info(
        "Repository      : extra\nName            : vim\nVersion         : 9.0.1-1\n\nName            : gcc\nVersion         : 13-1\n",
    );
    assert_eq!((told["vim"].candidate.as_str(), told.len()), ("9.0.1-1", 2));
}

#[test]
fn groups_of_dnf_are_understood() {
    let list = "Available Environment Groups:\n   Server\nInstalled Groups:\n   Headless Management\nAvailable Groups:\n   \
                Development Tools\n   System Tools\n";
    let groups = dnf::parse_sections(list, &dnf::GROUP_HEADINGS);
    assert_eq!(groups["installed"], ["Headless Management"]);
    assert_eq!(groups["available"], ["Development Tools", "System Tools"]);
    let info = "\nGroup: Development Tools\n Description: Tools to build software with.\n Mandatory Packages:\n   autoconf\n   \
                +make\n Default Packages:\n   =git\n Optional Packages:\n   -cmake\n";
    let group = dnf::parse_sections(info, &dnf::MEMBER_HEADINGS);
    assert_eq!(group["mandatory"], ["autoconf", "make"]);
    assert_eq!((&group["default"][..], &group["optional"][..]), (&["git".into()][..], &["cmake".into()][..]));
    assert_eq!(group.len(), 3);
}

#[test]
fn managers_are_told_in_their_words() {
    let targets = [
        PkgTarget { version: Some("1.2-3".into()), ..PkgTarget::from_name("vim") },
        PkgTarget::from_name("git"),
    ];
    let plain = PkgActionOptions::default();
    let action = PkgAction::Install(&targets, &plain);
    let apt = "apt-get -q -y -o DPkg::Options::=--force-confold -o DPkg::Options::=--force-confdef --allow-change-held-packages \
               install vim=1.2-3 git";
    assert_eq!(told("aptpkg", &action), apt);
    assert_eq!(told("yumpkg", &action), "dnf -y install vim-1.2-3 git");
    assert_eq!(told("apkpkg", &action), "apk --no-interactive add vim=1.2-3 git");
    assert_eq!(told("pacmanpkg", &action), "pacman -S --noconfirm --needed vim git");
    let zypper = "zypper -n install --auto-agree-with-licenses --name vim=1.2-3 git";
    assert_eq!(told("zypperpkg", &action), zypper);
    let newest = PkgActionOptions { upgrade_installed: true, ..PkgActionOptions::default() };
    assert_eq!(told("dnf", &PkgAction::Install(&targets[1..], &newest)), "dnf -y --best install git");
    assert_eq!(
        told("pacman", &PkgAction::Upgrade(&["vim".into()], &plain)),
        "pacman -S --noconfirm --needed vim"
    );
    let line = provider("apt").dry_run_command("apt-get", &PkgAction::Upgrade(&["vim".into()], &plain));
    let line = line.map(|line| line[..4].join(" "));
    assert_eq!(line.as_deref(), Some("apt-get -s -o Dir::Log::Planner=/dev/null"), "a look keeps no log");
    let line = provider("zypper").dry_run_command(
        "zypper",
        &PkgAction::Upgrade(&[], &PkgActionOptions { dist_upgrade: true, ..plain }),
    );
    let line = line.map(|line| line.join(" "));
    assert_eq!(line.as_deref(), Some("zypper --xmlout -n dist-upgrade --dry-run --auto-agree-with-licenses"));
    let tuned = PkgActionOptions {
        fromrepo: Some("bookworm-backports".into()),
        recommends: Some(false),
        skip_verify: true,
        replace_config: true,
        respect_holds: true,
        ..PkgActionOptions::default()
    };
    let apt = "apt-get -q -y -o DPkg::Options::=--force-confnew --no-install-recommends --allow-unauthenticated -t bookworm-backports \
               install vim=1.2-3 git";
    assert_eq!(told("apt", &PkgAction::Install(&targets, &tuned)), apt);
    let names = ["vim".to_owned()];
    assert_eq!(
        told("apt", &PkgAction::Remove(&names, true)),
        "apt-get -q -y --allow-change-held-packages purge vim"
    );
    assert_eq!(told("apt", &PkgAction::Hold(&names)), "apt-mark hold vim");
    assert_eq!(told("apk", &PkgAction::Hold(&names)), "");
    assert_eq!(told("dnf", &PkgAction::Unhold(&names)), "dnf -y versionlock delete vim");
    assert_eq!(told("pacman", &PkgAction::Remove(&names, true)), "pacman -Rn --noconfirm vim");
}

#[test]
fn only_names_are_told_and_only_what_is_named_may_lose_its_hold() {
    for (name, is_right) in [("g++", true), ("-o=x", false), ("nginx-", false), ("libc6:i386", true)] {
        assert_eq!(verify_pkg_name(name).is_ok(), is_right, "{name}");
    }
    let mut db = PkgDb::default();
    for name in ["lib", "app"] {
        db.add_version(name, "1").is_held = true;
    }
    db.add_version("other", "1");
    let step = |name: &str| PkgChange { name: name.into(), old: "1".into(), new: String::new() };
    let changes = [step("lib"), step("app"), step("other")];
    let beside = |names: &[&str]| PkgAction::Remove(&to_strings(names), false).unnamed_held(&changes, &db);
    assert_eq!(beside(&["lib"]), ["app"]);
    assert!(beside(&["lib", "app"]).is_empty());
    assert!(
        PkgAction::Install(&[PkgTarget::from_name("-x")], &PkgActionOptions::default())
            .verify_names()
            .is_err()
    );
    assert!(PkgAction::Upgrade(&[], &PkgActionOptions::default()).unnamed_held(&changes, &db).is_empty());
}

#[test]
fn a_provider_is_found_by_its_database_and_by_name() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::at_root(root.path()).unwrap();
    let name = |asked| select_provider(&machine, asked).map(|c| c.provider.name()).map_err(|e| e.message());
    assert!(name(None).is_err());
    std::fs::create_dir_all(root.path().join("var/lib/pacman/local")).unwrap();
    assert_eq!(name(None), Ok("pacman"));
    assert!(name(Some("aptpkg")).unwrap_err().contains("not on this host"));
    assert!(name(Some("brew")).unwrap_err().contains("there is no provider `brew`"));
}

#[test]
fn what_the_system_calls_its_own_is_preferred() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::at_root(root.path()).unwrap();
    let write = |path: &str, text: &str| {
        let full = root.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    };
    write("var/lib/dpkg/status", "");
    write("var/lib/rpm/rpmdb.sqlite", "");
    for (release, want) in [
        ("", "apt"),
        ("ID=debian\n", "apt"),
        ("NAME=\"Fedora Linux\"\nID=fedora\n", "dnf"),
        ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf"),
        ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "zypper"),
        ("ID=gentoo\n", "apt"),
    ] {
        write("etc/os-release", release);
        let selected = select_provider(&machine, None).map(|c| c.provider.name()).map_err(|e| e.message());
        assert_eq!(selected, Ok(want), "{release}");
    }
}

#[test]
fn versions_are_judged_as_salt_judges_them() {
    let fits = |have: &str, wanted: &str| satisfies(have, wanted, VersionScheme::Debian, None, false);
    for (have, wanted, yes) in [
        ("2:9.0-1", "9.0-1", true),
        ("2:9.0-1", "2:9.0-1", true),
        ("2:9.0-1", "1:9.0-1", false),
        ("2:9.0-1", "2:9.*", true),
        ("2:9.0-1", "9.*", false),
        ("1.2", ">=1.2, <2", true),
        ("2.0", ">=1.2, <2", false),
        ("1.3", ">=1.2,!=1.3", false),
        ("1:1.0", ">2.0", true),
        ("1.2", "= 1.2", true),
    ] {
        assert_eq!(fits(have, wanted), yes, "{have} {wanted}");
    }
    assert!(satisfies("1:1.0", "<2.0", VersionScheme::Debian, Some(true), false));
    assert!(satisfies("1.3", "1.2", VersionScheme::Debian, None, true));
    assert_eq!(display_spec("vim", Some(">=1")), "vim>=1");
    assert_eq!((display_spec("vim", Some("1")), display_spec("vim", None)), ("vim=1".into(), "vim".into()));
}
