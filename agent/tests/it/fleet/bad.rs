//! Releases that do not work: every node ends on its previous version, and the rollout says why.

use std::fs;
use std::process::Command;

use zagent_rollout::record::{NodeStatus, RolloutStatus};

use super::good::QUICK;
use super::nodes::{BUILT_IN, Fleet, GOOD, eventually, order, that_are};

/// It runs, and reports that it is not ready.
const UNREADY: &str = r#"#!/usr/bin/perl
use IO::Socket::UNIX;
open(my $config, '<', $ARGV[2]); my ($root) = grep { s/^root: (.*)\n/$1/ } <$config>;
unlink "$root/run/agent.sock";
my $door = IO::Socket::UNIX->new(Local => "$root/run/agent.sock", Listen => 5) or die;
while (my $guest = $door->accept) {
    sysread($guest, my $asked, 4096);
    print $guest "HTTP/1.1 503 No\r\n\r\nthe left engine is cold\n"; close $guest;
}"#;
/// Machine type in the header of a program for another architecture.
const S390X: [u8; 2] = [0, 0x16];

#[test]
fn bad_releases_stop_at_the_canary_and_leave_every_node_unchanged() {
    let fleet = Fleet::new(12, "");
    let all = fleet.release("9.0.0-exits", "exit 3", |_| {});
    aborts(&fleet, "9.0.0-exits", &all, "*", "the agent keeps failing: it exited with code 3");

    let mut foreign = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
    foreign[18..20].copy_from_slice(&S390X);
    let trusted = trusting(&fleet);
    let pairs = [
        ("9.0.0-hangs", fleet.release("9.0.0-hangs", "exec sleep 1000", |_| {}), "the agent does not answer"),
        ("9.0.0-unready", fleet.release("9.0.0-unready", UNREADY, |_| {}), "the left engine is cold"),
        ("9.0.0-text", fleet.release_of("9.0.0-text", b"welcome\n", |_| {}), "it is not a program"),
        (
            "9.0.0-foreign",
            fleet.release_of("9.0.0-foreign", &foreign, |_| {}),
            "it is built for another processor type",
        ),
        (
            "9.0.0-corrupt",
            fleet.release("9.0.0-corrupt", GOOD, |entry| entry["blake3"] = "0".repeat(64).into()),
            "the artifact has the BLAKE3 digest",
        ),
        ("9.0.0-unsigned", fleet.release("9.0.0-unsigned", GOOD, |_| {}), "the release is not trusted"),
    ];
    // Two nodes for each, all at the same time.
    std::thread::scope(|scope| {
        for (nth, (version, artifacts, why)) in pairs.iter().enumerate() {
            let (fleet, target) = (&fleet, format!("L@n{:02},n{:02}", 2 * nth + 1, 2 * nth + 2));
            scope.spawn(move || aborts(fleet, version, artifacts, &target, why));
        }
    });
    drop(trusted);
    let short = fleet.release("9.0.0-short", GOOD, |entry| entry["size"] = 7.into());
    aborts(&fleet, "9.0.0-short", &short, "L@n01,n02", "the artifact has more than the 7 bytes");

    let other = fleet.release("9.0.0-other", GOOD, |entry| entry["arch"] = "s390x".into());
    let said = refused(&fleet, "9.0.0-other", &other, &[]);
    let missing = format!("no artifact of 9.0.0-other for linux/{} (n01, ", std::env::consts::ARCH);
    assert!(said.contains(&missing), "{said}");
    let newer = fleet.release("9.0.0-newer", GOOD, |_| {});
    for more in [&["--min-protocol", "99"][..], &["--min-protocol", "99", "--dry-run"]] {
        let said = refused(&fleet, "9.0.0-newer", &newer, more);
        assert!(said.contains("n01 (protocol 1 < 99)") && said.contains("n12 (protocol 1 < 99)"), "{said}");
    }
    fleet.all_run(BUILT_IN);
}

/// From now on the last two nodes accept only signed releases. Their settings are read for every fetch.
fn trusting(fleet: &Fleet) -> tempfile::TempDir {
    let keys = tempfile::tempdir().unwrap();
    let (key, signers) = (keys.path().join("key"), keys.path().join("allowed_signers"));
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    fs::write(&signers, format!("release {public}")).unwrap();
    for node in &fleet.nodes[10..] {
        node.add_to_config(&format!(
            "trust: {{allowed_signers: {}, require: manifest}}\n",
            signers.display()
        ));
    }
    keys
}

fn refused(fleet: &Fleet, version: &str, artifacts: &str, more: &[&str]) -> String {
    let said = fleet.exits(1, &order(version, version, artifacts, &[&QUICK[..], more].concat()));
    assert!(fleet.record(version).is_none(), "nothing was written");
    said
}

/// A release named by its version stops at the first node of its target, for this reason.
fn aborts(fleet: &Fleet, version: &str, artifacts: &str, target: &str, why: &str) {
    let begun = fleet.nodes.iter().map(|node| (node.id.clone(), node.agent())).collect::<Vec<_>>();
    fleet.exits(1, &order(version, version, artifacts, &[&QUICK[..], &["--target", target]].concat()));
    let record = fleet.record(version).unwrap();
    assert_eq!(
        (record.state, record.failed, record.current_batch),
        (RolloutStatus::Aborted, 1, 0),
        "{record:#?}"
    );
    let failed = that_are(&record, NodeStatus::Failed);
    assert_eq!(failed, [record.batches[0][0].to_string()], "{version}");
    let error = record.nodes[&record.batches[0][0]].error.clone().unwrap_or_default();
    assert!(error.contains(why), "{version}: {error}");
    for (node, (id, agent)) in fleet.nodes.iter().zip(begun) {
        if record.batch_of(&id.parse().unwrap()).is_none() {
            continue;
        }
        let what = format!("{id} is well after {version}");
        eventually(&what, || fleet.words(), || node.is_well_on(BUILT_IN).then_some(()));
        if failed != [id.clone()] {
            assert_eq!(node.agent(), agent, "{version}: {id} has never seen it");
        }
    }
}
