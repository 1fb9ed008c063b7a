//! An extension as a state writes it in, the extension of a certificate, request or list out.

use jiff::civil::DateTime;
use sha1::{Digest, Sha1};
use zagent_config::value::python_str;
use zagent_config::{FunctionError, Map, Value};

use super::der;
use super::distribution_point::{crl_reason, distribution_points, issuing_point};
use super::general_name::{self, confstring, encode_all, object, split_pair, written_names};
use super::material::{Certificate, public_key_bits};
use super::name::{Name, hex};

/// Extensions of certificates, in the order in which they are written: Salt's name, the object identifier, and the name in
/// `changes`.
pub(super) const CERTIFICATE_EXTENSIONS: [(&str, &str, &str); 15] = [
    ("basicConstraints", "2.5.29.19", "basicConstraints"),
    ("keyUsage", "2.5.29.15", "keyUsage"),
    ("extendedKeyUsage", "2.5.29.37", "extendedKeyUsage"),
    ("subjectKeyIdentifier", SUBJECT_KEY_ID, "subjectKeyIdentifier"),
    ("authorityKeyIdentifier", "2.5.29.35", "authorityKeyIdentifier"),
    ("issuerAltName", "2.5.29.18", "issuerAltName"),
    ("authorityInfoAccess", "1.3.6.1.5.5.7.1.1", "authorityInfoAccess"),
    ("subjectAltName", SUBJECT_ALT_NAME, "subjectAltName"),
    ("crlDistributionPoints", "2.5.29.31", "cRLDistributionPoints"),
    ("certificatePolicies", "2.5.29.32", "certificatePolicies"),
    ("policyConstraints", "2.5.29.36", "policyConstraints"),
    ("inhibitAnyPolicy", "2.5.29.54", "inhibitAnyPolicy"),
    ("nameConstraints", "2.5.29.30", "nameConstraints"),
    ("noCheck", "1.3.6.1.5.5.7.48.1.5", "OCSPNoCheck"),
    ("tlsfeature", "1.3.6.1.5.5.7.1.24", "TLSFeature"),
];
/// Further extensions of lists and of their entries.
pub(super) const LIST_EXTENSIONS: [(&str, &str, &str); 7] = [
    ("issuingDistributionPoint", "2.5.29.28", "issuingDistributionPoint"),
    ("cRLNumber", CRL_NUMBER, "cRLNumber"),
    ("deltaCRLIndicator", "2.5.29.27", "deltaCRLIndicator"),
    ("freshestCRL", "2.5.29.46", "freshestCRL"),
    ("certificateIssuer", "2.5.29.29", "certificateIssuer"),
    ("CRLReason", "2.5.29.21", "cRLReason"),
    ("invalidityDate", "2.5.29.24", "invalidityDate"),
];
/// Extensions that a list may have.
const CRL_ALLOWED: [&str; 7] = [
    "authorityKeyIdentifier",
    "authorityInfoAccess",
    "cRLNumber",
    "deltaCRLIndicator",
    "freshestCRL",
    "issuerAltName",
    "issuingDistributionPoint",
];
/// Extensions that an entry of a list may have.
const ENTRY_ALLOWED: [&str; 3] = ["certificateIssuer", "CRLReason", "invalidityDate"];
/// Extensions that a request does not decide.
const CSR_FORBIDDEN: [&str; 4] =
    ["authorityInfoAccess", "authorityKeyIdentifier", "issuerAltName", "crlDistributionPoints"];
