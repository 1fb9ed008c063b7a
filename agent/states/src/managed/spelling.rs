//! A name as somebody wrote it in, one spelling of it out: two spellings of one thing are one thing.

use std::path::{Path, PathBuf};

/// What rpm and dpkg write behind a name for an architecture.
const ARCHITECTURES: [&str; 16] = [
    "all", "noarch", "amd64", "x86_64", "i386", "i586", "i686", "arm64", "aarch64", "armhf", "armv7hl",
    "ppc64el", "ppc64le", "riscv64", "s390x", "any",
];

/// A path without `//`, `/./` and a slash at its end. What `..` means depends on links, so that it stays.
#[must_use]
pub fn lexical_path(path: &str) -> String {
    let parts: PathBuf = Path::new(path).components().collect();
    parts.to_str().map_or_else(|| path.to_owned(), str::to_owned)
}

/// The name of a package without its architecture: `libc6` for `libc6:amd64`, `glibc` for `glibc.i686`.
#[must_use]
pub fn package_base(name: &str) -> &str {
    match name.rsplit_once([':', '.']) {
        Some((base, architecture)) if ARCHITECTURES.contains(&architecture) => base,
        _ => name,
    }
}

/// A service as `systemctl` takes it too: without the suffix that it adds.
pub(super) fn service_name(name: &str) -> &str {
    name.strip_suffix(".service").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_are_one_name() {
        for (path, want) in [
            ("/etc//a", "/etc/a"),
            ("/etc/./a/", "/etc/a"),
            ("/", "/"),
            ("//", "/"),
            ("/etc/../a", "/etc/../a"),
            ("a/b", "a/b"),
        ] {
            assert_eq!(lexical_path(path), want, "{path}");
        }
        for (name, want) in
            [("vim", "vim"), ("libc6:amd64", "libc6"), ("glibc.i686", "glibc"), ("python3.11", "python3.11")]
        {
            assert_eq!(package_base(name), want, "{name}");
        }
        assert_eq!((service_name("ssh.service"), service_name("a.timer")), ("ssh", "a.timer"));
    }
}
