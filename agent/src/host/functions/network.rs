//! `network.*` that look at interfaces, and `hosts.*`.

use std::net::{IpAddr, Ipv4Addr};

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, entry, flag, strings, text, word};
use crate::facts::{Address, Interface, Live, System};
use crate::host::Machine;

pub(super) const TABLE: &[Entry] = &[
    entry("network.interfaces", "", |m, _| {
        Ok(all().iter().map(|i| (i.name.as_str(), shown(m, i))).collect::<Map>().into())
    }),
    entry("network.interface", "iface", |m, a| {
        named(a, |i| shown(m, i).get("inet").cloned().unwrap_or_default())
    }),
    entry("network.interface_ip", "iface", |_, a| {
        named(a, |i| {
            i.addresses.iter().find(|x| x.ip.is_ipv4()).map(|x| x.ip.to_string()).unwrap_or_default().into()
        })
    }),
    entry("network.hw_addr", "iface", |_, a| named(a, |i| i.hwaddr.clone().into())),
    entry("network.hwaddr", "iface", |_, a| named(a, |i| i.hwaddr.clone().into())),
    entry("network.ip_addrs", ADDRS, |_, a| addresses(a, IpAddr::is_ipv4)),
    entry("network.ipaddrs", ADDRS, |_, a| addresses(a, IpAddr::is_ipv4)),
    entry("network.ip_addrs6", ADDRS, |_, a| addresses(a, IpAddr::is_ipv6)),
    entry("network.ipaddrs6", ADDRS, |_, a| addresses(a, IpAddr::is_ipv6)),
    entry("network.subnets", "interfaces?", |_, _| Ok(strings(subnets(IpAddr::is_ipv4)))),
    entry("network.subnets6", "", |_, _| Ok(strings(subnets(IpAddr::is_ipv6)))),
    entry("network.in_subnet", "cidr", |_, a| {
        let cidr = text(a, "cidr")?;
        Ok(all().iter().flat_map(|i| &i.addresses).any(|x| !x.ip.is_loopback() && within(x.ip, cidr)).into())
    }),
    entry("network.get_hostname", "", |_, _| Ok(Live.uname().nodename.into())),
    entry("hosts.list_hosts", "", |m, _| {
        Ok(hosts(m)?
            .into_iter()
            .map(|(ip, names)| (ip, Value::from([("aliases", strings(names))].into_iter().collect::<Map>())))
            .collect::<Map>()
            .into())
    }),
    entry("hosts.get_ip", "host", |m, a| {
        let host = text(a, "host")?;
        let found = hosts(m)?.into_iter().find(|(_, names)| names.iter().any(|n| n == host));
        Ok(found.map(|(ip, _)| ip).unwrap_or_default().into())
    }),
    entry("hosts.get_alias", "ip", |m, a| {
        let ip = text(a, "ip")?;
        Ok(strings(hosts(m)?.into_iter().find(|(i, _)| i == ip).map(|(_, names)| names).unwrap_or_default()))
    }),
    entry("hosts.has_pair", "ip alias", |m, a| {
        let (ip, alias) = (text(a, "ip")?, text(a, "alias")?);
        Ok(hosts(m)?.iter().any(|(i, names)| i == ip && names.iter().any(|n| n == alias)).into())
    }),
];

const ADDRS: &str = "interface? include_loopback? cidr? type?";

fn all() -> Vec<Interface> {
    Live.interfaces()
}

fn named(args: &Bound<Value>, f: impl Fn(&Interface) -> Value) -> Result<Value, Refusal> {
    let name = text(args, "iface")?;
    let all = all();
    Ok(all.iter().find(|i| i.name == name).map_or_else(
        || {
            let names: Vec<String> = all.iter().map(|i| format!("\"{}\"", i.name)).collect();
            format!("Interface \"{name}\" not in available interfaces: {}", names.join(", ")).into()
        },
        f,
    ))
}

fn mask(prefix: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0))
}

