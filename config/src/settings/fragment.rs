//! One configuration file as written, and the origin of values.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codes::configuration as code;
use crate::diagnostic::{Diagnostic, Diagnostics, Excerpt};
use crate::paths;
use crate::trusted_path;
use crate::value::{Map, Pos, Value};
use crate::yaml::{self, ScalarSchema};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// Not set.
    Default,
    /// The name of the host.
    HostName,
    /// A file.
    File {
        /// The file.
        file: Arc<str>,
        /// The position of the key.
        pos: Pos,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(String),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::HostName => f.write_str("host name"),
            Self::File { file, pos } if pos.is_known() => write!(f, "{file}:{}", pos.line),
            Self::File { file, .. } => f.write_str(file),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One configuration file as it was written.
#[derive(Clone, Debug)]
pub struct ConfigFragment {
    pub(super) file: Arc<str>,
    pub(super) text: Arc<str>,
    pub(super) map: Map,
}

impl ConfigFragment {
    /// Reads the text of a file; an empty file is valid.
    ///
    /// # Errors
    /// Fails when it is not YAML, or not a mapping.
    pub fn read(file: &str, text: &str) -> Result<Self, Diagnostics> {
        let this = Self { file: file.into(), text: text.into(), map: Map::new() };
        match yaml::load(text, ScalarSchema::Core) {
            Ok(Value::Null) => Ok(this),
            Ok(Value::Map(map)) => Ok(Self { map: (*map).clone(), ..this }),
            Ok(other) => Err(Diagnostic::new(
                code::WRONG_TYPE,
                format!("a configuration file must be a mapping, not {}", other.kind()),
            )
            .at(file, Pos::new(1, 1))
            .into()),
            Err(diagnostic) => {
                let mut out = Diagnostic::new(code::SYNTAX, diagnostic.message).at(file, diagnostic.pos);
                out.excerpts.extend(this.excerpt(diagnostic.pos));
                Err(out.into())
            }
        }
    }

    /// The line at `pos`, unless it may contain a password.
    pub(super) fn excerpt(&self, pos: Pos) -> Option<Excerpt> {
        let line = usize::try_from(pos.line).ok()?.checked_sub(1)?;
        let text =
            self.text.lines().nth(line).filter(|line| !(line.contains("://") && line.contains('@')))?;
        Some(Excerpt { label: String::new(), line: pos.line, column: pos.column, text: text.to_owned() })
    }
}

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigLocation {
    /// A directory: `zagent.yaml`, then `conf.d/*.yaml` by name. All of them are optional.
    Dir(PathBuf),
    /// One file, which must exist, without fragments.
    File(PathBuf),
}

impl ConfigLocation {
    /// Reads every existing file, in order.
    ///
    /// # Errors
    /// Fails with every file that cannot be read, is not YAML, or can be changed by others.
    pub fn read_fragments(&self) -> Result<Vec<ConfigFragment>, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let mut fragments = Vec::new();
        let mut take = |read: Result<Option<ConfigFragment>, Diagnostics>| match read {
            Ok(fragment) => fragments.extend(fragment),
            Err(found) => diagnostics.0.extend(found.0),
        };
        match self {
            Self::File(file) => take(read_fragment(file, true)),
            Self::Dir(dir) => {
                take(read_fragment(&dir.join(paths::CONFIG_FILE), false));
                match list_fragments(&dir.join(paths::FRAGMENTS_DIR)) {
                    Ok(files) => files.iter().for_each(|file| take(read_fragment(file, true))),
                    Err(diagnostic) => take(Err(diagnostic)),
                }
            }
        }
        diagnostics.into_result().map(|()| fragments)
    }
}

fn read_fragment(path: &Path, must: bool) -> Result<Option<ConfigFragment>, Diagnostics> {
    let name = path.display().to_string();
    must_be_trusted(path)?;
    match std::fs::read(path) {
        Err(error) if !must && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Diagnostic::new(code::UNREADABLE, format!("cannot read the file: {error}"))
            .at(name, Pos::NONE)
            .into()),
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => ConfigFragment::read(&name, &text).map(Some),
            Err(_) => Err(Diagnostic::new(code::SYNTAX, "the file is not UTF-8").at(name, Pos::NONE).into()),
        },
    }
}

/// Refuses a file that somebody else can change: it makes root run what they like.
fn must_be_trusted(path: &Path) -> Result<(), Diagnostics> {
    trusted_path::verify(path).map_err(|error| {
        Diagnostic::new(code::UNTRUSTED, error.to_string())
            .at(path.display().to_string(), Pos::NONE)
            .hint(error.hint())
            .into()
    })
}

fn list_fragments(dir: &Path) -> Result<Vec<PathBuf>, Diagnostics> {
    must_be_trusted(dir)?;
    let diagnostic = |error: std::io::Error| -> Diagnostics {
        Diagnostic::new(code::UNREADABLE, format!("cannot list the directory: {error}"))
            .at(dir.display().to_string(), Pos::NONE)
            .into()
    };
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(diagnostic)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(diagnostic)?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}
