//! Nodes in every state: the ten lines, the problems, and the same as data.

use jiff::tz::TimeZone;

use zagent_daemon::operator::pin::PinTarget;
use zagent_daemon::status::samples::{OFFERED, ON, at, fine, fresh, newest, now, verdict};
use zagent_daemon::status::{
    AgentStatus, PauseStatus, PinStatus, QuarantineStatus, RebootStatus, StatusInputs, WindowStatus,
};
use zagent_daemon::{HeldRevision, HoldReason};

use super::StatusView;
use crate::output::Paint;

fn text(status: &AgentStatus) -> String {
    let page = StatusView { status, now: now(), zone: TimeZone::UTC, paint: Paint::new(false) };
    let wrong = status.problems();
    format!(
        "{}--- wrong: {}\n",
        page.render(),
        if wrong.is_empty() { "nothing".into() } else { wrong.join("; ") }
    )
}

fn shown(inputs: StatusInputs) -> String {
    text(&AgentStatus::from_inputs(inputs))
}

/// A node that knows of a newer revision and is held back.
fn held(why: HoldReason, message: &str) -> StatusInputs {
    let mut inputs = fine();
    inputs.memory.newest = Some(newest(OFFERED, at("02:08:00")));
    let revision = OFFERED.parse().unwrap();
    inputs.memory.held =
        Some(HeldRevision { revision, why, message: message.into(), since: at("02:10:00"), tries: 0 });
    inputs
}

#[test]
fn fresh_node() {
    insta::assert_snapshot!("fresh", shown(fresh()));
}

#[test]
fn fine_node() {
    insta::assert_snapshot!("fine", shown(fine()));
}

#[test]
fn behind_because_it_was_refused() {
    let message =
        "commit is signed by a key that nobody allows (SHA256:3ymR…): add it to /etc/zagent/allowed_signers";
    insta::assert_snapshot!("refused", shown(held(HoldReason::Refused, message)));
}

#[test]
fn quarantined() {
    let mut inputs = held(HoldReason::Quarantined, "health check web failed");
    let one = |revision: &str| QuarantineStatus {
        revision: revision.into(),
        since: at("02:10:00"),
        message: "health check web failed: connection refused by 127.0.0.1:80".into(),
    };
    inputs.quarantined = vec![one(OFFERED)];
    insta::assert_snapshot!("quarantined", shown(inputs.clone()));
    inputs.quarantined.insert(0, one(ON));
    assert!(shown(inputs).contains("2 quarantined, last: 9b8c7d6e5f4a since 02:10"));
}

#[test]
fn paused() {
    let mut inputs = held(HoldReason::Paused, "resume it with `zagent resume`");
    let until = Some(at("15:30:00"));
    let by = Some("alice".to_owned());
    inputs.paused = Some(PauseStatus { reason: Some("disk swap".into()), by, since: at("11:30:00"), until });
    insta::assert_snapshot!("paused", shown(inputs.clone()));
    // A pause that is over does not count.
    inputs.paused.as_mut().unwrap().until = Some(at("11:59:59"));
    assert!(AgentStatus::from_inputs(inputs).paused.is_none());
}

#[test]
fn pinned() {
    let mut inputs = held(HoldReason::Pinned, "unpin it with `zagent unpin`");
    let reason = Some("waits for the new certificate".into());
    let since = "2026-11-14T08:00:00Z".parse().unwrap();
    inputs.pinned = Some(PinStatus {
        to: PinTarget::Commit(ON.parse().unwrap()),
        reason,
        by: Some("root".into()),
        since,
    });
    insta::assert_snapshot!("pinned", shown(inputs));
}

#[test]
fn offline() {
    let mut inputs = fine();
    let remote = &mut inputs.memory.remotes[0];
    remote.failing_since = Some(at("10:02:00"));
    remote.message = Some("unreachable: no address for git.example.org".into());
    insta::assert_snapshot!("offline", shown(inputs));
}

#[test]
fn window_closed() {
    let mut inputs = held(HoldReason::Window, "it is applied when the window opens");
    inputs.window = WindowStatus::Closed { until: Some(at("22:00:00")) };
    insta::assert_snapshot!("window", shown(inputs));
}

