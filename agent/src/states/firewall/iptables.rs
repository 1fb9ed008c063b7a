//! States of the module `iptables`: rules, chains and policies, by `iptables` and `ip6tables`.
//!
//! Law: a chain as a whole is what a revert puts back, so that every rule finds its place again.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use super::super::file::parents;
use super::super::{Args, Built, Done, Failure, Look, Resource, Scene, Standing, State, Thing, Veil};
use crate::fs::Meta;
use crate::host::Tools;
use crate::host::netfilter::{self, Chain, iptables_rule, shown};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let act = match fun {
        "append" => Act::Append,
        "insert" => Act::Insert,
        "delete" => Act::Delete,
        "set_policy" => Act::Policy,
        "flush" => Act::Flush,
        "chain_present" => Act::Make,
        "chain_absent" => Act::Drop,
        _ => return None,
    };
    Some(Tables::read(act, args).map(|s| Box::new(s) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Append,
    Insert,
    Delete,
    Policy,
    Flush,
    Make,
    Drop,
}

/// One thing to do with a chain.
struct Item {
    name: String,
    chain: Chain,
    rule: Vec<String>,
    position: Option<i64>,
    policy: String,
}

struct Tables {
    act: Act,
    items: Vec<Item>,
    /// Where the rules are saved; an empty path stands for where the system keeps them.
    save: Option<PathBuf>,
}

impl Tables {
    fn read(act: Act, args: &Args<'_>) -> Result<Self, Failure> {
        let mut maps: Vec<Map> = Vec::new();
        match args.get("rules") {
            Some(Value::List(rules)) => maps.extend(rules.iter().filter_map(Value::as_map).cloned()),
            _ => maps.push(args.chunk.args.clone()),
        }
        let mut save = None;
        let mut items = Vec::new();
        for map in &maps {
            match map.get("save") {
                Some(Value::Str(path)) => save = Some(PathBuf::from(&**path)),
                Some(Value::Bool(true)) => save = Some(PathBuf::new()),
                _ => {}
            }
            items.push(Item::read(act, map, &args.name())?);
        }
        Ok(Self { act, items, save })
    }

    /// What is said of an item: before it is done, after, or when there is nothing to do.
    fn words(&self, item: &Item, which: Which) -> String {
        let Chain { family, table, name: chain } = &item.chain;
        let (name, policy) = (&item.name, &item.policy);
        let command = item.command(self.act);
        match (self.act, which) {
            (Act::Append, Which::Right) => {
                format!("iptables rule for {name} already set ({command}) for {family}")
            }
            (Act::Append, Which::Would) => {
                format!("iptables rule for {name} needs to be set ({command}) for {family}")
            }
            (Act::Insert, Which::Right) => {
                format!("iptables rule for {name} already set for {family} ({command})")
            }
            (Act::Insert, Which::Would) => {
                format!("iptables rule for {name} needs to be set for {family} ({command})")
            }
            (Act::Append | Act::Insert, Which::Did) => {
                format!("Set iptables rule for {name} to: {command} for {family}")
            }
            (Act::Delete, Which::Right) => {
                format!("iptables rule for {name} already absent for {family} ({command})")
            }
            (Act::Delete, Which::Would) => {
                format!("iptables rule for {name} needs to be deleted for {family} ({command})")
            }
            (Act::Delete, Which::Did) => format!("Delete iptables rule for {name} {command}"),
            (Act::Policy, Which::Right) => format!(
                "iptables default policy for chain {chain} on table {table} for {family} already set to {policy}"
            ),
            (Act::Policy, Which::Would) => format!(
                "iptables default policy for chain {chain} on table {table} for {family} needs to be set to {policy}"
            ),
            (Act::Policy, Which::Did) => {
                format!("Set default policy for {chain} to {policy} family {family}")
            }
            (Act::Flush, Which::Right) => {
                format!("There are no iptables rules in {table} table {chain} chain {family} family")
            }
            (Act::Flush, Which::Would) => {
                format!("iptables rules in {table} table {chain} chain {family} family needs to be flushed")
            }
            (Act::Flush, Which::Did) => {
                format!("Flush iptables rules in {table} table {chain} chain {family} family")
            }
            (Act::Make, Which::Right) => {
                format!("iptables {chain} chain is already exist in {table} table for {family}")
            }
            (Act::Make, Which::Would) => {
                format!("iptables {chain} chain in {table} table needs to be set for {family}")
            }
            (Act::Make, Which::Did) => {
                format!("iptables {chain} chain in {table} table create success for {family}")
            }
            (Act::Drop, Which::Right) => {
                format!("iptables {chain} chain is already absent in {table} table for {family}")
            }
            (Act::Drop, Which::Would) => {
                format!("iptables {chain} chain in {table} table needs to be removed {family}")
            }
            (Act::Drop, Which::Did) => {
                format!("iptables {chain} chain in {table} table delete success for {family}")
            }
        }
    }

    /// Whether the rules that are saved differ from those that hold, and where and what should be there.
    fn unsaved(&self, scene: &Scene<'_>) -> Result<Option<(PathBuf, String)>, Failure> {
        let Some(save) = &self.save else { return Ok(None) };
        let family = &self.items[0].chain.family;
        let path = if save.as_os_str().is_empty() { conf(scene, family)?.into() } else { save.clone() };
        let now = netfilter::iptables_saved(&scene.tools(), family)?;
        let kept = match scene.fs.stat(&path)? {
            Some(_) => String::from_utf8_lossy(&scene.fs.read(&path)?).into_owned(),
            None => String::new(),
        };
        Ok((plain(&kept) != plain(&now)).then_some((path, now)))
    }
}

#[derive(Clone, Copy)]
enum Which {
    Right,
    Would,
    Did,
}

/// Rules without their comments and counters.
fn plain(saved: &str) -> Vec<&str> {
    let lines = saved.lines().filter(|l| l.starts_with(['*', ':', '-']));
    lines.map(|l| if l.starts_with(':') { l.split(" [").next().unwrap_or(l) } else { l }).collect()
}

/// Where the system keeps the rules.
fn conf(scene: &Scene<'_>, family: &str) -> Result<&'static str, Failure> {
    let grain =
        |name: &str| scene.host.grain(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let places = match (grain("os_family").as_str(), grain("os").as_str()) {
        ("RedHat", _) => ["/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"],
        ("Arch" | "Void", _) => ["/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"],
        ("Debian", _) => ["/etc/iptables/rules.v4", "/etc/iptables/rules.v6"],
        (_, "Gentoo") => ["/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"],
        (_, "Alpine") => ["/etc/iptables/rules-save", "/etc/iptables/rules6-save"],
        (_, os) => {
            let words =
                format!("Saving iptables to file is not supported on {os}: give `save` the path of a file");
            return Err(Failure::new(words));
        }
    };
    Ok(places[usize::from(family == "ipv6")])
}

impl Item {
    fn read(act: Act, map: &Map, id: &str) -> Result<Self, Failure> {
        let text = |key: &str| map.get(key).filter(|v| !v.is_null()).map(zagent_compiler::yaml::python_str);
        let name = text("name").unwrap_or_else(|| id.to_owned());
        let family = text("family").unwrap_or_else(|| "ipv4".into());
        if !matches!(family.as_str(), "ipv4" | "ipv6") {
            return Err(Failure::new(format!("`family` is ipv4 or ipv6, not {family}")));
        }
        let chain = match act {
            Act::Make | Act::Drop => name.clone(),
            Act::Flush => text("chain").unwrap_or_default(),
            _ => text("chain").ok_or_else(|| Failure::new("Error: Chain needs to be specified"))?,
        };
        if chain.starts_with('-') || (chain.is_empty() && act != Act::Flush) {
            return Err(Failure::new(format!("`{chain}` cannot be the name of a chain")));
        }
        let rule = match act {
            Act::Append | Act::Insert | Act::Delete => iptables_rule(map).map_err(Failure::new)?,
            _ => Vec::new(),
        };
        let policy = match (act, text("policy")) {
            (Act::Policy, None) => return Err(Failure::new("Error: Policy needs to be specified")),
            (_, policy) => policy.unwrap_or_default(),
        };
        let position = text("position").map(|p| p.trim().parse::<i64>()).transpose();
        let position = position.map_err(|_| Failure::new("`position` must be a whole number"))?;
        let table = text("table").unwrap_or_else(|| "filter".into());
        Ok(Self { name, chain: Chain { family, table, name: chain }, rule, position, policy })
    }

    fn command(&self, act: Act) -> String {
        let letter = match act {
            Act::Append => "-A",
            Act::Insert => "-I",
            _ => "-D",
        };
        let position = self.position.map(|p| p.to_string()).unwrap_or_default();
        let Chain { table, name, .. } = &self.chain;
        format!("{} --wait -t {table} {letter} {name} {position} {}", self.chain.program(), shown(&self.rule))
    }

    fn is_right(&self, act: Act, tools: &Tools<'_>) -> Result<bool, Failure> {
        Ok(match act {
            Act::Append | Act::Insert => self.chain.has(tools, &self.rule)?,
            Act::Delete if self.rule.is_empty() => {
                let rules = self.chain.lines(tools)?.unwrap_or_default();
                let count = rules.iter().filter(|l| l.starts_with("-A")).count();
                self.position.is_none_or(|p| usize::try_from(p).map_or(true, |p| p > count))
            }
            Act::Delete => !self.chain.has(tools, &self.rule)?,
            Act::Policy => self.chain.policy(tools)?.as_deref() == Some(&self.policy),
            Act::Flush => !self.chain.lines(tools)?.unwrap_or_default().iter().any(|l| l.starts_with("-A")),
            Act::Make => self.chain.lines(tools)?.is_some(),
            Act::Drop => self.chain.lines(tools)?.is_none(),
        })
    }

    fn act(&self, act: Act, tools: &Tools<'_>) -> Result<(), Failure> {
        let chain = self.chain.name.clone();
        let mut words: Vec<Vec<String>> = Vec::new();
        let with_rule =
            |head: Vec<String>| head.into_iter().chain(self.rule.iter().cloned()).collect::<Vec<_>>();
        match act {
            Act::Append => words.push(with_rule(vec!["-A".into(), chain])),
            Act::Insert => {
                let mut position = self.position.unwrap_or(1);
                if position < 1 {
                    let rules = self.chain.lines(tools)?.unwrap_or_default();
                    let count = rules.iter().filter(|l| l.starts_with("-A")).count();
                    position = (i64::try_from(count).unwrap_or(0) + position + 1).max(1);
                }
                words.push(with_rule(vec!["-I".into(), chain, position.to_string()]));
            }
            Act::Delete => match self.position {
                Some(position) => words.push(vec!["-D".into(), chain, position.to_string()]),
                None => words.push(with_rule(vec!["-D".into(), chain])),
            },
            Act::Policy => words.push(vec!["-P".into(), chain, self.policy.clone()]),
            Act::Flush if chain.is_empty() => words.push(vec!["-F".into()]),
            Act::Flush => words.push(vec!["-F".into(), chain]),
            Act::Make => words.push(vec!["-N".into(), chain]),
            Act::Drop => words.extend([vec!["-F".into(), chain.clone()], vec!["-X".into(), chain]]),
        }
        for line in words {
            self.chain.must(tools, &line)?;
        }
        Ok(())
    }
}

impl State for Tables {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let tools = scene.tools();
        let (mut said, mut names) = (Vec::new(), Vec::new());
        for item in &self.items {
            let right = item.is_right(self.act, &tools)?;
            said.push(self.words(item, if right { Which::Right } else { Which::Would }));
            if !right {
                names.push(Value::from(item.name.as_str()));
            }
        }
        let mut changes = Map::new();
        if let Some(first) = names.first().cloned() {
            changes.insert("locale", if self.items.len() == 1 { first } else { names.into() });
        } else if let Some((path, _)) = self.unsaved(scene)? {
            changes.insert("saved", path.display().to_string());
            said.push(format!("The rules would be saved in {}", path.display()));
        }
        let comment = said.join("\n");
        Ok(if changes.is_empty() { Look::right(comment) } else { Look::drift(comment, changes) })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let look = self.check(scene)?;
        let tools = scene.tools();
        let mut said = Vec::new();
        for item in &self.items {
            if item.is_right(self.act, &tools)? {
                said.push(self.words(item, Which::Right));
                continue;
            }
            scene.change(&CHAIN, key(&item.chain), || item.act(self.act, &tools))?;
            said.push(self.words(item, Which::Did));
        }
        if let Some((path, rules)) = self.unsaved(scene)? {
            parents::make(scene, &path, Meta { mode: Some(0o755), ..Meta::default() })?;
            scene.fs.write(&path, rules.as_bytes(), Meta::default())?;
            said.push(format!("Saved in {}", path.display()));
        }
        Ok(Done::new(said.join("\n"), look.changes))
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Firewall]
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::BROUGHT | Veil::PACKAGES
    }

    fn veils(&self) -> Veil {
        // One more rule makes no other one come or go.
        match self.act {
            Act::Delete | Act::Flush | Act::Drop => Veil::KERNEL,
            _ => Veil::NONE,
        }
    }

    fn holds(&self, look: &Look, hidden: Veil) -> bool {
        let grows = !matches!(self.act, Act::Delete | Act::Flush | Act::Drop);
        look.standing == Standing::Drift && grows && (hidden & (Veil::BROUGHT | Veil::PACKAGES)).is_none()
    }
}

fn key(chain: &Chain) -> Value {
    let Chain { family, table, name } = chain;
    Map::from_iter([("family", family.as_str()), ("table", table.as_str()), ("chain", name.as_str())]).into()
}

/// A chain, or a whole table: policies and rules in order.
pub(super) struct ChainThing;
pub(super) static CHAIN: ChainThing = ChainThing;

impl ChainThing {
    fn of_key(key: &Value) -> Chain {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Chain { family: text("family"), table: text("table"), name: text("chain") }
    }
}

impl Thing for ChainThing {
    fn kind(&self) -> &'static str {
        "iptables_chain"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let lines = Self::of_key(key).lines(&scene.tools())?;
        Ok(lines.map_or(Value::Null, |l| l.into_iter().map(Value::from).collect()))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let (chain, tools) = (Self::of_key(key), scene.tools());
        let Some(lines) = to.as_list() else {
            chain.must(&tools, &["-F".into(), chain.name.clone()])?;
            return Ok(chain.must(&tools, &["-X".into(), chain.name.clone()])?);
        };
        let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
        let text = restored(&chain, &lines);
        let program = if chain.family == "ipv6" { "ip6tables-restore" } else { "iptables-restore" };
        let flags: &[&str] = if chain.name.is_empty() { &["--wait"] } else { &["--wait", "--noflush"] };
        let mut command = Tools::command(program, flags, std::time::Duration::from_secs(60));
        command.stdin = text.into_bytes();
        let said = tools.run(command)?;
        if said.is_fine() { Ok(()) } else { Err(Failure::new(said.words())) }
    }
}

