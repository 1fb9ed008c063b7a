//! Salt's commands, functions by name, and the history.

use zagent_compiler::schema::ModuleSchema;

use super::{SAMPLE, Said, Tree, alone, zagent};
use zagent_daemon::error::ExitStatus;
use zagent_run::history::History;
use zagent_run::samples;

const TREE: &[(&str, &str)] = &[
    ("states/top.sls", "base:\n  '*':\n    - a\n    - b\n"),
    (
        "states/a.sls",
        "first:\n  test.succeed_with_changes: []\nsecond:\n  test.nop:\n    - require:\n      - test: first\nthird:\n  test.nop: []\n",
    ),
    ("states/b.sls", "fine:\n  test.nop:\n    - name: {{ pillar.get('word', 'none') }}\n"),
    ("pillar/top.sls", "base: {}\n"),
];

/// Tags of a report.
fn tags(said: &Said) -> Vec<String> {
    let data = said.json();
    assert_eq!(data["test"], true, "{}", said.all());
    data["states"].as_object().unwrap_or_else(|| panic!("{}", said.all())).keys().cloned().collect()
}

#[test]
fn states_are_applied_by_salts_verbs() {
    let tree = Tree::new(TREE);
    let ids = |words: &[&str]| {
        let said = tree.on_web(&[words, &["test=True", "--out", "json"]].concat());
        tags(&said)
            .iter()
            .map(|tag| tag.split("_|-").nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(ids(&["state.apply"]), "first third fine second");
    assert_eq!(ids(&["state.highstate"]), "first third fine second");
    assert_eq!(ids(&["state.apply", "a"]), "first third second");
    assert_eq!(ids(&["state.apply", "mods=b"]), "fine");
    assert_eq!(ids(&["state.sls", "b,a"]), "fine first third second");
    assert_eq!(ids(&["state.sls", "mods=[a, b]"]), "first third fine second");
    assert_eq!(ids(&["state.sls_id", "second", "a"]), "first second");
    assert_eq!(ids(&["state.sls_id", "third", "a,b"]), "third");
    assert_eq!(ids(&["run", "--once", "--sls", "b"]), "fine");
    let named = tree.on_web(&["state.sls", "b", "pillar={\"word\": \"x\"}", "--noop", "--out", "json"]);
    assert_eq!(tags(&named), ["test_|-fine_|-x_|-nop"]);
}

#[test]
fn one_state_needs_no_tree() {
    let tree = Tree::new(&[]);
    let config = tree.dir.path().join("none.yaml").display().to_string();
    let motd = tree.dir.path().join("motd").display().to_string();
    for words in [
        vec!["state.single", "file.managed", "name=$M", "contents=hi", "mode=0644"],
        vec!["state.single", "fun=file.managed", "$M", "contents=hi"],
        vec!["file.managed", "$M", "contents=hi"],
        vec!["-v", "file.managed", "name=$M", "contents=hi", "--color", "never"],
        vec!["state.low", r#"{"state": "file", "fun": "managed", "name": "$M", "contents": "hi"}"#],
        vec!["state.low", "{state: file, fun: managed, name: $M, contents: hi}"],
    ] {
        for test in ["--test", "--noop", "test=True"] {
            let words: Vec<String> = words.iter().map(|w| w.replace("$M", &motd)).collect();
            let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
            args.extend([test, "--config", &config, "--out", "json"]);
            let said = zagent(&args, tree.dir.path());
            assert_eq!(tags(&said), ["file_|-$DIR/motd_|-$DIR/motd_|-managed"], "{args:?}");
            assert_eq!(said.json()["changed"], 1, "{args:?}");
        }
    }
    assert!(!std::path::Path::new(&motd).exists());
}

#[test]
fn states_write_facts_and_schedules_to_the_configured_directories() {
    let tree = Tree::new(&[]);
    let dir = tree.dir.path();
    let config = dir.join("zagent.yaml");
    let said = format!("root: {0}/root\nfacts_dir: {0}/facts\n", dir.display());
    std::fs::write(&config, said).unwrap();
    let run = |words: &[&str]| {
        zagent(&[words, &["--config", &*config.display().to_string(), "--out", "json"]].concat(), dir)
    };
    let fact = run(&["grains.present", "rack", "value=r7"]);
    assert_eq!(fact.json()["changed"], 1, "{}", fact.all());
    assert!(std::fs::read_to_string(dir.join("facts/grains.yaml")).unwrap().contains("\"rack\": \"r7\""));
    assert_eq!(run(&["grains.present", "rack", "value=r7"]).json()["changed"], 0);
    let job = run(&["schedule.present", "hourly", "function=state.apply", "hours=1"]);
    assert!(job.all().contains("the configuration is one file"), "{}", job.all());
}

#[test]
fn every_format_of_a_run() {
    let tree = Tree::new(TREE);
    let run = |out: &str| tree.on_web(&["state.apply", "a", "--test", "--out", out]);
    let lines = run("ndjson").out;
    assert_eq!(lines.lines().count(), 4);
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["total"]), (&"summary".into(), &3.into()));
    let salt = run("highstate").out;
    assert!(salt.starts_with("local:\n----------\n          ID: first\n"), "{salt}");
    assert!(salt.contains("Succeeded: 3 (unchanged=1, changed=1)"), "{salt}");
    assert!(run("yaml").out.contains("\nstates:\n  test_|-first_|-first_|-succeed_with_changes:\n"));
    let text = run("text").out;
    assert!(
        text.starts_with("dry run of 3 states on web-01") && text.contains("OK  3 states: 1 would change"),
        "{text}"
    );
    for out in ["ndjson", "highstate"] {
        let refused = tree.on_web(&["show", "lowstate", "--out", out]);
        assert_eq!(refused.exit, ExitStatus::Usage);
        assert!(refused.err.contains("[possible values: text, json, yaml]"), "{}", refused.err);
    }
}

#[test]
fn compile_errors_are_reported_in_every_format() {
    let tree = Tree::new(TREE);
    tree.write(&[("states/a.sls", "x:\n  file.manged: []\n")]);
    for (out, words) in [
        ("json", "\"success\": false"),
        ("ndjson", "{\"success\":false,\"errors\":[{"),
        ("yaml", "success: false"),
        ("highstate", "local:\n    Data failed to compile:\n----------\n    $DIR/states/a.sls:2:"),
    ] {
        let said = tree.on_web(&["state.apply", "--test", "--out", out]);
        assert_eq!(said.exit, ExitStatus::NotCompiled, "{}", said.all());
        assert!(said.out.contains(words), "{}", said.all());
    }
}

#[test]
fn functions_are_called_by_name() {
    let tree = Tree::new(TREE);
    let call = |words: &[&str]| tree.on_web(words);
    assert_eq!(call(&["grains.get", "os"]).out, "Debian\n");
    assert_eq!(call(&["grains.get", "os", "--out", "json"]).out, "\"Debian\"\n");
    assert_eq!(call(&["test.echo", "[1, {b: null}]"]).out, "- 1\n|_\n  ----------\n  b:\n      None\n");
    assert_eq!(call(&["pillar.get", "word", "pillar={\"word\": 3}", "--out", "yaml"]).out.trim_end(), "3");
    let failed = call(&["file.read", "/nonexistent/file"]);
    assert_eq!(failed.exit, ExitStatus::Failed, "{}", failed.all());
    let refused = call(&["grains.get", "os", "--test"]);
    assert!(
        refused.exit == ExitStatus::Usage && refused.err.contains("is not a state function"),
        "{}",
        refused.all()
    );
    let refused = call(&["grains.get", "os", "--out", "ndjson"]);
    assert!(
        refused.exit == ExitStatus::Usage
            && refused.out.contains("use `--out text`, `json`, `yaml` or `pprint`")
    );
}

#[test]
fn read_only_functions_change_nothing() {
    let both = |module: &ModuleSchema| {
        let names = module.functions().map(|f| format!("{}.{}", module.name, f.name));
        names.filter(|name| zagent_states::functions::is_read_only(name)).collect::<Vec<_>>()
    };
    let asked: Vec<String> = zagent_states::schema().modules().iter().flat_map(both).collect();
    assert_eq!(asked, ["service.disabled", "service.enabled", "service.masked"]);

    let tree = Tree::new(SAMPLE);
    for name in &asked {
        // Without a service manager the call fails; it never becomes a state.
        let said = tree.on_web(&[name, "no-such-service", "--out", "json"]);
        assert!(
            !said.out.contains("\"states\"") && !said.err.contains("\"states\""),
            "{}{}",
            said.out,
            said.err
        );
        let state = tree.on_web(&["state.single", name, "no-such-service", "--out", "json", "--test"]);
        assert!(state.out.contains("\"states\""), "{}{}", state.out, state.err);
        let refused = tree.on_web(&[name, "no-such-service", "--test"]);
        assert!(
            refused.err.contains(&format!("zagent state.single {name} NAME --test")),
            "{}{}",
            refused.out,
            refused.err
        );
    }
}

#[test]
fn commands_called_by_name_go_through_a_shell() {
    let tree = Tree::new(TREE);
    let said = tree.on_web(&["cmd.run_all", "echo a; exit 3", "--out", "json"]);
    let data = said.json();
    assert_eq!((&data["retcode"], &data["stdout"]), (&3.into(), &"a".into()), "{}", said.all());
    let said = tree.on_web(&["cmd.run_stdout", "echo a; echo b", "python_shell=False"]);
    assert_eq!(said.out, "a; echo b\n", "{}", said.all());
}

#[test]
fn usage_errors_of_state_commands_have_hints() {
    let tree = Tree::new(TREE);
    for (words, says) in [
        (vec!["file.manged", "/x"], "did you mean `file.managed`?"),
        (vec!["grians.get", "os"], "did you mean `grains.get`?"),
        (vec!["no.such"], "there is no function `no.such`"),
        (vec!["file.managed"], "`file.managed` needs a name"),
        (vec!["status.loadavg"], "zagent does not implement Salt's state"),
        (vec!["file.managed", "/x", "/y"], "`/y` has no key"),
        (vec!["state.sls"], "no SLS name given"),
        (vec!["state.sls_id", "first"], "no SLS name given"),
        (vec!["state.sls_id", "frst", "a"], "did you mean `first`?"),
        (vec!["state.highstate", "a"], "`state.highstate` takes no SLS"),
        (vec!["state.apply", "tets=True"], "did you mean `test=`?"),
        (vec!["state.apply", "pillar=1"], "expected a mapping"),
        (vec!["state.single"], "no function given"),
        (vec!["state.single", "vim"], "MODULE.FUNCTION"),
        (vec!["state.low", "[1]"], "expected a mapping"),
        (vec!["state.low", "{a"], "neither JSON nor YAML"),
        (vec!["state.low", r#"{"state": "pkg"}"#], "`fun` is missing"),
        (vec!["run", "--once", "web"], "unexpected argument `web`"),
        (vec!["run", "--once", "--force"], "--revert"),
        (vec!["run", "--once", "--timeout", "soon"], "use a duration such as"),
        (vec!["run", "--once", "--jobs", "0"], "--jobs"),
    ] {
        let said = tree.on_web(&words);
        assert_eq!(said.exit, ExitStatus::Usage, "{words:?}: {}", said.all());
        assert!(said.err.contains(says), "{words:?}: {}", said.err);
    }
}

#[test]
fn mistyped_arguments_do_not_run() {
    let tree = Tree::new(TREE);
    let file = tree.dir.path().join("made").display().to_string();
    let touch = format!("touch {file}");
    for (words, says) in [
        (vec!["file.managed", &file, "contents=1", "tets=True"], "did you mean `test`?"),
        (vec!["state.single", "file.managed", &file, "contents=1", "tset=True"], "did you mean `test`?"),
        (vec!["file.managed", &file, "contens=1", "--test"], "did you mean `contents`?"),
        (vec!["cmd.run", &touch, "tset=True"], "did you mean `test`?"),
        (vec!["cmd.run", &touch, "salttenv=dev"], "did you mean `saltenv`?"),
        (vec!["file.touch", &file, "requires=1"], "did you mean `require`?"),
        (vec!["file.touch", &file, "colour=red"], "parameters: "),
        (vec!["grains.get", "os", "tset=True"], "did you mean `test`?"),
        (vec!["state.aply", "a"], "did you mean `state.apply`?"),
        (vec!["apply"], "'state.apply'"),
        (vec!["highstat"], "'state.highstate'"),
    ] {
        let said = tree.on_web(&words);
        assert_eq!(said.exit, ExitStatus::Usage, "{words:?}: {}", said.all());
        assert!(said.err.contains(says), "{words:?}: {}", said.err);
    }
    for flag in ["--dry-run", "-n", "--check"] {
        for words in [vec!["run", "--once"], vec!["state.apply"], vec!["cmd.run", &touch]] {
            let said = tree.on_web(&[words.as_slice(), &[flag]].concat());
            assert!(said.out.starts_with("dry run of "), "{words:?} {flag}: {}", said.all());
        }
    }
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn an_empty_plan_is_explained() {
    let tree = Tree::new(TREE);
    tree.write(&[("states/top.sls", "base:\n  'db*':\n    - a\n  'mail*':\n    - b\n")]);
    for words in [vec!["run", "--once"], vec!["state.apply"], vec!["state.highstate", "--test"]] {
        let said = tree.on_web(&words);
        assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
        assert!(
            said.err.contains("selects nothing for `web-01`; its targets are `db*`, `mail*`"),
            "{}",
            said.err
        );
    }
    tree.write(&[("states/top.sls", "base:\n  '*':\n    - b\n"), ("states/b.sls", "")]);
    let empty = tree.on_web(&["run", "--once"]);
    assert!(empty.err.contains("selected for `web-01` contain no states"), "{}", empty.all());
    std::fs::remove_file(tree.dir.path().join("states/top.sls")).unwrap();
    let none = tree.on_web(&["run", "--once"]);
    assert_eq!(none.exit, ExitStatus::Usage, "{}", none.all());
    assert!(
        none.err.contains("no `top.sls` in `$DIR/states`") && none.err.contains("--sls NAME"),
        "{}",
        none.err
    );
    assert_eq!(tree.on_web(&["state.apply", "a", "--test"]).exit, ExitStatus::Success);
}

/// A stream that accepts nothing.
struct Full(std::io::ErrorKind);

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lost_output_is_a_failure_unless_the_reader_closed_the_pipe() {
    for out in ["text", "json", "ndjson"] {
        for (kind, want) in [
            (std::io::ErrorKind::StorageFull, ExitStatus::Failed),
            (std::io::ErrorKind::BrokenPipe, ExitStatus::Success),
        ] {
            let tree = Tree::new(&[]);
            let config = tree.dir.path().join("none.yaml").display().to_string();
            let mut err = Vec::new();
            let words = ["zagent", "test.nop", "x", "--out", out, "--config", &config];
            let exit =
                super::run(words.into_iter().map(Into::into), &mut Full(kind), &mut err, (false, false));
            let err = String::from_utf8(err).unwrap();
            assert_eq!(exit, want, "{err}");
            assert_eq!(err.contains("cannot write the output"), want == ExitStatus::Failed, "{err}");
        }
    }
}

#[test]
fn the_history_is_listed_and_its_runs_are_printed_again() {
    let tree = Tree::new(&[]);
    let config = tree.dir.path().join("none.yaml").display().to_string();
    let history =
        |words: &[&str]| zagent(&[&["history", "--config", &config], words].concat(), tree.dir.path());
    assert_eq!(history(&[]).out, "no runs yet: start one with `zagent run --once`\n");
    assert!(history(&["last"]).err.contains("the history is empty"));
    let paths = zagent_config::paths::Paths::new(tree.dir.path().join("root"));
    History::new(&paths, 50).record(&samples::failed()).unwrap();
    let list = history(&[]).out;
    assert!(list.starts_with("RUN                    WHEN"), "{list}");
    assert!(
        list.contains("20261116T084512-3f9a7") && list.contains("apply  manual   8d3c1f0a9b7e"),
        "{list}"
    );
    assert!(list.contains("FAILED  2 changed, 1 failed, 3 skipped"), "{list}");
    let data = history(&["--out", "json"]).json();
    assert_eq!((&data[0]["failed"], &data[0]["start"]), (&1.into(), &"2026-11-16T08:45:12Z".into()));
    let one = history(&["2026"]);
    assert_eq!(one.exit, ExitStatus::Success);
    assert!(one.out.contains("FAILED    postgres  pkg.installed"), "{}", one.out);
    assert_eq!(history(&["last", "--out", "json"]).json()["states"].as_object().unwrap().len(), 6);
    assert!(history(&["last", "--out", "highstate"]).out.starts_with("local:\n"));
    let refused = history(&["--out", "highstate"]);
    assert!(
        refused.exit == ExitStatus::Usage
            && refused.err.contains("supports only `--out text`, `json`, `yaml` or `pprint`"),
        "{}",
        refused.all()
    );
    let zero = history(&["--limit", "0"]);
    assert!(zero.exit == ExitStatus::Usage && zero.err.contains("at least 1"), "{}", zero.all());
    assert!(history(&["1999"]).err.contains("the history has no run `1999`"));
}

#[test]
fn a_function_has_help_of_its_own() {
    let said = alone(&["file.managed", "--help"]);
    assert_eq!(said.exit, ExitStatus::Success);
    assert!(said.out.contains("zagent MOD.FUN [NAME] [KEY=VALUE]"), "{}", said.out);
}

#[test]
fn salts_commands_show_what_would_run() {
    let tree = Tree::new(&[("s/top.sls", "base:\n  '*':\n    - a\n"), ("s/a.sls", "x:\n  test.nop: []\n")]);
    let states = tree.dir.path().join("s").display().to_string();
    let show = |words: &[&str]| alone(&[words, &["--states", &states, "--out", "json"]].concat());
    assert_eq!(show(&["state.show_top"]).json(), serde_json::json!({"base": ["a"]}));
    assert_eq!(show(&["state.show_sls", "a"]).json()["x"]["__sls__"], "a");
    assert_eq!(show(&["state.show_highstate"]).json()["x"]["test"][0], "nop");
    assert_eq!(show(&["state.show_lowstate"]).json()[0]["fun"], "nop");
    assert_eq!(show(&["state.show_sls"]).exit, ExitStatus::Usage);
    assert_eq!(show(&["state.show_top", "a"]).exit, ExitStatus::Usage);
}
