//! A distinguished name as a state writes it in, the name of a certificate out; and names in RFC 4514's text.

use zagent_config::value::python_str;
use zagent_config::{FunctionError, Map, Value};

use super::der::{self, Item};

/// Name attributes in the order in which a name is built of single fields.
const FIELDS: [(&str, &str); 12] = [
    ("C", "2.5.4.6"),
    ("ST", "2.5.4.8"),
    ("L", "2.5.4.7"),
    ("STREET", "2.5.4.9"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("CN", COMMON_NAME),
    ("MAIL", EMAIL),
    ("SN", "2.5.4.4"),
    ("GN", "2.5.4.42"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("SERIALNUMBER", SERIAL_NUMBER),
];
/// Longer names of the fields, which Salt accepts too.
const LONG_FIELDS: [(&str, &str); 10] = [
    ("commonName", "CN"),
    ("localityName", "L"),
    ("stateOrProvinceName", "ST"),
    ("organizationName", "O"),
    ("organizationUnitName", "OU"),
    ("givenName", "GN"),
    ("surname", "SN"),
    ("Email", "MAIL"),
    ("emailAddress", "MAIL"),
    ("serialNumber", "SERIALNUMBER"),
];
/// Attributes that have a short name in RFC 4514.
const SHORT: [(&str, &str); 9] = [
    ("CN", COMMON_NAME),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", COUNTRY),
    ("STREET", "2.5.4.9"),
    ("DC", DOMAIN_COMPONENT),
    ("UID", "0.9.2342.19200300.100.1.1"),
];
const COMMON_NAME: &str = "2.5.4.3";
const COUNTRY: &str = "2.5.4.6";
const SERIAL_NUMBER: &str = "2.5.4.5";
const EMAIL: &str = "1.2.840.113549.1.9.1";
const DOMAIN_COMPONENT: &str = "0.9.2342.19200300.100.1.25";

/// One attribute: its object identifier and its value.
type Attribute = (String, String);

/// A distinguished name, from the root down.
#[derive(Clone, Debug, Default)]
pub(super) struct Name(Vec<Vec<Attribute>>);

/// The attributes of one part have no order.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |name: &Self| {
            let part = |part: &Vec<Attribute>| {
                let mut part = part.clone();
                part.sort();
                part
            };
            name.0.iter().map(part).collect::<Vec<_>>()
        };
        sorted(self) == sorted(other)
    }
}

/// Renames the longer names of fields.
pub(super) fn shorten_fields(args: &mut Map) {
    for (long, short) in LONG_FIELDS {
        if let Some(value) = args.remove(long) {
            args.insert(short, value);
        }
    }
}

/// True when single fields of a name are given.
pub(super) fn has_fields(args: &Map) -> bool {
    FIELDS.iter().any(|(field, _)| args.contains(field))
}

impl Name {
    /// The name that `subject`, or else single fields, give.
    pub(super) fn from_args(args: &Map) -> Result<Self, FunctionError> {
        match args.get("subject").filter(|v| v.is_truthy()) {
            Some(subject) => Self::from_value(subject),
            None => Self::from_map(args),
        }
    }

    /// A name in one of its shapes: RFC 4514's text, a list of its parts from the root down, or fields.
    pub(super) fn from_value(value: &Value) -> Result<Self, FunctionError> {
        match value {
            Value::Str(text) => {
                let parts = split_escaped(text, ',').iter().map(|part| parse_rdn(part)).collect();
                let parts: Option<Vec<_>> = if text.is_empty() { Some(Vec::new()) } else { parts };
                let mut parts =
                    parts.ok_or_else(|| FunctionError::failed("Failed parsing rfc4514 dirName string"))?;
                parts.reverse();
                Ok(Self(parts))
            }
            Value::List(list) => {
                list.iter().map(|part| rdn(&python_str(part))).collect::<Result<_, _>>().map(Self)
            }
            Value::Map(map) => Self::from_map(map),
            _ => Err(FunctionError::failed("Need string, list or dict to parse distinguished names")),
        }
    }

    fn from_map(map: &Map) -> Result<Self, FunctionError> {
        let mut parts = Vec::new();
        for (field, object) in FIELDS {
            let Some(value) = map.get(field) else { continue };
            let value = python_str(value);
            let most = match object {
                COUNTRY => Some((2, 2)),
                COMMON_NAME => Some((1, 64)),
                _ => None,
            };
            let length = value.len();
            if let Some((least, most)) = most.filter(|(least, most)| length < *least || length > *most) {
                return Err(FunctionError::failed(format!(
                    "Attribute's length must be >= {least} and <= {most}, but it was {length}"
                )));
            }
            parts.push(vec![(object.to_owned(), value)]);
        }
        Ok(Self(parts))
    }

    /// Reads a name of a certificate.
    pub(super) fn read(item: &Item<'_>) -> Option<Self> {
        let attribute = |item: &Item<'_>| match item.items()?.as_slice() {
            [object, value] => Some((der::object_text(object.content), value.text())),
            _ => None,
        };
        let part = |set: &Item<'_>| set.items()?.iter().map(attribute).collect::<Option<Vec<_>>>();
        item.items()?.iter().map(part).collect::<Option<_>>().map(Self)
    }

    /// The name as a certificate holds it.
    pub(super) fn der(&self) -> Vec<u8> {
        let parts: Vec<Vec<u8>> = self.0.iter().map(|part| rdn_der(part, der::SET)).collect();
        der::sequence(&parts)
    }

    /// RFC 4514's text.
    pub(super) fn text(&self) -> String {
        self.0.iter().rev().map(|part| rdn_text(part)).collect::<Vec<_>>().join(",")
    }

    /// The fields that have a short name, by that name.
    pub(super) fn fields(&self) -> Map {
        let mut found = Map::new();
        for (field, object) in FIELDS {
            if let Some(value) = self.attribute(object) {
                found.insert(field, value);
            }
        }
        found
    }

    /// The common name.
    pub(super) fn common_name(&self) -> Option<&str> {
        self.attribute(COMMON_NAME)
    }

    fn attribute(&self, object: &str) -> Option<&str> {
        self.0.iter().flatten().find(|(found, _)| found == object).map(|(_, value)| value.as_str())
    }
}

