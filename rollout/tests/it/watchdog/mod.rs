//! A real watchdog process supervises agents that are shell scripts: it restarts them, rolls releases out and back, and
//! is killed at every possible point.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its node has failed")]

mod damage;
mod site;

use rustix::process::{Pid, Signal, kill_process};
use site::{EXITS, GOOD, HANGS, Site, UNREADY, node};
use zagent_rollout::phase::{self, NodeOutcome, NodePhase};
use zagent_rollout::record::{BatchPhase, RolloutStatus};
use zagent_rollout::report::NodeActivity;
use zagent_rollout::watchdog::{WatchdogRequest, WatchdogResponse};

/// Not a test: what the programs of a [`Site`] become when they are started as a watchdog.
#[test]
fn as_watchdog() {
    site::watchdog_of_this_process();
}

fn back(reason: &str) -> WatchdogRequest {
    WatchdogRequest::GoBack { reason: reason.into() }
}

#[test]
fn the_agent_is_restarted_reloaded_and_stopped_with_the_watchdog() {
    let mut site = Site::new();
    site.start();
    let first = site.until("the agent", |site| site.living().pop());
    assert_eq!(first.1, "0.1.0");
    site.signal(Signal::HUP);
    site.until("the reload", |site| site.path("reloaded").exists().then_some(()));
    kill_process(Pid::from_raw(first.0).unwrap(), Signal::KILL).unwrap();
    let second = site.until("another", |site| site.living().pop().filter(|(pid, _)| *pid != first.0));
    let status =
        site.status_with("the second", |s| s.child.as_ref().is_some_and(|c| c.pid as i32 == second.0));
    assert_eq!((status.version.as_str(), status.degraded, status.node.phase.name()), ("0.1.0", None, "idle"));
    // Another watchdog does not interfere: it names the running one, and exits.
    let (ended, said) = site.second();
    assert_eq!(ended.code(), Some(101), "{ended:?}: {said}");
    assert!(said.contains(&format!("AlreadyRunning {{ holder: \"process {}\" }}", site.pid())), "{said}");
    let status = site.status().unwrap();
    assert_eq!(status.child.unwrap().pid as i32, second.0, "the first one keeps running");
    site.signal(Signal::TERM);
    assert!(site.ended().success());
    assert_eq!(site.living(), []);
}

#[test]
fn a_replaced_watchdog_ends_when_the_agent_has_ended_its_run() {
    let mut site = Site::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, site.path("run-ends"), rustix::fs::Mode::RWXU).unwrap();
    site.start();
    let agent = site.until("the agent", |site| site.living().pop());
    site.signal(Signal::USR1);
    site.until("the agent is asked", |site| site.path("asked").exists().then_some(()));
    let status = site.status().expect("the watchdog waits for the run");
    assert_eq!(status.child.unwrap().pid as i32, agent.0);
    // Opening it releases the run.
    std::fs::write(site.path("run-ends"), "now\n").unwrap();
    assert!(site.ended().success());
    assert_eq!((site.living(), site.starts().len()), (vec![], 1), "nothing is started again");
    site.start();
    site.until("the next watchdog", |site| site.living().pop());
    let Some(WatchdogResponse::History(life)) = site.ask(&WatchdogRequest::History) else { panic!() };
    assert_eq!(life.crashes, 0, "{life:?}");
}

#[test]
fn an_agent_that_keeps_failing_degrades_the_node_and_is_still_restarted() {
    let mut site = Site::new();
    site.release("0.1.0", "echo $$ $VERSION >> $ROOT/starts; exit 3", "");
    site.start();
    let status = site.status_with("degraded", |status| status.degraded.is_some());
    assert!(status.degraded.unwrap().contains("it exited with code 3"));
    assert!(status.next_retry.is_some());
    let tried = site.starts().len();
    assert!(tried >= 10, "{tried}");
    site.until("another try", |site| (site.starts().len() > tried).then_some(()));
    site.until("the report", |site| site.report().filter(|report| report.degraded.is_some()));
}

