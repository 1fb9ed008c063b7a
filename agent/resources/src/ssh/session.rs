//! An ssh host in, a conversation with the agent on it out: it is found or installed, started, asked and answered.
//!
//! Law: what the other side says is read up to a limit per answer and within a time; it asks only for files of the states, and
//! nothing it says becomes a path or a command here (held by `a_lying_partner_gets_an_error`, `a_flooding_partner_is_cut_off`).

use std::time::Duration;

use zagent_config::resources::SshHost;
use zagent_config::sanitize;
use zagent_host::exec::{Dialog, DialogError, DialogWait, ExecCommand};
use zagent_host::temp_file::PrivateTempFile;
use zagent_host::{CancelToken, Machine};

use super::binary::AgentBinaries;
use super::bootstrap::{self, ScriptWord};
use super::command::ssh_command;
use super::protocol::{self, AgentReply, AgentRequest, PROTOCOL};

/// How much others may print before and between what is meant for us.
const MAX_NOISE: usize = 256 << 10;
/// How many words the script may say.
const MAX_SCRIPT_WORDS: usize = 8;
/// How much of what `ssh` says is shown.
const MAX_COMPLAINT_SHOWN: usize = 300;

/// Why a conversation failed; it is over then.
#[derive(Debug)]
pub(crate) struct SessionError(pub(crate) String);

/// Limits of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// How long one call or one run may take.
    pub timeout: Duration,
    /// Maximum size of one answer, and of all that a run tells about its states, in bytes.
    pub max_output: usize,
}

/// A conversation with the agent on a host.
#[derive(Debug)]
pub(crate) struct Session {
    dialog: Dialog,
    max_output: usize,
    noise: usize,
}

impl Session {
    /// Connects, and starts the agent there.
    pub(crate) fn open(
        host: &SshHost,
        node: &Machine,
        binaries: &AgentBinaries,
        limits: SessionLimits,
        cancel: Option<&CancelToken>,
    ) -> Result<Self, String> {
        let programs = binaries.all().map_err(str::to_owned)?;
        let secrets = askpass_file(host, node)?;
        let remote = bootstrap::remote_command(host, programs);
        let command: ExecCommand = ssh_command(host, &remote, secrets.as_ref().map(PrivateTempFile::path));
        let dialog = node.start_dialog(&command).map_err(|error| zagent_config::error_chain(&error))?;
        let mut session = Self { dialog, max_output: limits.max_output, noise: 0 };
        session
            .start_agent(host, programs, (limits, cancel))
            .map_err(|error| format!("ssh to {}@{} port {}: {}", host.user, host.host, host.port, error.0))?;
        Ok(session)
    }

    /// Answers the script until the agent speaks.
    fn start_agent(
        &mut self,
        host: &SshHost,
        programs: &[super::binary::AgentBinary],
        (limits, cancel): (SessionLimits, Option<&CancelToken>),
    ) -> Result<(), SessionError> {
        let refused = |words: String| SessionError(format!("the agent cannot run there: {words}"));
        // Connecting has a limit of its own in `ssh`; starting a shell takes time too.
        let mut time = host.timeout.saturating_mul(2);
        let mut wanted = None;
        for _ in 0..MAX_SCRIPT_WORDS {
            let line = self.read_marked(DialogWait::new(time, cancel))?;
            let text = String::from_utf8_lossy(&line).into_owned();
            let wait = DialogWait::new(limits.timeout, cancel);
            match ScriptWord::parse(&text) {
                Some(ScriptWord::Sudo) => {
                    let password = host.password.as_ref().map_or("", |secret| secret.expose());
                    self.send(format!("{password}\n").as_bytes(), wait)?;
                }
                Some(ScriptWord::Need(machine)) => {
                    let binary = bootstrap::binary_for(&machine, programs).map_err(refused)?;
                    self.send(format!("{} {}\n", binary.size, binary.digest).as_bytes(), wait)?;
                    wanted = Some(binary);
                }
                Some(ScriptWord::Send) => {
                    let binary = wanted.ok_or_else(|| SessionError("it asked for nothing known".into()))?;
                    bootstrap::send_binary(&mut self.dialog, binary, wait).map_err(SessionError)?;
                    time = limits.timeout;
                }
                Some(ScriptWord::Refused(words)) => return Err(refused(words)),
                None => return check_ready(&line),
            }
        }
        Err(SessionError("it does not start the agent".into()))
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, request: &AgentRequest, wait: DialogWait<'_>) -> Result<(), SessionError> {
        self.send(&protocol::to_line(request), wait)
    }

    fn send(&mut self, bytes: &[u8], wait: DialogWait<'_>) -> Result<(), SessionError> {
        let sent = self.dialog.send(bytes, wait);
        sent.map_err(|error| self.fault(&error))
    }

