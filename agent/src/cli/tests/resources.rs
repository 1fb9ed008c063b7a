//! Resources from the command line: targets, merged reports, chroots, types of one's own, the way back to the node.

use super::{Said, Tree};
use zagent_daemon::error::ExitStatus;

/// Salt's tutorial: three dummies and a state file with two states.
const TUTORIAL: &[(&str, &str)] = &[
    ("states/top.sls", "base:\n  '*':\n    - dummy.test\n"),
    (
        "states/dummy/test.sls",
        "first:\n  test.nop: []\nsecond:\n  test.succeed_with_changes:\n    - name: foo\n    - require:\n      - test: first\n",
    ),
    ("pillar/top.sls", "base:\n  '*':\n    - resources\n"),
    ("pillar/resources.sls", "resources:\n  dummy:\n    resource_ids: [dummy-01, dummy-02, dummy-03]\n"),
];

fn data(tree: &Tree, words: &[&str]) -> String {
    let said = tree.on_web(&[words, &["--out", "json"]].concat());
    let value: serde_json::Value = said.json();
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    value.to_string()
}

/// `NUMBER KEY RESULT` of every state of a report.
fn states(said: &Said) -> Vec<String> {
    let report = said.json();
    let states = report["states"].as_object().unwrap_or_else(|| panic!("{}", said.all()));
    states.iter().map(|(key, state)| format!("{} {key} {}", state["__run_num__"], state["result"])).collect()
}

fn run(tree: &Tree, words: &[&str]) -> Said {
    tree.on_web(&[words, &["--out", "json"]].concat())
}