#[test]
fn a_crash_loop_is_found_across_watchdogs() {
    let mut site = Site::new();
    site.release("0.1.0", "echo $$ $VERSION >> $ROOT/starts; exit 3", "");
    site.start();
    let before = site.status_with("degraded", |status| status.degraded.is_some()).failures;
    site.kill();
    site.start();
    let after = site.until("the next watchdog", |site| site.status());
    assert!(after.failures >= before, "{} after {before}", after.failures);
    assert!(after.degraded.unwrap().contains("it exited with code 3"));
    site.kill();
    let status = zagent_rollout::watchdog::status_from_files(&site.paths(), site.built_in()).unwrap();
    assert!(status.last_seen.is_some() && status.failures >= before, "{status:?}");
}

#[test]
fn a_clean_stop_is_on_the_board_and_heartbeats_tell_the_history() {
    let mut site = Site::new();
    site.start();
    let first = site.until("the agent", |site| site.living().pop());
    kill_process(Pid::from_raw(first.0).unwrap(), Signal::KILL).unwrap();
    site.until("another", |site| site.living().pop().filter(|(pid, _)| *pid != first.0));
    site.until("a report", |site| site.report().filter(|report| report.stopped.is_none()));
    let told = site.until("the history", |site| match site.ask(&WatchdogRequest::History) {
        Some(WatchdogResponse::History(told)) if told.starts == 2 => Some(told),
        _ => None,
    });
    assert_eq!((told.starts, told.crashes), (2, 1));
    assert!(told.last_seen.is_some() && told.versions[0].version == "0.1.0", "{told:?}");
    site.signal(Signal::TERM);
    assert!(site.ended().success());
    let report = site.report().unwrap();
    assert!(report.stopped.is_some_and(|at| at <= report.updated_at), "{report:?}");
    let pace = zagent_rollout::watchdog::WatchdogPace::FAST;
    let told = zagent_rollout::watchdog::history_from_files(&site.paths(), &pace).unwrap();
    let last = &told.events.last().unwrap().kind;
    assert_eq!(*last, zagent_rollout::watchdog::LifeEventKind::WatchdogStopped);
}

#[test]
fn a_good_release_is_applied_confirmed_and_rolled_back_by_hand() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.start();
    let first = site.until("the agent", |site| site.living().pop());
    let report = site.roll_out("0.2.0");
    assert_eq!(report.taken.unwrap().outcome, Some(NodeOutcome::Confirmed));
    assert_eq!((report.version.as_str(), report.state), ("0.2.0", NodeActivity::Idle));
    let pid = site.pid();
    // The same process, of the new version, with the same child.
    let agent = site.living();
    assert!(agent.len() == 1 && agent[0].1 == "0.2.0" && agent[0] != first, "{agent:?}");
    let status =
        site.status_with("the renewed watchdog", |s| s.watchdog.as_ref().unwrap().version == "0.2.0");
    assert_eq!(status.watchdog.unwrap().pid, pid);
    assert_eq!(site.living(), agent);
    assert_eq!(std::fs::read_link(site.paths().slot_current()).unwrap().to_str(), Some("0.2.0"));
    let Some(WatchdogResponse::Done { words }) = site.ask(&back("it is slow")) else { panic!() };
    assert!(words.contains("0.1.0"), "{words}");
    let status = site.status_with("the old one", |s| s.version == "0.1.0" && s.node.phase.name() == "idle");
    assert_eq!(status.node.rejected.get("0.2.0").map(String::as_str), Some("it is slow"));
    site.status_with("the old watchdog", |s| s.watchdog.as_ref().unwrap().version == "0.1.0");
    site.until("its slot to go", |site| (!site.paths().slot("0.2.0").exists()).then_some(()));
    assert_eq!((site.pid(), site.living().len()), (pid, 1));
    let Some(WatchdogResponse::Refused { why }) = site.ask(&back("again")) else { panic!() };
    assert!(why.starts_with("there is no version before 0.1.0"), "{why}");
}

