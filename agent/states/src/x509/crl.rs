//! `x509.crl_managed`: certificates that are revoked in, the list that `openssl ca` signs out.
//!
//! Law: the time of a revocation that is not declared is the time at which the list is made, and is not compared
//! (held by `numbers_and_times_of_the_index`).

use jiff::Timestamp;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use super::X509Managed;
use crate::x509::openssl;
use crate::x509::openssl::OpenSsl;
use crate::{StateCtx, StateError};

/// For how many days a list is good, and when it is made anew.
const CRL_DAYS_VALID: &str = "100";
pub(crate) const CRL_DAYS_REMAINING: i64 = 30;

impl X509Managed {
    /// The signed list.
    pub(crate) fn make_crl(&self, ssl: &OpenSsl<'_>, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        let needed = |key: &str| {
            let found = self.pem_input(ssl, &self.args, key, ctx)?;
            found.ok_or_else(|| StateError::new(format!("`{key}` is missing")))
        };
        let (signer, issuer) = (needed("signing_private_key")?, needed("signing_cert")?);
        let mut index = String::new();
        for entry in self.revoked_entries() {
            index += &self.index_line(ssl, &entry, ctx)?.unwrap_or_default();
        }
        let index = ssl.write_file("index", index.as_bytes())?;
        let mut config = format!("[ca]\ndefault_ca = own\n[own]\ndatabase = {index}\n");
        let extensions = self.args.get("extensions").and_then(Value::as_map).cloned().unwrap_or_default();
        if extensions.contains("crlNumber") {
            return Err(StateError::new("`crlNumber` is not known here: lists are not counted"));
        }
        if !extensions.is_empty() {
            config += "crl_extensions = ext\n";
            config += &openssl::request_config(&extensions, &[]);
        }
        let config = ssl.write_file("list.cnf", config.as_bytes())?;
        let days = self.text_arg("days_valid").unwrap_or_else(|| CRL_DAYS_VALID.into());
        let digest = Self::digest_arg(&self.args);
        let words = [
            &["ca", "-gencrl", "-config", &config, "-keyfile", &signer, "-cert", &issuer][..],
            &["-passin", "env:OPENSSL_PASS", "-crldays", &days, "-md", digest.trim_start_matches('-')],
        ];
        Ok(ssl.run_checked(&words.concat(), self.text_arg("signing_private_key_passphrase").as_deref())?)
    }

    /// What is revoked; an entry may stand below a name of its own, as a list.
    fn revoked_entries(&self) -> Vec<Map> {
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
    fn has_all_dates(&self) -> bool {
        self.revoked_entries().iter().all(|entry| entry.contains("revocation_date"))
    }

    /// A line of the index that `openssl ca` keeps; nothing for what has ended by itself.
    fn index_line(
        &self,
        ssl: &OpenSsl<'_>,
        entry: &Map,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<String>, StateError> {
        let (serial, end) = match self.pem_input(ssl, entry, "certificate", ctx)? {
            Some(path) => {
                let words = ["x509", "-in", &path, "-noout", "-serial", "-enddate", "-dateopt", "iso_8601"];
                let text = ssl.run_checked(&words, None)?;
                let serial = text.lines().find_map(|l| l.strip_prefix("serial=")).map(str::to_owned);
                (serial, openssl::parse_not_after(&text))
            }
            None => {
                let end = entry.get("not_after").and_then(Value::as_str);
                let end = end.map(|t| {
                    openssl::parse_not_after(&format!("notAfter={t}Z")).ok_or_else(|| invalid_entry(t))
                });
                (entry.get("serial_number").map(index_serial), end.transpose()?)
            }
        };
        let serial = serial.ok_or_else(|| StateError::new("Need serial_number or certificate"))?;
        let is_over = end.is_some_and(|end| end < Timestamp::now());
        if is_over && !self.args.get("include_expired").is_some_and(Value::is_truthy) {
            return Ok(None);
        }
        let when = match entry.get("revocation_date").and_then(Value::as_str) {
            Some(text) => index_time(text).ok_or_else(|| invalid_entry(text))?,
            None => Timestamp::now().strftime("%y%m%d%H%M%SZ").to_string(),
        };
        let nested = entry.get("extensions").and_then(|e| e.get("CRLReason"));
        let reason = nested.or_else(|| entry.get("reason")).map(python_str);
        let reason = reason.map(|r| format!(",{r}")).unwrap_or_default();
        Ok(Some(format!("R\t491231235959Z\t{when}{reason}\t{serial}\tunknown\t/CN=revoked\n")))
    }

    /// What must be the same in two lists.
    pub(crate) fn comparable_crl(&self, text: &str) -> String {
        let end = text.find("    Signature Value:").unwrap_or(text.len());
        let varies = |line: &&str| {
            let line = line.trim_start();
            let dates = line.starts_with("Last Update:") || line.starts_with("Next Update:");
            dates || (line.starts_with("Revocation Date:") && !self.has_all_dates())
        };
        text[..end].lines().filter(|l| !varies(l)).collect::<Vec<_>>().join("\n")
    }
}

fn invalid_entry(text: &str) -> StateError {
    StateError::new(format!("`{text}` is no time: `2030-12-31 23:59:59` is meant"))
}

/// A time as the index holds it.
fn index_time(text: &str) -> Option<String> {
    let time: Timestamp = format!("{}Z", text.trim().replace(' ', "T")).parse().ok()?;
    Some(time.strftime("%y%m%d%H%M%SZ").to_string())
}

/// A serial number as the index holds it: whole bytes, in capitals.
fn index_serial(value: &Value) -> String {
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
        assert_eq!(index_serial(&Value::from("d6:d2:0")), "0D6D20");
        assert_eq!(index_serial(&Value::Int(255)), "FF");
        assert_eq!(index_time("2020-01-02 03:04:05").as_deref(), Some("200102030405Z"));
        assert_eq!(index_time("soon"), None);
    }
}
