//! Manifests that do not match the tree, or with too few signatures.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::{MANIFEST, Victim};

/// Each row: a change to a tree after two people signed its manifest.
#[test]
fn a_manifest_is_held_to_every_word() {
    type Tamper = fn(&Victim);
    let table: [(&str, Tamper, &str); 5] = [
        (
            "lists too little",
            |v| v.repo.write("states/evil.sls", "x: {test.nop: []}\n"),
            "`states/evil.sls` is not in the manifest",
        ),
        (
            "lists too much",
            |v| fs::remove_file(v.repo.work().join("extra")).unwrap(),
            "lists `extra`, which does not exist",
        ),
        (
            "another digest",
            |v| v.repo.motd("evil"),
            "`states/motd.sls` does not match the manifest: its digest",
        ),
        (
            "another mode",
            |v| fs::set_permissions(v.repo.work().join("extra"), Permissions::from_mode(0o755)).unwrap(),
            "`extra` does not match the manifest: its mode is",
        ),
        (
            "another manifest",
            |v| fs::write(v.manifest(), fs::read_to_string(v.manifest()).unwrap() + "# more\n").unwrap(),
            "0 of 2 required signatures are valid",
        ),
    ];
    let victim = Victim::new(MANIFEST);
    victim.repo.write("extra", "text\n");
    victim.list(&[]);
    victim.sign_manifest();
    victim.repo.commit();
    let signed = victim.repo.head();
    for (_, tamper, words) in table {
        victim.repo.git(&["reset", "-q", "--hard", &signed]);
        tamper(&victim);
        victim.push();
        victim.refuses(&[words]);
    }
    victim.repo.git(&["reset", "-q", "--hard", &signed]);
    victim.repo.push();
    victim.node.turn().expect(0, &[]);
    victim.node.stands_on(&signed);
}

/// Each row: who signed the manifest, and how.
#[test]
fn a_manifest_needs_enough_signatures() {
    let victim = Victim::new(MANIFEST);
    victim.repo.write("extra", "text\n");
    victim.list(&[]);
    victim.push();
    victim.refuses(&["the manifest is not signed"]);
    victim.sign_manifest_as(&victim.alice, "alice");
    victim.push();
    victim.refuses(&["1 of 2 required signatures are valid"]);
    victim.sign_manifest_as(&victim.alice, "bob");
    victim.push();
    victim.refuses(&["1 of 2 required signatures are valid"]);
    let stranger = victim.repo.key("stranger");
    victim.sign_manifest_as(&stranger, "bob");
    victim.push();
    victim.refuses(&["1 of 2 required signatures are valid", "is not in `"]);
    // Made for commits, used for a manifest.
    fs::remove_file(victim.repo.work().join("manifest.yaml.sig.bob")).unwrap();
    let mut sign = std::process::Command::new("ssh-keygen");
    sign.args(["-q", "-Y", "sign", "-n", "git", "-f"]).arg(&victim.bob.path).arg(victim.manifest());
    assert!(sign.stderr(std::process::Stdio::null()).status().unwrap().success());
    victim.push();
    victim.refuses(&["1 of 2 required signatures are valid", "made for `git`"]);
    fs::remove_file(victim.repo.work().join("manifest.yaml.sig")).unwrap();
    victim.sign_manifest_as(&victim.bob, "bob");
    victim.push();
    victim.node.turn().expect(0, &[]);
    victim.node.stands_on(&victim.repo.head());
    // Without the manifest there is nothing to sign.
    let after = Victim { good: victim.repo.head(), ..victim };
    fs::remove_file(after.manifest()).unwrap();
    after.push();
    after.refuses(&["is not signed"]);
}

#[test]
fn a_manifest_that_expired_is_refused() {
    let victim = Victim::new(MANIFEST);
    let text = fs::read_to_string(victim.manifest()).unwrap();
    fs::write(victim.manifest(), format!("expires: 2025-01-01T00:00:00Z\n{text}")).unwrap();
    victim.repo.write("extra", "text\n");
    victim.list(&[]);
    victim.sign_manifest();
    victim.push();
    victim.refuses(&["the manifest expired at 2025-01-01"]);
}
