//! What looks like an orphan and is none, or is not zagent's: it stays.

use std::fs;
use std::os::unix::fs::symlink;

use super::{NONE, PruneHost, TWO, exists};

#[test]
fn a_single_state_says_nothing_of_the_rest_of_the_host() {
    let node = PruneHost::new();
    node.configure("run:\n  prune:\n    types: [file, directory, symlink]\n");
    node.states(TWO);
    node.run(&[]);
    let x = node.host("x").display().to_string();
    let single = |name: &str, all: &[&str]| {
        let name = format!("name={name}");
        node.zagent(0, &[all, &[name.as_str(), "contents=x"]].concat());
        assert!(exists(&node.host("new/a")) && exists(&node.host("b")), "{all:?}");
        assert!(node.orphans().is_empty(), "{all:?}");
    };
    single(&x, &["state.single", "file.managed"]);
    single(&x, &["file.managed"]);
    let low = format!(r#"{{"state": "file", "fun": "managed", "name": "{x}", "contents": "low"}}"#);
    node.zagent(0, &["state.low", &low]);
    node.zagent(0, &["state.sls_id", "b", "web"]);
    assert!(exists(&node.host("new/a")) && exists(&node.host("l")));
    // What a single state made is not a matter of all states.
    node.run(&[]);
    assert!(exists(&node.host("x")) && node.orphans().is_empty());
    // All states still remove what they no longer manage.
    node.states(NONE);
    node.run(&[]);
    assert!(!exists(&node.host("b")) && exists(&node.host("x")));
}

#[test]
fn another_name_of_a_managed_path_is_not_removed() {
    let node = PruneHost::new();
    fs::create_dir_all(node.host("usr/lib")).unwrap();
    symlink("usr/lib", node.host("lib")).unwrap();
    let states = |lib: &str, more: &str| {
        node.states(&format!(
            "unit:\n  file.managed:\n    - name: $H/{lib}/unit\n    - contents: unit\n\
             conf:\n  file.managed:\n    - name: $H/{more}\n    - contents: conf\n"
        ));
    };
    states("lib", "conf");
    node.run(&[]);
    states("usr/lib", "/./conf");
    node.run(&["--prune=file,directory,symlink"]);
    assert!(exists(&node.host("usr/lib/unit")) && exists(&node.host("conf")));
    // A link on the way to a managed path.
    let file = "in:\n  file.managed:\n    - name: $H/app/conf\n    - contents: x\n";
    fs::create_dir(node.host("app-1")).unwrap();
    node.states(&format!("app:\n  file.symlink:\n    - name: $H/app\n    - target: app-1\n{file}"));
    node.run(&[]);
    node.states(file);
    node.run(&["--prune=file,directory,symlink"]);
    assert!(exists(&node.host("app")) && exists(&node.host("app/conf")));
}

#[test]
fn a_copied_directory_with_more_in_it_stays() {
    let node = PruneHost::new();
    node.write("host/from/a", "a\n");
    node.states("copy:\n  file.copy:\n    - name: $H/to\n    - source: $H/from\n    - subdir: false\n");
    node.run(&[]);
    assert!(exists(&node.host("to/a")));
    node.write("host/to/mine", "mine\n");
    node.states(NONE);
    node.run(&["--prune=file,directory"]);
    assert!(exists(&node.host("to/a")) && exists(&node.host("to/mine")));
}

#[test]
fn what_something_else_makes_during_a_run_is_not_ours() {
    let node = PruneHost::new();
    node.states(
        "other:\n  cmd.run:\n    - name: echo theirs > $H/conf; echo same > $H/same\n    - creates: $H/conf\n\
         conf:\n  file.managed:\n    - name: $H/conf\n    - contents: ours\n    - require: [cmd: other]\n\
         same:\n  file.managed:\n    - name: $H/same\n    - contents: same\n    - require: [cmd: other]\n",
    );
    node.run(&[]);
    node.states(NONE);
    node.run(&["--prune=file"]);
    assert!(exists(&node.host("conf")) && exists(&node.host("same")));
    let created = node.orphans();
    assert!(created.iter().all(|one| one.contains("created=false")) && created.len() == 2, "{created:?}");
}

#[test]
fn what_a_revert_took_away_and_others_put_there_is_theirs() {
    let node = PruneHost::new();
    node.states("x:\n  file.managed:\n    - name: $H/x\n    - contents: x\n");
    node.run(&[]);
    node.zagent(0, &["run", "--revert", "last"]);
    assert!(!exists(&node.host("x")));
    node.write("host/x", "x\n");
    node.states(NONE);
    node.run(&["--prune=file"]);
    assert!(exists(&node.host("x")));
}