fn shown(machine: &Machine, interface: &Interface) -> Value {
    let flags = machine.read(&format!("/sys/class/net/{}/flags", interface.name)).ok().flatten();
    let flags = flags.and_then(|f| u32::from_str_radix(f.trim().trim_start_matches("0x"), 16).ok());
    let mut out = Map::new();
    out.insert("up", flags.is_some_and(|f| f & 1 == 1));
    if let Some(hwaddr) = &interface.hwaddr {
        out.insert("hwaddr", hwaddr.as_str());
    }
    let v4: Vec<Value> = interface.addresses.iter().filter_map(|a| v4(&interface.name, *a)).collect();
    let v6: Vec<Value> = interface.addresses.iter().filter_map(|a| v6(*a)).collect();
    for (key, list) in [("inet", v4), ("inet6", v6)] {
        if !list.is_empty() {
            out.insert(key, list);
        }
    }
    out.into()
}

fn v4(label: &str, address: Address) -> Option<Value> {
    let IpAddr::V4(ip) = address.ip else { return None };
    let mask = mask(address.prefix);
    let mut out = Map::new();
    out.insert("address", ip.to_string());
    out.insert("netmask", mask.to_string());
    let last = Ipv4Addr::from(u32::from(ip) | !u32::from(mask));
    out.insert("broadcast", Some(last.to_string()).filter(|_| !ip.is_loopback()));
    out.insert("label", label);
    Some(out.into())
}

fn v6(address: Address) -> Option<Value> {
    let IpAddr::V6(ip) = address.ip else { return None };
    let scope = match () {
        () if ip.is_loopback() => "host",
        () if ip.segments()[0] & 0xffc0 == 0xfe80 => "link",
        () => "global",
    };
    let mut out = Map::new();
    out.insert("address", ip.to_string());
    out.insert("prefixlen", address.prefix.to_string());
    out.insert("scope", scope);
    Some(out.into())
}

fn addresses(args: &Bound<Value>, kind: fn(&IpAddr) -> bool) -> Result<Value, Refusal> {
    let only = word(args, "interface");
    let loopback = flag(args, "include_loopback", false);
    let cidr = word(args, "cidr");
    let mut found: Vec<IpAddr> = all()
        .iter()
        .filter(|i| only.is_none_or(|o| i.name == o || i.name.split(':').next() == Some(o)))
        .flat_map(|i| i.addresses.iter().map(|a| a.ip))
        .filter(|ip| kind(ip) && (loopback || !ip.is_loopback()) && cidr.is_none_or(|c| within(*ip, c)))
        .collect();
    found.sort_unstable();
    found.dedup();
    Ok(strings(found.iter().map(IpAddr::to_string)))
}

/// The network of an address: its first address and the prefix.
fn network(ip: IpAddr, prefix: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) & u32::from(mask(prefix))).into(),
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(ip) & mask).into()
        }
    }
}

fn within(ip: IpAddr, cidr: &str) -> bool {
    let (first, prefix) = cidr.split_once('/').unwrap_or((cidr, if ip.is_ipv4() { "32" } else { "128" }));
    let (Ok(first), Ok(prefix)) = (first.parse::<IpAddr>(), prefix.parse::<u32>()) else { return false };
    first.is_ipv4() == ip.is_ipv4() && network(ip, prefix) == first
}

fn subnets(kind: fn(&IpAddr) -> bool) -> Vec<String> {
    let mut found: Vec<(IpAddr, u32)> = all()
        .iter()
        .flat_map(|i| i.addresses.iter().filter(|a| kind(&a.ip) && !a.ip.is_loopback()))
        .map(|a| (network(a.ip, a.prefix), a.prefix))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.iter().map(|(ip, prefix)| format!("{ip}/{prefix}")).collect()
}

fn hosts(machine: &Machine) -> Result<Vec<(String, Vec<String>)>, Refusal> {
    let file = machine.read("/etc/hosts")?.unwrap_or_default();
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for line in file.lines().filter_map(|l| l.split('#').next()) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(ip) = words.next() else { continue };
        match out.iter_mut().find(|(i, _)| *i == ip) {
            Some((_, names)) => names.extend(words),
            None => out.push((ip, words.collect())),
        }
    }
    Ok(out)
}
