//! The host's name, `/etc/hosts` and the search domain into the facts about names.
//!
//! The law: names come from files only. A name that is not in `/etc/hosts` gets the first search domain, and its
//! addresses are those of the interface that holds the default route, which is what a resolver would say where
//! names are kept in order, and what it cannot delay where they are not.

use std::net::IpAddr;

use zagent_config::{Map, Value};

use super::network::{default_interface, own_addresses};
use super::{Facts, resolver, string_list};

/// Facts about the names of the host.
pub const NAMES: &[&str] = &["localhost", "fqdn", "host", "domain"];
pub(crate) const ADDRESSES: &[&str] = &["fqdn_ip4", "fqdn_ip6", "fqdns"];

/// One line of `/etc/hosts`.
struct HostsLine<'a> {
    address: IpAddr,
    names: Vec<&'a str>,
}

fn parse_hosts(text: &str) -> Vec<HostsLine<'_>> {
    text.lines()
        .filter_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let address = words.next()?;
            // A link-local address may carry the name of its interface.
            let address = address.split('%').next().unwrap_or_default().parse().ok()?;
            let names: Vec<&str> = words.collect();
            (!names.is_empty()).then_some(HostsLine { address, names })
        })
        .collect()
}

impl HostsLine<'_> {
    fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|n| n.eq_ignore_ascii_case(name))
    }
}

/// The host's own name, its full name, and the two parts of that.
pub fn collect(facts: &Facts) -> Map {
    let host = facts.system_text("nodename");
    let text = facts.tree.read_text("/etc/hosts").unwrap_or_default();
    let canonical = parse_hosts(&text).iter().find(|l| l.has_name(host)).map(|l| l.names[0].to_owned());
    let fqdn = canonical.unwrap_or_else(|| qualify(host, &resolver::search_domain(&facts.tree)));
    let fqdn = if fqdn.is_empty() { "localhost.localdomain" } else { &fqdn };
    let (short, domain) = fqdn.split_once('.').unwrap_or((fqdn, ""));
    Map::from_iter([("localhost", host), ("fqdn", fqdn), ("host", short), ("domain", domain)])
}

fn qualify(host: &str, domain: &str) -> String {
    if host.is_empty() || host.contains('.') || domain.is_empty() {
        return host.to_owned();
    }
    format!("{host}.{domain}")
}

/// Addresses of the full name, and the names of the host's addresses.
pub fn addresses(facts: &Facts) -> Map {
    let text = facts.tree.read_text("/etc/hosts").unwrap_or_default();
    let lines = parse_hosts(&text);
    let fqdn = facts.system_text("fqdn");
    let mut named: Vec<IpAddr> = Vec::new();
    for line in lines.iter().filter(|l| l.has_name(fqdn)) {
        if !named.contains(&line.address) {
            named.push(line.address);
        }
    }
    if named.is_empty() {
        named = own_addresses(facts.interfaces(), default_interface(&facts.tree).as_deref());
    }
    let family = |is_v4: bool| {
        // As with a resolver, there is no answer in a family that the host does not speak.
        let speaks = facts.interfaces().iter().flat_map(|i| &i.addresses).any(|a| a.ip.is_ipv4() == is_v4);
        string_list(named.iter().filter(|a| speaks && a.is_ipv4() == is_v4).map(IpAddr::to_string))
    };
    Map::from_iter([
        ("fqdn_ip4", family(true)),
        ("fqdn_ip6", family(false)),
        ("fqdns", reverse_names(facts, &lines)),
    ])
}

/// What `/etc/hosts` calls the addresses of this host.
fn reverse_names(facts: &Facts, lines: &[HostsLine<'_>]) -> Value {
    let own = own_addresses(facts.interfaces(), None);
    let mut names: Vec<&str> = lines
        .iter()
        .filter(|l| own.contains(&l.address))
        .map(|l| l.names.iter().find(|n| n.contains('.')).unwrap_or(&l.names[0]))
        .copied()
        .collect();
    names.sort_unstable();
    names.dedup();
    string_list(names)
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    #[test]
    fn names_come_from_files() {
        for (hosts, resolv, want) in [
            (
                "127.0.0.1 localhost\n127.0.1.1 web-01.example.com web-01\n",
                "search lan\n",
                "web-01.example.com",
            ),
            ("127.0.0.1 localhost web-01\n", "search lan\n", "localhost"),
            ("127.0.0.1 web-01 # web-01.x\n", "", "web-01"),
            ("10.0.0.1 WEB-01.example.org Web-01\n", "", "WEB-01.example.org"),
            ("# nothing\n", "search example.net lan\n", "web-01.example.net"),
            ("", "domain example.net.\n", "web-01.example.net"),
            ("", "search .\n", "web-01"),
            ("bad line\n::1\n", "", "web-01"),
        ] {
            let host = FactsFixture::new().file("/etc/hosts", hosts).file("/etc/resolv.conf", resolv);
            let (short, domain) = want.split_once('.').unwrap_or((want, ""));
            host.expect(&format!(
                r#"{{"fqdn": "{want}", "host": "{short}", "domain": "{domain}", "localhost": "web-01"}}"#
            ));
        }
    }

    #[test]
    fn a_qualified_host_name_stays_and_none_is_localhost() {
        let mut host = FactsFixture::new().file("/etc/resolv.conf", "search lan\n");
        host.system.uname.nodename = "db.example.com".into();
        host.expect(r#"{"fqdn": "db.example.com", "host": "db", "domain": "example.com"}"#);
        host.system.uname.nodename = String::new();
        host.expect(r#"{"fqdn": "localhost.localdomain", "host": "localhost", "localhost": ""}"#);
    }

    fn connected() -> FactsFixture {
        FactsFixture::new()
            .interface("lo", "", &[("127.0.0.1", 8), ("::1", 128)])
            .interface("docker0", "", &[("172.17.0.1", 16)])
            .interface("eth0", "", &[("192.0.2.2", 24), ("fd00::2", 64), ("fe80::1", 64)])
    }

    #[test]
    fn addresses_of_the_name() {
        connected()
            .file("/etc/hosts", "127.0.1.1 web-01.lan web-01\nfd00::2 web-01.lan\n127.0.1.1 web-01.lan\n")
            .expect(r#"{"fqdn_ip4": ["127.0.1.1"], "fqdn_ip6": ["fd00::2"], "fqdns": ["web-01.lan"]}"#);
        let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n";
        connected()
            .file("/proc/net/route", route)
            .expect(r#"{"fqdn_ip4": ["192.0.2.2"], "fqdn_ip6": ["fd00::2"], "fqdns": []}"#);
        connected().expect(r#"{"fqdn_ip4": ["172.17.0.1", "192.0.2.2"]}"#);
        FactsFixture::new()
            .interface("lo", "", &[("127.0.0.1", 8)])
            .file("/etc/hosts", "127.0.0.1 web-01\n::1 web-01\n192.0.2.9 other\n")
            .expect(r#"{"fqdn_ip4": ["127.0.0.1"], "fqdn_ip6": [], "fqdns": []}"#);
    }

    #[test]
    fn own_addresses_are_named_in_reverse() {
        connected()
            .file(
                "/etc/hosts",
                "192.0.2.2 web-01 web-01.example.com\n172.17.0.1 bridge\n127.0.0.1 localhost\n",
            )
            .expect(r#"{"fqdns": ["bridge", "web-01.example.com"]}"#);
    }
}
