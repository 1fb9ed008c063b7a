//! The program `git`, as states and execution functions use it: who runs it and with which keys in, what it said out.
//!
//! Law: a password is only in the environment of the program, never in its arguments or output. Nothing waits for a
//! person to type, not even ssh, which would ask at the terminal whether a host key is right (held by
//! `ssh_never_asks`, `a_login_is_cut_off_an_address`).

#![expect(clippy::disallowed_methods, reason = "git gets the environment that it would have from a shell")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zagent_config::mask::{Secret, redact_logins};
use zagent_config::redirect::UrlOrigin;
use zagent_config::{FunctionError, SecretMask};

use super::exec::ExecCommand;
use super::temp_file::PrivateTempFile;
use super::{CommandOutput, Tools};
use crate::command_options::RunAsUser;
use crate::machine::account_ids::user_by_uid;
use zagent_config::sorted::CollectSorted;

/// How long a clone or fetch may take.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(3600);
/// What gives the password to git when it asks for one.
const ASKPASS_HELPER: &str =
    r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$GIT_LOGIN" "$GIT_PASSWORD"; }; f"#;

/// Where git finds which ssh to use.
const SSH_COMMAND: &str = "GIT_SSH_COMMAND";
/// ssh, which fails where it would ask, and connects only to hosts whose key is known.
const SSH_STRICT: &str = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes";
/// The same, and it accepts and keeps the key of a host that is new; a changed key is refused.
const SSH_ACCEPT_NEW: &str = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new";
/// What ssh says about a host whose key is unknown or has changed.
const HOST_KEY_FAILED: &str = "Host key verification failed";
/// What to do then.
const HOST_KEY_HINT: &str = "add the key of the host with the state ssh_known_hosts.present, or with \
    `ssh-keyscan HOST >> ~/.ssh/known_hosts` as the user that runs Git after you compared its fingerprint; to accept keys of new hosts \
    unseen, set `accept_new_host_key: True`";
/// Keeps git, and any ssh that is not ours to choose, from asking at the terminal.
const NO_PROMPT_ENV: [(&str, &str); 3] =
    [("GIT_TERMINAL_PROMPT", "0"), ("SSH_ASKPASS", "false"), ("SSH_ASKPASS_REQUIRE", "force")];
/// Verbs that reach another host.
const REMOTE_COMMANDS: [&str; 7] = ["clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"];

/// The program with all that it needs to reach a repository.
#[derive(Clone, Debug)]
pub struct GitCli<'a> {
    tools: Tools<'a>,
    user: Option<RunAsUser>,
    env: Vec<(OsString, OsString)>,
    secret: Option<Secret>,
    /// Which ssh is used, unless another one is configured.
    ssh: &'static str,
    /// Keys that are files only as long as somebody holds them.
    temp_files: Vec<Arc<PrivateTempFile>>,
}

impl<'a> GitCli<'a> {
    /// The program as this user, or as who runs the agent.
    pub fn new(tools: Tools<'a>, user: Option<&str>) -> Result<Self, FunctionError> {
        let me = rustix::process::geteuid().as_raw();
        let own = || user_by_uid(tools.machine, me).map(|user| user.home.into());
        let user = user.map(|name| RunAsUser::find(tools.machine, name)).transpose();
        let user = user.map_err(FunctionError::failed)?;
        let home = match &user {
            Some(account) => Some(account.home.clone()),
            None => std::env::var_os("HOME").map(Into::into).or_else(own),
        };
        let mut env: Vec<(OsString, OsString)> =
            NO_PROMPT_ENV.iter().map(|(name, value)| (name.into(), value.into())).collect();
        env.extend(home.map(|home| ("HOME".into(), home.into_os_string())));
        Ok(Self { tools, user, env, secret: None, ssh: SSH_STRICT, temp_files: Vec::new() })
    }

    /// Who runs the program; nothing for the agent itself.
    pub fn uid(&self) -> Option<u32> {
        self.user.as_ref().map(|account| account.ids.uid)
    }

    /// The same, and these files stay as long as it does.
    pub fn with_temp_files(mut self, files: Vec<PrivateTempFile>) -> Self {
        self.temp_files.extend(files.into_iter().map(Arc::new));
        self
    }

