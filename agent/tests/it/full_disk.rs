//! Full disks: for every place that the agent writes to, every command and several amounts of free space, the command ends
//! in time with a clear message, nothing is lost, and with free space the next one works.
//!
//! Each cell has its own mount namespace with a small file system for the agent's root, the managed files and `/tmp`. That
//! needs root: in CI the suite fails without it, elsewhere it says that it did nothing. `FULL_DISK=all` (`just full-disk`)
//! runs every cell, otherwise a sample.

#![expect(clippy::print_stderr, reason = "names the cell that a failure belongs to")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The program.
const ZAGENT: &str = env!("CARGO_BIN_EXE_zagent");
/// No command may take longer: what does, hangs.
const DEADLINE: Duration = Duration::from_secs(120);
/// Poll interval for conditions without notification.
const LOOK: Duration = Duration::from_millis(20);
const MB: u64 = 1 << 20;
/// Enough for everything.
const PLENTY: u64 = 1 << 30;
/// Free space that sled must have (`rollout/src/sled_call.rs`).
const SLED_NEEDS: u64 = 16 * MB;
/// Size of each managed file.
const FILE_BYTES: usize = 300 << 10;
const FILES: usize = 3;

/// The file systems of a cell.
const PLACES: [&str; 3] = ["root", "target", "tmp"];

/// Free space of the cells, in bytes.
fn amounts() -> Vec<u64> {
    let all = [0, 64 << 10, MB, 2 * MB, 3 * MB, 6 * MB, 9 * MB, 12 * MB, 16 * MB, 20 * MB];
    let sample = [0, 3 * MB, 20 * MB];
    if std::env::var("FULL_DISK").is_ok_and(|what| what == "all") { all.to_vec() } else { sample.to_vec() }
}

/// Runs a check in every cell.
fn for_all_cells(check: impl Fn(&Cell, &str, u64)) {
    for place in PLACES {
        for free in amounts() {
            let Some(cell) = Cell::new() else { return };
            eprintln!("{place} with {free} bytes free");
            check(&cell, place, free);
        }
    }
}

/// A node on three file systems of its own. They vanish with the process that holds the namespace.
struct Cell {
    dir: TempDir,
    holder: Child,
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn text(&self) -> String {
        format!("exit {}\n{}\n{}", self.code, self.out, self.err)
    }

    /// It failed for want of space, and says so.
    fn is_told(&self) -> bool {
        let text = self.text();
        ["No space left on device", "are free"].iter().any(|words| text.contains(words))
    }
}

