//! Reports and records on a board: which are accepted from which node, and what happens to the others.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its board has failed")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::{FleetId, NodeId};
use zagent_config::settings::{self, ConfigLocation};
use zagent_rollout::acceptance::{RecordPolicy, sign_order};
use zagent_rollout::board::{Board, BoardError, BoardWrite, SledBoard};
use zagent_rollout::board_stores::{BoardRecords, BoardReports};
use zagent_rollout::envelope::{self, EnrolmentTrust, EnvelopeError, NodeKeys};
use zagent_rollout::record::{Component, NodeProgress, RolloutRecord};
use zagent_rollout::records::{Records, Reports};
use zagent_rollout::report::{NodeActivity, NodeReport};

const NOW: &str = "2026-03-01T12:00:00Z";

fn at(seconds: i64) -> Timestamp {
    NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn id(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn report(name: &str, seconds: i64) -> NodeReport {
    NodeReport {
        id: id(name),
        component: Component::Agent,
        version: "1.0.0".into(),
        revision: None,
        state: NodeActivity::Idle,
        taken: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        facts: BTreeMap::new(),
        updated_at: at(seconds),
        child: None,
        degraded: None,
        protocol: 1,
        hold: None,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
        waits: BTreeMap::new(),
    }
}

/// One board, and a directory for each client.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn board(&self) -> Box<dyn Board> {
        Box::new(SledBoard::new(self.dir.path().join("board")))
    }

    fn key(&self, who: &str) -> PathBuf {
        self.dir.path().join(who).join("trust/node.key")
    }

    fn first(&self, who: &str) -> PathBuf {
        self.dir.path().join(who).join("trust/nodes")
    }

    /// The reports as one of the clients sees them.
    fn reports(&self, who: &str) -> BoardReports {
        BoardReports::new(self.board(), self.key(who), NodeKeys::new(None, self.first(who)))
    }

    /// Writes any bytes under the name of a node.
    fn forge(&self, name: &str, value: &[u8]) {
        let key = envelope::report_key(Component::Agent, &id(name));
        let mut board = self.board();
        let known = board.get(&key).unwrap().map(|entry| entry.token);
        let write = BoardWrite { value, expected: known.as_ref(), note: "forged", lasting: false };
        board.put(&key, write).unwrap();
    }
}

fn names(reports: &mut BoardReports) -> (Vec<String>, Vec<EnvelopeError>) {
    let (good, refused) = reports.verified_reports(Component::Agent, at(1000)).unwrap();
    (good.into_keys().map(String::from).collect(), refused)
}

#[test]
fn reports_are_exchanged_and_the_node_key_is_created_once() {
    let site = Site::new();
    let mut web = site.reports("web");
    web.put(&report("web", 0)).unwrap();
    let made = std::fs::read(site.key("web")).unwrap();
    assert_eq!(std::fs::metadata(site.key("web")).unwrap().mode() & 0o777, 0o600);
    web.put(&report("web", 1)).unwrap();
    site.reports("web").put(&report("web", 2)).unwrap();
    web.put(&report("web", 3)).unwrap();
    assert_eq!(std::fs::read(site.key("web")).unwrap(), made);
    site.reports("db").put(&report("db", 0)).unwrap();

    let mut driver = site.reports("driver");
    let all = driver.latest_reports(Component::Agent).unwrap();
    assert_eq!(all.values().cloned().collect::<Vec<_>>(), [report("db", 0), report("web", 3)]);
    assert!(driver.latest_reports(Component::States).unwrap().is_empty());
    let keys = driver.signing_keys();
    assert!(
        keys.len() == 2 && keys[&id("web")].starts_with("SHA256:") && keys[&id("web")] != keys[&id("db")]
    );
}

