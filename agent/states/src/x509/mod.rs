//! States of the module `x509`: private keys, requests, certificates and lists of revoked ones, by the program `openssl`.
//!
//! Law: what would be made now is compared with what exists; only serial numbers, dates and signatures may differ.
//! Files are read and written through the context, so that a dry run predicts a whole chain of them (held by
//! `a_key_a_request_and_a_signed_certificate`).

#![expect(
    clippy::disallowed_methods,
    reason = "certificates are valid for a time; openssl gets files of its own"
)]

pub(crate) mod functions;
pub(crate) mod openssl;

pub(crate) mod crl;
pub(crate) mod pem;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::{Map, Value};

use crate::file::parents;
use crate::x509::openssl::OpenSsl;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::Machine;
use zagent_host::fs::FileMeta;
use zagent_host::machine::account_ids;

/// How long a certificate is good for, and when it is made anew, in days.
const DEFAULT_DAYS_VALID: i64 = 365;
const DEFAULT_DAYS_REMAINING: i64 = 90;

/// The module `x509`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "x509",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let kind = match fun {
        "private_key_managed" => X509Kind::PrivateKey,
        "csr_managed" => X509Kind::Csr,
        "certificate_managed" => X509Kind::Certificate,
        "crl_managed" => X509Kind::Crl,
        "pem_managed" => X509Kind::Pem,
        _ => return None,
    };
    Some(X509Managed::from_args(kind, args).map(|s| Box::new(s) as Box<dyn State>))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum X509Kind {
    PrivateKey,
    Csr,
    Certificate,
    Crl,
    Pem,
}

impl X509Kind {
    const fn label(self) -> &'static str {
        match self {
            Self::PrivateKey => "private key",
            Self::Csr => "certificate signing request",
            Self::Certificate => "certificate",
            Self::Crl => "certificate revocation list",
            Self::Pem => "file",
        }
    }
}

struct X509Managed {
    kind: X509Kind,
    path: PathBuf,
    args: Map,
    user: Option<String>,
    group: Option<String>,
    mode: Option<u32>,
    makedirs: bool,
    /// What was made when it was looked at; what is written is the same.
    new_pem: Option<String>,
}

impl X509Managed {
    fn from_args(kind: X509Kind, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let path = args.path("name")?.ok_or_else(|| StateError::new("a path is needed"))?;
        for key in ["ca_server", "copypath", "prepend_cn", "not_before", "not_after"] {
            if args.get(key).is_some_and(Value::is_truthy) {
                return Err(StateError::new(format!(
                    "`{key}` is not known here: a key and certificate on this host sign"
                )));
            }
        }
        if let Some(encoding) = args.text("encoding")?.filter(|e| e != "pem") {
            return Err(StateError::new(format!("`encoding` can only be pem here, not {encoding}")));
        }
        let preset = if kind == X509Kind::PrivateKey { Some(0o400) } else { None };
        Ok(Self {
            kind,
            path,
            args: args.chunk.args.clone(),
            user: args.text("user")?,
            group: args.text("group")?,
            mode: args.mode("mode")?.or(preset),
            makedirs: args.flag("makedirs", false),
            new_pem: None,
        })
    }

    /// Owner and mode that the file should have.
    fn meta(&self, machine: &Machine) -> Result<FileMeta, StateError> {
        let uid = |name: &String| {
            account_ids::uid_of(machine, name)
                .ok_or_else(|| StateError::new(format!("User '{name}' is not available")))
        };
        let gid = |name: &String| {
            account_ids::gid_of(machine, name)
                .ok_or_else(|| StateError::new(format!("Group {name} is not available")))
        };
        Ok(FileMeta {
            mode: self.mode,
            uid: self.user.as_ref().map(uid).transpose()?,
            gid: self.group.as_ref().map(gid).transpose()?,
        })
    }

    fn text_arg(&self, key: &str) -> Option<String> {
        self.args.get(key).filter(|v| v.is_truthy()).map(zagent_config::value::python_str)
    }

    fn int_arg(&self, key: &str) -> Option<i64> {
        self.text_arg(key)?.trim().parse().ok()
    }

    /// All of a PEM that must be the same; nothing when it cannot be read.
    fn comparable_text(
        &self,
        ssl: &OpenSsl<'_>,
        name: &str,
        pem: &str,
    ) -> Result<Option<String>, StateError> {
        let path = ssl.write_file(name, pem.as_bytes())?;
        let opts = "no_serial,no_validity,no_sigdump";
        let words: &[&str] = match self.kind {
            X509Kind::Certificate => &["x509", "-in", &path, "-noout", "-text", "-certopt", opts],
            X509Kind::Crl => {
                let text = ssl.run_optional(&["crl", "-in", &path, "-noout", "-text"], None)?;
                return Ok(text.map(|text| self.comparable_crl(&text)));
            }
            _ => &["req", "-in", &path, "-noout", "-text", "-reqopt", "no_sigdump"],
        };
        let own = openssl::first_pem_block(pem);
        let chain = pem
            .split_once(own.trim_end())
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect::<String>();
        Ok(ssl.run_optional(words, None)?.map(|text| text + &chain))
    }

