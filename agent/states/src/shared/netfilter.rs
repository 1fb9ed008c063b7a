//! Rules of a firewall as Salt writes them in, words of `iptables` and `nft` out; and what those programs say about a rule.
//!
//! Law: words, not a shell. What stands in a rule is compared by the program itself (`iptables -C`), or with all that it may
//! write in another way made even (`nft`).

use zagent_config::FunctionError;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use zagent_host::Tools;

/// What a rule says after its target, in this order.
const JUMP_OPTIONS: &str = "j jump add-set and-mark and-tos checksum-fill clamp-mss-to-pmtu clustermac ctevents ctmask del-set \
    ecn-tcp-remove exist expevents gateway hash-init hashmode helper label local-node log-ip-options log-level log-prefix \
    log-tcp-options log-tcp-sequence log-uid map-set mask mss new nfmask nflog-group nflog-prefix nflog-range nflog-threshold \
    nodst notrack on-ip on-port or-mark or-tos persistent queue-balance queue-bypass queue-num random random-fully \
    rateest-ewmalog rateest-interval rateest-name reject-with restore restore-mark sack-perm save-mark selctx set-class \
    set-dscp set-dscp-class set-mark set-mss set-tos set-xmark strip-options timeout timestamp to to-destination to-ports \
    to-source total-nodes tproxy-mark ttl-dec ttl-inc ttl-set type ulog-cprange ulog-nlgroup ulog-prefix ulog-qthreshold \
    wscale xor-mark xor-tos zone zone-orig zone-reply dst-pfx hl-dec hl-inc hl-set hmark-dport-mask hmark-dst-prefix \
    hmark-mod hmark-offset hmark-proto-mask hmark-rnd hmark-spi-mask hmark-sport-mask hmark-src-prefix hmark-tuple \
    led-always-blink led-delay led-trigger-id queue-cpu-fanout src-pfx to-port addr and-mask delude honeypot or-mask prefix \
    reset reuse set-mac shift static tarpit tname ttl";
/// What stands beside a rule and is no part of it.
const NON_RULE_ARGS: [&str; 10] =
    ["name", "state", "chain", "save", "table", "family", "position", "rules", "command", "full"];

/// A value as text; an empty one stands for an option without a value.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::List(items) => items.iter().map(python_str).collect::<Vec<_>>().join(","),
        other => python_str(other),
    }
}

/// The same without `!` or `not` before it, and whether one was there.
fn strip_negation(text: &str) -> (bool, &str) {
    match text.strip_prefix('!').or_else(|| text.strip_prefix("not")) {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    }
}

/// The words of an `iptables` rule.
pub fn iptables_rule(given: &Map) -> Result<Vec<String>, String> {
    let mut rule = IptablesRuleBuilder::new(given);
    let matches = rule.take_arg("match");
    for (name, flag) in [("if", "-i"), ("of", "-o")] {
        rule.take_option(name, flag);
    }
    let policy = matches.as_deref() == Some("policy");
    let protocol = if policy {
        rule.take_arg("protocol")
    } else {
        rule.take_arg("proto").or_else(|| rule.take_arg("protocol"))
    };
    if let Some(protocol) = &protocol {
        rule.push_option("-p", protocol);
    }
    for one in matches.iter().flat_map(|m| m.split(',')).map(str::trim) {
        rule.words.extend(["-m".into(), one.to_owned()]);
        if ["pknock", "quota2", "recent"].contains(&one) {
            rule.take_option("name_", "--name");
        }
    }
    if policy {
        rule.take_option("proto", "--proto");
    }
    for set in rule.take_arg("match-set").iter().flat_map(|m| m.split(", ")) {
        rule.words.extend(["-m".into(), "set".into()]);
        rule.push_option("--match-set", set);
    }
    if let Some(state) = rule.take_arg("connstate") {
        rule.load_match("state");
        rule.push_option("--state", &state);
    }
    rule.take_option("dport", "--dport");
    rule.take_option("sport", "--sport");
    rule.take_ports(protocol.is_some())?;
    if let Some(comment) = rule.take_arg("comment") {
        rule.load_match("comment");
        rule.words.extend(["--comment".into(), comment]);
    }
    if let Some(set) = rule.take_arg("set").filter(|s| !s.is_empty()) {
        rule.push_option("--match-set", &set);
    }
    let jump = rule.take_jump();
    for (name, value) in std::mem::take(&mut rule.remaining) {
        rule.push_option(&flag_name(&name), &value);
    }
    rule.words.extend(jump);
    Ok(rule.words)
}

