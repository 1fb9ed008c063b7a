//! A rule of a firewall as Salt writes it in, text of `nft` out; and rules that `nft` writes in another way made comparable.

use zagent_config::Map;

use crate::shared::netfilter::value_text;

/// The text of an `nft` rule.
pub(crate) fn nft_rule(given: &Map, family: &str) -> String {
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
pub(crate) fn normalize_nft_rule(rule: &str) -> Vec<String> {
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
pub(crate) fn nft_family(family: &str) -> Option<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_config::Value;

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
