//! States of the module `service`: what runs, what starts with the host, what is kept from it.
//!
//! Law: only what is declared is touched: without `enable` nobody looks whether a service starts with the host. A service
//! that was told to start and does not run is a failure with what its manager knows about it.

mod mask;
mod react;
mod thing;

use std::path::Path;
use std::time::Duration;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

pub(super) use self::thing::ServiceThing;
use crate::host::services::{self, Act, Boot, Provider, Service, files};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil, keyed};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let want = match fun {
        "running" => Want::Running,
        "dead" => Want::Dead,
        "enabled" => Want::Enabled,
        "disabled" => Want::Disabled,
        "masked" | "unmasked" => return Some(mask::build(fun == "masked", args)),
        _ => return None,
    };
    Some(Wanted::read(want, args).map(|wanted| Box::new(wanted) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Running,
    Dead,
    Enabled,
    Disabled,
}

struct Wanted {
    want: Want,
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
    is_certain: bool,
    /// There is no such service, as far as the last look found.
    is_missing: bool,
    /// It does its work and ends, or nobody waits for it: a look afterwards need not find it running.
    is_passing: bool,
}

/// How the service stands, and what of it is not as it should.
struct Seen {
    /// Starting or stopping is called for.
    toggle: bool,
    /// Enabling or disabling is called for.
    boot: Option<bool>,
    /// A mask is in the way and may be taken off.
    masks: Vec<bool>,
    /// Nobody can enable or disable it.
    is_fixed: bool,
}

/// What `provider` names: a text, or a mapping with the key `service`.
fn provider(args: &Args<'_>) -> Result<Option<String>, Failure> {
    if args.get("provider").and_then(Value::as_str).is_some() {
        return args.text("provider");
    }
    let map = args.map("provider")?.unwrap_or_default();
    Ok(map.get("service").and_then(Value::as_str).map(str::to_owned))
}

impl Wanted {
    fn read(want: Want, args: &Args<'_>) -> Result<Self, Failure> {
        let name = args.name();
        if args.get("enabled").is_some() && matches!(want, Want::Running | Want::Dead) {
            return Err(Failure::new(format!(
                "Service {name} uses non-existent option \"enabled\".  Perhaps \"enable\" option was intended?"
            )));
        }
        let enable = match want {
            Want::Enabled => Some(true),
            Want::Disabled => Some(false),
            Want::Running | Want::Dead => args.get("enable").map(|v| match v {
                Value::Str(s) => s.eq_ignore_ascii_case("true"),
                other => other.is_truthy(),
            }),
        };
        Ok(Self {
            want,
            enable,
            sig: args.text("sig")?,
            init_delay: args.number("init_delay")?.filter(|n| *n > 0.0),
            no_block: args.flag("no_block", false),
            unmask: args.flag("unmask", false),
            unmask_runtime: args.flag("unmask_runtime", false),
            reload: args.flag("reload", false),
            force: args.flag("force", false),
            full_restart: args.flag("full_restart", false),
            provider: provider(args)?,
            is_certain: false,
            is_missing: false,
            is_passing: false,
            name,
        })
    }

    fn manager<'s>(&self, scene: &'s Scene<'_>) -> Result<Box<dyn Provider + 's>, Failure> {
        Ok(services::of(scene.tools(), self.provider.as_deref())?)
    }

    /// The service; one whose unit file an earlier state of a dry run would write counts as there.
    fn find(&self, manager: &dyn Provider, scene: &Scene<'_>) -> Result<Option<Service>, Failure> {
        let found = manager.find(&self.name)?;
        if found.is_some() || manager.takes_signature() || self.name.contains('/') {
            return Ok(found);
        }
        for place in files::places(&self.name) {
            if scene.fs.stat(Path::new(&place))?.is_some() {
                return Ok(Some(Service::default()));
            }
        }
        Ok(None)
    }

    fn is_running(&self, manager: &dyn Provider, service: &Service, scene: &Scene<'_>) -> bool {
        match self.sig.as_deref().filter(|_| manager.takes_signature()) {
            Some(sig) => services::is_process(scene.tools().machine, sig),
            None => service.is_running || service.is_done,
        }
    }

    fn see(&self, manager: &dyn Provider, service: &Service, scene: &Scene<'_>) -> Result<Seen, Failure> {
        let runs = self.is_running(manager, service, scene);
        let toggle = manager.is_offline().is_none()
            && match self.want {
                Want::Running => !runs,
                Want::Dead => (runs && !service.is_done) || service.is_coming || service.is_looping,
                Want::Enabled | Want::Disabled => false,
            };
        let mut boot = None;
        let mut is_fixed = false;
        if let Some(enable) = self.enable {
            let now = manager.boot(&self.name)?;
            is_fixed = now == Boot::Fixed;
            boot = (!is_fixed && enable != (now == Boot::Yes)).then_some(enable);
        }
        let wanted = [(self.unmask, false), (self.unmask_runtime, true)];
        let masks = wanted.into_iter().filter(|(on, runtime)| {
            *on && self.want == Want::Running && manager.is_masked(&self.name, *runtime) == Some(true)
        });
        Ok(Seen { toggle, boot, masks: masks.map(|(_, runtime)| runtime).collect(), is_fixed })
    }

    fn missing(&self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = &self.name;
        let words = format!("The named service {name} is not available");
        let would = match self.want {
            Want::Running if self.is_certain => {
                return Ok(Look::drift(format!("Service {name} is set to start"), self.changed(true)));
            }
            Want::Running => "started",
            Want::Dead => "stopped",
            Want::Enabled => "enabled",
            Want::Disabled => return Ok(Look::right(words)),
        };
        if scene.is_dry() && scene.compat == Compat::Salt {
            let words = format!(
                "Service {name} not present; if created in this state run, it would have been {would}"
            );
            return Ok(Look::drift(words, Map::new()));
        }
        if self.want == Want::Dead { Ok(Look::right(words)) } else { Err(Failure::new(words)) }
    }

    fn changed(&self, to: bool) -> Map {
        Map::from_iter([(self.name.as_str(), to)])
    }

    /// The words for a service that is as it should be.
    fn right(&self, seen: &Seen, offline: Option<&str>) -> String {
        let name = &self.name;
        let mut words = match (self.want, offline) {
            (Want::Running, Some(why)) => format!("{why}: service {name} is not started"),
            (Want::Dead, Some(why)) => format!("{why}: service {name} does not run"),
            (Want::Running, None) => format!("The service {name} is already running"),
            (Want::Dead, None) => format!("The service {name} is already dead"),
            (Want::Enabled, _) => format!("Service {name} is already enabled, and is in the desired state"),
            (Want::Disabled, _) => format!("Service {name} is already disabled, and is in the desired state"),
        };
        if seen.is_fixed && self.enable == Some(false) {
            words = format!("{words}\nIt is started by other units and cannot be disabled; mask it instead");
        }
        words
    }

    /// Starts or stops it, and looks whether it does.
    fn toggle(&mut self, manager: &dyn Provider, scene: &Scene<'_>) -> Result<(), Failure> {
        let up = self.want == Want::Running;
        let name = &self.name;
        let failed = |why: String| {
            let word = if up { "start" } else { "die" };
            Failure::new(format!("Service {name} failed to {word}: {why}").trim_end_matches([':', ' ']))
        };
        let act = if up { Act::Start } else { Act::Stop };
        let said = manager.act(act, name, self.no_block)?;
        if !said.is_fine() {
            return Err(failed(format!("{}\n{}", said.words(), manager.why(name)).trim().to_owned()));
        }
        if let Some(delay) = self.init_delay.and_then(|d| Duration::try_from_secs_f64(d).ok()) {
            scene.cancel.wait(delay);
        }
        let service = manager.find(name)?.unwrap_or_default();
        let runs = self.is_running(manager, &service, scene);
        let is_passing = self.no_block || service.is_brief;
        if up && !runs && (!is_passing || service.is_looping) {
            return Err(failed(manager.why(name)));
        }
        if !up && runs && !service.is_done && !self.no_block {
            return Err(failed(manager.why(name)));
        }
        self.is_passing = is_passing;
        Ok(())
    }

    fn words(&self, seen: &Seen, is_up: bool) -> String {
        let name = &self.name;
        let how = match (seen.toggle, is_up) {
            (false, _) => "is in the desired state",
            (true, true) => "is running",
            (true, false) => "is dead",
        };
        let mut words = match (self.enable, seen.boot) {
            (_, Some(true)) => format!("Service {name} has been enabled, and {how}"),
            (_, Some(false)) => format!("Service {name} has been disabled, and {how}"),
            (Some(true), None) if seen.toggle => format!("Service {name} is already enabled, and {how}"),
            (Some(false), None) if seen.toggle => format!("Service {name} is already disabled, and {how}"),
            _ if !seen.toggle => format!("The service {name} is already running"),
            _ if is_up => format!("Started service {name}"),
            _ => format!("Service {name} was killed"),
        };
        if !seen.masks.is_empty() {
            words = format!("{words}\nService {name} was unmasked");
        }
        match self.init_delay.filter(|_| seen.toggle && is_up) {
            Some(delay) => format!("{words}\nDelayed return for {delay} seconds"),
            None => words,
        }
    }
}

impl State for Wanted {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let manager = self.manager(scene)?;
        self.is_certain =
            scene.is_dry() && self.want == Want::Running && !scene.shared.fired(scene.tag).is_empty();
        let found = self.find(&*manager, scene)?;
        self.is_missing = found.is_none();
        let Some(service) = found else { return self.missing(scene) };
        let seen = self.see(&*manager, &service, scene)?;
        let name = &self.name;
        let masked =
            |runtime| manager.is_masked(name, runtime) == Some(true) && !seen.masks.contains(&runtime);
        if seen.toggle && self.want == Want::Running && (masked(false) || masked(true)) {
            return Err(Failure::new(format!(
                "Service {name} failed to start: it is masked; `unmask` takes that off"
            )));
        }
        let words = match (seen.toggle, seen.boot) {
            (true, _) if self.want == Want::Running => format!("Service {name} is set to start"),
            (true, _) => format!("Service {name} is set to be killed"),
            (_, Some(true)) => format!("Service {name} set to be enabled"),
            (_, Some(false)) => format!("Service {name} set to be disabled"),
            _ if !seen.masks.is_empty() => format!("Service {name} would be unmasked"),
            _ => return Ok(Look::right(self.right(&seen, manager.is_offline()))),
        };
        let to = seen.boot.is_some() || self.want == Want::Running;
        Ok(Look::drift(words, self.changed(to)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let manager = self.manager(scene)?;
        let Some(service) = self.find(&*manager, scene)? else {
            return Err(Failure::new(format!("The named service {} is not available", self.name)));
        };
        let seen = self.see(&*manager, &service, scene)?;
        let key = self.name.clone();
        scene.change(&ServiceThing, keyed(&key, self.provider.as_deref()), || {
            for runtime in &seen.masks {
                manager.must(Act::Unmask(*runtime), &key, false)?;
            }
            if seen.toggle {
                self.toggle(&*manager, scene)?;
            }
            let Some(enable) = seen.boot else { return Ok(()) };
            let act = if enable { Act::Enable } else { Act::Disable };
            manager.must(act, &key, false).map_err(|refusal| {
                let not = if enable { "" } else { "not " };
                let words =
                    format!("Failed when setting service {key} to {not}start at boot: {}", refusal.words());
                let changes = if seen.toggle { self.changed(self.want == Want::Running) } else { Map::new() };
                Failure::from(Done::new(words, changes))
            })
        })?;
        let is_up = self.want == Want::Running;
        let changes = self.changed(seen.boot.is_some() || is_up);
        let mut words = self.words(&seen, is_up);
        if let Some(why) = manager.is_offline().filter(|_| is_up) {
            words = format!("{words}\n{why}: it is not started");
        }
        Ok(Done::new(words, changes))
    }

    fn foresee(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.foreseen(scene)
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.reacted(scene)
    }

    fn is_lasting(&self) -> bool {
        !self.is_passing
    }

    fn sees(&self) -> Veil {
        Veil::SERVICES | Veil::BROUGHT | Veil::PACKAGES | Veil::FILES
    }

    fn veils(&self) -> Veil {
        match self.want {
            // What runs may answer questions and keep data.
            Want::Running | Want::Dead => Veil::SERVICES | Veil::STORES,
            Want::Enabled | Want::Disabled => Veil::SERVICES,
        }
    }

    /// Neither a package that comes nor another service stops or disables what is there; a command may.
    fn holds(&self, _look: &Look, hidden: Veil) -> bool {
        let is_safe = !(hidden.meets(Veil::SERVICES) && hidden.meets(Veil::FILES));
        self.is_certain || is_safe && !self.is_missing
    }

    fn may_come(&self, _look: &Look) -> bool {
        self.is_missing && !self.is_certain
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Services]
    }
}
