//! References to keys, certificates and requests in, what they hold out; and certificates, requests and lists as arguments
//! describe them, ready to be compared or signed.

#![expect(clippy::disallowed_methods, reason = "certificates are valid from a moment on")]

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use zagent_config::value::python_str;
use zagent_config::{FunctionError, Map, Value};

use super::der;
use super::extension::{self, Extension, ExtensionContext, civil_time, fail};
use super::material::{self, Certificate, Request, RevocationList, Revoked};
use super::name::{Name, has_fields, hex, shorten_fields};
use super::openssl::{OpenSsl, Pkcs12Options, PrivateKey};

/// How many days a certificate and a list are valid unless the arguments say so.
pub(super) const DAYS_VALID: i64 = 365;
pub(super) const CRL_DAYS_VALID: i64 = 100;
/// The digests that a signature may have.
const DIGESTS: [&str; 11] = [
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha512_224",
    "sha512_256",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
];

/// Reads a file; nothing when there is no such file.
pub(super) type ReadFile<'r> = dyn Fn(&str) -> Result<Option<Vec<u8>>, FunctionError> + 'r;

/// What certificates are made with.
pub(super) struct Workbench<'w> {
    pub(super) ssl: OpenSsl<'w>,
    pub(super) read: &'w ReadFile<'w>,
}

/// A certificate that was loaded, with what stood beside it.
pub(super) struct LoadedCertificate {
    pub(super) certificate: Certificate,
    pub(super) encoding: &'static str,
    pub(super) chain: Vec<Certificate>,
    pub(super) friendly_name: Option<String>,
}

/// Why bytes give no certificate.
pub(super) enum LoadError {
    /// A container whose passphrase is another.
    Passphrase,
    /// None.
    NoCertificate(&'static str),
    /// The source or the program failed.
    Failed(FunctionError),
}

impl From<LoadError> for FunctionError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Passphrase => Self::failed("Bad decrypt - is the password correct?"),
            LoadError::NoCertificate(words) => Self::failed(words),
            LoadError::Failed(error) => error,
        }
    }
}

/// A certificate before it is signed.
pub(super) struct CertificateDraft {
    pub(super) serial: Vec<u8>,
    pub(super) spki: Vec<u8>,
    pub(super) subject: Name,
    pub(super) issuer: Name,
    pub(super) extensions: Vec<Extension>,
    pub(super) signer: Option<Certificate>,
    pub(super) digest: String,
    /// The private key that belongs to it, where it is known.
    pub(super) private_key: Option<PrivateKey>,
    signing_key: PrivateKey,
    validity: (Timestamp, Timestamp),
}

/// A request before it is signed.
pub(super) struct RequestDraft {
    pub(super) key: PrivateKey,
    pub(super) subject: Name,
    pub(super) extensions: Vec<Extension>,
}

/// A list before it is signed.
pub(super) struct ListDraft {
    pub(super) key: PrivateKey,
    pub(super) issuer: Name,
    pub(super) revoked: Vec<Revoked>,
    pub(super) extensions: Vec<Extension>,
    days: i64,
}

/// A text that is given and not empty.
pub(super) fn given<'m>(args: &'m Map, key: &str) -> Option<&'m Value> {
    args.get(key).filter(|value| value.is_truthy())
}

/// A text, where one is given.
pub(super) fn text(args: &Map, key: &str) -> Option<String> {
    args.get(key).filter(|value| !value.is_null()).map(python_str)
}

/// Days, of a number or of its digits.
pub(super) fn days(args: &Map, key: &str) -> Result<Option<i64>, FunctionError> {
    let Some(text) = text(args, key) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| fail(&format!("`{key}` must be a number of days, not {text}")))
}

/// The digest of the arguments.
pub(super) fn digest(args: &Map) -> Result<String, FunctionError> {
    let digest = text(args, "digest").or_else(|| text(args, "algorithm")).unwrap_or_else(|| "sha256".into());
    if DIGESTS.contains(&digest.to_lowercase().as_str()) {
        return Ok(digest.to_lowercase());
    }
    Err(fail(&format!("Invalid value '{digest}' for digest. Valid: {}", DIGESTS.join(", "))))
}

