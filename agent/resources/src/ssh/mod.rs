//! An ssh resource in, its agent out: one connection per command, made when it is first needed, and what can be asked over it.
//!
//! Everything goes over one channel of one connection, which ends with the command: nothing of ours keeps running here or there.
//!
//! Law: a resource that cannot be reached costs one attempt per command; a conversation that failed is not continued
//! (held by `a_host_that_does_not_answer_costs_one_attempt`).

pub mod binary;
mod bootstrap;
pub mod command;
pub mod package;
pub mod protocol;
mod served_files;
pub mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zagent_compiler::{CallError, FileTree, FunctionCall};
use zagent_config::resources::SshHost;
use zagent_config::{Map, Value};
use zagent_host::{CancelToken, Machine};

use self::binary::AgentBinaries;
use self::package::RunPackage;
use self::protocol::{AgentReply, AgentRequest, FailureKind};
use self::served_files::ServedFiles;
use self::session::{Session, SessionError, SessionLimits, wait_for};

/// How many files of the states one run may ask for beside those of its package.
const MAX_READS: usize = 10_000;
/// How much longer than the run itself its report may take.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// What all ssh resources of a node share.
#[derive(Debug)]
pub struct SshSettings {
    /// The programs that can be sent.
    pub binaries: AgentBinaries,
    /// Limits of a conversation.
    pub limits: SessionLimits,
    /// Whether templates may run commands of their own.
    pub commands_allowed: bool,
    /// How long a program of a function may take.
    pub program_timeout: Duration,
}

/// The way to one ssh resource.
#[derive(Debug)]
pub struct SshLink {
    host: SshHost,
    node: Machine,
    settings: Arc<SshSettings>,
    state: Mutex<LinkState>,
}

#[derive(Debug)]
enum LinkState {
    /// Nobody has asked yet.
    Closed,
    Open(Box<Session>),
    /// It failed, and why: it is not tried again.
    Broken(String),
}

/// Something that a run tells while it goes on.
#[derive(Debug)]
pub enum LinkEvent {
    /// A state has begun.
    Started(String),
    /// A state has ended; its outcome as the history stores it.
    State(serde_json::Value),
}

/// What a failed request leaves.
enum LinkError {
    /// The other side answered that it failed.
    Answered(FailureKind, String),
    /// The conversation is over.
    Broken(String),
}

impl From<SessionError> for LinkError {
    fn from(error: SessionError) -> Self {
        Self::Broken(error.0)
    }
}

impl LinkError {
    fn into_words(self) -> String {
        match self {
            Self::Answered(_, words) | Self::Broken(words) => words,
        }
    }
}

impl SshLink {
    /// A way that nobody has gone yet.
    #[must_use]
    pub fn new(host: &SshHost, node: &Machine, settings: &Arc<SshSettings>) -> Self {
        let settings = Arc::clone(settings);
        Self { host: host.clone(), node: node.clone(), settings, state: Mutex::new(LinkState::Closed) }
    }

    /// Where it leads to.
    #[must_use]
    pub const fn host(&self) -> &SshHost {
        &self.host
    }

    /// Connects, unless it is connected.
    ///
    /// # Errors
    /// Fails when the host cannot be reached, or the agent does not start there.
    pub fn connect(&self) -> Result<(), String> {
        self.with_session(|_| Ok(())).map_err(LinkError::into_words)
    }

    /// All grains of the host.
    ///
    /// # Errors
    /// Fails when it cannot be asked.
    pub fn grains(&self, id: &str) -> Result<Map, String> {
        let request = AgentRequest::Grains { id: id.to_owned() };
        match self.request(&request, self.call_time()).map_err(LinkError::into_words)? {
            AgentReply::Grains { grains: Value::Map(grains) } => Ok(Arc::unwrap_or_clone(grains)),
            _ => Err("its answer is no mapping of grains".into()),
        }
    }

    /// The names of all functions of the host.
    ///
    /// # Errors
    /// Fails when it cannot be asked.
    pub fn functions(&self) -> Result<Vec<String>, String> {
        match self.request(&AgentRequest::Functions, self.call_time()).map_err(LinkError::into_words)? {
            AgentReply::Functions { names } => Ok(names),
            _ => Err("its answer is no list of functions".into()),
        }
    }

    /// Calls an execution function there.
    ///
    /// # Errors
    /// Fails when the host cannot be asked, has no such function, or the function failed.
    pub fn call(&self, call: &FunctionCall, mutating: bool) -> Result<Value, CallError> {
        let request = AgentRequest::Call {
            function: call.function.clone(),
            args: call.args.clone(),
            kwargs: call.kwargs.clone().into(),
            mutating,
            commands: self.settings.commands_allowed,
            program_timeout: self.settings.program_timeout.as_secs(),
        };
        match self.request(&request, self.call_time()) {
            Ok(AgentReply::Value { value }) => Ok(value),
            Ok(_) => Err(CallError::Failed("its answer is no value".into())),
            Err(LinkError::Answered(FailureKind::Unknown, _)) => Err(CallError::Unknown),
            Err(LinkError::Answered(FailureKind::Forbidden, words)) => Err(CallError::Forbidden(words)),
            Err(error) => Err(CallError::Failed(error.into_words())),
        }
    }

    /// Removes everything that zagent keeps on the host.
    ///
    /// # Errors
    /// Fails when it cannot be reached or removed.
    pub fn forget(&self) -> Result<(), String> {
        match self.request(&AgentRequest::Forget, self.call_time()).map_err(LinkError::into_words)? {
            AgentReply::Forgotten => Ok(()),
            _ => Err("it does not say that it is removed".into()),
        }
    }

