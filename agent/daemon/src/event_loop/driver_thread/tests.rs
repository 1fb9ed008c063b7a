//! A daemon that drives rollouts, with stores that fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use zagent_config::ids::NodeId;
use zagent_config::settings::{ConfigFragment, MergedConfig};
use zagent_rollout::board::{BoardError, VersionToken};
use zagent_rollout::record::{Component, RolloutRecord};
use zagent_rollout::records::VersionedValue;
use zagent_rollout::report::NodeReport;

use super::*;

/// One record, and what happens to its writers.
#[derive(Default)]
struct FakeBoard {
    record: Option<(RolloutRecord, u64)>,
    fails: bool,
    reads: usize,
}

#[derive(Clone, Default)]
struct FakeRecords(Rc<RefCell<FakeBoard>>);

fn away() -> BoardError {
    BoardError::Unreachable { board: "of tests".into(), source: "away".into() }
}

impl Records for FakeRecords {
    fn get(&mut self, _id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError> {
        let mut shelf = self.0.borrow_mut();
        shelf.reads += 1;
        let held = |(value, token): &(RolloutRecord, u64)| VersionedValue {
            value: value.clone(),
            token: VersionToken(token.to_string()),
        };
        Ok(shelf.record.as_ref().map(held))
    }

    fn put(
        &mut self,
        record: &RolloutRecord,
        _: Option<&VersionToken>,
        _: &str,
        _: bool,
    ) -> Result<VersionToken, BoardError> {
        let mut shelf = self.0.borrow_mut();
        if shelf.fails {
            return Err(away());
        }
        let token = shelf.record.as_ref().map_or(1, |(_, token)| token + 1);
        shelf.record = Some((record.clone(), token));
        Ok(VersionToken(token.to_string()))
    }

    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError> {
        let id = "r1".parse().unwrap();
        Ok(self.get(&id)?.into_iter().collect())
    }

    fn delete(&mut self, _: &RolloutId, _: &VersionToken) -> Result<(), BoardError> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct FakeReports;

impl Reports for FakeReports {
    fn latest_reports(&mut self, _: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        Ok(BTreeMap::new())
    }

    fn put(&mut self, _: &NodeReport) -> Result<(), BoardError> {
        Ok(())
    }

    fn forget(&mut self, _: Component, _: &NodeId) -> Result<(), BoardError> {
        Ok(())
    }
}

fn record() -> RolloutRecord {
    let text = "schema: 1\nid: r1\ncomponent: agent\nto: 2.0.0\ntarget: '*'\nbatch_size: 1\ncanary: {count: 1}\nsoak_time: 60s\n\
                batch_pause: 30s\nmax_failed: 1\nbatches: [[a], [b]]\nstate: created\ncreated: 2026-11-16T12:00:00Z\nserial: 1\n";
    serde_yaml::from_str(text).unwrap()
}

fn settings() -> Settings {
    MergedConfig::new(vec![ConfigFragment::read("zagent.yaml", "id: web-01").unwrap()], [], &[])
        .into_settings(Some("web-01"))
        .unwrap()
}

fn places(place: &FakeRecords) -> DriverStores {
    DriverStores { records: Box::new(place.clone()), reports: Box::new(FakeReports) }
}

/// A drive loop with one rollout.
fn wheel<'s>(settings: &'s Settings, place: &FakeRecords) -> StaleRollouts<'s> {
    place.0.borrow_mut().record = Some((record(), 1));
    let mut drive_loop = StaleRollouts { stores: Some(places(place)), ..StaleRollouts::new(settings) };
    drive_loop.run_due().unwrap();
    assert_eq!(drive_loop.rollouts.driven.len(), 1, "nobody drove it");
    drive_loop
}

/// The rollout is due, and so is the heartbeat.
fn due(drive_loop: &mut StaleRollouts<'_>, place: &FakeRecords) {
    drive_loop.rollouts.driven.values_mut().for_each(|ride| ride.at = Instant::now());
    let mut shelf = place.0.borrow_mut();
    let (record, _) = shelf.record.as_mut().unwrap();
    record.driver.as_mut().unwrap().heartbeat -= jiff::SignedDuration::from_secs(20);
}

#[test]
fn stores_stay_open_while_they_answer() {
    let (settings, place) = (settings(), FakeRecords::default());
    let mut drive_loop = wheel(&settings, &place);
    assert!(drive_loop.stores.is_some(), "reopened, every signature would be checked again in every round");
    due(&mut drive_loop, &place);
    let reads = place.0.borrow().reads;
    drive_loop.run_due().unwrap();
    assert!(place.0.borrow().reads > reads && drive_loop.stores.is_some());
}

#[test]
fn one_failed_heartbeat_does_not_stop_the_driver() {
    let (settings, place) = (settings(), FakeRecords::default());
    let mut drive_loop = wheel(&settings, &place);
    for rest in [2, 4, 8, 16, 30, 30] {
        due(&mut drive_loop, &place);
        place.0.borrow_mut().fails = true;
        let before = Instant::now();
        drive_loop.run_due().unwrap();
        assert!(drive_loop.stores.is_none(), "what did not answer is reopened");
        let ride = drive_loop.rollouts.driven.values().next().expect("it is still driven");
        let waits = ride.at.duration_since(before);
        assert!(waits >= Duration::from_secs(rest) && waits < Duration::from_secs(rest + 5), "{waits:?}");
        drive_loop.stores = Some(places(&place));
    }
    due(&mut drive_loop, &place);
    place.0.borrow_mut().fails = false;
    drive_loop.run_due().unwrap();
    let ride = drive_loop.rollouts.driven.values().next().unwrap();
    assert_eq!(ride.failures, 0);
    let heard = place.0.borrow().record.as_ref().unwrap().0.driver.clone().unwrap();
    assert_eq!(heard.id, "web-01/daemon");
}
