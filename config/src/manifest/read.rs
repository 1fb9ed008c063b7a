//! The text of a manifest to a manifest, or to every fault in it.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::{Entry, MAX_BYTES, Manifest, Mode, Roots, SCHEMA, is_signature};
use crate::codes::Code;
use crate::codes::manifest as code;
use crate::fault::{Excerpt, Fault, Faults};
use crate::paths::tree;
use crate::settings::{Compatibility, RunSchedule};
use crate::suggest;
use crate::value::{Map, Pos, Value};
use crate::yaml::{self, Words};

/// Values of a manifest: six a file, for more files than [`MAX_BYTES`] hold.
const MAX_NODES: usize = 4_000_000;
/// Faults that are told; a hostile manifest has no end of them.
const MAX_FAULTS: usize = 20;
/// Bytes of one path, as the system takes them.
const MAX_PATH: usize = 4096;

const TOP: [&str; 8] = ["schema", "serial", "expires", "min_agent", "schedule", "compat", "roots", "files"];
const ROOTS: [&str; 2] = ["states", "pillar"];
const ENTRY: [&str; 2] = ["blake3", "mode"];

impl Manifest {
    /// Reads a manifest; `file` is how faults name it.
    ///
    /// # Errors
    /// Fails with every fault, up to a sensible number of them.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, Faults> {
        let refuse = |code, message: String| Faults::from(Fault::new(code, message).at(file, Pos::NONE));
        if bytes.len() > MAX_BYTES {
            let message = format!("{} bytes are more than the {MAX_BYTES} of a manifest", bytes.len());
            return Err(refuse(code::TOO_LARGE, message));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(refuse(code::SYNTAX, "the manifest is not UTF-8".into()));
        };
        let mut checker = Checker { file, text, faults: Faults::default() };
        let value = match yaml::load_within(text, Words::Core, MAX_NODES) {
            Ok(value) => value,
            Err(fault) => {
                checker.fault(fault.pos, Fault::new(code::SYNTAX, fault.message));
                return Err(checker.faults);
            }
        };
        let Value::Map(map) = &value else {
            let kind = value.kind();
            let message = format!("a manifest holds a mapping, this is {kind}");
            checker.fault(Pos::new(1, 1), Fault::new(code::WRONG_TYPE, message));
            return Err(checker.faults);
        };
        let manifest = checker.manifest(map);
        checker.faults.into_result().map(|()| manifest)
    }
}

/// Why a path cannot stand in a manifest; none when it can.
#[must_use]
pub fn path_fault(path: &str) -> Option<&'static str> {
    let part = |part: &str| match part {
        "" => Some("it has an empty name"),
        "." => Some("it holds `.`"),
        ".." => Some("it climbs with `..`"),
        part if part.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(".git") => {
            Some("it shadows Git's own directory")
        }
        _ => None,
    };
    match path {
        "" => Some("it is empty"),
        _ if path.len() > MAX_PATH => Some("it is too long"),
        _ if path.starts_with('/') => Some("it starts at the root of the system"),
        _ if path.contains('\\') => Some("it holds a backslash"),
        _ if path.chars().any(char::is_control) => Some("it holds a control character"),
        _ if path == tree::MANIFEST => Some("the manifest does not list itself"),
        _ if is_signature(path) => Some("the manifest does not list its signatures"),
        _ => path.split('/').find_map(part),
    }
}

/// Collects faults while it reads.
struct Checker<'t> {
    file: &'t str,
    text: &'t str,
    faults: Faults,
}

