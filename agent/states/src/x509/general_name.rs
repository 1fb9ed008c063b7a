//! General names: `DNS:a.example.org` and the like in, what a certificate holds out, and back.

use std::net::IpAddr;

use zagent_config::value::python_str;
use zagent_config::{FunctionError, Value};

use super::der::{self, Item};
use super::name::Name;

/// A kind and its value, as they are written.
pub(super) type WrittenName = (String, Value);

/// `kind:value` pairs of a list or of a text, and whether it is critical.
pub(super) fn written_names(value: &Value) -> (Vec<WrittenName>, bool) {
    match value {
        Value::List(list) => {
            let mut names = Vec::new();
            for item in list.iter() {
                match item {
                    Value::Map(map) => names.extend(map.iter().map(|(k, v)| (k.json_key(), v.clone()))),
                    other => names.extend(split_pair(&python_str(other))),
                }
            }
            (names, list.iter().any(|item| item.as_str() == Some("critical")))
        }
        Value::Map(map) => {
            (map.iter().map(|(k, v)| (k.json_key(), v.clone())).collect(), map.contains("critical"))
        }
        other => {
            let (parts, critical) = confstring(&python_str(other));
            (parts.into_iter().map(|(k, v)| (k, Value::from(v))).collect(), critical)
        }
    }
}

/// `kind:value` of a text.
pub(super) fn split_pair(text: &str) -> Option<WrittenName> {
    text.split_once(':').map(|(kind, value)| (kind.trim().to_owned(), Value::from(value.trim())))
}

/// Parts between commas, and whether `critical` stands before them.
pub(super) fn confstring(text: &str) -> (Vec<(String, String)>, bool) {
    let (text, critical) = match text.strip_prefix("critical") {
        Some(rest) => (rest.trim_matches(',').trim(), true),
        None => (text, false),
    };
    let part = |part: &str| match part.split_once(':') {
        Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
        None => (part.trim().to_owned(), "__present__".to_owned()),
    };
    (text.split(',').map(str::trim).map(part).collect(), critical)
}

/// Names as a certificate holds them, one after the other.
pub(super) fn encode_all(names: &[WrittenName]) -> Result<Vec<u8>, FunctionError> {
    names
        .iter()
        .map(|(kind, value)| encode(kind, value))
        .collect::<Result<Vec<_>, _>>()
        .map(|all| all.concat())
}

/// One name.
pub(super) fn encode(kind: &str, value: &Value) -> Result<Vec<u8>, FunctionError> {
    let kind = kind.to_lowercase();
    let text = || match value {
        Value::Str(text) => Ok(text.to_string()),
        other => Err(FunctionError::failed(format!(
            "Expected string value, got {}: `{}`",
            other.kind(),
            python_str(other)
        ))),
    };
    Ok(match kind.as_str() {
        "email" => {
            let text = text()?;
            let text = match text.rsplit_once('@') {
                Some((user, domain)) => format!("{user}@{}", domain_name(domain, false, false)?),
                None => domain_name(&text, true, false)?,
            };
            der::implicit(1, text.as_bytes())
        }
        "dns" => der::implicit(2, domain_name(&text()?, true, true)?.as_bytes()),
        "dirname" => der::explicit(4, &Name::from_value(value)?.der()),
        "uri" => {
            let text = text()?;
            if let Some((_, rest)) = text.split_once("://") {
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                if !host.is_empty() {
                    domain_name(host, false, false)?;
                }
            }
            der::implicit(6, text.as_bytes())
        }
        "ip" => der::implicit(7, &address(&text()?)?),
        "rid" => {
            let oid = object(&text()?)?;
            der::implicit(8, &oid[2..])
        }
        "othername" => return Err(FunctionError::failed("otherName is currently not implemented")),
        _ => return Err(FunctionError::failed(format!("GeneralName type {kind} is invalid"))),
    })
}

/// An object identifier.
pub(super) fn object(dotted: &str) -> Result<Vec<u8>, FunctionError> {
    der::object(dotted).ok_or_else(|| FunctionError::failed(format!("Invalid oid: {dotted}")))
}

/// An address, or a network with its mask.
fn address(text: &str) -> Result<Vec<u8>, FunctionError> {
    let bytes = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let network = || {
        let (ip, mask) = text.split_once('/')?;
        let ip = bytes(ip.parse().ok()?);
        let mask = match mask.parse::<usize>() {
            Ok(length) if length <= ip.len() * 8 => (0..ip.len() * 8)
                .collect::<Vec<_>>()
                .chunks(8)
                .map(|bits| bits.iter().fold(0_u8, |byte, bit| (byte << 1) | u8::from(*bit < length)))
                .collect(),
            Ok(_) => return None,
            Err(_) => bytes(mask.parse().ok()?),
        };
        let is_network = mask.len() == ip.len() && ip.iter().zip(&mask).all(|(ip, mask)| ip & !mask == 0);
        is_network.then(|| [ip, mask].concat())
    };
    text.parse::<IpAddr>().ok().map(bytes).or_else(network).ok_or_else(|| {
        FunctionError::failed(format!(
            "Provided value {text} does not seem to be an IP address or network range."
        ))
    })
}

