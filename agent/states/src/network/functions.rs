//! `network.*`: interfaces and their addresses, and the name of the host.

use std::net::{IpAddr, Ipv4Addr};

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, flag_arg, optional_text_arg, query_fn, string_list, text_arg};
use zagent_host::Machine;
use zagent_host::facts::{IpWithPrefix, NetInterface, machine_system};

const ADDRS_SIGNATURE: &str = "interface? include_loopback? cidr? type?";

/// The execution functions of `network`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("network.interfaces", "", |m, _| {
        Ok(all_interfaces(m)
            .iter()
            .map(|i| (i.name.as_str(), interface_to_value(m, i)))
            .collect::<Map>()
            .into())
    }),
    query_fn("network.interface", "iface", |m, a| {
        with_interface(m, a, |i| interface_to_value(m, i).get("inet").cloned().unwrap_or_default())
    }),
    query_fn("network.interface_ip", "iface", |m, a| {
        with_interface(m, a, |i| {
            i.addresses.iter().find(|x| x.ip.is_ipv4()).map(|x| x.ip.to_string()).unwrap_or_default().into()
        })
    }),
    query_fn("network.hw_addr", "iface", |m, a| with_interface(m, a, |i| i.hwaddr.clone().into())),
    query_fn("network.hwaddr", "iface", |m, a| with_interface(m, a, |i| i.hwaddr.clone().into())),
    query_fn("network.ip_addrs", ADDRS_SIGNATURE, |m, a| addresses(m, a, IpAddr::is_ipv4)),
    query_fn("network.ipaddrs", ADDRS_SIGNATURE, |m, a| addresses(m, a, IpAddr::is_ipv4)),
    query_fn("network.ip_addrs6", ADDRS_SIGNATURE, |m, a| addresses(m, a, IpAddr::is_ipv6)),
    query_fn("network.ipaddrs6", ADDRS_SIGNATURE, |m, a| addresses(m, a, IpAddr::is_ipv6)),
    query_fn("network.subnets", "interfaces?", |m, _| Ok(string_list(subnets(m, IpAddr::is_ipv4)))),
    query_fn("network.subnets6", "", |m, _| Ok(string_list(subnets(m, IpAddr::is_ipv6)))),
    query_fn("network.in_subnet", "cidr", |m, a| {
        let cidr = text_arg(a, "cidr")?;
        Ok(all_interfaces(m)
            .iter()
            .flat_map(|i| &i.addresses)
            .any(|x| !x.ip.is_loopback() && is_in_cidr(x.ip, cidr))
            .into())
    }),
    query_fn("network.get_hostname", "", |m, _| Ok(machine_system(m).uname().nodename.into())),
];

fn all_interfaces(machine: &Machine) -> Vec<NetInterface> {
    machine_system(machine).interfaces()
}

fn with_interface(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    f: impl Fn(&NetInterface) -> Value,
) -> Result<Value, FunctionError> {
    let name = text_arg(args, "iface")?;
    let all = all_interfaces(machine);
    Ok(all.iter().find(|i| i.name == name).map_or_else(
        || {
            let names: Vec<String> = all.iter().map(|i| format!("\"{}\"", i.name)).collect();
            format!("Interface \"{name}\" not in available interfaces: {}", names.join(", ")).into()
        },
        f,
    ))
}

fn netmask(prefix: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0))
}

fn interface_to_value(machine: &Machine, interface: &NetInterface) -> Value {
    let flags = machine.read(&format!("/sys/class/net/{}/flags", interface.name)).ok().flatten();
    let flags = flags.and_then(|f| u32::from_str_radix(f.trim().trim_start_matches("0x"), 16).ok());
    let mut out = Map::new();
    out.insert("up", flags.is_some_and(|f| f & 1 == 1));
    if let Some(hwaddr) = &interface.hwaddr {
        out.insert("hwaddr", hwaddr.as_str());
    }
    let v4: Vec<Value> =
        interface.addresses.iter().filter_map(|a| ipv4_to_value(&interface.name, *a)).collect();
    let v6: Vec<Value> = interface.addresses.iter().filter_map(|a| ipv6_to_value(*a)).collect();
    for (key, list) in [("inet", v4), ("inet6", v6)] {
        if !list.is_empty() {
            out.insert(key, list);
        }
    }
    out.into()
}

fn ipv4_to_value(label: &str, address: IpWithPrefix) -> Option<Value> {
    let IpAddr::V4(ip) = address.ip else { return None };
    let mask = netmask(address.prefix);
    let mut out = Map::new();
    out.insert("address", ip.to_string());
    out.insert("netmask", mask.to_string());
    let last = Ipv4Addr::from(u32::from(ip) | !u32::from(mask));
    out.insert("broadcast", Some(last.to_string()).filter(|_| !ip.is_loopback()));
    out.insert("label", label);
    Some(out.into())
}

fn ipv6_to_value(address: IpWithPrefix) -> Option<Value> {
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

fn addresses(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    kind: fn(&IpAddr) -> bool,
) -> Result<Value, FunctionError> {
    let only = optional_text_arg(args, "interface");
    let loopback = flag_arg(args, "include_loopback", false);
    let cidr = optional_text_arg(args, "cidr");
    let mut found: Vec<IpAddr> = all_interfaces(machine)
        .iter()
        .filter(|i| only.is_none_or(|o| i.name == o || i.name.split(':').next() == Some(o)))
        .flat_map(|i| i.addresses.iter().map(|a| a.ip))
        .filter(|ip| kind(ip) && (loopback || !ip.is_loopback()) && cidr.is_none_or(|c| is_in_cidr(*ip, c)))
        .collect();
    found.sort_unstable();
    found.dedup();
    Ok(string_list(found.iter().map(IpAddr::to_string)))
}

/// The network of an address: its first address and the prefix.
fn network_address(ip: IpAddr, prefix: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) & u32::from(netmask(prefix))).into(),
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(ip) & mask).into()
        }
    }
}

fn is_in_cidr(ip: IpAddr, cidr: &str) -> bool {
    let (first, prefix) = cidr.split_once('/').unwrap_or((cidr, if ip.is_ipv4() { "32" } else { "128" }));
    let (Ok(first), Ok(prefix)) = (first.parse::<IpAddr>(), prefix.parse::<u32>()) else { return false };
    first.is_ipv4() == ip.is_ipv4() && network_address(ip, prefix) == first
}

fn subnets(machine: &Machine, kind: fn(&IpAddr) -> bool) -> Vec<String> {
    let mut found: Vec<(IpAddr, u32)> = all_interfaces(machine)
        .iter()
        .flat_map(|i| i.addresses.iter().filter(|a| kind(&a.ip) && !a.ip.is_loopback()))
        .map(|a| (network_address(a.ip, a.prefix), a.prefix))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.iter().map(|(ip, prefix)| format!("{ip}/{prefix}")).collect()
}
