//! Command lines against small trees: stdout, stderr and exit code together.

use std::path::{Path, PathBuf};

use zagent_cache::testing::{EntryKind, ScratchRepo};

use super::run;
use zagent_daemon::error::ExitStatus;

/// Sample repository: two web hosts, a database, one unused SLS.
const SAMPLE: &[(&str, &str)] = &[
    ("states/top.sls", "base:\n  'web*':\n    - web\n  'db*':\n    - db\n  'mail*':\n    - mail\n"),
    ("states/web/init.sls", "include:\n  - .conf\n\nnginx:\n  pkg.installed: []\n"),
    (
        "states/web/conf.sls",
        "/etc/nginx/nginx.conf:\n  file.managed:\n    - contents: workers {{ pillar['nginx']['workers'] }}\n    - require:\n      - pkg: nginx\n",
    ),
    ("states/db.sls", "pg:\n  pkg.installed:\n    - name: postgresql\n"),
    ("states/old.sls", "old:\n  test.nop: []\n"),
    ("pillar/top.sls", "base:\n  '*':\n    - common\n"),
    ("pillar/common.sls", "nginx:\n  workers: 4\n  password: hunter2\n"),
    ("inventory/web-01.yaml", "id: web-01\nos: Debian\n"),
    ("inventory/web-02.yaml", "os: Debian\n"),
    ("inventory/db-01.yaml", "id: db-01\nos: Debian\n"),
];

struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self { dir: tempfile::tempdir().unwrap() };
        tree.write(files);
        tree
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let full = self.dir.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        let root = format!("root: {}\n", self.dir.path().join("root").display());
        std::fs::write(self.dir.path().join("none.yaml"), root).unwrap();
        std::fs::write(self.dir.path().join("grains.json"), r#"{"id": "web-01", "os": "Debian"}"#).unwrap();
    }

    /// Runs a command for the first host of the sample.
    fn on_web(&self, command: &[&str]) -> Said {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let (states, pillar, grains, config) =
            (at("states"), at("pillar"), at("grains.json"), at("none.yaml"));
        let mut args = command.to_vec();
        args.extend(["--states", &states, "--pillar", &pillar, "--id", "web-01"]);
        args.extend(["--grains", &grains, "--config", &config]);
        zagent(&args, self.dir.path())
    }

    fn check(&self, more: &[&str]) -> Said {
        let (dir, config) = (self.dir.path().display().to_string(), self.dir.path().join("none.yaml"));
        let config = config.display().to_string();
        let mut args = vec!["check", &dir, "--config", &config];
        args.extend(more);
        zagent(&args, self.dir.path())
    }
}

/// Output of a command; the scratch directory is written as `$DIR`.
struct Said {
    exit: ExitStatus,
    out: String,
    err: String,
}

impl Said {
    fn all(&self) -> String {
        format!(
            "exit {}\n--- stdout\n{}--- stderr\n{}",
            crate::exit_code::code(self.exit),
            self.out,
            self.err
        )
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.all()))
    }
}

fn zagent(args: &[&str], dir: &Path) -> Said {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let words = std::iter::once("zagent").chain(args.iter().copied()).map(Into::into);
    let exit = run(words, &mut out, &mut err, (false, false));
    let plain =
        |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&dir.display().to_string(), "$DIR");
    Said { exit, out: plain(out), err: plain(err) }
}

fn alone(args: &[&str]) -> Said {
    zagent(args, Path::new("$nowhere"))
}

#[test]
fn every_stage_as_text() {
    let tree = Tree::new(SAMPLE);
    for stage in ["top", "highstate", "lowstate", "graph", "pillar", "grains", "plan"] {
        let said = tree.on_web(&["show", stage]);
        insta::assert_snapshot!(format!("show_{stage}"), said.all());
    }
    insta::assert_snapshot!("show_sls", tree.on_web(&["show", "sls", "web.conf"]).all());
    insta::assert_snapshot!("show_lowstate_verbose", tree.on_web(&["-v", "show", "lowstate"]).all());
}