#[test]
fn salts_tutorial_step_by_step() {
    let tree = Tree::new(TUTORIAL);
    let dummies = r#"{"dummy-01":true,"dummy-02":true,"dummy-03":true}"#;
    let all = r#"{"web-01":true,"dummy-01":true,"dummy-02":true,"dummy-03":true}"#;
    for (words, want) in [
        (&["-r", "test.ping"][..], all),
        (&["test.ping", "-r", "--tgt", "*"], all),
        (&["-r", "--target", "T@dummy", "test.ping"], dummies),
        (&["-r", "--tgt", "T@dummy", "--tgt-type", "compound", "test.ping"], dummies),
        (&["-r", "--target", "dummy-*", "--target-type", "glob", "test.ping"], dummies),
        (&["-r", "--target", "dummy_grain_1:one", "--target-type", "grain", "test.ping"], dummies),
        (&["-r", "--target", "dummy_grain_1:o.e", "--target-type", "grain_pcre", "test.ping"], dummies),
        (
            &["-r", "--target", "dummy-01,dummy-03", "--target-type", "list", "test.ping"],
            r#"{"dummy-01":true,"dummy-03":true}"#,
        ),
        (&["-r", "--target", "dummy-01", "test.ping"], "true"),
        (&["-r", "--target", "web-01", "test.ping"], "true"),
        (&["-r", "--target", "T@dummy:dummy-02", "test.ping"], "true"),
        (
            &["-r", "--target", "T@dummy:dummy-02", "grains.items"],
            r#"{"dummy_grain_1":"one","dummy_grain_2":"two","dummy_grain_3":"three","resource_id":"dummy-02"}"#,
        ),
        (
            &["-r", "--target", "dummy-01", "dummy.package_install", "curl", "version=8.0.1"],
            r#"{"curl":"8.0.1"}"#,
        ),
        (&["-r", "--target", "dummy-01", "dummy.package_status", "curl"], r#"{"curl":"8.0.1"}"#),
        (&["-r", "--target", "dummy-02", "dummy.package_status", "curl"], "null"),
        (&["-r", "--target", "T@none", "test.ping"], "{}"),
    ] {
        assert_eq!(data(&tree, words), want, "{words:?}");
    }
    let said = run(&tree, &["-r", "--target", "T@dummy", "state.apply", "dummy.test"]);
    let want = [
        "0 test_|-dummy-01 first_|-dummy-01 first_|-nop true",
        "1 test_|-dummy-01 second_|-dummy-01 foo_|-succeed_with_changes true",
        "2 test_|-dummy-02 first_|-dummy-02 first_|-nop true",
        "3 test_|-dummy-02 second_|-dummy-02 foo_|-succeed_with_changes true",
        "4 test_|-dummy-03 first_|-dummy-03 first_|-nop true",
        "5 test_|-dummy-03 second_|-dummy-03 foo_|-succeed_with_changes true",
    ];
    assert_eq!((states(&said), said.exit), (want.map(str::to_owned).to_vec(), ExitStatus::Success));
}

#[test]
fn the_node_runs_first_and_unprefixed_when_the_target_matches_it() {
    let tree = Tree::new(TUTORIAL);
    let merged = |words: &[&str]| states(&run(&tree, words));
    let node = ["0 test_|-first_|-first_|-nop true", "1 test_|-second_|-foo_|-succeed_with_changes true"];
    assert_eq!(merged(&["state.apply"]), node, "without -r the node alone runs");
    for words in [
        &["state.apply", "-r"][..],
        &["state.highstate", "-r", "--target", "*"],
        &["-r", "run", "--once"],
        &["state.sls", "dummy.test", "-r", "--target", "web-01 or T@dummy"],
    ] {
        let all = merged(words);
        assert_eq!(all.len(), 8, "{words:?}: {all:?}");
        assert_eq!(
            (&all[..2], all[2].as_str()),
            (&node.map(str::to_owned)[..], "2 test_|-dummy-01 first_|-dummy-01 first_|-nop true")
        );
    }
    let one = merged(&["state.sls_id", "first", "dummy.test", "-r", "--target", "L@web-01,dummy-03"]);
    assert_eq!(
        one,
        ["0 test_|-first_|-first_|-nop true", "1 test_|-dummy-03 first_|-dummy-03 first_|-nop true"]
    );
    let single = merged(&["state.single", "test.nop", "name=x", "-r", "--target", "T@dummy:dummy-02"]);
    assert_eq!(single, ["0 test_|-dummy-02 x_|-dummy-02 x_|-nop true"]);
    let state = merged(&["-r", "--target", "dummy-02", "test.succeed_with_changes", "x", "test=True"]);
    assert_eq!(state, ["0 test_|-dummy-02 x_|-dummy-02 x_|-succeed_with_changes null"]);
}

#[test]
fn every_output_and_the_history_show_the_resource() {
    let tree = Tree::new(TUTORIAL);
    let said = tree.on_web(&["state.apply", "-r", "--target", "L@web-01,dummy-02", "--out", "highstate"]);
    let ids: Vec<&str> = said
        .out
        .lines()
        .filter(|l| l.contains(" ID: ") || l.contains("Name: ") || l.contains("Function: "))
        .collect();
    assert_eq!(
        ids,
        [
            "          ID: first",
            "    Function: test.nop",
            "          ID: second",
            "    Function: test.succeed_with_changes",
            "        Name: foo",
            "          ID: dummy-02 first",
            "    Function: test.nop",
            "          ID: dummy-02 second",
            "    Function: test.succeed_with_changes",
            "        Name: dummy-02 foo",
        ]
    );
    assert!(said.out.contains("Total states run:     4"), "{}", said.out);
    assert_eq!(said.out.matches("Summary for local").count(), 1);
    let lines = tree.on_web(&["state.apply", "-r", "--target", "dummy-02", "--out", "ndjson"]);
    assert!(
        lines.out.contains(r#""tag":"test_|-dummy-02 first_|-dummy-02 first_|-nop","resource":"dummy-02""#),
        "{}",
        lines.out
    );
    let config = tree.dir.path().join("none.yaml").display().to_string();
    let listed = super::zagent(&["history", "--out", "json", "--config", &config], tree.dir.path());
    let run = listed.json()[0]["run"].as_str().unwrap_or_else(|| panic!("{}", listed.all())).to_owned();
    let history = super::zagent(&["history", &run, "--config", &config], tree.dir.path());
    assert!(history.out.contains("dummy-02 second"), "{}", history.all());
}

#[test]
fn an_id_that_is_node_and_resource_means_both() {
    let pillar =
        "resources:\n  dummy:\n    resource_ids: [web-01, d]\n  chroot:\n    roots: {d: /nonexistent}\n";
    let tree = Tree::new(&[TUTORIAL, &[("pillar/resources.sls", pillar)]].concat());
    let said = run(&tree, &["state.single", "test.nop", "x", "-r", "--target", "web-01"]);
    assert_eq!(states(&said), ["0 test_|-x_|-x_|-nop true", "1 test_|-web-01 x_|-web-01 x_|-nop true"]);
    assert_eq!(
        data(&tree, &["-r", "--target", "web-01", "test.ping"]),
        r#"{"node:web-01":true,"web-01":true}"#
    );
    // One id of two types: both run, told apart by their types.
    let said = run(&tree, &["state.single", "test.nop", "x", "-r", "--target", "d"]);
    assert_eq!(
        states(&said),
        ["0 test_|-dummy:d x_|-dummy:d x_|-nop true", "1 no_|-chroot:d_|-chroot:d_|-None false"]
    );
    assert_eq!(data(&tree, &["-r", "--target", "dummy:d", "test.ping"]), "true");
}

#[test]
fn a_broken_resource_costs_only_its_own_entry() {
    let pillar =
        "resources:\n  dummy:\n    resource_ids: [good]\n  chroot:\n    roots: {gone: /nonexistent/root}\n";
    let top = "base:\n  'good':\n    - dummy.test\n  'gone':\n    - dummy.test\n";
    let tree = Tree::new(&[TUTORIAL, &[("pillar/resources.sls", pillar), ("states/top.sls", top)]].concat());
    let said = run(&tree, &["state.highstate", "-r", "--target", "T@dummy or T@chroot"]);
    assert_eq!(
        states(&said),
        [
            "0 test_|-good first_|-good first_|-nop true",
            "1 test_|-good second_|-good foo_|-succeed_with_changes true",
            "2 no_|-gone_|-gone_|-None false",
        ]
    );
    assert_eq!(said.exit, ExitStatus::Failed);
    let report = said.json();
    let entry = &report["states"]["no_|-gone_|-gone_|-None"];
    assert_eq!((entry["name"].as_str(), &entry["changes"]), (Some("gone"), &serde_json::json!({})));
    assert!(entry["comment"].as_str().unwrap().contains("/nonexistent/root"), "{entry}");
    let ping = tree.on_web(&["-r", "--target", "T@dummy or T@chroot", "test.ping", "--out", "json"]);
    assert_eq!((ping.exit, &ping.json()["good"]), (ExitStatus::Failed, &serde_json::json!(true)));
    // What does not compile for one resource is the failure of that resource.
    let said = run(&tree, &["state.sls", "no.such", "-r", "--target", "good"]);
    assert_eq!(states(&said), ["0 no_|-good_|-good_|-None false"]);
    let unknown = tree.on_web(&["-r", "--target", "good", "no.such_function", "--out", "json"]);
    assert_eq!(
        unknown.json(),
        serde_json::json!("Function 'no.such_function' is not supported for resource type 'dummy'.")
    );
}

#[test]
fn an_empty_top_is_a_failure_of_that_resource() {
    let tree =
        Tree::new(&[TUTORIAL, &[("states/top.sls", "base:\n  'dummy-01':\n    - dummy.test\n")]].concat());
    let said = run(&tree, &["state.highstate", "-r", "--target", "L@dummy-01,dummy-02"]);
    assert_eq!(said.exit, ExitStatus::Failed);
    assert_eq!(
        states(&said)[2..],
        ["2 no_|-dummy-02 states_|-dummy-02 states_|-None false"].map(str::to_owned)
    );
    assert_eq!(
        said.json()["states"]["no_|-dummy-02 states_|-dummy-02 states_|-None"]["comment"],
        "No Top file or master_tops data matches found for resource 'dummy-02'."
    );
}

#[test]
fn top_files_and_pillar_are_those_of_the_resource() {
    let pillar_top = "base:\n  '*':\n    - resources\n  'dummy-01':\n    - own\n  'T@dummy:dummy-02':\n    - match: compound\n    - typed\n";
    let files: &[(&str, &str)] = &[
        ("pillar/top.sls", pillar_top),
        ("pillar/own.sls", "word: own\nsecret_word: s3cret-value\n"),
        ("pillar/typed.sls", "word: typed\n"),
        (
            "states/top.sls",
            "base:\n  'T@dummy':\n    - match: compound\n    - say\n  'M@web-01':\n    - match: compound\n    - managed\n",
        ),
        (
            "states/say.sls",
            "say:\n  test.nop:\n    - name: {{ pillar.get('word', 'none') }} {{ 'resources' in pillar }} {{ grains.resource_id }} {{ opts.id }} {{ opts.resource_type }}\n",
        ),
        ("states/managed.sls", "managed:\n  test.nop: []\n"),
    ];
    let tree = Tree::new(&[TUTORIAL, files].concat());
    let said = run(&tree, &["state.highstate", "-r", "--target", "T@dummy", "--compat", "salt"]);
    let names: Vec<String> = states(&said).into_iter().filter(|state| state.contains("say")).collect();
    assert_eq!(
        names,
        [
            "0 test_|-dummy-01 say_|-dummy-01 own False dummy-01 dummy-01 dummy_|-nop true",
            "2 test_|-dummy-02 say_|-dummy-02 typed False dummy-02 dummy-02 dummy_|-nop true",
            "4 test_|-dummy-03 say_|-dummy-03 none False dummy-03 dummy-03 dummy_|-nop true",
        ]
    );
    // Salt's way: the pillar of the node, without what it says about resources.
    let config = std::fs::read_to_string(tree.dir.path().join("none.yaml")).unwrap();
    std::fs::write(tree.dir.path().join("none.yaml"), format!("{config}resources: {{pillar: node}}\n"))
        .unwrap();
    let said = run(&tree, &["state.sls", "say", "-r", "--target", "dummy-01"]);
    assert_eq!(
        states(&said),
        ["0 test_|-dummy-01 say_|-dummy-01 none False dummy-01 dummy-01 dummy_|-nop true"]
    );
}

/// A directory that holds a small system.
fn chroot(tree: &Tree) -> std::path::PathBuf {
    let root = tree.dir.path().join("image");
    for (path, text) in [
        ("etc/os-release", "ID=alpine\nNAME=\"Alpine Linux\"\nVERSION_ID=3.20.1\n"),
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
    ] {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    }
    root
}

#[test]
fn a_chroot_is_configured_from_outside_and_reverted() {
    let tree = Tree::new(TUTORIAL);
    let root = chroot(&tree);
    let pillar = format!("resources:\n  chroot:\n    roots: {{image: {}}}\n", root.display());
    let note = tree.dir.path().join("note").display().to_string();
    let sls = format!(
        "/etc/motd:\n  file.managed:\n    - contents: {{{{ grains.os }}}} {{{{ __minion__['grains.get']('os') }}}}\nnote:\n  file.managed:\n    - name: {note}\n    - contents: on the node\n    - minion: true\n",
    );
    tree.write(&[("pillar/resources.sls", &pillar), ("states/img.sls", &sls)]);
    let dry = run(&tree, &["state.sls", "img", "-r", "--target", "image", "--test"]);
    assert_eq!(dry.exit, ExitStatus::Success, "{}", dry.all());
    assert!(!root.join("etc/motd").exists() && !std::path::Path::new(&note).exists());
    let said = run(&tree, &["state.sls", "img", "-r", "--target", "image"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert_eq!(std::fs::read_to_string(root.join("etc/motd")).unwrap(), "Alpine Debian\n");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "on the node\n", "minion: true runs on the node");
    assert!(!root.join(note.trim_start_matches('/')).exists());
    assert_eq!(data(&tree, &["-r", "--target", "G@os:Alpine", "grains.get", "resource_type"]), r#""chroot""#);
    assert_eq!(data(&tree, &["-r", "--target", "image", "file.file_exists", "/etc/motd"]), "true");
    // One resource's part of the run is reverted; what it did on the node is another journal.
    let back = run(&tree, &["run", "--revert", "last", "-r", "--target", "T@chroot:image"]);
    assert_eq!(back.exit, ExitStatus::Success, "{}", back.all());
    assert_eq!(states(&back), ["0 file_|-image /etc/motd_|-image /etc/motd_|-managed true"]);
    assert!(!root.join("etc/motd").exists() && std::path::Path::new(&note).exists());
    let back = run(&tree, &["run", "--revert", "last"]);
    assert_eq!(back.exit, ExitStatus::Success, "{}", back.all());
    assert!(!std::path::Path::new(&note).exists());
}

#[test]
fn without_resources_minion_true_is_an_ordinary_state() {
    let tree = Tree::new(&[
        ("states/top.sls", "base:\n  '*':\n    - a\n"),
        (
            "states/a.sls",
            "x:\n  test.nop:\n    - minion: true\n    - name: {{ __minion__['grains.get']('os') }}\n",
        ),
        ("pillar/top.sls", "base: {}\n"),
    ]);
    assert_eq!(states(&run(&tree, &["state.apply"])), ["0 test_|-x_|-Debian_|-nop true"]);
}

const SWITCH: &str = r#"#!/bin/sh
read -r request
case "$request" in
*'"call":"init"'*) echo '{"functions": ["switch.ports", "test.ping"], "states": ["port"]}';;
*'"call":"discover"'*) echo '{"ids": ["sw-1", "sw-2"]}';;
*'"call":"grains"'*'"id":"sw-2"'*) echo '{"error": "no route to sw-2"}';;
*'"call":"grains"'*) echo '{"grains": {"ports": 24}}';;
*'"call":"ping"'*) echo '{"result": true}';;
*'"call":"call"'*'"function":"switch.ports"'*) echo '{"result": [1, 2]}';;
*'"call":"call"'*) echo '{"result": "pong"}';;
*'"call":"check"'*) [ -e @STATE@ ] && echo '{"result": true, "changes": {}, "comment": "is up"}' && exit
  echo '{"result": null, "changes": {"port": "up"}, "comment": "is down"}';;
