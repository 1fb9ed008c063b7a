//! The Debian that every container starts from: a directory made once, packed and kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What is in it, and no Git: hosts need none. A change makes another one.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,ca-certificates";
const SUITE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";

/// The lower directory of every overlay.
#[derive(Debug)]
pub struct Base {
    dir: PathBuf,
}

impl Base {
    /// The one of this process.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn get() -> &'static Self {
        static BASE: OnceLock<Base> = OnceLock::new();
        BASE.get_or_init(Self::make)
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn make() -> Self {
        let cache = cache_dir();
        fs::create_dir_all(&cache).expect("the directory that keeps the Debian");
        let name = format!("debian-{SUITE}-{:08x}", fingerprint(PACKAGES));
        let (dir, tarball) = (cache.join(&name), cache.join(format!("{name}.tar")));
        // A directory without its mark was left half-made.
        let mark = dir.join(".complete");
        if mark.exists() {
            return Self { dir };
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
        Self { dir }
    }
}

fn bootstrap(dir: &Path) {
    let include = format!("--include={PACKAGES}");
    let mirror = std::env::var("DEBIAN_MIRROR").unwrap_or_else(|_| MIRROR.to_owned());
    must(Command::new("debootstrap").args(["--variant=minbase", &include, SUITE]).arg(dir).arg(mirror));
    // Every container gets an id of its own, as a host from an image does.
    fs::write(dir.join("etc/machine-id"), "").expect("an empty machine-id");
}

/// Where it is kept: `NSPAWN_CACHE`, else beside what cargo makes.
fn cache_dir() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/nspawn");
    std::env::var_os("NSPAWN_CACHE").map_or_else(beside, PathBuf::from)
}

fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Runs a program that must end well.
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
