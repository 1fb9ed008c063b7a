//! Checks against real servers and commands of this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use zagent_config::settings::HealthProbe;

use super::*;

/// Answers each connection with the next of these, repeating the last one; sends nothing for an empty text.
fn server(answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for (i, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let answer = answers[i.min(answers.len() - 1)];
            if answer.is_empty() {
                held.push(stream);
                continue;
            }
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

fn health(name: &str, check: HealthProbe, tries: usize) -> HealthSettings {
    HealthSettings { name: name.into(), check, required: true, timeout: Duration::from_secs(20), tries }
}

fn http(address: SocketAddr) -> HealthProbe {
    HealthProbe::Http(format!("http://{address}/healthz"))
}

fn run(checks: &[HealthSettings]) -> Vec<(bool, String, usize)> {
    let verdicts = run_checks(&Machine::this_host(), checks, Duration::ZERO, &Arc::new(CancelToken::new()));
    verdicts.into_iter().map(|v| (v.ok, v.said, v.tries)).collect()
}

/// An address without a listener.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn every_kind_is_checked_and_results_are_in_order() {
    let checks = [
        health("up", http(server(&["204 No Content"])), 1),
        health("down", http(server(&["503 Service Unavailable"])), 2),
        health("late", http(server(&["500 Oops", "500 Oops", "200 OK"])), 3),
        health("port", HealthProbe::Tcp(server(&["200 OK"]).to_string()), 1),
        health("closed", HealthProbe::Tcp(nobody().to_string()), 1),
        health("true", HealthProbe::Command("test -d / && true".into()), 1),
        health("false", HealthProbe::Command("echo; echo 'disk full' >&2; exit 3".into()), 1),
        health("none", HealthProbe::Command("no-such-program-anywhere".into()), 1),
    ];
    let got = run(&checks);
    let fine = |said: &str, tries| (true, said.to_owned(), tries);
    let bad = |said: &str, tries| (false, said.to_owned(), tries);
    assert_eq!(got[0], fine("answered 204", 1));
    assert_eq!(got[1], bad("answered 503", 2));
    assert_eq!(got[2], fine("answered 200", 3));
    assert_eq!(got[3], fine("accepts connections", 1));
    assert!(!got[4].0 && got[4].1.contains("refused"), "{got:?}");
    assert_eq!(got[5], fine("exited with 0", 1));
    assert_eq!(got[6], bad("exited with 3: disk full", 1));
    assert!(!got[7].0 && got[7].1.starts_with("exited with 127"), "{got:?}");
}

#[test]
fn a_password_in_an_address_is_not_printed() {
    let url = format!("http://bot:s3cret@{}/", nobody());
    let got = run(&[health("web", HealthProbe::Http(url), 1)]);
    assert!(!got[0].0 && !got[0].1.contains("s3cret"), "{got:?}");
}

#[test]
fn a_hanging_check_is_abandoned() {
    let quick = |check| HealthSettings { timeout: Duration::from_millis(150), ..health("x", check, 1) };
    let got = run(&[quick(http(server(&[""]))), quick(HealthProbe::Command("sleep 100".into()))]);
    assert!(got.iter().all(|(ok, _, tries)| !ok && *tries == 1), "{got:?}");
    assert!(got[0].1.contains("timeout"), "{got:?}");
    assert_eq!(got[1].1, "took longer than 150ms");
}

#[test]
fn stopping_the_agent_stops_the_checks() {
    let cancel = Arc::new(CancelToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let web = http(listener.local_addr().unwrap());
    let checks = [health("web", web, 5), health("cmd", HealthProbe::Command("sleep 100".into()), 5)];
    let begin = Instant::now();
    let verdicts = std::thread::scope(|scope| {
        let round =
            scope.spawn(|| run_checks(&Machine::this_host(), &checks, Duration::from_secs(60), &cancel));
        // Connected, and never answered.
        let _held = listener.accept().unwrap();
        cancel.cancel();
        round.join().unwrap()
    });
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert!(verdicts.iter().all(|v| !v.ok));
    assert_eq!(verdicts[0].said, "stopped before it had a result");
}

#[test]
fn only_checks_that_passed_before_count() {
    let verdict = |name: &str, required, ok| HealthResult {
        name: name.into(),
        required,
        ok,
        said: "answered 503".into(),
        tries: 1,
    };
    let before = [
        verdict("web", true, true),
        verdict("old", true, false),
        verdict("nice", false, true),
        verdict("ok", true, true),
    ];
    let after = [
        verdict("web", true, false),
        verdict("old", true, false),
        verdict("nice", false, false),
        verdict("ok", true, true),
        verdict("new", true, false),
    ];
    let worse = find_regressions(&before, &after);
    assert_eq!(worse.required, [verdict("web", true, false)]);
    assert_eq!(worse.wanted, [verdict("nice", false, false)]);
    assert!(worse.requires_rollback());
    assert_eq!(
        worse.summary(),
        "health check web failed: answered 503; health check nice failed: answered 503"
    );
    assert!(!find_regressions(&before, &before).requires_rollback());
    assert!(!find_regressions(&[], &after).requires_rollback());
}

/// With systemd the unit is inactive, without it the state is unknown: it never passes.
#[test]
fn a_missing_unit_does_not_pass() {
    let got = run(&[health("unit", HealthProbe::Unit("no-such-unit-anywhere.service".into()), 1)]);
    let known = ["is inactive", "systemctl exited with", "cannot start `systemctl`"];
    assert!(!got[0].0 && known.iter().any(|said| got[0].1.starts_with(said)), "{got:?}");
}

#[test]
fn without_checks_there_are_no_regressions() {
    assert!(run(&[]).is_empty());
}
