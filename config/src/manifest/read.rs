//! The text of a manifest in, a manifest or every diagnostic for it out.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::{
    MAX_BYTES, Manifest, ManifestEntry, ManifestMode, ManifestRoots, ManifestTarget, SCHEMA, is_signature,
};
use crate::codes::Code;
use crate::codes::manifest as code;
use crate::diagnostic::{Diagnostic, Diagnostics, Excerpt};
use crate::paths::tree;
use crate::settings::{CompatMode, RunSchedule};
use crate::suggest;
use crate::value::{Map, Pos, Value};
use crate::yaml::{self, ScalarSchema};

/// Maximum number of values: six per file, for more files than fit in [`MAX_BYTES`].
const MAX_NODES: usize = 4_000_000;
/// Maximum number of reported errors; a hostile manifest can have any number.
const MAX_FAULTS: usize = 20;
/// Maximum length of a path in bytes, as in the operating system.
const MAX_PATH: usize = 4096;

const TOP_KEYS: [&str; 9] =
    ["schema", "serial", "for", "expires", "min_agent", "schedule", "compat", "roots", "files"];
const FOR_KEYS: [&str; 2] = ["repository", "branch"];
const ROOTS_KEYS: [&str; 2] = ["states", "pillar"];
const ENTRY_KEYS: [&str; 2] = ["blake3", "mode"];

impl Manifest {
    /// Reads a manifest; `file` is its name in diagnostics.
    ///
    /// # Errors
    /// Fails with every diagnostic, up to a limit.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, Diagnostics> {
        let refuse =
            |code, message: String| Diagnostics::from(Diagnostic::new(code, message).at(file, Pos::NONE));
        if bytes.len() > MAX_BYTES {
            let message =
                format!("the manifest has {} bytes, more than the limit of {MAX_BYTES}", bytes.len());
            return Err(refuse(code::TOO_LARGE, message));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(refuse(code::SYNTAX, "the manifest is not UTF-8".into()));
        };
        let mut checker = ManifestChecker { file, text, diagnostics: Diagnostics::default() };
        let value = match yaml::load_within(text, ScalarSchema::Core, MAX_NODES) {
            Ok(value) => value,
            Err(diagnostic) => {
                checker.report(diagnostic.pos, Diagnostic::new(code::SYNTAX, diagnostic.message));
                return Err(checker.diagnostics);
            }
        };
        let Value::Map(map) = &value else {
            let kind = value.kind();
            let message = format!("a manifest must be a mapping, not {kind}");
            checker.report(Pos::new(1, 1), Diagnostic::new(code::WRONG_TYPE, message));
            return Err(checker.diagnostics);
        };
        let manifest = checker.read_manifest(map);
        checker.diagnostics.into_result().map(|()| manifest)
    }
}

/// Why a path is not allowed in a manifest; `None` when it is.
#[must_use]
pub fn path_problem(path: &str) -> Option<&'static str> {
    let part = |part: &str| match part {
        "" => Some("it has an empty component"),
        "." => Some("it contains `.`"),
        ".." => Some("it contains `..`"),
        part if part.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(".git") => {
            Some("it is inside `.git`, which belongs to Git")
        }
        _ => None,
    };
    match path {
        "" => Some("it is empty"),
        _ if path.len() > MAX_PATH => Some("it is too long"),
        _ if path.starts_with('/') => Some("it is an absolute path"),
        _ if path.contains('\\') => Some("it contains a backslash"),
        _ if path.chars().any(char::is_control) => Some("it contains a control character"),
        _ if path == tree::MANIFEST => Some("a manifest must not list itself"),
        _ if is_signature(path) => Some("a manifest must not list its signatures"),
        _ => path.split('/').find_map(part),
    }
}

/// Collects diagnostics while it reads.
struct ManifestChecker<'t> {
    file: &'t str,
    text: &'t str,
    diagnostics: Diagnostics,
}