#[test]
fn bad_releases_are_rolled_back_and_never_tried_again() {
    for (agent, reason) in [(EXITS, "code 3"), (UNREADY, "not ready"), (HANGS, "not ready")] {
        let mut site = Site::new();
        site.release("0.2.0", agent, "");
        site.start();
        site.until("the agent", |site| site.living().pop());
        let report = site.roll_out("0.2.0");
        let taken = report.taken.unwrap();
        assert_eq!(taken.outcome, Some(NodeOutcome::Failed), "{agent}");
        assert!(taken.error.unwrap().contains(reason), "{agent}");
        let status = site.status_with("the old one", |s| s.version == "0.1.0" && s.child.is_some());
        assert!(status.node.rejected.contains_key("0.2.0"), "{agent}");
        let living = site.until("one agent", |site| Some(site.living()).filter(|all| all.len() == 1));
        assert_eq!(living[0].1, "0.1.0", "{agent}");
        site.until("its slot to go", |site| (!site.paths().slot("0.2.0").exists()).then_some(()));
        assert!(!site.paths().slot_current().exists());
        // Another rollout of the same version is refused without a try.
        let starts = site.starts();
        site.order("0.2.0", BatchPhase::Prepare, |record| record.id = "second".parse().unwrap());
        let second = site.until("the refusal", |site| {
            site.report().and_then(|report| report.taken).filter(|taken| taken.rollout.as_str() == "second")
        });
        assert_eq!(second.outcome, Some(NodeOutcome::Failed));
        assert!(second.error.unwrap().contains("was already rejected on this node"));
        assert_eq!(site.starts(), starts);
    }
}

#[test]
fn a_release_that_cannot_be_fetched_or_run_never_stops_the_agent() {
    let mut site = Site::new();
    std::fs::write(site.program("0.2.0"), "no program at all").unwrap();
    site.start();
    let first = site.until("the agent", |site| site.living().pop());
    let error = site.roll_out("0.2.0").taken.unwrap().error.unwrap();
    assert!(error.contains("it is not a program"), "{error}");
    site.order("0.3.0", BatchPhase::Prepare, |_| ());
    let error = site.roll_out("0.3.0").taken.unwrap().error.unwrap();
    assert!(error.contains("cannot fetch"), "{error}");
    site.release("0.4.0", GOOD, "");
    site.order("0.4.0", BatchPhase::Prepare, |record| record.artifacts[0].blake3 = "00".into());
    let taken = site.until("the refusal", |site| {
        site.report()
            .and_then(|report| report.taken)
            .filter(|taken| taken.rollout == site::id("0.4.0") && taken.outcome.is_some())
    });
    assert!(taken.error.unwrap().contains("its digest is"));
    site.release("0.5.0", GOOD, "");
    site.order("0.5.0", BatchPhase::Prepare, |record| record.artifacts[0].arch = "there".into());
    site.until("the last refusal", |site| {
        site.report()
            .and_then(|report| report.taken)
            .filter(|taken| taken.rollout == site::id("0.5.0") && taken.outcome.is_some())
    });
    assert_eq!(site.living(), [first]);
}

#[test]
fn a_failing_fetch_is_retried_and_reported() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.write("jammed", b"");
    site.start();
    site.order("0.2.0", BatchPhase::Prepare, |_| ());
    let status = site.status_with("the trouble", |status| !status.notes.is_empty());
    assert_eq!(status.notes, ["cannot fetch 0.2.0 yet, trying again: the line is jammed"]);
    std::fs::remove_file(site.path("jammed")).unwrap();
    assert_eq!(site.roll_out("0.2.0").taken.unwrap().outcome, Some(NodeOutcome::Confirmed));
    site.status_with("no trouble", |status| status.notes.is_empty());
}

