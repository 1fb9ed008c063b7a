//! What is there and the arguments in, what differs out; and what differs in, the new content of the file out.

use zagent_config::{FunctionError, Map, Value};

use super::X509Managed;
use super::compare;
use super::der;
use super::extension::{CRL_NUMBER, fail};
use super::material::{self, Certificate, Request, RevocationList};
use super::openssl::{KeyError, Pkcs12Options, PrivateKey};
use super::workbench::{self, CertificateDraft, LoadError, Workbench, after_days, days, given, now, text};

/// When a certificate and a list are made again, in days before their end.
const DAYS_REMAINING: i64 = 90;
const CRL_DAYS_REMAINING: i64 = 30;

/// What is there.
enum Current {
    Key(PrivateKey),
    Request(Request),
    Certificate(Box<Certificate>),
    List(Box<RevocationList>),
}

/// What differs, and what is there.
pub(super) struct Evaluation {
    pub(super) changes: Map,
    current: Option<Current>,
    /// A file is there, whatever it holds.
    is_there: bool,
    args: Map,
    /// The certificate as it should be, when it was compared.
    draft: Option<CertificateDraft>,
}

impl Evaluation {
    fn new(args: &Map, is_there: bool) -> Self {
        Self { changes: Map::new(), current: None, is_there, args: args.clone(), draft: None }
    }

    pub(super) const fn has_current(&self) -> bool {
        self.current.is_some()
    }

    /// What is done to the file.
    pub(super) fn verb(&self) -> &'static str {
        if self.is_there { "recreate" } else { "create" }
    }

    fn has_only(&self, keys: &[&str]) -> bool {
        self.changes.keys().filter_map(Value::as_str).all(|key| keys.contains(&key))
    }
}

/// The new content of the file.
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
    /// The new certificate, when one was signed.
    pub(super) certificate: Option<Certificate>,
}

impl X509Managed {
    pub(super) fn evaluate_key(
        &self,
        bench: &Workbench<'_>,
        bytes: Option<Vec<u8>>,
        args: &Map,
    ) -> Result<Evaluation, FunctionError> {
        let algo = text(args, "algo").unwrap_or_else(|| "rsa".into());
        let keysize = args.get("keysize").filter(|v| v.is_truthy());
        if keysize.is_some() && algo.starts_with("ed") {
            return Err(fail(&format!("keysize is an invalid parameter for {algo}")));
        }
        let mut found = Evaluation::new(args, bytes.is_some());
        let is_new = given(args, "new").is_some();
        let Some(bytes) = bytes else {
            found.changes.insert("created", self.name.as_str());
            return Ok(found);
        };
        if is_new {
            found.changes.insert("replaced", self.name.as_str());
            return Ok(found);
        }
        let overwrite = given(args, "overwrite").is_some();
        let pass = text(args, "passphrase");
        let loaded = match bench.ssl.load_key(&bytes, pass.as_deref()) {
            Err(KeyError::Superfluous) => {
                found.changes.insert("passphrase", true);
                bench.ssl.load_key(&bytes, None).map_err(FunctionError::from).map(Some)?
            }
            Err(KeyError::Failed(error)) => return Err(error),
            Err(error) if !overwrite => return Err(fail(refusal(&error))),
            Err(KeyError::NoKey(_)) => None,
            Err(KeyError::Invalid | KeyError::Missing) => {
                found.changes.insert("passphrase", true);
                None
            }
            Ok(loaded) => Some(loaded),
        };
        let Some((key, encoding)) = loaded else {
            found.changes.insert("created", self.name.as_str());
            return Ok(found);
        };
        let size = match keysize {
            Some(size) => zagent_config::value::python_str(size).trim().parse().ok(),
            None => Some(if algo == "ec" { 256 } else { 2048 }),
        };
        let (kind, bits) = key.kind();
        if kind != algo {
            found.changes.insert("algo", algo);
        } else if matches!(kind, "rsa" | "ec") && bits != size {
            found.changes.insert("keysize", size.map_or(Value::Null, Value::from));
        }
        if encoding != self.encoding {
            found.changes.insert("encoding", self.encoding.as_str());
        }
        found.current = Some(Current::Key(key));
        Ok(found)
    }