impl Cell {
    /// None when this user cannot mount anything.
    fn new() -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("zagent-full-").tempdir().unwrap();
        for name in PLACES.into_iter().chain(["source/states"]) {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let mounts = r#"for name in root target tmp; do mount -t tmpfs -o size=1g,mode=0700 none "$1/$name" || exit 1; done
                        echo mounted; exec cat"#;
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", mounts, "sh"])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        if said != "mounted\n" {
            let _ = holder.wait();
            let must = nix::unistd::geteuid().is_root() || std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!must, "cannot mount a file system in a namespace");
            eprintln!("not run: this user cannot mount a file system");
            return None;
        }
        let cell = Self { dir, holder };
        let top = cell.dir.path().display();
        let config = format!(
            "id: web-01\nroot: {top}/root/zagent\nbaked: {top}/none\nboard: {{kind: sled}}\n\
             source: {{remotes: [{{url: '{top}/source'}}], poll: 5s}}\nrun: {{keep: 4}}\nrollout: {{url: board}}\n"
        );
        fs::write(cell.dir.path().join("zagent.yaml"), config).unwrap();
        cell.write_source("first");
        let first = cell.zagent(&["run", "--once"]);
        assert_eq!(first.code, 0, "{}", first.text());
        cell.assert_converged("first");
        Some(cell)
    }

    /// States that manage some files with this word in them.
    fn write_source(&self, word: &str) {
        let states = self.dir.path().join("source/states");
        let target = self.dir.path().join("target");
        let files: String = (0..FILES)
            .map(|n| format!("{}/f{n}:\n  file.managed:\n    - source: salt://big\n", target.display()))
            .collect();
        fs::write(states.join("top.sls"), "base: {'*': [all]}\n").unwrap();
        fs::write(states.join("all.sls"), files).unwrap();
        fs::write(states.join("big"), content(word)).unwrap();
    }

    /// A path as the commands in the namespace see it.
    fn path(&self, name: &str) -> PathBuf {
        let dir = self.dir.path().strip_prefix("/").unwrap();
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(dir).join(name)
    }

    fn in_namespace(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--mount", "--", program]);
        command.stdin(Stdio::null()).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        command.env("TMPDIR", self.dir.path().join("tmp"));
        command
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.in_namespace(ZAGENT);
        command.args(words).arg("--config").arg(self.dir.path().join("zagent.yaml"));
        command
    }

    /// Runs the program; it must end before the deadline.
    fn zagent(&self, words: &[&str]) -> Ended {
        let mut process = Process::start(&mut self.command(words));
        let code = process.wait(&words.join(" "));
        Ended { code, out: process.out(), err: process.err() }
    }

    /// Leaves this much space on one of the file systems.
    fn leave(&self, place: &str, free: u64) {
        let stat = nix::sys::statvfs::statvfs(&self.path(place)).unwrap();
        let used = (stat.blocks() - stat.blocks_free()) * stat.fragment_size();
        // A size of zero would be no limit.
        let size = (used + free).max(4096);
        let mut mount = self.in_namespace("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(self.dir.path().join(place));
        assert!(mount.status().unwrap().success());
    }

    /// Changes the managed files from outside.
    fn drift(&self) {
        for n in 0..FILES {
            fs::write(self.path(&format!("target/f{n}")), content("drift")).unwrap();
        }
    }

    fn file(&self, n: usize) -> Vec<u8> {
        fs::read(self.path(&format!("target/f{n}"))).unwrap_or_default()
    }

    fn is_converged(&self, word: &str) -> bool {
        (0..FILES).all(|n| self.file(n) == content(word))
    }

    fn assert_converged(&self, word: &str) {
        assert!(self.is_converged(word));
        let mut names: Vec<_> =
            fs::read_dir(self.path("target")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["f0", "f1", "f2"], "nothing is left behind");
    }

    /// Every managed file is one of these, whole.
    fn assert_whole(&self, words: &[&str]) {
        for n in 0..FILES {
            assert!(
                words.iter().any(|word| self.file(n) == content(word)),
                "f{n} has {} bytes",
                self.file(n).len()
            );
        }
    }

    fn runs(&self) -> usize {
        let listed = self.zagent(&["history", "--out", "json"]);
        assert_eq!(listed.code, 0, "{}", listed.text());
        serde_json::from_str::<Vec<serde_json::Value>>(&listed.out).unwrap().len()
    }

    fn count(&self, dir: &str) -> usize {
        fs::read_dir(self.path(dir)).map_or(0, Iterator::count)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn content(word: &str) -> Vec<u8> {
    let mut text = word.repeat(FILE_BYTES / word.len() + 1).into_bytes();
    text.truncate(FILE_BYTES);
    text
}

/// A process in the namespace, and what it said. It ends with this value.
struct Process {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = listen(child.stdout.take().unwrap());
        let err = listen(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    fn err(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    /// Its exit code, before the deadline.
    fn wait(&mut self, what: &str) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // The last words may still be on their way.
                while Arc::strong_count(&self.out) + Arc::strong_count(&self.err) > 2
                    && begun.elapsed() < DEADLINE
                {
                    std::thread::park_timeout(LOOK);
                }
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < DEADLINE, "`{what}` hangs\n{}\n{}", self.out(), self.err());
            std::thread::park_timeout(LOOK);
        }
    }

    fn stop(&mut self, what: &str) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.wait(what);
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(mut pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            heard.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    said
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "never: {what}");
        std::thread::park_timeout(LOOK);
    }
}

/// A run that has files to correct.
#[test]
fn a_run_corrects_the_host_or_says_that_the_disk_is_full() {
    for_all_cells(|cell, place, free| {
        cell.drift();
        let before = cell.runs();
        cell.leave(place, free);
        let ended = cell.zagent(&["run", "--once"]);
        match ended.code {
            0 => assert!(cell.is_converged("first"), "{}", ended.text()),
            1 => assert!(ended.is_told() && free < 6 * MB, "{}", ended.text()),
            _ => panic!("{}", ended.text()),
        }
        assert!(!ended.text().contains("File exists"), "{}", ended.text());
        cell.assert_whole(&["first", "drift"]);
        cell.leave(place, PLENTY);
        assert!(cell.runs() >= before, "no earlier run is lost");
        let next = cell.zagent(&["run", "--once"]);
        assert_eq!(next.code, 0, "{}", next.text());
        cell.assert_converged("first");
        assert!(cell.zagent(&["history", "last"]).out.contains("unchanged"));
        assert!(cell.count("root/zagent/state/undo") <= 4, "old journals are removed after a failure too");
    });
}

