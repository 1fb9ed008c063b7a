//! States of the module `iptables`: rules, chains and policies, by `iptables` and `ip6tables`.
//!
//! Law: a revert restores a chain as a whole, so that every rule is in its place again (held by
//! `a_chain_on_its_way_back`).

pub(crate) mod chain;
pub(crate) mod rule;

pub(crate) mod functions;

use std::path::PathBuf;

use zagent_config::{Map, Value};

use self::chain::{IptablesChain, iptables_save};
use self::rule::{display_words, iptables_rule};
use crate::shared::netfilter::{FirewallFunction, FirewallItem, FirewallNames, FirewallState, SaveTarget};
use crate::{BuildResult, ChunkArgs, State, StateCtx, StateError, StateModule, Undoable};
use zagent_host::Tools;

/// The module `iptables`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "iptables",
    build,
    functions: functions::TABLE,
    undo: &[&IPTABLES_CHAIN_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let is_table = |function: &FirewallFunction| {
        matches!(function, FirewallFunction::TablePresent | FirewallFunction::TableAbsent)
    };
    let function = FirewallFunction::from_name(fun).filter(|function| !is_table(function))?;
    Some(state_from_args(function, args).map(|state| Box::new(state) as Box<dyn State>))
}

fn state_from_args(
    function: FirewallFunction,
    args: &ChunkArgs<'_>,
) -> Result<FirewallState<IptablesItem>, StateError> {
    let maps: Vec<Map> = match args.get("rules") {
        Some(Value::List(rules)) => rules.iter().filter_map(Value::as_map).cloned().collect(),
        _ => vec![args.chunk.args.clone()],
    };
    let mut save = None;
    let mut items = Vec::new();
    for map in &maps {
        match map.get("save") {
            Some(Value::Str(path)) if !path.is_empty() => {
                save = Some(SaveTarget::File(PathBuf::from(&**path)));
            }
            Some(Value::Str(_) | Value::Bool(true)) => save = Some(SaveTarget::System),
            _ => {}
        }
        items.push(IptablesItem::from_map(function, map, &args.name())?);
    }
    Ok(FirewallState { function, items, save })
}

/// The place behind all rules of a chain.
const LAST: i64 = 0;

/// A number, counted from the end when it is below one, or `last`.
fn parse_position(text: &str) -> Result<i64, StateError> {
    match text.trim() {
        "last" => Ok(LAST),
        number => number.parse().map_err(|_| {
            StateError::new(format!("`position` must be a whole number or `last`, not `{number}`"))
        }),
    }
}

/// A rule or a chain.
struct IptablesItem {
    names: FirewallNames,
    rule: Vec<String>,
    position: Option<i64>,
}

impl IptablesItem {
    fn from_map(function: FirewallFunction, map: &Map, id: &str) -> Result<Self, StateError> {
        let text = |key: &str| map.get(key).filter(|v| !v.is_null()).map(zagent_config::value::python_str);
        let name = text("name").unwrap_or_else(|| id.to_owned());
        let family = text("family").unwrap_or_else(|| "ipv4".into());
        if !matches!(family.as_str(), "ipv4" | "ipv6") {
            return Err(StateError::new(format!("`family` is ipv4 or ipv6, not {family}")));
        }
        let chain = match function {
            FirewallFunction::ChainPresent | FirewallFunction::ChainAbsent => name.clone(),
            FirewallFunction::Flush => text("chain").unwrap_or_default(),
            _ => text("chain").ok_or_else(|| StateError::new("Error: Chain needs to be specified"))?,
        };
        if chain.starts_with('-') || (chain.is_empty() && function != FirewallFunction::Flush) {
            return Err(StateError::new(format!("`{chain}` cannot be the name of a chain")));
        }
        let rule = match function {
            FirewallFunction::Append | FirewallFunction::Insert | FirewallFunction::Delete => {
                iptables_rule(map).map_err(StateError::new)?
            }
            _ => Vec::new(),
        };
        let policy = match (function, text("policy")) {
            (FirewallFunction::Policy, None) => {
                return Err(StateError::new("Error: Policy needs to be specified"));
            }
            (_, policy) => policy.unwrap_or_default(),
        };
        let position = text("position").map(|p| parse_position(&p)).transpose()?;
        let table = text("table").unwrap_or_else(|| "filter".into());
        Ok(Self { names: FirewallNames { name, family, table, chain, policy }, rule, position })
    }

    fn chain(&self) -> IptablesChain {
        let FirewallNames { family, table, chain, .. } = &self.names;
        IptablesChain { family: family.clone(), table: table.clone(), name: chain.clone() }
    }

