//! States of the module `x509`: private keys, requests, certificates and lists of revoked ones, by the program `openssl`.
//!
//! Law: what would be made now is compared with what is there; only serial numbers, dates and signatures may differ. Files are
//! read and written through the scene alone, so that a dry run foresees a whole chain of them.

mod make;
mod revoked;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::{Map, Value};

use super::super::file::parents;
use super::super::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};
use crate::fs::Meta;
use crate::host::openssl::{self, OpenSsl};

/// How long a certificate is good for, and when it is made anew, in days.
const VALID: i64 = 365;
const REMAINING: i64 = 90;

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let kind = match fun {
        "private_key_managed" => Kind::Key,
        "csr_managed" => Kind::Request,
        "certificate_managed" => Kind::Certificate,
        "crl_managed" => Kind::Revoked,
        "pem_managed" => Kind::Pem,
        _ => return None,
    };
    Some(Managed::read(kind, args).map(|s| Box::new(s) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Key,
    Request,
    Certificate,
    Revoked,
    Pem,
}

impl Kind {
    const fn words(self) -> &'static str {
        match self {
            Self::Key => "private key",
            Self::Request => "certificate signing request",
            Self::Certificate => "certificate",
            Self::Revoked => "certificate revocation list",
            Self::Pem => "file",
        }
    }
}

struct Managed {
    kind: Kind,
    path: PathBuf,
    args: Map,
    meta: Meta,
    makedirs: bool,
    /// What was made when it was looked at; what is written is the same.
    made: Option<String>,
}

impl Managed {
    fn read(kind: Kind, args: &Args<'_>) -> Result<Self, Failure> {
        let path = args.path("name")?.ok_or_else(|| Failure::new("a path is needed"))?;
        for key in ["ca_server", "copypath", "prepend_cn", "not_before", "not_after"] {
            if args.get(key).is_some_and(Value::is_truthy) {
                return Err(Failure::new(format!(
                    "`{key}` is not known here: a key and certificate on this host sign"
                )));
            }
        }
        if let Some(encoding) = args.text("encoding")?.filter(|e| e != "pem") {
            return Err(Failure::new(format!("`encoding` can only be pem here, not {encoding}")));
        }
        let user = args.text("user")?.map(|n| crate::host::command::Account::find(&n)).transpose();
        let user = user.map_err(Failure::new)?;
        let gid = match args.text("group")? {
            Some(name) => {
                let group = nix::unistd::Group::from_name(&name).ok().flatten();
                Some(
                    group.ok_or_else(|| Failure::new(format!("Group {name} is not available")))?.gid.as_raw(),
                )
            }
            None => None,
        };
        let preset = if kind == Kind::Key { Some(0o400) } else { None };
        let meta = Meta { mode: args.mode("mode")?.or(preset), uid: user.map(|u| u.user.uid), gid };
        let makedirs = args.flag("makedirs", false);
        Ok(Self { kind, path, args: args.chunk.args.clone(), meta, makedirs, made: None })
    }

    fn text(&self, key: &str) -> Option<String> {
        self.args.get(key).filter(|v| v.is_truthy()).map(zagent_compiler::yaml::python_str)
    }

    fn int(&self, key: &str) -> Option<i64> {
        self.text(key)?.trim().parse().ok()
    }

    /// All of a PEM that must be the same; nothing when it cannot be read.
    fn essence(&self, ssl: &OpenSsl<'_>, name: &str, pem: &str) -> Result<Option<String>, Failure> {
        let path = ssl.file(name, pem.as_bytes())?;
        let opts = "no_serial,no_validity,no_sigdump";
        let words: &[&str] = match self.kind {
            Kind::Certificate => &["x509", "-in", &path, "-noout", "-text", "-certopt", opts],
            Kind::Revoked => {
                let text = ssl.maybe(&["crl", "-in", &path, "-noout", "-text"], None)?;
                return Ok(text.map(|text| self.gist(&text)));
            }
            _ => &["req", "-in", &path, "-noout", "-text", "-reqopt", "no_sigdump"],
        };
        let own = openssl::first(pem);
        let chain = pem
            .split_once(own.trim_end())
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect::<String>();
        Ok(ssl.maybe(words, None)?.map(|text| text + &chain))
    }

