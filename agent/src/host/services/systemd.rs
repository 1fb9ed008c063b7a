//! systemd, by `systemctl`.
//!
//! Law: the manager's files are read again exactly when an act would otherwise work with old ones. Where systemd is not
//! process 1, files are still linked, and nothing is started.

use zagent_compiler::functions::Refusal;

use super::files::{self, unit};
use super::{Act, Boot, Provider, Service};
use crate::host::{Said, Tools};

/// Lines and characters of a journal that a failure shows.
const LINES: &str = "10";
const MOST: usize = 2000;
const OFFLINE: &str = "systemd does not run here (a chroot, or an image that is being built)";
/// Directories of masks, for good and until the next boot.
const MASKS: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];

pub(super) struct Systemd<'a> {
    tools: Tools<'a>,
    is_booted: bool,
}

/// What `systemctl show` said of one unit.
pub(super) struct Properties<'t>(pub(super) &'t str);

impl<'t> Properties<'t> {
    pub(super) fn get(&self, key: &str) -> &'t str {
        let value = |l: &'t str| l.strip_prefix(key).and_then(|r| r.strip_prefix('='));
        self.0.lines().find_map(value).unwrap_or_default()
    }

    /// How the unit stands; nothing when systemd knows no such unit.
    pub(super) fn service(&self) -> Option<Service> {
        if matches!(self.get("LoadState"), "not-found" | "") {
            return None;
        }
        let state = self.get("ActiveState");
        let is_brief = self.get("Type") == "oneshot";
        let ended = !matches!(self.get("ExecMainExitTimestampMonotonic"), "" | "0");
        Some(Service {
            is_running: matches!(state, "active" | "reloading" | "refreshing"),
            is_coming: state == "activating",
            is_looping: self.get("SubState") == "auto-restart",
            is_brief,
            is_done: is_brief && state == "inactive" && ended && self.get("Result") == "success",
        })
    }
}

/// What the word of `systemctl is-enabled` means.
pub(super) fn boot(word: &str) -> Boot {
    match word.trim() {
        "enabled" | "enabled-runtime" => Boot::Yes,
        "static" | "indirect" | "generated" | "alias" => Boot::Fixed,
        _ => Boot::No,
    }
}

/// Names in the first column of `systemctl list-unit-files`, with the state in the second.
pub(super) fn listed(out: &str) -> impl Iterator<Item = (&str, &str)> {
    out.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|w| *w == "●");
        let name = words.next()?;
        let kind = files::KINDS.iter().find(|k| name.ends_with(**k))?;
        let name = if *kind == ".service" { name.strip_suffix(kind)? } else { name };
        Some((name, words.next()?))
    })
}

impl<'a> Systemd<'a> {
    pub(super) fn new(tools: Tools<'a>) -> Self {
        let is_booted = files::is_booted(tools.machine);
        Self { tools, is_booted }
    }

    fn properties(&self, name: &str, properties: &str) -> Result<String, Refusal> {
        let said = self.tools.ask("systemctl", &["show", "-p", properties, "--", &unit(name)])?;
        // A template has no properties, and an old systemd calls that an error.
        if !said.is_fine() && !said.words().contains("nit name") {
            return Err(Refusal::failed(format!("`systemctl show` failed: {}", said.words())));
        }
        Ok(said.out)
    }

    /// The name under which a unit is enabled: an alias stands for another.
    fn own_name(&self, name: &str) -> Result<String, Refusal> {
        let id = if self.is_booted { self.properties(name, "Id")? } else { String::new() };
        let id = Properties(&id).get("Id").to_owned();
        Ok(if id.is_empty() { unit(name) } else { id })
    }

    fn is_stale(&self, name: &str) -> Result<bool, Refusal> {
        let shown = self.properties(name, "LoadState,NeedDaemonReload,DropInPaths")?;
        let shown = Properties(&shown);
        Ok(match shown.get("LoadState") {
            "not-found" => {
                files::has_unit(self.tools.machine, name) || files::is_script(self.tools.machine, name)
            }
            _ => {
                shown.get("NeedDaemonReload") == "yes"
                    || files::has_new_part(self.tools.machine, name, shown.get("DropInPaths"))
            }
        })
    }

    /// True when a process of ours runs in the unit, and would be ended with it.
    fn is_own(&self, unit: &str) -> bool {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        groups.lines().any(|l| l.rsplit('/').next() == Some(unit))
    }
}

