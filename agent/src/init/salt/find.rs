//! Directory in, location of its Salt trees out: from a configuration in it, otherwise from its layout.

use std::path::{Path, PathBuf};

use zagent_config::salt_config::SaltConfig;
use zagent_config::{Diagnostics, Map, Value};

use super::{SaltRoots, SaltTree};
use zagent_compiler::BASE_ENV;

/// Possible locations of a configuration, relative to the given directory; the master's defines the file
/// server.
const CONFIGS: [&str; 6] =
    ["master", "etc/salt/master", "etc/master", "minion", "etc/salt/minion", "etc/minion"];
/// Possible locations of states; the first with a top file wins, otherwise the first that exists.
const STATES: [&str; 5] = ["states", "salt", "srv/salt", "srv/states", "."];
/// Possible locations of pillar.
const PILLAR: [&str; 3] = ["pillar", "srv/pillar", "../pillar"];

/// Why no tree was found.
#[derive(Debug, thiserror::Error)]
pub enum FindTreeError {
    /// No SLS file anywhere.
    #[error("`{}` holds no Salt tree: no SLS file in it, nor in `salt/`, `states/` or `srv/salt/`", .0.display())]
    NoTree(PathBuf),
    /// A configuration cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A configuration has errors.
    #[error("{0}")]
    Faults(Diagnostics),
}

/// Finds the trees below a directory; a given configuration takes precedence over one that is found.
///
/// # Errors
/// Fails when no SLS file is found, and when a configuration cannot be parsed.
pub fn find_tree(dir: &Path, config: Option<&Path>) -> Result<SaltTree, FindTreeError> {
    let config = config.map(PathBuf::from).or_else(|| {
        let found = CONFIGS.iter().map(|name| dir.join(name));
        found.into_iter().find(|path| path.is_file())
    });
    let (opts, settings) = match &config {
        Some(path) => read_salt_config(path)?,
        None => (Map::new(), SaltConfig::default()),
    };
    let mut missing = Vec::new();
    let mut placed = |roots: &[(String, Vec<String>)]| -> SaltRoots {
        let mut out = SaltRoots::new();
        for (env, dirs) in roots {
            let (there, gone): (Vec<_>, Vec<_>) =
                dirs.iter().map(|d| resolve_path(dir, d)).partition(|path| path.is_dir());
            missing.extend(gone);
            if !there.is_empty() {
                out.push((env.clone(), there));
            }
        }
        out
    };
    let (mut states, mut pillar) = (placed(&settings.file_roots), placed(&settings.pillar_roots));
    if states.is_empty() {
        states = find_sls_dir(dir, &STATES).map(|d| vec![(BASE_ENV.to_owned(), vec![d])]).unwrap_or_default();
    }
    if pillar.is_empty() {
        let found = PILLAR.iter().map(|name| dir.join(name)).find(|d| d.is_dir());
        pillar = found.map(|d| vec![(BASE_ENV.to_owned(), vec![normalize_path(&d)])]).unwrap_or_default();
    }
    if states.is_empty() {
        return Err(FindTreeError::NoTree(dir.to_owned()));
    }
    Ok(SaltTree { dir: dir.to_owned(), config, opts, settings, states, pillar, missing })
}

/// A path of a configuration: as written, or below the directory when that is a copy of another host's files.
fn resolve_path(dir: &Path, written: &str) -> PathBuf {
    let below = dir.join(written.trim_start_matches('/'));
    if below.is_dir() { below } else { dir.join(written) }
}

fn find_sls_dir(dir: &Path, names: &[&str]) -> Option<PathBuf> {
    let here = || names.iter().map(|name| normalize_path(&dir.join(name)));
    here().find(|d| d.join("top.sls").is_file()).or_else(|| here().find(|d| has_sls(d, 3)))
}

/// True when an SLS file is nearby.
fn has_sls(dir: &Path, depth: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.iter().any(|p| p.extension().is_some_and(|e| e == "sls") && p.is_file())
        || (depth > 0 && paths.iter().any(|p| p.is_dir() && has_sls(p, depth - 1)))
}

fn normalize_path(path: &Path) -> PathBuf {
    let parts: PathBuf = path.components().filter(|c| *c != std::path::Component::CurDir).collect();
    if parts.as_os_str().is_empty() { ".".into() } else { parts }
}

/// A configuration and its fragments in `FILE.d/*.conf`; later ones override earlier ones.
fn read_salt_config(path: &Path) -> Result<(Map, SaltConfig), FindTreeError> {
    let mut files = vec![path.to_owned()];
    let mut fragments = path.as_os_str().to_owned();
    fragments.push(".d");
    if let Ok(entries) = std::fs::read_dir(&fragments) {
        let mut more: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        more.retain(|p| p.extension().is_some_and(|e| e == "conf"));
        more.sort_unstable();
        files.extend(more);
    }
    let mut opts = Map::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .map_err(|source| FindTreeError::Read { path: file.clone(), source })?;
        let one = SaltConfig::read(&file.display().to_string(), &text).map_err(FindTreeError::Faults)?;
        for (key, value) in one.opts.iter() {
            opts.insert(key.clone(), value.clone());
        }
    }
    let settings =
        SaltConfig::from_opts(&path.display().to_string(), &opts).map_err(FindTreeError::Faults)?;
    Ok((opts, settings))
}

/// Line of a top-level key of a configuration; the first line when the key is in a fragment.
pub(super) fn line_of(opts: &Map, key: &str) -> u32 {
    opts.entry(key).map_or(1, |entry| entry.at.line.max(1))
}

/// True when an option is present and not empty.
pub(super) fn is_set(opts: &Map, key: &str) -> bool {
    opts.get(key).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)) && value.is_truthy())
}
