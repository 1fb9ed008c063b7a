//! The bare binary in, an installed program out: the same files as in the packages, and their removal.
//!
//! Law: an existing configuration is never replaced, and only `--purge` removes it (held by
//! `an_installation_keeps_the_configuration_and_leaves_nothing_else_behind`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zagent_config::atomic_file::AtomicFile;
use zagent_config::paths::{CONFIG_DIR, CONFIG_FILE, DEFAULT_ROOT};

/// The program.
const PROGRAM: &str = "/usr/bin/zagent";
const UNIT_DIR: &str = "/usr/lib/systemd/system";
const MANUAL_DIR: &str = "/usr/share/man/man1";
const BASH_COMPLETION: &str = "/usr/share/bash-completion/completions/zagent";
const ZSH_COMPLETION: &str = "/usr/share/zsh/site-functions/_zagent";
const FISH_COMPLETION: &str = "/usr/share/fish/vendor_completions.d/zagent.fish";
const SAMPLE: &str = include_str!("../../../dist/zagent.yaml");

macro_rules! units {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../dist/systemd/", $name)))),*]
    };
}

/// The units.
const UNITS: [(&str, &str); 4] =
    units!("zagent.service", "zagent-watchdog.service", "zagent-run.service", "zagent-run.timer");

/// An installation that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// A file could not be read.
    #[error("cannot read `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file could not be written.
    #[error("cannot write `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A file could not be removed.
    #[error("cannot remove `{}`", .path.display())]
    Remove { path: PathBuf, source: io::Error },
}

impl InstallError {
    /// True when the system denied permission.
    pub(crate) fn is_permission(&self) -> bool {
        let (Self::Read { source, .. } | Self::Write { source, .. } | Self::Remove { source, .. }) = self;
        matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    }
}

/// What the program generates about itself.
pub(crate) struct GeneratedFiles {
    /// The running program.
    pub(crate) program: PathBuf,
    /// Manual pages: name of the file and text.
    pub(crate) manual: Vec<(String, String)>,
    /// The completion scripts of bash, zsh and fish.
    pub(crate) completions: [Vec<u8>; 3],
}

/// Where files are installed: below a directory, `/` on a running host.
#[derive(Debug)]
pub(crate) struct Installation {
    destdir: PathBuf,
}

impl Installation {
    /// An installation below a directory.
    pub(crate) const fn below(destdir: PathBuf) -> Self {
        Self { destdir }
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.destdir.join(absolute.trim_start_matches('/'))
    }

    /// True when the program belongs to a package of dpkg.
    pub(crate) fn is_debian_package(&self) -> bool {
        self.path("/var/lib/dpkg/info/zagent.list").exists()
    }

    /// Writes all files; returns their paths. An existing configuration stays.
    pub(crate) fn install(&self, files: &GeneratedFiles) -> Result<Vec<PathBuf>, InstallError> {
        let mut written = Vec::new();
        let target = self.path(PROGRAM);
        if fs::canonicalize(&target).ok() != fs::canonicalize(&files.program).ok() || !target.exists() {
            let bytes = fs::read(&files.program)
                .map_err(|source| InstallError::Read { path: files.program.clone(), source })?;
            self.write(PROGRAM, &bytes, 0o755, &mut written)?;
        }
        for (name, text) in UNITS {
            self.write(&format!("{UNIT_DIR}/{name}"), text.as_bytes(), 0o644, &mut written)?;
        }
        for (name, text) in &files.manual {
            self.write(&format!("{MANUAL_DIR}/{name}"), text.as_bytes(), 0o644, &mut written)?;
        }
        for (path, script) in
            [BASH_COMPLETION, ZSH_COMPLETION, FISH_COMPLETION].into_iter().zip(&files.completions)
        {
            self.write(path, script, 0o644, &mut written)?;
        }
        let config = format!("{CONFIG_DIR}/{CONFIG_FILE}");
        if !self.path(&config).exists() {
            self.write(&config, SAMPLE.as_bytes(), 0o644, &mut written)?;
        }
        Ok(written)
    }