impl Provider for Systemd<'_> {
    fn find(&self, name: &str) -> Result<Option<Service>, Refusal> {
        const WANTED: &str = "LoadState,ActiveState,SubState,Type,Result,ExecMainExitTimestampMonotonic";
        let machine = self.tools.machine;
        if self.is_booted {
            let shown = self.properties(name, WANTED)?;
            if let Some(service) = Properties(&shown).service() {
                return Ok(Some(service));
            }
        }
        let is_there = files::has_unit(machine, name) || files::is_script(machine, name);
        Ok(is_there.then(Service::default))
    }

    fn boot(&self, name: &str) -> Result<Boot, Refusal> {
        let machine = self.tools.machine;
        if !files::has_unit(machine, name) && files::is_script(machine, name) {
            return Ok(if files::is_linked(machine, name) { Boot::Yes } else { Boot::No });
        }
        if !machine.is_own() || self.tools.which("systemctl").is_none() {
            return Ok(if files::is_wanted(machine, name) { Boot::Yes } else { Boot::No });
        }
        let root = if self.is_booted { "--system" } else { "--root=/" };
        let ask = |name: &str| self.tools.ask("systemctl", &[root, "is-enabled", "--", name]);
        let said = ask(&unit(name))?;
        if said.out.trim() == "alias" {
            return Ok(boot(&ask(&self.own_name(name)?)?.out));
        }
        Ok(boot(&said.out))
    }

    fn act(&self, act: Act, name: &str, no_block: bool) -> Result<Said, Refusal> {
        let mut args: Vec<&str> = Vec::new();
        let mut name = unit(name);
        match act {
            Act::Enable | Act::Disable => name = self.own_name(&name)?,
            Act::Mask(true) | Act::Unmask(true) => args.push("--runtime"),
            Act::Mask(false) | Act::Unmask(false) => {}
            _ if !self.is_booted => return Err(Refusal::failed(OFFLINE)),
            _ => {
                if self.is_stale(&name)? {
                    self.refresh()?;
                }
                let ends = matches!(act, Act::Stop | Act::Restart | Act::FullRestart | Act::ForceReload);
                if no_block || (ends && self.is_own(&name)) {
                    args.push("--no-block");
                }
            }
        }
        if !self.is_booted {
            args.push("--root=/");
        }
        args.extend([act.word(), "--", &name]);
        self.tools.tell("systemctl", &args)
    }

    fn all(&self) -> Result<Vec<String>, Refusal> {
        let machine = self.tools.machine;
        let mut names = files::units(machine);
        names.extend(files::scripts(machine));
        if self.is_booted {
            let said = self
                .tools
                .ask("systemctl", &["list-units", "--all", "--full", "--no-legend", "--no-pager"])?;
            names.extend(
                listed(&said.out).filter(|(_, load)| *load != "not-found").map(|(n, _)| n.to_owned()),
            );
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn with_boot(&self, word: &str) -> Result<Vec<String>, Refusal> {
        let machine = self.tools.machine;
        let mut names: Vec<String> = if machine.is_own() {
            let root = if self.is_booted { "--system" } else { "--root=/" };
            let said = self
                .tools
                .ask("systemctl", &[root, "list-unit-files", "--full", "--no-legend", "--no-pager"])?;
            listed(&said.out).filter(|(_, state)| *state == word).map(|(n, _)| n.to_owned()).collect()
        } else {
            let wants = |n: &String| files::is_wanted(machine, n) == (word == "enabled");
            files::units(machine).into_iter().filter(wants).collect()
        };
        if word != "static" {
            let scripts = files::scripts(machine).into_iter().filter(|n| !files::has_unit(machine, n));
            names.extend(scripts.filter(|n| files::is_linked(machine, n) == (word == "enabled")));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn running(&self) -> Result<Vec<String>, Refusal> {
        let args = ["list-units", "--state=running", "--full", "--no-legend", "--no-pager"];
        let said = self.tools.ask("systemctl", &args)?;
        let mut names: Vec<String> = listed(&said.out).map(|(n, _)| n.to_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn show(&self, name: &str) -> Result<String, Refusal> {
        self.tools.ask("systemctl", &["show", "--", &unit(name)]).map(|said| said.out)
    }

    fn is_masked(&self, name: &str, runtime: bool) -> Option<bool> {
        let dir = MASKS[usize::from(runtime)];
        let link = self.tools.machine.link(&format!("{dir}/{}", unit(name)));
        Some(link.is_some_and(|to| to == "/dev/null"))
    }

    fn why(&self, name: &str) -> String {
        let name = unit(name);
        let shown = self.properties(&name, "ActiveState,SubState,Result,ExecMainStatus").unwrap_or_default();
        let shown = Properties(&shown);
        let mut words = format!(
            "{name} is {} ({}), its result is `{}`",
            shown.get("ActiveState"),
            shown.get("SubState"),
            shown.get("Result")
        );
        let status = shown.get("ExecMainStatus");
        if !status.is_empty() {
            words.push_str(&format!(", its main process ended with {status}"));
        }
        let journal =
            self.tools.ask("journalctl", &["-u", &name, "-n", LINES, "-o", "cat", "--no-pager", "-q"]);
        if let Ok(said) = journal {
            let text = said.out.trim();
            let from = text.char_indices().rev().nth(MOST - 1).map_or(0, |(at, _)| at);
            let text = text.get(from..).unwrap_or_default();
            if !text.is_empty() {
                words.push_str(&format!("; its last words:\n{text}"));
            }
        }
        words
    }

    fn is_offline(&self) -> Option<&'static str> {
        (!self.is_booted).then_some(OFFLINE)
    }

    fn refresh(&self) -> Result<(), Refusal> {
        if !self.is_booted {
            return Ok(());
        }
        self.tools.must("systemctl", &["daemon-reload"]).map(drop)
    }

    fn takes_signature(&self) -> bool {
        false
    }
}
