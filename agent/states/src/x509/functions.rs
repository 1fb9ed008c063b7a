//! `x509.*` that look at certificates, requests, lists and keys, or make them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zagent_compiler::functions::FunctionArgs;
use zagent_config::{FunctionError, Map, Value, error_chain};

use super::extension::fail;
use super::material::{self, Certificate};
use super::openssl::{OpenSsl, Pkcs12Options};
use super::pem::pem_entry;
use super::read;
use super::workbench::{self, Workbench, after_days, days, given, now, text};
use crate::exec_function::{ExecFunction, change_fn, flag_arg, query_fn_needing, text_arg};
use zagent_host::fs::{FileKind, FileMeta};
use zagent_host::{Machine, Tools};

type Args = FunctionArgs<Value>;
type Answer = Result<Value, FunctionError>;

/// The execution functions of `x509`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing("openssl", "x509.read_certificate", "certificate", read_certificate),
    query_fn_needing("openssl", "x509.read_csr", "csr", read_csr),
    query_fn_needing("openssl", "x509.read_crl", "crl", read_crl),
    query_fn_needing("openssl", "x509.expires", "certificate days?", expires),
    query_fn_needing("openssl", "x509.expired", "certificate", expired),
    query_fn_needing("openssl", "x509.will_expire", "certificate days", will_expire),
    query_fn_needing("openssl", "x509.get_pem_entry", "text pem_type?", get_pem_entry),
    query_fn_needing("openssl", "x509.get_private_key_size", "private_key passphrase?", key_size),
    query_fn_needing("openssl", "x509.get_public_key", "key passphrase?", get_public_key),
    query_fn_needing("openssl", "x509.verify_private_key", "private_key public_key passphrase?", verify_key),
    query_fn_needing(
        "openssl",
        "x509.verify_signature",
        "certificate signing_pub_key? signing_pub_key_passphrase?",
        verify_signature,
    ),
    query_fn_needing("openssl", "x509.verify_crl", "crl cert", verify_crl),
    query_fn_needing(
        "openssl",
        "x509.encode_certificate",
        "certificate encoding? append_certs? private_key? private_key_passphrase? pkcs12_passphrase? \
         pkcs12_encryption_compat? pkcs12_friendlyname? raw?",
        encode_certificate,
    ),
    query_fn_needing("openssl", "x509.encode_crl", "crl encoding? raw?", encode_crl),
    query_fn_needing("openssl", "x509.encode_csr", "csr encoding? raw?", encode_csr),
    query_fn_needing(
        "openssl",
        "x509.encode_private_key",
        "private_key encoding? passphrase? private_key_passphrase? pkcs12_encryption_compat? raw?",
        encode_private_key,
    ),
    change_fn(
        "x509.create_private_key",
        "algo? keysize? passphrase? encoding? pkcs12_encryption_compat? path? raw? **",
        create_private_key,
    ),
    change_fn(
        "x509.create_csr",
        "private_key private_key_passphrase? digest? encoding? path? raw? **",
        create_csr,
    ),
    change_fn(
        "x509.create_crl",
        "signing_private_key revoked signing_cert? signing_private_key_passphrase? include_expired? days_valid? digest? \
         encoding? extensions? path? raw? **",
        create_crl,
    ),
    change_fn(
        "x509.create_certificate",
        "ca_server? signing_policy? encoding? append_certs? pkcs12_passphrase? pkcs12_encryption_compat? \
         pkcs12_friendlyname? path? overwrite? raw? **",
        create_certificate,
    ),
    change_fn("x509.write_pem", "text path overwrite? pem_type?", write_pem),
];

/// Runs something with what certificates are made with.
fn bench<T>(
    machine: &Machine,
    act: impl FnOnce(&Workbench<'_>) -> Result<T, FunctionError>,
) -> Result<T, FunctionError> {
    let tools = Tools::new(machine);
    let read = |path: &str| read_file(machine, path);
    act(&Workbench { ssl: OpenSsl::new(&tools)?, read: &read })
}

fn read_file(machine: &Machine, path: &str) -> Result<Option<Vec<u8>>, FunctionError> {
    use zagent_host::fs::FileSystem as _;
    let (disk, path) = (machine.disk(None), Path::new(path));
    let failed = |e| FunctionError::failed(error_chain(&e));
    match disk.stat(path).map_err(failed)? {
        Some(found) if found.kind == FileKind::File => disk.read(path).map(Some).map_err(failed),
        _ => Ok(None),
    }
}

fn value<'a>(args: &'a Args, name: &str) -> Result<&'a Value, FunctionError> {
    args.get(name).filter(|v| !v.is_null()).ok_or_else(|| fail(&format!("`{name}` is missing")))
}

