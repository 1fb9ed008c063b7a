//! A root directory, a tarball or a request to build one in, a private copy of a root file system out.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zagent_host::Machine;
use zagent_host::exec::{ExecCommand, ExecError};

/// What an image built here contains: a minimal Debian that boots and installs packages.
const SUITE: &str = "bookworm";
const PACKAGES: &str = "systemd,systemd-sysv,dbus,ca-certificates,procps,iproute2";
/// How long building or copying an image may take.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// There is nothing at the path.
    #[error("there is no image at `{}`", .0.display())]
    Missing(PathBuf),
    /// A directory that is not the root of a system.
    #[error("`{}` is not the root directory of a Linux system: it has no `usr` or `etc`", .0.display())]
    NotARoot(PathBuf),
    /// A program that makes or copies it failed.
    #[error("cannot {what} `{}`: {why}", path.display())]
    Failed {
        /// What was done.
        what: &'static str,
        /// The image.
        path: PathBuf,
        /// What the program printed.
        why: String,
    },
    /// A program cannot be started.
    #[error("cannot {what} `{}`", path.display())]
    Start {
        /// What was to be done.
        what: &'static str,
        /// The image.
        path: PathBuf,
        /// Why.
        #[source]
        source: ExecError,
    },
    /// A directory cannot be created.
    #[error("cannot create `{}`", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A root directory or a tarball of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestImage {
    /// The root directory of a system.
    Dir(PathBuf),
    /// A tarball of one, compressed or not.
    Tarball(PathBuf),
}

/// Where the image built on request is kept: below the cache directory of the user.
#[must_use]
pub fn default_image_dir(cache: &Path) -> PathBuf {
    cache.join("zagent").join(format!("test-image-{SUITE}"))
}

impl TestImage {
    /// The image at a path.
    ///
    /// # Errors
    /// Fails when there is none, or a directory holds no system.
    pub fn find(path: &Path) -> Result<Self, ImageError> {
        if path.is_file() {
            return Ok(Self::Tarball(path.to_owned()));
        }
        if !path.is_dir() {
            return Err(ImageError::Missing(path.to_owned()));
        }
        match path.join("usr").is_dir() && path.join("etc").is_dir() {
            true => Ok(Self::Dir(path.to_owned())),
            false => Err(ImageError::NotARoot(path.to_owned())),
        }
    }

    /// Builds a minimal Debian at a path with debootstrap; about a minute.
    ///
    /// # Errors
    /// Fails when debootstrap is missing or fails.
    pub fn build(path: &Path) -> Result<Self, ImageError> {
        let parent = path.parent().unwrap_or(path);
        std::fs::create_dir_all(parent)
            .map_err(|source| ImageError::Create { path: parent.to_owned(), source })?;
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        // What an interrupted build left behind is not an image, and what is there already is replaced as a whole.
        for old in [Path::new(&part), path] {
            run_tool("remove", path, "rm", &["-rf".into(), "--".into(), old.into()])?;
        }
        let include = format!("--include={PACKAGES}");
        let args = ["--variant=minbase".into(), include.into(), SUITE.into(), part.clone()];
        run_tool("build the image", path, "debootstrap", &args)?;
        run_tool("build the image", path, "mv", &["--".into(), part, path.into()])?;
        Ok(Self::Dir(path.to_owned()))
    }

    /// Copies it to an existing empty directory.
    ///
    /// # Errors
    /// Fails when it cannot be copied or unpacked.
    pub(super) fn copy_to(&self, root: &Path) -> Result<(), ImageError> {
        match self {
            Self::Dir(dir) => {
                let args =
                    ["-a".into(), "--reflink=auto".into(), "--".into(), dir.join(".").into(), root.into()];
                run_tool("copy the image", dir, "cp", &args)
            }
            Self::Tarball(file) => {
                let args = ["-C".into(), root.into(), "--numeric-owner".into(), "-xpf".into(), file.into()];
                run_tool("unpack the image", file, "tar", &args)
            }
        }
    }
}

fn run_tool(what: &'static str, path: &Path, program: &str, args: &[OsString]) -> Result<(), ImageError> {
    let mut command = ExecCommand::new(program).args(args.to_vec());
    command.timeout = Some(BUILD_LIMIT);
    command.merge_stderr = true;
    let outcome = Machine::this_host().run(&command).map_err(|source| ImageError::Start {
        what,
        path: path.to_owned(),
        source,
    })?;
    if outcome.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&outcome.stdout).trim_end().to_owned();
    let why = said.lines().last().unwrap_or("no message").to_owned();
    Err(ImageError::Failed { what, path: path.to_owned(), why: format!("`{program}`: {why}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_root_directory_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(TestImage::find(dir.path()), Err(ImageError::NotARoot(_))));
        assert!(matches!(TestImage::find(&dir.path().join("none")), Err(ImageError::Missing(_))));
        for name in ["usr", "etc"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("etc/motd"), "hello").unwrap();
        let image = TestImage::find(dir.path()).unwrap();
        let copy = tempfile::tempdir().unwrap();
        image.copy_to(copy.path()).unwrap();
        assert_eq!(std::fs::read_to_string(copy.path().join("etc/motd")).unwrap(), "hello");
        let broken = copy.path().join("broken.tar");
        std::fs::write(&broken, "no tarball").unwrap();
        let failed = TestImage::find(&broken).unwrap().copy_to(dir.path()).unwrap_err().to_string();
        assert!(failed.contains("cannot unpack the image") && failed.contains("tar"), "{failed}");
    }
}
