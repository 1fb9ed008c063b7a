//! The Debian images for containers: a minimal one, built once, packed and kept between runs; and on top of it one with
//! the tools of a usual server and the package lists, rebuilt when the lists are old.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use super::Mirror;

/// Its packages, without Git: hosts need none. A change builds a new image.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,ca-certificates";
const SUITE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";
/// The additional packages of a usual server.
const TOOLS: [&str; 5] = ["procps", "iproute2", "kmod", "cron", "gpg"];
/// These containers need not survive a power failure.
const HASTE: &str = "force-unsafe-io\n";
/// The maximum age of package lists: mirrors delete the packages they name after a while.
const FRESH: Duration = Duration::from_secs(12 * 3600);

/// The lower directories of an overlay.
#[derive(Debug)]
pub struct Base {
    layers: Vec<PathBuf>,
}

impl Base {
    /// The minimal image of this process.
    ///
    /// # Panics
    /// When it cannot be created.
    #[must_use]
    pub fn get() -> &'static Self {
        static BASE: OnceLock<Base> = OnceLock::new();
        BASE.get_or_init(|| Self { layers: vec![bare()] })
    }

    /// The image of this process that installs packages, through the mirror.
    ///
    /// # Panics
    /// When it cannot be created.
    #[must_use]
    pub fn usual() -> &'static Self {
        static BASE: OnceLock<Base> = OnceLock::new();
        BASE.get_or_init(|| {
            let below = &Self::get().layers[0];
            Self { layers: vec![equip(below), below.clone()] }
        })
    }

    /// Its directories, the upper first, in overlay syntax.
    #[must_use]
    pub fn lower(&self) -> String {
        let shown: Vec<String> = self.layers.iter().map(|dir| dir.display().to_string()).collect();
        shown.join(":")
    }
}

fn bare() -> PathBuf {
    let cache = cache_dir();
    let name = format!("debian-{SUITE}-{:08x}", fingerprint(PACKAGES));
    let (dir, tarball) = (cache.join(&name), cache.join(format!("{name}.tar")));
    // A directory without its marker is incomplete.
    let mark = dir.join(".complete");
    if mark.exists() {
        return dir;
    }
    let _ = fs::remove_dir_all(&dir);
    if tarball.exists() {
        fs::create_dir(&dir).expect("a directory");
        must(Command::new("tar").arg("-C").arg(&dir).arg("-xpf").arg(&tarball));
    } else {
        bootstrap(&dir);
        let half = cache.join(format!("{name}.tar.part"));
        must(Command::new("tar").arg("-C").arg(&dir).arg("-cpf").arg(&half).arg("."));
        fs::rename(half, tarball).expect("the tarball gets its name");
    }
    fs::write(mark, "").expect("the mark");
    dir
}

/// The layer with the tools and the package lists.
fn equip(below: &Path) -> PathBuf {
    let name = format!("usual-{:08x}", fingerprint(&format!("{}{TOOLS:?}{HASTE}", below.display())));
    let (dir, root) = (cache_dir().join(&name), cache_dir().join(format!("{name}.root")));
    let work = cache_dir().join(format!("{name}.work"));
    let mark = dir.join(".usual");
    let made = fs::metadata(&mark).and_then(|m| m.modified());
    let age = |made: SystemTime| SystemTime::now().duration_since(made).unwrap_or_default();
    if made.is_ok_and(|made| age(made) < FRESH) {
        return dir;
    }
    for place in [&dir, &work, &root] {
        let _ = fs::remove_dir_all(place);
        fs::create_dir(place).expect("a directory");
    }
    let shown = |path: &Path| path.display().to_string();
    let layers = format!("lowerdir={},upperdir={},workdir={}", shown(below), shown(&dir), shown(&work));
    must(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &layers]).arg(&root));
    let mirror = mirror();
    let sources = format!(
        "deb {mirror} {SUITE} main\ndeb {mirror} {SUITE}-updates main\ndeb {mirror}-security {SUITE}-security main\n"
    );
    fs::write(root.join("etc/apt/sources.list"), sources).expect("the sources");
    fs::write(root.join("etc/dpkg/dpkg.cfg.d/haste"), HASTE).expect("a file of dpkg");
    for (name, text) in settings() {
        fs::write(root.join("etc/apt/apt.conf.d").join(name), text).expect("a file of apt");
    }
    let here = Mirror::get();
    let proxy = format!("-oAcquire::http::Proxy=http://127.0.0.1:{}", here.port());
    let apt = || {
        let mut command = Command::new("chroot");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg(&root).args(["apt-get", "-qq", &proxy]);
        command
    };
    must(apt().arg("update"));
    // Services must not start here: there is no systemd.
    fs::write(root.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n").expect("a policy");
    must(Command::new("chmod").arg("0755").arg(root.join("usr/sbin/policy-rc.d")));
    must(apt().args(["install", "-y", "--no-install-recommends"]).args(TOOLS));
    fs::remove_file(root.join("usr/sbin/policy-rc.d")).expect("the policy goes");
    must(apt().arg("clean"));
    must(Command::new("umount").arg(&root));
    fs::write(mark, "").expect("the mark");
    dir
}

/// apt configuration: how this host reaches its mirrors, and that unchanged lists are not downloaded again.
fn settings() -> Vec<(String, String)> {
    let mut files = vec![(
        "90harness".to_owned(),
        "Acquire::http::Pipeline-Depth \"0\";\nAcquire::Languages \"none\";\nAcquire::Retries \"3\";\n"
            .to_owned(),
    )];
    let Ok(found) = fs::read_dir("/etc/apt/apt.conf.d") else { return files };
    for entry in found.flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let told = |line: &&str| !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with("//");
        if text.lines().filter(told).all(|line| line.starts_with("Acquire::")) {
            files.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
    }
    files
}

fn bootstrap(dir: &Path) {
    let include = format!("--include={PACKAGES}");
    must(Command::new("debootstrap").args(["--variant=minbase", &include, SUITE]).arg(dir).arg(mirror()));
    // Every container gets its own id, as a host from an image does.
    fs::write(dir.join("etc/machine-id"), "").expect("an empty machine-id");
}

fn mirror() -> String {
    std::env::var("DEBIAN_MIRROR").unwrap_or_else(|_| MIRROR.to_owned())
}

/// Where images are kept: `NSPAWN_CACHE`, else in the target directory of cargo.
///
/// # Panics
/// When it cannot be created.
pub(super) fn cache_dir() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/nspawn");
    let dir = std::env::var_os("NSPAWN_CACHE").map_or_else(beside, PathBuf::from);
    fs::create_dir_all(&dir).expect("the directory that keeps the Debians");
    dir.canonicalize().expect("a path without links")
}

fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Runs a program that must succeed.
///
/// # Panics
/// When it does not.
pub(super) fn must(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{command:?}: {}\n{}{}", out.status, text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

/// True when a program is in `PATH`.
pub(super) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
