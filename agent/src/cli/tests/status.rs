//! Commands with and without a daemon.

use std::sync::Arc;
use zagent_config::settings::ListenPages;

use zagent_cache::testing::{EntryKind, ScratchRepo};

use super::{Said, Tree, zagent};
use zagent_config::json_file;
use zagent_daemon::AgentMemory;
use zagent_daemon::api::fake::FakeBackend;
use zagent_daemon::api::{ApiConfig, ApiLimits, ApiServer, RunRequest, serve};
use zagent_daemon::error::ExitStatus;
use zagent_daemon::status::{AgentStatus, samples};

struct Site {
    tree: Tree,
    fake: Arc<FakeBackend>,
    serving: Option<ApiServer>,
}

impl Site {
    /// A root without a daemon.
    fn new() -> Self {
        Self { tree: Tree::new(&[]), fake: Arc::default(), serving: None }
    }

    /// A root with a daemon.
    fn with(fake: FakeBackend) -> Self {
        let mut site = Self { fake: Arc::new(fake), ..Self::new() };
        let socket = site.paths().socket();
        let config = ApiConfig {
            socket,
            group: None,
            readers: None,
            listen: None,
            pages: ListenPages::Summary,
            limits: ApiLimits::default(),
        };
        site.serving = Some(serve(config, Arc::<FakeBackend>::clone(&site.fake)).unwrap());
        site
    }

    fn paths(&self) -> zagent_config::paths::Paths {
        zagent_config::paths::Paths::new(self.tree.dir.path().join("root"))
    }

    fn zagent(&self, words: &[&str]) -> Said {
        let config = self.tree.dir.path().join("none.yaml").display().to_string();
        zagent(&[words, &["--config", &config]].concat(), self.tree.dir.path())
    }
}

#[test]
fn without_a_daemon_status_reads_the_files() {
    let site = Site::new();
    let said = site.zagent(&["status", "--check"]);
    assert_eq!(
        (said.exit, said.err.as_str()),
        (ExitStatus::Failed, "warning: nothing was ever applied on this node\n"),
        "{}",
        said.all()
    );
    assert!(said.out.contains("daemon: not running\nrevision  none yet"), "{}", said.all());
    assert!(!site.paths().root().exists());

    let mut memory: AgentMemory = samples::fine().memory;
    memory.last_run.as_mut().unwrap().success = false;
    json_file::write(&site.paths().memory(), &memory).unwrap();
    let said = site.zagent(&["status"]);
    assert_eq!((said.exit, said.err.as_str()), (ExitStatus::Success, ""), "{}", said.all());
    assert!(said.out.contains("\nlast run  FAILED "), "{}", said.all());
    let said = site.zagent(&["status", "--check"]);
    assert_eq!(
        (said.exit, said.err.as_str()),
        (ExitStatus::Failed, "warning: the last run failed\n"),
        "{}",
        said.all()
    );
}

