//! What was said against the schema: values of the right type and range, or faults; all of them.

use std::net::SocketAddr;
use std::time::Duration;

use super::fragment::{Fragment, Origin};
use super::schema::{Key, Kind, Preset};
use super::{units, words};
use crate::codes::Code;
use crate::codes::configuration as code;
use crate::fault::{Fault, Faults};
use crate::suggest;
use crate::value::{Map, Pos, Value};

/// A value that the schema accepts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Checked {
    Unset,
    Text(String),
    Bool(bool),
    Number(i64),
    Time(Duration),
    Size(u64),
    Texts(Vec<String>),
    /// Minutes since midnight.
    Clock(u16),
    Address(SocketAddr),
    Programs(Vec<Vec<String>>),
    Records(Vec<Record>),
    Named(Vec<(String, Record)>),
    Groups(Map),
}

/// Keys and their values: all of the settings, or one mapping of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record(pub(super) Vec<(&'static str, Checked)>);

/// Where a value stands.
#[derive(Clone, Copy)]
pub(super) struct At<'o> {
    pub(super) origin: &'o Origin,
    pub(super) pos: Pos,
}

impl<'o> At<'o> {
    pub(super) fn of(origin: &'o Origin) -> Self {
        let pos = if let Origin::File { pos, .. } = origin { *pos } else { Pos::NONE };
        Self { origin, pos }
    }

    /// A place inside the value, when it is known.
    fn inside(self, pos: Pos) -> Self {
        Self { pos: if pos.is_known() { pos } else { self.pos }, ..self }
    }
}

/// Collects faults while it checks.
pub(super) struct Checker<'f> {
    pub(super) fragments: &'f [Fragment],
    pub(super) faults: Faults,
}

