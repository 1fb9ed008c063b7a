//! systemd, by `systemctl`.
//!
//! Law: the manager's files are read again exactly when an act would otherwise work with old ones. Where systemd is
//! not process 1, files are still linked, and nothing is started (held by
//! `a_drop_in_that_systemd_has_not_read_is_noticed`).

use zagent_config::FunctionError;

use super::unit_files::{self, unit_name};
use super::{BootState, ServiceAction, ServiceProvider, ServiceStatus};
use crate::{CommandOutput, Tools};

/// Lines and characters of a journal that a failure shows.
const JOURNAL_LINES: &str = "10";
const JOURNAL_MAX_CHARS: usize = 2000;
const OFFLINE_REASON: &str = "systemd does not run here (a chroot, or an image that is being built)";
/// Directories of masks, for good and until the next boot.
const MASK_DIRS: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];

pub(crate) struct Systemd<'a> {
    tools: Tools<'a>,
    is_booted: bool,
}

/// What `systemctl show` said of one unit.
pub(crate) struct UnitProperties<'t>(pub &'t str);

impl<'t> UnitProperties<'t> {
    pub(crate) fn get(&self, key: &str) -> &'t str {
        let value = |l: &'t str| l.strip_prefix(key).and_then(|r| r.strip_prefix('='));
        self.0.lines().find_map(value).unwrap_or_default()
    }

    /// How the unit stands; nothing when systemd knows no such unit.
    pub(crate) fn to_status(&self) -> Option<ServiceStatus> {
        if matches!(self.get("LoadState"), "not-found" | "") {
            return None;
        }
        let state = self.get("ActiveState");
        let is_brief = self.get("Type") == "oneshot";
        let ended = !matches!(self.get("ExecMainExitTimestampMonotonic"), "" | "0");
        Some(ServiceStatus {
            is_running: matches!(state, "active" | "reloading" | "refreshing"),
            is_starting: state == "activating",
            is_restart_looping: self.get("SubState") == "auto-restart",
            is_oneshot: is_brief,
            has_completed: is_brief && state == "inactive" && ended && self.get("Result") == "success",
        })
    }
}

/// What the word of `systemctl is-enabled` means.
pub(crate) fn parse_boot_state(word: &str) -> BootState {
    match word.trim() {
        "enabled" | "enabled-runtime" => BootState::Enabled,
        "static" | "indirect" | "generated" | "alias" => BootState::Static,
        _ => BootState::Disabled,
    }
}

/// Names in the first column of `systemctl list-unit-files`, with the state in the second.
pub(crate) fn parse_unit_files(out: &str) -> impl Iterator<Item = (&str, &str)> {
    out.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|w| *w == "●");
        let name = words.next()?;
        let kind = unit_files::UNIT_SUFFIXES.iter().find(|k| name.ends_with(**k))?;
        let name = if *kind == ".service" { name.strip_suffix(kind)? } else { name };
        Some((name, words.next()?))
    })
}

impl<'a> Systemd<'a> {
    pub(crate) fn new(tools: Tools<'a>) -> Self {
        let is_booted = unit_files::is_booted(tools.machine);
        Self { tools, is_booted }
    }

    fn properties(&self, name: &str, properties: &str) -> Result<String, FunctionError> {
        let output =
            self.tools.run_query("systemctl", &["show", "-p", properties, "--", &unit_name(name)])?;
        // A template has no properties, and an old systemd calls that an error.
        if !output.is_success() && !output.message().contains("nit name") {
            return Err(FunctionError::failed(format!("`systemctl show` failed: {}", output.message())));
        }
        Ok(output.stdout)
    }

    /// The name under which a unit is enabled: an alias stands for another.
    fn primary_name(&self, name: &str) -> Result<String, FunctionError> {
        let id = if self.is_booted { self.properties(name, "Id")? } else { String::new() };
        let id = UnitProperties(&id).get("Id").to_owned();
        Ok(if id.is_empty() { unit_name(name) } else { id })
    }

    fn needs_daemon_reload(&self, name: &str) -> Result<bool, FunctionError> {
        let shown = self.properties(name, "LoadState,NeedDaemonReload,DropInPaths")?;
        let shown = UnitProperties(&shown);
        Ok(match shown.get("LoadState") {
            "not-found" => {
                unit_files::has_unit(self.tools.machine, name)
                    || unit_files::has_init_script(self.tools.machine, name)
            }
            _ => {
                shown.get("NeedDaemonReload") == "yes"
                    || unit_files::has_unread_dropin(self.tools.machine, name, shown.get("DropInPaths"))
            }
        })
    }

    /// True when a process of ours runs in the unit, and would be ended with it.
    fn contains_agent(&self, unit: &str) -> bool {
        if !self.tools.machine.is_this_host() {
            return false;
        }
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        groups.lines().any(|l| l.rsplit('/').next() == Some(unit))
    }
}

