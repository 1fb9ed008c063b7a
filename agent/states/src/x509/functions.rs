//! `x509.*` that look: certificates, requests and keys.

use jiff::Timestamp;
use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, query_fn_needing, text_arg};
use crate::file::functions as file;
use crate::x509::openssl;
use crate::x509::openssl::OpenSsl;
use zagent_host::{Machine, Tools};

/// The execution functions of `x509`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing("openssl", "x509.read_certificate", "certificate", read_certificate),
    query_fn_needing("openssl", "x509.read_csr", "csr", read_csr),
    query_fn_needing("openssl", "x509.expires", "certificate days?", expires),
    query_fn_needing("openssl", "x509.will_expire", "certificate days", will_expire),
    query_fn_needing("openssl", "x509.get_private_key_size", "private_key **", key_size),
    query_fn_needing("openssl", "x509.verify_private_key", "private_key public_key **", verify_key),
];

/// A PEM, or the path of one, where the program can read it.
fn pem_input_path(
    machine: &Machine,
    ssl: &OpenSsl<'_>,
    args: &FunctionArgs<Value>,
    name: &str,
) -> Result<String, FunctionError> {
    let given = text_arg(args, name)?;
    let pem = if openssl::is_pem(given) { given.to_owned() } else { file::read_required(machine, given)? };
    ssl.write_file(name, pem.as_bytes())
}

/// Lines of `name=value`, and those of a subject below its own.
fn parse_fields(text: &str) -> Map {
    let mut found = Map::new();
    let mut below: Option<(String, Map)> = None;
    for line in text.lines() {
        let Some((name, value)) = line.trim().split_once('=') else { continue };
        if line.starts_with(' ') {
            if let Some((_, inner)) = &mut below {
                inner.insert(name.trim(), value.trim());
            }
            continue;
        }
        below.take().into_iter().for_each(|(name, inner)| _ = found.insert(name, inner));
        if value.trim().is_empty() {
            below = Some((name.to_owned(), Map::new()));
        } else {
            found.insert(name, value.trim());
        }
    }
    below.into_iter().for_each(|(name, inner)| _ = found.insert(name, inner));
    found
}

fn read_certificate(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let tools = Tools::new(machine);
    let ssl = OpenSsl::new(&tools)?;
    let path = pem_input_path(machine, &ssl, args, "certificate")?;
    let words = [
        "x509",
        "-in",
        &path,
        "-noout",
        "-subject",
        "-issuer",
        "-serial",
        "-dates",
        "-dateopt",
        "iso_8601",
        "-fingerprint",
        "-sha256",
        "-nameopt",
        "sep_multiline,sname,utf8",
    ];
    let raw = parse_fields(&ssl.run_checked(&words, None)?);
    let mut found = Map::new();
    for (own, salt) in [
        ("subject", "subject"),
        ("issuer", "issuer"),
        ("serial", "serial_number"),
        ("notBefore", "not_before"),
        ("notAfter", "not_after"),
    ] {
        if let Some(value) = raw.get(own) {
            let value = value.as_str().map_or_else(|| value.clone(), |t| t.trim_end_matches('Z').into());
            found.insert(salt, value);
        }
    }
    found.insert("public_key", ssl.public_key(&path, None)?);
    Ok(found.into())
}

fn read_csr(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let tools = Tools::new(machine);
    let ssl = OpenSsl::new(&tools)?;
    let path = pem_input_path(machine, &ssl, args, "csr")?;
    let words = ["req", "-in", &path, "-noout", "-subject", "-nameopt", "sep_multiline,sname,utf8"];
    let mut found = parse_fields(&ssl.run_checked(&words, None)?);
    found.insert("public_key", ssl.public_key(&path, None)?);
    Ok(found.into())
}

/// True when a certificate ends within so many days.
fn expires(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let tools = Tools::new(machine);
    let ssl = OpenSsl::new(&tools)?;
    let path = pem_input_path(machine, &ssl, args, "certificate")?;
    let output =
        ssl.run_checked(&["x509", "-in", &path, "-noout", "-enddate", "-dateopt", "iso_8601"], None)?;
    let end = openssl::parse_not_after(&output)
        .ok_or_else(|| FunctionError::failed(format!("cannot tell when it ends: {output}")))?;
    let days = args.get("days").and_then(Value::as_int).unwrap_or(0);
    Ok((end.as_second() - Timestamp::now().as_second() <= days.saturating_mul(86400)).into())
}

fn will_expire(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let ends = expires(machine, args)?;
    let days = args.get("days").cloned().unwrap_or(Value::Null);
    Ok(Map::from_iter([("check_days", days), ("will_expire", ends)]).into())
}

fn key_size(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let tools = Tools::new(machine);
    let ssl = OpenSsl::new(&tools)?;
    let path = pem_input_path(machine, &ssl, args, "private_key")?;
    let pass = args.named().iter().find(|(k, _)| k == "passphrase").and_then(|(_, v)| v.as_str());
    let key = ssl
        .inspect_key(&path, pass)?
        .ok_or_else(|| FunctionError::failed("it is no private key that can be read"))?;
    Ok(key.1.into())
}

/// True when two keys, or a key and a certificate, belong together.
fn verify_key(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let tools = Tools::new(machine);
    let ssl = OpenSsl::new(&tools)?;
    let (key, other) = (
        pem_input_path(machine, &ssl, args, "private_key")?,
        pem_input_path(machine, &ssl, args, "public_key")?,
    );
    Ok((ssl.public_key(&key, None)? == ssl.public_key(&other, None)?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_certificate() {
        let text = "subject=\n    CN=a\n    O=b\nserial=01\nnotAfter=2030-01-01 00:00:00Z\n";
        let found = Value::from(parse_fields(text));
        let want = r#"{"subject":{"CN":"a","O":"b"},"serial":"01","notAfter":"2030-01-01 00:00:00Z"}"#;
        assert_eq!(serde_json::to_string(&found).unwrap(), want);
    }
}