    /// The same, and ssh accepts the key of a host that is new.
    pub fn with_new_host_keys(mut self, accepts: bool) -> Self {
        self.ssh = if accepts { SSH_ACCEPT_NEW } else { SSH_STRICT };
        self
    }

    /// The same with private keys for ssh.
    pub fn with_keys(mut self, keys: &[String]) -> Self {
        if !keys.is_empty() {
            let quoted = keys.iter().map(|k| format!(" -i '{}'", k.replace('\'', r"'\''")));
            let line = self.ssh.to_owned() + " -o IdentitiesOnly=yes" + &quoted.collect::<String>();
            self.env.push((SSH_COMMAND.into(), line.into()));
        }
        self
    }

    /// The same with a name and password for the host of this address, and for no other.
    pub fn with_login(
        mut self,
        url: &str,
        user: Option<&str>,
        password: Option<&str>,
    ) -> Result<Self, FunctionError> {
        let Some(user) = user else {
            return if password.is_some() {
                Err(FunctionError::failed("An https_user is required with https_pass"))
            } else {
                Ok(self)
            };
        };
        if !UrlOrigin::parse(url).is_some_and(|origin| origin.is_encrypted()) {
            return Err(FunctionError::failed("Basic Auth only supported for HTTPS"));
        }
        self.set_login(url, user, password.unwrap_or_default());
        Ok(self)
    }

    /// The same with the name and password that stood in this address.
    pub fn with_url_login(mut self, url: &str, login: Option<&(String, String)>) -> Self {
        if let Some((user, password)) = login {
            self.set_login(url, user, password);
        }
        self
    }

    fn set_login(&mut self, url: &str, user: &str, password: &str) {
        let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
        let host = rest.split('/').next().unwrap_or(rest).rsplit('@').next().unwrap_or(rest);
        let given: [(&str, String); 5] = [
            ("GIT_CONFIG_COUNT", "1".into()),
            ("GIT_CONFIG_KEY_0", format!("credential.{scheme}://{host}.helper")),
            ("GIT_CONFIG_VALUE_0", ASKPASS_HELPER.into()),
            ("GIT_LOGIN", user.into()),
            ("GIT_PASSWORD", password.into()),
        ];
        self.env.extend(given.into_iter().map(|(name, value)| (name.into(), value.into())));
        self.secret = Some(Secret::from(password)).filter(|p| !p.is_empty());
    }

    /// Runs it in a directory, or nowhere in particular; when it fails that is an answer.
    pub fn run<A: AsRef<str>>(&self, dir: Option<&Path>, args: &[A]) -> Result<CommandOutput, FunctionError> {
        let mut words: Vec<String> = Vec::new();
        if let Some(dir) = dir {
            words.extend(["-C".into(), dir.display().to_string()]);
        }
        words.extend(args.iter().map(|a| a.as_ref().to_owned()));
        let mut command = self.command(&words);
        if args.first().is_some_and(|verb| REMOTE_COMMANDS.contains(&verb.as_ref()))
            && !self.has_ssh_command(dir)?
        {
            command.env.push((SSH_COMMAND.into(), self.ssh.into()));
        }
        let mut output = self.tools.run(command)?;
        if let Some(secret) = &self.secret {
            let mask = SecretMask::new(std::slice::from_ref(secret));
            (output.stdout, output.stderr) =
                (mask.mask_string(&output.stdout), mask.mask_string(&output.stderr));
        }
        Ok(output)
    }

    fn command(&self, words: &[String]) -> ExecCommand {
        let mut command = Tools::command("git", words, TRANSFER_TIMEOUT);
        command.env.extend(self.env.iter().cloned());
        command.user = self.user.as_ref().map(|account| account.ids.clone());
        command
    }

    /// True when somebody said which ssh to use: the state, or the configuration of git.
    fn has_ssh_command(&self, dir: Option<&Path>) -> Result<bool, FunctionError> {
        if self.env.iter().any(|(name, _)| name == SSH_COMMAND || name == "GIT_SSH") {
            return Ok(true);
        }
        let place = dir.map(|dir| dir.display().to_string()).unwrap_or_else(|| "/".to_owned());
        let words = ["-C", &place, "config", "--get", "core.sshCommand"].map(str::to_owned);
        Ok(self.tools.run(self.command(&words))?.is_success())
    }

