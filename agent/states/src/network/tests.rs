use super::*;
use crate::testing::chunk;

fn entry(name: &str, args: &str) -> String {
    NetworkManaged::read(&ChunkArgs::new(&chunk("network.managed", name, args))).unwrap().entry
}

#[test]
fn entries_are_as_salt_writes_them() {
    let static_ = entry(
        "eth7",
        r#"{"enabled": true, "type": "eth", "proto": "static", "ipaddr": "10.1.0.7", "netmask": "255.255.255.0",
           "gateway": "10.1.0.1", "dns": ["8.8.8.8", "8.8.4.4"], "mtu": 1400, "up_cmds": ["echo hi"]}"#,
    );
    assert_eq!(
        static_,
        "auto eth7\niface eth7 inet static\n    address 10.1.0.7\n    netmask 255.255.255.0\n    \
         gateway 10.1.0.1\n    mtu 1400\n    dns-nameservers 8.8.8.8 8.8.4.4\n    up echo hi\n"
    );
    assert_eq!(entry("eth8", r#"{"enabled": false, "proto": "dhcp"}"#), "iface eth8 inet dhcp\n");
    let bridge = entry("br7", r#"{"type": "bridge", "proto": "dhcp", "ports": "eth7 eth8", "stp": false}"#);
    assert_eq!(bridge, "auto br7\niface br7 inet dhcp\n    bridge_ports eth7 eth8\n    bridge_stp off\n");
    let six = entry(
        "eth9",
        r#"{"proto": "static", "ipaddr": "10.2.0.7", "enable_ipv6": true, "ipv6proto": "static",
           "ipv6ipaddr": "2001:db8::5", "ipv6netmask": 64}"#,
    );
    assert_eq!(
        six,
        "auto eth9\niface eth9 inet static\n    address 10.2.0.7\niface eth9 inet6 static\n    \
         address 2001:db8::5\n    netmask 64\n"
    );
}

#[test]
fn entries_of_others_stay() {
    let text =
        "# lo\nauto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet dhcp\n\tmtu 1400\n\nauto eth1\n";
    let (before, old, after) = split_entry(text, "eth0");
    assert_eq!(before, "# lo\nauto lo\niface lo inet loopback\n\n");
    assert_eq!(old, "auto eth0\niface eth0 inet dhcp\n\tmtu 1400\n");
    assert_eq!(after, "\nauto eth1\n");
    assert_eq!(split_entry("auto lo", "eth0"), ("auto lo\n".into(), String::new(), String::new()));
}