    /// The number of rules in the chain.
    fn count_rules(&self, tools: &Tools<'_>) -> Result<usize, StateError> {
        let lines = self.chain().list_rules(tools)?.unwrap_or_default();
        Ok(lines.iter().filter(|line| line.starts_with("-A")).count())
    }
}

impl FirewallItem for IptablesItem {
    type Commands = Vec<Vec<String>>;

    const MODULE: &'static str = "iptables";

    fn names(&self) -> &FirewallNames {
        &self.names
    }

    fn command_text(&self, function: FirewallFunction) -> String {
        let letter = match function {
            FirewallFunction::Append => "-A",
            FirewallFunction::Insert => "-I",
            _ => "-D",
        };
        let position = match self.position {
            Some(LAST) => "last".to_owned(),
            position => position.map(|p| p.to_string()).unwrap_or_default(),
        };
        let chain = self.chain();
        format!(
            "{} --wait -t {} {letter} {} {position} {}",
            chain.program(),
            chain.table,
            chain.name,
            display_words(&self.rule)
        )
    }

    fn is_in_sync(&self, function: FirewallFunction, tools: &Tools<'_>) -> Result<bool, StateError> {
        let chain = self.chain();
        Ok(match function {
            FirewallFunction::Append | FirewallFunction::Insert => chain.has_rule(tools, &self.rule)?,
            FirewallFunction::Delete if self.rule.is_empty() => {
                let count = self.count_rules(tools)?;
                self.position.is_none_or(|p| usize::try_from(p).map_or(true, |p| p > count))
            }
            FirewallFunction::Delete => !chain.has_rule(tools, &self.rule)?,
            FirewallFunction::Policy => chain.policy(tools)?.as_deref() == Some(&self.names.policy),
            FirewallFunction::Flush => self.count_rules(tools)? == 0,
            FirewallFunction::ChainPresent | FirewallFunction::TablePresent => {
                chain.list_rules(tools)?.is_some()
            }
            FirewallFunction::ChainAbsent | FirewallFunction::TableAbsent => {
                chain.list_rules(tools)?.is_none()
            }
        })
    }

    fn commands(
        &self,
        function: FirewallFunction,
        tools: &Tools<'_>,
    ) -> Result<Vec<Vec<String>>, StateError> {
        let chain = self.names.chain.clone();
        let with_rule =
            |head: Vec<String>| head.into_iter().chain(self.rule.iter().cloned()).collect::<Vec<_>>();
        Ok(vec![match function {
            FirewallFunction::Append => with_rule(vec!["-A".into(), chain]),
            FirewallFunction::Insert => {
                let mut position = self.position.unwrap_or(1);
                if position < 1 {
                    let count = self.count_rules(tools)?;
                    position = (i64::try_from(count).unwrap_or(0) + position + 1).max(1);
                }
                with_rule(vec!["-I".into(), chain, position.to_string()])
            }
            FirewallFunction::Delete => match self.position {
                Some(LAST) => vec!["-D".into(), chain, self.count_rules(tools)?.to_string()],
                Some(position) => vec!["-D".into(), chain, position.to_string()],
                None => with_rule(vec!["-D".into(), chain]),
            },
            FirewallFunction::Policy => vec!["-P".into(), chain, self.names.policy.clone()],
            FirewallFunction::Flush if chain.is_empty() => vec!["-F".into()],
            FirewallFunction::Flush => vec!["-F".into(), chain],
            FirewallFunction::ChainPresent | FirewallFunction::TablePresent => vec!["-N".into(), chain],
            FirewallFunction::ChainAbsent | FirewallFunction::TableAbsent => {
                return Ok(vec![vec!["-F".into(), chain.clone()], vec!["-X".into(), chain]]);
            }
        }])
    }

    fn run(&self, commands: &Vec<Vec<String>>, tools: &Tools<'_>) -> Result<(), StateError> {
        let chain = self.chain();
        for words in commands {
            chain.run_checked(tools, words)?;
        }
        Ok(())
    }

    fn undo_target(&self) -> (&'static dyn Undoable, Value) {
        (&IPTABLES_CHAIN_UNDO, chain_key(&self.chain()))
    }

