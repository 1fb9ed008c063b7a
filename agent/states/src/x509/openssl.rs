//! Keys and signatures by the program `openssl`: bytes in, bytes out. What certificates look like is not its business.
//!
//! Keys pass through a directory that only this process can read and that is removed afterwards; a passphrase stands in
//! the environment alone.

#![expect(clippy::disallowed_methods, reason = "openssl gets files of its own")]

use std::time::Duration;

use zagent_config::FunctionError;
use zagent_host::temp_file::PrivateTempDir;
use zagent_host::{CommandOutput, Tools};

use super::material::{self, Certificate, Signed};

/// How long making a key may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How a passphrase is handed over.
const PASS: &str = "env:OPENSSL_PASS";

/// The program, with a directory for what it reads and writes.
pub(crate) struct OpenSsl<'t> {
    tools: &'t Tools<'t>,
    dir: PrivateTempDir,
}

/// A private key without its passphrase, and its public half.
#[derive(Clone, Debug)]
pub(super) struct PrivateKey {
    pem: String,
    pub(super) spki: Vec<u8>,
}

impl PrivateKey {
    /// Its kind, and its size where it has one.
    pub(super) fn kind(&self) -> (&'static str, Option<i64>) {
        material::key_kind(&self.spki).unwrap_or(("unknown", None))
    }
}

/// Why a private key cannot be loaded.
pub(super) enum KeyError {
    /// The passphrase is wrong.
    Invalid,
    /// It needs a passphrase.
    Missing,
    /// It has no passphrase, and one was given.
    Superfluous,
    /// It is none.
    NoKey(&'static str),
    /// The program failed.
    Failed(FunctionError),
}

impl From<KeyError> for FunctionError {
    fn from(error: KeyError) -> Self {
        Self::failed(match error {
            KeyError::Invalid => "Bad decrypt - is the password correct?",
            KeyError::Missing => "Private key is encrypted. Please provide a password.",
            KeyError::Superfluous => "Private key is unencrypted. Please remove the password.",
            KeyError::NoKey(words) => words,
            KeyError::Failed(error) => return error,
        })
    }
}

/// How a PKCS#12 container is written.
#[derive(Clone, Copy, Default)]
pub(super) struct Pkcs12Options<'o> {
    pub(super) passphrase: Option<&'o str>,
    pub(super) compat: bool,
    pub(super) friendly_name: Option<&'o str>,
}

/// What a PKCS#12 container holds beside a key.
pub(super) struct Pkcs12Certificates {
    pub(super) certificates: Vec<Certificate>,
    pub(super) friendly_name: Option<String>,
}

impl<'t> OpenSsl<'t> {
    pub(crate) fn new(tools: &'t Tools<'t>) -> Result<Self, FunctionError> {
        let cannot = |e| FunctionError::failed(format!("cannot make a directory: {e}"));
        let dir = PrivateTempDir::new(tools.machine, ".tmp").map_err(cannot)?;
        Ok(Self { tools, dir })
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Writes a file for the program; its path.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<String, FunctionError> {
        use std::io::Write as _;
        let path = self.dir.host_path().join(name);
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|e| FunctionError::failed(format!("cannot write `{}`: {e}", path.display())))?;
        Ok(self.path(name))
    }

    /// Reads a file of the program.
    fn take(&self, name: &str) -> Result<Vec<u8>, FunctionError> {
        let path = self.dir.host_path().join(name);
        let bytes = std::fs::read(&path)
            .map_err(|e| FunctionError::failed(format!("cannot read `{}`: {e}", path.display())))?;
        let _ = std::fs::remove_file(path);
        Ok(bytes)
    }

    fn run(&self, words: &[&str], pass: Option<&str>) -> Result<CommandOutput, FunctionError> {
        let mut command = Tools::command("openssl", words, TIMEOUT);
        command.env.push(("OPENSSL_PASS".into(), pass.unwrap_or_default().into()));
        self.tools.run(command)
    }

    fn run_checked(&self, words: &[&str], pass: Option<&str>) -> Result<String, FunctionError> {
        let output = self.run(words, pass)?;
        if output.is_success() {
            Ok(output.stdout)
        } else {
            Err(FunctionError::failed(format!("openssl: {}", output.message())))
        }
    }

    /// A new private key.
    pub(super) fn new_key(&self, algo: &str, size: Option<i64>) -> Result<PrivateKey, FunctionError> {
        let fail = |words: &str| Err(FunctionError::failed(words));
        let size = size.unwrap_or(if algo == "ec" { 256 } else { 2048 });
        let (bits, curve) = (format!("rsa_keygen_bits:{size}"), format!("ec_paramgen_curve:P-{size}"));
        let words: &[&str] = match algo {
            "rsa" if ![2048, 3072, 4096].contains(&size) => {
                return fail("RSA key size must be either 2048, 3072 or 4096 bits.");
            }
            "ec" if ![256, 384, 521].contains(&size) => {
                return fail("EC key size must be either 256, 384, 521 bits.");
            }
            "rsa" => &["genpkey", "-algorithm", "RSA", "-pkeyopt", &bits],
            "ec" => &["genpkey", "-algorithm", "EC", "-pkeyopt", &curve],
            "ed25519" => &["genpkey", "-algorithm", "ED25519"],
            "ed448" => &["genpkey", "-algorithm", "ED448"],
            other => {
                return Err(FunctionError::failed(format!(
                    "Invalid algorithm specified for generating private key: {other}. Valid: rsa, ec, ed25519, ed448"
                )));
            }
        };
        self.with_public_half(self.run_checked(words, None)?)
    }

