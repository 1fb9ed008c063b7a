//! A directory with keys, made by `ssh-keygen`, and files that say which of them are accepted.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_cache::trust::{AllowedSigners, SignatureError};
use zagent_config::settings::{FirstContact, ManifestRule, RequiredSignatures, TrustSettings};

/// A directory that is removed with this value.
pub(crate) struct TrustSite {
    dir: tempfile::TempDir,
}

impl TrustSite {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// A program in this directory, without the environment of the user who runs the test.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.dir.path());
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("TZ", "UTC").env("GNUPGHOME", self.path("gnupg"));
        command.current_dir(self.dir.path());
        command
    }

    /// A key with that name.
    pub(crate) fn key(&self, name: &str, kind: &[&str]) -> PathBuf {
        let path = self.path(name);
        let mut command = self.command("ssh-keygen");
        command.args(["-q", "-N", "", "-C", "", "-f"]).arg(&path).arg("-t").args(kind);
        run_ok(&mut command);
        path
    }

    /// `ssh-ed25519 AAAA…`.
    pub(crate) fn public(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap().trim().to_owned()
    }

    pub(crate) fn fingerprint(&self, name: &str) -> String {
        let mut command = self.command("ssh-keygen");
        let said = run_ok(command.arg("-lf").arg(self.path(&format!("{name}.pub"))));
        String::from_utf8(said.stdout).unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    /// The output of `ssh-keygen -Y sign` for a message.
    pub(crate) fn signature(&self, key: &str, namespace: &str, message: &[u8]) -> Vec<u8> {
        let mut command = self.command("ssh-keygen");
        command.args(["-q", "-Y", "sign", "-n", namespace, "-f", key]);
        run_with_input(&mut command, message).stdout
    }

    pub(crate) fn trust(&self) -> TrustSettings {
        TrustSettings {
            require: RequiredSignatures::Both,
            allowed_signers: self.path("allowed_signers"),
            revoked_keys: None,
            openpgp_keyring: None,
            threshold: 1,
            manifest: ManifestRule::Optional,
            fast_forward: true,
            repository: None,
            first: FirstContact::default(),
            min_serial: 0,
            unsigned_refs: Vec::new(),
        }
    }

    /// Signers of this text.
    pub(crate) fn allow(&self, text: &str) -> Result<AllowedSigners, SignatureError> {
        self.write("allowed_signers", text);
        AllowedSigners::read_with_zone(&self.trust(), &TimeZone::UTC)
    }

    /// An empty commit; with these flags of `git`, at this time.
    pub(crate) fn commit(&self, flags: &[&str], when: &str) -> Vec<u8> {
        if !self.path(".git").is_dir() {
            run_ok(self.command("git").args(["init", "-q", "-b", "main"]));
        }
        let mut command = self.command("git");
        command.args(["-c", "user.name=Alice", "-c", "user.email=alice@example.org"]).args(flags);
        command.args(["commit", "-q", "--allow-empty", "-m", "subject\n\nwords\n"]);
        command.args(if flags.is_empty() { &[][..] } else { &["-S"][..] });
        run_ok(command.env("GIT_COMMITTER_DATE", when).env("GIT_AUTHOR_DATE", when));
        run_ok(self.command("git").args(["cat-file", "commit", "HEAD"])).stdout
    }

    /// A commit that `git` signs with a key.
    pub(crate) fn signed(&self, key: &str, when: &str) -> Vec<u8> {
        let key = format!("user.signingkey={}", self.path(key).display());
        self.commit(&["-c", "gpg.format=ssh", "-c", &key], when)
    }
}

/// Puts a signature into a commit, as `git` does.
pub(crate) fn embed_signature(commit: &[u8], signature: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(commit.to_vec()).unwrap();
    let signature = String::from_utf8(signature.to_vec()).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    let header = signature.trim_end_matches('\n').replace('\n', "\n ");
    format!("{head}\ngpgsig {header}\n\n{body}").into_bytes()
}

pub(crate) fn run_ok(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs a program with this input, whatever it prints.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that refuses early does not read all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
