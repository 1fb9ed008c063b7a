//! Calls to real servers on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use jiff::Timestamp;
use zagent_config::settings::WebhookOccasion;

use super::*;

/// A received request: headers in lower case, and the body.
type Request = (Vec<String>, Vec<u8>);

/// Answers calls with these status lines, one each, and returns what it received.
fn server(answers: &'static [&'static str]) -> (SocketAddr, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut headers = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                headers.push(line.trim().to_lowercase());
            }
            let length = headers.iter().find_map(|h| h.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            sender.send((headers, body)).unwrap();
            let location = if answer.starts_with('3') { "Location: /elsewhere\r\n" } else { "" };
            write!(stream, "HTTP/1.1 {answer}\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
        }
    });
    (address, receiver)
}

fn hook(address: SocketAddr, on: &[WebhookOccasion]) -> WebhookSettings {
    let url = format!("http://bot:s3cret@{address}/hooks/t0ken");
    WebhookSettings {
        url,
        on: on.to_vec(),
        timeout: Duration::from_secs(20),
        secret_file: None,
        kind: WebhookKind::Json,
        token_file: None,
    }
}

fn event() -> NotifyEvent {
    zagent_config::mask::hide_in_messages(&["hunter2".into()]);
    NotifyEvent::new(
        "web-01",
        "abc",
        &[WebhookOccasion::Failure],
        Some("it is hunter2"),
        Timestamp::UNIX_EPOCH,
    )
}

fn pace(tries: usize) -> WebhookBackoff {
    WebhookBackoff { delays: vec![Duration::ZERO; tries - 1], total_timeout: Duration::from_secs(30) }
}

fn told(webhook: &WebhookSettings, pace: &WebhookBackoff) -> Vec<String> {
    let failed =
        send_all(std::slice::from_ref(webhook), &event(), pace, &Arc::new(CancelToken::new())).join();
    failed.iter().map(|e| error_chain(e)).collect()
}

#[test]
fn an_event_is_sent_signed_and_without_secrets() {
    let (address, requests) = server(&["204 No Content"]);
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "key\n").unwrap();
    let webhook = WebhookSettings {
        secret_file: Some(secret.path().into()),
        ..hook(address, &[WebhookOccasion::Failure])
    };
    assert_eq!(told(&webhook, &pace(1)), Vec::<String>::new());
    let (headers, body) = requests.recv().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&json["event"], &json["node"]), (&"failure".into(), &"web-01".into()));
    assert_eq!(json["message"], "it is ********");
    assert!(headers.contains(&"content-type: application/json".into()), "{headers:?}");
    assert!(headers.contains(&"x-zagent-event: failure".into()), "{headers:?}");
    let signature = headers.iter().find_map(|h| h.strip_prefix("x-zagent-signature: ")).unwrap();
    assert_eq!(signature, sign(b"key", &body));
    // The well-known example of HMAC-SHA256.
    assert_eq!(
        sign(b"key", b"The quick brown fox jumps over the lazy dog"),
        "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    );
}

#[test]
fn temporary_errors_are_retried_and_permanent_ones_are_not() {
    let (address, requests) = server(&["503 Busy", "429 Slow", "200 OK"]);
    assert!(told(&hook(address, &[WebhookOccasion::Always]), &pace(3)).is_empty());
    assert_eq!(requests.iter().take(3).count(), 3);
    let (address, _requests) = server(&["500 Oops", "500 Oops", "500 Oops"]);
    let said = told(&hook(address, &[WebhookOccasion::Failure]), &pace(3));
    assert_eq!(said, [format!("the webhook at `{address}` responded with 500 (3 attempts)")]);
    let (address, _requests) = server(&["404 No"]);
    let said = told(&hook(address, &[WebhookOccasion::Failure]), &pace(3));
    assert_eq!(said, [format!("the webhook at `{address}` responded with 404 (1 attempts)")]);
    let (address, _requests) = server(&["302 Away"]);
    let said = told(&hook(address, &[WebhookOccasion::Failure]), &pace(3));
    assert_eq!(said, [format!("the webhook at `{address}` responded with 302 (1 attempts)")]);
}

#[test]
fn webhooks_that_did_not_subscribe_are_not_called() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(told(&hook(address, &[WebhookOccasion::Change, WebhookOccasion::Rollback]), &pace(1)).is_empty());
    assert!(listener.accept().is_err(), "nobody called");
}

#[test]
fn an_unreachable_webhook_is_reported_without_its_address() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = told(&hook(address, &[WebhookOccasion::Failure]), &pace(2)).join("\n");
    assert!(
        said.starts_with(&format!("the webhook at `{address}` cannot be reached (2 attempts): ")),
        "{said}"
    );
    assert!(!said.contains("s3cret") && !said.contains("t0ken"), "{said}");
}

#[test]
fn a_silent_server_does_not_delay_the_agent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let webhook = hook(listener.local_addr().unwrap(), &[WebhookOccasion::Failure]);
    let begin = Instant::now();
    let pace = WebhookBackoff {
        delays: vec![Duration::from_secs(100); 9],
        total_timeout: Duration::from_millis(200),
    };
    assert_eq!(told(&webhook, &pace).len(), 1);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[test]
fn without_its_secret_a_webhook_is_not_called() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let empty = tempfile::NamedTempFile::new().unwrap();
    for path in [Path::new("/nowhere/at/all"), empty.path()] {
        let asked = hook(listener.local_addr().unwrap(), &[WebhookOccasion::Failure]);
        let webhook = WebhookSettings { secret_file: Some(path.into()), ..asked };
        let said = told(&webhook, &pace(2)).join("\n");
        assert!(said.contains("was not called: cannot read its secret"), "{said}");
    }
    assert!(listener.accept().is_err(), "nobody called");
}

#[test]
fn a_commit_gets_a_status_on_its_forge() {
    let commit = "3f2a1b9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f6";
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "T0ken\n").unwrap();
    for (kind, path, header, key, word) in [
        (
            WebhookKind::GithubStatus,
            "/repos/a/b/statuses/",
            "authorization: bearer t0ken",
            "context",
            "failure",
        ),
        (WebhookKind::GitlabStatus, "/api/v4/projects/7/statuses/", "private-token: t0ken", "name", "failed"),
    ] {
        let (address, requests) = server(&["201 Created"]);
        let webhook = WebhookSettings {
            url: format!("http://{address}{path}{{revision}}"),
            kind,
            token_file: Some(token.path().into()),
            ..hook(address, &[WebhookOccasion::Always])
        };
        let send = |revision: &str, success: bool| {
            let run = zagent_run::samples::failed();
            let run = zagent_run::RunReport { revision: revision.into(), canceled: !success, ..run };
            let event = NotifyEvent::from_run(&run, &[WebhookOccasion::Failure], None);
            send_all(std::slice::from_ref(&webhook), &event, &pace(1), &Arc::new(CancelToken::new())).join()
        };
        // What is no commit has no status: nothing is sent, and the one answer of the server is left for the next.
        assert!(send("/srv/states", false).is_empty());
        assert!(send(commit, false).is_empty());
        let (headers, body) = requests.recv().unwrap();
        assert_eq!(headers[0], format!("post {path}{commit} http/1.1"));
        assert!(headers.contains(&header.to_owned()), "{headers:?}");
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (json["state"].as_str(), json[key].as_str()),
            (Some(word), Some("zagent/web-01")),
            "{json:#}"
        );
        assert!(json["description"].as_str().is_some_and(|text| text.contains("failed")), "{json:#}");
    }
}
