//! States of the module `firewalld`: zones and services, by `firewall-cmd`.
//!
//! The permanent configuration is compared and changed; when it changed, firewalld reads it again.

pub(crate) mod functions;

use std::collections::BTreeSet;

use zagent_config::{Map, Value};

use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable,
};
use zagent_config::sorted::CollectSorted;
use zagent_host::Tools;

/// Parameters of a zone that are lists, and how `firewall-cmd` calls one of them.
const ZONE_LISTS: [(&str, &str); 7] = [
    ("block_icmp", "icmp-block"),
    ("ports", "port"),
    ("port_fwd", "forward-port"),
    ("services", "service"),
    ("interfaces", "interface"),
    ("sources", "source"),
    ("rich_rules", "rich-rule"),
];
/// Parameters of a service.
const SERVICE_LISTS: [(&str, &str); 2] = [("ports", "port"), ("protocols", "protocol")];

/// The module `firewalld`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "firewalld",
    build,
    functions: functions::TABLE,
    undo: &[&FIREWALLD_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let kind = match fun {
        "present" => "zone",
        "service" => "service",
        _ => return None,
    };
    Some(FirewalldState::from_args(kind, args).map(|s| Box::new(s) as Box<dyn State>))
}

struct FirewalldState {
    /// `zone` or `service`.
    kind: &'static str,
    name: String,
    /// Lists that are declared, and whether whatever else is there goes.
    lists: Vec<(&'static str, BTreeSet<String>, bool)>,
    masquerade: Option<bool>,
    default: bool,
}

impl FirewalldState {
    fn from_args(kind: &'static str, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let table: &[(&str, &str)] = if kind == "zone" { &ZONE_LISTS } else { &SERVICE_LISTS };
        let mut lists = Vec::new();
        for (key, _) in table {
            let prune = kind == "service" || args.flag(&format!("prune_{key}"), false);
            let given = args.texts(key)?;
            if given.is_none() && !(kind == "zone" && prune) {
                continue;
            }
            let wanted = given.unwrap_or_default();
            let wanted =
                wanted.into_iter().map(|w| if *key == "port_fwd" { forward_rule(&w) } else { Ok(w) });
            lists.push((*key, wanted.collect::<Result<_, _>>()?, prune));
        }
        let masquerade = args.get("masquerade").map(Value::is_truthy);
        Ok(Self { kind, name: args.name(), lists, masquerade, default: args.flag("default", false) })
    }

    fn cli_option(&self, key: &str) -> &'static str {
        let table: &[(&str, &'static str)] = if self.kind == "zone" { &ZONE_LISTS } else { &SERVICE_LISTS };
        table.iter().find(|(k, _)| *k == key).map_or("", |(_, option)| *option)
    }

    /// What differs, in Salt's shape, and the words that mend it.
    fn find_drift(&self, tools: &Tools<'_>) -> Result<(Map, Vec<Vec<String>>), StateError> {
        let (kind, name) = (self.kind, &self.name);
        let at = format!("--{kind}={name}");
        let mut changes = Map::new();
        let mut todo: Vec<Vec<String>> = Vec::new();
        let known = firewall_cmd(tools, &["--permanent", &format!("--get-{kind}s")])?;
        let is_new = !known.split_whitespace().any(|k| k == name);
        if is_new {
            changes
                .insert(if kind == "zone" { "zone" } else { "service" }, old_new(Value::Null, name.as_str()));
            todo.push(vec!["--permanent".into(), format!("--new-{kind}={name}")]);
        }
        for (key, wanted, prune) in &self.lists {
            let option = self.cli_option(key);
            let now = if is_new { BTreeSet::new() } else { self.query_list(tools, &at, option)? };
            let add: Vec<&String> = wanted.difference(&now).collect();
            let gone: Vec<&String> = now.difference(wanted).filter(|_| *prune).collect();
            if add.is_empty() && gone.is_empty() {
                continue;
            }
            let after: BTreeSet<String> =
                if *prune { wanted.clone() } else { now.union(wanted).cloned().collect() };
            let list =
                |set: &BTreeSet<String>| set.iter().map(|s| Value::from(s.as_str())).collect::<Value>();
            changes.insert(*key, old_new(list(&now), list(&after)));
            for (verb, items) in [("add", add), ("remove", gone)] {
                todo.extend(
                    items
                        .iter()
                        .map(|i| vec!["--permanent".into(), at.clone(), format!("--{verb}-{option}={i}")]),
                );
            }
        }
        if let Some(wanted) = self.masquerade {
            let words = ["--permanent", &at, "--query-masquerade"];
            let now = !is_new && tools.run_query("firewall-cmd", &words)?.is_success();
            if now != wanted {
                changes.insert("masquerade", old_new(now, wanted));
                let verb = if wanted { "add" } else { "remove" };
                todo.push(vec!["--permanent".into(), at.clone(), format!("--{verb}-masquerade")]);
            }
        }
        if self.default {
            let now = firewall_cmd(tools, &["--get-default-zone"])?.trim().to_owned();
            if now != *name {
                changes.insert("default", old_new(now, name.as_str()));
                // A zone must be known before it can be the default one.
                todo.push(vec!["--reload".into()]);
                todo.push(vec![format!("--set-default-zone={name}")]);
            }
        }
        Ok((changes, todo))
    }

    fn query_list(&self, tools: &Tools<'_>, at: &str, option: &str) -> Result<BTreeSet<String>, StateError> {
        let verb = if self.kind == "zone" { "list" } else { "get" };
        let text = firewall_cmd(tools, &["--permanent", at, &format!("--{verb}-{option}s")])?;
        Ok(parse_list(&text, option))
    }
}

/// What `firewall-cmd` lists: rules and forwards line by line, all else by words.
fn parse_list(text: &str, option: &str) -> BTreeSet<String> {
    let text = text.trim();
    if matches!(option, "rich-rule" | "forward-port") {
        text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).into_set()
    } else {
        text.split_whitespace().map(str::to_owned).into_set()
    }
}

/// `from:to:protocol[:address]` as `firewall-cmd` writes it.
fn forward_rule(text: &str) -> Result<String, StateError> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [from, to, proto] => Ok(format!("port={from}:proto={proto}:toport={to}:toaddr=")),
        [from, to, proto, address] => Ok(format!("port={from}:proto={proto}:toport={to}:toaddr={address}")),
        _ => Err(StateError::new(format!("`port_fwd` is `from:to:protocol[:address]`, not `{text}`"))),
    }
}

