//! A managing node and ssh servers on loopback, each with a configuration of its own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::node::eventually;

/// What the program said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Said {
    /// The report as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The states of a report: key, result and comment.
    pub(super) fn states(&self) -> Vec<(String, Option<bool>, String)> {
        let report = self.json();
        let states = report["states"].as_object().unwrap_or_else(|| panic!("{self:?}"));
        let state = |(key, state): (&String, &serde_json::Value)| {
            (key.clone(), state["result"].as_bool(), state["comment"].as_str().unwrap_or_default().to_owned())
        };
        states.iter().map(state).collect()
    }
}

/// The node, its tree and its servers; all of it ends with this value.
pub(super) struct Site {
    dir: TempDir,
    servers: Vec<Child>,
    /// Lines of the mapping `hosts`.
    hosts: String,
    /// More pillar of the node.
    pub(super) pillar: String,
}

/// The program as it is sent: without debug information, it is half as large.
fn small_program() -> &'static Path {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
        let to = dir.path().join(format!("zagent-{machine}"));
        let from = env!("CARGO_BIN_EXE_zagent");
        let stripped = Command::new("strip").arg("-o").arg(&to).arg(from).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(from, &to).unwrap();
        }
        dir
    });
    dir.path()
}

impl Site {
    /// A node without resources; `None` when this machine has no ssh server.
    pub(super) fn new() -> Option<Self> {
        if !Path::new("/usr/sbin/sshd").exists() {
            return None;
        }
        // It does not start without the directory for its unprivileged part.
        let _ = fs::create_dir_all("/run/sshd");
        let site = Self {
            dir: tempfile::tempdir().unwrap(),
            servers: Vec::new(),
            hosts: String::new(),
            pillar: String::new(),
        };
        for name in ["host", "key", "other"] {
            site.keygen(name, "");
        }
        fs::copy(site.path("key.pub"), site.path("authorized")).unwrap();
        site.write("pillar/top.sls", "base:\n  mgr: [resources]\n  '*': [all]\n");
        site.write("pillar/all.sls", "who: everybody\n");
        site.write(
            "node.yaml",
            &format!(
                "id: mgr\nroot: {}\nresources: {{binaries: {}, jobs: 20, timeout: 100s}}\n",
                site.path("root").display(),
                small_program().display()
            ),
        );
        site.write("known_hosts", "");
        site.write("states/top.sls", "base: {'*': [web]}\n");
        site.write("states/web.sls", "nothing:\n  test.nop: []\n");
        Some(site)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn keygen(&self, name: &str, passphrase: &str) {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", passphrase, "-f"]).arg(self.path(name));
        assert!(command.status().unwrap().success());
    }

    /// Starts a server with more lines in its configuration; `prelude` is a shell command before it, in a mount namespace of its
    /// own. Gives its port.
    pub(super) fn server(&mut self, more: &str, prelude: &str) -> u16 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |name: &str| self.path(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin yes\n\
             LogLevel VERBOSE\nMaxStartups 100\n{more}",
            at("host"),
            at("authorized")
        );
        self.write(&format!("sshd-{port}"), &config);
        let log = at(&format!("log-{port}"));
        let script = format!("{prelude}\nexec /usr/sbin/sshd -D -E {log} -f {}", at(&format!("sshd-{port}")));
        let mut command = match prelude.is_empty() {
            true => Command::new("sh"),
            false => Command::new("unshare"),
        };
        if !prelude.is_empty() {
            command.args(["-m", "sh", "-e"]);
        }
        let child = command.arg("-c").arg(script).stdin(Stdio::null()).spawn().unwrap();
        self.servers.push(child);
        eventually("the ssh server listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        let public = fs::read_to_string(self.path("host.pub")).unwrap();
        let known = fs::read_to_string(self.path("known_hosts")).unwrap();
        self.write("known_hosts", &format!("{known}[127.0.0.1]:{port} {public}"));
        port
    }

    /// How often somebody logged in at a server.
    pub(super) fn logins(&self, port: u16) -> usize {
        let log = fs::read_to_string(self.path(&format!("log-{port}"))).unwrap();
        log.matches("Accepted publickey").count()
    }

    /// How many sessions a server started.
    pub(super) fn sessions(&self, port: u16) -> usize {
        let log = fs::read_to_string(self.path(&format!("log-{port}"))).unwrap();
        log.matches("Starting session").count()
    }

    /// The directory of the agent on a host.
    pub(super) fn thin(&self, id: &str) -> PathBuf {
        self.path("thin").join(id).join(format!("zagent-{}", rustix::process::geteuid().as_raw()))
    }

    /// The program on a host.
    pub(super) fn program(&self, id: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.thin(id)).ok()?;
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("zagent-"))
    }

    /// Declares a host; `more` overrides what every host has.
    pub(super) fn host(&mut self, id: &str, port: u16, more: &str) {
        let thin = self.path("thin").join(id);
        let known = self.path("known_hosts");
        let mut keys = vec![
            "host: 127.0.0.1".to_owned(),
            format!("port: {port}"),
            format!("priv: {}", self.path("key").display()),
            format!("known_hosts_file: {}", known.display()),
            format!("thin_dir: {}", thin.display()),
            "identities_only: true".to_owned(),
        ];
        for own in more.split(", ").filter(|own| !own.is_empty()) {
            let name = own.split(':').next().unwrap_or_default();
            keys.retain(|key| !key.starts_with(&format!("{name}:")));
            keys.push(own.to_owned());
        }
        self.hosts.push_str(&format!("      {id}: {{{}}}\n", keys.join(", ")));
    }

    fn arguments(&self, args: &[&str]) -> Command {
        self.write(
            "pillar/resources.sls",
            &format!("{}\nresources:\n  ssh:\n    hosts:\n{}", self.pillar, self.hosts),
        );
        let mut command = self.node_command(args);
        command.arg("--pillar").arg(self.path("pillar")).arg("--states").arg(self.path("states"));
        command
    }

    fn node_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zagent"));
        command.args(args).arg("--config").arg(self.path("node.yaml"));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// The runs in the history of the node, oldest first.
    pub(super) fn runs(&self) -> Vec<String> {
        let listed = said(self.node_command(&["history", "--out", "json"]).output().unwrap()).json();
        let mut runs: Vec<String> =
            listed.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect();
        runs.sort();
        runs
    }

    /// Starts the program on the node.
    pub(super) fn start(&self, args: &[&str]) -> Child {
        self.arguments(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs the program on the node, with another `PATH`.
    pub(super) fn run_with_path(&self, args: &[&str], path: &str) -> Said {
        said(self.arguments(args).env("PATH", path).output().unwrap())
    }

    /// Runs the program on the node.
    pub(super) fn run(&self, args: &[&str]) -> Said {
        said(self.arguments(args).output().unwrap())
    }

    /// Runs it with JSON as output.
    pub(super) fn json(&self, args: &[&str]) -> Said {
        self.run(&[args, &["--out", "json"]].concat())
    }
}

fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

impl Drop for Site {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