    /// An evaluation of something that is not there, or cannot be read.
    fn without_current(&self, args: &Map, is_there: bool, replaced: bool) -> Evaluation {
        let mut found = Evaluation::new(args, false);
        if !is_there {
            found.changes.insert("created", self.name.as_str());
        }
        if replaced {
            found.changes.insert("replaced", self.name.as_str());
        }
        found
    }

    pub(super) fn evaluate_request(
        &self,
        bench: &Workbench<'_>,
        bytes: Option<Vec<u8>>,
        replaced: bool,
        args: &Map,
    ) -> Result<Evaluation, FunctionError> {
        let Some(bytes) = bytes else { return Ok(self.without_current(args, false, replaced)) };
        let Ok((request, encoding)) = Workbench::request(&bytes) else {
            return Ok(self.without_current(args, true, true));
        };
        if request.version != 0 {
            let mut found = Evaluation::new(args, false);
            found.changes.insert("invalid_version", true);
            found.changes.insert("replaced", self.name.as_str());
            return Ok(found);
        }
        let mut found = Evaluation::new(args, true);
        let digest = workbench::digest(args)?;
        if request.signed.digest().is_some_and(|own| own != digest) {
            found.changes.insert("digest", digest);
        }
        if encoding != self.encoding {
            found.changes.insert("encoding", self.encoding.as_str());
        }
        let draft = bench.draft_request(args)?;
        if draft.key.spki != request.spki {
            found.changes.insert("private_key", true);
        }
        if draft.subject != request.subject {
            found.changes.insert("subject_name", draft.subject.text());
        }
        if let Some(differing) = compare::extensions(&request.extensions, &draft.extensions, None) {
            found.changes.insert("extensions", differing);
        }
        found.current = Some(Current::Request(request));
        Ok(found)
    }

    pub(super) fn evaluate_certificate(
        &self,
        bench: &Workbench<'_>,
        bytes: Option<Vec<u8>>,
        replaced: bool,
        args: &Map,
    ) -> Result<Evaluation, FunctionError> {
        let Some(bytes) = bytes else { return Ok(self.without_current(args, false, replaced)) };
        let pass = text(args, "pkcs12_passphrase");
        let current = match bench.certificate(&bytes, pass.as_deref()) {
            Ok(current) => current,
            Err(LoadError::Passphrase) => {
                let mut found = Evaluation::new(args, false);
                found.changes.insert("pkcs12_passphrase", true);
                return Ok(found);
            }
            Err(LoadError::NoCertificate(_)) => return Ok(self.without_current(args, true, true)),
            Err(LoadError::Failed(error)) => return Err(error),
        };
        let mut found = Evaluation::new(args, true);
        let friendly = text(args, "pkcs12_friendlyname").filter(|name| !name.is_empty());
        if current.encoding != self.encoding {
            found.changes.insert("encoding", self.encoding.as_str());
        } else if current.encoding == "pkcs12" && current.friendly_name != friendly {
            found.changes.insert("pkcs12_friendlyname", friendly.map_or(Value::Null, Value::from));
        }
        let certificate = current.certificate;
        let remaining = days(args, "days_remaining")?.unwrap_or(DAYS_REMAINING);
        if certificate.not_after < after_days(now(), remaining) {
            found.changes.insert("expiration", true);
        }
        let chain = self.chain(bench, args)?;
        let is_same = chain.len() == current.chain.len()
            && chain.iter().zip(&current.chain).all(|(wanted, there)| wanted.der == there.der);
        if !is_same {
            found.changes.insert("additional_certs", true);
        }
        let draft = bench.draft_certificate(args)?;
        if certificate.signed.digest().is_some_and(|own| own != draft.digest) {
            let digest = text(&self.args, "digest").unwrap_or_else(|| "sha256".into());
            found.changes.insert("digest", digest);
        }
        let serial = self.args.get("serial_number");
        for (key, value) in compare::certificate(&bench.ssl, &certificate, &draft, serial)?.iter() {
            found.changes.insert(key.clone(), value.clone());
        }
        found.current = Some(Current::Certificate(Box::new(certificate)));
        found.draft = Some(draft);
        Ok(found)
    }