/// Names of the older module.
const LONG_NAMES: [(&str, &str); 22] = [
    ("X509v3 Basic Constraints", "basicConstraints"),
    ("X509v3 Key Usage", "keyUsage"),
    ("X509v3 Extended Key Usage", "extendedKeyUsage"),
    ("X509v3 Subject Key Identifier", "subjectKeyIdentifier"),
    ("X509v3 Authority Key Identifier", "authorityKeyIdentifier"),
    ("X509v3 Issuer Alternative Name", "issuerAltName"),
    ("issuserAltName", "issuerAltName"),
    ("Authority Information Access", "authorityInfoAccess"),
    ("X509v3 Subject Alternative Name", "subjectAltName"),
    ("X509v3 CRL Distribution Points", "crlDistributionPoints"),
    ("X509v3 Issuing Distribution Point", "issuingDistributionPoint"),
    ("X509v3 Certificate Policies", "certificatePolicies"),
    ("X509v3 Policy Constraints", "policyConstraints"),
    ("X509v3 Inhibit Any Policy", "inhibitAnyPolicy"),
    ("X509v3 Name Constraints", "nameConstraints"),
    ("OCSP No Check", "noCheck"),
    ("TLS Feature", "tlsfeature"),
    ("Netscape Comment", "nsComment"),
    ("Netscape Certificate Type", "nsCertType"),
    ("X509v3 CRLNumber", "cRLNumber"),
    ("X509v3 Delta CRL Indicator", "deltaCRLIndicator"),
    ("x509v3 Freshest CRL", "freshestCRL"),
];
/// Purposes of `extendedKeyUsage`.
pub(super) const PURPOSES: [(&str, &str); 13] = [
    ("serverAuth", "1.3.6.1.5.5.7.3.1"),
    ("clientAuth", "1.3.6.1.5.5.7.3.2"),
    ("codeSigning", "1.3.6.1.5.5.7.3.3"),
    ("emailProtection", "1.3.6.1.5.5.7.3.4"),
    ("timeStamping", "1.3.6.1.5.5.7.3.8"),
    ("OCSPSigning", "1.3.6.1.5.5.7.3.9"),
    ("msSmartcardLogin", "1.3.6.1.4.1.311.20.2.2"),
    ("pkInitKDC", "1.3.6.1.5.2.3.5"),
    ("ipsecIKE", "1.3.6.1.5.5.7.3.17"),
    ("msCodeInd", "1.3.6.1.4.1.311.2.1.21"),
    ("msCodeCom", "1.3.6.1.4.1.311.2.1.22"),
    ("msCTLSign", "1.3.6.1.4.1.311.10.3.1"),
    ("msEFS", "1.3.6.1.4.1.311.10.3.4"),
];
/// What `authorityInfoAccess` points to.
pub(super) const ACCESS: [(&str, &str); 3] = [
    ("OCSP", "1.3.6.1.5.5.7.48.1"),
    ("caIssuers", "1.3.6.1.5.5.7.48.2"),
    ("caRepository", "1.3.6.1.5.5.7.48.5"),
];
/// The bits of `keyUsage`, in order.
pub(super) const KEY_USAGES: [&str; 9] = [
    "digitalSignature",
    "nonRepudiation",
    "keyEncipherment",
    "dataEncipherment",
    "keyAgreement",
    "keyCertSign",
    "cRLSign",
    "encipherOnly",
    "decipherOnly",
];
/// The numbers of `tlsfeature`.
pub(super) const TLS_FEATURES: [(&str, u64); 2] = [("status_request", 5), ("status_request_v2", 17)];
pub(super) const SUBJECT_KEY_ID: &str = "2.5.29.14";
pub(super) const SUBJECT_ALT_NAME: &str = "2.5.29.17";
pub(super) const CRL_NUMBER: &str = "2.5.29.20";

/// One extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) object: String,
    pub(super) critical: bool,
    pub(super) value: Vec<u8>,
}

impl Extension {
    /// As a certificate holds it.
    pub(super) fn der(&self) -> Vec<u8> {
        let mut parts = vec![der::object(&self.object).unwrap_or_default()];
        if self.critical {
            parts.push(der::tlv(der::BOOLEAN, &[0xff]));
        }
        parts.push(der::octets(&self.value));
        der::sequence(&parts)
    }

    /// Its name in `changes`.
    pub(super) fn change_name(&self) -> &str {
        let mut all = CERTIFICATE_EXTENSIONS.iter().chain(&LIST_EXTENSIONS);
        all.find(|(_, object, _)| *object == self.object).map_or(&self.object, |(_, _, name)| name)
    }
}

