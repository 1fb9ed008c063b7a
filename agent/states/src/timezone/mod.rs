//! `timezone.system`, `locale.system` and `locale.present`: where the host stands and which language it speaks.

pub(crate) mod functions;
pub mod zoneinfo;

use std::path::Path;

use zagent_config::{Map, Value};

use crate::locale::locale_gen as locale;
use crate::timezone::zoneinfo as timezone;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, Undoable,
};
use zagent_host::text_file;

/// The state of `timezone.system`.
pub fn build_timezone(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let read = || {
        Box::new(TimezoneSystem { name: args.name(), utc: args.flag("utc", true), clock_differs: false })
            as Box<dyn State>
    };
    (fun == "system").then(|| Ok(read()))
}

/// The state that a function of the module `locale` makes.
pub fn build_locale(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let name = args.name();
    match fun {
        "system" => Some(Ok(Box::new(LocaleSystem { name }))),
        "present" => Some(Ok(Box::new(LocalePresent { name }))),
        _ => None,
    }
}

struct TimezoneSystem {
    name: String,
    /// The clock of the hardware should keep universal time.
    utc: bool,
    /// It does not.
    clock_differs: bool,
}

impl TimezoneSystem {
    fn has_timezone_file(ctx: &StateCtx<'_>) -> bool {
        ctx.host.grain("os_family").is_some_and(|f| matches!(f.as_str(), Some("Debian" | "Gentoo")))
    }

    fn is_set(&self, ctx: &StateCtx<'_>) -> Result<bool, StateError> {
        let is_current = timezone::current_zone(ctx.fs)?.as_deref() == Some(&*self.name);
        let note = if Self::has_timezone_file(ctx) {
            text_file::read_text(ctx.fs, timezone::TIMEZONE_FILE)?
        } else {
            None
        };
        Ok(is_current && note.is_none_or(|text| text.trim() == self.name))
    }

    fn changes(&self, is_set: bool) -> Map {
        let mut changes = Map::new();
        if !is_set {
            changes.insert("timezone", self.name.as_str());
        }
        if self.clock_differs {
            changes.insert("utc", true);
        }
        changes
    }
}

impl State for TimezoneSystem {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = &self.name;
        let is_set = self.is_set(ctx)?;
        self.clock_differs = self.utc && timezone::is_hwclock_local(ctx.fs)?;
        if is_set && !self.clock_differs {
            let utc = if self.utc { format!(", UTC already set to {name}") } else { String::new() };
            return Ok(CheckResult::in_sync(format!("Timezone {name} already set{utc}")));
        }
        if !is_set && timezone::zone_file(ctx.fs, name)?.is_none() {
            return Err(StateError::new(format!("Zone does not exist: /usr/share/zoneinfo/{name}")));
        }
        let mut words = Vec::new();
        if !is_set {
            words.push(format!("Timezone {name} needs to be set"));
        }
        if self.clock_differs {
            words.push("UTC needs to be set to True".to_owned());
        }
        Ok(CheckResult::drifted(words.join(", "), self.changes(is_set)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let is_set = self.is_set(ctx)?;
        let mut words = Vec::new();
        if !is_set {
            let file = timezone::zone_file(ctx.fs, &self.name)?;
            let file = file.ok_or_else(|| StateError::new(format!("Zone does not exist: {}", self.name)))?;
            timezone::set_zone(ctx.fs, &file, &self.name, Self::has_timezone_file(ctx))?;
            words.push(format!("Set timezone {}", self.name));
        }
        let changes = self.changes(is_set);
        if self.clock_differs {
            let tools = ctx.tools();
            if tools.which("hwclock").is_some() {
                tools.run_checked("hwclock", &["--systohc", "--utc"])?;
            } else {
                tools.run_checked("timedatectl", &["set-local-rtc", "0"])?;
            }
            words.push("Set UTC to True".to_owned());
        }
        Ok(ApplyResult::new(words.join(", "), changes))
    }

    fn is_predictable(&self) -> bool {
        !self.clock_differs
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }

    fn check_cost(&self) -> CheckCost {
        if self.clock_differs { CheckCost::Heavy } else { CheckCost::Light }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(timezone::LOCALTIME_LINK.into()), LockKey::Path(timezone::TIMEZONE_FILE.into())]
    }
}

struct LocaleSystem {
    name: String,
}

impl LocaleSystem {
    fn config(ctx: &StateCtx<'_>) -> &'static str {
        locale::lang_config_path(ctx.host.grain("os_family").as_ref().and_then(Value::as_str))
    }

    fn changes(&self) -> Map {
        Map::from_iter([("locale", self.name.as_str())])
    }
}

impl State for LocaleSystem {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let text = text_file::read_text(ctx.fs, Self::config(ctx))?.unwrap_or_default();
        let name = &self.name;
        if locale::parse_lang(&text) == Some(name) {
            return Ok(CheckResult::in_sync(format!("System locale {name} already set")));
        }
        Ok(CheckResult::drifted(format!("System locale {name} needs to be set"), self.changes()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let config = Self::config(ctx);
        let text = text_file::read_text(ctx.fs, config)?.unwrap_or_default();
        text_file::write_text(ctx.fs, config, &locale::set_lang(&text, &self.name))?;
        Ok(ApplyResult::new(format!("Set system locale {}", self.name), self.changes()))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path("/etc/default/locale".into()), LockKey::Path("/etc/locale.conf".into())]
    }
}

struct LocalePresent {
    name: String,
}

impl LocalePresent {
    fn changes(&self) -> Map {
        Map::from_iter([("locale", self.name.as_str())])
    }
}

impl State for LocalePresent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = &self.name;
        if locale::is_available(&ctx.tools(), name)? {
            return Ok(CheckResult::in_sync(format!("Locale {name} is already present")));
        }
        Ok(CheckResult::drifted(format!("Locale {name} needs to be generated"), self.changes()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let name = &self.name;
        // The note is made inside the change: a revert takes it back first, and then makes what is noted still.
        ctx.with_undo(&LocaleUndo, name.as_str(), || {
            let failed = |why: &str| StateError::new(format!("Failed to generate locale {name}: {why}"));
            if locale::enable_locale(ctx.fs, name)?.is_none() {
                return Err(failed("it is not in /usr/share/i18n/SUPPORTED"));
            }
            let said = locale::generate_locale(&ctx.tools(), name)?;
            if said.is_success() { Ok(()) } else { Err(failed(said.message())) }
        })?;
        Ok(ApplyResult::new(format!("Generated locale {name}"), self.changes()))
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES | Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(Path::new("/etc/locale.gen").into())]
    }
}

/// Locales by name.
pub struct LocaleUndo;

impl Undoable for LocaleUndo {
    fn kind(&self) -> &'static str {
        "locale"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        Ok(locale::is_available(&ctx.tools(), key.as_str().unwrap_or_default())?.into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let name = key.as_str().unwrap_or_default();
        if to.is_truthy() || ctx.tools().which("locale-gen").is_some() {
            locale::generate_locale(&ctx.tools(), name)?;
        } else {
            ctx.tools()
                .run_checked("localedef", &["--delete-from-archive", &locale::normalize_locale(name)])?;
        }
        Ok(())
    }
}
