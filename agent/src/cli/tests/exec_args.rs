//! Arguments of `exec.run`: the compiler refuses exactly what the run refuses.

use super::{Said, Tree, zagent};
use zagent_daemon::error::ExitStatus;

/// Arguments below `exec.run`, and whether the state can run.
const ROWS: &[(&str, bool)] = &[
    ("- command: 'true'", true),
    ("- command: ''", false),
    ("- command: [a, b]", false),
    ("- command: true", false),
    ("- command: \"echo 'x\"", false),
    ("- provider: shell\n    - command: 'true #'", true),
    ("- provider: perl", false),
    ("- cwd: /", true),
    ("- cwd: relative", false),
    ("- cwd: ''", true),
    ("- environment: [A=b]", true),
    ("- environment: {A: b, C: null}", true),
    ("- environment: [A]", false),
    ("- environment: [7]", false),
    ("- environment: {A: [1]}", false),
    ("- environment: ['=b']", false),
    ("- path: /usr/bin:/bin", true),
    ("- path: [/usr/bin, /bin]", false),
    ("- path: bin", false),
    ("- returns: [0, '1']", true),
    ("- returns: 0", true),
    ("- returns: [x]", false),
    ("- returns: [300]", false),
    ("- returns: [true]", false),
    ("- timeout: 30", true),
    ("- timeout: '30'", true),
    ("- timeout: 30s", true),
    ("- timeout: 1.5s", false),
    ("- timeout: -1", false),
    ("- timeout: 0s", false),
    ("- timeout: soon", false),
    ("- creates: /no/such/file", true),
    ("- creates: [/a, /b]", false),
    ("- creates: relative", false),
    ("- onlyif: 'true'", true),
    ("- onlyif: ['true']", false),
    ("- onlyif: true", false),
    ("- onlyif: {fun: test.true}", false),
    ("- unless: 'false'", true),
    ("- unless: \"test 'x\"", false),
    ("- refresh_only: yes", true),
    ("- refresh_only: 'false'", false),
    ("- refresh_only: [1]", false),
    ("- logoutput: false", true),
    ("- logoutput: maybe", false),
    ("- umask: '0027'", true),
    ("- umask: '1777'", false),
    ("- stdin: x", true),
    ("- stdin: [x]", false),
    ("- nosuch: x", false),
];

fn run(tree: &Tree, more: &[&str]) -> Said {
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let (states, config) = (at("states"), at("none.yaml"));
    let words = ["state.apply", "all", "--states", &states, "--config", &config, "--out", "json"];
    zagent(&[&words[..], more].concat(), tree.dir.path())
}

#[test]
fn check_accepts_what_the_run_accepts_and_nothing_else() {
    for (args, is_good) in ROWS {
        let sls = format!("'true':\n  exec.run:\n    {args}\n");
        let tree = Tree::new(&[("states/all.sls", &sls)]);
        let compiled = run(&tree, &[]);
        let want = if *is_good { ExitStatus::Success } else { ExitStatus::NotCompiled };
        assert_eq!(compiled.exit, want, "{args}: {}", compiled.all());
        // Salt's leniency lets everything through to the run, which must decide in the same way.
        let ran = run(&tree, &["--compat", "salt"]);
        let want = if *is_good { ExitStatus::Success } else { ExitStatus::Failed };
        assert_eq!(ran.exit, want, "{args}: {}", ran.all());
        if !is_good {
            let error = &compiled.json()["errors"][0];
            assert!(error["line"].as_u64().is_some_and(|line| line >= 1), "{args}: {error}");
            assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{args}: {error}");
        }
    }
}

#[test]
fn messages_say_subscribe_when_the_user_wrote_subscribe() {
    for (requisite, word) in [
        ("subscribe: [file#/no/such]", "`subscribe` of `a`"),
        ("subscribe: [7]", "`subscribe` of `a`"),
        ("subscribe: [{file: 7}]", "`subscribe` of `a`"),
        ("watch: [{file: /no/such}]", "`watch` of `a`"),
    ] {
        let sls = format!("a:\n  exec.run:\n    - command: 'true'\n    - {requisite}\n");
        let said = run(&Tree::new(&[("states/all.sls", &sls)]), &[]);
        assert!(said.out.contains(word), "{requisite}: {}", said.all());
    }
    let ring = "a:\n  exec.run:\n    - command: 'true'\n    - subscribe: [exec#b]\nb:\n  exec.run:\n    - command: 'true'\n    - require: [{exec: a}]\n";
    let tree = Tree::new(&[("states/all.sls", ring)]);
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let (states, config) = (at("states"), at("none.yaml"));
    let said = zagent(&["state.apply", "all", "--states", &states, "--config", &config], tree.dir.path());
    assert!(said.err.contains("has a `subscribe` requisite"), "{}", said.all());
}