    /// Why it has to be made; nothing when what is there is right. What would be made is kept.
    fn find_drift(&mut self, ctx: &StateCtx<'_>) -> Result<Option<Map>, StateError> {
        let tools = ctx.tools();
        let ssl = OpenSsl::new(&tools)?;
        let name = self.path.display().to_string();
        let there = match ctx.fs.stat(&self.path)? {
            Some(_) => Some(String::from_utf8_lossy(&ctx.fs.read(&self.path)?).into_owned()),
            None => None,
        };
        let Some(there) = there else { return Ok(Some(Map::from_iter([("created", name)]))) };
        let replaced = |why: &str| Some(Map::from_iter([("replaced", name.as_str()), ("reason", why)]));
        match self.kind {
            X509Kind::PrivateKey => {
                let pass = self.text_arg("passphrase");
                let path = ssl.write_file("there.pem", there.as_bytes())?;
                let algo = self.text_arg("algo").unwrap_or_else(|| "rsa".into());
                let size = self.int_arg("keysize").unwrap_or(if algo == "ec" { 256 } else { 2048 });
                let Some((kind, bits)) = ssl.inspect_key(&path, pass.as_deref())? else {
                    if !self.args.get("overwrite").is_some_and(Value::is_truthy) {
                        return Err(StateError::new(
                            "The existing file cannot be read as a private key. Pass overwrite: true to force it being overwritten",
                        ));
                    }
                    return Ok(replaced("it is no private key that can be read"));
                };
                let fits = kind == algo && (bits == size || algo.starts_with("ed"));
                Ok(if fits { None } else { replaced("another kind or size of key is asked for") })
            }
            X509Kind::Pem => {
                let made = self.make_pem(&ssl, ctx)?;
                Ok(if made == there { None } else { replaced("it holds something else") })
            }
            X509Kind::Csr | X509Kind::Certificate | X509Kind::Crl => {
                let made = self.make_pem(&ssl, ctx)?;
                let now = self.comparable_text(&ssl, "there.pem", &there)?;
                let then = self.comparable_text(&ssl, "made.pem", &made)?;
                self.new_pem = Some(made);
                if now != then {
                    return Ok(replaced("subject, extensions, key or signer differ"));
                }
                Ok(if self.kind != X509Kind::Csr && self.expires_soon(&ssl)? {
                    replaced("it expires soon")
                } else {
                    None
                })
            }
        }
    }

    /// True when a certificate or list ends within the days that must remain.
    fn expires_soon(&self, ssl: &OpenSsl<'_>) -> Result<bool, StateError> {
        let path = ssl.path("there.pem");
        let (verb, end, preset) = match self.kind {
            X509Kind::Crl => ("crl", "-nextupdate", crl::CRL_DAYS_REMAINING),
            _ => ("x509", "-enddate", DEFAULT_DAYS_REMAINING),
        };
        let text = ssl.run_checked(&[verb, "-in", &path, "-noout", end, "-dateopt", "iso_8601"], None)?;
        let end = openssl::parse_not_after(&text)
            .ok_or_else(|| StateError::new(format!("cannot tell when it ends: {text}")))?;
        let remaining = self.int_arg("days_remaining").unwrap_or(if self.args.contains("days_remaining") {
            0
        } else {
            preset
        });
        let left = end.as_second() - Timestamp::now().as_second();
        Ok(left <= remaining.saturating_mul(86400))
    }

    /// Owner and mode that differ.
    fn meta_drift(&self, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
        let (meta, mut changes) = (self.meta(ctx.machine)?, Map::new());
        if let Some(stat) = ctx.fs.stat(&self.path)? {
            if let Some(mode) = meta.mode.filter(|m| *m != stat.mode) {
                changes.insert("mode", format!("{mode:04o}"));
            }
            if meta.uid.is_some_and(|u| u != stat.uid) {
                changes.insert("user", self.text_arg("user").unwrap_or_default());
            }
            if meta.gid.is_some_and(|g| g != stat.gid) {
                changes.insert("group", self.text_arg("group").unwrap_or_default());
            }
        }
        Ok(changes)
    }
}

impl State for X509Managed {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.meta(ctx.machine)?;
        let words = self.kind.label();
        match self.find_drift(ctx)? {
            Some(changes) => {
                let verb = if changes.contains("created") { "create" } else { "recreate" };
                Ok(CheckResult::drifted(format!("The {words} would have been {verb}d"), changes))
            }
            None => {
                let changes = self.meta_drift(ctx)?;
                if changes.is_empty() {
                    return Ok(CheckResult::in_sync(format!("The {words} is in the correct state")));
                }
                Ok(CheckResult::drifted(format!("Owner or mode of the {words} would be set"), changes))
            }
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (words, meta) = (self.kind.label(), self.meta(ctx.machine)?);
        let Some(changes) = self.find_drift(ctx)? else {
            let changes = self.meta_drift(ctx)?;
            ctx.fs.set_meta(&self.path, meta, true)?;
            return Ok(ApplyResult::new(format!("Owner or mode of the {words} was set"), changes));
        };
        let pem = match self.new_pem.take() {
            Some(made) => made,
            None => {
                let tools = ctx.tools();
                self.make_pem(&OpenSsl::new(&tools)?, ctx)?
            }
        };
        if self.makedirs {
            parents::make_parents(ctx, &self.path, FileMeta { mode: Some(0o755), ..meta })?;
        }
        ctx.fs.write(&self.path, pem.as_bytes(), meta)?;
        let verb = if changes.contains("created") { "create" } else { "recreate" };
        Ok(ApplyResult::new(format!("The {words} has been {verb}d"), changes))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES | Effects::PACKAGES | Effects::USERS
    }
}