/// One part of a name, of RFC 4514's text.
pub(super) fn rdn(text: &str) -> Result<Vec<Attribute>, FunctionError> {
    if split_escaped(text, ',').len() > 1 {
        return Err(FunctionError::failed(
            "Specified string is not a Relative Distinguished Name, but a Distinguished Name.",
        ));
    }
    parse_rdn(text).ok_or_else(|| FunctionError::failed(format!("Failed parsing rdn string: {text}")))
}

/// One part of a name under a tag.
pub(super) fn rdn_der(part: &[Attribute], tag: u8) -> Vec<u8> {
    let mut attributes: Vec<Vec<u8>> = part
        .iter()
        .map(|(object, value)| {
            let kind = match object.as_str() {
                COUNTRY | SERIAL_NUMBER | "2.5.4.46" => der::PRINTABLE,
                EMAIL | DOMAIN_COMPONENT => der::IA5,
                _ => der::UTF8,
            };
            der::sequence(&[der::object(object).unwrap_or_default(), der::tlv(kind, value.as_bytes())])
        })
        .collect();
    attributes.sort();
    der::tlv(tag, &attributes.concat())
}

/// RFC 4514's text of one part.
pub(super) fn rdn_text(part: &[Attribute]) -> String {
    let one = |(object, value): &Attribute| {
        let short = SHORT.iter().find(|(_, known)| known == object).map(|(short, _)| *short);
        format!("{}={}", short.unwrap_or(object), escape(value))
    };
    part.iter().map(one).collect::<Vec<_>>().join("+")
}

/// Reads one part of a name.
pub(super) fn read_rdn(item: &Item<'_>) -> Option<Vec<Attribute>> {
    let attribute = |item: &Item<'_>| match item.items()?.as_slice() {
        [object, value] => Some((der::object_text(object.content), value.text())),
        _ => None,
    };
    item.items()?.iter().map(attribute).collect()
}

fn parse_rdn(text: &str) -> Option<Vec<Attribute>> {
    split_escaped(text, '+')
        .iter()
        .map(|one| {
            let (key, value) = one.split_once('=')?;
            let short = SHORT.iter().find(|(short, _)| *short == key).map(|(_, object)| *object);
            let is_dotted = key.starts_with(['0', '1', '2']) && der::object(key).is_some();
            let object = short.or(is_dotted.then_some(key))?;
            Some((object.to_owned(), unescape(value)?))
        })
        .collect()
}

/// The parts between a sign that no backslash stands before.
fn split_escaped(text: &str, sign: char) -> Vec<String> {
    let (mut parts, mut escaped) = (vec![String::new()], false);
    for c in text.chars() {
        if c == sign && !escaped {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

fn escape(value: &str) -> String {
    let mut out = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        let is_edge = (at == 0 && matches!(c, '#' | ' ')) || (at == last && c == ' ');
        match c {
            '\0' => out.push_str("\\00"),
            '\\' | '"' | '+' | ',' | ';' | '<' | '>' => out.extend(['\\', c]),
            _ if is_edge => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// The value that a text stands for; nothing when it is not one.
fn unescape(text: &str) -> Option<String> {
    if text.is_empty() || text.starts_with(' ') || (text.ends_with(' ') && !text.ends_with("\\ ")) {
        return None;
    }
    if let Some(digits) = text.strip_prefix('#') {
        return String::from_utf8(hex(digits)?).ok();
    }
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next()? {
                sign if b"\\\"+,;<>#= ".contains(&sign) => out.push(sign),
                high => {
                    let digits = [high, bytes.next()?];
                    out.extend(hex(std::str::from_utf8(&digits).ok()?)?);
                }
            },
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | 0 => return None,
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}

/// The bytes that hexadecimal digits stand for.
pub(super) fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if digits.len() % 2 == 1 {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Bytes as capital digits, with colons between.
pub(super) fn pretty_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_shape() {
        let name = |json: &str| Name::from_value(&Value::from_json_str(json).unwrap());
        for (given, want) in [
            (r#""CN=a,O=b""#, "CN=a,O=b"),
            (r#"["O=b", "CN=a"]"#, "CN=a,O=b"),
            (r#"{"CN": "a", "O": "b", "C": "US"}"#, "CN=a,O=b,C=US"),
            (r#""CN=a\\, b+OU=c""#, "CN=a\\, b+OU=c"),
            (r#"{"MAIL": "a@b"}"#, "1.2.840.113549.1.9.1=a@b"),
            ("{}", ""),
        ] {
            let found = name(given).unwrap();
            assert_eq!(found.text(), want, "{given}");
            assert_eq!(Name::read(&der::first(&found.der()).unwrap().0), Some(found));
        }
        for wrong in [r#""CN=a, O=b""#, r#""XX=a""#, r#"["CN=a,O=b"]"#, r#"{"C": "USA"}"#, "5"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