impl ServiceProvider for Systemd<'_> {
    fn status(&self, name: &str) -> Result<Option<ServiceStatus>, FunctionError> {
        const WANTED: &str = "LoadState,ActiveState,SubState,Type,Result,ExecMainExitTimestampMonotonic";
        let machine = self.tools.machine;
        if self.is_booted {
            let shown = self.properties(name, WANTED)?;
            if let Some(service) = UnitProperties(&shown).to_status() {
                return Ok(Some(service));
            }
        }
        let is_there = unit_files::has_unit(machine, name) || unit_files::has_init_script(machine, name);
        Ok(is_there.then(ServiceStatus::default))
    }

    fn boot_state(&self, name: &str) -> Result<BootState, FunctionError> {
        let machine = self.tools.machine;
        if !unit_files::has_unit(machine, name) && unit_files::has_init_script(machine, name) {
            return Ok(if unit_files::is_script_enabled(machine, name) {
                BootState::Enabled
            } else {
                BootState::Disabled
            });
        }
        if !machine.is_this_host() || self.tools.which("systemctl").is_none() {
            return Ok(if unit_files::is_unit_enabled(machine, name) {
                BootState::Enabled
            } else {
                BootState::Disabled
            });
        }
        let root = if self.is_booted { "--system" } else { "--root=/" };
        let ask = |name: &str| self.tools.run_query("systemctl", &[root, "is-enabled", "--", name]);
        let output = ask(&unit_name(name))?;
        if output.stdout.trim() == "alias" {
            return Ok(parse_boot_state(&ask(&self.primary_name(name)?)?.stdout));
        }
        Ok(parse_boot_state(&output.stdout))
    }

    fn perform(
        &self,
        action: ServiceAction,
        name: &str,
        no_block: bool,
    ) -> Result<CommandOutput, FunctionError> {
        let mut args: Vec<&str> = Vec::new();
        let mut name = unit_name(name);
        match action {
            ServiceAction::Enable | ServiceAction::Disable => name = self.primary_name(&name)?,
            ServiceAction::Mask(true) | ServiceAction::Unmask(true) => args.push("--runtime"),
            ServiceAction::Mask(false) | ServiceAction::Unmask(false) => {}
            _ if !self.is_booted => return Err(FunctionError::failed(OFFLINE_REASON)),
            _ => {
                if self.needs_daemon_reload(&name)? {
                    self.daemon_reload()?;
                }
                let ends = matches!(
                    action,
                    ServiceAction::Stop
                        | ServiceAction::Restart
                        | ServiceAction::FullRestart
                        | ServiceAction::ForceReload
                );
                if no_block || (ends && self.contains_agent(&name)) {
                    args.push("--no-block");
                }
            }
        }
        if !self.is_booted {
            args.push("--root=/");
        }
        args.extend([action.command_word(), "--", &name]);
        self.tools.run_change("systemctl", &args)
    }

    fn list(&self) -> Result<Vec<String>, FunctionError> {
        let machine = self.tools.machine;
        let mut names = unit_files::list_units(machine);
        names.extend(unit_files::list_init_scripts(machine));
        if self.is_booted {
            let output = self
                .tools
                .run_query("systemctl", &["list-units", "--all", "--full", "--no-legend", "--no-pager"])?;
            names.extend(
                parse_unit_files(&output.stdout)
                    .filter(|(_, load)| *load != "not-found")
                    .map(|(n, _)| n.to_owned()),
            );
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn list_by_boot(&self, word: &str) -> Result<Vec<String>, FunctionError> {
        let machine = self.tools.machine;
        let mut names: Vec<String> = if machine.is_this_host() {
            let root = if self.is_booted { "--system" } else { "--root=/" };
            let output = self
                .tools
                .run_query("systemctl", &[root, "list-unit-files", "--full", "--no-legend", "--no-pager"])?;
            parse_unit_files(&output.stdout)
                .filter(|(_, state)| *state == word)
                .map(|(n, _)| n.to_owned())
                .collect()
        } else {
            let wants = |n: &String| unit_files::is_unit_enabled(machine, n) == (word == "enabled");
            unit_files::list_units(machine).into_iter().filter(wants).collect()
        };
        if word != "static" {
            let scripts = unit_files::list_init_scripts(machine)
                .into_iter()
                .filter(|n| !unit_files::has_unit(machine, n));
            names
                .extend(scripts.filter(|n| unit_files::is_script_enabled(machine, n) == (word == "enabled")));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn list_running(&self) -> Result<Vec<String>, FunctionError> {
        let args = ["list-units", "--state=running", "--full", "--no-legend", "--no-pager"];
        let output = self.tools.run_query("systemctl", &args)?;
        let mut names: Vec<String> = parse_unit_files(&output.stdout).map(|(n, _)| n.to_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn show_properties(&self, name: &str) -> Result<String, FunctionError> {
        self.tools.run_query("systemctl", &["show", "--", &unit_name(name)]).map(|output| output.stdout)
    }

    fn is_masked(&self, name: &str, runtime: bool) -> Option<bool> {
        let dir = MASK_DIRS[usize::from(runtime)];
        let link = self.tools.machine.read_link(&format!("{dir}/{}", unit_name(name)));
        Some(link.is_some_and(|to| to == "/dev/null"))
    }

    fn failure_reason(&self, name: &str) -> String {
        let name = unit_name(name);
        let shown = self.properties(&name, "ActiveState,SubState,Result,ExecMainStatus").unwrap_or_default();
        let shown = UnitProperties(&shown);
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
        let journal = self
            .tools
            .run_query("journalctl", &["-u", &name, "-n", JOURNAL_LINES, "-o", "cat", "--no-pager", "-q"]);
        if let Ok(output) = journal {
            let text = output.stdout.trim();
            let from = text.char_indices().rev().nth(JOURNAL_MAX_CHARS - 1).map_or(0, |(at, _)| at);
            let text = text.get(from..).unwrap_or_default();
            if !text.is_empty() {
                words.push_str(&format!("; its last words:\n{text}"));
            }
        }
        words
    }

    fn offline_reason(&self) -> Option<&'static str> {
        (!self.is_booted).then_some(OFFLINE_REASON)
    }

    fn daemon_reload(&self) -> Result<(), FunctionError> {
        if !self.is_booted {
            return Ok(());
        }
        self.tools.run_checked("systemctl", &["daemon-reload"]).map(drop)
    }

    fn supports_sig(&self) -> bool {
        false
    }
}