    /// Why it has to be made; nothing when what is there is right. What would be made is kept.
    fn lacks(&mut self, scene: &Scene<'_>) -> Result<Option<Map>, Failure> {
        let tools = scene.tools();
        let ssl = OpenSsl::new(&tools)?;
        let name = self.path.display().to_string();
        let there = match scene.fs.stat(&self.path)? {
            Some(_) => Some(String::from_utf8_lossy(&scene.fs.read(&self.path)?).into_owned()),
            None => None,
        };
        let Some(there) = there else { return Ok(Some(Map::from_iter([("created", name)]))) };
        let replaced = |why: &str| Some(Map::from_iter([("replaced", name.as_str()), ("reason", why)]));
        match self.kind {
            Kind::Key => {
                let pass = self.text("passphrase");
                let path = ssl.file("there.pem", there.as_bytes())?;
                let algo = self.text("algo").unwrap_or_else(|| "rsa".into());
                let size = self.int("keysize").unwrap_or(if algo == "ec" { 256 } else { 2048 });
                let Some((kind, bits)) = ssl.key(&path, pass.as_deref())? else {
                    if !self.args.get("overwrite").is_some_and(Value::is_truthy) {
                        return Err(Failure::new(
                            "The existing file cannot be read as a private key. Pass overwrite: true to force it being overwritten",
                        ));
                    }
                    return Ok(replaced("it is no private key that can be read"));
                };
                let fits = kind == algo && (bits == size || algo.starts_with("ed"));
                Ok(if fits { None } else { replaced("another kind or size of key is asked for") })
            }
            Kind::Pem => {
                let made = self.make(&ssl, scene)?;
                Ok(if made == there { None } else { replaced("it holds something else") })
            }
            Kind::Request | Kind::Certificate | Kind::Revoked => {
                let made = self.make(&ssl, scene)?;
                let now = self.essence(&ssl, "there.pem", &there)?;
                let then = self.essence(&ssl, "made.pem", &made)?;
                self.made = Some(made);
                if now != then {
                    return Ok(replaced("subject, extensions, key or signer differ"));
                }
                Ok(if self.kind != Kind::Request && self.expires(&ssl)? {
                    replaced("it expires soon")
                } else {
                    None
                })
            }
        }
    }

    /// True when a certificate or list ends within the days that must remain.
    fn expires(&self, ssl: &OpenSsl<'_>) -> Result<bool, Failure> {
        let path = ssl.path("there.pem");
        let (verb, end, preset) = match self.kind {
            Kind::Revoked => ("crl", "-nextupdate", revoked::REMAINING),
            _ => ("x509", "-enddate", REMAINING),
        };
        let text = ssl.must(&[verb, "-in", &path, "-noout", end, "-dateopt", "iso_8601"], None)?;
        let end =
            openssl::ends(&text).ok_or_else(|| Failure::new(format!("cannot tell when it ends: {text}")))?;
        let remaining = self.int("days_remaining").unwrap_or(if self.args.contains("days_remaining") {
            0
        } else {
            preset
        });
        let left = end.as_second() - Timestamp::now().as_second();
        Ok(left <= remaining.saturating_mul(86400))
    }

    /// Owner and mode that differ.
    fn meta_drift(&self, scene: &Scene<'_>) -> Result<Map, Failure> {
        let mut changes = Map::new();
        if let Some(stat) = scene.fs.stat(&self.path)? {
            if let Some(mode) = self.meta.mode.filter(|m| *m != stat.mode) {
                changes.insert("mode", format!("{mode:04o}"));
            }
            if self.meta.uid.is_some_and(|u| u != stat.uid) {
                changes.insert("user", self.text("user").unwrap_or_default());
            }
            if self.meta.gid.is_some_and(|g| g != stat.gid) {
                changes.insert("group", self.text("group").unwrap_or_default());
            }
        }
        Ok(changes)
    }
}

impl State for Managed {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let words = self.kind.words();
        match self.lacks(scene)? {
            Some(changes) => {
                let verb = if changes.contains("created") { "create" } else { "recreate" };
                Ok(Look::drift(format!("The {words} would have been {verb}d"), changes))
            }
            None => {
                let changes = self.meta_drift(scene)?;
                if changes.is_empty() {
                    return Ok(Look::right(format!("The {words} is in the correct state")));
                }
                Ok(Look::drift(format!("Owner or mode of the {words} would be set"), changes))
            }
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let words = self.kind.words();
        let Some(changes) = self.lacks(scene)? else {
            let changes = self.meta_drift(scene)?;
            scene.fs.set_meta(&self.path, self.meta, true)?;
            return Ok(Done::new(format!("Owner or mode of the {words} was set"), changes));
        };
        let pem = match self.made.take() {
            Some(made) => made,
            None => {
                let tools = scene.tools();
                self.make(&OpenSsl::new(&tools)?, scene)?
            }
        };
        if self.makedirs {
            parents::make(scene, &self.path, Meta { mode: Some(0o755), ..self.meta })?;
        }
        scene.fs.write(&self.path, pem.as_bytes(), self.meta)?;
        let verb = if changes.contains("created") { "create" } else { "recreate" };
        Ok(Done::new(format!("The {words} has been {verb}d"), changes))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES | Veil::USERS
    }
}
