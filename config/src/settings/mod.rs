//! zagent.yaml, conf.d, `ZAGENT_*` and flags to settings: [`Fragment`] (as written), [`Merged`] (each key once, with where
//! it comes from), [`Settings`] (typed and valid).
//!
//! Law: later wins; unknown keys, wrong types and values out of range are faults, all reported at once; nothing
//! configured at all is fine.

mod check;
mod choices;
pub mod defaults;
mod fragment;
mod merge;
mod record;
mod schema;
mod together;
mod units;
mod valid;
mod words;

pub use self::choices::{
    BoardKind, Compatibility, Day, Follow, ManifestRule, Occasion, Permission, RebootPolicy, Require,
    RunSchedule,
};
pub use self::fragment::{Fragment, Location, Origin};
pub use self::merge::{Flag, Merged, OTHER_VARIABLES};
pub use self::units::{format_duration, format_size, parse_duration, parse_size};
pub use self::valid::{
    Board, Effective, Environment, Health, HealthCheck, Limits, PillarRules, Reboot, Remote, Rollout, Run,
    Scheduled, Settings, Source, Trust, Webhook, When, Window,
};

use self::check::{At, Checked, Checker, Record, preset};
use self::schema::Key;
use self::together::Whole;
use crate::codes::configuration as code;
use crate::fault::{Fault, Faults};
use crate::value::{Map, Pos, Value};

/// The name of a key, by its path: the ones a flag may set, the ones `zagent config show` prints.
pub fn keys() -> impl Iterator<Item = &'static str> {
    schema::KEYS.iter().map(|key| key.path)
}

/// Reads the files, lays variables and flags over them, and checks everything.
///
/// # Errors
/// Fails with every fault of the stage that found some: reading first, then keys and values.
pub fn load(
    location: &Location,
    variables: impl IntoIterator<Item = (String, String)>,
    flags: &[Flag],
    host_name: Option<&str>,
) -> Result<Settings, Faults> {
    Merged::new(location.fragments()?, variables, flags).settings(host_name)
}

impl Settings {
    /// Everything that somebody said, as one mapping that says the same.
    #[must_use]
    pub fn said(&self) -> Value {
        let mut top = Map::new();
        for Effective { key, value, origin } in self.effective() {
            if matches!(origin, Origin::Default | Origin::HostName) {
                continue;
            }
            let adds_up = schema::KEYS.iter().filter(|known| known.kind.adds_up());
            let entry = adds_up
                .map(|known| known.path)
                .find_map(|path| Some((path, key.strip_prefix(path)?.strip_prefix('.')?)));
            let path: Vec<&str> = match entry {
                Some((path, name)) => path.split('.').chain([name]).collect(),
                None => key.split('.').collect(),
            };
            place(&mut top, &path, value);
        }
        top.into()
    }
}

/// Puts a value where a path of keys leads.
fn place(map: &mut Map, path: &[&str], value: &Value) {
    match path {
        [] => {}
        [last] => {
            map.insert(*last, value.clone());
        }
        [first, rest @ ..] => {
            let inner = map.get(first).and_then(Value::as_map).cloned();
            let mut inner = inner.unwrap_or_default();
            place(&mut inner, rest, value);
            map.insert(*first, inner);
        }
    }
}

impl Merged {
    /// Checks everything that was said; `host_name` is the id of a node that has none.
    ///
    /// # Errors
    /// Fails with every fault there is.
    pub fn settings(mut self, host_name: Option<&str>) -> Result<Settings, Faults> {
        let mut checker = Checker { fragments: &self.fragments, faults: std::mem::take(&mut self.faults) };
        let mut effective = Vec::new();
        let mut all = Record::default();
        for key in schema::KEYS {
            let checked = self.key(key, &mut checker, &mut effective);
            all.0.push((key.path, checked));
        }
        let settings = Whole { merged: &self, all: &all, host_name }.settings(&mut checker, effective);
        let mut faults = checker.faults;
        faults.0.sort_by_key(|fault| self.order(fault));
        faults.into_result().map(|()| settings)
    }

    /// Where a fault comes among the others: as the files and their lines do, then variables and flags.
    fn order(&self, fault: &Fault) -> (usize, Pos) {
        let Some(place) = &fault.place else { return (usize::MAX, Pos::NONE) };
        let file = self.fragments.iter().position(|f| *f.file == *place.file);
        (file.unwrap_or(usize::MAX), place.pos)
    }

    /// The value of one key, or what holds without it; faults are noted.
    fn key(&self, key: &'static Key, checker: &mut Checker<'_>, effective: &mut Vec<Effective>) -> Checked {
        let mut out = preset(key);
        let mut show = |key: String, value, origin| effective.push(Effective { key, value, origin });
        let mut told = false;
        for said in self.said.iter().filter(|s| s.key.path == key.path) {
            let path = match &said.entry {
                Some(entry) => format!("{}.{entry}", key.path),
                None => key.path.to_owned(),
            };
            let at = At::of(&said.origin);
            if key.kind.adds_up() && said.entry.is_none() {
                let fault = Fault::new(
                    code::WRONG_TYPE,
                    format!("`{path}` takes a mapping of names, not {}", said.value.kind()),
                );
                checker.fault(at, fault);
                continue;
            }
            let Some(checked) = checker.check(&path, key.kind, &said.value, at) else { continue };
            told = true;
            show(
                path,
                if key.kind.adds_up() { shown(&checked, said) } else { checked.value() },
                said.origin.clone(),
            );
            match (&mut out, checked, &said.entry) {
                (Checked::Named(named), Checked::Records(records), Some(entry)) => {
                    named.extend(records.into_iter().map(|record| (entry.clone(), record)));
                }
                (Checked::Groups(groups), Checked::Groups(_), Some(entry)) => {
                    groups.insert(entry.as_str(), said.value.clone());
                }
                (out, checked, _) => *out = checked,
            }
        }
        if !told {
            show(key.path.to_owned(), out.value(), Origin::Default);
        }
        out
    }
}

fn shown(checked: &Checked, said: &merge::Said) -> Value {
    match checked {
        Checked::Records(records) => records.first().map(Record::value).unwrap_or_default(),
        _ => said.value.clone(),
    }
}

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