impl ManifestChecker<'_> {
    fn report(&mut self, pos: Pos, mut diagnostic: Diagnostic) {
        if self.diagnostics.0.len() >= MAX_FAULTS {
            return;
        }
        let line = usize::try_from(pos.line).unwrap_or_default().checked_sub(1);
        if let Some(text) = line.and_then(|line| self.text.lines().nth(line)) {
            let text = text.chars().take(200).collect();
            diagnostic.excerpts.push(Excerpt {
                label: String::new(),
                line: pos.line,
                column: pos.column,
                text,
            });
        }
        self.diagnostics.push(diagnostic.at(self.file, pos));
    }

    fn report_error<T>(&mut self, pos: Pos, code: Code, message: String) -> Option<T> {
        self.report(pos, Diagnostic::new(code, message));
        None
    }

    fn read_manifest(&mut self, map: &Map) -> Manifest {
        self.check_known_keys(map, &TOP_KEYS, "a manifest");
        self.check_schema(map);
        Manifest {
            serial: self.read_key(map, "serial", Self::read_serial).unwrap_or_default(),
            target: self.read_key(map, "for", Self::read_target),
            expires: self.read_key(map, "expires", Self::read_expires),
            min_agent: self.read_key(map, "min_agent", |this, value, at| {
                let text = this.expect_text("min_agent", value, at)?;
                let parsed = text.parse();
                parsed.map_err(|e| this.report_error::<()>(at, code::VALUE, format!("`min_agent`: {e}"))).ok()
            }),
            schedule: self.read_key(map, "schedule", |this, value, at| {
                let choices = &["levels", "eager", "ordered", "declared"];
                this.read_choice("schedule", value, at, choices, RunSchedule::find)
            }),
            compat: self.read_key(map, "compat", |this, value, at| {
                this.read_choice("compat", value, at, &["none", "salt"], CompatMode::find)
            }),
            roots: self.read_key(map, "roots", Self::read_roots).unwrap_or_default(),
            files: self.read_key(map, "files", Self::read_files),
        }
    }

    /// The value of a key, when present.
    fn read_key<T>(
        &mut self,
        map: &Map,
        key: &str,
        read: impl FnOnce(&mut Self, &Value, Pos) -> Option<T>,
    ) -> Option<T> {
        let entry = map.entry(key)?;
        read(self, &entry.value, entry.at)
    }

    fn check_known_keys(&mut self, map: &Map, names: &[&'static str], of: &str) {
        for entry in map.entries() {
            let name = entry.key.json_key();
            if names.contains(&&*name) && entry.key.as_str().is_some() {
                continue;
            }
            let diagnostic = Diagnostic::new(code::UNKNOWN_KEY, format!("unknown key `{name}` in {of}"));
            let diagnostic = match suggest::nearest(&name, names.iter().copied()) {
                Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                None => diagnostic,
            };
            self.report(entry.at, diagnostic);
        }
    }

    fn check_schema(&mut self, map: &Map) {
        match map.entry("schema") {
            None => {
                let diagnostic = Diagnostic::new(code::MISSING, "a manifest needs the key `schema`");
                self.report(
                    Pos::new(1, 1),
                    diagnostic.hint(format!("add `schema: {SCHEMA}` as the first line")),
                );
            }
            Some(entry) => match &entry.value {
                Value::Int(SCHEMA) => {}
                Value::Int(other) => {
                    let message =
                        format!("the manifest has schema {other}; this agent reads schema {SCHEMA}");
                    self.report_error::<()>(entry.at, code::SCHEMA, message);
                }
                other => {
                    self.report_wrong_type::<()>(entry.at, "schema", "a whole number", other);
                }
            },
        }
    }

    fn report_wrong_type<T>(&mut self, at: Pos, key: &str, want: &str, got: &Value) -> Option<T> {
        let diagnostic =
            Diagnostic::new(code::WRONG_TYPE, format!("`{key}` must be {want}, not {}", got.kind()));
        let quotes = want.starts_with("text") && !matches!(got, Value::Map(_) | Value::List(_) | Value::Null);
        self.report(at, if quotes { diagnostic.hint("put it in quotes") } else { diagnostic });
        None
    }

    fn expect_text<'v>(&mut self, key: &str, value: &'v Value, at: Pos) -> Option<&'v str> {
        match value.as_str() {
            Some(text) => Some(text),
            None => self.report_wrong_type(at, key, "text", value),
        }
    }

    fn read_serial(&mut self, value: &Value, at: Pos) -> Option<u64> {
        match value {
            Value::Int(n) => match u64::try_from(*n) {
                Ok(n) => Some(n),
                Err(_) => {
                    self.report_error(at, code::VALUE, format!("`serial` is {n}; it must be 0 or more"))
                }
            },
            other => self.report_wrong_type(at, "serial", "a whole number", other),
        }
    }

    fn read_expires(&mut self, value: &Value, at: Pos) -> Option<Timestamp> {
        let text = self.expect_text("expires", value, at)?;
        match parse_expiry(text) {
            Some(time) => Some(time),
            None => {
                let message = "`expires` must be a time such as `2030-01-31T12:00:00Z`, or a date".to_owned();
                self.report_error(at, code::VALUE, message)
            }
        }
    }

    fn read_choice<T>(
        &mut self,
        key: &str,
        value: &Value,
        at: Pos,
        words: &[&'static str],
        find: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.expect_text(key, value, at)?;
        if let Some(found) = find(text) {
            return Some(found);
        }
        let list = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let diagnostic = Diagnostic::new(code::VALUE, format!("`{key}` must be one of {list}"));
        self.report(
            at,
            match suggest::nearest(text, words.iter().copied()) {
                Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                None => diagnostic,
            },
        );
        None
    }

    fn read_target(&mut self, value: &Value, at: Pos) -> Option<ManifestTarget> {
        let Value::Map(map) = value else { return self.report_wrong_type(at, "for", "a mapping", value) };
        self.check_known_keys(map, &FOR_KEYS, "`for`");
        let mut name = |key: &str| {
            let Some(entry) = map.entry(key) else {
                return self.report_error(at, code::MISSING, format!("`for` needs the key `{key}`"));
            };
            let text = self.expect_text(&format!("for.{key}"), &entry.value, entry.at)?;
            let fine = !text.is_empty() && text.len() <= MAX_PATH && !text.chars().any(is_unprintable);
            let message = || format!("`for.{key}` must be a name without blanks and control characters");
            if fine { Some(text.to_owned()) } else { self.report_error(entry.at, code::VALUE, message()) }
        };
        let (repository, branch) = (name("repository"), name("branch"));
        Some(ManifestTarget { repository: repository?, branch: branch? })
    }

    fn read_roots(&mut self, value: &Value, at: Pos) -> Option<ManifestRoots> {
        let Value::Map(map) = value else { return self.report_wrong_type(at, "roots", "a mapping", value) };
        self.check_known_keys(map, &ROOTS_KEYS, "`roots`");
        let mut root = |key: &str| {
            self.read_key(map, key, |this, value, at| {
                let text = this.expect_text(&format!("roots.{key}"), value, at)?;
                let short = text.strip_suffix('/').unwrap_or(text);
                match path_problem(short).filter(|_| short != ".") {
                    None => Some(text.to_owned()),
                    Some(why) => {
                        this.report_error(at, code::PATH, format!("`roots.{key}` cannot be `{text}`: {why}"))
                    }
                }
            })
        };
        Some(ManifestRoots { states: root("states"), pillar: root("pillar") })
    }

    fn read_files(&mut self, value: &Value, at: Pos) -> Option<BTreeMap<String, ManifestEntry>> {
        let Value::Map(map) = value else { return self.report_wrong_type(at, "files", "a mapping", value) };
        let mut files = BTreeMap::new();
        for entry in map.entries() {
            let Some(path) = entry.key.as_str() else {
                let shown = entry.key.json_key();
                let diagnostic = Diagnostic::new(code::WRONG_TYPE, format!("the path `{shown}` is not text"));
                self.report(entry.at, diagnostic.hint("put it in quotes"));
                continue;
            };
            if let Some(why) = path_problem(path) {
                self.report_error::<()>(entry.at, code::PATH, format!("the path {path:?} is refused: {why}"));
                continue;
            }
            if let Some(read) = self.read_entry(path, &entry.value, entry.at) {
                files.insert(path.to_owned(), read);
            }
        }
        self.check_nesting(&files, map);
        Some(files)
    }

    /// A file cannot have files below it.
    fn check_nesting(&mut self, files: &BTreeMap<String, ManifestEntry>, map: &Map) {
        for path in files.keys() {
            let parent =
                path.match_indices('/').map(|(end, _)| &path[..end]).find(|p| files.contains_key(*p));
            if let Some(parent) = parent {
                let at = map.entry(path).map_or(Pos::NONE, |entry| entry.at);
                self.report_error::<()>(
                    at,
                    code::PATH,
                    format!("`{parent}` is a file, so `{path}` cannot be below it"),
                );
            }
        }
    }

    fn read_entry(&mut self, path: &str, value: &Value, at: Pos) -> Option<ManifestEntry> {
        let Value::Map(map) = value else { return self.report_wrong_type(at, path, "a mapping", value) };
        self.check_known_keys(map, &ENTRY_KEYS, "an entry of `files`");
        for key in ENTRY_KEYS {
            if !map.contains(key) {
                self.report_error::<()>(at, code::MISSING, format!("`{path}` needs the key `{key}`"));
            }
        }
        let digest = self.read_key(map, "blake3", |this, value, at| {
            let text = this.expect_text("blake3", value, at)?;
            let fine = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let message = || format!("`blake3` of `{path}` must be 64 lower-case hex digits");
            if fine { Some(text.to_owned()) } else { this.report_error(at, code::VALUE, message()) }
        });
        let mode =
            self.read_key(map, "mode", |this, value, at| match this.expect_text("mode", value, at)? {
                "0644" => Some(ManifestMode::Plain),
                "0755" => Some(ManifestMode::Executable),
                other => {
                    let message = format!("`mode` of `{path}` is `{other}`; use `0644` or `0755`");
                    this.report_error(at, code::VALUE, message)
                }
            });
        Some(ManifestEntry { blake3: digest?, mode: mode? })
    }
}

fn is_unprintable(c: char) -> bool {
    c.is_control() || c.is_whitespace()
}

/// A time: RFC 3339, or a date, which means its end in UTC.
#[must_use]
pub fn parse_expiry(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let is_date = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let day = text.parse::<Date>().ok().filter(|_| is_date)?;
    let end = day.checked_add(1.day()).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(end.timestamp())
}
