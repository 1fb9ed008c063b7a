//! Policies and constraints as a state writes them in, the extension out.

use zagent_config::value::python_str;
use zagent_config::{FunctionError, Value};

use super::der;
use super::extension::{fail, mentions, settings};
use super::general_name::{self, WrittenName, confstring, object, split_pair};

const PRACTICE_STATEMENT: &str = "1.3.6.1.5.5.7.2.1";
const USER_NOTICE: &str = "1.3.6.1.5.5.7.2.2";

pub(super) fn certificate_policies(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let Some(map) = value.as_map() else {
        let text = python_str(value);
        let words = text.split(',').map(str::trim).filter(|word| *word != "critical");
        let policies: Result<Vec<Vec<u8>>, FunctionError> =
            words.map(|word| Ok(der::sequence(&[object(word)?]))).collect();
        let policies = policies.map_err(|_| {
            fail("certificatePolicies defined as string must be a comma-separated list of OID.")
        })?;
        return Ok((der::sequence(&policies), text.starts_with("critical")));
    };
    let mut policies = Vec::new();
    for (policy, qualifiers) in map.iter().filter(|(key, _)| key.as_str() != Some("critical")) {
        let mut parts = vec![object(&policy.json_key())?];
        let mut all = Vec::new();
        for qualifier in qualifiers.as_list().into_iter().flat_map(|list| list.iter()) {
            all.extend(policy_qualifier(qualifier)?);
        }
        if !all.is_empty() {
            parts.push(der::sequence(&all));
        }
        policies.push(der::sequence(&parts));
    }
    Ok((der::sequence(&policies), map.get("critical").is_some_and(Value::is_truthy)))
}

/// A text is where the practice statement is; a mapping is a notice with numbers.
fn policy_qualifier(value: &Value) -> Result<Option<Vec<u8>>, FunctionError> {
    let Some(map) = value.as_map() else {
        let text = der::tlv(der::IA5, python_str(value).as_bytes());
        return Ok(Some(der::sequence(&[object(PRACTICE_STATEMENT)?, text])));
    };
    let Some(numbers) = map.get("noticeNumbers").filter(|v| v.is_truthy()) else { return Ok(None) };
    let numbers = numbers.as_list().ok_or_else(|| fail("notice_numbers must be a list of integers"))?;
    let number = |n: &Value| n.as_int().and_then(|n| u64::try_from(n).ok()).map(der::small);
    let numbers: Option<Vec<Vec<u8>>> = numbers.iter().map(number).collect();
    let numbers = numbers.ok_or_else(|| fail("notice_numbers must be a list of integers"))?;
    let text = |key: &str| {
        map.get(key).filter(|v| !v.is_null()).map(|v| der::tlv(der::UTF8, python_str(v).as_bytes()))
    };
    let organization = text("organization").unwrap_or_else(|| der::tlv(der::UTF8, &[]));
    let mut notice = vec![der::sequence(&[organization, der::sequence(&numbers)])];
    notice.extend(text("text"));
    Ok(Some(der::sequence(&[object(USER_NOTICE)?, der::sequence(&notice)])))
}

pub(super) fn policy_constraints(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let (given, critical) = settings(value);
    let mut parts = Vec::new();
    for (number, key) in [(0, "requireExplicitPolicy"), (1, "inhibitPolicyMapping")] {
        if let Some(value) = given.get(key) {
            let count = python_str(value).trim().parse::<u64>();
            let count = count.map_err(|_| fail(&format!("{key} must be a non-negative integer or None")))?;
            parts.push(der::implicit(number, &der::number_content(&count.to_be_bytes())));
        }
    }
    if parts.is_empty() {
        return Err(fail(
            "At least one of require_explicit_policy and inhibit_policy_mapping must not be None",
        ));
    }
    Ok((der::sequence(&parts), critical))
}

pub(super) fn inhibit_any_policy(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let (number, critical) = match value {
        Value::Map(map) => {
            let number = map.get("value").map(python_str);
            let missing = || fail("Undefined required key for inhibitAnyPolicy: 'value'");
            (number.ok_or_else(missing)?, mentions(value, "critical"))
        }
        other => {
            let (parts, critical) = confstring(&python_str(other));
            (parts.into_iter().next().map(|(word, _)| word).unwrap_or_default(), critical)
        }
    };
    let number =
        number.trim().parse::<u64>().map_err(|_| fail("skip_certs must be a non-negative integer"))?;
    Ok((der::small(number), critical))
}

pub(super) fn name_constraints(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let critical = mentions(value, "critical");
    let names = |scope: &str| -> Vec<WrittenName> {
        match value {
            Value::Map(map) => {
                let list = map.get(scope).and_then(Value::as_list);
                list.into_iter().flat_map(|l| l.iter()).filter_map(|v| split_pair(&python_str(v))).collect()
            }
            other => {
                let text = python_str(other);
                let parts = text.split(',').filter_map(|part| part.trim().split_once(';'));
                parts.filter(|(s, _)| *s == scope).filter_map(|(_, name)| split_pair(name)).collect()
            }
        }
    };
    let mut parts = Vec::new();
    for (number, scope) in [(0, "permitted"), (1, "excluded")] {
        let trees: Vec<Vec<u8>> = names(scope)
            .iter()
            .map(|(kind, value)| Ok(der::sequence(&[general_name::encode(kind, value)?])))
            .collect::<Result<_, FunctionError>>()?;
        if !trees.is_empty() {
            parts.push(der::explicit(number, &trees.concat()));
        }
    }
    if parts.is_empty() {
        return Err(fail("nameConstraints needs at least one definition"));
    }
    Ok((der::sequence(&parts), critical))
}