    /// Reads one reply.
    pub(crate) fn reply(&mut self, wait: DialogWait<'_>) -> Result<AgentReply, SessionError> {
        let line = self.read_marked(wait)?;
        serde_json::from_slice(&line).map_err(|_| SessionError("its answer is not one of the agent".into()))
    }

    fn read_marked(&mut self, wait: DialogWait<'_>) -> Result<Vec<u8>, SessionError> {
        loop {
            let line = self.dialog.read_line(self.max_output, wait).map_err(|error| self.fault(&error))?;
            if let Some(body) = protocol::after_mark(&line) {
                return Ok(body.to_vec());
            }
            self.noise += line.len() + 1;
            if self.noise > MAX_NOISE {
                let words = "it prints more than is read before the agent speaks: look at its login scripts";
                return Err(SessionError(words.into()));
            }
        }
    }

    /// An error with what `ssh` says about it.
    fn fault(&mut self, error: &DialogError) -> SessionError {
        let words = match error {
            DialogError::Stopped => return SessionError(error.to_string()),
            DialogError::TooLong { .. } => format!("{error}: raise `resources.max_output`"),
            _ => zagent_config::error_chain(error),
        };
        let complaint = explain_complaint(&self.dialog.complaints());
        SessionError(match (error, complaint) {
            (_, None) => words,
            // When a connection has ended, what `ssh` says is the reason; otherwise it may be about anything.
            (DialogError::Ended, Some(complaint)) => complaint,
            (_, Some(complaint)) => format!("{words} ({complaint})"),
        })
    }
}

/// Checks the first line of the agent.
fn check_ready(line: &[u8]) -> Result<(), SessionError> {
    match serde_json::from_slice(line) {
        Ok(AgentReply::Ready { protocol: PROTOCOL }) => Ok(()),
        Ok(AgentReply::Ready { protocol }) => Err(SessionError(format!(
            "its agent speaks version {protocol} and this one {PROTOCOL}: update the programs in `resources.binaries`"
        ))),
        _ => Err(SessionError("its answer is not one of the agent".into())),
    }
}