#[test]
fn reboot_needed() {
    let mut inputs = fine();
    let reason = "state kernel.updated asked for it".into();
    inputs.reboot = Some(RebootStatus { reason, since: Some(at("11:56:10")), at: Some(at("22:00:00")) });
    insta::assert_snapshot!("reboot", shown(inputs));
}

#[test]
fn no_daemon() {
    let mut inputs =
        StatusInputs { daemon: None, next: zagent_daemon::status::UpcomingEvents::default(), ..fine() };
    inputs.unread = vec!["/var/lib/zagent/state/pause: permission denied".into()];
    insta::assert_snapshot!("no_daemon", shown(inputs));
}

#[test]
fn damage_and_a_full_disk_are_problems() {
    let mut inputs = fine();
    let damage = |message: &str| zagent_daemon::damage::OwnDamage {
        message: message.into(),
        hint: "restore it".into(),
        degraded: true,
    };
    inputs.damaged = vec![damage("the node key is damaged")];
    if let Some(space) = &mut inputs.space {
        (space.used, space.free) = (Some(space.limit + 1), Some(1 << 20));
    }
    let status = AgentStatus::from_inputs(inputs.clone());
    assert_eq!(status.problems().len(), 3, "{:?}", status.problems());
    let shown = shown(inputs);
    assert!(shown.contains("damaged   the node key is damaged; restore it"), "{shown}");
    assert!(shown.contains("space     512MiB of at most 512MiB used, 1MiB free"), "{shown}");
}

#[test]
fn everything_at_once_is_wrong() {
    let mut inputs = held(HoldReason::Unfetched, "the pack is larger than `source.max_pack`");
    let run = inputs.memory.last_run.as_mut().unwrap();
    run.success = false;
    run.counts.insert("failed".into(), 5);
    run.errors = (1..=5).map(|n| format!("pkg_|-nginx{n}: no such package")).collect();
    inputs.memory.failures = 3;
    inputs.memory.last_success = Some(at("08:00:00"));
    inputs.memory.drift = 2;
    inputs.current.as_mut().unwrap().expires = Some(at("06:00:00"));
    inputs.health[0] = verdict("web", true, false);
    inputs.next.run = Some(at("11:40:00"));
    insta::assert_snapshot!("wrong", shown(inputs));
}

#[test]
fn a_reason_about_another_revision_is_ignored() {
    let mut inputs = held(HoldReason::Refused, "unsigned");
    inputs.memory.held.as_mut().unwrap().revision = ON.parse().unwrap();
    let status = AgentStatus::from_inputs(inputs);
    assert_eq!(
        (status.why_not.clone(), status.behind_duration().unwrap().as_secs()),
        (None, 9 * 3600 + 52 * 60)
    );
    assert!(text(&status).contains("seen 9 h ago, not synced yet"));
}

#[test]
fn text_from_remotes_cannot_control_or_flood_the_terminal() {
    let message = format!("no\n\u{1b}[2Jroot  OK{}", "x".repeat(10_000));
    let shown = shown(held(HoldReason::Refused, &message));
    assert!(!shown.contains('\u{1b}') && shown.lines().count() == 12, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 330));
}

#[test]
fn colours_mark_what_needs_attention() {
    let painted = |inputs| {
        let status = AgentStatus::from_inputs(inputs);
        StatusView { status: &status, now: now(), zone: TimeZone::UTC, paint: Paint::new(true) }.render()
    };
    assert!(!painted(fine()).contains("\u{1b}[1;31m"));
    assert!(painted(held(HoldReason::Refused, "unsigned")).contains("\u{1b}[1;31m9b8c7d6e5f4a"));
}

#[test]
fn data_survives_a_round_trip() {
    let mut inputs = held(HoldReason::Quarantined, "health check web failed");
    inputs.window = WindowStatus::Open { until: None };
    let status = AgentStatus::from_inputs(inputs);
    let back: AgentStatus = serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
    assert_eq!(back, status);
}
