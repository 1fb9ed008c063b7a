//! Requests of the managing node in, answers out: the agent on an ssh resource, for as long as one connection lasts.
//!
//! Law: it does what the other end of its standard input asks and nothing by itself; when that end is gone, a run is stopped
//! (held by `a_run_ends_with_its_connection`).

mod files;
mod run;

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zagent_compiler::{CallError, FunctionCall, TemplateHost};
use zagent_config::Map;
use zagent_host::facts::{FactSources, Facts, Grains};
use zagent_host::{CancelToken, Machine};
use zagent_resources::ssh::package::RunPackage;
use zagent_resources::ssh::protocol::{self, AgentReply, AgentRequest, FailureKind, PROTOCOL};
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};
use zagent_states::template_host::recorded_facts::{RecordedFacts, parse_facts};

use crate::error::AgentError;

/// Where its own files are, below the directory of its program.
const STATE_DIR: &str = "state";
/// Name of a program that was sent, before its digest.
const PROGRAM_PREFIX: &str = "zagent-";

/// The two ends of the conversation, and where the agent keeps its files.
pub struct AgentStreams {
    /// What the managing node says.
    pub input: Box<dyn BufRead + Send>,
    /// What it hears.
    pub output: Box<dyn Write + Send>,
    /// The directory of the agent.
    pub dir: PathBuf,
    /// The machine that it works on.
    pub machine: Machine,
}

/// The directory of the agent of this process: that of its program.
///
/// # Errors
/// Fails when the program has none.
pub fn agent_dir() -> Result<PathBuf, AgentError> {
    let fail = |error| AgentError::failed(format!("cannot find the program of this process: {error}"));
    let program = std::env::current_exe().map_err(fail)?;
    let dir = program.parent().map(Path::to_owned).unwrap_or_default();
    // Any other program lies in a directory that is not ours, such as `/usr/bin`.
    let is_sent = program.file_name().is_some_and(|name| is_sent_program(&name.to_string_lossy()));
    let is_own = is_sent
        && std::fs::metadata(&dir).is_ok_and(|meta| {
            let user = rustix::process::geteuid();
            user.is_root() || std::os::unix::fs::MetadataExt::uid(&meta) == user.as_raw()
        });
    // A user that `sudo` changed to has no right to write beside the program.
    if is_own {
        return Ok(dir);
    }
    make_private_dir(Path::new(&format!("/var/tmp/zagent-{}", rustix::process::geteuid().as_raw())))
}

/// True for the name of a program that was sent: `zagent-` and its digest.
fn is_sent_program(name: &str) -> bool {
    name.strip_prefix(PROGRAM_PREFIX).is_some_and(files::is_digest)
}

/// Makes a directory in one where everybody may make some; one that is there must be ours alone.
fn make_private_dir(path: &Path) -> Result<PathBuf, AgentError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let fail = |error: std::io::Error| {
        AgentError::failed(format!("cannot make the directory `{}`: {error}", path.display()))
    };
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(error)),
        _ => {}
    }
    let meta = std::fs::symlink_metadata(path).map_err(fail)?;
    let is_ours =
        meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
    if !is_ours {
        let message = format!(
            "`{}` is no directory of this user alone: look at who made it, and remove it",
            path.display()
        );
        return Err(AgentError::failed(message));
    }
    Ok(path.to_owned())
}

/// The BLAKE3 digest of this program: a copy of it says so before it is used.
///
/// # Errors
/// Fails when it cannot be read.
pub fn own_digest() -> Result<String, AgentError> {
    let read = || Ok(blake3::Hasher::new().update_reader(std::fs::File::open("/proc/self/exe")?)?.finalize());
    let digest: std::io::Result<blake3::Hash> = read();
    let digest =
        digest.map_err(|e| AgentError::failed(format!("cannot read the program of this process: {e}")))?;
    Ok(digest.to_hex().to_string())
}

/// Answers until the input ends.
pub fn answer_requests(streams: AgentStreams) {
    let AgentStreams { input, output, dir, machine } = streams;
    let cancel = Arc::new(CancelToken::new());
    let requests = read_requests(input, &cancel);
    let peer = Arc::new(AgentPeer { output: Mutex::new(output), requests: Mutex::new(requests) });
    peer.say(&AgentReply::Ready { protocol: PROTOCOL });
    let agent = ResourceAgent { peer, dir, machine, cancel };
    while let Some(request) = agent.peer.hear() {
        let is_last = matches!(request, AgentRequest::Forget);
        agent.peer.say(&agent.answer(request));
        if is_last {
            return;
        }
    }
}

/// Reads requests on a thread of their own, so that the end of the input stops a run.
fn read_requests(mut input: Box<dyn BufRead + Send>, cancel: &Arc<CancelToken>) -> Receiver<AgentRequest> {
    let (sender, requests) = mpsc::channel();
    let cancel = Arc::clone(cancel);
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            // Anything else is not meant for the agent, such as a password that `sudo` did not want.
            let request = protocol::after_mark(text).and_then(|text| serde_json::from_slice(text).ok());
            if request.is_some_and(|request| sender.send(request).is_err()) {
                break;
            }
            line.clear();
        }
        cancel.cancel();
    });
    requests
}

/// The managing node, as the agent talks to it.
pub(crate) struct AgentPeer {
    output: Mutex<Box<dyn Write + Send>>,
    requests: Mutex<Receiver<AgentRequest>>,
}

