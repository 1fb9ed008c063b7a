//! Functions of the modules in `states/firewall`: `iptables`, `nftables`, `firewalld`.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, flag, needing, strings, text, word};
use crate::host::netfilter::{self, Chain, iptables_rule, shown};
use crate::host::{Machine, Tools};

/// A chain of a table.
const CHAIN: &str = "table? chain? family?";
/// A rule of a chain.
const RULE: &str = "table? chain? rule? family?";

pub(super) const TABLE: &[Entry] = &[
    needing("iptables", "iptables.version", "family?", |m, a| {
        let said = Tools::new(m).ask(chain(a).program(), &["--version"])?;
        Ok(said.out.split_whitespace().nth(1).unwrap_or_default().into())
    }),
    entry("iptables.build_rule", "table? chain? command? position? full? family? **", build_rule),
    needing("iptables", "iptables.check", RULE, |m, a| Ok(chain(a).has(&Tools::new(m), &rule(a)?)?.into())),
    needing("iptables", "iptables.check_chain", CHAIN, |m, a| {
        Ok(chain(a).lines(&Tools::new(m))?.is_some().into())
    }),
    needing("iptables", "iptables.get_policy", CHAIN, |m, a| {
        Ok(chain(a).policy(&Tools::new(m))?.map_or(Value::Null, Value::from))
    }),
    needing("iptables", "iptables.get_rules", "family?", |m, a| {
        let saved = netfilter::iptables_saved(&Tools::new(m), &chain(a).family)?;
        Ok(strings(saved.lines()))
    }),
    acting("iptables.append", RULE, |m, a| {
        let (chain, tools, rule) = (chain(a), Tools::new(m), rule(a)?);
        if chain.has(&tools, &rule)? {
            return Ok(false.into());
        }
        tell(&chain, &tools, &["-A", &chain.name], &rule)
    }),
    acting("iptables.insert", "table? chain? position? rule? family?", |m, a| {
        let (chain, tools) = (chain(a), Tools::new(m));
        let position = a.get("position").map_or_else(|| "1".into(), zagent_compiler::yaml::python_str);
        tell(&chain, &tools, &["-I", &chain.name, &position], &rule(a)?)
    }),
    acting("iptables.delete", "table? chain? position? rule? family?", |m, a| {
        let (chain, tools) = (chain(a), Tools::new(m));
        match a.get("position").filter(|p| p.is_truthy()).map(zagent_compiler::yaml::python_str) {
            Some(position) => tell(&chain, &tools, &["-D", &chain.name, &position], &[]),
            None => tell(&chain, &tools, &["-D", &chain.name], &rule(a)?),
        }
    }),
    acting("iptables.set_policy", "table? chain? policy? family?", |m, a| {
        tell(&chain(a), &Tools::new(m), &["-P", &chain(a).name, text(a, "policy")?], &[])
    }),
    acting("iptables.flush", CHAIN, |m, a| {
        let chain = chain(a);
        let words: Vec<&str> = ["-F", &chain.name].into_iter().filter(|w| !w.is_empty()).collect();
        tell(&chain, &Tools::new(m), &words, &[])
    }),
    acting("iptables.new_chain", CHAIN, |m, a| tell(&chain(a), &Tools::new(m), &["-N", &chain(a).name], &[])),
    acting("iptables.delete_chain", CHAIN, |m, a| {
        tell(&chain(a), &Tools::new(m), &["-X", &chain(a).name], &[])
    }),
    needing("nft", "nftables.version", "", |m, _| {
        let said = Tools::new(m).ask("nft", &["--version"])?;
        Ok(said.out.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('v').into())
    }),
    needing("nft", "nftables.list_tables", "family?", |m, _| {
        let out = Tools::new(m).must("nft", &["list", "tables"])?.out;
        Ok(strings(out.lines().filter_map(|l| l.strip_prefix("table "))))
    }),
    needing("nft", "nftables.get_rules", "family?", |m, _| {
        Ok(strings(Tools::new(m).must("nft", &["list", "ruleset"])?.out.lines()))
    }),
    needing("firewall-cmd", "firewalld.version", "", |m, _| firewalld(m, &["--version"])),
    needing("firewall-cmd", "firewalld.default_zone", "", |m, _| firewalld(m, &["--get-default-zone"])),
    needing("firewall-cmd", "firewalld.get_zones", "permanent?", |m, _| {
        words(&firewalld(m, &["--permanent", "--get-zones"])?)
    }),
    needing("firewall-cmd", "firewalld.get_services", "permanent?", |m, _| {
        words(&firewalld(m, &["--permanent", "--get-services"])?)
    }),
    needing("firewall-cmd", "firewalld.list_services", "zone? permanent?", |m, a| {
        let zone = word(a, "zone").map(|z| format!("--zone={z}"));
        let all: Vec<&str> =
            ["--permanent"].into_iter().chain(zone.as_deref()).chain(["--list-services"]).collect();
        words(&firewalld(m, &all)?)
    }),
    acting("firewalld.reload_rules", "", |m, _| firewalld(m, &["--reload"])),
];

fn words(text: &Value) -> Result<Value, Refusal> {
    Ok(strings(text.as_str().unwrap_or_default().split_whitespace()))
}

fn firewalld(machine: &Machine, words: &[&str]) -> Result<Value, Refusal> {
    Ok(Tools::new(machine).must("firewall-cmd", words)?.out.trim().into())
}

/// The chain that the arguments name.
fn chain(args: &Bound<Value>) -> Chain {
    let named = |name: &str, preset: &str| word(args, name).unwrap_or(preset).to_owned();
    Chain { family: named("family", "ipv4"), table: named("table", "filter"), name: named("chain", "") }
}

/// A rule that was written as one line.
fn rule(args: &Bound<Value>) -> Result<Vec<String>, Refusal> {
    let line = text(args, "rule")?;
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().into_iter().for_each(|w| w.push(c)),
        }
    }
    words.retain(|w| !w.is_empty());
    Ok(words)
}

fn tell(chain: &Chain, tools: &Tools<'_>, head: &[&str], rule: &[String]) -> Result<Value, Refusal> {
    let words: Vec<String> = head.iter().map(|w| (*w).to_owned()).chain(rule.iter().cloned()).collect();
    chain.must(tools, &words)?;
    Ok(true.into())
}

fn build_rule(_: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let given: Map = args.named().iter().map(|(k, v)| (Value::from(k.as_str()), v.clone())).collect();
    let rule = shown(&iptables_rule(&given).map_err(Refusal::failed)?);
    if !flag(args, "full", false) {
        return Ok(rule.into());
    }
    let (chain, command) = (chain(args), text(args, "command")?);
    let dash = if command.len() == 1 { "-" } else { "--" };
    let position = args.get("position").map(zagent_compiler::yaml::python_str).unwrap_or_default();
    let program = chain.program();
    Ok(format!("{program} --wait -t {} {dash}{command} {} {position} {rule}", chain.table, chain.name).into())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;

    #[test]
    fn rules_are_built() {
        let sample = Sample::new();
        let args = r#"["**", {"chain": "INPUT", "jump": "ACCEPT", "proto": "tcp", "dport": 22}]"#;
        assert_eq!(sample.call("iptables.build_rule", args), r#""-p tcp --dport 22 --jump ACCEPT""#);
        let args = r#"["filter", "INPUT", "A", 1, true, "**", {"jump": "DROP"}]"#;
        let want = r#""iptables --wait -t filter -A INPUT 1 --jump DROP""#;
        assert_eq!(sample.call("iptables.build_rule", args), want);
    }
}
