//! `iptables.*`: rules, chains and policies, by `iptables` and `ip6tables`.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, query_fn_needing, string_list, text_arg,
};
use crate::iptables::chain::{IptablesChain, iptables_save};
use crate::iptables::rule::{display_words, iptables_rule};
use zagent_host::{Machine, Tools};

/// A chain of a table.
const CHAIN_SIGNATURE: &str = "table? chain? family?";
/// A rule of a chain.
const RULE_SIGNATURE: &str = "table? chain? rule? family?";

/// The execution functions of `iptables`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing("iptables", "iptables.version", "family?", |m, a| {
        let output = Tools::new(m).run_query(chain_arg(a).program(), &["--version"])?;
        Ok(output.stdout.split_whitespace().nth(1).unwrap_or_default().into())
    }),
    query_fn("iptables.build_rule", "table? chain? command? position? full? family? **", build_rule),
    query_fn_needing("iptables", "iptables.check", RULE_SIGNATURE, |m, a| {
        Ok(chain_arg(a).has_rule(&Tools::new(m), &rule_arg(a)?)?.into())
    }),
    query_fn_needing("iptables", "iptables.check_chain", CHAIN_SIGNATURE, |m, a| {
        Ok(chain_arg(a).list_rules(&Tools::new(m))?.is_some().into())
    }),
    query_fn_needing("iptables", "iptables.get_policy", CHAIN_SIGNATURE, |m, a| {
        Ok(chain_arg(a).policy(&Tools::new(m))?.map_or(Value::Null, Value::from))
    }),
    query_fn_needing("iptables", "iptables.get_rules", "family?", |m, a| {
        let saved = iptables_save(&Tools::new(m), &chain_arg(a).family)?;
        Ok(string_list(saved.lines()))
    }),
    change_fn("iptables.append", RULE_SIGNATURE, |m, a| {
        let (chain, tools, rule) = (chain_arg(a), Tools::new(m), rule_arg(a)?);
        if chain.has_rule(&tools, &rule)? {
            return Ok(false.into());
        }
        change_chain(&chain, &tools, &["-A", &chain.name], &rule)
    }),
    change_fn("iptables.insert", "table? chain? position? rule? family?", |m, a| {
        let (chain, tools) = (chain_arg(a), Tools::new(m));
        let position = a.get("position").map_or_else(|| "1".into(), zagent_config::value::python_str);
        change_chain(&chain, &tools, &["-I", &chain.name, &position], &rule_arg(a)?)
    }),
    change_fn("iptables.delete", "table? chain? position? rule? family?", |m, a| {
        let (chain, tools) = (chain_arg(a), Tools::new(m));
        match a.get("position").filter(|p| p.is_truthy()).map(zagent_config::value::python_str) {
            Some(position) => change_chain(&chain, &tools, &["-D", &chain.name, &position], &[]),
            None => change_chain(&chain, &tools, &["-D", &chain.name], &rule_arg(a)?),
        }
    }),
    change_fn("iptables.set_policy", "table? chain? policy? family?", |m, a| {
        change_chain(&chain_arg(a), &Tools::new(m), &["-P", &chain_arg(a).name, text_arg(a, "policy")?], &[])
    }),
    change_fn("iptables.flush", CHAIN_SIGNATURE, |m, a| {
        let chain = chain_arg(a);
        let words: Vec<&str> = ["-F", &chain.name].into_iter().filter(|w| !w.is_empty()).collect();
        change_chain(&chain, &Tools::new(m), &words, &[])
    }),
    change_fn("iptables.new_chain", CHAIN_SIGNATURE, |m, a| {
        change_chain(&chain_arg(a), &Tools::new(m), &["-N", &chain_arg(a).name], &[])
    }),
    change_fn("iptables.delete_chain", CHAIN_SIGNATURE, |m, a| {
        change_chain(&chain_arg(a), &Tools::new(m), &["-X", &chain_arg(a).name], &[])
    }),
];

/// The chain that the arguments name.
fn chain_arg(args: &FunctionArgs<Value>) -> IptablesChain {
    let named = |name: &str, preset: &str| optional_text_arg(args, name).unwrap_or(preset).to_owned();
    IptablesChain {
        family: named("family", "ipv4"),
        table: named("table", "filter"),
        name: named("chain", ""),
    }
}

/// A rule that was written as one line.
fn rule_arg(args: &FunctionArgs<Value>) -> Result<Vec<String>, FunctionError> {
    let line = text_arg(args, "rule")?;
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

fn change_chain(
    chain: &IptablesChain,
    tools: &Tools<'_>,
    head: &[&str],
    rule: &[String],
) -> Result<Value, FunctionError> {
    let words: Vec<String> = head.iter().map(|w| (*w).to_owned()).chain(rule.iter().cloned()).collect();
    chain.run_checked(tools, &words)?;
    Ok(true.into())
}

fn build_rule(_: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let given: Map = args.named().iter().map(|(k, v)| (Value::from(k.as_str()), v.clone())).collect();
    let rule = display_words(&iptables_rule(&given).map_err(FunctionError::failed)?);
    if !flag_arg(args, "full", false) {
        return Ok(rule.into());
    }
    let (chain, command) = (chain_arg(args), text_arg(args, "command")?);
    let dash = if command.len() == 1 { "-" } else { "--" };
    let position = args.get("position").map(zagent_config::value::python_str).unwrap_or_default();
    let program = chain.program();
    Ok(format!("{program} --wait -t {} {dash}{command} {} {position} {rule}", chain.table, chain.name).into())
}

#[cfg(test)]
mod tests {
    use crate::testing::SampleMachine;

    #[test]
    fn rules_are_built() {
        let sample = SampleMachine::new();
        let args = r#"["**", {"chain": "INPUT", "jump": "ACCEPT", "proto": "tcp", "dport": 22}]"#;
        assert_eq!(sample.call("iptables.build_rule", args), r#""-p tcp --dport 22 --jump ACCEPT""#);
        let args = r#"["filter", "INPUT", "A", 1, true, "**", {"jump": "DROP"}]"#;
        let want = r#""iptables --wait -t filter -A INPUT 1 --jump DROP""#;
        assert_eq!(sample.call("iptables.build_rule", args), want);
    }
}
