//! Checked keys read by type, and printed for `zagent config show`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::check::{CheckedRecord, CheckedValue};
use super::units;
use crate::mask::redact_logins;
use crate::value::{Map, Value};

/// Why the readers below cannot fail.
const SCHEMA: &str = "the schema gives every key its type";

impl CheckedRecord {
    fn find(&self, name: &str) -> Option<&CheckedValue> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, checked)| checked)
    }

    pub(super) fn text_if(&self, name: &str) -> Option<&str> {
        match self.find(name) {
            Some(CheckedValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.text_if(name).expect(SCHEMA).to_owned()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.text(name).into()
    }

    pub(super) fn path_if(&self, name: &str) -> Option<PathBuf> {
        self.text_if(name).map(PathBuf::from)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.find(name), Some(CheckedValue::Bool(true)))
    }

    pub(super) fn number_if(&self, name: &str) -> Option<i64> {
        match self.find(name) {
            Some(CheckedValue::Number(n)) => Some(*n),
            _ => None,
        }
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.number_if(name).and_then(|n| usize::try_from(n).ok()).expect(SCHEMA)
    }

    pub(super) fn time_if(&self, name: &str) -> Option<Duration> {
        match self.find(name) {
            Some(CheckedValue::Time(time)) => Some(*time),
            _ => None,
        }
    }

    pub(super) fn time(&self, name: &str) -> Duration {
        self.time_if(name).expect(SCHEMA)
    }

    pub(super) fn size(&self, name: &str) -> usize {
        match self.find(name) {
            Some(CheckedValue::Size(size)) => usize::try_from(*size).ok(),
            _ => None,
        }
        .expect(SCHEMA)
    }

    pub(super) fn clock(&self, name: &str) -> u16 {
        match self.find(name) {
            Some(CheckedValue::Clock(minutes)) => Some(*minutes),
            _ => None,
        }
        .expect(SCHEMA)
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        match self.find(name) {
            Some(CheckedValue::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn address_if(&self, name: &str) -> Option<SocketAddr> {
        match self.find(name) {
            Some(CheckedValue::Address(address)) => Some(*address),
            _ => None,
        }
    }

    pub(super) fn programs(&self, name: &str) -> Vec<Vec<String>> {
        match self.find(name) {
            Some(CheckedValue::Programs(programs)) => programs.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn records(&self, name: &str) -> &[Self] {
        match self.find(name) {
            Some(CheckedValue::Records(records)) => records,
            _ => &[],
        }
    }

    pub(super) fn named(&self, name: &str) -> &[(String, Self)] {
        match self.find(name) {
            Some(CheckedValue::Named(named)) => named,
            _ => &[],
        }
    }

    pub(super) fn groups(&self, name: &str) -> Map {
        match self.find(name) {
            Some(CheckedValue::Groups(groups)) => groups.clone(),
            _ => Map::new(),
        }
    }

    /// As a value, without unset keys.
    pub(super) fn to_value(&self) -> Value {
        let set = self.0.iter().filter(|(_, checked)| *checked != CheckedValue::Unset);
        set.map(|(name, checked)| (*name, checked.to_value())).collect::<Map>().into()
    }
}

impl CheckedValue {
    /// As a value in the spelling that a file would use; passwords in addresses are masked.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Unset => Value::Null,
            Self::Text(text) => Value::from(redact_logins(text)),
            Self::Bool(b) => Value::Bool(*b),
            Self::Number(n) => Value::Int(*n),
            Self::Time(time) => Value::from(units::format_duration(*time)),
            Self::Size(size) => Value::from(units::format_size(*size)),
            Self::Texts(texts) => texts.iter().map(|text| Value::from(text.as_str())).collect(),
            Self::Clock(minutes) => Value::from(format!("{:02}:{:02}", minutes / 60, minutes % 60)),
            Self::Address(address) => Value::from(address.to_string()),
            Self::Programs(programs) => {
                let words = |p: &Vec<String>| p.iter().map(|w| Value::from(w.as_str())).collect();
                programs.iter().map(words).collect()
            }
            Self::Records(records) => records.iter().map(CheckedRecord::to_value).collect(),
            Self::Named(named) => {
                named.iter().map(|(n, r)| (n.as_str(), r.to_value())).collect::<Map>().into()
            }
            Self::Groups(groups) => Value::from(groups.clone()),
        }
    }
}
