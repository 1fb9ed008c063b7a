//! `network.system`, `system.hostname` and `system.computer_desc`: what the host is called.

use zagent_config::{Map, Value};

use crate::host::services::lines;
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

const FILE: &str = "/etc/hostname";
const LIVE: &str = "/proc/sys/kernel/hostname";
/// Where it stands whether the network is set up at boot, and by which variable.
const SWITCH: (&str, &str) = ("/etc/default/networking", "CONFIGURE_INTERFACES");
const ABOUT: &str = "/etc/machine-info";

/// The state that a function of the module `system` makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    Some(Ok(match fun {
        "hostname" | "computer_name" => Box::new(Names {
            hostname: Some(args.name()),
            live: true,
            about: None,
            networking: None,
            words: ("hostname", "Hostname"),
        }),
        "computer_desc" | "computer_description" => Box::new(Names {
            hostname: None,
            live: false,
            about: Some(args.name()),
            networking: None,
            words: ("Computer Description", "Computer description"),
        }),
        _ => return None,
    }))
}

pub(super) struct Names {
    hostname: Option<String>,
    /// The running kernel is told too.
    live: bool,
    /// A name for people.
    about: Option<String>,
    /// Whether the network is set up at boot.
    networking: Option<bool>,
    /// What changes, as a key and at the start of a sentence.
    words: (&'static str, &'static str),
}

/// The file with a variable set in it.
fn with(text: &str, key: &str, value: &str) -> String {
    let wanted = format!("{key}={value}");
    let is_own = |l: &str| l.trim_start().strip_prefix(key).is_some_and(|r| r.starts_with('='));
    let (edited, found) = lines::edit(text, |l| is_own(l).then(|| wanted.clone()));
    if found { edited } else { lines::append(text, &wanted) }
}

impl Names {
    pub(super) fn network(args: &Args<'_>) -> Result<Self, Failure> {
        // The rest of a full name is for the resolver, which is not told by this file.
        let hostname = args.text("hostname")?.map(|h| h.split('.').next().unwrap_or_default().to_owned());
        Ok(Self {
            live: hostname.is_some() && args.flag("apply_hostname", false),
            hostname,
            about: None,
            networking: args.get("enabled").map(Value::is_truthy),
            words: ("network_settings", "Global network settings"),
        })
    }

    /// The files that differ, as they should be.
    fn wrong(&self, scene: &Scene<'_>) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut wrong = Vec::new();
        let mut want = |path: &'static str, make: &dyn Fn(&str) -> String| -> Result<(), Failure> {
            let now = lines::read(scene.fs, path)?.unwrap_or_default();
            let new = make(&now);
            if new != now {
                wrong.push((path, new));
            }
            Ok(())
        };
        if let Some(name) = &self.hostname {
            want(FILE, &|now| if now.trim() == name { now.to_owned() } else { format!("{name}\n") })?;
        }
        if let Some(about) = &self.about {
            want(ABOUT, &|now| with(now, "PRETTY_HOSTNAME", &format!("\"{}\"", about.replace('"', "\\\""))))?;
        }
        if let Some(on) = self.networking {
            want(SWITCH.0, &|now| with(now, SWITCH.1, if on { "yes" } else { "no" }))?;
        }
        Ok(wrong)
    }

    /// The name that the kernel should have and has not.
    fn renamed(&self, scene: &Scene<'_>) -> Result<Option<&str>, Failure> {
        let Some(name) = self.hostname.as_deref().filter(|_| self.live) else { return Ok(None) };
        let now = scene.tools().machine.read(LIVE)?.unwrap_or_default();
        Ok((now.trim() != name).then_some(name))
    }

    fn changes(&self) -> Map {
        let mut told: Vec<String> = Vec::new();
        told.extend(self.hostname.clone());
        told.extend(self.about.clone());
        told.extend(self.networking.map(|on| format!("{}={}", SWITCH.1, if on { "yes" } else { "no" })));
        Map::from_iter([(self.words.0, told.join("\n"))])
    }
}

impl State for Names {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let what = self.words.1;
        if self.wrong(scene)?.is_empty() && self.renamed(scene)?.is_none() {
            let verb = if self.words.0 == "network_settings" { "are up to date." } else { "is already set" };
            return Ok(Look::right(format!("{what} {verb}")));
        }
        let verb = if self.words.0 == "network_settings" { "are" } else { "is" };
        Ok(Look::drift(format!("{what} {verb} set to be updated."), self.changes()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        for (path, text) in self.wrong(scene)? {
            lines::write(scene.fs, path, &text)?;
        }
        if let Some(name) = self.renamed(scene)? {
            scene.change(&HostName, FILE, || rename(name, scene))?;
        }
        Ok(Done::new(format!("{} updated.", self.words.1), self.changes()))
    }

    fn is_foreseeable(&self) -> bool {
        !self.live
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::KERNEL
    }

    fn veils(&self) -> Veil {
        if self.live { Veil::KERNEL } else { Veil::NONE }
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        [FILE, ABOUT, SWITCH.0].into_iter().map(|p| Resource::Path(p.into())).collect()
    }
}

fn rename(name: &str, scene: &Scene<'_>) -> Result<(), Failure> {
    scene.tools().must("hostname", &[name])?;
    Ok(())
}

/// The name that the running kernel has; there is only one.
pub(super) struct HostName;

impl Thing for HostName {
    fn kind(&self) -> &'static str {
        "hostname"
    }

    fn look(&self, _key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        Ok(scene.tools().machine.read(LIVE)?.unwrap_or_default().trim().into())
    }

    fn put(&self, _key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        rename(to.as_str().unwrap_or_default(), scene)
    }
}