#[test]
fn a_report_under_another_name_is_refused_and_named() {
    let site = Site::new();
    site.reports("web").put(&report("web", 0)).unwrap();
    site.reports("db").put(&report("db", 0)).unwrap();
    let mut driver = site.reports("driver");
    assert_eq!(names(&mut driver).0, ["db", "web"]);

    // Its own report in another's place; one that claims to be another's, signed by itself; another component's.
    let (own, as_web) = (report("db", 5), report("web", 5));
    let states = NodeReport { component: Component::States, ..report("web", 5) };
    for (forged, why) in [(own, "is about `db`"), (as_web, "the key of `db`"), (states, "(states)")] {
        site.forge("web", &envelope::sign_report(&forged, &site.key("db")).unwrap());
        let (good, refused) = driver.verified_reports(Component::Agent, at(1000)).unwrap();
        assert_eq!(good[&id("web")].report, report("web", 0), "{why}: the genuine report still counts");
        assert!(refused.len() == 1 && refused[0].to_string().contains(why), "{refused:?}");
        assert!(refused[0].to_string().contains("`web`"));
        assert_eq!(driver.signing_keys()[&id("web")], good[&id("web")].key);
        // It is not returned again and again, and it stays in the list of refused ones.
        assert_eq!(names(&mut driver).1.len(), 0);
        assert_eq!(driver.refused().len(), 1);
    }
    // A client that saw neither before accepts the first; the record with the key corrects this.
    site.forge("web", &envelope::sign_report(&report("web", 6), &site.key("db")).unwrap());
    let mut record = record("r1");
    let key = Some(BTreeMap::from_iter(driver.signing_keys())[&id("db")].clone());
    record.nodes.insert(id("db"), NodeProgress { key, ..NodeProgress::default() });
    let wrong = Some("SHA256:of-the-true-one".to_owned());
    record.nodes.insert(id("web"), NodeProgress { key: wrong, ..NodeProgress::default() });
    let mut adopter = site.reports("adopter");
    adopter.pin_keys(&record);
    let (good, refused) = names(&mut adopter);
    assert_eq!(good, ["db"]);
    assert!(refused[0].to_string().contains("`web`"), "{refused:?}");
    let learnt = std::fs::read_to_string(site.first("adopter")).unwrap();
    assert!(!learnt.contains("web "), "a key that the record contradicts is not saved: {learnt}");
    // And the node itself can correct it.
    site.reports("web").put(&report("web", 7)).unwrap();
    assert_eq!(names(&mut driver).0, ["db", "web"]);
}

#[test]
fn damaged_altered_and_older_reports_are_refused() {
    let site = Site::new();
    let mut driver = site.reports("driver");
    let sealed = |seconds| envelope::sign_report(&report("web", seconds), &site.key("web")).unwrap();
    let old = sealed(0);
    site.forge("web", &sealed(100));
    assert_eq!(names(&mut driver).0, ["web"]);
    site.forge("web", &old);
    let (good, refused) = driver.verified_reports(Component::Agent, at(1000)).unwrap();
    assert!(matches!(refused[0], EnvelopeError::Replayed { .. }), "{refused:?}");
    assert_eq!(good[&id("web")].report, report("web", 100), "the newest one still counts");

    let text = String::from_utf8(sealed(200)).unwrap();
    let altered = text.replace("1.0.0", "9.9.9");
    let unsigned = serde_json::json!({"schema": 1, "report": "{}", "signature": ""}).to_string();
    let cut = &text[..text.len() - 40];
    let huge = format!("{text}{}", " ".repeat(2 << 20));
    for bad in [altered.as_str(), &unsigned, cut, "", "{}", "[]", "null", &huge] {
        site.forge("web", bad.as_bytes());
        let (good, refused) = names(&mut driver);
        let head: String = bad.chars().take(60).collect();
        assert!(good == ["web"] && refused.len() == 1, "{head}: {refused:?}");
        assert!(refused[0].to_string().contains("`web`"));
    }
    site.forge("web", text.as_bytes());
    assert_eq!(names(&mut driver).0, ["web"]);
    // A clock that was far ahead does not block its node once it is corrected.
    site.forge("web", &sealed(900_000));
    assert_eq!(names(&mut driver).0, ["web"]);
    site.forge("web", &sealed(1001));
    assert_eq!(names(&mut driver).0, ["web"]);
}

