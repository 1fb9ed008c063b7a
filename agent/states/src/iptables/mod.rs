//! States of the module `iptables`: rules, chains and policies, by `iptables` and `ip6tables`.
//!
//! Law: a chain as a whole is what a revert puts back, so that every rule finds its place again.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use crate::file::parents;
use crate::shared::netfilter;
use crate::shared::netfilter::{IptablesChain, display_words, iptables_rule};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable, Verdict,
};
use zagent_host::Tools;
use zagent_host::fs::FileMeta;

/// The module `iptables`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "iptables",
    build,
    functions: &[],
    undo: &[&IPTABLES_CHAIN_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let act = match fun {
        "append" => IptablesFunction::Append,
        "insert" => IptablesFunction::Insert,
        "delete" => IptablesFunction::Delete,
        "set_policy" => IptablesFunction::Policy,
        "flush" => IptablesFunction::Flush,
        "chain_present" => IptablesFunction::ChainPresent,
        "chain_absent" => IptablesFunction::ChainAbsent,
        _ => return None,
    };
    Some(IptablesState::from_args(act, args).map(|s| Box::new(s) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IptablesFunction {
    Append,
    Insert,
    Delete,
    Policy,
    Flush,
    ChainPresent,
    ChainAbsent,
}

/// One thing to do with a chain.
struct IptablesItem {
    name: String,
    chain: IptablesChain,
    rule: Vec<String>,
    position: Option<i64>,
    policy: String,
}

struct IptablesState {
    function: IptablesFunction,
    items: Vec<IptablesItem>,
    /// Where the rules are saved; an empty path stands for where the system keeps them.
    save: Option<PathBuf>,
}

impl IptablesState {
    fn from_args(act: IptablesFunction, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
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
            items.push(IptablesItem::from_map(act, map, &args.name())?);
        }
        Ok(Self { function: act, items, save })
    }

    /// What is said of an item: before it is done, after, or when there is nothing to do.
    fn comment(&self, item: &IptablesItem, which: IptablesComment) -> String {
        let IptablesChain { family, table, name: chain } = &item.chain;
        let (name, policy) = (&item.name, &item.policy);
        let command = item.rule_command(self.function);
        match (self.function, which) {
            (IptablesFunction::Append, IptablesComment::InSync) => {
                format!("iptables rule for {name} already set ({command}) for {family}")
            }
            (IptablesFunction::Append, IptablesComment::Preview) => {
                format!("iptables rule for {name} needs to be set ({command}) for {family}")
            }
            (IptablesFunction::Insert, IptablesComment::InSync) => {
                format!("iptables rule for {name} already set for {family} ({command})")
            }
            (IptablesFunction::Insert, IptablesComment::Preview) => {
                format!("iptables rule for {name} needs to be set for {family} ({command})")
            }
            (IptablesFunction::Append | IptablesFunction::Insert, IptablesComment::Applied) => {
                format!("Set iptables rule for {name} to: {command} for {family}")
            }
            (IptablesFunction::Delete, IptablesComment::InSync) => {
                format!("iptables rule for {name} already absent for {family} ({command})")
            }
            (IptablesFunction::Delete, IptablesComment::Preview) => {
                format!("iptables rule for {name} needs to be deleted for {family} ({command})")
            }
            (IptablesFunction::Delete, IptablesComment::Applied) => {
                format!("Delete iptables rule for {name} {command}")
            }
            (IptablesFunction::Policy, IptablesComment::InSync) => format!(
                "iptables default policy for chain {chain} on table {table} for {family} already set to {policy}"
            ),
            (IptablesFunction::Policy, IptablesComment::Preview) => format!(
                "iptables default policy for chain {chain} on table {table} for {family} needs to be set to {policy}"
            ),
            (IptablesFunction::Policy, IptablesComment::Applied) => {
                format!("Set default policy for {chain} to {policy} family {family}")
            }
            (IptablesFunction::Flush, IptablesComment::InSync) => {
                format!("There are no iptables rules in {table} table {chain} chain {family} family")
            }
            (IptablesFunction::Flush, IptablesComment::Preview) => {
                format!("iptables rules in {table} table {chain} chain {family} family needs to be flushed")
            }
            (IptablesFunction::Flush, IptablesComment::Applied) => {
                format!("Flush iptables rules in {table} table {chain} chain {family} family")
            }
            (IptablesFunction::ChainPresent, IptablesComment::InSync) => {
                format!("iptables {chain} chain is already exist in {table} table for {family}")
            }
            (IptablesFunction::ChainPresent, IptablesComment::Preview) => {
                format!("iptables {chain} chain in {table} table needs to be set for {family}")
            }
            (IptablesFunction::ChainPresent, IptablesComment::Applied) => {
                format!("iptables {chain} chain in {table} table create success for {family}")
            }
            (IptablesFunction::ChainAbsent, IptablesComment::InSync) => {
                format!("iptables {chain} chain is already absent in {table} table for {family}")
            }
            (IptablesFunction::ChainAbsent, IptablesComment::Preview) => {
                format!("iptables {chain} chain in {table} table needs to be removed {family}")
            }
            (IptablesFunction::ChainAbsent, IptablesComment::Applied) => {
                format!("iptables {chain} chain in {table} table delete success for {family}")
            }
        }
    }

    /// Whether the rules that are saved differ from those that hold, and where and what should be there.
    fn find_unsaved(&self, ctx: &StateCtx<'_>) -> Result<Option<(PathBuf, String)>, StateError> {
        let Some(save) = &self.save else { return Ok(None) };
        let family = &self.items[0].chain.family;
        let path = if save.as_os_str().is_empty() { rules_path(ctx, family)?.into() } else { save.clone() };
        let now = netfilter::iptables_save(&ctx.tools(), family)?;
        let kept = match ctx.fs.stat(&path)? {
            Some(_) => String::from_utf8_lossy(&ctx.fs.read(&path)?).into_owned(),
            None => String::new(),
        };
        Ok((strip_counters(&kept) != strip_counters(&now)).then_some((path, now)))
    }
}

#[derive(Clone, Copy)]
enum IptablesComment {
    InSync,
    Preview,
    Applied,
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

impl IptablesItem {
    fn from_map(act: IptablesFunction, map: &Map, id: &str) -> Result<Self, StateError> {
        let text = |key: &str| map.get(key).filter(|v| !v.is_null()).map(zagent_config::value::python_str);
        let name = text("name").unwrap_or_else(|| id.to_owned());
        let family = text("family").unwrap_or_else(|| "ipv4".into());
        if !matches!(family.as_str(), "ipv4" | "ipv6") {
            return Err(StateError::new(format!("`family` is ipv4 or ipv6, not {family}")));
        }
        let chain = match act {
            IptablesFunction::ChainPresent | IptablesFunction::ChainAbsent => name.clone(),
            IptablesFunction::Flush => text("chain").unwrap_or_default(),
            _ => text("chain").ok_or_else(|| StateError::new("Error: Chain needs to be specified"))?,
        };
        if chain.starts_with('-') || (chain.is_empty() && act != IptablesFunction::Flush) {
            return Err(StateError::new(format!("`{chain}` cannot be the name of a chain")));
        }
        let rule = match act {
            IptablesFunction::Append | IptablesFunction::Insert | IptablesFunction::Delete => {
                iptables_rule(map).map_err(StateError::new)?
            }
            _ => Vec::new(),
        };
        let policy = match (act, text("policy")) {
            (IptablesFunction::Policy, None) => {
                return Err(StateError::new("Error: Policy needs to be specified"));
            }
            (_, policy) => policy.unwrap_or_default(),
        };
        let position = text("position").map(|p| p.trim().parse::<i64>()).transpose();
        let position = position.map_err(|_| StateError::new("`position` must be a whole number"))?;
        let table = text("table").unwrap_or_else(|| "filter".into());
        Ok(Self { name, chain: IptablesChain { family, table, name: chain }, rule, position, policy })
    }

    fn rule_command(&self, act: IptablesFunction) -> String {
        let letter = match act {
            IptablesFunction::Append => "-A",
            IptablesFunction::Insert => "-I",
            _ => "-D",
        };
        let position = self.position.map(|p| p.to_string()).unwrap_or_default();
        let IptablesChain { table, name, .. } = &self.chain;
        format!(
            "{} --wait -t {table} {letter} {name} {position} {}",
            self.chain.program(),
            display_words(&self.rule)
        )
    }

    fn is_in_sync(&self, act: IptablesFunction, tools: &Tools<'_>) -> Result<bool, StateError> {
        Ok(match act {
            IptablesFunction::Append | IptablesFunction::Insert => self.chain.has_rule(tools, &self.rule)?,
            IptablesFunction::Delete if self.rule.is_empty() => {
                let rules = self.chain.list_rules(tools)?.unwrap_or_default();
                let count = rules.iter().filter(|l| l.starts_with("-A")).count();
                self.position.is_none_or(|p| usize::try_from(p).map_or(true, |p| p > count))
            }
            IptablesFunction::Delete => !self.chain.has_rule(tools, &self.rule)?,
            IptablesFunction::Policy => self.chain.policy(tools)?.as_deref() == Some(&self.policy),
            IptablesFunction::Flush => {
                !self.chain.list_rules(tools)?.unwrap_or_default().iter().any(|l| l.starts_with("-A"))
            }
            IptablesFunction::ChainPresent => self.chain.list_rules(tools)?.is_some(),
            IptablesFunction::ChainAbsent => self.chain.list_rules(tools)?.is_none(),
        })
    }

    fn run_function(&self, act: IptablesFunction, tools: &Tools<'_>) -> Result<(), StateError> {
        let chain = self.chain.name.clone();
        let mut words: Vec<Vec<String>> = Vec::new();
        let with_rule =
            |head: Vec<String>| head.into_iter().chain(self.rule.iter().cloned()).collect::<Vec<_>>();
        match act {
            IptablesFunction::Append => words.push(with_rule(vec!["-A".into(), chain])),
            IptablesFunction::Insert => {
                let mut position = self.position.unwrap_or(1);
                if position < 1 {
                    let rules = self.chain.list_rules(tools)?.unwrap_or_default();
                    let count = rules.iter().filter(|l| l.starts_with("-A")).count();
                    position = (i64::try_from(count).unwrap_or(0) + position + 1).max(1);
                }
                words.push(with_rule(vec!["-I".into(), chain, position.to_string()]));
            }
            IptablesFunction::Delete => match self.position {
                Some(position) => words.push(vec!["-D".into(), chain, position.to_string()]),
                None => words.push(with_rule(vec!["-D".into(), chain])),
            },
            IptablesFunction::Policy => words.push(vec!["-P".into(), chain, self.policy.clone()]),
            IptablesFunction::Flush if chain.is_empty() => words.push(vec!["-F".into()]),
            IptablesFunction::Flush => words.push(vec!["-F".into(), chain]),
            IptablesFunction::ChainPresent => words.push(vec!["-N".into(), chain]),
            IptablesFunction::ChainAbsent => {
                words.extend([vec!["-F".into(), chain.clone()], vec!["-X".into(), chain]])
            }
        }
        for line in words {
            self.chain.run_checked(tools, &line)?;
        }
        Ok(())
    }
}

impl State for IptablesState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let tools = ctx.tools();
        let (mut said, mut names) = (Vec::new(), Vec::new());
        for item in &self.items {
            let right = item.is_in_sync(self.function, &tools)?;
            said.push(
                self.comment(item, if right { IptablesComment::InSync } else { IptablesComment::Preview }),
            );
            if !right {
                names.push(Value::from(item.name.as_str()));
            }
        }
        let mut changes = Map::new();
        if let Some(first) = names.first().cloned() {
            changes.insert("locale", if self.items.len() == 1 { first } else { names.into() });
        } else if let Some((path, _)) = self.find_unsaved(ctx)? {
            changes.insert("saved", path.display().to_string());
            said.push(format!("The rules would be saved in {}", path.display()));
        }
        let comment = said.join("\n");
        Ok(if changes.is_empty() {
            CheckResult::in_sync(comment)
        } else {
            CheckResult::drifted(comment, changes)
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let look = self.check(ctx)?;
        let tools = ctx.tools();
        let mut said = Vec::new();
        for item in &self.items {
            if item.is_in_sync(self.function, &tools)? {
                said.push(self.comment(item, IptablesComment::InSync));
                continue;
            }
            ctx.with_undo(&IPTABLES_CHAIN_UNDO, chain_key(&item.chain), || {
                item.run_function(self.function, &tools)
            })?;
            said.push(self.comment(item, IptablesComment::Applied));
        }
        if let Some((path, rules)) = self.find_unsaved(ctx)? {
            parents::make_parents(ctx, &path, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
            ctx.fs.write(&path, rules.as_bytes(), FileMeta::default())?;
            said.push(format!("Saved in {}", path.display()));
        }
        Ok(ApplyResult::new(said.join("\n"), look.changes))
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Firewall]
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::PACKAGE_FILES | Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        // One more rule makes no other one come or go.
        match self.function {
            IptablesFunction::Delete | IptablesFunction::Flush | IptablesFunction::ChainAbsent => {
                Effects::KERNEL
            }
            _ => Effects::NONE,
        }
    }

    fn still_valid(&self, look: &CheckResult, hidden: Effects) -> bool {
        let grows = !matches!(
            self.function,
            IptablesFunction::Delete | IptablesFunction::Flush | IptablesFunction::ChainAbsent
        );
        look.verdict == Verdict::Drifted
            && grows
            && (hidden & (Effects::PACKAGE_FILES | Effects::PACKAGES)).is_none()
    }
}

fn chain_key(chain: &IptablesChain) -> Value {
    let IptablesChain { family, table, name } = chain;
    Map::from_iter([("family", family.as_str()), ("table", table.as_str()), ("chain", name.as_str())]).into()
}

/// A chain, or a whole table: policies and rules in order.
pub struct IptablesChainUndo;
pub static IPTABLES_CHAIN_UNDO: IptablesChainUndo = IptablesChainUndo;

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
    fn a_chain_on_its_way_back() {
        let chain = IptablesChain { family: "ipv4".into(), table: "filter".into(), name: "INPUT".into() };
        let text = restore_input(&chain, &["-P INPUT DROP", "-A INPUT -p tcp -j ACCEPT"]);
        assert_eq!(text, "*filter\n:INPUT DROP [0:0]\n-F INPUT\n-A INPUT -p tcp -j ACCEPT\nCOMMIT\n");
    }
}
