//! The part of `network.*` that only computes: networks, masks, private and loopback addresses.

use crate::private_networks::PRIVATE_NETWORKS;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zagent_config::{Map, Value as Data};

use super::files::text_arg;
use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("network.calc_net", "ip_addr netmask?", calc_net),
    data_function("network.ip_in_subnet", "ip_addr cidr", ip_in_subnet),
    data_function("network.convert_cidr", "cidr", convert_cidr),
    data_function("network.is_private", "ip_addr", |_, args| {
        Ok(is_private(address(text_arg(args, "ip_addr")?)?).into())
    }),
    data_function("network.is_loopback", "ip_addr", |_, args| {
        Ok(address(text_arg(args, "ip_addr")?)?.is_loopback().into())
    }),
    data_function("network.reverse_ip", "ip_addr", |_, args| {
        Ok(reverse_pointer(address(text_arg(args, "ip_addr")?)?).into())
    }),
];

/// A network: its first address, the length of its prefix, and whether the text gave another address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IpNetwork {
    first: IpAddr,
    prefix: u32,
    exact: bool,
}

fn address(text: &str) -> Result<IpAddr, FunctionError> {
    text.parse().map_err(|_| FunctionError::failed(format!("`{text}` is not an IP address")))
}

const fn address_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

fn from_bits(like: IpAddr, bits: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => {
            Ipv4Addr::from(u32::try_from(bits & u128::from(u32::MAX)).unwrap_or(u32::MAX)).into()
        }
        IpAddr::V6(_) => Ipv6Addr::from(bits).into(),
    }
}

/// The host bits of the network.
fn host_bits(width: u32, prefix: u32) -> u128 {
    let n = width.saturating_sub(prefix);
    if n >= 128 { u128::MAX } else { (1 << n) - 1 }
}

impl IpNetwork {
    fn parse(text: &str) -> Result<Self, FunctionError> {
        let wrong = || FunctionError::failed(format!("`{text}` is not an IP network"));
        let (ip, mask) = text.split_once('/').map_or((text, None), |(ip, mask)| (ip, Some(mask)));
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let prefix = match mask {
            None => address_bits(ip),
            Some(mask) => prefix_of(ip, mask).ok_or_else(wrong)?,
        };
        let first = from_bits(ip, to_bits(ip) & !host_bits(address_bits(ip), prefix));
        Ok(Self { first, prefix, exact: first == ip })
    }

    fn contains(self, ip: IpAddr) -> bool {
        address_bits(self.first) == address_bits(ip)
            && to_bits(ip) & !host_bits(address_bits(ip), self.prefix) == to_bits(self.first)
    }

    fn last(self) -> IpAddr {
        from_bits(self.first, to_bits(self.first) | host_bits(address_bits(self.first), self.prefix))
    }

    fn mask(self) -> IpAddr {
        from_bits(self.first, !host_bits(address_bits(self.first), self.prefix))
    }
}

/// A prefix length written as a number, a netmask or a host mask.
fn prefix_of(ip: IpAddr, mask: &str) -> Option<u32> {
    if mask.bytes().all(|b| b.is_ascii_digit()) {
        return mask.parse().ok().filter(|p| *p <= address_bits(ip));
    }
    let mask = u32::from(mask.parse::<Ipv4Addr>().ok().filter(|_| ip.is_ipv4())?);
    let net = mask.leading_ones();
    if mask.count_ones() == net {
        return Some(net);
    }
    let host = mask.trailing_ones();
    (mask.count_ones() == host).then(|| 32 - host)
}

fn calc_net(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let ip = text_arg(args, "ip_addr")?;
    let net = match args.get("netmask") {
        None | Some(Data::Null) => IpNetwork::parse(ip)?,
        Some(mask) => IpNetwork::parse(&format!("{ip}/{}", mask.json_key()))?,
    };
    Ok(format!("{}/{}", net.first, net.prefix).into())
}

fn ip_in_subnet(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let Some(net) = IpNetwork::parse(text_arg(args, "cidr")?).ok().filter(|n| n.exact) else {
        return Ok(false.into());
    };
    let ips: Vec<&str> = match args.get("ip_addr") {
        Some(Data::List(ips)) => ips.iter().filter_map(Data::as_str).collect(),
        _ => vec![text_arg(args, "ip_addr")?],
    };
    for ip in ips {
        if net.contains(address(ip)?) {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

fn convert_cidr(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let net = IpNetwork::parse(text_arg(args, "cidr")?)?;
    let parts = [("network", net.first), ("netmask", net.mask()), ("broadcast", net.last())];
    Ok(parts.into_iter().map(|(k, v)| (k, v.to_string())).collect::<Map>().into())
}

fn is_private(ip: IpAddr) -> bool {
    PRIVATE_NETWORKS.iter().filter_map(|net| IpNetwork::parse(net).ok()).any(|net| net.contains(ip))
}

/// The reverse DNS name of an address.
fn reverse_pointer(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(a) => {
            let [a, b, c, d] = a.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(a) => {
            let digits = format!("{:032x}", u128::from(a));
            let mut name: String = digits.chars().rev().flat_map(|c| [c, '.']).collect();
            name.push_str("ip6.arpa");
            name
        }
    }
}