    pub(super) fn evaluate_list(
        &self,
        bench: &Workbench<'_>,
        bytes: Option<Vec<u8>>,
        replaced: bool,
        args: &Map,
    ) -> Result<Evaluation, FunctionError> {
        let Some(bytes) = bytes else { return Ok(self.without_current(args, false, replaced)) };
        let Ok((list, encoding)) = Workbench::list(&bytes) else {
            return Ok(self.without_current(args, true, true));
        };
        let mut found = Evaluation::new(args, true);
        let digest = workbench::digest(args)?;
        if list.signed.digest().is_some_and(|own| own != digest) {
            found.changes.insert("digest", digest);
        }
        if encoding != self.encoding {
            found.changes.insert("encoding", self.encoding.as_str());
        }
        let remaining = days(args, "days_remaining")?.unwrap_or(CRL_DAYS_REMAINING);
        let is_late = list.next_update.is_none_or(|next| next < after_days(now(), remaining));
        if remaining != 0 && is_late {
            found.changes.insert("expiration", true);
        }
        let (args, counts) = without_auto_number(args);
        let draft = bench.draft_list(&args)?;
        for (key, value) in compare::list(&bench.ssl, &list, &draft, counts)?.iter() {
            found.changes.insert(key.clone(), value.clone());
        }
        found.current = Some(Current::List(Box::new(list)));
        Ok(found)
    }

    fn chain(&self, bench: &Workbench<'_>, args: &Map) -> Result<Vec<Certificate>, FunctionError> {
        match given(args, "append_certs") {
            Some(Value::List(list)) => list.iter().map(|one| bench.load_certificate(one)).collect(),
            Some(one) => Ok(vec![bench.load_certificate(one)?]),
            None => Ok(Vec::new()),
        }
    }

    /// The new content of the file.
    pub(super) fn make(&self, bench: &Workbench<'_>, found: &Evaluation) -> Result<Made, FunctionError> {
        let args = &found.args;
        let plain = |bytes| Made { bytes, certificate: None };
        let is_pem = self.encoding == "pem";
        let encoded = |label: &str, der: &[u8]| {
            if is_pem { material::to_pem(label, der).into_bytes() } else { der.to_vec() }
        };
        match (self.kind, &found.current) {
            (super::X509Kind::PrivateKey, current) => {
                self.make_key(bench, args, found, current.as_ref()).map(plain)
            }
            (super::X509Kind::Csr, Some(Current::Request(request))) if found.has_only(&["encoding"]) => {
                Ok(plain(encoded("CERTIFICATE REQUEST", &request.der)))
            }
            (super::X509Kind::Csr, _) => {
                let der = bench.sign_request(&bench.draft_request(args)?, &workbench::digest(args)?)?;
                Ok(plain(encoded("CERTIFICATE REQUEST", &der)))
            }
            (super::X509Kind::Certificate, current) => self.make_certificate(bench, found, current.as_ref()),
            (_, Some(Current::List(list))) if found.has_only(&["encoding"]) => {
                Ok(plain(encoded("X509 CRL", &list.der)))
            }
            (_, current) => {
                let numbered = with_number(args, current.as_ref());
                let der = bench.sign_list(&bench.draft_list(&numbered)?, &workbench::digest(args)?)?;
                Ok(plain(encoded("X509 CRL", &der)))
            }
        }
    }

