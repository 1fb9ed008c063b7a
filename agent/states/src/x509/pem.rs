//! What is asked for in, the PEM that would be made now out: keys, requests, certificates.

use std::path::Path;

use jiff::Timestamp;
use zagent_config::{Map, Value};

use super::{DEFAULT_DAYS_VALID, X509Kind, X509Managed};
use crate::x509::openssl;
use crate::x509::openssl::OpenSsl;
use crate::{StateCtx, StateError};

impl X509Managed {
    /// The arguments with what a signing policy of the pillar says; the policy wins.
    fn with_signing_policy(&self, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
        let mut all = self.args.clone();
        let Some(name) = self.text_arg("signing_policy") else { return Ok(all) };
        let policy = ctx.pillar.get("x509_signing_policies").and_then(|p| p.get(&name));
        let missing = || {
            StateError::new(format!(
                "there is no signing policy `{name}` in the pillar (x509_signing_policies)"
            ))
        };
        for part in
            policy.map(|p| p.as_list().map_or_else(|| vec![p.clone()], |l| l.to_vec())).ok_or_else(missing)?
        {
            part.as_map()
                .into_iter()
                .flat_map(Map::iter)
                .for_each(|(k, v)| _ = all.insert(k.clone(), v.clone()));
        }
        Ok(all)
    }

    /// The PEM of an argument, which is one or the path of one, where the program can read it.
    pub(crate) fn pem_input(
        &self,
        ssl: &OpenSsl<'_>,
        args: &Map,
        key: &str,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<String>, StateError> {
        let Some(given) = args.get(key).and_then(Value::as_str).filter(|t| !t.is_empty()) else {
            return Ok(None);
        };
        let pem =
            if openssl::is_pem(given) { given.as_bytes().to_vec() } else { ctx.fs.read(Path::new(given))? };
        Ok(Some(ssl.write_file(key, &pem)?))
    }

    /// What would be made now.
    pub(crate) fn make_pem(&self, ssl: &OpenSsl<'_>, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        match self.kind {
            X509Kind::PrivateKey => {
                let algo = self.text_arg("algo").unwrap_or_else(|| "rsa".into());
                let size = self.int_arg("keysize").unwrap_or(if algo == "ec" { 256 } else { 2048 });
                Ok(ssl.new_key(&algo, size, self.text_arg("passphrase").as_deref())?)
            }
            X509Kind::Csr => self.make_csr(ssl, &self.args, ctx),
            X509Kind::Certificate => self.make_certificate(ssl, ctx),
            X509Kind::Crl => self.make_crl(ssl, ctx),
            X509Kind::Pem => {
                let text = self.text_arg("text").ok_or_else(|| StateError::new("`text` is missing"))?;
                if !openssl::is_pem(&text) {
                    return Err(StateError::new("`text` holds no PEM"));
                }
                Ok(text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n")
                    + "\n")
            }
        }
    }

    pub(crate) fn digest_arg(args: &Map) -> String {
        format!("-{}", args.get("digest").and_then(Value::as_str).unwrap_or("sha256"))
    }

    fn make_csr(&self, ssl: &OpenSsl<'_>, args: &Map, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        let key = self
            .pem_input(ssl, args, "private_key", ctx)?
            .ok_or_else(|| StateError::new("`private_key` is missing"))?;
        let config = ssl.write_file("request.cnf", openssl::request_config(args, &[]).as_bytes())?;
        let pass = self.text_arg("private_key_passphrase");
        let words = [
            "req",
            "-new",
            "-config",
            &config,
            "-key",
            &key,
            "-passin",
            "env:OPENSSL_PASS",
            &Self::digest_arg(args),
        ];
        Ok(ssl.run_checked(&words, pass.as_deref())?)
    }

    fn make_certificate(&self, ssl: &OpenSsl<'_>, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        let args = self.with_signing_policy(ctx)?;
        let text = |key: &str| args.get(key).filter(|v| v.is_truthy()).map(zagent_config::value::python_str);
        let days = text("days_valid").unwrap_or_else(|| DEFAULT_DAYS_VALID.to_string());
        let serial = text("serial_number").map_or_else(random_serial, |s| {
            if s.contains(':') { format!("0x{}", s.replace(':', "")) } else { s }
        });
        let digest = Self::digest_arg(&args);
        let signer = self.pem_input(ssl, &args, "signing_private_key", ctx)?;
        let signer = signer.ok_or_else(|| StateError::new("`signing_private_key` is missing"))?;
        let issuer = self.pem_input(ssl, &args, "signing_cert", ctx)?;
        let config = ssl.write_file("certificate.cnf", openssl::request_config(&args, &[]).as_bytes())?;
        let pass = text("signing_private_key_passphrase");
        let csr = self.pem_input(ssl, &args, "csr", ctx)?;
        let head = ["-passin", "env:OPENSSL_PASS", "-days", &days, "-set_serial", &serial, &digest];
        let Some(issuer) = issuer else {
            // Without an issuer the certificate signs itself.
            let words = [&["req", "-x509", "-new", "-config", &config, "-key", &signer], &head[..]].concat();
            return self.append_chain(ssl.run_checked(&words, pass.as_deref())?, &args, ctx);
        };
        let public = self.pem_input(ssl, &args, "public_key", ctx)?;
        let has_csr = csr.is_some();
        let request = match csr {
            Some(csr) => csr,
            None => {
                let mut own = args.clone();
                // A public key alone signs nothing: the request is signed by another, and gets its key after.
                if !own.contains("private_key") {
                    let signing = own.get("signing_private_key").cloned().unwrap_or(Value::Null);
                    own.insert("private_key", signing);
                }
                ssl.write_file("request.pem", self.make_csr(ssl, &own, ctx)?.as_bytes())?
            }
        };
        let mut words = vec!["x509", "-req", "-in", &request, "-CA", &issuer, "-CAkey", &signer];
        words.extend(head);
        words.extend(["-extfile", &config, "-extensions", "ext"]);
        let forced = public.map(|p| ssl.public_key(&p, None)).transpose()?;
        let forced = forced.map(|p| ssl.write_file("public.pem", p.as_bytes())).transpose()?;
        if let Some(public) = &forced {
            words.extend(["-force_pubkey", public]);
        }
        if has_csr {
            words.extend(["-copy_extensions", "copyall"]);
        }
        self.append_chain(ssl.run_checked(&words, pass.as_deref())?, &args, ctx)
    }

    /// A certificate and those that go with it.
    fn append_chain(&self, mut pem: String, args: &Map, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        let more = match args.get("append_certs") {
            Some(Value::List(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::Str(one)) => vec![one.to_string()],
            _ => Vec::new(),
        };
        for one in more {
            let text = if openssl::is_pem(&one) {
                one
            } else {
                String::from_utf8_lossy(&ctx.fs.read(Path::new(&one))?).into_owned()
            };
            pem += &openssl::first_pem_block(&text);
        }
        Ok(pem)
    }
}

/// A serial number by chance, as `openssl` reads it.
fn random_serial() -> String {
    let mut bytes = [0_u8; 16];
    // A clock stands in where there is no chance: two certificates of one moment are not made here.
    let drawn =
        std::fs::File::open("/dev/urandom").and_then(|mut f| std::io::Read::read_exact(&mut f, &mut bytes));
    if drawn.is_err() {
        bytes[..8].copy_from_slice(&Timestamp::now().as_millisecond().to_be_bytes());
    }
    bytes[0] = (bytes[0] & 0x7f) | 1;
    bytes.iter().fold("0x".to_owned(), |text, b| format!("{text}{b:02x}"))
}
