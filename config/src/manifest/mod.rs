//! `manifest.yaml` in, a checked manifest out; and back.
//!
//! Law: what is read is validated (paths cannot leave the tree, digests are well formed), and the same manifest is
//! always written as the same text, so that its signature stays valid (held by
//! `a_hostile_manifest_is_rejected_with_few_errors`, `what_is_written_is_read_again`).

mod read;
#[cfg(test)]
mod tests;
mod version;

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;

pub use self::read::{parse_expiry, path_problem};
pub use self::version::{AgentVersion, AgentVersionError};
use crate::paths::tree;
use crate::settings::{CompatMode, RunSchedule};

/// The schema version that zagent reads and writes.
pub const SCHEMA: i64 = 1;
/// Maximum size in bytes: enough for a hundred thousand files with long names.
pub const MAX_BYTES: usize = 32 << 20;

/// The manifest of a states repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Increases with every change; a node refuses a lower one.
    pub serial: u64,
    /// What it was written for; any other repository and branch refuses it.
    pub target: Option<ManifestTarget>,
    /// Refused from this time on.
    pub expires: Option<Timestamp>,
    /// The oldest agent version that supports the tree.
    pub min_agent: Option<AgentVersion>,
    /// The order in which states run.
    pub schedule: Option<RunSchedule>,
    /// Whose behaviour applies: zagent's or Salt's.
    pub compat: Option<CompatMode>,
    /// Where the trees are.
    pub roots: ManifestRoots,
    /// Every file, by its path; `None` when the manifest lists no files, so that no file is verified.
    pub files: Option<BTreeMap<String, ManifestEntry>>,
}

/// The key `for`: what a manifest was written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestTarget {
    /// The repository, as [`repository_name`](crate::repository_name) names it.
    pub repository: String,
    /// The branch.
    pub branch: String,
}

/// Where the trees of a repository are, relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestRoots {
    /// The state tree.
    pub states: Option<String>,
    /// The pillar tree.
    pub pillar: Option<String>,
}

/// The manifest entry of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The BLAKE3 digest of its bytes, 64 hex digits in lower case.
    pub blake3: String,
    /// Whether it is executable.
    pub mode: ManifestMode,
}

/// The two file modes that Git supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManifestMode {
    /// `0644`.
    #[default]
    Plain,
    /// `0755`.
    Executable,
}

impl ManifestMode {
    /// `0644` or `0755`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "0644",
            Self::Executable => "0755",
        }
    }

    /// The mode of a file with these permission bits: executable when its owner can execute it, as in Git.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        if bits & 0o100 == 0 { Self::Plain } else { Self::Executable }
    }
}

impl Manifest {
    /// True when it is expired.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// The text of the manifest: sorted, one line per file.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut out = format!("schema: {SCHEMA}\nserial: {}\n", self.serial);
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(out, "{key}: {value}");
            }
        };
        line(
            "for",
            self.target.as_ref().map(|ManifestTarget { repository, branch }| {
                format!("{{repository: {}, branch: {}}}", scalar(repository), quote_scalar(branch))
            }),
        );
        line("expires", self.expires.map(|time| time.to_string()));
        line("min_agent", self.min_agent.as_ref().map(|version| quote_scalar(&version.to_string())));
        line("schedule", self.schedule.map(|schedule| schedule.name().to_owned()));
        line("compat", self.compat.map(|compat| compat.name().to_owned()));
        let roots: Vec<String> = [("states", &self.roots.states), ("pillar", &self.roots.pillar)]
            .into_iter()
            .filter_map(|(key, root)| root.as_ref().map(|root| format!("{key}: {}", scalar(root))))
            .collect();
        line("roots", (!roots.is_empty()).then(|| format!("{{{}}}", roots.join(", "))));
        match &self.files {
            None => {}
            Some(files) if files.is_empty() => out.push_str("files: {}\n"),
            Some(files) => {
                out.push_str("files:\n");
                for (path, ManifestEntry { blake3, mode }) in files {
                    let _ = writeln!(
                        out,
                        "  {}: {{blake3: {}, mode: \"{}\"}}",
                        scalar(path),
                        digest_line(blake3),
                        mode.as_str()
                    );
                }
            }
        }
        out
    }
}

/// A digest without quotes, unless it would read as a number.
fn digest_line(text: &str) -> String {
    if text.bytes().all(|b| b.is_ascii_digit()) { quote_scalar(text) } else { text.to_owned() }
}

/// A text without quotes when nothing in it is special in YAML.
fn scalar(text: &str) -> String {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'.' | b'-');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(word)
        && (text.contains('/') || text.contains('.'));
    if plain { text.to_owned() } else { quote_scalar(text) }
}

/// A text in double quotes; a character that is neither ASCII nor a letter or digit is written as a numeric escape.
fn quote_scalar(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

/// True when `name` is a signature of the manifest: `manifest.yaml.sig`, `manifest.yaml.sig.alice`, `manifest.yaml.sig-2`.
#[must_use]
pub fn is_signature(name: &str) -> bool {
    let rest = name.strip_prefix(tree::MANIFEST).and_then(|rest| rest.strip_prefix(".sig"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']) && !rest.contains('/'))
}
