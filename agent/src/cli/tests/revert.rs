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
    let said = site.zagent(&["run", "--revert"]);
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
    let partial = site.zagent(&["run", "--revert"]);
    assert_eq!(partial.exit, ExitStatus::Failed, "{}", partial.all());
    assert!(partial.out.contains(&format!("zagent run --revert {run} --force")), "{}", partial.out);
    assert_eq!((site.text("one").as_str(), site.text("two").as_str()), ("old\n", "by hand\n"));
    let forced = site.zagent(&["run", "--revert", "--force"]);
    assert!(forced.out.starts_with(&format!("revert of {run} on ")), "{}", forced.all());
    assert_eq!((site.text("one").as_str(), site.text("two").as_str()), ("old\n", "old\n"));
}

#[test]
fn only_states_of_the_run_can_be_selected() {
    let site = Site::new();
    site.change();
    let before = site.zagent(&["history", "--out", "json"]).json();
    let said = site.zagent(&["run", "--revert", "--state", "nope"]);
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(said.err.contains("a state `nope`") && said.err.contains("a, b, c"), "{}", said.err);
    let near = site.zagent(&["run", "--revert", "--state", "A"]);
    assert!(near.err.contains("did you mean `a`?"), "{}", near.err);
    assert_eq!(site.zagent(&["history", "--out", "json"]).json(), before);
    assert_eq!(site.text("one"), "new\n");
}
