//! IP addresses and interfaces as Python's `ipaddress` reads, classifies and writes them.

use crate::private_networks::PRIVATE_NETWORKS;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, with a prefix when it was written as an interface.
#[derive(Clone, Debug)]
pub(super) struct IpValue {
    pub(super) address: IpAddr,
    pub(super) prefix: Option<u8>,
    scope: Option<String>,
}

impl IpValue {
    /// Reads an address or an interface (`address/prefix`, `address/netmask`).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let (address, scope) = match address.split_once('%') {
            Some((_, "")) => return None,
            Some((address, scope)) => (address, Some(scope.to_owned())),
            None => (address, None),
        };
        let address: IpAddr = address.parse().ok()?;
        if scope.is_some() && address.is_ipv4() {
            return None;
        }
        let prefix = match prefix {
            None => None,
            Some(prefix) => Some(parse_prefix(prefix, &address)?),
        };
        Some(Self { address, prefix, scope })
    }

    /// The address of a number: version 4 when it fits.
    pub(super) fn from_number(number: u128) -> Self {
        let is_v4 = u32::try_from(number).is_ok();
        Self { address: address_of(number, is_v4), prefix: None, scope: None }
    }

    pub(super) const fn bits(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    pub(super) fn prefix_or_full(&self) -> u8 {
        self.prefix.unwrap_or_else(|| self.bits())
    }

    /// As Python writes it; an interface has its prefix appended.
    pub(super) fn text(&self) -> String {
        let scope = self.scope.as_ref().map(|s| format!("%{s}")).unwrap_or_default();
        let prefix = self.prefix.map(|p| format!("/{p}")).unwrap_or_default();
        format!("{}{scope}{prefix}", address_text(&self.address))
    }

    /// As an interface, always with a prefix.
    pub(super) fn interface_text(&self) -> String {
        Self { prefix: Some(self.prefix_or_full()), ..self.clone() }.text()
    }

    fn number(&self) -> u128 {
        number(&self.address)
    }

    /// The first and the last address of the network.
    pub(super) fn range(&self) -> (u128, u128) {
        let host_bits = u32::from(self.bits() - self.prefix_or_full());
        let hosts = if host_bits == 128 { u128::MAX } else { (1u128 << host_bits) - 1 };
        (self.number() & !hosts, self.number() | hosts)
    }

    /// True when the other is in this network.
    pub(super) fn contains(&self, other: &Self) -> bool {
        let (first, last) = self.range();
        self.address.is_ipv4() == other.address.is_ipv4() && (first..=last).contains(&other.number())
    }

    fn is_in(&self, networks: &[&str]) -> bool {
        networks.iter().filter_map(|n| Self::parse(n)).any(|n| n.contains(self))
    }

    /// One of the properties that the filters' options name; `None` for a name that is not an option.
    pub(super) fn has_property(&self, option: &str) -> Option<bool> {
        let is_v4 = self.address.is_ipv4();
        Some(match option {
            "global" | "public" => !self.is_private(),
            "private" => self.is_private(),
            "link-local" | "linklocal" | "ll" | "link_local" => self.is_in(&["169.254.0.0/16", "fe80::/10"]),
            "loopback" | "lo" => self.is_in(&["127.0.0.0/8", "::1/128"]),
            "multicast" => self.is_in(&["224.0.0.0/4", "ff00::/8"]),
            "reserved" if is_v4 => self.is_in(&["240.0.0.0/4"]),
            "reserved" => self.is_in(RESERVED_V6),
            "site-local" | "sl" | "site_local" => !is_v4 && self.is_in(&["fec0::/10"]),
            "unspecified" => self.number() == 0,
            _ => return None,
        })
    }

    fn is_private(&self) -> bool {
        if let IpAddr::V6(v6) = self.address
            && let Some(mapped) = v6.to_ipv4_mapped()
        {
            return Self { address: IpAddr::V4(mapped), prefix: None, scope: None }.is_in(&PRIVATE_NETWORKS);
        }
        self.is_in(&PRIVATE_NETWORKS)
    }
}

const RESERVED_V6: &[&str] = &[
    "::/8", "100::/8", "200::/7", "400::/6", "800::/5", "1000::/4", "4000::/3", "6000::/3", "8000::/3",
    "a000::/3", "c000::/3", "e000::/4", "f000::/5", "f800::/6", "fe00::/9",
];

fn parse_prefix(text: &str, address: &IpAddr) -> Option<u8> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|p| *p <= bits);
    }
    let IpAddr::V4(_) = address else { return None };
    let mask = u32::from(text.parse::<Ipv4Addr>().ok()?);
    // A netmask is ones, then zeros; a hostmask the other way round.
    for mask in [mask, !mask] {
        if mask.leading_ones() + mask.trailing_zeros() == 32 {
            return u8::try_from(mask.leading_ones()).ok();
        }
    }
    None
}

fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(*a)),
        IpAddr::V6(a) => u128::from(*a),
    }
}

/// The address of a number.
pub(super) fn address_of(number: u128, is_v4: bool) -> IpAddr {
    if is_v4 {
        IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)))
    } else {
        IpAddr::V6(Ipv6Addr::from(number))
    }
}

/// An address as Python writes it: the longest run of zeros is shortened, mapped addresses stay hexadecimal.
pub(super) fn address_text(address: &IpAddr) -> String {
    let IpAddr::V6(v6) = address else {
        return address.to_string();
    };
    let groups = v6.segments();
    let (mut best_start, mut best_len, mut i) = (0, 0, 0);
    while i < groups.len() {
        let run = groups[i..].iter().take_while(|g| **g == 0).count();
        if run > best_len {
            (best_start, best_len) = (i, run);
        }
        i += run.max(1);
    }
    let join = |part: &[u16]| part.iter().map(|g| format!("{g:x}")).collect::<Vec<_>>().join(":");
    if best_len < 2 {
        return join(&groups);
    }
    format!("{}::{}", join(&groups[..best_start]), join(&groups[best_start + best_len..]))
}
