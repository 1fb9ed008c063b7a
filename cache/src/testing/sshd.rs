//! An SSH server on this machine, for one user and one key.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that stops when this value is dropped.
pub struct Sshd {
    dir: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl Sshd {
    /// Starts a server; `None` when this machine has no SSH server.
    #[must_use]
    pub fn start() -> Option<Self> {
        let program = Path::new("/usr/sbin/sshd");
        if !program.exists() {
            return None;
        }
        // It does not start without the directory for its unprivileged part.
        let _ = std::fs::create_dir_all("/run/sshd");
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["host", "key", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(name))
                .status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(at("key.pub"), at("authorized")).unwrap();
        // The port may be taken before the server starts; then another one is tried.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let config = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
                 StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n\
                 PermitRootLogin yes\nAcceptEnv GIT_PROTOCOL\n",
                at("host").display(),
                at("authorized").display(),
            );
            std::fs::write(at("config"), config).unwrap();
            let mut child = Command::new(program)
                .args(["-D", "-e", "-f"])
                .arg(at("config"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            if listens(port, &mut child) {
                let public = std::fs::read_to_string(at("host.pub")).unwrap();
                std::fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {public}")).unwrap();
                let stranger = std::fs::read_to_string(at("stranger.pub")).unwrap();
                std::fs::write(at("other_hosts"), format!("[127.0.0.1]:{port} {stranger}")).unwrap();
                std::fs::write(at("no_hosts"), "").unwrap();
                std::fs::set_permissions(at("key"), PermissionsExt::from_mode(0o600)).unwrap();
                return Some(Self { dir, child, port });
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("the SSH server does not start");
    }

    /// The URL of a repository.
    #[must_use]
    pub fn url(&self, path: &Path) -> String {
        format!("ssh://127.0.0.1:{}{}", self.port, path.display())
    }

    /// A file of it: `key`, `stranger`, `known_hosts`, `other_hosts`, `no_hosts`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listens(port: u16, child: &mut Child) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end && child.try_wait().is_ok_and(|ended| ended.is_none()) {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