/// All arguments as one mapping.
fn all(args: &Args) -> Map {
    let mut map: Map = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    workbench::modernize(&mut map);
    map
}

fn encoding<'a>(args: &'a Map, valid: &[&str]) -> Result<&'a str, FunctionError> {
    let encoding = args.get("encoding").and_then(Value::as_str).unwrap_or("pem");
    if valid.contains(&encoding) {
        return Ok(encoding);
    }
    Err(fail(&format!("Invalid value '{encoding}' for encoding. Valid: {}", valid.join(", "))))
}

/// Bytes as an answer: a PEM as it is, anything else in base64.
fn answer(encoding: &str, bytes: &[u8]) -> Value {
    if encoding.ends_with("pem") {
        String::from_utf8_lossy(bytes).into_owned().into()
    } else {
        STANDARD.encode(bytes).into()
    }
}

fn der_or_pem(args: &Map, label: &str, der: &[u8]) -> Result<(Vec<u8>, String), FunctionError> {
    let encoding = encoding(args, &["der", "pem"])?;
    let bytes = if encoding == "pem" { material::to_pem(label, der).into_bytes() } else { der.to_vec() };
    Ok((bytes, encoding.to_owned()))
}

/// Answers with bytes, or writes them where `path` says.
fn deliver(machine: &Machine, args: &Map, bytes: &[u8], encoding: &str, words: &str) -> Answer {
    use zagent_host::fs::FileSystem as _;
    let Some(path) = text(args, "path") else { return Ok(answer(encoding, bytes)) };
    let meta = FileMeta { mode: Some(0o600), ..FileMeta::default() };
    machine.disk(None).write(Path::new(&path), bytes, meta).map_err(|e| fail(&error_chain(&e)))?;
    let what = if encoding == "pem" { "PEM" } else { words };
    Ok(format!("{what} written to {path}").into())
}

fn loaded(bench: &Workbench<'_>, args: &Args) -> Result<Certificate, FunctionError> {
    bench.load_certificate(value(args, "certificate")?)
}

fn read_certificate(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| Ok(read::certificate(&loaded(bench, args)?).into()))
}

fn read_csr(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| {
        Ok(read::request(&Workbench::request(&bench.bytes(value(args, "csr")?)?)?.0).into())
    })
}

fn read_crl(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| Ok(read::list(&Workbench::list(&bench.bytes(value(args, "crl")?)?)?.0).into()))
}

fn ends_within(certificate: &Certificate, days: i64) -> bool {
    certificate.not_after <= after_days(now(), days)
}

/// True when a certificate ends within so many days.
fn expires(machine: &Machine, args: &Args) -> Answer {
    let days = args.get("days").and_then(Value::as_int).unwrap_or(0);
    bench(machine, |bench| Ok(ends_within(&loaded(bench, args)?, days).into()))
}

/// What the functions about the end of a certificate say of it.
fn about(
    machine: &Machine,
    args: &Args,
    certificate: &Certificate,
    out: &mut Map,
) -> Result<(), FunctionError> {
    let given = value(args, "certificate")?.as_str().unwrap_or_default();
    if given.starts_with('/') && read_file(machine, given)?.is_some() {
        out.insert("path", given);
    }
    if let Some(name) = certificate.subject.common_name() {
        out.insert("cn", name);
    }
    Ok(())
}

fn expired(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| {
        let (certificate, mut out) = (loaded(bench, args)?, Map::new());
        about(machine, args, &certificate, &mut out)?;
        out.insert("expired", ends_within(&certificate, 0));
        Ok(out.into())
    })
}

fn will_expire(machine: &Machine, args: &Args) -> Answer {
    let days = value(args, "days")?;
    bench(machine, |bench| {
        let (certificate, mut out) = (loaded(bench, args)?, Map::from_iter([("check_days", days.clone())]));
        about(machine, args, &certificate, &mut out)?;
        out.insert("will_expire", ends_within(&certificate, days.as_int().unwrap_or(0)));
        Ok(out.into())
    })
}

