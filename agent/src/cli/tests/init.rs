//! A new repository from the first file to the second run; reports about Salt trees; exit codes of the
//! doctor.

use super::{Said, Tree, zagent};
use zagent_daemon::error::ExitStatus;

#[test]
fn a_new_repository_checks_runs_and_then_has_nothing_to_do() {
    let tree = Tree::new(&[]);
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let (repo, config, motd) = (at("repo"), at("none.yaml"), at("motd"));
    let made = zagent(&["init", &repo, "--out", "json"], tree.dir.path());
    assert_eq!(made.exit, ExitStatus::Success, "{}", made.all());
    assert_eq!(made.json()["written"].as_array().unwrap().len(), 12, "{}", made.all());

    let signing = &made.json()["signing"];
    assert_eq!(
        (&signing["signed"], &signing["for"]["branch"]),
        (&true.into(), &"main".into()),
        "{}",
        made.all()
    );
    assert!(signing["key"].as_str().unwrap().ends_with("repo/.git/zagent-signing-key"), "{}", made.all());
    let signers = format!("{repo}/allowed_signers");
    let words =
        ["manifest", "check", &repo, "--allowed-signers", &signers, "--branch", "main", "--config", &config];
    let signed = zagent(&words, tree.dir.path());
    assert_eq!(signed.exit, ExitStatus::Success, "{}", signed.all());
    let wrong = zagent(&[&words[..6], &["prod", "--config", &config]].concat(), tree.dir.path());
    assert_eq!(wrong.exit, ExitStatus::Failed, "{}", wrong.all());

    let checked = zagent(&["check", &repo, "--config", &config, "--deny-warnings"], tree.dir.path());
    assert_eq!(checked.exit, ExitStatus::Success, "{}", checked.all());

    let (states, pillar) = (format!("{repo}/states"), format!("{repo}/pillar"));
    let data = serde_json::json!({"motd": {"file": motd}}).to_string();
    let run = |more: &[&str]| -> Said {
        let words = ["run", "--once", "--states", &states, "--pillar", &pillar, "--config", &config];
        let words = [&words[..], &["--pillar-data", &data, "--out", "json"], more].concat();
        zagent(&words, tree.dir.path())
    };
    let dry = run(&["--test"]);
    assert_eq!((dry.exit, &dry.json()["changed"]), (ExitStatus::Success, &1.into()), "{}", dry.all());
    assert!(!std::path::Path::new(&motd).exists());
    let first = run(&[]);
    assert_eq!((first.exit, &first.json()["changed"]), (ExitStatus::Success, &1.into()), "{}", first.all());
    assert!(std::fs::read_to_string(&motd).unwrap().contains("ops@example.org"));
    let second = run(&[]);
    assert_eq!(
        (second.exit, &second.json()["changed"]),
        (ExitStatus::Success, &0.into()),
        "{}",
        second.all()
    );

    let again = zagent(&["init", &repo], tree.dir.path());
    assert_eq!(again.exit, ExitStatus::Usage, "{}", again.all());
    assert!(again.err.contains("is not empty") && again.err.contains("--force"), "{}", again.all());
    let forced = zagent(&["init", &repo, "--force"], tree.dir.path());
    assert!(
        forced.exit == ExitStatus::Success && forced.out.contains("(exists, not changed)"),
        "{}",
        forced.all()
    );
}

