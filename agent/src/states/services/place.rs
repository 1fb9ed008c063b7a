//! `timezone.system`, `locale.system` and `locale.present`: where the host stands and which language it speaks.

use std::path::Path;

use zagent_config::{Map, Value};

use crate::host::services::{lines, locales, zone};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// The state of `timezone.system`.
pub(super) fn timezone(fun: &str, args: &Args<'_>) -> Option<Built> {
    let read =
        || Box::new(Zone { name: args.name(), utc: args.flag("utc", true), clock: false }) as Box<dyn State>;
    (fun == "system").then(|| Ok(read()))
}

/// The state that a function of the module `locale` makes.
pub(super) fn locale(fun: &str, args: &Args<'_>) -> Option<Built> {
    let name = args.name();
    match fun {
        "system" => Some(Ok(Box::new(Language { name }))),
        "present" => Some(Ok(Box::new(Present { name }))),
        _ => None,
    }
}

struct Zone {
    name: String,
    /// The clock of the hardware should keep universal time.
    utc: bool,
    /// It does not.
    clock: bool,
}

impl Zone {
    fn notes(scene: &Scene<'_>) -> bool {
        scene.host.grain("os_family").is_some_and(|f| matches!(f.as_str(), Some("Debian" | "Gentoo")))
    }

    fn is_set(&self, scene: &Scene<'_>) -> Result<bool, Failure> {
        let is_current = zone::current(scene.fs)?.as_deref() == Some(&*self.name);
        let note = if Self::notes(scene) { lines::read(scene.fs, zone::NOTE)? } else { None };
        Ok(is_current && note.is_none_or(|text| text.trim() == self.name))
    }

    fn changes(&self, is_set: bool) -> Map {
        let mut changes = Map::new();
        if !is_set {
            changes.insert("timezone", self.name.as_str());
        }
        if self.clock {
            changes.insert("utc", true);
        }
        changes
    }
}

impl State for Zone {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = &self.name;
        let is_set = self.is_set(scene)?;
        self.clock = self.utc && zone::is_local(scene.fs)?;
        if is_set && !self.clock {
            let utc = if self.utc { format!(", UTC already set to {name}") } else { String::new() };
            return Ok(Look::right(format!("Timezone {name} already set{utc}")));
        }
        if !is_set && zone::file(scene.fs, name)?.is_none() {
            return Err(Failure::new(format!("Zone does not exist: /usr/share/zoneinfo/{name}")));
        }
        let mut words = Vec::new();
        if !is_set {
            words.push(format!("Timezone {name} needs to be set"));
        }
        if self.clock {
            words.push("UTC needs to be set to True".to_owned());
        }
        Ok(Look::drift(words.join(", "), self.changes(is_set)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let is_set = self.is_set(scene)?;
        let mut words = Vec::new();
        if !is_set {
            let file = zone::file(scene.fs, &self.name)?;
            let file = file.ok_or_else(|| Failure::new(format!("Zone does not exist: {}", self.name)))?;
            zone::set(scene.fs, &file, &self.name, Self::notes(scene))?;
            words.push(format!("Set timezone {}", self.name));
        }
        let changes = self.changes(is_set);
        if self.clock {
            let tools = scene.tools();
            if tools.which("hwclock").is_some() {
                tools.must("hwclock", &["--systohc", "--utc"])?;
            } else {
                tools.must("timedatectl", &["set-local-rtc", "0"])?;
            }
            words.push("Set UTC to True".to_owned());
        }
        Ok(Done::new(words.join(", "), changes))
    }

    fn is_foreseeable(&self) -> bool {
        !self.clock
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }

    fn cost(&self) -> Cost {
        if self.clock { Cost::Heavy } else { Cost::Light }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(zone::LINK.into()), Resource::Path(zone::NOTE.into())]
    }
}

struct Language {
    name: String,
}

impl Language {
    fn config(scene: &Scene<'_>) -> &'static str {
        locales::config(scene.host.grain("os_family").as_ref().and_then(Value::as_str))
    }

    fn changes(&self) -> Map {
        Map::from_iter([("locale", self.name.as_str())])
    }
}

impl State for Language {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let text = lines::read(scene.fs, Self::config(scene))?.unwrap_or_default();
        let name = &self.name;
        if locales::lang(&text) == Some(name) {
            return Ok(Look::right(format!("System locale {name} already set")));
        }
        Ok(Look::drift(format!("System locale {name} needs to be set"), self.changes()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let config = Self::config(scene);
        let text = lines::read(scene.fs, config)?.unwrap_or_default();
        lines::write(scene.fs, config, &locales::with_lang(&text, &self.name))?;
        Ok(Done::new(format!("Set system locale {}", self.name), self.changes()))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path("/etc/default/locale".into()), Resource::Path("/etc/locale.conf".into())]
    }
}

struct Present {
    name: String,
}

impl Present {
    fn changes(&self) -> Map {
        Map::from_iter([("locale", self.name.as_str())])
    }
}

impl State for Present {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = &self.name;
        if locales::is_there(&scene.tools(), name)? {
            return Ok(Look::right(format!("Locale {name} is already present")));
        }
        Ok(Look::drift(format!("Locale {name} needs to be generated"), self.changes()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let name = &self.name;
        // The note is made inside the change: a revert takes it back first, and then makes what is noted still.
        scene.change(&Locale, name.as_str(), || {
            let failed = |why: &str| Failure::new(format!("Failed to generate locale {name}: {why}"));
            if locales::note(scene.fs, name)?.is_none() {
                return Err(failed("it is not in /usr/share/i18n/SUPPORTED"));
            }
            let said = locales::make(&scene.tools(), name)?;
            if said.is_fine() { Ok(()) } else { Err(failed(said.words())) }
        })?;
        Ok(Done::new(format!("Generated locale {name}"), self.changes()))
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(Path::new("/etc/locale.gen").into())]
    }
}

/// Locales by name.
pub(super) struct Locale;

impl Thing for Locale {
    fn kind(&self) -> &'static str {
        "locale"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        Ok(locales::is_there(&scene.tools(), key.as_str().unwrap_or_default())?.into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let name = key.as_str().unwrap_or_default();
        if to.is_truthy() || scene.tools().which("locale-gen").is_some() {
            locales::make(&scene.tools(), name)?;
        } else {
            scene.tools().must("localedef", &["--delete-from-archive", &locales::plain(name)])?;
        }
        Ok(())
    }
}
