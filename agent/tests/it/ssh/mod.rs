//! Resources that are reached over ssh: real ssh servers on loopback, healthy and broken ones.

mod broken;
mod site;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use self::site::Site;
use crate::node::eventually;

/// States that touch files, commands, templates and directories.
const STATES: &str = r"
{% set kernel = salt['cmd.run']('uname -s') %}
motd:
  file.managed:
    - name: {{ pillar['base'] }}/{{ grains['resource_id'] }}/motd
    - makedirs: True
    - source: salt://motd.j2
    - template: jinja
    - context: {kernel: {{ kernel }} }
tree:
  file.recurse:
    - name: {{ pillar['base'] }}/{{ grains['resource_id'] }}/tree
    - source: salt://tree
    - require: [{file: motd}]
once:
  cmd.run:
    - name: echo done > {{ pillar['base'] }}.once
    - creates: {{ pillar['base'] }}.once
    - require: [{file: motd}]
";

/// A node with one server and these hosts on it.
fn site_with(hosts: &[&str]) -> Option<(Site, u16)> {
    let mut site = Site::new()?;
    let port = site.server("", "");
    for host in hosts {
        site.host(host, port, "");
    }
    site.write("states/top.sls", "base:\n  '*': [web]\n");
    site.write("states/web.sls", STATES);
    site.write(
        "states/motd.j2",
        "{{ grains['id'] }} {{ kernel }} {{ pillar['who'] }} {% include 'part' %}\n",
    );
    site.write("states/part", "part");
    site.write("states/tree/a", "a\n");
    site.write("states/tree/sub/b", "b\n");
    let base = site.path("base");
    site.write("pillar/all.sls", &format!("who: everybody\nbase: {}\n", base.display()));
    Some((site, port))
}

#[test]
fn states_run_on_an_ssh_resource_and_are_reverted_there() {
    let Some((site, port)) = site_with(&["web-02"]) else { return };
    let test = site.json(&["state.apply", "-r", "--target", "T@ssh", "--test"]);
    assert!(test.states().iter().all(|(_, result, _)| result.is_none()), "{test:?}");
    assert!(!site.path("base").exists());
    let first = site.json(&["state.apply", "-r", "--target", "T@ssh"]);
    let mut keys: Vec<String> = first.states().into_iter().map(|(key, ..)| key).collect();
    keys.sort();
    let base = site.path("base/web-02");
    let want = [
        format!("cmd_|-web-02 once_|-web-02 echo done > {}.once_|-run", site.path("base").display()),
        format!("file_|-web-02 motd_|-web-02 {}_|-managed", base.join("motd").display()),
        format!("file_|-web-02 tree_|-web-02 {}_|-recurse", base.join("tree").display()),
    ];
    assert_eq!((first.code, keys), (0, want.to_vec()), "{first:?}");
    assert_eq!(fs::read_to_string(base.join("motd")).unwrap(), "web-02 Linux everybody part\n");
    assert_eq!(fs::read_to_string(base.join("tree/sub/b")).unwrap(), "b\n");
    assert_eq!(fs::metadata(base.join("motd")).unwrap().permissions().mode() & 0o777, 0o644);

    // The second run changes nothing: one login, one session, no copy.
    let program = site.program("web-02").expect("the agent on the host");
    let (before, logins, sessions) =
        (fs::metadata(&program).unwrap(), site.logins(port), site.sessions(port));
    let again = site.json(&["state.apply", "-r", "--target", "T@ssh"]);
    assert_eq!((again.json()["changed"].as_u64(), again.json()["failed"].as_u64()), (Some(0), Some(0)));
    let after = fs::metadata(&program).unwrap();
    assert_eq!((site.logins(port), site.sessions(port)), (logins + 1, sessions + 1));
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(fs::metadata(site.thin("web-02")).unwrap().permissions().mode() & 0o777, 0o700);

    // What the first run did is undone on the host.
    let run = site.runs().into_iter().next().expect("the first run");
    let reverted = site.json(&["run", "--revert", &run, "-r", "--target", "web-02"]);
    assert_eq!(reverted.code, 0, "{reverted:?}");
    assert!(!base.join("motd").exists() && !base.join("tree/a").exists(), "{reverted:?}");

    let forgotten = site.run(&["resource", "forget", "web-02"]);
    assert_eq!(forgotten.code, 0, "{forgotten:?}");
    assert!(!site.thin("web-02").exists());
}

