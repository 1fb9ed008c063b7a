//! What exists and what is declared in, the differences in Salt's words out.

use zagent_config::{FunctionError, Map, Value};

use super::extension::{CRL_NUMBER, Extension};
use super::material::{Certificate, RevocationList, Revoked};
use super::name::pretty_hex;
use super::openssl::OpenSsl;
use super::workbench::{CertificateDraft, ListDraft};

/// Three lists in Salt's shape; nothing when all are empty.
fn three_lists(added: Vec<String>, changed: Vec<String>, removed: Vec<String>) -> Option<Map> {
    if added.is_empty() && changed.is_empty() && removed.is_empty() {
        return None;
    }
    let list = |items: Vec<String>| items.into_iter().map(Value::from).collect::<Value>();
    Some(Map::from_iter([("added", list(added)), ("changed", list(changed)), ("removed", list(removed))]))
}

/// How extensions differ; `ignored` is not missed.
pub(super) fn extensions(current: &[Extension], wanted: &[Extension], ignored: Option<&str>) -> Option<Map> {
    let find = |all: &'_ [Extension], object: &str| all.iter().position(|e| e.object == object);
    let name = |e: &Extension| e.change_name().to_owned();
    let mut added = Vec::new();
    let mut changed = Vec::new();
    for extension in wanted {
        match find(current, &extension.object) {
            None => added.push(name(extension)),
            Some(at) if current[at] != *extension => changed.push(name(extension)),
            Some(_) => {}
        }
    }
    let is_gone = |e: &&Extension| find(wanted, &e.object).is_none() && ignored != Some(e.object.as_str());
    three_lists(added, changed, current.iter().filter(is_gone).map(name).collect())
}

/// How a certificate differs from its declaration.
pub(super) fn certificate(
    ssl: &OpenSsl<'_>,
    current: &Certificate,
    draft: &CertificateDraft,
    serial: Option<&Value>,
) -> Result<Map, FunctionError> {
    let mut changes = Map::new();
    if let Some(serial) = serial.filter(|v| !v.is_null())
        && draft.serial != current.serial
    {
        changes.insert("serial_number", serial.clone());
    }
    if draft.spki != current.spki {
        changes.insert("private_key", true);
    }
    if let Some(signer) = &draft.signer
        && !ssl.verify(&current.signed, &signer.spki)?
    {
        changes.insert("signing_private_key", true);
    }
    if draft.subject != current.subject {
        changes.insert("subject_name", draft.subject.text());
    }
    if draft.issuer != current.issuer {
        changes.insert("issuer_name", draft.issuer.text());
    }
    if let Some(differing) = extensions(&current.extensions, &draft.extensions, None) {
        changes.insert("extensions", differing);
    }
    Ok(changes)
}

/// How a list differs from its declaration; `counts` when its number is not compared.
pub(super) fn list(
    ssl: &OpenSsl<'_>,
    current: &RevocationList,
    draft: &ListDraft,
    counts: bool,
) -> Result<Map, FunctionError> {
    let mut changes = Map::new();
    if draft.issuer != current.issuer {
        changes.insert("issuer_name", draft.issuer.text());
    }
    if !ssl.verify(&current.signed, &draft.key.spki)? {
        changes.insert("public_key", true);
    }
    if let Some(differing) = revocations(&current.revoked, &draft.revoked) {
        changes.insert("revocations", differing);
    }
    let ignored = counts.then_some(CRL_NUMBER);
    if let Some(differing) = extensions(&current.extensions, &draft.extensions, ignored) {
        changes.insert("extensions", differing);
    }
    Ok(changes)
}

fn revocations(current: &[Revoked], wanted: &[Revoked]) -> Option<Map> {
    let find = |all: &[Revoked], serial: &[u8]| all.iter().position(|r| r.serial == serial);
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    for entry in wanted {
        let serial = pretty_hex(&entry.serial);
        let Some(at) = find(current, &entry.serial) else {
            added.push(serial);
            continue;
        };
        let there = &current[at].extensions;
        let other = entry.extensions.iter().filter(|e| !there.contains(e));
        let gone = there.iter().filter(|e| !entry.extensions.iter().any(|w| w.object == e.object));
        changed.extend(other.chain(gone).map(|_| serial.clone()));
    }
    let removed = current.iter().filter(|r| find(wanted, &r.serial).is_none());
    three_lists(added, changed, removed.map(|r| pretty_hex(&r.serial)).collect())
}