#[test]
fn an_abort_discards_staged_and_rolls_back_unconfirmed_versions() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.start();
    site.order("0.2.0", BatchPhase::Prepare, |_| ());
    site.status_with("staged", |status| status.node.phase.name() == "staged");
    assert!(site.paths().slot("0.2.0").exists());
    let abort = |record: &mut zagent_rollout::record::RolloutRecord| {
        (record.state, record.reason) = (RolloutStatus::Aborted, Some("a mistake".into()));
    };
    site.order("0.2.0", BatchPhase::Prepare, abort);
    let status = site.status_with("idle", |status| status.node.phase.name() == "idle");
    assert_eq!(status.node.last.unwrap().outcome, NodeOutcome::Withdrawn);
    site.until("its slot to go", |site| (!site.paths().slot("0.2.0").exists()).then_some(()));
    site.release("0.3.0", GOOD, "");
    site.order("0.3.0", BatchPhase::Prepare, |_| ());
    site.status_with("staged", |status| status.node.phase.name() == "staged");
    // A pause by an operator holds the switch, not the fetch.
    site.write("paused", b"");
    site.order("0.3.0", BatchPhase::Apply, |_| ());
    let status = site.status_with("the pause", |status| !status.notes.is_empty());
    assert_eq!(
        (status.node.phase.name(), status.notes[0].as_str()),
        ("staged", "the switch waits: it is paused")
    );
    std::fs::remove_file(site.path("paused")).unwrap();
    site.status_with("soaking", |status| status.node.phase.name() == "soaking");
    site.order("0.3.0", BatchPhase::Apply, abort);
    let status = site.status_with("back", |s| s.version == "0.1.0" && s.node.phase.name() == "idle");
    assert_eq!(status.node.last.unwrap().why.as_deref(), Some("a mistake"));
    assert!(status.node.rejected.is_empty(), "the version is not the cause");
}

#[test]
fn without_a_board_the_node_continues_and_takes_part_when_it_is_back() {
    let mut site = Site::new();
    site.write("offline", b"");
    site.release("0.2.0", GOOD, "");
    site.start();
    let status = site.status_with("the trouble", |status| status.notes.len() == 2);
    assert!(status.notes.iter().all(|note| note.contains("the cable is out")), "{:?}", status.notes);
    assert!(status.child.is_some());
    site.order("0.2.0", BatchPhase::Prepare, |_| ());
    std::fs::remove_file(site.path("offline")).unwrap();
    let report = site.roll_out("0.2.0");
    assert_eq!(report.taken.unwrap().outcome, Some(NodeOutcome::Confirmed));
    site.status_with("no trouble", |status| status.notes.is_empty());
}

#[test]
fn a_broken_watchdog_is_tried_twice_and_the_installed_one_continues() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "echo died >> $ROOT/deaths; exit 1");
    site.start();
    let report = site.roll_out("0.2.0");
    assert_eq!(report.taken.unwrap().outcome, Some(NodeOutcome::Confirmed));
    site.until("the note", |site| {
        site.revive();
        site.status().filter(|status| status.notes.iter().any(|note| note.contains("it exited 2 times")))
    });
    assert_eq!(std::fs::read_to_string(site.path("deaths")).unwrap().lines().count(), 2);
    let status = site.status().unwrap();
    assert_eq!((status.version.as_str(), status.watchdog.unwrap().version.as_str()), ("0.2.0", "0.1.0"));
    site.until("one agent", |site| Some(site.living()).filter(|all| all.len() == 1 && all[0].1 == "0.2.0"));
}

#[test]
fn a_damaged_slot_is_never_run() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.start();
    site.roll_out("0.2.0");
    site.status_with("the renewed watchdog", |s| s.watchdog.as_ref().unwrap().version == "0.2.0");
    site.kill();
    let program = site.paths().slot("0.2.0").join("zagent");
    std::fs::write(&program, "#!/bin/sh\necho $$ damaged >> $ROOT/starts\n").unwrap();
    site.start();
    let status = site.status_with("the installed one", |s| s.version == "0.1.0" && s.child.is_some());
    assert!(status.notes.iter().any(|note| note.contains("0.2.0 is damaged")), "{:?}", status.notes);
    site.until("one agent", |site| Some(site.living()).filter(|all| all.len() == 1 && all[0].1 == "0.1.0"));
}

