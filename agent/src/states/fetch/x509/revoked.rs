//! `x509.crl_managed`: certificates that are revoked in, the list that `openssl ca` signs out.
//!
//! Law: the time of a revocation that is not declared is the time at which the list is made, and is not compared.

use jiff::Timestamp;
use zagent_compiler::yaml::python_str;
use zagent_config::{Map, Value};

use super::super::super::{Failure, Scene};
use super::Managed;
use crate::host::openssl::{self, OpenSsl};

/// For how many days a list is good, and when it is made anew.
const VALID: &str = "100";
pub(super) const REMAINING: i64 = 30;

impl Managed {
    /// The signed list.
    pub(super) fn revocations(&self, ssl: &OpenSsl<'_>, scene: &Scene<'_>) -> Result<String, Failure> {
        let needed = |key: &str| {
            let found = self.input(ssl, &self.args, key, scene)?;
            found.ok_or_else(|| Failure::new(format!("`{key}` is missing")))
        };
        let (signer, issuer) = (needed("signing_private_key")?, needed("signing_cert")?);
        let mut index = String::new();
        for entry in self.revoked() {
            index += &self.entry(ssl, &entry, scene)?.unwrap_or_default();
        }
        let index = ssl.file("index", index.as_bytes())?;
        let mut config = format!("[ca]\ndefault_ca = own\n[own]\ndatabase = {index}\n");
        let extensions = self.args.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
        if extensions.contains("crlNumber") {
            return Err(Failure::new("`crlNumber` is not known here: lists are not counted"));
        }
        if !extensions.is_empty() {
            config += "crl_extensions = ext\n";
            config += &openssl::config(&extensions, &[]);
        }
        let config = ssl.file("list.cnf", config.as_bytes())?;
        let days = self.text("days_valid").unwrap_or_else(|| VALID.into());
        let digest = Self::digest(&self.args);
        let words = [
            &["ca", "-gencrl", "-config", &config, "-keyfile", &signer, "-cert", &issuer][..],
            &["-passin", "env:OPENSSL_PASS", "-crldays", &days, "-md", digest.trim_start_matches('-')],
        ];
        Ok(ssl.must(&words.concat(), self.text("signing_private_key_passphrase").as_deref())?)
    }

    /// What is revoked; an entry may stand below a name of its own, as a list.
    fn revoked(&self) -> Vec<Map> {
        let entries = self.args.get("revoked").and_then(Value::as_list);
        let flat = |entry: &Value| {
            let map = entry.as_map()?;
            let below = map.iter().find_map(|(_, v)| v.as_list()).filter(|_| map.len() == 1);
            Some(below.map_or_else(
                || map.clone(),
                |parts| {
                    let pairs = parts.iter().filter_map(Value::as_map).flat_map(Map::iter);
                    pairs.map(|(k, v)| (k.clone(), v.clone())).collect()
                },
            ))
        };
        entries.into_iter().flat_map(|l| l.iter()).filter_map(flat).collect()
    }

    /// True when all times of revocations are declared.
    fn is_dated(&self) -> bool {
        self.revoked().iter().all(|entry| entry.contains("revocation_date"))
    }

    /// A line of the index that `openssl ca` keeps; nothing for what has ended by itself.
    fn entry(&self, ssl: &OpenSsl<'_>, entry: &Map, scene: &Scene<'_>) -> Result<Option<String>, Failure> {
        let (serial, end) = match self.input(ssl, entry, "certificate", scene)? {
            Some(path) => {
                let words = ["x509", "-in", &path, "-noout", "-serial", "-enddate", "-dateopt", "iso_8601"];
                let text = ssl.must(&words, None)?;
                let serial = text.lines().find_map(|l| l.strip_prefix("serial=")).map(str::to_owned);
                (serial, openssl::ends(&text))
            }
            None => {
                let end = entry.get("not_after").and_then(Value::as_str);
                let end = end.map(|t| openssl::ends(&format!("notAfter={t}Z")).ok_or_else(|| wrong(t)));
                (entry.get("serial_number").map(serial), end.transpose()?)
            }
        };
        let serial = serial.ok_or_else(|| Failure::new("Need serial_number or certificate"))?;
        let is_over = end.is_some_and(|end| end < Timestamp::now());
        if is_over && !self.args.get("include_expired").is_some_and(Value::is_truthy) {
            return Ok(None);
        }
        let when = match entry.get("revocation_date").and_then(Value::as_str) {
            Some(text) => moment(text).ok_or_else(|| wrong(text))?,
            None => Timestamp::now().strftime("%y%m%d%H%M%SZ").to_string(),
        };
        let nested = entry.get("extensions").and_then(|e| e.get("CRLReason"));
        let reason = nested.or_else(|| entry.get("reason")).map(python_str);
        let reason = reason.map(|r| format!(",{r}")).unwrap_or_default();
        Ok(Some(format!("R\t491231235959Z\t{when}{reason}\t{serial}\tunknown\t/CN=revoked\n")))
    }

    /// What must be the same in two lists.
    pub(super) fn gist(&self, text: &str) -> String {
        let end = text.find("    Signature Value:").unwrap_or(text.len());
        let varies = |line: &&str| {
            let line = line.trim_start();
            let dates = line.starts_with("Last Update:") || line.starts_with("Next Update:");
            dates || (line.starts_with("Revocation Date:") && !self.is_dated())
        };
        text[..end].lines().filter(|l| !varies(l)).collect::<Vec<_>>().join("\n")
    }
}

fn wrong(text: &str) -> Failure {
    Failure::new(format!("`{text}` is no time: `2030-12-31 23:59:59` is meant"))
}

/// A time as the index holds it.
fn moment(text: &str) -> Option<String> {
    let time: Timestamp = format!("{}Z", text.trim().replace(' ', "T")).parse().ok()?;
    Some(time.strftime("%y%m%d%H%M%SZ").to_string())
}

/// A serial number as the index holds it: whole bytes, in capitals.
fn serial(value: &Value) -> String {
    let digits = match value {
        Value::Int(number) => format!("{number:X}"),
        other => python_str(other).replace(':', "").to_ascii_uppercase(),
    };
    if digits.len() % 2 == 1 { format!("0{digits}") } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_of_the_index() {
        assert_eq!(serial(&Value::from("d6:d2:0")), "0D6D20");
        assert_eq!(serial(&Value::Int(255)), "FF");
        assert_eq!(moment("2020-01-02 03:04:05").as_deref(), Some("200102030405Z"));
        assert_eq!(moment("soon"), None);
    }
}
