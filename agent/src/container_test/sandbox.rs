//! An image and a repository in, a container that runs it three times and the reports out.
//!
//! systemd-nspawn is preferred because it boots systemd; podman serves where there is no root. The container writes its
//! reports to a directory of its own, which is read without following links: what runs inside is not trusted.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use serde_json::Value;
use zagent_config::atomic_file::AtomicFile;
use zagent_host::exec::{ExecCommand, ExecError, ExitOutcome, ExitReason};
use zagent_host::{CancelToken, Machine};

use super::image::{ImageError, TestImage};

/// Where the container finds what it gets.
const INSIDE: &str = "/zagent-test";
/// Maximum size of one report.
const MAX_REPORT: u64 = 256 << 20;
/// The runs, in their order: the name of the report, and the flags.
const RUNS: [(&str, &str); 3] = [("dry", "--test"), ("run", ""), ("again", "")];
const UNIT: &str = "zagent-test.service";

/// What starts a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// systemd-nspawn, as root.
    Nspawn,
    /// podman, also without root.
    Podman,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct TestOptions {
    /// The repository.
    pub repository: PathBuf,
    /// Its states directory, relative to it.
    pub states: String,
    /// Its pillar directory, relative to it; `None` when it has none.
    pub pillar: Option<String>,
    /// The program that runs inside.
    pub program: PathBuf,
    /// Only these SLS files.
    pub sls: Vec<String>,
    /// The node ID inside.
    pub node: Option<String>,
    /// A file of grains in the repository that replaces the facts of the container.
    pub grains: Option<String>,
    /// Boots systemd in the container.
    pub boot: bool,
    /// Gives the container the network of this host.
    pub network: bool,
    /// Time limit of all three runs.
    pub timeout: Duration,
}

/// The reports of the three runs.
#[derive(Clone, Debug)]
pub struct TestRuns {
    /// What the dry run predicted.
    pub dry: Value,
    /// What the run did.
    pub run: Value,
    /// What the second run did.
    pub again: Value,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Nothing here starts a container.
    #[error("no container can be started here: {0}")]
    NoEngine(&'static str),
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A file or directory of the test cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The engine cannot be started, or was stopped.
    #[error("cannot run the container")]
    Start(#[source] ExecError),
    /// The runs did not end in time.
    #[error("the runs did not end within {0:?}")]
    TimedOut(Duration),
    /// Ctrl-C.
    #[error("the test was stopped")]
    Stopped,
    /// The program does not start inside.
    #[error("zagent does not start in the container: {0}")]
    Program(String),
    /// The container ended without the reports.
    #[error("the container wrote no report of the run `{run}`: {why}")]
    NoReport {
        /// The run.
        run: &'static str,
        /// What the container printed last.
        why: String,
    },
}

impl SandboxError {
    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoEngine(_) => {
                "install systemd-container (systemd-nspawn) and run this as root, or install podman"
            }
            Self::Image(ImageError::Missing(_)) => {
                "name a root directory or a tarball with --image, or build a Debian with --build-image"
            }
            Self::Image(ImageError::Start { source, .. }) if source.is_not_found() => {
                "install debootstrap, or name a root directory or a tarball with --image"
            }
            Self::Program(why) if why.contains("GLIBC") || why.contains("not found") => {
                "the image has an older C library than this program: use a newer image, or the static build of zagent"
            }
            Self::TimedOut(_) => "set a longer --timeout",
            _ => return None,
        })
    }
}

impl Engine {
    /// The engine that works here. Booting needs systemd-nspawn.
    ///
    /// # Errors
    /// Fails with what is missing.
    pub fn find(boot: bool) -> Result<Self, SandboxError> {
        let machine = Machine::this_host();
        let has = |program: &str| machine.which(program).is_some();
        Self::choose(rustix::process::geteuid().is_root(), has("systemd-nspawn"), has("podman"), boot)
    }

    fn choose(root: bool, nspawn: bool, podman: bool, boot: bool) -> Result<Self, SandboxError> {
        match (root && nspawn, podman) {
            (true, _) => Ok(Self::Nspawn),
            (false, true) if !boot => Ok(Self::Podman),
            (false, true) => Err(SandboxError::NoEngine("--boot needs systemd-nspawn and root")),
            _ if nspawn => {
                Err(SandboxError::NoEngine("systemd-nspawn needs root, and podman is not installed"))
            }
            _ => Err(SandboxError::NoEngine("neither systemd-nspawn nor podman is installed")),
        }
    }
}

/// A copy of an image, and the directory for reports.
#[derive(Debug)]
pub struct Sandbox {
    engine: Engine,
    dir: PathBuf,
}

impl Sandbox {
    /// Prepares a container in an existing empty directory.
    ///
    /// # Errors
    /// Fails when the image cannot be copied.
    pub fn prepare(engine: Engine, image: &TestImage, dir: &Path) -> Result<Self, SandboxError> {
        let sandbox = Self { engine, dir: dir.to_owned() };
        for sub in [sandbox.root(), sandbox.own()] {
            std::fs::create_dir(&sub).map_err(|source| SandboxError::Write { path: sub.clone(), source })?;
        }
        image.copy_to(&sandbox.root())?;
        Ok(sandbox)
    }

