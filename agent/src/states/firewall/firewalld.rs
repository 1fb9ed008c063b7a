//! States of the module `firewalld`: zones and services, by `firewall-cmd`.
//!
//! Law: the permanent configuration is compared and changed; when it changed, firewalld reads it again.

use std::collections::BTreeSet;

use zagent_config::{Map, Value};

use super::super::{Args, Built, Done, Failure, Look, Resource, Scene, State, Thing, Veil};
use crate::host::Tools;

/// Parameters of a zone that are lists, and how `firewall-cmd` calls one of them.
const LISTS: [(&str, &str); 7] = [
    ("block_icmp", "icmp-block"),
    ("ports", "port"),
    ("port_fwd", "forward-port"),
    ("services", "service"),
    ("interfaces", "interface"),
    ("sources", "source"),
    ("rich_rules", "rich-rule"),
];
/// Parameters of a service.
const SERVICE: [(&str, &str); 2] = [("ports", "port"), ("protocols", "protocol")];

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let kind = match fun {
        "present" => "zone",
        "service" => "service",
        _ => return None,
    };
    Some(Zone::read(kind, args).map(|s| Box::new(s) as Box<dyn State>))
}

struct Zone {
    /// `zone` or `service`.
    kind: &'static str,
    name: String,
    /// Lists that are declared, and whether whatever else is there goes.
    lists: Vec<(&'static str, BTreeSet<String>, bool)>,
    masquerade: Option<bool>,
    default: bool,
}

impl Zone {
    fn read(kind: &'static str, args: &Args<'_>) -> Result<Self, Failure> {
        let table: &[(&str, &str)] = if kind == "zone" { &LISTS } else { &SERVICE };
        let mut lists = Vec::new();
        for (key, _) in table {
            let prune = kind == "service" || args.flag(&format!("prune_{key}"), false);
            let given = args.texts(key)?;
            if given.is_none() && !(kind == "zone" && prune) {
                continue;
            }
            let wanted = given.unwrap_or_default();
            let wanted = wanted.into_iter().map(|w| if *key == "port_fwd" { forward(&w) } else { Ok(w) });
            lists.push((*key, wanted.collect::<Result<_, _>>()?, prune));
        }
        let masquerade = args.get("masquerade").map(Value::is_truthy);
        Ok(Self { kind, name: args.name(), lists, masquerade, default: args.flag("default", false) })
    }

    fn option(&self, key: &str) -> &'static str {
        let table: &[(&str, &'static str)] = if self.kind == "zone" { &LISTS } else { &SERVICE };
        table.iter().find(|(k, _)| *k == key).map_or("", |(_, option)| *option)
    }

    /// What differs, in Salt's shape, and the words that mend it.
    fn differs(&self, tools: &Tools<'_>) -> Result<(Map, Vec<Vec<String>>), Failure> {
        let (kind, name) = (self.kind, &self.name);
        let at = format!("--{kind}={name}");
        let mut changes = Map::new();
        let mut todo: Vec<Vec<String>> = Vec::new();
        let known = cmd(tools, &["--permanent", &format!("--get-{kind}s")])?;
        let is_new = !known.split_whitespace().any(|k| k == name);
        if is_new {
            changes.insert(if kind == "zone" { "zone" } else { "service" }, pair(Value::Null, name.as_str()));
            todo.push(vec!["--permanent".into(), format!("--new-{kind}={name}")]);
        }
        for (key, wanted, prune) in &self.lists {
            let option = self.option(key);
            let now = if is_new { BTreeSet::new() } else { self.listed(tools, &at, option)? };
            let add: Vec<&String> = wanted.difference(&now).collect();
            let gone: Vec<&String> = now.difference(wanted).filter(|_| *prune).collect();
            if add.is_empty() && gone.is_empty() {
                continue;
            }
            let after: BTreeSet<String> =
                if *prune { wanted.clone() } else { now.union(wanted).cloned().collect() };
            let list =
                |set: &BTreeSet<String>| set.iter().map(|s| Value::from(s.as_str())).collect::<Value>();
            changes.insert(*key, pair(list(&now), list(&after)));
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
            let now = !is_new && tools.ask("firewall-cmd", &words)?.is_fine();
            if now != wanted {
                changes.insert("masquerade", pair(now, wanted));
                let verb = if wanted { "add" } else { "remove" };
                todo.push(vec!["--permanent".into(), at.clone(), format!("--{verb}-masquerade")]);
            }
        }
        if self.default {
            let now = cmd(tools, &["--get-default-zone"])?.trim().to_owned();
            if now != *name {
                changes.insert("default", pair(now, name.as_str()));
                // A zone must be known before it can be the default one.
                todo.push(vec!["--reload".into()]);
                todo.push(vec![format!("--set-default-zone={name}")]);
            }
        }
        Ok((changes, todo))
    }

    fn listed(&self, tools: &Tools<'_>, at: &str, option: &str) -> Result<BTreeSet<String>, Failure> {
        let verb = if self.kind == "zone" { "list" } else { "get" };
        let text = cmd(tools, &["--permanent", at, &format!("--{verb}-{option}s")])?;
        Ok(items(&text, option))
    }
}

/// What `firewall-cmd` lists: rules and forwards line by line, all else by words.
fn items(text: &str, option: &str) -> BTreeSet<String> {
    let text = text.trim();
    if matches!(option, "rich-rule" | "forward-port") {
        text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect()
    } else {
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// `from:to:protocol[:address]` as `firewall-cmd` writes it.
fn forward(text: &str) -> Result<String, Failure> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [from, to, proto] => Ok(format!("port={from}:proto={proto}:toport={to}:toaddr=")),
        [from, to, proto, address] => Ok(format!("port={from}:proto={proto}:toport={to}:toaddr={address}")),
        _ => Err(Failure::new(format!("`port_fwd` is `from:to:protocol[:address]`, not `{text}`"))),
    }
}

fn pair(old: impl Into<Value>, new: impl Into<Value>) -> Value {
    Map::from_iter([("old", old.into()), ("new", new.into())]).into()
}

fn cmd<A: AsRef<str>>(tools: &Tools<'_>, words: &[A]) -> Result<String, Failure> {
    let said = tools.tell("firewall-cmd", words)?;
    if said.is_fine() {
        Ok(said.out)
    } else {
        Err(Failure::new(format!("firewall-cmd failed: {}", said.words())))
    }
}

impl State for Zone {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (changes, _) = self.differs(&scene.tools())?;
        let name = &self.name;
        if changes.is_empty() {
            return Ok(Look::right(format!("'{name}' is already in the desired state.")));
        }
        Ok(Look::drift(format!("Configuration for '{name}' will change."), changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let tools = scene.tools();
        let (changes, todo) = self.differs(&tools)?;
        let key = Map::from_iter([("kind", self.kind), ("name", self.name.as_str())]);
        scene.change(&ZONE, key, || {
            for words in &todo {
                cmd(&tools, words)?;
            }
            cmd(&tools, &["--reload"]).map(|_| ())
        })?;
        Ok(Done::new(format!("'{}' was configured.", self.name), changes))
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Firewall]
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::BROUGHT | Veil::PACKAGES | Veil::SERVICES
    }

