//! `signature`, `source_hash_sig` and what belongs to them: a file in, the word of `gpg` or `openssl` on who signed it out.
//!
//! Law: what has no valid signature is refused; a program that is not there, a key that cannot be read and an answer that is
//! not understood are refusals too (held by `only_signers_that_are_asked_for_count`, `what_is_empty_is_not_a_signer`).
//! Of a file with an inline signature nothing is used that `gpg` did not check (held by
//! `text_around_an_inline_signature_is_never_used`).

use std::path::Path;
use std::time::Duration;

use zagent_config::{Value, error_chain};
use zagent_host::command_options::value_text;
use zagent_host::exec::{ExecCommand, ExitOutcome};
use zagent_host::machine::account_ids::user_by_uid;
use zagent_host::temp_file::{PrivateTempDir, PrivateTempFile};

use super::clearsigned::is_wholly_signed;
use super::gpg_status::GpgAnswer;
use crate::{ChunkArgs, StateCtx, StateError};

/// How long one signature may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a program may say about signatures.
const MAX_ANSWER: usize = 1 << 20;
/// Bytes of a text with an inline signature, as `gpg` takes an option: a small file may hold a text without end.
const MAX_TEXT: &str = "67108864";
/// The name of such a text.
const SIGNED_TEXT: &str = "text";

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

    /// Checks the signature of a content that is used as a whole.
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
        if *origin == SignatureOrigin::Inline && !is_wholly_signed(bytes) {
            return Err(unverified(
                "the file is not one clear-signed message from its first to its last byte, and what stands outside of that \
                 message nobody signed: sign it with `gpg --clearsign`, or name a detached signature in `signature`",
            ));
        }
        self.signed_text(ctx, bytes, origin, fetch).map(drop)
    }

    /// The part of a content that is signed: with a detached signature all of it.
    ///
    /// # Errors
    /// Fails in Salt's words when its signature is not as it must be.
    pub(crate) fn signed_text(
        &self,
        ctx: &StateCtx<'_>,
        bytes: &[u8],
        origin: &SignatureOrigin,
        fetch: FetchSignature<'_>,
    ) -> Result<Vec<u8>, String> {
        let file = keep_temporarily(ctx, bytes)?;
        match origin {
            SignatureOrigin::Inline => self.inline_text(ctx, file.path()),
            SignatureOrigin::Detached(texts) => {
                self.verify_detached(ctx, file.path(), texts, fetch).map(|()| bytes.to_vec())
            }
        }
    }

    /// Checks the signature of a file of the machine that is unpacked.
    ///
    /// # Errors
    /// Fails in Salt's words when it is not as it must be.
    pub(crate) fn verify_archive(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        origin: &SignatureOrigin,
        fetch: FetchSignature<'_>,
    ) -> Result<(), String> {
        match origin {
            SignatureOrigin::Inline => Err(unverified(
                "an archive cannot hold its own signature: name a detached one in `signature`",
            )),
            SignatureOrigin::Detached(texts) => self.verify_detached(ctx, file, texts, fetch),
        }
    }

    fn verify_detached(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        texts: &[String],
        fetch: FetchSignature<'_>,
    ) -> Result<(), String> {
        let signers = match self.backend {
            SignatureBackend::Gpg => self.detached_signers(ctx, file, texts, fetch),
            SignatureBackend::Asymmetric => self.openssl_signers(ctx, file, texts, fetch),
        }?;
        self.judge_signers(&signers).map_err(|why| unverified(&why))
    }

    /// The text of a file with its signature in it, as `gpg` read it.
    fn inline_text(&self, ctx: &StateCtx<'_>, file: &Path) -> Result<Vec<u8>, String> {
        if self.backend == SignatureBackend::Asymmetric {
            return Err("Missing `signature` parameter".into());
        }
        let cannot = |e: std::io::Error| format!("cannot keep a text for the check of its signature: {e}");
        let dir = PrivateTempDir::new(ctx.machine, "zagent-signed-").map_err(cannot)?;
        let text = dir.path().join(SIGNED_TEXT);
        let words = [
            "--max-output".as_ref(),
            MAX_TEXT.as_ref(),
            "--output".as_ref(),
            &*text,
            "--decrypt".as_ref(),
            file,
        ];
        self.judge_signers(&self.ask_gpg(ctx, &words, 1)?).map_err(|why| unverified(&why))?;
        std::fs::read(dir.host_path().join(SIGNED_TEXT)).map_err(cannot)
    }

    /// Whose signatures of a file `gpg` calls good, in all signature files that are there.
    fn detached_signers(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        texts: &[String],
        fetch: FetchSignature<'_>,
    ) -> Result<Vec<String>, String> {
        let (mut signers, mut missing, mut is_one_there) = (Vec::new(), None, false);
        for text in texts {
            match fetch(text) {
                Ok(signature) => {
                    let signature = keep_temporarily(ctx, &signature)?;
                    signers.extend(self.ask_gpg(ctx, &["--verify".as_ref(), signature.path(), file], 0)?);
                    is_one_there = true;
                }
                Err(why) => missing = Some(format!("Detached signature file {text} not found: {why}")),
            }
        }
        missing.filter(|_| !is_one_there).map_or(Ok(signers), Err)
    }

    /// The keys whose signatures are good; none when the files do not hold just so many texts of their own.
    fn ask_gpg(&self, ctx: &StateCtx<'_>, words: &[&Path], texts: usize) -> Result<Vec<String>, String> {
        let mut command = self.gpg_command(ctx);
        command.args.extend(words.iter().map(Into::into));
        let answer = GpgAnswer::parse(&run_program(ctx, command)?.stdout);
        let is_understood = answer.texts == texts && !answer.is_broken;
        Ok(if is_understood { answer.signers } else { Vec::new() })
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
        words.extend([if self.names_signers() { "--no-batch" } else { "--batch" }]);
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

    /// Which of the keys signed a file, as `openssl` says.
    fn openssl_signers(
        &self,
        ctx: &StateCtx<'_>,
        file: &Path,
        texts: &[String],
        fetch: FetchSignature<'_>,
    ) -> Result<Vec<String>, String> {
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
        Ok(signers)
    }
}

