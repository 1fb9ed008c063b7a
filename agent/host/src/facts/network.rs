//! Interfaces and routing tables into the facts about addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zagent_config::{Map, Value};

use super::system::{IpWithPrefix, NetInterface};
use super::tree::FactsRoot;
use super::{Facts, string_list};

/// Facts about interfaces and addresses.
pub const NAMES: &[&str] =
    &["hwaddr_interfaces", "ip_interfaces", "ip4_interfaces", "ip6_interfaces", "ipv4", "ipv6"];
pub(crate) const GATEWAYS: &[&str] = &["ip_gw", "ip4_gw", "ip6_gw"];

/// Flags of a route: in use, and refusing traffic.
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// Hardware and IP addresses, for each interface and for the whole host.
pub fn collect(facts: &Facts) -> Map {
    let interfaces = facts.interfaces();
    let by_name = |addresses: fn(&NetInterface) -> Vec<IpAddr>| -> Value {
        let pairs = interfaces.iter().map(|i| (&*i.name, address_list(addresses(i))));
        pairs.collect::<Map>().into()
    };
    let hardware: Map = interfaces.iter().filter_map(|i| Some((&*i.name, i.hwaddr.as_deref()?))).collect();
    Map::from_iter([
        ("hwaddr_interfaces", hardware.into()),
        ("ip_interfaces", by_name(all_addresses)),
        ("ip4_interfaces", by_name(|i| family_addresses(i, true))),
        ("ip6_interfaces", by_name(|i| family_addresses(i, false))),
        ("ipv4", sorted(interfaces, true)),
        ("ipv6", sorted(interfaces, false)),
    ])
}

fn address_list(addresses: Vec<IpAddr>) -> Value {
    string_list(addresses.iter().map(IpAddr::to_string))
}

/// First addresses of both families, then the further ones in a network that the interface is already in.
fn all_addresses(interface: &NetInterface) -> Vec<IpAddr> {
    let (first, further) = by_rank(interface);
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = first.into_iter().partition(IpAddr::is_ipv4);
    v4.into_iter().chain(v6).chain(further).collect()
}

fn family_addresses(interface: &NetInterface, is_v4: bool) -> Vec<IpAddr> {
    let (first, further) = by_rank(interface);
    first.into_iter().chain(further).filter(|a| a.is_ipv4() == is_v4).collect()
}

/// The kernel's secondary addresses are those in the network of an earlier one; only IPv4 has them.
fn by_rank(interface: &NetInterface) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let mut networks = Vec::new();
    let mut ranks = (Vec::new(), Vec::new());
    for address in &interface.addresses {
        match ipv4_network(*address) {
            Some(network) if networks.contains(&network) => ranks.1.push(address.ip),
            network => {
                networks.extend(network);
                ranks.0.push(address.ip);
            }
        }
    }
    ranks
}

fn ipv4_network(address: IpWithPrefix) -> Option<(u32, u32)> {
    let IpAddr::V4(ip) = address.ip else { return None };
    let mask = u32::MAX.checked_shl(32_u32.saturating_sub(address.prefix)).unwrap_or(0);
    Some((ip.to_bits() & mask, address.prefix))
}

fn sorted(interfaces: &[NetInterface], is_v4: bool) -> Value {
    let addresses = interfaces.iter().flat_map(|i| &i.addresses).map(|a| a.ip);
    let mut addresses: Vec<IpAddr> = addresses.filter(|a| a.is_ipv4() == is_v4).collect();
    addresses.sort_unstable();
    addresses.dedup();
    address_list(addresses)
}

/// The addresses by which others reach this host, of one interface or of all.
pub(crate) fn own_addresses(interfaces: &[NetInterface], only: Option<&str>) -> Vec<IpAddr> {
    let is_reachable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let wanted = interfaces.iter().filter(|i| only.is_none_or(|name| i.name == name));
    wanted.flat_map(|i| &i.addresses).map(|a| a.ip).filter(is_reachable).collect()
}

/// A default route.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    interface: String,
    gateway: Option<IpAddr>,
    metric: u32,
}

fn best_route(routes: impl Iterator<Item = Route>) -> Option<Route> {
    routes.min_by_key(|r| r.metric)
}

fn default_route4(tree: &FactsRoot) -> Option<Route> {
    let text = tree.read_text("/proc/net/route")?;
    best_route(text.lines().skip(1).filter_map(parse_route4))
}

/// Columns: interface, destination, gateway, flags, …, metric (6), mask (7); numbers as the kernel holds them.
fn parse_route4(line: &str) -> Option<Route> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let hex = |at: usize| u32::from_str_radix(columns.get(at)?, 16).ok();
    if hex(1)? != 0 || hex(7)? != 0 || !is_usable(hex(3)?) {
        return None;
    }
    let gateway = Ipv4Addr::from(hex(2)?.to_ne_bytes());
    Some(Route {
        interface: columns[0].to_owned(),
        gateway: (!gateway.is_unspecified()).then_some(gateway.into()),
        metric: columns.get(6)?.parse().ok()?,
    })
}

