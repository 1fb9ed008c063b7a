//! Configured values checked against the schema: typed values in range, or all diagnostics.

use std::net::SocketAddr;
use std::time::Duration;

use super::fragment::{ConfigFragment, SettingOrigin};
use super::schema::{SettingDefault, SettingKey, SettingKind};
use super::{text_checks, units};
use crate::codes::Code;
use crate::codes::configuration as code;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::suggest;
use crate::value::{Map, Pos, Value};

/// A value that the schema accepts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CheckedValue {
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
    Records(Vec<CheckedRecord>),
    Named(Vec<(String, CheckedRecord)>),
    Groups(Map),
}

/// Keys and their values: all of the settings, or one mapping of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CheckedRecord(pub(super) Vec<(&'static str, CheckedValue)>);

/// Where a value comes from.
#[derive(Clone, Copy)]
pub(super) struct ValueLocation<'o> {
    pub(super) origin: &'o SettingOrigin,
    pub(super) pos: Pos,
}

impl<'o> ValueLocation<'o> {
    pub(super) fn from_origin(origin: &'o SettingOrigin) -> Self {
        let pos = if let SettingOrigin::File { pos, .. } = origin { *pos } else { Pos::NONE };
        Self { origin, pos }
    }

    /// A place inside the value, when it is known.
    fn at_inner(self, pos: Pos) -> Self {
        Self { pos: if pos.is_known() { pos } else { self.pos }, ..self }
    }
}

/// Collects diagnostics while it checks.
pub(super) struct SettingsChecker<'f> {
    pub(super) fragments: &'f [ConfigFragment],
    pub(super) diagnostics: Diagnostics,
}