*'"call":"apply"'*'"id":"sw-1"'*'"config":{"address":"192.0.2.1"}'*) touch @STATE@; echo '{"result": true, "changes": {"port": "up"}, "comment": "switched on"}';;
*) echo '{"error": "unexpected"}';;
esac
"#;

#[test]
fn a_type_of_ones_own_answers_and_provides_states() {
    let pillar = "resources:\n  switch: {address: 192.0.2.1}\n";
    let sls = "p1:\n  port.enabled: []\nwords:\n  test.nop:\n    - require:\n      - port: p1\n    - name: ports {{ salt['switch.ports']() }} {{ grains.ports }}\n";
    let tree = Tree::new(&[
        ("states/top.sls", "base: {}\n"),
        ("states/ports.sls", sls),
        ("pillar/top.sls", "base:\n  '*':\n    - resources\n"),
        ("pillar/resources.sls", pillar),
    ]);
    let state = tree.dir.path().join("port-state").display().to_string();
    tree.write(&[("_resources/switch", &SWITCH.replace("@STATE@", &state))]);
    assert_eq!(data(&tree, &["-r", "--target", "sw-1", "switch.ports"]), "[1,2]");
    assert_eq!(
        data(&tree, &["-r", "--target", "sw-1", "test.ping"]),
        r#""pong""#,
        "a type may override a function"
    );
    assert_eq!(data(&tree, &["-r", "--target", "sw-1", "grains.get", "ports"]), "24");
    let said = run(&tree, &["state.sls", "ports", "-r", "--target", "T@switch"]);
    assert_eq!(
        states(&said),
        [
            "0 port_|-sw-1 p1_|-sw-1 p1_|-enabled true",
            "1 test_|-sw-1 words_|-sw-1 ports [1, 2] 24_|-nop true",
            "2 no_|-sw-2_|-sw-2_|-None false",
        ]
    );
    assert!(said.out.contains("no route to sw-2"), "{}", said.out);
    let listed = tree.on_web(&["resource", "list"]);
    assert_eq!(
        listed.out,
        "TYPE    ID    WHERE\nswitch  sw-1  _resources/switch\nswitch  sw-2  _resources/switch\n"
    );
    let pinged = tree.on_web(&["resource", "refresh"]);
    assert_eq!(pinged.exit, ExitStatus::Failed);
    assert!(
        pinged.out.contains("switch  sw-1  refreshed\n")
            && pinged.out.contains("failed: resource type `switch`: no route to sw-2"),
        "{}",
        pinged.all()
    );
}

