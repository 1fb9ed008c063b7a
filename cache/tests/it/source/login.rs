//! Servers that ask for credentials.

use std::time::Duration;

use zagent_cache::source::{Deadline, SourceErrorKind};
use zagent_cache::testing::{judged, test_source};
use zagent_config::settings::SourceSettings;

use super::fixture::{RemoteFixture, client, head, long_deadline, read_top};

fn with(fixture: &RemoteFixture, mode: &str, edit: impl FnOnce(&mut SourceSettings)) -> SourceSettings {
    let mut settings = test_source(&fixture.url(mode));
    edit(&mut settings);
    settings
}

fn file(fixture: &RemoteFixture, name: &str, text: &str) -> std::path::PathBuf {
    let path = fixture.dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn tokens_logins_and_helpers_give_access() {
    let (fixture, first) = RemoteFixture::with_commit();
    let token = file(&fixture, "token", "tok\n");
    let inside = fixture.url("auth").replace("http://", "http://user:tok@");
    let all = [
        with(&fixture, "auth", |s| {
            s.remotes[0].token_file = Some(token.clone());
            s.remotes[0].user = Some("user".into());
        }),
        with(&fixture, "bearer", |s| s.remotes[0].token_file = Some(token.clone())),
        with(&fixture, "auth", |s| s.remotes[0].url = inside.clone()),
        with(&fixture, "auth", |s| {
            s.remotes[0].credential_helper = Some("!echo username=user; echo password=tok; true".into());
        }),
    ];
    for (n, settings) in all.iter().enumerate() {
        let mut client = client(settings);
        assert!(!client.url().contains("tok"));
        assert_eq!(head(&mut client).unwrap(), Some(first.clone()), "{n}");
        let _ = fixture.server.log();
        assert_eq!(head(&mut client).unwrap(), Some(first.clone()));
        assert_eq!(fixture.server.log().len(), 1, "the login is kept");
        let store = fixture.store(&format!("store{n}"));
        client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &first), "one");
    }
}

#[test]
fn a_login_error_does_not_show_the_secret() {
    let (fixture, _) = RemoteFixture::with_commit();
    let wrong = file(&fixture, "token", "hunter2");
    let empty = file(&fixture, "empty", "\n");
    for (settings, kind, word) in [
        (with(&fixture, "auth", |_| {}), SourceErrorKind::Denied, "set `token_file`"),
        (
            with(&fixture, "auth", |s| s.remotes[0].token_file = Some(wrong.clone())),
            SourceErrorKind::Denied,
            "refuses",
        ),
        (
            with(&fixture, "denied", |s| s.remotes[0].token_file = Some(wrong.clone())),
            SourceErrorKind::Denied,
            "refuses",
        ),
        (
            with(&fixture, "auth", |s| s.remotes[0].token_file = Some(empty.clone())),
            SourceErrorKind::Local,
            "one line",
        ),
        (
            with(&fixture, "auth", |s| s.remotes[0].token_file = Some("/none".into())),
            SourceErrorKind::Local,
            "/none",
        ),
        (
            with(&fixture, "auth", |s| s.remotes[0].credential_helper = Some("!echo no >&2; true".into())),
            SourceErrorKind::Local,
            "no",
        ),
    ] {
        let error = head(&mut client(&settings)).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    assert!(fixture.server.log().len() < 20, "the client stops retrying when access stays denied");
}

#[test]
fn a_token_that_was_replaced_is_read_again() {
    let (fixture, first) = RemoteFixture::with_commit();
    let token = file(&fixture, "token", "old");
    let settings = with(&fixture, "bearer", |s| s.remotes[0].token_file = Some(token.clone()));
    let mut client = client(&settings);
    assert_eq!(head(&mut client).unwrap_err().kind, SourceErrorKind::Denied);
    std::fs::write(&token, "tok").unwrap();
    assert_eq!(head(&mut client).unwrap(), Some(first));
}

#[test]
fn a_redirect_to_another_host_gets_no_login() {
    let (fixture, _) = RemoteFixture::with_commit();
    let token = file(&fixture, "token", "tok");
    let settings = with(&fixture, "away", |s| {
        s.remotes[0].token_file = Some(token.clone());
        s.remotes[0].user = Some("user".into());
    });
    let error = head(&mut client(&settings)).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("another host"), "{error}");
    assert!(fixture.server.log().iter().all(|line| !line.contains("Basic")));
}

#[test]
fn a_login_is_not_sent_in_clear_text() {
    // An address for documentation, which nobody uses; the proxy replaces the server.
    let (fixture, _) = RemoteFixture::with_commit();
    let mut settings = test_source("http://user:tok@192.0.2.1/denied/x");
    settings.remotes[0].proxy = Some(fixture.server.url("").trim_end_matches('/').to_owned());
    let error = client(&settings).poll(&["main"], Deadline::after(Duration::from_secs(5))).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("use https"), "{error}");
    assert!(fixture.server.log().iter().all(|line| !line.contains("Basic")));
}

#[test]
fn a_proxy_reaches_the_server() {
    let (fixture, first) = RemoteFixture::with_commit();
    let name = fixture.scratch.path().file_name().unwrap().to_str().unwrap();
    let mut settings = test_source(&format!("http://192.0.2.1/{name}"));
    settings.remotes[0].proxy = Some(fixture.server.url("").trim_end_matches('/').to_owned());
    let (mut through, store) = (client(&settings), fixture.store("store"));
    assert_eq!(head(&mut through).unwrap(), Some(first.clone()));
    through.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &first), "one");
    settings.remotes[0].proxy = Some("::".into());
    let error = zagent_cache::source::RemoteClient::new(&settings.remotes[0], &settings).err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Local, "{error}");
}
