//! Merges files, variables and flags: each key once, with the origin of its value.

use super::fragment::{ConfigFragment, SettingOrigin};
use super::schema::{self, SettingKey, SettingKind};
use crate::codes::configuration as code;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::suggest;
use crate::value::{Map, MapEntry, Pos, Value};
use crate::yaml::{self, ScalarSchema};

/// Variables that start with `ZAGENT_` but set no key: the file to read, and the log level.
pub const OTHER_VARIABLES: [&str; 2] = ["ZAGENT_CONFIG", "ZAGENT_LOG"];

/// A key set by a command-line flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagOverride {
    /// The flag, such as `--schedule`.
    pub flag: String,
    /// The key, such as `run.schedule`.
    pub key: String,
    /// Its value, as text.
    pub value: String,
}

/// A key (or one entry of a key whose entries are merged) and its last origin.
#[derive(Clone, Debug)]
pub(super) struct AssignedSetting {
    pub(super) key: &'static SettingKey,
    pub(super) entry: Option<String>,
    pub(super) value: Value,
    pub(super) origin: SettingOrigin,
}

/// The merged configuration, each key once.
#[derive(Clone, Debug, Default)]
pub struct MergedConfig {
    pub(super) assigned: Vec<AssignedSetting>,
    pub(super) fragments: Vec<ConfigFragment>,
    pub(super) diagnostics: Diagnostics,
}

impl MergedConfig {
    /// Merges the sources, later over earlier; unknown keys and variables are reported as errors.
    #[must_use]
    pub fn new(
        fragments: Vec<ConfigFragment>,
        variables: impl IntoIterator<Item = (String, String)>,
        flags: &[FlagOverride],
    ) -> Self {
        let mut merged = Self::default();
        for fragment in &fragments {
            merged.merge_section(fragment, "", &fragment.map);
        }
        merged.fragments = fragments;
        merged.merge_variables(variables);
        for flag in flags {
            let origin = SettingOrigin::Flag(flag.flag.clone());
            match schema::find(&flag.key) {
                Some(key) => merged.assign_text(key, &flag.value, origin),
                None => merged.diagnostics.push(unknown_key("", &flag.key).at(&flag.flag, Pos::NONE)),
            }
        }
        merged
    }

    fn merge_section(&mut self, fragment: &ConfigFragment, path: &str, map: &Map) {
        for entry in map.entries() {
            let mut place = |mut diagnostic: Diagnostic| {
                diagnostic.excerpts.extend(fragment.excerpt(entry.at));
                self.diagnostics.push(diagnostic.at(&*fragment.file, entry.at));
            };
            let Some(name) = entry.key.as_str() else {
                place(Diagnostic::new(
                    code::UNKNOWN_KEY,
                    format!("the key `{}` is not a string", entry.key.json_key()),
                ));
                continue;
            };
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let origin = |pos| SettingOrigin::File { file: fragment.file.clone(), pos };
            match (schema::find(&full), &entry.value) {
                (Some(key), Value::Map(entries)) if key.kind.is_additive() => {
                    for MapEntry { key: name, value, at } in entries.entries() {
                        self.assign(key, Some(name.json_key()), value.clone(), origin(*at));
                    }
                }
                (Some(key), value) => self.assign(key, None, value.clone(), origin(entry.at)),
                (None, Value::Map(inner)) if schema::is_section(&full) => {
                    self.merge_section(fragment, &full, inner);
                }
                (None, Value::Null) if schema::is_section(&full) => {}
                (None, other) if schema::is_section(&full) => place(Diagnostic::new(
                    code::WRONG_TYPE,
                    format!("`{full}` is a section of keys, not {}", other.kind()),
                )),
                (None, _) => place(unknown_key(path, name)),
            }
        }
    }

    fn merge_variables(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let mut ours: Vec<(String, String)> = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with(schema::VARIABLE_PREFIX))
            .filter(|(name, _)| !OTHER_VARIABLES.contains(&name.as_str()))
            .collect();
        ours.sort_unstable();
        let names: Vec<String> = schema::KEYS.iter().map(|key| schema::variable_name(key.path)).collect();
        for (name, value) in ours {
            match names.iter().position(|n| *n == name) {
                Some(i) => self.assign_text(&schema::KEYS[i], &value, SettingOrigin::Variable(name)),
                None => {
                    let diagnostic = Diagnostic::new(
                        code::UNKNOWN_VARIABLE,
                        format!("unknown variable `{name}`: no key has this name"),
                    );
                    let near = suggest::nearest(&name, names.iter().map(String::as_str));
                    let diagnostic = match near {
                        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                        None => diagnostic,
                    };
                    self.diagnostics.push(diagnostic.at(name, Pos::NONE));
                }
            }
        }
    }

    /// Sets a key from a text: plain for single values, YAML for lists and mappings.
    fn assign_text(&mut self, key: &'static SettingKey, text: &str, origin: SettingOrigin) {
        let yaml = |text: &str| yaml::load(text, ScalarSchema::Core);
        let value = match key.kind {
            SettingKind::Texts | SettingKind::Choices(_) | SettingKind::Programs
                if !text.trim_start().starts_with('[') =>
            {
                Ok(text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Value::from).collect())
            }
            SettingKind::Texts | SettingKind::Choices(_) | SettingKind::Programs => yaml(text),
            SettingKind::Records(_) | SettingKind::Named(_) | SettingKind::Groups => yaml(text),
            SettingKind::Bool | SettingKind::Number { .. } => yaml(text.trim()),
            _ => Ok(Value::from(text)),
        };
        match value {
            Ok(Value::Map(entries)) if key.kind.is_additive() => {
                for (name, value) in entries.iter() {
                    self.assign(key, Some(name.json_key()), value.clone(), origin.clone());
                }
            }
            Ok(value) => self.assign(key, None, value, origin),
            Err(diagnostic) => {
                let message = format!("the value for `{}` is not YAML: {}", key.path, diagnostic.message);
                self.diagnostics
                    .push(Diagnostic::new(code::SYNTAX, message).at(origin.to_string(), Pos::NONE));
            }
        }
    }

    /// The later value wins; a null resets the key.
    fn assign(
        &mut self,
        key: &'static SettingKey,
        entry: Option<String>,
        value: Value,
        origin: SettingOrigin,
    ) {
        self.assigned.retain(|s| s.key.path != key.path || (entry.is_some() && s.entry != entry));
        if !value.is_null() {
            self.assigned.push(AssignedSetting { key, entry, value, origin });
        }
    }
}

/// An unknown key, with the nearest known one: in its section, or of the same name elsewhere.
fn unknown_key(section: &str, name: &str) -> Diagnostic {
    let full = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
    let diagnostic = Diagnostic::new(code::UNKNOWN_KEY, format!("unknown key `{full}`"));
    let elsewhere = || schema::KEYS.iter().map(|k| k.path).find(|p| p.rsplit('.').next() == Some(name));
    let near = suggest::nearest(name, schema::names_in(section)).map(|near| match section {
        "" => near.to_owned(),
        section => format!("{section}.{near}"),
    });
    match near.or_else(|| elsewhere().map(str::to_owned)) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic,
    }
}