fn get_pem_entry(machine: &Machine, args: &Args) -> Answer {
    let given = text_arg(args, "text")?;
    let bytes = if given.starts_with('/') { read_file(machine, given)? } else { None };
    let given = bytes.map_or_else(|| given.to_owned(), |b| String::from_utf8_lossy(&b).into_owned());
    Ok(pem_entry(&given, args.get("pem_type").and_then(Value::as_str))?.into())
}

fn key_size(machine: &Machine, args: &Args) -> Answer {
    let pass = args.get("passphrase").and_then(Value::as_str);
    bench(machine, |bench| {
        let (_, size) = bench.private_key(value(args, "private_key")?, pass)?.kind();
        Ok(size.map_or(Value::Null, Value::from))
    })
}

fn get_public_key(machine: &Machine, args: &Args) -> Answer {
    let pass = args.get("passphrase").and_then(Value::as_str);
    bench(machine, |bench| {
        let spki = bench.any_public_key(value(args, "key")?, pass)?;
        Ok(material::to_pem("PUBLIC KEY", &spki).into())
    })
}

/// True when two keys, or a key and a certificate, belong together.
fn verify_key(machine: &Machine, args: &Args) -> Answer {
    let pass = args.get("passphrase").and_then(Value::as_str);
    bench(machine, |bench| {
        let key = bench.private_key(value(args, "private_key")?, pass)?;
        Ok((key.spki == bench.any_public_key(value(args, "public_key")?, None)?).into())
    })
}

fn verify_signature(machine: &Machine, args: &Args) -> Answer {
    let pass = args.get("signing_pub_key_passphrase").and_then(Value::as_str);
    bench(machine, |bench| {
        let certificate = loaded(bench, args)?;
        let spki = match args.get("signing_pub_key").filter(|v| v.is_truthy()) {
            Some(key) => bench.any_public_key(key, pass)?,
            None => certificate.spki.clone(),
        };
        Ok(bench.ssl.verify(&certificate.signed, &spki)?.into())
    })
}

fn verify_crl(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| {
        let (list, _) = Workbench::list(&bench.bytes(value(args, "crl")?)?)?;
        let spki = bench.any_public_key(value(args, "cert")?, None)?;
        Ok(bench.ssl.verify(&list.signed, &spki)?.into())
    })
}

fn chain(bench: &Workbench<'_>, args: &Map) -> Result<Vec<Certificate>, FunctionError> {
    match given(args, "append_certs") {
        Some(Value::List(list)) => list.iter().map(|one| bench.load_certificate(one)).collect(),
        Some(one) => Ok(vec![bench.load_certificate(one)?]),
        None => Ok(Vec::new()),
    }
}

const CERTIFICATE_ENCODINGS: [&str; 5] = ["der", "pem", "pkcs7_der", "pkcs7_pem", "pkcs12"];

fn encode_certificate(machine: &Machine, args: &Args) -> Answer {
    let args = all(args);
    let encoding = encoding(&args, &CERTIFICATE_ENCODINGS)?;
    let key = given(&args, "private_key");
    if encoding != "pkcs12" && key.is_some() {
        return Err(fail("Embedding private keys is only supported for pkcs12 encoding"));
    }
    let pass = text(&args, "private_key_passphrase");
    bench(machine, |bench| {
        let certificate = given(&args, "certificate").ok_or_else(|| fail("`certificate` is missing"))?;
        let certificate = bench.load_certificate(certificate)?;
        let key = key.map(|key| bench.private_key(key, pass.as_deref())).transpose()?;
        let bytes = pkcs12_options(&args, |options| {
            bench.encode_certificate(&certificate, encoding, &chain(bench, &args)?, key.as_ref(), options)
        })?;
        Ok(answer(encoding, &bytes))
    })
}

fn pkcs12_options<T>(args: &Map, act: impl FnOnce(Pkcs12Options<'_>) -> T) -> T {
    let (pass, friendly) = (text(args, "pkcs12_passphrase"), text(args, "pkcs12_friendlyname"));
    act(Pkcs12Options {
        passphrase: pass.as_deref(),
        compat: given(args, "pkcs12_encryption_compat").is_some(),
        friendly_name: friendly.as_deref(),
    })
}

fn encode_crl(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| {
        let (list, _) = Workbench::list(&bench.bytes(value(args, "crl")?)?)?;
        let (bytes, encoding) = der_or_pem(&all(args), "X509 CRL", &list.der)?;
        Ok(answer(&encoding, &bytes))
    })
}