#[test]
fn functions_and_grains_are_those_of_the_host() {
    let Some((site, _)) = site_with(&["web-02", "web-03"]) else { return };
    let ask = |words: &[&str]| site.json(&[&["-r"], words].concat());
    assert_eq!(
        ask(&["--target", "T@ssh", "test.ping"]).out.split_whitespace().collect::<String>(),
        r#"{"web-02":true,"web-03":true}"#
    );
    let shell = ask(&["--target", "web-02", "cmd.run", "tr '\\0' ' ' < /proc/$PPID/cmdline"]);
    assert!(shell.json().as_str().is_some_and(|words| words.contains("resource-agent")), "{shell:?}");
    assert_eq!(ask(&["--target", "web-02", "cmd.retcode", "exit 3"]).json(), 3);
    assert_eq!(ask(&["--target", "web-02", "cmd.run_all", "echo out"]).json()["stdout"], "out");
    let grains = ask(&["--target", "web-02", "grains.items"]).json();
    assert_eq!((&grains["resource_type"], &grains["resource_id"]), (&"ssh".into(), &"web-02".into()));
    assert_eq!(grains["kernel"], "Linux");
    assert_eq!(ask(&["--target", "G@kernel:Linux and T@ssh:web-03", "test.ping"]).json(), true);
    assert_eq!(ask(&["--target", "web-02", "pkg.version", "bash"]).code, 0);
    let unknown = ask(&["--target", "web-02", "no.such"]);
    assert!(
        unknown.code == 1 && unknown.out.contains("is not supported for resource type 'ssh'"),
        "{unknown:?}"
    );
    for verb in ["ping", "refresh"] {
        let said = site.run(&["resource", verb]);
        assert_eq!(said.code, 0, "{said:?}");
    }
}