/// A rule of `iptables` on its way: what is said of it, and what is not yet.
struct IptablesRuleBuilder {
    remaining: Vec<(String, String)>,
    words: Vec<String>,
}

impl IptablesRuleBuilder {
    fn new(given: &Map) -> Self {
        let is_part = |k: &String| {
            !NON_RULE_ARGS.contains(&k.as_str())
                && (k == "timeout" || zagent_compiler::schema::keyword(k).is_none())
        };
        let left = given
            .iter()
            .map(|(k, v)| (k.json_key(), value_text(v)))
            .filter(|(k, _)| is_part(k))
            .map(|(k, v)| (if k == "target" { "jump".to_owned() } else { k }, v))
            .collect();
        Self { remaining: left, words: Vec::new() }
    }

    fn take_arg(&mut self, name: &str) -> Option<String> {
        self.remaining.iter().position(|(k, _)| k == name).map(|i| self.remaining.remove(i).1)
    }

    fn push_option(&mut self, flag: &str, value: &str) {
        let (not, value) = strip_negation(value);
        self.words.extend(not.then(|| "!".to_owned()));
        self.words.push(flag.to_owned());
        self.words.extend(value.split_whitespace().map(|w| w.trim_matches('"').to_owned()));
    }

    /// An argument as an option, when it is given.
    fn take_option(&mut self, name: &str, flag: &str) {
        if let Some(value) = self.take_arg(name) {
            self.push_option(flag, &value);
        }
    }

    /// Names a match unless it was named; true when it was not.
    fn load_match(&mut self, name: &str) -> bool {
        let is_new = !self.words.windows(2).any(|w| w[0] == "-m" && w[1] == name);
        if is_new {
            self.words.extend(["-m".into(), name.to_owned()]);
        }
        is_new
    }

    fn take_ports(&mut self, has_protocol: bool) -> Result<(), String> {
        for name in ["dports", "sports"] {
            let Some(ports) = self.take_arg(name) else { continue };
            if self.load_match("multiport") && !has_protocol {
                return Err("Error: protocol must be specified".into());
            }
            let not = if ports.split(',').any(|p| strip_negation(p).0) { "!" } else { "" };
            let ports: Vec<&str> = ports.split(',').map(|p| strip_negation(p.trim()).1).collect();
            self.push_option(&format!("--{name}"), &format!("{not}{}", ports.join(",")));
        }
        Ok(())
    }

    /// The target and all that it is told.
    fn take_jump(&mut self) -> Vec<String> {
        let mut jump = Vec::new();
        for name in JUMP_OPTIONS.split_whitespace() {
            if let Some(value) = self.take_arg(name) {
                jump.push(flag_name(name));
                jump.extend(Some(value).filter(|v| !v.is_empty()));
            }
        }
        jump
    }
}

/// `-j`, `--jump`.
fn flag_name(name: &str) -> String {
    format!("{}{name}", if name.len() == 1 { "-" } else { "--" })
}

