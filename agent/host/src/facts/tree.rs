//! Paths in, contents out: the files of a host, seen from a root directory.
//!
//! The law: nothing outside the root is read (a symbolic link cannot lead out of a root that is not `/`), nothing
//! without a bound, and what cannot be read is simply not there.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};

/// The most that is ever read of one file.
const MAX_BYTES: usize = 16 << 20;
/// How much room is made for a file at first: most files that facts come from are smaller.
const FIRST_READ: usize = 4 << 10;

/// Where programs of the system are looked for, whatever the environment says.
const PROGRAM_DIRS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The files of one host.
#[derive(Debug)]
pub(crate) struct FactsRoot {
    root: PathBuf,
    /// Open only when the root is not `/`.
    fd: Option<File>,
}

impl FactsRoot {
    pub(crate) fn new(root: PathBuf) -> Self {
        let fd = if root == Path::new("/") { None } else { File::open(&root).ok() };
        Self { root, fd }
    }

    fn is_live_root(&self) -> bool {
        self.root == Path::new("/")
    }

    fn open_with_flags(&self, path: &str, flags: OFlags) -> Option<File> {
        // A pipe must not hold us up; a mere path has nothing to wait for and takes no such flag.
        let patience = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK };
        let flags = flags | OFlags::CLOEXEC | patience;
        let fd = if self.is_live_root() {
            rustix::fs::openat(CWD, path, flags, Mode::empty())
        } else {
            let root = self.fd.as_ref()?;
            rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
        };
        fd.ok().map(File::from)
    }

    /// The bytes of a file.
    pub(crate) fn read_bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.read_head(path, MAX_BYTES)
    }

    /// The first bytes of a file.
    pub(crate) fn read_head(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        self.read_slice(path, 0, most)
    }

    /// Bytes out of the middle of a file; fewer where it ends.
    pub(crate) fn read_slice(&self, path: &str, at: u64, most: usize) -> Option<Vec<u8>> {
        let file = self.open_with_flags(path, OFlags::RDONLY)?;
        let most = most.min(MAX_BYTES);
        let mut bytes = Vec::with_capacity(most.min(FIRST_READ));
        let mut at = at;
        // An attribute of the kernel is written in one go.
        let is_attribute = path.starts_with("/sys/");
        while bytes.len() < most {
            if bytes.len() == bytes.capacity() {
                bytes.reserve((most - bytes.len()).min(bytes.len()));
            }
            match rustix::io::pread(&file, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) if is_attribute && bytes.len() < bytes.capacity() => break,
                Ok(read) => at += read as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        bytes.truncate(most);
        Some(bytes)
    }

    /// The text of a file; what is not UTF-8 is replaced.
    pub(crate) fn read_text(&self, path: &str) -> Option<String> {
        Some(match String::from_utf8(self.read_bytes(path)?) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        })
    }

    /// The text of a file without the white space around it.
    pub(crate) fn read_line(&self, path: &str) -> Option<String> {
        self.read_text(path).map(|t| t.trim().to_owned())
    }

    /// True when something is there.
    pub(crate) fn exists(&self, path: &str) -> bool {
        if self.is_live_root() {
            return rustix::fs::statat(CWD, path, AtFlags::empty()).is_ok();
        }
        self.open_with_flags(path, OFlags::PATH).is_some()
    }

    /// True when a directory is there.
    pub(crate) fn is_dir(&self, path: &str) -> bool {
        self.metadata(path).is_some_and(|m| m.is_dir())
    }

    pub(crate) fn metadata(&self, path: &str) -> Option<std::fs::Metadata> {
        self.open_with_flags(path, OFlags::PATH)?.metadata().ok()
    }

    /// The names in a directory, sorted; none when it is not there.
    pub(crate) fn list_names(&self, path: &str) -> Vec<String> {
        let Some(dir) = self.open_with_flags(path, OFlags::RDONLY | OFlags::DIRECTORY) else {
            return Vec::new();
        };
        let Ok(dir) = rustix::fs::Dir::new(dir) else { return Vec::new() };
        let mut names: Vec<String> = dir
            .filter_map(Result::ok)
            .filter_map(|e| e.file_name().to_str().ok().map(str::to_owned))
            .filter(|n| n != "." && n != "..")
            .collect();
        names.sort_unstable();
        names
    }

    /// What a symbolic link says.
    pub(crate) fn read_link(&self, path: &str) -> Option<String> {
        let relative = path.trim_start_matches('/');
        std::fs::read_link(self.root.join(relative)).ok()?.into_os_string().into_string().ok()
    }

    /// The path of a program, as seen from the root.
    pub(crate) fn which(&self, program: &str) -> Option<String> {
        if program.starts_with('/') {
            return self.is_program(program).then(|| program.to_owned());
        }
        PROGRAM_DIRS.iter().map(|dir| format!("{dir}/{program}")).find(|path| self.is_program(path))
    }

    fn is_program(&self, path: &str) -> bool {
        if self.is_live_root() {
            return rustix::fs::statat(CWD, path, AtFlags::empty())
                .is_ok_and(|s| s.st_mode & 0o111 != 0 && s.st_mode & 0o170_000 == 0o100_000);
        }
        self.metadata(path).is_some_and(|m| m.is_file() && m.mode() & 0o111 != 0)
    }
}

/// True when the name ends in this extension, in any case.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    #[test]
    fn links_stay_inside_the_root() {
        let host = FactsFixture::new()
            .file("/usr/lib/os-release", "ID=inside\n")
            .link("/etc/os-release", "/usr/lib/os-release");
        let host = host.link("/etc/escape", "../../../../../../etc/passwd");
        let tree = host.tree();
        assert_eq!(tree.read_line("/etc/os-release").as_deref(), Some("ID=inside"));
        assert_eq!(tree.read_text("/etc/escape"), None);
        assert_eq!(tree.list_names("/etc"), ["escape", "os-release"]);
        assert!(tree.exists("/etc") && tree.is_dir("/etc") && !tree.exists("/etc/passwd"));
    }

    #[test]
    fn a_directory_is_no_file() {
        let host = FactsFixture::new().file("/a/b", "c");
        assert_eq!(host.tree().read_bytes("/a"), None);
        assert_eq!(host.tree().read_slice("/a/b", 9, 9), Some(Vec::new()));
    }

    #[test]
    fn programs_are_found_where_systems_keep_them() {
        let host = FactsFixture::new().program("/usr/sbin/ip").file("/usr/bin/data", "x");
        assert_eq!(host.tree().which("ip").as_deref(), Some("/usr/sbin/ip"));
        assert_eq!(host.tree().which("data"), None);
        assert_eq!(host.tree().which("/usr/sbin/ip").as_deref(), Some("/usr/sbin/ip"));
    }
}