    /// The saved rules are compared with the present ones.
    fn find_unsaved(
        &self,
        target: &SaveTarget,
        _: bool,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<(PathBuf, String)>, StateError> {
        let family = &self.names.family;
        let path = match target {
            SaveTarget::System => rules_path(ctx, family)?.into(),
            SaveTarget::File(path) => path.clone(),
        };
        let now = iptables_save(&ctx.tools(), family)?;
        let kept = match ctx.fs.stat(&path)? {
            Some(_) => String::from_utf8_lossy(&ctx.fs.read(&path)?).into_owned(),
            None => String::new(),
        };
        Ok((strip_counters(&kept) != strip_counters(&now)).then_some((path, now)))
    }
}

/// Rules without their comments and counters.
fn strip_counters(saved: &str) -> Vec<&str> {
    let lines = saved.lines().filter(|l| l.starts_with(['*', ':', '-']));
    lines.map(|l| if l.starts_with(':') { l.split(" [").next().unwrap_or(l) } else { l }).collect()
}

/// Where the system keeps the rules.
fn rules_path(ctx: &StateCtx<'_>, family: &str) -> Result<&'static str, StateError> {
    let grain =
        |name: &str| ctx.host.grain(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let places = match (grain("os_family").as_str(), grain("os").as_str()) {
        ("RedHat", _) => ["/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"],
        ("Arch" | "Void", _) => ["/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"],
        ("Debian", _) => ["/etc/iptables/rules.v4", "/etc/iptables/rules.v6"],
        (_, "Gentoo") => ["/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"],
        (_, "Alpine") => ["/etc/iptables/rules-save", "/etc/iptables/rules6-save"],
        (_, os) => {
            let words =
                format!("Saving iptables to file is not supported on {os}: give `save` the path of a file");
            return Err(StateError::new(words));
        }
    };
    Ok(places[usize::from(family == "ipv6")])
}

fn chain_key(chain: &IptablesChain) -> Value {
    let IptablesChain { family, table, name } = chain;
    Map::from_iter([("family", family.as_str()), ("table", table.as_str()), ("chain", name.as_str())]).into()
}

/// A chain, or a whole table: policies and rules in order.
pub(crate) struct IptablesChainUndo;
pub(crate) static IPTABLES_CHAIN_UNDO: IptablesChainUndo = IptablesChainUndo;

impl IptablesChainUndo {
    fn chain_from_key(key: &Value) -> IptablesChain {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        IptablesChain { family: text("family"), table: text("table"), name: text("chain") }
    }
}

impl Undoable for IptablesChainUndo {
    fn kind(&self) -> &'static str {
        "iptables_chain"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let lines = Self::chain_from_key(key).list_rules(&ctx.tools())?;
        Ok(lines.map_or(Value::Null, |l| l.into_iter().map(Value::from).collect()))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (chain, tools) = (Self::chain_from_key(key), ctx.tools());
        let Some(lines) = to.as_list() else {
            chain.run_checked(&tools, &["-F".into(), chain.name.clone()])?;
            return Ok(chain.run_checked(&tools, &["-X".into(), chain.name.clone()])?);
        };
        let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
        let text = restore_input(&chain, &lines);
        let program = if chain.family == "ipv6" { "ip6tables-restore" } else { "iptables-restore" };
        let flags: &[&str] = if chain.name.is_empty() { &["--wait"] } else { &["--wait", "--noflush"] };
        let mut command = Tools::command(program, flags, std::time::Duration::from_secs(60));
        command.stdin = text.into_bytes();
        let said = tools.run(command)?;
        if said.is_success() { Ok(()) } else { Err(StateError::new(said.message())) }
    }
}

/// What `iptables-restore` reads, of what `iptables -S` wrote.
fn restore_input(chain: &IptablesChain, lines: &[&str]) -> String {
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
        assert_eq!(strip_counters(saved), ["*filter", ":INPUT ACCEPT", "-A INPUT -j DROP"]);
    }

    #[test]
    fn a_position_is_a_number_or_the_last_one() {
        assert_eq!(parse_position("3").ok(), Some(3));
        assert_eq!(parse_position("-1").ok(), Some(-1));
        assert_eq!(parse_position("last").ok(), Some(LAST));
        let words = parse_position("end").unwrap_err().result.comment;
        assert_eq!(words, "`position` must be a whole number or `last`, not `end`");
    }

    #[test]
    fn every_option_is_passed_on() {
        let table =
            zagent_compiler::schema::ParamTable::new(crate::schema().function("iptables", "append").unwrap());
        for option in ["i", "o", "s", "d", "tcp-flags", "limit"] {
            assert!(table.kinds(option).is_some(), "{option}");
        }
        let given = Map::from_iter([("i", "eth0"), ("o", "!eth1"), ("jump", "ACCEPT")]);
        assert_eq!(rule::iptables_rule(&given).unwrap().join(" "), "-i eth0 ! -o eth1 --jump ACCEPT");
    }

    #[test]
    fn a_chain_on_its_way_back() {
        let chain = IptablesChain { family: "ipv4".into(), table: "filter".into(), name: "INPUT".into() };
        let text = restore_input(&chain, &["-P INPUT DROP", "-A INPUT -p tcp -j ACCEPT"]);
        assert_eq!(text, "*filter\n:INPUT DROP [0:0]\n-F INPUT\n-A INPUT -p tcp -j ACCEPT\nCOMMIT\n");
    }
}
