//! From text to settings and diagnostics.

use std::time::Duration;

use super::*;
use crate::value::Value;

fn fragments(files: &[(&str, &str)]) -> Vec<ConfigFragment> {
    files.iter().map(|(file, text)| ConfigFragment::read(file, text).unwrap()).collect()
}

fn settle(
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
    flags: &[FlagOverride],
) -> Result<Settings, Diagnostics> {
    let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    MergedConfig::new(fragments(files), variables, flags).into_settings(Some("host-7"))
}

fn lines(faults: &Diagnostics) -> Vec<String> {
    let hint = |f: &Diagnostic| f.hint.as_ref().map(|h| format!(" ({h})")).unwrap_or_default();
    faults.0.iter().map(|f| format!("{f}{}", hint(f))).collect()
}

fn flag(flag: &str, key: &str, value: &str) -> FlagOverride {
    FlagOverride { flag: flag.into(), key: key.into(), value: value.into() }
}

#[test]
fn an_empty_configuration_is_valid() {
    let settings = settle(&[], &[], &[]).unwrap();
    assert_eq!(settings.id.as_str(), "host-7");
    assert_eq!(settings.root, std::path::Path::new("/var/lib/zagent"));
    assert_eq!(settings.source.poll, defaults::POLL);
    assert_eq!((settings.run.every, settings.run.jobs), (defaults::RUN_EVERY, None));
    assert_eq!(settings.trust.require, RequiredSignatures::None);
    assert!(settings.trust.fast_forward);
    assert_eq!(settings.paths().lock(), std::path::Path::new("/var/lib/zagent/run/lock"));
    let shown = settings.effective();
    assert_eq!(shown.len(), keys().count());
    assert_eq!(
        shown[0],
        EffectiveSetting { key: "id".into(), value: "host-7".into(), origin: SettingOrigin::HostName }
    );
    assert!(shown[1..].iter().all(|e| e.origin == SettingOrigin::Default));
}

#[test]
fn a_host_without_a_usable_name_is_localhost() {
    let none = Vec::<(String, String)>::new();
    assert_eq!(
        MergedConfig::new(vec![], none.clone(), &[]).into_settings(None).unwrap().id.as_str(),
        "localhost"
    );
    assert_eq!(
        MergedConfig::new(vec![], none, &[]).into_settings(Some("a b")).unwrap().id.as_str(),
        "localhost"
    );
}

const FULL: &str = "\
id: web-01
root: /srv/zagent
fleet: prod
source:
  remotes: [{url: 'https://bot:s3cret@git.example.org/states.git', branch: prod}, {url: /srv/states}]
  poll: 90s
baked: /usr/share/x
roots: {states: .}
environments:
  dev: {states: /srv/dev}
env: base
trust: {require: both, allowed_signers: /etc/s, threshold: 2, fast_forward: off}
run: {every: 1h30m, schedule: eager, jobs: 8, timeout: 10m, keep: 5}
compat: salt
facts_dir: /etc/f
pillar: {merge: recurse, merge_lists: yes, env: base}
ext_pillar:
  - /usr/bin/one
  - [/usr/bin/two, --flag]
master_tops: [/usr/bin/top]
nodegroups:
  web: web* or G@os:Debian
  pair: [a, b]
templates: {cmd_run: forbid}
limits: {fuel: 1000, output: 1MiB, program_timeout: 5s}
health:
  - http: http://localhost/
  - {name: ssh, tcp: 'localhost:22', required: false, timeout: 1s, tries: 1}
  - unit: nginx.service
windows:
  - {days: [sat, sun], from: 22:00, to: 04:00, timezone: Europe/Berlin}
schedule:
  nightly: {cron: 0 3 * * *, splay: 5m, sls: [backup], test: true, target: T@ssh}