/// What the values of extensions are made of.
#[derive(Clone, Copy, Default)]
pub(super) struct ExtensionContext<'c> {
    /// The key that is signed for, as a certificate holds it.
    pub(super) subject_key: Option<&'c [u8]>,
    /// The key that signs, where the certificate signs itself.
    pub(super) own_key: Option<&'c [u8]>,
    /// The certificate of the signer.
    pub(super) signer: Option<&'c Certificate>,
}

/// Renames extensions of the older module.
pub(super) fn shorten_names(args: &mut Map) {
    for (long, short) in LONG_NAMES {
        if let Some(value) = args.remove(long) {
            args.insert(short, value);
        }
    }
}

/// The extensions of a certificate: those of the arguments, then those of a request that the arguments do not mention.
pub(super) fn for_certificate(
    args: &Map,
    request: &[Extension],
    ctx: ExtensionContext<'_>,
) -> Result<Vec<Extension>, FunctionError> {
    let mut all = Vec::new();
    let mut seen = Vec::new();
    for (name, value) in written(args) {
        all.push(build(name, value, ctx)?);
        seen.push(name);
    }
    for (name, object, _) in CERTIFICATE_EXTENSIONS {
        if !seen.contains(&name) && !CSR_FORBIDDEN.contains(&name) {
            all.extend(request.iter().find(|e| e.object == object).cloned());
        }
    }
    Ok(all)
}

/// The extensions of a request.
pub(super) fn for_request(args: &Map, ctx: ExtensionContext<'_>) -> Result<Vec<Extension>, FunctionError> {
    let allowed = written(args).filter(|(name, _)| !CSR_FORBIDDEN.contains(name));
    allowed.map(|(name, value)| build(name, value, ctx)).collect()
}

/// The extensions of a list.
pub(super) fn for_list(args: &Map, ctx: ExtensionContext<'_>) -> Result<Vec<Extension>, FunctionError> {
    some(args, &CRL_ALLOWED, ctx)
}

/// The extensions of an entry of a list.
pub(super) fn for_entry(args: &Map) -> Result<Vec<Extension>, FunctionError> {
    some(args, &ENTRY_ALLOWED, ExtensionContext::default())
}

/// Those of a mapping that are allowed, in its order.
fn some(args: &Map, allowed: &[&str], ctx: ExtensionContext<'_>) -> Result<Vec<Extension>, FunctionError> {
    let mut all = Vec::new();
    for (name, value) in args.iter() {
        match allowed.iter().find(|known| name.as_str() == Some(known)) {
            Some(name) => all.push(build(name, value, ctx)?),
            None => {
                let name = name.json_key();
                return Err(FunctionError::failed(format!("there is no extension `{name}` here")));
            }
        }
    }
    Ok(all)
}

/// The extensions that arguments set; a policy may unset one with null.
fn written(args: &Map) -> impl Iterator<Item = (&'static str, &Value)> {
    let unbuilt = ["nsComment", "nsCertType"];
    let names = CERTIFICATE_EXTENSIONS.iter().map(|(name, _, _)| *name).chain(unbuilt);
    names.filter_map(|name| Some((name, args.get(name).filter(|v| !v.is_null())?)))
}

