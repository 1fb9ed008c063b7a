//! DER: values in, bytes out; and bytes in, their items out.
//!
//! Why not a crate: what is built here is a dozen kinds of values, and the layout of every one is decided by the state.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const UTF8: u8 = 0x0c;
pub(super) const PRINTABLE: u8 = 0x13;
pub(super) const IA5: u8 = 0x16;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERAL_TIME: u8 = 0x18;
const BMP: u8 = 0x1e;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The first year that needs a longer kind of time.
const GENERAL_TIME_YEAR: i16 = 2050;

/// One item.
pub(super) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        short @ 0..=0x7f => out.push(u8::try_from(short).unwrap_or_default()),
        long => {
            let bytes = long.to_be_bytes();
            let bytes = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
            out.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
            out.extend(bytes);
        }
    }
    out.extend(content);
    out
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(SEQUENCE, &parts.concat())
}

/// A context tag around whole items.
pub(super) fn explicit(number: u8, content: &[u8]) -> Vec<u8> {
    tlv(0xa0 | number, content)
}

/// A context tag in the place of that of a plain item.
pub(super) fn implicit(number: u8, content: &[u8]) -> Vec<u8> {
    tlv(0x80 | number, content)
}

/// The content of a whole number that is not negative, of its bytes.
pub(super) fn number_content(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
    let pad = bytes.first().is_none_or(|b| *b >= 0x80);
    pad.then_some(0).into_iter().chain(bytes.iter().copied()).collect()
}

pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    tlv(INTEGER, &number_content(bytes))
}

pub(super) fn small(number: u64) -> Vec<u8> {
    integer(&number.to_be_bytes())
}

pub(super) fn octets(bytes: &[u8]) -> Vec<u8> {
    tlv(OCTET_STRING, bytes)
}

/// Whole bytes as a bit string.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    tlv(BIT_STRING, &[&[0], bytes].concat())
}

/// The content of a bit string of flags, of the numbers that are set.
pub(super) fn flags_content(set: &[usize]) -> Vec<u8> {
    let Some(last) = set.iter().max() else { return vec![0] };
    let mut out = vec![0_u8; last / 8 + 2];
    out[0] = u8::try_from(7 - last % 8).unwrap_or_default();
    for bit in set {
        out[1 + bit / 8] |= 0x80 >> (bit % 8);
    }
    out
}

/// The numbers that are set in the content of a bit string.
pub(super) fn flags_set(content: &[u8]) -> Vec<usize> {
    let bytes = content.get(1..).unwrap_or_default();
    (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] & (0x80 >> (bit % 8)) != 0).collect()
}

/// An object identifier, of its dotted text.
pub(super) fn object(dotted: &str) -> Option<Vec<u8>> {
    let parts: Vec<u64> = dotted.split('.').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let [first @ 0..=2, second, rest @ ..] = parts.as_slice() else { return None };
    let mut content = Vec::new();
    for part in std::iter::once(&first.checked_mul(40)?.checked_add(*second)?).chain(rest) {
        let mut groups = vec![u8::try_from(part & 0x7f).ok()?];
        let mut left = part >> 7;
        while left > 0 {
            groups.push(u8::try_from(left & 0x7f).ok()? | 0x80);
            left >>= 7;
        }
        content.extend(groups.iter().rev());
    }
    Some(tlv(OBJECT, &content))
}

/// The dotted text of the content of an object identifier.
pub(super) fn object_text(content: &[u8]) -> String {
    let mut parts: Vec<u64> = Vec::new();
    let mut value = 0_u64;
    for byte in content {
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if parts.is_empty() {
                let first = (value / 40).min(2);
                parts.extend([first, value - first * 40]);
            } else {
                parts.push(value);
            }
            value = 0;
        }
    }
    parts.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// A time, to the second.
