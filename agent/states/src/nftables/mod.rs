//! States of the module `nftables`: rules, chains, tables and policies, by `nft`.
//!
//! A revert restores a table as a whole.

pub(crate) mod rule;

use std::path::PathBuf;

pub(crate) mod functions;

use zagent_config::{Map, Value};

use self::rule::{nft_family, nft_rule, normalize_nft_rule};
use crate::shared::netfilter::{FirewallFunction, FirewallItem, FirewallNames, FirewallState, SaveTarget};
use crate::{BuildResult, ChunkArgs, State, StateCtx, StateError, StateModule, Undoable};
use zagent_host::Tools;

/// Where Debian keeps the rules; a directory elsewhere.
const DEBIAN_CONF: &str = "/etc/nftables.conf";

/// The module `nftables`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "nftables",
    build,
    functions: functions::TABLE,
    undo: &[&NFT_TABLE_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let function = FirewallFunction::from_name(fun)?;
    let save = args.flag("save", false).then_some(SaveTarget::System);
    let state = |item| Box::new(FirewallState { function, items: vec![item], save }) as Box<dyn State>;
    Some(NftablesItem::from_args(function, args).map(state))
}

/// A rule, chain or table.
struct NftablesItem {
    names: FirewallNames,
    /// The family as `nft` calls it.
    kind: &'static str,
    rule: String,
    position: Option<String>,
    /// What makes a chain a base chain.
    hook: Option<String>,
    lenient: bool,
}

/// A chain as `nft` lists it.
#[derive(Default)]
struct NftChain {
    /// The line with type, hook and policy.
    base: Option<String>,
    /// Rules and their handles.
    rules: Vec<(String, String)>,
}

impl NftablesItem {
    fn from_args(function: FirewallFunction, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let family = args.text("family")?.unwrap_or_else(|| "ipv4".into());
        let kind =
            nft_family(&family).ok_or_else(|| StateError::new(format!("there is no family `{family}`")))?;
        let named = |key: &str| args.text(key).map(|t| t.unwrap_or_default());
        let name = args.name();
        let mut table = args.text("table")?.unwrap_or_else(|| "filter".into());
        let mut chain = named("chain")?;
        match function {
            FirewallFunction::TablePresent | FirewallFunction::TableAbsent => table.clone_from(&name),
            FirewallFunction::ChainPresent | FirewallFunction::ChainAbsent => chain.clone_from(&name),
            FirewallFunction::Flush => {}
            _ if chain.is_empty() => return Err(StateError::new("Chain needs to be specified")),
            _ => {}
        }
        for word in [&table, &chain] {
            if word.starts_with('-') || word.contains(['{', '}', ';', ' ', '\n']) {
                return Err(StateError::new(format!("`{word}` cannot be the name of a table or chain")));
            }
        }
        let (kind_of, hook, priority) =
            (args.text("table_type")?, args.text("hook")?, args.text("priority")?);
        let hook = match (kind_of, hook, priority) {
            (None, None, None) => None,
            (Some(t), Some(h), Some(p)) => Some(format!("type {t} hook {h} priority {p};")),
            _ => return Err(StateError::new("Table_type, hook, and priority required.")),
        };
        let policy = named("policy")?;
        if function == FirewallFunction::Policy && policy.is_empty() {
            return Err(StateError::new("Policy needs to be specified"));
        }
        Ok(Self {
            rule: nft_rule(&args.chunk.args, kind),
            position: args.text("position")?,
            lenient: args.flag("ignore_absence", false),
            kind,
            names: FirewallNames { name, family, table, chain, policy },
            hook,
        })
    }

    fn chain_address(&self) -> String {
        format!("{} {} {}", self.kind, self.names.table, self.names.chain).trim_end().to_owned()
    }

    fn has_table(&self, tools: &Tools<'_>) -> Result<bool, StateError> {
        let said = tools.run_query("nft", &["list", "tables", self.kind])?;
        if !said.is_success() {
            return Err(StateError::new(said.message()));
        }
        let line = format!("table {} {}", self.kind, self.names.table);
        Ok(said.stdout.lines().any(|l| l.trim() == line))
    }

    /// The chain; nothing when it is not there.
    fn list_chain(&self, tools: &Tools<'_>) -> Result<Option<NftChain>, StateError> {
        if !self.has_table(tools)? {
            return Ok(None);
        }
        let said = tools.run_query("nft", &["--handle", "list", "table", self.kind, &self.names.table])?;
        if !said.is_success() {
            return Err(StateError::new(said.message()));
        }
        Ok(parse_chain(&said.stdout, &self.names.chain))
    }