#[test]
fn every_stage_as_data() {
    let tree = Tree::new(SAMPLE);
    for stage in ["top", "highstate", "lowstate", "graph", "pillar", "grains", "plan"] {
        let said = tree.on_web(&["show", stage, "--out", "json"]);
        assert_eq!(said.exit, ExitStatus::Success, "{stage}: {}", said.all());
        let data = said.json();
        assert!(data.is_object() || data.is_array(), "{stage}");
        let yaml = tree.on_web(&["show", stage, "--out", "yaml"]);
        let read = zagent_compiler::yaml::load(&yaml.out, &zagent_compiler::TreeLimits::default()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), data, "{stage}: YAML and JSON tell the same");
    }
    let top = tree.on_web(&["show", "top", "--out", "json"]).json();
    assert_eq!(top, serde_json::json!({"base": ["web"]}));
    let low = tree.on_web(&["show", "lowstate", "--out", "json"]).json();
    assert_eq!(low[1]["__id__"], "/etc/nginx/nginx.conf");
    let mask = |args: &[&str]| tree.on_web(args).json()["nginx"]["password"].clone();
    assert_eq!(mask(&["show", "pillar", "--out", "json"]), "********");
    assert_eq!(mask(&["show", "pillar", "--out", "json", "--unmask"]), "hunter2");
}

#[test]
fn graph_formats() {
    let tree = Tree::new(SAMPLE);
    for (format, begins) in [("dot", "digraph"), ("mermaid", "flowchart"), ("svg", "<svg")] {
        let said = tree.on_web(&["show", "graph", "--out", format]);
        assert!(said.out.starts_with(begins) && said.exit == ExitStatus::Success, "{}", said.all());
    }
}

#[test]
fn errors_are_drawn_or_given_as_data() {
    let tree = Tree::new(SAMPLE);
    tree.write(&[("states/web/conf.sls", "a:\n  test.nop:\n    - x: {{ pillar['nginx']['workrs'] }}\n")]);
    let said = tree.on_web(&["show", "lowstate"]);
    assert_eq!(said.exit, ExitStatus::NotCompiled);
    assert!(said.out.is_empty(), "stdout is data");
    assert!(
        said.err.contains("$DIR/states/web/conf.sls:3:")
            && said.err.contains("error: 1 fault; zagent explain ZA01")
    );
    let data = tree.on_web(&["show", "lowstate", "--out", "json"]);
    assert_eq!((data.exit, data.err.as_str()), (ExitStatus::NotCompiled, ""));
    assert_eq!(data.json()["success"], false);
    assert_eq!(data.json()["errors"][0]["line"], 3);
    // Compile errors come before unsupported features.
    let run = tree.on_web(&["run", "--once", "--out", "json"]);
    assert_eq!(run.exit, ExitStatus::NotCompiled);
}

#[test]
fn a_run_is_predicted_applied_and_reverted() {
    let tree = Tree::new(SAMPLE);
    let target = tree.dir.path().join("made");
    let sls = format!("{}:\n  file.managed:\n    - contents: x\n", target.display());
    tree.write(&[("states/web/init.sls", &sls)]);
    let said = tree.on_web(&["run", "--once", "--test"]);
    assert_eq!(said.exit, ExitStatus::Success);
    assert!(said.out.contains("1 state: 1 would change"), "{}", said.all());
    let data = tree.on_web(&["run", "--once", "--test", "--out", "json"]).json();
    assert_eq!((&data["test"], &data["changed"], &data["total"]), (&true.into(), &1.into(), &1.into()));
    let detailed = tree.on_web(&["run", "--once", "--test", "--detailed-exitcodes"]);
    assert_eq!(detailed.exit, ExitStatus::Changes);
    assert!(!target.exists());
    assert!(!tree.dir.path().join("root").exists(), "a dry run leaves no trace");
    let done = tree.on_web(&["run", "--once"]);
    assert_eq!(done.exit, ExitStatus::Success, "{}", done.all());
    assert!(done.out.contains("1 state: 1 changed") && target.exists(), "{}", done.all());
    let again = tree.on_web(&["run", "--once"]);
    assert!(again.out.contains("1 unchanged"), "{}", again.all());
    let undone = tree.on_web(&["run", "--revert", "last"]);
    assert_eq!((undone.exit, target.exists()), (ExitStatus::Success, false), "{}", undone.all());
}

