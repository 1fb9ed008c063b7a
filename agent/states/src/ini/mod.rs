//! States of the module `ini`: options and sections of a file.

pub(crate) mod functions;
pub(crate) mod ini_file;

use std::path::PathBuf;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use crate::ini::ini_file::{IniFile, IniFormat, ini_value_text};
use crate::shared::text_file::{TextEdit, TextFile, text_file_state};
use crate::{BuildResult, CheckResult, ChunkArgs, LockKey, StateCtx, StateError, StateModule};

/// The module `ini`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "ini",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    text_file_state(IniState::for_function(fun, args))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IniFunction {
    SetOptions { strict: bool },
    RemoveOptions,
    AddSections,
    RemoveSections,
}

pub(crate) struct IniState {
    path: PathBuf,
    function: IniFunction,
    /// What is asked for: options by section, or the options that have none.
    sections: Map,
    spelling: IniFormat,
}

impl IniState {
    pub(crate) fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
        let act = match fun {
            "options_present" => IniFunction::SetOptions { strict: args.flag("strict", false) },
            "options_absent" => IniFunction::RemoveOptions,
            "sections_present" => IniFunction::AddSections,
            "sections_absent" => IniFunction::RemoveSections,
            _ => return None,
        };
        Some(Self::from_args(act, args))
    }

    fn from_args(act: IniFunction, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let sections = match args.get("sections") {
            // A list of names is enough where only names count.
            Some(Value::List(items)) if items.iter().all(|v| v.as_map().is_none()) => {
                items.iter().map(|name| (name.clone(), Value::Null)).collect()
            }
            _ => args.map("sections")?.unwrap_or_default(),
        };
        let separator = args.text("separator")?.filter(|s| !s.is_empty()).unwrap_or_else(|| "=".into());
        Ok(Self {
            path: args.path("name")?.ok_or_else(|| StateError::new("`name` must be given"))?,
            function: act,
            sections,
            spelling: IniFormat { separator, no_spaces: args.flag("no_spaces", false) },
        })
    }

    /// Sets an option and notes what changed; the words of a dry run otherwise.
    fn set_option(
        &self,
        ini: &mut IniFile,
        section: Option<&str>,
        (key, value): (&Value, &Value),
        log: &mut IniEditLog,
    ) {
        let (option, value) = (ini_value_text(key), ini_value_text(value));
        let place = section.map_or_else(String::new, |s| format!(" in section {s}"));
        let was = ini.get(section, &option).map(str::to_owned);
        if was.as_deref() == Some(&*value) {
            log.preview.push_str(&format!("Unchanged key {option}{place}.\n"));
            return;
        }
        log.preview.push_str(&format!("Changed key {option}{place}.\n"));
        log.record_change(section, &option, was.as_deref(), Some(&value));
        ini.set(section, &option, &value);
    }

    fn edit_options_present(&self, ini: &mut IniFile, strict: bool, log: &mut IniEditLog) {
        if strict {
            self.remove_other_options(ini, log);
        }
        for (key, value) in self.sections.iter() {
            let Value::Map(options) = value else {
                self.set_option(ini, None, (key, value), log);
                continue;
            };
            let name = ini_value_text(key);
            if ini.section(Some(&name)).is_none() {
                ini.add_section(&name);
                let mut after = Map::new();
                for (option, value) in options.iter() {
                    let (option, value) = (ini_value_text(option), ini_value_text(value));
                    log.preview.push_str(&format!("Changed key {option} in section {name}.\n"));
                    ini.set(Some(&name), &option, &value);
                    after.insert(option, value);
                }
                log.changes.insert(name, before_after(Value::Null, after.into()));
                continue;
            }
            for option in options.iter() {
                self.set_option(ini, Some(&name), option, log);
            }
        }
    }

    fn edit_file(&self, old: Option<&str>) -> (IniFile, IniEditLog) {
        let mut ini = IniFile::parse(old.unwrap_or_default(), &self.spelling.separator);
        let mut log = IniEditLog::default();
        match self.function {
            IniFunction::SetOptions { strict } => self.edit_options_present(&mut ini, strict, &mut log),
            IniFunction::RemoveOptions => self.edit_options_absent(&mut ini, &mut log),
            IniFunction::AddSections => self.edit_sections(&mut ini, true, &mut log),
            IniFunction::RemoveSections => self.edit_sections(&mut ini, false, &mut log),
        }
        (ini, log)
    }

    /// Takes away what is not asked for.
    fn remove_other_options(&self, ini: &mut IniFile, log: &mut IniEditLog) {
        let asked = |key: &Value| {
            self.sections.iter().find(|(k, _)| ini_value_text(k) == ini_value_text(key)).map(|(_, v)| v)
        };
        for (key, value) in ini.to_map().iter() {
            let name = ini_value_text(key);
            match (value, asked(key)) {
                (Value::Map(_), Some(Value::Map(wanted))) => {
                    for (option, was) in value.as_map().into_iter().flat_map(Map::iter) {
                        if !wanted.keys().any(|k| ini_value_text(k) == ini_value_text(option)) {
                            log.preview.push_str(&format!(
                                "Deleted key {} in section {name}.\n",
                                ini_value_text(option)
                            ));
                            ini.remove(Some(&name), &ini_value_text(option));
                            log.record_change(Some(&name), &ini_value_text(option), was.as_str(), None);
                        }
                    }
                }
                (Value::Map(_), _) => {
                    log.preview.push_str(&format!("Removed section {name}.\n"));
                    ini.remove_section(&name);
                    log.changes.insert(name, before_after(value.clone(), Value::Null));
                }
                (_, None | Some(Value::Map(_))) => {
                    log.preview.push_str(&format!("Removed key {name}.\n"));
                    ini.remove(None, &name);
                    log.record_change(None, &name, value.as_str(), None);
                }
                _ => {}
            }
        }
    }

    fn edit_options_absent(&self, ini: &mut IniFile, log: &mut IniEditLog) {
        for (key, value) in self.sections.iter() {
            let name = ini_value_text(key);
            let Value::List(options) = value else {
                match ini.remove(None, &name) {
                    Some(was) => {
                        log.preview.push_str(&format!("Deleted key {name}.\n"));
                        log.changes.insert(name, was);
                    }
                    None => log.preview.push_str(&format!("Key {name} does not exist.\n")),
                }
                continue;
            };
            let mut gone = Map::new();
            for option in options.iter().map(ini_value_text) {
                match ini.remove(Some(&name), &option) {
                    Some(was) => {
                        log.preview.push_str(&format!("Deleted key {option} in section {name}.\n"));
                        gone.insert(option, was);
                    }
                    None => {
                        log.preview.push_str(&format!("Key {option} in section {name} does not exist.\n"));
                    }
                }
            }
            if !gone.is_empty() {
                log.changes.insert(name, Value::from(gone));
            }
        }
    }

    fn edit_sections(&self, ini: &mut IniFile, is_wanted: bool, log: &mut IniEditLog) {
        for name in self.sections.keys().map(ini_value_text) {
            if is_wanted {
                let is_new = ini.add_section(&name);
                let words = if is_new { "Created new section" } else { "Section unchanged" };
                log.preview.push_str(&format!("{words} {name}.\n"));
                if is_new {
                    log.changes.insert(name, before_after(Value::Null, Value::empty_map()));
                }
                continue;
            }
            match ini.remove_section(&name) {
                Some(was) => {
                    log.preview.push_str(&format!("Deleted section {name}.\n"));
                    log.changes.insert(name, was);
                }
                None => log.preview.push_str(&format!("Section {name} does not exist.\n")),
            }
        }
    }
}