board: {kind: git, url: ssh://git@git.example.org/board.git}
driver: true
listen: 127.0.0.1:9470
webhooks: [{url: https://hooks.example.org/x, on: [failure, recovery]}]
resources_key: others
resources: {target: '* and not T@dummy', pillar: node, jobs: 3, timeout: 1m, max_output: 1M, binaries: /srv/zagent}
";

#[test]
fn every_key_is_read() {
    let s = settle(&[("zagent.yaml", FULL)], &[], &[]).unwrap_or_else(|f| panic!("{:#?}", lines(&f)));
    assert_eq!(s.source.remotes.len(), 2);
    assert_eq!(s.fleet.as_ref().map(|fleet| fleet.as_str()), Some("prod"));
    assert_eq!((s.source.remotes[0].branch.as_str(), s.source.remotes[1].branch.as_str()), ("prod", "main"));
    assert_eq!(s.run.every, Duration::from_secs(5400));
    assert_eq!((s.run.schedule, s.run.jobs), (RunSchedule::Eager, Some(8)));
    assert_eq!((s.trust.require, s.trust.manifest), (RequiredSignatures::Both, ManifestRule::Required));
    assert!(!s.trust.fast_forward && s.pillar.merge_lists && s.driver);
    assert_eq!(s.ext_pillar, [vec!["/usr/bin/one".to_owned()], vec!["/usr/bin/two".into(), "--flag".into()]]);
    assert_eq!(s.nodegroups.len(), 2);
    assert_eq!((s.limits.fuel, s.limits.output, s.limits.files), (1000, 1 << 20, 20_000));
    assert_eq!([0, 1, 2].map(|i| s.health[i].name.as_str()), ["health-1", "ssh", "nginx.service"]);
    assert_eq!(s.health[1].check, HealthProbe::Tcp("localhost:22".into()));
    assert_eq!((s.windows[0].from, s.windows[0].to), (22 * 60, 4 * 60));
    assert_eq!(s.windows[0].days, [Day::Saturday, Day::Sunday]);
    assert_eq!(s.schedule[0].when, ScheduleTrigger::Cron("0 3 * * *".parse().unwrap()));
    assert_eq!(s.webhooks[0].on, [WebhookOccasion::Failure, WebhookOccasion::Recovery]);
    assert_eq!(s.environments[0].name.as_str(), "dev");
    assert_eq!((s.cmd_run, s.compat), (TemplatePermission::Forbid, CompatMode::Salt));
    let said = s.effective().iter().filter(|e| e.origin != SettingOrigin::Default).count();
    let shown: Vec<String> = s
        .effective()
        .iter()
        .map(|e| format!("{}: {}  # {}", e.key, serde_json::to_string(&e.value).unwrap(), e.origin))
        .collect();
    assert_eq!((s.resources.pillar, s.resources.jobs), (ResourcePillar::Node, 3));
    assert_eq!(s.resources.binaries.as_deref(), Some(std::path::Path::new("/srv/zagent")));
    assert_eq!(said, 47, "{shown:#?}");
    assert!(shown.iter().any(|l| l == r#"schedule.nightly: {"cron":"0 3 * * *","splay":"5m","maxrunning":1,"catch_up":true,"sls":["backup"],"test":true,"target":"T@ssh"}  # zagent.yaml:33"#), "{shown:#?}");
    assert!(!shown.join("\n").contains("s3cret"));
}

#[test]
fn later_wins_and_the_origin_is_recorded() {
    let files = [
        ("zagent.yaml", "run: {every: 1h, keep: 7, jobs: 4}\nnodegroups: {a: x*, b: y*}\nid: one\n"),
        ("conf.d/10.yaml", "run:\n  every: 2h\n  jobs: ~\nnodegroups: {b: z*}\n"),
    ];
    let variables =
        [("ZAGENT_RUN_EVERY", "3h"), ("ZAGENT_SOURCE_POLL", "5s"), ("HOME", "/"), ("ZAGENT_LOG", "debug")];
    let s = settle(&files, &variables, &[flag("--every", "run.every", "4h")]).unwrap();
    let origin = |key: &str| {
        let e = s.effective().iter().find(|e| e.key == key).unwrap();
        (e.value.clone(), e.origin.to_string())
    };
    assert_eq!(origin("run.every"), (Value::from("4h"), "--every".into()));
    assert_eq!(origin("source.poll"), (Value::from("5s"), "ZAGENT_SOURCE_POLL".into()));
    assert_eq!(origin("run.keep"), (Value::Int(7), "zagent.yaml:1".into()));
    assert_eq!(origin("run.jobs"), (Value::Null, "default".into()));
    assert_eq!(origin("nodegroups.a"), (Value::from("x*"), "zagent.yaml:2".into()));
    assert_eq!(origin("nodegroups.b"), (Value::from("z*"), "conf.d/10.yaml:4".into()));
    assert_eq!(origin("id"), (Value::from("one"), "zagent.yaml:3".into()));
}

#[test]
fn variables_can_set_every_type() {
    let s = settle(
        &[],
        &[
            ("ZAGENT_ID", "42"),
            ("ZAGENT_DRIVER", "true"),
            ("ZAGENT_RUN_JOBS", "3"),
            ("ZAGENT_LIMITS_OUTPUT", "2MiB"),
            ("ZAGENT_EXT_PILLAR", "/bin/a, /bin/b"),
            ("ZAGENT_MASTER_TOPS", "[[/bin/c, -x]]"),
            ("ZAGENT_SOURCE_REMOTES", "[{url: /srv/x}]"),
            ("ZAGENT_NODEGROUPS", "{g: [a, b]}"),
        ],
        &[],
    )
    .unwrap_or_else(|f| panic!("{:#?}", lines(&f)));
    assert_eq!((s.id.as_str(), s.driver, s.run.jobs, s.limits.output), ("42", true, Some(3), 2 << 20));
    assert_eq!((s.ext_pillar.len(), s.master_tops[0].len(), s.source.remotes.len()), (2, 2, 1));
    assert!(s.nodegroups.contains("g"));
}

#[test]
fn every_fault_at_once() {
    let text = "\
idd: x
id: a/b
run:
  evry: 5m
  keep: 0
  every: 5
  timeout: soon
  schedule: eagre
  jobs: many
poll: 5s
source: {remotes: [{branch: x}, {url: a, brnch: y}], poll: 10ms}
trust: yes
health: [{http: 'http://a', tcp: 'b:1'}]
windows: [{from: 9:00, to: 25:00}, {from: '08:00', to: '08:00'}]
schedule: {x: {}}
limits: {output: 1, source: [x]}
listen: localhost
ext_pillar: [vault]
nodegroups: {a: {b: c}}
driver: 3
7: x
";
    let faults = settle(
        &[("z.yaml", text)],
        &[("ZAGENT_RUN_EVRY", "1"), ("ZAGENT_BOARD_KIND", "nats")],
        &[flag("--nope", "run.nope", "1")],
    )
    .unwrap_err();
    insta::assert_snapshot!(lines(&faults).join("\n"));
    assert!(faults.0.iter().all(|f| f.location.is_some()));
    let excerpt = faults.0.iter().find(|f| f.message.contains("run.evry")).unwrap().excerpts[0].clone();
    assert_eq!((excerpt.line, excerpt.column, excerpt.text.as_str()), (4, 3, "  evry: 5m"));
}

#[test]
fn settings_are_checked_against_each_other() {
    for (text, want) in [
        (
            "trust: {require: manifest, manifest: optional}",
            "`trust.require: manifest` conflicts with `trust.manifest: optional`",
        ),
        ("trust: {threshold: 2}", "`trust.threshold` counts manifest signatures, but none is required"),
        ("board: {kind: git}", "`board.kind: git` needs `board.url`"),
        ("schedule: {x: {every: 5m, cron: '@daily'}}", "`schedule.x` needs either `every` or `cron`"),
        ("health: [{name: x}]", "`health[0]` needs exactly one of `http`, `tcp`, `unit` and `command`"),
        ("root: here", "`root` is not an absolute path"),
        ("schedule: [x]", "`schedule` must be a mapping of names, not a list"),
    ] {
        let faults = settle(&[("z.yaml", text)], &[], &[]).unwrap_err();
        assert_eq!(faults.0.iter().map(|f| f.message.as_str()).collect::<Vec<_>>(), [want], "{text}");
        assert_eq!(faults.0[0].location.as_ref().unwrap().pos.line, 1);
    }
}

#[test]
fn files_are_read_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let location = ConfigLocation::Dir(dir.path().to_owned());
    let none = Vec::<(String, String)>::new;
    assert!(load(&location, none(), &[], None).is_ok());
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("zagent.yaml", "id: one\nrun: {keep: 1}\n");
    write("conf.d/20-b.yaml", "id: three\n");
    write("conf.d/10-a.yaml", "id: two\nrun: {keep: 2}\n");
    write("conf.d/.hidden.yaml", "nope: 1\n");
    write("conf.d/readme.txt", "nope: 1\n");
    let settings = load(&location, none(), &[], None).unwrap();
    assert_eq!((settings.id.as_str(), settings.run.keep), ("three", 2));

    write("conf.d/30-c.yaml", "id: [\n");
    write("conf.d/40-d.yaml", "- x\n");
    let faults = load(&location, none(), &[], None).unwrap_err();
    assert_eq!(faults.0.iter().map(|f| f.code.id).collect::<Vec<_>>(), ["ZA0002", "ZA0004"]);

    let file = ConfigLocation::File(dir.path().join("zagent.yaml"));
    assert_eq!(load(&file, none(), &[], None).unwrap().id.as_str(), "one");
    let missing = ConfigLocation::File(dir.path().join("nope.yaml"));
    assert_eq!(load(&missing, none(), &[], None).unwrap_err().0[0].code.id, "ZA0001");
}

#[test]
fn passwords_stay_out_of_excerpts() {
    let text = "source:\n  remotes: [{url: 'https://a:s3cret@host/x', brnch: y}]\n";
    let faults = settle(&[("z.yaml", text)], &[], &[]).unwrap_err();
    assert!(faults.0[0].excerpts.is_empty() && !format!("{faults:?}").contains("s3cret"));
}

#[test]
fn values_that_would_fail_later_are_rejected_when_read() {
    let text = "\
windows:
  - {from: 22:00, to: 04:00, timezone: Mars/Olympus}
schedule:
  nightly:
    cron: 0 25 * * *
  never: {cron: 0 0 30 feb *}
health:
  - http: localhost/health
  - tcp: localhost
webhooks: [{url: 'hooks.example.org/s3cret'}]
";
    let told = lines(&settle(&[("zagent.yaml", text)], &[], &[]).unwrap_err());
    let want = [
        "zagent.yaml:2:",
        "zagent.yaml:5:",
        "zagent.yaml:6:",
        "zagent.yaml:8:",
        "zagent.yaml:9:",
        "zagent.yaml:10:",
    ];
    assert_eq!(told.len(), want.len(), "{told:#?}");
    for (line, place) in told.iter().zip(want) {
        assert!(line.starts_with(place), "{line}");
    }
    assert!(told[1].contains("`schedule.nightly.cron`: `25` is not a valid hour (character 3)"), "{told:#?}");
    assert!(told[1].ends_with("(use 0 to 23)"), "{told:#?}");
    assert!(told[2].contains("never runs"), "{told:#?}");
    assert!(!told.join("\n").contains("s3cret"), "{told:#?}");
}

#[test]
fn the_written_configuration_can_be_read_again() {
    let text = "id: web-01\nsource:\n  remotes: [{url: 'https://x/y.git', branch: main}]\n  poll: 90s\n\
                schedule:\n  a.b: {cron: '5 4 * * *', sls: [web]}\n  nightly: {every: 1h}\n\
                nodegroups:\n  web: 'web*'\nlimits: {output: 2MiB}\nwindows: [{from: '22:00', to: '04:00'}]\n";
    let load = |text: &str| {
        let fragment = ConfigFragment::read("x.yaml", text).unwrap();
        MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("host")).unwrap()
    };
    let (first, second) =
        (load(text), load(&serde_json::to_string_pretty(&load(text).explicit_values()).unwrap()));
    let values = |settings: &Settings| -> Vec<(String, Value)> {
        settings.effective().iter().map(|e| (e.key.clone(), e.value.clone())).collect()
    };
    assert_eq!(values(&first), values(&second));
    assert_eq!(first.schedule, second.schedule);
}

#[test]
fn files_that_others_can_change_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let [main, fragments] = ["zagent.yaml", "conf.d"].map(|name| dir.path().join(name));
    let fragment = fragments.join("a.yaml");
    std::fs::create_dir(&fragments).unwrap();
    std::fs::write(&main, "id: web-01\n").unwrap();
    std::fs::write(&fragment, "").unwrap();
    let set_mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for path in [&main, &fragment, &fragments] {
        set_mode(path, 0o755);
    }
    let load = |location: ConfigLocation| super::load(&location, [], &[], None).map(|s| s.id.to_string());
    let whole = || load(ConfigLocation::Dir(dir.path().into()));
    assert_eq!(whole().unwrap(), "web-01");
    for path in [main.as_path(), &fragment, &fragments, dir.path()] {
        set_mode(path, 0o757);
        let errors = whole().unwrap_err();
        assert_eq!(errors.0[0].code.id, "ZA0013", "{errors}");
        assert_eq!(
            errors.0[0].hint.as_deref(),
            Some(&*format!("fix it with `chmod go-w {}`", path.display()))
        );
        set_mode(path, 0o755);
    }
    set_mode(&main, 0o666);
    assert!(load(ConfigLocation::File(main)).is_err());
}
