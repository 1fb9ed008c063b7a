//! `timezone.system`: the time zone of the host.

pub(crate) mod functions;
pub mod zoneinfo;

use zagent_config::Map;

use crate::timezone::zoneinfo as timezone;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, StateModule,
};
use zagent_host::text_file;

/// The module `timezone`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "timezone",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state of `timezone.system`.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let read = || {
        Box::new(TimezoneSystem { name: args.name(), utc: args.flag("utc", true), clock_differs: false })
            as Box<dyn State>
    };
    (fun == "system").then(|| Ok(read()))
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