#[test]
fn a_newer_version_installed_by_hand_runs_and_an_older_one_does_not() {
    let mut site = Site::new();
    for version in ["0.2.0", "0.1.5", "0.3.0"] {
        site.release(version, GOOD, "");
    }
    site.start();
    site.roll_out("0.2.0");
    site.status_with("the renewed watchdog", |s| s.watchdog.as_ref().unwrap().version == "0.2.0");
    for (installed, runs, previous) in [("0.1.5", "0.2.0", "0.1.0"), ("0.3.0", "0.3.0", "0.2.0")] {
        site.signal(Signal::TERM);
        assert!(site.ended().success());
        site.start_as(installed);
        let status = site.status_with("the agent", |status| status.child.is_some());
        assert_eq!((status.version.as_str(), status.node.previous.as_deref()), (runs, Some(previous)));
        site.status_with("its watchdog", |s| s.watchdog.as_ref().unwrap().version == runs);
    }
    // It stays when nothing new was installed.
    site.signal(Signal::TERM);
    assert!(site.ended().success());
    site.start_as("0.3.0");
    let status = site.status_with("the agent", |status| status.child.is_some());
    assert_eq!(status.version, "0.3.0");
    // A version that was rejected here is not run because a package brought it.
    let Some(WatchdogResponse::Done { .. }) = site.ask(&back("it is slow")) else { panic!() };
    site.status_with("back", |s| s.version == "0.2.0" && s.node.phase.name() == "idle");
    site.signal(Signal::TERM);
    assert!(site.ended().success());
    site.start_as("0.1.5");
    site.status_with("the agent", |status| status.child.is_some() && status.version == "0.2.0");
    site.signal(Signal::TERM);
    assert!(site.ended().success());
    site.start_as("0.3.0");
    site.status_with("the agent", |status| status.child.is_some() && status.version == "0.2.0");
}

#[test]
fn damaged_files_are_moved_aside() {
    let mut site = Site::new();
    site.start();
    site.until("the agent", |site| site.living().pop());
    site.kill();
    for file in [site.paths().phase(), site.paths().watchdog()] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "{").unwrap();
    }
    site.start();
    let status = site.status_with("the agent", |status| status.child.is_some());
    assert_eq!(status.version, "0.1.0");
    assert!(site.paths().phase().with_extension("damaged").exists());
}

/// A version that takes the host down while it is on trial: everything dies at each of its starts.
#[test]
fn a_version_that_crashes_the_host_is_rejected() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.start();
    site.until("the agent", |site| site.living().pop());
    for (phase, word) in [(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "soaking")] {
        site.order("0.2.0", phase, |_| ());
        site.status_with(word, |status| status.node.phase.name() == word);
    }
    for crash in 1..=phase::MAX_CRASHES {
        let trial = |site: &mut Site| {
            let status = site.until("the trial", |site| {
                let status = site.status().filter(|status| status.version == "0.2.0")?;
                site.living().pop().map(|_| status)
            });
            assert_eq!((status.node.phase.name(), status.node.crashes), ("soaking", crash - 1));
        };
        trial(&mut site);
        // A reboot by a person does not count.
        site.signal(Signal::TERM);
        assert!(site.ended().success());
        site.start();
        trial(&mut site);
        site.power_cut();
        site.start();
    }
    let status = site.status_with("the old one", |s| s.version == "0.1.0" && s.node.phase.name() == "idle");
    let why = "the host or the watchdog crashed 3 times while 0.2.0 was on trial";
    assert_eq!(status.node.rejected.get("0.2.0").map(String::as_str), Some(why));
    let taken = site.until("the report", |site| site.report()?.taken.filter(|taken| taken.outcome.is_some()));
    assert_eq!((taken.outcome, taken.error.as_deref()), (Some(NodeOutcome::Failed), Some(why)));
}