    fn find_handle(&self, tools: &Tools<'_>) -> Result<Option<String>, StateError> {
        let want = normalize_nft_rule(&self.rule);
        let listed = self.list_chain(tools)?.unwrap_or_default();
        Ok(listed
            .rules
            .into_iter()
            .find(|(rule, _)| normalize_nft_rule(rule) == want)
            .map(|(_, handle)| handle))
    }
}

impl FirewallItem for NftablesItem {
    /// The lines that `nft` reads.
    type Commands = String;

    const MODULE: &'static str = "nftables";

    fn names(&self) -> &FirewallNames {
        &self.names
    }

    fn command_text(&self, function: FirewallFunction) -> String {
        let verb = match function {
            FirewallFunction::Insert => "insert",
            FirewallFunction::Append => "add",
            _ => "D",
        };
        format!("nft {verb} rule {} {}", self.chain_address(), self.rule)
    }

    fn preview_comment(function: FirewallFunction) -> Option<&'static str> {
        match function {
            FirewallFunction::Flush => {
                Some("{module} rules in {table} table {chain} chain {family} family would be flushed")
            }
            FirewallFunction::ChainPresent => {
                Some("{module} chain {chain} would be created in table {table} for family {family}")
            }
            FirewallFunction::ChainAbsent => {
                Some("{module} chain {chain} would be deleted from table {table} for family {family}")
            }
            _ => None,
        }
    }

    fn is_in_sync(&self, function: FirewallFunction, tools: &Tools<'_>) -> Result<bool, StateError> {
        Ok(match function {
            FirewallFunction::Append | FirewallFunction::Insert => self.find_handle(tools)?.is_some(),
            FirewallFunction::Delete => self.find_handle(tools)?.is_none(),
            FirewallFunction::Policy => {
                let base = self.list_chain(tools)?.and_then(|l| l.base).unwrap_or_default();
                base.contains(&format!("policy {};", self.names.policy.to_lowercase()))
            }
            FirewallFunction::Flush => {
                let there = if self.names.chain.is_empty() {
                    self.has_table(tools)?
                } else {
                    self.list_chain(tools)?.is_some()
                };
                if !there && !self.lenient {
                    let what = if self.names.chain.is_empty() { "table" } else { "chain" };
                    return Err(StateError::new(format!(
                        "Failed to flush {what} {}, {what} does not exist.",
                        self.chain_address()
                    )));
                }
                let text = if there {
                    tools
                        .run_query("nft", &["--handle", "list", "table", self.kind, &self.names.table])?
                        .stdout
                } else {
                    String::new()
                };
                !there
                    || (split_chains(&text).filter(|c| self.names.chain.is_empty() || *c == self.names.chain))
                        .all(|c| parse_chain(&text, c).is_none_or(|l| l.rules.is_empty()))
            }
            FirewallFunction::ChainPresent => self.list_chain(tools)?.is_some(),
            FirewallFunction::ChainAbsent => self.list_chain(tools)?.is_none(),
            FirewallFunction::TablePresent => self.has_table(tools)?,
            FirewallFunction::TableAbsent => !self.has_table(tools)?,
        })
    }

    fn commands(&self, function: FirewallFunction, tools: &Tools<'_>) -> Result<String, StateError> {
        let (target, rule) = (self.chain_address(), &self.rule);
        Ok(match function {
            FirewallFunction::Append => format!("add rule {target} {rule}"),
            FirewallFunction::Insert => {
                match self.position.as_deref().filter(|p| !matches!(*p, "0" | "1" | "")) {
                    Some(position) => format!("insert rule {target} position {position} {rule}"),
                    None => format!("insert rule {target} {rule}"),
                }
            }
            FirewallFunction::Delete => {
                let handle = match &self.position {
                    Some(position) => position.clone(),
                    None => self.find_handle(tools)?.unwrap_or_default(),
                };
                format!("delete rule {target} handle {handle}")
            }
            FirewallFunction::Policy => {
                let base = self.list_chain(tools)?.and_then(|l| l.base);
                let base = base.ok_or_else(|| {
                    StateError::new("Failed to set nftables default policy: it is no base chain")
                })?;
                let hook = base.split("policy").next().unwrap_or(&base).trim();
                format!("add chain {target} {{ {hook} policy {}; }}", self.names.policy.to_lowercase())
            }
            FirewallFunction::Flush if self.names.chain.is_empty() => format!("flush table {target}"),
            FirewallFunction::Flush => format!("flush chain {target}"),
            FirewallFunction::ChainPresent => match &self.hook {
                Some(hook) => format!("add chain {target} {{ {hook} }}"),
                None => format!("add chain {target}"),
            },
            FirewallFunction::ChainAbsent => format!("flush chain {target}\ndelete chain {target}"),
            FirewallFunction::TablePresent => format!("add table {} {}", self.kind, self.names.table),
            FirewallFunction::TableAbsent => format!("delete table {} {}", self.kind, self.names.table),
        })
    }

    fn run(&self, script: &String, tools: &Tools<'_>) -> Result<(), StateError> {
        run_script(tools, script)
    }

    fn undo_target(&self) -> (&'static dyn Undoable, Value) {
        let key = Map::from_iter([("family", self.kind), ("table", self.names.table.as_str())]);
        (&NFT_TABLE_UNDO, key.into())
    }

    /// Saved after a change alone, and then always.
    fn find_unsaved(
        &self,
        _: &SaveTarget,
        is_applied: bool,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<(PathBuf, String)>, StateError> {
        if !is_applied {
            return Ok(None);
        }
        let rules = ctx.tools().run_checked("nft", &["-s", "list", "ruleset"])?.stdout;
        let text = format!("#!/usr/sbin/nft -f\n\nflush ruleset\n\n{rules}");
        Ok(Some((PathBuf::from(DEBIAN_CONF), text)))
    }
}