/// Builds one extension.
fn build(name: &str, value: &Value, ctx: ExtensionContext<'_>) -> Result<Extension, FunctionError> {
    let (content, critical) = match name {
        "basicConstraints" => basic_constraints(value)?,
        "keyUsage" => key_usage(value)?,
        "extendedKeyUsage" => extended_key_usage(value)?,
        "subjectKeyIdentifier" => (subject_key_identifier(value, ctx)?, false),
        "authorityKeyIdentifier" => (authority_key_identifier(value, ctx)?, false),
        "issuerAltName" | "certificateIssuer" => issuer_names(value, ctx)?,
        "authorityInfoAccess" => (authority_info_access(value)?, false),
        "subjectAltName" => {
            let (names, critical) = written_names(value);
            (der::tlv(der::SEQUENCE, &encode_all(&names)?), critical)
        }
        "crlDistributionPoints" => distribution_points(value)?,
        "freshestCRL" => (distribution_points(value)?.0, false),
        "issuingDistributionPoint" => issuing_point(value)?,
        "certificatePolicies" => super::policy::certificate_policies(value)?,
        "policyConstraints" => super::policy::policy_constraints(value)?,
        "inhibitAnyPolicy" => super::policy::inhibit_any_policy(value)?,
        "nameConstraints" => super::policy::name_constraints(value)?,
        "noCheck" => (vec![5, 0], python_str(value).contains("critical")),
        "tlsfeature" => tls_feature(value)?,
        "cRLNumber" => {
            let number = python_str(value)
                .trim()
                .parse::<u64>()
                .map_err(|_| fail("cRLNumber must be an integer and must be marked as non-critical"))?;
            (der::small(number), false)
        }
        "deltaCRLIndicator" => delta_indicator(value)?,
        "CRLReason" => crl_reason(value)?,
        "invalidityDate" => invalidity_date(value)?,
        "nsComment" | "nsCertType" => return Err(fail(&format!("{name} is currently not implemented."))),
        _ => return Err(fail(&format!("Unknown extension {name}"))),
    };
    let mut all = CERTIFICATE_EXTENSIONS.iter().chain(&LIST_EXTENSIONS);
    let object = all.find(|(known, _, _)| *known == name).map_or("", |(_, object, _)| object);
    Ok(Extension { object: object.to_owned(), critical, value: content })
}

pub(super) fn fail(words: &str) -> FunctionError {
    FunctionError::failed(words)
}

/// `word in value`, as Python asks it of a text, a list or a dictionary.
pub(super) fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::Str(text) => text.contains(word),
        Value::List(list) => list.iter().any(|item| item.as_str() == Some(word)),
        Value::Map(map) => map.contains(word),
        _ => false,
    }
}

/// The parts of a text as a mapping, or the mapping that is given; and whether it is critical.
pub(super) fn settings(value: &Value) -> (Map, bool) {
    match value {
        Value::Map(map) => ((**map).clone(), map.contains("critical")),
        other => {
            let (parts, critical) = confstring(&python_str(other));
            (parts.into_iter().collect(), critical)
        }
    }
}

fn basic_constraints(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let (given, critical) = match value {
        Value::Map(map) => ((**map).clone(), map.get("critical").is_some_and(Value::is_truthy)),
        other => settings(&Value::from(python_str(other).to_lowercase())),
    };
    let is_text = value.as_map().is_none();
    let Some(ca) = given.get("ca") else {
        let what = if is_text {
            "Invalid configuration for basicContraints"
        } else {
            "Undefined required key for basicConstraints"
        };
        return Err(fail(&format!("{what}: 'ca'")));
    };
    let ca = match ca {
        Value::Bool(ca) => *ca,
        Value::Str(text) if is_text => &**text == "true",
        _ => return Err(fail("ca must be a boolean value")),
    };
    let length = match given.get("pathlen").filter(|v| !v.is_null()) {
        Some(length) => Some(
            python_str(length)
                .trim()
                .parse::<u64>()
                .map_err(|_| fail("path_length must be a non-negative integer or None"))?,
        ),
        None => None,
    };
    if length.is_some() && !ca {
        return Err(fail("path_length must be None when ca is False"));
    }
    let mut parts = Vec::new();
    if ca {
        parts.push(der::tlv(der::BOOLEAN, &[0xff]));
    }
    parts.extend(length.map(der::small));
    Ok((der::sequence(&parts), critical))
}

