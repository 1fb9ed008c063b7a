//! `resolv.conf` into the fact `dns`.

use std::net::{IpAddr, Ipv4Addr};

use zagent_config::{Map, Value};

use super::tree::FactsRoot;
use super::{Facts, string_list};

pub(crate) const NAMES: &[&str] = &["dns"];

const RESOLV: &str = "/etc/resolv.conf";
/// The servers behind systemd's stub resolver.
const BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";

#[derive(Default)]
struct ResolvConf {
    servers: Vec<IpAddr>,
    sort: Vec<String>,
    domain: String,
    search: Vec<String>,
    options: Vec<String>,
}

fn parse_resolv_conf(text: &str) -> ResolvConf {
    let mut found = ResolvConf::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let directive = words.next().unwrap_or_default().to_lowercase();
        let args: Vec<&str> = words.take_while(|w| !w.starts_with(['#', ';'])).collect();
        match (&*directive, args.first()) {
            ("nameserver", Some(server)) => {
                let server = server.parse().ok().filter(|s| !found.servers.contains(s));
                found.servers.extend(server);
            }
            ("domain", Some(domain)) => found.domain = (*domain).to_owned(),
            ("search", _) => found.search = args.iter().map(|s| (*s).to_owned()).collect(),
            ("sortlist", _) => {
                for network in args.iter().filter_map(|arg| network(arg)) {
                    if !found.sort.contains(&network) {
                        found.sort.push(network);
                    }
                }
            }
            ("options", Some(option)) if !found.options.iter().any(|o| o == option) => {
                found.options.push((*option).to_owned());
            }
            _ => {}
        }
    }
    found
}

/// An IPv4 network with its mask spelt out; without one it is that of the address's class.
fn network(text: &str) -> Option<String> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(a, m)| (a, Some(m)));
    let address: Ipv4Addr = address.parse().ok()?;
    let prefix = match mask {
        None => match address.octets()[0] {
            0..=127 => 8,
            128..=191 => 16,
            _ => 24,
        },
        Some(mask) => match mask.parse::<u32>() {
            Ok(prefix) => prefix,
            Err(_) => mask.parse::<Ipv4Addr>().ok()?.to_bits().leading_ones(),
        },
    };
    let bits = u32::MAX.checked_shl(32_u32.checked_sub(prefix)?).unwrap_or(0);
    let is_network = address.to_bits() & !bits == 0;
    let address = Ipv4Addr::from_bits(address.to_bits() & bits);
    (is_network || mask.is_none()).then(|| format!("{address}/{}", Ipv4Addr::from_bits(bits)))
}

pub(crate) fn collect(facts: &Facts) -> Map {
    let path = if facts.tree.exists(BEHIND_STUB) { BEHIND_STUB } else { RESOLV };
    let Some(text) = facts.tree.read_text(path) else { return Map::new() };
    let found = parse_resolv_conf(&text);
    let servers = |keep: fn(&IpAddr) -> bool| {
        string_list(found.servers.iter().filter(|s| keep(s)).map(IpAddr::to_string))
    };
    let dns = Map::from_iter([
        ("nameservers", servers(|_| true)),
        ("ip4_nameservers", servers(IpAddr::is_ipv4)),
        ("ip6_nameservers", servers(IpAddr::is_ipv6)),
        ("sortlist", string_list(&found.sort)),
        ("domain", found.domain.as_str().into()),
        ("search", string_list(&found.search)),
        ("options", string_list(&found.options)),
    ]);
    Map::from_iter([("dns", Value::from(dns))])
}

/// The domain that short names are completed with; empty when there is none.
pub(crate) fn search_domain(tree: &FactsRoot) -> String {
    let found = parse_resolv_conf(&tree.read_text(RESOLV).unwrap_or_default());
    let domain = found.search.into_iter().next().unwrap_or(found.domain);
    domain.trim_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    #[test]
    fn directives_become_lists() {
        let text = "# comment\nnameserver 192.0.2.53 # first\nNameServer fd00::53\nnameserver 192.0.2.53\nnameserver x\nnameserver\n\
                    domain example.org\nsearch a.example b.example ; c.example\noptions ndots:2 timeout:1\noptions ndots:2\n\
                    sortlist 130.155.160.0/255.255.240.0 130.155.0.0 10.0.0.1/8 10.0.0.0/8 10.0.0.0/99 x\n";
        let want = r#"{"dns": {"nameservers": ["192.0.2.53", "fd00::53"], "ip4_nameservers": ["192.0.2.53"],
            "ip6_nameservers": ["fd00::53"], "domain": "example.org", "search": ["a.example", "b.example"],
            "options": ["ndots:2"], "sortlist": ["130.155.160.0/255.255.240.0", "130.155.0.0/255.255.0.0",
            "10.0.0.0/255.0.0.0"]}}"#;
        FactsFixture::new().file("/etc/resolv.conf", text).expect(want);
    }

    #[test]
    fn the_servers_behind_the_stub_win() {
        FactsFixture::new().expect(r#"{"dns": null}"#);
        let host = FactsFixture::new()
            .file("/etc/resolv.conf", "nameserver 127.0.0.53\n")
            .file("/run/systemd/resolve/resolv.conf", "nameserver 192.0.2.1\n");
        let dns = host.facts().system_fact("dns").cloned().unwrap();
        assert_eq!(dns.get("nameservers"), Some(&super::string_list(["192.0.2.1"])));
    }
}