/// The chains of a listed table.
fn split_chains(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|l| l.trim().strip_prefix("chain ")?.split(' ').next())
}

/// One chain of a listed table.
fn parse_chain(text: &str, chain: &str) -> Option<NftChain> {
    let mut lines = text.lines().map(str::trim);
    lines.by_ref().find(|l| l.strip_prefix("chain ").is_some_and(|l| l.split(' ').next() == Some(chain)))?;
    let mut listed = NftChain::default();
    for line in lines.take_while(|l| !l.starts_with('}')) {
        match line.rsplit_once(" # handle ") {
            Some((rule, handle)) => listed.rules.push((rule.trim().to_owned(), handle.trim().to_owned())),
            None if line.starts_with("type ") => listed.base = Some(line.to_owned()),
            None => {}
        }
    }
    Some(listed)
}

fn run_script(tools: &Tools<'_>, script: &str) -> Result<(), StateError> {
    let mut command = Tools::command("nft", &["-f", "-"], std::time::Duration::from_secs(60));
    command.stdin = script.as_bytes().to_vec();
    let said = tools.run(command)?;
    if said.is_success() { Ok(()) } else { Err(StateError::new(said.message())) }
}

/// A table with all that is in it.
pub(crate) struct NftTableUndo;
pub(crate) static NFT_TABLE_UNDO: NftTableUndo = NftTableUndo;

impl Undoable for NftTableUndo {
    fn kind(&self) -> &'static str {
        "nftables_table"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        let said = ctx.tools().run_query("nft", &["-s", "list", "table", text("family"), text("table")])?;
        if said.is_success() {
            return Ok(said.stdout.into());
        }
        if said.message().contains("No such file or directory") {
            return Ok(Value::Null);
        }
        Err(StateError::new(said.message()))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        let table = format!("table {} {}", text("family"), text("table"));
        // Adding what may be there already makes sure that it can be deleted.
        let script = format!("add {table}\ndelete {table}\n{}", to.as_str().unwrap_or_default());
        run_script(&ctx.tools(), &script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_a_listing() {
        let text = "table ip filter { # handle 3\n\tchain in { # handle 1\n\t\ttype filter hook input priority 0; policy accept;\n\t\ttcp dport 22 accept # handle 4\n\t}\n\n\tchain other { # handle 2\n\t}\n}\n";
        let listed = parse_chain(text, "in").unwrap();
        assert_eq!(listed.rules, [("tcp dport 22 accept".to_owned(), "4".to_owned())]);
        assert!(listed.base.unwrap().ends_with("policy accept;"));
        assert!(parse_chain(text, "other").unwrap().rules.is_empty());
        assert!(parse_chain(text, "none").is_none());
        assert_eq!(split_chains(text).collect::<Vec<_>>(), ["in", "other"]);
    }
}
