//! Commits that nobody signed, or someone who may not.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::{SIGNERS, Victim};

#[test]
fn a_commit_that_nobody_signed_is_refused() {
    let victim = Victim::new(SIGNERS);
    victim.repo.sign_with(None);
    victim.commit("evil");
    victim.refuses(&["is not signed"]);
}

#[test]
fn a_commit_of_a_stranger_is_refused() {
    let victim = Victim::new(SIGNERS);
    let stranger = victim.repo.key("stranger");
    victim.repo.sign_with(Some(&stranger));
    victim.commit("evil");
    victim.refuses(&["is not in `", "signers"]);
}

/// A signature that was taken from another commit of the same person.
#[test]
fn a_signature_of_another_commit_is_refused() {
    let victim = Victim::new(SIGNERS);
    let honest = victim.repo.git(&["cat-file", "commit", "HEAD"]);
    victim.repo.motd("evil");
    victim.repo.git(&["add", "-A"]);
    let tree = victim.repo.git(&["write-tree"]);
    let (head, rest) = honest.split_once('\n').unwrap();
    assert!(head.starts_with("tree "), "{honest}");
    let forged = format!("tree {tree}\nparent {}\n{rest}\n", victim.good);
    let id = victim.repo.git_on(&["hash-object", "-t", "commit", "-w", "--stdin"], forged.as_bytes());
    victim.repo.git(&["push", "-q", "-f", "origin", &format!("{id}:refs/heads/main")]);
    victim.refuses(&["does not match the signed content"]);
}

/// Each row: how a key stands in the file of signers, and what is said of it.
#[test]
fn a_key_that_does_not_count_is_refused() {
    let victim = Victim::new(SIGNERS);
    victim.commit("evil");
    let public = victim.alice.public.clone();
    let table = [
        ("valid-after=\"20990101\" ", "is valid from 2099-01-01"),
        ("valid-before=\"20260101\" ", "was valid until"),
        ("namespaces=\"file\" ", "is not allowed to sign for `git`"),
    ];
    for (options, words) in table {
        victim.node.write("signers", &format!("alice@example.org {options}{public}\n"));
        victim.refuses(&[words]);
    }
    victim.node.write("signers", &format!("alice@example.org {public}\n"));
    victim.node.write("revoked", &format!("{public}\n"));
    victim.refuses(&["is revoked in `"]);
    fs::remove_file(victim.node.path("signers")).unwrap();
    victim.refuses(&["signers"]);
}

/// Everybody may write to the file of signers: then it says nothing.
#[test]
fn a_file_of_signers_that_others_may_change_is_refused() {
    let victim = Victim::new(SIGNERS);
    victim.commit("evil");
    fs::set_permissions(victim.node.path("signers"), Permissions::from_mode(0o666)).unwrap();
    victim.refuses(&["signers"]);
}
