//! `signature`, `source_hash_sig` and what belongs to them: a file in, the word of `gpg` or `openssl` on who signed it out.
//!
//! Law: what has no valid signature is refused; a program that is not there, a key that cannot be read and an answer that is
//! not understood are refusals too (held by `only_signers_that_are_asked_for_count`, `gpg_says_who_signed`).

use std::path::Path;
use std::time::Duration;

use zagent_config::{Value, error_chain};
use zagent_host::command_options::value_text;
use zagent_host::exec::{ExecCommand, ExitOutcome};
use zagent_host::machine::account_ids::user_by_uid;
use zagent_host::temp_file::PrivateTempFile;

use crate::{ChunkArgs, StateCtx, StateError};

/// How long one signature may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a program may say about signatures.
const MAX_ANSWER: usize = 1 << 20;
/// Begins the lines of `gpg` that are meant for programs.
const STATUS: &str = "[GNUPG:] ";

/// Where a signature is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SignatureOrigin {
    /// In the file itself.
    Inline,
    /// Beside it: any of these.
    Detached(Vec<String>),
}

/// Who checks signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SignatureBackend {
    #[default]
    Gpg,
    /// Keys without names, with `openssl`.
    Asymmetric,
}

/// Who must have signed what.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    /// The signature of the content.
    pub(crate) content: Option<SignatureOrigin>,
    /// The signature of the file of digests.
    pub(crate) digests: Option<SignatureOrigin>,
    any: Vec<String>,
    all: Vec<String>,
    keyring: Option<String>,
    home: Option<String>,
    backend: SignatureBackend,
}

/// Gets the content of a signature or of a key from where it is.
pub(crate) type FetchSignature<'f> = &'f dyn Fn(&str) -> Result<Vec<u8>, String>;