pub(super) fn time(at: Timestamp) -> Vec<u8> {
    let date = at.to_zoned(TimeZone::UTC).datetime();
    if date.year() < GENERAL_TIME_YEAR {
        tlv(UTC_TIME, date.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        general_time(date)
    }
}

pub(super) fn general_time(date: DateTime) -> Vec<u8> {
    tlv(GENERAL_TIME, date.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
}

/// The time of an item.
pub(super) fn read_time(item: &Item<'_>) -> Option<Timestamp> {
    let text = std::str::from_utf8(item.content).ok()?.strip_suffix('Z')?;
    let text = match item.tag {
        UTC_TIME if text < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERAL_TIME => text.to_owned(),
        _ => return None,
    };
    let date = DateTime::strptime("%Y%m%d%H%M%S", &text).ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// One item of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// With its tag and length.
    pub(super) whole: &'a [u8],
}

impl<'a> Item<'a> {
    /// The items in it.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        items(self.content)
    }

    /// The text of a string.
    pub(super) fn text(&self) -> String {
        match self.tag {
            BMP => {
                let units = self.content.chunks_exact(2).map(|c| u16::from_be_bytes([c[0], c[1]]));
                char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            UTF8 | PRINTABLE | IA5 => String::from_utf8_lossy(self.content).into_owned(),
            _ => match std::str::from_utf8(self.content) {
                Ok(text) => text.to_owned(),
                Err(_) => self.content.iter().map(|b| char::from(*b)).collect(),
            },
        }
    }

    /// The bytes of a number, without leading zeros.
    pub(super) fn number(&self) -> Vec<u8> {
        let zeros = self.content.iter().take_while(|b| **b == 0).count();
        self.content[zeros..].to_vec()
    }

    /// A small number.
    pub(super) fn small(&self) -> Option<u64> {
        let number = self.number();
        (number.len() <= 8).then(|| number.iter().fold(0, |n, b| (n << 8) | u64::from(*b)))
    }
}

/// The first item, and what follows it.
pub(super) fn first(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&head, rest) = rest.split_first()?;
    let (length, rest) = match head {
        0..=0x7f => (usize::from(head), rest),
        0x81..=0x84 => {
            let (size, rest) = rest.split_at_checked(usize::from(head & 0x7f))?;
            (size.iter().fold(0_usize, |n, b| (n << 8) | usize::from(*b)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    let whole = &bytes[..bytes.len() - rest.len()];
    Some((Item { tag, content, whole }, rest))
}

/// All items; nothing when the bytes are not whole items.
pub(super) fn items(mut bytes: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (item, rest) = first(bytes)?;
        all.push(item);
        bytes = rest;
    }
    Some(all)
}

/// The items of the only sequence that the bytes are.
pub(super) fn only_sequence(bytes: &[u8]) -> Option<Vec<Item<'_>>> {
    match first(bytes)? {
        (item, []) if item.tag == SEQUENCE => item.items(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_and_read_back() {
        assert_eq!(small(0), [2, 1, 0]);
        assert_eq!(small(128), [2, 2, 0, 128]);
        assert_eq!(tlv(4, &[7; 200])[..3], [4, 0x81, 200]);
        let name = object("1.2.840.113549.1.1.11").unwrap();
        assert_eq!(name, [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 0x0b]);
        assert_eq!(object_text(&name[2..]), "1.2.840.113549.1.1.11");
        assert_eq!(object_text(&object("2.5.29.15").unwrap()[2..]), "2.5.29.15");
        assert!(object("x").is_none() && object("3.1").is_none());
        assert_eq!(flags_content(&[0, 8]), [7, 0x80, 0x80]);
        assert_eq!(flags_set(&flags_content(&[1, 5])), [1, 5]);
        for text in ["2049-12-31T23:59:59Z", "2050-01-01T00:00:00Z", "1999-01-02T03:04:05Z"] {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(read_time(&first(&time(at)).unwrap().0), Some(at), "{text}");
        }
        assert!(items(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]).is_none() && items(&[0x30]).is_none());
    }
}
