//! States of the module `nftables`: rules, chains, tables and policies, by `nft`.
//!
//! Law: a table as a whole is what a revert puts back.

use zagent_config::{Map, Value};

use super::super::{Args, Built, Done, Failure, Look, Resource, Scene, Standing, State, Thing, Veil};
use crate::fs::Meta;
use crate::host::Tools;
use crate::host::netfilter::{even, nft_family, nft_rule};

/// Where Debian keeps the rules; a directory elsewhere.
const CONF: &str = "/etc/nftables.conf";

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let act = match fun {
        "append" => Act::Append,
        "insert" => Act::Insert,
        "delete" => Act::Delete,
        "set_policy" => Act::Policy,
        "flush" => Act::Flush,
        "chain_present" => Act::MakeChain,
        "chain_absent" => Act::DropChain,
        "table_present" => Act::MakeTable,
        "table_absent" => Act::DropTable,
        _ => return None,
    };
    Some(Nft::read(act, args).map(|s| Box::new(s) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Append,
    Insert,
    Delete,
    Policy,
    Flush,
    MakeChain,
    DropChain,
    MakeTable,
    DropTable,
}

struct Nft {
    act: Act,
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
struct Listed {
    /// The line with type, hook and policy.
    base: Option<String>,
    /// Rules and their handles.
    rules: Vec<(String, String)>,
}

impl Nft {
    fn read(act: Act, args: &Args<'_>) -> Result<Self, Failure> {
        let family = args.text("family")?.unwrap_or_else(|| "ipv4".into());
        let kind =
            nft_family(&family).ok_or_else(|| Failure::new(format!("there is no family `{family}`")))?;
        let named = |key: &str| args.text(key).map(|t| t.unwrap_or_default());
        let name = args.name();
        let mut table = args.text("table")?.unwrap_or_else(|| "filter".into());
        let mut chain = named("chain")?;
        match act {
            Act::MakeTable | Act::DropTable => table.clone_from(&name),
            Act::MakeChain | Act::DropChain => chain.clone_from(&name),
            Act::Flush => {}
            _ if chain.is_empty() => return Err(Failure::new("Chain needs to be specified")),
            _ => {}
        }
        for word in [&table, &chain] {
            if word.starts_with('-') || word.contains(['{', '}', ';', ' ', '\n']) {
                return Err(Failure::new(format!("`{word}` cannot be the name of a table or chain")));
            }
        }
        let (kind_of, hook, priority) =
            (args.text("table_type")?, args.text("hook")?, args.text("priority")?);
        let hook = match (kind_of, hook, priority) {
            (None, None, None) => None,
            (Some(t), Some(h), Some(p)) => Some(format!("type {t} hook {h} priority {p};")),
            _ => return Err(Failure::new("Table_type, hook, and priority required.")),
        };
        let policy = named("policy")?;
        if act == Act::Policy && policy.is_empty() {
            return Err(Failure::new("Policy needs to be specified"));
        }
        Ok(Self {
            rule: nft_rule(&args.chunk.args, kind),
            position: args.text("position")?,
            save: args.flag("save", false),
            lenient: args.flag("ignore_absence", false),
            act,
            name,
            family,
            kind,
            table,
            chain,
            policy,
            hook,
        })
    }

    fn target(&self) -> String {
        format!("{} {} {}", self.kind, self.table, self.chain).trim_end().to_owned()
    }

    fn has_table(&self, tools: &Tools<'_>) -> Result<bool, Failure> {
        let said = tools.ask("nft", &["list", "tables", self.kind])?;
        if !said.is_fine() {
            return Err(Failure::new(said.words()));
        }
        let line = format!("table {} {}", self.kind, self.table);
        Ok(said.out.lines().any(|l| l.trim() == line))
    }

    /// The chain; nothing when it is not there.
    fn listed(&self, tools: &Tools<'_>) -> Result<Option<Listed>, Failure> {
        if !self.has_table(tools)? {
            return Ok(None);
        }
        let said = tools.ask("nft", &["--handle", "list", "table", self.kind, &self.table])?;
        if !said.is_fine() {
            return Err(Failure::new(said.words()));
        }
        Ok(cut(&said.out, &self.chain))
    }

    fn handle(&self, tools: &Tools<'_>) -> Result<Option<String>, Failure> {
        let want = even(&self.rule);
        let listed = self.listed(tools)?.unwrap_or_default();
        Ok(listed.rules.into_iter().find(|(rule, _)| even(rule) == want).map(|(_, handle)| handle))
    }

    fn is_right(&self, tools: &Tools<'_>) -> Result<bool, Failure> {
        Ok(match self.act {
            Act::Append | Act::Insert => self.handle(tools)?.is_some(),
            Act::Delete => self.handle(tools)?.is_none(),
            Act::Policy => {
                let base = self.listed(tools)?.and_then(|l| l.base).unwrap_or_default();
                base.contains(&format!("policy {};", self.policy.to_lowercase()))
            }
            Act::Flush => {
                let there = if self.chain.is_empty() {
                    self.has_table(tools)?
                } else {
                    self.listed(tools)?.is_some()
                };
                if !there && !self.lenient {
                    let what = if self.chain.is_empty() { "table" } else { "chain" };
                    return Err(Failure::new(format!(
                        "Failed to flush {what} {}, {what} does not exist.",
                        self.target()
                    )));
                }
                let text = if there {
                    tools.ask("nft", &["--handle", "list", "table", self.kind, &self.table])?.out
                } else {
                    String::new()
                };
                !there
                    || (chains(&text).filter(|c| self.chain.is_empty() || *c == self.chain))
                        .all(|c| cut(&text, c).is_none_or(|l| l.rules.is_empty()))
            }
            Act::MakeChain => self.listed(tools)?.is_some(),
            Act::DropChain => self.listed(tools)?.is_none(),
            Act::MakeTable => self.has_table(tools)?,
            Act::DropTable => !self.has_table(tools)?,
        })
    }

    /// The lines that `nft` reads.
    fn script(&self, tools: &Tools<'_>) -> Result<String, Failure> {
        let (target, rule) = (self.target(), &self.rule);
        Ok(match self.act {
            Act::Append => format!("add rule {target} {rule}"),
            Act::Insert => match self.position.as_deref().filter(|p| !matches!(*p, "0" | "1" | "")) {
                Some(position) => format!("insert rule {target} position {position} {rule}"),
                None => format!("insert rule {target} {rule}"),
            },
            Act::Delete => {
                let handle = match &self.position {
                    Some(position) => position.clone(),
                    None => self.handle(tools)?.unwrap_or_default(),
                };
                format!("delete rule {target} handle {handle}")
            }
            Act::Policy => {
                let base = self.listed(tools)?.and_then(|l| l.base);
                let base = base.ok_or_else(|| {
                    Failure::new("Failed to set nftables default policy: it is no base chain")
                })?;
                let hook = base.split("policy").next().unwrap_or(&base).trim();
                format!("add chain {target} {{ {hook} policy {}; }}", self.policy.to_lowercase())
            }
            Act::Flush if self.chain.is_empty() => format!("flush table {target}"),
            Act::Flush => format!("flush chain {target}"),
            Act::MakeChain => match &self.hook {
                Some(hook) => format!("add chain {target} {{ {hook} }}"),
                None => format!("add chain {target}"),
            },
            Act::DropChain => format!("flush chain {target}\ndelete chain {target}"),
            Act::MakeTable => format!("add table {} {}", self.kind, self.table),
            Act::DropTable => format!("delete table {} {}", self.kind, self.table),
        })
    }

    fn words(&self, which: Which) -> String {
        let verb = match self.act {
            Act::Insert => "insert",
            Act::Append => "add",
            _ => "D",
        };
        let command = format!("nft {verb} rule {} {}", self.target(), self.rule);
        let lines = WORDS.iter().find(|(act, _)| *act == self.act).map_or(&[""; 3], |(_, lines)| lines);
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
const WORDS: [(Act, [&str; 3]); 9] = [
    (
        Act::Append,
        [
            "nftables rule for {name} already set ({command}) for {family}",
            "nftables rule for {name} needs to be set ({command}) for {family}",
            "Set nftables rule for {name} to: {command} for {family}",
        ],
    ),
    (
        Act::Insert,
        [
            "nftables rule for {name} already set for {family} ({command})",
            "nftables rule for {name} needs to be set for {family} ({command})",
            "Set nftables rule for {name} to: {command} for {family}",
        ],
    ),
    (
        Act::Delete,
        [
            "nftables rule for {name} already absent for {family} ({command})",
            "nftables rule for {name} needs to be deleted for {family} ({command})",
            "Delete nftables rule for {name} {command}",
        ],
    ),
    (
        Act::Policy,
        [
            "nftables default policy for chain {chain} on table {table} for {family} already set to {policy}",
            "nftables default policy for chain {chain} on table {table} for {family} needs to be set to {policy}",
            "Set default policy for {chain} to {policy} family {family}",
        ],
    ),
    (
        Act::Flush,
        [
            "There are no nftables rules in {table} table {chain} chain {family} family",
            "nftables rules in {table} table {chain} chain {family} family would be flushed",
            "Flush nftables rules in {table} table {chain} chain {family} family",
        ],
    ),
    (
        Act::MakeChain,
        [
            "nftables {chain} chain is already exist in {table} table for {family}",
            "nftables chain {chain} would be created in table {table} for family {family}",
            "nftables {chain} chain in {table} table create success for {family}",
        ],
    ),
    (
        Act::DropChain,
        [
            "nftables {chain} chain is already absent in {table} table for {family}",
            "nftables chain {chain} would be deleted from table {table} for family {family}",
            "nftables {chain} chain in {table} table delete success for {family}",
        ],
    ),
    (
        Act::MakeTable,
        [
            "nftables table {name} already exists in family {family}",
            "nftables table {name} would be created in family {family}",
            "nftables table {name} successfully created in family {family}",
        ],
    ),
    (
        Act::DropTable,
        [
            "nftables table {name} is already absent from family {family}",
            "nftables table {name} would be deleted from family {family}",
            "nftables table {name} successfully deleted from family {family}",
        ],
    ),
];

#[derive(Clone, Copy)]
enum Which {
    Right,
    Would,
    Did,
}

/// The chains of a listed table.
fn chains(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|l| l.trim().strip_prefix("chain ")?.split(' ').next())
}

/// One chain of a listed table.
fn cut(text: &str, chain: &str) -> Option<Listed> {
    let mut lines = text.lines().map(str::trim);
    lines.by_ref().find(|l| l.strip_prefix("chain ").is_some_and(|l| l.split(' ').next() == Some(chain)))?;
    let mut listed = Listed::default();
    for line in lines.take_while(|l| !l.starts_with('}')) {
        match line.rsplit_once(" # handle ") {
            Some((rule, handle)) => listed.rules.push((rule.trim().to_owned(), handle.trim().to_owned())),
            None if line.starts_with("type ") => listed.base = Some(line.to_owned()),
            None => {}
        }
    }
    Some(listed)
}

fn feed(tools: &Tools<'_>, script: &str) -> Result<(), Failure> {
    let mut command = Tools::command("nft", &["-f", "-"], std::time::Duration::from_secs(60));
    command.stdin = script.as_bytes().to_vec();
    let said = tools.run(command)?;
    if said.is_fine() { Ok(()) } else { Err(Failure::new(said.words())) }
}

impl State for Nft {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if self.is_right(&scene.tools())? {
            return Ok(Look::right(self.words(Which::Right)));
        }
        Ok(Look::drift(self.words(Which::Would), Map::from_iter([("locale", self.name.as_str())])))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let tools = scene.tools();
        let script = self.script(&tools)?;
        let key = Map::from_iter([("family", self.kind), ("table", self.table.as_str())]);
        scene.change(&TABLE, key, || feed(&tools, &script))?;
        let mut comment = self.words(Which::Did);
        if self.save {
            let rules = tools.must("nft", &["-s", "list", "ruleset"])?.out;
            let text = format!("#!/usr/sbin/nft -f\n\nflush ruleset\n\n{rules}");
            scene.fs.write(std::path::Path::new(CONF), text.as_bytes(), Meta::default())?;
            comment += &format!("\nSaved in {CONF}");
        }
        Ok(Done::new(comment, Map::from_iter([("locale", self.name.as_str())])))
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Firewall]
    }

    fn sees(&self) -> Veil {
        Veil::KERNEL | Veil::BROUGHT | Veil::PACKAGES
    }

    fn veils(&self) -> Veil {
        match self.act {
            Act::Delete | Act::Flush | Act::DropChain | Act::DropTable => Veil::KERNEL,
            _ => Veil::NONE,
        }
    }

    fn holds(&self, look: &Look, hidden: Veil) -> bool {
        look.standing == Standing::Drift
            && self.veils().is_none()
            && (hidden & (Veil::BROUGHT | Veil::PACKAGES)).is_none()
    }
}

/// A table with all that is in it.
pub(super) struct Table;
pub(super) static TABLE: Table = Table;

impl Thing for Table {
    fn kind(&self) -> &'static str {
        "nftables_table"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        let said = scene.tools().ask("nft", &["-s", "list", "table", text("family"), text("table")])?;
        if said.is_fine() {
            return Ok(said.out.into());
        }
        if said.words().contains("No such file or directory") {
            return Ok(Value::Null);
        }
        Err(Failure::new(said.words()))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default();
        let table = format!("table {} {}", text("family"), text("table"));
        // Adding what may be there already makes sure that it can be deleted.
        let script = format!("add {table}\ndelete {table}\n{}", to.as_str().unwrap_or_default());
        feed(&scene.tools(), &script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_a_listing() {
        let text = "table ip filter { # handle 3\n\tchain in { # handle 1\n\t\ttype filter hook input priority 0; policy accept;\n\t\ttcp dport 22 accept # handle 4\n\t}\n\n\tchain other { # handle 2\n\t}\n}\n";
        let listed = cut(text, "in").unwrap();
        assert_eq!(listed.rules, [("tcp dport 22 accept".to_owned(), "4".to_owned())]);
        assert!(listed.base.unwrap().ends_with("policy accept;"));
        assert!(cut(text, "other").unwrap().rules.is_empty());
        assert!(cut(text, "none").is_none());
        assert_eq!(chains(text).collect::<Vec<_>>(), ["in", "other"]);
    }
}
