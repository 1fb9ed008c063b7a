//! Encryption with an authority of our own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zagent_cache::source::Kind;
use zagent_cache::testing::{Server, source};

use crate::fixture::{Fixture, ample, client, head, top};

fn openssl(dir: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn encrypted(root: &Path, dir: &Path) -> Server {
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
    Server::start_with(
        root,
        Box::new(move |stream| {
            let connection = rustls::ServerConnection::new(config.clone()).ok()?;
            Some(Box::new(rustls::StreamOwned::new(connection, stream)))
        }),
    )
}

#[test]
fn our_own_authority_is_trusted_when_it_is_named_and_only_then() {
    zagent_cache::needs!("openssl");
    let (fixture, first) = Fixture::with_commit();
    let server = encrypted(fixture.scratch.path().parent().unwrap(), fixture.dir.path());
    let name = fixture.scratch.path().file_name().unwrap().to_str().unwrap();
    let url = server.url(name).replace("http://", "https://");
    let mut settings = source(&url);
    settings.remotes[0].ca = Some(fixture.dir.path().join("ca.pem"));
    let (mut good, store) = (client(&settings), fixture.store("store"));
    for _ in 0..3 {
        assert_eq!(head(&mut good).unwrap(), Some(first.clone()));
    }
    assert_eq!(server.connections(), 1);
    good.fetch(&store, "main", &first, ample()).unwrap();
    assert_eq!(top(&store, &first), "one");

    let error = head(&mut client(&source(&url))).unwrap_err();
    assert_eq!(error.kind, Kind::Tls, "{error:?}");
    assert!(error.to_string().contains("set `ca`"), "{error}");

    settings.remotes[0].url = server.url(&format!("plain/{name}")).replace("http://", "https://");
    let error = head(&mut client(&settings)).unwrap_err();
    assert!(error.to_string().contains("give up encryption"), "{error}");

    settings.remotes[0].url = fixture.url("").replace("http://", "https://");
    let error = head(&mut client(&settings)).unwrap_err();
    assert!(matches!(error.kind, Kind::Tls | Kind::Unreachable), "a plain server: {error:?}");

    for (ca, word) in [("names", "holds no certificate"), ("none", "cannot read")] {
        settings.remotes[0].ca = Some(fixture.dir.path().join(ca));
        let error = zagent_cache::source::Client::new(&settings.remotes[0], &settings).err().unwrap();
        assert_eq!(error.kind, Kind::Local);
        assert!(error.to_string().contains(word), "{error}");
    }
}
