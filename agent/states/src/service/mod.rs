//! States of the module `service`: what runs, what starts with the host, what is kept from it.
//!
//! Law: only what is declared is touched: without `enable` nobody looks whether a service starts with the host. A
//! service that was told to start and does not run is a failure with what its manager knows about it (held by
//! `a_service_that_does_not_start_is_reported_with_its_journal`).

pub mod functions;

pub mod mask;
pub mod react;
pub mod undo;

use std::path::Path;
use std::time::Duration;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

pub(crate) use self::undo::ServiceUndo;
use crate::undoable::key_with_provider;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::services;
use zagent_host::services::{BootState, ServiceAction, ServiceProvider, ServiceStatus, unit_files};

/// The module `service`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "service",
    build,
    functions: functions::TABLE,
    undo: &[&ServiceUndo],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let want = match fun {
        "running" => ServiceGoal::Running,
        "dead" => ServiceGoal::Dead,
        "enabled" => ServiceGoal::Enabled,
        "disabled" => ServiceGoal::Disabled,
        "masked" | "unmasked" => {
            return Some(args.reject_options(&[]).and_then(|()| mask::build(fun == "masked", args)));
        }
        _ => return None,
    };
    let read = || ServiceState::read(want, args).map(|wanted| Box::new(wanted) as Box<dyn State>);
    Some(args.reject_options(&[]).and_then(|()| read()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceGoal {
    Running,
    Dead,
    Enabled,
    Disabled,
}

struct ServiceState {
    goal: ServiceGoal,
    name: String,
    /// What of the start with the host is declared.
    enable: Option<bool>,
    sig: Option<String>,
    init_delay: Option<f64>,
    no_block: bool,
    unmask: bool,
    unmask_runtime: bool,
    reload: bool,
    force: bool,
    full_restart: bool,
    provider: Option<String>,
    /// Something it watches would change: it would be started or restarted, whatever the host looks like by then.
    is_watch_triggered: bool,
    /// There is no such service, as far as the last look found.
    is_missing: bool,
    /// It does its work and ends, or nobody waits for it: a look afterwards need not find it running.
    is_oneshot: bool,
}

/// How the service stands, and what of it is not as it should.
struct ServiceDrift {
    /// Starting or stopping is called for.
    needs_toggle: bool,
    /// Enabling or disabling is called for.
    boot: Option<bool>,
    /// A mask is in the way and may be taken off.
    masks: Vec<bool>,
    /// Nobody can enable or disable it.
    is_static: bool,
}

/// What `provider` names: a text, or a mapping with the key `service`.
fn provider_name(args: &ChunkArgs<'_>) -> Result<Option<String>, StateError> {
    if args.get("provider").and_then(Value::as_str).is_some() {
        return args.text("provider");
    }
    let map = args.map("provider")?.unwrap_or_default();
    Ok(map.get("service").and_then(Value::as_str).map(str::to_owned))
}

impl ServiceState {
    fn read(want: ServiceGoal, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let name = args.name();
        if args.get("enabled").is_some() && matches!(want, ServiceGoal::Running | ServiceGoal::Dead) {
            return Err(StateError::new(format!(
                "Service {name} uses non-existent option \"enabled\".  Perhaps \"enable\" option was intended?"
            )));
        }
        let enable = match want {
            ServiceGoal::Enabled => Some(true),
            ServiceGoal::Disabled => Some(false),
            ServiceGoal::Running | ServiceGoal::Dead => args.get("enable").map(|v| match v {
                Value::Str(s) => s.eq_ignore_ascii_case("true"),
                other => other.is_truthy(),
            }),
        };
        Ok(Self {
            goal: want,
            enable,
            sig: args.text("sig")?,
            init_delay: args.number("init_delay")?.filter(|n| *n > 0.0),
            no_block: args.flag("no_block", false),
            unmask: args.flag("unmask", false),
            unmask_runtime: args.flag("unmask_runtime", false),
            reload: args.flag("reload", false),
            force: args.flag("force", false),
            full_restart: args.flag("full_restart", false),
            provider: provider_name(args)?,
            is_watch_triggered: false,
            is_missing: false,
            is_oneshot: false,
            name,
        })
    }

    fn manager<'s>(&self, ctx: &'s StateCtx<'_>) -> Result<Box<dyn ServiceProvider + 's>, StateError> {
        Ok(services::select_provider(ctx.tools(), self.provider.as_deref())?)
    }

    /// The service; one whose unit file an earlier state of a dry run would write counts as there.
    fn find_service(
        &self,
        manager: &dyn ServiceProvider,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<ServiceStatus>, StateError> {
        let found = manager.status(&self.name)?;
        if found.is_some() || manager.supports_sig() || self.name.contains('/') {
            return Ok(found);
        }
        for place in unit_files::unit_paths(&self.name) {
            if ctx.fs.stat(Path::new(&place))?.is_some() {
                return Ok(Some(ServiceStatus::default()));
            }
        }
        Ok(None)
    }

    fn is_running(&self, manager: &dyn ServiceProvider, service: &ServiceStatus, ctx: &StateCtx<'_>) -> bool {
        match self.sig.as_deref().filter(|_| manager.supports_sig()) {
            Some(sig) => services::has_process_matching(ctx.tools().machine, sig),
            None => service.is_running || service.has_completed,
        }
    }

    fn find_drift(
        &self,
        manager: &dyn ServiceProvider,
        service: &ServiceStatus,
        ctx: &StateCtx<'_>,
    ) -> Result<ServiceDrift, StateError> {
        let runs = self.is_running(manager, service, ctx);
        let toggle = manager.offline_reason().is_none()
            && match self.goal {
                ServiceGoal::Running => !runs,
                ServiceGoal::Dead => {
                    (runs && !service.has_completed) || service.is_starting || service.is_restart_looping
                }
                ServiceGoal::Enabled | ServiceGoal::Disabled => false,
            };
        let mut boot = None;
        let mut is_fixed = false;
        if let Some(enable) = self.enable {
            let now = manager.boot_state(&self.name)?;
            is_fixed = now == BootState::Static;
            boot = (!is_fixed && enable != (now == BootState::Enabled)).then_some(enable);
        }
        let wanted = [(self.unmask, false), (self.unmask_runtime, true)];
        let masks = wanted.into_iter().filter(|(on, runtime)| {
            *on && self.goal == ServiceGoal::Running && manager.is_masked(&self.name, *runtime) == Some(true)
        });
        Ok(ServiceDrift {
            needs_toggle: toggle,
            boot,
            masks: masks.map(|(_, runtime)| runtime).collect(),
            is_static: is_fixed,
        })
    }

    fn check_missing(&self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = &self.name;
        let words = format!("The named service {name} is not available");
        let would = match self.goal {
            ServiceGoal::Running if self.is_watch_triggered => {
                return Ok(CheckResult::drifted(
                    format!("Service {name} is set to start"),
                    self.change_map(true),
                ));
            }
            ServiceGoal::Running => "started",
            ServiceGoal::Dead => "stopped",
            ServiceGoal::Enabled => "enabled",
            ServiceGoal::Disabled => return Ok(CheckResult::in_sync(words)),
        };
        if ctx.is_dry() && ctx.compat == Compat::Salt {
            let words = format!(
                "Service {name} not present; if created in this state run, it would have been {would}"
            );
            return Ok(CheckResult::drifted(words, Map::new()));
        }
        if self.goal == ServiceGoal::Dead {
            Ok(CheckResult::in_sync(words))
        } else {
            Err(StateError::new(words))
        }
    }

    fn change_map(&self, to: bool) -> Map {
        Map::from_iter([(self.name.as_str(), to)])
    }

    /// The words for a service that is as it should be.
    fn in_sync_comment(&self, seen: &ServiceDrift, offline: Option<&str>) -> String {
        let name = &self.name;
        let mut words = match (self.goal, offline) {
            (ServiceGoal::Running, Some(why)) => format!("{why}: service {name} is not started"),
            (ServiceGoal::Dead, Some(why)) => format!("{why}: service {name} does not run"),
            (ServiceGoal::Running, None) => format!("The service {name} is already running"),
            (ServiceGoal::Dead, None) => format!("The service {name} is already dead"),
            (ServiceGoal::Enabled, _) => {
                format!("Service {name} is already enabled, and is in the desired state")
            }
            (ServiceGoal::Disabled, _) => {
                format!("Service {name} is already disabled, and is in the desired state")
            }
        };
        if seen.is_static && self.enable == Some(false) {
            words = format!("{words}\nIt is started by other units and cannot be disabled; mask it instead");
        }
        words
    }

    /// Starts or stops it, and looks whether it does.
    fn start_or_stop(&mut self, manager: &dyn ServiceProvider, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let up = self.goal == ServiceGoal::Running;
        let name = &self.name;
        let failed = |why: String| {
            let word = if up { "start" } else { "die" };
            StateError::new(format!("Service {name} failed to {word}: {why}").trim_end_matches([':', ' ']))
        };
        let act = if up { ServiceAction::Start } else { ServiceAction::Stop };
        let said = manager.perform(act, name, self.no_block)?;
        if !said.is_success() {
            return Err(failed(
                format!("{}\n{}", said.message(), manager.failure_reason(name)).trim().to_owned(),
            ));
        }
        if let Some(delay) = self.init_delay.and_then(|d| Duration::try_from_secs_f64(d).ok()) {
            ctx.cancel.wait(delay);
        }
        let service = manager.status(name)?.unwrap_or_default();
        let runs = self.is_running(manager, &service, ctx);
        let is_passing = self.no_block || service.is_oneshot;
        if up && !runs && (!is_passing || service.is_restart_looping) {
            return Err(failed(manager.failure_reason(name)));
        }
        if !up && runs && !service.has_completed && !self.no_block {
            return Err(failed(manager.failure_reason(name)));
        }
        self.is_oneshot = is_passing;
        Ok(())
    }

    fn drift_comment(&self, seen: &ServiceDrift, is_up: bool) -> String {
        let name = &self.name;
        let how = match (seen.needs_toggle, is_up) {
            (false, _) => "is in the desired state",
            (true, true) => "is running",
            (true, false) => "is dead",
        };
        let mut words = match (self.enable, seen.boot) {
            (_, Some(true)) => format!("Service {name} has been enabled, and {how}"),
            (_, Some(false)) => format!("Service {name} has been disabled, and {how}"),
            (Some(true), None) if seen.needs_toggle => {
                format!("Service {name} is already enabled, and {how}")
            }
            (Some(false), None) if seen.needs_toggle => {
                format!("Service {name} is already disabled, and {how}")
            }
            _ if !seen.needs_toggle => format!("The service {name} is already running"),
            _ if is_up => format!("Started service {name}"),
            _ => format!("Service {name} was killed"),
        };
        if !seen.masks.is_empty() {
            words = format!("{words}\nService {name} was unmasked");
        }
        match self.init_delay.filter(|_| seen.needs_toggle && is_up) {
            Some(delay) => format!("{words}\nDelayed return for {delay} seconds"),
            None => words,
        }
    }
}

impl State for ServiceState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let manager = self.manager(ctx)?;
        self.is_watch_triggered = ctx.is_dry()
            && self.goal == ServiceGoal::Running
            && !ctx.shared.watched_changes(ctx.tag).is_empty();
        let found = self.find_service(&*manager, ctx)?;
        self.is_missing = found.is_none();
        let Some(service) = found else { return self.check_missing(ctx) };
        let seen = self.find_drift(&*manager, &service, ctx)?;
        let name = &self.name;
        let masked =
            |runtime| manager.is_masked(name, runtime) == Some(true) && !seen.masks.contains(&runtime);
        if seen.needs_toggle && self.goal == ServiceGoal::Running && (masked(false) || masked(true)) {
            return Err(StateError::new(format!(
                "Service {name} failed to start: it is masked; `unmask` takes that off"
            )));
        }
        let words = match (seen.needs_toggle, seen.boot) {
            (true, _) if self.goal == ServiceGoal::Running => format!("Service {name} is set to start"),
            (true, _) => format!("Service {name} is set to be killed"),
            (_, Some(true)) => format!("Service {name} set to be enabled"),
            (_, Some(false)) => format!("Service {name} set to be disabled"),
            _ if !seen.masks.is_empty() => format!("Service {name} would be unmasked"),
            _ => return Ok(CheckResult::in_sync(self.in_sync_comment(&seen, manager.offline_reason()))),
        };
        let to = seen.boot.is_some() || self.goal == ServiceGoal::Running;
        Ok(CheckResult::drifted(words, self.change_map(to)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let manager = self.manager(ctx)?;
        let Some(service) = self.find_service(&*manager, ctx)? else {
            return Err(StateError::new(format!("The named service {} is not available", self.name)));
        };
        let seen = self.find_drift(&*manager, &service, ctx)?;
        let key = self.name.clone();
        ctx.with_undo(&ServiceUndo, key_with_provider(&key, self.provider.as_deref()), || {
            for runtime in &seen.masks {
                manager.perform_checked(ServiceAction::Unmask(*runtime), &key, false)?;
            }
            if seen.needs_toggle {
                self.start_or_stop(&*manager, ctx)?;
            }
            let Some(enable) = seen.boot else { return Ok(()) };
            let act = if enable { ServiceAction::Enable } else { ServiceAction::Disable };
            manager.perform_checked(act, &key, false).map_err(|refusal| {
                let not = if enable { "" } else { "not " };
                let words =
                    format!("Failed when setting service {key} to {not}start at boot: {}", refusal.message());
                let changes = if seen.needs_toggle {
                    self.change_map(self.goal == ServiceGoal::Running)
                } else {
                    Map::new()
                };
                StateError::from(ApplyResult::new(words, changes))
            })
        })?;
        let is_up = self.goal == ServiceGoal::Running;
        let changes = self.change_map(seen.boot.is_some() || is_up);
        let mut words = self.drift_comment(&seen, is_up);
        if let Some(why) = manager.offline_reason().filter(|_| is_up) {
            words = format!("{words}\n{why}: it is not started");
        }
        Ok(ApplyResult::new(words, changes))
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.predicted_reaction(ctx)
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.run_reaction(ctx)
    }

    fn is_convergent(&self) -> bool {
        !self.is_oneshot
    }

    fn reads(&self) -> Effects {
        Effects::SERVICES | Effects::PACKAGE_FILES | Effects::PACKAGES | Effects::FILES
    }

    fn writes(&self) -> Effects {
        match self.goal {
            // What runs may answer questions and keep data.
            ServiceGoal::Running | ServiceGoal::Dead => Effects::SERVICES | Effects::STORES,
            ServiceGoal::Enabled | ServiceGoal::Disabled => Effects::SERVICES,
        }
    }

    /// Neither a package that comes nor another service stops or disables what is there; a command may.
    fn still_valid(&self, _look: &CheckResult, hidden: Effects) -> bool {
        let is_safe = !(hidden.intersects(Effects::SERVICES) && hidden.intersects(Effects::FILES));
        self.is_watch_triggered || is_safe && !self.is_missing
    }

    fn package_may_provide(&self, _look: &CheckResult) -> bool {
        self.is_missing && !self.is_watch_triggered
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Services]
    }
}

#[cfg(test)]
mod tests;