impl Signatures {
    /// Reads `signature`, `source_hash_sig` and what says whose they must be.
    ///
    /// # Errors
    /// Fails when they cannot be understood, or when signers are named and no signature.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let content = read_origin(args, "signature")?;
        let digests = read_origin(args, "source_hash_sig")?;
        let (any, all) = (read_texts(args, "signed_by_any")?, read_texts(args, "signed_by_all")?);
        if content.is_none() && digests.is_none() {
            return match [("signed_by_any", &any), ("signed_by_all", &all)]
                .iter()
                .find(|(_, l)| !l.is_empty())
            {
                Some((key, _)) => Err(StateError::new(format!(
                    "`{key}` says who must have signed, but no signature is given: add `signature` or `source_hash_sig`"
                ))),
                None => Ok(Self::default()),
            };
        }
        let backend = match args.text("sig_backend")?.as_deref() {
            None | Some("" | "gpg") => SignatureBackend::Gpg,
            Some("asymmetric") => SignatureBackend::Asymmetric,
            Some(other) => {
                return Err(StateError::new(format!(
                    "Cannot verify signatures because the {other} module was not loaded"
                )));
            }
        };
        let (keyring, home) = (args.text("keyring")?, args.text("gnupghome")?);
        Ok(Self { content, digests, any, all, keyring, home, backend })
    }

    /// Checks the signature of a content.
    ///
    /// # Errors
    /// Fails in Salt's words when it is not as it must be.
    pub(crate) fn verify_bytes(
        &self,
        ctx: &StateCtx<'_>,
        bytes: &[u8],
        origin: &SignatureOrigin,
        fetch: FetchSignature<'_>,
    ) -> Result<(), String> {
        let file = keep_temporarily(ctx, bytes)?;
        self.verify_file(ctx, file.path(), origin, fetch)
    }

    /// Checks the signature of a file of the machine.
    ///
    /// # Errors
    /// Fails in Salt's words when it is not as it must be.
    pub(crate) fn verify_file(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        origin: &SignatureOrigin,
        fetch: FetchSignature<'_>,
    ) -> Result<(), String> {
        let said = match self.backend {
            SignatureBackend::Gpg => self.verify_by_gpg(ctx, file, origin, fetch),
            SignatureBackend::Asymmetric => self.verify_by_openssl(ctx, file, origin, fetch),
        }?;
        said.map_err(|why| format!("The file's signature could not be verified: {why}"))
    }

    fn verify_by_gpg(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        origin: &SignatureOrigin,
        fetch: FetchSignature<'_>,
    ) -> Result<Result<(), String>, String> {
        let detached = match origin {
            SignatureOrigin::Inline => None,
            SignatureOrigin::Detached(texts) => {
                let text = texts.first().map_or("", String::as_str);
                let not_found = |why: String| format!("Detached signature file {text} not found: {why}");
                Some(keep_temporarily(ctx, &fetch(text).map_err(not_found)?)?)
            }
        };
        let mut command = self.gpg_command(ctx);
        command.args.extend(detached.as_ref().map(|file| file.path().into()));
        command.args.push(file.into());
        Ok(self.judge_signers(&parse_signers(&run_program(ctx, command)?.stdout)))
    }

    fn gpg_command(&self, ctx: &StateCtx<'_>) -> ExecCommand {
        let mut words = vec!["--status-fd", "1", "--no-tty"];
        if let Some(home) = &self.home {
            words.extend(["--homedir", home]);
        }
        if let Some(keyring) = &self.keyring {
            words.extend(["--no-default-keyring", "--keyring", keyring]);
        }
        // Alone it stops at the first signature that is not valid.
        words.extend(if self.names_signers() { ["--no-batch", "--verify"] } else { ["--batch", "--verify"] });
        let mut command = ExecCommand::new("gpg").args(words);
        let me = rustix::process::geteuid().as_raw();
        command.env.extend(user_by_uid(ctx.machine, me).map(|user| ("HOME".into(), user.home.into())));
        command
    }

    const fn names_signers(&self) -> bool {
        !self.any.is_empty() || !self.all.is_empty()
    }

    /// Whether the keys that signed are those that must have.
    fn judge_signers(&self, signers: &[String]) -> Result<(), String> {
        let has_signed = |key: &String| signers.contains(key);
        if !self.names_signers() && signers.is_empty() {
            return Err("The signature could not be verified.".into());
        }
        if !self.any.is_empty() && !self.any.iter().any(has_signed) {
            return Err("None of the public keys listed in signed_by_any provided a valid signature".into());
        }
        match self.all.iter().find(|key| !has_signed(key)) {
            Some(key) => Err(format!(
                "Public key {key} has not provided a valid signature, but was listed in signed_by_all"
            )),
            None => Ok(()),
        }
    }

    fn verify_by_openssl(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        origin: &SignatureOrigin,
        fetch: FetchSignature<'_>,
    ) -> Result<Result<(), String>, String> {
        let SignatureOrigin::Detached(texts) = origin else {
            return Err("Missing `signature` parameter".into());
        };
        if !self.names_signers() {
            return Err("Missing pubkey(s) to check against".into());
        }
        let found = texts.iter().filter_map(|text| fetch(text).ok());
        let found = found.map(|bytes| keep_temporarily(ctx, &bytes)).collect::<Result<Vec<_>, _>>()?;
        if found.is_empty() {
            return Err("Unable to locate any of the provided signatures".into());
        }
        let mut signers = Vec::new();
        for key in self.any.iter().chain(&self.all) {
            if has_signed_with(ctx, file, key, &found, fetch)? {
                signers.push(key.clone());
            }
        }
        Ok(self.judge_signers(&signers))
    }
}

