//! States of the module `network` on Debian: entries of `/etc/network/interfaces`, scripts of routes, the host's name.
//!
//! Law: entries of other interfaces stay as they are, and an interface is taken down only when its own entry
//! changed (held by `entries_of_others_stay`).

pub(crate) mod functions;

use std::path::Path;

use zagent_config::{Map, Value};

use super::system::SystemNames;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::command_options::value_text;
use zagent_host::fs::FileMeta;
use zagent_host::text_file;

const INTERFACES_FILE: &str = "/etc/network/interfaces";

/// The module `network`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "network",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    fn boxed(state: impl State + 'static) -> Box<dyn State> {
        Box::new(state)
    }
    let state = match fun {
        "managed" => NetworkManaged::read(args).map(boxed),
        "routes" => NetworkRoutes::read(args).map(boxed),
        "system" => SystemNames::from_network_system(args).map(boxed),
        _ => return None,
    };
    Some(args.reject_options(&["hostname"]).and(state))
}

/// Arguments and what `/etc/network/interfaces` calls them, in the order in which they are written.
const OPTIONS: &[(&str, &str)] = &[
    ("autoconf", "autoconf"),
    ("privext", "privext"),
    ("dhcp", "dhcp"),
    ("hwaddr", "hwaddress"),
    ("hwaddress", "hwaddress"),
    ("vlan_raw_device", "vlan-raw-device"),
    ("ipaddr", "address"),
    ("address", "address"),
    ("addresses", "address"),
    ("netmask", "netmask"),
    ("metric", "metric"),
    ("gateway", "gateway"),
    ("pointopoint", "pointopoint"),
    ("scope", "scope"),
    ("hostname", "hostname"),
    ("media", "media"),
    ("mode", "mode"),
    ("endpoint", "endpoint"),
    ("dstaddr", "dstaddr"),
    ("local", "local"),
    ("ttl", "ttl"),
    ("mtu", "mtu"),
    ("provider", "provider"),
    ("master", "bond-master"),
    ("dns", "dns-nameservers"),
    ("wpa_conf", "wpa-conf"),
    ("wpa_driver", "wpa-driver"),
    ("wpa_psk", "wpa-psk"),
    ("wpa_ssid", "wpa-ssid"),
    ("accept_ra", "accept_ra"),
    ("up_cmds", "up"),
    ("down_cmds", "down"),
    ("pre_up_cmds", "pre-up"),
    ("post_up_cmds", "post-up"),
    ("pre_down_cmds", "pre-down"),
    ("post_down_cmds", "post-down"),
];
const BRIDGE_OPTIONS: &[&str] = &[
    "ageing",
    "bridgeprio",
    "fd",
    "gcint",
    "hello",
    "hw",
    "maxage",
    "maxwait",
    "pathcost",
    "portprio",
    "ports",
    "stp",
    "waitport",
];
const BOND_OPTIONS: &[&str] = &[
    "ad_select",
    "arp_interval",
    "arp_ip_target",
    "downdelay",
    "fail_over_mac",
    "lacp_rate",
    "max_bonds",
    "miimon",
    "mode",
    "primary",
    "slaves",
    "updelay",
    "use_carrier",
    "xmit_hash_policy",
];

struct NetworkManaged {
    name: String,
    enabled: bool,
    /// Its entry.
    entry: String,
    /// Only the file is written.
    quiet: bool,
}

/// The words of a value: a list as several, a switch as the system writes it.
fn value_words(value: &Value) -> Vec<String> {
    match value {
        Value::List(list) => list.iter().map(value_text).collect(),
        Value::Bool(on) => vec![if *on { "on" } else { "off" }.into()],
        Value::Null => Vec::new(),
        other => vec![value_text(other)],
    }
}

/// The lines of one address family. Arguments of the second begin with `ipv6`.
fn family_lines(args: &ChunkArgs<'_>, name: &str, family: &str, kind: &str) -> String {
    let prefix = if family == "inet6" { "ipv6" } else { "" };
    let proto = args.get(&format!("{prefix}proto")).map_or_else(|| "static".to_owned(), value_text);
    let proto = if proto == "none" { "static".to_owned() } else { proto };
    let mut out = format!("iface {name} {family} {proto}\n");
    let mut line = |option: &str, values: &str| out.push_str(&format!("    {option} {values}\n"));
    for (key, option) in OPTIONS {
        // The mode of a bond is one of its own options.
        if *key == "mode" && kind == "bond" {
            continue;
        }
        let Some(value) = args.get(&format!("{prefix}{key}")) else { continue };
        match *option {
            "dns-nameservers" => line(option, &value_words(value).join(" ")),
            _ => value_words(value).iter().for_each(|w| line(option, w)),
        }
    }
    let (mark, keys) = match kind {
        "bridge" => ("bridge_", BRIDGE_OPTIONS),
        "bond" => ("bond-", BOND_OPTIONS),
        _ => return out,
    };
    for key in keys.iter().filter(|_| family == "inet") {
        if let Some(value) = args.get(key) {
            line(&format!("{mark}{key}"), &value_words(value).join(" "));
        }
    }
    out
}