const SALT: &[(&str, &str)] = &[
    (
        "etc/salt/master",
        "file_roots:\n  base:\n    - /srv/salt\n    - /srv/formulas\n  dev: [/srv/dev]\npillar_roots:\n  base: [/srv/pillar]\nreactor:\n  - 'salt/minion/*/start': [/srv/reactor/start.sls]\n",
    ),
    ("srv/salt/top.sls", "base:\n  '*':\n    - web\n  'db*':\n    - db\n"),
    (
        "srv/salt/web.sls",
        "conf:\n  file.managed:\n    - name: /etc/x\n    - contents: {{ salt['pillar.get']('port') }}\nnginx:\n  pkg.installed: []\n",
    ),
    ("srv/salt/db.sls", "pg:\n  pkg:\n    - installed\n{{ nothing.at.all }}\n"),
    ("srv/salt/py.sls", "#!py\ndef run():\n    return {}\n"),
    ("srv/salt/loose.sls", "a:\n  mymod.thing:\n    - x: 1\n"),
    ("srv/salt/orch.sls", "step:\n  salt.state:\n    - tgt: '*'\n    - sls: web\n"),
    ("srv/salt/_modules/own.py", "def f():\n    return 1\n"),
    ("srv/salt/t.jinja", "{{ salt['own.f']() }} {{ salt['mine.get']('*', 'x') }}\n"),
    ("srv/formulas/ntp/init.sls", "ntp:\n  cmd.run:\n    - name: 'true'\n"),
    ("srv/dev/dev.sls", "d:\n  test.nop: []\n"),
    ("srv/pillar/top.sls", "base: {'*': [port]}\n"),
    ("srv/pillar/port.sls", "port: 80\n"),
];