/// What `iptables-restore` reads, of what `iptables -S` wrote.
fn restored(chain: &Chain, lines: &[&str]) -> String {
    let mut text = format!("*{}\n", chain.table);
    for line in lines {
        if let Some(policy) = line.strip_prefix("-P ") {
            text += &format!(":{policy} [0:0]\n");
        } else if let Some(name) = line.strip_prefix("-N ") {
            text += &format!(":{name} - [0:0]\n");
        }
    }
    if !chain.name.is_empty() {
        text += &format!("-F {}\n", chain.name);
    }
    for line in lines.iter().filter(|l| l.starts_with("-A ")) {
        text += line;
        text.push('\n');
    }
    text + "COMMIT\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_rules_without_counters() {
        let saved = "# Generated\n*filter\n:INPUT ACCEPT [12:34]\n-A INPUT -j DROP\nCOMMIT\n";
        assert_eq!(plain(saved), ["*filter", ":INPUT ACCEPT", "-A INPUT -j DROP"]);
    }

    #[test]
    fn a_chain_on_its_way_back() {
        let chain = Chain { family: "ipv4".into(), table: "filter".into(), name: "INPUT".into() };
        let text = restored(&chain, &["-P INPUT DROP", "-A INPUT -p tcp -j ACCEPT"]);
        assert_eq!(text, "*filter\n:INPUT DROP [0:0]\n-F INPUT\n-A INPUT -p tcp -j ACCEPT\nCOMMIT\n");
    }
}
