//! States rollouts over several nodes.

use std::fs;

use zagent_daemon::status::AgentStatus;
use zagent_rollout::record::{BatchPhase, NodeStatus, RolloutStatus};

use super::nodes::{Fleet, Node, git, that_are};

/// Only rollouts update these nodes, and they are healthy as long as the file `sick` does not exist.
const MORE: &str = "rollout: {poll: 1s, follow: rollouts}\n\
                    health: [{name: web, command: '! test -e $D/sick', required: true, tries: 1}]\n";

impl Node {
    fn marker(&self) -> String {
        fs::read_to_string(self.dir.join("marker")).unwrap_or_default()
    }

    /// Status of its agent.
    fn states(&self) -> AgentStatus {
        serde_json::from_str(&self.asks(&["status", "--out", "json"])).unwrap()
    }

    fn is_on(&self, revision: &str) -> bool {
        self.states().current.is_some_and(|current| current.revision == revision)
    }
}

/// States that write files into the directory of each node.
fn files(fleet: &Fleet, files: &[(&str, &str)]) -> String {
    let one = |(name, text): &(&str, &str)| {
        let path = fleet.path("{{ grains['id'] }}").join(name);
        format!("{name}: {{file.managed: [{{name: {}, contents: {text}}}]}}\n", path.display())
    };
    files.iter().map(one).collect()
}

fn order<'a>(id: &'a str, to: &'a str) -> Vec<&'a str> {
    let mut words = vec!["rollout", "start", "--component", "states", "--to", to, "--id", id];
    words.extend(["--soak", "1s", "--pause", "2s", "--batch-size", "3"]);
    words
}

pub(crate) fn states_go_batch_by_batch_and_a_sick_commit_stops_at_the_canary() {
    let fleet = Fleet::new(4, MORE);
    let first = git(&fleet.path("work"), &["rev-parse", "HEAD"]);
    let second = fleet.push(&files(&fleet, &[("marker", "two")]));
    // A push alone updates no node.
    fleet.all_are("held back", |node| {
        node.states().why_not.is_some_and(|held| held.message.contains("only a rollout")).then_some(())
    });
    assert!(fleet.nodes.iter().all(|node| node.is_on(&first) && node.marker().is_empty()));

    let mut driver = fleet.background(&order("two", &second));
    let record = fleet.until("two", "the canary has it", |record| record.phase == BatchPhase::Pause);
    let canary = record.batches[0][0].as_str();
    assert_eq!((record.batches.len(), record.current_batch, record.from.as_ref()), (2, 0, Some(&first)));
    for node in &fleet.nodes {
        let (marker, revision) = if node.id == canary { ("two\n", &second) } else { ("", &first) };
        assert!(node.marker() == marker && node.is_on(revision), "{} is not where it should be", node.id);
    }
    assert_eq!(driver.ended().code(), Some(0), "{}\n{}", driver.said(), fleet.words());
    let record = fleet.record("two").unwrap();
    assert_eq!((record.state, that_are(&record, NodeStatus::Confirmed).len()), (RolloutStatus::Completed, 4));
    assert!(fleet.nodes.iter().all(|node| node.is_on(&second) && node.marker() == "two\n"));

    let third = fleet.push(&files(&fleet, &[("marker", "three"), ("sick", "yes")]));
    fleet.exits(1, &order("three", &third));
    let record = fleet.record("three").unwrap();
    assert_eq!(
        (record.state, record.failed, record.current_batch),
        (RolloutStatus::Aborted, 1, 0),
        "{record:#?}"
    );
    let canary = record.batches[0][0].clone();
    let error = record.nodes[&canary].error.clone().unwrap();
    assert!(error.contains("health check web failed"), "{error}");
    for node in &fleet.nodes {
        let status = node.states();
        let quarantined: Vec<String> = status.quarantined.iter().map(|bad| bad.revision.clone()).collect();
        assert!(node.is_on(&second) && node.marker() == "two\n", "{}", node.id);
        let seen = fs::read_dir(node.paths().generations()).unwrap().flatten();
        let seen = seen.filter(|it| it.file_name().to_string_lossy().contains(&third[..12])).count();
        let (bad, generations, rollbacks) =
            if node.id == canary.as_str() { (vec![third.clone()], seen, 1) } else { (vec![], 0, 0) };
        assert_eq!((quarantined, seen, status.rollbacks), (bad, generations, rollbacks), "{}", node.id);
        assert_eq!(node.dir.join("sick").exists(), node.id == canary.as_str(), "{}", node.id);
    }
}
