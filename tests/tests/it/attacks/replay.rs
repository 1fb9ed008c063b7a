//! Old revisions, offered again: by commit, by serial and by history; also to a node that lost almost all its state.

use std::fs;

use zagent_tests::node::Repo;

use super::{MANIFEST, SIGNERS, Victim};

/// An older commit with a good signature, offered as the newest; then the same to a node that lost almost all its
/// state.
#[test]
fn a_replayed_commit_is_refused_even_after_the_state_was_deleted() {
    let mut victim = Victim::new(SIGNERS);
    let old = victim.good.clone();
    // The good one changes nothing but the history.
    victim.good = victim.commit("one");
    victim.node.turn().changed(0);
    let new = victim.good.clone();
    let offer = |id: &str| victim.repo.git(&["push", "-q", "-f", "origin", &format!("{id}:refs/heads/main")]);
    offer(&old);
    victim.refuses(&["the branch was moved back"]);
    let root = victim.node.root();
    for gone in ["state/floor", "trust/floor"] {
        fs::remove_file(root.join(gone)).unwrap();
        victim.refuses(&["the branch was moved back"]);
    }
    for gone in ["cache", "state"] {
        fs::remove_dir_all(root.join(gone)).unwrap();
    }
    victim.node.turn().expect(76, &["the branch was moved back"]);
    victim.node.call(&["source", "sync"]).expect(76, &["the branch was moved back"]);
    assert!(victim.node.generations().is_empty());
    offer(&new);
    victim.node.turn().expect(0, &[]);
    victim.node.stands_on(&new);
}

/// The branch of one node cannot bypass the floor of the followed branch.
#[test]
fn a_testing_branch_does_not_allow_a_downgrade() {
    let mut victim = Victim::new(SIGNERS);
    let oldest = victim.good.clone();
    let old = victim.commit("one");
    victim.node.turn().changed(0);
    victim.good = victim.commit("one");
    victim.node.turn().changed(0);
    let push = |to: &str| victim.repo.git(&["push", "-q", "-f", "origin", to]);
    push(&format!("{old}:refs/heads/testing/node"));
    push(&format!("{oldest}:refs/heads/main"));
    victim.refuses(&["the branch was moved back"]);
    let bare = victim.repo.bare();
    victim.repo.git(&["--git-dir", &bare.to_string_lossy(), "update-ref", "-d", "refs/heads/main"]);
    victim.node.turn().expect(0, &["does not exist"]);
    victim.node.stands_on(&victim.good);
}

/// A pin accepts one commit; the floor of the branch stays as it was.
#[test]
fn a_pin_does_not_allow_a_downgrade() {
    let mut victim = Victim::new(SIGNERS);
    let oldest = victim.good.clone();
    let old = victim.commit("one");
    victim.node.turn().changed(0);
    victim.good = victim.commit("one");
    victim.node.turn().changed(0);
    victim.node.call(&["pin", &oldest]).expect(0, &[]);
    victim.node.turn().expect(0, &[]);
    victim.node.stands_on(&oldest);
    victim.repo.git(&["push", "-q", "-f", "origin", &format!("{old}:refs/heads/main")]);
    victim.node.call(&["unpin"]).expect(0, &[]);
    victim.node.turn().expect(76, &["the branch was moved back"]);
    victim.node.stands_on(&oldest);
    victim.repo.git(&["push", "-q", "-f", "origin", &format!("{}:refs/heads/main", victim.good)]);
    victim.node.turn().expect(0, &[]);
    victim.node.stands_on(&victim.good);
}

/// A replay protection record that is damaged in both places is not trusted, and not ignored either.
#[test]
fn a_damaged_replay_protection_record_refuses_everything() {
    let victim = Victim::new(SIGNERS);
    for place in ["state/floor", "trust/floor"] {
        fs::write(victim.node.root().join(place), "zagent floor 1 0\n{}\n").unwrap();
    }
    victim.commit("two");
    victim.refuses(&["cannot read the replay protection records", "--allow-rewind"]);
}

/// A commit of another repository, signed by the same person. Git signatures do not name a repository: it is refused
/// because it does not descend from what was accepted. A node that has accepted nothing yet can only tell them apart by
/// the manifest.
#[test]
fn a_signed_commit_of_another_repository_is_refused() {
    let victim = Victim::new(SIGNERS);
    let other = Repo::new(&victim.node);
    other.sign_with(Some(&victim.alice));
    other.motd("evil");
    other.commit();
    other.git(&["push", "-q", "-f", &victim.repo.bare().to_string_lossy(), "HEAD:refs/heads/main"]);
    victim.refuses(&["history was rewritten"]);
}

/// Old and reused serials on top of the good history, signed by everyone.
#[test]
fn an_older_serial_is_refused() {
    let mut victim = Victim::new(MANIFEST);
    let first = victim.good.clone();
    victim.repo.write("extra", "text\n");
    victim.list(&[]);
    victim.sign_manifest();
    victim.push();
    victim.node.turn().changed(0);
    victim.good = victim.repo.head();

    victim.repo.git(&["rm", "-rq", "."]);
    victim.repo.git(&["checkout", &first, "--", "."]);
    victim.push();
    victim.refuses(&["has serial 1, but 2 was accepted before"]);

    victim.repo.write("extra", "another text\n");
    fs::remove_file(victim.manifest()).unwrap();
    victim.list(&["--serial", "2"]);
    victim.sign_manifest();
    victim.push();
    victim.refuses(&["serial 2, which was accepted with different content"]);

    for gone in ["cache", "state"] {
        fs::remove_dir_all(victim.node.root().join(gone)).unwrap();
    }
    victim.node.turn().expect(76, &["serial 2, which was accepted with different content"]);
    assert!(victim.node.generations().is_empty());
}