/// A run with a new revision, which is published first.
#[test]
fn a_new_revision_is_published_or_the_old_one_stays() {
    for_all_cells(|cell, place, free| {
        cell.write_source("second");
        cell.leave(place, free);
        let ended = cell.zagent(&["run", "--once"]);
        match ended.code {
            0 => cell.assert_whole(&["first", "second"]),
            1 => assert!(ended.is_told() && free < 9 * MB, "{}", ended.text()),
            _ => panic!("{}", ended.text()),
        }
        cell.assert_whole(&["first", "second"]);
        cell.leave(place, PLENTY);
        let next = cell.zagent(&["run", "--once"]);
        assert_eq!(next.code, 0, "{}", next.text());
        cell.assert_converged("second");
        let verified = cell.zagent(&["cache", "verify"]);
        assert_eq!(verified.code, 0, "{}", verified.text());
    });
}

#[test]
fn the_history_answers() {
    for_all_cells(|cell, place, free| {
        for _ in 0..5 {
            cell.drift();
            assert_eq!(cell.zagent(&["run", "--once"]).code, 0);
        }
        cell.leave(place, free);
        assert_eq!(cell.runs(), 4);
        let last = cell.zagent(&["history", "last"]);
        assert!(last.code == 0 && last.out.contains("3 changed"), "{}", last.text());
        for words in [&["status"][..], &["doctor", "--offline"]] {
            let ended = cell.zagent(words);
            assert!([0, 1].contains(&ended.code), "{words:?}: {}", ended.text());
        }
    });
}

#[test]
fn a_daemon_answers_and_continues_when_there_is_space() {
    for_all_cells(|cell, place, free| {
        cell.drift();
        cell.leave(place, free);
        let mut daemon = Process::start(&mut cell.command(&["run"]));
        eventually("the daemon answers", || {
            assert!(daemon.is_running(), "{}", daemon.err());
            let status = cell.zagent(&["status", "--out", "json"]);
            let status: serde_json::Value = serde_json::from_str(&status.out).unwrap_or_default();
            // Its first turn is over.
            let doing = status["daemon"]["doing"].as_str()?;
            (status["daemon"]["pid"].is_u64() && !doing.contains("running")).then_some(())
        });
        cell.assert_whole(&["first", "drift"]);
        cell.leave(place, PLENTY);
        cell.drift();
        let ended = cell.zagent(&["trigger", "--wait"]);
        assert_eq!(ended.code, 0, "{}\n{}", ended.text(), daemon.err());
        eventually("the host is corrected", || cell.is_converged("first").then_some(()));
        daemon.stop("daemon");
        cell.assert_converged("first");
    });
}

/// A full disk costs heartbeats and a warning, never the watchdog.
#[test]
fn a_watchdog_keeps_its_agent() {
    for_all_cells(|cell, place, free| {
        let mut watchdog = Process::start(&mut cell.command(&["watchdog", "--pace", "brisk"]));
        let agent = |watchdog: &mut Process| {
            eventually("the agent is up", || {
                assert!(watchdog.is_running(), "{}", watchdog.err());
                let status = cell.zagent(&["watchdog", "status", "--out", "json"]);
                let status: serde_json::Value = serde_json::from_str(&status.out).unwrap_or_default();
                status["child"]["pid"].as_u64()
            })
        };
        let before = agent(&mut watchdog);
        cell.leave(place, free);
        if place == "root" && free < SLED_NEEDS {
            eventually("the watchdog warns", || {
                watchdog.err().contains("cannot save heartbeats").then_some(())
            });
        }
        assert_eq!(agent(&mut watchdog), before, "{}", watchdog.err());
        cell.leave(place, PLENTY);
        cell.drift();
        let ended = cell.zagent(&["trigger", "--wait"]);
        assert_eq!(ended.code, 0, "{}\n{}", ended.text(), watchdog.err());
        assert_eq!(agent(&mut watchdog), before, "{}", watchdog.err());
        watchdog.stop("watchdog");
    });
}

/// The board of one machine is a sled store below the root.
#[test]
fn a_rollout_command_ends_and_the_board_is_kept() {
    for_all_cells(|cell, place, free| {
        let listed = |ended: &Ended| ended.code == 0 && ended.out.contains("web-01");
        let before = cell.zagent(&["node", "list"]);
        assert!(listed(&before), "{}", before.text());
        cell.leave(place, free);
        for words in [&["node", "list"][..], &["rollout", "list"], &["run", "--once"], &["node", "list"]] {
            let ended = cell.zagent(words);
            if place == "root" && free < SLED_NEEDS {
                assert!(ended.is_told(), "{words:?}: {}", ended.text());
                assert_ne!(ended.code, 76, "{words:?}: {}", ended.text());
            } else {
                assert_eq!(ended.code, 0, "{words:?}: {}", ended.text());
            }
        }
        cell.leave(place, PLENTY);
        let after = cell.zagent(&["node", "list"]);
        assert!(listed(&after), "{}", after.text());
        assert!(!cell.path("root/zagent/state/board/store.damaged").exists());
    });
}