impl Checker<'_> {
    fn fault(&mut self, pos: Pos, mut fault: Fault) {
        if self.faults.0.len() >= MAX_FAULTS {
            return;
        }
        let line = usize::try_from(pos.line).unwrap_or_default().checked_sub(1);
        if let Some(text) = line.and_then(|line| self.text.lines().nth(line)) {
            let text = text.chars().take(200).collect();
            fault.excerpts.push(Excerpt { label: String::new(), line: pos.line, column: pos.column, text });
        }
        self.faults.push(fault.at(self.file, pos));
    }

    fn refuse<T>(&mut self, pos: Pos, code: Code, message: String) -> Option<T> {
        self.fault(pos, Fault::new(code, message));
        None
    }

    fn manifest(&mut self, map: &Map) -> Manifest {
        self.known(map, &TOP, "a manifest");
        self.schema(map);
        Manifest {
            serial: self.take(map, "serial", Self::serial).unwrap_or_default(),
            expires: self.take(map, "expires", Self::expires),
            min_agent: self.take(map, "min_agent", |this, value, at| {
                let text = this.text_of("min_agent", value, at)?;
                let parsed = text.parse();
                parsed.map_err(|e| this.refuse::<()>(at, code::VALUE, format!("`min_agent`: {e}"))).ok()
            }),
            schedule: self.take(map, "schedule", |this, value, at| {
                this.choice("schedule", value, at, &["levels", "eager", "ordered"], RunSchedule::find)
            }),
            compat: self.take(map, "compat", |this, value, at| {
                this.choice("compat", value, at, &["none", "salt"], Compatibility::find)
            }),
            roots: self.take(map, "roots", Self::roots).unwrap_or_default(),
            files: self.take(map, "files", Self::files),
        }
    }

    /// The value of a key, when it is there.
    fn take<T>(
        &mut self,
        map: &Map,
        key: &str,
        read: impl FnOnce(&mut Self, &Value, Pos) -> Option<T>,
    ) -> Option<T> {
        let entry = map.entry(key)?;
        read(self, &entry.value, entry.at)
    }

    fn known(&mut self, map: &Map, names: &[&'static str], of: &str) {
        for entry in map.entries() {
            let name = entry.key.json_key();
            if names.contains(&&*name) && entry.key.as_str().is_some() {
                continue;
            }
            let fault = Fault::new(code::UNKNOWN_KEY, format!("there is no key `{name}` in {of}"));
            let fault = match suggest::nearest(&name, names.iter().copied()) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None => fault,
            };
            self.fault(entry.at, fault);
        }
    }

    fn schema(&mut self, map: &Map) {
        match map.entry("schema") {
            None => {
                let fault = Fault::new(code::MISSING, "a manifest needs the key `schema`");
                self.fault(Pos::new(1, 1), fault.hint(format!("write `schema: {SCHEMA}` at its top")));
            }
            Some(entry) => match &entry.value {
                Value::Int(SCHEMA) => {}
                Value::Int(other) => {
                    let message =
                        format!("the manifest has schema {other}; this agent reads schema {SCHEMA}");
                    self.refuse::<()>(entry.at, code::SCHEMA, message);
                }
                other => {
                    self.wrong::<()>(entry.at, "schema", "a whole number", other);
                }
            },
        }
    }

    fn wrong<T>(&mut self, at: Pos, key: &str, want: &str, got: &Value) -> Option<T> {
        let fault = Fault::new(code::WRONG_TYPE, format!("`{key}` takes {want}, not {}", got.kind()));
        let quotes = want.starts_with("text") && !matches!(got, Value::Map(_) | Value::List(_) | Value::Null);
        self.fault(at, if quotes { fault.hint("put it in quotes") } else { fault });
        None
    }

    fn text_of<'v>(&mut self, key: &str, value: &'v Value, at: Pos) -> Option<&'v str> {
        match value.as_str() {
            Some(text) => Some(text),
            None => self.wrong(at, key, "text", value),
        }
    }

    fn serial(&mut self, value: &Value, at: Pos) -> Option<u64> {
        match value {
            Value::Int(n) => match u64::try_from(*n) {
                Ok(n) => Some(n),
                Err(_) => self.refuse(at, code::VALUE, format!("`serial` is {n}; it counts from 0 on")),
            },
            other => self.wrong(at, "serial", "a whole number", other),
        }
    }

    fn expires(&mut self, value: &Value, at: Pos) -> Option<Timestamp> {
        let text = self.text_of("expires", value, at)?;
        match expiry(text) {
            Some(time) => Some(time),
            None => {
                let message = "`expires` takes a time such as `2030-01-31T12:00:00Z`, or a date".to_owned();
                self.refuse(at, code::VALUE, message)
            }
        }
    }

    fn choice<T>(
        &mut self,
        key: &str,
        value: &Value,
        at: Pos,
        words: &[&'static str],
        find: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text_of(key, value, at)?;
        if let Some(found) = find(text) {
            return Some(found);
        }
        let list = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let fault = Fault::new(code::VALUE, format!("`{key}` is one of {list}"));
        self.fault(
            at,
            match suggest::nearest(text, words.iter().copied()) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None => fault,
            },
        );
        None
    }

    fn roots(&mut self, value: &Value, at: Pos) -> Option<Roots> {
        let Value::Map(map) = value else { return self.wrong(at, "roots", "a mapping", value) };
        self.known(map, &ROOTS, "`roots`");
        let mut root = |key: &str| {
            self.take(map, key, |this, value, at| {
                let text = this.text_of(&format!("roots.{key}"), value, at)?;
                let short = text.strip_suffix('/').unwrap_or(text);
                match path_fault(short).filter(|_| short != ".") {
                    None => Some(text.to_owned()),
                    Some(why) => {
                        this.refuse(at, code::PATH, format!("`roots.{key}` cannot be `{text}`: {why}"))
                    }
                }
            })
        };
        Some(Roots { states: root("states"), pillar: root("pillar") })
    }

    fn files(&mut self, value: &Value, at: Pos) -> Option<BTreeMap<String, Entry>> {
        let Value::Map(map) = value else { return self.wrong(at, "files", "a mapping", value) };
        let mut files = BTreeMap::new();
        for entry in map.entries() {
            let Some(path) = entry.key.as_str() else {
                let shown = entry.key.json_key();
                let fault = Fault::new(code::WRONG_TYPE, format!("the path `{shown}` is not text"));
                self.fault(entry.at, fault.hint("put it in quotes"));
                continue;
            };
            if let Some(why) = path_fault(path) {
                self.refuse::<()>(entry.at, code::PATH, format!("the path {path:?} is refused: {why}"));
                continue;
            }
            if let Some(read) = self.entry(path, &entry.value, entry.at) {
                files.insert(path.to_owned(), read);
            }
        }
        self.nested(&files, map);
        Some(files)
    }

    /// A file cannot have files below it.
    fn nested(&mut self, files: &BTreeMap<String, Entry>, map: &Map) {
        for path in files.keys() {
            let parent =
                path.match_indices('/').map(|(end, _)| &path[..end]).find(|p| files.contains_key(*p));
            if let Some(parent) = parent {
                let at = map.entry(path).map_or(Pos::NONE, |entry| entry.at);
                self.refuse::<()>(
                    at,
                    code::PATH,
                    format!("`{parent}` is a file, and `{path}` stands below it"),
                );
            }
        }
    }

    fn entry(&mut self, path: &str, value: &Value, at: Pos) -> Option<Entry> {
        let Value::Map(map) = value else { return self.wrong(at, path, "a mapping", value) };
        self.known(map, &ENTRY, "an entry of `files`");
        for key in ENTRY {
            if !map.contains(key) {
                self.refuse::<()>(at, code::MISSING, format!("`{path}` needs the key `{key}`"));
            }
        }
        let digest = self.take(map, "blake3", |this, value, at| {
            let text = this.text_of("blake3", value, at)?;
            let fine = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let message = || format!("`blake3` of `{path}` is not 64 hex digits in lower case");
            if fine { Some(text.to_owned()) } else { this.refuse(at, code::VALUE, message()) }
        });
        let mode = self.take(map, "mode", |this, value, at| match this.text_of("mode", value, at)? {
            "0644" => Some(Mode::Plain),
            "0755" => Some(Mode::Executable),
            other => {
                let message = format!("`mode` of `{path}` is `{other}`; Git knows `0644` and `0755`");
                this.refuse(at, code::VALUE, message)
            }
        });
        Some(Entry { blake3: digest?, mode: mode? })
    }
}

/// A moment: RFC 3339, or a date, which lasts until its end in UTC.
#[must_use]
pub fn expiry(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let is_date = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let day = text.parse::<Date>().ok().filter(|_| is_date)?;
    let end = day.checked_add(1.day()).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(end.timestamp())
}