fn old_new(old: impl Into<Value>, new: impl Into<Value>) -> Value {
    Map::from_iter([("old", old.into()), ("new", new.into())]).into()
}

fn firewall_cmd<A: AsRef<str>>(tools: &Tools<'_>, words: &[A]) -> Result<String, StateError> {
    let said = tools.run_change("firewall-cmd", words)?;
    if said.is_success() {
        Ok(said.stdout)
    } else {
        Err(StateError::new(format!("firewall-cmd failed: {}", said.message())))
    }
}

impl State for FirewalldState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (changes, _) = self.find_drift(&ctx.tools())?;
        let name = &self.name;
        if changes.is_empty() {
            return Ok(CheckResult::in_sync(format!("'{name}' is already in the desired state.")));
        }
        Ok(CheckResult::drifted(format!("Configuration for '{name}' will change."), changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let (changes, todo) = self.find_drift(&tools)?;
        let key = Map::from_iter([("kind", self.kind), ("name", self.name.as_str())]);
        ctx.with_undo(&FIREWALLD_UNDO, key, || {
            for words in &todo {
                firewall_cmd(&tools, words)?;
            }
            firewall_cmd(&tools, &["--reload"]).map(|_| ())
        })?;
        Ok(ApplyResult::new(format!("'{}' was configured.", self.name), changes))
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Firewall]
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::PACKAGE_FILES | Effects::PACKAGES | Effects::SERVICES
    }

    fn writes(&self) -> Effects {
        Effects::KERNEL
    }
}

/// A zone or service of firewalld: its permanent configuration.
pub(crate) struct FirewalldUndo;
pub(crate) static FIREWALLD_UNDO: FirewalldUndo = FirewalldUndo;

impl FirewalldUndo {
    fn parse_key(key: &Value) -> (&str, &str) {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        (text("kind"), text("name"))
    }

    fn list_options(kind: &str) -> &'static [(&'static str, &'static str)] {
        if kind == "zone" { &ZONE_LISTS } else { &SERVICE_LISTS }
    }
}

impl Undoable for FirewalldUndo {
    fn kind(&self) -> &'static str {
        "firewalld"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let (kind, name) = Self::parse_key(key);
        let tools = ctx.tools();
        if !firewall_cmd(&tools, &["--permanent", &format!("--get-{kind}s")])?
            .split_whitespace()
            .any(|k| k == name)
        {
            return Ok(Value::Null);
        }
        let at = format!("--{kind}={name}");
        let mut found = Map::new();
        let verb = if kind == "zone" { "list" } else { "get" };
        for (key, option) in Self::list_options(kind) {
            let text = firewall_cmd(&tools, &["--permanent", &at, &format!("--{verb}-{option}s")])?;
            found.insert(*key, parse_list(&text, option).into_iter().map(Value::from).collect::<Value>());
        }
        if kind == "zone" {
            found.insert(
                "masquerade",
                tools.run_query("firewall-cmd", &["--permanent", &at, "--query-masquerade"])?.is_success(),
            );
            found.insert("default", firewall_cmd(&tools, &["--get-default-zone"])?.trim());
        }
        Ok(found.into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (kind, name) = Self::parse_key(key);
        let tools = ctx.tools();
        if to.is_null() {
            firewall_cmd(&tools, &["--permanent", &format!("--delete-{kind}={name}")])?;
        } else {
            let kind = if kind == "zone" { "zone" } else { "service" };
            let set = |key: &str| {
                to.get(key)
                    .and_then(Value::as_list)
                    .map(|l| l.iter().filter_map(Value::as_str).map(str::to_owned).into_set())
            };
            let lists = Self::list_options(kind)
                .iter()
                .map(|(key, _)| (*key, set(key).unwrap_or_default(), true))
                .collect();
            let masquerade = to.get("masquerade").map(Value::is_truthy);
            let zone = FirewalldState { kind, name: name.to_owned(), lists, masquerade, default: false };
            for words in zone.find_drift(&tools)?.1 {
                firewall_cmd(&tools, &words)?;
            }
            if let Some(default) = to.get("default").and_then(Value::as_str) {
                firewall_cmd(&tools, &[format!("--set-default-zone={default}")])?;
            }
        }
        firewall_cmd(&tools, &["--reload"]).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_forwards() {
        assert_eq!(forward_rule("22:2222:tcp").unwrap(), "port=22:proto=tcp:toport=2222:toaddr=");
        assert_eq!(
            forward_rule("22:2222:tcp:10.0.0.1").unwrap(),
            "port=22:proto=tcp:toport=2222:toaddr=10.0.0.1"
        );
        assert!(forward_rule("22").is_err());
        assert_eq!(parse_list("ssh dhcpv6-client\n", "service").len(), 2);
        assert_eq!(parse_list("rule family=\"ipv4\" accept\nrule x\n", "rich-rule").len(), 2);
    }
}
