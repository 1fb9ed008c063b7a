//! A real SSH server on this machine.

use zagent_cache::source::SourceErrorKind;
use zagent_cache::testing::{Sshd, judged, test_source};

use super::fixture::{RemoteFixture, client, head, long_deadline, read_top};

fn sshd() -> Option<Sshd> {
    let sshd = Sshd::start();
    assert!(sshd.is_some() || std::env::var_os("CI").is_none(), "this suite needs an SSH server");
    sshd
}

#[test]
fn a_commit_is_fetched_through_ssh_by_key_and_known_host_only() {
    let Some(sshd) = sshd() else {
        return;
    };
    let (mut fixture, first) = RemoteFixture::with_commit();
    let mut settings = test_source(&sshd.url(fixture.scratch.path()));
    settings.remotes[0].key = Some(sshd.file("key"));
    settings.remotes[0].known_hosts = Some(sshd.file("known_hosts"));
    let (mut good, store) = (client(&settings), fixture.store("store"));
    assert_eq!(head(&mut good).unwrap(), Some(first.clone()));
    good.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &first), "one");
    let second = fixture.commit("two");
    good.fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &second), "two");

    for (key, hosts, kind, word) in [
        ("key", "no_hosts", SourceErrorKind::HostKey, "unknown"),
        ("key", "other_hosts", SourceErrorKind::HostKey, "does not match"),
        ("stranger", "known_hosts", SourceErrorKind::Denied, "denies access"),
    ] {
        let mut settings = settings.clone();
        settings.remotes[0].key = Some(sshd.file(key));
        settings.remotes[0].known_hosts = Some(sshd.file(hosts));
        let error = head(&mut client(&settings)).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(word) && error.to_string().contains("ssh://127.0.0.1"), "{error}");
    }
    settings.remotes[0].url = sshd.url(std::path::Path::new("/no/such/repository"));
    let error = head(&mut client(&settings)).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::NoRepository, "{error}");
    settings.remotes[0].url = "ssh://127.0.0.1:1/x".into();
    assert_eq!(head(&mut client(&settings)).unwrap_err().kind, SourceErrorKind::Unreachable);
}
