//! Orders of rollouts in, the same signed by two people out; a record in, whether a node that needs two signatures obeys it out.
//!
//! The simulated fleets use the real judgement with real keys. An order is judged once: its text and its signatures never change.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use tempfile::TempDir;
use zagent_cache::trust;
use zagent_config::settings::{self, ConfigLocation};
use zagent_rollout::acceptance::{RecordPolicy, sign_order};
use zagent_rollout::record::RolloutRecord;

/// The fleet that orders are for.
pub const FLEET: &str = "prod";

/// Verdicts that are kept.
const MAX_VERDICTS: usize = 200;

/// The two people whose signatures count.
pub const PEOPLE: [&str; 2] = ["ada", "bob"];

/// Somebody whose signatures do not.
pub const STRANGER: &str = "eve";

struct OrderKeys {
    dir: TempDir,
    policy: RecordPolicy,
    verdicts: RefCell<HashMap<String, bool>>,
}

thread_local! {
    static KEYS: OrderKeys = OrderKeys::new();
}

impl OrderKeys {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("zagent-orders-").tempdir().expect("a scratch directory");
        let mut lines = String::new();
        for who in PEOPLE.into_iter().chain([STRANGER]) {
            trust::create_key(&dir.path().join(who)).expect("a key");
            if who != STRANGER {
                let public = trust::public_key(&dir.path().join(who)).expect("its public half");
                lines += &format!("{who} {public}\n");
            }
        }
        let signers = dir.path().join("signers");
        fs::write(&signers, lines).expect("a list of signers");
        let yaml = format!(
            "fleet: {}\ntrust: {{require: manifest, threshold: {}, allowed_signers: {}}}\n",
            FLEET,
            PEOPLE.len(),
            signers.display()
        );
        let file = dir.path().join("zagent.yaml");
        fs::write(&file, yaml).expect("a configuration");
        let settings =
            settings::load(&ConfigLocation::File(file), [], &[], Some("node")).expect("good settings");
        let policy = RecordPolicy::from_settings(&settings);
        Self { dir, policy, verdicts: RefCell::default() }
    }

    fn key(&self, who: &str) -> PathBuf {
        self.dir.path().join(who)
    }
}

/// The order signed by these people, and by nobody else.
#[must_use]
pub fn signed(mut record: RolloutRecord, people: &[&str]) -> RolloutRecord {
    record.sealed = None;
    for who in people {
        KEYS.with(|keys| sign_order(&mut record, &keys.key(who)).expect("a signature"));
    }
    record
}

/// True when a node of the fleet that needs two signatures obeys this record.
#[must_use]
pub fn is_obeyed(record: &RolloutRecord, now: Timestamp) -> bool {
    let sealed = record.sealed.as_deref().map(|sealed| format!("{}{}", sealed.text, sealed.signatures));
    let key = format!("{:?} {} {}", record.fleet, record.schema, sealed.unwrap_or_default());
    KEYS.with(|keys| {
        let mut verdicts = keys.verdicts.borrow_mut();
        if verdicts.len() >= MAX_VERDICTS {
            verdicts.clear();
        }
        *verdicts.entry(key).or_insert_with(|| keys.policy.judge(record, now).is_ok())
    })
}