/// Names of the older module become those of today.
pub(super) fn modernize(args: &mut Map) {
    shorten_fields(args);
    extension::shorten_names(args);
}

/// Puts a signing policy over arguments. What it says about the subject is not undone by another way to write it.
pub(super) fn apply_policy(args: &mut Map, mut policy: Map) {
    modernize(args);
    modernize(&mut policy);
    if let Some(own) = args.get("subject").cloned() {
        if has_fields(&policy) {
            args.remove("subject");
        } else if let Some(theirs) = policy.get("subject").cloned() {
            let merged = match (&own, &theirs) {
                (Value::Map(own), Value::Map(theirs)) => {
                    let all = own.iter().chain(theirs.iter()).map(|(k, v)| (k.clone(), v.clone()));
                    Some(Value::from(all.collect::<Map>()))
                }
                (Value::List(own), Value::List(theirs)) => {
                    Some(theirs.iter().chain(own.iter()).cloned().collect::<Value>())
                }
                _ => None,
            };
            if let Some(merged) = merged {
                policy.insert("subject", merged);
            }
        }
    }
    for (key, value) in policy.iter() {
        args.insert(key.clone(), value.clone());
    }
}

/// A policy in the shape of a mapping.
pub(super) fn policy_map(value: &Value) -> Map {
    match value {
        Value::List(list) => {
            let maps = list.iter().filter_map(Value::as_map).flat_map(Map::iter);
            maps.map(|(k, v)| (k.clone(), v.clone())).collect()
        }
        other => other.as_map().cloned().unwrap_or_default(),
    }
}

/// A serial number: a number, or hexadecimal digits.
pub(super) fn serial_number(value: Option<&Value>) -> Result<Vec<u8>, FunctionError> {
    match value.filter(|v| !v.is_null()) {
        None => Ok(random_serial()),
        Some(Value::Int(number)) => {
            let number = u64::try_from(*number)
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| fail("The serial number should be positive."))?;
            Ok(trim_zeros(&number.to_be_bytes()))
        }
        Some(Value::Big(digits)) => {
            let bytes = decimal_bytes(digits).filter(|_| !digits.starts_with('-'));
            bytes.ok_or_else(|| fail("The serial number should be positive."))
        }
        Some(other) => {
            let digits = python_str(other).replace(':', "");
            let bytes =
                hex(&digits).ok_or_else(|| fail(&format!("Could not parse serial number {digits}")))?;
            Ok(trim_zeros(&bytes))
        }
    }
}

/// The bytes of a number, of its decimal digits.
fn decimal_bytes(digits: &str) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    for digit in digits.chars() {
        let mut carry = digit.to_digit(10)?;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 10 + carry;
            *byte = u8::try_from(value & 0xff).ok()?;
            carry = value >> 8;
        }
        if carry > 0 {
            bytes.insert(0, u8::try_from(carry).ok()?);
        }
    }
    Some(bytes)
}

fn trim_zeros(bytes: &[u8]) -> Vec<u8> {
    bytes[bytes.iter().take_while(|b| **b == 0).count()..].to_vec()
}

/// A serial number by chance.
fn random_serial() -> Vec<u8> {
    let mut bytes = [0_u8; 20];
    // A clock stands in where there is no chance: two certificates of one moment are not made here.
    let drawn =
        std::fs::File::open("/dev/urandom").and_then(|mut f| std::io::Read::read_exact(&mut f, &mut bytes));
    if drawn.is_err() {
        bytes[..8].copy_from_slice(&Timestamp::now().as_millisecond().to_be_bytes());
    }
    bytes[0] = (bytes[0] & 0x7f) | 1;
    bytes.to_vec()
}

pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// A moment so many days later.
pub(super) fn after_days(at: Timestamp, days: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_hours(days.saturating_mul(24))).unwrap_or(Timestamp::MAX)
}

fn moment(value: Option<&Value>) -> Result<Option<Timestamp>, FunctionError> {
    let Some(value) = value.filter(|v| v.is_truthy()) else { return Ok(None) };
    let date = civil_time(&python_str(value))?;
    let zoned = date.to_zoned(TimeZone::UTC).map_err(|e| fail(&e.to_string()))?;
    Ok(Some(zoned.timestamp()))
}