/// A module whose state is a file: create, check, remove.
const MARKER: &str = r#"#!/bin/sh
question=$(cat)
file=$(printf %s "$question" | sed 's/.*"file":"\([^"]*\)".*/\1/')
case "$question" in
  *'"call":"check"'*)
    if [ -e "$file" ]; then echo '{"result": true, "comment": "there"}'
    else echo '{"result": null, "changes": {"made": "it"}, "comment": "would make it"}'; fi;;
  *'"call":"apply"'*) touch "$file"; echo '{"result": true, "changes": {"made": "it"}, "comment": "made"}';;
  *'"call":"revert"'*) rm "$file" && echo '{"result": true, "changes": {"made": "gone"}, "comment": "taken away"}';;
esac
"#;

#[test]
fn changes_of_a_module_are_reverted_by_it() {
    let tree = Tree::new(SAMPLE);
    let target = tree.dir.path().join("made");
    let sls = format!("m:\n  marker.present:\n    - file: {}\n", target.display());
    tree.write(&[("states/web/init.sls", &sls), ("states/_states/marker", MARKER)]);
    let foretold = tree.on_web(&["run", "--once", "--test"]);
    assert!(foretold.out.contains("1 would change"), "{}", foretold.all());
    assert!(!tree.dir.path().join("root").exists(), "a dry run leaves no trace");
    let done = tree.on_web(&["run", "--once"]);
    assert!(done.out.contains("1 changed") && target.exists(), "{}", done.all());
    let foretold = tree.on_web(&["run", "--revert", "--test", "--out", "json"]);
    assert_eq!((foretold.json()["changed"].clone(), target.exists()), (1.into(), true), "{}", foretold.all());
    // Without the module the revert is impossible, and that is a failure.
    std::fs::remove_file(tree.dir.path().join("states/_states/marker")).unwrap();
    let lost = tree.on_web(&["run", "--revert", "last"]);
    assert_eq!((lost.exit, target.exists()), (ExitStatus::Failed, true), "{}", lost.all());
    assert!(lost.out.contains("there is no module `marker` in the tree any more"), "{}", lost.all());
    tree.write(&[("states/_states/marker", MARKER)]);
    let undone = tree.on_web(&["run", "--revert", "last"]);
    assert_eq!((undone.exit, target.exists()), (ExitStatus::Success, false), "{}", undone.all());
    assert!(undone.out.contains("taken away"), "{}", undone.all());
    // A revert is a run too.
    let redone = tree.on_web(&["run", "--revert", "last"]);
    assert_eq!((redone.exit, target.exists()), (ExitStatus::Success, true), "{}", redone.all());
    // A module that fails to revert is a failure.
    std::fs::remove_file(&target).unwrap();
    let failed = tree.on_web(&["run", "--revert", "last"]);
    assert_eq!(failed.exit, ExitStatus::Failed, "{}", failed.all());
    assert!(failed.out.contains("`marker.present` was not undone"), "{}", failed.all());
    assert!(!failed.out.contains("as it was before"), "{}", failed.all());
}

