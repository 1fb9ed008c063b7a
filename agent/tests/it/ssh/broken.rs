//! Twenty hosts, seven of them broken in different ways: the others are not affected, and each says what is wrong.

use std::fs;
use std::net::TcpListener;

use super::site::Site;

/// Hosts without a fault.
const HEALTHY: usize = 12;

/// What a broken host is expected to say.
const FAULTS: [(&str, &str); 7] = [
    ("down-1", "Connection refused"),
    ("down-2", "Connection refused"),
    ("changed", "the key of the host has changed"),
    ("silent", "ssh to root@127.0.0.1 port"),
    ("flood", "login scripts"),
    ("dying", "the connection ended"),
    ("full", "KiB of free space"),
];

fn declare(site: &mut Site) {
    let healthy = site.server("", "");
    for n in 1..=HEALTHY {
        site.host(&format!("ok-{n:02}"), healthy, "");
    }
    site.host("dying", healthy, "");
    for name in ["down-1", "down-2"] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        site.host(name, port, "");
    }
    let other = fs::read_to_string(site.path("other.pub")).unwrap();
    site.write("other_hosts", &format!("[127.0.0.1]:{healthy} {other}"));
    site.host("changed", healthy, &format!("known_hosts_file: {}", site.path("other_hosts").display()));
    let flood = site.server("ForceCommand sh -c 'yes Welcome to this machine; true'\n", "");
    site.host("flood", flood, "");
    let small = site.path("small").display().to_string();
    fs::create_dir_all(&small).unwrap();
    let full = site.server("", &format!("mount -t tmpfs -o size=64k none {small}"));
    site.host("full", full, &format!("thin_dir: {small}/agent"));
    let own = site.path("").display().to_string();
    let read_only = format!(
        "mount --bind /tmp /tmp; mount -o remount,ro,bind /tmp; mount --bind {own} {own}; mount -o remount,rw,bind {own}"
    );
    let frozen = site.server("", &read_only);
    let shared = format!("/dev/shm/zagent-test-{}", std::process::id());
    site.host("frozen", frozen, &format!("thin_dir: {shared}"));
}

#[test]
fn broken_hosts_cost_only_their_own_entries() {
    let Some(mut site) = Site::new() else { return };
    declare(&mut site);
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    site.host("silent", listener.local_addr().unwrap().port(), "timeout: 2");
    site.write("states/top.sls", "base:\n  '*': [web]\n");
    let here = site.path("here").display().to_string();
    fs::create_dir_all(&here).unwrap();
    site.write(
        "states/web.sls",
        &format!(
            "first:\n  test.nop: []\n{{% if grains['id'] == 'dying' %}}\nend:\n  cmd.run:\n    - name: kill -9 $PPID\n    - require: [{{test: first}}]\n\
             {{% elif grains['id'] != 'frozen' %}}\nmark:\n  file.managed:\n    - name: {here}/{{{{ grains['id'] }}}}\n    - contents: here\n{{% endif %}}\n"
        ),
    );
    let said = site.json(&["state.apply", "-r", "--target", "T@ssh"]);
    assert_eq!(said.code, 1, "{said:?}");
    let states = said.states();
    for n in 1..=HEALTHY {
        let id = format!("ok-{n:02}");
        let own: Vec<_> = states.iter().filter(|(key, ..)| key.contains(&format!("_|-{id} "))).collect();
        assert!(own.len() == 2 && own.iter().all(|(_, result, _)| *result == Some(true)), "{id}: {own:?}");
        assert_eq!(fs::read_to_string(format!("{here}/{id}")).unwrap(), "here\n");
    }
    let frozen: Vec<_> = states.iter().filter(|(key, ..)| key.contains("frozen")).collect();
    assert!(frozen.len() == 1 && frozen[0].1 == Some(true), "{frozen:?}");
    for (id, words) in FAULTS {
        let failed = states.iter().find(|(key, ..)| *key == format!("no_|-{id}_|-{id}_|-None"));
        assert!(
            failed.is_some_and(|(_, result, comment)| *result == Some(false) && comment.contains(words)),
            "{id}: {states:?}"
        );
    }
    let dying: Vec<_> = states.iter().filter(|(key, ..)| key.contains("-dying first_|-")).collect();
    assert!(dying.len() == 1 && dying[0].1 == Some(true), "what was done before it died is told: {dying:?}");

    // Without grains a broken host is known by its id, its type and its address.
    let grains = site.json(&["-r", "--target", "down-1", "grains.items"]).json();
    assert_eq!(grains.to_string(), r#"{"host":"127.0.0.1","resource_type":"ssh","resource_id":"down-1"}"#);
    let refused = site.run(&["resource", "refresh", "down-1"]);
    assert!(refused.code == 1 && refused.out.contains("Connection refused"), "{refused:?}");
    let forgotten = site.run(&["resource", "forget", "frozen"]);
    assert_eq!(forgotten.code, 0, "{forgotten:?}");
    // The directory of the declaration is not the agent's own: it stays, empty.
    fs::remove_dir(format!("/dev/shm/zagent-test-{}", std::process::id())).unwrap();
}
