//! States of the module `ini`: options and sections of a file.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use super::text::{Edit, Texts};
use crate::host::accounts::ini::{Ini, Spelling, written};
use crate::states::{Args, Failure, Resource, Scene};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    SetOptions { strict: bool },
    DropOptions,
    MakeSections,
    DropSections,
}

pub(super) struct Edits {
    path: PathBuf,
    act: Act,
    /// What is asked for: options by section, or the options that have none.
    sections: Map,
    spelling: Spelling,
}

impl Edits {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Option<Result<Self, Failure>> {
        let act = match fun {
            "options_present" => Act::SetOptions { strict: args.flag("strict", false) },
            "options_absent" => Act::DropOptions,
            "sections_present" => Act::MakeSections,
            "sections_absent" => Act::DropSections,
            _ => return None,
        };
        Some(Self::of(act, args))
    }

    fn of(act: Act, args: &Args<'_>) -> Result<Self, Failure> {
        let sections = match args.get("sections") {
            // A list of names is enough where only names count.
            Some(Value::List(items)) if items.iter().all(|v| v.as_map().is_none()) => {
                items.iter().map(|name| (name.clone(), Value::Null)).collect()
            }
            _ => args.map("sections")?.unwrap_or_default(),
        };
        let separator = args.text("separator")?.filter(|s| !s.is_empty()).unwrap_or_else(|| "=".into());
        Ok(Self {
            path: args.path("name")?.ok_or_else(|| Failure::new("`name` must be given"))?,
            act,
            sections,
            spelling: Spelling { separator, no_spaces: args.flag("no_spaces", false) },
        })
    }

    /// Sets an option and notes what changed; the words of a dry run otherwise.
    fn set(&self, ini: &mut Ini, section: Option<&str>, (key, value): (&Value, &Value), told: &mut Told) {
        let (option, value) = (written(key), written(value));
        let place = section.map_or_else(String::new, |s| format!(" in section {s}"));
        let was = ini.get(section, &option).map(str::to_owned);
        if was.as_deref() == Some(&*value) {
            told.would.push_str(&format!("Unchanged key {option}{place}.\n"));
            return;
        }
        told.would.push_str(&format!("Changed key {option}{place}.\n"));
        told.note(section, &option, was.as_deref(), Some(&value));
        ini.set(section, &option, &value);
    }

    fn options_present(&self, ini: &mut Ini, strict: bool, told: &mut Told) {
        if strict {
            self.drop_others(ini, told);
        }
        for (key, value) in self.sections.iter() {
            let Value::Map(options) = value else {
                self.set(ini, None, (key, value), told);
                continue;
            };
            let name = written(key);
            if ini.section(Some(&name)).is_none() {
                ini.add_section(&name);
                let mut after = Map::new();
                for (option, value) in options.iter() {
                    let (option, value) = (written(option), written(value));
                    told.would.push_str(&format!("Changed key {option} in section {name}.\n"));
                    ini.set(Some(&name), &option, &value);
                    after.insert(option, value);
                }
                told.changes.insert(name, before_after(Value::Null, after.into()));
                continue;
            }
            for option in options.iter() {
                self.set(ini, Some(&name), option, told);
            }
        }
    }

    /// Takes away what is not asked for.
    fn drop_others(&self, ini: &mut Ini, told: &mut Told) {
        let asked =
            |key: &Value| self.sections.iter().find(|(k, _)| written(k) == written(key)).map(|(_, v)| v);
        for (key, value) in ini.shown().iter() {
            let name = written(key);
            match (value, asked(key)) {
                (Value::Map(_), Some(Value::Map(wanted))) => {
                    for (option, was) in value.as_map().into_iter().flat_map(Map::iter) {
                        if !wanted.keys().any(|k| written(k) == written(option)) {
                            told.would
                                .push_str(&format!("Deleted key {} in section {name}.\n", written(option)));
                            ini.remove(Some(&name), &written(option));
                            told.note(Some(&name), &written(option), was.as_str(), None);
                        }
                    }
                }
                (Value::Map(_), _) => {
                    told.would.push_str(&format!("Removed section {name}.\n"));
                    ini.remove_section(&name);
                    told.changes.insert(name, before_after(value.clone(), Value::Null));
                }
                (_, None | Some(Value::Map(_))) => {
                    told.would.push_str(&format!("Removed key {name}.\n"));
                    ini.remove(None, &name);
                    told.note(None, &name, value.as_str(), None);
                }
                _ => {}
            }
        }
    }