/// What `ssh` said, in one line; none when it said nothing.
fn explain_complaint(text: &str) -> Option<String> {
    if text.contains("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        let words = "the key of the host has changed: either it was installed again (then remove its old key from \
                     known_hosts), or another machine answers";
        return Some(words.into());
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut words = sanitize(&lines.collect::<Vec<_>>().join("; "));
    if let Some((at, _)) = words.char_indices().nth(MAX_COMPLAINT_SHOWN) {
        words.truncate(at);
        words.push('…');
    }
    if text.contains("Host key verification failed") {
        words.push_str(": compare its key, and add it to known_hosts (`ssh-keyscan` prints it)");
    }
    Some(words).filter(|words| !words.is_empty())
}

/// The secrets of a connection in a file of our own; none when there are none.
fn askpass_file(host: &SshHost, node: &Machine) -> Result<Option<PrivateTempFile>, String> {
    if host.password.is_none() && host.key_passphrase.is_none() {
        return Ok(None);
    }
    let secret =
        |secret: &Option<zagent_config::mask::Secret>| secret.as_ref().map(|s| s.expose().to_owned());
    let content = serde_json::to_vec(&AskpassSecrets {
        logins: login_names(host),
        password: secret(&host.password),
        passphrase: secret(&host.key_passphrase),
    });
    let file = PrivateTempFile::new_secret(node, &content.unwrap_or_default(), ".askpass", None);
    file.map(Some).map_err(|error| format!("cannot write a file for the password of {}: {error}", host.host))
}

/// What an askpass program may answer.
#[derive(serde::Serialize, serde::Deserialize)]
struct AskpassSecrets {
    /// The login as `ssh` names it: `USER@HOST`.
    logins: Vec<String>,
    password: Option<String>,
    passphrase: Option<String>,
}

/// How `ssh` may name the login in its own questions.
fn login_names(host: &SshHost) -> Vec<String> {
    let renamed =
        host.options.iter().filter_map(|option| option.split_once('=')).filter_map(|(name, value)| {
            ["hostname", "hostkeyalias"].contains(&&*name.to_ascii_lowercase()).then_some(value)
        });
    std::iter::once(host.host.as_str()).chain(renamed).map(|name| format!("{}@{name}", host.user)).collect()
}

/// What an askpass program answers to a prompt of `ssh`; none when it must not answer. `content` is its file.
///
/// The passphrase is for a question that `ssh` itself asks about a key. The password is for its question about this login, and for
/// questions of the host that `ssh` marks with the login: the host gets nothing but its own password that way.
#[must_use]
pub fn askpass_answer(prompt: &str, content: &[u8]) -> Option<String> {
    let AskpassSecrets { logins, password, passphrase } = serde_json::from_slice(content).ok()?;
    if prompt.starts_with("Enter passphrase for key ") {
        return passphrase;
    }
    let is_own = |login: &String| {
        prompt.eq_ignore_ascii_case(&format!("{login}'s password: "))
            || (passphrase.is_none()
                && prompt.starts_with(&format!("({login}) "))
                && prompt.contains("assword"))
    };
    password.filter(|_| logins.iter().any(is_own))
}

/// A wait of so long, which a stop signal ends.
pub(crate) fn wait_for(time: Duration, cancel: Option<&CancelToken>) -> DialogWait<'_> {
    DialogWait::new(time, cancel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(script: &str) -> Session {
        let command = ExecCommand::new("/bin/sh").args(["-c", script]);
        let dialog = Machine::this_host().start_dialog(&command).unwrap();
        Session { dialog, max_output: 1000, noise: 0 }
    }

    fn reply(script: &str) -> Result<AgentReply, String> {
        let wait = DialogWait::new(Duration::from_secs(20), None);
        talk(script).reply(wait).map_err(|error| error.0)
    }

    #[test]
    fn a_lying_partner_gets_an_error() {
        for (script, words) in [
            ("echo ZAGENT1 '{\"say\": \"ok\"}'", "not one of the agent"),
            ("echo 'ZAGENT1 {'", "not one of the agent"),
            ("exit 0", "the connection ended"),
            ("echo 'Permission denied (publickey).' >&2; exit 255", "Permission denied (publickey)."),
            ("echo 'Warning: old keys' >&2; echo 'ZAGENT1 '; exec sleep 600", "not one of the agent"),
            ("printf 'a\\033[31mb\\n' >&2; exit 255", "b"),
            ("echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @' >&2; exit 255", "has changed"),
            ("echo 'Host key verification failed.' >&2; exit 255", "ssh-keyscan"),
        ] {
            let error = reply(script).unwrap_err();
            assert!(error.contains(words) && !error.contains('\u{1b}'), "{script}: {error}");
        }
        assert!(
            check_ready(b"{\"say\":\"ready\",\"protocol\":99}").is_err_and(|e| e.0.contains("version 99"))
        );
    }

    #[test]
    fn a_flooding_partner_is_cut_off() {
        let line =
            "while :; do echo 'Welcome to this machine, where everything is logged and kept for ever'; done";
        let error = reply(line).unwrap_err();
        assert!(error.contains("login scripts"), "{error}");
        let endless = reply("echo hello; while :; do printf xxxxxxxxxxxxxxxx; done").unwrap_err();
        assert!(endless.contains("larger than 1000 bytes: raise `resources.max_output`"), "{endless}");
        // What is said beside it is not taken for the reason.
        let both =
            reply("echo 'Warning: old keys' >&2; while :; do printf xxxxxxxxxxxxxxxx; done").unwrap_err();
        assert!(both.contains("resources.max_output` (Warning: old keys)"), "{both}");
        assert!(matches!(
            reply("echo motd; echo 'ZAGENT1 {\"say\":\"forgotten\"}'"),
            Ok(AgentReply::Forgotten)
        ));
    }

    #[test]
    fn an_askpass_program_answers_only_prompts_for_its_secrets() {
        let file = br#"{"logins": ["root@h"], "password": "hunter2", "passphrase": "swordfish"}"#;
        let answer = |prompt: &str| askpass_answer(prompt, file);
        assert_eq!(answer("root@h's password: ").as_deref(), Some("hunter2"));
        assert_eq!(answer("Enter passphrase for key '/root/.ssh/id': ").as_deref(), Some("swordfish"));
        for hostile in [
            "Are you sure you want to continue connecting (yes/no)? ",
            "passphrase: ",
            "Password, or the passphrase of your key: ",
            "(root@h) Enter passphrase for key '/root/.ssh/id': ",
            "(root@h) Password: ",
            "x Enter passphrase for key '/root/.ssh/id': ",
            "root@jump's password: ",
            "other@h's password: ",
            "Enter root@h's new password: ",
            "password",
        ] {
            assert_eq!(answer(hostile), None, "{hostile}");
        }
        // Without a passphrase there is nothing to lose but the password of that very host.
        let plain = br#"{"logins": ["root@h"], "password": "hunter2", "passphrase": null}"#;
        assert_eq!(askpass_answer("(root@h) Password: ", plain).as_deref(), Some("hunter2"));
        assert_eq!(askpass_answer("(root@jump) Password: ", plain), None);
        assert_eq!(askpass_answer("Enter passphrase for key 'x': ", plain), None);
    }
}