#[test]
fn resources_are_listed_shown_pinged_and_forgotten() {
    let tree = Tree::new(TUTORIAL);
    let root = chroot(&tree);
    let pillar = format!(
        "resources:\n  dummy: {{resource_ids: [d]}}\n  chroot: {{roots: {{image: {}, gone: /nonexistent}}}}\n",
        root.display()
    );
    tree.write(&[("pillar/resources.sls", &pillar)]);
    let listed = tree.on_web(&["resource", "list"]);
    assert_eq!(
        listed.out,
        "TYPE    ID     WHERE\ndummy   d      -\nchroot  image  $DIR/image\nchroot  gone   /nonexistent\n"
    );
    let some = tree.on_web(&["resource", "list", "T@dummy", "--out", "json"]);
    assert_eq!(some.json(), serde_json::json!([{"type": "dummy", "id": "d", "where": "-"}]));
    let shown = tree.on_web(&["resource", "show", "image", "--out", "json"]);
    assert_eq!(shown.json()["grains"]["os"], "Alpine", "{}", shown.all());
    // Kept until they are refreshed.
    std::fs::write(root.join("etc/os-release"), "ID=debian\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=12\n")
        .unwrap();
    let os = || tree.on_web(&["resource", "show", "image", "--out", "json"]).json()["grains"]["os"].clone();
    assert_eq!(os(), "Alpine");
    assert_eq!(tree.on_web(&["resource", "refresh", "image"]).exit, ExitStatus::Success);
    assert_eq!(os(), "Debian");
    let ping = tree.on_web(&["resource", "ping"]);
    assert_eq!(ping.exit, ExitStatus::Failed);
    assert!(
        ping.out.contains("dummy   d      answers\n")
            && ping.out.contains("chroot  gone   does not answer: "),
        "{}",
        ping.out
    );
    let near = tree.on_web(&["resource", "show", "imag"]);
    assert!(
        near.err.contains("there is no resource `imag`") && near.err.contains("did you mean `image`?"),
        "{}",
        near.err
    );
    assert_eq!(tree.on_web(&["resource", "forget", "chroot:image"]).exit, ExitStatus::Success);
    let again = tree.on_web(&["resource", "forget", "image"]);
    assert_eq!(again.exit, ExitStatus::Usage, "{}", again.all());
}