/// Whether one of the signatures is that of a key, which is written out or a file.
fn has_signed_with(
    ctx: &StateCtx<'_>,
    file: &Path,
    key: &str,
    signatures: &[PrivateTempFile],
    fetch: FetchSignature<'_>,
) -> Result<bool, String> {
    let pem = match key.contains("-----BEGIN") {
        true => key.as_bytes().to_vec(),
        false => match fetch(key) {
            Ok(pem) => pem,
            Err(_) => return Ok(false),
        },
    };
    let pem = keep_temporarily(ctx, &pem)?;
    for signature in signatures {
        let (key, signature) = (pem.path(), signature.path());
        let digest = ["-verify".as_ref(), key, "-signature".as_ref(), signature, file];
        let whole = ["-inkey".as_ref(), key, "-in".as_ref(), file, "-sigfile".as_ref(), signature];
        // A key is of one kind: RSA, an elliptic curve, or Edwards.
        let ways: [(&[&str], &[&Path]); 3] = [
            (&["dgst", "-sha256", "-sigopt", "rsa_padding_mode:pss"], &digest),
            (&["dgst", "-sha256"], &digest),
            (&["pkeyutl", "-verify", "-pubin", "-rawin"], &whole),
        ];
        for (words, files) in ways {
            let words = words.iter().map(Path::new).chain(files.iter().copied());
            if run_program(ctx, ExecCommand::new("openssl").args(words))?.success() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn run_program(ctx: &StateCtx<'_>, mut command: ExecCommand) -> Result<ExitOutcome, String> {
    let program = command.program.to_string_lossy().into_owned();
    if ctx.machine.which(&program).is_none() {
        return Err(format!(
            "Cannot verify signatures: the program `{program}` is not installed on this host"
        ));
    }
    command.timeout = Some(TIMEOUT);
    command.output_cap = MAX_ANSWER;
    command.cancel = Some(std::sync::Arc::clone(ctx.cancel));
    ctx.machine.run(&command).map_err(|e| error_chain(&e))
}

fn keep_temporarily(ctx: &StateCtx<'_>, bytes: &[u8]) -> Result<PrivateTempFile, String> {
    let cannot = |e: std::io::Error| format!("cannot keep a file for the check of its signature: {e}");
    PrivateTempFile::new_secret(ctx.machine, bytes, "", None).map_err(cannot)
}

/// The fingerprints of the keys whose signatures `gpg` calls valid.
fn parse_signers(said: &[u8]) -> Vec<String> {
    let said = String::from_utf8_lossy(said);
    let (mut valid, mut signers) = (None, Vec::new());
    for line in said.lines().filter_map(|line| line.strip_prefix(STATUS)) {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("NEWSIG") => valid = None,
            // The last word is that of the key which owns the one that signed.
            Some("VALIDSIG") => valid = words.next_back().map(str::to_owned),
            // Only after this has the key been looked at, too.
            Some(word) if word.starts_with("TRUST_") => signers.extend(valid.take()),
            _ => {}
        }
    }
    signers
}

fn read_origin(args: &ChunkArgs<'_>, key: &str) -> Result<Option<SignatureOrigin>, StateError> {
    match args.get(key) {
        Some(Value::Bool(true)) => Ok(Some(SignatureOrigin::Inline)),
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(_) => {
            let texts = read_texts(args, key)?;
            Ok((!texts.is_empty()).then_some(SignatureOrigin::Detached(texts)))
        }
    }
}

/// A text or a list of texts; what is empty is not there.
fn read_texts(args: &ChunkArgs<'_>, key: &str) -> Result<Vec<String>, StateError> {
    let texts: Vec<String> = match args.get(key) {
        None => Vec::new(),
        Some(Value::List(items)) => items.iter().map(value_text).collect(),
        Some(Value::Map(_)) => {
            return Err(StateError::new(format!("`{key}` must be text or a list of texts, not a mapping")));
        }
        Some(one) => vec![value_text(one)],
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpg_says_who_signed() {
        let said = b"[GNUPG:] NEWSIG\n[GNUPG:] BADSIG AA Eve\n[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG BB Ann\n\
            [GNUPG:] VALIDSIG SUB 2024-01-01 1 0 4 0 22 8 00 MAIN\n[GNUPG:] TRUST_UNDEFINED 0 pgp\n\
            [GNUPG:] NEWSIG\n[GNUPG:] EXPKEYSIG CC Old\n[GNUPG:] VALIDSIG X Y\n";
        assert_eq!(parse_signers(said), ["MAIN"]);
        assert_eq!(parse_signers(b"VALIDSIG A B\nTRUST_FULLY\n"), [""; 0]);
    }

    #[test]
    fn only_signers_that_are_asked_for_count() {
        let texts = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let table = [
            (&[][..], &[][..], &[][..], "Err(\"The signature could not be verified.\")"),
            (&["A"][..], &[][..], &[][..], "Ok(())"),
            (&["A"][..], &["B", "A"][..], &[][..], "Ok(())"),
            (
                &["A"][..],
                &["B"][..],
                &["A"][..],
                "Err(\"None of the public keys listed in signed_by_any provided a valid signature\")",
            ),
            (
                &["A"][..],
                &[][..],
                &["A", "B"][..],
                "Err(\"Public key B has not provided a valid signature, but was listed in signed_by_all\")",
            ),
            (&["A", "B"][..], &["A"][..], &["A", "B"][..], "Ok(())"),
        ];
        for (signers, any, all, expected) in table {
            let signatures = Signatures { any: texts(any), all: texts(all), ..Signatures::default() };
            assert_eq!(format!("{:?}", signatures.judge_signers(&texts(signers))), expected);
        }
    }
}
