//! States of the module `x509`: private keys, requests, certificates and lists of revoked ones.
//!
//! Structure is read, compared and written here, in DER; keys are made and used by the program `openssl`, which knows all
//! their kinds, digests and encryptions. Nothing is parsed out of text that is meant for people.
//!
//! Law: what is declared is compared with what exists field by field; only dates, signatures and a serial number that is
//! not declared may differ. Files are read and written through the context, so that a dry run predicts a whole chain of
//! them (held by `a_key_a_request_and_a_signed_certificate`).

mod compare;
mod der;
mod distribution_point;
mod evaluate;
mod extension;
pub(crate) mod functions;
mod general_name;
mod material;
mod name;
mod openssl;
mod pem;
mod policy;
mod read;
mod render;
mod workbench;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use zagent_compiler::{Chunk, Compat};
use zagent_config::{FunctionError, Map, Value, error_chain};

use self::evaluate::Evaluation;
use self::workbench::Workbench;
use crate::file::managed;
use crate::x509::openssl::OpenSsl;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Verdict,
};
use zagent_host::fs::{FileKind, FileMeta};

/// The module `x509`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "x509",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// Arguments that are those of `file.managed`.
const FILE_ARGS: [&str; 14] = [
    "user",
    "group",
    "mode",
    "attrs",
    "makedirs",
    "dir_mode",
    "backup",
    "create",
    "follow_symlinks",
    "check_cmd",
    "tmp_dir",
    "tmp_ext",
    "selinux",
    "encoding_errors",
];
/// The detail that holds what the state of the file did.
const SUB_STATE_RUN: &str = "sub_state_run";
/// The mode of a private key.
const KEY_MODE: &str = "0400";

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let kind = match fun {
        "private_key_managed" => X509Kind::PrivateKey,
        "csr_managed" => X509Kind::Csr,
        "certificate_managed" => X509Kind::Certificate,
        "crl_managed" => X509Kind::Crl,
        "pem_managed" => return Some(build_pem(args)),
        _ => return None,
    };
    Some(X509Managed::from_args(kind, args).map(|s| Box::new(s) as Box<dyn State>))
}

/// `pem_managed` is `file.managed` with a text that is put in order.
fn build_pem(args: &ChunkArgs<'_>) -> BuildResult {
    let text = args.text("text")?.ok_or_else(|| StateError::new("`text` is missing"))?;
    let text = pem::pem_entry(&text, None)?;
    let chunk = file_chunk(args.chunk, X509Kind::Pem);
    managed::build_from_text(&ChunkArgs::new(&chunk), &text)
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

    const fn encodings(self) -> &'static [&'static str] {
        match self {
            Self::PrivateKey => &["der", "pem", "pkcs12"],
            Self::Certificate => &["der", "pem", "pkcs7_der", "pkcs7_pem", "pkcs12"],
            Self::Csr | Self::Crl | Self::Pem => &["der", "pem"],
        }
    }
}

/// The chunk of the `file.managed` that writes the file.
fn file_chunk(chunk: &Chunk, kind: X509Kind) -> Chunk {
    let mut file = chunk.clone();
    (file.state, file.fun) = ("file".into(), "managed".into());
    file.args = Map::from_iter([("show_changes", false)]);
    for key in FILE_ARGS {
        if let Some(value) = chunk.args.get(key) {
            file.args.insert(key, value.clone());
        }
    }
    if let Some(encoding) = chunk.args.get("file_encoding") {
        file.args.insert("encoding", encoding.clone());
    }
    if let Some(name) = chunk.args.get("name") {
        file.args.insert("name", name.clone());
    }
    if kind == X509Kind::PrivateKey && !file.args.get("mode").is_some_and(Value::is_truthy) {
        file.args.insert("mode", KEY_MODE);
    }
    file
}

struct X509Managed {
    kind: X509Kind,
    path: PathBuf,
    /// The path as it is written.
    name: String,
    args: Map,
    encoding: String,
    follow: bool,
    file: Box<Chunk>,
}

impl X509Managed {
    fn from_args(kind: X509Kind, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let path = args.path("name")?.ok_or_else(|| StateError::new("a path is needed"))?;
        if args.get("ca_server").is_some_and(Value::is_truthy) {
            return Err(StateError::new(
                "`ca_server` is not supported: a key and certificate on this host sign",
            ));
        }
        let encoding = args.text("encoding")?.unwrap_or_else(|| "pem".into());
        if !kind.encodings().contains(&encoding.as_str()) {
            let valid = kind.encodings().join(", ");
            return Err(StateError::new(format!("Invalid value '{encoding}' for encoding. Valid: {valid}")));
        }
        let mut own = args.chunk.args.clone();
        workbench::modernize(&mut own);
        if let Some(bits) = own.remove("bits").filter(|_| kind == X509Kind::PrivateKey) {
            own.insert("keysize", bits);
        }
        Ok(Self {
            kind,
            name: args.name(),
            path,
            args: own,
            encoding,
            follow: args.flag("follow_symlinks", true),
            file: Box::new(file_chunk(args.chunk, kind)),
        })
    }

