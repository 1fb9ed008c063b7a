//! Keys, requests and certificates by the program `openssl`: what is asked for in, PEM out, and what a PEM holds.
//!
//! Keys pass through a directory that only we can read and that is gone afterwards, or by standard input; a
//! passphrase stands in the environment alone.

use std::time::Duration;

use zagent_config::FunctionError;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use zagent_host::temp_file::PrivateTempDir;
use zagent_host::{CommandOutput, Tools};

/// Fields of a subject: how Salt writes them, how `openssl` does.
const SUBJECT_FIELDS: [(&str, &str); 11] = [
    ("C", "C"),
    ("ST", "ST"),
    ("L", "L"),
    ("STREET", "street"),
    ("O", "O"),
    ("OU", "OU"),
    ("CN", "CN"),
    ("MAIL", "emailAddress"),
    ("emailAddress", "emailAddress"),
    ("SERIALNUMBER", "serialNumber"),
    ("UID", "UID"),
];
/// Extensions that are written as `openssl` reads them.
const EXTENSIONS: [&str; 12] = [
    "basicConstraints",
    "keyUsage",
    "extendedKeyUsage",
    "subjectKeyIdentifier",
    "authorityKeyIdentifier",
    "issuerAltName",
    "authorityInfoAccess",
    "subjectAltName",
    "crlDistributionPoints",
    "certificatePolicies",
    "nsComment",
    "noCheck",
];

/// The program, with a directory for what it reads.
pub(crate) struct OpenSsl<'t> {
    tools: &'t Tools<'t>,
    dir: PrivateTempDir,
}

impl<'t> OpenSsl<'t> {
    pub(crate) fn new(tools: &'t Tools<'t>) -> Result<Self, FunctionError> {
        let cannot = |e| FunctionError::failed(format!("cannot make a directory: {e}"));
        let dir = PrivateTempDir::new(tools.machine, ".tmp").map_err(cannot)?;
        Ok(Self { tools, dir })
    }

    /// The path of a text that is kept.
    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Keeps a text for the program; its path.
    pub(crate) fn write_file(&self, name: &str, text: &[u8]) -> Result<String, FunctionError> {
        use std::io::Write as _;
        let path = self.dir.host_path().join(name);
        let made = std::fs::File::create(&path).and_then(|mut f| f.write_all(text));
        made.map_err(|e| FunctionError::failed(format!("cannot write `{}`: {e}", path.display())))?;
        Ok(self.path(name))
    }

    fn run(&self, words: &[&str], pass: Option<&str>) -> Result<CommandOutput, FunctionError> {
        let mut command = Tools::command("openssl", words, Duration::from_secs(300));
        command.env.push(("OPENSSL_PASS".into(), pass.unwrap_or_default().into()));
        self.tools.run(command)
    }

    /// What the program prints; a failure is a refusal with what it said.
    pub(crate) fn run_checked(&self, words: &[&str], pass: Option<&str>) -> Result<String, FunctionError> {
        let output = self.run(words, pass)?;
        if output.is_success() {
            Ok(output.stdout)
        } else {
            Err(FunctionError::failed(format!("openssl: {}", output.message())))
        }
    }

    /// The same; nothing when it fails, as it does for what cannot be read.
    pub(crate) fn run_optional(
        &self,
        words: &[&str],
        pass: Option<&str>,
    ) -> Result<Option<String>, FunctionError> {
        let output = self.run(words, pass)?;
        Ok(output.is_success().then_some(output.stdout))
    }

    /// A new private key.
    pub(crate) fn new_key(&self, algo: &str, size: i64, pass: Option<&str>) -> Result<String, FunctionError> {
        let bits = format!("rsa_keygen_bits:{size}");
        let curve = format!("ec_paramgen_curve:P-{size}");
        let mut words = vec!["genpkey"];
        match algo {
            "rsa" => words.extend(["-algorithm", "RSA", "-pkeyopt", &bits]),
            "ec" => words.extend(["-algorithm", "EC", "-pkeyopt", &curve]),
            "ed25519" => words.extend(["-algorithm", "ED25519"]),
            "ed448" => words.extend(["-algorithm", "ED448"]),
            other => return Err(FunctionError::failed(format!("there is no kind of key `{other}`"))),
        }
        if pass.is_some() {
            words.extend(["-aes-256-cbc", "-pass", "env:OPENSSL_PASS"]);
        }
        self.run_checked(&words, pass)
    }