    fn make_key(
        &self,
        bench: &Workbench<'_>,
        args: &Map,
        found: &Evaluation,
        current: Option<&Current>,
    ) -> Result<Vec<u8>, FunctionError> {
        let pass = text(args, "passphrase");
        let compat = given(args, "pkcs12_encryption_compat").is_some();
        let options = Pkcs12Options { passphrase: pass.as_deref(), compat, friendly_name: None };
        if let Some(Current::Key(key)) = current.filter(|_| found.has_only(&["encoding", "passphrase"])) {
            return bench.ssl.encode_key(key, &self.encoding, options);
        }
        let algo = text(args, "algo").unwrap_or_else(|| "rsa".into());
        let size = days(args, "keysize")?.filter(|size| *size != 0);
        bench.ssl.encode_key(&bench.ssl.new_key(&algo, size)?, &self.encoding, options)
    }

    fn make_certificate(
        &self,
        bench: &Workbench<'_>,
        found: &Evaluation,
        current: Option<&Current>,
    ) -> Result<Made, FunctionError> {
        let args = &found.args;
        let (pass, friendly) = (text(args, "pkcs12_passphrase"), text(args, "pkcs12_friendlyname"));
        let options = Pkcs12Options {
            passphrase: pass.as_deref(),
            compat: given(args, "pkcs12_encryption_compat").is_some(),
            friendly_name: friendly.as_deref().filter(|name| !name.is_empty()),
        };
        let chain = self.chain(bench, args)?;
        let encode = |certificate: &Certificate, key: Option<&PrivateKey>| {
            bench.encode_certificate(certificate, &self.encoding, &chain, key, options)
        };
        let kept = ["additional_certs", "encoding", "pkcs12_friendlyname"];
        if let (Some(Current::Certificate(there)), Some(draft)) = (current, &found.draft)
            && found.has_only(&kept)
        {
            return Ok(Made { bytes: encode(there, draft.private_key.as_ref())?, certificate: None });
        }
        let draft = bench.draft_certificate(args)?;
        if self.encoding == "der" && !chain.is_empty() {
            return Err(fail("Cannot encode a certificate chain in DER"));
        }
        let certificate = bench.sign_certificate(&draft)?;
        let bytes = encode(&certificate, draft.private_key.as_ref())?;
        Ok(Made { bytes, certificate: Some(certificate) })
    }
}

/// Why a key that cannot be read is not replaced.
const fn refusal(error: &KeyError) -> &'static str {
    match error {
        KeyError::Invalid => {
            "The provided passphrase cannot decrypt the private key. Pass overwrite: true to force regeneration"
        }
        KeyError::Missing => {
            "The existing file is encrypted. Pass overwrite: true to force regeneration without passphrase"
        }
        _ => {
            "The existing file does not seem to be a private key formatted as DER, PEM or embedded in PKCS12. Pass \
             overwrite: true to force regeneration"
        }
    }
}

/// The extensions without a number that counts by itself, and whether there was one.
fn without_auto_number(args: &Map) -> (Map, bool) {
    let mut extensions = args.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
    let counts = extensions.get("cRLNumber").and_then(Value::as_str) == Some("auto");
    let mut all = args.clone();
    if counts {
        extensions.remove("cRLNumber");
        all.insert("extensions", extensions);
    }
    (all, counts)
}

/// The extensions with the next number of a list that counts by itself.
fn with_number(args: &Map, current: Option<&Current>) -> Map {
    let (mut all, counts) = without_auto_number(args);
    if counts {
        let last = match current {
            Some(Current::List(list)) => {
                let own = list.extensions.iter().find(|e| e.object == CRL_NUMBER);
                own.and_then(|e| der::first(&e.value)).and_then(|(item, _)| item.small())
            }
            _ => None,
        };
        let mut extensions = all.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
        let next = last.unwrap_or(0).saturating_add(1);
        extensions.insert("cRLNumber", i64::try_from(next).unwrap_or(i64::MAX));
        all.insert("extensions", extensions);
    }
    all
}