fn default_route6(tree: &FactsRoot) -> Option<Route> {
    let text = tree.read_text("/proc/net/ipv6_route")?;
    best_route(text.lines().filter_map(parse_route6))
}

/// Columns: destination, its length, source, its length, next hop, metric, …, flags (8), interface (9).
fn parse_route6(line: &str) -> Option<Route> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let hex = |at: usize| u32::from_str_radix(columns.get(at)?, 16).ok();
    let wide = |at: usize| u128::from_str_radix(columns.get(at)?, 16).ok();
    let interface = *columns.get(9)?;
    if wide(0)? != 0 || hex(1)? != 0 || !is_usable(hex(8)?) || interface == "lo" {
        return None;
    }
    let gateway = Ipv6Addr::from_bits(wide(4)?);
    let gateway = (!gateway.is_unspecified()).then_some(gateway.into());
    Some(Route { interface: interface.to_owned(), gateway, metric: hex(5)? })
}

const fn is_usable(flags: u32) -> bool {
    flags & UP != 0 && flags & REJECT == 0
}

/// The interface that holds the default route.
pub(crate) fn default_interface(tree: &FactsRoot) -> Option<String> {
    default_route4(tree).or_else(|| default_route6(tree)).map(|r| r.interface)
}

pub(crate) fn gateways(facts: &Facts) -> Map {
    let (v4, v6) = (default_route4(&facts.tree), default_route6(&facts.tree));
    let fact = |route: &Option<Route>| match route {
        None => Value::Bool(false),
        Some(Route { gateway: None, .. }) => Value::Bool(true),
        Some(Route { gateway: Some(ip), .. }) => ip.to_string().into(),
    };
    let any = v4.is_some() || v6.is_some();
    Map::from_iter([("ip_gw", Value::Bool(any)), ("ip4_gw", fact(&v4)), ("ip6_gw", fact(&v6))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    #[test]
    fn interfaces_by_family() {
        FactsFixture::new()
            .interface("lo", "00:00:00:00:00:00", &[("127.0.0.1", 8), ("::1", 128)])
            .interface("ifb0", "2a:3a:33:aa:a6:70", &[])
            .interface("tun0", "", &[("10.8.0.1", 32)])
            .interface(
                "eth0",
                "02:fc:00:00:00:01",
                &[("192.0.2.10", 24), ("192.0.2.9", 24), ("198.51.100.1", 24), ("fd00::2", 64), ("fe80::1", 64)],
            )
            .expect(
                r#"{"hwaddr_interfaces": {"lo": "00:00:00:00:00:00", "ifb0": "2a:3a:33:aa:a6:70", "eth0": "02:fc:00:00:00:01"},
                "ip4_interfaces": {"lo": ["127.0.0.1"], "ifb0": [], "tun0": ["10.8.0.1"],
                    "eth0": ["192.0.2.10", "198.51.100.1", "192.0.2.9"]},
                "ip6_interfaces": {"lo": ["::1"], "ifb0": [], "tun0": [], "eth0": ["fd00::2", "fe80::1"]},
                "ip_interfaces": {"lo": ["127.0.0.1", "::1"], "ifb0": [], "tun0": ["10.8.0.1"],
                    "eth0": ["192.0.2.10", "198.51.100.1", "fd00::2", "fe80::1", "192.0.2.9"]},
                "ipv4": ["10.8.0.1", "127.0.0.1", "192.0.2.9", "192.0.2.10", "198.51.100.1"],
                "ipv6": ["::1", "fd00::2", "fe80::1"]}"#,
            );
    }

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    const ZERO: &str = "00000000000000000000000000000000";

    #[test]
    fn gateways_are_those_of_the_best_default_route() {
        let v4 = format!(
            "{HEAD}wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
             eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
             eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        );
        let v6 = format!(
            "{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200       lo\n\
             {ZERO} 00 {ZERO} 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n"
        );
        FactsFixture::new()
            .file("/proc/net/route", v4)
            .file("/proc/net/ipv6_route", v6)
            .expect(r#"{"ip_gw": true, "ip4_gw": "192.0.2.1", "ip6_gw": "fd00::1"}"#);
    }

    #[test]
    fn a_route_without_gateway_and_none_at_all() {
        let v4 = format!("{HEAD}ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\nbroken\n");
        FactsFixture::new()
            .file("/proc/net/route", v4)
            .expect(r#"{"ip_gw": true, "ip4_gw": true, "ip6_gw": false}"#);
        FactsFixture::new().expect(r#"{"ip_gw": false, "ip4_gw": false, "ip6_gw": false}"#);
    }
}