#[test]
fn with_a_key_list_only_the_list_counts() {
    let site = Site::new();
    for name in ["web", "db", "new"] {
        site.reports(name).put(&report(name, 0)).unwrap();
    }
    let public = |who: &str| {
        let key = ssh_key::PrivateKey::read_openssh_file(&site.key(who)).unwrap();
        key.public_key().to_openssh().unwrap()
    };
    let list = site.dir.path().join("allowed_nodes");
    // The key of `db` is listed for another node.
    std::fs::write(&list, format!("web {}\nmail {}\n", public("web"), public("db"))).unwrap();
    let keys = NodeKeys::new(Some(list.clone()), site.first("driver"));
    let mut driver = BoardReports::new(site.board(), site.key("driver"), keys);
    let (good, refused) = names(&mut driver);
    assert_eq!(good, ["web"]);
    assert_eq!(refused.len(), 2);
    assert!(!site.first("driver").exists(), "with a list, no key is saved");
    std::fs::remove_file(list).unwrap();
    assert!(matches!(driver.verified_reports(Component::Agent, at(0)), Err(BoardError::Refused { .. })));
}

#[test]
fn the_first_key_is_required_until_the_node_is_forgotten() {
    let site = Site::new();
    site.reports("web").put(&report("web", 0)).unwrap();
    assert_eq!(names(&mut site.reports("driver")).0, ["web"]);
    let line = std::fs::read_to_string(site.first("driver")).unwrap();
    assert!(line.starts_with("web ssh-ed25519 "), "{line}");
    // The node was reinstalled.
    std::fs::remove_file(site.key("web")).unwrap();
    site.reports("web").put(&report("web", 10)).unwrap();
    let mut driver = site.reports("driver");
    // Its reports under the new key stand beside the last one under the known key.
    let (good, refused) = driver.verified_reports(Component::Agent, at(1000)).unwrap();
    assert_eq!(good[&id("web")].report, report("web", 0));
    assert!(refused[0].to_string().contains("node forget web"), "{refused:?}");
    // A client that knows neither key does not guess.
    let (good, refused) = names(&mut site.reports("stranger"));
    assert!(good.is_empty() && matches!(refused[0], EnvelopeError::Contested { .. }), "{refused:?}");
    driver.forget(Component::Agent, &id("web")).unwrap();
    assert_eq!(names(&mut driver).0, [""; 0]);
    site.reports("web").put(&report("web", 20)).unwrap();
    assert_eq!(names(&mut driver).0, ["web"]);
    driver.forget(Component::Agent, &id("nobody")).unwrap();
}

#[test]
fn one_key_speaks_for_one_node() {
    let site = Site::new();
    site.reports("web").put(&report("web", 0)).unwrap();
    let mut driver = site.reports("driver");
    assert_eq!(names(&mut driver).0, ["web"]);
    // The same key claims a second id.
    site.reports("web").put(&report("db", 0)).unwrap();
    let (good, refused) = names(&mut driver);
    assert_eq!(good, ["web"]);
    assert!(refused[0].to_string().contains("the key of `web`"), "{refused:?}");
    assert_eq!(driver.refused()[0].node, id("db"));
    // Nothing says which of them is right: neither counts, and the genuine db is not hidden.
    let mut stranger = site.reports("stranger");
    let (good, refused) = names(&mut stranger);
    assert!(good.is_empty() && refused.len() == 2, "{refused:?}");
    site.reports("db").put(&report("db", 1)).unwrap();
    assert_eq!(names(&mut site.reports("newcomer")).0, ["db"]);
    assert_eq!(names(&mut driver).0, ["db", "web"]);
}