#[test]
fn files_are_sent_once_and_checked() {
    let Some((site, _)) = site_with(&["web-02"]) else { return };
    assert_eq!(site.json(&["state.apply", "-r", "--target", "T@ssh"]).code, 0);
    let kept: Vec<_> =
        fs::read_dir(site.thin("web-02").join("files")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(kept.len(), 3, "the template and two files of the tree: {kept:?}");
    kept.iter().for_each(|file| fs::write(file, "somebody else was here").unwrap());
    fs::remove_file(site.path("base/web-02/tree/a")).unwrap();
    let again = site.json(&["state.apply", "-r", "--target", "T@ssh"]);
    assert_eq!((again.code, again.json()["changed"].as_u64()), (0, Some(1)), "{again:?}");
    assert_eq!(fs::read_to_string(site.path("base/web-02/tree/a")).unwrap(), "a\n");
}

#[test]
fn no_secret_of_a_run_travels_further_than_it_must() {
    let Some((mut site, _)) = site_with(&["web-02"]) else { return };
    site.pillar = "password: of-the-manager-only\n".into();
    site.write("pillar/top.sls", "base:\n  mgr: [resources]\n  '*': [all]\n  web-02: [own]\n");
    site.write("pillar/own.sls", "password: of-the-resource\n");
    let base = site.path("base");
    site.write(
        "states/web.sls",
        &format!(
            "secret:\n  file.managed:\n    - name: {}/secret\n    - makedirs: True\n    - contents: {{{{ pillar['password'] }}}}\n",
            base.display()
        ),
    );
    // What goes over the wire is copied on its way.
    let wire = site.path("wire");
    let real = "/usr/bin/ssh";
    site.write("bin/ssh", &format!("#!/bin/sh\ntee -a {} | exec {real} \"$@\"\n", wire.display()));
    fs::set_permissions(site.path("bin/ssh"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", site.path("bin").display());
    let said = site.run_with_path(&["state.apply", "-r", "--target", "T@ssh", "--out", "json"], &path);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(fs::read_to_string(base.join("secret")).unwrap(), "of-the-resource\n");
    assert!(!said.out.contains("of-the-resource"), "{said:?}");
    let sent = decoded(&fs::read(&wire).unwrap());
    assert!(sent.contains("of-the-resource") && !sent.contains("of-the-manager-only"));
    let found =
        Command::new("grep").args(["-rlE", "of-the-(resource|manager)"]).arg(site.thin("web-02")).output();
    assert_eq!(
        String::from_utf8(found.unwrap().stdout).unwrap(),
        "",
        "nothing stays beside the managed file"
    );
}

/// What a wire carried, with the packages in it unpacked.
fn decoded(wire: &[u8]) -> String {
    use base64::Engine;
    let mut text = String::new();
    for line in wire.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let package = line.split("\"package\":\"").nth(1).and_then(|rest| rest.split('"').next());
        match package {
            Some(package) => {
                let bytes = base64::prelude::BASE64_STANDARD.decode(package).unwrap();
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
            None => text.push_str(&line),
        }
    }
    text
}

#[test]
fn a_run_ends_with_its_connection() {
    let Some((site, _)) = site_with(&["web-02"]) else { return };
    let pid = site.path("pid");
    site.write(
        "states/web.sls",
        &format!("long:\n  cmd.run:\n    - name: echo $$ > {}; exec sleep 600\n", pid.display()),
    );
    let mut manager = site.start(&["state.apply", "-r", "--target", "T@ssh"]);
    let sleeper =
        eventually("the command runs", || fs::read_to_string(&pid).ok().filter(|t| t.ends_with('\n')));
    manager.kill().unwrap();
    manager.wait().unwrap();
    let process = format!("/proc/{}", sleeper.trim());
    eventually("the command has ended", || (!fs::exists(&process).unwrap()).then_some(()));
}

#[test]
fn passphrases_and_passwords_are_asked_for_by_programs() {
    let Some(mut site) = Site::new() else { return };
    site.keygen("locked", "correct horse");
    let both = fs::read_to_string(site.path("key.pub")).unwrap()
        + &fs::read_to_string(site.path("locked.pub")).unwrap();
    site.write("authorized", &both);
    let bin = site.path("sudo-bin").display().to_string();
    let port = site.server(&format!("SetEnv PATH={bin}:/usr/bin:/bin\n"), "");
    let locked = format!("priv: {}", site.path("locked").display());
    site.host("locked", port, &format!("{locked}, priv_passwd: correct horse"));
    site.host("wrong", port, &format!("{locked}, priv_passwd: wrong horse"));
    site.host("sudo", port, "sudo: true, passwd: swordfish99, sudo_user: deploy");
    site.host("tty", port, "tty: true");
    // It takes one line of its input, as sudo does, and says whom it would change to.
    let sudo = "#!/bin/sh\n[ \"$1 $2 $3 $4 $5 $6 $7\" = '-k -S -p  -u deploy --' ] || exit 9\nIFS= read -r line\n\
                [ \"$line\" = swordfish99 ] || { echo 'Sorry, try again.' >&2; exit 1; }\nshift 7\necho used > \"${0%/*}/used\"\nexec \"$@\"\n";
    site.write("sudo-bin/sudo", sudo);
    fs::set_permissions(site.path("sudo-bin/sudo"), PermissionsExt::from_mode(0o755)).unwrap();
    let said = site.json(&["-r", "--target", "T@ssh", "cmd.run", "echo fine"]);
    let answers = said.json();
    for id in ["locked", "tty", "sudo"] {
        assert_eq!(answers[id], "fine", "{id}: {said:?}");
    }
    assert!(site.path("sudo-bin/used").exists());
    assert!(answers["wrong"].as_str().is_some_and(|words| words.contains("Permission denied")), "{said:?}");
    for secret in ["swordfish99", "correct horse"] {
        assert!(!said.out.contains(secret) && !said.err.contains(secret));
    }
    let forgotten = site.run(&["resource", "forget", "sudo"]);
    assert!(forgotten.code == 0 && !site.thin("sudo").exists(), "{forgotten:?}");
    let plain = site.json(&["-r", "--target", "tty", "cmd.run", "printf 'a\\nb'"]);
    assert_eq!(plain.json(), "a\nb");
}

#[test]
fn a_user_of_sudo_runs_the_program_of_the_one_who_logs_in() {
    let Some(mut site) = Site::new() else { return };
    let bin = site.path("sudo-bin").display().to_string();
    let port = site.server(&format!("SetEnv PATH={bin}:/usr/bin:/bin\n"), "mount -t tmpfs none /var/tmp");
    site.host("login", port, "");
    site.host("su", port, "thin_dir: /var/tmp/of/others, sudo: true, sudo_user: nobody");
    let sudo = "#!/bin/sh\n[ \"$1 $2 $3 $4\" = '-n -u nobody --' ] || exit 9\nshift 4\n\
                HOME=/ exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"\n";
    site.write("sudo-bin/sudo", sudo);
    fs::set_permissions(site.path("sudo-bin/sudo"), PermissionsExt::from_mode(0o755)).unwrap();
    let ask = |id: &str, command: &str| site.json(&["-r", "--target", id, "cmd.run", command]);
    assert_eq!(ask("su", "id -u").json(), "65534");
    let listed = ask("login", "ls -d /var/tmp/of/others/zagent-0/zagent-* /var/tmp/zagent-65534");
    assert!(listed.out.contains("/var/tmp/of/others/zagent-0/zagent-"), "{listed:?}");
    let forgotten = site.run(&["resource", "forget", "su"]);
    assert_eq!(forgotten.code, 0, "{forgotten:?}");
    assert_eq!(ask("login", "find /var/tmp -name 'zagent*'").json(), "", "nothing of it stays");
    // What somebody else put where its files would go is not used.
    ask("login", "mkdir -m 777 /var/tmp/zagent-65534");
    let refused = ask("su", "id -u");
    assert!(refused.out.contains("of this user alone"), "{refused:?}");
}