fn unverified(why: &str) -> String {
    format!("The file's signature could not be verified: {why}")
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

fn read_origin(args: &ChunkArgs<'_>, key: &str) -> Result<Option<SignatureOrigin>, StateError> {
    match args.get(key) {
        Some(Value::Bool(true)) => Ok(Some(SignatureOrigin::Inline)),
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(_) => {
            let texts = read_texts(args, key)?;
            Ok(Some(SignatureOrigin::Detached(texts)))
        }
    }
}

/// A text or a list of texts. What is there and empty says less than was meant: it is refused.
fn read_texts(args: &ChunkArgs<'_>, key: &str) -> Result<Vec<String>, StateError> {
    let text = |value: &Value| if value.is_null() { String::new() } else { value_text(value) };
    let texts: Vec<String> = match args.chunk.args.get(key) {
        None => return Ok(Vec::new()),
        Some(Value::List(items)) => items.iter().map(text).collect(),
        Some(Value::Map(_)) => {
            return Err(StateError::new(format!("`{key}` must be text or a list of texts, not a mapping")));
        }
        Some(one) => vec![text(one)],
    };
    if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
        return Err(StateError::new(format!(
            "`{key}` is empty, or an item of it is: write what it must be, or remove `{key}`"
        )));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_not_a_signer() {
        for key in ["signed_by_any", "signed_by_all", "signature", "source_hash_sig"] {
            for value in ["\"\"", "[]", "[\"\"]", "[\"A\", \" \"]", "[null]"] {
                let args = match key {
                    "signature" => format!(r#"{{"signature": {value}}}"#),
                    _ => format!(r#"{{"signature": true, "{key}": {value}}}"#),
                };
                let chunk = crate::testing::chunk("file.managed", "/f", &args);
                let refused = Signatures::read(&ChunkArgs::new(&chunk)).unwrap_err().result.comment;
                assert!(refused.starts_with(&format!("`{key}` is empty, or an item of it is")), "{refused}");
            }
        }
        let chunk =
            crate::testing::chunk("file.managed", "/f", r#"{"signature": true, "signed_by_any": null}"#);
        assert!(Signatures::read(&ChunkArgs::new(&chunk)).is_err());
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