#[test]
fn an_enrolment_names_the_key_of_a_node() {
    let site = Site::new();
    let dir = site.dir.path();
    let public = |who: &str| {
        let key = ssh_key::PrivateKey::read_openssh_file(&site.key(who)).unwrap();
        key.public_key().to_openssh().unwrap()
    };
    for name in ["web", "evil", "admin"] {
        site.reports(name).put(&report(name, 0)).unwrap();
    }
    let signers = dir.join("signers");
    std::fs::write(&signers, format!("ada namespaces=\"zagent-enroll\" {}\n", public("admin"))).unwrap();
    let yaml = format!("fleet: prod\ntrust: {{require: commit, allowed_signers: {}}}\n", signers.display());
    let settings = configured(dir, &yaml);
    let trust = EnrolmentTrust::from_settings(&settings);
    let open = |who: &str, only: bool| {
        let keys = NodeKeys::new(None, site.first(who)).enrolled_only(only);
        BoardReports::new(site.board(), site.key(who), keys).with_enrolments(trust.clone())
    };
    // Only enrolled nodes count where this is required.
    let (good, refused) = names(&mut open("d1", true));
    assert!(good.is_empty() && refused.iter().all(|e| matches!(e, EnvelopeError::NotEnrolled { .. })));
    let fleet: Option<FleetId> = Some("prod".parse().unwrap());
    let mut admin = open("admin", false);
    admin.enroll(&id("web"), &public("web"), fleet.clone(), &site.key("admin")).unwrap();
    let mut driver = open("d2", true);
    assert_eq!(names(&mut driver).0, ["web"]);
    assert!(driver.is_vouched_for(&id("web")) && !driver.is_vouched_for(&id("evil")));
    // Enrolments by others, for another fleet or another node are refused, and named.
    for (signer, fleet, key) in [("evil", fleet, "evil"), ("admin", None, "evil")] {
        open("evil", false).enroll(&id("web"), &public(key), fleet, &site.key(signer)).unwrap();
        let (good, refused) = names(&mut open("d3", true));
        assert!(good.is_empty() && refused[0].to_string().contains("enrolment of `web`"), "{refused:?}");
    }
}

/// A node gets a new key and a new enrolment; somebody who can write to the board puts the old one back.
#[test]
fn an_old_enrolment_is_not_accepted_again() {
    let site = Site::new();
    let dir = site.dir.path();
    let public = |who: &str| {
        let key = ssh_key::PrivateKey::read_openssh_file(&site.key(who)).unwrap();
        key.public_key().to_openssh().unwrap()
    };
    for name in ["old", "new", "admin"] {
        site.reports(name).put(&report(name, 0)).unwrap();
    }
    let signers = dir.join("signers");
    std::fs::write(&signers, format!("ada {}\n", public("admin"))).unwrap();
    let yaml = format!("trust: {{require: commit, allowed_signers: {}}}\n", signers.display());
    let settings = configured(dir, &yaml);
    let open = |who: &str| {
        let keys = NodeKeys::new(None, site.first(who)).enrolled_only(true);
        BoardReports::new(site.board(), site.key(who), keys)
            .with_enrolments(EnrolmentTrust::from_settings(&settings))
    };
    let place = envelope::enrolment_key(&id("web"));
    let enroll = |who: &str| {
        open("admin").enroll(&id("web"), &public(who), None, &site.key("admin")).unwrap();
        site.board().get(&place).unwrap().unwrap().value
    };
    let replace = |value: &[u8]| {
        let expected = site.board().get(&place).unwrap().map(|entry| entry.token);
        let write = BoardWrite { value, expected: expected.as_ref(), note: "", lasting: true };
        site.board().put(&place, write).unwrap();
    };
    let old = enroll("old");
    names(&mut open("driver"));
    let new = enroll("new");
    let (_, refused) = names(&mut open("driver"));
    assert!(refused.iter().all(|e| !matches!(e, EnvelopeError::Enrolment { .. })), "{refused:?}");
    // The old key reports, with its old enrolment.
    site.reports("old").put(&report("web", 1)).unwrap();
    replace(&old);
    let (good, refused) = names(&mut open("driver"));
    assert!(good.is_empty(), "{good:?}");
    let told: Vec<String> = refused.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|why| why.contains("was accepted before")), "{told:?}");
    // The node itself still counts, by the enrolment that was accepted.
    for (key, entry) in site.board().list("").unwrap() {
        if key.contains("web") && key != place {
            site.board().delete(&key, &entry.token).unwrap();
        }
    }
    site.reports("new").put(&report("web", 2)).unwrap();
    assert_eq!(names(&mut open("driver")).0, ["web"]);
    replace(&new);
    assert_eq!(names(&mut open("driver")).0, ["web"]);
    // From a clock that was ahead: a later enrolment is still later.
    let ahead = envelope::sign_enrolment(
        &id("web"),
        &public("old"),
        None,
        &site.key("admin"),
        Timestamp::now() + SignedDuration::from_hours(24),
    );
    replace(&ahead.unwrap());
    names(&mut open("driver"));
    enroll("new");
    assert_eq!(names(&mut open("driver")).0, ["web"]);
}