impl SettingsChecker<'_> {
    /// Reports a diagnostic at a place.
    pub(super) fn report(&mut self, at: ValueLocation<'_>, diagnostic: Diagnostic) {
        let mut diagnostic = diagnostic;
        let file = match at.origin {
            SettingOrigin::File { file, .. } => {
                let fragment = self.fragments.iter().find(|f| f.file == *file);
                diagnostic.excerpts.extend(fragment.and_then(|f| f.excerpt(at.pos)));
                file.to_string()
            }
            other => other.to_string(),
        };
        self.diagnostics.push(diagnostic.at(file, at.pos));
    }

    fn report_error(&mut self, at: ValueLocation<'_>, code: Code, message: String) -> Option<CheckedValue> {
        self.report(at, Diagnostic::new(code, message));
        None
    }

    fn report_wrong_type(
        &mut self,
        at: ValueLocation<'_>,
        path: &str,
        want: &str,
        got: &Value,
    ) -> Option<CheckedValue> {
        self.report_error(at, code::WRONG_TYPE, format!("`{path}` must be {want}, not {}", got.kind()))
    }

    /// Checks one value.
    pub(super) fn check(
        &mut self,
        path: &str,
        kind: SettingKind,
        value: &Value,
        at: ValueLocation<'_>,
    ) -> Option<CheckedValue> {
        match kind {
            SettingKind::Text | SettingKind::Path => self.check_text(path, kind, value, at),
            SettingKind::Bool => match value {
                Value::Bool(b) => Some(CheckedValue::Bool(*b)),
                Value::Str(s) if matches!(&**s, "yes" | "on") => Some(CheckedValue::Bool(true)),
                Value::Str(s) if matches!(&**s, "no" | "off") => Some(CheckedValue::Bool(false)),
                other => self.report_wrong_type(at, path, "`true` or `false`", other),
            },
            SettingKind::Number { min, max } => match value {
                Value::Int(n) if (min..=max).contains(n) => Some(CheckedValue::Number(*n)),
                Value::Int(n) => self.report_error(
                    at,
                    code::OUT_OF_RANGE,
                    format!("`{path}` is {n}; it must be {min} to {max}"),
                ),
                other => self.report_wrong_type(at, path, "a whole number", other),
            },
            SettingKind::Time { min, max } => self.check_duration(path, (min, max), value, at),
            SettingKind::Size { min, max } => self.check_size(path, (min, max), value, at),
            SettingKind::Choice(names) => match value {
                Value::Str(s) => self.check_choice(path, names, s, at).map(CheckedValue::Text),
                other => self.report_wrong_type(at, path, &format!("one of {}", quoted_list(names)), other),
            },
            SettingKind::Choices(names) => {
                let texts = self.check_texts(path, value, at)?;
                let all: Vec<_> = texts.iter().map(|text| self.check_choice(path, names, text, at)).collect();
                all.into_iter().collect::<Option<_>>().map(CheckedValue::Texts)
            }
            SettingKind::Texts => self.check_texts(path, value, at).map(CheckedValue::Texts),
            SettingKind::Clock => match value.as_str().map(parse_clock) {
                Some(Some(minutes)) => Some(CheckedValue::Clock(minutes)),
                Some(None) => self.report_error(
                    at,
                    code::UNITS,
                    format!("`{path}` must be a time of day such as `22:00`"),
                ),
                None => self.report_wrong_type(at, path, "a time of day such as `22:00`", value),
            },
            SettingKind::Address => match value.as_str().map(str::parse) {
                Some(Ok(address)) => Some(CheckedValue::Address(address)),
                Some(Err(_)) => self.report_error(
                    at,
                    code::UNITS,
                    format!("`{path}` must be an address and a port such as `127.0.0.1:9470`"),
                ),
                None => {
                    self.report_wrong_type(at, path, "an address and a port such as `127.0.0.1:9470`", value)
                }
            },
            SettingKind::HostPort
            | SettingKind::Http
            | SettingKind::Unit
            | SettingKind::Zone
            | SettingKind::Revision
            | SettingKind::Cron => {
                let checked = self.check_text(path, kind, value, at)?;
                let CheckedValue::Text(text) = &checked else { return Some(checked) };
                let Some(diagnostic) = text_checks::check_text(kind, path, text) else {
                    return Some(checked);
                };
                self.report(at, diagnostic);
                None
            }
            SettingKind::Programs => self.check_programs(path, value, at),
            SettingKind::Records(keys) => self.check_records(path, keys, value, at),
            SettingKind::Named(keys) => {
                self.check_record(path, keys, value, at).map(|r| CheckedValue::Records(vec![r]))
            }
            SettingKind::Groups => self.check_group(path, value, at),
        }
    }

    fn check_text(
        &mut self,
        path: &str,
        kind: SettingKind,
        value: &Value,
        at: ValueLocation<'_>,
    ) -> Option<CheckedValue> {
        match value {
            Value::Str(s) if s.trim().is_empty() => {
                self.report_error(at, code::WRONG_TYPE, format!("`{path}` must not be empty"))
            }
            Value::Str(s) if matches!(kind, SettingKind::Path) && s.contains('\0') => {
                self.report_error(at, code::WRONG_TYPE, format!("`{path}` is not a valid path"))
            }
            Value::Str(s) => Some(CheckedValue::Text(s.to_string())),
            other @ (Value::List(_) | Value::Map(_)) => self.report_wrong_type(at, path, "text", other),
            other => {
                let message = format!("`{path}` must be text, not {}", other.kind());
                self.report(at, Diagnostic::new(code::WRONG_TYPE, message).hint("put it in quotes"));
                None
            }
        }
    }

    fn check_duration(
        &mut self,
        path: &str,
        (min, max): (Duration, Duration),
        value: &Value,
        at: ValueLocation<'_>,
    ) -> Option<CheckedValue> {
        let time = match value {
            Value::Str(text) => units::parse_duration(text),
            Value::Int(n) => {
                let diagnostic = Diagnostic::new(code::UNITS, format!("`{path}` is a time without a unit"));
                self.report(at, diagnostic.hint(format!("write `{n}s`, or use `m`, `h`, `d`, `ms`")));
                return None;
            }
            other => return self.report_wrong_type(at, path, "a time such as `60s`, `30m` or `4h`", other),
        };
        match time {
            Some(time) if (min..=max).contains(&time) => Some(CheckedValue::Time(time)),
            Some(time) => {
                let [time, min, max] = [time, min, max].map(units::format_duration);
                self.report_error(
                    at,
                    code::OUT_OF_RANGE,
                    format!("`{path}` is {time}; it must be {min} to {max}"),
                )
            }
            None => self.report_error(
                at,
                code::UNITS,
                format!("`{path}` must be a time such as `60s`, `30m` or `4h`"),
            ),
        }
    }

    fn check_size(
        &mut self,
        path: &str,
        (min, max): (u64, u64),
        value: &Value,
        at: ValueLocation<'_>,
    ) -> Option<CheckedValue> {
        let size = match value {
            Value::Int(n) => u64::try_from(*n).ok(),
            Value::Str(text) => units::parse_size(text),
            other => return self.report_wrong_type(at, path, "a size such as `16MiB`", other),
        };
        match size {
            Some(size) if (min..=max).contains(&size) => Some(CheckedValue::Size(size)),
            Some(size) => {
                let [size, min, max] = [size, min, max].map(units::format_size);
                self.report_error(
                    at,
                    code::OUT_OF_RANGE,
                    format!("`{path}` is {size}; it must be {min} to {max}"),
                )
            }
            None => self.report_error(at, code::UNITS, format!("`{path}` must be a size such as `16MiB`")),
        }
    }

    fn check_choice(
        &mut self,
        path: &str,
        names: &[&'static str],
        text: &str,
        at: ValueLocation<'_>,
    ) -> Option<String> {
        if names.contains(&text) {
            return Some(text.to_owned());
        }
        let diagnostic = Diagnostic::new(
            code::CHOICE,
            format!("`{path}` is `{text}`; it must be one of {}", quoted_list(names)),
        );
        let diagnostic = match suggest::nearest(text, names.iter().copied()) {
            Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
            None => diagnostic,
        };
        self.report(at, diagnostic);
        None
    }

    fn check_texts(&mut self, path: &str, value: &Value, at: ValueLocation<'_>) -> Option<Vec<String>> {
        match value {
            Value::Str(text) => Some(vec![text.to_string()]),
            Value::List(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    let Some(text) = item.as_str() else {
                        self.report_wrong_type(at.at_inner(items.pos(i)), path, "a list of texts", item);
                        return None;
                    };
                    texts.push(text.to_owned());
                }
                Some(texts)
            }
            other => {
                self.report_wrong_type(at, path, "a list of texts", other);
                None
            }
        }
    }

    fn check_programs(&mut self, path: &str, value: &Value, at: ValueLocation<'_>) -> Option<CheckedValue> {
        let Value::List(items) = value else {
            return self.report_wrong_type(at, path, "a list of programs", value);
        };
        let mut programs = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let at = at.at_inner(items.pos(i));
            let words = self.check_texts(path, item, at)?;
            if !words.first().is_some_and(|program| program.starts_with('/')) {
                let message = format!("each program in `{path}` needs its full path");
                return self.report_error(at, code::WRONG_TYPE, message);
            }
            programs.push(words);
        }
        Some(CheckedValue::Programs(programs))
    }

    fn check_group(&mut self, path: &str, value: &Value, at: ValueLocation<'_>) -> Option<CheckedValue> {
        match value {
            Value::Str(_) => {}
            Value::List(items) if items.iter().all(|v| !matches!(v, Value::List(_) | Value::Map(_))) => {}
            other => return self.report_wrong_type(at, path, "a target, or a list of ids", other),
        }
        Some(CheckedValue::Groups(Map::from_iter([(path, value.clone())])))
    }

    fn check_records(
        &mut self,
        path: &str,
        keys: &'static [SettingKey],
        value: &Value,
        at: ValueLocation<'_>,
    ) -> Option<CheckedValue> {
        let Value::List(items) = value else {
            return self.report_wrong_type(at, path, "a list of mappings", value);
        };
        let records: Vec<Option<CheckedRecord>> = items
            .iter()
            .enumerate()
            .map(|(i, item)| {
                self.check_record(&format!("{path}[{i}]"), keys, item, at.at_inner(items.pos(i)))
            })
            .collect();
        records.into_iter().collect::<Option<_>>().map(CheckedValue::Records)
    }

    fn check_record(
        &mut self,
        path: &str,
        keys: &'static [SettingKey],
        value: &Value,
        at: ValueLocation<'_>,
    ) -> Option<CheckedRecord> {
        let Value::Map(map) = value else {
            self.report_wrong_type(at, path, "a mapping", value);
            return None;
        };
        let before = self.diagnostics.0.len();
        for entry in map.entries() {
            let name = entry.key.json_key();
            if !keys.iter().any(|key| key.path == name) {
                let diagnostic =
                    Diagnostic::new(code::UNKNOWN_KEY, format!("unknown key `{name}` in `{path}`"));
                let diagnostic = match suggest::nearest(&name, keys.iter().map(|key| key.path)) {
                    Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                    None => diagnostic,
                };
                self.report(at.at_inner(entry.at), diagnostic);
            }
        }
        let mut record = CheckedRecord::default();
        for key in keys {
            let assigned = map.entry(key.path).filter(|e| !e.value.is_null());
            let checked = match assigned {
                Some(e) => self.check(&format!("{path}.{}", key.path), key.kind, &e.value, at.at_inner(e.at)),
                None if matches!(key.default, SettingDefault::Required) => {
                    self.report_error(at, code::MISSING, format!("`{path}` needs the key `{}`", key.path))
                }
                None => Some(default_value(key)),
            };
            record.0.extend(checked.map(|checked| (key.path, checked)));
        }
        (self.diagnostics.0.len() == before).then_some(record)
    }
}