impl NetworkManaged {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let name = args.name();
        let kind = args.text("type")?.unwrap_or_else(|| "eth".into());
        let enabled = args.flag("enabled", true);
        let mut entry = String::new();
        if enabled {
            entry.push_str(&format!("auto {name}\n"));
        }
        if args.flag("hotplug", false) {
            entry.push_str(&format!("allow-hotplug {name}\n"));
        }
        let has_six = args.flag("enable_ipv6", false) || args.get("ipv6proto").is_some();
        if args.get("proto").is_some() || !has_six {
            entry.push_str(&family_lines(args, &name, "inet", &kind));
        }
        if has_six {
            entry.push_str(&family_lines(args, &name, "inet6", &kind));
        }
        Ok(Self { name, enabled, entry, quiet: args.get("noifupdown").is_some() })
    }

    /// The file with this entry in it, when it is not, and the entry that was there.
    fn changed_file(&self, ctx: &StateCtx<'_>) -> Result<Option<(String, String)>, StateError> {
        require_debian(ctx)?;
        let text = text_file::read_text(ctx.fs, INTERFACES_FILE)?.unwrap_or_default();
        let (before, old, after) = split_entry(&text, &self.name);
        if old == self.entry {
            return Ok(None);
        }
        Ok(Some((format!("{before}{}{after}", self.entry), old)))
    }

    fn is_up(&self, ctx: &StateCtx<'_>) -> Result<bool, StateError> {
        let flags = ctx.tools().machine.read(&format!("/sys/class/net/{}/flags", self.name))?;
        let flags = flags.and_then(|f| u32::from_str_radix(f.trim().trim_start_matches("0x"), 16).ok());
        Ok(flags.is_some_and(|f| f & 1 == 1))
    }

    /// True when it should be up or down and is not, and that is ours to change.
    fn needs_toggle(&self, ctx: &StateCtx<'_>) -> Result<bool, StateError> {
        Ok(!self.quiet && self.is_up(ctx)? != self.enabled)
    }
}

fn require_debian(ctx: &StateCtx<'_>) -> Result<(), StateError> {
    match ctx.host.grain("os_family").as_ref().and_then(Value::as_str) {
        Some("Debian") => Ok(()),
        other => Err(StateError::new(format!(
            "interfaces are managed by {INTERFACES_FILE}, as on Debian; this is {}",
            other.unwrap_or("another system")
        ))),
    }
}

/// The file before, of, and after the entries of an interface; entries further on are gathered at the first.
fn split_entry(text: &str, name: &str) -> (String, String, String) {
    let (mut before, mut old, mut after) = (String::new(), String::new(), String::new());
    let mut is_own = false;
    for line in text.split_inclusive('\n') {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("auto" | "iface" | "allow-hotplug"), named) => is_own = named == Some(name),
            (Some("source" | "source-directory" | "mapping" | "#"), _) | (None, _) => is_own = false,
            _ => {}
        }
        if is_own {
            old.push_str(line.trim_end());
            old.push('\n');
        } else if old.is_empty() {
            before.push_str(line);
        } else {
            after.push_str(line);
        }
    }
    if !before.is_empty() && !before.ends_with('\n') {
        before.push('\n');
    }
    (before, old, after)
}

