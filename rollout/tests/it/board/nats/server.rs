//! A NATS server on this machine, open or with TLS and keys, that stops with its value.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// A server.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts one on a port, or on any port with -1; `more` is added to its configuration.
    pub(super) fn start(dir: &Path, port: i32, more: &str) -> Self {
        let config = dir.join("server.conf");
        let store = dir.join("store");
        let text = format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {store:?} }}\n{more}\n");
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new("nats-server")
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut server = Self { child, port: 0 };
        let mut said = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, port)) = line.split_once("Listening for client connections on 127.0.0.1:") {
                server.port = port.trim().parse().unwrap();
            }
            if line.contains("Server is ready") {
                // It must never wait for a reader.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
                return server;
            }
            said.push_str(&line);
            said.push('\n');
        }
        panic!("nats-server did not start:\n{said}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn openssl(dir: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A certificate authority and a certificate for 127.0.0.1; returns the server configuration.
pub(super) fn tls(dir: &Path) -> String {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(dir, &format!("req -x509 {key} -days 2 -subj /CN=ca -keyout ca.key -out ca.pem"));
    openssl(dir, &format!("req {key} -subj /CN=here -keyout key.pem -out request.pem"));
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        dir,
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem",
    );
    format!("tls {{ cert_file: {:?}, key_file: {:?} }}", dir.join("cert.pem"), dir.join("key.pem"))
}

fn token(issuer: &KeyPair, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

fn claims(issuer: &KeyPair, subject: &KeyPair, nats: Value) -> Value {
    let (iss, sub) = (issuer.public_key(), subject.public_key());
    json!({"jti": sub, "iat": 1, "iss": iss, "sub": sub, "name": "test", "nats": nats})
}

/// An operator, an account and a user; returns the server configuration and the file with the user's credentials.
pub(super) fn keys(dir: &Path) -> (String, PathBuf) {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let by_operator =
        token(&operator, &claims(&operator, &operator, json!({"type": "operator", "version": 2})));
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let nats = json!({"type": "account", "version": 2, "limits": limits});
    let of_account = token(&operator, &claims(&operator, &account, nats.clone()));
    let system = KeyPair::new_account();
    let mut of_system = claims(&operator, &system, nats);
    for limit in ["mem_storage", "disk_storage", "streams", "consumer"] {
        // The system account has no storage.
        of_system["nats"]["limits"][limit] = json!(0);
    }
    let of_system = token(&operator, &of_system);
    let nats = json!({
        "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {},
    });
    let of_user = token(&account, &claims(&account, &user, nats));
    let config = format!(
        "operator: {by_operator}\nsystem_account: {system}\nresolver: MEMORY\n\
         resolver_preload: {{ {}: {of_account}, {system}: {of_system} }}",
        account.public_key(),
        system = system.public_key(),
    );
    let path = dir.join("user.creds");
    let seed = user.seed().unwrap();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    std::fs::write(&path, text).unwrap();
    (config, path)
}