    /// The file without its content, or with it.
    fn file_state(&self, content: Option<Vec<u8>>) -> BuildResult {
        let mut chunk = (*self.file).clone();
        match content {
            Some(bytes) => managed::build_from_bytes(&ChunkArgs::new(&chunk), bytes.into()),
            None => {
                chunk.args.insert("replace", false);
                managed::build(&ChunkArgs::new(&chunk))
            }
        }
    }

    /// What is there now, and whether a link stands in its place that is not to be followed.
    fn current_bytes(&self, ctx: &StateCtx<'_>) -> Result<(Option<Vec<u8>>, bool), StateError> {
        let is_link = ctx.fs.lstat(&self.path)?.is_some_and(|found| found.kind == FileKind::Link);
        if is_link && !self.follow {
            return Ok((None, true));
        }
        let is_file = ctx.fs.stat(&self.path)?.is_some_and(|found| found.kind == FileKind::File);
        Ok((if is_file { Some(ctx.fs.read(&self.path)?) } else { None }, false))
    }

    /// The arguments, with those of a signing policy over them.
    fn with_policy(&self, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
        let mut all = self.args.clone();
        let Some(name) = workbench::text(&all, "signing_policy") else { return Ok(all) };
        const POLICIES: &str = "x509_signing_policies";
        let in_pillar = ctx.pillar.get(POLICIES).and_then(|p| p.get(&name)).cloned();
        let in_options = || {
            let call = zagent_compiler::FunctionCall {
                function: "config.get".into(),
                args: vec![POLICIES.into(), Value::from(Map::new())],
                kwargs: Map::new(),
            };
            ctx.host.call(&call).ok().and_then(|all| all.get(&name).cloned())
        };
        match in_pillar.or_else(in_options) {
            Some(policy) => workbench::apply_policy(&mut all, workbench::policy_map(&policy)),
            None if ctx.compat == Compat::Salt => {}
            None => {
                return Err(StateError::new(format!(
                    "there is no signing policy `{name}` in the pillar ({POLICIES})"
                )));
            }
        }
        Ok(all)
    }

    /// Compares what is there with what is declared.
    fn evaluate(&self, bench: &Workbench<'_>, ctx: &StateCtx<'_>) -> Result<Evaluation, StateError> {
        let (current, replaced) = self.current_bytes(ctx)?;
        let args = self.with_policy(ctx)?;
        Ok(match self.kind {
            X509Kind::PrivateKey => self.evaluate_key(bench, current, &args)?,
            X509Kind::Csr => self.evaluate_request(bench, current, replaced, &args)?,
            X509Kind::Certificate => self.evaluate_certificate(bench, current, replaced, &args)?,
            X509Kind::Crl | X509Kind::Pem => self.evaluate_list(bench, current, replaced, &args)?,
        })
    }

