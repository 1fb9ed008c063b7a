//! What a run reads: the published cache, a plain directory, the states of the image, or nothing.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use zagent_cache::testing::GitHttpServer;
use zagent_tests::node::{Node, Repo};

/// A modification of a tree.
type Damage = fn(&Path);

const FALLS_BACK: &str =
    "state-file cache dir empty or missing after retries, falling back to baked states dir";
const NOTHING: &str = "states engine unavailable: no states directory exists yet (state files not yet synced from Git \
                       and no baked states dir); retry after state files are published";

fn states(top: &Path, node: &Node, text: &str) {
    fs::create_dir_all(top.join("states")).unwrap();
    fs::write(top.join("states/top.sls"), "base: {'*': [motd]}\n").unwrap();
    let motd = node.host().join("motd");
    let sls = format!("motd: {{file.managed: [{{name: {}}}, {{contents: {text}}}]}}\n", motd.display());
    fs::write(top.join("states/motd.sls"), sls).unwrap();
}

#[test]
fn a_plain_directory_is_followed() {
    let node = Node::new();
    let dir = node.path("plain");
    states(&dir, &node, "one");
    node.follow(&dir.to_string_lossy());
    node.turn().changed(1);
    let first = node.revision();
    node.turn().changed(0);
    states(&dir, &node, "two");
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "two");
    assert_ne!(node.revision(), first);
    // A directory has no history: earlier content may return.
    states(&dir, &node, "one");
    node.turn().changed(1);
    assert_eq!(node.revision(), first);
    fs::remove_dir_all(&dir).unwrap();
    node.turn().expect(0, &["warning"]);
    node.stands_on(&first);
}

#[test]
fn the_baked_states_run_until_there_is_a_cache() {
    let (node, repo) = Node::with_repo();
    states(&node.path("baked"), &node, "baked");
    let server = GitHttpServer::start(repo.top());
    node.follow(&server.url("none.git"));
    node.turn().expect(0, &[&format!("warning: {FALLS_BACK}")]);
    assert_eq!(node.text("motd"), "baked");
    node.follow(&server.url("repo.git"));
    node.turn().changed(1);
    assert_eq!(node.text("motd"), "one");
    drop(server);
    let said = node.turn();
    said.expect(0, &[]);
    assert!(!said.err.contains(FALLS_BACK), "{}", said.err);
    assert_eq!(node.text("motd"), "one");
}

#[test]
fn without_states_the_error_says_so() {
    let node = Node::new();
    node.turn().expect(2, &[NOTHING, "source.remotes"]);
    node.follow("http://127.0.0.1:1/x.git");
    node.turn().expect(69, &[NOTHING, "zagent doctor"]);
    let repo = Repo::new(&node);
    repo.publish("one");
    node.follow(&repo.url());
    node.turn().changed(1);
}

/// The manifest defines where the roots are, which compatibility mode is used, and in which order states run.
#[test]
fn a_manifest_sets_the_roots_and_how_states_run() {
    let (node, repo) = Node::with_repo();
    repo.git(&["rm", "-rq", "states"]);
    repo.write(
        "manifest.yaml",
        "schema: 1\nserial: 1\nschedule: ordered\nroots: {states: salt/base, pillar: salt/data}\n",
    );
    repo.write("salt/base/top.sls", "base: {'*': [log]}\n");
    let line = |word: &str| {
        format!("{word}: {{cmd.run: [{{name: 'echo {word} {{{{ pillar.who }}}} >> $D/log'}}]}}\n")
    };
    repo.write("salt/base/log.sls", &["a", "b", "c", "d"].map(line).concat());
    repo.write("salt/data/top.sls", "base: {'*': [who]}\n");
    repo.write("salt/data/who.sls", "who: me\n");
    repo.commit();
    repo.push();
    node.turn().changed(4);
    assert_eq!(node.text("log"), "a me\nb me\nc me\nd me");
    assert_eq!(node.status()["current"]["serial"], 1);

    // Nothing to run is a failure with Salt, and none with zagent.
    repo.write("salt/base/top.sls", "base: {'other': [log]}\n");
    repo.write(
        "manifest.yaml",
        "schema: 1\nserial: 2\ncompat: salt\nroots: {states: salt/base, pillar: salt/data}\n",
    );
    repo.commit();
    repo.push();
    node.turn().expect(1, &["No Top file or master_tops data matches found"]);
}

#[test]
fn modules_may_be_at_the_top_of_the_repository() {
    let (node, repo) = Node::with_repo();
    let module = "#!/bin/sh\nread x\ncase $x in *'\"check\"'*) test -e $D/made && echo '{\"result\": true, \"changes\": {}, \
                  \"comment\": \"\"}' || echo '{\"result\": null, \"changes\": {\"made\": \"yes\"}, \"comment\": \"\"}';; \
                  *) touch $D/made; echo '{\"result\": true, \"changes\": {\"made\": \"yes\"}, \"comment\": \"\"}';; esac\n";
    repo.write("_states/thing", module);
    fs::set_permissions(repo.work().join("_states/thing"), Permissions::from_mode(0o755)).unwrap();
    repo.write("states/motd.sls", "it: {thing.present: []}\n");
    repo.commit();
    repo.push();
    node.turn().changed(1);
    assert!(node.host().join("made").exists());
    node.turn().changed(0);
}

