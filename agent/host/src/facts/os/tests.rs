//! Recorded distributions: each file in `cases/` holds the files of a host and the facts that Salt makes of them.

use super::super::testing::FactsFixture;
use super::*;

/// Files start with a line `== /path`, the facts with `== facts`.
fn check(name: &str, text: &str) {
    let mut host = FactsFixture::new();
    let mut wanted = None;
    for section in text.split("== ").filter(|s| !s.is_empty()) {
        let (title, body) = section.split_once('\n').unwrap();
        if title == "facts" {
            wanted = Some(body.to_owned());
        } else {
            host = host.file(title, body);
        }
    }
    let found = Value::from(collect(&host.facts()));
    let wanted = Value::from_json_str(&wanted.unwrap()).unwrap();
    assert_eq!(found, wanted, "{name}");
}

#[test]
fn recorded_distributions() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/facts/os/cases");
    let mut number = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        check(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
        number += 1;
    }
    assert!(number >= 30, "only {number} cases");
}

#[test]
fn a_host_that_does_not_name_itself() {
    FactsFixture::new().expect(
        r#"{"os": "Linux", "os_family": "Linux", "osfullname": "Linux", "osrelease": "", "osfinger": null,
            "osrelease_info": null, "osmajorrelease": null}"#,
    );
}

#[test]
fn the_architecture_is_that_of_the_packages() {
    let debian = || {
        FactsFixture::new().file("/etc/os-release", "NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=12\n")
    };
    debian().expect(r#"{"osarch": "amd64"}"#);
    FactsFixture::new().file("/etc/os-release", "NAME=Fedora\nID=fedora\n").expect(r#"{"osarch": "x86_64"}"#);
    let elf = |class: u8, machine: u16, flags: u32| {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, 1]);
        head.resize(18, 0);
        head.extend(machine.to_le_bytes());
        head.resize(36, 0);
        head.extend(flags.to_le_bytes());
        head.resize(64, 0);
        head
    };
    for (class, machine, flags, want) in [
        (2, 62, 0, "amd64"),
        (1, 62, 0, "x32"),
        (1, 3, 0, "i386"),
        (1, 40, 0x0500_0400, "armhf"),
        (1, 40, 0x0500_0200, "armel"),
        (2, 183, 0, "arm64"),
        (2, 21, 2, "ppc64el"),
        (2, 22, 0, "s390x"),
        (2, 243, 5, "riscv64"),
    ] {
        debian()
            .file("/usr/bin/dpkg", elf(class, machine, flags))
            .expect(&format!(r#"{{"osarch": "{want}"}}"#));
    }
    debian().file("/usr/bin/dpkg", "#!/bin/sh\n").expect(r#"{"osarch": "amd64"}"#);
    for (machine, want) in [("aarch64", "arm64"), ("i686", "i386"), ("armv7l", "armhf"), ("s390x", "s390x")] {
        let mut host = debian();
        host.system.uname.machine = machine.into();
        host.expect(&format!(r#"{{"osarch": "{want}"}}"#));
    }
}