    fn options_absent(&self, ini: &mut Ini, told: &mut Told) {
        for (key, value) in self.sections.iter() {
            let name = written(key);
            let Value::List(options) = value else {
                match ini.remove(None, &name) {
                    Some(was) => {
                        told.would.push_str(&format!("Deleted key {name}.\n"));
                        told.changes.insert(name, was);
                    }
                    None => told.would.push_str(&format!("Key {name} does not exist.\n")),
                }
                continue;
            };
            let mut gone = Map::new();
            for option in options.iter().map(written) {
                match ini.remove(Some(&name), &option) {
                    Some(was) => {
                        told.would.push_str(&format!("Deleted key {option} in section {name}.\n"));
                        gone.insert(option, was);
                    }
                    None => told.would.push_str(&format!("Key {option} in section {name} does not exist.\n")),
                }
            }
            if !gone.is_empty() {
                told.changes.insert(name, Value::from(gone));
            }
        }
    }

    fn sections(&self, ini: &mut Ini, is_wanted: bool, told: &mut Told) {
        for name in self.sections.keys().map(written) {
            if is_wanted {
                let is_new = ini.add_section(&name);
                let words = if is_new { "Created new section" } else { "Section unchanged" };
                told.would.push_str(&format!("{words} {name}.\n"));
                if is_new {
                    told.changes.insert(name, before_after(Value::Null, Value::empty_map()));
                }
                continue;
            }
            match ini.remove_section(&name) {
                Some(was) => {
                    told.would.push_str(&format!("Deleted section {name}.\n"));
                    told.changes.insert(name, was);
                }
                None => told.would.push_str(&format!("Section {name} does not exist.\n")),
            }
        }
    }
}

/// What is said, and what changes.
#[derive(Default)]
struct Told {
    would: String,
    changes: Map,
}

impl Told {
    fn note(&mut self, section: Option<&str>, option: &str, was: Option<&str>, is: Option<&str>) {
        let change = before_after(was.map_or(Value::Null, Value::from), is.map_or(Value::Null, Value::from));
        match section {
            None => drop(self.changes.insert(option, change)),
            Some(name) => {
                let mut all = self.changes.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
                all.insert(option, change);
                self.changes.insert(name, Value::from(all));
            }
        }
    }
}

fn before_after(before: Value, after: Value) -> Value {
    Map::from_iter([("before", before), ("after", after)]).into()
}

impl Texts for Edits {
    fn path(&self, _: &Scene<'_>) -> Result<PathBuf, Failure> {
        Ok(self.path.clone())
    }

    fn edit(&self, old: Option<&str>, _: &Scene<'_>) -> Result<Edit, Failure> {
        let mut ini = Ini::parse(old.unwrap_or_default(), &self.spelling.separator);
        let mut told = Told::default();
        match self.act {
            Act::SetOptions { strict } => self.options_present(&mut ini, strict, &mut told),
            Act::DropOptions => self.options_absent(&mut ini, &mut told),
            Act::MakeSections => self.sections(&mut ini, true, &mut told),
            Act::DropSections => self.sections(&mut ini, false, &mut told),
        }
        if told.changes.is_empty() {
            return Ok(Edit::Right("No anomaly detected".into()));
        }
        let new = ini.render(&self.spelling);
        Ok(Edit::Change { new, would: told.would, did: "Changes take effect".into(), changes: told.changes })
    }

    fn resource(&self) -> Resource {
        Resource::Path(self.path.clone())
    }
}
