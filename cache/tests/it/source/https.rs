//! Encryption with our own certificate authority.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zagent_cache::source::{CommitDraft, PreparedCommit, PushOutcome, RefStore, SourceErrorKind};
use zagent_cache::testing::{GitHttpServer, judged, test_source};

use super::fixture::{RemoteFixture, client, head, long_deadline, read_top};

fn openssl(dir: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn encrypted(root: &Path, dir: &Path) -> GitHttpServer {
    openssl(
        dir,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
    );
    openssl(
        dir,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=here -keyout key.pem -out request.pem",
    );
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        dir,
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem",
    );
    let certificates =
        CertificateDer::pem_file_iter(dir.join("cert.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    GitHttpServer::start_with(
        root,
        Box::new(move |stream| {
            let connection = rustls::ServerConnection::new(config.clone()).ok()?;
            Some(Box::new(rustls::StreamOwned::new(connection, stream)))
        }),
    )
}

#[test]
fn a_private_authority_is_trusted_only_when_configured() {
    zagent_cache::needs!("openssl");
    let (fixture, first) = RemoteFixture::with_commit();
    let server = encrypted(fixture.scratch.path().parent().unwrap(), fixture.dir.path());
    let name = fixture.scratch.path().file_name().unwrap().to_str().unwrap();
    let url = server.url(name).replace("http://", "https://");
    let mut settings = test_source(&url);
    settings.remotes[0].ca = Some(fixture.dir.path().join("ca.pem"));
    let (mut good, store) = (client(&settings), fixture.store("store"));
    for _ in 0..3 {
        assert_eq!(head(&mut good).unwrap(), Some(first.clone()));
    }
    assert_eq!(server.connections(), 1);
    good.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
    assert_eq!(read_top(&store, &first), "one");

    let error = head(&mut client(&test_source(&url))).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Tls, "{error:?}");
    assert!(error.to_string().contains("set `ca`"), "{error}");

    settings.remotes[0].url = server.url(&format!("plain/{name}")).replace("http://", "https://");
    let error = head(&mut client(&settings)).unwrap_err();
    assert!(error.to_string().contains("drop encryption"), "{error}");

    settings.remotes[0].url = fixture.url("").replace("http://", "https://");
    let error = head(&mut client(&settings)).unwrap_err();
    assert!(
        matches!(error.kind, SourceErrorKind::Tls | SourceErrorKind::Unreachable),
        "a plain server: {error:?}"
    );

    for (ca, word) in [("names", "contains no PEM certificate"), ("none", "cannot read")] {
        settings.remotes[0].ca = Some(fixture.dir.path().join(ca));
        let error = zagent_cache::source::RemoteClient::new(&settings.remotes[0], &settings).err().unwrap();
        assert_eq!(error.kind, SourceErrorKind::Local);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_push_goes_over_https_too() {
    zagent_cache::needs!("openssl", "git");
    let dir = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let done = Command::new("git").arg("-C").arg(dir.path()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q", "--bare", "board.git"]);
    git(&["--git-dir=board.git", "config", "http.receivepack", "true"]);
    let server = encrypted(dir.path(), dir.path());
    let mut settings = test_source(&server.url("board.git").replace("http://", "https://"));
    let scratch = || dir.path().join("scratch");
    let draft = CommitDraft {
        files: &[("b", b"two"), ("a", b"one")],
        parents: &[],
        message: "two files",
        author: "somebody",
        at: jiff::Timestamp::UNIX_EPOCH,
        signer: None,
    };
    let sheet = PreparedCommit::build(&draft).unwrap();
    let untrusted = RefStore::new(&settings.remotes[0], &settings, scratch()).unwrap().update(
        "refs/x/y",
        None,
        &sheet,
        long_deadline(),
    );
    assert_eq!(untrusted.unwrap_err().kind, SourceErrorKind::Tls);
    settings.remotes[0].ca = Some(dir.path().join("ca.pem"));
    let mut shelf = RefStore::new(&settings.remotes[0], &settings, scratch()).unwrap();
    assert!(matches!(shelf.update("refs/x/y", None, &sheet, long_deadline()).unwrap(), PushOutcome::Done));
    assert!(matches!(shelf.update("refs/x/y", None, &sheet, long_deadline()).unwrap(), PushOutcome::Stale));
    assert!(shelf.update("no ref", None, &sheet, long_deadline()).is_err());
    let listed = shelf.list(&["refs/x/".into()], long_deadline()).unwrap();
    assert_eq!(listed.get("refs/x/y"), Some(sheet.revision()));
    let taken = shelf.fetch(&[sheet.revision().clone()], long_deadline()).unwrap();
    assert_eq!(taken.file_names(sheet.revision()).unwrap(), ["a", "b"]);
    assert_eq!(taken.read_file(sheet.revision(), "a").unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(taken.read_file(sheet.revision(), "c").unwrap(), None);
    assert!(matches!(
        shelf.remove("refs/x/y", sheet.revision(), long_deadline()).unwrap(),
        PushOutcome::Done
    ));
    assert!(shelf.list(&["refs/x/".into()], long_deadline()).unwrap().is_empty());
    assert_eq!(git(&["--git-dir=board.git", "fsck", "--no-dangling"]).trim(), "");
    let bad = CommitDraft { files: &[("../a", b"")], ..draft };
    assert!(PreparedCommit::build(&bad).is_err());
}