impl Workbench<'_> {
    /// The bytes that an argument stands for: of a file, of a PEM, or of hexadecimal or base64 digits.
    pub(super) fn bytes(&self, value: &Value) -> Result<Vec<u8>, FunctionError> {
        let text = python_str(value);
        if text.starts_with('/')
            && !text.contains('\n')
            && let Some(bytes) = (self.read)(&text)?
        {
            return Ok(bytes);
        }
        material::decode_text(&text).ok_or_else(|| {
            fail(
                "Could not load provided source. You need to pass an existing file, (PEM|hex|base64)-encoded string \
                 or raw bytes.",
            )
        })
    }

    pub(super) fn private_key(&self, value: &Value, pass: Option<&str>) -> Result<PrivateKey, FunctionError> {
        Ok(self.ssl.load_key(&self.bytes(value)?, pass)?.0)
    }

    /// Loads a certificate in any encoding.
    pub(super) fn certificate(
        &self,
        bytes: &[u8],
        pass: Option<&str>,
    ) -> Result<LoadedCertificate, LoadError> {
        let with = |mut all: Vec<Certificate>, encoding, friendly_name| {
            let certificate = all.remove(0);
            LoadedCertificate { certificate, encoding, chain: all, friendly_name }
        };
        if material::is_pem(bytes) {
            let blocks = material::pem_blocks(&String::from_utf8_lossy(bytes));
            if let Some(block) = blocks.first().filter(|b| b.label.starts_with("PKCS7")) {
                let all = material::read_pkcs7(&block.bytes);
                let all = all.ok_or(LoadError::NoCertificate("Could not load PEM-encoded PKCS#7 blob"))?;
                return Ok(with(all, "pkcs7_pem", None));
            }
            let mut all = blocks.iter().map(|b| Certificate::read(&b.bytes));
            let Some(Some(first)) = all.next() else {
                return Err(LoadError::NoCertificate("Could not load PEM-encoded certificate."));
            };
            return Ok(with(std::iter::once(first).chain(all.flatten()).collect(), "pem", None));
        }
        if let Some(certificate) = Certificate::read(bytes) {
            return Ok(with(vec![certificate], "der", None));
        }
        if material::is_pkcs12(bytes) {
            let found = self.ssl.certificates_of_pkcs12(bytes, pass).map_err(LoadError::Failed)?;
            let found = found.ok_or(LoadError::Passphrase)?;
            if !found.certificates.is_empty() {
                return Ok(with(found.certificates, "pkcs12", found.friendly_name));
            }
        }
        match material::read_pkcs7(bytes) {
            Some(all) => Ok(with(all, "pkcs7_der", None)),
            None => Err(LoadError::NoCertificate(
                "Could not deserialize binary data, neither as DER nor PKCS#7, PKCS#12.",
            )),
        }
    }

    pub(super) fn load_certificate(&self, value: &Value) -> Result<Certificate, FunctionError> {
        Ok(self.certificate(&self.bytes(value)?, None)?.certificate)
    }

    /// Loads a request, and its encoding.
    pub(super) fn request(bytes: &[u8]) -> Result<(Request, &'static str), FunctionError> {
        let (found, encoding, words) = if material::is_pem(bytes) {
            let blocks = material::pem_blocks(&String::from_utf8_lossy(bytes));
            let found = blocks.first().and_then(|b| Request::read(&b.bytes));
            (found, "pem", "Could not load PEM-encoded certificate signing request.")
        } else {
            (Request::read(bytes), "der", "Could not load DER-encoded certificate signing request.")
        };
        found.map(|found| (found, encoding)).ok_or_else(|| fail(words))
    }

    /// Loads a list, and its encoding.
    pub(super) fn list(bytes: &[u8]) -> Result<(RevocationList, &'static str), FunctionError> {
        let (found, encoding, words) = if material::is_pem(bytes) {
            let blocks = material::pem_blocks(&String::from_utf8_lossy(bytes));
            let found = blocks.first().and_then(|b| RevocationList::read(&b.bytes));
            (found, "pem", "Could not load PEM-encoded certificate revocation list.")
        } else {
            (RevocationList::read(bytes), "der", "Could not load DER-encoded certificate revocation list.")
        };
        found.map(|found| (found, encoding)).ok_or_else(|| fail(words))
    }

    /// Loads a public key, with its kind.
    pub(super) fn public_key(bytes: &[u8]) -> Result<Vec<u8>, FunctionError> {
        let (spki, words) = if material::is_pem(bytes) {
            let blocks = material::pem_blocks(&String::from_utf8_lossy(bytes));
            let block = blocks.into_iter().next().filter(|b| b.label == "PUBLIC KEY");
            (block.map(|b| b.bytes).unwrap_or_default(), "Could not load PEM-encoded public key.")
        } else {
            (bytes.to_vec(), "Could not load DER-encoded public key.")
        };
        if material::key_kind(&spki).is_some() { Ok(spki) } else { Err(fail(words)) }
    }

    /// The public key of a public key, a certificate, a private key or a request.
    pub(super) fn any_public_key(&self, value: &Value, pass: Option<&str>) -> Result<Vec<u8>, FunctionError> {
        use super::openssl::KeyError;
        let bytes = self.bytes(value)?;
        if let Ok(spki) = Self::public_key(&bytes) {
            return Ok(spki);
        }
        match self.certificate(&bytes, pass) {
            Ok(found) => return Ok(found.certificate.spki),
            Err(error @ LoadError::Passphrase) => return Err(error.into()),
            Err(_) => {}
        }
        match self.ssl.load_key(&bytes, pass) {
            Ok((key, _)) => return Ok(key.spki),
            Err(error @ (KeyError::Invalid | KeyError::Missing | KeyError::Superfluous)) => {
                return Err(error.into());
            }
            Err(_) => {}
        }
        if let Ok((request, _)) = Self::request(&bytes) {
            return Ok(request.spki);
        }
        Err(fail("Could not load key as certificate, public key, private key or CSR"))
    }

    /// The certificate that arguments describe.
    pub(super) fn draft_certificate(&self, args: &Map) -> Result<CertificateDraft, FunctionError> {
        let Some(signing_key) = given(args, "signing_private_key") else {
            return Err(fail("Creating a certificate locally at least requires a signing private key."));
        };
        let pass = text(args, "signing_private_key_passphrase");
        let signing_key = self.private_key(signing_key, pass.as_deref())?;
        let serial = serial_number(args.get("serial_number"))?;
        let request = match given(args, "csr") {
            Some(csr) => Some(Self::request(&self.bytes(csr)?)?.0),
            None => None,
        };
        let signer = given(args, "signing_cert").map(|cert| self.load_certificate(cert)).transpose()?;
        let pass = text(args, "private_key_passphrase");
        let (spki, private_key) = match (&signer, given(args, "private_key"), given(args, "public_key")) {
            (None, _, _) => (signing_key.spki.clone(), Some(signing_key.clone())),
            (_, Some(key), _) => {
                let key = self.private_key(key, pass.as_deref())?;
                (key.spki.clone(), Some(key))
            }
            (_, None, Some(key)) => (Self::public_key(&self.bytes(key)?)?, None),
            (_, None, None) => match &request {
                Some(request) => (request.spki.clone(), None),
                None => {
                    return Err(fail(
                        "This certificate is not self-signed (signing_cert is set) and thus needs public_key, \
                         private_key or csr to derive public key to sign",
                    ));
                }
            },
        };
        if signer.as_ref().is_some_and(|signer| signer.spki != signing_key.spki) {
            return Err(fail("Signing private key does not match the certificate's public key"));
        }
        let subject = Name::from_args(args)?;
        let issuer = signer.as_ref().map_or_else(|| subject.clone(), |signer| signer.subject().clone());
        let start = now();
        let valid = days(args, "days_valid")?.unwrap_or(DAYS_VALID);
        let validity = (
            moment(args.get("not_before"))?.unwrap_or(start),
            moment(args.get("not_after"))?.unwrap_or_else(|| after_days(start, valid)),
        );
        let ctx = ExtensionContext {
            subject_key: Some(&spki),
            own_key: signer.is_none().then_some(spki.as_slice()),
            signer: signer.as_ref(),
        };
        let copied = request.as_ref().map_or(&[][..], |r| &r.extensions);
        let extensions = extension::for_certificate(args, copied, ctx)?;
        let digest = digest(args)?;
        Ok(CertificateDraft {
            serial,
            spki,
            subject,
            issuer,
            extensions,
            signer,
            digest,
            private_key,
            signing_key,
            validity,
        })
    }

    /// Signs a certificate.
    pub(super) fn sign_certificate(&self, draft: &CertificateDraft) -> Result<Certificate, FunctionError> {
        let bytes = self.ssl.sign(&draft.signing_key, &draft.digest, |algorithm| {
            let mut parts = vec![
                der::explicit(0, &der::small(2)),
                der::integer(&draft.serial),
                algorithm.to_vec(),
                draft.issuer.der(),
                der::sequence(&[der::time(draft.validity.0), der::time(draft.validity.1)]),
                draft.subject.der(),
                draft.spki.clone(),
            ];
            if !draft.extensions.is_empty() {
                let all: Vec<Vec<u8>> = draft.extensions.iter().map(Extension::der).collect();
                parts.push(der::explicit(3, &der::sequence(&all)));
            }
            der::sequence(&parts)
        })?;
        Certificate::read(&bytes).ok_or_else(|| fail("the new certificate cannot be read back"))
    }

    /// The request that arguments describe.
    pub(super) fn draft_request(&self, args: &Map) -> Result<RequestDraft, FunctionError> {
        let key = given(args, "private_key").ok_or_else(|| fail("`private_key` is missing"))?;
        let key = self.private_key(key, text(args, "private_key_passphrase").as_deref())?;
        let ctx = ExtensionContext { subject_key: Some(&key.spki), ..ExtensionContext::default() };
        let extensions = extension::for_request(args, ctx)?;
        Ok(RequestDraft { subject: Name::from_args(args)?, extensions, key })
    }

    /// Signs a request.
    pub(super) fn sign_request(&self, draft: &RequestDraft, digest: &str) -> Result<Vec<u8>, FunctionError> {
        self.ssl.sign(&draft.key, digest, |_| {
            der::sequence(&[
                der::small(0),
                draft.subject.der(),
                draft.key.spki.clone(),
                material::request_attributes(&draft.extensions),
            ])
        })
    }

    /// The list that arguments describe.
    pub(super) fn draft_list(&self, args: &Map) -> Result<ListDraft, FunctionError> {
        let signer = given(args, "signing_cert").map(|cert| self.load_certificate(cert)).transpose()?;
        let key =
            given(args, "signing_private_key").ok_or_else(|| fail("`signing_private_key` is missing"))?;
        let key = self.private_key(key, text(args, "signing_private_key_passphrase").as_deref())?;
        if signer.as_ref().is_some_and(|signer| signer.spki != key.spki) {
            return Err(fail("Signing private key does not match the certificate's public key"));
        }
        let Some(signer) = signer else { return Err(fail("A CRL must have an issuer name")) };
        let mut revoked = Vec::new();
        for entry in revoked_entries(args) {
            revoked.extend(self.revoked_entry(&entry, args)?);
        }
        let ctx = ExtensionContext { signer: Some(&signer), ..ExtensionContext::default() };
        let extensions = args.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
        let extensions = extension::for_list(&extensions, ctx)?;
        let days = days(args, "days_valid")?.unwrap_or(CRL_DAYS_VALID);
        Ok(ListDraft { issuer: signer.subject().clone(), key, revoked, extensions, days })
    }

    /// One entry; nothing for a certificate that has ended by itself.
    fn revoked_entry(&self, entry: &Map, args: &Map) -> Result<Option<Revoked>, FunctionError> {
        let mut not_after = moment(entry.get("not_after"))?;
        let serial = match given(entry, "certificate") {
            Some(certificate) => {
                let certificate = self.load_certificate(certificate)?;
                not_after = Some(certificate.not_after);
                certificate.serial
            }
            None => {
                let serial = given(entry, "serial_number");
                serial_number(Some(serial.ok_or_else(|| fail("Need serial_number or certificate"))?))?
            }
        };
        let is_over = not_after.is_some_and(|end| now() > end);
        if is_over && given(args, "include_expired").is_none() {
            return Ok(None);
        }
        let extensions = entry.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
        Ok(Some(Revoked {
            serial,
            date: moment(entry.get("revocation_date"))?.unwrap_or_else(now),
            extensions: extension::for_entry(&extensions)?,
        }))
    }

    /// Signs a list.
    pub(super) fn sign_list(&self, draft: &ListDraft, digest: &str) -> Result<Vec<u8>, FunctionError> {
        let start = now();
        self.ssl.sign(&draft.key, digest, |algorithm| {
            let all = |extensions: &[Extension]| {
                der::sequence(&extensions.iter().map(Extension::der).collect::<Vec<_>>())
            };
            let mut parts = vec![
                der::small(1),
                algorithm.to_vec(),
                draft.issuer.der(),
                der::time(start),
                der::time(after_days(start, draft.days)),
            ];
            let entry = |entry: &Revoked| {
                let mut fields = vec![der::integer(&entry.serial), der::time(entry.date)];
                if !entry.extensions.is_empty() {
                    fields.push(all(&entry.extensions));
                }
                der::sequence(&fields)
            };
            if !draft.revoked.is_empty() {
                parts.push(der::sequence(&draft.revoked.iter().map(entry).collect::<Vec<_>>()));
            }
            if !draft.extensions.is_empty() {
                parts.push(der::explicit(0, &all(&draft.extensions)));
            }
            der::sequence(&parts)
        })
    }

    /// A certificate in an encoding, with others beside it.
    pub(super) fn encode_certificate(
        &self,
        certificate: &Certificate,
        encoding: &str,
        chain: &[Certificate],
        key: Option<&PrivateKey>,
        options: Pkcs12Options<'_>,
    ) -> Result<Vec<u8>, FunctionError> {
        let all: Vec<&Certificate> = std::iter::once(certificate).chain(chain).collect();
        match encoding {
            "der" if !chain.is_empty() => Err(fail("Cannot encode a certificate chain in DER")),
            "der" => Ok(certificate.der.clone()),
            "pem" => {
                let pems: Vec<String> = all.iter().map(|c| material::to_pem("CERTIFICATE", &c.der)).collect();
                Ok(pems.join("\n").into_bytes())
            }
            "pkcs7_pem" => Ok(material::to_pem("PKCS7", &material::to_pkcs7(&all)).into_bytes()),
            "pkcs7_der" => Ok(material::to_pkcs7(&all)),
            "pkcs12" => match key {
                Some(key) => self.ssl.to_pkcs12(key, &all, options),
                None => Err(fail(
                    "Creating a PKCS12-encoded certificate without embedded private key is unsupported",
                )),
            },
            other => Err(fail(&format!(
                "Invalid value '{other}' for encoding. Valid: der, pem, pkcs7_der, pkcs7_pem, pkcs12"
            ))),
        }
    }
}

/// What is revoked; an entry may stand below a name of its own, as a list.
fn revoked_entries(args: &Map) -> Vec<Map> {
    let one = |entry: &Value| {
        let map = entry.as_map()?;
        let below = map.iter().find_map(|(_, v)| v.as_list()).filter(|_| map.len() == 1);
        let mut entry: Map = match below {
            Some(parts) => {
                let pairs = parts.iter().filter_map(Value::as_map).flat_map(Map::iter);
                pairs.map(|(k, v)| (k.clone(), v.clone())).collect()
            }
            None => map.clone(),
        };
        if let Some(reason) = entry.remove("reason") {
            let mut extensions = entry.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
            extensions.insert("CRLReason", reason);
            entry.insert("extensions", extensions);
        }
        Some(entry)
    };
    args.get("revoked").and_then(Value::as_list).into_iter().flat_map(|l| l.iter()).filter_map(one).collect()
}