#[test]
fn a_salt_tree_is_assessed_and_copied_and_stays_unchanged() {
    let tree = Tree::new(SALT);
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let (from, to, grains) = (tree.dir.path().display().to_string(), at("new"), at("grains.json"));
    let words = ["init", "--from-salt", &from, "--grains", &grains, "--id", "web-01", "--out", "json"];
    let said = zagent(&words, tree.dir.path());
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    let report = said.json();
    let outcome = |name: &str| {
        let all = report["sls"].as_array().unwrap();
        all.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"))["outcome"]
            .clone()
    };
    assert_eq!(outcome("web"), "compiles");
    assert_eq!(outcome("ntp"), "compiles", "the second root of base");
    assert_eq!(outcome("dev"), "compiles", "another environment");
    assert_eq!(outcome("db"), "fails");
    assert_eq!(outcome("py"), "fails");
    assert_eq!(outcome("loose"), "with_compat", "{report:#}");
    let level = |list: &str, name: &str| {
        let all = report[list].as_array().unwrap();
        all.iter().find(|u| u["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}")).clone()
    };
    assert_eq!(level("state_functions", "file.managed")["level"], "runs");
    let pkg = level("state_functions", "pkg.installed");
    assert_eq!((&pkg["level"], pkg["places"].as_array().unwrap().len()), (&"runs".into(), 2), "{pkg:#}");
    assert_eq!(level("state_functions", "salt.state")["level"], "known");
    assert_eq!(level("state_functions", "mymod.thing")["level"], "unknown");
    assert_eq!(level("template_functions", "pillar.get")["level"], "runs");
    assert_eq!(level("template_functions", "own.f")["level"], "unknown");
    assert_eq!(level("renderers", "py")["level"], "unknown");
    let features: Vec<&str> =
        report["features"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    for wanted in ["option reactor", "Python in _modules", "orchestration"] {
        assert!(features.contains(&wanted), "{wanted}: {features:?}");
    }
    assert_eq!(report["targets"].as_array().unwrap().len(), 2);
    // file.managed, pkg.installed, cmd.run and test.nop of seven: mymod and salt.state do not run, db does not compile.
    assert_eq!(
        (&report["states"]["declared"], &report["states"]["run"]),
        (&7.into(), &4.into()),
        "{report:#}"
    );
    assert_eq!(report["percent"], 57);

    let text =
        zagent(&["init", "--from-salt", &from, &to, "--grains", &grains, "--id", "web-01"], tree.dir.path());
    assert!(text.out.contains("57 %") && text.out.contains("there is no event bus"), "{}", text.all());
    for path in [
        "states/web.sls",
        "states/ntp/init.sls",
        "pillar/port.sls",
        "environments/dev/states/dev.sls",
        "ci.sh",
    ] {
        assert!(tree.dir.path().join("new").join(path).is_file(), "{path}: {}", text.all());
    }
    assert!(!tree.dir.path().join("srv/salt/ci.sh").exists());
    let inside = zagent(&["init", "--from-salt", &from, &at("srv/salt/in")], tree.dir.path());
    assert!(
        inside.exit == ExitStatus::Usage && inside.err.contains("is inside the tree"),
        "{}",
        inside.all()
    );
}

#[test]
fn the_doctor_reports_failures_and_exits_with_one() {
    let tree = Tree::new(&[("bad.yaml", "sorce: 1\n")]);
    let config = tree.dir.path().join("none.yaml").display().to_string();
    let fine = zagent(&["doctor", "--offline", "--config", &config, "--out", "json"], tree.dir.path());
    let checks = fine.json()["checks"].as_array().unwrap().clone();
    assert_eq!(checks[0]["check"], "config", "{}", fine.all());
    let bad = tree.dir.path().join("bad.yaml").display().to_string();
    let broken = zagent(&["doctor", "--offline", "--config", &bad], tree.dir.path());
    assert_eq!(broken.exit, ExitStatus::Failed, "{}", broken.all());
    assert!(
        broken.out.contains("fail  config") && broken.out.contains("did you mean `source`?"),
        "{}",
        broken.all()
    );
}

#[test]
fn a_formula_is_tested_with_and_without_its_documented_pillar() {
    let sls = "a:\n  test.nop:\n    - name: {{ pillar['app']['port'] }}\n";
    let tree = Tree::new(&[
        ("f/app/init.sls", sls),
        ("f/app/more.sls", &sls.replace("a:", "b:")),
        ("f/app/plain.sls", "c:\n  test.nop: []\n"),
        ("f/pillar.example", "app:\n  port: 80\n"),
    ]);
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let (from, grains) = (at("f"), at("grains.json"));
    let words = ["init", "--from-salt", &from, "--grains", &grains, "--id", "web-01"];
    let said = zagent(&[&words[..], &["--out", "json"]].concat(), tree.dir.path());
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    let report = said.json();
    let sls = |name: &str| {
        let found = report["sls"].as_array().unwrap().iter().find(|sls| sls["name"] == name).unwrap();
        (found["outcome"].as_str().unwrap().to_owned(), found["with_example"].as_str().unwrap().to_owned())
    };
    assert_eq!(sls("app"), ("fails".into(), "compiles".into()), "{report:#}");
    assert_eq!(sls("app.plain"), ("compiles".into(), "compiles".into()));
    assert_eq!(report["percent"], 99, "what exits with 65 is not 100 %: {report:#}");
    let text = zagent(&words, tree.dir.path());
    assert!(text.out.contains("1 of 3 files compile\n"), "{}", text.out);
    assert!(text.out.contains("3 of 3 compile with the pillar that the formulas document"), "{}", text.out);
    let lines = text.out.lines().filter(|line| line.contains("compiles with the documented pillar")).count();
    assert_eq!(lines, 1, "one fault, one line: {}", text.out);
    assert!(text.out.contains("(and 1 more SLS)"), "{}", text.out);
}

#[test]
fn what_clashes_only_together_is_not_100_percent() {
    let tree = Tree::new(&[
        ("s/salt/top.sls", "base:\n  '*': [one, two]\n"),
        ("s/salt/one.sls", "a:\n  test.nop: []\n"),
        ("s/salt/two.sls", "a:\n  test.nop: []\n"),
    ]);
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    let (from, grains) = (at("s"), at("grains.json"));
    let words = ["init", "--from-salt", &from, "--grains", &grains, "--id", "web-01", "--out", "json"];
    let said = zagent(&words, tree.dir.path());
    let report = said.json();
    assert_eq!((said.exit, &report["percent"]), (ExitStatus::Failed, &99.into()), "{}", said.all());
    assert!(report["highstate_errors"][0].as_str().unwrap().contains('a'), "{report:#}");
}