fn key_usage(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let set: Vec<usize> = (0..KEY_USAGES.len()).filter(|bit| mentions(value, KEY_USAGES[*bit])).collect();
    if set.iter().any(|bit| *bit > 6) && !set.contains(&4) {
        return Err(fail("encipher_only and decipher_only can only be true when key_agreement is true"));
    }
    Ok((der::tlv(der::BIT_STRING, &der::flags_content(&set)), mentions(value, "critical")))
}

fn extended_key_usage(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let (usages, critical): (Vec<String>, bool) = match value {
        Value::List(list) => (list.iter().map(python_str).collect(), mentions(value, "critical")),
        Value::Map(map) => (map.keys().map(python_str).collect(), mentions(value, "critical")),
        other => {
            let (parts, critical) = confstring(&python_str(other));
            (parts.into_iter().map(|(key, _)| key).collect(), critical)
        }
    };
    let one = |usage: &String| {
        let known = PURPOSES.iter().find(|(name, _)| name == usage).map(|(_, dotted)| *dotted);
        object(known.unwrap_or(usage))
    };
    let usages: Vec<Vec<u8>> =
        usages.iter().filter(|u| *u != "critical").map(one).collect::<Result<_, _>>()?;
    Ok((der::sequence(&usages), critical))
}

/// The digest of a key that stands for it.
pub(super) fn key_digest(spki: &[u8]) -> Vec<u8> {
    Sha1::digest(public_key_bits(spki).unwrap_or_default()).to_vec()
}

fn subject_key_identifier(value: &Value, ctx: ExtensionContext<'_>) -> Result<Vec<u8>, FunctionError> {
    if mentions(value, "critical") {
        return Err(fail("subjectKeyIdentifier must be marked as non-critical"));
    }
    let text = python_str(value);
    let digest = match (text.as_str(), ctx.subject_key) {
        ("hash", Some(key)) => key_digest(key),
        ("hash", None) => {
            return Err(fail("Cannot calculate digest for subjectKeyIdentifier: missing pubkey"));
        }
        (digits, _) => hex(&digits.replace(':', "")).ok_or_else(|| fail("Value must be precomputed hash"))?,
    };
    Ok(der::octets(&digest))
}

fn authority_key_identifier(value: &Value, ctx: ExtensionContext<'_>) -> Result<Vec<u8>, FunctionError> {
    if mentions(value, "critical") {
        return Err(fail("authorityKeyIdentifier must be marked as non-critical"));
    }
    if ctx.signer.is_none() && ctx.own_key.is_none() {
        return Err(fail("Need CA certificate or CA pubkey to calculate authorityKeyIdentifier"));
    }
    let (given, _) = settings(value);
    let is_always = |key: &str| given.get(key).and_then(Value::as_str) == Some("always");
    let mut parts = Vec::new();
    if given.contains("keyid") {
        let of_signer = |signer: &Certificate| match signer.extension(SUBJECT_KEY_ID) {
            Some(own) => der::first(&own.value).map(|(item, _)| item.content.to_vec()),
            None => Some(key_digest(&signer.spki)),
        };
        let id = ctx.signer.and_then(of_signer).or_else(|| ctx.own_key.map(key_digest));
        parts.extend(id.map(|id| der::implicit(0, &id)));
    }
    if is_always("issuer") || (given.contains("issuer") && parts.is_empty()) {
        match ctx.signer {
            Some(signer) => {
                let name = der::explicit(4, &signer.issuer.der());
                parts.push(der::explicit(1, &name));
                parts.push(der::implicit(2, &der::number_content(&signer.serial)));
            }
            None if is_always("issuer") => {
                return Err(fail(
                    "Could not add authority_cert_issuer and authority_cert_serial_number, but was set to always.",
                ));
            }
            None => {}
        }
    }
    Ok(der::sequence(&parts))
}