    fn with_public_half(&self, pem: String) -> Result<PrivateKey, FunctionError> {
        let path = self.put("key.pem", pem.as_bytes())?;
        let public = self.run_checked(&["pkey", "-in", &path, "-pubout"], None)?;
        let spki = material::pem_blocks(&public).into_iter().next().map(|b| b.bytes).unwrap_or_default();
        Ok(PrivateKey { pem, spki })
    }

    /// Loads a private key: PEM, DER or of a PKCS#12 container; and which of them it is.
    pub(super) fn load_key(
        &self,
        bytes: &[u8],
        pass: Option<&str>,
    ) -> Result<(PrivateKey, &'static str), KeyError> {
        let (encoding, is_encrypted, text) = if material::is_pem(bytes) {
            let blocks = material::pem_blocks(&String::from_utf8_lossy(bytes));
            let block = blocks.into_iter().find(|b| b.label.ends_with("PRIVATE KEY"));
            let block = block.ok_or(KeyError::NoKey("Could not load PEM-encoded private key"))?;
            ("pem", block.is_encrypted, block.text.into_bytes())
        } else if material::is_pkcs12(bytes) {
            return self.key_of_pkcs12(bytes, pass).map(|key| (key, "pkcs12"));
        } else {
            let parts = super::der::only_sequence(bytes);
            let is_encrypted =
                parts.is_some_and(|p| p.first().is_some_and(|i| i.tag == super::der::SEQUENCE));
            ("der", is_encrypted, bytes.to_vec())
        };
        let no_key = KeyError::NoKey(if encoding == "pem" {
            "Could not load PEM-encoded private key"
        } else {
            "Could not deserialize binary data, neither as DER nor PKCS#12."
        });
        if is_encrypted && pass.is_none() {
            return Err(KeyError::Missing);
        }
        let path = self.put("loaded", &text).map_err(KeyError::Failed)?;
        let form = if encoding == "pem" { "PEM" } else { "DER" };
        let words = ["pkey", "-inform", form, "-in", &path, "-passin", PASS];
        let output = self.run(&words, pass).map_err(KeyError::Failed)?;
        match (output.is_success(), is_encrypted) {
            (true, false) if pass.is_some() => Err(KeyError::Superfluous),
            (true, _) => {
                let key = self.with_public_half(output.stdout).map_err(KeyError::Failed)?;
                Ok((key, encoding))
            }
            (false, true) => Err(KeyError::Invalid),
            (false, false) => Err(no_key),
        }
    }

    fn key_of_pkcs12(&self, bytes: &[u8], pass: Option<&str>) -> Result<PrivateKey, KeyError> {
        let path = self.put("loaded.p12", bytes).map_err(KeyError::Failed)?;
        let words = ["pkcs12", "-in", &path, "-nocerts", "-noenc", "-passin", PASS];
        let output = self.run(&words, pass).map_err(KeyError::Failed)?;
        if !output.is_success() {
            return Err(KeyError::Invalid);
        }
        let blocks = material::pem_blocks(&output.stdout);
        let block = blocks.into_iter().find(|b| b.label.ends_with("PRIVATE KEY"));
        let block = block.ok_or(KeyError::NoKey("PKCS12-encoded blob does not contain a private key."))?;
        self.with_public_half(block.text).map_err(KeyError::Failed)
    }

    /// The certificates of a PKCS#12 container, that of the key first; nothing when the passphrase is wrong.
    pub(super) fn certificates_of_pkcs12(
        &self,
        bytes: &[u8],
        pass: Option<&str>,
    ) -> Result<Option<Pkcs12Certificates>, FunctionError> {
        let path = self.put("loaded.p12", bytes)?;
        let output = self.run(&["pkcs12", "-in", &path, "-nokeys", "-passin", PASS], pass)?;
        if !output.is_success() {
            return Ok(None);
        }
        let blocks = material::pem_blocks(&output.stdout);
        let certificates: Vec<Certificate> =
            blocks.iter().filter_map(|b| Certificate::read(&b.bytes)).collect();
        let own = output.stdout.split("-----BEGIN").next().unwrap_or_default();
        let friendly_name = own.lines().find_map(|l| l.trim().strip_prefix("friendlyName:"));
        let friendly_name = friendly_name.map(|n| n.trim().to_owned());
        Ok(Some(Pkcs12Certificates { certificates, friendly_name }))
    }