#[test]
fn the_demo_compiles_on_any_host() {
    let tree = Tree::new(&[]);
    let said = alone(&["demo", "--out", "json"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert_eq!(said.json()["total"], 6);
    drop(tree);
}

#[test]
fn check_reports_each_error_once() {
    let tree = Tree::new(SAMPLE);
    insta::assert_snapshot!("check", tree.check(&[]).all());
    assert_eq!(tree.check(&["--deny-warnings"]).exit, ExitStatus::Failed);
    tree.write(&[
        ("states/web/conf.sls", "x:\n  file.manged:\n    - name: /x\n"),
        ("states/db.sls", "x: [\n"),
    ]);
    insta::assert_snapshot!("check_faults", tree.check(&[]).all());
    let data = tree.check(&["--out", "json"]).json();
    assert_eq!(data["hosts"]["web-02"]["compiles"], false);
    assert_eq!(data["errors"].as_array().map(Vec::len), Some(2));
    let sarif = tree.check(&["--sarif"]).json();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    for result in results {
        let rule = result["ruleIndex"].as_u64().and_then(|i| usize::try_from(i).ok()).unwrap();
        assert_eq!(sarif["runs"][0]["tool"]["driver"]["rules"][rule]["id"], result["ruleId"]);
        let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("states/"), "{uri}");
    }
}

#[test]
fn check_without_an_inventory_needs_to_be_told_so() {
    let tree = Tree::new(&[("top.sls", "base:\n  '*':\n    - a\n"), ("a.sls", "a:\n  test.nop: []\n")]);
    let said = tree.check(&[]);
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(said.err.contains("zagent show grains") && said.err.contains("--live"), "{}", said.all());
    let said = tree.check(&["--live"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.contains("1 of 1 host compile"), "{}", said.all());
    let nothing = Tree::new(&[("readme", "")]).check(&[]);
    assert_eq!(nothing.exit, ExitStatus::Usage);
}

#[test]
fn check_finds_missing_sources_and_templates_that_do_not_render() {
    let sls = "/etc/a:\n  file.managed:\n    - source: salt://app/a.conf\n\
               /etc/b:\n  file.managed:\n    - source: salt://app/b.conf\n    - template: jinja\n    - context: {port: 80}\n\
               /etc/c:\n  file.managed:\n    - source: [salt://app/none, salt://app/c.conf]\n    - template: jinja\n\
               /etc/d:\n  file.recurse:\n    - source: salt://app\n\
               /etc/e:\n  file.managed:\n    - source: salt://app/gone\n    - onlyif: test -e /x\n\
               salt://app/run.sh:\n  cmd.script: []\n";
    let files = |b: &'static str| {
        [
            ("states/top.sls", "base:\n  '*': [app]\n"),
            ("states/app/init.sls", sls),
            ("states/app/b.conf", b),
            ("states/app/c.conf", "{{ grains['os'] }}\n"),
            ("inventory/web-01.yaml", "id: web-01\nos: Debian\n"),
        ]
    };
    let said = Tree::new(&files("port {{ port }}\n{{ pillar['nothing'] }}\n")).check(&["--out", "json"]);
    assert_eq!(said.exit, ExitStatus::NotCompiled, "{}", said.all());
    let found = |list: &str| -> Vec<String> {
        let all = said.json()[list].as_array().unwrap().clone();
        let place = |one: &serde_json::Value| {
            format!("{}:{} {}", one["file"].as_str().unwrap(), one["line"], one["code"])
        };
        all.iter().map(|one| place(one).replace('"', "")).collect()
    };
    let errors = found("errors");
    assert_eq!(errors.len(), 3, "{errors:#?}");
    assert!(errors.iter().any(|e| e.ends_with("states/app/init.sls:2 ZA1012")), "{errors:#?}");
    assert!(errors.iter().any(|e| e.ends_with("states/app/b.conf:2 ZA1013")), "{errors:#?}");
    assert!(said.out.contains("salt://app/run.sh"), "{}", said.out);
    let warnings = found("warnings");
    assert!(warnings.iter().any(|w| w.contains("ZA1012")), "{warnings:#?}");
    let fixed = Tree::new(&files("port {{ port }}\n"));
    fixed.write(&[("states/app/a.conf", "a\n"), ("states/app/run.sh", "#!/bin/sh\n")]);
    let said = fixed.check(&["--out", "json"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
}

#[test]
fn two_commits_are_compared_host_by_host() {
    let mut scratch = ScratchRepo::new();
    let blob = |files: &[(&'static str, &'static str)]| -> Vec<_> {
        files.iter().map(|(path, text)| (*path, EntryKind::Blob, *text)).collect()
    };
    scratch.commit(&blob(SAMPLE));
    let changed: Vec<(&str, &str)> = SAMPLE
        .iter()
        .filter(|(path, _)| *path != "inventory/web-02.yaml")
        .map(|(path, text)| match *path {
            "pillar/common.sls" => (*path, "nginx:\n  workers: 8\n"),
            "states/db.sls" => {
                (*path, "pg:\n  pkg.installed:\n    - name: postgresql\nmore:\n  test.nop: []\n")
            }
            _ => (*path, *text),
        })
        .collect();
    scratch.commit(&blob(&changed));
    let config: PathBuf = scratch.path().join(".git/none.yaml");
    std::fs::write(&config, "").unwrap();
    let (dir, config) = (scratch.path().display().to_string(), config.display().to_string());
    let diff = |range: &str, out: &str| {
        zagent(&["check", &dir, "--diff", range, "--out", out, "--config", &config], scratch.path())
    };
    insta::assert_snapshot!("diff", diff("main~1..main", "text").all());
    assert_eq!(diff("main~1..main", "json").json()["changed_hosts"], 3);
    assert!(diff("main..main", "text").out.contains("no host changes"));
    let unknown = diff("nope..main", "text");
    assert_eq!(unknown.exit, ExitStatus::Usage);
    assert!(unknown.err.contains("no commit matches `nope`"), "{}", unknown.err);
}

#[test]
fn explain_knows_codes_functions_states_and_pillar() {
    let tree = Tree::new(SAMPLE);
    assert!(alone(&["explain", "za0107"]).out.starts_with("# ZA0107"));
    assert!(alone(&["explain"]).out.contains("ZA0107"));
    assert!(alone(&["explain", "file.managed"]).out.contains("contents_pillar"));
    insta::assert_snapshot!("explain_state", tree.on_web(&["explain", "/etc/nginx/nginx.conf"]).all());
    insta::assert_snapshot!("explain_pillar", tree.on_web(&["explain", "pillar:nginx:workers"]).all());
    assert!(!tree.on_web(&["explain", "pillar:nginx:password"]).all().contains("hunter2"));
    for (args, hint) in [
        (vec!["explain", "ZA9999"], "list all codes with `zagent explain`"),
        (vec!["explain", "file.manged"], "did you mean `file.managed`?"),
        (vec!["explain", "nonsense"], "a code (ZA0107)"),
        (vec!["explain", "flie"], "did you mean `file`?"),
        (vec!["explain", "requier"], "did you mean `require`?"),
        (vec!["explain", "file.managed:soruce"], "did you mean `file.managed:source`?"),
        (vec!["explain", "file.managed", "colour"], "list the parameters with `zagent explain file.managed`"),
        (vec!["explain", "file.manged", "source"], "did you mean `file.managed`?"),
        (vec!["explain", "file.manged:source"], "did you mean `file.managed`?"),
    ] {
        let said = alone(&args);
        assert_eq!(said.exit, ExitStatus::Usage);
        assert!(said.err.contains(hint), "{}", said.err);
    }
}

#[test]
fn explain_lists_the_parameters_of_a_function() {
    insta::assert_snapshot!("explain_function", alone(&["explain", "file.symlink"]).all());
    insta::assert_snapshot!("explain_module", alone(&["explain", "test"]).all());
    insta::assert_snapshot!("explain_listed", alone(&["explain", "quota.mode"]).all());
    let one = alone(&["explain", "file.managed:mode"]);
    assert_eq!((one.exit, &one.out), (ExitStatus::Success, &alone(&["explain", "file.managed", "mode"]).out));
    assert!(one.out.contains("a mode such as '0644' or `keep`"), "{}", one.out);
    for (args, words) in [
        (vec!["explain", "require"], "common to all states"),
        (vec!["explain", "file.managed:require"], "Runs after these states"),
        (vec!["explain", "pkg.installed:version"], "version"),
        (vec!["explain", "file.shortcut"], "zagent does not implement it"),
    ] {
        let said = alone(&args);
        assert_eq!(said.exit, ExitStatus::Success, "{}", said.err);
        assert!(said.out.contains(words), "{}", said.out);
    }
    let data = alone(&["explain", "file.symlink", "--out", "json"]).json();
    assert_eq!(data["parameters"][1]["name"], "target");
    assert_eq!(data["parameters"][1]["required"], true);
    assert_eq!(data["undo"], "a revert restores what it changed");
    let yaml = alone(&["explain", "file.symlink:force", "--out", "yaml"]).out;
    assert!(yaml.contains("kinds: bool"), "{yaml}");
    assert_eq!(alone(&["explain", "file", "--out", "json"]).json()["functions"][0], "absent");
}

#[test]
fn usage_errors_have_hints() {
    let tree = Tree::new(SAMPLE);
    let states = tree.dir.path().join("states").display().to_string();
    let config = tree.dir.path().join("none.yaml").display().to_string();
    for (args, words) in [
        (vec!["shwo"], "similar subcommand exists: 'show'"),
        (vec!["show", "lowstate", "--states", "/nonexistent"], "`/nonexistent` does not exist"),
        (vec!["show", "top", "--states", &states, "--pillar-data", "{"], "--pillar-data is not JSON"),
        (vec!["show", "top", "--states", &states, "--pillar-data", "[]"], "expected a mapping"),
        (vec!["show", "top", "--states", &states, "--env", "dev"], "use NAME=DIR"),
        (vec!["show", "top", "--states", &states, "--grains", "/nonexistent"], "cannot read `/nonexistent`"),
        (
            vec!["show", "lowstate", "--states", &states, "--sls", "a", "--saltenv", "dev"],
            "unknown environment `dev`",
        ),
        (vec!["show", "sls", "--states", &states], "no SLS name given"),
        (vec!["config", "show", "runn", "--config", &config], "unknown configuration key `runn`"),
        (vec!["man", "nope"], "has no command `nope`"),
        (vec!["check", ".", "--diff", "..x"], "the first commit is missing"),
    ] {
        let said = alone(&args);
        assert_eq!(said.exit, ExitStatus::Usage, "{args:?}: {}", said.all());
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    }
}

#[test]
fn configuration_is_shown_with_its_origin() {
    let tree = Tree::new(&[("zagent.yaml", "id: web-07\nrun:\n  every: 5m\n"), ("bad.yaml", "idd: x\n")]);
    let file = |name: &str| tree.dir.path().join(name).display().to_string();
    let good = zagent(&["config", "show", "run", "--config", &file("zagent.yaml")], tree.dir.path());
    assert!(good.out.contains("$DIR/zagent.yaml:3"), "{}", good.all());
    let bad = zagent(&["config", "show", "--config", &file("bad.yaml")], tree.dir.path());
    assert_eq!(bad.exit, ExitStatus::Usage);
    assert!(bad.err.contains("did you mean `id`?"), "{}", bad.err);
}

#[test]
fn help_version_completions_and_manual_go_to_stdout() {
    for args in [
        vec!["--help"],
        vec!["--version"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["man", "show", "top"],
    ] {
        let said = alone(&args);
        assert_eq!((said.exit, said.err.as_str()), (ExitStatus::Success, ""), "{args:?}");
        assert!(!said.out.is_empty());
    }
    super::clap_command().debug_assert();
    <super::call::FunctionCallArgs as clap::CommandFactory>::command().debug_assert();
}

mod exec_args;
mod init;
mod manifest;
mod operate;
mod packaging;
mod release;
mod resources;
mod revert;
mod rollout;
mod status;
mod verbs;
