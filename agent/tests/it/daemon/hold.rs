//! What holds a node where it is, and what releases it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use zagent_daemon::HoldReason;
use zagent_daemon::api::{ClientError, RunRefusedReason, RunRequest};
use zagent_daemon::status::WindowStatus;

use crate::node::{Node, Upstream};

#[test]
fn a_pause_holds_what_is_pushed_until_it_is_over() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    node.fine(&["pause", "--for", "1h", "--reason", "the database moves"]);
    let status = node.until("the pause is seen", |status| status.paused.is_some());
    assert_eq!(status.paused.unwrap().reason.as_deref(), Some("the database moves"));

    let refused = node.client().trigger(&RunRequest::default()).unwrap_err();
    let ClientError::Refused(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.why, RunRefusedReason::Paused);
    let output = node.zagent(&["trigger", "--wait"]);
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the database moves"), "{output:?}");
    assert_eq!(node.run(&RunRequest { test: true, ..RunRequest::default() }).exit, 0, "looking is allowed");

    let second = upstream.push_marker(&node, "two");
    let status = node.until("the push is seen", |status| status.why_not.is_some());
    let held = status.why_not.unwrap();
    assert_eq!((held.revision.as_str(), held.why), (second.as_str(), HoldReason::Paused));
    assert!(held.message.contains("zagent resume"), "{}", held.message);
    upstream.polls(2);
    assert_eq!(node.host("marker"), "one\n");
    assert!(node.fine(&["status"]).contains("the database moves"));

    node.fine(&["resume"]);
    let status = node.converges(&second);
    assert_eq!((status.paused, status.why_not), (None, None));
    assert_eq!(node.host("marker"), "two\n");
}

#[test]
fn a_pin_overrides_the_branch() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    let second = upstream.push_marker(&node, "two");
    node.start();
    node.converges(&second);
    upstream.repo.set_branch("other", &first);
    node.fine(&["pin", "other", "--reason", "a test"]);
    let status = node.converges(&first);
    assert!(status.pinned.is_some());
    assert_eq!(node.host("marker"), "one\n");
    let third = upstream.push_marker(&node, "three");
    upstream.polls(3);
    assert_eq!(node.host("marker"), "one\n", "what is pushed elsewhere does not count");
    node.fine(&["unpin"]);
    let status = node.converges(&third);
    assert_eq!((status.pinned, node.host("marker").as_str()), (None, "three\n"));

    node.fine(&["pin", &second]);
    node.converges(&second);
    assert_eq!(node.host("marker"), "two\n", "a commit that is no head");
}

#[test]
fn a_closed_window_holds_automatic_runs() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&format!("{}{}", upstream.config(), closed()));
    let first = upstream.push_marker(&node, "one");
    node.start();
    let status = node.until("the push is seen", |status| status.why_not.is_some());
    assert_eq!(status.why_not.unwrap().why, HoldReason::Window);
    assert!(matches!(status.window, WindowStatus::Closed { until: Some(_) }), "{:?}", status.window);
    assert_eq!((status.current, node.host("marker").as_str()), (None, ""));
    assert_eq!(node.run(&RunRequest::default()).exit, 0);
    node.converges(&first);
    assert_eq!(node.host("marker"), "one\n", "who asks by hand is not bound");

    upstream.push_marker(&node, "two");
    node.until("the next push is seen", |status| status.why_not.is_some());
    // Once the configuration no longer has the window.
    node.configure(&upstream.config());
    node.signal(nix::sys::signal::Signal::SIGHUP);
    node.until("it is taken", |status| status.is_current && node.host("marker") == "two\n");
}

/// A window that is not open now, nor for hours.
pub(crate) fn closed() -> String {
    let at = |hours| {
        let at = Timestamp::now() + SignedDuration::from_hours(hours);
        at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string()
    };
    format!("windows: [{{from: '{}', to: '{}', timezone: UTC}}]\n", at(5), at(7))
}
