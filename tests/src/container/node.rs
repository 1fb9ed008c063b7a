//! One booted container: commands inside it, files into it, its network, its reboots.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::base::must;
use super::cgroup::Cgroup;
use super::{Base, Mirror, eventually};

/// The time limit of a boot on a busy machine.
const BOOT: Duration = Duration::from_secs(90);

/// The host name of every container.
const NAME: &str = "node-01";

/// A pair of addresses: the host's end, the container's end.
#[derive(Debug)]
pub struct Network {
    host: String,
    inside: String,
    number: u32,
}

impl Network {
    /// A network between this host and one container; addresses by process and count, so that parallel suites do not
    /// collide.
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id().wrapping_mul(16) + NEXT.fetch_add(1, Ordering::Relaxed)) % 0x4000;
        // 198.18.0.0/15 is reserved for network tests.
        let net = format!("198.18.{}", number >> 6);
        let last = (number & 0x3f) * 4;
        Self { host: format!("{net}.{}", last + 1), inside: format!("{net}.{}", last + 2), number }
    }

    /// The address of this host, as the container sees it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host's end of the network link.
    #[must_use]
    pub fn name(&self) -> String {
        format!("zt{}", self.number)
    }
}

/// The result of a command inside.
#[derive(Clone, Debug)]
pub struct Said {
    /// How it ended.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it complained about.
    pub err: String,
}

/// Process 1 of a container.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// Its program; `None` for systemd.
    pub program: Option<&'static str>,
    /// A script that succeeds once it has booted.
    pub is_up: &'static str,
}

impl Init {
    /// systemd, booted as soon as it has started all units, or failed to.
    const SYSTEMD: Self = Self {
        program: None,
        is_up: "case $(systemctl is-system-running) in running | degraded) ;; *) exit 1 ;; esac",
    };
}

/// A container; it stops with this value.
#[derive(Debug)]
pub struct Node {
    scratch: TempDir,
    network: Network,
    machine: Option<Machine>,
    cgroup: Cgroup,
    binds: Vec<String>,
    init: Init,
}

#[derive(Debug)]
struct Machine {
    nspawn: Child,
    /// Its first process, by the pid on this host; `None` until it exists.
    leader: String,
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.leader.is_empty() {
            let _ = Command::new("kill").args(["-KILL", &self.leader]).output();
        }
        // nspawn waits for its first process, to clean up after it. The test does not wait for one that does not exit.
        let until = Instant::now() + Duration::from_secs(10);
        while matches!(self.nspawn.try_wait(), Ok(None)) && Instant::now() < until && !self.leader.is_empty()
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.nspawn.kill();
        let _ = self.nspawn.wait();
    }
}

