//! Which branch a node follows: the configured one, its own testing branch, or the one that it is pinned to.

use std::fs;

use zagent_tests::node::Node;

#[test]
fn a_branch_may_have_slashes() {
    let (node, repo) = Node::with_repo();
    repo.motd("release");
    repo.commit();
    let release = repo.push_to("release/2026/q1");
    node.configure(
        &format!("source: {{remotes: [{{url: '{}', branch: release/2026/q1}}]}}\n", repo.url()),
        "",
    );
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "release");
    node.stands_on(&release);
}

/// The testing branch counts while it is based on the followed one; when it is deleted, the node returns.
#[test]
fn a_testing_branch_counts_while_it_is_based_on_the_followed_one() {
    let (node, repo) = Node::with_repo();
    let main = repo.head();
    node.turn().changed(1);
    repo.motd("tried");
    repo.commit();
    let testing = repo.push_to("testing/node");
    repo.push_to("testing/other");
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "tried");
    node.stands_on(&testing);
    node.turn().changed(0);
    repo.git(&["push", "-q", "origin", ":refs/heads/testing/node"]);
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&main);
}

/// When the followed branch moves on, a testing branch that was not rebased no longer counts, and is named.
#[test]
fn an_outdated_testing_branch_is_named_and_ignored() {
    let (node, repo) = Node::with_repo();
    let main = repo.head();
    node.turn().changed(1);
    repo.motd("tried");
    repo.commit();
    repo.push_to("testing/node");
    node.turn().changed(1);
    repo.git(&["reset", "-q", "--hard", &main]);
    let newer = repo.publish("two");
    node.turn().expect(0, &["warning", "`testing/node` is not based on `main`"]);
    assert_eq!(node.text("motd"), "two");
    node.stands_on(&newer);
    node.turn().expect(0, &["`testing/node` is not based on `main`"]);
    node.stands_on(&newer);
    repo.git(&["push", "-q", "origin", ":refs/heads/testing/node"]);
    node.turn().changed(0);
}

#[test]
fn a_testing_branch_is_ignored_where_that_is_configured() {
    let (node, repo) = Node::with_repo();
    let main = repo.head();
    repo.motd("tried");
    repo.commit();
    repo.push_to("testing/node");
    node.configure(&format!("source: {{remotes: [{{url: '{}'}}], testing: false}}\n", repo.url()), "");
    node.turn().changed(1);
    node.stands_on(&main);
}

#[test]
fn a_pin_to_a_commit_holds_until_it_is_removed() {
    let (node, repo) = Node::with_repo();
    let first = repo.head();
    node.turn().changed(1);
    let second = repo.publish("two");
    node.turn().changed(1);
    node.call(&["pin", &first, "--reason", "a bad night"]).expect(0, &[]);
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&first);
    repo.publish("three");
    node.turn().changed(0);
    node.stands_on(&first);
    node.call(&["status"]).expect(0, &["pinned to commit", "a bad night"]);
    node.call(&["unpin"]).expect(0, &[]);
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "three");
    assert_ne!(node.revision(), second);
}

#[test]
fn a_pin_to_a_branch_follows_that_branch() {
    let (node, repo) = Node::with_repo();
    let main = repo.head();
    node.turn().changed(1);
    repo.motd("side");
    repo.commit();
    let side = repo.push_to("side/track");
    node.call(&["pin", "side/track"]).expect(0, &[]);
    node.turn().changed(1);
    node.stands_on(&side);
    repo.motd("side two");
    repo.commit();
    repo.push_to("side/track");
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "side two");
    node.call(&["unpin"]).expect(0, &[]);
    node.turn().changed(1);
    node.stands_on(&main);
    node.call(&["pin", "no/such"]).expect(2, &["`no/such` does not exist", "side/track"]);
    node.turn().expect(0, &[]);
    node.stands_on(&main);
}

/// The commands that hold a node back, as an operator uses them.
#[test]
fn a_paused_node_applies_nothing_and_reports_it() {
    let (node, repo) = Node::with_repo();
    let first = repo.head();
    node.turn().changed(1);
    node.call(&["pause", "--for", "4h", "--reason", "a freeze"]).expect(0, &[]);
    repo.publish("two");
    fs::remove_file(node.host().join("motd")).unwrap();
    node.turn().expect(75, &["a freeze", "zagent resume"]);
    assert_eq!(node.text("motd"), "");
    node.stands_on(&first);
    assert_eq!(node.status()["why_not"]["why"], "paused");
    node.call(&["resume"]).expect(0, &[]);
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "two");
}
