//! A push is followed over every transport; a revision that must not be followed is reported, and the last good one
//! stays.

use std::fs;

use zagent_cache::testing::{GitHttpServer, Sshd};
use zagent_tests::node::{Node, Repo};

/// The first turn changes the host, the second finds nothing to do, the third follows the next push.
fn is_followed(node: &Node, repo: &Repo) {
    let first = repo.publish("one");
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&first);
    node.turn().changed(0);
    let second = repo.publish("two");
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "two");
    node.stands_on(&second);
    let status = node.status();
    assert_eq!((&status["is_current"], &status["why_not"]), (&true.into(), &serde_json::Value::Null));
}

#[test]
fn a_push_is_followed_over_a_file() {
    let node = Node::new();
    let repo = Repo::new(&node);
    node.follow(&repo.url());
    is_followed(&node, &repo);
}

#[test]
fn a_push_is_followed_over_http() {
    let node = Node::new();
    let repo = Repo::new(&node);
    let server = GitHttpServer::start(repo.top());
    node.follow(&server.url("repo.git"));
    is_followed(&node, &repo);
}

#[test]
fn a_push_is_followed_over_ssh() {
    let Some(sshd) = Sshd::start() else {
        assert!(std::env::var_os("CI").is_none(), "there is no SSH server on this machine");
        return;
    };
    let node = Node::new();
    let repo = Repo::new(&node);
    let (url, key, hosts) = (sshd.url(&repo.bare()), sshd.file("key"), sshd.file("known_hosts"));
    let remote = format!("url: '{url}', key: {}, known_hosts: {}", key.display(), hosts.display());
    node.configure(&format!("source: {{remotes: [{{{remote}}}], timeout: 30s}}\n"), "");
    is_followed(&node, &repo);
}

/// `--test` shows what the new revision would do, and changes nothing.
#[test]
fn a_dry_run_shows_the_new_revision_and_changes_nothing() {
    let (node, repo) = Node::with_repo();
    let first = repo.head();
    node.turn().changed(1);
    let (before, memory) = (node.generations(), fs::read(node.root().join("state/memory")).unwrap());
    let second = repo.publish("two");
    let said = node.turn_with(&["--test"]);
    said.expect(0, &[]);
    let report = said.json();
    assert_eq!((&report["revision"], &report["changed"]), (&second.into(), &1.into()), "{report:#}");
    assert_eq!(node.text("motd"), "one");
    assert_eq!(node.generations(), before);
    assert_eq!(fs::read(node.root().join("state/memory")).unwrap(), memory);
    node.stands_on(&first);
}

#[test]
fn rewritten_history_is_refused_until_it_is_allowed() {
    let (node, repo) = Node::with_repo();
    let base = repo.head();
    let good = repo.publish("two");
    node.turn().changed(1);
    repo.git(&["reset", "-q", "--hard", &base]);
    let rewritten = repo.publish("rewritten");
    fs::remove_file(node.host().join("motd")).unwrap();
    node.turn().expect(76, &["history was rewritten", "zagent source sync --allow-rewind"]);
    assert_eq!(node.text("motd"), "two", "the last good revision converges");
    node.stands_on(&good);
    let status = node.status();
    assert_eq!((&status["why_not"]["why"], &status["is_current"]), (&"refused".into(), &false.into()));
    node.call(&["source", "sync"]).expect(76, &["history was rewritten"]);
    node.call(&["source", "sync", "--allow-rewind"]).expect(0, &[&rewritten]);
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "rewritten");
    node.stands_on(&rewritten);
    repo.publish("three");
    node.turn().changed(1);
}

/// A branch that moves back to an earlier commit.
#[test]
fn a_branch_that_moves_back_is_refused_until_it_is_allowed() {
    let (node, repo) = Node::with_repo();
    let first = repo.head();
    node.turn().changed(1);
    let second = repo.publish("two");
    node.turn().changed(1);
    repo.git(&["reset", "-q", "--hard", &first]);
    repo.push();
    node.turn().expect(76, &["the branch was moved back"]);
    node.stands_on(&second);
    node.call(&["source", "sync", "--allow-rewind"]).expect(0, &[&first]);
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "one");
}

