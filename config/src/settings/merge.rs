//! Files, variables and flags laid over each other: each key once, with where its value comes from.

use super::fragment::{Fragment, Origin};
use super::schema::{self, Key, Kind};
use crate::codes::configuration as code;
use crate::fault::{Fault, Faults};
use crate::suggest;
use crate::value::{Entry, Map, Pos, Value};
use crate::yaml::{self, Words};

/// Variables that start with `ZAGENT_` and set no key: which file to read, and what to log.
pub const OTHER_VARIABLES: [&str; 2] = ["ZAGENT_CONFIG", "ZAGENT_LOG"];

/// A key set by a flag of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The flag, such as `--schedule`.
    pub flag: String,
    /// The key, such as `run.schedule`.
    pub key: String,
    /// Its value, as text.
    pub value: String,
}

/// A key (or one entry of a key whose entries add up) and who set it last.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) key: &'static Key,
    pub(super) entry: Option<String>,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Everything that was said, each key once.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    pub(super) said: Vec<Said>,
    pub(super) fragments: Vec<Fragment>,
    pub(super) faults: Faults,
}

impl Merged {
    /// Lays the sources over each other, later over earlier; unknown keys and variables are noted as faults.
    #[must_use]
    pub fn new(
        fragments: Vec<Fragment>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> Self {
        let mut merged = Self::default();
        for fragment in &fragments {
            merged.section(fragment, "", &fragment.map);
        }
        merged.fragments = fragments;
        merged.variables(variables);
        for flag in flags {
            let origin = Origin::Flag(flag.flag.clone());
            match schema::find(&flag.key) {
                Some(key) => merged.text(key, &flag.value, origin),
                None => merged.faults.push(unknown("", &flag.key).at(&flag.flag, Pos::NONE)),
            }
        }
        merged
    }

    fn section(&mut self, fragment: &Fragment, path: &str, map: &Map) {
        for entry in map.entries() {
            let mut place = |mut fault: Fault| {
                fault.excerpts.extend(fragment.excerpt(entry.at));
                self.faults.push(fault.at(&*fragment.file, entry.at));
            };
            let Some(name) = entry.key.as_str() else {
                place(Fault::new(
                    code::UNKNOWN_KEY,
                    format!("the key `{}` is not text", entry.key.json_key()),
                ));
                continue;
            };
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let origin = |pos| Origin::File { file: fragment.file.clone(), pos };
            match (schema::find(&full), &entry.value) {
                (Some(key), Value::Map(entries)) if key.kind.adds_up() => {
                    for Entry { key: name, value, at } in entries.entries() {
                        self.say(key, Some(name.json_key()), value.clone(), origin(*at));
                    }
                }
                (Some(key), value) => self.say(key, None, value.clone(), origin(entry.at)),
                (None, Value::Map(inner)) if schema::is_section(&full) => {
                    self.section(fragment, &full, inner);
                }
                (None, Value::Null) if schema::is_section(&full) => {}
                (None, other) if schema::is_section(&full) => place(Fault::new(
                    code::WRONG_TYPE,
                    format!("`{full}` is a section of keys, not {}", other.kind()),
                )),
                (None, _) => place(unknown(path, name)),
            }
        }
    }

    fn variables(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let mut ours: Vec<(String, String)> = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with(schema::VARIABLE_PREFIX))
            .filter(|(name, _)| !OTHER_VARIABLES.contains(&name.as_str()))
            .collect();
        ours.sort_unstable();
        let names: Vec<String> = schema::KEYS.iter().map(|key| schema::variable(key.path)).collect();
        for (name, value) in ours {
            match names.iter().position(|n| *n == name) {
                Some(i) => self.text(&schema::KEYS[i], &value, Origin::Variable(name)),
                None => {
                    let fault =
                        Fault::new(code::UNKNOWN_VARIABLE, format!("the variable `{name}` sets no key"));
                    let near = suggest::nearest(&name, names.iter().map(String::as_str));
                    let fault = match near {
                        Some(near) => fault.hint(format!("did you mean `{near}`?")),
                        None => fault,
                    };
                    self.faults.push(fault.at(name, Pos::NONE));
                }
            }
        }
    }

    /// Sets a key from a text: plain for single values, YAML for what has parts.
    fn text(&mut self, key: &'static Key, text: &str, origin: Origin) {
        let yaml = |text: &str| yaml::load(text, Words::Core);
        let value = match key.kind {
            Kind::Texts | Kind::Choices(_) | Kind::Programs if !text.trim_start().starts_with('[') => {
                Ok(text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Value::from).collect())
            }
            Kind::Texts | Kind::Choices(_) | Kind::Programs => yaml(text),
            Kind::Records(_) | Kind::Named(_) | Kind::Groups => yaml(text),
            Kind::Bool | Kind::Number { .. } => yaml(text.trim()),
            _ => Ok(Value::from(text)),
        };
        match value {
            Ok(Value::Map(entries)) if key.kind.adds_up() => {
                for (name, value) in entries.iter() {
                    self.say(key, Some(name.json_key()), value.clone(), origin.clone());
                }
            }
            Ok(value) => self.say(key, None, value, origin),
            Err(fault) => {
                let message = format!("the value for `{}` is not YAML: {}", key.path, fault.message);
                self.faults.push(Fault::new(code::SYNTAX, message).at(origin.to_string(), Pos::NONE));
            }
        }
    }

    /// The later wins; a null takes back what was said before.
    fn say(&mut self, key: &'static Key, entry: Option<String>, value: Value, origin: Origin) {
        self.said.retain(|s| s.key.path != key.path || (entry.is_some() && s.entry != entry));
        if !value.is_null() {
            self.said.push(Said { key, entry, value, origin });
        }
    }
}

/// An unknown key, with the nearest known one: in its section, or of the same name elsewhere.
fn unknown(section: &str, name: &str) -> Fault {
    let full = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    let fault = Fault::new(code::UNKNOWN_KEY, format!("there is no key `{full}`"));
    let elsewhere = || schema::KEYS.iter().map(|k| k.path).find(|p| p.rsplit('.').next() == Some(name));
    let near = suggest::nearest(name, schema::names_in(section)).map(|near| match section {
        "" => near.to_owned(),
        section => format!("{section}.{near}"),
    });
    match near.or_else(|| elsewhere().map(str::to_owned)) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault,
    }
}
