//! Answers in the shapes of Salt 3008.3, on machines made for the purpose.

use crate::testing::{SampleMachine, parse_call, render_answer};
use zagent_host::Machine;

fn check(sample: &SampleMachine, cases: &[(&str, &str, &str)]) {
    for (function, args, want) in cases {
        assert_eq!(sample.call(function, args), *want, "{function} {args}");
    }
}

#[test]
fn signatures_name_parameters_and_nothing_else() {
    for entry in super::all_functions() {
        for word in entry.signature.split_whitespace() {
            let name = word.trim_start_matches('*').trim_end_matches('?');
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{}: {word}", entry.name);
        }
    }
}

#[test]
fn every_name_stands_once() {
    let mut names: Vec<_> = super::all_functions().map(|e| e.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn commands_use_no_shell_unless_asked() {
    let own = Machine::this_host();
    let call = |function: &str, args: &str| {
        render_answer(super::call_from_template(&own, &parse_call(function, args)))
    };
    for (function, args, want) in [
        ("cmd.run", r#"["echo one; echo two"]"#, r#""one; echo two""#),
        ("cmd.run", r#"["echo \"a b\" c | tr a-z A-Z"]"#, r#""a b c | tr a-z A-Z""#),
        ("cmd.run", r#"[["echo", "x y"]]"#, r#""x y""#),
        ("cmd.shell", r#"["echo hi | tr a-z A-Z"]"#, r#""HI""#),
        ("cmd.retcode", r#"["exit 3", "**", {"python_shell": true}]"#, "3"),
        ("cmd.run_stdout", r#"["echo out; echo err >&2", "**", {"python_shell": true}]"#, r#""out""#),
        ("cmd.run_stderr", r#"["echo out; echo err >&2", "**", {"python_shell": true}]"#, r#""err""#),
        ("cmd.run", r#"["echo out; echo err >&2", "**", {"python_shell": true}]"#, r#""out\nerr""#),
        ("cmd.run", r#"["pwd", "**", {"cwd": "/"}]"#, r#""/""#),
        ("cmd.run", r#"["sh -c 'echo $A'", "**", {"env": {"A": "v"}}]"#, r#""v""#),
        ("cmd.run", r#"["cat", "**", {"stdin": "hello"}]"#, r#""hello""#),
        ("cmd.run", r#"["printf 'x\\n\\n'", "**", {"rstrip": false}]"#, r#""x\n\n""#),
        ("cmd.run", r#"["sh -c 'echo $LC_MESSAGES'"]"#, r#""C""#),
        ("cmd.run", r#"["echo hidden", "**", {"hide_output": true}]"#, r#""""#),
        ("cmd.has_exec", r#"["sh"]"#, "true"),
        ("cmd.has_exec", r#"["no-such-program"]"#, "false"),
        ("cmd.which", r#"["no-such-program"]"#, "null"),
        ("cmd.which", r#"["/bin/sh"]"#, r#""/bin/sh""#),
        ("cmd.run", r#"["echo 'open"]"#, "failed: a quotation mark is not closed"),
        ("cmd.run", r#"[""]"#, "failed: there is no command"),
        (
            "cmd.run",
            r#"["true", "**", {"runas": "no-such-user"}]"#,
            "failed: there is no user `no-such-user`",
        ),
        (
            "cmd.run",
            r#"["true", "**", {"cwd": "/no-such-directory"}]"#,
            "failed: cannot run `true` in `/no-such-directory`: no such directory",
        ),
    ] {
        assert_eq!(call(function, args), want, "{function} {args}");
    }
    let all = call("cmd.run_all", r#"["echo x; exit 2", "**", {"python_shell": true}]"#);
    assert!(all.contains(r#""retcode":2,"stdout":"x","stderr":"""#), "{all}");
    let late = call("cmd.run", r#"["sleep 600", "**", {"timeout": 0.1}]"#);
    assert!(late.starts_with(r#""['sleep', '600'] : Timed out after"#), "{late}");
    assert!(call("cmd.run", r#"["no-such-program"]"#).starts_with("failed: cannot start `no-such-program`"));
}

#[test]
fn commands_can_be_forbidden() {
    let machine = Machine::this_host().allow_commands(false);
    let answer = render_answer(super::call_from_template(&machine, &parse_call("cmd.run", r#"["id"]"#)));
    assert_eq!(answer, "forbidden: templates may run no commands: `templates.cmd_run` is `forbid`");
    assert_eq!(
        render_answer(super::call_from_template(&machine, &parse_call("cmd.has_exec", r#"["sh"]"#))),
        "true"
    );
}

#[test]
fn command_lines_are_split_as_by_a_shell() {
    for (line, want) in [
        (r#"a "b c" d"#, Some(vec!["a", "b c", "d"])),
        (r"a\ b 'c\d' ''", Some(vec!["a b", r"c\d", ""])),
        (r#""a\"b\\c\d""#, Some(vec![r#"a"b\c\d"#])),
        ("  ", Some(vec![])),
        ("'", None),
        ("a\\", None),
    ] {
        let want = want.map(|w| w.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(zagent_host::exec::shell_words::split(line), want, "{line}");
    }
}

#[test]
fn files() {
    let sample = SampleMachine::new()
        .file("/f", "one\ntwo words\n")
        .mode("/f", 0o640)
        .link("/l", "f")
        .file("/d/sub/x.txt", "")
        .file("/d/y.conf", "");
    check(
        &sample,
        &[
            ("file.file_exists", r#"["/f"]"#, "true"),
            ("file.file_exists", r#"["/d"]"#, "false"),
            ("file.file_exists", r#"["/f/below"]"#, "false"),
            ("file.directory_exists", r#"["/d"]"#, "true"),
            ("file.directory_exists", r#"["/no"]"#, "false"),
            ("file.read", r#"["/f"]"#, r#""one\ntwo words\n""#),
            ("file.read", r#"["/no"]"#, "failed: there is no `/no`"),
            ("file.contains", r#"["/f", "  two  "]"#, "true"),
            ("file.contains", r#"["/no", "x"]"#, "false"),
            ("file.contains_regex", r#"["/f", "^two"]"#, "true"),
            ("file.contains_regex", r#"["/f", "wo$"]"#, "false"),
            ("file.contains_regex", r#"["/no", "x"]"#, "false"),
            ("file.contains_glob", r#"["/f", "*wo*"]"#, "true"),
            ("file.get_mode", r#"["/f"]"#, r#""0640""#),
            ("file.get_user", r#"["/no"]"#, "failed: there is no `/no`"),
            (
                "file.get_hash",
                r#"["/f"]"#,
                r#""e24d8f5ab1603a3b1de04438c74e36ee684e944717311116e689d69f14fc771e""#,
            ),
            ("file.get_sum", r#"["/f", "md5"]"#, r#""407f5ce89e72c8570ccf5c07f4805c85""#),
            ("file.is_link", r#"["/l"]"#, "true"),
            ("file.readlink", r#"["/l"]"#, r#""f""#),
            ("file.readlink", r#"["/f"]"#, "failed: `/f` is not a symbolic link"),
            ("file.readdir", r#"["/d"]"#, r#"[".","..","sub","y.conf"]"#),
            ("file.readdir", r#"["/no"]"#, "failed: `/no` is not a directory"),
            ("file.find", r#"["/d"]"#, r#"["/d","/d/sub","/d/sub/x.txt","/d/y.conf"]"#),
            ("file.find", r#"["/d", "**", {"type": "f", "name": "*.txt"}]"#, r#"["/d/sub/x.txt"]"#),
            (
                "file.find",
                r#"["/d", "**", {"type": "f", "print": "name,type", "maxdepth": 1}]"#,
                r#"[["y.conf","f"]]"#,
            ),
            ("file.path_exists_glob", r#"["/d/*.conf"]"#, "true"),
            ("file.path_exists_glob", r#"["/d/*.no"]"#, "false"),
            ("file.access", r#"["/f", "r"]"#, "true"),
            ("file.access", r#"["/f", "z"]"#, "failed: `mode` is one of `f`, `r`, `w`, `x`, not `z`"),
        ],
    );
    assert!(
        sample
            .call("file.contains_regex", r#"["/f", "("]"#)
            .starts_with("failed: invalid regular expression")
    );
    let stats = sample.call("file.stats", r#"["/l"]"#);
    assert!(stats.contains(r#""size":14,"mode":"0640","type":"file""#), "{stats}");
}

#[test]
fn users_and_groups() {
    let sample = SampleMachine::new()
        .file(
            "/etc/passwd",
            "root:x:0:0:Root,1,2,3:/root:/bin/sh\nweb:x:33:33::/var/www:/bin/false\nbroken\n",
        )
        .file("/etc/group", "root:x:0:\nwww:x:33:\nadm:x:4:web,other\n");
    check(
        &sample,
        &[
            (
                "user.info",
                r#"["root"]"#,
                r#"{"gid":0,"groups":["root"],"home":"/root","name":"root","passwd":"x","shell":"/bin/sh","uid":0,"fullname":"Root","roomnumber":"1","workphone":"2","homephone":"3","other":""}"#,
            ),
            ("user.info", r#"["no"]"#, "{}"),
            ("user.list_users", "[]", r#"["root","web"]"#),
            ("user.list_groups", r#"["web"]"#, r#"["adm","www"]"#),
            ("user.primary_group", r#"["web"]"#, r#""www""#),
            ("group.info", r#"["adm"]"#, r#"{"name":"adm","passwd":"x","gid":4,"members":["web","other"]}"#),
            ("group.info", r#"["no"]"#, "{}"),
            ("file.user_to_uid", r#"["web"]"#, "33"),
            ("file.user_to_uid", r#"["no"]"#, r#""""#),
            ("file.uid_to_user", "[65999]", "65999"),
            ("file.gid_to_group", "[4]", r#""adm""#),
        ],
    );
}

#[test]
fn packages() {
    let status = "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2\n\n\
                  Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n\n\
                  Package: held\nStatus: hold ok installed\nArchitecture: all\nVersion: 2:1-1\nDescription: x\n Version: 9\n\n\
                  Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 2.36\n\n\
                  Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21\n";
    check(
        &SampleMachine::new()
            .file("/var/lib/dpkg/status", status)
            .file("/var/lib/dpkg/info/bash.list", "/bin/bash\n"),
        &[
            ("pkg.version", r#"["bash"]"#, r#""5.2""#),
            ("pkg.version", r#"["gone"]"#, r#""""#),
            ("pkg.version", r#"["bash", "no"]"#, r#"{"bash":"5.2","no":""}"#),
            ("pkg.version", r#"["b*"]"#, r#"{"bash":"5.2"}"#),
            ("pkg.version", "[]", "{}"),
            ("pkg.list_pkgs", "[]", r#"{"bash":"5.2","dpkg":"1.21","held":"2:1-1","libc6:i386":"2.36"}"#),
            (
                "pkg.list_pkgs",
                r#"["**", {"versions_as_list": true}]"#,
                r#"{"bash":["5.2"],"dpkg":["1.21"],"held":["2:1-1"],"libc6:i386":["2.36"]}"#,
            ),
            ("pkg.owner", r#"["/bin/bash"]"#, r#""bash""#),
            ("pkg.owner", r#"["/usr/bin/bash"]"#, r#""bash""#),
        ],
    );
    let apk = SampleMachine::new().file("/lib/apk/db/installed", "P:musl\nV:1.2.4-r1\n\nP:zlib\nV:1.3\n");
    assert_eq!(apk.call("pkg.version", r#"["musl"]"#), r#""1.2.4-r1""#);
    let pacman = SampleMachine::new().file("/var/lib/pacman/local/gcc-libs-13.2.1-3/desc", "");
    assert_eq!(pacman.call("pkg.version", r#"["gcc-libs"]"#), r#""13.2.1-3""#);
    let none = SampleMachine::new().call("pkg.version", r#"["x"]"#);
    assert_eq!(none, "failed: no package database was found (dpkg, apk, pacman or rpm)");
}

#[test]
fn services() {
    let sample = SampleMachine::new()
        .file("/lib/systemd/system/ssh.service", "")
        .file("/lib/systemd/system/getty@.service", "")
        .file("/lib/systemd/system/idle.service", "")
        .link("/etc/systemd/system/multi-user.target.wants/ssh.service", "/lib/systemd/system/ssh.service")
        .file("/etc/init.d/cron", "#!/bin/sh\n")
        .mode("/etc/init.d/cron", 0o755)
        .link("/etc/rc3.d/S01cron", "../init.d/cron");
    check(
        &sample,
        &[
            ("service.available", r#"["ssh"]"#, "true"),
            ("service.available", r#"["ssh.service"]"#, "true"),
            ("service.available", r#"["getty@tty1"]"#, "true"),
            ("service.available", r#"["cron"]"#, "true"),
            ("service.available", r#"["no"]"#, "false"),
            ("service.missing", r#"["no"]"#, "true"),
            ("service.enabled", r#"["ssh"]"#, "true"),
            ("service.enabled", r#"["idle"]"#, "false"),
            ("service.disabled", r#"["idle"]"#, "true"),
            ("service.enabled", r#"["cron"]"#, "true"),
            ("service.get_all", "[]", r#"["cron","getty@","idle","ssh"]"#),
            ("service.status", r#"["ssh"]"#, "failed: the services of another root do not run"),
        ],
    );
}

#[test]
fn alternatives() {
    let notes = "auto\n/usr/bin/editor\neditor.1.gz\n/usr/share/man/man1/editor.1.gz\n\n/bin/ed\n-100\n/usr/share/man/man1/ed.1.gz\n\
                 /usr/bin/vim\n30\n\n\n";
    let sample = SampleMachine::new()
        .file("/var/lib/dpkg/alternatives/editor", notes)
        .link("/etc/alternatives/editor", "/usr/bin/vim");
    check(
        &sample,
        &[
            ("alternatives.show_current", r#"["editor"]"#, r#""/usr/bin/vim""#),
            ("alternatives.show_current", r#"["no"]"#, "false"),
            ("alternatives.show_link", r#"["editor"]"#, r#""/usr/bin/editor""#),
            ("alternatives.check_installed", r#"["editor", "/usr/bin/vim"]"#, "true"),
            ("alternatives.check_exists", r#"["editor", "/bin/ed"]"#, "true"),
            ("alternatives.check_exists", r#"["editor", "/bin/no"]"#, "false"),
            (
                "alternatives.display",
                r#"["editor"]"#,
                r#""editor - auto mode\n  link best version is /usr/bin/vim\n  link currently points to /usr/bin/vim\n  link editor is /usr/bin/editor\n  slave editor.1.gz is /usr/share/man/man1/editor.1.gz\n/bin/ed - priority -100\n  slave editor.1.gz: /usr/share/man/man1/ed.1.gz\n/usr/bin/vim - priority 30""#,
            ),
            ("alternatives.display", r#"["no"]"#, r#""update-alternatives: error: no alternatives for no""#),
        ],
    );
}

#[test]
fn the_system() {
    let sample = SampleMachine::new()
        .link("/etc/localtime", "/usr/share/zoneinfo/Europe/Berlin")
        .file("/etc/default/locale", "LANG=\"de_DE.UTF-8\"\n")
        .file("/proc/sys/net/ipv4/ip_forward", "1\n")
        .file("/proc/self/mounts", "/dev/vda / ext4 rw,relatime 0 0\ntmpfs /a\\040b tmpfs rw 0 0\n")
        .file("/etc/fstab", "# x\nUUID=1 / ext4 defaults,noatime 0 1\n")
        .file("/proc/swaps", "Filename Type Size Used Priority\n/swap file 100 0 -2\n")
        .file("/proc/modules", "br_netfilter 32768 0 - Live 0x0\n")
        .file("/etc/hosts", "127.0.0.1 localhost a # c\n127.0.0.1 b\n::1 localhost\n");
    check(
        &sample,
        &[
            ("timezone.get_zone", "[]", r#""Europe/Berlin""#),
            ("locale.get_locale", "[]", r#""de_DE.UTF-8""#),
            ("sysctl.get", r#"["net.ipv4.ip_forward"]"#, r#""1""#),
            (
                "sysctl.get",
                r#"["no.such"]"#,
                r#""sysctl: cannot stat /proc/sys/no/such: No such file or directory""#,
            ),
            (
                "sysctl.get",
                r#"["../../etc/hosts"]"#,
                "failed: `../../etc/hosts` is not the name of a setting",
            ),
            (
                "mount.active",
                "[]",
                r#"{"/":{"device":"/dev/vda","alt_device":"/dev/vda","fstype":"ext4","opts":["rw","relatime"]},"/a b":{"device":"tmpfs","alt_device":"tmpfs","fstype":"tmpfs","opts":["rw"]}}"#,
            ),
            ("mount.is_mounted", r#"["/"]"#, "true"),
            (
                "mount.fstab",
                "[]",
                r#"{"/":{"device":"UUID=1","fstype":"ext4","opts":["defaults","noatime"],"dump":"0","pass":"1"}}"#,
            ),
            ("mount.swaps", "[]", r#"{"/swap":{"type":"file","size":"100","used":"0","priority":"-2"}}"#),
            ("kmod.is_loaded", r#"["br-netfilter"]"#, "true"),
            (
                "hosts.list_hosts",
                "[]",
                r#"{"127.0.0.1":{"aliases":["localhost","a","b"]},"::1":{"aliases":["localhost"]}}"#,
            ),
            ("hosts.get_ip", r#"["b"]"#, r#""127.0.0.1""#),
            ("hosts.has_pair", r#"["127.0.0.1", "a"]"#, "true"),
            ("environ.get", r#"["NO_SUCH_VARIABLE_HERE", "d"]"#, r#""d""#),
            ("environ.has_value", r#"["PATH"]"#, "true"),
            ("random.get_str", r#"[8, "a"]"#, r#""aaaaaaaa""#),
            ("log.debug", r#"["x"]"#, "true"),
            ("status.time", r#"["%%"]"#, r#""%""#),
            (
                "user.add",
                r#"["x"]"#,
                "forbidden: it changes the host, and templates only look; call it by `module.run` or on the command line",
            ),
            ("cmd.which", "[]", "failed: `cmd.which` needs the argument `cmd`"),
        ],
    );
    let serial = sample.call("dnsutil.serial", r#"["x"]"#);
    assert!(serial.len() == 12 && serial.ends_with("01\""), "{serial}");
}

#[test]
fn interfaces() {
    let own = Machine::this_host();
    let call = |function: &str, args: &str| {
        render_answer(super::call_from_template(&own, &parse_call(function, args)))
    };
    assert_eq!(call("network.ip_addrs", r#"["no-such-interface"]"#), "[]");
    assert!(
        call("network.interface_ip", r#"["nope"]"#)
            .starts_with(r#""Interface \"nope\" not in available interfaces:"#)
    );
    assert!(!call("network.ip_addrs", "[]").contains("127.0.0.1"));
    assert_eq!(call("network.in_subnet", r#"["not a network"]"#), "false");
}

#[test]
fn functions_of_programs_that_are_not_there_are_unknown() {
    let sample = SampleMachine::new();
    for name in ["dig.A", "postgres.psql_query", "mysql.db_tables", "git.current_branch"] {
        assert!(super::all_functions().any(|e| e.name == name && e.needs_program.is_some()), "{name}");
        assert_eq!(sample.call(name, r#"["x"]"#), "unknown", "{name}");
        assert!(!super::available_names(&sample.machine).contains(&name), "{name}");
    }
}
