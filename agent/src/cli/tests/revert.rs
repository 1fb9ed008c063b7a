//! Reverting runs: which run is reverted, what cannot be reverted, and how to force it.

use super::{Said, Tree, zagent};
use zagent_daemon::error::ExitStatus;

struct Site {
    tree: Tree,
}

impl Site {
    fn new() -> Self {
        Self { tree: Tree::new(&[("one", "old\n"), ("two", "old\n")]) }
    }

    fn path(&self, name: &str) -> String {
        self.tree.dir.path().join(name).display().to_string()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn zagent(&self, words: &[&str]) -> Said {
        let config = self.path("none.yaml");
        zagent(&[words, &["--config", &config]].concat(), self.tree.dir.path())
    }

    /// A run that changes both files and runs a command; returns its ID.
    fn change(&self) -> String {
        let states = format!(
            "a:\n  file.managed:\n    - name: {}\n    - contents: new\nb:\n  file.managed:\n    - name: {}\n    - contents: new\nc:\n  cmd.run:\n    - name: 'true'\n",
            self.path("one"),
            self.path("two"),
        );
        self.tree.write(&[("states/all.sls", &states)]);
        let states = self.path("states");
        let said = self.zagent(&["state.apply", "all", "--states", &states, "--out", "json"]);
        assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
        said.json()["run"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_revert_names_its_run_and_what_cannot_be_reverted() {
    let site = Site::new();
    let run = site.change();
    let look = site.zagent(&["run", "--revert", "--test"]);
    assert!(look.out.starts_with(&format!("dry run of the revert of {run} on ")), "{}", look.all());
    let said = site.zagent(&["run", "--revert", "last"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.starts_with(&format!("revert of {run} on ")), "{}", said.out);
    assert!(said.out.contains("not undone    c  cmd.run"), "{}", said.out);
    assert!(said.out.contains("2 reverted, 0 not reverted, 0 skipped, 0 untouched, 1 cannot be undone"));
    assert!(!said.out.contains("--force"), "{}", said.out);
    let data = site.zagent(&["history", "last", "--out", "json"]).json();
    assert_eq!((&data["reverts"], &data["mode"]), (&run.as_str().into(), &"revert".into()));
    let list = site.zagent(&["history"]).out;
    assert!(list.contains(&format!("revert of {run}")), "{list}");
    assert_eq!(site.zagent(&["history", "--out", "json"]).json()[0]["reverts"], run.as_str());
}

#[test]
fn forcing_a_revert_does_not_revert_it() {
    let site = Site::new();
    let run = site.change();
    std::fs::write(site.path("two"), "by hand\n").unwrap();
    let partial = site.zagent(&["run", "--revert", "last"]);
    assert_eq!(partial.exit, ExitStatus::Failed, "{}", partial.all());
    assert!(partial.out.contains(&format!("zagent run --revert {run} --force")), "{}", partial.out);
    assert_eq!((site.text("one").as_str(), site.text("two").as_str()), ("old\n", "by hand\n"));
    let forced = site.zagent(&["run", "--revert", "last", "--force"]);
    assert!(forced.out.starts_with(&format!("revert of {run} on ")), "{}", forced.all());
    assert_eq!((site.text("one").as_str(), site.text("two").as_str()), ("old\n", "old\n"));
}

#[test]
fn only_states_of_the_run_can_be_selected() {
    let site = Site::new();
    site.change();
    let before = site.zagent(&["history", "--out", "json"]).json();
    let said = site.zagent(&["run", "--revert", "last", "--state", "nope"]);
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(said.err.contains("a state `nope`") && said.err.contains("a, b, c"), "{}", said.err);
    let near = site.zagent(&["run", "--revert", "last", "--state", "A"]);
    assert!(near.err.contains("did you mean `a`?"), "{}", near.err);
    assert_eq!(site.zagent(&["history", "--out", "json"]).json(), before);
    assert_eq!(site.text("one"), "new\n");
}

#[test]
fn a_revert_without_a_run_asks_and_scripts_write_last() {
    let site = Site::new();
    let run = site.change();
    let asked = site.zagent(&["run", "--revert"]);
    assert_eq!(asked.exit, ExitStatus::Usage, "{}", asked.all());
    assert!(asked.err.contains(&run) && asked.err.contains("--revert last"), "{}", asked.err);
    assert_eq!(site.text("one"), "new\n");
    let look = site.zagent(&["run", "--revert", "--test"]);
    assert_eq!(look.exit, ExitStatus::Success, "{}", look.all());
    assert_eq!(site.text("one"), "new\n");
    assert_eq!(site.zagent(&["run", "--revert", "last"]).exit, ExitStatus::Success);
    assert_eq!(site.text("one"), "old\n");
}

#[test]
fn options_that_a_revert_cannot_follow_are_refused() {
    let site = Site::new();
    site.change();
    for words in [vec!["--sls", "all"], vec!["--schedule", "eager"], vec!["--jobs", "2"], vec!["--fresh"]] {
        let said = site.zagent(&[&["run", "--revert", "last"], &words[..]].concat());
        assert_eq!(said.exit, ExitStatus::Usage, "{words:?}: {}", said.all());
        assert!(said.err.contains(words[0]) && said.err.contains("--state ID"), "{}", said.err);
        assert_eq!(site.text("one"), "new\n");
    }
}

#[test]
fn reverted_states_have_durations_and_details() {
    let site = Site::new();
    let run = site.change();
    let applied = site.zagent(&["history", &run, "--out", "json"]).json();
    let state = |data: &serde_json::Value, id: &str| {
        let found = data["states"].as_object().unwrap().values().find(|state| state["__id__"] == id);
        found.unwrap().clone()
    };
    let details = state(&applied, "a")["details"].clone();
    assert_eq!((&details["bytes"], &details["mode"]), (&4.into(), &"0644".into()), "{details}");
    let data = site.zagent(&["run", "--revert", "last", "--out", "json"]).json();
    let one = state(&data, "a");
    assert!(one["duration"].as_f64().unwrap() > 0.0, "{one}");
    assert_eq!(one["details"], serde_json::json!({"restored": 1, "removed": 0, "bytes": 4, "mode": "0644"}));
    let all: f64 = ["a", "b", "c"].iter().map(|id| state(&data, id)["duration"].as_f64().unwrap()).sum();
    assert!(all <= data["duration_ms"].as_f64().unwrap(), "{data}");
}

/// A module whose revert works at the third attempt.
const FLAKY: &str = r#"#!/bin/sh
case "$(cat)" in
  *'"call":"check"'*)
    if [ -e '$dir/made' ]; then echo '{"result": true, "changes": {}, "comment": "there"}'
    else echo '{"result": null, "changes": {"made": "it"}, "comment": "would make it"}'; fi;;
  *'"call":"apply"'*) touch '$dir/made'; echo '{"result": true, "changes": {"made": "it"}, "comment": "made"}';;
  *)
    echo x >>'$dir/tries'
    if [ "$(wc -l <'$dir/tries')" -ge 3 ]; then echo '{"result": true, "changes": {"made": "gone"}, "comment": "undone"}'
    else echo '{"result": false, "changes": {}, "comment": "not yet"}'; fi;;
esac
"#;

#[test]
fn a_revert_retries_as_the_state_says() {
    for (retry, attempts) in [("    - retry:\n        attempts: 3\n        interval: 0\n", 3), ("", 1)] {
        let site = Site::new();
        let script = FLAKY.replace("$dir", &site.tree.dir.path().display().to_string());
        site.tree.write(&[
            ("states/_states/flaky", &script),
            ("states/all.sls", &format!("f:\n  flaky.made:\n    - name: x\n{retry}")),
        ]);
        let program = site.path("states/_states/flaky");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let states = site.path("states");
        let said = site.zagent(&["state.apply", "all", "--states", &states]);
        assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
        let said = site.zagent(&["run", "--revert", "last", "--states", &states, "--out", "json"]);
        let data = said.json();
        let one = data["states"].as_object().unwrap().values().next().unwrap();
        assert_eq!(one["result"], attempts == 3, "{}", said.all());
        assert_eq!(site.text("tries").lines().count(), attempts);
        if attempts == 3 {
            assert_eq!(one["details"]["attempts"], 3, "{one}");
            assert!(one["comment"].as_str().unwrap().contains("attempt 2 failed: "), "{one}");
        }
    }
}