impl AgentPeer {
    /// Says something; when nobody listens, the input ends soon.
    pub(crate) fn say(&self, reply: &AgentReply) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output.write_all(&protocol::to_line(reply)).and_then(|()| output.flush());
    }

    fn hear(&self) -> Option<AgentRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }

    /// Says something, and gives what is answered; the answers to two questions are never mixed up.
    pub(crate) fn consult(&self, question: &AgentReply) -> Option<AgentRequest> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        self.say(question);
        requests.recv().ok()
    }
}

/// The agent on a resource.
pub(crate) struct ResourceAgent {
    pub(crate) peer: Arc<AgentPeer>,
    pub(crate) dir: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) cancel: Arc<CancelToken>,
}

impl ResourceAgent {
    fn answer(&self, request: AgentRequest) -> AgentReply {
        match request {
            AgentRequest::Grains { id } => AgentReply::Grains { grains: self.grains(&id).into() },
            AgentRequest::Functions => {
                let names = self.host("", Map::new(), self.machine.clone()).functions();
                AgentReply::Functions { names: names.into_iter().map(str::to_owned).collect() }
            }
            AgentRequest::Call { function, args, kwargs, mutating, commands, program_timeout } => {
                let kwargs = kwargs.as_map().cloned().unwrap_or_default();
                let call = FunctionCall { function, args, kwargs };
                let time = Duration::from_secs(program_timeout);
                self.call(&call, mutating, self.machine.clone().allow_commands(commands).timeout(time))
            }
            AgentRequest::Run { package } => self.run(&package).unwrap_or_else(failed),
            AgentRequest::Forget => self.forget(),
            AgentRequest::Files { .. } | AgentRequest::File { .. } => {
                failed("files were sent that nobody asked for".into())
            }
        }
    }

    fn grains(&self, id: &str) -> Map {
        let facts = Facts::new(FactSources::new(&self.machine, id, parse_facts));
        facts.all().as_map().cloned().unwrap_or_default()
    }

    pub(crate) fn host(&self, id: &str, grains: Map, machine: Machine) -> LiveHost {
        LiveHost::new(Arc::new(RecordedFacts::new(grains)), LiveHostSettings::new(id, machine))
    }

    fn call(&self, call: &FunctionCall, mutating: bool, machine: Machine) -> AgentReply {
        let host = self.host("", Map::new(), machine);
        let answer = if mutating { host.call_mutating(call) } else { host.call(call) };
        match answer {
            Ok(value) => AgentReply::Value { value },
            Err(error) => {
                let (kind, message) = match error {
                    CallError::Unknown => (FailureKind::Unknown, String::new()),
                    CallError::Forbidden(words) => (FailureKind::Forbidden, words),
                    CallError::Failed(words) => (FailureKind::Failed, words),
                    CallError::Unavailable { message, .. } => (FailureKind::Failed, message),
                };
                AgentReply::Failed { kind, message }
            }
        }
    }

    fn run(&self, package: &str) -> Result<AgentReply, String> {
        let bytes =
            BASE64_STANDARD.decode(package).map_err(|error| format!("the run is damaged: {error}"))?;
        let package = RunPackage::from_bytes(&bytes).ok_or("the run is damaged")?;
        let canceled = run::run_package(self, package)?;
        Ok(AgentReply::Ended { canceled })
    }

    /// The directory of locks and journals of one resource: a host can be declared under two ids.
    pub(crate) fn state_dir(&self, id: &str) -> PathBuf {
        self.dir.join(STATE_DIR).join(id.replace('/', "_"))
    }

    /// Removes the agent and all its files; a directory that holds something else stays.
    fn forget(&self) -> AgentReply {
        let is_gone = |result: std::io::Result<()>| match result {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let remove = || {
            for name in [STATE_DIR, files::FILES_DIR] {
                is_gone(std::fs::remove_dir_all(self.dir.join(name)))?;
            }
            let entries = match std::fs::read_dir(&self.dir) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if is_sent_program(&entry.file_name().to_string_lossy()) {
                    is_gone(std::fs::remove_file(entry.path()))?;
                }
            }
            // What is left is not ours.
            let _ = std::fs::remove_dir(&self.dir);
            Ok::<_, std::io::Error>(())
        };
        match remove() {
            Ok(()) => AgentReply::Forgotten,
            Err(error) => failed(format!("cannot remove `{}`: {error}", self.dir.display())),
        }
    }
}

fn failed(message: String) -> AgentReply {
    AgentReply::Failed { kind: FailureKind::Failed, message }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_that_somebody_else_made_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let own = make_private_dir(&at("own")).unwrap();
        assert_eq!(std::fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(make_private_dir(&own).is_ok(), "the second time too");
        std::os::unix::fs::symlink(&own, at("link")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("open")).unwrap();
        std::fs::set_permissions(at("open"), PermissionsExt::from_mode(0o777)).unwrap();
        let mut wrong = vec!["link", "file", "open"];
        std::fs::create_dir(at("foreign")).unwrap();
        std::fs::set_permissions(at("foreign"), PermissionsExt::from_mode(0o755)).unwrap();
        if std::os::unix::fs::chown(at("foreign"), Some(65_534), None).is_ok() {
            wrong.push("foreign");
        }
        for name in wrong {
            let words = make_private_dir(&at(name)).unwrap_err().summary();
            assert!(words.contains("of this user alone"), "{name}: {words}");
        }
    }

    #[test]
    fn a_program_that_was_sent_is_known_by_its_name() {
        let digest = blake3::hash(b"x").to_hex().to_string();
        assert!(is_sent_program(&format!("zagent-{digest}")));
        for other in ["zagent", "zagent-doc", &*digest, &*format!("zagent-{digest}.bak"), "zagent-../../x"] {
            assert!(!is_sent_program(other), "{other}");
        }
    }
}
