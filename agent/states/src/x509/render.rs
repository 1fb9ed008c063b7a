//! An extension of a certificate, request or list in, what Salt's functions show of it out.

use zagent_config::{Map, Value};

use super::der::{self, Item};
use super::distribution_point::REASONS;
use super::extension::{ACCESS, Extension, KEY_USAGES, PURPOSES, TLS_FEATURES};
use super::general_name;
use super::name::{pretty_hex, rdn_text, read_rdn};

const PRACTICE_STATEMENT: &str = "1.3.6.1.5.5.7.2.1";

/// An extension by its name; one that cannot be read shows its bytes.
pub(super) fn extension(name: &str, extension: &Extension) -> Map {
    let mut out = Map::from_iter([("critical", extension.critical)]);
    let shown = der::first(&extension.value).and_then(|(item, _)| content(name, &item));
    match shown {
        Some(shown) => shown.iter().for_each(|(key, value)| _ = out.insert(key.clone(), value.clone())),
        None => _ = out.insert("value", pretty_hex(&extension.value)),
    }
    out
}

fn value(value: impl Into<Value>) -> Map {
    Map::from_iter([("value", value)])
}

fn number(item: &Item<'_>) -> Option<Value> {
    Some(Value::from(i64::try_from(item.small()?).ok()?))
}

fn names(items: &[Item<'_>]) -> Value {
    items.iter().map(|item| Value::from(general_name::render(item))).collect()
}

fn context<'i, 'a>(items: &'i [Item<'a>], number: u8) -> Option<&'i Item<'a>> {
    items.iter().find(|item| item.tag & 0xc0 == 0x80 && item.tag & 0x1f == number)
}

fn content(name: &str, item: &Item<'_>) -> Option<Map> {
    let items = || item.items();
    Some(match name {
        "basicConstraints" => {
            let parts = items()?;
            let length = parts.iter().find(|part| part.tag == der::INTEGER).and_then(number);
            let ca = parts.iter().any(|part| part.tag == der::BOOLEAN && part.content != [0]);
            Map::from_iter([("ca", Value::from(ca)), ("pathlen", length.unwrap_or_default())])
        }
        "keyUsage" => {
            let set = der::flags_set(item.content);
            let mut usages: Vec<usize> = (0..KEY_USAGES.len()).collect();
            usages.sort_by_key(|bit| KEY_USAGES[*bit]);
            usages.into_iter().map(|bit| (KEY_USAGES[bit], set.contains(&bit))).collect()
        }
        "extendedKeyUsage" => {
            let purpose = |item: &Item<'_>| {
                let dotted = der::object_text(item.content);
                let known = PURPOSES.iter().find(|(_, object)| *object == dotted);
                Value::from(known.map_or(dotted.as_str(), |(name, _)| name))
            };
            value(items()?.iter().map(purpose).collect::<Value>())
        }
        "subjectKeyIdentifier" => value(pretty_hex(item.content)),
        "authorityKeyIdentifier" => authority_key_identifier(&items()?),
        "issuerAltName" | "subjectAltName" | "certificateIssuer" => value(names(&items()?)),
        "authorityInfoAccess" => {
            let methods: Option<Vec<Value>> = items()?.iter().map(access_method).collect();
            value(methods?)
        }
        "crlDistributionPoints" | "freshestCRL" => {
            let points: Option<Vec<Value>> = items()?.iter().map(point).collect();
            value(points?)
        }
        "issuingDistributionPoint" => issuing_point(&items()?)?,
        "certificatePolicies" => {
            let policies: Option<Vec<Value>> = items()?.iter().map(policy).collect();
            value(policies?)
        }
        "policyConstraints" => {
            let parts = items()?;
            let count = |tag| context(&parts, tag).and_then(number).unwrap_or_default();
            Map::from_iter([("inhibitPolicyMapping", count(1)), ("requireExplicitPolicy", count(0))])
        }
        "inhibitAnyPolicy" | "cRLNumber" | "deltaCRLIndicator" => value(number(item)?),
        "nameConstraints" => name_constraints(&items()?),
        "noCheck" => value(true),
        "tlsfeature" => {
            let feature = |item: &Item<'_>| {
                let number = item.small();
                let known = TLS_FEATURES.iter().find(|(_, feature)| Some(*feature) == number);
                known.map(|(name, _)| Value::from(*name))
            };
            value(items()?.iter().filter_map(feature).collect::<Value>())
        }
        "CRLReason" => {
            let code = item.content.first()?;
            value(REASONS.iter().find(|(_, number, _)| number == code)?.0)
        }
        "invalidityDate" => value(super::read::time_text(der::read_time(item)?)),
        _ => return None,
    })
}