impl Checker<'_> {
    /// Notes a fault at a place.
    pub(super) fn fault(&mut self, at: At<'_>, fault: Fault) {
        let mut fault = fault;
        let file = match at.origin {
            Origin::File { file, .. } => {
                let fragment = self.fragments.iter().find(|f| f.file == *file);
                fault.excerpts.extend(fragment.and_then(|f| f.excerpt(at.pos)));
                file.to_string()
            }
            other => other.to_string(),
        };
        self.faults.push(fault.at(file, at.pos));
    }

    fn refuse(&mut self, at: At<'_>, code: Code, message: String) -> Option<Checked> {
        self.fault(at, Fault::new(code, message));
        None
    }

    fn wrong(&mut self, at: At<'_>, path: &str, want: &str, got: &Value) -> Option<Checked> {
        self.refuse(at, code::WRONG_TYPE, format!("`{path}` takes {want}, not {}", got.kind()))
    }

    /// Checks one value.
    pub(super) fn check(&mut self, path: &str, kind: Kind, value: &Value, at: At<'_>) -> Option<Checked> {
        match kind {
            Kind::Text | Kind::Path => self.text(path, kind, value, at),
            Kind::Bool => match value {
                Value::Bool(b) => Some(Checked::Bool(*b)),
                Value::Str(s) if matches!(&**s, "yes" | "on") => Some(Checked::Bool(true)),
                Value::Str(s) if matches!(&**s, "no" | "off") => Some(Checked::Bool(false)),
                other => self.wrong(at, path, "`true` or `false`", other),
            },
            Kind::Number { min, max } => match value {
                Value::Int(n) if (min..=max).contains(n) => Some(Checked::Number(*n)),
                Value::Int(n) => {
                    self.refuse(at, code::OUT_OF_RANGE, format!("`{path}` is {n}; it takes {min} to {max}"))
                }
                other => self.wrong(at, path, "a whole number", other),
            },
            Kind::Time { min, max } => self.time(path, (min, max), value, at),
            Kind::Size { min, max } => self.size(path, (min, max), value, at),
            Kind::Choice(names) => match value {
                Value::Str(s) => self.choice(path, names, s, at).map(Checked::Text),
                other => self.wrong(at, path, &format!("one of {}", list(names)), other),
            },
            Kind::Choices(names) => {
                let texts = self.texts(path, value, at)?;
                let all: Vec<_> = texts.iter().map(|text| self.choice(path, names, text, at)).collect();
                all.into_iter().collect::<Option<_>>().map(Checked::Texts)
            }
            Kind::Texts => self.texts(path, value, at).map(Checked::Texts),
            Kind::Clock => match value.as_str().map(clock) {
                Some(Some(minutes)) => Some(Checked::Clock(minutes)),
                Some(None) => {
                    self.refuse(at, code::UNITS, format!("`{path}` takes a time of day such as `22:00`"))
                }
                None => self.wrong(at, path, "a time of day such as `22:00`", value),
            },
            Kind::Address => match value.as_str().map(str::parse) {
                Some(Ok(address)) => Some(Checked::Address(address)),
                Some(Err(_)) => self.refuse(
                    at,
                    code::UNITS,
                    format!("`{path}` takes an address and a port such as `127.0.0.1:9470`"),
                ),
                None => self.wrong(at, path, "an address and a port such as `127.0.0.1:9470`", value),
            },
            Kind::HostPort | Kind::Http | Kind::Unit | Kind::Zone | Kind::Cron => {
                let Some(Checked::Text(text)) = self.text(path, kind, value, at) else { return None };
                let Some(fault) = words::fault(kind, path, &text) else { return Some(Checked::Text(text)) };
                self.fault(at, fault);
                None
            }
            Kind::Programs => self.programs(path, value, at),
            Kind::Records(keys) => self.records(path, keys, value, at),
            Kind::Named(keys) => self.record(path, keys, value, at).map(|r| Checked::Records(vec![r])),
            Kind::Groups => self.group(path, value, at),
        }
    }

    fn text(&mut self, path: &str, kind: Kind, value: &Value, at: At<'_>) -> Option<Checked> {
        match value {
            Value::Str(s) if s.trim().is_empty() => {
                self.refuse(at, code::WRONG_TYPE, format!("`{path}` must not be empty"))
            }
            Value::Str(s) if matches!(kind, Kind::Path) && s.contains('\0') => {
                self.refuse(at, code::WRONG_TYPE, format!("`{path}` is no path"))
            }
            Value::Str(s) => Some(Checked::Text(s.to_string())),
            other @ (Value::List(_) | Value::Map(_)) => self.wrong(at, path, "text", other),
            other => {
                let message = format!("`{path}` takes text, not {}", other.kind());
                self.fault(at, Fault::new(code::WRONG_TYPE, message).hint("put it in quotes"));
                None
            }
        }
    }

    fn time(
        &mut self,
        path: &str,
        (min, max): (Duration, Duration),
        value: &Value,
        at: At<'_>,
    ) -> Option<Checked> {
        let time = match value {
            Value::Str(text) => units::parse_duration(text),
            Value::Int(n) => {
                let fault = Fault::new(code::UNITS, format!("`{path}` is a time and needs a unit"));
                self.fault(at, fault.hint(format!("write `{n}s`, or use `m`, `h`, `d`, `ms`")));
                return None;
            }
            other => return self.wrong(at, path, "a time such as `60s`, `30m` or `4h`", other),
        };
        match time {
            Some(time) if (min..=max).contains(&time) => Some(Checked::Time(time)),
            Some(time) => {
                let [time, min, max] = [time, min, max].map(units::format_duration);
                self.refuse(at, code::OUT_OF_RANGE, format!("`{path}` is {time}; it takes {min} to {max}"))
            }
            None => {
                self.refuse(at, code::UNITS, format!("`{path}` takes a time such as `60s`, `30m` or `4h`"))
            }
        }
    }

    fn size(&mut self, path: &str, (min, max): (u64, u64), value: &Value, at: At<'_>) -> Option<Checked> {
        let size = match value {
            Value::Int(n) => u64::try_from(*n).ok(),
            Value::Str(text) => units::parse_size(text),
            other => return self.wrong(at, path, "a size such as `16MiB`", other),
        };
        match size {
            Some(size) if (min..=max).contains(&size) => Some(Checked::Size(size)),
            Some(size) => {
                let [size, min, max] = [size, min, max].map(units::format_size);
                self.refuse(at, code::OUT_OF_RANGE, format!("`{path}` is {size}; it takes {min} to {max}"))
            }
            None => self.refuse(at, code::UNITS, format!("`{path}` takes a size such as `16MiB`")),
        }
    }

    fn choice(&mut self, path: &str, names: &[&'static str], text: &str, at: At<'_>) -> Option<String> {
        if names.contains(&text) {
            return Some(text.to_owned());
        }
        let fault = Fault::new(code::CHOICE, format!("`{path}` is `{text}`; it takes {}", list(names)));
        let fault = match suggest::nearest(text, names.iter().copied()) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault,
        };
        self.fault(at, fault);
        None
    }

    fn texts(&mut self, path: &str, value: &Value, at: At<'_>) -> Option<Vec<String>> {
        match value {
            Value::Str(text) => Some(vec![text.to_string()]),
            Value::List(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    let Some(text) = item.as_str() else {
                        self.wrong(at.inside(items.pos(i)), path, "a list of texts", item);
                        return None;
                    };
                    texts.push(text.to_owned());
                }
                Some(texts)
            }
            other => {
                self.wrong(at, path, "a list of texts", other);
                None
            }
        }
    }

    fn programs(&mut self, path: &str, value: &Value, at: At<'_>) -> Option<Checked> {
        let Value::List(items) = value else { return self.wrong(at, path, "a list of programs", value) };
        let mut programs = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let at = at.inside(items.pos(i));
            let words = self.texts(path, item, at)?;
            if !words.first().is_some_and(|program| program.starts_with('/')) {
                let message = format!("a program of `{path}` is named by its full path");
                return self.refuse(at, code::WRONG_TYPE, message);
            }
            programs.push(words);
        }
        Some(Checked::Programs(programs))
    }

    fn group(&mut self, path: &str, value: &Value, at: At<'_>) -> Option<Checked> {
        match value {
            Value::Str(_) => {}
            Value::List(items) if items.iter().all(|v| !matches!(v, Value::List(_) | Value::Map(_))) => {}
            other => return self.wrong(at, path, "a target, or a list of ids", other),
        }
        Some(Checked::Groups(Map::from_iter([(path, value.clone())])))
    }

    fn records(&mut self, path: &str, keys: &'static [Key], value: &Value, at: At<'_>) -> Option<Checked> {
        let Value::List(items) = value else { return self.wrong(at, path, "a list of mappings", value) };
        let records: Vec<Option<Record>> = items
            .iter()
            .enumerate()
            .map(|(i, item)| self.record(&format!("{path}[{i}]"), keys, item, at.inside(items.pos(i))))
            .collect();
        records.into_iter().collect::<Option<_>>().map(Checked::Records)
    }

    fn record(&mut self, path: &str, keys: &'static [Key], value: &Value, at: At<'_>) -> Option<Record> {
        let Value::Map(map) = value else {
            self.wrong(at, path, "a mapping", value);
            return None;
        };
        let before = self.faults.0.len();
        for entry in map.entries() {
            let name = entry.key.json_key();
            if !keys.iter().any(|key| key.path == name) {
                let fault = Fault::new(code::UNKNOWN_KEY, format!("there is no key `{name}` in `{path}`"));
                let fault = match suggest::nearest(&name, keys.iter().map(|key| key.path)) {
                    Some(near) => fault.hint(format!("did you mean `{near}`?")),
                    None => fault,
                };
                self.fault(at.inside(entry.at), fault);
            }
        }
        let mut record = Record::default();
        for key in keys {
            let said = map.entry(key.path).filter(|e| !e.value.is_null());
            let checked = match said {
                Some(e) => self.check(&format!("{path}.{}", key.path), key.kind, &e.value, at.inside(e.at)),
                None if matches!(key.preset, Preset::Needed) => {
                    self.refuse(at, code::MISSING, format!("`{path}` needs the key `{}`", key.path))
                }
                None => Some(preset(key)),
            };
            record.0.extend(checked.map(|checked| (key.path, checked)));
        }
        (self.faults.0.len() == before).then_some(record)
    }
}

/// What holds without a word.
pub(super) fn preset(key: &Key) -> Checked {
    match (key.preset, key.kind) {
        (Preset::Unset | Preset::Needed, _) => Checked::Unset,
        (Preset::Text(text), Kind::Choices(_) | Kind::Texts) => Checked::Texts(vec![text.to_owned()]),
        (Preset::Text(text), _) => Checked::Text(text.to_owned()),
        (Preset::Bool(b), _) => Checked::Bool(b),
        (Preset::Number(n), _) => Checked::Number(n),
        (Preset::Time(time), _) => Checked::Time(time),
        (Preset::Size(size), _) => Checked::Size(size),
        (Preset::Empty, Kind::Records(_)) => Checked::Records(Vec::new()),
        (Preset::Empty, Kind::Named(_)) => Checked::Named(Vec::new()),
        (Preset::Empty, Kind::Groups) => Checked::Groups(Map::new()),
        (Preset::Empty, Kind::Programs) => Checked::Programs(Vec::new()),
        (Preset::Empty, _) => Checked::Texts(Vec::new()),
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn clock(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number =
        |t: &str| (t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<u16>().ok())?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= 24 * 60).then_some(total)
}