    fn write(
        &self,
        absolute: &str,
        bytes: &[u8],
        mode: u32,
        written: &mut Vec<PathBuf>,
    ) -> Result<(), InstallError> {
        let path = self.path(absolute);
        let parent = path.parent().unwrap_or(&path);
        let failed = |source| InstallError::Write { path: path.clone(), source };
        fs::create_dir_all(parent).map_err(failed)?;
        AtomicFile::durable(mode).write(&path, bytes).map_err(failed)?;
        written.push(path);
        Ok(())
    }

    /// Removes what [`Self::install`] writes, except the configuration; with `purge` also the configuration and the
    /// state directory. Returns what was removed.
    pub(crate) fn uninstall(&self, purge: bool) -> Result<Vec<PathBuf>, InstallError> {
        let mut paths: Vec<PathBuf> = [PROGRAM, BASH_COMPLETION, ZSH_COMPLETION, FISH_COMPLETION]
            .into_iter()
            .map(|path| self.path(path))
            .collect();
        paths.extend(UNITS.iter().map(|(name, _)| self.path(&format!("{UNIT_DIR}/{name}"))));
        paths.extend(self.installed_pages());
        let mut removed = Vec::new();
        for path in paths {
            remove(path, |path| fs::remove_file(path), &mut removed)?;
        }
        for dir in [CONFIG_DIR, DEFAULT_ROOT].into_iter().filter(|_| purge) {
            remove(self.path(dir), |path| fs::remove_dir_all(path), &mut removed)?;
        }
        Ok(removed)
    }

    /// Manual pages on disk, also those of commands that this version no longer has.
    fn installed_pages(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path(MANUAL_DIR)) else { return Vec::new() };
        let is_ours = |name: &str| name == "zagent.1" || name.starts_with("zagent-") && name.ends_with(".1");
        let found = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
        found.map(|entry| entry.path()).collect()
    }
}

fn remove(
    path: PathBuf,
    how: impl Fn(&Path) -> io::Result<()>,
    removed: &mut Vec<PathBuf>,
) -> Result<(), InstallError> {
    match how(&path) {
        Ok(()) => removed.push(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(InstallError::Remove { path, source }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_below(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                found.extend(files_below(&path));
            } else {
                found.push(path.display().to_string());
            }
        }
        found.sort();
        found
    }

    #[test]
    fn an_installation_keeps_the_configuration_and_leaves_nothing_else_behind() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("downloaded");
        fs::write(&program, "program").unwrap();
        let root = dir.path().join("root");
        let files = GeneratedFiles {
            program,
            manual: vec![("zagent.1".into(), "page".into()), ("zagent-run.1".into(), "page".into())],
            completions: [b"bash".to_vec(), b"zsh".to_vec(), b"fish".to_vec()],
        };
        let here = Installation::below(root.clone());
        let written = here.install(&files).unwrap();
        assert_eq!(written.len(), 1 + 4 + 2 + 3 + 1);
        let mut paths: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        paths.sort();
        assert_eq!(files_below(&root), paths);
        let mode = |path: &str| {
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(root.join(path)).unwrap().permissions())
                & 0o777
        };
        assert_eq!((mode("usr/bin/zagent"), mode("etc/zagent/zagent.yaml")), (0o755, 0o644));

        // Again, as an upgrade: the configuration of the operator stays.
        let config = root.join("etc/zagent/zagent.yaml");
        fs::write(&config, "id: mine\n").unwrap();
        assert!(!here.install(&files).unwrap().contains(&config));
        assert_eq!(fs::read_to_string(&config).unwrap(), "id: mine\n");

        // A page of an older version goes too, the pages of others stay.
        fs::write(root.join("usr/share/man/man1/zagent-gone.1"), "").unwrap();
        fs::write(root.join("usr/share/man/man1/zagents.1"), "").unwrap();
        here.uninstall(false).unwrap();
        let left = files_below(&root);
        assert_eq!(
            left,
            [config.display().to_string(), root.join("usr/share/man/man1/zagents.1").display().to_string()]
        );
        assert_eq!(here.uninstall(true).unwrap(), [root.join("etc/zagent")]);
        assert_eq!(here.uninstall(true).unwrap(), Vec::<PathBuf>::new(), "safe to repeat");
    }
}