fn access_method(item: &Item<'_>) -> Option<Value> {
    let pair = item.items()?;
    let dotted = der::object_text(pair.first()?.content);
    let known = ACCESS.iter().find(|(_, object)| *object == dotted);
    let method = known.map_or(dotted.as_str(), |(name, _)| name);
    Some(Map::from_iter([(method, general_name::render(pair.get(1)?))]).into())
}

fn name_constraints(parts: &[Item<'_>]) -> Map {
    let trees = |tag| -> Value {
        let trees = context(parts, tag).and_then(Item::items).unwrap_or_default();
        let first = |tree: &Item<'_>| der::first(tree.content).map(|(name, _)| general_name::render(&name));
        trees.iter().filter_map(first).map(Value::from).collect()
    };
    Map::from_iter([("excluded", trees(1)), ("permitted", trees(0))])
}

fn authority_key_identifier(parts: &[Item<'_>]) -> Map {
    let id = context(parts, 0).map(|item| Value::from(pretty_hex(item.content)));
    let issuer = context(parts, 1).and_then(Item::items).map(|all| names(&all));
    let serial = context(parts, 2).map(|item| Value::from(pretty_hex(&item.number())));
    Map::from_iter([
        ("keyid", id.unwrap_or_default()),
        ("issuer", issuer.unwrap_or_default()),
        ("issuer_sn", serial.unwrap_or_default()),
    ])
}

/// The full name and the relative name of a point.
fn place(parts: &[Item<'_>]) -> (Value, Value) {
    let inner = context(parts, 0).and_then(|item| der::first(item.content)).map(|(item, _)| item);
    let full = inner.filter(|item| item.tag & 0x1f == 0).and_then(|item| item.items());
    let relative = inner.filter(|item| item.tag & 0x1f == 1).and_then(|item| read_rdn(&item));
    (names(&full.unwrap_or_default()), relative.map_or(Value::Null, |part| Value::from(rdn_text(&part))))
}

fn reasons(item: Option<&Item<'_>>) -> Value {
    let set = item.map(|item| der::flags_set(item.content)).unwrap_or_default();
    let mut all: Vec<&str> = REASONS
        .iter()
        .filter(|(.., bit)| bit.is_some_and(|bit| set.contains(&bit)))
        .map(|(name, ..)| *name)
        .collect();
    all.sort_unstable();
    all.into_iter().map(Value::from).collect()
}

fn point(item: &Item<'_>) -> Option<Value> {
    let parts = item.items()?;
    let (full, relative) = place(&parts);
    let issuer = context(&parts, 2).and_then(Item::items).unwrap_or_default();
    Some(Value::from(Map::from_iter([
        ("crlissuer", names(&issuer)),
        ("fullname", full),
        ("reasons", reasons(context(&parts, 1))),
        ("relativename", relative),
    ])))
}

fn issuing_point(parts: &[Item<'_>]) -> Option<Map> {
    let (full, relative) = place(parts);
    let flag = |number| Value::from(context(parts, number).is_some_and(|item| item.content != [0]));
    Some(Map::from_iter([
        ("fullname", full),
        // Salt's spelling.
        ("onysomereasons", reasons(context(parts, 3))),
        ("relativename", relative),
        ("onlyuser", flag(1)),
        ("onlyCA", flag(2)),
        ("onlyAA", flag(5)),
        ("indirectCRL", flag(4)),
    ]))
}

fn policy(item: &Item<'_>) -> Option<Value> {
    let parts = item.items()?;
    let mut qualifiers = Vec::new();
    for qualifier in parts.get(1).and_then(Item::items).unwrap_or_default() {
        let pair = qualifier.items()?;
        let body = pair.get(1)?;
        if der::object_text(pair.first()?.content) == PRACTICE_STATEMENT {
            qualifiers.push(Value::from(Map::from_iter([("practice_statement", body.text())])));
            continue;
        }
        let notice = body.items()?;
        let reference = notice.iter().find(|part| part.tag == der::SEQUENCE).and_then(Item::items);
        let organization = reference.as_ref().and_then(|r| r.first()).map(|o| Value::from(o.text()));
        let numbers = reference.as_ref().and_then(|r| r.get(1)).and_then(Item::items);
        let numbers = numbers.map(|all| all.iter().filter_map(number).collect::<Value>());
        let text = notice.iter().find(|part| part.tag != der::SEQUENCE).map(|t| Value::from(t.text()));
        qualifiers.push(Value::from(Map::from_iter([
            // Salt's spelling.
            ("organizataion", organization.unwrap_or_default()),
            ("notice_numbers", numbers.unwrap_or_default()),
            ("explicit_text", text.unwrap_or_default()),
        ])));
    }
    Some(Value::from(Map::from_iter([(der::object_text(parts.first()?.content), Value::from(qualifiers))])))
}
