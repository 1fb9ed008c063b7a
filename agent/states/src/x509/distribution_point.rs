//! Where lists of revoked certificates are, and why a certificate is revoked, as a state writes it in; the extension out.

use zagent_config::value::python_str;
use zagent_config::{FunctionError, Map, Value};

use super::der;
use super::extension::{fail, mentions};
use super::general_name::{confstring, encode_all, split_pair};
use super::name::{rdn, rdn_der};

/// Reasons: the name, the number in an entry, and the bit among flags.
pub(super) const REASONS: [(&str, u8, Option<usize>); 10] = [
    ("unspecified", 0, None),
    ("keyCompromise", 1, Some(1)),
    ("cACompromise", 2, Some(2)),
    ("affiliationChanged", 3, Some(3)),
    ("superseded", 4, Some(4)),
    ("cessationOfOperation", 5, Some(5)),
    ("certificateHold", 6, Some(6)),
    ("removeFromCRL", 8, None),
    ("privilegeWithdrawn", 9, Some(7)),
    ("aACompromise", 10, Some(8)),
];

/// The points of `crlDistributionPoints`.
pub(super) fn distribution_points(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let mut critical = mentions(value, "critical");
    let mut points = Vec::new();
    match value {
        Value::List(list) => {
            for item in list.iter().filter(|item| item.as_str() != Some("critical")) {
                points.push(match item {
                    Value::Map(map) => point(map)?,
                    other => named_point(&[python_str(other)])?,
                });
            }
        }
        Value::Map(map) => points.push(point(map)?),
        other => {
            let (parts, is_critical) = confstring(&python_str(other));
            critical = is_critical;
            for (kind, name) in parts {
                points.push(named_point(&[format!("{kind}:{name}")])?);
            }
        }
    }
    Ok((der::sequence(&points), critical))
}

/// A point that is only a name.
fn named_point(names: &[String]) -> Result<Vec<u8>, FunctionError> {
    let place = der::explicit(0, &general_names(names)?);
    Ok(der::sequence(&[der::explicit(0, &place)]))
}

fn general_names(names: &[String]) -> Result<Vec<u8>, FunctionError> {
    let pair =
        |name: &String| split_pair(name).ok_or_else(|| fail(&format!("GeneralName type {name} is invalid")));
    encode_all(&names.iter().map(pair).collect::<Result<Vec<_>, _>>()?)
}

/// One text or several of a setting.
fn texts(map: &Map, key: &str) -> Option<Vec<String>> {
    match map.get(key).filter(|v| v.is_truthy())? {
        Value::List(list) => Some(list.iter().map(python_str).collect()),
        other => Some(vec![python_str(other)]),
    }
}

/// The place of a point: `fullname` or `relativename`.
fn place(map: &Map) -> Result<Option<Vec<u8>>, FunctionError> {
    match (texts(map, "fullname"), texts(map, "relativename")) {
        (Some(_), Some(_)) => {
            Err(fail("You cannot provide both full_name and relative_name, at least one must be None."))
        }
        (Some(names), None) => Ok(Some(der::explicit(0, &general_names(&names)?))),
        (None, Some(name)) => Ok(Some(rdn_der(&rdn(&name.concat())?, 0xa1))),
        (None, None) => Ok(None),
    }
}

fn reason_flags(map: &Map, key: &str) -> Result<Option<Vec<u8>>, FunctionError> {
    let Some(reasons) = texts(map, key) else { return Ok(None) };
    let mut bits = Vec::new();
    for reason in reasons {
        let known = REASONS.iter().find(|(name, _, _)| *name == reason);
        let (_, _, bit) = known.ok_or_else(|| fail(&format!("'{reason}' is not a valid ReasonFlags")))?;
        bits.push(bit.ok_or_else(|| {
            fail("unspecified and remove_from_crl are not valid reasons in a DistributionPoint")
        })?);
    }
    Ok(Some(der::flags_content(&bits)))
}

fn point(map: &Map) -> Result<Vec<u8>, FunctionError> {
    let mut parts = Vec::new();
    parts.extend(place(map)?.map(|place| der::explicit(0, &place)));
    parts.extend(reason_flags(map, "reasons")?.map(|flags| der::implicit(1, &flags)));
    if let Some(issuer) = texts(map, "crlissuer") {
        parts.push(der::explicit(2, &general_names(&issuer)?));
    }
    if parts.is_empty() {
        return Err(fail("Either full_name, relative_name or crl_issuer must be provided."));
    }
    Ok(der::sequence(&parts))
}

/// `issuingDistributionPoint`.
pub(super) fn issuing_point(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let map = value.as_map().ok_or_else(|| fail("issuingDistributionPoint must be a dictionary"))?;
    let is_set = |key: &str| map.get(key).is_some_and(Value::is_truthy);
    let mut parts = Vec::new();
    parts.extend(place(map)?.map(|place| der::explicit(0, &place)));
    let flag = |number: u8, key: &str| is_set(key).then(|| der::implicit(number, &[0xff]));
    parts.extend(flag(1, "onlyuser"));
    parts.extend(flag(2, "onlyCA"));
    parts.extend(reason_flags(map, "onlysomereasons")?.map(|flags| der::implicit(3, &flags)));
    parts.extend(flag(4, "indirectCRL"));
    parts.extend(flag(5, "onlyAA"));
    if ["onlyuser", "onlyCA", "onlyAA", "indirectCRL"].iter().filter(|key| is_set(key)).count() > 1 {
        return Err(fail(
            "Only one of the following can be set to True: only_contains_user_certs, only_contains_ca_certs, \
             indirect_crl, only_contains_attribute_certs",
        ));
    }
    if parts.is_empty() {
        return Err(fail(
            "Cannot create empty extension: if only_contains_user_certs, only_contains_ca_certs, indirect_crl, and \
             only_contains_attribute_certs are all False, then either full_name, relative_name, or only_some_reasons \
             must have a value.",
        ));
    }
    Ok((der::sequence(&parts), is_set("critical")))
}

/// `CRLReason` of an entry.
pub(super) fn crl_reason(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let (reason, critical) = match value {
        Value::List(list) => {
            let reason = list.iter().find(|item| item.as_str() != Some("critical")).map(python_str);
            (reason.unwrap_or_default(), mentions(value, "critical"))
        }
        other => {
            let (parts, critical) = confstring(&python_str(other));
            (parts.into_iter().next().map(|(reason, _)| reason).unwrap_or_default(), critical)
        }
    };
    let known = REASONS.iter().find(|(name, _, _)| *name == reason);
    let (_, number, _) = known.ok_or_else(|| fail(&format!("'{reason}' is not a valid ReasonFlags")))?;
    Ok((der::tlv(der::ENUMERATED, &[*number]), critical))
}