/// Words as a person would write them.
pub fn display_words(words: &[String]) -> String {
    let quoted = words.iter().map(|w| {
        if w.is_empty() || w.contains(char::is_whitespace) { format!("\"{w}\"") } else { w.clone() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The text of an `nft` rule.
pub fn nft_rule(given: &Map, family: &str) -> String {
    let get = |names: &[&str]| names.iter().find_map(|n| given.get(n)).map(value_text);
    let proto = get(&["proto"]).unwrap_or_default();
    let port = |value: &str| value.replace(':', "-");
    let mut rule: Vec<String> = Vec::new();
    let mut say = |value: Option<String>, before: &str, after: &str| {
        if let Some(value) = value {
            rule.push(format!("{before}{value}{after}"));
        }
    };
    say(get(&["if"]), "meta iifname ", "");
    say(get(&["of"]), "meta oifname ", "");
    say(get(&["connstate"]), "ct state { ", " }");
    say(get(&["icmp-type"]), "icmp type { ", " }");
    say(get(&["icmpv6-type"]), "icmpv6 type { ", " }");
    say(get(&["pkttype"]), "meta pkttype { ", " }");
    say(given.get("counter").map(|_| "counter".into()), "", "");
    say(get(&["saddr", "source"]), &format!("{family} saddr "), "");
    say(get(&["daddr", "destination"]), &format!("{family} daddr "), "");
    for (names, word) in [(["dport", "dports"], "dport"), (["sport", "sports"], "sport")] {
        for name in names {
            let ports =
                get(&[name]).map(|p| port(&p).split(',').map(str::trim).collect::<Vec<_>>().join(", "));
            say(ports, &format!("{proto} {word} {{ "), " }");
        }
    }
    say(get(&["jump"]), "", "");
    say(get(&["j"]), "", "");
    say(get(&["redirect-to", "to-port"]), "redirect to ", "");
    say(get(&["to-ports"]), "--to-ports ", "");
    say(get(&["to-source"]), "", "");
    say(get(&["to-destination"]), "", "");
    say(get(&["reject-with"]), "reject with ", "");
    rule.join(" ").trim().to_owned()
}

/// A rule with all that `nft` writes in another way made even: sets sorted, one element without braces, names without quotes.
pub fn normalize_nft_rule(rule: &str) -> Vec<String> {
    let spaced =
        rule.replace('{', " { ").replace('}', " } ").replace(", ", ",").replace(" ,", ",").replace('"', "");
    let mut words = Vec::new();
    let mut set: Option<Vec<String>> = None;
    let sorted = |mut items: Vec<String>| {
        items.sort_unstable_by_key(|i| (i.parse::<u64>().unwrap_or(0), i.clone()));
        items.join(",")
    };
    for word in spaced.split_whitespace() {
        let items = || word.split(',').filter(|i| !i.is_empty()).map(str::to_owned);
        match (word, &mut set) {
            ("{", _) => set = Some(Vec::new()),
            ("}", found) => words.extend(found.take().map(sorted)),
            (_, Some(set)) => set.extend(items()),
            // `nft` names the interface without saying that it is one.
            ("meta", None) => {}
            (_, None) => words.push(sorted(items().collect())),
        }
    }
    // A counter counts: its numbers are no part of the rule.
    if let Some(at) = words.iter().position(|w| w == "packets") {
        words.drain(at..(at + 4).min(words.len()));
    }
    words
}

/// The family of a table as `nft` calls it.
pub fn nft_family(family: &str) -> Option<&'static str> {
    Some(match family {
        "ipv4" | "ip4" | "ip" => "ip",
        "ipv6" | "ip6" => "ip6",
        "inet" => "inet",
        "arp" => "arp",
        "bridge" => "bridge",
        "netdev" => "netdev",
        _ => return None,
    })
}

/// A chain of `iptables`, or a whole table when it has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IptablesChain {
    pub family: String,
    pub table: String,
    pub name: String,
}

impl IptablesChain {
    /// The program for the family.
    pub fn program(&self) -> &'static str {
        if self.family == "ipv6" { "ip6tables" } else { "iptables" }
    }

    /// Runs it on the table; when it fails that is an answer.
    pub fn run_query(
        &self,
        tools: &Tools<'_>,
        words: &[String],
    ) -> Result<zagent_host::CommandOutput, FunctionError> {
        let mut all: Vec<String> = vec!["--wait".into(), "-t".into(), self.table.clone()];
        all.extend(words.iter().cloned());
        tools.run_change(self.program(), &all)
    }

    /// The same; a failure is a refusal with what it said.
    pub fn run_checked(&self, tools: &Tools<'_>, words: &[String]) -> Result<(), FunctionError> {
        let output = self.run_query(tools, words)?;
        if output.is_success() { Ok(()) } else { Err(FunctionError::failed(output.message().to_owned())) }
    }

    /// Its policy and rules; nothing when there is no such chain.
    pub fn list_rules(&self, tools: &Tools<'_>) -> Result<Option<Vec<String>>, FunctionError> {
        let mut words = vec!["-S".to_owned()];
        words.extend(Some(self.name.clone()).filter(|n| !n.is_empty()));
        let output = self.run_query(tools, &words)?;
        if output.is_success() {
            return Ok(Some(output.stdout.lines().map(str::to_owned).collect()));
        }
        match classify_not_found(&output) {
            IptablesNotFound::Chain => Ok(None),
            // What it says of a chain that is not there and of one that only `nft` can read: the list of all tells.
            IptablesNotFound::Ambiguous if !self.name.is_empty() => {
                let all = self.run_query(tools, &["-S".to_owned()])?;
                let is_it = |l: &str| l.split(' ').nth(1) == Some(&self.name);
                if all.is_success() && !all.stdout.lines().any(is_it) {
                    return Ok(None);
                }
                Err(FunctionError::failed(output.message().to_owned()))
            }
            _ => Err(FunctionError::failed(output.message().to_owned())),
        }
    }

    /// True when the rule is there.
    pub fn has_rule(&self, tools: &Tools<'_>, rule: &[String]) -> Result<bool, FunctionError> {
        let words: Vec<String> =
            ["-C".to_owned(), self.name.clone()].into_iter().chain(rule.iter().cloned()).collect();
        let output = self.run_query(tools, &words)?;
        if output.is_success() {
            return Ok(true);
        }
        match classify_not_found(&output) {
            IptablesNotFound::Chain | IptablesNotFound::Rule => Ok(false),
            _ => Err(FunctionError::failed(output.message().to_owned())),
        }
    }

    /// What happens to what no rule decides.
    pub fn policy(&self, tools: &Tools<'_>) -> Result<Option<String>, FunctionError> {
        let lines = self.list_rules(tools)?.unwrap_or_default();
        let prefix = format!("-P {} ", self.name);
        Ok(lines.iter().find_map(|l| l.strip_prefix(&prefix)).map(str::to_owned))
    }
}

/// What `iptables` did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IptablesNotFound {
    Chain,
    /// The rule, or a chain or set that it names.
    Rule,
    /// A chain, or it cannot be read.
    Ambiguous,
    /// Nothing was looked at: no table, no right to read it, a rule that is none.
    OtherError,
}