/// What is said, and what changes.
#[derive(Default)]
struct IniEditLog {
    preview: String,
    changes: Map,
}

impl IniEditLog {
    fn record_change(&mut self, section: Option<&str>, option: &str, was: Option<&str>, is: Option<&str>) {
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

impl TextFile for IniState {
    fn path(&self, _: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        Ok(self.path.clone())
    }

    fn edit(&self, old: Option<&str>, _: &StateCtx<'_>) -> Result<TextEdit, StateError> {
        let (ini, log) = self.edit_file(old);
        if log.changes.is_empty() {
            return Ok(TextEdit::InSync("No anomaly detected".into()));
        }
        let new = ini.render(&self.spelling);
        Ok(TextEdit::Change {
            new,
            would: log.preview,
            did: "Changes take effect".into(),
            changes: log.changes,
        })
    }

    /// Salt says of each option what becomes of it, and nothing in `changes`.
    fn preview(&self, checked: CheckResult, old: Option<&str>, ctx: &StateCtx<'_>) -> CheckResult {
        match ctx.compat {
            Compat::Salt => {
                CheckResult { comment: self.edit_file(old).1.preview, changes: Map::new(), ..checked }
            }
            Compat::Strict => checked,
        }
    }

    fn lock_key(&self) -> LockKey {
        LockKey::Path(self.path.clone())
    }
}

#[cfg(test)]
mod tests;