    /// The kind and size of a private key; nothing when it cannot be read.
    pub(crate) fn inspect_key(
        &self,
        path: &str,
        pass: Option<&str>,
    ) -> Result<Option<(String, i64)>, FunctionError> {
        let text = self
            .run_optional(&["pkey", "-in", path, "-passin", "env:OPENSSL_PASS", "-noout", "-text"], pass)?;
        Ok(text.as_deref().and_then(parse_key_kind))
    }

    /// The public half of a private key, a request, a certificate or a public key.
    pub(crate) fn public_key(&self, path: &str, pass: Option<&str>) -> Result<String, FunctionError> {
        for words in [
            &["pkey", "-in", path, "-passin", "env:OPENSSL_PASS", "-pubout"][..],
            &["x509", "-in", path, "-noout", "-pubkey"],
            &["req", "-in", path, "-noout", "-pubkey"],
            &["pkey", "-pubin", "-in", path, "-pubout"],
        ] {
            if let Some(text) = self.run_optional(words, pass)? {
                return Ok(text);
            }
        }
        Err(FunctionError::failed("there is no key that can be read"))
    }
}

/// The kind and size of a key, of what `openssl pkey -text` prints.
fn parse_key_kind(text: &str) -> Option<(String, i64)> {
    let line = text.lines().find(|l| l.contains("Private-Key:"))?;
    let size = line.split_once('(').and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap_or(0);
    let kind = match line {
        l if l.starts_with("ED25519") => "ed25519",
        l if l.starts_with("ED448") => "ed448",
        _ if text.contains("ASN1 OID") || text.contains("NIST CURVE") => "ec",
        _ => "rsa",
    };
    Some((kind.to_owned(), size))
}

/// The configuration that `openssl req` reads: subject and extensions.
pub(crate) fn request_config(given: &Map, presets: &[(&str, &str)]) -> String {
    let mut text = String::from(
        "[req]\nprompt = no\nutf8 = yes\nstring_mask = utf8only\ndistinguished_name = dn\nreq_extensions = ext\n\
         x509_extensions = ext\n[dn]\n",
    );
    for (name, value) in subject_fields(given) {
        text += &format!(
            "{name} = {}\n",
            value.replace('\\', "\\\\").replace(['\n', '\r'], " ").replace('$', "\\$")
        );
    }
    text += "[ext]\n";
    for name in EXTENSIONS {
        let value = given.get(name).filter(|v| !v.is_null()).map(format_extension);
        let preset = presets.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        if let Some(value) = value.or(preset).filter(|v| !v.is_empty()) {
            text += &format!("{name} = {}\n", value.replace(['\n', '\r'], " "));
        }
    }
    text
}

/// The fields of a subject, in order.
fn subject_fields(given: &Map) -> Vec<(String, String)> {
    let pairs = |text: &str| {
        let parts = text.split([',', '/']).filter_map(|p| p.split_once('='));
        parts.map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())).collect::<Vec<_>>()
    };
    let mut fields: Vec<(String, String)> = match given.get("subject") {
        Some(Value::Str(text)) => pairs(text),
        Some(Value::List(list)) => list.iter().filter_map(Value::as_str).flat_map(pairs).collect(),
        Some(Value::Map(map)) => map.iter().map(|(k, v)| (k.json_key(), python_str(v))).collect(),
        _ => Vec::new(),
    };
    for (salt, own) in SUBJECT_FIELDS {
        if let Some(value) = given.get(salt).filter(|v| !v.is_null()) {
            fields.push((own.to_owned(), python_str(value)));
        }
    }
    for field in &mut fields {
        if let Some((_, own)) = SUBJECT_FIELDS.iter().find(|(salt, _)| *salt == field.0) {
            (*own).clone_into(&mut field.0);
        }
    }
    fields
}