/// What is told apart by words: a code stands for too much.
fn classify_not_found(output: &zagent_host::CommandOutput) -> IptablesNotFound {
    let words = output.message();
    let has = |part: &str| words.contains(part);
    match output.code {
        1 if has("Bad rule (does a matching rule exist") => IptablesNotFound::Rule,
        1 if has("No chain/target/match by that name") => IptablesNotFound::Chain,
        1 if has("chain `") && has("is incompatible") => IptablesNotFound::Ambiguous,
        2 if has("Couldn't load target") => IptablesNotFound::Rule,
        2 if (has("Chain '") && has("does not exist")) || (has("Set ") && has("doesn't exist")) => {
            IptablesNotFound::Rule
        }
        _ => IptablesNotFound::OtherError,
    }
}

/// All rules of a family, as they are saved.
pub fn iptables_save(tools: &Tools<'_>, family: &str) -> Result<String, FunctionError> {
    let program = if family == "ipv6" { "ip6tables-save" } else { "iptables-save" };
    Ok(tools.run_checked::<&str>(program, &[])?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_iptables() {
        for (given, want) in [
            (
                r#"{"chain": "INPUT", "jump": "ACCEPT", "match": "state", "connstate": "NEW", "dport": 80, "protocol": "tcp", "sport": "1025:65535", "save": true}"#,
                "-p tcp -m state --state NEW --dport 80 --sport 1025:65535 --jump ACCEPT",
            ),
            (
                r#"{"if": "not eth0", "source": "!10.0.0.0/8", "j": "DROP"}"#,
                "! -i eth0 ! --source 10.0.0.0/8 -j DROP",
            ),
            (
                r#"{"proto": "tcp", "dports": [80, 443], "comment": "a web", "target": "LOG", "log-prefix": "in: "}"#,
                "-p tcp -m multiport --dports 80,443 -m comment --comment \"a web\" --jump LOG --log-prefix \"in: \"",
            ),
            (
                r#"{"match-set": "!blocked src", "jump": "TCPMSS", "clamp-mss-to-pmtu": ""}"#,
                "-m set ! --match-set blocked src --jump TCPMSS --clamp-mss-to-pmtu",
            ),
            (r#"{"jump": "X", "require": [{"pkg": "x"}], "order": 1}"#, "--jump X"),
        ] {
            let given = Value::from_json_str(given).unwrap();
            assert_eq!(display_words(&iptables_rule(given.as_map().unwrap()).unwrap()), want);
        }
        let given = Value::from_json_str(r#"{"dports": "1,2"}"#).unwrap();
        assert!(iptables_rule(given.as_map().unwrap()).is_err());
    }

    #[test]
    fn what_is_absent_and_what_is_trouble() {
        for (code, words, want) in [
            (1, "iptables: Bad rule (does a matching rule exist in that chain?).", IptablesNotFound::Rule),
            (1, "iptables: No chain/target/match by that name.", IptablesNotFound::Chain),
            (
                1,
                "iptables v1.8.9 (nf_tables): chain `A' in table `filter' is incompatible, use 'nft' tool.",
                IptablesNotFound::Ambiguous,
            ),
            (2, "iptables v1.8.9 (nf_tables): Chain 'A' does not exist", IptablesNotFound::Rule),
            (
                2,
                "iptables v1.8.9 (legacy): Couldn't load target `A':No such file or directory",
                IptablesNotFound::Rule,
            ),
            (2, "iptables v1.8.9 (legacy): Set x doesn't exist.", IptablesNotFound::Rule),
            (
                2,
                "iptables v1.8.9 (nf_tables): invalid port/service `x' specified",
                IptablesNotFound::OtherError,
            ),
            (3, "iptables v1.8.9 (nf_tables): table 'nosuch' does not exist", IptablesNotFound::OtherError),
            (1, "iptables: Memory allocation problem.", IptablesNotFound::OtherError),
            (
                4,
                "Fatal: can't open lock file /run/xtables.lock: Permission denied",
                IptablesNotFound::OtherError,
            ),
        ] {
            let output = zagent_host::CommandOutput { code, stdout: String::new(), stderr: words.into() };
            assert_eq!(classify_not_found(&output), want, "{words}");
        }
    }

    #[test]
    fn rules_of_nft() {
        let given = Value::from_json_str(
            r#"{"proto": "tcp", "dports": "443,80", "source": "10.0.0.1", "connstate": "new,established", "jump": "accept"}"#,
        );
        let rule = nft_rule(given.unwrap().as_map().unwrap(), "ip");
        assert_eq!(rule, "ct state { new,established } ip saddr 10.0.0.1 tcp dport { 443, 80 } accept");
        assert_eq!(
            normalize_nft_rule(&rule),
            normalize_nft_rule("ct state established,new ip saddr 10.0.0.1 tcp dport { 80, 443 } accept")
        );
        assert_eq!(
            normalize_nft_rule("meta iifname eth0 counter accept"),
            normalize_nft_rule("iifname \"eth0\" counter packets 3 bytes 4 accept")
        );
        assert_ne!(normalize_nft_rule("tcp dport { 80 } accept"), normalize_nft_rule("tcp dport 81 accept"));
        assert_eq!(normalize_nft_rule("tcp dport { 80 } accept"), normalize_nft_rule("tcp dport 80 accept"));
    }
}
