//! Commits without a signature, or with one that is not accepted.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::{SIGNERS, Victim};

#[test]
fn an_unsigned_commit_is_refused() {
    let victim = Victim::new(SIGNERS);
    victim.repo.sign_with(None);
    victim.commit("evil");
    victim.refuses(&["is not signed"]);
}

#[test]
fn a_commit_signed_by_an_unknown_key_is_refused() {
    let victim = Victim::new(SIGNERS);
    let stranger = victim.repo.key("stranger");
    victim.repo.sign_with(Some(&stranger));
    victim.commit("evil");
    victim.refuses(&["is not in `", "signers"]);
}

/// A signature that was copied from another commit of the same person.
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

/// Each row: the line of a key in the signers file, and the message about it.
#[test]
fn an_invalid_key_is_refused() {
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

/// A signers file that everyone can write is not trusted.
#[test]
fn a_signers_file_writable_by_others_is_refused() {
    let victim = Victim::new(SIGNERS);
    victim.commit("evil");
    fs::set_permissions(victim.node.path("signers"), Permissions::from_mode(0o666)).unwrap();
    victim.refuses(&["signers"]);
}