/// An extension as `openssl` reads it: `critical` first, then parts between commas.
fn format_extension(value: &Value) -> String {
    let word = |v: &Value| match v {
        Value::Bool(b) => (if *b { "TRUE" } else { "FALSE" }).to_owned(),
        other => python_str(other),
    };
    let join = |items: Vec<String>| items.join(",");
    match value {
        Value::List(list) => join(list.iter().map(format_extension).collect()),
        Value::Map(map) => {
            let critical = map.get("critical").is_some_and(Value::is_truthy);
            let mut parts: Vec<String> = critical.then(|| "critical".to_owned()).into_iter().collect();
            for (key, value) in map.iter().filter(|(k, _)| k.as_str() != Some("critical")) {
                let key = key.json_key();
                match key.as_str() {
                    "value" => parts.push(format_extension(value)),
                    "ca" => parts.push(format!("CA:{}", word(value))),
                    _ => parts.push(format!("{key}:{}", word(value))),
                }
            }
            join(parts)
        }
        other => {
            let text = word(other);
            match text.trim().strip_prefix("critical") {
                Some(rest) => format!("critical,{}", rest.trim_start_matches([',', ' '])),
                None => text.trim().to_owned(),
            }
        }
    }
}

/// The end of a certificate, in seconds from now, of what `openssl x509 -enddate -dateopt iso_8601` prints.
pub(crate) fn parse_not_after(text: &str) -> Option<jiff::Timestamp> {
    let line =
        text.lines().find_map(|l| l.strip_prefix("notAfter=").or_else(|| l.strip_prefix("nextUpdate=")))?;
    line.trim().replace(' ', "T").parse().ok()
}

/// A text that holds a PEM block, from its begin to its end; what is no PEM is the path of one.
pub(crate) fn is_pem(text: &str) -> bool {
    text.contains("-----BEGIN ")
}

/// The first block of a PEM.
pub(crate) fn first_pem_block(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().map(str::trim).skip_while(|l| !l.starts_with("-----BEGIN ")) {
        out += line;
        out.push('\n');
        if line.starts_with("-----END ") {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: &str) -> Map {
        Value::from_json_str(json).unwrap().as_map().cloned().unwrap()
    }

    #[test]
    fn subjects_and_extensions() {
        let text = request_config(
            &map(
                r#"{"CN": "a.example.org", "O": "Us", "basicConstraints": "critical CA:true", "subjectAltName": ["DNS:a", "DNS:b"], "keyUsage": {"critical": true, "value": "cRLSign, keyCertSign"}}"#,
            ),
            &[("subjectKeyIdentifier", "hash")],
        );
        assert!(text.contains("[dn]\nO = Us\nCN = a.example.org\n[ext]\n"), "{text}");
        assert!(text.contains("basicConstraints = critical,CA:true\n"), "{text}");
        assert!(text.contains("keyUsage = critical,cRLSign, keyCertSign\n"), "{text}");
        assert!(text.contains("subjectKeyIdentifier = hash\nsubjectAltName = DNS:a,DNS:b\n"), "{text}");
        assert!(request_config(&map(r#"{"subject": "CN=x,O=y"}"#), &[]).contains("CN = x\nO = y\n"));
        assert_eq!(
            format_extension(
                &Value::from_json_str(r#"{"ca": true, "pathlen": 1, "critical": true}"#).unwrap()
            ),
            "critical,CA:TRUE,pathlen:1"
        );
    }

    #[test]
    fn kinds_of_keys_and_ends() {
        assert_eq!(parse_key_kind("Private-Key: (2048 bit, 2 primes)\nmodulus:"), Some(("rsa".into(), 2048)));
        assert_eq!(
            parse_key_kind("Private-Key: (256 bit)\npriv:\nASN1 OID: prime256v1"),
            Some(("ec".into(), 256))
        );
        assert_eq!(parse_key_kind("ED25519 Private-Key:\npriv:"), Some(("ed25519".into(), 0)));
        assert_eq!(parse_key_kind("nothing"), None);
        assert_eq!(
            parse_not_after("notAfter=2030-01-02 03:04:05Z\n").unwrap().to_string(),
            "2030-01-02T03:04:05Z"
        );
        assert_eq!(
            first_pem_block("x\n-----BEGIN A-----\nq\n-----END A-----\n-----BEGIN B-----"),
            "-----BEGIN A-----\nq\n-----END A-----\n"
        );
    }
}
