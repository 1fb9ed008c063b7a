//! Addresses and networks for `S@`, compared with the grains `ipv4` and `ipv6`.

use std::net::IpAddr;

use super::TargetSubject;
use crate::value::Value;

/// An address, or a network whose host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CidrBlock {
    first: IpAddr,
    /// The prefix length; all bits for an address.
    bits: u8,
}

/// Why a text is neither, and the network that was probably intended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CidrError {
    pub(super) message: String,
    pub(super) network: Option<String>,
}

impl CidrBlock {
    pub(super) fn parse(text: &str) -> Result<Self, CidrError> {
        let no = |message: String| CidrError { message, network: None };
        let (address, length) = match text.split_once('/') {
            None => (text, None),
            Some((address, length)) => (address, Some(length)),
        };
        let first: IpAddr =
            address.parse().map_err(|_| no(format!("`{text}` is neither an address nor a network")))?;
        let full = address_bits(first);
        let Some(length) = length else { return Ok(Self { first, bits: full }) };
        let bits = prefix_length(length, first).ok_or_else(|| {
            no(format!("`{length}` is not a valid prefix length or mask for a {full}-bit address"))
        })?;
        let network = apply_mask(first, bits);
        if network != first {
            return Err(CidrError {
                message: format!("`{text}` has host bits set"),
                network: Some(format!("{network}/{bits}")),
            });
        }
        Ok(Self { first, bits })
    }

    /// True when a grain of the same family holds an address inside.
    pub(super) fn matches_subject(self, subject: &dyn TargetSubject) -> bool {
        let grain = if self.first.is_ipv4() { "ipv4" } else { "ipv6" };
        match subject.grain(grain) {
            Some(Value::List(list)) => list.iter().any(|v| self.contains(v)),
            Some(one) => self.contains(&one),
            None => false,
        }
    }

    fn contains(self, value: &Value) -> bool {
        value.as_str().and_then(|text| text.parse::<IpAddr>().ok()).is_some_and(|address| {
            address.is_ipv4() == self.first.is_ipv4() && apply_mask(address, self.bits) == self.first
        })
    }
}

const fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A prefix length in digits, or for IPv4 a net mask or a host mask.
fn prefix_length(text: &str, address: IpAddr) -> Option<u8> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<u8>().ok().filter(|bits| *bits <= address_bits(address));
    }
    let (IpAddr::V4(_), Ok(IpAddr::V4(mask))) = (address, text.parse()) else { return None };
    let mask = u32::from(mask);
    let ones = if mask.leading_ones() > 0 { mask } else { !mask };
    let bits = ones.leading_ones();
    (bits == ones.count_ones()).then(|| u8::try_from(bits).ok()).flatten()
}

fn apply_mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(a) & mask).into())
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(a) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_python_reads() {
        for (text, want) in [
            ("10.0.0.1", Some(32)),
            ("10.0.0.0/8", Some(8)),
            ("10.0.0.0/255.0.0.0", Some(8)),
            ("10.0.0.0/0.255.255.255", Some(8)),
            ("0.0.0.0/0", Some(0)),
            ("::/0", Some(0)),
            ("fe80::/64", Some(64)),
            ("10.0.0.0/255.0.255.0", None),
            ("10.0.0.0/33", None),
            ("10.0.0.0/", None),
            ("10.0.0.1/8", None),
            ("10.0.0", None),
            ("fe80::/129", None),
            ("", None),
        ] {
            assert_eq!(CidrBlock::parse(text).ok().map(|b| b.bits), want, "{text}");
        }
        assert_eq!(CidrBlock::parse("10.1.2.3/8").unwrap_err().network.as_deref(), Some("10.0.0.0/8"));
    }
}