    /// A private key as PEM, DER or a PKCS#12 container.
    pub(super) fn encode_key(
        &self,
        key: &PrivateKey,
        encoding: &str,
        options: Pkcs12Options<'_>,
    ) -> Result<Vec<u8>, FunctionError> {
        if encoding == "pkcs12" {
            return self.to_pkcs12(key, &[], options);
        }
        let path = self.put("key.pem", key.pem.as_bytes())?;
        let out = self.path("out");
        let form = if encoding == "der" { "DER" } else { "PEM" };
        let mut words = vec!["pkcs8", "-topk8", "-in", &path, "-outform", form, "-out", &out];
        match options.passphrase {
            Some(_) => words.extend(["-v2", "aes-256-cbc", "-passout", PASS]),
            None => words.push("-nocrypt"),
        }
        self.run_checked(&words, options.passphrase)?;
        self.take("out")
    }

    /// A PKCS#12 container of a key and certificates.
    pub(super) fn to_pkcs12(
        &self,
        key: &PrivateKey,
        certificates: &[&Certificate],
        options: Pkcs12Options<'_>,
    ) -> Result<Vec<u8>, FunctionError> {
        let path = self.put("key.pem", key.pem.as_bytes())?;
        let out = self.path("out");
        let pem = |all: &[&Certificate]| {
            all.iter().map(|c| material::to_pem("CERTIFICATE", &c.der)).collect::<String>()
        };
        let mut words = vec!["pkcs12", "-export", "-inkey", &path, "-out", &out, "-passout", PASS];
        let (own, more) = certificates.split_at(certificates.len().min(1));
        let own_path = self.put("own.pem", pem(own).as_bytes())?;
        let more_path = self.put("more.pem", pem(more).as_bytes())?;
        if own.is_empty() {
            words.push("-nocerts");
        } else {
            words.extend(["-in", &own_path]);
        }
        if !more.is_empty() {
            words.extend(["-certfile", &more_path]);
        }
        if let Some(name) = options.friendly_name {
            words.extend(["-name", name]);
        }
        if options.passphrase.is_none() {
            words.extend(["-keypbe", "NONE", "-certpbe", "NONE"]);
        } else if options.compat {
            words.extend([
                "-keypbe",
                "PBE-SHA1-3DES",
                "-certpbe",
                "PBE-SHA1-3DES",
                "-macalg",
                "sha1",
                "-iter",
                "50000",
            ]);
        }
        self.run_checked(&words, options.passphrase)?;
        self.take("out")
    }

    /// Signs: the algorithm as a certificate names it, and the signature.
    pub(super) fn sign(
        &self,
        key: &PrivateKey,
        digest: &str,
        content: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Result<Vec<u8>, FunctionError> {
        use super::der;
        let (kind, _) = key.kind();
        let has_digest = matches!(kind, "rsa" | "ec");
        let wanted = digest.to_lowercase();
        let known = material::SIGNATURES
            .iter()
            .find(|(_, _, of, with)| *of == kind && (!has_digest || *with == Some(wanted.as_str())));
        let (object, ..) = known.ok_or_else(|| {
            FunctionError::failed(format!("a key of the kind {kind} cannot sign with the digest {digest}"))
        })?;
        let mut parts = vec![der::object(object).unwrap_or_default()];
        if kind == "rsa" {
            parts.push(vec![5, 0]);
        }
        let algorithm = der::sequence(&parts);
        let content = content(&algorithm);
        let (path, to_sign) = (self.put("key.pem", key.pem.as_bytes())?, self.put("content", &content)?);
        let (out, flag) = (self.path("out"), format!("-{}", wanted.replace('_', "-")));
        if has_digest {
            self.run_checked(&["dgst", &flag, "-sign", &path, "-out", &out, &to_sign], None)?;
        } else {
            let words = ["pkeyutl", "-sign", "-rawin", "-inkey", &path, "-in", &to_sign, "-out", &out];
            self.run_checked(&words, None)?;
        }
        Ok(der::sequence(&[content, algorithm, der::bits(&self.take("out")?)]))
    }

    /// True when a key made the signature.
    pub(super) fn verify(&self, signed: &Signed, spki: &[u8]) -> Result<bool, FunctionError> {
        let known = material::SIGNATURES.iter().find(|(object, ..)| *object == signed.algorithm);
        let (Some((_, _, kind, digest)), Some((key_kind, _))) = (known, material::key_kind(spki)) else {
            return Ok(false);
        };
        if kind.trim_end_matches("-pss") != key_kind {
            return Ok(false);
        }
        let key = self.put("public.pem", material::to_pem("PUBLIC KEY", spki).as_bytes())?;
        let (content, signature) =
            (self.put("content", &signed.content)?, self.put("signature", &signed.signature)?);
        let flag = format!("-{}", digest.unwrap_or("sha256").replace('_', "-"));
        let mut words: Vec<&str> = Vec::new();
        if matches!(key_kind, "rsa" | "ec") {
            words.extend(["dgst", &flag]);
            if *kind == "rsa-pss" {
                words.extend(["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:-2"]);
            }
            words.extend(["-verify", &key, "-signature", &signature, &content]);
        } else {
            words.extend(["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", &key]);
            words.extend(["-in", &content, "-sigfile", &signature]);
        }
        Ok(self.run(&words, None)?.is_success())
    }
}