impl State for NetworkManaged {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = &self.name;
        let is_wrong = self.needs_toggle(ctx)?;
        let words = match self.changed_file(ctx)? {
            None if !is_wrong => return Ok(CheckResult::in_sync(format!("Interface {name} is up to date."))),
            None => format!("Interface {name} is set to be {}.", if self.enabled { "up" } else { "down" }),
            Some((_, old)) if old.is_empty() => format!("Interface {name} is set to be added."),
            Some(_) => format!("Interface {name} is set to be updated."),
        };
        Ok(CheckResult::drifted(words, Map::from_iter([("interface", self.entry.as_str())])))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let name = &self.name;
        let mut done = ApplyResult::new(format!("Interface {name} is up to date."), Map::new());
        let new = self.changed_file(ctx)?;
        let is_up = self.is_up(ctx)?;
        let tools = ctx.tools();
        // An interface is taken down by the entry that brought it up.
        if !self.quiet && is_up && (new.is_some() || !self.enabled) {
            tools.run_checked("ifdown", &["--force", name])?;
        }
        if let Some((text, old)) = new {
            text_file::write_text(ctx.fs, INTERFACES_FILE, &text)?;
            let is_new = old.is_empty();
            done.comment = format!("Interface {name} {}.", if is_new { "added" } else { "updated" });
            let what = if is_new { "Added network interface.".to_owned() } else { self.entry.clone() };
            done.changes.insert("interface", what);
        }
        if !self.quiet && self.enabled && (!is_up || !done.changes.is_empty()) {
            tools.run_checked("ifup", &[name])?;
            let what = if is_up { "restart to validate" } else { "is up" };
            done.changes.insert("status", format!("Interface {name} {what}"));
        } else if !self.quiet && is_up && !self.enabled {
            done.changes.insert("status", format!("Interface {name} down"));
        }
        Ok(done)
    }

    fn is_predictable(&self) -> bool {
        self.quiet
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES | Effects::KERNEL
    }

    fn writes(&self) -> Effects {
        if self.quiet { Effects::NONE } else { Effects::KERNEL | Effects::SERVICES }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(INTERFACES_FILE.into())]
    }
}

struct NetworkRoutes {
    name: String,
    /// Each route as `ip route` takes it, and its name.
    routes: Vec<(String, String)>,
}

impl NetworkRoutes {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let name = args.name();
        let Some(Value::List(list)) = args.get("routes") else {
            return Err(StateError::new("`routes` must be a list of routes"));
        };
        let mut routes = Vec::new();
        for route in list.iter() {
            let field =
                |key: &str| route.as_map().and_then(|m| m.get(key)).map(value_text).filter(|v| !v.is_empty());
            let target = field("ipaddr").ok_or_else(|| StateError::new("a route needs an `ipaddr`"))?;
            let netmask = field("netmask").map(|m| format!("/{m}")).unwrap_or_default();
            let gateway = field("gateway").map(|g| format!(" via {g}")).unwrap_or_default();
            let metric = field("metric").map(|m| format!(" metric {m}")).unwrap_or_default();
            let words = format!("{target}{netmask}{gateway} dev {name}{metric}");
            // They stand in a script.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || " .:/_-@".contains(c);
            if words.starts_with('-') || !words.chars().all(is_plain) {
                return Err(StateError::new(format!("`{words}` is no route")));
            }
            routes.push((words, field("name").unwrap_or_default()));
        }
        Ok(Self { name, routes })
    }

    /// The scripts that should be, with their paths.
    fn scripts(&self) -> [(String, String); 2] {
        [("up", "add"), ("down", "del")].map(|(dir, act)| {
            let mut text = format!("#!/bin/sh\n# {act}\ntest \"${{IFACE}}\" = \"{}\" || exit 0\n", self.name);
            for (words, name) in &self.routes {
                if !name.is_empty() {
                    text.push_str(&format!("# {name}\n"));
                }
                text.push_str(&format!("ip route {act} {words}\n"));
            }
            (format!("/etc/network/if-{dir}.d/route-{}", self.name), text)
        })
    }
}

impl State for NetworkRoutes {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        require_debian(ctx)?;
        let name = &self.name;
        let mut is_new = true;
        let mut is_right = true;
        for (path, text) in self.scripts() {
            let now = text_file::read_text(ctx.fs, &path)?;
            is_new &= now.is_none();
            is_right &= now.is_some_and(|n| n == text);
        }
        if is_right {
            return Ok(CheckResult::in_sync(format!("Interface {name} routes are up to date.")));
        }
        let word = if is_new { "added" } else { "updated" };
        let changes = Map::from_iter([("network_routes", format!("Added interface {name} routes."))]);
        Ok(CheckResult::drifted(format!("Interface {name} routes are set to be {word}."), changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let name = &self.name;
        for (path, text) in self.scripts() {
            text_file::write_text(ctx.fs, &path, &text)?;
            ctx.fs.set_meta(Path::new(&path), FileMeta { mode: Some(0o755), ..FileMeta::default() }, true)?;
        }
        if ctx.machine.exists(format!("/sys/class/net/{name}")) {
            for (words, _) in &self.routes {
                let args = ["route", "replace"].into_iter().chain(words.split(' '));
                ctx.tools().run_checked("ip", &args.collect::<Vec<_>>())?;
            }
        }
        let changes = Map::from_iter([("network_routes", format!("Added interface {name} routes."))]);
        Ok(ApplyResult::new(format!("Interface {name} routes added."), changes))
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::KERNEL
    }

    fn writes(&self) -> Effects {
        Effects::KERNEL
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        self.scripts().into_iter().map(|(path, _)| LockKey::Path(path.into())).collect()
    }
}

/// Tests of the network states.
#[cfg(test)]
pub mod tests;
