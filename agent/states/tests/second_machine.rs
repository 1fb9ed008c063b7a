//! A machine below a directory of its own: the same states look, change, run and undo there, and this host stays as it is.
//!
//! To run a command below another root or to give a file to root takes root, or a user namespace in which we are root:
//! without either such a test is skipped, and fails in continuous integration.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test sets up its machine directly, and says when it cannot run"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use zagent_compiler::{Compat, FunctionCall, Plan, TemplateHost};
use zagent_config::{Map, Value};
use zagent_host::disk::Disk;
use zagent_host::exec::ExecCommand;
use zagent_host::facts::{FactSources, Facts, Grains};
use zagent_host::fs::Overlay;
use zagent_host::undo::{self, JournalReader, RevertOptions, UndoJournal};
use zagent_host::{CancelToken, Machine};
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};
use zagent_states::template_host::recorded_facts::{RecordedFacts, parse_facts};
use zagent_states::testing::{TestFiles, apply_line, check_line, chunk};
use zagent_states::{FileTemplate, RenderTemplate, RunShared, State, StateCtx};

/// Set for the same test once it is root of a user namespace.
const IN_NAMESPACE: &str = "ZAGENT_TEST_IN_NAMESPACE";
/// A directory and a package that no host has.
const OWN_DIR: &str = "/etc/zagent-second-machine";
const OWN_PACKAGE: &str = "zagent-made-up";

/// Templates as they are.
struct PlainText;

impl RenderTemplate for PlainText {
    fn render(&self, template: &FileTemplate) -> Result<String, String> {
        Ok(template.source.clone())
    }
}

/// A small machine below a directory: a shell, users, groups and one package.
struct SecondMachine {
    dir: TempDir,
    /// A directory of this host that links of the machine point to.
    outside: TempDir,
    machine: Machine,
    files: TestFiles,
    host: LiveHost,
    plan: Plan,
    pillar: Value,
    shared: RunShared,
    cancel: Arc<CancelToken>,
}

impl SecondMachine {
    fn new() -> Self {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |path: &str, text: &str| {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("etc/passwd", "boxroot:x:0:0:Box:/srv:/bin/sh\n");
        write("etc/group", "boxwheel:x:0:\n");
        write("etc/marker", "inside the second machine\n");
        write("srv/here", "in its own directory\n");
        write(
            "var/lib/dpkg/status",
            &format!(
                "Package: {OWN_PACKAGE}\nStatus: install ok installed\nArchitecture: all\nVersion: 1.2-3\n\n"
            ),
        );
        fs::create_dir(dir.path().join("tmp")).unwrap();
        symlink(outside.path(), dir.path().join("etc/escape")).unwrap();
        for program in ["/bin/sh", "/bin/cat", "/bin/tar"] {
            copy_program(dir.path(), Path::new(program));
        }
        let machine = Machine::at_root(dir.path()).unwrap();
        let grains = RecordedFacts::from_json(r#"{"os": "Debian", "os_family": "Debian"}"#).unwrap();
        let host = LiveHost::new(Arc::new(grains), LiveHostSettings::new("box", machine.clone()));
        Self {
            dir,
            outside,
            machine,
            files: TestFiles::default(),
            host,
            plan: Plan::default(),
            pillar: Value::empty_map(),
            shared: RunShared::default(),
            cancel: Arc::new(CancelToken::new()),
        }
    }

    fn ctx<'a>(&'a self, fs: &'a Disk, journal: Option<&'a UndoJournal>) -> StateCtx<'a> {
        StateCtx {
            tag: "t",
            journal,
            machine: &self.machine,
            fs,
            files: &self.files,
            host: &self.host,
            templates: &PlainText,
            pillar: &self.pillar,
            plan: &self.plan,
            compat: Compat::Strict,
            cancel: &self.cancel,
            deadline: None,
            shared: &self.shared,
            cache_dir: self.outside.path(),
            staging_dir: self.outside.path(),
        }
    }