#[test]
fn a_declaration_error_names_the_file_and_the_word_that_was_meant() {
    let pillar = "resources:\n  ssh:\n    hosts:\n      web-02: {host: h, prot: 22, passwd: hunter2hunter2}\n  dumy: {}\n";
    let tree = Tree::new(&[TUTORIAL, &[("pillar/resources.sls", pillar)]].concat());
    let said = tree.on_web(&["-r", "test.ping"]);
    assert_eq!(said.exit, ExitStatus::NotCompiled, "{}", said.all());
    for words in [
        "ZA0708",
        "pillar key `resources:ssh:hosts:web-02:prot`: unknown key `prot`",
        "did you mean `port`?",
        "$DIR/pillar/resources.sls:4",
        "pillar key `resources:dumy`: unknown resource type `dumy`",
        "did you mean `dummy`?",
    ] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    assert!(!said.all().contains("hunter2hunter2"));
    // A node whose declaration is wrong still runs itself.
    assert_eq!(tree.on_web(&["state.apply", "--test"]).exit, ExitStatus::Success);
}

#[test]
fn flags_about_resources_are_never_ignored() {
    let tree = Tree::new(TUTORIAL);
    for (words, want) in [
        (&["state.apply", "--target", "T@dummy"][..], "add `-r`"),
        (&["-r", "doctor"], "belong to commands that run something"),
        (&["state.low", "{}", "-r"], "runs on this node alone"),
        (&["run", "-r"], "set `resources.target`"),
        (&["run", "--revert", "-r"], "needs the name of a run"),
        (&["-r", "--target", "T@dummy and", "test.ping"], "the target `T@dummy and` is wrong"),
        (
            &["-r", "--target", "dummy_grain_1", "--target-type", "grain", "test.ping"],
            "has a key but no value",
        ),
        (&["-r", "test.ping", "--test"], "`--test` cannot predict"),
    ] {
        let said = if words.contains(&"doctor") { super::alone(words) } else { tree.on_web(words) };
        assert_eq!(said.exit, ExitStatus::Usage, "{words:?}: {}", said.all());
        assert!(said.err.contains(want), "{words:?}: {}", said.err);
    }
    let none = tree.on_web(&["-r", "--target", "nobody", "test.ping"]);
    assert!(
        none.err.contains("the target `nobody` matches neither this node nor a resource of it"),
        "{}",
        none.err
    );
}