    /// The same; what it printed when it went well, or nothing.
    pub fn output_line<A: AsRef<str>>(
        &self,
        dir: &Path,
        args: &[A],
    ) -> Result<Option<String>, FunctionError> {
        let output = self.run(Some(dir), args)?;
        Ok(output.is_success().then(|| output.stdout.trim().to_owned()))
    }

    /// The same; what it printed, or a refusal with what it complained about.
    pub fn run_checked<A: AsRef<str>>(
        &self,
        dir: Option<&Path>,
        args: &[A],
    ) -> Result<String, FunctionError> {
        let output = self.run(dir, args)?;
        if output.is_success() {
            Ok(output.stdout)
        } else {
            let said = redact_logins(output.message());
            let is_host_key = output.stderr.contains(HOST_KEY_FAILED);
            Err(FunctionError::failed(if is_host_key { format!("{said}; {HOST_KEY_HINT}") } else { said }))
        }
    }

    /// What a remote repository has: refs and their commits.
    pub fn remote_refs(
        &self,
        dir: Option<&Path>,
        url: &str,
        flags: &[&str],
    ) -> Result<BTreeMap<String, String>, FunctionError> {
        let args: Vec<&str> =
            ["ls-remote"].into_iter().chain(flags.iter().copied()).chain(["--", url]).collect();
        Ok(parse_refs(&self.run_checked(dir, &args)?))
    }

    /// Lines that a command prints.
    pub fn output_lines<A: AsRef<str>>(&self, dir: &Path, args: &[A]) -> Result<Vec<String>, FunctionError> {
        Ok(self.run_checked(Some(dir), args)?.lines().map(str::to_owned).filter(|l| !l.is_empty()).collect())
    }

    /// The commit at the head; nothing when there is none yet.
    pub fn head_commit(&self, dir: &Path) -> Result<Option<String>, FunctionError> {
        self.output_line(dir, &["rev-parse", "--verify", "--quiet", "HEAD"])
    }

    /// The branch at the head; nothing when it stands apart from any.
    pub fn head_branch(&self, dir: &Path) -> Result<Option<String>, FunctionError> {
        self.output_line(dir, &["symbolic-ref", "--quiet", "--short", "HEAD"])
    }

    /// The names of branches or tags.
    pub fn list_refs(&self, dir: &Path, below: &str) -> Result<Vec<String>, FunctionError> {
        let names = self.output_lines(dir, &["for-each-ref", "--format=%(refname)", below])?;
        Ok(names.iter().filter_map(|n| n.strip_prefix(below)).map(str::to_owned).collect())
    }

    /// Where a remote is fetched from.
    pub fn remote_url(&self, dir: &Path, remote: &str) -> Result<Option<String>, FunctionError> {
        self.output_line(dir, &["config", "--get", &format!("remote.{remote}.url")])
    }

    /// The values of a key of the configuration; `scope` is `--local` in a directory, or `--global`.
    pub fn config_values(&self, dir: Option<&Path>, key: &str) -> Result<Vec<String>, FunctionError> {
        let output = self.run(dir, &["config", config_scope(dir), "--null", "--get-all", key])?;
        match output.code {
            0 => Ok(output.stdout.split_terminator('\0').map(str::to_owned).collect()),
            1 => Ok(Vec::new()),
            _ => Err(FunctionError::failed(output.message().to_owned())),
        }
    }

    /// Gives a key of the configuration these values and no others.
    pub fn set_config(&self, dir: Option<&Path>, key: &str, values: &[String]) -> Result<(), FunctionError> {
        let scope = config_scope(dir);
        if let [only] = values {
            self.run_checked(dir, &["config", scope, "--replace-all", key, only])?;
            return Ok(());
        }
        if !self.config_values(dir, key)?.is_empty() {
            self.run_checked(dir, &["config", scope, "--unset-all", key])?;
        }
        for value in values {
            self.run_checked(dir, &["config", scope, "--add", key, value])?;
        }
        Ok(())
    }
}

/// Where a key of the configuration stands: in the repository, or with the user.
const fn config_scope(dir: Option<&Path>) -> &'static str {
    if dir.is_some() { "--local" } else { "--global" }
}

/// What `git ls-remote` prints, by name.
pub fn parse_refs(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|l| l.split_once('\t'))
        .map(|(sha, name)| (name.to_owned(), sha.to_owned()))
        .into_map()
}