#[test]
fn a_check_fails_without_the_daemon_that_should_run() {
    let site = Site::new();
    json_file::write(&site.paths().memory(), &samples::fine().memory).unwrap();
    assert_eq!(site.zagent(&["status", "--check"]).exit, ExitStatus::Success, "no remotes, no daemon");
    let config = site.tree.dir.path().join("none.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let remote = site.tree.dir.path().join("states.git").display().to_string();
    std::fs::write(&config, format!("{text}source: {{remotes: [{{url: '{remote}'}}]}}\n")).unwrap();
    let said = site.zagent(&["status", "--check"]);
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    assert!(
        said.err.contains("no daemon is running") && said.err.contains("systemctl start"),
        "{}",
        said.err
    );
    assert_eq!(site.zagent(&["status", "--check", "--no-daemon"]).exit, ExitStatus::Success);
    assert_eq!(site.zagent(&["status"]).exit, ExitStatus::Success);
}

#[test]
fn a_check_fails_when_the_configuration_does_not_load() {
    let site = Site::with(FakeBackend::default());
    assert_eq!(site.zagent(&["status", "--check"]).exit, ExitStatus::Success);
    let config = site.tree.dir.path().join("none.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let good = site.paths().last_config();
    std::fs::create_dir_all(good.parent().unwrap()).unwrap();
    std::fs::write(&good, &text).unwrap();
    std::fs::write(&config, format!("{text}nosuch: key\n")).unwrap();
    let said = site.zagent(&["status", "--check"]);
    assert_ne!(said.exit, ExitStatus::Success, "{}", said.all());
}

#[test]
fn runs_of_a_directory_are_in_the_status_and_dry_runs_in_the_history() {
    let site = Site::new();
    site.tree.write(&[
        ("states/good.sls", "a:\n  test.nop: []\n"),
        ("states/web/init.sls", "# first\n\nb:\n  test.fail_without_changes: []\n"),
    ]);
    let states = site.tree.dir.path().join("states").display().to_string();
    let run =
        |words: &[&str]| site.zagent(&[&["run", "--once", "--states", &states, "--sls"], words].concat());
    assert_eq!(run(&["good", "--test"]).exit, ExitStatus::Success);
    assert!(!site.paths().root().exists(), "a dry run creates nothing");
    assert_eq!(run(&["good"]).exit, ExitStatus::Success);
    assert!(site.zagent(&["status"]).out.contains("\nlast run  OK "), "{}", site.zagent(&["status"]).all());
    let failed = run(&["web"]);
    assert!(failed.out.contains("b  test.fail_without_changes  (web/init.sls:3)"), "{}", failed.all());
    let status = site.zagent(&["status", "--check"]);
    assert_eq!(status.exit, ExitStatus::Failed, "{}", status.all());
    assert!(status.out.contains("\nlast run  FAILED "), "{}", status.all());
    assert!(status.out.contains("b (web/init.sls:3): "), "{}", status.all());
    assert_eq!(run(&["good", "--test"]).exit, ExitStatus::Success);
    let list = |words: &[&str]| site.zagent(&[&["history", "--out", "json"], words].concat()).json();
    assert_eq!(list(&[]).as_array().unwrap().len(), 2);
    let all = list(&["--all"]);
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert_eq!((&all[0]["mode"], &all[0]["test"]), (&"test".into(), &true.into()));
    let dry = all[0]["run"].as_str().unwrap();
    assert_eq!(site.zagent(&["history", dry, "--out", "json"]).json()["mode"], "test");
    assert_ne!(site.zagent(&["history", "last", "--out", "json"]).json()["run"], dry);
}

#[test]
fn a_killed_run_is_in_the_history() {
    let site = Site::new();
    site.tree.write(&[("states/good.sls", "a:\n  test.nop: []\n")]);
    let states = site.tree.dir.path().join("states").display().to_string();
    let run = || site.zagent(&["run", "--once", "--states", &states, "--sls", "good"]);
    run();
    let about = r#"{"node":"web-01","revision":"r","mode":"apply","schedule":"levels","trigger":"git"}"#;
    let lock = format!("{} run 20261116T084512-3f9a7\n{about}\n", u32::MAX);
    std::fs::write(site.paths().lock(), &lock).unwrap();
    let killed = |said: &Said| said.out.contains("20261116T084512-3f9a7") && said.out.contains("KILLED");
    let said = site.zagent(&["history"]);
    assert!(killed(&said), "{}", said.all());
    assert_eq!(std::fs::read_to_string(site.paths().lock()).unwrap(), lock, "a look changes nothing");
    // Newer than the last run that ended.
    std::fs::write(site.paths().lock(), lock.replace("20261116T", "20991116T")).unwrap();
    let status = site.zagent(&["status", "--check"]);
    assert_eq!(status.exit, ExitStatus::Failed, "{}", status.all());
    assert!(status.out.contains("its process was killed before the run ended"), "{}", status.out);
    std::fs::write(site.paths().lock(), &lock).unwrap();
    run();
    assert_eq!(std::fs::read_to_string(site.paths().lock()).unwrap(), "", "a run that ended is not named");
    let said = site.zagent(&["history"]);
    assert!(killed(&said), "{}", said.all());
    let said = site.zagent(&["history", "20261116T084512-3f9a7"]);
    assert!(said.err.contains("was killed before it ended"), "{}", said.all());
}

#[test]
fn a_branch_that_no_remote_has_cannot_be_pinned() {
    let site = Site::new();
    let mut repo = ScratchRepo::new();
    let commit = repo.commit(&[("states/top.sls", EntryKind::Blob, "base: {}\n")]);
    repo.set_branch("main", &commit);
    let config = site.tree.dir.path().join("none.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let remotes = format!("source: {{remotes: [{{url: '{}', branch: main}}]}}\n", repo.path().display());
    std::fs::write(&config, format!("{text}{remotes}")).unwrap();
    let said = site.zagent(&["pin", "mian"]);
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(said.err.contains("mian"), "{}", said.err);
    assert!(!site.paths().pin().exists());
    assert_eq!(site.zagent(&["pin", "main"]).exit, ExitStatus::Success);
    std::fs::write(&config, format!("{text}source: {{remotes: [{{url: '/no/such.git'}}]}}\n")).unwrap();
    let said = site.zagent(&["pin", "other"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.err.contains("cannot check whether the branch `other` exists"), "{}", said.err);
}

#[test]
fn unreadable_files_are_reported_and_count() {
    let site = Site::new();
    json_file::write(&site.paths().pause(), &"no pause").unwrap();
    let said = site.zagent(&["status"]);
    assert!(said.out.contains("\nunread    `$DIR/root/state/pause` is damaged"), "{}", said.all());
    assert_eq!(
        (said.exit, site.zagent(&["status", "--check"]).exit),
        (ExitStatus::Success, ExitStatus::Failed)
    );
}

#[test]
fn the_daemon_answers_as_text_and_as_data() {
    let site = Site::with(FakeBackend::default());
    let said = site.zagent(&["status", "--check"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.contains("web-01, zagent 0.1.0, daemon 712 up "), "{}", said.all());
    assert_eq!(said.out.lines().count(), 11, "{}", said.all());
    let status: AgentStatus = serde_json::from_str(&site.zagent(&["status", "--out", "json"]).out).unwrap();
    assert_eq!(status, AgentStatus::from_inputs(samples::fine()));
    assert!(site.zagent(&["status", "--out", "yaml"]).out.contains("\ndaemon:\n  pid: 712\n"));
}

#[test]
fn a_run_is_triggered() {
    let site = Site::with(FakeBackend::default());
    let said = site.zagent(&["trigger", "--test", "--sls", "web,db", "--no-fetch"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.starts_with("run requested"), "{}", said.all());
    let wish = RunRequest { test: true, sls: vec!["web".into(), "db".into()], fetch: false, wait: false };
    assert_eq!(*site.fake.requests.lock().unwrap(), [wish]);
    assert_eq!(site.zagent(&["trigger", "--out", "json"]).json()["ticket"], 7);
    assert_eq!(site.fake.requests.lock().unwrap()[1], RunRequest::default());
}

#[test]
fn waiting_returns_the_result_and_its_exit_code() {
    let site = Site::with(FakeBackend { waits: 3, exit: 65, ..FakeBackend::default() });
    let said = site.zagent(&["trigger", "--wait"]);
    assert_eq!(said.exit, ExitStatus::NotCompiled, "{}", said.all());
    let expected = "OK  run 20261116T115600-3f9a7 took 12.3 s: 2 changed, 40 unchanged\n\
                    full report: zagent history 20261116T115600-3f9a7\n";
    assert_eq!(said.out, expected);
    let said = site.zagent(&["trigger", "--wait", "--test", "--out", "json"]);
    assert_eq!(
        (said.json()["exit"].clone(), said.json()["run"]["success"].clone()),
        (65.into(), true.into())
    );
}

#[test]
fn no_daemon_and_a_refusal_have_exit_codes_and_hints() {
    let said = Site::new().zagent(&["trigger"]);
    assert_eq!(said.exit, ExitStatus::Unreachable);
    assert!(said.err.contains("no daemon is listening on `$DIR/root/run/agent.sock`"), "{}", said.all());
    assert!(said.err.contains("zagent run --once"), "{}", said.all());
    let said =
        Site::with(FakeBackend { paused: true, ..FakeBackend::default() }).zagent(&["trigger", "--wait"]);
    assert_eq!((said.exit, said.out.as_str()), (ExitStatus::Locked, ""));
    assert_eq!(said.err, "error: paused until 15:30 (disk swap): zagent resume\n");
}

#[test]
fn pause_pin_and_quarantine_notify_the_daemon() {
    use std::sync::atomic::Ordering;
    let site = Site::with(FakeBackend::default());
    let all: [&[&str]; 5] = [
        &["pause", "--for", "1h"],
        &["resume"],
        &["pin", "main"],
        &["unpin"],
        &["quarantine", "clear", "--all"],
    ];
    for (n, words) in all.iter().enumerate() {
        let said = site.zagent(words);
        assert_eq!((said.exit, said.err.as_str()), (ExitStatus::Success, ""), "{}", said.all());
        assert_eq!(site.fake.told.load(Ordering::SeqCst), n + 1, "{words:?}");
    }
}

#[test]
fn without_a_watchdog_its_files_are_read_and_nothing_rolls_back() {
    let site = Site::new();
    let said = site.zagent(&["watchdog", "status"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        said.out.starts_with(&format!("agent     {version}, not running\nrollout   none\n")),
        "{}",
        said.all()
    );
    let mut node = zagent_rollout::phase::NodeState::with_version("0.2.0");
    node.previous = Some("0.1.0".into());
    node.rejected.insert("0.3.0".into(), "it does not stay up".into());
    json_file::write(&site.paths().phase(), &node).unwrap();
    let said = site.zagent(&["self", "status"]);
    assert!(
        said.out.contains("before    0.1.0; roll back to it with `zagent self rollback`"),
        "{}",
        said.all()
    );
    assert!(said.out.contains("rejected  0.3.0: it does not stay up"), "{}", said.all());
    let json = site.zagent(&["watchdog", "status", "--out", "json"]).json();
    assert_eq!((&json["version"], &json["watchdog"]), (&"0.2.0".into(), &serde_json::Value::Null));
    assert_eq!(site.zagent(&["watchdog", "--probe"]).exit, ExitStatus::Success);
    let said = site.zagent(&["self", "rollback"]);
    assert_eq!(said.exit, ExitStatus::Unreachable);
    assert!(said.err.contains("no watchdog is listening on `$DIR/root/run/watchdog.sock`"), "{}", said.all());
    assert!(said.err.contains("systemctl start zagent-watchdog"), "{}", said.all());
    std::fs::write(site.paths().phase(), "{").unwrap();
    assert_eq!(site.zagent(&["watchdog", "--probe"]).exit, ExitStatus::Failed);
    let said = site.zagent(&["watchdog", "status"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.contains("note      state/phase is damaged (EOF"), "{}", said.all());
    let said = site.zagent(&["status", "--check"]);
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    assert!(said.out.contains("watchdog  state/phase is damaged (EOF"), "{}", said.all());
}