    /// Runs a package there; gives true when the run was stopped early.
    ///
    /// # Errors
    /// Fails when the host cannot be reached or says why there was no run.
    pub fn run(
        &self,
        package: &RunPackage,
        files: &dyn FileTree,
        (time, cancel): (Duration, &CancelToken),
        on_event: &mut dyn FnMut(LinkEvent),
    ) -> Result<bool, String> {
        let ran = self.with_session(|session| {
            let wait = wait_for(time.saturating_add(REPORT_TIME), Some(cancel));
            let package_text = BASE64_STANDARD.encode(package.to_bytes());
            session.ask(&AgentRequest::Run { package: package_text }, wait)?;
            let (mut read, mut reads, mut served) = (0, 0, None);
            loop {
                match session.reply(&mut read, wait)? {
                    AgentReply::Started { tag } => on_event(LinkEvent::Started(tag)),
                    AgentReply::State { outcome } => on_event(LinkEvent::State(outcome)),
                    AgentReply::Ended { canceled } => return Ok(canceled),
                    AgentReply::Failed { kind, message } => return Err(LinkError::Answered(kind, message)),
                    AgentReply::Need { digests } => {
                        session.ask(&needed_files(package, files, &digests)?, wait)?;
                    }
                    AgentReply::Read { env, path } => {
                        reads += 1;
                        if reads > MAX_READS {
                            return Err(LinkError::Broken(format!(
                                "it asks for more than {MAX_READS} files"
                            )));
                        }
                        let served = served.get_or_insert_with(|| ServedFiles::new(&package.files, files));
                        session.ask(&served.answer(&env, &path), wait)?;
                    }
                    _ => return Err(LinkError::Broken("its answer does not belong to a run".into())),
                }
            }
        });
        ran.map_err(LinkError::into_words)
    }

    fn call_time(&self) -> Duration {
        self.settings.limits.timeout.max(self.host.timeout)
    }

    /// Asks, and reads one answer.
    fn request(&self, request: &AgentRequest, time: Duration) -> Result<AgentReply, LinkError> {
        self.with_session(|session| {
            let wait = wait_for(time, None);
            session.ask(request, wait)?;
            match session.reply(&mut 0, wait)? {
                AgentReply::Failed { kind, message } => Err(LinkError::Answered(kind, message)),
                reply => Ok(reply),
            }
        })
    }

    fn with_session<R>(
        &self,
        act: impl FnOnce(&mut Session) -> Result<R, LinkError>,
    ) -> Result<R, LinkError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, LinkState::Closed) {
            let Self { host, node, settings, .. } = self;
            *state = match Session::open(host, node, &settings.binaries, settings.limits) {
                Ok(session) => LinkState::Open(Box::new(session)),
                Err(words) => LinkState::Broken(words),
            };
        }
        let session = match &mut *state {
            LinkState::Open(session) => session,
            LinkState::Broken(words) => return Err(LinkError::Broken(words.clone())),
            LinkState::Closed => return Err(LinkError::Broken("it is not connected".into())),
        };
        let result = act(session);
        if let Err(LinkError::Broken(words)) = &result {
            *state = LinkState::Broken(words.clone());
        }
        result
    }
}

/// The files of a package that the other side does not have. It cannot ask for others.
fn needed_files(
    package: &RunPackage,
    files: &dyn FileTree,
    digests: &[String],
) -> Result<AgentRequest, LinkError> {
    let known: BTreeMap<&str, (&str, &str)> =
        package.files.iter().map(|file| (&*file.digest, (&*file.env, &*file.path))).collect();
    let content = |digest: &String| {
        let foreign = || LinkError::Broken("it asks for a file that the plan does not name".into());
        let (env, path) = known.get(digest.as_str()).filter(|_| !digest.is_empty()).ok_or_else(foreign)?;
        let content = files.read(env, path).map_err(LinkError::Broken)?;
        let content =
            content.ok_or_else(|| LinkError::Broken(format!("`{path}` is gone from the states")))?;
        Ok(BASE64_STANDARD.encode(&content))
    };
    Ok(AgentRequest::Files { contents: digests.iter().map(content).collect::<Result<_, LinkError>>()? })
}

#[cfg(test)]
mod tests {
    use zagent_config::resources::{Declaration, ResourceConfig};

    use super::*;

    #[test]
    fn a_host_that_does_not_answer_costs_one_attempt() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            r#"{{"resources": {{"ssh": {{"hosts": {{"a": {{"host": "127.0.0.1", "port": {port}}}}}}}}}}}"#
        );
        let pillar = Value::from_json_str(&text).unwrap();
        let declared = Declaration::read(&pillar, "resources", &[]).unwrap();
        let ResourceConfig::Ssh(host) = &declared.resources[0].config else { panic!("{declared:?}") };
        let settings = Arc::new(SshSettings {
            binaries: AgentBinaries::new(None),
            limits: SessionLimits { timeout: Duration::from_secs(20), max_output: 1 << 20 },
            commands_allowed: true,
            program_timeout: Duration::from_secs(20),
        });
        let link = SshLink::new(host, &Machine::this_host(), &settings);
        let first = link.connect().unwrap_err();
        assert!(first.contains("Connection refused"), "{first}");
        // Nothing is started for the second question: it would get another error where nothing may be started.
        assert_eq!(link.grains("a").unwrap_err(), first);
        let closed = SshLink::new(host, &Machine::this_host().without_programs("of a test"), &settings);
        assert!(closed.connect().unwrap_err().contains("of a test"));
    }
}
