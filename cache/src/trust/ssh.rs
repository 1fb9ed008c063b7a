//! An armoured SSH signature in, the verdict for a message out.

use base64::Engine;
use ssh_key::public::KeyData;
use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};

use super::SignatureError;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
pub(super) const END: &str = "-----END SSH SIGNATURE-----";
/// Maximum bytes of an armoured signature; the largest RSA key needs a tenth of it.
const MAX_BYTES: usize = 32 << 10;
/// Bits of an RSA key: shorter keys can be broken, longer ones are not supported by the library.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;
/// The flag that someone touched the security key.
const USER_PRESENT: u8 = 1;
/// Bytes after the signature of a security key: flags and a counter.
const TRAILER: usize = 5;

/// A parsed signature, not verified yet.
pub(super) struct SshSignature(SshSig);

fn malformed(why: impl Into<String>) -> SignatureError {
    SignatureError::Malformed { what: "signature", why: why.into() }
}

impl SshSignature {
    /// Reads exactly one signature and nothing else.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, SignatureError> {
        if bytes.len() > MAX_BYTES {
            return Err(malformed(format!("it has more than {MAX_BYTES} bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("it is not text"))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.starts_with(BEGIN) {
            return Err(malformed(format!("it does not begin with `{BEGIN}`")));
        }
        if text.matches("-----BEGIN").count() > 1 {
            return Err(malformed("it is followed by another"));
        }
        match text.split_once(END) {
            None => return Err(malformed("its end is missing")),
            Some((_, rest)) if !rest.is_empty() => return Err(malformed("something follows its end")),
            Some(_) => {}
        }
        let text = text.replace("\r\n", "\n");
        let read = SshSig::from_pem(format!("{text}\n"));
        let sig =
            read.map_err(|error| certificate_error(&text).unwrap_or_else(|| malformed(error.to_string())))?;
        if let Algorithm::Other(name) = sig.public_key().algorithm() {
            return Err(certificate_error(&text)
                .unwrap_or_else(|| weak_error(format!("`{name}` is not supported", name = name.as_str()))));
        }
        if sig.version() != SshSig::VERSION {
            return Err(malformed(format!("its version is {}", sig.version())));
        }
        Ok(Self(sig))
    }

    pub(super) fn key(&self) -> &KeyData {
        self.0.public_key()
    }

    pub(super) fn fingerprint(&self) -> String {
        self.key().fingerprint(HashAlg::Sha256).to_string()
    }

    /// Checks everything that does not need the message.
    pub(super) fn check_policy(&self, namespace: &'static str) -> Result<(), SignatureError> {
        check_key_strength(self.key()).map_err(weak_error)?;
        if self.0.namespace() != namespace {
            let found = self.0.namespace().chars().take(100).flat_map(char::escape_debug).collect();
            return Err(SignatureError::WrongNamespace { found, want: namespace });
        }
        let fits = match (self.key().algorithm(), self.0.algorithm()) {
            (Algorithm::Rsa { .. }, Algorithm::Rsa { hash }) => hash.is_some(),
            (key, signature) => key == signature,
        };
        if !fits {
            return Err(weak_error(format!(
                "its algorithm `{}` does not match a key of type `{}`",
                self.0.algorithm().as_str(),
                self.key().algorithm().as_str()
            )));
        }
        self.check_user_presence()
    }

    /// A security key reports whether someone touched it. A program on the signer's machine must not sign without a
    /// touch.
    fn check_user_presence(&self) -> Result<(), SignatureError> {
        if !matches!(self.key(), KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_)) {
            return Ok(());
        }
        let bytes = self.0.signature_bytes();
        let flags = bytes.len().checked_sub(TRAILER).and_then(|at| bytes.get(at));
        match flags {
            Some(flags) if flags & USER_PRESENT != 0 => Ok(()),
            _ => Err(weak_error("nobody touched the security key when it signed".into())),
        }
    }

    /// `Ok` when it is a signature of this message.
    pub(super) fn verify(&self, namespace: &str, message: &[u8]) -> Result<(), SignatureError> {
        let bad = |_| SignatureError::BadSignature { fingerprint: self.fingerprint() };
        PublicKey::from(self.key().clone()).verify(namespace, message, &self.0).map_err(bad)
    }
}

fn weak_error(why: String) -> SignatureError {
    SignatureError::Weak { why }
}

/// Why a key cannot be accepted; the text names its type.
pub(super) fn check_key_strength(key: &KeyData) -> Result<(), String> {
    match key {
        KeyData::Ed25519(_) | KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => Ok(()),
        KeyData::Ecdsa(ecdsa) => match ecdsa.curve() {
            ssh_key::EcdsaCurve::NistP256 | ssh_key::EcdsaCurve::NistP384 => Ok(()),
            other => Err(format!("ECDSA keys of the curve `{}` are not supported", other.as_str())),
        },
        KeyData::Rsa(rsa) => {
            let bits = rsa.n.as_positive_bytes().map_or(0, |n| {
                let zeros = n.first().map_or(0, |b| b.leading_zeros() as usize);
                (n.len() * 8).saturating_sub(zeros)
            });
            if RSA_BITS.contains(&bits) {
                Ok(())
            } else {
                let (least, most) = (RSA_BITS.start(), RSA_BITS.end());
                Err(format!("RSA keys must have {least} to {most} bits, and this one has {bits}"))
            }
        }
        other => Err(format!("keys of the type `{}` are not supported", other.algorithm().as_str())),
    }
}

/// The refusal of a certificate, if the signature names one: version and key follow the magic word.
fn certificate_error(text: &str) -> Option<SignatureError> {
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(body.trim()).ok()?;
    let name = bytes.get(18..)?;
    let end = name.windows(12).position(|w| w == b"@openssh.com")? + 12;
    let name = std::str::from_utf8(&name[..end]).ok().filter(|name| name.contains("-cert-v01"))?;
    Some(SignatureError::Certificate { algorithm: name.to_owned() })
}
