//! `locale.system` and `locale.present`: which locales exist, and which one the system speaks.

pub(crate) mod functions;
pub mod locale_gen;

use std::path::Path;

use zagent_config::{Map, Value};

use crate::locale::locale_gen as locale;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, StateModule, Undoable,
};
use zagent_host::text_file;

/// The module `locale`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "locale",
    build,
    functions: functions::TABLE,
    undo: &[&LocaleUndo],
    description: include_str!("description.txt"),
};

/// The state that a function of the module `locale` makes.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let name = args.name();
    match fun {
        "system" => Some(Ok(Box::new(LocaleSystem { name }))),
        "present" => Some(Ok(Box::new(LocalePresent { name }))),
        _ => None,
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