    /// Writes a file of the machine.
    fn write(&self, path: &str, content: &[u8], mode: u32) {
        let file = self.at(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Calls an execution function as a template does.
    fn ask(&self, function: &str, args: &[&str]) -> Value {
        let args = args.iter().map(|word| Value::from(*word)).collect();
        let call = FunctionCall { function: function.into(), args, kwargs: Map::new() };
        self.host.call(&call).unwrap_or_else(|error| panic!("{function}: {error:?}"))
    }

    /// Where a path of the machine is on this host.
    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }
}

/// Copies a program and the libraries that it is linked with.
fn copy_program(root: &Path, program: &Path) {
    let copy = |from: &Path| {
        let to = root.join(from.strip_prefix("/").unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    copy(program);
    let listed = Machine::this_host().run(&ExecCommand::new("ldd").args([program])).unwrap();
    for word in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
        if word.starts_with('/') && !word.ends_with(':') {
            copy(Path::new(word));
        }
    }
}

fn build(function: &str, name: &str, args: &str) -> Box<dyn State> {
    zagent_states::build(&chunk(function, name, args)).unwrap_or_else(|e| panic!("{}", e.result.comment))
}

/// True when commands can be run below another root here. Otherwise the test has been run in a user namespace, or is
/// skipped.
fn may_enter_roots(test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let unshare = |words: &[&str]| {
        let mut command = ExecCommand::new("unshare").args(["--user", "--map-root-user", "--"]);
        command.args.extend(words.iter().map(Into::into));
        command.env.push((IN_NAMESPACE.into(), "1".into()));
        Machine::this_host().run(&command)
    };
    if std::env::var_os(IN_NAMESPACE).is_none() && unshare(&["true"]).is_ok_and(|out| out.success()) {
        let program = std::env::current_exe().unwrap();
        let out = unshare(&[&program.to_string_lossy(), "--exact", test, "--nocapture"]).unwrap();
        assert!(out.success(), "{}", String::from_utf8_lossy(&out.stderr));
        return false;
    }
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "`{test}` needs root or user namespaces");
    eprintln!("skipped: `{test}` needs root or user namespaces");
    false
}

/// What of this host a mistake would change.
fn host_snapshot() -> Vec<Option<(u64, i64, i64, u64)>> {
    let files = ["/etc", "/etc/passwd", "/etc/group", "/var/lib/dpkg/status", "/etc/marker", OWN_DIR];
    let stamp = |path: &&str| {
        let meta = fs::symlink_metadata(path).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
    };
    files.iter().map(stamp).collect()
}

#[test]
fn files_are_changed_and_restored_below_the_root() {
    if !may_enter_roots("files_are_changed_and_restored_below_the_root") {
        return;
    }
    let before = host_snapshot();
    let second = SecondMachine::new();
    let undo_dir = tempfile::tempdir().unwrap();
    let journal = Arc::new(UndoJournal::create(undo_dir.path(), "run").unwrap());
    let disk = second.machine.disk(Some(Arc::clone(&journal))).for_state("t");
    let ctx = second.ctx(&disk, Some(&journal));
    let name = format!("{OWN_DIR}/app.conf");
    // The user and the group are in the databases of the second machine only.
    let args =
        r#"{"contents": "a = 1", "makedirs": true, "user": "boxroot", "group": "boxwheel", "mode": "0640"}"#;
    let mut state = build("file.managed", &name, args);
    assert!(check_line(state.check(&ctx)).starts_with("null"));
    let applied = apply_line(state.apply(&ctx));
    assert!(applied.starts_with("true"), "{applied}");
    assert_eq!(fs::read_to_string(second.at(&name)).unwrap(), "a = 1\n");
    assert_eq!(fs::metadata(second.at(&name)).unwrap().mode() & 0o7777, 0o640);
    let again = check_line(build("file.managed", &name, args).check(&ctx));
    assert!(again.starts_with("true"), "{again}");
    assert_eq!(host_snapshot(), before);

    journal.finish().unwrap();
    let notes = JournalReader::open(&undo_dir.path().join("run")).unwrap();
    let all = RevertOptions { is_forced: false, tags: None };
    let reverted = undo::revert(&notes, &|tag| Arc::new(second.machine.disk(None).for_state(tag)), &all);
    assert!(reverted.iter().all(|state| state.is_success()), "{reverted:?}");
    assert!(!second.at(OWN_DIR).exists());
    assert_eq!(host_snapshot(), before);
}

#[test]
fn no_link_leads_out_of_the_root() {
    let second = SecondMachine::new();
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let args = r#"{"contents": "x", "makedirs": true}"#;
    let _ = build("file.managed", "/etc/escape/file", args).apply(&ctx);
    let _ = build("file.managed", "/etc/escape/../../../../../up", args).apply(&ctx);
    assert_eq!(fs::read_dir(second.outside.path()).unwrap().count(), 0);
    assert!(!Path::new("/up").exists());
    let overlay = Overlay::new(Arc::new(second.machine.disk(None)));
    let dry = StateCtx { fs: &overlay, ..ctx };
    let preview = check_line(build("file.managed", "/etc/marker", r#"{"contents": "x"}"#).preview(&dry));
    assert!(preview.contains("inside the second machine"), "{preview}");
}

#[test]
fn packages_are_those_of_the_root() {
    let second = SecondMachine::new();
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let version = |host: &dyn TemplateHost| {
        let args = vec![OWN_PACKAGE.into()];
        host.call(&FunctionCall { function: "pkg.version".into(), args, kwargs: Map::new() })
    };
    assert_eq!(version(&second.host), Ok("1.2-3".into()));
    let installed = check_line(build("pkg.installed", OWN_PACKAGE, "{}").check(&ctx));
    assert!(installed.starts_with("true"), "{installed}");
    let removed = check_line(build("pkg.removed", OWN_PACKAGE, "{}").check(&ctx));
    assert!(removed.starts_with("null"), "{removed}");
}

#[test]
fn commands_run_below_the_root() {
    if !may_enter_roots("commands_run_below_the_root") {
        return;
    }
    let before = host_snapshot();
    let second = SecondMachine::new();
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let run = |line: &str, args: &str| apply_line(build("cmd.run", line, args).apply(&ctx));
    for (line, args, expected) in [
        ("cat /etc/marker", "{}", "inside the second machine"),
        ("cat here && pwd", r#"{"cwd": "/srv"}"#, "in its own directory\\n/srv"),
        ("cat here", r#"{"runas": "boxroot"}"#, "in its own directory"),
        ("echo $HERE; umask", r#"{"env": {"HERE": "yes"}, "umask": "027"}"#, "yes\\n0027"),
    ] {
        let ran = run(line, args);
        assert!(ran.starts_with("true") && ran.contains(expected), "{line}: {ran}");
    }
    assert!(run("echo made > /srv/made", "{}").starts_with("true"));
    assert_eq!(fs::read_to_string(second.at("/srv/made")).unwrap(), "made\n");
    // A program of this host is none of the machine.
    assert!(run("ls /", "{}").starts_with("false"));
    assert!(run("true", r#"{"runas": "nobody-of-the-box"}"#).contains("is not available"));
    let script = build("cmd.script", "/srv/script", "{}").apply(&ctx);
    assert!(apply_line(script).starts_with("false"));
    fs::write(second.at("/srv/script"), "cat /etc/marker\n").unwrap();
    let script = apply_line(build("cmd.script", "/srv/script", "{}").apply(&ctx));
    assert!(script.starts_with("true") && script.contains("inside the second machine"), "{script}");
    assert_eq!(host_snapshot(), before);
}

/// An archive with one file in one directory.
fn tar_archive() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("app")).unwrap();
    fs::write(dir.path().join("app/a"), "1").unwrap();
    let packed = Machine::this_host().run(&ExecCommand::new("tar").args([
        "-C",
        &dir.path().to_string_lossy(),
        "-c",
        "app",
    ]));
    packed.unwrap().stdout
}

/// Serves one content to as many requests on this host; gives its address.
fn serve(content: Vec<u8>, name: &str, requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/{name}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().take(requests) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", content.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&content).unwrap();
        }
    });
    address
}

#[test]
fn archives_and_downloads_arrive_below_the_root() {
    if !may_enter_roots("archives_and_downloads_arrive_below_the_root") {
        return;
    }
    let before = host_snapshot();
    let second = SecondMachine::new();
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let archive = tar_archive();
    second.write("/srv/app.tar", &archive, 0o644);
    let address = serve(archive, "app.tar", 1);
    for (target, source) in [("/opt/local", "/srv/app.tar"), ("/opt/fetched", &*address)] {
        let args = format!(r#"{{"source": "{source}", "skip_verify": true}}"#);
        let applied = apply_line({
            let mut state = build("archive.extracted", target, &args);
            let checked = check_line(state.check(&ctx));
            assert!(checked.starts_with("null"), "{source}: {checked}");
            state.apply(&ctx)
        });
        assert!(applied.starts_with("true"), "{source}: {applied}");
        assert_eq!(fs::read_to_string(second.at(&format!("{target}/app/a"))).unwrap(), "1");
        let again = check_line(build("archive.extracted", target, &args).check(&ctx));
        assert!(again.starts_with("true"), "{source}: {again}");
        assert!(!Path::new(target).exists());
    }
    assert_eq!(fs::read_dir(second.at("/tmp")).unwrap().count(), 0, "nothing is left on the machine");

    let address = serve(b"fetched\n".to_vec(), "conf", 1);
    let args = format!(r#"{{"source": "{address}", "skip_verify": true, "makedirs": true}}"#);
    let name = format!("{OWN_DIR}/fetched");
    let fetched = apply_line(build("file.managed", &name, &args).apply(&ctx));
    assert!(fetched.starts_with("true"), "{fetched}");
    assert_eq!(fs::read_to_string(second.at(&name)).unwrap(), "fetched\n");
    assert_eq!(host_snapshot(), before);
}

#[test]
fn facts_of_ones_own_are_those_of_the_root() {
    if !may_enter_roots("facts_of_ones_own_are_those_of_the_root") {
        return;
    }
    let second = SecondMachine::new();
    second.write("/etc/zagent/facts.d/10-role.yaml", b"role: box\n", 0o644);
    let script = b"#!/bin/sh\necho \"place: $(cat /etc/marker)\"\n";
    second.write("/etc/zagent/facts.d/20-place", script, 0o755);
    let facts_dir = Some("/etc/zagent/facts.d".into());
    let facts =
        Facts::new(FactSources { facts_dir, ..FactSources::new(&second.machine, "box", parse_facts) });
    assert_eq!(facts.get("role"), Some("box".into()), "{:?}", facts.warnings());
    assert_eq!(facts.get("place"), Some("inside the second machine".into()), "{:?}", facts.warnings());
}

/// Rules of a time zone that is nine hours ahead all the time.
fn nine_hours_ahead() -> Vec<u8> {
    let header = |counts: [u32; 6]| {
        let mut bytes = [&b"TZif2"[..], &[0; 15]].concat();
        counts.iter().for_each(|count| bytes.extend(count.to_be_bytes()));
        bytes
    };
    let block = |offset: i32| [&offset.to_be_bytes()[..], &[0, 0], b"BOX\0"].concat();
    let part = [header([0, 0, 0, 0, 1, 4]), block(9 * 3600)].concat();
    [&part[..], &part[..], b"\nBOX-9\n"].concat()
}

#[test]
fn the_time_zone_is_that_of_the_root() {
    let second = SecondMachine::new();
    second.write("/usr/share/zoneinfo/Box/Zone", &nine_hours_ahead(), 0o644);
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let before = fs::symlink_metadata("/etc/localtime").ok().map(|meta| (meta.ino(), meta.mtime()));
    let ask = |function: &str| {
        second.host.call(&FunctionCall { function: function.into(), args: Vec::new(), kwargs: Map::new() })
    };
    assert_eq!(ask("timezone.get_offset"), Ok("+0000".into()), "a root without a zone");
    let set = apply_line(build("timezone.system", "Box/Zone", r#"{"utc": false}"#).apply(&ctx));
    assert!(set.starts_with("true"), "{set}");
    assert_eq!(ask("timezone.get_zone"), Ok("Box/Zone".into()));
    assert_eq!(ask("timezone.get_offset"), Ok("+0900".into()));
    assert_eq!(fs::symlink_metadata("/etc/localtime").ok().map(|meta| (meta.ino(), meta.mtime())), before);
}

#[test]
fn a_reboot_does_nothing_below_another_root() {
    if !may_enter_roots("a_reboot_does_nothing_below_another_root") {
        return;
    }
    let second = SecondMachine::new();
    second.write("/sbin/shutdown", b"#!/bin/sh\necho called > /srv/shut\n", 0o755);
    for function in ["system.reboot", "system.shutdown", "system.poweroff", "system.halt"] {
        let call = FunctionCall { function: function.into(), args: Vec::new(), kwargs: Map::new() };
        let said =
            second.host.call_mutating(&call).map(|value| value.as_str().unwrap_or_default().to_owned());
        assert!(said.as_ref().is_ok_and(|said| said.starts_with("nothing is done")), "{function}: {said:?}");
    }
    assert!(!second.dir.path().join("srv/shut").exists());
}

#[test]
fn kernel_facts_are_those_of_the_root() {
    let second = SecondMachine::new();
    second.write("/etc/hostname", b"box-07\n", 0o644);
    second.write("/etc/hosts", b"192.0.2.7 box-07.example.org box-07\n", 0o644);
    for release in ["6.1.0-9-box", "6.1.0-37-box"] {
        second.write(&format!("/lib/modules/{release}/modules.dep"), b"kernel/box.ko: \n", 0o644);
    }
    let facts =
        Facts::new(FactSources { facts_dir: None, ..FactSources::new(&second.machine, "box", parse_facts) });
    assert_eq!(facts.get("nodename"), Some("box-07".into()));
    assert_eq!(facts.get("fqdn"), Some("box-07.example.org".into()));
    assert_eq!(facts.get("kernelrelease"), Some("6.1.0-37-box".into()));
    assert_eq!(facts.get("cwd"), Some("/".into()));
    for name in ["ip4_interfaces", "hwaddr_interfaces", "ipv4"] {
        assert!(facts.get(name).is_some_and(|value| !value.is_truthy()), "{name}: {:?}", facts.get(name));
    }
    assert_eq!(second.ask("kernelpkg.active", &[]), "6.1.0-37-box".into());
    assert_eq!(second.ask("network.get_hostname", &[]), "box-07".into());
}

#[test]
fn interfaces_are_those_that_the_root_shows() {
    let second = SecondMachine::new();
    let all = ["network.interfaces", "network.ip_addrs", "network.subnets", "network.ip_addrs6"];
    for function in all {
        assert!(!second.ask(function, &[]).is_truthy(), "{function}");
    }
    assert_eq!(second.ask("network.in_subnet", &["0.0.0.0/0"]), Value::Bool(false));
    second.write("/sys/class/net/lo/flags", b"0x9\n", 0o644);
    let interfaces = second.ask("network.interfaces", &[]);
    let names: Vec<&str> = interfaces.as_map().unwrap().keys().filter_map(Value::as_str).collect();
    assert!(names.iter().all(|name| *name == "lo"), "{names:?}");
    let missing = second.ask("network.hw_addr", &["eth0"]);
    assert!(
        missing.as_str().is_some_and(|text| text.starts_with("Interface \"eth0\" not in")),
        "{missing:?}"
    );
}

#[test]
fn the_environment_is_that_of_commands_below_the_root() {
    if !may_enter_roots("the_environment_is_that_of_commands_below_the_root") {
        return;
    }
    let second = SecondMachine::new();
    // Cargo sets it for this process, and no command inherits it.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    assert_eq!(second.ask("environ.get", &["CARGO_PKG_NAME"]), "".into());
    assert_eq!(second.ask("environ.has_value", &["CARGO_PKG_NAME"]), Value::Bool(false));
    let items = second.ask("environ.items", &[]);
    assert!(items.get("CARGO_PKG_NAME").is_none() && items.get("PATH").is_some(), "{items:?}");
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let path = second.ask("environ.get", &["PATH"]);
    let ran = apply_line(build("cmd.run", "echo $PATH", r#"{"python_shell": true}"#).apply(&ctx));
    assert!(ran.contains(path.as_str().unwrap()), "{path:?}: {ran}");
}

#[test]
fn kernel_modules_are_those_of_the_root_and_this_kernel_keeps_its_own() {
    let second = SecondMachine::new();
    second.write(
        "/lib/modules/6.1.0-37-box/modules.dep",
        b"kernel/net/box-net.ko.xz: kernel/box.ko\n",
        0o644,
    );
    second.write("/lib/modules/6.1.0-37-box/modules.builtin", b"kernel/box-core.ko\n", 0o644);
    for program in ["/sbin/modprobe", "/sbin/rmmod"] {
        second.write(program, b"#!/bin/sh\necho called > /srv/called\n", 0o755);
    }
    let disk = second.machine.disk(None);
    let ctx = second.ctx(&disk, None);
    let available = second.ask("kmod.available", &[]);
    assert_eq!(available, vec![Value::from("box_core"), "box_net".into()].into());
    assert_eq!(second.ask("kmod.mod_list", &[]), Value::from(Vec::<Value>::new()));
    let built_in = check_line(build("kmod.present", "box-core", "{}").check(&ctx));
    assert!(built_in.starts_with("true"), "{built_in}");
    let refused = check_line(build("kmod.present", "box_net", "{}").check(&ctx));
    assert!(refused.starts_with("false") && refused.contains("below another root"), "{refused}");
    let mut state = build("kmod.present", "box_net", r#"{"persist": true}"#);
    let applied = apply_line(state.apply(&ctx));
    assert!(applied.starts_with("true"), "{applied}");
    assert_eq!(fs::read_to_string(second.at("/etc/modules")).unwrap(), "box_net\n");
    let again = check_line(build("kmod.present", "box_net", r#"{"persist": true}"#).check(&ctx));
    assert!(again.starts_with("true"), "{again}");
    let call =
        FunctionCall { function: "kmod.load".into(), args: vec!["box_net".into()], kwargs: Map::new() };
    assert!(second.host.call_mutating(&call).is_err());
    assert!(!second.at("/srv/called").exists());
}