/// A confirmed version that fails later, with no version before it: the one from the package runs in its place.
#[test]
fn a_degraded_node_runs_another_good_version_and_returns_by_hand() {
    let mut site = Site::new();
    site.release("0.2.0", "[ -e $ROOT/sick ] && exit 7; echo $VERSION > $ROOT/ready", "");
    site.start();
    site.roll_out("0.2.0");
    site.status_with("the renewed watchdog", |s| s.watchdog.as_ref().unwrap().version == "0.2.0");
    site.power_cut();
    let mut kept =
        zagent_config::json_file::read::<phase::NodeState>(&site.paths().phase()).unwrap().unwrap();
    assert_eq!(kept.previous.take().as_deref(), Some("0.1.0"));
    zagent_config::json_file::write(&site.paths().phase(), &kept).unwrap();
    site.write("sick", b"");
    site.start();
    let status = site.status_with("the built-in one", |s| s.version == "0.1.0" && s.child.is_some());
    assert_eq!(status.node.running, "0.2.0", "it stays the good one");
    let note = "0.2.0 keeps failing (it exited with code 7); 0.1.0 runs instead";
    assert!(status.notes.contains(&note.to_owned()), "{:?}", status.notes);
    let tried = site.starts().len();
    let status = site.status_with("healthy", |status| status.degraded.is_none() && status.child.is_some());
    assert_eq!((status.version.as_str(), site.starts().len()), ("0.1.0", tried));
    assert_eq!(status.watchdog.unwrap().version, "0.1.0", "it does not become what fails");
    site.until("the report", |site| {
        let report = site.report().filter(|report| report.version == "0.1.0")?;
        report.facts.get("zagent_notes")?.to_string().contains(note).then_some(())
    });
    // By hand, without a version before it: the built-in one is the good one from now on.
    let Some(WatchdogResponse::Done { words }) = site.ask(&back("it is sick")) else { panic!() };
    assert_eq!(words, "rolling back from 0.2.0 to 0.1.0");
    let status = site.status_with("back", |s| s.node.running == "0.1.0" && s.node.phase.name() == "idle");
    assert_eq!(status.node.rejected.get("0.2.0").map(String::as_str), Some("it is sick"));
    site.status_with("no note", |status| status.notes.is_empty() && status.child.is_some());
}

#[test]
fn when_every_version_fails_all_are_tried_again_and_again() {
    let mut site = Site::new();
    let sick = "echo $$ $VERSION >> $ROOT/starts; [ -e $ROOT/sick ] && exit 7; echo $VERSION > $ROOT/ready";
    site.release("0.1.0", sick, "");
    site.release("0.2.0", sick, "");
    site.start();
    site.roll_out("0.2.0");
    site.status_with("the renewed watchdog", |s| s.watchdog.as_ref().unwrap().version == "0.2.0");
    site.power_cut();
    site.write("sick", b"");
    std::fs::remove_file(site.path("starts")).unwrap();
    site.start();
    let turns = |site: &Site| {
        let mut versions: Vec<_> = site.starts().into_iter().map(|(_, version)| version).collect();
        versions.dedup();
        versions.join(" ")
    };
    site.until("two rounds", |site| turns(site).starts_with("0.2.0 0.1.0 0.2.0 0.1.0").then_some(()));
    let status = site.status_with("degraded", |status| status.degraded.is_some());
    assert!(status.notes.iter().any(|note| note.contains("keeps failing")), "{:?}", status.notes);
    std::fs::remove_file(site.path("sick")).unwrap();
    site.status_with("well", |status| status.degraded.is_none() && status.child.is_some());
}