/// A domain, checked label by label.
fn domain_name(text: &str, leading_dot: bool, wildcard: bool) -> Result<String, FunctionError> {
    let fail = |words: &str| Err(FunctionError::failed(words));
    let has_dot = text.starts_with('.');
    if has_dot && !leading_dot {
        return fail("Leading dots are not allowed in this context");
    }
    let mut rest = text.trim_start_matches('.');
    if let Some(below) = rest.strip_prefix("*.") {
        if !wildcard {
            return fail("Wildcards are not allowed in this context");
        }
        if has_dot {
            return fail("Wildcards and leading dots cannot be present together");
        }
        if below.starts_with('.') {
            return fail("Empty label");
        }
        rest = below;
    }
    if rest.is_empty() {
        return fail("Empty domain");
    }
    for label in rest.strip_suffix('.').unwrap_or(rest).split('.') {
        if label.is_empty() {
            return fail("Empty Label");
        }
        let lower = label.to_lowercase();
        let odd = lower.chars().enumerate().find(|(_, c)| !c.is_ascii_alphanumeric() && *c != '-');
        if let Some((at, c)) = odd {
            let code = u32::from(c);
            let place = at + 1;
            return Err(FunctionError::failed(if c.is_ascii() {
                format!("Codepoint U+{code:04X} at position {place} of '{lower}' not allowed")
            } else {
                format!("`{label}` is not ASCII: write the domain in its `xn--` form")
            }));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return fail("Label must not start or end with a hyphen");
        }
        if label.len() > 63 {
            return fail("Label too long");
        }
    }
    Ok(text.to_owned())
}

/// The text of a name of a certificate.
pub(super) fn render(item: &Item<'_>) -> String {
    let text = || String::from_utf8_lossy(item.content).into_owned();
    match item.tag & 0x1f {
        1 => format!("mail:{}", text()),
        2 => format!("DNS:{}", text()),
        4 => {
            let name = der::first(item.content).and_then(|(inner, _)| Name::read(&inner));
            format!("dirName:{}", name.unwrap_or_default().text())
        }
        6 => format!("URI:{}", text()),
        7 => format!("IP:{}", render_address(item.content)),
        8 => format!("RID:{}", der::object_text(item.content)),
        _ => super::name::pretty_hex(item.whole),
    }
}

fn render_address(bytes: &[u8]) -> String {
    let ip = |bytes: &[u8]| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|b| IpAddr::from(b).to_string()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|b| {
            let groups = b.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
            groups.collect::<Vec<_>>().join(":")
        }),
        _ => None,
    };
    let network = || {
        let (address, mask) = bytes.split_at(bytes.len() / 2);
        let length: u32 = mask.iter().map(|b| b.count_ones()).sum();
        Some(format!("{}/{length}", ip(address)?))
    };
    ip(bytes).or_else(network).unwrap_or_else(|| super::name::pretty_hex(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_kind() {
        for (kind, value, want) in [
            ("DNS", "*.a.example.org", "DNS:*.a.example.org"),
            ("email", "me@salt.ca", "mail:me@salt.ca"),
            ("URI", "http://salt.ca/x", "URI:http://salt.ca/x"),
            ("IP", "192.0.2.1", "IP:192.0.2.1"),
            ("IP", "192.0.2.0/24", "IP:192.0.2.0/24"),
            ("IP", "::1", "IP:0000:0000:0000:0000:0000:0000:0000:0001"),
            ("RID", "1.2.3.4", "RID:1.2.3.4"),
            ("dirName", "CN=a,O=b", "dirName:CN=a,O=b"),
        ] {
            let bytes = encode(kind, &value.into()).unwrap();
            assert_eq!(render(&der::first(&bytes).unwrap().0), want);
        }
        for (kind, value) in [
            ("DNS", "a..b"),
            ("DNS", "a_b"),
            ("DNS", ""),
            ("email", "me@.salt.ca"),
            ("IP", "192.0.2.1/24"),
            ("IP", "x"),
            ("RID", "a.b"),
            ("othername", "x"),
            ("nosuch", "x"),
        ] {
            assert!(encode(kind, &value.into()).is_err(), "{kind} {value}");
        }
    }
}