#[test]
fn a_deleted_branch_leaves_the_node_where_it_is() {
    let (node, repo) = Node::with_repo();
    let good = repo.head();
    node.turn().changed(1);
    repo.git(&["-C", &repo.bare().to_string_lossy(), "update-ref", "-d", "refs/heads/main"]);
    fs::remove_file(node.host().join("motd")).unwrap();
    node.turn().expect(0, &["warning", "the branch `main` does not exist"]);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&good);
    repo.publish("two");
    node.turn().changed(1);
}

#[test]
fn an_empty_repository_is_named_and_the_first_push_fixes_it() {
    let node = Node::new();
    let repo = Repo::new(&node);
    node.follow(&repo.url());
    node.turn()
        .expect(69, &["states engine unavailable: no states directory exists yet", "`main` does not exist"]);
    assert!(node.generations().is_empty());
    repo.publish("one");
    node.turn().changed(1);
}

/// A revision that does not compile is not published; the reason is reported until a good push.
#[test]
fn a_revision_that_does_not_compile_is_not_published() {
    let (node, repo) = Node::with_repo();
    let good = repo.head();
    node.turn().changed(1);
    repo.write(
        "states/motd.sls",
        "motd: {file.managed: [{name: $D/motd}, {contents: '{{ nobody.knows() }}'}]}\n",
    );
    repo.commit();
    let bad = repo.push();
    fs::remove_file(node.host().join("motd")).unwrap();
    node.turn().expect(65, &["is held back: it does not compile", "motd.sls"]);
    assert_eq!(node.text("motd"), "one", "the last good revision converges");
    node.stands_on(&good);
    let why = node.status()["why_not"].clone();
    assert_eq!((&why["why"], &why["revision"]), (&"broken".into(), &bad.into()), "{why:#}");
    node.call(&["status"]).expect(0, &["does not compile"]);
    let healed = repo.publish("two");
    node.turn().changed(1);
    node.stands_on(&healed);
    assert_eq!(node.status()["why_not"], serde_json::Value::Null);
}

/// The first revision is bad: there is no earlier one, and the reason is still reported.
#[test]
fn a_first_revision_that_does_not_compile_is_reported() {
    let node = Node::new();
    let repo = Repo::new(&node);
    node.follow(&repo.url());
    repo.write("states/top.sls", "base: {'*': [nothing]}\n");
    repo.commit();
    repo.push();
    node.turn().expect(65, &["states engine unavailable", "does not compile", "nothing"]);
    assert!(node.generations().is_empty());
}

#[test]
fn the_second_remote_is_used_when_the_first_is_down() {
    let (node, repo) = Node::with_repo();
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let remotes = format!("{{url: 'http://{dead}/x.git'}}, {{url: '{}'}}", repo.url());
    node.configure(&format!("source: {{remotes: [{remotes}], timeout: 30s}}\n"), "");
    node.turn().expect(0, &[]);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&repo.head());
    let status = node.status();
    assert_eq!(status["current"]["source"], repo.url(), "{status:#}");
    let failing: Vec<bool> =
        status["remotes"].as_array().unwrap().iter().map(|r| !r["failing_since"].is_null()).collect();
    assert_eq!(failing, [true, false], "{status:#}");
    assert!(node.call(&["status"]).out.contains("1 of 2 reachable"), "{status:#}");
}

#[test]
fn offline_the_last_good_revision_converges() {
    let (node, repo) = Node::with_repo();
    let good = repo.head();
    let server = GitHttpServer::start(repo.top());
    node.follow(&server.url("repo.git"));
    node.turn().changed(1);
    drop(server);
    fs::remove_file(node.host().join("motd")).unwrap();
    node.turn().expect(0, &["warning", "127.0.0.1"]);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&good);
    node.call(&["source", "sync"]).expect(69, &["stays current"]);
}