impl Node {
    /// Boots a Debian with one network link to this host.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn boot() -> Self {
        Self::on(Base::get(), &[])
    }

    /// Boots a usual Debian that installs packages through the mirror of this process.
    /// The bind mounts (`HERE`, or `HERE:INSIDE`) are visible inside, read-only.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn usual(binds: &[String]) -> Self {
        let node = Self::on(Base::usual(), binds);
        let proxy =
            format!("Acquire::http::Proxy \"http://{}:{}\";\n", node.network.host, Mirror::get().port());
        node.write("/etc/apt/apt.conf.d/91proxy", proxy);
        node
    }

    fn on(base: &Base, binds: &[String]) -> Self {
        let scratch = tempfile::Builder::new().prefix("zagent-node-").tempdir().expect("a scratch directory");
        for name in ["upper", "work", "root"] {
            fs::create_dir(scratch.path().join(name)).expect("a directory");
        }
        let at = |name: &str| scratch.path().join(name).display().to_string();
        let layers = format!("lowerdir={},upperdir={},workdir={}", base.lower(), at("upper"), at("work"));
        must(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &layers, &at("root")]));
        let network = Network::new();
        let cgroup = Cgroup::new(&format!("{}-{}", network.name(), std::process::id()));
        let binds = binds.iter().map(|bind| format!("--bind-ro={bind}")).collect();
        let mut node = Self { scratch, network, machine: None, cgroup, binds, init: Init::SYSTEMD };
        // The image has the name of the host that built it.
        node.write("/etc/hostname", format!("{NAME}\n"));
        node.start();
        node.connect();
        node
    }

    fn start(&mut self) {
        let log = fs::File::create(self.scratch.path().join("console")).expect("the console's file");
        // A test that is killed takes its container along.
        let join = "while [ \"$1\" != -- ]; do echo $$ >\"$1\" || exit 1; shift; done; shift; exec \"$@\"";
        let nspawn = Command::new("sh")
            .args(["-c", join, "sh"])
            .args(self.cgroup.doors())
            .args(["--", "setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "-D"])
            .arg(self.root())
            .args(["--register=no", "--keep-unit", "--private-network", "--console=pipe"])
            .arg(format!("--hostname={NAME}"))
            .args(&self.binds)
            .arg(self.init.program.unwrap_or("--boot"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("systemd-nspawn starts");
        let parent = nspawn.id();
        // Stored before anything can fail, so that it stops with this value.
        let machine = self.machine.insert(Machine { nspawn, leader: String::new() });
        machine.leader = eventually("the container has a first process", BOOT, || leader_of(parent));
        eventually("the container has booted", BOOT, || {
            let said = self.run(&["sh", "-c", self.init.is_up]);
            if said.code == 0 { Ok(()) } else { Err(format!("{said:?}")) }
        });
    }

    /// Where its files are, from outside.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    /// What was written since the image was built, from outside: the upper directory of its overlay.
    #[must_use]
    pub fn written(&self) -> PathBuf {
        self.scratch.path().join("upper")
    }

    /// The path inside of a file on this host.
    pub fn bound(&self) -> impl Iterator<Item = &str> {
        self.binds.iter().filter_map(|bind| bind.rsplit([':', '=']).next())
    }

    /// Its network link.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn leader(&self) -> &str {
        &self.machine.as_ref().expect("the container runs").leader
    }

    /// Runs a program inside.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn run(&self, words: &[&str]) -> Said {
        let out = Command::new("nsenter")
            .args(["-t", self.leader(), "-m", "-u", "-i", "-p", "-n", "--", "env", "-i"])
            .args([
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/root",
                "LANG=C.UTF-8",
            ])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("nsenter starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code: out.status.code().unwrap_or(-1), out: text(out.stdout), err: text(out.stderr) }
    }

    /// Runs a program inside that must succeed.
    ///
    /// # Panics
    /// When it does not; prints the journal.
    pub fn must(&self, words: &[&str]) -> String {
        let said = self.run(words);
        assert_eq!(said.code, 0, "{words:?}: {}{}\n{}", said.out, said.err, self.journal());
        said.out
    }

    /// Runs a shell script inside with a time limit; one that is not done by then exits with 124.
    pub fn shell(&self, script: &str, limit: Duration) -> Said {
        self.run(&["timeout", "--kill-after=5", &limit.as_secs().to_string(), "sh", "-c", script])
    }

    /// The last journal lines of the agent's units.
    #[must_use]
    pub fn journal(&self) -> String {
        let said = self.run(&["journalctl", "--no-pager", "-n", "60", "-u", "zagent*", "-o", "cat"]);
        format!("--- journal\n{}{}", said.out, said.err)
    }

    /// Writes a file inside, with its directories.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let full = self.root().join(path.trim_start_matches('/'));
        fs::create_dir_all(full.parent().expect("a file has a directory")).expect("a directory");
        fs::write(full, text).expect("a file");
    }

    /// The content of a file inside; empty when it does not exist.
    #[must_use]
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path.trim_start_matches('/'))).unwrap_or_default()
    }

    /// Installs the program and the units as the documentation says.
    ///
    /// # Panics
    /// When a file is not there.
    pub fn install(&self, program: &Path) {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist");
        let put = |from: &Path, to: &str, mode: &str| {
            must(Command::new("install").args(["-D", "-m", mode]).arg(from).arg(self.root().join(to)));
        };
        put(program, "usr/bin/zagent", "0755");
        for unit in ["zagent.service", "zagent-watchdog.service", "zagent-run.service", "zagent-run.timer"] {
            put(&dist.join("systemd").join(unit), &format!("usr/lib/systemd/system/{unit}"), "0644");
        }
        put(&dist.join("zagent.yaml"), "etc/zagent/zagent.yaml", "0644");
        self.must(&["systemctl", "daemon-reload"]);
    }

    /// Connects the network.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn connect(&self) {
        let (name, inside) = (self.network.name(), format!("{}p", self.network.name()));
        let _ = Command::new("ip").args(["link", "del", &name]).output();
        must(Command::new("ip").args(["link", "add", &name, "type", "veth", "peer", "name", &inside]));
        must(Command::new("ip").args(["link", "set", &inside, "netns", self.leader()]));
        must(Command::new("ip").args(["addr", "add", &format!("{}/30", self.network.host), "dev", &name]));
        must(Command::new("ip").args(["link", "set", &name, "up"]));
        let enter = ["-t", self.leader(), "-n", "--", "ip"];
        let there = |words: &[&str]| must(Command::new("nsenter").args(enter).args(words));
        there(&["link", "set", "lo", "up"]);
        there(&["addr", "add", &format!("{}/30", self.network.inside), "dev", &inside]);
        there(&["link", "set", &inside, "up"]);
    }

    /// Disconnects the network.
    ///
    /// # Panics
    /// When there is none.
    pub fn disconnect(&self) {
        must(Command::new("ip").args(["link", "del", &self.network.name()]));
    }

    /// Shuts the container down cleanly and boots it again, with the same disk.
    ///
    /// # Panics
    /// When it does not go down or come up.
    pub fn reboot(&mut self) {
        self.reboot_alone();
        self.connect();
    }

    /// The same, without the network.
    ///
    /// # Panics
    /// When it does not go down or come up.
    pub fn reboot_alone(&mut self) {
        self.run(&["systemctl", "poweroff"]);
        let machine = self.machine.as_mut().expect("the container runs");
        eventually("the container is down", BOOT, || match machine.nspawn.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        // Its pid may be reused by now.
        machine.leader.clear();
        self.start();
    }

    /// Cuts the power and boots the same disk with another first process, without the network.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn boot_by(&mut self, init: Init) {
        drop(self.machine.take());
        self.init = init;
        self.start();
    }

    /// What its console showed.
    #[must_use]
    pub fn console(&self) -> String {
        let mut text = String::new();
        let file = fs::File::open(self.scratch.path().join("console"));
        // Unreadable output is not shown.
        let _ = file.and_then(|mut f| f.read_to_string(&mut text));
        text
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.machine.as_ref().is_some_and(|m| !m.leader.is_empty()) {
            // A failed test prints the agent's journal.
            let _ = writeln!(std::io::stderr(), "{}", self.journal());
        }
        drop(self.machine.take());
        let _ = Command::new("ip").args(["link", "del", &self.network.name()]).output();
        let _ = Command::new("umount").arg("-l").arg(self.root()).output();
    }
}

/// The first process of the container. A process that is not in its own namespace yet is on the way there, and commands
/// beside it would run on this host.
fn leader_of(nspawn: u32) -> Result<String, String> {
    let path = format!("/proc/{nspawn}/task/{nspawn}/children");
    let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let world = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let own = world("self");
    let inside = |pid: &&str| world(pid).is_some_and(|world| Some(world) != own);
    text.split_whitespace().find(inside).map(str::to_owned).ok_or_else(|| format!("no child inside: {text}"))
}