/// Each modification of the cache is detected before the run, reported, and fixed from the fetched objects; no remote
/// is needed.
#[test]
fn a_modified_cache_is_staged_again_without_a_remote() {
    let (node, repo) = Node::with_repo();
    let good = repo.head();
    let server = GitHttpServer::start(repo.top());
    node.follow(&server.url("repo.git"));
    node.turn().changed(1);
    drop(server);
    let edit: fn(&Path) = |tree| {
        let evil = "motd: {cmd.run: [{name: 'echo evil'}]}\n";
        fs::write(tree.join("states/motd.sls"), evil).unwrap();
    };
    let table: [(&str, Damage); 4] = [
        ("edited", edit),
        ("deleted", |tree| fs::remove_file(tree.join("states/motd.sls")).unwrap()),
        ("added", |tree| fs::write(tree.join("states/more.sls"), "x: {test.nop: []}\n").unwrap()),
        ("linked", |tree| {
            fs::remove_file(tree.join("states/motd.sls")).unwrap();
            std::os::unix::fs::symlink("/etc/hostname", tree.join("states/motd.sls")).unwrap();
        }),
    ];
    for (how, change) in table {
        change(&node.current().join("tree"));
        node.call(&["cache", "verify"]).expect(76, &[]);
        let said = node.turn();
        said.expect(0, &["the cache was modified outside zagent", "staging it again"]);
        assert_eq!(said.json()["changed"], 0, "{how}: {said:?}");
        node.stands_on(&good);
    }
}

/// A copy with the same content is not an alarm.
#[test]
fn a_touched_file_without_changes_is_not_an_alarm() {
    let (node, repo) = Node::with_repo();
    node.turn().changed(1);
    let file = File::open(node.current().join("tree/states/motd.sls")).unwrap();
    let later = SystemTime::now() + Duration::from_secs(5);
    file.set_times(FileTimes::new().set_modified(later)).unwrap();
    node.turn().changed(0);
    node.stands_on(&repo.head());
}

/// An edit that keeps size and time is detected as well: nobody can set the change time itself.
#[test]
fn an_edit_that_hides_its_traces_is_detected() {
    let (node, _repo) = Node::with_repo();
    node.turn().changed(1);
    let path = node.current().join("tree/states/motd.sls");
    let text = fs::read_to_string(&path).unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, text.replace("one", "eno")).unwrap();
    File::open(&path).unwrap().set_times(FileTimes::new().set_modified(before)).unwrap();
    node.turn().expect(0, &["the cache was modified outside zagent"]);
    assert_eq!(node.text("motd"), "one");
}

/// The generation and the fetched objects are both damaged, and no remote answers: nothing runs.
#[test]
fn a_modified_cache_that_cannot_be_staged_again_is_refused() {
    let (node, repo) = Node::with_repo();
    let server = GitHttpServer::start(repo.top());
    node.follow(&server.url("repo.git"));
    node.turn().changed(1);
    drop(server);
    let evil = format!("motd: {{file.managed: [{{name: {}/evil}}]}}\n", node.host().display());
    fs::write(node.current().join("tree/states/motd.sls"), evil).unwrap();
    fs::remove_dir_all(node.root().join("cache/repository.git")).unwrap();
    node.turn().expect(76, &["the cache was modified outside zagent", "no remote answers"]);
    assert!(!node.host().join("evil").exists());
    // For the status and the report of the node, until it is whole again.
    let is_noted =
        || fs::read_to_string(node.root().join("state/memory")).unwrap().contains("\"tampered\": \"");
    assert!(is_noted());
    node.follow(&repo.url());
    node.turn().expect(0, &["staging it again"]);
    node.stands_on(&repo.head());
    assert!(!is_noted());
}

/// A second run waits for the first up to its limit, then names it; a dry run does not wait.
#[test]
fn one_run_at_a_time() {
    let (node, repo) = Node::with_repo();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        node.host().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    repo.write("states/motd.sls", "wait: {cmd.run: [{name: 'echo in > $D/in; read x < $D/pipe'}]}\n");
    repo.commit();
    repo.push();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| node.turn());
        let begun = std::time::Instant::now();
        while !node.host().join("in").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the first run never began");
            std::thread::yield_now();
        }
        let words = ["run", "--once", "--out", "json", "--timeout", "200ms"];
        node.call(&words).expect(75, &["another run is going on", "zagent history"]);
        let second = scope.spawn(|| node.turn_with(&["--no-fetch", "--test"]));
        second.join().unwrap().expect(0, &[]);
        fs::write(node.host().join("pipe"), "go\n").unwrap();
        first.join().unwrap().expect(0, &[]);
    });
}

/// A scheduled run continues with the last good configuration, so that it can fix what a run has broken.
#[test]
fn a_wrong_configuration_stops_only_manual_runs() {
    let (node, repo) = Node::with_repo();
    node.turn().changed(1);
    let last = node.root().join("state/config.yaml");
    node.configure("source: {remotes: none of them}\n", "");
    repo.publish("two");
    node.turn().expect(2, &["source.remotes"]);
    let last = format!("--last-config={}", last.display());
    node.turn_with(&["--trigger", "timer", &last]).expect(0, &["warning", "using the last good one"]);
    assert_eq!(node.text("motd"), "two");
}