fn encode_csr(machine: &Machine, args: &Args) -> Answer {
    bench(machine, |bench| {
        let (request, _) = Workbench::request(&bench.bytes(value(args, "csr")?)?)?;
        let (bytes, encoding) = der_or_pem(&all(args), "CERTIFICATE REQUEST", &request.der)?;
        Ok(answer(&encoding, &bytes))
    })
}

fn encode_private_key(machine: &Machine, args: &Args) -> Answer {
    let args = all(args);
    let encoding = encoding(&args, &["der", "pem", "pkcs12"])?;
    let (pass, old) = (text(&args, "passphrase"), text(&args, "private_key_passphrase"));
    let compat = given(&args, "pkcs12_encryption_compat").is_some();
    bench(machine, |bench| {
        let key = given(&args, "private_key").ok_or_else(|| fail("`private_key` is missing"))?;
        let key = bench.private_key(key, old.as_deref())?;
        let options = Pkcs12Options { passphrase: pass.as_deref(), compat, friendly_name: None };
        Ok(answer(encoding, &bench.ssl.encode_key(&key, encoding, options)?))
    })
}

fn create_private_key(machine: &Machine, args: &Args) -> Answer {
    let args = all(args);
    let encoding = encoding(&args, &["der", "pem", "pkcs12"])?;
    let algo = text(&args, "algo").unwrap_or_else(|| "rsa".into());
    let size = days(&args, "keysize")?.or(days(&args, "bits")?);
    let pass = text(&args, "passphrase");
    let compat = given(&args, "pkcs12_encryption_compat").is_some();
    let options = Pkcs12Options { passphrase: pass.as_deref(), compat, friendly_name: None };
    let bytes =
        bench(machine, |bench| bench.ssl.encode_key(&bench.ssl.new_key(&algo, size)?, encoding, options))?;
    deliver(machine, &args, &bytes, encoding, "Private key")
}

fn create_csr(machine: &Machine, args: &Args) -> Answer {
    let args = all(args);
    let der =
        bench(machine, |bench| bench.sign_request(&bench.draft_request(&args)?, &workbench::digest(&args)?))?;
    let (bytes, encoding) = der_or_pem(&args, "CERTIFICATE REQUEST", &der)?;
    deliver(machine, &args, &bytes, &encoding, "CSR")
}

fn create_crl(machine: &Machine, args: &Args) -> Answer {
    let args = all(args);
    let der = bench(machine, |bench| bench.sign_list(&bench.draft_list(&args)?, &workbench::digest(&args)?))?;
    let (bytes, encoding) = der_or_pem(&args, "X509 CRL", &der)?;
    deliver(machine, &args, &bytes, &encoding, "CRL")
}

fn create_certificate(machine: &Machine, args: &Args) -> Answer {
    let overwrite = flag_arg(args, "overwrite", true);
    let args = all(args);
    for key in ["ca_server", "signing_policy"] {
        if given(&args, key).is_some() {
            return Err(fail(&format!(
                "`{key}` is not supported by this function: use x509.certificate_managed"
            )));
        }
    }
    let encoding = encoding(&args, &CERTIFICATE_ENCODINGS)?;
    if let Some(path) = text(&args, "path").filter(|_| !overwrite)
        && read_file(machine, &path)?.is_some()
    {
        return Ok(format!("The file at {path} exists and overwrite was set to false").into());
    }
    let bytes = bench(machine, |bench| {
        let draft = bench.draft_certificate(&args)?;
        let chain = chain(bench, &args)?;
        let certificate = bench.sign_certificate(&draft)?;
        pkcs12_options(&args, |options| {
            bench.encode_certificate(&certificate, encoding, &chain, draft.private_key.as_ref(), options)
        })
    })?;
    deliver(machine, &args, &bytes, encoding, "Certificate")
}

fn write_pem(machine: &Machine, args: &Args) -> Answer {
    let entry = get_pem_entry(machine, args)?;
    let args = Map::from_iter([("path", value(args, "path")?.clone())]);
    deliver(machine, &args, entry.as_str().unwrap_or_default().as_bytes(), "pem", "PEM")
}