    fn veils(&self) -> Veil {
        Veil::KERNEL
    }
}

/// A zone or service of firewalld: its permanent configuration.
pub(super) struct ZoneThing;
pub(super) static ZONE: ZoneThing = ZoneThing;

impl ZoneThing {
    fn of_key(key: &Value) -> (&str, &str) {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        (text("kind"), text("name"))
    }

    fn table(kind: &str) -> &'static [(&'static str, &'static str)] {
        if kind == "zone" { &LISTS } else { &SERVICE }
    }
}

impl Thing for ZoneThing {
    fn kind(&self) -> &'static str {
        "firewalld"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let (kind, name) = Self::of_key(key);
        let tools = scene.tools();
        if !cmd(&tools, &["--permanent", &format!("--get-{kind}s")])?.split_whitespace().any(|k| k == name) {
            return Ok(Value::Null);
        }
        let at = format!("--{kind}={name}");
        let mut found = Map::new();
        let verb = if kind == "zone" { "list" } else { "get" };
        for (key, option) in Self::table(kind) {
            let text = cmd(&tools, &["--permanent", &at, &format!("--{verb}-{option}s")])?;
            found.insert(*key, items(&text, option).into_iter().map(Value::from).collect::<Value>());
        }
        if kind == "zone" {
            found.insert(
                "masquerade",
                tools.ask("firewall-cmd", &["--permanent", &at, "--query-masquerade"])?.is_fine(),
            );
            found.insert("default", cmd(&tools, &["--get-default-zone"])?.trim());
        }
        Ok(found.into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let (kind, name) = Self::of_key(key);
        let tools = scene.tools();
        if to.is_null() {
            cmd(&tools, &["--permanent", &format!("--delete-{kind}={name}")])?;
        } else {
            let kind = if kind == "zone" { "zone" } else { "service" };
            let set = |key: &str| {
                to.get(key)
                    .and_then(Value::as_list)
                    .map(|l| l.iter().filter_map(Value::as_str).map(str::to_owned).collect::<BTreeSet<_>>())
            };
            let lists =
                Self::table(kind).iter().map(|(key, _)| (*key, set(key).unwrap_or_default(), true)).collect();
            let masquerade = to.get("masquerade").map(Value::is_truthy);
            let zone = Zone { kind, name: name.to_owned(), lists, masquerade, default: false };
            for words in zone.differs(&tools)?.1 {
                cmd(&tools, &words)?;
            }
            if let Some(default) = to.get("default").and_then(Value::as_str) {
                cmd(&tools, &[format!("--set-default-zone={default}")])?;
            }
        }
        cmd(&tools, &["--reload"]).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_forwards() {
        assert_eq!(forward("22:2222:tcp").unwrap(), "port=22:proto=tcp:toport=2222:toaddr=");
        assert_eq!(forward("22:2222:tcp:10.0.0.1").unwrap(), "port=22:proto=tcp:toport=2222:toaddr=10.0.0.1");
        assert!(forward("22").is_err());
        assert_eq!(items("ssh dhcpv6-client\n", "service").len(), 2);
        assert_eq!(items("rule family=\"ipv4\" accept\nrule x\n", "rich-rule").len(), 2);
    }
}
