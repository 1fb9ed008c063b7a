//! Health checks after a run: a new revision that breaks something is rolled back, and is not tried again.

use std::fs;

use zagent_tests::node::{Node, Repo};

/// A node that is healthy as long as `motd` is not `bad`.
fn checked(more: &str) -> (Node, Repo) {
    let (node, repo) = Node::with_repo();
    let check = format!("health: [{{name: motd, command: '! grep -q bad $D/motd', tries: 1{more}}}]\n");
    node.configure(&format!("source: {{remotes: [{{url: '{}'}}]}}\n", repo.url()), &check);
    (node, repo)
}

#[test]
fn a_revision_that_fails_health_checks_is_rolled_back_and_not_tried_again() {
    let (node, repo) = checked("");
    let good = repo.head();
    node.turn().changed(1);
    let bad = repo.publish("bad");
    let said = node.turn();
    said.expect(1, &["rolling back", &bad[..12], &good[..12]]);
    assert_eq!(node.text("motd"), "one");
    node.stands_on(&good);
    let status = node.status();
    assert_eq!(status["quarantined"][0]["revision"], bad, "{status:#}");
    assert_eq!((&status["why_not"]["why"], &status["rollbacks"]), (&"quarantined".into(), &1.into()));

    let again = node.turn();
    again.expect(0, &["it is quarantined"]);
    assert_eq!(again.json()["changed"], 0);
    node.stands_on(&good);
    assert_eq!(node.status()["rollbacks"], 1);

    let next = repo.publish("better");
    node.turn().changed(1);
    node.stands_on(&next);
    assert_eq!(node.text("motd"), "better");
}

/// A check that failed before the run says nothing about the run.
#[test]
fn only_what_got_worse_counts() {
    let (node, repo) = checked("");
    node.turn().changed(1);
    fs::write(node.host().join("motd"), "bad\n").unwrap();
    let next = repo.publish("bad too");
    node.turn().expect(0, &[]);
    node.stands_on(&next);
    assert_eq!(node.text("motd"), "bad too");
    assert_eq!(node.status()["quarantined"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_wanted_check_only_warns() {
    let (node, repo) = checked(", required: false");
    node.turn().changed(1);
    let next = repo.publish("bad");
    node.turn().expect(0, &["warning", "motd"]);
    node.stands_on(&next);
    assert_eq!(node.text("motd"), "bad");
}

/// From the first revision there is nothing to roll back to: this is reported, and it stays.
#[test]
fn the_first_revision_has_nothing_before_it() {
    let (node, repo) = checked("");
    let first = repo.publish("bad");
    node.turn().expect(1, &["there is nothing to roll back to"]);
    node.stands_on(&first);
}

#[test]
fn after_a_manual_rollback_the_revision_is_not_tried_again() {
    let (node, repo) = Node::with_repo();
    let first = repo.head();
    node.turn().changed(1);
    let second = repo.publish("two");
    node.turn().changed(1);
    node.call(&["cache", "rollback"]).expect(0, &["is quarantined", "zagent quarantine clear"]);
    node.turn_with(&["--no-fetch"]).changed(1);
    assert_eq!(node.text("motd"), "one");
    node.turn().expect(0, &["it is quarantined: rolled back by"]);
    node.stands_on(&first);
    node.call(&["quarantine", "clear", &second[..12]]).expect(0, &[]);
    node.turn().expect(0, &[]);
    assert_eq!(node.text("motd"), "two");
    node.stands_on(&second);
}

/// A revision that was published and not run, because of a crash or by `source sync`, is still on trial.
#[test]
fn a_missed_trial_is_done_later() {
    let (node, repo) = checked("");
    let good = repo.head();
    node.turn().changed(1);
    let bad = repo.publish("bad");
    node.call(&["source", "sync"]).expect(0, &[]);
    node.stands_on(&bad);
    node.turn_with(&["--no-fetch"]).expect(1, &["rolling back", &bad[..12]]);
    node.stands_on(&good);
    assert_eq!(node.text("motd"), "one");
}

/// Runs that never finish do not prove a revision good either.
#[test]
fn a_revision_whose_runs_are_interrupted_is_rolled_back() {
    let (node, repo) = checked("");
    let good = repo.head();
    node.turn().changed(1);
    let stuck = repo.publish("fine");
    node.call(&["source", "sync"]).expect(0, &[]);
    let file = node.root().join("state/trial");
    let trial: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let cut_off = |tries: u32| {
        let trial = serde_json::json!({"generation": trial["generation"], "tries": tries, "before": []});
        fs::write(&file, trial.to_string()).unwrap();
    };
    cut_off(4);
    node.turn_with(&["--no-fetch"]).expect(1, &["were interrupted", "rolling back"]);
    node.stands_on(&good);
    assert_eq!(node.status()["quarantined"][0]["revision"], stuck);
    assert!(!file.exists(), "the trial is over");
}