    /// Runs something with what certificates are made with.
    fn with_bench<T>(
        &self,
        ctx: &StateCtx<'_>,
        act: impl FnOnce(&Workbench<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let tools = ctx.tools();
        let read = |path: &str| {
            let path = std::path::Path::new(path);
            let failed = |e| FunctionError::failed(error_chain(&e));
            match ctx.fs.stat(path).map_err(failed)? {
                Some(found) if found.kind == FileKind::File => ctx.fs.read(path).map(Some).map_err(failed),
                _ => Ok(None),
            }
        };
        act(&Workbench { ssl: OpenSsl::new(&tools)?, read: &read })
    }

    /// A failure of the file itself, in Salt's words; ours say why.
    fn file_error(&self, ctx: &StateCtx<'_>, words: &str, failure: &StateError) -> StateError {
        match ctx.compat {
            Compat::Salt => StateError::new(words),
            Compat::Strict => StateError::new(format!("{words}: {}", failure.result.comment)),
        }
    }

    /// The file without its content: nothing when it is not to be created.
    fn check_file(&self, ctx: &StateCtx<'_>) -> Result<Option<CheckResult>, StateError> {
        match self.file_state(None)?.check(ctx) {
            Ok(found) if found.comment.contains("is not present and is not set for creation") => Ok(None),
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.result.comment.contains("Parent directory not present") => {
                Err(self.file_error(ctx, "Could not create file, see file.managed output", &failure))
            }
            Err(failure) => {
                let words = "Problem while testing file.managed changes, see its output";
                Err(self.file_error(ctx, words, &failure))
            }
        }
    }

    fn correct_comment(&self) -> String {
        format!("The {} is in the correct state", self.kind.label())
    }

    /// What the `file.managed` of this state did, as Salt shows it.
    fn sub_state_run(&self, comment: &str, result: Value, changes: Map) -> Value {
        let name = || Value::from(self.name.as_str());
        let low = Map::from_iter([
            ("name", name()),
            ("state", "file".into()),
            ("__id__", name()),
            ("fun", "managed".into()),
        ]);
        let one = Map::from_iter([
            ("name", name()),
            ("result", result),
            ("changes", changes.into()),
            ("comment", comment.into()),
            ("__id__", name()),
            ("low", low.into()),
        ]);
        [Value::from(one)].into_iter().collect()
    }

    /// A copy of a new certificate, named by its serial number.
    fn write_copy(&self, ctx: &StateCtx<'_>, made: &evaluate::Made) -> Result<(), StateError> {
        let (Some(dir), Some(certificate)) = (workbench::text(&self.args, "copypath"), &made.certificate)
        else {
            return Ok(());
        };
        let serial: String = certificate.serial.iter().map(|b| format!("{b:02x}")).collect();
        let with_name = self.args.get("prepend_cn").is_some_and(Value::is_truthy);
        let name = certificate.subject.common_name().filter(|_| with_name);
        let name = name.map(|name| format!("{name}-")).unwrap_or_default();
        let path = PathBuf::from(dir).join(format!("{name}{}.crt", serial.trim_start_matches('0')));
        let pem = material::to_pem("CERTIFICATE", &certificate.der);
        Ok(ctx.fs.write(&path, pem.as_bytes(), FileMeta { mode: Some(0o600), ..FileMeta::default() })?)
    }
}

impl State for X509Managed {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let Some(file) = self.check_file(ctx)? else {
            return Ok(CheckResult::in_sync(self.correct_comment()));
        };
        let found = self.with_bench(ctx, |bench| self.evaluate(bench, ctx))?;
        if !found.changes.is_empty() {
            let (label, verb) = (self.kind.label(), found.verb());
            return Ok(CheckResult::drifted(format!("The {label} would have been {verb}d"), found.changes));
        }
        Ok(match file.verdict {
            Verdict::InSync => CheckResult::in_sync(self.correct_comment()),
            _ => CheckResult::drifted(self.correct_comment(), file.changes),
        })
    }

    /// Salt hides a change of the file's owner and mode in the result of its `file.managed`.
    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx)?;
        if ctx.compat == Compat::Salt && checked.comment == self.correct_comment() {
            let result = if checked.verdict == Verdict::InSync { Value::from(true) } else { Value::Null };
            let below = self.sub_state_run(&checked.comment, result, std::mem::take(&mut checked.changes));
            let details = Map::from_iter([(SUB_STATE_RUN, below)]);
            return Ok(CheckResult { details, ..CheckResult::in_sync(checked.comment) });
        }
        Ok(checked)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        if self.check_file(ctx)?.is_none() {
            return Ok(ApplyResult::new(self.correct_comment(), Map::new()));
        }
        let (found, made) = self.with_bench(ctx, |bench| {
            let found = self.evaluate(bench, ctx)?;
            let made = if found.changes.is_empty() { None } else { Some(self.make(bench, &found)?) };
            Ok((found, made))
        })?;
        let content = made.as_ref().map(|made| made.bytes.clone());
        let written = self.file_state(content)?.apply(ctx).map_err(|failure| {
            let verb = if found.has_current() { "update" } else { "create" };
            self.file_error(ctx, &format!("Could not {verb} file, see file.managed output"), &failure)
        })?;
        let is_salt = ctx.compat == Compat::Salt;
        let below =
            is_salt.then(|| self.sub_state_run(&written.comment, true.into(), written.changes.clone()));
        let done = match made {
            // Salt has these changes in what the file's own state did.
            None if is_salt => ApplyResult::new(self.correct_comment(), Map::new()),
            None => ApplyResult::new(self.correct_comment(), written.changes),
            Some(made) => {
                self.write_copy(ctx, &made)?;
                let verb = if is_salt && self.kind == X509Kind::Crl { "create" } else { found.verb() };
                let comment = format!("The {} has been {verb}d", self.kind.label());
                ApplyResult::new(comment, found.changes)
            }
        };
        Ok(match below {
            Some(below) => done.with_detail(SUB_STATE_RUN, below),
            None => done,
        })
    }

    /// A certificate that is valid for fewer days than must remain, and a key that is always new, differ again at once.
    fn is_convergent(&self) -> bool {
        match self.kind {
            X509Kind::PrivateKey => !self.args.get("new").is_some_and(Value::is_truthy),
            X509Kind::Csr | X509Kind::Pem => true,
            X509Kind::Certificate | X509Kind::Crl => false,
        }
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