fn record(name: &str) -> RolloutRecord {
    let text = format!(
        "schema: 1\nid: {name}\ncomponent: agent\nto: 1.2.0\ntarget: '*'\nbatch_size: 1\nsoak_time: 60s\n\
         batch_pause: 30s\nmax_failed: 1\nstate: created\ncreated: {NOW}\nserial: 1\n"
    );
    serde_yaml::from_str(&text).unwrap()
}

#[test]
fn a_bad_record_does_not_hide_the_others() {
    let site = Site::new();
    let mut records = BoardRecords::new(site.board());
    let first = record("r1");
    assert_eq!(records.get(&first.id).unwrap(), None);
    let token = records.put(&first, None, "r1: created", true).unwrap();
    assert!(matches!(records.put(&first, None, "again", true), Err(BoardError::Conflict { .. })));
    let held = records.get(&first.id).unwrap().unwrap();
    assert_eq!((held.value, held.token), (first.clone(), token.clone()));
    let newer = serde_yaml::to_string(&RolloutRecord { schema: 99, ..record("r3") }).unwrap();
    for (key, value) in
        [("rollout/r2", "x: ["), ("rollout/r3", &newer), ("rollout/r4", &first_as_text(&first))]
    {
        let write = BoardWrite { value: value.as_bytes(), expected: None, note: "", lasting: true };
        site.board().put(key, write).unwrap();
        let name = key.strip_prefix("rollout/").unwrap().parse().unwrap();
        assert!(matches!(records.get(&name), Err(BoardError::Damaged { .. })), "{key}");
    }
    let listed: Vec<_> = records.list().unwrap().into_iter().map(|held| held.value).collect();
    assert_eq!(listed, std::slice::from_ref(&first));
    records.delete(&first.id, &token).unwrap();
    assert_eq!(records.get(&first.id).unwrap(), None);
}

fn first_as_text(record: &RolloutRecord) -> String {
    serde_yaml::to_string(record).unwrap()
}

fn configured(dir: &Path, yaml: &str) -> settings::Settings {
    let file = dir.join("zagent.yaml");
    std::fs::write(&file, format!("root: {}\n{yaml}", dir.join("root").display())).unwrap();
    settings::load(&ConfigLocation::File(file), [], &[], Some("web-01")).unwrap()
}