fn issuer_names(value: &Value, ctx: ExtensionContext<'_>) -> Result<(Vec<u8>, bool), FunctionError> {
    let (mut names, critical) = written_names(value);
    let mut bytes = Vec::new();
    if names.iter().any(|(kind, value)| kind == "issuer" && value.as_str() == Some("copy")) {
        let signer = ctx.signer.ok_or_else(|| fail("Need CA certificate to copy to issuerAltName"))?;
        let own = signer.extension(SUBJECT_ALT_NAME);
        let own = own.ok_or_else(|| fail("No subjectAltName extension was found"))?;
        bytes.extend(der::first(&own.value).map(|(item, _)| item.content.to_vec()).unwrap_or_default());
        names.retain(|(kind, _)| kind != "issuer");
    }
    bytes.extend(encode_all(&names)?);
    Ok((der::tlv(der::SEQUENCE, &bytes), critical))
}

fn authority_info_access(value: &Value) -> Result<Vec<u8>, FunctionError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    match value {
        Value::Map(map) => pairs.extend(map.iter().map(|(k, v)| (k.json_key(), python_str(v)))),
        Value::List(list) => {
            let maps = list.iter().filter_map(Value::as_map).flat_map(Map::iter);
            pairs.extend(maps.map(|(k, v)| (k.json_key(), python_str(v))));
        }
        other => {
            let text = python_str(other);
            let parts = text.split(',').map(str::trim).filter(|part| *part != "critical");
            pairs.extend(parts.filter_map(|p| p.split_once(';')).map(|(k, v)| (k.to_owned(), v.to_owned())));
        }
    }
    let mut parts = Vec::new();
    for (method, place) in pairs.iter().filter(|(method, _)| method != "critical") {
        let known = ACCESS.iter().find(|(name, _)| name == method).map(|(_, dotted)| *dotted);
        let method =
            object(known.unwrap_or(method)).map_err(|_| fail(&format!("Unknown access OID: {method}")))?;
        let (kind, value) =
            split_pair(place).ok_or_else(|| fail(&format!("GeneralName type {place} is invalid")))?;
        parts.push(der::sequence(&[method, general_name::encode(&kind, &value)?]));
    }
    Ok(der::sequence(&parts))
}

fn tls_feature(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let words: Vec<String> = match value {
        Value::List(list) => list.iter().map(python_str).collect(),
        other => python_str(other).split(',').map(|w| w.trim().to_owned()).collect(),
    };
    let one = |word: &String| {
        let known = TLS_FEATURES.iter().find(|(name, _)| name == word);
        known
            .map(|(_, number)| der::small(*number))
            .ok_or_else(|| fail(&format!("there is no TLS feature `{word}`")))
    };
    let numbers = words.iter().filter(|w| *w != "critical").map(one).collect::<Result<Vec<_>, _>>()?;
    Ok((der::sequence(&numbers), words.iter().any(|w| w == "critical")))
}

fn delta_indicator(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let text = python_str(value);
    let numbers: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).collect();
    match numbers.as_slice() {
        [one] => Ok((der::small(one.parse().unwrap_or_default()), text.contains("critical"))),
        _ => Err(fail("deltaCRLIndicator must contain a single integer pointing to a cRLNumber")),
    }
}

fn invalidity_date(value: &Value) -> Result<(Vec<u8>, bool), FunctionError> {
    let text = value.as_str().ok_or_else(|| fail("invalidityDate must be a string"))?;
    let (text, critical) = match text.strip_prefix("critical") {
        Some(rest) => (rest.trim_start_matches([',', ' ']), true),
        None => (text, false),
    };
    Ok((der::general_time(civil_time(text)?), critical))
}

/// A time as states write it.
pub(super) fn civil_time(text: &str) -> Result<DateTime, FunctionError> {
    DateTime::strptime("%Y-%m-%d %H:%M:%S", text)
        .map_err(|_| fail(&format!("time data '{text}' does not match format '%Y-%m-%d %H:%M:%S'")))
}

/// The name of an issuer, for tests and comparisons.
impl Certificate {
    /// One of its extensions.
    pub(super) fn extension(&self, object: &str) -> Option<&Extension> {
        self.extensions.iter().find(|e| e.object == object)
    }

    /// Whom it is for.
    pub(super) const fn subject(&self) -> &Name {
        &self.subject
    }
}
