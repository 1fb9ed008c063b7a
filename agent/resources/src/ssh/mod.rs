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
mod run_talk;
mod served_files;
pub mod session;

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
use self::run_talk::RunTalk;
use self::session::{Session, SessionError, SessionLimits, wait_for};

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
    /// Who may stop it.
    cancel: Mutex<Option<Arc<CancelToken>>>,
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
        let (state, cancel) = (Mutex::new(LinkState::Closed), Mutex::new(None));
        Self { host: host.clone(), node: node.clone(), settings, state, cancel }
    }

    /// From now on this token ends every wait.
    pub fn stop_with(&self, cancel: &Arc<CancelToken>) {
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(cancel));
    }

    fn cancel(&self) -> Option<Arc<CancelToken>> {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
            AgentReply::Forgotten => {}
            _ => return Err("it does not say that it is removed".into()),
        }
        if !self.host.sudo || self.host.sudo_user.is_none() {
            return Ok(());
        }
        // That user has no right to remove the program: it belongs to the one who logs in.
        let login = SshHost { sudo: false, sudo_user: None, ..self.host.clone() };
        Self::new(&login, &self.node, &self.settings).forget()
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
            let mut talk = RunTalk::new(package, files, self.settings.limits.max_output);
            loop {
                match session.reply(wait)? {
                    AgentReply::Started { tag } => on_event(LinkEvent::Started(tag)),
                    AgentReply::State { outcome } => on_event(LinkEvent::State(talk.bound_outcome(outcome)?)),
                    AgentReply::Ended { canceled } => return Ok(canceled),
                    AgentReply::Failed { kind, message } => return Err(LinkError::Answered(kind, message)),
                    AgentReply::Need { digests } => session.ask(&talk.needed_files(&digests)?, wait)?,
                    AgentReply::Read { env, path } => session.ask(&talk.read_file(&env, &path)?, wait)?,
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
        let cancel = self.cancel();
        self.with_session(|session| {
            let wait = wait_for(time, cancel.as_deref());
            session.ask(request, wait)?;
            match session.reply(wait)? {
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
            let cancel = self.cancel();
            if cancel.as_ref().is_some_and(|cancel| cancel.is_cancelled()) {
                return Err(LinkError::Broken("the run was stopped".into()));
            }
            *state = match Session::open(host, node, &settings.binaries, settings.limits, cancel.as_deref()) {
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
        // After a stop signal nothing is started.
        let (stopped, cancel) =
            (SshLink::new(host, &Machine::this_host(), &settings), Arc::new(CancelToken::new()));
        stopped.stop_with(&cancel);
        cancel.cancel();
        assert_eq!(stopped.connect().unwrap_err(), "the run was stopped");
        let link = SshLink::new(host, &Machine::this_host(), &settings);
        let first = link.connect().unwrap_err();
        assert!(first.contains("Connection refused"), "{first}");
        // Nothing is started for the second question: it would get another error where nothing may be started.
        assert_eq!(link.grains("a").unwrap_err(), first);
        let closed = SshLink::new(host, &Machine::this_host().without_programs("of a test"), &settings);
        assert!(closed.connect().unwrap_err().contains("of a test"));
    }
}