#[test]
fn a_record_is_obeyed_only_in_its_fleet_and_with_enough_signatures() {
    let site = Site::new();
    let dir = site.dir.path();
    for name in ["ada", "bob", "eve"] {
        site.reports(name).put(&report(name, 0)).unwrap();
    }
    let line = |who: &str| {
        let key = ssh_key::PrivateKey::read_openssh_file(&site.key(who)).unwrap();
        format!("{who} {}\n", key.public_key().to_openssh().unwrap())
    };
    let signers = dir.join("signers");
    std::fs::write(&signers, line("ada") + &line("bob")).unwrap();
    let policy = |fleet: &str, more: &str| {
        let yaml = format!("fleet: {fleet}\ntrust: {{{more}allowed_signers: {}}}\n", signers.display());
        RecordPolicy::from_settings(&configured(dir, &yaml))
    };
    let open = |policy: RecordPolicy, key: Option<&str>| {
        BoardRecords::with_policy(site.board(), policy, key.map(|who| site.key(who)))
    };
    let why = |policy: RecordPolicy| {
        let mut records = open(policy, None);
        let listed = records.list().unwrap().len();
        let got = records.get(&"r1".parse().unwrap());
        assert_eq!(listed == 0, got.is_err());
        assert_eq!(listed == 0, records.skipped().len() == 1);
        records.skipped().first().map_or_else(|| "accepted".to_owned(), |skipped| skipped.why.clone())
    };
    let two = || policy("prod", "require: manifest, threshold: 2, ");
    let fleet = Some("prod".parse().unwrap());
    let order = RolloutRecord { schema: 2, fleet, anyway: true, ..record("r1") };
    open(two(), Some("ada")).put(&order, None, "created", true).unwrap();
    assert!(why(two()).starts_with("its order has 1 of 2 signatures (ada); another person signs it"));
    assert_eq!(why(policy("prod", "require: manifest, ")), "accepted");
    assert_eq!(why(policy("prod", "")), "accepted");
    assert!(why(policy("staging", "")).contains("for the fleet `prod`, and `fleet:` here is `staging`"));
    assert!(why(RecordPolicy::default()).contains("`fleet:` here is not set"));
    // A second signature by the same person, or by a stranger, changes nothing.
    let mut review = open(two(), None).for_review();
    for (who, want) in [("ada", "1 of 2"), ("eve", "1 of 2"), ("bob", "accepted")] {
        let held = review.get(&order.id).unwrap().unwrap();
        let mut next = held.value;
        sign_order(&mut next, &site.key(who)).unwrap();
        review.put(&next, Some(&held.token), "signed", true).unwrap();
        assert!(why(two()).contains(want), "{who}: {}", why(two()));
    }
    let held = review.get(&order.id).unwrap().unwrap();
    assert_eq!(review.signatures(&held.value).signers, ["ada", "bob"]);
    // A driver changes the progress with no key of these; the order stays as it was signed.
    let changed = RolloutRecord { to: "6.6.6".into(), serial: 9, ..held.value };
    review.put(&changed, Some(&held.token), "driven", true).unwrap();
    let now = open(two(), None).get(&order.id).unwrap().unwrap().value;
    assert_eq!((now.to.as_str(), now.serial), ("1.2.0", 9));
    // The format before this one has no place for any of it.
    let held = review.get(&order.id).unwrap().unwrap();
    review.put(&RolloutRecord { schema: 1, ..held.value }, Some(&held.token), "old", true).unwrap();
    assert!(why(policy("prod", "")).contains("an older version of zagent"));
    assert!(why(two()).contains("start it again with `zagent rollout start`"));
}

#[test]
fn the_settings_define_where_records_and_reports_are() {
    zagent_cache::needs!("git");
    let dir = tempfile::tempdir().unwrap();
    let repository = |name: &str| {
        let path = dir.path().join(name);
        let made = std::process::Command::new("git").args(["init", "-q", "--bare"]).arg(&path).status();
        assert!(made.unwrap().success());
        format!("file://{}", path.display())
    };
    let (states, board, other) = (repository("states.git"), repository("board.git"), repository("other.git"));
    let plain = dir.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let remotes = format!("source: {{remotes: [{{url: {}}}, {{url: '{states}'}}]}}\n", plain.display());
    let git = format!("board: {{kind: git, url: '{board}'}}\n");
    let refs = |name: &str, what: &str| {
        let path = dir.path().join(name);
        let out = std::process::Command::new("git").arg("-C").arg(path).args(["for-each-ref", what]).output();
        String::from_utf8(out.unwrap().stdout).unwrap().lines().count()
    };
    for (yaml, place) in [
        (format!("{remotes}{git}"), "states.git"),
        (format!("{remotes}{git}rollout: {{url: '{other}'}}\n"), "other.git"),
        (format!("{remotes}{git}rollout: {{url: board}}\n"), "board.git"),
    ] {
        let settings = configured(dir.path(), &yaml);
        BoardRecords::open(&settings).unwrap().put(&record("r1"), None, "r1: created", true).unwrap();
        assert_eq!(refs(place, "refs/heads/rollout/r1"), 1, "{place}");
        BoardReports::open(&settings).unwrap().unwrap().put(&report("web-01", 0)).unwrap();
        assert_eq!(refs("board.git", "refs/zagent/node/agent/web-01"), 1);
    }
    let alone = configured(dir.path(), "board: {kind: sled}\n");
    BoardRecords::open(&alone).unwrap().put(&record("r1"), None, "r1: created", true).unwrap();
    assert_eq!(BoardRecords::open(&alone).unwrap().list().unwrap().len(), 1);
    let nothing = configured(dir.path(), "");
    assert!(BoardReports::open(&nothing).unwrap().is_none());
    assert!(BoardRecords::open(&nothing).is_err_and(|error| error.to_string().contains("rollout.url")));
}
