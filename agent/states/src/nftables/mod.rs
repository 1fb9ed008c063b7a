//! States of the module `nftables`: rules, chains, tables and policies, by `nft`.
//!
//! Law: a table as a whole is what a revert puts back.

use zagent_config::{Map, Value};

use crate::shared::netfilter::{nft_family, nft_rule, normalize_nft_rule};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable, Verdict,
};
use zagent_host::Tools;
use zagent_host::fs::FileMeta;

/// Where Debian keeps the rules; a directory elsewhere.
const DEBIAN_CONF: &str = "/etc/nftables.conf";

/// The module `nftables`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "nftables",
    build,
    functions: &[],
    undo: &[&NFT_TABLE_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let act = match fun {
        "append" => NftablesFunction::Append,
        "insert" => NftablesFunction::Insert,
        "delete" => NftablesFunction::Delete,
        "set_policy" => NftablesFunction::Policy,
        "flush" => NftablesFunction::Flush,
        "chain_present" => NftablesFunction::ChainPresent,
        "chain_absent" => NftablesFunction::ChainAbsent,
        "table_present" => NftablesFunction::TablePresent,
        "table_absent" => NftablesFunction::TableAbsent,
        _ => return None,
    };
    Some(NftablesState::from_args(act, args).map(|s| Box::new(s) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NftablesFunction {
    Append,
    Insert,
    Delete,
    Policy,
    Flush,
    ChainPresent,
    ChainAbsent,
    TablePresent,
    TableAbsent,
}

struct NftablesState {
    function: NftablesFunction,
    name: String,
    /// As it was written.
    family: String,
    /// As `nft` calls it.
    kind: &'static str,
    table: String,
    chain: String,
    rule: String,
    position: Option<String>,
    policy: String,
    /// What makes a chain a base chain.
    hook: Option<String>,
    save: bool,
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

impl NftablesState {
    fn from_args(act: NftablesFunction, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let family = args.text("family")?.unwrap_or_else(|| "ipv4".into());
        let kind =
            nft_family(&family).ok_or_else(|| StateError::new(format!("there is no family `{family}`")))?;
        let named = |key: &str| args.text(key).map(|t| t.unwrap_or_default());
        let name = args.name();
        let mut table = args.text("table")?.unwrap_or_else(|| "filter".into());
        let mut chain = named("chain")?;
        match act {
            NftablesFunction::TablePresent | NftablesFunction::TableAbsent => table.clone_from(&name),
            NftablesFunction::ChainPresent | NftablesFunction::ChainAbsent => chain.clone_from(&name),
            NftablesFunction::Flush => {}
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
        if act == NftablesFunction::Policy && policy.is_empty() {
            return Err(StateError::new("Policy needs to be specified"));
        }
        Ok(Self {
            rule: nft_rule(&args.chunk.args, kind),
            position: args.text("position")?,
            save: args.flag("save", false),
            lenient: args.flag("ignore_absence", false),
            function: act,
            name,
            family,
            kind,
            table,
            chain,
            policy,
            hook,
        })
    }

    fn chain_address(&self) -> String {
        format!("{} {} {}", self.kind, self.table, self.chain).trim_end().to_owned()
    }

    fn has_table(&self, tools: &Tools<'_>) -> Result<bool, StateError> {
        let said = tools.run_query("nft", &["list", "tables", self.kind])?;
        if !said.is_success() {
            return Err(StateError::new(said.message()));
        }
        let line = format!("table {} {}", self.kind, self.table);
        Ok(said.stdout.lines().any(|l| l.trim() == line))
    }

    /// The chain; nothing when it is not there.
    fn list_chain(&self, tools: &Tools<'_>) -> Result<Option<NftChain>, StateError> {
        if !self.has_table(tools)? {
            return Ok(None);
        }
        let said = tools.run_query("nft", &["--handle", "list", "table", self.kind, &self.table])?;
        if !said.is_success() {
            return Err(StateError::new(said.message()));
        }
        Ok(parse_chain(&said.stdout, &self.chain))
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

    fn is_in_sync(&self, tools: &Tools<'_>) -> Result<bool, StateError> {
        Ok(match self.function {
            NftablesFunction::Append | NftablesFunction::Insert => self.find_handle(tools)?.is_some(),
            NftablesFunction::Delete => self.find_handle(tools)?.is_none(),
            NftablesFunction::Policy => {
                let base = self.list_chain(tools)?.and_then(|l| l.base).unwrap_or_default();
                base.contains(&format!("policy {};", self.policy.to_lowercase()))
            }
            NftablesFunction::Flush => {
                let there = if self.chain.is_empty() {
                    self.has_table(tools)?
                } else {
                    self.list_chain(tools)?.is_some()
                };
                if !there && !self.lenient {
                    let what = if self.chain.is_empty() { "table" } else { "chain" };
                    return Err(StateError::new(format!(
                        "Failed to flush {what} {}, {what} does not exist.",
                        self.chain_address()
                    )));
                }
                let text = if there {
                    tools.run_query("nft", &["--handle", "list", "table", self.kind, &self.table])?.stdout
                } else {
                    String::new()
                };
                !there
                    || (split_chains(&text).filter(|c| self.chain.is_empty() || *c == self.chain))
                        .all(|c| parse_chain(&text, c).is_none_or(|l| l.rules.is_empty()))
            }
            NftablesFunction::ChainPresent => self.list_chain(tools)?.is_some(),
            NftablesFunction::ChainAbsent => self.list_chain(tools)?.is_none(),
            NftablesFunction::TablePresent => self.has_table(tools)?,
            NftablesFunction::TableAbsent => !self.has_table(tools)?,
        })
    }

    /// The lines that `nft` reads.
    fn nft_script(&self, tools: &Tools<'_>) -> Result<String, StateError> {
        let (target, rule) = (self.chain_address(), &self.rule);
        Ok(match self.function {
            NftablesFunction::Append => format!("add rule {target} {rule}"),
            NftablesFunction::Insert => {
                match self.position.as_deref().filter(|p| !matches!(*p, "0" | "1" | "")) {
                    Some(position) => format!("insert rule {target} position {position} {rule}"),
                    None => format!("insert rule {target} {rule}"),
                }
            }
            NftablesFunction::Delete => {
                let handle = match &self.position {
                    Some(position) => position.clone(),
                    None => self.find_handle(tools)?.unwrap_or_default(),
                };
                format!("delete rule {target} handle {handle}")
            }
            NftablesFunction::Policy => {
                let base = self.list_chain(tools)?.and_then(|l| l.base);
                let base = base.ok_or_else(|| {
                    StateError::new("Failed to set nftables default policy: it is no base chain")
                })?;
                let hook = base.split("policy").next().unwrap_or(&base).trim();
                format!("add chain {target} {{ {hook} policy {}; }}", self.policy.to_lowercase())
            }
            NftablesFunction::Flush if self.chain.is_empty() => format!("flush table {target}"),
            NftablesFunction::Flush => format!("flush chain {target}"),
            NftablesFunction::ChainPresent => match &self.hook {
                Some(hook) => format!("add chain {target} {{ {hook} }}"),
                None => format!("add chain {target}"),
            },
            NftablesFunction::ChainAbsent => format!("flush chain {target}\ndelete chain {target}"),
            NftablesFunction::TablePresent => format!("add table {} {}", self.kind, self.table),
            NftablesFunction::TableAbsent => format!("delete table {} {}", self.kind, self.table),
        })
    }

    fn comment(&self, which: NftablesComment) -> String {
        let verb = match self.function {
            NftablesFunction::Insert => "insert",
            NftablesFunction::Append => "add",
            _ => "D",
        };
        let command = format!("nft {verb} rule {} {}", self.chain_address(), self.rule);
        let lines =
            COMMENTS.iter().find(|(act, _)| *act == self.function).map_or(&[""; 3], |(_, lines)| lines);
        let filled = [
            ("{family}", &self.family),
            ("{table}", &self.table),
            ("{chain}", &self.chain),
            ("{policy}", &self.policy),
            ("{name}", &self.name),
            ("{command}", &command),
        ];
        filled
            .iter()
            .fold(lines[which as usize].to_owned(), |line, (place, value)| line.replace(place, value))
    }
}

/// What is said when there is nothing to do, before something is done, and after it.
const COMMENTS: [(NftablesFunction, [&str; 3]); 9] = [
    (
        NftablesFunction::Append,
        [
            "nftables rule for {name} already set ({command}) for {family}",
            "nftables rule for {name} needs to be set ({command}) for {family}",
            "Set nftables rule for {name} to: {command} for {family}",
        ],
    ),
    (
        NftablesFunction::Insert,
        [
            "nftables rule for {name} already set for {family} ({command})",
            "nftables rule for {name} needs to be set for {family} ({command})",
            "Set nftables rule for {name} to: {command} for {family}",
        ],
    ),
    (
        NftablesFunction::Delete,
        [
            "nftables rule for {name} already absent for {family} ({command})",
            "nftables rule for {name} needs to be deleted for {family} ({command})",
            "Delete nftables rule for {name} {command}",
        ],
    ),
    (
        NftablesFunction::Policy,
        [
            "nftables default policy for chain {chain} on table {table} for {family} already set to {policy}",
            "nftables default policy for chain {chain} on table {table} for {family} needs to be set to {policy}",
            "Set default policy for {chain} to {policy} family {family}",
        ],
    ),
    (
        NftablesFunction::Flush,
        [
            "There are no nftables rules in {table} table {chain} chain {family} family",
            "nftables rules in {table} table {chain} chain {family} family would be flushed",
            "Flush nftables rules in {table} table {chain} chain {family} family",
        ],
    ),
    (
        NftablesFunction::ChainPresent,
        [
            "nftables {chain} chain is already exist in {table} table for {family}",
            "nftables chain {chain} would be created in table {table} for family {family}",
            "nftables {chain} chain in {table} table create success for {family}",
        ],
    ),
    (
        NftablesFunction::ChainAbsent,
        [
            "nftables {chain} chain is already absent in {table} table for {family}",
            "nftables chain {chain} would be deleted from table {table} for family {family}",
            "nftables {chain} chain in {table} table delete success for {family}",
        ],
    ),
    (
        NftablesFunction::TablePresent,
        [
            "nftables table {name} already exists in family {family}",
            "nftables table {name} would be created in family {family}",
            "nftables table {name} successfully created in family {family}",
        ],
    ),
    (
        NftablesFunction::TableAbsent,
        [
            "nftables table {name} is already absent from family {family}",
            "nftables table {name} would be deleted from family {family}",
            "nftables table {name} successfully deleted from family {family}",
        ],
    ),
];

#[derive(Clone, Copy)]
enum NftablesComment {
    InSync,
    Preview,
    Applied,
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

impl State for NftablesState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if self.is_in_sync(&ctx.tools())? {
            return Ok(CheckResult::in_sync(self.comment(NftablesComment::InSync)));
        }
        Ok(CheckResult::drifted(
            self.comment(NftablesComment::Preview),
            Map::from_iter([("locale", self.name.as_str())]),
        ))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let script = self.nft_script(&tools)?;
        let key = Map::from_iter([("family", self.kind), ("table", self.table.as_str())]);
        ctx.with_undo(&NFT_TABLE_UNDO, key, || run_script(&tools, &script))?;
        let mut comment = self.comment(NftablesComment::Applied);
        if self.save {
            let rules = tools.run_checked("nft", &["-s", "list", "ruleset"])?.stdout;
            let text = format!("#!/usr/sbin/nft -f\n\nflush ruleset\n\n{rules}");
            ctx.fs.write(std::path::Path::new(DEBIAN_CONF), text.as_bytes(), FileMeta::default())?;
            comment += &format!("\nSaved in {DEBIAN_CONF}");
        }
        Ok(ApplyResult::new(comment, Map::from_iter([("locale", self.name.as_str())])))
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Firewall]
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::PACKAGE_FILES | Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        match self.function {
            NftablesFunction::Delete
            | NftablesFunction::Flush
            | NftablesFunction::ChainAbsent
            | NftablesFunction::TableAbsent => Effects::KERNEL,
            _ => Effects::NONE,
        }
    }

    fn still_valid(&self, look: &CheckResult, hidden: Effects) -> bool {
        look.verdict == Verdict::Drifted
            && self.writes().is_none()
            && (hidden & (Effects::PACKAGE_FILES | Effects::PACKAGES)).is_none()
    }
}

/// A table with all that is in it.
pub struct NftTableUndo;
pub static NFT_TABLE_UNDO: NftTableUndo = NftTableUndo;

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