#[test]
fn what_was_damaged_is_reported_until_a_version_is_confirmed() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.release("0.3.0", GOOD, "");
    site.start();
    for (phase, word) in [(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "soaking")] {
        site.order("0.2.0", phase, |_| ());
        site.status_with(word, |status| status.node.phase.name() == word);
    }
    site.power_cut();
    std::fs::write(site.paths().phase(), "").unwrap();
    let files = zagent_rollout::watchdog::status_from_files(&site.paths(), site.built_in()).unwrap();
    assert_eq!((files.version.as_str(), files.node.phase.name()), ("0.1.0", "rolling-back"));
    assert!(files.notes[0].contains("the trial of 0.2.0 ended, and 0.1.0"), "{:?}", files.notes);
    site.start();
    let taken = site.until("the report", |site| site.report()?.taken.filter(|taken| taken.outcome.is_some()));
    assert_eq!(taken.outcome, Some(NodeOutcome::Failed));
    assert!(taken.error.unwrap().starts_with("the watchdog lost its state during the trial: state/phase"));
    let report = site.report().unwrap();
    assert!(report.facts["zagent_notes"].to_string().contains("the trial of 0.2.0 ended"), "{report:#?}");
    assert!(site.paths().phase().with_extension("damaged").exists());
    // The note outlives the watchdog, and ends with the next good news.
    site.signal(Signal::TERM);
    assert!(site.ended().success());
    site.start();
    let status = site.status_with("idle", |s| s.node.phase.name() == "idle" && s.child.is_some());
    assert!(status.notes[0].starts_with("state/phase is damaged (EOF"), "{:?}", status.notes);
    assert!(status.node.rejected.is_empty(), "the version is not the cause");
    assert_eq!(site.roll_out("0.3.0").taken.unwrap().outcome, Some(NodeOutcome::Confirmed));
    site.status_with("no note", |status| status.notes.is_empty());
}

/// Every point between saving and doing.
const POINTS: [&str; 8] = [
    "watchdog::written",
    "watchdog::copied",
    "watchdog::decided",
    "watchdog::done",
    "watchdog::started",
    "watchdog::renewing",
    "slots::written",
    "slots::named",
];

/// Rolls out with a watchdog that dies when it passes a point for the n-th time; false when it never got that far.
fn cut(point: &str, n: usize, agent: &str, expected: NodeOutcome) -> bool {
    let mut site = Site::new();
    site.release("0.2.0", agent, "");
    site.die_at(format!("{point}={n}*off->return(abort)"));
    site.start();
    let first = site.pid();
    let report = site.roll_out("0.2.0");
    let taken = report.taken.unwrap();
    assert_eq!(taken.outcome, Some(expected), "{point} {n}: {taken:?}");
    let version = if expected == NodeOutcome::Confirmed { "0.2.0" } else { "0.1.0" };
    let mut died = site.pid() != first;
    let settled = site.until("peace", |site| {
        died |= site.revive();
        let status = site.status()?;
        let is_renewed = status.watchdog.as_ref()?.version == version;
        let living = site.living();
        let is_alone = living.len() == 1 && living[0].1 == version;
        (is_renewed && is_alone && status.node.phase.name() == "idle").then_some(status)
    });
    assert_eq!(settled.node.running, version, "{point} {n}");
    let other = if version == "0.1.0" { "0.2.0" } else { "0.1.0" };
    site.until("the slots", |site| {
        let there = site.paths().slot(version).exists() || version == "0.1.0";
        (there && !site.paths().slot(other).exists()).then_some(())
    });
    died
}

/// Dies at the first, second, third … time, until it passes less often.
fn cut_everywhere(agent: &str, expected: NodeOutcome) {
    std::thread::scope(|scope| {
        for point in POINTS {
            scope.spawn(move || {
                let times = (0..40).take_while(|n| cut(point, *n, agent, expected)).count();
                assert!(times < 40, "{point} is passed endlessly");
                let is_reached = times > 0;
                assert!(
                    is_reached || (point == "watchdog::renewing" && expected == NodeOutcome::Failed),
                    "{point}"
                );
            });
        }
    });
}

#[test]
fn a_power_failure_at_any_point_of_a_good_release_loses_nothing() {
    cut_everywhere(GOOD, NodeOutcome::Confirmed);
}

