//! Sample nodes for tests: a healthy one, and what differs for the others.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made has failed its test")]

use jiff::Timestamp;

use super::{CurrentGeneration, DaemonStatus, ScheduledEntry, SpaceStatus, StatusInputs, UpcomingEvents};
use crate::health::HealthStatus;
use crate::{AgentMemory, LastRun, NewestRevision, RemoteHealth};

/// Commit that the host is on.
pub const ON: &str = "3f2a1b9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f6";
/// Commit that a remote offers.
pub const OFFERED: &str = "9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c";
const REMOTE: &str = "https://git.example.org/states.git";

/// A time on the day of the tests.
pub fn at(clock: &str) -> Timestamp {
    format!("2026-11-16T{clock}Z").parse().unwrap()
}

/// Current time of the tests.
pub fn now() -> Timestamp {
    at("12:00:00")
}

/// A node without runs.
pub fn fresh() -> StatusInputs {
    StatusInputs { node: "web-01".into(), now: now(), ..StatusInputs::default() }
}

/// A healthy node.
pub fn fine() -> StatusInputs {
    let counts = [("changed", 2), ("failed", 0), ("skipped", 0), ("unchanged", 40)];
    let last_run = LastRun {
        run: "20261116T115600-3f9a7".into(),
        revision: ON.into(),
        trigger: "git".into(),
        at: at("11:56:00"),
        duration_ms: 12_345,
        success: true,
        canceled: false,
        counts: counts.map(|(word, n)| (word.to_owned(), n)).into(),
        errors: Vec::new(),
        applied: None,
    };
    let memory = AgentMemory {
        newest: Some(newest(ON, at("11:55:40"))),
        remotes: vec![RemoteHealth { url: REMOTE.into(), ..RemoteHealth::default() }],
        last_run: Some(last_run),
        last_success: Some(at("11:56:00")),
        ..AgentMemory::default()
    };
    let current = CurrentGeneration {
        revision: ON.into(),
        generation: "12-3f2a1b9c0d1e".into(),
        signed_by: vec!["alice@example.org".into()],
        serial: Some(41),
        committed: Some(at("09:30:00")),
        published: at("11:55:50"),
        source: REMOTE.into(),
        branch: Some("main".into()),
        expires: Some(Timestamp::from_second(now().as_second() + 12 * 86_400).unwrap()),
    };
    let entry = ScheduledEntry { name: "nightly".into(), at: at("21:00:00") };
    StatusInputs {
        memory,
        daemon: Some(DaemonStatus { pid: 712, since: at("03:00:00"), doing: "idle".into() }),
        current: Some(current),
        next: UpcomingEvents { poll: Some(at("12:00:40")), run: Some(at("12:26:00")), entry: Some(entry) },
        health: vec![verdict("web", true, true), verdict("mail", false, true)],
        space: Some(SpaceStatus {
            used: Some(48 << 20),
            at: Some(at("11:56:10")),
            limit: 512 << 20,
            free: Some(3 << 30),
        }),
        ..fresh()
    }
}

/// The head of `main`.
pub fn newest(revision: &str, since: Timestamp) -> NewestRevision {
    NewestRevision {
        revision: revision.parse().unwrap(),
        branch: "main".into(),
        remote: REMOTE.into(),
        since,
    }
}

/// Result of a check after the last run.
pub fn verdict(name: &str, required: bool, healthy: bool) -> HealthStatus {
    let message = if healthy { "200 OK" } else { "connection refused by 127.0.0.1:80" };
    HealthStatus { name: name.into(), required, healthy, message: message.into(), at: at("11:56:20") }
}