    /// The root directory of the container.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// What the container sees as [`INSIDE`]: the script and its reports.
    fn own(&self) -> PathBuf {
        self.dir.join("test")
    }

    /// Runs the repository three times.
    ///
    /// # Errors
    /// Fails when the container does not start, does not end in time, or leaves no report.
    pub fn run(&self, options: &TestOptions, cancel: &Arc<CancelToken>) -> Result<TestRuns, SandboxError> {
        for sub in ["bin", "repository"] {
            let path = self.own().join(sub);
            std::fs::create_dir(&path).map_err(|source| SandboxError::Write { path, source })?;
        }
        self.write("run.sh", &script(options))?;
        self.write(UNIT, &unit())?;
        let mut command = match self.engine {
            Engine::Nspawn => self.nspawn(options),
            Engine::Podman => self.podman(options),
        };
        command.timeout = Some(options.timeout);
        command.merge_stderr = true;
        command.cancel = Some(Arc::clone(cancel));
        let outcome = Machine::this_host().run(&command).map_err(SandboxError::Start)?;
        match outcome.reason {
            ExitReason::TimedOut => return Err(SandboxError::TimedOut(options.timeout)),
            ExitReason::Cancelled => return Err(SandboxError::Stopped),
            ExitReason::Exited(_) | ExitReason::Signaled(_) => {}
        }
        let [dry, run, again] = RUNS.map(|(name, _)| self.report(name, &outcome));
        Ok(TestRuns { dry: dry?, run: run?, again: again? })
    }

    fn write(&self, name: &str, text: &str) -> Result<(), SandboxError> {
        let path = self.own().join(name);
        let written = AtomicFile::cached(0o644).write(&path, text.as_bytes());
        written.map_err(|source| SandboxError::Write { path, source })
    }

    fn mounts(&self, options: &TestOptions) -> [(PathBuf, String, bool); 3] {
        [
            (self.own(), INSIDE.to_owned(), false),
            (options.program.clone(), format!("{INSIDE}/bin/zagent"), true),
            (options.repository.clone(), format!("{INSIDE}/repository"), true),
        ]
    }

    fn nspawn(&self, options: &TestOptions) -> ExecCommand {
        let mut args: Vec<OsString> = ["--quiet", "--register=no", "--keep-unit"].map(Into::into).into();
        args.push(joined("--directory=", &self.root()));
        args.push(format!("--hostname={}", options.node.as_deref().unwrap_or("zagent-test")).into());
        for (here, inside, read_only) in self.mounts(options) {
            let mut arg = joined(if read_only { "--bind-ro=" } else { "--bind=" }, &escaped(&here));
            arg.push(format!(":{inside}"));
            args.push(arg);
        }
        if !options.network {
            args.push("--private-network".into());
        }
        if options.boot {
            let mut arg = joined("--bind-ro=", &escaped(&self.own().join(UNIT)));
            arg.push(format!(":/etc/systemd/system/{UNIT}"));
            args.extend([arg, "--console=pipe".into(), "--boot".into()]);
            args.push(format!("systemd.wants={UNIT}").into());
        } else {
            args.extend(["--as-pid2", "--pipe", "/bin/sh"].map(OsString::from));
            args.push(format!("{INSIDE}/run.sh").into());
        }
        ExecCommand::new("systemd-nspawn").args(args)
    }

    fn podman(&self, options: &TestOptions) -> ExecCommand {
        let mut args: Vec<OsString> = ["run", "--rm", "--init"].map(Into::into).into();
        args.push(format!("--hostname={}", options.node.as_deref().unwrap_or("zagent-test")).into());
        for (here, inside, read_only) in self.mounts(options) {
            let mut arg = joined("--mount=type=bind,source=", &here);
            arg.push(format!(",target={inside}{}", if read_only { ",readonly" } else { "" }));
            args.push(arg);
        }
        if !options.network {
            args.push("--network=none".into());
        }
        args.extend(["--rootfs".into(), self.root().into(), "/bin/sh".into()]);
        args.push(format!("{INSIDE}/run.sh").into());
        ExecCommand::new("podman").args(args)
    }

    /// One report. A state may have put a link or a pipe in its place.
    fn report(&self, run: &'static str, outcome: &ExitOutcome) -> Result<Value, SandboxError> {
        if let Some(why) = self.read("start.err").filter(|said| !said.trim().is_empty()) {
            return Err(SandboxError::Program(last_line(&why)));
        }
        let text = self.read(&format!("{run}.json")).unwrap_or_default();
        serde_json::from_str(&text).map_err(|_| {
            let said = self.read(&format!("{run}.err")).filter(|said| !said.trim().is_empty());
            let said = said.unwrap_or_else(|| String::from_utf8_lossy(&outcome.stdout).into_owned());
            SandboxError::NoReport { run, why: last_line(&said) }
        })
    }

    fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.own().join(name)).ok()?;
        file.metadata().ok()?.is_file().then_some(())?;
        let mut bytes = Vec::new();
        file.take(MAX_REPORT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    zagent_config::sanitize(line.trim())
}

fn joined(flag: &str, path: &Path) -> OsString {
    let mut arg = OsString::from(flag);
    arg.push(path);
    arg
}

/// A path as nspawn reads it: a colon separates its two sides.
fn escaped(path: &Path) -> PathBuf {
    path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").into()
}

/// What runs inside: it ends with 0, whatever the runs say, because their reports say it.
fn script(options: &TestOptions) -> String {
    let mut flags = vec![format!("--states {}", quoted(&inside(&options.states)))];
    flags.extend(options.pillar.iter().map(|dir| format!("--pillar {}", quoted(&inside(dir)))));
    if !options.sls.is_empty() {
        flags.push(format!("--sls {}", quoted(&options.sls.join(","))));
    }
    flags.extend(options.node.iter().map(|id| format!("--id {}", quoted(id))));
    flags.extend(options.grains.iter().map(|file| format!("--grains {}", quoted(&inside(file)))));
    let mut text = format!(
        "cd {INSIDE} || exit 1\nexport PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
         if ! bin/zagent --version >/dev/null 2>start.err; then\n  exit 0\nfi\n"
    );
    for (name, flag) in RUNS {
        let call = format!("bin/zagent run --once {flag} {} --out json", flags.join(" "));
        text.push_str(&format!("{call} >{name}.json 2>{name}.err\n"));
    }
    text.push_str("exit 0\n");
    text
}

fn inside(path: &str) -> String {
    format!("{INSIDE}/repository/{path}")
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The unit that a booted container runs once everything else has started.
fn unit() -> String {
    format!(
        "[Unit]\nDescription=zagent test\nAfter=multi-user.target\nSuccessAction=poweroff-force\nFailureAction=poweroff-force\n\n\
         [Service]\nType=oneshot\nExecStart=/bin/sh {INSIDE}/run.sh\nTimeoutStartSec=infinity\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> TestOptions {
        TestOptions {
            repository: "/srv/it's: here".into(),
            states: "states".into(),
            pillar: Some("pillar".into()),
            program: "/usr/bin/zagent".into(),
            sls: vec!["web".into(), "db; rm -rf /".into()],
            node: Some("web-01".into()),
            grains: None,
            boot: false,
            network: false,
            timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn the_engine_is_chosen_by_what_is_there() {
        let choose = |root, nspawn, podman, boot| Engine::choose(root, nspawn, podman, boot);
        assert_eq!(choose(true, true, true, true).unwrap(), Engine::Nspawn);
        assert_eq!(choose(false, true, true, false).unwrap(), Engine::Podman);
        for (root, nspawn, podman, boot, why) in [
            (false, true, true, true, "--boot needs systemd-nspawn and root"),
            (false, true, false, false, "systemd-nspawn needs root"),
            (true, false, false, false, "neither systemd-nspawn nor podman"),
        ] {
            let error = choose(root, nspawn, podman, boot).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("podman")));
        }
    }

    #[test]
    fn names_are_quoted_for_the_shell_and_for_nspawn() {
        let text = script(&options());
        assert!(text.contains("--sls 'web,db; rm -rf /' --id 'web-01'"), "{text}");
        assert_eq!(text.matches("bin/zagent run --once").count(), 3);
        assert_eq!(text.matches("--test").count(), 1);
        let sandbox = Sandbox { engine: Engine::Nspawn, dir: "/var/tmp/t".into() };
        let args = sandbox.nspawn(&options()).args;
        let has = |word: &str| args.iter().any(|arg| arg == word);
        assert!(has("--bind-ro=/srv/it's\\: here:/zagent-test/repository"), "{args:?}");
        assert!(has("--bind-ro=/usr/bin/zagent:/zagent-test/bin/zagent"), "{args:?}");
        assert!(has("--private-network") && has("--directory=/var/tmp/t/root"), "{args:?}");
        let args = sandbox.podman(&options()).args;
        assert!(args.iter().any(|arg| arg == "--network=none"), "{args:?}");
    }

    #[test]
    fn a_report_is_not_read_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = Sandbox { engine: Engine::Nspawn, dir: dir.path().into() };
        std::fs::create_dir(sandbox.own()).unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "{\"root\": \"hash\"}").unwrap();
        std::os::unix::fs::symlink(&secret, sandbox.own().join("dry.json")).unwrap();
        std::fs::write(sandbox.own().join("run.json"), "{}").unwrap();
        let ended = ExitOutcome {
            pid: 1,
            reason: ExitReason::Exited(0),
            stdout: b"the last words\n".to_vec(),
            stderr: Vec::new(),
            truncated: false,
        };
        let refused = sandbox.report("dry", &ended).unwrap_err().to_string();
        assert_eq!(refused, "the container wrote no report of the run `dry`: the last words");
        assert_eq!(sandbox.report("run", &ended).unwrap(), serde_json::json!({}));
    }
}