/// The default.
pub(super) fn default_value(key: &SettingKey) -> CheckedValue {
    match (key.default, key.kind) {
        (SettingDefault::Unset | SettingDefault::Required, _) => CheckedValue::Unset,
        (SettingDefault::Text(text), SettingKind::Choices(_) | SettingKind::Texts) => {
            CheckedValue::Texts(text.split(',').map(str::to_owned).collect())
        }
        (SettingDefault::Text(text), _) => CheckedValue::Text(text.to_owned()),
        (SettingDefault::Bool(b), _) => CheckedValue::Bool(b),
        (SettingDefault::Number(n), _) => CheckedValue::Number(n),
        (SettingDefault::Time(time), _) => CheckedValue::Time(time),
        (SettingDefault::Size(size), _) => CheckedValue::Size(size),
        (SettingDefault::Empty, SettingKind::Records(_)) => CheckedValue::Records(Vec::new()),
        (SettingDefault::Empty, SettingKind::Named(_)) => CheckedValue::Named(Vec::new()),
        (SettingDefault::Empty, SettingKind::Groups) => CheckedValue::Groups(Map::new()),
        (SettingDefault::Empty, SettingKind::Programs) => CheckedValue::Programs(Vec::new()),
        (SettingDefault::Empty, _) => CheckedValue::Texts(Vec::new()),
    }
}

fn quoted_list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn parse_clock(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number =
        |t: &str| (t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<u16>().ok())?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= 24 * 60).then_some(total)
}