#[test]
fn what_a_resource_says_is_escaped_and_credentials_are_masked() {
    let pillar = "resources:\n  switch: {password: hunter2hunter2}\n";
    let switch = SWITCH
        .replace(
            r#"echo '{"error": "no route to sw-2"}'"#,
            r#"printf '{"error": "\\u001b[2J hunter2hunter2"}'"#,
        )
        .replace(r#"'{"result": [1, 2]}'"#, r#"'{"result": "\u001b[31m hunter2hunter2"}'"#);
    let tree = Tree::new(&[
        ("states/top.sls", "base: {}\n"),
        ("states/a.sls", "x:\n  test.nop: []\n"),
        ("pillar/top.sls", "base:\n  '*':\n    - resources\n"),
        ("pillar/resources.sls", pillar),
        ("_resources/switch", &switch),
    ]);
    for words in [
        &["-r", "--target", "T@switch", "switch.ports"][..],
        &["-r", "--target", "T@switch", "state.sls", "a"],
        &["-r", "--target", "T@switch", "state.sls", "a", "--out", "json"],
        &["-r", "--target", "T@switch", "state.sls", "a", "--out", "highstate"],
    ] {
        let said = tree.on_web(words);
        assert!(
            !said.all().contains('\u{1b}') && !said.all().contains("hunter2hunter2"),
            "{words:?}: {}",
            said.all()
        );
    }
}

/// `resource_targets.tsv`: how a target is read, its text, the answer of Salt 3008.3's masterless `-r test.ping`; where ours differs, our
/// answer and the reason.
#[test]
fn targets_select_as_in_salt_or_for_a_reason() {
    let tree = Tree::new(TUTORIAL);
    let grains = r#"{"id": "node1", "os": "Debian", "kernel": "Linux", "ipv4": ["127.0.0.1"]}"#;
    std::fs::write(tree.dir.path().join("grains.json"), grains).unwrap();
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let place = [at("states"), at("pillar"), at("grains.json"), at("none.yaml")];
    let (mut cases, mut differing) = (0, 0);
    for line in include_str!("resource_targets.tsv").lines() {
        let mut cells = line.split('\t');
        let (kind, target, salt) = (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap());
        let (want, reason) = cells.next().map_or((salt, None), |ours| (ours, cells.next()));
        let mut words = vec!["-r", "--tgt", target, "--tgt-type", kind, "test.ping", "--out", "json"];
        words.extend(["--states", &place[0], "--pillar", &place[1], "--grains", &place[2]]);
        words.extend(["--config", &place[3], "--id", "node1"]);
        let said = super::zagent(&words, tree.dir.path());
        assert_eq!(said.json().to_string(), want, "{kind} {target}: {}", said.all());
        assert!(want == salt || reason.is_some_and(|reason| !reason.is_empty()), "{line}: without a reason");
        (cases, differing) = (cases + 1, differing + usize::from(want != salt));
    }
    assert_eq!((cases, differing), (61, 9));
}

#[test]
fn every_run_reports_a_wrong_declaration_of_resources() {
    let tree = Tree::new(&[
        ("states/top.sls", "base:\n  '*': [a]\n"),
        ("states/a.sls", "a:\n  test.nop: []\n"),
        ("pillar/top.sls", "base:\n  '*': [resources]\n"),
        ("pillar/resources.sls", "resources:\n  dumy: {}\n"),
    ]);
    for _ in ["compiled", "from the plan cache"] {
        let said = tree.on_web(&["run", "--once"]);
        assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
        for words in ["pillar key `resources:dumy`: unknown resource type `dumy`", "did you mean `dummy`?"] {
            assert!(said.err.contains(words), "{words}: {}", said.all());
        }
    }
}
