//! A rule of a firewall as Salt writes it in, words of `iptables` out.

use zagent_config::Map;

use crate::shared::netfilter::value_text;

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

/// Whether a text begins with `!` or `not`, and the text without it.
fn strip_negation(text: &str) -> (bool, &str) {
    match text.strip_prefix('!').or_else(|| text.strip_prefix("not")) {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    }
}

/// The words of an `iptables` rule.
pub(crate) fn iptables_rule(given: &Map) -> Result<Vec<String>, String> {
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
pub(crate) fn display_words(words: &[String]) -> String {
    let quoted = words.iter().map(|w| {
        if w.is_empty() || w.contains(char::is_whitespace) { format!("\"{w}\"") } else { w.clone() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_config::Value;

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
}
