//! Nodes in every state: the ten lines, what is wrong, and the same as data.

use jiff::tz::TimeZone;

use super::samples::{OFFERED, ON, at, fine, fresh, newest, now, verdict};
use super::{Page, Paused, Pieces, Pinned, Quarantined, Reboot, Status, Window};
use crate::cycle::{Held, Why};
use crate::operate::pin::To;
use crate::output::Paint;

fn text(status: &Status) -> String {
    let page = Page { status, now: now(), zone: TimeZone::UTC, paint: Paint::new(false) };
    let wrong = status.wrong();
    format!(
        "{}--- wrong: {}\n",
        page.text(),
        if wrong.is_empty() { "nothing".into() } else { wrong.join("; ") }
    )
}

fn shown(pieces: Pieces) -> String {
    text(&Status::gather(pieces))
}

/// A node that knows of a newer revision and is held back.
fn held(why: Why, message: &str) -> Pieces {
    let mut pieces = fine();
    pieces.memory.newest = Some(newest(OFFERED, at("02:08:00")));
    let revision = OFFERED.parse().unwrap();
    pieces.memory.held =
        Some(Held { revision, why, message: message.into(), since: at("02:10:00"), tries: 0 });
    pieces
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
    insta::assert_snapshot!("refused", shown(held(Why::Refused, message)));
}

#[test]
fn quarantined() {
    let mut pieces = held(Why::Quarantined, "health check web failed");
    let one = |revision: &str| Quarantined {
        revision: revision.into(),
        since: at("02:10:00"),
        message: "health check web failed: connection refused by 127.0.0.1:80".into(),
    };
    pieces.quarantined = vec![one(OFFERED)];
    insta::assert_snapshot!("quarantined", shown(pieces.clone()));
    pieces.quarantined.insert(0, one(ON));
    assert!(shown(pieces).contains("2 quarantined, last: 9b8c7d6e5f4a since 02:10"));
}

#[test]
fn paused() {
    let mut pieces = held(Why::Paused, "resume it with `zagent resume`");
    let until = Some(at("15:30:00"));
    let by = Some("alice".to_owned());
    pieces.paused = Some(Paused { reason: Some("disk swap".into()), by, since: at("11:30:00"), until });
    insta::assert_snapshot!("paused", shown(pieces.clone()));
    // A pause that is over is none.
    pieces.paused.as_mut().unwrap().until = Some(at("11:59:59"));
    assert!(Status::gather(pieces).paused.is_none());
}

#[test]
fn pinned() {
    let mut pieces = held(Why::Pinned, "unpin it with `zagent unpin`");
    let reason = Some("waits for the new certificate".into());
    let since = "2026-11-14T08:00:00Z".parse().unwrap();
    pieces.pinned =
        Some(Pinned { to: To::Commit(ON.parse().unwrap()), reason, by: Some("root".into()), since });
    insta::assert_snapshot!("pinned", shown(pieces));
}

#[test]
fn offline() {
    let mut pieces = fine();
    let remote = &mut pieces.memory.remotes[0];
    remote.failing_since = Some(at("10:02:00"));
    remote.message = Some("unreachable: no address for git.example.org".into());
    insta::assert_snapshot!("offline", shown(pieces));
}

#[test]
fn window_closed() {
    let mut pieces = held(Why::Window, "it is applied when the window opens");
    pieces.window = Window::Closed { until: Some(at("22:00:00")) };
    insta::assert_snapshot!("window", shown(pieces));
}

#[test]
fn reboot_needed() {
    let mut pieces = fine();
    let reason = "state kernel.updated asked for it".into();
    pieces.reboot = Some(Reboot { reason, since: Some(at("11:56:10")), at: Some(at("22:00:00")) });
    insta::assert_snapshot!("reboot", shown(pieces));
}

#[test]
fn no_daemon() {
    let mut pieces = Pieces { daemon: None, next: super::Next::default(), ..fine() };
    pieces.unread = vec!["/var/lib/zagent/state/pause: permission denied".into()];
    insta::assert_snapshot!("no_daemon", shown(pieces));
}

#[test]
fn everything_at_once_is_wrong() {
    let mut pieces = held(Why::Unfetched, "the pack is larger than `source.max_pack`");
    let run = pieces.memory.last_run.as_mut().unwrap();
    run.success = false;
    run.counts.insert("failed".into(), 5);
    run.errors = (1..=5).map(|n| format!("pkg_|-nginx{n}: no such package")).collect();
    pieces.memory.failures = 3;
    pieces.memory.last_success = Some(at("08:00:00"));
    pieces.memory.drift = 2;
    pieces.current.as_mut().unwrap().expires = Some(at("06:00:00"));
    pieces.health[0] = verdict("web", true, false);
    pieces.next.run = Some(at("11:40:00"));
    insta::assert_snapshot!("wrong", shown(pieces));
}

#[test]
fn a_reason_about_another_revision_explains_nothing() {
    let mut pieces = held(Why::Refused, "unsigned");
    pieces.memory.held.as_mut().unwrap().revision = ON.parse().unwrap();
    let status = Status::gather(pieces);
    assert_eq!((status.why_not.clone(), status.behind().unwrap().as_secs()), (None, 9 * 3600 + 52 * 60));
    assert!(text(&status).contains("seen 9 h ago, not taken yet"));
}

#[test]
fn what_remotes_say_cannot_steer_the_terminal_or_fill_it() {
    let message = format!("no\n\u{1b}[2Jroot  OK{}", "x".repeat(10_000));
    let shown = shown(held(Why::Refused, &message));
    assert!(!shown.contains('\u{1b}') && shown.lines().count() == 11, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 330));
}

#[test]
fn colours_say_where_to_look() {
    let painted = |pieces| {
        let status = Status::gather(pieces);
        Page { status: &status, now: now(), zone: TimeZone::UTC, paint: Paint::new(true) }.text()
    };
    assert!(!painted(fine()).contains("\u{1b}[1;31m"));
    assert!(painted(held(Why::Refused, "unsigned")).contains("\u{1b}[1;31m9b8c7d6e5f4a"));
}

#[test]
fn data_comes_back_as_it_was() {
    let mut pieces = held(Why::Quarantined, "health check web failed");
    pieces.window = Window::Open { until: None };
    let status = Status::gather(pieces);
    let back: Status = serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
    assert_eq!(back, status);
}