/// An address of the web without the name and password in it, and these.
pub fn split_login(url: &str) -> (String, Option<(String, String)>) {
    let whole = || (url.to_owned(), None);
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| is_web(scheme)) else {
        return whole();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let Some(at) = rest[..end].rfind('@') else { return whole() };
    let Some((user, password)) = rest[..at].split_once(':') else { return whole() };
    (format!("{scheme}://{}", &rest[at + 1..]), Some((percent_decode(user), percent_decode(password))))
}

fn is_web(scheme: &str) -> bool {
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// A text without `%40` and the like.
fn percent_decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        let digit = |at: usize| more.get(at).and_then(|b| char::from(*b).to_digit(16));
        let code = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    /// Programs that note how they were called, and a home without any configuration.
    fn git<'a>(machine: &'a Machine, home: &Path) -> GitCli<'a> {
        let bin = home.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for name in ["ssh", "own"] {
            let text = format!(
                "#!/bin/sh\necho \"{name} $SSH_ASKPASS_REQUIRE $*\" >> {}/called\nexit 255\n",
                home.display()
            );
            let file = bin.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        }
        let mut git = GitCli::new(Tools::new(machine), None).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        git.env.retain(|(name, _)| name != "HOME");
        git.env.extend([("HOME".into(), home.into()), ("PATH".into(), path.into())]);
        git
    }

    fn called(home: &Path) -> String {
        let file = home.join("called");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        text
    }

    #[test]
    fn ssh_never_asks() {
        let (machine, home) = (Machine::this_host(), tempfile::tempdir().unwrap());
        let git = git(&machine, home.path());
        let reach = |git: &GitCli<'_>| {
            let output = git.run(None, &["ls-remote", "--", "ssh://h.invalid/x"]).unwrap();
            assert!(!output.is_success());
            called(home.path())
        };
        let plain = reach(&git);
        assert!(plain.starts_with("ssh force -o BatchMode=yes -o StrictHostKeyChecking=yes"), "{plain}");
        let new = reach(&git.clone().with_new_host_keys(true).with_keys(&["/k".into()]));
        assert!(new.contains("StrictHostKeyChecking=accept-new") && !new.contains("Checking=yes"), "{new}");
        let keyed = reach(&git.clone().with_keys(&["/k".into()]));
        assert!(keyed.contains("-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -i /k"), "{keyed}");
        // Who chose another ssh keeps it.
        std::fs::write(home.path().join(".gitconfig"), "[core]\n\tsshCommand = own -x\n").unwrap();
        let own = reach(&git);
        assert!(own.starts_with("own force -x"), "{own}");
    }

    #[test]
    fn an_unknown_host_key_says_what_to_do() {
        let (machine, home) = (Machine::this_host(), tempfile::tempdir().unwrap());
        let git = git(&machine, home.path());
        let failing = "#!/bin/sh\necho 'Host key verification failed.' >&2\nexit 255\n";
        std::fs::write(home.path().join("bin/ssh"), failing).unwrap();
        let error =
            format!("{:?}", git.run_checked(None, &["ls-remote", "--", "ssh://h.invalid/x"]).unwrap_err());
        assert!(
            error.contains("ssh_known_hosts.present") && error.contains("accept_new_host_key"),
            "{error}"
        );
    }

    #[test]
    fn a_login_is_cut_off_an_address() {
        let login = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        for (url, want, cut) in [
            ("https://u:p%40%3a@h:8/x", "https://h:8/x", login("u", "p@:")),
            ("http://u:p@h", "http://h", login("u", "p")),
            ("https://u@h/x", "https://u@h/x", None),
            ("https://h/x:y@z", "https://h/x:y@z", None),
            ("ssh://git:p@h/x", "ssh://git:p@h/x", None),
            ("git@h:x", "git@h:x", None),
            ("https://u:100%@h/x", "https://h/x", login("u", "100%")),
            ("HTTPS://u:p@h/x", "HTTPS://h/x", login("u", "p")),
        ] {
            assert_eq!(split_login(url), (want.to_owned(), cut), "{url}");
        }
    }

    #[test]
    fn refs_by_name() {
        let found = parse_refs("aa\tHEAD\naa\trefs/heads/main\nbb\trefs/tags/v1^{}\nwarning: x\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found["refs/tags/v1^{}"], "bb");
    }
}