#[test]
fn a_power_failure_at_any_point_of_a_bad_release_loses_nothing() {
    cut_everywhere(EXITS, NodeOutcome::Failed);
}

/// Each phase is held until the watchdog died in it, and matches the saved state then.
#[test]
fn a_watchdog_killed_in_any_phase_is_replaced_by_one_that_continues() {
    for phase in ["preparing", "staged", "applying", "soaking", "rolling-back", "idle"] {
        let mut site = Site::new();
        // An agent that does not stop is replaced only by a kill.
        let stubborn = "echo $VERSION > $ROOT/ready; trap '' TERM";
        site.release("0.1.0", if phase == "applying" { stubborn } else { GOOD }, "");
        site.release("0.2.0", if phase == "rolling-back" { HANGS } else { GOOD }, "");
        match phase {
            "preparing" => site.write("slow", b""),
            "applying" | "rolling-back" => site.write("patient", b""),
            _ => {}
        }
        site.start();
        site.until("the agent", |site| site.living().pop());
        if phase != "idle" {
            let orders = if matches!(phase, "preparing" | "staged") { 1 } else { 2 };
            for (order, word) in
                [(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, phase)].iter().take(orders)
            {
                site.order("0.2.0", *order, |_| ());
                let word = if orders == 1 { phase } else { word };
                site.status_with(word, |status| status.node.phase.name() == word);
            }
        }
        site.kill();
        let kept = zagent_config::json_file::read::<phase::NodeState>(&site.paths().phase()).unwrap();
        assert_eq!(kept.map_or("idle", |kept| kept.phase.name()), phase);
        for name in ["slow", "patient"] {
            let _ = std::fs::remove_file(site.path(name));
        }
        site.start();
        let (outcome, version) = match phase {
            "rolling-back" => (NodeOutcome::Failed, "0.1.0"),
            _ => (NodeOutcome::Confirmed, "0.2.0"),
        };
        let report = site.roll_out("0.2.0");
        assert_eq!(report.taken.unwrap().outcome, Some(outcome), "{phase}");
        site.until("one agent", |site| {
            Some(site.living()).filter(|all| all.len() == 1 && all[0].1 == version)
        });
        assert_eq!(report.id, node());
    }
}

/// A real deadline is five minutes at least: the saved one is moved so that it is over soon.
#[test]
fn an_unconfirmed_version_is_rolled_back_without_a_driver() {
    let mut site = Site::new();
    site.release("0.2.0", GOOD, "");
    site.start();
    for (phase, word) in [(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "soaking")] {
        site.order("0.2.0", phase, |_| ());
        site.status_with(word, |status| status.node.phase.name() == word);
    }
    site.status_with("it is ready", |status| {
        matches!(status.node.phase, NodePhase::Soaking { ready_since: Some(_), .. })
    });
    // There is no driver to confirm, and no board to ask.
    site.write("offline", b"");
    site.kill();
    let mut kept =
        zagent_config::json_file::read::<phase::NodeState>(&site.paths().phase()).unwrap().unwrap();
    let NodePhase::Soaking { since, deadline, .. } = &mut kept.phase else { panic!("{kept:?}") };
    assert_eq!(deadline.duration_since(*since).as_secs(), 300, "three times no soak is five minutes");
    let late = jiff::SignedDuration::from_secs(298);
    (*since, *deadline) = (*since - late, *deadline - late);
    zagent_config::json_file::write(&site.paths().phase(), &kept).unwrap();
    site.start();
    let status = site.status_with("back", |s| s.version == "0.1.0" && s.node.phase.name() == "idle");
    let last = status.node.last.unwrap();
    assert_eq!(last.outcome, NodeOutcome::Failed);
    assert!(last.why.unwrap().contains("the driver did not confirm it within 5m"));
    assert!(status.node.rejected.is_empty(), "the version is not the cause");
    site.until("one agent", |site| Some(site.living()).filter(|all| all.len() == 1 && all[0].1 == "0.1.0"));
}
